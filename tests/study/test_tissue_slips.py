"""Slips that were made once in targets of tissues."""

import json
import sys

import numpy as np
import pytest
from phantoms import head, radii, save

import ndflow
from ndflow import GaussianMixture
from ndflow.cli import main
from ndflow.errors import NdflowError
from ndflow.methods.model import Portrait
from ndflow.methods.target_density import aim_of
from ndflow.population import TissueModel, adapted_proportions
from ndflow.scan.fit import fit_source
from ndflow.scan.tissue_maps import TissueMaps
from ndflow.settings import Fitting, Matching, Reading

T = (
    GaussianMixture([0.6, 0.4], [-2.2, -1.6], [0.4**-2, 0.5**-2]),
    GaussianMixture([1.0], [-0.1], [0.35**-2]),
    GaussianMixture([1.0], [1.0], [0.22**-2]),
)
COV = 0.05**2 * (np.eye(3) - 1 / 3)
SCAN, KINDS = head(1), head(1, tissues=((1, 0), (2, 0), (3, 0)))
MAPS = {n: (k == KINDS).astype(np.float32) for k, n in enumerate(("csf", "gm", "wm"), 1)}
REF = ndflow.reference([ndflow.fit_image(SCAN).mixture])


@pytest.fixture
def known(tmp_path):
    """A reference that knows tissues."""
    how = {"reading": Reading(), "fitting": Fitting(), "maps": TissueMaps(**MAPS)}
    tissues = fit_source(SCAN, mask=None, exclude=None, **how).tissues
    record = {"tissues": ndflow.tissue_model([tissues]).to_dict()}
    ndflow.save(tmp_path / "known.json", REF, record=record)
    return tmp_path / "known.json"


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*words):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["ndflow", *map(str, words)])
        return main(), capsys.readouterr()

    return command


@pytest.fixture
def files(tmp_path):
    ndflow.save(tmp_path / "r.json", REF)
    save(tmp_path / "s.nii.gz", SCAN)
    save(tmp_path / "s2.nii.gz", head(2))
    for n, m in MAPS.items():
        save(tmp_path / f"{n}.nii.gz", m)
    return tmp_path


def test_exactly_mean_proportions_do_not_divide_by_zero():
    model = TissueModel(T, [0.2, 0.45, 0.35], COV)
    aim_of(
        Portrait(model.target(model.mean)),
        Portrait(model.target(model.mean), tissues=model),
        Matching(target="adaptive"),
    )


def test_rounding_is_no_clear_gain():
    rng, clear = np.random.default_rng(0), 0
    for _ in range(60):
        mean = 0.8 * rng.dirichlet([8, 15, 12]) + 0.2 / 3
        model = TissueModel(T, mean, COV)
        clear += adapted_proportions(
            model.target(mean).transformed(rng.uniform(1, 100), rng.uniform(-100, 1000)), model
        ).clear
    assert clear == 0


def test_a_tiny_gain_is_not_clear():  # J falls from 1.6e-5 to 1.4e-5, shares move by 0.0004
    model = TissueModel(T, [0.2, 0.45, 0.35], COV)
    t = model.target(model.mean)
    assert not adapted_proportions(
        GaussianMixture(t.weights, t.means, t.precisions / 1.02**2), model
    ).clear


def test_a_population_with_little_fluid_can_be_adapted_to():
    model = TissueModel(T, [0.015, 0.535, 0.45], COV)
    found = adapted_proportions(model.target([0.1, 0.5, 0.4]), model)
    assert np.isfinite(found.before)
    assert found.proportions[0] > 0.05
    assert (
        "nan"
        not in aim_of(
            Portrait(model.target([0.1, 0.5, 0.4])),
            Portrait(model.target(model.mean), tissues=model),
            Matching(target="adaptive"),
        ).record["from"]
    )


def test_excluded_voxels_are_not_counted_among_tissues(known):
    lesion = (KINDS == 3) & (np.arange(24)[:, None, None] < 12)
    found = ndflow.normalise(SCAN, known, target="tissue", exclude=lesion, **MAPS).record["aim"][
        "proportions"
    ]["WM"]
    keep = ~lesion
    assert found == pytest.approx(
        (MAPS["wm"] * keep).sum() / sum((m * keep).sum() for m in MAPS.values()), rel=1e-6
    )


