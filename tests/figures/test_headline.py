"""The figure at the top of a report: distances between sites, densities before and after."""

import numpy as np
import pytest
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.figures.densities import DensityPanel
from ndflow.figures.export import svg
from ndflow.figures.headline import headline_figure
from ndflow.figures.style import colours

X = np.linspace(1, 9, 60)
STAGES = [("as scanned", 1.25), ("aligned", 0.1), ("normalised", 0.025)]


def panel(title: str = "before", names: str = "abc", **options) -> DensityPanel:
    scans = {
        name: [stats.norm.pdf(X, 3 + i), stats.norm.pdf(X, 4 + i)] for i, name in enumerate(names)
    }
    return DensityPanel(title, X, scans, **options)


def written(stages) -> list[str]:
    return [text.get_text() for text in headline_figure(stages, panel(), panel()).axes[0].texts]


def test_each_stage_has_a_bar_of_the_length_of_its_distance_from_top_to_bottom():
    bars, _, _ = headline_figure(STAGES, panel(), panel()).axes
    assert [bar.get_width() for bar in bars.patches] == [1.25, 0.1, 0.025]
    assert {bar.get_x() for bar in bars.patches} == {0}
    middles = [
        bars.transData.transform((0, b.get_y() + b.get_height() / 2))[1] for b in bars.patches
    ]
    assert middles == sorted(middles, reverse=True)
    labels = [text.get_text() for text in bars.get_yticklabels()]
    assert labels == ["as scanned", "aligned", "normalised"]
    np.testing.assert_allclose(bars.get_yticks(), [0, 1, 2])


def test_numbers_are_to_the_right_of_their_bars_and_within_the_panel():
    figure = headline_figure(STAGES, panel(), panel())
    figure.draw_without_rendering()
    bars = figure.axes[0]
    for bar, text in zip(bars.patches, bars.texts, strict=True):
        box = text.get_window_extent()
        assert box.x0 > bar.get_window_extent().x1
        assert box.x1 < figure.axes[1].bbox.x0


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1.25, 0.1, 0.025], ["1.25", "0.1", "0.025  (−98 %)"]),
        ([2.0, 1.8], ["2", "1.8  (−10 %)"]),
        ([1.0, 0.001], ["1", "0.001  (−99 %)"]),  # not −100 %
        ([0.5, 0.0], ["0.5", "0  (−100 %)"]),
        ([0.5, 0.75], ["0.5", "0.75  (+50 %)"]),
        ([0.5, 0.5], ["0.5", "0.5  (no change)"]),
        ([0.0, 0.5], ["0", "0.5"]),
        ([0.0, 0.0], ["0", "0"]),
        ([12345.6, 0.123456], ["12346", "0.123  (−99 %)"]),
        ([0.3], ["0.3"]),
    ],
)
def test_the_last_number_has_the_change_which_is_never_exaggerated(values, labels):
    assert written([(str(i), value) for i, value in enumerate(values)]) == labels


def test_the_mean_density_of_a_site_has_its_colour_before_and_after():
    figure = headline_figure(STAGES, panel("first"), panel("last"))
    assert [axes.get_title("left") for axes in figure.axes[1:]] == ["first", "last"]
    for axes in figure.axes[1:]:
        for i, (line, name) in enumerate(zip(axes.lines, "abc", strict=True)):
            mean = 0.5 * (stats.norm.pdf(X, 3 + i) + stats.norm.pdf(X, 4 + i))
            np.testing.assert_allclose(line.get_ydata(), mean)
            assert line.get_color() == colours("abc")[name]
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries == ["a (2)", "b (2)", "c (2)"]


def test_no_bar_has_the_colour_of_a_site():
    from matplotlib.colors import to_hex

    bars = headline_figure(STAGES, panel(), panel()).axes[0].patches
    used = {to_hex(bar.get_facecolor()) for bar in bars}
    assert not used & {colour.lower() for colour in colours(map(str, range(6))).values()}
    assert len(used) == 2  # the result stands out
    assert to_hex(bars[0].get_facecolor()) == to_hex(bars[1].get_facecolor())


def test_a_site_keeps_its_colour_if_others_are_missing():
    figure = headline_figure(STAGES, panel(names="c"), panel(names="bc"), sites="abc")
    assert figure.axes[1].lines[0].get_color() == colours("abc")["c"]
    assert figure.axes[2].lines[0].get_color() == colours("abc")["b"]


def test_areas_on_a_logarithmic_axis_are_shares_of_the_scan():
    x = np.geomspace(1e-3, 200, 150)
    wide = DensityPanel("x", x, {"a": [np.exp(-x)]}, logarithmic=True)
    axes = headline_figure(STAGES, wide, panel(names="a")).axes[1]
    assert axes.get_xscale() == "log"
    drawn = axes.lines[0]
    area = np.trapezoid(drawn.get_ydata(), np.log(drawn.get_xdata()))
    assert area == pytest.approx(1, abs=2e-3)  # the exponential's mass
    assert axes.get_xlabel() == "intensity (logarithmic)"


def test_one_site_and_one_stage_can_be_drawn():
    figure = headline_figure([("all", 0.0)], panel(names="a"), panel(names="a"))
    assert svg(figure) == svg(headline_figure([("all", 0.0)], panel(names="a"), panel(names="a")))


def test_many_long_names_and_stages_do_not_shrink_the_panels():
    names = [f"Universitätsklinikum Hamburg-Eppendorf {i}" for i in range(12)]
    many = DensityPanel("x", X, {name: [stats.norm.pdf(X, 5)] for name in names})
    stages = [(f"a stage with a long name {i}", 1.0) for i in range(6)]
    heights = [
        figure.axes[1].get_position().height * figure.get_figheight()
        for figure in (
            headline_figure(STAGES, panel(), panel()),
            headline_figure(stages, many, many),
        )
    ]
    assert heights[1] > 0.9 * heights[0]


def test_the_file_is_small_with_many_sites_and_fine_curves():
    x = np.linspace(0, 1, 400)
    noise = np.random.default_rng(0).gamma(9.0, size=(7, x.size))
    wild = DensityPanel("x", x, {str(i): [part] for i, part in enumerate(noise)})
    drawing = svg(headline_figure(STAGES, wild, wild))
    assert len(drawing) < 80_000
    assert drawing == svg(headline_figure(STAGES, wild, wild))


def test_names_are_shown_literally():
    odd = "_a$b$ <&>"
    named = DensityPanel(odd, X, {odd: [stats.norm.pdf(X, 5)]})
    drawing = svg(headline_figure([(odd, 1.0)], named, named)).decode()
    assert drawing.count("_a$b$ &lt;&amp;&gt;") >= 4  # stage, two titles, legend


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "distances must hold at least one stage"),
        ([("a", -1.0)], "distance of 'a' must be zero or a positive"),
        ([("a", np.nan)], "distance of 'a' must be finite"),
    ],
)
def test_missing_and_invalid_distances_are_refused(stages, message: str):
    with pytest.raises(InvalidValueError, match=message):
        headline_figure(stages, panel(), panel())
