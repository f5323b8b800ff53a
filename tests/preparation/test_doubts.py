"""Doubts about prepared scans: real scans, deliberate failures, and each bound by itself."""

from dataclasses import replace

import pytest

from ndflow.preparation.volume import Measures, preparation_doubts

# What `prepare_volume` measured in raw heads with masks of deepbet, all steps done.
HEAD = Measures(1466.2, (296.8, 685.4, 484.0), (0.758, 1.313), 0.988, 0.747, 0.752)
GOOD = {
    "head": HEAD,
    "small": Measures(1090.9, (230.7, 528.0, 332.2), (0.891, 1.111), 0.986, 0.753, 0.759),
    "medium": Measures(1339.2, (277.5, 630.1, 431.6), (0.786, 1.290), 0.984, 0.758, 0.772),
    "large": Measures(1648.5, (398.1, 699.1, 551.3), (0.795, 1.346), 0.987, 0.712, 0.741),
}
# And in another one with a wrong header or a wrong mask; the kinds that are found.
FAILED = {
    "upside down": (
        Measures(1560.7, (303.5, 748.9, 508.3), (0.866, 1.221), 0.977, 0.673, 0.500),
        {"unlike the template"},
    ),
    "facing backwards": (
        Measures(1560.7, (286.6, 781.7, 492.4), (0.862, 1.225), 0.964, 0.692, 0.493),
        {"unlike the template"},
    ),
    "axes swapped": (
        Measures(1560.7, (343.7, 809.7, 407.3), (0.861, 1.221), 0.971, 0.681, 0.454),
        {"unlike the template"},
    ),
    "one hemisphere": (
        Measures(768.4, (148.0, 382.5, 238.0), (0.862, 1.251), 0.918, 0.684, 0.435),
        {"template does not fit", "unlike the template"},
    ),
    "lower half": (
        Measures(775.8, (162.5, 372.8, 240.5), (0.830, 1.244), 0.876, 0.710, 0.685),
        {"template does not fit"},
    ),
    "anterior half": (
        Measures(763.3, (158.8, 336.7, 267.8), (0.871, 1.187), 0.895, 0.746, 0.749),
        {"template does not fit"},
    ),
    "mask shifted by 25 mm": (
        Measures(1560.7, (332.9, 773.6, 454.1), (0.933, 1.076), 0.964, 0.700, 0.505),
        {"unlike the template"},
    ),
    "whole head": (
        Measures(3649.0, (921.7, 1970.9, 756.3), (0.614, 1.403), 0.920, 0.729, 0.324),
        {"mask too wide", "template does not fit", "unlike the template"},
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
