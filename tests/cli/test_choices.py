"""What a study decides by itself and what it is told: presets, weights, proportions, freezing."""

from pathlib import Path
from typing import Any

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

# ── presets ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Five scans of each of two sites, and tissue maps: ours, and others for the second site."""
    made = SiteStudy(tmp_path_factory.mktemp("scans"), SITES, per_site=5)
    shares = tissue_shares(SMALL)
    moved = 0.6 * shares["gm"]
    other = {"csf": shares["csf"], "gm": shares["gm"] - moved, "wm": shares["wm"] + moved}
    for kind, maps in (("ours", shares), ("theirs", other)):
        for tissue, share in maps.items():
            save(made.folder / f"{kind}_{tissue}.nii.gz", np.maximum(share, 0))
    return made


def with_maps(study: SiteStudy, second: str) -> Path:
    tissues = ("csf", "gm", "wm")
    rows = [
        row | {t: f"{second if row['site'] == 'Bonn' else 'ours'}_{t}.nii.gz" for t in tissues}
        for row in study.rows
    ]
    return study.table(second, rows, columns=rows[0])


def settings(out: Path) -> tuple[str, str, str]:
    record = read_json(out / "provenance.json")["settings"]
    return record["mode"], record["proportions"], record["average"]


def test_a_study_decides_by_itself_and_says_why(run: Run, ten: SiteStudy) -> None:
    out = ten.folder / "auto"
    words = ("cohort", ten.table("all"), out)
    ran = run(*words)
    assert ran.code == 0
    assert settings(out) == ("two-level", "adaptive", "quantile")
    preset = read_json(out / "provenance.json")["preset"]
    assert preset["reason"] in " ".join(ran.out.split())
    assert "2 sites" in preset["reason"]
    again = ndflow.cohort(ten.table("all"), out, report=False)
    assert again.kept == 10
    explicit = run(
        *(*words, "--preset", "paper", "--mode", "two-level", "--proportions", "adaptive"),
        *("--set", "average=quantile", "--set", "objective=cramer"),
    )
    assert "10 kept" in explicit.out  # results depend on settings, not on who chose them


def test_options_go_before_the_preset(run: Run, ten: SiteStudy, tmp_path: Path) -> None:
    words = ("--mode", "individual", "--proportions", "average", "--preset", "paper", "-q")
    table = ten.table("four", ten.rows[:4])
    assert run("cohort", table, tmp_path / "out", *words).code == 0
    assert settings(tmp_path / "out") == ("individual", "average", "density")
    assert run("cohort", table, tmp_path / "a", "--method", "affine", "-q").code == 0
    assert "preset" not in read_json(tmp_path / "a" / "provenance.json")


def test_maps_are_used_unless_they_differ_by_site(run: Run, ten: SiteStudy) -> None:
    assert run("cohort", with_maps(ten, "ours"), ten.folder / "maps").code == 0
    assert settings(ten.folder / "maps")[:2] == ("two-level", "tissue")
    out, words = ten.folder / "odd", ("cohort", with_maps(ten, "theirs"), ten.folder / "odd")
    ran = run(*words)
    assert "warning: tissue maps differ by site" in ran.err
    assert settings(out)[:2] == ("two-level", "adaptive")
    (doubt,) = read_json(out / "provenance.json")["of_study"]
    assert "Bonn" in doubt["text"]
    plain = ten.run("none")  # the same without any maps
    for name in ("s0", "s7"):
        one, other = (ndflow.load(folder / "maps" / f"{name}.json") for folder in (out, plain))
        assert one == other
    assert "10 kept" in run(*words).out


# ── weights ──────────────────────────────────────────────────────────────────────────────────────

