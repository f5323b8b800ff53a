"""Run the blocks of a page, as `docs.blocks` explains."""

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import execute
from docs.blocks import LANGUAGES, Block, Page

_SHELL = re.compile(r"[|&;<>$`(){}!]|^\s*(?:cd|export|\w+=)", re.MULTILINE)
_PARSERS = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}


class BlockFailedError(AssertionError):
    """A block that did not run; says where it is, and what happened."""


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
                where = f"{page.name}, line {block.line}"
                raise BlockFailedError(f"{where}: {_told(error)}\n\n{block.text}") from None
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def run_block(block: Block, names: dict[str, Any]) -> None:
    """Run, parse or write one block; `names` are those that Python blocks share."""
    if block.not_run is not None:
        return
    if block.language in _PARSERS:
        _PARSERS[block.language](block.text)
    if block.file:
        Path(block.file).parent.mkdir(parents=True, exist_ok=True)
        Path(block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "sh":
        _run_commands(block.text)
    elif block.language == "python":
        _run_python(block, names)
    elif block.language not in LANGUAGES:
        raise ValueError(
            f"a block of {block.language or 'no language'}: write one of {', '.join(LANGUAGES)} "
            "after the fence, or before it <!-- file: NAME --> or <!-- not run: reason -->"
        )


def _run_commands(text: str) -> None:
    if _SHELL.search(text):
        _in_the_shell(text)
        return
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "ndflow":
            _ndflow([match for word in words[1:] for match in _matches(word)])
        elif words:
            _in_the_shell(line)


def _ndflow(words: list[str]) -> None:
    with captured() as said:
        code = execute(*words)
    if code:
        raise RuntimeError(f"ndflow ended with {code}: {said.getvalue()}")


def _in_the_shell(text: str) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"the shell ended with {done.returncode}: {done.stdout}")


def _matches(word: str) -> list[str]:
    """Return the files that a pattern stands for; as in a shell, itself if there are none."""
    pattern = any(sign in word for sign in "*?[")
    return (sorted(map(str, Path().glob(word))) if pattern else []) or [word]


def _run_python(block: Block, names: dict[str, Any]) -> None:
    if block.text.lstrip().startswith(">>>"):
        _doctest(block, names)
        return
    with captured():
        exec(compile(block.text, f"line {block.line}", "exec"), names)


def _doctest(block: Block, names: dict[str, Any]) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    example = doctest.DocTestParser().get_doctest(block.text, {}, "block", None, block.line)
    example.globs = names  # not a copy: names stay for the blocks below
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False, optionflags=flags).run(
        example, out=said.append, clear_globs=False
    )
    if result.failed:
        raise ValueError("".join(said))


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Collect what is printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield said


def _told(error: Exception) -> str:
    return "".join(traceback.format_exception(error)[-4:]).strip()
