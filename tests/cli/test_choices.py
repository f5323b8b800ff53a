"""What a study decides by itself and what it is told: presets, weights, proportions."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run, typed
from numpy.typing import NDArray
from phantoms import head, radii, save, tissue_shares
from studies import SMALL, SiteStudy, read_json, sha256

import ndflow
from ndflow.population import TissueModel

SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5)}
NAMES = ("CSF", "GM", "WM")


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


SHAPE = (16, 18, 14)
EDGES = {"s0": 0.88, "s1": 0.98, "s2": 0.93, "s3": 1.0}  # larger: more CSF
LOOKS = (
    ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0)),
    ((250.0, 50.0), (800.0, 45.0), (1000.0, 40.0)),
)


def save_labelled(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Write scans of two sites, maps of their tissues and a table; return proportions by scan."""
    shares, rows = {}, ["image\tsite\tcsf\tgm\twm"]
    for number, (name, edge) in enumerate(EDGES.items()):
        inside = radii(SHAPE) < edge
        scan = head(number, shape=SHAPE, tissues=LOOKS[number % 2], gain=1 + 0.3 * number)
        save(folder / f"{name}.nii.gz", scan * inside)
        kinds = head(number, shape=SHAPE, tissues=((1, 0), (2, 0), (3, 0))) * inside
        for kind, tissue in enumerate(NAMES, 1):
            save(folder / f"{name}_{tissue}.nii.gz", (kinds == kind).astype(np.float32))
        shares[name] = np.bincount(kinds.ravel())[1:] / np.count_nonzero(kinds)
        files = [f"{name}_{tissue}.nii.gz" for tissue in NAMES]
        rows.append("\t".join([f"{name}.nii.gz", "AB"[number % 2], *files]))
    (folder / "scans.tsv").write_text("\n".join([*rows, ""]))
    return shares


def test_scans_are_matched_to_tissues_in_their_own_proportions(run: Run, tmp_path: Path) -> None:
    shares, out = save_labelled(tmp_path), tmp_path / "out"
    words = ("--proportions", "tissue", "--mode", "individual", "-q")
    typed("cohort", tmp_path / "scans.tsv", out, *words)
    model = TissueModel.from_dict(read_json(out / "reference.json")["reference"]["tissues"])
    np.testing.assert_allclose(model.mean, np.mean([*shares.values()], axis=0))
    for name, own in shares.items():
        choice = read_json(out / "maps" / f"{name}.json")["match"]["target"]
        found = [choice["proportions"][tissue] for tissue in NAMES]
        np.testing.assert_allclose(found, own, rtol=1e-9)

    # One by one, they become the same.
    one = tmp_path / "one"
    maps = [f"{t.lower()}={tmp_path / f'{s}_{t}.nii.gz'}" for s in ("s2", "s0") for t in NAMES]
    scans = [tmp_path / "s2.nii.gz", tmp_path / "s0.nii.gz"]
    target = ("--to", out / "reference.json", "--proportions", "tissue")
    assert run("normalise", *scans, *target, "--tissue-maps", *maps, "-o", one).code == 0
    for name in ("s0", "s2"):
        image = f"{name}.nii.gz"
        assert (one / image).read_bytes() == (out / "images" / image).read_bytes()
        read = read_json(one / f"{name}.json")["inputs"]
        for tissue in NAMES:
            digest = sha256(tmp_path / f"{name}_{tissue}.nii.gz")
            assert [file["sha256"] for file in read[tissue.lower()]] == [digest]
