"""Doubts about prepared scans: real scans, deliberate failures, and each bound by itself."""

from dataclasses import replace

import pytest

from ndflow.preparation.registration import ChannelFit
from ndflow.preparation.volume import Measures, preparation_doubts

# What `prepare_volume` measured in raw heads with the mask of deepbet, and with wrong ones.
HEAD = Measures(1466.2, (296.8, 685.4, 484.0), (0.758, 1.313), 0.988, 0.747, 0.752)
FIT, UNLIKE = "template does not fit", "unlike the template"
OTHER = "channel does not fit"


def _fit(moved: float, likeness: float, covered: float) -> Measures:
    return replace(HEAD, channels={"FLAIR": ChannelFit((), moved, likeness, covered)})


CASES: dict[str, tuple[Measures, set[str]]] = {
    "good": (HEAD, set()),
    "small": (Measures(1090.9, (230.7, 528.0, 332.2), (0.891, 1.111), 0.986, 0.753, 0.759), set()),
    "large": (Measures(1648.5, (398.1, 699.1, 551.3), (0.795, 1.346), 0.987, 0.712, 0.741), set()),
    "upside down": (
        Measures(1560.7, (303.5, 748.9, 508.3), (0.866, 1.221), 0.977, 0.673, 0.500),
        {UNLIKE},
    ),
    "one hemisphere": (
        Measures(768.4, (148.0, 382.5, 238.0), (0.862, 1.251), 0.918, 0.684, 0.435),
        {FIT, UNLIKE},
    ),
    "lower half": (
        Measures(775.8, (162.5, 372.8, 240.5), (0.830, 1.244), 0.876, 0.710, 0.685),
        {FIT},
    ),
    "whole head": (
        Measures(3649.0, (921.7, 1970.9, 756.3), (0.614, 1.403), 0.920, 0.729, 0.324),
        {"mask too wide", FIT, UNLIKE},
    ),
    # From here on, numbers are made up.
    "nothing but a volume": (Measures(1339.2), set()),
    "a small mask": (Measures(540.0), {"mask too small"}),
    "no tissues": (replace(HEAD, tissues_ml=(0.0, 0.0, 0.0)), set()),
    "little CSF": (replace(HEAD, tissues_ml=(60.0, 620.0, 320.0)), set()),
    "much CSF": (replace(HEAD, tissues_ml=(560.0, 530.0, 410.0)), set()),
    "hardly WM": (replace(HEAD, tissues_ml=(300.0, 1000.0, 100.0)), {"unusual tissues"}),
    "mostly CSF": (replace(HEAD, tissues_ml=(800.0, 400.0, 200.0)), {"unusual tissues"}),
    "a bias field": (replace(HEAD, field=(0.6, 1.8)), set()),
    "a strong bias field": (replace(HEAD, field=(0.4, 2.1)), {"strong bias field"}),
    # FLAIR and T2w of people with multiple sclerosis, and another made-up one.
    "a channel": (_fit(14.5, 1.084, 1.0), set()),
    "a mirrored channel": (_fit(12.0, 1.04, 1.0), {OTHER}),
    "a channel far away": (_fit(35.0, 1.1, 1.0), {OTHER}),
    "a channel of half a head": (_fit(2.0, 1.1, 0.6), {OTHER}),
}


@pytest.mark.parametrize("name", CASES)
def test_failures_are_flagged_and_good_scans_are_not(name: str) -> None:
    measures, expected = CASES[name]
    assert {doubt.kind for doubt in preparation_doubts(measures)} == expected
