from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from ndflow.figures.curves import (
    DensityCurves,
    FitCell,
    FitCurves,
    MapCurves,
    PairSide,
    fit_figure,
    pair_panels,
)
from ndflow.figures.densities import DensityPanel, density_figure
from ndflow.figures.tissues import ViolinPanel, tissue_figure, violin_figure

Maker = Callable[[str], Figure]


def bell(x: np.ndarray, mean: float = 0.0, sd: float = 1.0) -> np.ndarray:
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


def densities_of(name: str) -> Figure:
    x = np.linspace(-4, 4, 80)
    scans = {name: [bell(x), bell(x, 0.3)], f"{name} too": [bell(x, -0.5, 1.3)]}
    return density_figure([DensityPanel(name, x, scans, name), DensityPanel(name, x, scans)])


def histogram_with_quantiles_of(name: str) -> Figure:
    x = np.linspace(-4, 4, 40)
    levels = np.linspace(-2, 2, 30)
    fit = FitCurves(x, bell(x, 0.2), bell(x), 1.1 * levels, levels)
    return fit_figure([FitCell(name, fit, 0.1, 0.2)])


def pair_of(name: str) -> Figure:
    x = np.linspace(-4, 4, 60)
    picture = np.where(np.hypot(*np.mgrid[-9:10, -9:10]) < 8, np.arange(19.0), np.nan)
    density = DensityCurves(x, bell(x), bell(x), np.array([0.5 * bell(x), 0.5 * bell(x)]))
    side = PairSide(name, picture, density)
    return pair_panels(side, side, side, MapCurves(x, np.sinh(x), np.cosh(x), x))


def violins_of(name: str) -> Figure:
    values = np.random.default_rng(1).normal(size=30)
    panel = ViolinPanel([(name, values), ("constant", np.ones(5))], name, 0.5)
    return violin_figure([panel, panel])


def tissues_of(name: str) -> Figure:
    quartiles = np.arange(18.0).reshape(3, 2, 3)
    return tissue_figure({name: quartiles}, [name, name, "z"], [name, "WM"], units=name)


@pytest.fixture(params=[densities_of, histogram_with_quantiles_of, pair_of, violins_of, tissues_of])
def maker(request: pytest.FixtureRequest) -> Maker:
    """Make each kind of figure, with the given name wherever the figure takes one."""
    return request.param