def test_infinity_in_a_map_is_left_out(known):
    bad = MAPS["csf"].copy()
    bad[12, 14, 10] = np.inf
    result = ndflow.normalise(SCAN, known, target="tissue", **(MAPS | {"csf": bad}))
    found = result.record["aim"]["proportions"]["CSF"]
    assert found == pytest.approx((KINDS == 1).sum() / (KINDS > 0).sum(), abs=1e-3)


def test_one_map_alone_is_not_ignored_in_python():
    with pytest.raises(NdflowError):
        ndflow.normalise(SCAN, REF, csf=MAPS["csf"])


def test_weights_of_a_reference_count_for_its_tissues(run, files):
    maps = [w for n in MAPS for w in (f"--{n}", files / f"{n}.nii.gz")]
    small = SCAN * (radii() < 0.9)
    save(files / "small.nii.gz", small)
    for n, s in (("a", "s"), ("b", "small")):
        assert run("fit", files / f"{s}.nii.gz", *maps, "-o", files / f"{n}.json")[0] == 0
    run("reference", files / "a.json", files / "b.json", "-o", files / "even.json")
    run(
        "reference", files / "a.json", files / "b.json", "--weights", 9, 1, "-o", files / "odd.json"
    )
    even, odd = (
        json.loads((files / f"{n}.json").read_text())["tissues"]["mean"] for n in ("even", "odd")
    )
    assert even != odd


@pytest.mark.parametrize(
    "words",
    [
        ("--to", "r.json", "--target", "tissue"),
        ("--to", "r.json", "MAPS"),
        ("--to", "s2.nii.gz", "--target", "adaptive"),
    ],
)
def test_a_rehearsal_refuses_what_the_run_refuses(run, files, monkeypatch, words):
    monkeypatch.chdir(files)
    maps = [w for n in MAPS for w in (f"--{n}", f"{n}.nii.gz")]
    words = [x for w in words for x in (maps if w == "MAPS" else [w])]
    assert run("normalise", "s.nii.gz", *words, "-o", "o.nii.gz", "--dry-run")[0] == 2


def test_a_rehearsal_of_a_study_looks_for_its_maps(run, files):
    (files / "t.tsv").write_text(
        "image\tcsf\tgm\twm\ns.nii.gz\tgone.nii.gz\tgm.nii.gz\twm.nii.gz\n"
    )
    assert run("cohort", files / "t.tsv", files / "out", "--target", "tissue", "--dry-run")[0] != 0


def test_greedy_options_are_explained(run, files):
    code, said = run(
        "normalise",
        "--to",
        files / "r.json",
        "-o",
        files / "o.nii.gz",
        "--target",
        "tissue",
        "--csf",
        files / "csf.nii.gz",
        "--gm",
        files / "gm.nii.gz",
        "--wm",
        files / "wm.nii.gz",
        files / "s.nii.gz",
    )
    assert code == 2
    assert "it goes before" in said.err


@pytest.mark.parametrize("order", [("wm", "gm", "csf"), ("gm", "csf", "wm"), ("csf", "wm", "gm")])
def test_maps_that_were_swapped_are_refused(run, known, files, order):
    given = zip(
        ("--csf", "--gm", "--wm"), (files / f"{name}.nii.gz" for name in order), strict=True
    )
    words = [word for pair in given for word in pair]
    out = files / "out.nii.gz"
    code, said = run(
        "normalise", files / "s.nii.gz", "--to", known, "--target", "tissue", *words, "-o", out
    )
    assert code == 2
    assert f"{files / 's.nii.gz'}: by the maps of its tissues " in said.err
    assert "in the reference it is the other way round; check which map is which" in said.err
    assert not out.exists()


@pytest.mark.parametrize("method", ["nyul", "quantile", "hellier"])
def test_a_reference_in_memory_does_not_pretend_to_have_landmarks(method):
    with pytest.raises(NdflowError, match=f"holds no landmarks of {method}; give the file"):
        ndflow.normalise(SCAN, REF, method=method)


def test_what_is_no_image_is_said():
    with pytest.raises(NdflowError, match="a path, a nibabel image or an array, not list"):
        ndflow.normalise([1, 2], REF)
    with pytest.raises(NdflowError, match="path must be of the type str"):
        ndflow.save(REF, "r.json")
