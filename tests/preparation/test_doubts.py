"""Doubts about prepared scans: real scans, deliberate failures, and each bound by itself."""

from dataclasses import replace

import pytest

from ndflow.preparation.volume import Measures, preparation_doubts

# What `prepare_volume` measured in raw heads with masks of deepbet, all steps done.
HEAD = Measures(1466.2, (297.0, 696.8, 472.4), (0.755, 1.322), 0.976, 0.742, 0.612)
GOOD = {
    "head": HEAD,
    "small": Measures(1090.9, (232.1, 531.3, 327.5), (0.895, 1.113), 0.973, 0.733, 0.620),
    "medium": Measures(1339.2, (273.3, 648.4, 417.5), (0.793, 1.290), 0.970, 0.753, 0.631),
    "large": Measures(1648.5, (374.2, 746.9, 527.5), (0.776, 1.346), 0.972, 0.718, 0.597),
}
# And in the first of them with a wrong header or a wrong mask; the kinds that are found.
FAILED = {
    "upside down": (
        Measures(1466.2, (212.2, 836.1, 417.8), (0.754, 1.326), 0.981, 0.669, 0.331),
        {"unlike the template"},
    ),
    "facing backwards": (
        Measures(1466.2, (243.5, 864.4, 358.3), (0.755, 1.322), 0.971, 0.673, 0.316),
        {"unlike the template"},
    ),
    "axes swapped": (
        Measures(1466.2, (268.7, 870.2, 327.3), (0.755, 1.322), 0.975, 0.669, 0.256),
        {"unlike the template"},
    ),
    "one hemisphere": (
        Measures(701.6, (122.5, 357.1, 222.0), (0.778, 1.361), 0.888, 0.739, 0.591),
        {"template does not fit"},
    ),
    "lower half": (
        Measures(691.7, (125.3, 351.2, 215.2), (0.722, 1.313), 0.874, 0.709, 0.571),
        {"template does not fit"},
    ),
    "posterior half": (
        Measures(671.7, (116.5, 316.8, 238.4), (0.784, 1.210), 0.898, 0.735, 0.604),
        {"template does not fit"},
    ),
    "mask shifted by 25 mm": (
        Measures(1466.2, (389.0, 811.1, 266.1), (0.889, 1.345), 0.897, 0.688, 0.260),
        {"template does not fit", "unlike the template"},
    ),
    "whole head": (
        Measures(3509.7, (1873.1, 1083.7, 552.8), (0.755, 1.398), 0.810, 0.769, 0.164),
        {"mask too wide", "template does not fit", "unlike the template", "unusual tissues"},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_scans_are_not_flagged(name: str) -> None:
    assert preparation_doubts(GOOD[name]) == ()


@pytest.mark.parametrize("name", FAILED)
def test_failures_are_flagged(name: str) -> None:
    measures, expected = FAILED[name]
    assert {doubt.kind for doubt in preparation_doubts(measures)} == expected


# From here on, numbers are made up.


@pytest.mark.parametrize(
    ("tissues", "words"),
    [
        ((300.0, 1000.0, 100.0), "7% of the brain is WM"),
        ((800.0, 400.0, 200.0), "57% of the brain is CSF"),
        ((200.0, 250.0, 950.0), "18% of the brain is GM"),
    ],
)
def test_a_tissue_that_is_hardly_there_or_everywhere_is_named(
    tissues: tuple[float, float, float], words: str
) -> None:
    (doubt,) = preparation_doubts(replace(HEAD, tissues_ml=tissues))
    assert doubt.kind == "unusual tissues"
    assert words in doubt.text


@pytest.mark.parametrize("tissues", [(60.0, 620.0, 320.0), (560.0, 530.0, 410.0)])
def test_little_csf_or_much_of_it_is_not_flagged(tissues: tuple[float, float, float]) -> None:
    assert not preparation_doubts(replace(HEAD, tissues_ml=tissues))


def test_an_implausible_bias_field_is_flagged_with_its_range() -> None:
    (doubt,) = preparation_doubts(replace(HEAD, field=(0.4, 2.1)))
    assert (doubt.kind, "0.40 to 2.10" in doubt.text) == ("strong bias field", True)
    assert not preparation_doubts(replace(HEAD, field=(0.6, 1.8)))


def test_a_small_mask_is_flagged() -> None:
    (doubt,) = preparation_doubts(Measures(540.0))
    assert doubt.kind == "mask too small"


def test_what_was_not_measured_is_not_doubted() -> None:
    assert preparation_doubts(Measures(1339.2)) == ()
    assert preparation_doubts(replace(HEAD, tissues_ml=(0.0, 0.0, 0.0))) == ()
