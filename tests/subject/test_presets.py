"""Presets: what is used where nothing is chosen, and why."""

from typing import Any

import pytest

from ndflow.options import Options
from ndflow.subject.presets import (
    AUTO,
    Choices,
    PresetRecord,
    StudyFacts,
    TargetFacts,
    settled_match,
    settled_study,
)

MANY = 30
SITES = {"Aachen": 5, "Bonn": 25}


def facts(scans: int = MANY, sites: Any = SITES, **more: Any) -> StudyFacts:
    return StudyFacts(scans, sites, **more)


# What a study has, what follows, and the end of the reason.
DECIDED: list[tuple[StudyFacts, str, str, str]] = [
    (facts(), "two-level", "adaptive", "2 sites with 5 to 25 scans and no tissue maps"),
    (facts(with_maps=MANY), "two-level", "tissue", "scans and tissue maps of all scans"),
    (facts(with_maps=MANY, one_labeller=False), "two-level", "adaptive", "that differ by site"),
    (facts(sites={"A": 4, "B": 26}), "individual", "adaptive", "(fewer than 2 with 5 or more) and"),
    (facts(sites={"A": 15, "B": 14}), "individual", "adaptive", "are scans without a site and"),
    (facts(sites={"A": 30}), "individual", "adaptive", "is one site and no tissue maps"),
    (facts(9, {"A": 5, "B": 4}, with_maps=3), "individual", "average", "and only 9 scans"),
    (facts(can_split=False), "two-level", "average", "and no tissues that can be told apart"),
    (facts(can_split=False, with_maps=4), "two-level", "adaptive", "tissue maps of 4 of 30"),
    (facts(given=TargetFacts(MANY, "components")), "two-level", "adaptive", "of 30 scans"),
    (facts(with_maps=MANY, given=TargetFacts(4, "maps")), "two-level", "tissue", "scans with maps"),
    (facts(given=TargetFacts(4, "components")), "two-level", "average", "a reference of 4"),
    (facts(given=TargetFacts(40)), "two-level", "average", "of 40 scans without tissues"),
]


@pytest.mark.parametrize(("known", "mode", "proportions", "because"), DECIDED)
def test_auto_decides_by_what_a_study_has(
    known: StudyFacts, mode: Any, proportions: Any, because: str
) -> None:
    options, preset = settled_study(Choices(), known)
    assert options == Options(mode=mode, proportions=proportions, **AUTO)
    assert preset is not None
    assert because in preset.text.partition(", because there ")[2]
    assert preset.chosen == ()


def test_the_paper_is_the_paper_whatever_a_study_has() -> None:
    for known in (facts(), facts(with_maps=MANY), facts(2, {})):
        options, preset = settled_study(Choices("paper"), known)
        assert options == Options()
        words = "individual, average proportions, averaged densities"
        assert preset == PresetRecord("paper", words)


def test_what_is_chosen_is_used_also_where_it_is_what_another_preset_says() -> None:
    chosen = {"mode": "individual", "average": "density", "proportions": "average"}
    chosen |= {"objective": "l2", "regularisation": 0.01}
    options, preset = settled_study(Choices("auto", chosen), facts(with_maps=MANY))
    assert options == Options(regularisation=0.01)
    words = "individual (chosen), average proportions (chosen), averaged densities (chosen), "
    words += "objective l2 (chosen), regularisation 0.01 (chosen)"
    assert preset == PresetRecord("auto", words, None, tuple(chosen))
    one = settled_study(Choices("paper", {"objective": "cramer"}), facts())
    assert one.options == Options(objective="cramer")


@pytest.mark.parametrize(
    ("target", "maps", "expected", "because"),
    [
        (TargetFacts(), False, "average", "is a target of one scan"),
        (TargetFacts(20, "maps"), True, "tissue", "are tissue maps and a reference of 20 scans"),
        (TargetFacts(20, "maps"), False, "adaptive", "are no tissue maps and a reference of 20"),
        (TargetFacts(20, "components"), False, "adaptive", "a reference of 20 scans"),
        (TargetFacts(4, "components"), False, "average", "is a reference of 4 scans"),
        (TargetFacts(20), False, "average", "is a reference of 20 scans without tissues"),
    ],
)
def test_auto_decides_for_single_scans_by_what_the_target_knows(
    target: TargetFacts, maps: bool, expected: str, because: str
) -> None:
    options, preset = settled_match(Choices(), target, maps=maps)
    assert options.proportions == expected
    assert options.objective == AUTO["objective"]
    assert preset is not None
    assert because in preset.text.partition(", because there ")[2]
    assert settled_match(Choices("paper"), target, maps=maps).options == Options()
