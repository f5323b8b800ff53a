"""``{ndflow-command} NAME``: a command of ndflow as its parser knows it, in the words of its help.

Without a name, all commands in one line each. ``{ndflow-settings}``: the settings of ``--set``.
"""

import re
from collections.abc import Iterator
from functools import cache

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ndflow.cli.app import COMMANDS, app
from ndflow.cli.options import explain_expert

_OPTION = re.compile(r"\* (`[^`]*`): (.*)")
_PAGE = re.compile(r"\bdocs/([\w/-]+\.md)\b")
_WORD = re.compile(r"(?<![`\w/-])(pip install '[^']*'|--set help|--?[a-z][a-z-]*)(?![`\w])")


class CommandDirective(SphinxDirective):
    """Show what a command does, how it is called, and its options."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of one command, or of the list of all."""
        name = self.arguments[0] if self.arguments else None
        text = markdown_of(name) if name else list_of_commands()
        up = "../" * self.env.docname.count("/")
        return self.parse_text_to_nodes(_PAGE.sub(rf"[\1](<{up}\1>)", text))


class SettingsDirective(SphinxDirective):
    """List the expert settings."""

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the list."""
        return self.parse_text_to_nodes(expert_settings())


def list_of_commands() -> str:
    """Return all commands with the first line of their help, as Markdown."""
    return "\n".join(
        f"- [`ndflow {name}`](#ndflow-{name}): {(app[name].help or '').splitlines()[0]}"
        for name in COMMANDS
    )


def markdown_of(name: str) -> str:
    """Return a command as Markdown: usage, help, and a list of definitions for each group."""
    _, _, body = _sections()[name].partition("```console\n")
    body = body.replace(f"ndflow {name} {name} ", f"ndflow {name} ", 1)
    return "\n".join(_lines(f"```text\n{body}"))


def expert_settings() -> str:
    """Return the settings of ``--set`` as a list of definitions in Markdown."""
    lines = (line.split(": ", 1) for line in explain_expert().splitlines())
    return "\n\n".join(f"`{name}`\n: {_signs(text)}" for name, text in lines)


@cache
def _sections() -> dict[str, str]:
    """Return what the parser says of each command."""
    text = app.generate_docs(output_format="markdown", recursive=True)
    _, *parts = re.split(r"^#+ ndflow (\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, with options as definitions: more of them fit on a page."""
    for line in text.splitlines():
        option = _OPTION.fullmatch(line)
        if option:
            yield from ("", option[1], f": {_signs(option[2])}")
        elif line.startswith("    "):
            yield f"  {_signs(line.strip())}"
        elif re.fullmatch(r"\*\*.*\*\*:", line):
            yield f"\n{line.removesuffix(':')}"
        else:
            yield line


def _signs(text: str) -> str:
    """Return a text with options in it as code, and without bold and italic brackets."""
    plain = re.sub(r"\*{1,2}(\[.*?\])\*{1,2}", r"\1", text)
    return _WORD.sub(r"`\1`", plain)


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    sphinx.add_directive("ndflow-command", CommandDirective)
    sphinx.add_directive("ndflow-settings", SettingsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
