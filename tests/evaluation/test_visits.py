"""What has changed between the scans of one person, computed again from the images on disc."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from compared_runs import NAMES, SUBJECT, Rows, numbers
from phantoms import head, save, voxels_of
from studies import Silent, write_tsv

import ndflow
from ndflow.evaluation.comparison import compare
from ndflow.evaluation.summary import verdict
from ndflow.evaluation.tables import tables
from ndflow.study.finished import read_finished

SHAPE, ZOOMS = (20, 18, 16), (3.0, 2.0, 5.0)
BLOCK = (4, 6, 2)  # 12 mm, or as near as can be
MOVED = (5.0, 2.0, 3.0)


def test_differences_of_visits_are_those_of_means_over_blocks_within_both_masks(
    tmp_path: Path,
) -> None:
    shade = 1 + 0.2 * np.linspace(-1, 1, SHAPE[0])[:, np.newaxis, np.newaxis]
    rows = []
    for number, (person, zooms) in enumerate(
        [("ann", ZOOMS), ("bob", ZOOMS), ("ann", ZOOMS), ("bob", MOVED), ("eve", ZOOMS)]
    ):
        data = 40 * head(number, shape=SHAPE) * (shade if number == 2 else 1)
        mask = (data != 0).astype(np.uint8)
        mask[:, : 2 * number] = 0
        names = {"image": f"s{number}.nii.gz", "mask": f"m{number}.nii.gz"}
        save(tmp_path / names["image"], data.astype(np.uint16), np.diag([*zooms, 1]))
        save(tmp_path / names["mask"], mask, np.diag([*zooms, 1]))
        rows.append(names | {"subject": person})
    out = tmp_path / "out"
    ndflow.cohort(write_tsv(tmp_path / "t.tsv", rows), out, report=False)
    comparison = compare(read_finished([out]), Silent(), permutations=0, trees=1)
    made = numbers(comparison)

    insides = [voxels_of(tmp_path / row["mask"]) > 0 for row in rows]
    both = insides[0] & insides[2]
    folders = {"unnormalised": tmp_path, "out": out / "images"}
    for condition, folder in folders.items():
        images = [voxels_of(folder / row["image"]) for row in rows]
        change, means = images[2] - images[0], []
        for corner in product(*map(range, (0, 0, 0), SHAPE, BLOCK)):
            part = tuple(slice(a, a + n) for a, n in zip(corner, BLOCK, strict=True))
            if both[part].sum() >= 0.5 * np.prod(BLOCK):
                means.append(change[part][both[part]].mean())
        pairs = zip(images, insides, strict=True)
        sd = np.mean([image[inside].std() for image, inside in pairs])
        expected = np.sqrt(np.mean(np.square(means))) / sd
        assert len(means) > 10
        assert made["visits"][condition, "s2"]["shading"] == pytest.approx(expected, rel=1e-4)
        assert made["visits"][condition, "s3"]["shading"] is None  # on another grid
        assert made["measures"][condition,]["shading"] == pytest.approx(expected, rel=1e-4)
    advice = "correct the bias fields of the visits together"
    assert advice in " ".join(verdict(comparison, tables(comparison)).split())
    alone = [row for row in rows if row["image"] != "s2.nii.gz"]
    ndflow.cohort(write_tsv(tmp_path / "u.tsv", alone), tmp_path / "moved", report=False)
    moved = compare(read_finished([tmp_path / "moved"]), Silent(), permutations=0, trees=1)
    assert advice not in " ".join(verdict(moved, tables(moved)).split())


def test_changes_and_spread_within_people_are_those_of_the_medians_of_their_scans(
    several: Rows,
) -> None:
    for condition in ("affine", "flow", "nyul"):
        spreads = []
        for tissue in ("WM", "GM", "CSF"):
            features = [several["features"][condition, name] for name in NAMES]
            medians = np.array([float(row[f"{tissue}_Q2"] or 0) for row in features])
            pairs = medians[:10].reshape(5, 2)  # of the subjects that have two scans
            for pair, name, person in zip(pairs, NAMES[1::2], SUBJECT[::2], strict=False):
                row = several["visits"][condition, name]
                assert row["subject"] == person
                assert row[tissue] == pytest.approx(pair[1] - pair[0])
            spreads.append(np.sqrt(pairs.var(axis=1, ddof=1).mean()))
            row = several["measures"][condition,]
            assert row[f"person_{tissue}"] == pytest.approx(spreads[-1])
        assert several["measures"][condition,]["person"] == pytest.approx(np.mean(spreads))
    change = several["changes"]["nyul", "flow", "person"]
    before, after = (several["measures"][name,]["person"] for name in ("flow", "nyul"))
    assert change["change"] == pytest.approx(float(after or 0) / float(before or 1))
