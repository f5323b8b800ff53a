"""The code blocks of a Markdown page, and how they are run: from top to bottom, in one folder.

A page with code says near its top which files its commands expect (`docs.folders`)::

    <!-- runs with: scans, study -->

and, if it is to be run by ``make test-torch`` instead of ``make test-slow``, ``<!-- needs torch
-->``. Blocks of ``sh`` (commands of ndflow, run in this process, evaluations with few trees) and
``python`` are run, ``json`` and ``yaml`` parsed, ``text`` is left alone. A block below the comment
``<!-- not run: installs a package -->`` is not run, for this reason.
"""

import contextlib
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from commands import execute

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"(?:^<!-- (.*) -->\n)?^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_COMMENT = re.compile(r"^<!-- (.*) -->$", re.MULTILINE)


class Block(NamedTuple):
    """One block: its language, its text, the line that it begins at, and whether it is run."""

    language: str
    text: str
    line: int
    is_run: bool


@dataclass(frozen=True)
class Page:
    """A page: where it is, and its text."""

    path: Path
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def blocks(self) -> list[Block]:
        return [
            Block(
                found[2],
                found[3],
                self.text.count("\n", 0, found.start(2)) + 1,
                found[2] in ("sh", "python") and not (found[1] or "").startswith("not run: "),
            )
            for found in _BLOCK.finditer(self.text)
            if not found[2].startswith("{")  # a directive
        ]

    @property
    def prose(self) -> str:
        """The page without its code."""
        return re.sub(r"(`+)(?:(?!\1).)*\1", "code", _BLOCK.sub("", self.text))

    @property
    def folders(self) -> list[str]:
        found = [one for one in _COMMENT.findall(self.text) if one.startswith("runs with: ")]
        return [name for one in found for name in one.removeprefix("runs with: ").split(", ")]

    @property
    def needs_torch(self) -> bool:
        return "needs torch" in _COMMENT.findall(self.text)

    @property
    def has_code(self) -> bool:
        return any(block.is_run for block in self.blocks)


def pages() -> list[Page]:
    """Return all pages that people read."""
    found = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [Page(path, path.read_text(encoding="utf-8")) for path in found]


def run_page(page: Page, folder: Path) -> None:
    """Run all blocks of a page in a folder."""
    names: dict[str, Any] = {"__name__": page.path.stem}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MPLBACKEND", "agg")
        for block in page.blocks:
            try:
                _run(block, names)
            except Exception as error:
                error.add_note(f"{page.name}, line {block.line}:\n{block.text}")
                raise
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def _run(block: Block, names: dict[str, Any]) -> None:
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    elif block.is_run and block.language == "python":
        with captured():
            exec(compile(block.text, f"line {block.line}", "exec"), names)
    elif block.is_run:
        for line in block.text.splitlines():
            program, *words = shlex.split(line, comments=True)
            assert program == "ndflow"
            run_command(*(one for word in words for one in _matches(word)))


def run_command(*words: object) -> None:
    """Run ``ndflow``, which must succeed."""
    quick = ("--trees", "2", "--permutations", "0") if words[0] == "evaluate" else ()
    with captured() as said:
        code = execute(*words, *quick)
    assert code == 0, said.getvalue()


def _matches(word: str) -> list[str]:
    """Return the files that a pattern stands for; as in a shell, itself if there are none."""
    return (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Collect what is printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield said
