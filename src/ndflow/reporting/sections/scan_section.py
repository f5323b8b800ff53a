"""A scan on the page of its study: a row of the table, and what the row opens to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.preview import Preview, small_volume
from ndflow.methods.model import DensityModel
from ndflow.methods.targets import chosen_density
from ndflow.reporting.before_after import before_after
from ndflow.reporting.content import Column, ScanEntry, Slices, Volumes
from ndflow.reporting.curves import curves_of
from ndflow.reporting.montage import Windows, thumbnail
from ndflow.reporting.scan_summary import ScanSummary
from ndflow.values import plural

__all__ = ["COLUMNS", "Pictures", "columns_of", "lesion_remarks", "scan_entry", "volumes_of"]

COLUMNS = (
    Column(
        "W1", "Wasserstein distance of the result from its target, in standard deviations", True
    ),
    Column(
        "divergence",
        "Divergence of the density from its target after alignment; with --mode site that of "
        "the site, with two-level after the site's map",
        True,
    ),
    Column("left", "What remains of that divergence after the match", True),
    Column(
        "steepest",
        "Largest slope of the map where the scan has intensities, as a multiple of the alignment's",
        True,
    ),
    Column("flattest", "Smallest slope of the map, as a multiple of the alignment's"),
    Column("voxels", "Voxels from which the density was estimated"),
    Column("components", "Components of the mixture"),
    Column(
        "misfit",
        "Largest difference between the distribution functions of the histogram and the mixture",
    ),
)
_LESION = Column("lesion", "Volume that was excluded as a lesion, in millilitres", True)


@dataclass(frozen=True)
class Pictures:
    """The pictures of a scan, as far as there are any.

    Attributes
    ----------
    preview : its slices.
    windows : the grey windows that all scans share.
    embedded : whether the slices are part of the page, and do not only lie beside it.
    volumes : for the viewer.
    problem : why there are no volumes, where there should be some.
    """

    preview: Preview | None = None
    windows: Windows | None = None
    embedded: bool = False
    volumes: Volumes | None = None
    problem: str = ""


def columns_of(scans: Sequence[ScanSummary]) -> tuple[Column, ...]:
    """Return the columns of the table: one more than usual, if a lesion mask was given."""
    return (*COLUMNS, _LESION) if any(scan.scan.lesion for scan in scans) else COLUMNS


def lesion_remarks(scans: Sequence[ScanSummary]) -> list[str]:
    """Return a sentence about the lesions of a study, if any were outlined."""
    ill = [scan for scan in scans if scan.scan.lesion]
    if not ill:
        return []
    many = f"{len(ill)} of {plural(len(scans), 'scan')}"
    volumes = [ml for scan in ill if (ml := _excluded_ml(scan)) is not None]
    sizes = ""
    if volumes:
        low, high = min(volumes), max(volumes)
        sizes = f" ({_ml(low)} ml)" if len(volumes) == 1 else f" ({_ml(low)} to {_ml(high)} ml)"
    have = "has" if len(ill) == 1 else "have"
    return [
        f"{many} {have} a lesion mask{sizes}, whose voxels are left out of densities and "
        f"references, but mapped like all others."
    ]


def scan_entry(
    scan: ScanSummary,
    doubts: Sequence[Doubt],
    reference: DensityModel | None,
    pictures: Pictures,
    columns: Sequence[Column] = COLUMNS,
) -> ScanEntry:
    """Return what the page says of a scan.

    Parameters
    ----------
    scan, doubts : the scan, and what to check in it.
    reference : in the units of the result; None where there is none.
    pictures : of the scan.
    columns : of the table, see `columns_of`.
    """
    match, name = scan.record.match, scan.scan.name
    choice = match.target if match else None
    target = None if reference is None else chosen_density(choice, reference)
    flags = list(doubts)
    if pictures.problem:
        text = f"It cannot be shown in the viewer: {pictures.problem}"
        flags.append(Doubt("not shown", text, "check that its files are where they were"))
    notes = [choice.sentence()] if choice else []
    if match is not None and match.lesions is not None:
        notes.append(match.lesions.sentence())
    notes += _excluded(scan)
    small = None
    if pictures.preview is not None and pictures.windows is not None:
        small = thumbnail(pictures.preview, pictures.windows.after)
    return ScanEntry(
        name,
        scan.site,
        [*_cells(scan, target), *([_excluded_ml(scan)] if _LESION in columns else [])],
        flags,
        thumbnail=small,
        slices=_slices(scan, pictures),
        curves=curves_of(scan, target),
        volumes=pictures.volumes,
        notes=notes,
    )


def _cells(scan: ScanSummary, target: GaussianMixture | None) -> list[str | float | None]:
    """Return the cells of a row, in the order of `COLUMNS`."""
    match = scan.record.match
    divergence = match.divergence if match else None
    flattest, steepest = match.slopes.relative_to_affine if match and match.slopes else (None, None)
    apart = None
    if target is not None:
        off = np.abs(scan.quantiles("result") - target.quantile(QUANTILE_LEVELS)).mean()
        apart = float(off / np.sqrt(target.covariance()[0, 0]))
    return [
        apart,
        None if divergence is None else divergence.before,
        None if divergence is None else divergence.after,
        steepest,
        flattest,
        None if scan.model.voxels is None else scan.model.voxels.fitted,
        scan.mixture.components,
        scan.model.misfit,
    ]


def _excluded(scan: ScanSummary) -> list[str]:
    """Return a sentence about the lesion mask of a scan, if it has one."""
    counts = scan.model.voxels
    if not scan.scan.lesion or counts is None:
        return []
    if not counts.excluded:
        return ["It has a lesion mask, but none of its voxels is inside the brain mask."]
    share = counts.excluded / (counts.fitted + counts.excluded + counts.outliers)
    ml = _excluded_ml(scan)
    volume = "" if ml is None else f" ({_ml(ml)} ml)"
    return [
        f"Excluded as a lesion: {counts.excluded:,} voxels{volume}, {share:.1%} of those inside "
        f"the mask. They are mapped, but nothing was estimated from them."
    ]


def _excluded_ml(scan: ScanSummary) -> float | None:
    return None if scan.model.voxels is None else scan.model.voxels.excluded_ml


def _ml(volume: float) -> str:
    return f"{volume:,.0f}" if volume >= 10 else f"{volume:.2g}"


def _slices(scan: ScanSummary, pictures: Pictures) -> Slices | None:
    preview = pictures.preview
    if preview is None:
        return None
    path = scan.paths.preview
    height, width = preview.before.shape
    return Slices(
        f"{path.parent.name}/{path.name}",
        path.read_bytes() if pictures.embedded else None,
        width,
        height,
        preview.before_window,
        preview.after_window,
        preview.lesion,
    )


def volumes_of(scan: ScanSummary, max_bytes: int) -> tuple[Volumes | None, str]:
    """Return the volumes of a scan for the viewer; or why there are none.

    Parameters
    ----------
    scan : the scan.
    max_bytes : the largest file to read.
    """
    try:
        pair = before_after(scan.scan, scan.paths, scan.record, max_bytes)
        old, new = (small_volume(picture, pair.spacing) for picture in (pair.before, pair.after))
    except (FileError, InvalidValueError) as error:
        return None, str(error)
    return Volumes(old, new), ""
