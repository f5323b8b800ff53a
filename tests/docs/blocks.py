"""The code blocks of a Markdown page, and how they are run: from top to bottom, in one folder.

A page with code says near its top which files its commands expect (`docs.folders`)::

    <!-- runs with: scans, study -->

and, if it is to be run by ``make test-torch`` instead of ``make test``, ``<!-- needs torch -->``.
Blocks of ``sh`` and ``python`` are run (``ndflow`` in this process, evaluations with few trees),
``json`` and ``yaml`` parsed, ``text`` is left alone. The line before a block may say

    <!-- file: study.tsv -->                written under this name, for the blocks below
    <!-- not run: installs a package -->    not run, for this reason
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import execute

ROOT = Path(__file__).parents[2]

_PARSERS = {"json": json.loads, "yaml": yaml.safe_load}
_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")
_COMMENT = re.compile(r"^ *<!-- *(.*?) *-->$", re.MULTILINE)
_SHELL = re.compile(r"[|&;<>$`(){}!]|^\s*(?:cd|export|\w+=)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block: its language, its text, the line that it begins at, and its comment, if any."""

    language: str
    text: str
    line: int
    comment: str = ""

    @property
    def file(self) -> str | None:
        return _after("file:", self.comment)

    @property
    def is_run(self) -> bool:
        return self.language in ("sh", "python") and not self.comment.startswith("not run: ")


@dataclass(frozen=True)
class Page:
    """A page: where it is, and its text."""

    path: Path
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def blocks(self) -> list[Block]:
        return list(blocks_of(self.text))

    @property
    def folders(self) -> list[str]:
        found = [_after("runs with:", comment) for comment in _COMMENT.findall(self.text)]
        return [word.strip() for one in found if one for word in one.split(",")]

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


# ── running ──────────────────────────────────────────────────────────────────────────────────────


def run_page(page: Page, folder: Path) -> None:
    """Run all blocks of a page in a folder."""
    names: dict[str, Any] = {"__name__": page.path.stem}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        patch.setenv("MPLBACKEND", "agg")
        for block in page.blocks:
            try:
                run_block(block, names)
            except Exception as error:
                said = "".join(traceback.format_exception(error)[-4:]).strip()
                where = f"{page.name}, line {block.line}"
                raise AssertionError(f"{where}: {said}\n\n{block.text}") from None
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def run_block(block: Block, names: dict[str, Any]) -> None:
    """Run, parse or write one block; `names` are those that Python blocks share."""
    if block.language in _PARSERS:
        _PARSERS[block.language](block.text)
    if block.file:
        Path(block.file).write_text(block.text, encoding="utf-8")
    elif block.is_run and block.language == "sh":
        _run_commands(block.text)
    elif block.is_run:
        with captured():
            exec(compile(block.text, f"line {block.line}", "exec"), names)


def _run_commands(text: str) -> None:
    for line in [text] if _SHELL.search(text) else text.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "ndflow":
            quick = ("--trees", "2", "--permutations", "0") if words[1] == "evaluate" else ()
            with captured() as said:
                code = execute(*(one for word in words[1:] for one in _matches(word)), *quick)
            assert code == 0, f"ndflow ended with {code}: {said.getvalue()}"
        elif words:
            shell = ["bash", "-euo", "pipefail", "-c", line]
            done = subprocess.run(shell, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr


def _matches(word: str) -> list[str]:
    """Return the files that a pattern stands for; as in a shell, itself if there are none."""
    return (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Collect what is printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield said
