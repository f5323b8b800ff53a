"""``--proportions``: what scans are matched to, in every command."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, typed
from numpy.typing import NDArray
from phantoms import head, radii, save, voxels_of
from studies import positive, read_json, sha256

import ndflow
from ndflow.population import TissueModel, Tissues, tissue_model, tissues_from_components

SHAPE = (16, 18, 14)
EDGES = {"s0": 0.88, "s1": 0.98, "s2": 0.93, "s3": 1.0, "new": 0.96}  # larger: more CSF
SCANS = ["s0", "s1", "s2", "s3"]
NAMES = ("CSF", "GM", "WM")
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


@pytest.mark.parametrize("mode", ["individual", "two-level"])
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


@pytest.mark.parametrize(("mode", "bare"), [("individual", False), ("two-level", True)])
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


def test_the_average_is_the_target_of_the_paper_and_is_not_recorded(desk: Desk) -> None:
    paper = ("--preset", "paper")
    plain, named = desk.study(*paper), desk.study(*paper, "--proportions", "average", bare=True)
    for name in SCANS:
        image = Path("images") / f"{name}.nii.gz"
        assert (plain / image).read_bytes() == (named / image).read_bytes()
        made = read_json(plain / "maps" / f"{name}.json")
        assert "target" not in made["match"]
        assert made["settings"]["proportions"] == "average"
    assert "tissues" not in read_json(plain / "reference.json")["reference"]


def test_a_two_level_map_can_be_applied_and_inverted(run: Run, desk: Desk, tmp_path: Path) -> None:
    out = desk.study("--proportions", "tissue", "--mode", "two-level")
    image, made = out / "images" / "s1.nii.gz", out / "maps" / "s1.json"
    again, back = tmp_path / "again.nii.gz", tmp_path / "back.nii.gz"
    assert run("apply", desk.scan("s1"), "--map", made, "-o", again).code == 0
    np.testing.assert_array_equal(voxels_of(again), voxels_of(image))
    assert run("apply", image, "--map", made, "--inverse", "-o", back).code == 0
    np.testing.assert_allclose(voxels_of(back), voxels_of(desk.scan("s1")), atol=0.05)


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


def test_other_units_change_nothing_else(run: Run, desk: Desk, tmp_path: Path) -> None:
    words = ("normalise", desk.scan("new"), "--to", desk.reference(), "--proportions", "tissue")
    chosen = {"plain": (), "standard": ("--scale", "standard"), "range": ("--range", 0, 1000)}
    for name, units in chosen.items():
        out = tmp_path / f"{name}.nii.gz"
        assert run(*words, *desk.maps("new"), *units, "-o", out).code == 0
    low, high = ndflow.load(desk.reference()).mixture.quantile([0.001, 0.999])
    plain, standard, scaled = (voxels_of(tmp_path / f"{name}.nii.gz") for name in chosen)
    inside = plain != 0
    np.testing.assert_allclose(plain[inside], positive(standard[inside]), atol=0.01)
    expected = 1000 * (standard[inside] - low) / (high - low)
    np.testing.assert_allclose(scaled[inside], expected, atol=0.5)


# ── models ───────────────────────────────────────────────────────────────────────────────────────


def test_models_with_tissues_make_a_reference_with_tissues(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    done = run("fit", *map(desk.scan, SCANS), *desk.maps(*SCANS), "-o", tmp_path / "models")
    assert (done.code, done.err) == (0, "")
    models = [tmp_path / "models" / f"{name}.json" for name in SCANS]
    known = []
    for name, path in zip(SCANS, models, strict=True):
        tissues = Tissues.from_dict(read_json(path)["tissues"])
        np.testing.assert_allclose(tissues.proportions, desk.shares[name], rtol=1e-9)
        assert name not in path.read_text()  # models may be shared where scans may not
        known.append(tissues)
    made, turned = tmp_path / "r.json", tmp_path / "turned.json"
    assert run("reference", *models, "-o", made).code == 0
    saved = TissueModel.from_dict(read_json(made)["reference"]["tissues"])
    expected = tissue_model(known)
    np.testing.assert_allclose(saved.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(saved.covariance, expected.covariance, atol=1e-12)
    levels = np.linspace(0.01, 0.99, 99)
    for one, other in zip(saved.densities, expected.densities, strict=True):
        np.testing.assert_allclose(one.quantile(levels), other.quantile(levels), atol=1e-6)
    # The same in any order, and from the images themselves.
    assert run("reference", *models[::-1], "-o", turned).code == 0
    images = ("reference", *map(desk.scan, SCANS), *desk.maps(*SCANS))
    assert run(*images, "-o", tmp_path / "images.json").code == 0
    for path in (turned, tmp_path / "images.json"):
        assert read_json(path)["reference"]["tissues"] == read_json(made)["reference"]["tissues"]
    out = tmp_path / "new.nii.gz"
    words = ("normalise", desk.scan("new"), "--to", made, "--proportions", "tissue", "-o", out)
    assert run(*words, *desk.maps("new")).code == 0
    choice = read_json(tmp_path / "new.json")["match"]["target"]
    np.testing.assert_allclose(values(choice["proportions"]), desk.shares["new"], rtol=1e-9)
    assert (values(choice["population"]), choice["tissues"]) == (saved.mean.tolist(), "maps")


def test_where_one_model_lacks_tissues_the_reference_has_none_and_says_so(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    with_, without, made = (tmp_path / f"{name}.json" for name in ("with", "without", "made"))
    assert run("fit", desk.scan("s0"), *desk.maps("s0"), "-o", with_).code == 0
    assert run("fit", desk.scan("s1"), "-o", without).code == 0
    done = run("reference", with_, without, "-o", made)
    assert done.code == 0
    assert f"{without}: its tissues are unknown" in done.err
    assert "tissues" not in read_json(made)["reference"]
    words = ("normalise", desk.scan("new"), "--to", made, "-o", tmp_path / "new.nii.gz")
    refused = run(*words, "--proportions", "tissue", *desk.maps("new"))
    assert refused.code == 2
    assert "holds no tissues from tissue probability maps" in refused.err
    assert run(*words, "--proportions", "adaptive").code == 0
    choice = read_json(tmp_path / "new.json")["match"]["target"]
    assert choice["tissues"] == "components"
    expected = tissues_from_components(ndflow.load(made).mixture).mean
    assert values(choice["population"]) == pytest.approx(expected.tolist())
