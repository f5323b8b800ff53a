"""A small study of several sites with real anatomy and known truth, for the demo.

Each site has a scanner with a contrast curve of its own, so for every scan it is known which
intensity c, common to all scanners, became which: its curve f_i. A map n_i that normalises the scan
should undo that. What it leads to is only defined up to one affine map for the whole study, so
`recovery_of` takes the composites ``g_i = n_i ∘ f_i`` at the quantiles of c, fits one line
``a + b c`` to their mean, and calls the error of a scan

    e_i = rms_c(g_i(c) − a − b c) / (b sd(c)),

and the spread of the study the same of ``g_i(c) − mean_j g_j(c)``, over all scans.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nibabel.nifti1 import Nifti1Header
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import check_new, new_file
from ndflow.files.scan_table import write_table
from ndflow.files.gzip import gzip_writer
from ndflow.transport import IntensityMap, PiecewiseLinear
from ndflow.values import FloatArray, real, whole
from ndflow.demo.template import Anatomy, Grid, grid_over, load_anatomy
from ndflow.demo.simulate import MEANS, REACH, draw_fields, make_subject, simulate_scan

__all__ = ["DemoStudy", "Recovery", "Truth", "recovery_of", "write_demo_study"]

_COLUMNS = ("subject", "site", "image", "mask", "gm", "wm", "csf", "age", "lesion")
_FINEST, _COARSEST = 0.5, 8.0  # mm
_AGES = (20.0, 80.0)
_ATROPHY, _A_YEAR, _OWN = 1.4, 0.025, 0.35  # at 50; and what is the subject's own
_GAIN = 0.08  # how much it differs between scans of one scanner
_WHERE = np.array([0.0, *MEANS, 1.1])  # canonical intensities that a scanner is described by
_LEVELS = np.linspace(0.01, 0.99, 99)


class _Scanner(NamedTuple):
    """A site's scanner; where the intensities of `_WHERE` go, times the gain; see `simulate_scan`."""

    site: str
    shown: tuple[float, ...]
    gain: float
    bias: float
    noise: float


_SCANNERS = (
    _Scanner("Ashford", (0.01, 0.28, 0.66, 0.87, 1.08), gain=800, bias=0.02, noise=0.012),
    _Scanner("Brindle", (0.05, 0.38, 0.75, 0.90, 1.01), gain=400, bias=0.03, noise=0.018),
    _Scanner("Corley", (0.02, 0.14, 0.47, 0.90, 1.35), gain=1500, bias=0.025, noise=0.015),
)
_LESION = 1  # the scanner one of whose subjects has a lesion


class Truth(NamedTuple):
    """What is known of a scan.

    Attributes
    ----------
    site : where it was made.
    curve : from canonical intensities to those of the scan, without noise and bias field.
    canonical : (99,), the percentiles of its canonical intensities, from the 1st to the 99th.
    lesion_voxels : how many there are; 0 in a healthy subject.
    """

    site: str
    curve: PiecewiseLinear
    canonical: FloatArray
    lesion_voxels: int


class DemoStudy(NamedTuple):
    """A study on the disc.

    Attributes
    ----------
    table : of its scans.
    truths : by the names that a run gives to the scans, those of their images.
    """

    table: Path
    truths: dict[str, Truth]


class Recovery(NamedTuple):
    """How well maps recover the canonical intensities, in units of their sd.

    Attributes
    ----------
    per_scan : the error of each scan.
    mean : of these.
    spread : between scans at the same canonical intensity.
    """

    per_scan: dict[str, float]
    mean: float
    spread: float


def write_demo_study(
    folder: Path,
    *,
    resolution: float = 2.0,
    seed: int = 0,
    subjects: int = 6,
    force: bool = False,
) -> DemoStudy:
    """Write three sites' scans with masks and tissue maps, and the table of them.

    Parameters
    ----------
    folder : for ``scans.tsv`` and the folder ``scans``; made where there is none.
    resolution : mm between voxels.
    seed : of everything random; the same gives the same bytes. At another resolution the same
        subjects are seen.
    subjects : of each site.
    force : whether files may be replaced.
    """
    if not _FINEST <= real(resolution, "resolution") <= _COARSEST:
        raise InvalidValueError(
            f"resolution must lie between {_FINEST:g} and {_COARSEST:g} mm, not {resolution:g}"
        )
    whole(seed, "seed", 0, 1 << 63)
    whole(subjects, "subjects", 1, 99)
    anatomy = load_anatomy()
    table = folder / "scans.tsv"
    try:
        (folder / "scans").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            folder, f"no folder for scans ({error.strerror})", "choose another"
        ) from None
    check_new(table, force=force)
    grid = grid_over(anatomy, resolution, REACH)
    truths: dict[str, Truth] = {}
    rows = []
    for number, scanner in enumerate(_SCANNERS):
        for k in range(subjects):
            name = f"{scanner.site}-{k + 1:02d}"
            generator = np.random.default_rng([seed, number, k])
            age = int(np.interp((k + generator.random()) / subjects, (0, 1), _AGES))
            ill = number == _LESION and k == subjects // 2
            files = {
                kind: f"scans/{name}_{kind}.nii.gz" for kind in ("T1w", "mask", "gm", "wm", "csf")
            }
            paths = {kind: folder / file for kind, file in files.items()}
            truths[f"{name}_T1w"] = _write_scan(
                paths, scanner, anatomy, grid, age, ill, generator, force
            )
            rows.append((name, scanner.site, *files.values(), str(age), "yes" if ill else "no"))
    write_table(table, _COLUMNS, rows)
    return DemoStudy(table, truths)


