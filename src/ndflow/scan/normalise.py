"""One scan, brought to a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndflow.density import Fit
from ndflow.files.atomic import AnyPath
from ndflow.image.read import Source
from ndflow.methods.model import Portrait
from ndflow.methods.solve import Solution, solve
from ndflow.scan.map_voxels import mapped
from ndflow.scan.reading import (
    Scan,
    doubts,
    fit_scan,
    input_files,
    landmarks_of,
    read_scan,
    selection,
)
from ndflow.scan.results import Result, all_files, check_result, deliver, hashes
from ndflow.scan.target import AnyTarget, Target, in_units, read_target, refuse_coarse
from ndflow.scan.tissue_maps import TissueMaps, check_maps, tissues_of
from ndflow.settings import Fitting, Matching, Reading, Writing, flat, settings_from

__all__ = ["normalise", "normalise_scan", "normalize"]


def normalise(
    image: Source,
    to: AnyTarget,
    *,
    mask: Source | None = None,
    to_mask: Source | None = None,
    exclude: Source | None = None,
    csf: Source | None = None,
    gm: Source | None = None,
    wm: Source | None = None,
    output: AnyPath | None = None,
    **settings: Any,
) -> Result:
    """Bring an image to a target, as ``ndflow normalise`` does.

    Parameters
    ----------
    image : a path, a nibabel image, or an array.
    to : the target: a reference or a mixture, or the path of one; or an image, like `image`.
    mask, to_mask : of the image and of the target, like `image`; or ``"auto"``. Default: all
        voxels but 0.
    exclude : voxels that the density does not see, for example of a lesion; they are mapped.
    csf, gm, wm : maps of the probability of each tissue, for ``target="tissue"``.
    output : where to write the image, with its record beside it. Default: it is returned.
    **settings : method, target, lesions, freeze, objective, regularisation, solver, landmarks,
        scale, range, outside, dtype, force, effective_count, max_bytes; see
        ``ndflow normalise --help``.
    """
    reading, fitting, matching, writing = settings_from(
        settings, Reading, Fitting, Matching, Writing
    )
    target = read_target(to, to_mask, reading, fitting, matching)
    return normalise_scan(
        image,
        target,
        mask=mask,
        exclude=exclude,
        maps=TissueMaps.of(csf, gm, wm),
        output=output,
        reading=reading,
        fitting=fitting,
        matching=matching,
        writing=writing,
    )


normalize = normalise  # the American spelling


def normalise_scan(
    image: Source,
    target: Target,
    *,
    mask: Source | None,
    exclude: Source | None,
    output: AnyPath | None,
    reading: Reading,
    fitting: Fitting,
    matching: Matching,
    writing: Writing,
    maps: TissueMaps | None = None,
    command: Sequence[str] | None = None,
) -> Result:
    """Bring an image to a target that was read before; otherwise like `normalise`.

    Parameters
    ----------
    maps : of its tissues.
    command : what the user typed, for the record.
    """
    aim = in_units(target, matching)
    refuse_coarse(aim.mixture, writing)
    check_maps(maps, matching)
    inputs = input_files(image=image, mask=mask, exclude=exclude) | target.files
    if maps is not None:
        inputs |= input_files(**maps._asdict())
    if output is not None:
        check_result(output, all_files(inputs), writing=writing)
    scan = read_scan(image, mask, exclude, reading)
    fitted = fit_scan(scan, fitting)
    tissues = None
    if maps is not None:
        tissues, more = tissues_of(scan, maps, reading, fitting)
        scan.warnings.extend(more)
    portrait = Portrait(fitted.mixture, landmarks_of(scan, matching), tissues)
    solution = solve(portrait, aim, matching)
    path = scan.volume.path
    warnings = [*target.warnings, *scan.warnings, *doubts(path, fitted)]
    warnings += solution.doubts(path)
    return deliver(
        image,
        scan.volume,
        mapped(scan.volume, solution.imap, scan.inside, writing.outside, writing.dtype),
        solution.imap,
        {
            "command": None if command is None else list(command),
            "settings": selection(mask, exclude) | flat(reading, fitting, matching, writing),
            "inputs": hashes(inputs),
            "target": {"name": target.name, **aim.to_dict()},
            **_findings(scan, fitted, solution, matching),
        },
        output=output,
        inputs=inputs,
        writing=writing,
        mixture=fitted.mixture,
        warnings=warnings,
    )


def _findings(scan: Scan, fitted: Fit, solution: Solution, matching: Matching) -> dict[str, Any]:
    """Return what there is to know about a scan and its map."""
    return {
        "voxels": scan.voxels,
        "mixture": fitted.mixture.to_dict(),
        "fit": fitted.status.message,
        **solution.findings(fitted.mixture, matching.objective),
    }
