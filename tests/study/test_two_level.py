"""A study in two levels: the map of the site, and then the scan's own."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import head, radii, save, voxels_of

import ndflow
from ndflow import Chain, align
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.scan_table import Row
from ndflow.settings import Averaging, Matching
from ndflow.study.parallel.tasks import Outcome
from ndflow.study.passes import Study
from ndflow.study.run import Summary, members_of, run_cohort

SHAPE = (16, 18, 14)
LOOKS = {
    "Aachen": ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0)),
    "Bonn": ((250.0, 50.0), (820.0, 45.0), (1000.0, 40.0)),
}
EDGES = (0.88, 0.98, 0.93, 0.95, 0.9, 1.0)  # of heads: the larger, the more fluid
ACCOUNTS = ("provenance.json", "scans.tsv")


class Silent:
    """Somebody who looks on and says nothing."""

    def begin(self, stage: str, total: int) -> None: ...

    def step(self, stage: str, outcome: Outcome) -> None:
        assert outcome.failure is None


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("scans")
    made = []
    for number, edge in enumerate(EDGES):
        site, inside = ("Aachen", "Bonn")[number % 2], radii(SHAPE) < edge
        look: dict[str, Any] = {"tissues": LOOKS[site], "gain": 1 + 0.2 * number}
        kinds = head(number, shape=SHAPE, tissues=((1, 0), (2, 0), (3, 0))) * inside
        image = save(folder / f"s{number}.nii.gz", head(number, shape=SHAPE, **look) * inside)
        maps = {
            name: str(save(folder / f"s{number}_{name}.nii.gz", (kinds == k).astype(np.uint8)))
            for k, name in enumerate(("csf", "gm", "wm"), 1)
        }
        made.append(Row(number, str(image), site=site, **maps))
    return made


def run(
    rows: Sequence[Row], folder: Path, mode: Any, target: Any = "average", **more: Any
) -> Summary:
    matching = replace(more.pop("matching", Matching()), target=target)
    members = members_of(rows, folder)
    study = Study(folder, members, Averaging(mode), matching=matching, channel="T1w", **more)
    return run_cohort(study, rows, Silent(), command=["test"], force=False)


@pytest.fixture(scope="module")
def done(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that runs a study once for each choice."""

    @cache
    def folder(mode: str, target: str = "average") -> Path:
        out = tmp_path_factory.mktemp("study") / "out"
        assert run(rows, out, mode, target) == Summary(len(rows), 0, [])
        return out

    return folder


def contents(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in ACCOUNTS
    }


