"""The reference that comes with the package: what it holds, how it is named and what it does."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run
from phantoms import head, save
from studies import SiteStudy, read_json

import ndflow
from ndflow.errors import InvalidValueError
from ndflow.subject.target import builtin_file, full_name, read_builtin

NAME = "builtin:T1w@1"
SHA256 = "77c130ed554ba78b060115cf4a438d9a0e552bba17903004475a272c2f387358"


def test_it_holds_what_every_method_needs() -> None:
    made = ndflow.builtin_reference("T1w")
    assert made == ndflow.builtin_reference("T1w@1") == ndflow.load(builtin_file("T1w"))
    assert (made.channel_names, made.scans) == (("T1w",), 35)
    assert made.provenance["average"] == "quantile"
    assert made.tissues is not None
    assert made.tissues.source == "maps"
    assert made.landmarks is not None
    assert made.landmarks.method == "nyul"
    means = [float(density.mean()[0]) for density in ndflow.builtin_reference().tissues.densities]
    assert means == sorted(means)  # CSF, GM, WM, as in T1w images
    assert builtin_file("T1w").stat().st_size < 10_000


def test_a_version_that_was_published_does_not_change() -> None:
    assert hashlib.sha256(builtin_file("T1w@1").read_bytes()).hexdigest() == SHA256


def test_its_card_says_who_and_what_it_is_not_for() -> None:
    card = read_builtin("T1w").payload["card"]
    assert card["name"] == full_name("T1w") == NAME
    assert card["scans"] == 35
    assert set(card["licence"]) == set(card["who"]) == {"NSK", "UCLA"}
    assert not any("CC BY" in licence for licence in card["licence"].values())
    told = " ".join(card["not_for"])
    for word in ("children", "contrasts", "absolute", "lesions"):
        assert word in told
    page = (Path(__file__).parents[2] / "docs" / "reference" / "builtin.md").read_text("utf-8")
    for word in (NAME, "35 healthy adults", "22 to 52 years", "19 to 37 years", "CC0", "PDDL"):
        assert word in page


@pytest.mark.parametrize("name", ["T2w", "T1w@2", "", "../T1w"])
def test_an_unknown_name_is_answered_with_those_that_there_are(name: str, run: Run) -> None:
    with pytest.raises(InvalidValueError, match=r"there is builtin:T1w@1, and 'ndflow reference'"):
        ndflow.builtin_reference(name)
    ran = run("normalise", "x.nii", "--to", f"builtin:{name}", "-o", "y.nii")
    assert ran.code == 2
    (error,) = ran.errors
    assert f"no reference 'builtin:{name}' in the package; there is builtin:T1w@1" in error


def test_a_single_scan_needs_nothing_else(run: Run, tmp_path: Path) -> None:
    scan, out = save(tmp_path / "scan.nii.gz", head(0)), tmp_path / "out.nii.gz"
    words = ("normalise", scan, "--to", "builtin:T1w", "-o", out)
    ran = run(*words)
    assert ran.code == 0, ran.err
    record = read_json(tmp_path / "out.json")
    assert record["target"]["name"] == NAME
    sha256 = hashlib.sha256(builtin_file("T1w").read_bytes()).hexdigest()
    assert record["inputs"]["target"] == [{"file": NAME, "sha256": sha256}]
    assert record["preset"]["reason"] == "no tissue maps and a reference of 35 scans"
    assert record["settings"]["scale"] == "positive"
    again = ndflow.normalise(head(0), "builtin:T1w")
    given = ndflow.normalise(head(0), ndflow.builtin_reference())
    assert np.array_equal(again.image, given.image)
    nyul = run(*words, "--method", "nyul", "--force")
    assert nyul.code == 0, nyul.err


def test_a_study_is_brought_to_it_and_can_be_verified(run: Run, tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, per_site=1)
    (tmp_path / "reference_Bonn.json").write_text("not a reference of this one", encoding="utf-8")
    out = study.run("out", "--reference", "builtin:T1w", "--mode", "site", "--no-report")
    record = read_json(out / "provenance.json")
    assert record["reference"] == NAME
    assert [one["file"] for one in record["inputs"]] == [NAME]
    made: Any = ndflow.load(out / "reference.json")
    assert made == ndflow.builtin_reference()
    assert run("verify", out).code == 0
    ran = run(
        "cohort", study.table("all"), tmp_path / "t2", "--channels", "T2w", "--reference", NAME
    )
    assert f"{NAME}: made of T1w images, but these are T2w" in ran.errors[0]


def test_it_is_what_the_script_builds(cohort_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "experiments")
    monkeypatch.delitem(sys.modules, "build_builtin", raising=False)
    import build_builtin  # type: ignore[import-not-found]

    rebuilt, card = build_builtin.made_from(cohort_folder)
    packaged = ndflow.builtin_reference()
    assert json.loads(json.dumps(card)) == read_builtin("T1w").payload["card"]
    assert rebuilt.provenance == packaged.provenance
    x = np.linspace(-4, 3, 200)
    for one, two in (
        (rebuilt.mixture, packaged.mixture),
        *zip(rebuilt.tissues.densities, packaged.tissues.densities, strict=True),
    ):
        np.testing.assert_allclose(one.cdf(x), two.cdf(x), atol=1e-6)
    np.testing.assert_allclose(
        rebuilt.tissues.mean, ndflow.builtin_reference().tissues.mean, atol=1e-9
    )
    np.testing.assert_allclose(rebuilt.landmarks.values, packaged.landmarks.values, atol=1e-9)
