"""The work on one scan of a study: its density, and its image brought to the study's reference.

Both are made only if their fingerprints show that they are missing or out of date; so a study that
was stopped, or whose table has grown, resumes where it left off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.files.fingerprints import fingerprint_of
from ndflow.files.stream import sha256_of
from ndflow.image.scans import Scan
from ndflow.methods.base import method_of
from ndflow.methods.modes import Goal
from ndflow.methods.targets import target_rule
from ndflow.record import JSON
from ndflow.scan.fit import fit_scan
from ndflow.scan.map_voxels import mapped
from ndflow.scan.reading import read_masked, selection
from ndflow.scan.records import MapRecord, ScanModel
from ndflow.scan.results import contents, deliver, hashes
from ndflow.scan.settings import Fitting, Matching, Reading, Writing, flat
from ndflow.study.plan import ResultPaths

__all__ = ["ScanDone", "fit_job", "lacks_tissue_maps", "normalise_job"]

_SHOWN_ELSEWHERE = ("average", "mode", "effective_count")  # in the goal and in the model
_NO_RESULT = ("force", "max_bytes")  # settings that change no result


class ScanDone(NamedTuple):
    """What was done for a scan; the results are in its files.

    Attributes
    ----------
    kept : whether it had been done before.
    warnings : for the user.
    doubts : what to check by eye.
    """

    kept: bool
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def fit_job(
    scan: Scan, paths: ResultPaths, *, reading: Reading, fitting: Fitting, matching: Matching
) -> ScanDone:
    """Estimate the density of a scan, unless that was done before.

    Parameters
    ----------
    scan, paths : the scan, and where its results go.
    reading, fitting, matching : what the user chose.
    """
    rule = target_rule(matching)
    if rule.needs_tissue_maps and not scan.tissues.complete:
        raise lacks_tissue_maps(scan)
    tissues = rule.uses_tissue_maps and scan.tissues.complete
    chosen = selection(scan) | flat(fitting) | method_of(matching).measure_options(matching)
    fingerprint = fingerprint_of(
        inputs=contents(hashes(scan.files(tissues=tissues))), settings=chosen
    )
    if ScanModel.current_outputs(paths.model, fingerprint) is not None:
        return ScanDone(kept=True)
    made = fit_scan(scan, reading=reading, fitting=fitting, matching=matching, tissues=tissues)
    paths.model.parent.mkdir(parents=True, exist_ok=True)
    replace(made, settings=chosen, fingerprint=fingerprint).write(paths.model, force=True)
    return ScanDone(kept=False, warnings=made.warnings)


def lacks_tissue_maps(scan: Scan) -> FileError:
    """Return the error of a scan without all of its tissue probability maps."""
    hint = (
        "give its tissue probability maps: columns csf, gm and wm of the table, or, in BIDS, "
        "*_label-CSF_probseg and so on beside its *_desc-brain_mask; or use --target adaptive"
    )
    return FileError(scan.path, f"not all of its tissues are known ({scan.origin})", hint)


def normalise_job(
    scan: Scan,
    paths: ResultPaths,
    goal: Goal,
    *,
    reading: Reading,
    writing: Writing,
    settings: Mapping[str, JSON],
) -> ScanDone:
    """Bring a scan to the goal of its study, unless that was done before.

    Parameters
    ----------
    scan, paths : the scan, and where its results go.
    goal : what it is brought to.
    reading, writing : how files are read and written.
    settings : everything that the user chose, for the record.
    """
    model = ScanModel.read(paths.model).model
    files = scan.files()
    inputs = hashes(files)
    which = selection(scan)
    chosen = {name: part for name, part in settings.items() if name not in _NO_RESULT}
    fingerprint = fingerprint_of(
        inputs=contents(inputs),
        settings={name: chosen[name] for name in chosen if name not in _SHOWN_ELSEWHERE},
        mask=which["mask"],
        **model.to_dict(),
        goal=goal.to_dict(),
        site=scan.site,
        metadata=dict(scan.metadata),
    )
    before = MapRecord.current_outputs(paths.sidecar, fingerprint)
    if before is not None and before == _sha256_of(paths.image):
        return ScanDone(kept=True)
    volume, inside, warnings = read_masked(scan.image, scan.mask, max_bytes=reading.max_bytes)
    solution = goal.solve(model)
    for folder in {paths.image.parent, paths.sidecar.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    result = deliver(
        scan,
        volume,
        mapped(volume, solution.imap, inside, writing.outside, writing.dtype),
        MapRecord(
            solution.imap,
            settings=which | chosen,
            inputs=inputs,
            site=scan.site,
            mixture=model.mixture,
            match=solution.record(model.mixture),
            warnings=(*warnings, *solution.warnings(scan.path)),
            fingerprint=fingerprint,
        ),
        output=paths.image,
        sidecar=paths.sidecar,
        inputs=files,
        writing=replace(writing, force=True),  # whatever is there was made by an earlier run
    )
    return ScanDone(kept=False, warnings=result.warnings)


def _sha256_of(image: Path) -> tuple[str, ...]:
    try:
        return (sha256_of(image),)
    except FileError:
        return ()
