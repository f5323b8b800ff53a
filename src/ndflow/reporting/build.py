"""The page of a finished study, a joint study or a preparation: OUT/report.html.

Numbers, densities and slices come from the models, sidecars and previews of all scans; images are
read for a few scans only, for the viewer, so the page is made quickly even for a large cohort.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ndflow._version import installing, not_installed
from ndflow.errors import FileError, InvalidValueError
from ndflow.figures.style import colours
from ndflow.files.atomic import AnyPath, check_new, reading
from ndflow.files.model_files import kind_in, refuse_others, write_listed
from ndflow.files.tables import MISSING, read_delimited
from ndflow.methods.base import DensityModel
from ndflow.options import Options
from ndflow.reporting import channel_section, preparation_section, scan_section
from ndflow.reporting.content import Headline, Page, ScanEntry, SiteEntry
from ndflow.reporting.density_section import headline, populations, tissues_known, visits
from ndflow.reporting.evaluation_section import evaluation_section
from ndflow.reporting.methods_text import cited, facts, methods_paragraph, study_facts
from ndflow.reporting.montage import masks_of_sites, montage, shared_windows, thumbnail
from ndflow.reporting.page import niivue, render
from ndflow.reporting.preparation_section import PreparedImage, preparation_of
from ndflow.study import finished
from ndflow.study.bids_names import dataset_name
from ndflow.study.checks import NO_SITE, doubt_counts
from ndflow.study.finished import FinishedStudy
from ndflow.study.manifest import read_record
from ndflow.study.plan import EVALUATION, PROVENANCE, REPORT, reference_name
from ndflow.study.prepare_step import MEASURES
from ndflow.study.references import read_reference
from ndflow.study.tasks import Outcome, Progress, Silent, read_failures
from ndflow.subject.records import StudiesRecord, StudyRecord
from ndflow.subject.target import in_units, target_of
from ndflow.values import Doubt, listed, plural, whole

SAMPLE, VIEWER = 20, 9  # how many scans a page shows with figures, and in its viewer

_THREADS = 4


def check_report() -> None:
    """Refuse to begin without the packages that a page needs."""
    if missing := not_installed("jinja2", "matplotlib"):
        raise InvalidValueError(f"a report needs {missing[0]}; try {installing('report')}")


def report(
    out: AnyPath,
    *,
    title: str | None = None,
    sample: int = SAMPLE,
    viewer: int = VIEWER,
    max_bytes: int = Options.max_bytes,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the page of a finished study, ``OUT/report.html``, as ``ndflow report`` does.

    Parameters
    ----------
    out : the folder of the study, or of a preparation.
    title : of the page; by default the name of the dataset, or else that of the folder.
    sample : how many scans have their slices in the page itself, flagged ones first; those of the
        others lie beside it, in ``OUT/figures``.
    viewer : how many scans can be seen in three planes in the viewer.
    max_bytes : refuse files with more bytes than this when decompressed.
    force : whether to replace a report that was edited since ndflow wrote it.
    progress : follows how far the page has come.

    Returns
    -------
    Path
        The page, which replaces an earlier one of ndflow, but no file of anybody else.

    Raises
    ------
    FileError
        Where the folder holds no finished study, or a report that ndflow did not write, or that
        was edited since.
    InvalidValueError
        Where a package is missing that the page needs.

    Examples
    --------
    >>> import ndflow
    >>> ndflow.report("out")  # doctest: +SKIP
    """
    check_report()
    whole(sample, "sample", 0, 1 << 31)
    whole(viewer, "viewer", 0, 1 << 31)
    folder, follow = Path(out), progress or Silent()
    path = folder / REPORT
    with reading([folder] if (folder / PROVENANCE).exists() else []):
        prepared = read_record(folder).is_preparation
        check_page(path, force=force)
        if prepared:
            page = _prepared_page(folder, sample, follow)
        else:
            with finished.unchanging([out]) as (run,):
                several = len(run.record.channels) > 1
                page = (
                    _channels_page(run, sample, follow)
                    if several
                    else _study_page(run, sample, viewer, max_bytes, follow)
                )
        fingerprint = finished.page_fingerprint(folder)
        return _write(path, replace(page, title=title or page.title), fingerprint, force)


