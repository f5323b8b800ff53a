"""The studies of a command, carried out: what was understood, the run, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import Any

from ndflow.cli.console import ProgressDisplay, Verbosity, command_line, print_error, print_result
from ndflow.cli.endings import PageOutcome, conclude, shown_path, sites_of, write_page
from ndflow.cli.options import RunOptions, StudyOptions
from ndflow.errors import FileError, InvalidValueError
from ndflow.files import model_files
from ndflow.files.outputs import make_folder
from ndflow.image.mask import AUTO, BRAIN, to_be_found
from ndflow.image.subject import ANY_CHANNEL, T1W, Subject
from ndflow.options import typed_options
from ndflow.study.image_folder import read_folder
from ndflow.study.plan import PROVENANCE, REPORT, Study, reference_name
from ndflow.study.prepare_step import PrepareStep, contrast_of
from ndflow.study.references import listing_doubts, references_of_sites
from ndflow.study.run import Asked, assemble, check_study, preparing_for, rehearse, run_study
from ndflow.study.table import MANY, Listing, read_table
from ndflow.study.visits import visits_said
from ndflow.study.weights import PEOPLE
from ndflow.subject.presets import Choices
from ndflow.subject.records import ReferenceModel, ReferenceModels, StudiesRecord
from ndflow.values import first_of, listed, plural

_COLUMN, _WIDTH = 14, 100


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


# ── carrying out ──────────────────────────────────────────────────────────────────────────────────


def asked_of(typed: StudyOptions, **more: Any) -> Asked:
    """Return what is asked of a study; `more` are parts of it that are not typed as options."""
    choices = Choices(typed.preset, typed_options(typed.choices))
    preparing, unmasked = preparing_for(
        typed.prepare, typed.mask, tissues=typed.raw.tissues, no_bias_field=typed.raw.no_bias_field
    )
    run = typed.run
    return Asked(choices, typed.reference, preparing, unmasked, run.jobs, run.scheduler, **more)


def assemble_each(listings: Mapping[str, Listing], out: Path, asked: Asked) -> dict[str, Study]:
    """Return the study of each channel, in a folder of its own; a single one is in `out` itself."""
    if len(listings) == 1:
        return {name: assemble(listing, out, asked) for name, listing in listings.items()}
    studies = {
        name: assemble(listing, out / name, asked, within=out) for name, listing in listings.items()
    }
    _check_shared(out, [*studies.values()])
    return studies


def carry_out(
    studies: Mapping[str, Study], listings: Mapping[str, Listing], run: RunOptions
) -> int:
    """Carry out the studies of a command, or its preparation, and return the exit code.

    Parameters
    ----------
    studies, listings : the study of each channel, and its scans as they were listed.
    run : how.
    """
    verbosity = run.verbosity
    codes: list[int] = []
    if len(studies) > 1 or run.dry_run:
        for study in studies.values():  # before any work on the first of them
            check_study(study)
    for name, study in studies.items():
        if codes:
            verbosity.note("")
        _print_understood(study, listings[name], verbosity)
        if run.dry_run:
            codes.append(_print_rehearsed(study, verbosity))
            continue
        make_folder(study.within)
        with ProgressDisplay(verbosity) as progress:
            summary = run_study(study, progress, command=command_line())
            page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
            if summary.done and not run.no_report and not study.partial:
                options = study.options
                page = write_page(study.folder, progress, options.max_bytes, force=options.force)
        codes.append(conclude(summary, study, verbosity, page))
    code = codes[0] if len({*codes}) == 1 else 1
    if len(studies) == 1 or run.dry_run or study.partial:
        return code
    return _write_shared(study.folder.parent, studies, run) or code


def _print_understood(study: Study, listing: Listing, verbosity: Verbosity) -> None:
    """Print what is known about the scans of a study."""
    verbosity.note(f"{listing.source}: {plural(len(study.scans), 'scan')}")
    for name, text in _overview(study, listing).items():
        margin = f"  {name:<{_COLUMN}}"
        for line in wrap(text, _WIDTH - len(margin), break_on_hyphens=False) or [""]:
            verbosity.note(margin + line)
            margin = " " * len(margin)
    for warning in (*listing.warnings, *listing_doubts(study)):
        verbosity.warn(str(warning))


def _print_rehearsed(study: Study, verbosity: Verbosity) -> int:
    """Print what would be done for each scan, and what would prevent it; return the exit code."""
    steps = rehearse(study)
    possible = [step for step in steps if step.error is None]
    actions = Counter(step.action for step in possible)
    width = max((len(step.scan.name) for step in possible), default=0)
    column = max(map(len, actions), default=0)
    for step in steps:
        if step.error is not None:
            print_error(str(step.error))
        else:
            print_result(f"{step.scan.name:<{width}}  {step.action:<{column}}  {step.why}")
    failing = len(steps) - len(possible)
    words = {f"{{}} to {action}": number for action, number in sorted(actions.items())}
    counts = _counted(words | {"{} that would fail": failing})
    verbosity.note(f"{plural(len(steps), 'scan')}: {counts}")
    return 0 if not failing else 1 if possible else 2


# ── what was understood ───────────────────────────────────────────────────────────────────────────

_NONE = "none"


def _overview(study: Study, listing: Listing) -> dict[str, str]:
    """Return what is known about the scans of a study or a preparation, in words."""
    raw = study if study.preparing is not None else study.raw
    scans, preparing = (study.scans, None) if raw is None else (raw.scans, raw.preparing)
    unused = listing.unused
    about = {"images": listing.images} if listing.images else {}
    named = study.site_counts or not listing.images
    about |= {
        "sites": sites_of(study.scans) + ("" if named else ": see --participants"),
        "brain masks": _masks(scans, BRAIN if preparing and preparing.mask == "brain" else None),
        "lesion masks": _of(sum(scan.lesion is not None for scan in scans), scans),
    }
    if raw is None or preparing is None:
        about["tissue maps"] = _tissue_maps(study)
    else:
        corrected = "left as they are" if preparing.no_bias_field else "to be corrected by N4"
        steps = [PrepareStep.of(raw).steps(scan) for scan in raw.scans]
        kinds = Counter(own["tissues"] for own in steps)
        words = {"{} given": kinds["given"], "{} to be found": kinds["found"]}
        about |= {"bias fields": corrected, "tissue maps": _counted(words)}
        if moved := sum("channels" in own for own in steps):
            about["channels"] = f"{_of(moved, scans)} to be registered with the T1w image"
        if preparing.resolution is not None:
            about["copies"] = f"in the space of the template, {preparing.resolution:g} mm"
    covariates = sorted({name for scan in scans for name in scan.covariates} - unused.keys())
    about["covariates"] = first_of(covariates, MANY) or _NONE
    if study.preparing is None:
        names = ", ".join(study.options.balance)
        weighted = f", weighted so that sites are alike in {names}" if names else ""
        if study.options.balance == PEOPLE:
            weighted = ", those of sites from people who were scanned at several"
        about["reference"] = study.given or f"made from these scans{weighted}"
        if study.mode.by_site and (beside := references_of_sites(study)):
            names = first_of([path.name for path in beside.values()])
            about["reference"] += f"; known sites: {names} beside it"
        if not study.only_fits:  # the group decides
            preset = study.preset.text if study.preset else None
            more = {"visits": visits_said(study, study.scans), "preset": preset}
            about |= {name: text for name, text in more.items() if text}
    if unused:
        about["not used"] = ", ".join(f"{name} ({why})" for name, why in unused.items())
    if listing.skipped:
        about["skipped"] = _counted({f"{{}} {why}": n for why, n in listing.skipped.items()})
    return about


def _masks(scans: Sequence[Subject], otherwise: str | None) -> str:
    masks = [scan.mask or otherwise for scan in scans]
    found, without = Counter(filter(to_be_found, masks)), masks.count(None)
    words = {
        "{} given": len(scans) - found.total() - without,
        "{} to be found by deepbet": found[BRAIN],
        "{} to be found automatically": found[AUTO],
        "{} without (all non-zero voxels are used)": without,
    }
    return "none (all non-zero voxels are used)" if without == len(scans) else _counted(words)


def _tissue_maps(study: Study) -> str:
    complete = sum(scan.tissues.complete for scan in study.scans)
    partly = sum(any(scan.tissues) for scan in study.scans) - complete
    text = _of(complete, study.scans)
    if partly:
        text += f"; {plural(partly, 'scan')} with one or two of csf, gm and wm only"
    if complete and not (study.target_rule.needs_tissue_model and len(study.channels) == 1):
        text += "; for the evaluation only (--proportions tissue uses them)"
    paths = [scan.path for scan in study.scans if len(scan.images) == 1 and scan.mask is not None]
    t1w = [path for path in paths if contrast_of(path, study.channel) == T1W]
    if not complete and len(t1w) == len(study.scans):
        text += "; --prepare finds them, in about 6 s per scan, and tissues then agree better"
    return text


def _counted(words: Mapping[str, int]) -> str:
    return ", ".join(text.format(number) for text, number in words.items() if number) or _NONE


def _of(number: int, scans: Sequence[Subject]) -> str:
    return f"{number} of {plural(len(scans), 'scan')}" if number else _NONE


# ── several channels, each by itself ──────────────────────────────────────────────────────────────
# OUT/T1w, OUT/FLAIR       the studies, so that any number of channels can be added later
# OUT/reference.json       the references of all channels; reference_<site>.json those of a site
# OUT/report.html          what came of all channels, with links to the report of each
# OUT/provenance.json      lists these


def _check_shared(out: Path, studies: Sequence[Study]) -> None:
    """Refuse, before any work, to replace a file that we did not write, or that is read."""
    record, elsewhere = out / PROVENANCE, "choose another folder for the results"
    if record.exists() and model_files.kind_in(record) != StudiesRecord.kind:
        cause = "holds a study, but each of several channels needs a folder of its own in it"
        raise FileError(out, cause, elsewhere)
    read = {Path(file).absolute() for one in studies for file in (one.table, one.given) if file}
    shared = [out / name for name in (REPORT, *_shared_names(studies))]
    for path in (path for path in shared if path in read):
        raise FileError(path, "lies where the study writes a file of that name", elsewhere)
    model_files.refuse_others(record, shared, force=studies[0].options.force)


def _shared_names(studies: Sequence[Study]) -> list[str]:
    sites = sorted({site for study in studies for site in study.site_counts})
    return [reference_name(site) for site in (None, *sites)]


def _write_shared(out: Path, studies: Mapping[str, Study], run: RunOptions) -> int:
    """Write the references of all channels to one file, and the report about all of them."""
    record = out / PROVENANCE
    done = tuple(n for n, one in studies.items() if (one.folder / PROVENANCE).exists())
    try:
        files = {}
        for name in _shared_names([*studies.values()]):
            paths = {channel: study.folder / name for channel, study in studies.items()}
            if all(path.exists() for path in paths.values()):
                known = {channel: ReferenceModel.read(path) for channel, path in paths.items()}
                files[out / name] = ReferenceModels(known).content()
        earlier = model_files.outputs_in(record)
        page = {path: sha256 for path, sha256 in earlier.items() if path.name == REPORT}
        kept = model_files.relative_outputs(record, page)

        def content(written: dict[str, str]) -> bytes:
            return StudiesRecord(done, kept | written).content()

        force = next(iter(studies.values())).options.force
        stale = earlier.keys() - page.keys()
        model_files.write_listed(record, files, content, earlier=stale, force=force)
        if (common := out / reference_name(None)) in files:
            run.verbosity.say(f"wrote {shown_path(common)}, the references of {listed([*studies])}")
        if done and not run.no_report and find_spec("jinja2") is not None:
            from ndflow.reporting.build import write_channel_index

            run.verbosity.say(f"wrote {shown_path(write_channel_index(out, done, force=force))}")
    except FileError as error:
        print_error(str(error))
        return 1
    return 0
