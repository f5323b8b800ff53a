"""The studies of a command, carried out: what was understood, the run, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap

from ndflow.cli.console import print_error, print_line, print_result, print_warning
from ndflow.cli.endings import conclude, shown_path
from ndflow.cli.options import Verbosity
from ndflow.cli.report_page import PageOutcome, write_page
from ndflow.cli.run import ProgressDisplay, command_line, print_rehearsed
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.manifest import (
    list_outputs,
    not_ours,
    outputs_in,
    relative_outputs,
    write_pending,
)
from ndflow.files.model_files import kind_in
from ndflow.files.outputs import make_folder, refuse_given_twice
from ndflow.image.subject import ANY_CHANNEL, Subject
from ndflow.study.assemble import Asked, assemble
from ndflow.study.image_folder import read_folder
from ndflow.study.listing import Listing
from ndflow.study.overview import overview
from ndflow.study.plan import PROVENANCE, REPORT, Study, reference_name
from ndflow.study.run import check_study, rehearse, run_study
from ndflow.study.table import is_image, read_table
from ndflow.subject.records import ReferenceModel, ReferenceModels, StudiesRecord, StudyRecord
from ndflow.values import listed, plural

_COLUMN, _WIDTH = 14, 100
_ELSEWHERE = "choose another folder for the results"


@dataclass(frozen=True)
class Run:
    """How studies are carried out.

    Attributes
    ----------
    report, dry_run : whether to write reports, and to write nothing at all.
    verbosity : how much to print.
    """

    report: bool = True
    dry_run: bool = False
    verbosity: Verbosity = field(default_factory=Verbosity)


# ── listings ──────────────────────────────────────────────────────────────────────────────────────


def list_scans(
    source: str, out: Path, pattern: str | None = None, channels: Sequence[str] = ()
) -> Listing:
    """Return the scans of a table, or of a folder.

    Parameters
    ----------
    source : the table, or the folder.
    out : the folder for the results, where no scans are looked for.
    pattern : what images in a folder are called.
    channels : see `read_table`.
    """
    if Path(source).is_dir():
        if len(channels) > 1:
            raise InvalidValueError("several --channels are columns of a table; give a table")
        return read_folder(source, out, pattern, channels[0] if channels else ANY_CHANNEL)
    if pattern is not None:
        raise FileError(source, "not a folder, but --pattern is for folders", "leave it out")
    return read_table(source, channels)


def list_images(images: Sequence[str], channel: str) -> Listing:
    """Return scans that are named one by one."""
    for image in images:
        if not is_image(image):
            cause = "not the name of an image, but -o is for images"
            raise FileError(image, cause, "for a table, leave out -o: TABLE OUT")
    refuse_given_twice(images)
    scans = [
        Subject({channel: str(Path(image).absolute())}, origin=f"argument {number}")
        for number, image in enumerate(images, 1)
    ]
    source = images[0] if len(images) == 1 else f"{len(images)} images"
    return Listing(scans, source, Path.cwd())


# ── carrying out ──────────────────────────────────────────────────────────────────────────────────


def carry_out(listings: Mapping[str, Listing], out: Path, asked: Asked, run: Run) -> int:
    """Carry out the studies of a command, and return the exit code.

    Parameters
    ----------
    listings : the scans of each study, by channel; a single one goes to `out` itself.
    out : the folder for the results.
    asked : what is asked of each.
    run : how.
    """
    if len(listings) == 1:
        (listing,) = listings.values()
        return carry_out_study(assemble(listing, out, asked), listing, run)
    if (out / PROVENANCE).exists() and kind_in(out / PROVENANCE) != StudiesRecord.kind:
        cause = "holds a study, but each of several channels needs a folder of its own in it"
        raise FileError(out, cause, _ELSEWHERE)
    studies = {
        name: assemble(listing, out / name, asked, within=out) for name, listing in listings.items()
    }
    _check_shared(out, [*studies.values()])
    for study in studies.values():  # before any work on the first of them
        check_study(study)
    codes = []
    for place, (name, study) in enumerate(studies.items()):
        if place and not run.verbosity.quiet:
            print_line("")
        codes.append(carry_out_study(study, listings[name], run))
    code = codes[0] if len({*codes}) == 1 else 1
    if run.dry_run or asked.partial:
        return code
    return _write_shared(out, studies, run) or code


def carry_out_study(study: Study, listing: Listing, run: Run) -> int:
    """Carry out a study or a preparation, and return the exit code."""
    verbosity = run.verbosity
    if not verbosity.quiet:
        _print_understood(study, listing)
    if run.dry_run:
        check_study(study)
        return print_rehearsed(rehearse(study), verbosity)
    make_folder(study.within)
    with ProgressDisplay(verbosity) as progress:
        summary = run_study(study, progress, command=command_line())
        page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if summary.done and run.report and not study.partial:
            options = study.options
            page = write_page(study.folder, progress, options.max_bytes, force=options.force)
    return conclude(summary, study, verbosity, page)


def _print_understood(study: Study, listing: Listing) -> None:
    """Print what is known about the scans of a study."""
    print_line(f"{listing.source}: {plural(len(study.scans), 'scan')}")
    for name, text in overview(study, listing.unused, listing.skipped).items():
        margin = f"  {name:<{_COLUMN}}"
        for line in wrap(text, _WIDTH - len(margin), break_on_hyphens=False) or [""]:
            print_line(margin + line)
            margin = " " * len(margin)
    for warning in listing.warnings:
        print_warning(warning)


# ── several channels, each by itself ──────────────────────────────────────────────────────────────
# OUT/T1w, OUT/FLAIR       the studies, so that any number of channels can be added later
# OUT/reference.json       the references of all channels; reference_<site>.json those of a site
# OUT/report.html          what came of all channels, with links to the report of each
# OUT/provenance.json      lists these


def _check_shared(out: Path, studies: Sequence[Study]) -> None:
    """Refuse, before any work, to replace a file that we did not write, or that is read."""
    files = [out / name for name in (REPORT, *_shared_names(studies))]
    for path in files:
        if path.exists() and not_ours(out / PROVENANCE, [path]):
            cause = "exists, and was not written by ndflow"
            raise FileError(path, cause, f"move it, or {_ELSEWHERE}")
        given: list[AnyPath | None] = [s for one in studies for s in (one.table, one.given)]
        if any(source and Path(source).absolute() == path for source in given):
            cause = "lies where the study writes a file of that name"
            raise FileError(path, cause, f"move it, or {_ELSEWHERE}")


def _shared_names(studies: Sequence[Study]) -> list[str]:
    sites = sorted({site for study in studies for site in study.site_counts})
    return [reference_name(site) for site in (None, *sites)]


def _write_shared(out: Path, studies: Mapping[str, Study], run: Run) -> int:
    """Write the references of all channels to one file, and the report about all of them."""
    code, lines = 0, []
    try:
        references = {}
        for name in _shared_names([*studies.values()]):
            known = {
                channel: ReferenceModel.read(study.folder / name)
                for channel, study in studies.items()
                if (study.folder / name).exists()
            }
            if len(known) == len(studies):
                references[out / name] = ReferenceModels(tuple(known), known).content()
        done = tuple(
            n for n, s in studies.items() if kind_in(s.folder / PROVENANCE) == StudyRecord.kind
        )
        record = out / PROVENANCE
        with ExitStack() as pending:
            written = {p: write_pending(pending, p, part) for p, part in references.items()}
            earlier = outputs_in(record)
            page = {p: sha256 for p, sha256 in earlier.items() if p.name == REPORT}
            full = StudiesRecord(done, relative_outputs(record, page | written))
            list_outputs(pending, record, full.content(), earlier.keys() - page.keys())
        if out / reference_name(None) in references:
            path = shown_path(out / reference_name(None))
            lines.append(f"wrote {path}, the references of {listed([*studies])}")
        if run.report and done and find_spec("jinja2") is not None:
            from ndflow.reporting.build import write_channel_index

            lines.append(f"wrote {shown_path(write_channel_index(out, done))}")
    except FileError as error:
        print_error(str(error))
        code = 1
    for line in () if run.verbosity.quiet else lines:
        print_result(line)
    return code
