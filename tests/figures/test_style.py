"""Colours, line styles, labels and legends, for any names of sites."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndflow.figures.style import colours, label, line_styles, new_figure, site_legend

names = st.sets(st.text(max_size=50), min_size=1, max_size=24)


@settings(max_examples=20)
@given(names)
def test_24_sites_have_distinct_pairs_of_colour_and_line_style(sites: set[str]):
    colour, line = colours(sites), line_styles(sites)
    assert colour.keys() == line.keys() == sites
    assert len({(colour[name], line[name]) for name in sites}) == len(sites)


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
