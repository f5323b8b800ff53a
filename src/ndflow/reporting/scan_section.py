"""A scan on the page of its study: a row of the table, and what the row opens to.

Numbers and curves come from models and maps alone; no image is read. The histogram of the voxels is
known by its quantiles ``Q(p)``: between two of them lies a known share of the voxels. The result of
a scan has the quantiles ``f(Q(p))``, where f is its map, and the density ``q(x) / f'(x)`` at
``f(x)``. Only the viewer's volumes are read from images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.preview import Preview, read_preview, small_volume, upright
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.methods.targets import chosen_density
from ndflow.reporting.content import Column, Curves, ScanEntry, Slices, Volumes
from ndflow.study.distances import NO_SITE
from ndflow.study.finished import FinishedStudy, mask_used
from ndflow.study.integrity import read_results, refuse_other_image, refuse_other_inputs
from ndflow.study.plan import ResultPaths
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.subject.voxels import read_masked
from ndflow.transport import DETERMINED_RANGE, Affine, IntensityMap, align
from ndflow.values import FloatArray, plural

CONDITIONS = ("raw", "aligned", "result")

_POINTS, _DRAWN = 400, 80  # of a curve; of one that the page draws
_ENDS = (0.001, 0.999)
_DARK = 0.05
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
class ScanSummary:
    """What is known about a scan of a finished study.

    Attributes
    ----------
    scan, paths : the scan, and where its results are.
    model : its density, and how it was estimated.
    record : the sidecar of its result.
    """

    scan: Subject
    paths: ResultPaths
    model: ScanModel
    record: MapRecord

    @property
    def site(self) -> str:
        """Where it was made, in words."""
        return self.scan.site or NO_SITE

    @property
    def mixture(self) -> GaussianMixture:
        """Its density."""
        return self.model.mixture

    @property
    def imap(self) -> IntensityMap:
        """Its map."""
        return self.record.map

    @cached_property
    def alignment(self) -> Affine:
        """Its map to zero mean and unit standard deviation."""
        return align(self.mixture)

    def quantiles(self, condition: str) -> FloatArray:
        """Return the 199 quantiles: ``raw``, ``aligned``, or of the ``result``."""
        return self._quantiles[condition]

    @cached_property
    def _quantiles(self) -> dict[str, FloatArray]:
        saved = self.model.quantiles
        raw = self.mixture.quantile(QUANTILE_LEVELS) if saved is None else np.array(saved)
        return {condition: self._through(condition)(raw) for condition in CONDITIONS}

    def curve(
        self, condition: str, units: tuple[float, float] = (0.0, 1.0)
    ) -> tuple[FloatArray, FloatArray]:
        """Return intensities and the density there, under one of the conditions.

        Parameters
        ----------
        condition : as for `quantiles`.
        units : the mean and standard deviation that scans are ``aligned`` to.
        """
        y, density = self._curves[condition]
        if condition == "aligned":
            mean, sd = units
            return mean + sd * y, density / sd
        return y, density

    @cached_property
    def _curves(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        low, high = self.mixture.quantile(_ENDS).tolist()
        x = np.linspace(low, high, _POINTS)
        log_density = self.mixture.logpdf(x)
        found = {}
        for condition in CONDITIONS:
            y, log_slope = self._through(condition).with_log_det_jacobian(x)
            found[condition] = y, np.exp(log_density - log_slope)
        return found

    def _through(self, condition: str) -> IntensityMap:
        identity = Affine(np.eye(1), np.zeros(1))
        return {"raw": identity, "aligned": self.alignment, "result": self.imap}[condition]


def scan_summaries(run: FinishedStudy) -> Iterator[ScanSummary]:
    """Read what the files of a study say about its scans."""
    for scan in run.study.scans:
        paths = run.study.paths(scan)
        yield ScanSummary(scan, paths, *read_results(paths))


def densities_by_site(
    scans: Sequence[ScanSummary],
    condition: str,
    *,
    units: tuple[float, float] = (0.0, 1.0),
    x: FloatArray | None = None,
    logarithmic: bool = False,
) -> tuple[FloatArray, dict[str, list[FloatArray]]]:
    """Return intensities, and the density of every scan at them by site, under a condition.

    Parameters
    ----------
    scans, condition, units : as for `ScanSummary.curve`.
    x : the intensities; by default those that occur.
    logarithmic : whether these are to be spaced evenly on a logarithmic axis, for unnormalised
        scans of which few voxels are not positive.
    """
    curves = [scan.curve(condition, units) for scan in scans]
    low, high = min(y[0] for y, _ in curves), max(y[-1] for y, _ in curves)
    if x is None and logarithmic:
        dark = min(float(scan.mixture.quantile(_DARK)) for scan in scans)
        x = np.geomspace(max(low, dark / 2), high, _POINTS)
    elif x is None:
        x = np.linspace(low, high, _POINTS)
    by_site: dict[str, list[FloatArray]] = {}
    for scan, (y, density) in zip(scans, curves, strict=True):
        by_site.setdefault(scan.site, []).append(np.interp(x, y, density, left=0, right=0))
    return x, by_site


def curves_of(scan: ScanSummary, target: GaussianMixture) -> Curves:
    """Return what the page draws for a scan.

    Parameters
    ----------
    scan : the scan.
    target : what it was brought to, in the units of the result.
    """
    low, high = scan.mixture.quantile(DETERMINED_RANGE).tolist()
    x = np.linspace(low, high, _DRAWN)
    mapped = scan.imap(x)
    y = np.linspace(mapped[0], mapped[-1], _DRAWN)
    result = scan.quantiles("result")
    mean, sd = float(target.mean()[0]), float(np.sqrt(target.covariance()[0, 0]))
    return Curves(
        x=x.tolist(),
        histogram=_density(scan.quantiles("raw"), x).tolist(),
        mixture=np.exp(scan.mixture.logpdf(x)).tolist(),
        map=mapped.tolist(),
        alignment=(mean + sd * scan.alignment(x)).tolist(),
        y=y.tolist(),
        result=_density(result, y).tolist(),
        target=np.exp(target.logpdf(y)).tolist(),
    )


def _density(quantiles: FloatArray, x: FloatArray) -> FloatArray:
    """Return the density of the distribution with these quantiles, averaged around each point."""
    edges = midpoint_edges(x)
    below = np.interp(edges, quantiles, QUANTILE_LEVELS)
    density: FloatArray = np.diff(below) / np.diff(edges)
    return density


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
    scan: ScanSummary, doubts: Sequence[Doubt], reference: DensityModel, columns: Sequence[Column]
) -> ScanEntry:
    """Return what the page says of a scan, without its pictures.

    Parameters
    ----------
    scan, doubts : the scan, and what to check in it.
    reference : in the units of the result.
    columns : of the table, see `columns_of`.
    """
    match = scan.record.match
    choice = match.target if match else None
    target = chosen_density(choice, reference)
    return ScanEntry(
        scan.scan.name,
        scan.site,
        [*_cells(scan, target), *([_excluded_ml(scan)] if _LESION in columns else [])],
        doubts,
        curves=curves_of(scan, target),
        notes=[*([choice.sentence()] if choice else []), *_excluded(scan)],
    )


def _cells(scan: ScanSummary, target: GaussianMixture) -> list[str | float | None]:
    """Return the cells of a row, in the order of `COLUMNS`."""
    match = scan.record.match
    divergence = match.divergence if match else None
    flattest, steepest = match.slopes.relative_to_affine if match and match.slopes else (None, None)
    off = np.abs(scan.quantiles("result") - target.quantile(QUANTILE_LEVELS)).mean()
    return [
        float(off / np.sqrt(target.covariance()[0, 0])),
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


def preview_of(path: Path) -> Preview | None:
    """Return the preview of a result; None if there is none, or none of ours."""
    try:
        return read_preview(path)
    except FileError:
        return None


def slices_of(path: Path, preview: Preview, *, embedded: bool) -> Slices:
    """Return the slices of a preview; `embedded` if they are part of the page."""
    height, width = preview.before.shape
    return Slices(
        f"{path.parent.name}/{path.name}",
        path.read_bytes() if embedded else None,
        width,
        height,
        preview.before_window,
        preview.after_window,
        preview.lesion,
    )


def volumes_of(scan: ScanSummary, max_bytes: int) -> tuple[Volumes | None, str]:
    """Return a scan and its result as volumes for the viewer; or why there are none.

    They are upright (x to the right, y forward, z up), with NaN outside the mask.

    Parameters
    ----------
    scan : the scan.
    max_bytes : the largest file to read.
    """
    try:
        mask = mask_used(scan.scan, scan.record)
        volume, inside, _, files, _ = read_masked(scan.scan.image, mask, max_bytes=max_bytes)
        result = read_volume(scan.paths.image, max_bytes=max_bytes)
        refuse_other_inputs(scan.paths, scan.record, files)
        refuse_other_image(scan.record, result)
        before, after = (small_volume(*upright(shown, inside)) for shown in (volume, result))
        return Volumes(before, after), ""
    except (FileError, InvalidValueError) as error:
        return None, str(error)
