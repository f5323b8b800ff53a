"""An examination as text, for people and their issues, and as JSON, for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from typing import Any, NamedTuple

from ndflow.diagnosis.examination import Examination, without_folders
from ndflow.diagnosis.installation import EXTRAS, Extra, Installation
from ndflow.diagnosis.machine import Machine
from ndflow.values import plural

__all__ = ["as_json", "as_text"]

_GOOD, _BAD, _ABSENT, _PLAIN = "green", "bold red", "yellow", ""
_TORCH = (
    "pip may choose its build for graphics cards, of several GB; for the one for the processor, "
    "first run the command that pytorch.org/get-started shows for CPU"
)


class _Row(NamedTuple):
    """A line of the text: what it is about, how it is, in a word, and more about it."""

    label: str
    text: str
    state: str = ""
    style: str = _PLAIN


def as_json(found: Examination) -> str:
    """Return an examination as JSON."""
    own = found.installation
    extras = {
        one.name: {
            "found": not one.missing,
            "missing": one.missing,
            "install": one.install,
            "packages": {package.name: package.version for package in one.packages},
        }
        for one in own.extras
    }
    content = {
        "ndflow": own.ndflow,
        "metadata": own.metadata,
        "python": own.python,
        "system": own.system,
        "packages": {one.name: one.version for one in own.packages},
        "extras": extras,
        "torch": own.torch,
        "machine": asdict(found.machine),
        "cluster": None if found.cluster is None else asdict(found.cluster),
        "self_test": {"passed": found.self_test.passed, **asdict(found.self_test)},
        "problems": found.problems,
    }
    return json.dumps(_published(content), indent=1, ensure_ascii=False) + "\n"


def _published(value: Any) -> Any:
    """Return a value without folders, before JSON escapes the backslashes of their names."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, dict):
        return {key: _published(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_published(one) for one in value]
    return value


def as_text(found: Examination) -> str:
    """Return an examination as text: four short tables, as wide as the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = Console(file=sys.stdout)  # knows its width, and whether it has colours
    lines = StringIO()
    console = Console(
        file=lines,
        width=terminal.width,
        force_terminal=terminal.is_terminal,
        no_color=terminal.no_color,
        highlight=False,
    )
    sections = {
        "Installation": _installation(found.installation),
        "Extras": _extras(found.installation),
        "Machine": _machine(found.machine, found),
        "Self-test": _self_test(found),
    }
    for title, rows in sections.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(min_width=11)
        for label, text, state, style in rows:
            told = without_folders(text)  # before long names are broken
            cell = Text.assemble((state, style), "  " if state and told else "", told)
            cell.overflow = "fold"  # a long word is broken, not cut
            table.add_row(f"  {label}", cell)
        if table.row_count:
            console.print(Text(title, "bold"))
            console.print(table)
            console.print()
    if not found.problems:
        console.print(Text(f"All is well (tested in {found.self_test.seconds:.1f} s).", _GOOD))
    kept = (line.rstrip() for line in lines.getvalue().splitlines())
    return "\n".join(kept) + "\n"


def _installation(own: Installation) -> Iterator[_Row]:
    yield _Row("ndflow", own.ndflow)
    if own.metadata == "":
        note = "run from its source, so what it needs is not known; for that, pip install it"
        yield _Row("", note, "not installed", _ABSENT)
    elif own.metadata is not None:
        note = f"as version {own.metadata}; what is below may be out of date: install it again"
        yield _Row("", note, "installed", _ABSENT)
    yield _Row("Python", own.python)
    yield _Row("system", own.system)
    if own.packages:
        named = ", ".join(f"{one.name} {one.version or 'missing'}" for one in own.packages)
        yield _Row("packages", named)
    if own.broken:
        yield _Row("", ", ".join(own.broken), "needed", _BAD)


def _extras(own: Installation) -> Iterator[_Row]:
    for extra in own.extras:
        if extra.missing:
            text = f"{', '.join(extra.missing)}, for {EXTRAS[extra.name]}:\n{extra.install}"
            yield _Row(extra.name, text, "missing", _ABSENT)
        else:
            yield _Row(extra.name, _versions(extra), "found", _GOOD)
    wanting = any(extra.missing and extra.needs_torch for extra in own.extras)
    if wanting and own.torch is None:
        yield _Row("torch", _TORCH)


def _versions(extra: Extra) -> str:
    return ", ".join(f"{one.name} {one.version}" for one in extra.packages)


def _machine(own: Machine, found: Examination) -> Iterator[_Row]:
    limited = f"; the machine has {own.cores_in_all}" if own.cores_in_all > own.cores else ""
    yield _Row("cores", f"{own.cores}{limited}")
    free = "" if own.memory_free is None else f", {_size(own.memory_free)} of it free"
    limit = "" if own.memory_limit is None else f"; {_size(own.memory_limit)} may be used here"
    yield _Row("memory", "not known" if own.memory is None else f"{_size(own.memory)}{free}{limit}")
    yield _temporary(own)
    yield _dask(found)


def _temporary(own: Machine) -> _Row:
    if own.temporary is None:
        return _Row("temporary", "for files; set TMPDIR", "no folder", _BAD)
    return _Row("temporary", f"{_size(own.temporary)} free for files")


def _dask(found: Examination) -> _Row:
    cluster = found.cluster
    if cluster is None:
        return _Row("Dask", "not asked; --scheduler ADDRESS asks a cluster")
    if cluster.problem:
        return _Row("Dask", cluster.problem, "failed", _BAD)
    text = f"{plural(cluster.workers, 'worker')} with {plural(cluster.cores, 'core')}"
    return _Row("Dask", text, "answers", _GOOD)


def _self_test(found: Examination) -> Iterator[_Row]:
    for check in found.self_test.checks:
        state, style = ("passed", _GOOD) if check.passed else ("failed", _BAD)
        yield _Row(check.name, check.found, state, style)


def _size(count: int) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
