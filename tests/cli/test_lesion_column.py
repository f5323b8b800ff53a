"""The column ``lesion``: its voxels are mapped, and nothing else depends on them.

Two studies differ only in what their scans show inside the lesions: dark voxels that the tissue
maps call CSF, or bright ones that these call WM. Everything else must be the same to the last bit.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import typed
from compared_runs import numbers
from numpy.typing import NDArray
from phantoms import head, radii, save, tissue_shares, voxels_of
from studies import SITES, SMALL, read_json, write_tsv

import ndflow
from ndflow.evaluation.comparison import compare
from ndflow.study.finished import read_finished
from ndflow.study.tasks import Silent

COUNT = 4
CONTENTS = {"dark": (40, "csf"), "bright": (2400, "wm")}
WAYS: dict[str, tuple[str, ...]] = {
    "nyul": ("--method", "nyul"),
    "tissue": ("--proportions", "tissue", "--mode", "two-level"),
}
SHOWN = ("checksum", "sha256", "inputs", "outputs", "fingerprint")  # of files, which differ


def lesion_of(number: int) -> NDArray[np.bool_]:
    """Return the lesion of a scan, on one side of its brain; the first two scans have none."""
    side = np.arange(SMALL[0])[:, np.newaxis, np.newaxis] > 5 + number
    return (radii(SMALL) < 0.8) & side & (number > 1)


class Lesions:
    """Scans of two sites, most with a lesion that shows the same as in no other study."""

    def __init__(self, folder: Path, content: str) -> None:
        self.folder = folder
        folder.mkdir()
        value, tissue = CONTENTS[content]
        rows = []
        for number in range(COUNT):
            site = list(SITES)[number % 2]
            csf, grey, gain = SITES[site]
            where = lesion_of(number)
            image = head(number, shape=SMALL, tissues=((csf, 60.0), (grey, 50.0), (1000.0, 40.0)))
            image[where] = value + np.arange(np.count_nonzero(where)) % 7
            row = {"image": f"s{number}.nii.gz", "site": site, "lesion": ""}
            save(folder / row["image"], np.rint(gain * image).astype(np.int16))
            if where.any():
                row["lesion"] = f"l{number}.nii.gz"
                save(folder / row["lesion"], where.astype(np.uint8))
            for name, share in tissue_shares(SMALL).items():
                row[name] = f"{name}{number}.nii.gz"
                save(folder / row[name], np.where(where, float(name == tissue), share))
            rows.append(row)
        self.table = write_tsv(folder / "t.tsv", rows)
        self.run = cache(self._run)

    def _run(self, way: str) -> Path:
        typed("cohort", self.table, self.folder / way, "-q", "--no-report", *WAYS[way])
        return self.folder / way

    def scan(self, number: int) -> NDArray[np.float64]:
        return voxels_of(self.folder / f"s{number}.nii.gz")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[Lesions]:
    place = tmp_path_factory.mktemp("lesions")
    return [Lesions(place / content, content) for content in CONTENTS]


def said(path: Path) -> Any:
    """Return what a model file says, without the files that it was made from."""
    return {name: part for name, part in read_json(path).items() if name not in SHOWN}


@pytest.mark.parametrize("way", WAYS)
def test_lesions_are_mapped_and_nothing_that_is_learned_depends_on_them(
    pair: list[Lesions], way: str
) -> None:
    dark, bright = (study.run(way) for study in pair)
    names = sorted(path.relative_to(dark) for path in dark.rglob("*.json"))
    models = [name for name in names if name.name != "provenance.json"]
    assert len(models) >= 2 * COUNT + 1
    for name in models:
        assert said(dark / name) == said(bright / name), name
    for number in range(2, COUNT):
        where = lesion_of(number)
        one, two = (voxels_of(out / f"images/s{number}.nii.gz") for out in (dark, bright))
        assert np.array_equal(one[~where], two[~where])
        imap = ndflow.load(bright / f"maps/s{number}.json")
        exact = imap(pair[1].scan(number)[where])
        np.testing.assert_allclose(two[where], exact, rtol=1e-4, atol=0.01)
        assert two[where].min() > one[where].max()


def test_an_evaluation_leaves_lesions_out(pair: list[Lesions]) -> None:
    dark, bright = (
        numbers(compare(read_finished([study.run("nyul")]), Silent(), permutations=0, trees=2))
        for study in pair
    )
    assert {"tissue", "fitness", "measures", "classification"} <= dark.keys()
    assert dark == bright
