"""The code blocks of a Markdown page, and the comments that say how they are run.

Every page of the documentation is run by the tests, from top to bottom, in a folder of its own
(`docs.folders`). To add a page, write it, and say in a comment near its top which files its
commands expect::

    <!-- runs with: scans -->

Several folders are separated by commas; `empty` is one without files, and `reports` allows studies
to write their report, and evaluations their figures, which take seconds. A page without code needs
no comment. Pages that need torch also say

    <!-- needs torch -->

and are run by ``make test-torch`` instead of ``make test``.

What happens to a block depends on its language:

========= =========================================================================================
sh        Each line is a command; ``ndflow`` runs in this process, others in a shell. A block with
          shell syntax (variables, pipes, loops) is run by bash as a whole. Each must end with 0.
python    Run; names stay for the blocks below. With ``>>>``, a doctest: the output must be right.
json      Parsed; so are yaml and toml.
text      Not run: what a command prints, the content of a file, a tree of files.
========= =========================================================================================

Other languages need one of two comments, which stand on the line before a block of any language::

    <!-- file: study.tsv -->            written under this name, for the blocks below
    <!-- not run: installs a package -->    not run, for this reason
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("sh", "python")
PARSED = ("json", "yaml", "toml")
LANGUAGES = (*RUN, *PARSED, "text")

_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")
_COMMENT = re.compile(r"^ *<!-- *(.*?) *-->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block: its language, its text, the line that it begins at, and its comment, if any."""

    language: str
    text: str
    line: int
    comment: str = ""

    @property
    def file(self) -> str | None:
        """The name under which it is to be written, if it is."""
        return _after("file:", self.comment)

    @property
    def not_run(self) -> str | None:
        """Why it is not run, if it is not."""
        return _after("not run:", self.comment)


@dataclass(frozen=True)
class Page:
    """A page: where it is, and its blocks."""

    path: Path
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def blocks(self) -> list[Block]:
        return list(blocks_of(self.text))

    @property
    def folders(self) -> list[str] | None:
        """The folders that it is run with; None if it does not say."""
        found = [_after("runs with:", comment) for comment in _COMMENT.findall(self.text)]
        named = [name for name in found if name is not None]
        return [word.strip() for word in named[0].split(",")] if named else None

    @property
    def needs_torch(self) -> bool:
        return "needs torch" in _COMMENT.findall(self.text)

    @property
    def has_code(self) -> bool:
        """Whether anything in it is run, or written for what is run."""
        return any(
            block.file or (block.language in RUN and block.not_run is None) for block in self.blocks
        )


def pages() -> list[Page]:
    """Return all pages that people read: those of docs/, and CONTRIBUTING.md.

    The README is run by ``tests/test_readme.py``, which also checks what its commands have done.
    """
    found = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]
    return [Page(path, path.read_text(encoding="utf-8")) for path in found]


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the code blocks of a page, those inside of directives included."""
    return _blocks(text.splitlines(), 1)


def prose_of(text: str) -> str:
    """Return a page without its code blocks, line by line."""
    lines = text.splitlines()
    for block in blocks_of(text):
        end = block.line + len(block.text.splitlines())
        lines[block.line - 1 : end + 1] = [""] * (end - block.line + 2)
    return "\n".join(lines)


def _blocks(lines: list[str], first: int) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        opened = _FENCE.fullmatch(lines[number])
        if opened is None:
            number += 1
            continue
        indent, fence, language = opened[1], opened[2], opened[3].strip()
        inside = list(_until(fence, lines[number + 1 :]))
        body = [line.removeprefix(indent) for line in inside]
        if language.startswith("{"):  # a directive, which may contain blocks
            yield from _blocks(body, first + number + 1)
        else:
            comment = _COMMENT.fullmatch(lines[number - 1]) if number else None
            text = "".join(f"{line}\n" for line in body)
            yield Block(language, text, first + number, comment[1] if comment else "")
        number += len(inside) + 2


def _until(fence: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        bare = line.strip()
        if bare.startswith(fence) and set(bare) == {fence[0]}:
            return
        yield line


def _after(word: str, comment: str) -> str | None:
    return comment.removeprefix(word).strip() if comment.startswith(word) else None
