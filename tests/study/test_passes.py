"""A study of three sites: its names, its references, and what its scans become."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import head, save
from scipy.stats import wasserstein_distance

import ndflow
from ndflow.errors import FileError
from ndflow.files.scan_table import Row, read_table
from ndflow.settings import Averaging, Fitting, Matching
from ndflow.study.parallel.tasks import Outcome, Task, run_tasks
from ndflow.study.passes import Study
from ndflow.study.run import Summary, members_of, run_cohort
from ndflow.transport import Chain, align

SITES = {  # contrasts that no affine map makes the same, and a gain
    "Aachen": (((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0)), 1.0),
    "Bonn": (((250.0, 50.0), (820.0, 45.0), (1000.0, 40.0)), 2.5),
    "Celle": (((400.0, 60.0), (600.0, 50.0), (1000.0, 60.0)), 0.6),
}
SCANS = [*["Aachen"] * 3, *["Bonn"] * 3, *["Celle"] * 2]


class Silent:
    """Somebody who looks on and says nothing."""

    def begin(self, stage: str, total: int) -> None: ...

    def step(self, stage: str, outcome: Outcome) -> None:
        assert outcome.failure is None


class Done(NamedTuple):
    """A study that has been run."""

    rows: list[Row]
    folder: Path
    summary: Summary

    def names(self, site: str | None = None) -> list[str]:
        return [f"scan{row.number}" for row in self.rows if site in (None, row.site)]

    def before(self, name: str) -> NDArray[np.float64]:
        path = next(row.image for row in self.rows if Path(row.image).name == f"{name}.nii.gz")
        return np.asarray(nibabel.load(path).dataobj, np.float64)

    def after(self, name: str) -> NDArray[np.float32]:
        return np.asarray(nibabel.load(self.folder / "images" / f"{name}.nii.gz").dataobj)

    def model(self, name: str) -> Any:
        return ndflow.load(self.folder / "models" / f"{name}.json")

    def load(self, name: str) -> Any:
        return ndflow.load(self.folder / f"{name}.json")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("scans")
    rows = []
    for number, site in enumerate(SCANS):
        (fluid, (grey, spread), white), gain = SITES[site]
        tissues = (fluid, (grey + 15 * (number % 3), spread), white)  # people differ too
        data = head(number, tissues=tissues, gain=gain * (1 + 0.05 * number))
        path = save(folder / f"scan{number}.nii.gz", data)
        rows.append(Row(number, str(path), site=site, subject=f"{number:02}"))
    return rows


@pytest.fixture(scope="module")
def study(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    """Return a function that runs a study once for each choice of settings."""

    @cache
    def done(
        mode: str = "individual",
        average: str = "density",
        matching: Matching = Matching(),
        given: str | None = None,
        only: str = "Aachen Bonn Celle",
    ) -> Done:
        folder = tmp_path_factory.mktemp("study") / "out"
        chosen = [row for row in rows if row.site in only.split()]
        plan = Study(
            folder,
            members_of(chosen, folder),
            Averaging(mode, average),  # type: ignore[arg-type]
            matching=matching,
            given=given,
            channel="T1w",
        )
        summary = run_cohort(plan, chosen, Silent(), command=["test"], force=False)
        assert summary == Summary(len(chosen), 0, [])
        return Done(chosen, folder, summary)

    return done


def between(images: dict[str, list[NDArray[Any]]]) -> float:
    """Return how far sites are apart: W1 of their pooled voxels, in units of the whole spread."""
    pooled = {site: np.concatenate([a[a != 0] for a in many]) for site, many in images.items()}
    spread = np.concatenate(list(pooled.values())).std()
    pairs = itertools.combinations(pooled.values(), 2)
    return float(np.mean([wasserstein_distance(*pair) for pair in pairs]) / spread)


# ── the three passes ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("average", ["density", "quantile"])
def test_references_are_those_of_the_models(study: Callable[..., Done], average: str) -> None:
    done = study(average=average)
    for site in (None, *SITES):
        names = done.names(site)
        models = [done.model(name) for name in names]
        expected = ndflow.reference(models, average=average, names=names, channels="T1w")
        written = done.load("reference" if site is None else f"reference_{site}")
        assert written.to_dict() == expected.to_dict()
        assert written.scans == len(names)


def test_models_are_those_of_the_images(study: Callable[..., Done]) -> None:
    done = study()
    for row, name in zip(done.rows, done.names(), strict=True):
        assert done.model(name) == ndflow.fit_image(row.image).mixture


def test_individual_is_what_normalise_does(study: Callable[..., Done], tmp_path: Path) -> None:
    done = study()
    for row, name in zip(done.rows, done.names(), strict=True):
        single = tmp_path / f"{name}.nii.gz"
        ndflow.normalise(row.image, done.folder / "reference.json", output=single)
        assert single.read_bytes() == (done.folder / "images" / single.name).read_bytes()
        assert ndflow.load(tmp_path / f"{name}.json") == done.load(f"maps/{name}")


def test_the_scans_of_a_site_share_one_map_after_their_own_alignment(
    study: Callable[..., Done],
) -> None:
    done = study("site")
    whole = done.load("reference")
    for site in SITES:
        shared = ndflow.normalising_map(done.load(f"reference_{site}"), whole)
        for name in done.names(site):
            x = done.before(name)
            inside = x != 0
            own = align(done.model(name))
            np.testing.assert_allclose(done.after(name)[inside], shared(own(x[inside])), atol=1e-3)
            assert not done.after(name)[~inside].any()
            assert done.load(f"maps/{name}") == Chain((own, done.load(f"map_{site}")))


def test_the_modes_share_their_references_but_not_their_images(study: Callable[..., Done]) -> None:
    one, two = study(), study("site")
    for name in ("reference", *(f"reference_{site}" for site in SITES)):
        assert one.load(name) == two.load(name)
    for name in one.names():
        assert one.model(name) == two.model(name)
        assert np.abs(one.after(name) - two.after(name)).max() > 0.01
    assert not list(one.folder.glob("map_*"))


def test_sites_come_closer_than_with_an_alignment_alone(study: Callable[..., Done]) -> None:
    def distance(done: Done, which: Callable[[Done, str], Any] = Done.after) -> float:
        return between({c: [which(done, name) for name in done.names(c)] for c in SITES})

    affine = distance(study(matching=Matching("affine")))
    assert affine < 0.5 * distance(study(), Done.before)
    assert distance(study("site")) < 0.6 * affine
    assert distance(study()) < 0.6 * affine


def test_the_method_affine_is_the_alignment(study: Callable[..., Done]) -> None:
    done = study(matching=Matching("affine"))
    for name in done.names():
        x = done.before(name)
        voxels = x[x != 0]
        mixture = done.model(name)
        aligned = (voxels - mixture.mean()[0]) / np.sqrt(mixture.covariance()[0, 0])
        np.testing.assert_allclose(done.after(name)[x != 0], aligned, atol=1e-5)


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_a_range_changes_the_units_and_nothing_else(study: Callable[..., Done], mode: str) -> None:
    plain, scaled = study(mode), study(mode, matching=Matching(range=(0, 1000)))
    assert plain.load("reference") == scaled.load("reference")
    low, high = plain.load("reference").mixture.quantile([0.001, 0.999]).tolist()
    for name in plain.names():
        inside = plain.before(name) != 0
        expected = 1000 * (plain.after(name)[inside] - low) / (high - low)
        np.testing.assert_allclose(scaled.after(name)[inside], expected, atol=0.5)


# ── a reference that is given ────────────────────────────────────────────────────────────────────


def test_a_given_reference_is_used_and_kept(study: Callable[..., Done], tmp_path: Path) -> None:
    given = study(only="Aachen Bonn").folder / "reference.json"
    done = study(given=str(given), only="Celle")
    assert (done.folder / "reference.json").read_bytes() == given.read_bytes()
    for row, name in zip(done.rows, done.names(), strict=True):
        single = ndflow.normalise(row.image, given)
        assert np.array_equal(np.asarray(single.image.dataobj), done.after(name))


def test_a_known_site_keeps_its_map_and_a_new_one_gets_its_own(
    study: Callable[..., Done],
) -> None:
    first = study("site", only="Aachen Bonn")
    given = str(first.folder / "reference.json")
    later = study("site", given=given, only="Bonn Celle")
    for kind in ("reference", "map"):
        name = f"{kind}_Bonn.json"
        assert (later.folder / name).read_bytes() == (first.folder / name).read_bytes()
    for name in later.names("Bonn"):
        assert np.array_equal(later.after(name), first.after(name))
    models = [later.model(name) for name in later.names("Celle")]
    own = later.load("reference_Celle")
    assert own.mixture == ndflow.reference(models).mixture
    shared = ndflow.normalising_map(own, first.load("reference"))
    for name in later.names("Celle"):
        x = later.before(name)
        aligned = align(later.model(name))(x[x != 0])
        np.testing.assert_allclose(later.after(name)[x != 0], shared(aligned), atol=1e-3)


def test_one_new_scan_of_a_known_site_goes_the_way_of_the_site(
    study: Callable[..., Done], tmp_path: Path
) -> None:
    first = study("site")
    row = replace(first.rows[0], image=str(save(tmp_path / "new.nii.gz", head(77, gain=3))))
    folder = tmp_path / "out"
    plan = Study(
        folder,
        members_of([row], folder),
        Averaging("site"),
        given=str(first.folder / "reference.json"),
    )
    run_cohort(plan, [row], Silent(), command=[], force=False)
    imap = ndflow.load(folder / "maps" / "new.json")
    assert imap.maps[1] == first.load("map_Aachen")
    assert imap.maps[0] == align(ndflow.load(folder / "models" / "new.json"))


def test_a_mixture_is_not_taken_for_a_reference(rows: list[Row], tmp_path: Path) -> None:
    ndflow.save(tmp_path / "mixture.json", ndflow.fit_image(rows[0].image))
    folder = tmp_path / "out"
    plan = Study(folder, members_of(rows, folder), given=str(tmp_path / "mixture.json"))
    with pytest.raises(FileError, match="a mixture, not a reference"):
        run_cohort(plan, rows, Silent(), command=[], force=False)


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def named(*scans: Sequence[str | None], folder: str = "/out") -> list[str]:
    rows = [
        Row(number, f"/in/{image}", subject=subject, site=site)
        for number, (image, subject, site) in enumerate(scans, start=2)
    ]
    members = members_of(rows, Path(folder))
    for member in members:
        kinds = {"models": ".json", "images": ".nii.gz", "maps": ".json"}
        expected = [Path(folder) / kind / (member.name + end) for kind, end in kinds.items()]
        assert list(member.place) == expected
        assert not {"/", "\\", "\0", "\n"} & set(member.name)
    return [member.name for member in members]


def test_a_scan_is_called_like_its_image() -> None:
    scans = [("x/a.nii.gz", "01", "X"), ("b.NII", "01", "X"), ("c.v2.mgz", None, None)]
    assert named(*scans) == ["a", "b", "c.v2"]


def test_scans_of_one_name_are_told_apart_by_their_subjects() -> None:
    scans = [("1/t1.nii", "01", "X"), ("2/t1.nii.gz", "02", "X"), ("3/other.nii", "03", "X")]
    assert named(*scans) == ["01_t1", "02_t1", "other"]


@pytest.mark.parametrize(
    "scans",
    [
        [("1/t1.nii", None, None), ("2/t1.nii", None, None)],
        [("1/t1.nii", "01", "X"), ("2/t1.nii", "01", "X")],
        [("1/t1.nii", "01", None), ("2/t1.nii", "02", None), ("01_t1.nii", None, None)],
    ],
)
def test_scans_that_would_be_called_the_same_are_refused(scans: list[Any]) -> None:
    with pytest.raises(FileError) as caught:
        named(*scans)
    assert caught.value.path == f"/in/{scans[-1][0]}"
    assert f"row {len(scans) + 1}: " in caught.value.cause
    assert "like that of row 2" in caught.value.cause
    assert "subjects" in caught.value.hint


ODD = [
    "../x",
    "..",
    "/etc/x",
    "a/b\\c",
    "a b",
    "Zürich 脳",
    "100%",
    "new\nline",
    ".ndflow-x.tmp",
    "*",
]


@pytest.mark.parametrize("odd", ODD)
def test_whatever_a_subject_is_called_files_stay_in_their_folder(odd: str) -> None:
    one, two = named(("1/a.nii", odd, None), ("2/a.nii", "plain", None))
    assert two == "plain_a"
    assert one != two
    assert one not in (".", "..")


def test_odd_file_names_stay_different() -> None:
    names = [f"{odd.replace('/', ':')}.nii" for odd in ODD] + [
        "100%25.nii",
        os.fsdecode(b"\xe9.nii"),
    ]
    assert len(set(named(*((name, None, None) for name in names)))) == len(names)


@pytest.mark.parametrize("odd", [*ODD, "reference", os.fsdecode(b"caf\xe9")])
def test_whatever_a_site_is_called_its_reference_stays_in_the_folder(
    rows: list[Row], tmp_path: Path, odd: str
) -> None:
    pair = [replace(rows[0], site=odd), replace(rows[1], site="other")]
    folder = tmp_path / "deep" / "out"
    folder.parent.mkdir()
    plan = Study(
        folder,
        members_of(pair, folder),
        Averaging("site"),
        fitting=Fitting(500),
    )
    assert run_cohort(plan, pair, Silent(), command=[], force=False).done == 2
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    assert len(list(folder.glob("reference_*.json"))) == 2
    assert len(list(folder.glob("map_*.json"))) == 2
    assert len((folder / "scans.tsv").read_bytes().splitlines()) == 3
    assert len(read_table(folder / "scans.tsv")) == 2


# ── workers ──────────────────────────────────────────────────────────────────────────────────────


def dying(folder: Path) -> Callable[[int], int]:
    """Work whose process dies at 3 and 8 always, and at 5 the first time."""

    def work(number: int) -> int:
        with (folder / f"{number}").open("a") as tries:
            tries.write(".")
        first = (folder / f"{number}").stat().st_size == 1
        if number == 2 and first:
            time.sleep(0.5)  # keep this worker busy, so that 5 is not begun when 3 dies
        if number in (3, 8) or (number == 5 and first):
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2

    return work


def test_a_worker_that_is_killed_is_tried_again_and_costs_its_scan_only(tmp_path: Path) -> None:
    tasks = [Task(f"scan{n}", {"number": n}) for n in (2, 3, 4, 5, 6, 7, 8, 9)]
    outcomes = list(run_tasks(dying(tmp_path), tasks, jobs=2))
    assert [outcome.scan for outcome in outcomes] == [task.scan for task in tasks]
    assert [outcome.result for outcome in outcomes] == [4, None, 16, 25, 36, 49, None, 81]
    for outcome in outcomes:
        if outcome.failure is not None:
            assert "killed, twice" in outcome.failure.cause
            assert "--jobs" in outcome.failure.hint
    for number in (3, 5, 8):
        assert 2 <= len((tmp_path / f"{number}").read_text()) <= 3
