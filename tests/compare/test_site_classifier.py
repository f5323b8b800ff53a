"""Features for the classification of sites use nothing of the scans under test."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_runs import NAMES, SITE, TREES, Array, Desk

from ndflow.compare.site_classifier import classify_fold
from ndflow.study.finished import FinishedStudy, read_finished


def features_of(run: FinishedStudy) -> Callable[[], tuple[Array, ...]]:
    """Return a function that computes features of training and test scans."""
    scans = list(run.study.scans)
    voxels = np.random.default_rng(0).uniform(300, 900, (12, 50)).astype(np.float32)

    def features() -> tuple[Array, ...]:
        return classify_fold(voxels, scans, run.study, (TRAIN, TEST), seed=0, trees=TREES).features

    return features


TRAIN, TEST = np.arange(0, 12, 2), np.arange(1, 12, 2)
WAYS: dict[str, dict[str, Any]] = {
    "flow": {},
    "nyul": {"method": "nyul"},
    "site": {"mode": "site"},
}


@pytest.fixture
def copied(desk: Desk, tmp_path: Path) -> Callable[..., FinishedStudy]:
    """Return a function that copies a finished study, so that it may be changed."""

    def copy(name: str, **how: Any) -> FinishedStudy:
        shutil.copytree(desk.run(name, **how), tmp_path / name)
        return read_finished([tmp_path / name])[0]

    return copy


def swap(run: FinishedStudy, number: int) -> None:
    """Give a scan the model of another scan of its site."""
    models = run.study.folder / "models"
    shutil.copy(models / f"{NAMES[number ^ 2]}.json", models / f"{NAMES[number]}.json")


@pytest.mark.parametrize("way", WAYS)
def test_no_test_scan_leaks_into_the_features_of_others(
    way: str, copied: Callable[..., FinishedStudy]
) -> None:
    run = copied(way, **WAYS[way])
    features = features_of(run)
    before = features()
    swap(run, int(TEST[2]))
    known, tested = features()
    assert np.array_equal(known, before[0])
    changed = (tested != before[1]).any(axis=1)
    assert changed.tolist() == [place == 2 for place in range(6)]
    swap(run, int(TRAIN[3]))
    assert (features()[1] != tested).any(axis=1).all() or way == "site"
    assert (features()[1] != tested).any(axis=1)[3]  # of the same site


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_a_given_reference_is_used_and_references_of_sites_are_nested(
    mode: str, desk: Desk, copied: Callable[..., FinishedStudy]
) -> None:
    # In a folder of its own, without the references of sites beside it.
    alone = desk.folder / f"alone_{mode}" / "reference.json"
    alone.parent.mkdir()
    shutil.copy(desk.run("flow") / "reference.json", alone)
    run = copied(f"given_{mode}", mode=mode, given=alone)
    features = features_of(run)
    before = features()
    swap(run, int(TRAIN[0]))
    changed = (features()[1] != before[1]).any(axis=1)
    first = [site == SITE[0] for site in np.array(SITE)[TEST]]
    assert changed.tolist() == [mode == "site" and own for own in first]
