"""What a study decides by itself and what it is told: presets, weights, proportions."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run
from phantoms import save, tissue_shares, voxels_of
from studies import SMALL, SiteStudy, read_json, sha256

import ndflow
from ndflow.population import TissueModel

SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5)}
TISSUES = ("csf", "gm", "wm")


@pytest.fixture
def labelled(tmp_path: Path) -> SiteStudy:
    """Five scans of each of two sites, with tissue maps of two labellers."""
    made = SiteStudy(tmp_path, SITES, per_site=5)
    shares = tissue_shares(SMALL)
    moved = 0.6 * shares["gm"]
    other = {"csf": shares["csf"], "gm": shares["gm"] - moved, "wm": shares["wm"] + moved}
    for site, maps in (("Aachen", shares), ("Bonn", other)):
        for tissue, share in maps.items():
            save(made.folder / f"{site}_{tissue}.nii.gz", np.maximum(share, 0))
    for row in made.rows:
        row |= {tissue: f"{row['site']}_{tissue}.nii.gz" for tissue in shares}
    return made


def test_a_study_decides_by_itself_and_says_why(run: Run, labelled: SiteStudy) -> None:
    out = labelled.folder / "out"
    words = ("cohort", labelled.table("all"), out)
    ran = run(*words)
    assert ran.code == 0
    assert "warning: tissue maps differ by site" in ran.err
    record = read_json(out / "provenance.json")
    chosen = [record["settings"][name] for name in ("mode", "proportions", "average")]
    assert chosen == ["two-level", "adaptive", "quantile"]
    assert record["preset"]["reason"] in " ".join(ran.out.split())
    assert "Bonn" in record["of_study"][0]["text"]
    explicit = run(
        *(*words, "--preset", "paper", "--mode", "two-level", "--proportions", "adaptive"),
        *("--set", "average=quantile", "--set", "objective=cramer"),
    )
    assert "10 kept" in explicit.out  # results depend on settings, not on who chose them


AGES = {"Aachen": (30, 40, 50, 60, 35, 70), "Bonn": (50, 60, 70, 80, 35, 75)}


def weights_of(path: Path) -> dict[str, float]:
    provenance = ndflow.load(path).provenance
    return dict(zip(provenance["names"], provenance["weights"], strict=True))


def test_references_are_weighted_so_that_ages_are_alike(run: Run, tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, SITES, per_site=6)
    for number, row in enumerate(study.rows):
        row["age"] = str(AGES[row["site"]][number % 6])
    study.rows[0]["age"] = "n/a"
    out = tmp_path / "out"
    ran = run("cohort", study.table("all"), out, "--mode", "site", "--balance", "age")
    assert "warning: covariates not known: age of 1 scan is not known: s0" in ran.err
    assert (out / "images" / "s0.nii.gz").exists()
    ages = {f"s{number}": row["age"] for number, row in enumerate(study.rows)}
    common, means = weights_of(out / "reference.json"), []
    assert "s0" not in common
    for site in SITES:
        own = weights_of(out / f"reference_{site}.json")
        assert own == {name: common[name] for name in own}
        means.append(np.average([int(ages[name]) for name in own], weights=[*own.values()]))
    assert means[0] == pytest.approx(means[1], abs=1e-8)


def test_scans_are_matched_to_tissues_in_their_own_proportions(
    run: Run, labelled: SiteStudy
) -> None:
    folder, names, shares = labelled.folder, ("s1", "s6"), {}  # of either site
    for name, row in ((f"s{number}", row) for number, row in enumerate(labelled.rows)):
        inside = voxels_of(folder / row["image"]) != 0
        amounts = [voxels_of(folder / row[tissue])[inside].sum() for tissue in TISSUES]
        shares[name] = np.array(amounts) / sum(amounts)
    words = ("--proportions", "tissue", "--mode", "individual")
    out = labelled.run("out", *words)
    model = TissueModel.from_dict(read_json(out / "reference.json")["reference"]["tissues"])
    np.testing.assert_allclose(model.mean, np.mean([*shares.values()], axis=0))
    for name, own in shares.items():
        choice = read_json(out / "maps" / f"{name}.json")["match"]["target"]
        found = [choice["proportions"][tissue.upper()] for tissue in TISSUES]
        np.testing.assert_allclose(found, own, rtol=1e-9)

    # One by one, they become the same.
    rows = [labelled.rows[int(name[1:])] for name in names]
    maps = [f"{tissue}={folder / row[tissue]}" for row in rows for tissue in TISSUES]
    scans, one = [folder / row["image"] for row in rows], folder / "one"
    target = ("--to", out / "reference.json", "--proportions", "tissue")
    assert run("normalise", *scans, *target, "--tissue-maps", *maps, "-o", one).code == 0
    for name, row in zip(names, rows, strict=True):
        image = f"{name}.nii.gz"
        assert sha256(one / image) == sha256(out / "images" / image)
        read = read_json(one / f"{name}.json")["inputs"]
        for tissue in TISSUES:
            assert [file["sha256"] for file in read[tissue]] == [sha256(folder / row[tissue])]