def write_channel_index(out: Path, channels: Sequence[str], *, force: bool) -> Path:
    """Write the report about all channels of a study, with links to that of each.

    Parameters
    ----------
    out : the folder of the studies.
    channels : whose studies are in folders of these names.
    force : whether to replace a report that was edited since ndflow wrote it.
    """
    links, failures, done = [], [], []
    for name in channels:
        record = StudyRecord.read(out / name / PROVENANCE)
        failed = read_failures(out / name)
        doubts = doubt_counts(record.doubts)
        check = "; ".join(f"{one.kind} ({', '.join(one.scans)})" for one in doubts)
        preset = "no preset" if record.preset is None else f"preset {record.preset.text}"
        address = quote(f"{name}/{REPORT}") if (out / name / REPORT).exists() else ""
        links.append((name, address, f"{preset}; to check: {check or 'none'}"))
        failures += [(f"{name}: {scan}", cause, hint) for scan, cause, hint in failed]
        done.append(f"{plural(record.done.get('normalise', 0), 'scan')} of {name}")
    sentence = f"{listed(done)} were normalised, and {len(failures) or 'none'} failed."
    page = Page(out.name, "", Headline(sentence), links=links, failures=failures)
    return _write(out / REPORT, page, "", force)


def _write(path: Path, page: Page, fingerprint: str, force: bool) -> Path:
    bundle = niivue() if any(scan.volumes for scan in page.scans) else None
    content = render(page, bundle=bundle, fingerprint=fingerprint).encode("utf-8", "replace")
    place = path.with_name(PROVENANCE)
    kind = StudiesRecord if kind_in(place) == StudiesRecord.kind else StudyRecord
    record = kind.read(place)

    def listing(written: dict[str, str]) -> bytes:
        return replace(record, outputs=record.outputs | written).content()

    write_listed(place, {path: content}, listing, force=force)
    return path


def check_page(path: Path, *, force: bool = False) -> None:
    """Refuse to replace a report that ndflow did not write; `force` allows an edited one."""
    refuse_others(path.with_name(PROVENANCE), [path], force=force)
    check_new(path, force=True)


def _doubts(
    run: FinishedStudy, scan: scan_section.ScanSummary, prepared: Mapping[str, PreparedImage]
) -> list[Doubt]:
    """Return what to check in a scan, each kind once, and its warnings.

    What its preparation found doubtful comes first, since it may be the cause of the rest.
    """
    name = scan.scan.name
    before = prepared[name].record.doubts if name in prepared else ()
    kinds = {doubt.kind for doubt in before}
    return [
        *before,
        *(doubt for doubt in run.record.doubts.get(name, ()) if doubt.kind not in kinds),
        *scan_section.noted([*scan.model.warnings, *scan.record.warnings]),
    ]


def _target(run: FinishedStudy) -> DensityModel:
    """Return the reference in the units of the result."""
    study = run.study
    path = str(study.folder / reference_name(None))
    model = DensityModel.of_reference(read_reference(path, study.channels)[0])
    return in_units(target_of(model, True, path, study.options), study.options)


def _in_turn(scans: Sequence[scan_section.ScanSummary], flagged: Collection[str]) -> list[str]:
    """Return the names of scans: flagged ones first, then of each site in turn."""
    turns: Counter[str] = Counter()
    order = []
    for scan in scans:
        turns[scan.site] += scan.scan.name not in flagged
        order.append((scan.scan.name not in flagged, turns[scan.site], scan.site, scan.scan.name))
    return [name for *_, name in sorted(order, key=lambda one: one[:3])]


