"""The page of a finished study: OUT/report.html.

Numbers, densities and slices come from the models, sidecars and previews of all scans; images are
read for a few scans only, for the viewer, so the page is made quickly even for a large cohort.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, check_new, new_file, reading
from ndflow.files.model_files import kind_in
from ndflow.image.preview import Preview, read_preview
from ndflow.methods.base import DensityModel
from ndflow.options import Options
from ndflow.reporting.channels.joint_page import joint_page
from ndflow.reporting.content import Page, Volumes
from ndflow.reporting.density_section import headline, populations, site_entries
from ndflow.reporting.evaluation_section import evaluation_section
from ndflow.reporting.methods_text import cited, facts, methods_paragraph
from ndflow.reporting.montage import montage, shared_windows
from ndflow.reporting.page import niivue, render
from ndflow.reporting.preparation_section import (
    PreparedScan,
    preparation_section,
    prepared_scans,
)
from ndflow.reporting.prepared_page import prepared_page
from ndflow.reporting.scan_section import (
    Pictures,
    ScanSummary,
    columns_of,
    lesion_remarks,
    scan_entry,
    scan_summaries,
    volumes_of,
)
from ndflow.study.finished import FinishedStudy, unchanging
from ndflow.study.folder import EVALUATION, PROVENANCE, REPORT, refuse_foreign_page, signed
from ndflow.study.joint_plan import JointStudyRecord
from ndflow.study.page_fingerprint import page_fingerprint
from ndflow.study.prepare_records import PreparedRecord
from ndflow.study.references import read_reference, reference_name
from ndflow.study.tasks import Outcome, Progress, Silent, read_failures
from ndflow.subject.target import in_units, target_of
from ndflow.values import path_like, whole

SAMPLE, VIEWER = 20, 9  # how many scans a page shows with figures, and in its viewer

_THREADS = 4
# Folders that are no study of one channel, by the kind of their records.
_OTHERS = {PreparedRecord.kind: prepared_page, JointStudyRecord.kind: joint_page}


def check_report() -> None:
    """Refuse to begin without the packages that a page needs."""
    for package in ("jinja2", "matplotlib"):
        if find_spec(package) is None:
            raise InvalidValueError(
                f"a report needs {package}, which is not installed; "
                f"try pip install 'ndflow[report]'"
            )


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
    title : of the page; by default the name of the folder.
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
    path_like(out, "out")
    whole(sample, "sample", 0, 1 << 31)
    whole(viewer, "viewer", 0, 1 << 31)
    path = Path(out) / REPORT
    page_of = _OTHERS.get(kind_in(path.parent / PROVENANCE) or "")
    if page_of is None:
        with unchanging([out]) as (run,):
            _check_place(path, force)
            page = _page(run, title or run.name, sample, viewer, max_bytes, progress or Silent())
            fingerprint = page_fingerprint(path.parent)
    else:
        with reading([path.parent]):
            _check_place(path, force)
            page = page_of(
                path.parent,
                title=title,
                date=_date(path.parent / PROVENANCE),
                study=_identity(path.parent),
                sample=sample,
                begin=lambda count: _steps(progress or Silent(), count),
            )
            fingerprint = page_fingerprint(path.parent)
    bundle = niivue() if any(scan.volumes for scan in page.scans) else None
    content = signed(render(page, bundle=bundle, fingerprint=fingerprint))
    _check_place(path, force)  # again, because making a page takes a while
    with new_file(path, force=True) as file:
        file.write(content)
    return path


def _check_place(path: Path, force: bool) -> None:
    """Refuse to replace a file that is not ours, or that cannot be replaced."""
    refuse_foreign_page(path, force=force)
    check_new(path, force=True)


def _doubts(
    run: FinishedStudy, scan: ScanSummary, prepared: Mapping[str, PreparedScan]
) -> list[Doubt]:
    """Return what to check in a scan, each kind once, and its warnings.

    What its preparation found doubtful comes first, since it may be the cause of the rest.
    """
    name = scan.scan.name
    warnings = dict.fromkeys([*scan.model.warnings, *scan.record.warnings])
    before = prepared[name].doubts if name in prepared else ()
    kinds = {doubt.kind for doubt in before}
    return [
        *before,
        *(doubt for doubt in run.record.doubts.get(name, ()) if doubt.kind not in kinds),
        *(Doubt("warning", text, "see what it says") for text in warnings),
    ]


def _target(run: FinishedStudy) -> DensityModel:
    """Return the reference in the units of the result."""
    study = run.study
    path = str(study.folder / reference_name(None))
    model = DensityModel.of_reference(read_reference(path))
    return in_units(target_of(model, True, path, study.options), study.options)


def _in_turn(scans: Sequence[ScanSummary], flagged: Collection[str], count: int) -> list[str]:
    """Return the names of some scans: flagged ones first, then of each site in turn."""
    turns: Counter[str] = Counter()
    order = []
    for scan in scans:
        turns[scan.site] += scan.scan.name not in flagged
        order.append((scan.scan.name not in flagged, turns[scan.site], scan.site, scan.scan.name))
    return [name for *_, name in sorted(order, key=lambda one: one[:3])][:count]


def _in_viewer(scans: Sequence[ScanSummary], flagged: Collection[str], count: int) -> set[str]:
    """Return the names of scans for the viewer: half of the places are for flagged ones."""
    names = _in_turn(scans, flagged, len(scans))
    odd = [name for name in names if name in flagged]
    plain = [name for name in names if name not in flagged]
    half = (count + 1) // 2
    return set([*odd[:half], *plain, *odd[half:]][:count])


def _page(
    run: FinishedStudy,
    title: str,
    sample: int,
    viewer: int,
    max_bytes: int,
    progress: Progress,
) -> Page:
    seen = min(viewer, len(run.study.scans))
    step = _steps(progress, 2 * len(run.study.scans) + seen + 2)
    scans = []
    for scan in scan_summaries(run):
        scans.append(scan)
        step()
    prepared = {one.name: one for one in prepared_scans(scans)}
    steps = [one.record.steps for one in prepared.values()]
    doubts = {scan.scan.name: _doubts(run, scan, prepared) for scan in scans}
    scans.sort(key=lambda scan: not doubts[scan.scan.name])  # those to check come first
    flagged = {name for name, found in doubts.items() if found}
    target = _target(run)
    previews = _previews(scans)
    windows = shared_windows(scans, previews, target.mixture)
    volumes = _volumes(scans, _in_viewer(scans, flagged, seen), max_bytes, step)
    embedded = {*_in_turn(scans, flagged, sample), *volumes}
    failures = read_failures(run.study.folder)
    sites = sorted({scan.site for scan in scans})
    evaluation = evaluation_section(run.study.folder / EVALUATION, run.results)
    entries = []
    columns = columns_of(scans)
    for scan in scans:
        name = scan.scan.name
        own, problem = volumes.get(name, (None, ""))
        pictures = Pictures(previews.get(name), windows, name in embedded, own, problem)
        entries.append(scan_entry(scan, doubts[name], target, pictures, columns))
        step()
    densities = populations(scans, target, sites)
    step()
    of_sites = site_entries(scans, target, sites, run.record.balance) if len(sites) > 1 else []
    step()
    masks = {str(scan.record.setting("mask")) for scan in scans}
    return Page(
        title=title,
        date=_date(run.study.folder / PROVENANCE),
        headline=headline(scans, sites),
        montage=None if windows is None else montage(scans, previews, windows, flagged),
        failures=failures,
        populations=densities,
        sites=of_sites,
        columns=columns,
        scans=entries,
        windows=windows,
        verdicts=evaluation.verdicts,
        tables=evaluation.tables,
        pictures=evaluation.pictures,
        methods=methods_paragraph(
            run,
            sorted({scan.scan.site for scan in scans if scan.scan.site}),
            masks,
            steps,
        ),
        citation=cited(run.study, masks, steps),
        facts=facts(run, len(failures)),
        preparation=preparation_section(
            list(prepared.values()), run.study.folder, embedded=embedded
        ),
        study=_identity(run.study.folder),
        remarks=lesion_remarks(scans),
        doubts=run.record.of_study,
    )


def _steps(progress: Progress, total: int) -> Callable[[], None]:
    """Announce the steps of a page; return what is to be called after each."""
    progress.begin("page", total)
    return lambda: progress.step("page", Outcome("page", None, None))


def _identity(folder: Path) -> str:
    """Return what browsers keep ratings under: many folders are called ``out``."""
    place = Path(os.path.realpath(folder))
    return f"{place.name} {hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"


def _date(path: Path) -> str:
    """Return when a study was run, as people write dates."""
    day = datetime.fromtimestamp(path.stat().st_mtime)  # where the reader is
    return f"{day.day} {day:%B %Y}"


def _previews(scans: Sequence[ScanSummary]) -> dict[str, Preview]:
    """Return the previews of the scans that have one."""
    found = {}
    for scan in scans:
        with suppress(FileError):
            found[scan.scan.name] = read_preview(scan.paths.preview)
    return found


def _volumes(
    scans: Sequence[ScanSummary], names: Collection[str], max_bytes: int, step: Callable[[], None]
) -> dict[str, tuple[Volumes | None, str]]:
    """Return the volumes of some scans for the viewer, or why there are none."""
    chosen = [scan for scan in scans if scan.scan.name in names]
    found = {}
    # Threads, because decompression and arithmetic release the lock, and starting processes takes
    # longer than reading a few images.
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        for scan, volumes in zip(
            chosen, pool.map(lambda scan: volumes_of(scan, max_bytes), chosen), strict=True
        ):
            found[scan.scan.name] = volumes
            step()
    return found
