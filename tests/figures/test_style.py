"""Colours, line styles, labels and legends, for any names of sites."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from ndflow.figures.style import colours, label, line_styles, new_figure, site_legend

names = st.sets(st.text(max_size=50), min_size=1, max_size=24)


@settings(max_examples=20)
@given(names)
def test_24_sites_have_distinct_pairs_of_colour_and_line_style(sites: set[str]):
    colour, line = colours(sites), line_styles(sites)
    assert colour.keys() == line.keys() == sites
    assert len({(colour[name], line[name]) for name in sites}) == len(sites)


# Simulations of colour-vision deficiencies as linear maps of linear RGB (Machado, Oliveira and
# Fernandes 2009, at full severity).
VISION = {
    "full": np.eye(3),
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("vision", VISION)
def test_the_first_six_colours_are_distinct_with_any_colour_vision(vision: str):
    rgb = np.array([to_rgb(c) for c in colours("abcdef").values()])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(VISION[vision]).T, 0, 1) ** (1 / 2.2)
    between = np.linalg.norm(seen[:, None] - seen, axis=-1)[np.triu_indices(6, 1)]
    assert between.min() > 0.1


@given(st.text(alphabet=st.characters(), max_size=200))
def test_labels_contain_nothing_that_breaks_lines_or_xml(text: str):
    shown = label(text)
    assert shown.isprintable() or shown == ""
    assert len(shown) <= 50
    shown.encode()
    assert label("a\tb\nc\x00d\udc80") == "a b c\ufffdd\ufffd"


@pytest.mark.parametrize(("length", "letter"), [(3, "n"), (50, "W")])
def test_a_legend_lists_every_site_and_is_not_wider_than_its_figure(length: int, letter: str):
    counts = {f"_{i:02}$".ljust(length, letter): i for i in range(12)}
    with new_figure(9.3, 4) as figure:
        figure.add_subplot()
        site_legend(figure, counts)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        f"{n} ({i})" for n, i in counts.items()
    ]
    assert [line.get_color() for line in legend.get_lines()] == [*colours(counts).values()]
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
