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
from ndflow.errors import FileError
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
