"""The figure of one scan matched to another."""

import numpy as np
import pytest
from scipy import stats

from ndflow.figures.curves import DensityCurves, MapCurves, PairSide, pair_panels

X = np.linspace(-4, 4, 120)


def side(name: str, scale: float = 1.0, x: np.ndarray = X, **changes) -> PairSide:
    picture = scale * np.random.default_rng(0).normal(size=(30, 20))
    picture[:3] = np.nan
    parts = np.array([0.4 * stats.norm.pdf(x, -1), 0.6 * stats.norm.pdf(x, 1)])
    given = {"histogram": sum(parts), "mixture": sum(parts), "components": parts}
    return PairSide(name, picture, DensityCurves(x, **(given | changes)))


def curve(slope: float = 1.0, bend: float = 0.0) -> MapCurves:
    return MapCurves(X, slope * X + bend * X**2, slope + 2 * bend * X, slope * X)


def test_the_columns_are_source_result_target_and_the_intensity_map():
    figure = pair_panels(side("mine"), side("theirs"), side("after"), curve())
    assert len(figure.axes) == 8
    slices = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in slices] == ["mine", "after", "theirs"]
    places = [axes.get_position().x0 for axes in slices]
    assert places == sorted(places)


def test_result_and_target_have_the_targets_grey_window_and_the_source_its_own():
    figure = pair_panels(side("s", 100), side("t", 1), side("r", 3), curve())
    source, result, target = (axes.images[0].get_clim() for axes in figure.axes if axes.images)
    assert target == result
    np.testing.assert_allclose(source, 100 * np.array(target))
    picture = np.sort(side("t").slice_[3:].ravel())
    shares = [np.mean(picture < end) for end in target]
    np.testing.assert_allclose(shares, [0.01, 0.995], atol=2 / picture.size)


def test_each_mixture_is_drawn_over_its_components():
    figure = pair_panels(side("s"), side("t"), side("r"), curve())
    for axes in figure.axes[1:6:2]:
        *parts, whole = axes.lines
        assert len(parts) == 2
        total = sum(part.get_ydata() for part in parts)
        np.testing.assert_allclose(whole.get_ydata(), total)
    entries = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert entries == ["histogram", "components", "mixture"]


def test_densities_of_result_and_target_share_a_scale_that_fits_both():
    flat, steep = (side("x", histogram=f * stats.norm.pdf(X)) for f in (1, 3))
    for target, result in ((flat, steep), (steep, flat)):
        figure = pair_panels(side("s"), target, result, curve())
        limits = figure.axes[3].get_ylim()
        assert limits == figure.axes[5].get_ylim()
        assert limits[1] > 3 * stats.norm.pdf(0) * 0.99


@pytest.mark.parametrize("slope", [0.002, 1.0, 30.0])
def test_the_relative_slope_of_an_affine_map_is_one(slope: float):
    figure = pair_panels(side("s"), side("t"), side("r"), curve(slope))
    np.testing.assert_allclose(figure.axes[7].lines[1].get_ydata(), 1)


def test_a_nonlinear_map_departs_from_the_affine_line_and_its_slope_from_one():
    figure = pair_panels(side("s"), side("t"), side("r"), curve(2.0, 0.1))
    straight, bent = figure.axes[6].lines
    np.testing.assert_allclose(bent.get_ydata() - straight.get_ydata(), 0.1 * X**2, atol=1e-12)
    np.testing.assert_allclose(figure.axes[7].lines[1].get_ydata(), 1 + 0.1 * X)


def test_a_flat_slice_and_a_scan_without_components_can_be_drawn():
    odd = side("s", components=np.empty((0, X.size)))._replace(slice_=np.ones((5, 5)))
    figure = pair_panels(odd, odd, odd, curve())
    assert len(figure.axes) == 8
    assert [image.get_array().min() for axes in figure.axes for image in axes.images] == [1.0] * 3