def _study_page(
    run: FinishedStudy, sample: int, viewer: int, max_bytes: int, progress: Progress
) -> Page:
    folder = run.study.folder
    step = _steps(progress, 2 * len(run.study.scans))
    scans = []
    for one in run.study.scans:
        paths = run.study.paths(one)
        scans.append(scan_section.ScanSummary(one, paths, *finished.read_results(paths)[:2]))
        step()
    prepared = _prepared(scans)
    records = [one.record for one in prepared.values()]
    doubts = {scan.scan.name: _doubts(run, scan, prepared) for scan in scans}
    scans.sort(key=lambda scan: not doubts[scan.scan.name])  # those to check come first
    flagged = {name for name, found in doubts.items() if found}
    target = _target(run)
    found = {scan.scan.name: scan_section.preview_of(scan.paths.preview) for scan in scans}
    previews = {name: preview for name, preview in found.items() if preview is not None}
    windows = shared_windows(scans) if previews else None
    order = _in_turn(scans, flagged)
    viewed = [scan for scan in scans if scan.scan.name in order[:viewer]]
    # Threads, because decompression and arithmetic release the lock, and starting processes takes
    # longer than reading a few images.
    with ThreadPoolExecutor(_THREADS) as pool:
        read = pool.map(partial(scan_section.volumes_of, max_bytes=max_bytes), viewed)
        volumes = dict(zip([scan.scan.name for scan in viewed], read, strict=True))
    embedded = {*order[:sample], *volumes}
    sites = sorted({scan.site for scan in scans})
    columns = scan_section.columns_of(scans)
    entries = []
    for scan in scans:
        name = scan.scan.name
        entry = scan_section.scan_entry(scan, doubts[name], target, columns)
        own, problem = volumes.get(name, (None, ""))
        if problem:
            text = f"It cannot be shown in the viewer: {problem}"
            doubt = Doubt("not shown", text, "check that its files are where they were")
            entry = replace(entry, flags=[*entry.flags, doubt])
        entry = replace(entry, volumes=own)
        inside = name in embedded
        if name in previews and windows is not None:
            slices = scan_section.slices_of(scan.paths.preview, previews[name], embedded=inside)
            small = thumbnail(previews[name], windows.after)
            entry = replace(entry, slices=slices, thumbnail=small)
        if name in prepared:
            picture = preparation_section.picture(prepared[name], folder, embedded=inside)
            entry = replace(entry, prepared=picture)
        entries.append(entry)
        step()
    masks = {str(scan.record.setting("mask")) for scan in scans}
    steps = [record.steps for record in records]
    return _page(
        folder,
        headline(scans, sites, run.record.agreement),
        entries,
        montage=None if windows is None else montage(scans, previews, windows, flagged),
        populations=populations(scans, target, sites),
        tissues=tissues_known(scans, run.record.trust),
        visits=visits(run.study, scans),
        columns=columns,
        windows=windows,
        methods=methods_paragraph(run, masks, steps),
        citation=cited(run.study, masks, steps),
        facts=study_facts(run, len(read_failures(folder))),
        preparation=preparation_section.section(records),
        doubts=run.record.of_study,
        masks=masks_of_sites(scans, run.record.of_study, max_bytes),
        title=dataset_name(scan.scan.path for scan in scans),
        **evaluation_section(folder / EVALUATION, run.results),
    )


def _channels_page(run: FinishedStudy, sample: int, progress: Progress) -> Page:
    """Return the page of a study whose channels were normalised together."""
    folder, record, names = run.study.folder, run.record, run.record.channels
    pairs = [(scan, channel) for scan in run.study.scans for channel in names]
    step = _steps(progress, len(pairs))
    images = []
    for scan, channel in pairs:
        images.append(channel_section.read_channel(run.study, scan, channel))
        step()
    images.sort(key=lambda one: not one.flags)  # those to check come first
    entries = [channel_section.entry(one, embedded=i < sample) for i, one in enumerate(images)]
    done = len(run.study.scans)
    return _page(
        folder,
        f"{listed(names)} of {_were(done, 'subject')} normalised together",
        entries,
        populations=channel_section.densities(images, _target(run).mixture, names),
        densities="Joint densities",
        wide_densities=True,
        columns=channel_section.COLUMNS,
        methods=channel_section.METHODS,
        facts=facts(
            record,
            Channels=", ".join(names),
            Subjects=f"{done} normalised, {len(read_failures(folder))} failed",
            Reference=record.reference or "made from these subjects",
        ),
        **_evaluations(run),
    )