def recovery_of(maps: Mapping[str, IntensityMap], truths: Mapping[str, Truth]) -> Recovery:
    """Return how well the maps that normalise scans undo what the scanners did.

    Parameters
    ----------
    maps : by the names of scans.
    truths : of these scans, and maybe of others.
    """
    if not maps or not maps.keys() <= truths.keys():
        unknown = ", ".join(sorted(maps.keys() - truths.keys())) or "no scan at all"
        raise InvalidValueError(f"maps must be of scans of the demo, not of {unknown}")
    c = np.mean([truths[name].canonical for name in maps], axis=0)
    shown = np.array([imap(truths[name].curve(c)) for name, imap in maps.items()])
    middle = shown.mean(axis=0)
    slope, start = np.polyfit(c, middle, 1)
    unit = slope * c.std()
    errors = np.sqrt(((shown - start - slope * c) ** 2).mean(axis=1)) / unit
    spread = np.sqrt(((shown - middle) ** 2).mean()) / unit
    per_scan = dict(zip(maps, errors.tolist(), strict=True))
    return Recovery(per_scan, float(errors.mean()), float(spread))


def _write_scan(
    paths: Mapping[str, Path],
    scanner: _Scanner,
    anatomy: Anatomy,
    grid: Grid,
    age: int,
    ill: bool,
    generator: np.random.Generator,
    force: bool,
) -> Truth:
    """Make a subject, scan it, and write what was seen and what was there."""
    own, gain = generator.standard_normal(2)
    atrophy = _ATROPHY + _A_YEAR * (age - 50) + _OWN * own
    fields = draw_fields(anatomy.brain.shape, generator)
    body = make_subject(anatomy, fields, grid, atrophy=atrophy, lesion=ill)
    knots = np.linspace(_WHERE[0], _WHERE[-1], 111)
    shown = scanner.gain * np.exp(_GAIN * gain) * PchipInterpolator(_WHERE, scanner.shown)(knots)
    curve = PiecewiseLinear(knots, shown)
    image = simulate_scan(body, curve, generator, bias=scanner.bias, noise=scanner.noise)
    csf, gm, wm = np.rint(255 * body.tissues.T).astype(np.uint8)
    contents: dict[str, tuple[NDArray[Any], float]] = {
        "T1w": (np.rint(image).astype(np.int16), 1.0),
        "mask": (np.ones(len(image), np.uint8), 1.0),
        "gm": (gm, 1 / 255),
        "wm": (wm, 1 / 255),
        "csf": (csf, 1 / 255),
    }
    for kind, (values, slope) in contents.items():
        volume = np.zeros(grid.shape, values.dtype, order="F")
        volume[tuple(body.voxels.T)] = values
        _write(paths[kind], volume, grid.affine, slope, force=force)
    canonical = np.quantile(body.canonical.astype(np.float64), _LEVELS)
    return Truth(scanner.site, curve, canonical, int(np.count_nonzero(body.lesion)))


def _write(
    path: Path, volume: NDArray[Any], affine: FloatArray, slope: float, *, force: bool
) -> None:
    """Write a volume whose stored numbers are to be multiplied by a slope."""
    header: Any = Nifti1Header()  # type: ignore[no-untyped-call]
    header.set_data_shape(volume.shape)
    header.set_data_dtype(volume.dtype)
    header.set_sform(affine, "mni")
    header.set_qform(affine, "mni")
    header.set_xyzt_units("mm")
    header.set_slope_inter(slope, 0)
    head = io.BytesIO()
    header.write_to(head)
    with new_file(path, force=force) as file, gzip_writer(file) as packed:
        packed.write(head.getvalue())
        packed.write(volume.tobytes(order="F"))