def record(out: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
    return found


def quartiles(rows: Sequence[Row], out: Path) -> NDArray[np.float64]:
    """Of each tissue in each image, (scans, 9)."""
    return np.array(
        [
            np.concatenate(
                [
                    np.percentile(
                        voxels_of(out / f"images/s{row.number}.nii.gz")[inside], (25, 50, 75)
                    )
                    for inside in (
                        voxels_of(path) == 1 for path in (row.csf, row.gm, row.wm) if path
                    )
                ]
            )
            for row in rows
        ]
    )


@pytest.mark.parametrize("target", ["average", "tissue", "adaptive"])
def test_each_map_goes_through_that_of_the_site(
    rows: list[Row], done: Callable[..., Path], target: str
) -> None:
    out = done("two-level", target)
    for row in rows:
        imap = ndflow.load(out / f"maps/s{row.number}.json")
        assert isinstance(imap, Chain)
        assert imap.maps[0] == align(ndflow.load(out / f"models/s{row.number}.json"))
        assert imap.maps[1] == ndflow.load(out / f"map_{row.site}.json")
        before, after = voxels_of(row.image), voxels_of(out / f"images/s{row.number}.nii.gz")
        inside = before != 0
        np.testing.assert_allclose(after[inside], imap(before[inside]), atol=1e-3)
        assert not after[~inside].any()
        assert ("aim" in record(out, f"maps/s{row.number}")) == (target != "average")


def test_tissues_of_all_sites_come_to_lie_together(
    rows: list[Row], done: Callable[..., Path]
) -> None:
    average = quartiles(rows, done("two-level")).std(axis=0)
    tissue = quartiles(rows, done("two-level", "tissue")).std(axis=0)
    adaptive = quartiles(rows, done("two-level", "adaptive")).std(axis=0)
    site = quartiles(rows, done("site")).std(axis=0)
    assert tissue.mean() < 0.6 * average.mean()
    assert tissue.mean() < 0.3 * site.mean()
    assert adaptive.mean() < 0.6 * average.mean()


def test_references_are_those_of_any_mode_and_tissues_stand_beside_that_of_all(
    done: Callable[..., Path],
) -> None:
    for target in ("tissue", "adaptive"):
        out = done("two-level", target)
        for name in ("reference", "reference_Aachen", "reference_Bonn"):
            plain = record(done("site"), name)["reference"]
            assert record(out, name)["reference"] == plain
            assert ("tissues" in record(out, name)) == (name == "reference")
    assert "tissues" not in record(done("two-level"), "reference")
    assert record(done("two-level", "tissue"), "reference")["tissues"]["source"] == "maps"


def test_the_tissues_of_a_study_have_the_mean_proportions_of_its_maps(
    rows: list[Row], done: Callable[..., Path]
) -> None:
    sums = np.array([[voxels_of(p).sum() for p in (r.csf, r.gm, r.wm) if p] for r in rows])
    shares = sums / sums.sum(axis=1, keepdims=True)
    tissues = record(done("two-level", "tissue"), "reference")["tissues"]
    np.testing.assert_allclose(tissues["mean"], shares.mean(axis=0), rtol=1e-9)
    for row, own in zip(rows, shares, strict=True):
        aim = record(done("two-level", "tissue"), f"maps/s{row.number}")["aim"]
        np.testing.assert_allclose(list(aim["proportions"].values()), own, rtol=1e-9)
        found = record(done("two-level", "adaptive"), f"maps/s{row.number}")["aim"]["proportions"]
        assert found["CSF"] == pytest.approx(own[0], abs=0.03)


def test_a_second_run_keeps_everything_and_two_workers_make_the_same(
    rows: list[Row], done: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run(rows, out, "two-level", "tissue", jobs=2) == Summary(6, 0, [])
    made = contents(out)
    assert made == contents(done("two-level", "tissue"))
    when = {name: (out / name).stat().st_mtime_ns for name in made}
    assert run(rows, out, "two-level", "tissue") == Summary(6, 6, [])
    assert {name: (out / name).stat().st_mtime_ns for name in made} == when
    # In any order, the same.
    assert run(rows[::-1], tmp_path / "turned", "two-level", "tissue").done == 6
    assert contents(tmp_path / "turned") == made


def test_another_mode_or_target_is_done_again_and_leaves_no_trace(
    rows: list[Row], done: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    # The last two share their target and all references: the further step alone tells them apart.
    for mode, target in (
        ("two-level", "adaptive"),
        ("two-level", "average"),
        ("site", "average"),
    ):
        assert run(rows, out, mode, target) == Summary(6, 0, [])
        assert contents(out) == contents(done(mode, target))


def test_another_map_of_a_tissue_changes_the_result(rows: list[Row], tmp_path: Path) -> None:
    out, three = tmp_path / "out", rows[:3]
    assert run(three, out, "individual", "tissue").kept == 0
    first = record(out, "maps/s0")["aim"]["proportions"]["WM"]
    half = voxels_of(str(rows[0].wm)) * 0.5
    changed = replace(rows[0], wm=str(save(tmp_path / "half.nii.gz", half)))
    assert run([changed, *three[1:]], out, "individual", "tissue").kept == 0
    second = record(out, "maps/s0")["aim"]["proportions"]["WM"]
    assert second == pytest.approx(0.5 * first / (1 - 0.5 * first), rel=1e-6)


def test_a_reference_with_tissues_serves_other_scans(
    rows: list[Row], done: Callable[..., Path], tmp_path: Path
) -> None:
    given = done("two-level", "tissue") / "reference.json"
    other = rows[2:4]
    out = tmp_path / "out"
    assert run(other, out, "two-level", "tissue", given=str(given)).done == 2
    for row in other:  # known sites, so the same in every bit
        name = f"images/s{row.number}.nii.gz"
        assert (out / name).read_bytes() == (given.parent / name).read_bytes()


def test_without_any_maps_components_are_grouped(rows: list[Row], tmp_path: Path) -> None:
    for count, source in ((0, "components"), (1, "maps")):
        some = [*rows[:count], *(replace(row, csf=None) for row in rows[count:4])]
        assert run(some, tmp_path / source, "individual", "adaptive").done == 4
        assert record(tmp_path / source, "reference")["tissues"]["source"] == source


def test_a_scan_without_maps_or_without_a_site_is_refused(rows: list[Row], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(FileError, match=r"not all of its tissues are known \(row 1\)"):
        run([rows[0], replace(rows[1], gm=None)], out, "two-level", "tissue")
    with pytest.raises(FileError, match=r"no site is known of it \(row 1\)"):
        run([rows[0], replace(rows[1], site=None)], out, "two-level", "adaptive")
    with pytest.raises(InvalidValueError, match="--mode two-level or individual"):
        run(rows, out, "site", "tissue")
    with pytest.raises(InvalidValueError, match="'affine' knows no sites"):
        run(rows, out, "two-level", matching=Matching("affine"))
    assert not out.exists()