AGES = {"Aachen": (30, 40, 50, 60, 35, 70), "Bonn": (50, 60, 70, 80, 35, 75)}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Twelve scans of two sites whose ages overlap in part."""
    found = SiteStudy(tmp_path_factory.mktemp("study"), SITES, per_site=6)
    for number, row in enumerate(found.rows):
        row["age"] = str(AGES[row["site"]][number % 6])
        row["sex"] = "FM"[number % 2]
    return found


@pytest.fixture(scope="module")
def balanced(listed: SiteStudy) -> Path:
    return listed.run("balanced", "--mode", "site", "--balance", "age", "sex")


def weights_of(path: Path) -> dict[str, float]:
    provenance = ndflow.load(path).provenance
    return dict(zip(provenance["names"], provenance["weights"], strict=True))


def test_references_are_weighted_so_that_ages_are_alike(listed: SiteStudy, balanced: Path) -> None:
    ages = {Path(row["image"]).name.partition(".")[0]: int(row["age"]) for row in listed.rows}
    common = weights_of(balanced / "reference.json")
    means = []
    for site in SITES:
        own = weights_of(balanced / f"reference_{site}.json")
        assert own == {name: common[name] for name in own}
        means.append(np.average([ages[name] for name in own], weights=[*own.values()]))
    assert means[0] == pytest.approx(means[1], abs=1e-8)
    assert len({*common.values()}) > 6


def test_a_scan_without_age_is_normalised_but_has_no_part(listed: SiteStudy, run: Run) -> None:
    rows = [row | ({"age": "n/a"} if row["image"] == "s0.nii.gz" else {}) for row in listed.rows]
    table = listed.table("unknown", rows)
    out = listed.folder / "unknown"
    ran = run("cohort", table, out, "--mode", "site", "--no-report", "--balance", "age")
    assert "warning: covariates not known: age of 1 scan is not known: s0" in ran.err
    assert (out / "images" / "s0.nii.gz").exists()
    assert "s0" not in weights_of(out / "reference_Aachen.json")
    assert read_json(out / "provenance.json")["balance"]["Aachen"]["unknown"] == 1


SHAPE = (16, 18, 14)
EDGES = {"s0": 0.88, "s1": 0.98, "s2": 0.93, "s3": 1.0, "new": 0.96}  # larger: more CSF
SCANS = ["s0", "s1", "s2", "s3"]
LOOKS = (
    ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0)),
    ((250.0, 50.0), (800.0, 45.0), (1000.0, 40.0)),
)


class Desk:
    """Scans with tissue maps, a table of four of them, and studies of these."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table, self.bare = folder, folder / "scans.tsv", folder / "bare.tsv"
        self.shares: dict[str, NDArray[np.float64]] = {}
        for number, (name, edge) in enumerate(EDGES.items()):
            inside = radii(SHAPE) < edge
            look: dict[str, Any] = {"tissues": LOOKS[number % 2], "gain": 1 + 0.3 * number}
            save(self.scan(name), head(number, shape=SHAPE, **look) * inside)
            kinds = head(number, shape=SHAPE, tissues=((1, 0), (2, 0), (3, 0))) * inside
            for kind, tissue in enumerate(NAMES, 1):
                save(self.map(name, tissue), (kinds == kind).astype(np.float32))
            self.shares[name] = np.bincount(kinds.ravel())[1:] / np.count_nonzero(kinds)
        rows = [
            "\t".join([f"{name}.nii.gz", site, *(self.map(name, t).name for t in NAMES)])
            for name, site in zip(SCANS, "ABAB", strict=True)
        ]
        self.table.write_text("\n".join(["image\tsite\tcsf\tgm\twm", *rows, ""]))
        bare = ["\t".join(row.split("\t")[:2]) for row in rows]
        self.bare.write_text("\n".join(["image\tsite", *bare, ""]))

    def scan(self, name: str) -> Path:
        return self.folder / f"{name}.nii.gz"

    def map(self, name: str, tissue: str) -> Path:
        return self.folder / f"{name}_{tissue}.nii.gz"

    def maps(self, *names: str) -> list[Any]:
        """Return the option that gives the tissue maps of some scans."""
        files = [f"{t.lower()}={self.map(name, t)}" for name in names for t in NAMES]
        return ["--tissue-maps", *files]

    def study(self, *options: str, bare: bool = False) -> Path:
        out = self.folder / "-".join(["study", str(bare), *options])
        if not out.exists():
            typed("cohort", self.bare if bare else self.table, out, "-q", *options)
        return out

    def reference(self) -> Path:
        return self.study("--proportions", "tissue") / "reference.json"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("targets"))


