"""The page about all channels of a study, OUT/report.html, with links to the page of each."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ndflow._version import __version__
from ndflow.errors import InvalidValueError
from ndflow.files.atomic import new_file
from ndflow.study.checks import doubt_counts
from ndflow.study.folder import PROVENANCE, REPORT, UNSIGNED, refuse_foreign_page, signed
from ndflow.study.tasks import read_failures
from ndflow.subject.channels import listed
from ndflow.subject.records import StudyRecord
from ndflow.values import plural


class _Failed(NamedTuple):
    scan: str
    cause: str
    hint: str


class _Channel(NamedTuple):
    """What the page says about a channel."""

    name: str
    page: str | None  # its address
    done: int
    failures: Sequence[_Failed]
    preset: str
    doubts: Sequence[tuple[str, str]]  # what, and the scans


def write_channel_index(out: Path, channels: Sequence[str], *, force: bool = False) -> Path:
    """Write the page about all channels of a study.

    Parameters
    ----------
    out : the folder, in which each channel has a study of its own.
    channels : their names.
    force : whether to replace a page that was edited since ndflow wrote it.

    Returns
    -------
    Path
        The page, which replaces an earlier one of ndflow, but no file of anybody else.
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise InvalidValueError(
            "the report needs jinja2, which is not installed; try pip install 'ndflow[report]'"
        ) from None
    templates = files("ndflow.reporting").joinpath("templates")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    known = [_channel(out, name) for name in channels]
    text = environment.from_string(
        templates.joinpath("channels.html.jinja").read_text(encoding="utf-8")
    ).render(
        title=out.name,
        sentence=_sentence(known),
        channels=known,
        style=Markup(templates.joinpath("report.css").read_text(encoding="utf-8")),
        version=__version__,
        sha256=UNSIGNED,
    )
    path = out / REPORT
    refuse_foreign_page(path, force=force)
    with new_file(path, force=True) as file:
        file.write(signed(text))
    return path


def _channel(out: Path, name: str) -> _Channel:
    folder = out / name
    record = StudyRecord.read(folder / PROVENANCE)
    return _Channel(
        name,
        quote(f"{name}/{REPORT}") if (folder / REPORT).exists() else None,
        record.normalised or 0,
        [_Failed(*one) for one in read_failures(folder)],
        "none" if record.preset is None else record.preset.text,
        [(kind, ", ".join(scans)) for kind, scans, _ in doubt_counts(record.doubts)],
    )


def _sentence(channels: Sequence[_Channel]) -> str:
    done = listed([f"{plural(one.done, 'scan')} of {one.name}" for one in channels])
    failed = sum(len(one.failures) for one in channels)
    flagged = sum(bool(one.doubts) for one in channels)
    check = "Some should be checked." if flagged else "None needs to be checked."
    return f"{done} were normalised, and {failed or 'none'} failed. {check}"
