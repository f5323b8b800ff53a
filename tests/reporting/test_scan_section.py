"""A scan on the page: its curves, which are densities and a map, and its volumes."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.image.subject import Subject
from ndflow.reporting.scan_section import ScanSummary, curves_of
from ndflow.study.plan import ResultPaths
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.transport import Affine

RAW, TARGET = stats.norm(300, 40), stats.norm(500, 125)


def mixture(law: "stats.rv_frozen") -> GaussianMixture:
    return GaussianMixture([1.0], [law.mean()], [1 / law.var()])


def summary(quantiles: tuple[float, ...] | None = None) -> ScanSummary:
    factor = TARGET.std() / RAW.std()
    imap = Affine(np.array([[factor]]), np.array([TARGET.mean() - factor * RAW.mean()]))
    model = ScanModel(mixture(RAW), quantiles=quantiles)
    paths = ResultPaths(*[Path("x")] * 4)
    return ScanSummary(Subject("x", name="s"), paths, model, MapRecord(imap))


def test_a_normal_scan_has_the_densities_of_the_normal_distribution() -> None:
    found = curves_of(summary(), mixture(TARGET))
    x, y = np.array(found["x"]), np.array(found["y"])
    np.testing.assert_allclose(found["mixture"], RAW.pdf(x), rtol=5e-3)
    np.testing.assert_allclose(found["target"], TARGET.pdf(y), rtol=5e-3)
    inner = np.abs(x - 300) < 80  # the quantiles leave out the outermost tails
    np.testing.assert_allclose(np.array(found["histogram"])[inner], RAW.pdf(x)[inner], rtol=0.02)
    np.testing.assert_allclose(np.array(found["result"])[inner], TARGET.pdf(y)[inner], rtol=0.02)
    np.testing.assert_allclose(found["map"], 500 + 125 * (x - 300) / 40, rtol=5e-3)
    np.testing.assert_allclose(found["alignment"], found["map"], rtol=5e-3)
    assert len({len(values) for values in found.values()}) == 1
    for law, condition in ((RAW, "raw"), (stats.norm(), "aligned"), (TARGET, "result")):
        at, density = summary().curves[condition]
        np.testing.assert_allclose(density, law.pdf(at), rtol=1e-6)


def test_the_histogram_is_that_of_the_voxels_not_of_the_mixture() -> None:
    flat = np.linspace(250, 350, QUANTILE_LEVELS.size)
    found = curves_of(summary(tuple(flat.tolist())), mixture(TARGET))
    x, histogram = np.array(found["x"]), np.array(found["histogram"])
    inner = np.abs(x - 300) < 45
    spread = (QUANTILE_LEVELS[-1] - QUANTILE_LEVELS[0]) / 100
    np.testing.assert_allclose(histogram[inner], spread, rtol=1e-3)
    assert np.sum(histogram) * (x[1] - x[0]) == pytest.approx(1, abs=0.02)