def _evaluations(run: FinishedStudy) -> dict[str, Any]:
    """Return what the evaluation of each channel says, one after the other."""
    parts: dict[str, list[Any]] = {}
    for name in run.record.channels:
        study = replace(run.study, scans=[scan.alone(name) for scan in run.study.scans])
        place = run.study.folder / EVALUATION
        found = evaluation_section(place, finished.results_fingerprint(study), name)
        for what, own in found.items():
            parts.setdefault(what, []).extend(own)
    return dict(parts)


def _prepared_page(folder: Path, sample: int, progress: Progress) -> Page:
    record = read_record(folder)
    finished.refuse_changed_table(folder, MEASURES)
    columns, rows = read_delimited(folder / MEASURES)
    step = _steps(progress, len(rows))
    scans = []
    for _, cells in rows:
        row = dict(zip(columns, cells, strict=True))
        prepared = preparation_of(folder / row["image"])
        if prepared is None:
            cause = "the sidecar of a prepared image is missing or damaged"
            raise FileError(folder / row["image"], cause, "prepare the scans again")
        site = NO_SITE if row["site"].lower() in MISSING else row["site"]
        scans.append((row["name"], site, prepared))
        step()
    scans.sort(key=lambda scan: not scan[2].record.doubts)  # those to check come first
    entries = [
        ScanEntry(
            name,
            site,
            preparation_section.cells(prepared.record),
            prepared.record.doubts,
            notes=prepared.record.warnings,
            prepared=preparation_section.picture(prepared, folder, embedded=place < sample),
        )
        for place, (name, site, prepared) in enumerate(scans)
    ]
    failed = len(read_failures(folder))
    return _page(
        folder,
        f"{_were(len(scans), 'scan')} prepared",
        entries,
        columns=preparation_section.COLUMNS,
        facts=facts(record, Scans=f"{len(scans)} prepared, {failed} failed"),
        preparation=preparation_section.section([one.record for *_, one in scans]),
        done="prepared",
    )


def _page(folder: Path, said: Headline | str, scans: Sequence[ScanEntry], **parts: Any) -> Page:
    """Return the page of a folder: what all have, and the parts that are given.

    Parameters
    ----------
    folder : of the study.
    said : what was achieved; or what was done, to which how many failed or are to check is added.
    scans : those to check first.
    parts : see `Page`.
    """
    failures = read_failures(folder)
    if isinstance(said, str):
        flagged = sum(bool(scan.flags) for scan in scans)
        check = f"{flagged or 'none'} of {plural(len(scans), 'image')} should be checked"
        said = Headline(f"{said}, {len(failures) or 'none'} failed, and {check}.")
    counts = Counter(scan.site for scan in scans)
    sites = [SiteEntry(name, counts[name], colour) for name, colour in colours(counts).items()]
    place = Path(os.path.realpath(folder))
    day = datetime.fromtimestamp((folder / PROVENANCE).stat().st_mtime)  # where the reader is
    common: dict[str, Any] = {
        "failures": failures,
        "sites": sites if len(sites) > 1 else [],
        # What browsers keep ratings under: many folders are called ``out``.
        "study": f"{place.name} {hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}",
    }
    title = parts.pop("title", None) or place.name
    return Page(title, f"{day.day} {day:%B %Y}", said, scans=scans, **(common | parts))


def _were(count: int, noun: str) -> str:
    return f"{plural(count, noun)} {'was' if count == 1 else 'were'}"


def _prepared(scans: Sequence[scan_section.ScanSummary]) -> dict[str, PreparedImage]:
    """Return how scans were prepared, by the names of those that ndflow has prepared."""
    found = {}
    for scan in scans:
        inputs = (scan.record.inputs or {}).get("image", ())
        prepared = preparation_of(scan.scan.path, inputs[0].sha256 if inputs else None)
        if prepared is not None:
            found[scan.scan.name] = prepared
    return found


def _steps(progress: Progress, total: int) -> Callable[[], None]:
    """Announce the steps of a page; return what is to be called after each."""
    progress.begin("report", total)
    return lambda: progress.step("report", Outcome("report", None, None))
