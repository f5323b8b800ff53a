"""The work on one scan of a study: its density, and its image brought to the study's reference.

Both are made only if their fingerprints show that they are missing or out of date; so a study that
was stopped, or whose table has grown, resumes where it left off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.files.fingerprints import FileHash, Hashes, contents, fingerprint_of
from ndflow.files.stream import sha256_of
from ndflow.image.preview import is_ours, preview_of, write_preview
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, method_of
from ndflow.methods.modes import Goal
from ndflow.methods.targets import target_rule
from ndflow.options import Options
from ndflow.study.checks import Compared
from ndflow.study.distances import ScanQuantiles, scan_quantiles
from ndflow.study.integrity import MAPPED
from ndflow.study.plan import ResultPaths
from ndflow.study.prepared_images import find_mask, keeps_mask, with_kept_mask
from ndflow.subject.channels import Subject, check_grids
from ndflow.subject.doubts import VoxelQuantiles, match_doubts
from ndflow.subject.fit import fit_scan
from ndflow.subject.map_voxels import mapped
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.subject.results import Files, deliver, hashes
from ndflow.subject.voxels import read_lesion, read_masked, selection
from ndflow.values import JSON

_SHOWN_ELSEWHERE = ("average", "balance", "mode", "effective_count")  # in the goal and in the model
_NO_RESULT = ("force", "max_bytes")  # settings that change no result


class ScanDone(NamedTuple):
    """What was done for a scan; the results are in its files.

    Attributes
    ----------
    kept : whether it had been done before.
    warnings : for the user.
    doubts : what to check by eye.
    content : the SHA-256 of the files of its image, where they were hashed.
    compared : what is compared with the other scans of the study.
    quantiles : of the scan and of its result, see `ndflow.study.distances`.
    """

    kept: bool
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    content: tuple[str, ...] = ()
    compared: Compared = Compared()
    quantiles: ScanQuantiles | None = None


def fit_job(
    scan: Subject,
    paths: ResultPaths,
    *,
    options: Options,
) -> ScanDone:
    """Estimate the density of a scan, unless that was done before.

    Parameters
    ----------
    scan, paths : the scan, and where its results go.
    options : what the user chose.
    """
    before = fitted_before(scan, paths, options=options)
    if before is not None:
        return before
    tissues = uses_tissue_maps(scan, options)
    chosen = model_settings(scan, options)
    apart = [] if scan.beside is None else check_grids(_pair(scan, scan.beside))
    masked = find_mask(scan, paths, options)
    made = fit_scan(masked, options=options, tissues=tissues)
    inputs = made.sha256 or {}
    fingerprint = fingerprint_of(inputs=inputs, settings=chosen)
    paths.model.parent.mkdir(parents=True, exist_ok=True)
    replace(made, settings=chosen, fingerprint=fingerprint).write(paths.model, force=True)
    return ScanDone(False, (*apart, *made.warnings), made.doubts, inputs["image"])


def _pair(scan: Subject, beside: str) -> Subject:
    return Subject({"first": beside, "other": scan.image})


def fitted_before(
    scan: Subject,
    paths: ResultPaths,
    *,
    options: Options,
) -> ScanDone | None:
    """Return what is known about a scan whose density is up to date; None if it is not."""
    if target_rule(options).needs_tissue_maps and not scan.tissues.complete:
        raise lacks_tissue_maps(scan)
    if not paths.model.exists() or (keeps_mask(scan) and not paths.mask.exists()):
        return None
    files = with_kept_mask(scan, paths).files(tissues=uses_tissue_maps(scan, options))
    now = contents(hashes(files))
    expected = fingerprint_of(inputs=now, settings=model_settings(scan, options))
    before = ScanModel.up_to_date(paths.model, expected)
    if before is None:
        return None
    return ScanDone(kept=True, doubts=before.doubts, content=now["image"])


def uses_tissue_maps(scan: Subject, options: Options) -> bool:
    """Tell whether the tissue probability maps of a scan are read."""
    return target_rule(options).uses_tissue_maps and scan.tissues.complete


def model_settings(
    scan: Subject,
    options: Options,
) -> dict[str, JSON]:
    """Return what was chosen that the density of a scan depends on."""
    return selection(scan) | options.of("fit") | method_of(options).measure_options(options)


def lacks_tissue_maps(scan: Subject) -> FileError:
    """Return the error of a scan without all of its tissue probability maps."""
    hint = (
        "give its tissue probability maps: columns csf, gm and wm of the table, or, in BIDS, "
        "*_label-CSF_probseg and so on beside its *_desc-brain_mask; or use --proportions adaptive"
    )
    return FileError(scan.path, f"not all of its tissues are known ({scan.origin})", hint)


def normalise_job(
    scan: Subject,
    paths: ResultPaths,
    goal: Goal,
    *,
    options: Options,
    settings: Mapping[str, JSON],
    doubts: tuple[Doubt, ...] = (),
) -> ScanDone:
    """Bring a scan to the goal of its study, unless that was done before.

    Parameters
    ----------
    scan, paths : the scan, and where its results go.
    goal : what it is brought to.
    options : how files are read and written.
    settings : everything that the user chose, for the record.
    doubts : that come from comparing it with other scans.
    """
    fitted = ScanModel.read(paths.model)
    before = normalised_before(scan, paths, goal, settings=settings, doubts=doubts, fitted=fitted)
    if before is not None:
        return before
    masked = with_kept_mask(scan, paths)
    model, files = fitted.model, masked.files(tissues=True)
    which = selection(scan)
    chosen = {name: part for name, part in settings.items() if name not in _NO_RESULT}
    volume, inside, warnings, inputs, _ = read_masked(
        scan.image, masked.mask, max_bytes=options.max_bytes
    )
    lesion = None
    if scan.lesion is not None:
        lesion = read_lesion(scan.lesion, volume, max_bytes=options.max_bytes)
    _refuse_replaced(scan, inputs | (lesion.files if lesion else {}), fitted)
    solution = goal.solve(model)
    for folder in {paths.image.parent, paths.sidecar.parent, paths.preview.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    outlined = None if lesion is None else lesion.inside
    write_preview(paths.preview, preview_of(volume, inside, solution.imap, outlined))
    result = deliver(
        scan,
        volume,
        mapped(volume, solution.imap, inside, options.outside, options.dtype),
        MapRecord(
            solution.imap,
            settings=which | chosen,
            inputs=inputs | _read_before(files, fitted),
            site=scan.site,
            mixture=model.mixture,
            mask=fitted.mask,
            match=solution.record(model.mixture),
            warnings=(*warnings, *solution.warnings(scan.path)),
            doubts=(
                *fitted.doubts,
                *doubts,
                *match_doubts(VoxelQuantiles.of_model(fitted), solution, goal),
            ),
            fingerprint=image_fingerprint(scan, contents(inputs), model, goal, settings, doubts),
        ),
        output=paths.image,
        sidecar=paths.sidecar,
        inputs=files,
        options=replace(options, force=True),  # whatever is there was made by an earlier run
    )
    apart = solution.divergence if goal.per_scan else None
    return ScanDone(
        False,
        result.warnings,
        result.doubts,
        compared=Compared(None if apart is None else apart.after, _voxels(fitted), scan.site),
        quantiles=scan_quantiles(fitted, solution.imap),
    )


def normalised_before(
    scan: Subject,
    paths: ResultPaths,
    goal: Goal,
    *,
    settings: Mapping[str, JSON],
    doubts: tuple[Doubt, ...] = (),
    fitted: ScanModel | None = None,
) -> ScanDone | None:
    """Return what is known about a scan whose result is up to date; None if it is not.

    Parameters
    ----------
    scan, paths, goal, settings, doubts : as for `normalise_job`.
    fitted : its density, if that was read already.
    """
    if not paths.sidecar.exists():
        return None
    fitted = fitted or ScanModel.read(paths.model)
    files = with_kept_mask(scan, paths).files(tissues=True)
    now = contents(hashes({what: files[what] for what in MAPPED if what in files}))
    expected = image_fingerprint(scan, now, fitted.model, goal, settings, doubts)
    before = MapRecord.up_to_date(paths.sidecar, expected)
    if before is None or before.map is None or before.outputs != _sha256_of(paths.image):
        return None
    if not is_ours(paths.preview):
        return None
    return ScanDone(
        kept=True,
        doubts=before.doubts,
        compared=Compared(before.left if goal.per_scan else None, _voxels(fitted), scan.site),
        quantiles=scan_quantiles(fitted, before.map),
    )


def _voxels(fitted: ScanModel) -> int | None:
    return None if fitted.voxels is None else fitted.voxels.fitted


def _refuse_replaced(scan: Subject, inputs: Hashes, fitted: ScanModel) -> None:
    """Refuse an image or a mask that is not what the density was estimated from."""
    known = fitted.sha256 or {}
    for what, hashed in contents(inputs).items():
        if known.get(what) != hashed:
            path = inputs[what][0].file
            cause = f"replaced after its density was estimated ({scan.origin})"
            raise FileError(path, cause, "run the same command again when it no longer changes")


def _read_before(files: Files, fitted: ScanModel) -> Hashes:
    """Return what only the density was estimated from: masks of lesions, tissue maps."""
    return {
        what: tuple(FileHash(*one) for one in zip(files[what], hashed, strict=True))
        for what, hashed in (fitted.sha256 or {}).items()
        if what not in MAPPED
    }


def image_fingerprint(
    scan: Subject,
    inputs: Mapping[str, Sequence[str]],
    model: DensityModel,
    goal: Goal,
    settings: Mapping[str, JSON],
    doubts: Sequence[Doubt] = (),
) -> str:
    """Return the fingerprint of everything that the image of a scan depends on.

    Parameters
    ----------
    scan, goal, settings, doubts : as for `normalise_job`.
    inputs : the hashes of its files, by what they are.
    model : its density.
    """
    left_out = (*_NO_RESULT, *_SHOWN_ELSEWHERE)
    return fingerprint_of(
        inputs=inputs,
        settings={name: part for name, part in settings.items() if name not in left_out},
        mask=selection(scan)["mask"],
        **model.to_dict(),
        goal=goal.to_dict(),
        site=scan.site,
        metadata=dict(scan.metadata),
        doubts=[doubt.to_dict() for doubt in doubts],
    )


def _sha256_of(image: Path) -> tuple[str, ...]:
    try:
        return (sha256_of(image),)
    except FileError:
        return ()