def values(proportions: dict[str, float]) -> list[float]:
    return [proportions[name] for name in NAMES]


# ── studies ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["two-level"])
def test_a_study_says_of_each_scan_what_it_was_matched_to(desk: Desk, mode: str) -> None:
    out = desk.study("--proportions", "tissue", "--mode", mode)
    model = TissueModel.from_dict(read_json(out / "reference.json")["reference"]["tissues"])
    assert model.source == "maps"
    np.testing.assert_allclose(model.mean, np.mean([desk.shares[s] for s in SCANS], axis=0))
    for name in SCANS:
        made = read_json(out / "maps" / f"{name}.json")
        assert made["settings"]["proportions"] == "tissue"
        choice = made["match"]["target"]
        np.testing.assert_allclose(values(choice["proportions"]), desk.shares[name], rtol=1e-9)
        assert values(choice["population"]) == model.mean.tolist()
        assert (choice["reason"], choice["tissues"]) == ("its tissue probability maps", "maps")
        plain = choice["plain"]
        assert 0 < plain["rms_difference"] <= plain["largest_difference"]
        assert 0 <= plain["divergence"]["after"] < plain["divergence"]["before"]


@pytest.mark.parametrize(("mode", "bare"), [("two-level", True)])
def test_adaptive_finds_proportions_of_its_own(desk: Desk, mode: str, bare: bool) -> None:
    out = desk.study("--preset", "paper", "--proportions", "adaptive", "--mode", mode, bare=bare)
    tissues = read_json(out / "reference.json")["reference"]["tissues"]
    assert tissues["source"] == ("components" if bare else "maps")
    choices = [read_json(out / "maps" / f"{name}.json")["match"]["target"] for name in SCANS]
    found = [choice["proportions"]["CSF"] for choice in choices]
    assert np.corrcoef(found, [desk.shares[name][0] for name in SCANS])[0, 1] > 0.9
    for choice in choices:
        assert choice["tissues"] == tissues["source"]
        assert values(choice["population"]) == tissues["mean"]
        assert "mildest map" in choice["reason"] or "clearly milder" in choice["reason"]


# ── single scans ─────────────────────────────────────────────────────────────────────────────────


def test_scans_normalised_one_by_one_equal_those_of_the_study(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    words = ("normalise", *map(desk.scan, ("s2", "s0")), "--to", desk.reference())
    done = run(*words, "--proportions", "tissue", *desk.maps("s2", "s0"), "-o", tmp_path / "t")
    assert (done.code, done.errors) == (0, [])
    study = desk.study("--proportions", "adaptive")
    done = run(
        *words[:3], "--to", study / "reference.json", "--proportions", "adaptive", "-o", tmp_path
    )
    assert (done.code, done.errors) == (0, [])
    for name in ("s0", "s2"):
        for one, all_ in ((tmp_path / "t", desk.reference().parent), (tmp_path, study)):
            image, made = one / f"{name}.nii.gz", read_json(one / f"{name}.json")
            assert image.read_bytes() == (all_ / "images" / image.name).read_bytes()
            assert (
                made["match"]["target"]
                == read_json(all_ / "maps" / f"{name}.json")["match"]["target"]
            )
        read = read_json(tmp_path / "t" / f"{name}.json")["inputs"]
        for tissue in NAMES:
            digest = sha256(desk.map(name, tissue))
            assert [file["sha256"] for file in read[tissue.lower()]] == [digest]


# ── models ───────────────────────────────────────────────────────────────────────────────────────
