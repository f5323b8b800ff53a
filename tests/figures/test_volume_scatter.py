"""The figure of volumes: each scan where it belongs, in the colour of its site."""

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.figures.style import colours
from ndflow.figures.volume_scatter import VolumePanel, volume_picture

VOLUMES = np.array([700.0, 650.0, 600.0, 720.0, 610.0])
SITES = ["b", "b", "a", "a", "a"]
AGES = np.array([20.0, 40.0, 30.0, 25.0, 60.0])


def test_scans_are_drawn_at_their_age_in_the_colour_of_their_site() -> None:
    axes = volume_picture(VolumePanel("GM", VOLUMES, SITES, AGES), sites="abc").axes[0]
    drawn = {
        (line.get_color(), x, y)
        for line in axes.lines
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    palette = colours("abc")
    assert drawn == {
        (palette[site], age, volume) for site, age, volume in zip(SITES, AGES, VOLUMES, strict=True)
    }
    assert (axes.get_title(loc="left"), axes.get_xlabel()) == ("GM, ml", "age")


def test_without_ages_scans_stand_over_their_site_with_its_median() -> None:
    axes = volume_picture(VolumePanel("GM", VOLUMES, SITES)).axes[0]
    medians = {
        round(float(np.mean(line.get_xdata()))): line.get_ydata()[0]
        for line in axes.lines
        if line.get_linestyle() == "-"
    }
    assert medians == {0: 610.0, 1: 675.0}
    for line in axes.lines:
        (site,) = {round(x) for x in line.get_xdata()}
        assert np.abs(np.asarray(line.get_xdata()) - site).max() < 0.5
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b"]


def test_sites_of_one_colour_have_different_marks() -> None:
    many = [f"site {number}" for number in range(10, 20)]
    axes = volume_picture(VolumePanel("GM", np.arange(10.0), many, np.arange(10.0))).axes[0]
    assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == 10


@pytest.mark.parametrize(
    ("volumes", "sites", "ages"),
    [([], [], None), ([1.0], ["a", "b"], None), ([1.0], ["a"], np.array([1.0, 2.0]))],
)
def test_what_does_not_fit_together_is_refused(volumes: list, sites: list, ages: object) -> None:
    with pytest.raises(InvalidValueError):
        VolumePanel("GM", np.array(volumes), sites, ages)
