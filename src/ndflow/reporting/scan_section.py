"""A scan on the page of its study: a row of the table, and what the row opens to.

Numbers and curves come from models and maps alone; no image is read. The histogram of the voxels is
known by its quantiles ``Q(p)``: between two of them lies a known share of the voxels. The result of
a scan has the quantiles ``f(Q(p))``, where f is its map, and the density ``q(x) / f'(x)`` at
``f(x)``. Only the viewer's volumes are read from images.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.preview import Preview, preview_bytes, read_preview, small_volume, upright
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.methods.ndflow import chosen_density
from ndflow.reporting.content import Column, ScanEntry, Slices, Volumes
from ndflow.study.checks import NO_SITE
from ndflow.study.finished import read_raw_voxels, refuse_other_image, refuse_other_inputs
from ndflow.study.plan import ResultPaths
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.transport import DETERMINED_RANGE, Affine, IntensityMap, align
from ndflow.values import Doubt, FloatArray

_POINTS, _DRAWN = 400, 80  # of a curve; of one that the page draws
_ENDS = (0.001, 0.999)
_SD = "in standard deviations"
COLUMNS = (
    Column("changed", f"How far z-scored voxels were moved, on average, {_SD}", True, "{:.2f} sd"),
    Column(
        "off target", f"How far its histogram still is from the target, {_SD}", True, "{:.3f} sd"
    ),
    Column(
        "noise amplified",
        "Largest slope of the map, relative to z-scoring: noise grows by this factor there",
        True,
        "×{:.2f}",
    ),
    Column(
        "contrast kept",
        "Smallest slope of the map, relative to z-scoring: what is left of small differences there",
        form="{:.0%}",
    ),
    Column("voxels", "Voxels from which the density was estimated"),
    Column("components", "Components of the mixture"),
    Column("misfit", "Voxels that histogram and mixture place differently", form="{:.1%}"),
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

    @cached_property
    def maps(self) -> dict[str, IntensityMap]:
        """From its intensities to those under each condition: raw, aligned, and of the result."""
        identity = Affine(np.eye(1), np.zeros(1))
        return {"raw": identity, "aligned": align(self.model.mixture), "result": self.record.map}

    @cached_property
    def quantiles(self) -> dict[str, FloatArray]:
        """The 199 quantiles under each condition."""
        saved = self.model.quantiles
        raw = self.model.mixture.quantile(QUANTILE_LEVELS) if saved is None else saved
        return {condition: imap(raw) for condition, imap in self.maps.items()}

    @cached_property
    def curves(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Intensities and the density there, under each condition."""
        low, high = self.model.mixture.quantile(_ENDS).tolist()
        x = np.linspace(low, high, _POINTS)
        log_density = self.model.mixture.logpdf(x)
        found = {}
        for condition, imap in self.maps.items():
            y, log_slope = imap.with_log_det_jacobian(x)
            found[condition] = y, np.exp(log_density - log_slope)
        return found


def curves_of(scan: ScanSummary, target: GaussianMixture) -> dict[str, list[float]]:
    """Return what the page draws for a scan, see `ScanEntry`.

    Parameters
    ----------
    scan : the scan.
    target : what it was brought to, in the units of the result.
    """
    mixture = scan.model.mixture
    low, high = mixture.quantile(DETERMINED_RANGE).tolist()
    x = np.linspace(low, high, _DRAWN)
    mapped = scan.record.map(x)
    y = np.linspace(mapped[0], mapped[-1], _DRAWN)
    mean, sd = float(target.mean()[0]), float(np.sqrt(target.covariance()[0, 0]))
    curves = {
        "x": x,
        "histogram": _density(scan.quantiles["raw"], x),
        "mixture": np.exp(mixture.logpdf(x)),
        "map": mapped,
        "alignment": mean + sd * scan.maps["aligned"](x),
        "y": y,
        "result": _density(scan.quantiles["result"], y),
        "target": np.exp(target.logpdf(y)),
    }
    return {name: values.tolist() for name, values in curves.items()}


def _density(quantiles: FloatArray, x: FloatArray) -> FloatArray:
    """Return the density of the distribution with these quantiles, averaged around each point."""
    edges = midpoint_edges(x)
    below = np.interp(edges, quantiles, QUANTILE_LEVELS)
    density: FloatArray = np.diff(below) / np.diff(edges)
    return density


def columns_of(scans: Sequence[ScanSummary]) -> tuple[Column, ...]:
    """Return the columns of the table: one more than usual, if a lesion mask was given."""
    return (*COLUMNS, _LESION) if any(scan.scan.lesion for scan in scans) else COLUMNS


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
    match, voxels = scan.record.match, scan.model.voxels
    choice = match.target if match else None
    target = chosen_density(choice, reference)
    flattest, steepest = match.slopes if match and match.slopes else (None, None)
    result, scored = scan.quantiles["result"], reference.mixture
    mean, sd = float(scored.mean()[0]), float(np.sqrt(scored.covariance()[0, 0]))
    own_sd = np.sqrt(target.covariance()[0, 0])
    cells = [
        float(np.abs(result - mean - sd * scan.quantiles["aligned"]).mean()) / sd,
        float(np.abs(result - target.quantile(QUANTILE_LEVELS)).mean() / own_sd),
        steepest,
        flattest,
        voxels.fitted if voxels else None,
        scan.model.mixture.components,
        scan.model.misfit,
        voxels.excluded_ml if voxels else None,
    ]
    return ScanEntry(
        scan.scan.name,
        scan.site,
        cells[: len(columns)],  # that of lesions is the last
        doubts,
        curves=curves_of(scan, target),
        bands=choice.bands(reference.tissues) if choice else {},
        notes=[choice.sentence()] if choice else [],
    )


def preview_of(path: Path) -> Preview | None:
    """Return the preview of a result; None if there is none, or none of ours."""
    try:
        return read_preview(path)
    except FileError:
        return None


def noted(warnings: Iterable[str]) -> list[Doubt]:
    """Return the warnings of records as what to check, each once."""
    return [Doubt("warning", text, "read what it says") for text in dict.fromkeys(warnings)]


def slices_of(path: Path, preview: Preview, *, embedded: bool) -> Slices:
    """Return the slices of a preview; `embedded` if they are part of the page."""
    link, content = f"{path.parent.name}/{path.name}", preview_bytes(preview) if embedded else None
    height, width = preview.before.shape
    windows = (preview.before_window, preview.after_window)
    return Slices(link, content, width, height, *windows, preview.lesion)


def volumes_of(scan: ScanSummary, max_bytes: int) -> tuple[Volumes | None, str]:
    """Return a scan and its result as volumes for the viewer; or why there are none.

    They are upright (x to the right, y forward, z up), with NaN outside the mask.

    Parameters
    ----------
    scan : the scan.
    max_bytes : the largest file to read.
    """
    try:
        voxels = read_raw_voxels(scan.scan, scan.record, max_bytes=max_bytes)
        result = read_volume(scan.paths.image, max_bytes=max_bytes)
        refuse_other_inputs(scan.paths, scan.record, voxels.files)
        refuse_other_image(scan.record, result)
        shown = (voxels.volume, result)
        before, after = (small_volume(*upright(one, voxels.inside)) for one in shown)
        return Volumes(before, after), ""
    except (FileError, InvalidValueError) as error:
        return None, str(error)
