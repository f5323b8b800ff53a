"""The references of a study: made from its scans or given; each site is matched once."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantoms import head, save
from studies import Silent, positive, read_json

import ndflow
from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.options import Options
from ndflow.population.proportions import estimated_proportions
from ndflow.study import references
from ndflow.study.plan import PROVENANCE, Study
from ndflow.study.run import rehearse, run_study
from ndflow.study.table import read_study_scans
from ndflow.subject.presets import Choices
from ndflow.subject.records import ReferenceModel, StudyRecord
from ndflow.transport import align

Runs = Callable[..., Any]
SITES = ("Aachen", "Bonn", "Celle")


@pytest.mark.parametrize("average", ["density", "quantile"])
def test_references_are_those_of_the_models(study: Runs, average: Any) -> None:
    done = study(options=Options(average=average))
    for site in (None, *SITES):
        names = done.names(site)
        models = [done.model(name) for name in names]
        expected = ndflow.reference(models, average=average, names=names, channel="T1w")
        written = done.load("reference" if site is None else f"reference_{site}")
        assert written.to_dict() == expected.to_dict()
        assert written.scans == len(names)


def test_the_record_says_how_far_scans_of_a_site_determine_proportions(study: Runs) -> None:
    for mode, names in (("two-level", SITES), ("individual", ["all scans"])):
        done = study(mode, Options(proportions="adaptive"))
        tissues = done.load("reference").tissues
        trusts = StudyRecord.read(done.folder / PROVENANCE).trust
        assert sorted(trusts) == sorted(names)
        for trust in trusts.values():
            usual = tissues.target(tissues.mean).quantile(QUANTILE_LEVELS)
            left = estimated_proportions(usual, tissues, trust).covariance
            there = trust.people**2 * tissues.covariance
            share = 1 - np.trace(left @ np.linalg.pinv(there)) / 2
            assert trust.determined == pytest.approx(share, abs=0.02)
    assert not StudyRecord.read(study().folder / PROVENANCE).trust


ODD = ["../x", "..", "/etc/x", "a/b\\c", "a b", "Zürich 脳"]
MORE = ["100%", "new\nline", ".ndflow-x.tmp", "*", os.fsdecode(b"caf\xe9")]


@pytest.mark.parametrize("names", [ODD, MORE])
def test_whatever_sites_are_called_their_references_stay_in_the_folder(
    scans: list[Subject], tmp_path: Path, names: list[str]
) -> None:
    odd = [replace(scan, site=name) for scan, name in zip(scans, names, strict=False)]
    folder = tmp_path / "deep" / "out"
    folder.parent.mkdir()
    plan = Study(folder, odd, Options(mode="site", effective_count=500))
    assert run_study(plan, Silent()).done == len(names)
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    assert len(list(folder.glob("reference_*.json"))) == len(names)
    assert len(list(folder.glob("map_*.json"))) == len(names)
    assert [scan.site for scan in read_study_scans(folder / "scans.tsv")] == names


# ── a reference that is given ─────────────────────────────────────────────────────────────────────


def test_a_given_reference_is_used_and_kept(study: Runs) -> None:
    given = study(only="Aachen Bonn").folder / "reference.json"
    done = study(given=str(given), only="Celle")
    assert (done.folder / "reference.json").read_bytes() == given.read_bytes()
    for scan in done.scans:
        single = ndflow.normalise(scan.image, given, preset="paper")
        assert np.array_equal(np.asarray(single.image.dataobj), done.after(scan.name))


def test_a_known_site_keeps_its_map_and_a_new_one_gets_its_own(study: Runs) -> None:
    first = study("site", options=Options(effective_count=500), only="Aachen Bonn")
    given = str(first.folder / "reference.json")
    later = study("site", given=given, only="Bonn Celle")
    for kind in ("reference", "map"):
        name = f"{kind}_Bonn.json"
        assert (later.folder / name).read_bytes() == (first.folder / name).read_bytes()
    models = [later.model(name) for name in later.names("Celle")]
    assert later.load("reference_Celle").mixture == ndflow.reference(models).mixture
    for scan in later.scans:
        own, x = later.load(f"reference_{scan.site}"), later.before(scan.name)
        shared = ndflow.normalising_map(own, first.load("reference"))
        expected = positive(shared(align(later.model(scan.name))(x[x != 0])))
        np.testing.assert_allclose(later.after(scan.name)[x != 0], expected, atol=0.1)


def people(scanner: tuple[float, ...], count: int, seed: int) -> dict[str, DensityModel]:
    """Return the densities of some people in a scanner, by the means of CSF, GM and WM."""
    rng = np.random.default_rng(seed)
    found = {}
    for number in range(count):
        shares = np.array([0.2, 0.45, 0.35]) * rng.uniform(0.9, 1.1, 3)
        mixture = GaussianMixture(shares / shares.sum(), list(scanner), [0.01] * 3)
        found[f"{seed}-{number}"] = DensityModel(mixture)
    return found


@pytest.mark.parametrize("count", [1, 6])
def test_a_site_that_is_unlike_the_reference_of_its_name_is_doubted(
    tmp_path: Path, count: int
) -> None:
    scanner, other = (30.0, 70.0, 100.0), (60.0, 70.0, 100.0)
    first = ndflow.reference([one.mixture for one in people(scanner, 8, 1).values()])
    for name in ("reference.json", "reference_Bonn.json"):
        ReferenceModel(first).write(tmp_path / name)
    for now, mode, kinds in (
        (scanner, "site", []),
        (other, "site", ["other scanner"]),
        (other, "individual", []),  # which does not use the references of sites
    ):
        models = people(now, count, 2)
        scans = [Subject("x.nii", site="Bonn", name=name) for name in models]
        options = Options(mode=mode)  # type: ignore[arg-type]
        plan = Study(tmp_path / "out", scans, options, given=str(tmp_path / "reference.json"))
        made = references.make_references(plan, scans, models)
        assert [doubt.kind for doubt in made.of_study] == kinds


def test_a_reference_that_was_read_is_not_taken_for_an_average(
    scans: list[Subject], tmp_path: Path, study: Runs
) -> None:
    first = study("site", options=Options(effective_count=500), only="Aachen Bonn")
    for name in ("reference.json", "reference_Aachen.json", "reference_Bonn.json"):
        shutil.copy(first.folder / name, tmp_path / name)
    (tmp_path / "reference_Aachen.json").rename(tmp_path / "reference_Bonn.json")  # by mistake
    bonn = [scan for scan in scans if scan.site == "Bonn"]
    given, folder = tmp_path / "reference.json", tmp_path / "out"
    plan = Study(folder, bonn, Options(mode="site", effective_count=500), given=str(given))
    run_study(plan, Silent())
    assert read_json(folder / "provenance.json")["inputs"][1]["file"].endswith("_Bonn.json")
    (tmp_path / "reference_Bonn.json").unlink()
    run_study(plan, Silent())
    expected = read_json(first.folder / "reference_Bonn.json")["reference"]["mixture"]
    assert read_json(folder / "reference_Bonn.json")["reference"]["mixture"] == expected


def test_a_site_that_was_renamed_leaves_no_files(scans: list[Subject], tmp_path: Path) -> None:
    options = Options(mode="site", effective_count=500)
    for site in ("Aachen", "Aix"):
        named = [replace(scan, site=site) for scan in scans[:2]]
        run_study(Study(tmp_path / "out", named, options), Silent())
        made = {f"{kind}_{site}.json" for kind in ("map", "reference")}
        assert {path.name for path in (tmp_path / "out").glob("*_*.json")} == made


def test_a_given_reference_is_for_each_participant_of_a_dataset_alone() -> None:
    scans = [Subject("x.nii", site=site) for site in SITES for _ in range(5)]
    plan = Study(Path("out"), scans, choices=Choices())
    given = references.read_reference("builtin:T1w", ("T1w",))[0]
    asked = [(one, of) for one in (plan, replace(plan, dataset=True)) for of in (None, given)]
    modes = [references.settled(one, of).mode.name for one, of in asked]
    assert modes == ["two-level", "two-level", "two-level", "individual"]


# ── people who are scanned several times ──────────────────────────────────────────────────────────


def test_scans_of_a_person_share_a_map_where_scanners_are_corrected() -> None:
    scans = [
        Subject(f"{name}.nii", name=name, person=name[0], site=name[1])
        for name in ("aX1", "aX2", "aY1", "bX1", "bY1", "cX1")
    ]
    alone = replace(scans[-1], person=None)
    for options, groups in (
        (Options(mode="two-level"), ["aX1 aX2 aY1"] * 3 + ["bX1 bY1"] * 2),
        (Options(mode="two-level", proportions="adaptive"), ["aX1 aX2"] * 2),
        (Options(mode="individual"), ["aX1 aX2"] * 2),
        (Options(mode="two-level", visits="apart"), []),
        (Options(method="nyul"), []),
    ):
        found = references.visits_of(Study(Path(), scans, options), [*scans, alone, alone])
        assert sorted(" ".join(one.name for one in own) for own in found.values()) == groups


def test_visits_are_matched_together_by_a_run(study: Runs, tmp_path: Path) -> None:
    first = study("site", options=Options(effective_count=500), only="Aachen Bonn")
    twice = [replace(one, person="ann") for one in first.scans[:2]] + first.scans[2:]
    shared = Study(tmp_path / "out", twice, Options(mode="site", effective_count=500))
    run_study(shared, Silent())
    apart = replace(shared, options=replace(shared.options, visits="apart", force=True))
    maps = [[ndflow.load(shared.paths(one).sidecar) for one in twice]]
    run_study(apart, Silent())
    maps += [[ndflow.load(shared.paths(one).sidecar) for one in twice]]
    before = [ndflow.load(first.folder / f"maps/{one.name}.json") for one in twice]
    assert [one == other for one, other in zip(maps[1], before, strict=True)] == [True] * 6
    together = [one == other for one, other in zip(maps[0], before, strict=True)]
    assert together == [False, False, True, True, True, True]


def test_references_of_sites_are_made_from_people_who_travelled() -> None:
    """Maps of sites hold the scanners, although people of one site have much more CSF."""
    means = np.array([30.0, 62.0, 90.0])
    scanners = {"X": means, "Y": means + 8 * np.sin(means / 15)}
    slopes = {"X": np.ones(3), "Y": 1 + 8 / 15 * np.cos(means / 15)}
    rng, scans, models = np.random.default_rng(2), [], {}
    for number in range(14):
        csf = (0.15, 0.3)[number % 2] if number < 10 else 0.2
        shares = np.array([csf, 0.55 * (1 - csf), 0.45 * (1 - csf)]) * rng.uniform(0.95, 1.05, 3)
        for site in "XY"[number % 2] if number < 10 else "XY":
            name = f"{number:02}{site}"
            precisions = (9 * slopes[site]) ** -2.0
            models[name] = DensityModel(
                GaussianMixture(shares / shares.sum(), scanners[site], precisions)
            )
            scans.append(Subject("x.nii", name=name, site=site, person=str(number)))
    off = {}
    for balance in ((), ("subject",)):
        options = Options(mode="site", balance=balance, scale="standard")
        made = references.make_references(Study(Path(), scans, options), scans, models)
        ways = {site: made.goals[site].site for site in scanners}
        names = {site: made.sites[site].provenance["names"] for site in scanners}
        person = {site: models[f"11{site}"] for site in scanners}
        there = [
            ways[site].solution.imap(align(person[site].mixture)(scanners[site]))  # type: ignore[union-attr]
            for site in scanners
        ]
        off[balance] = np.abs(there[1] - there[0]).max()
    assert names == {site: [f"{number}{site}" for number in range(10, 14)] for site in scanners}
    assert made.common.scans == len(scans)
    assert off["subject",] < 0.2 * off[()]
    left = [scan for scan in scans if scan.site == "X" or scan.name < "10"]  # the others failed
    with pytest.raises(InvalidValueError, match=r"X \| Y"):
        references.make_references(Study(Path(), scans, options), left, models)


# ── nothing is read or computed twice ─────────────────────────────────────────────────────────────


def test_averages_are_made_again_only_if_something_changed(
    scans: list[Subject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Study(tmp_path / "out", scans[2:6], Options(mode="site", effective_count=500))
    assert run_study(plan, Silent()).kept == 0
    made: list[int] = []
    real = references.build_reference
    monkeypatch.setattr(
        references, "build_reference", lambda *some, **more: made.append(1) or real(*some, **more)
    )
    assert run_study(plan, Silent()).kept == 4
    assert not made
    assert [one.action for one in rehearse(plan)] == ["keep"] * 4
    assert not made
    path = plan.folder / "reference_Bonn.json"
    path.write_text(path.read_text().replace("Bonn", "bonn") + " ")
    with pytest.raises(FileError, match=r"reference_Bonn\.json: changed since"):
        run_study(plan, Silent())
    path.unlink()
    assert run_study(plan, Silent()).kept == 4
    assert len(made) == 1
    average = replace(plan.options, average="quantile", force=True)
    assert run_study(replace(plan, options=average), Silent()).kept == 0
    assert len(made) == 4
    image = save(tmp_path / "other.nii.gz", head(99))  # another scan of the same name
    other = replace(scans[2], images={"T1w": str(image)})
    plan = replace(plan, options=average, scans=[other, *scans[3:6]])
    assert run_study(plan, Silent()).kept == 0
    assert len(made) == 7
    models = [ndflow.load(plan.model(scan)) for scan in plan.scans]
    expected = ndflow.reference(models, average="quantile").mixture
    assert ndflow.load(plan.folder / "reference.json").mixture == expected
