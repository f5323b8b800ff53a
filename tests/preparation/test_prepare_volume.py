"""One scan with known tissues and a known bias field, prepared by the real packages and template.

After a change of results, raise `ndflow._version.PREPARATIONS`, and renew what is stored:
``python tests/preparation/test_prepare_volume.py``.
"""

import json
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from nibabel.eulerangles import euler2mat
from scipy import ndimage

from ndflow._version import PREPARATIONS, versions
from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.preparation import volume as volume_module
from ndflow.preparation.registration import WarpedTemplate, halved_anatomy, interpolated
from ndflow.preparation.volume import prepare_volume

pytest.importorskip("picsl_greedy")

STORED = Path(__file__).parents[1] / "data" / "preparations.json"
MADE_BY = ("SimpleITK", "nilearn", "picsl_greedy")
SHAPE = (84, 76, 72)
TISSUES = np.array([30.0, 75.0, 110.0])  # CSF, GM, WM


def head():
    """Return a tilted scan with a bias field, and the truth; tissues are purer than an average."""
    anatomy = halved_anatomy()
    affine = np.eye(4)
    affine[:3, :3] = euler2mat(0.1, 0.05, -0.1) @ np.diag([2.3, 2.6, 2.5])
    affine[:3, 3] = (-88, -118, -70)

    def here(part):
        return interpolated(part, anatomy.affine, SHAPE, affine)

    gm, wm, brain = here(anatomy.gm), here(anatomy.wm), here(anatomy.brain) > 0.5
    pure = np.stack([np.clip(1 - gm - wm, 0, 1) * 1.3, gm, wm]) ** 5
    truth = np.where(brain, pure / pure.sum(axis=0), 0)
    clean = np.tensordot(TISSUES, truth, 1)
    noisy = clean + 2 * np.random.default_rng(0).standard_normal(SHAPE)
    place = np.indices(SHAPE) / np.array(SHAPE)[:, None, None, None] - 0.5
    field = np.exp(0.35 * place[0] - 0.5 * place[1] ** 2 + 0.2 * place[2])
    values = np.where(brain, noisy * field, 0).astype(np.float32)
    image = nib.Nifti1Image(values, affine)
    return read_volume(image, max_bytes=1 << 30), brain, truth, np.log(field)


@pytest.fixture(scope="module")
def scan():
    return head()


@pytest.fixture(scope="module")
def found(scan):
    volume, brain, *_ = scan
    return prepare_volume(volume, brain)


def results(found, brain):
    """Return some numbers about a prepared scan, and the versions of what made it."""
    known = versions(*MADE_BY)
    levels = np.quantile(found.corrected[brain], [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
    shares = [np.square(part).sum(dtype=np.float64) for part in found.tissues]
    return {
        "generation": PREPARATIONS,
        "versions": {name: known[name] for name in MADE_BY},
        "intensities": levels.tolist(),
        "squared probabilities": [float(share) for share in shares],
        "field": list(found.measures.field),
    }


@pytest.mark.slow
def test_results_change_only_with_their_generation(scan, found):
    stored, now = json.loads(STORED.read_text(encoding="utf-8")), results(found, scan[1])
    assert stored["generation"] == PREPARATIONS, f"renew: python {__file__}"
    if stored["versions"] != now["versions"]:
        pytest.skip("other versions of what makes them, for which scans are prepared again anyway")
    for name in ("intensities", "squared probabilities", "field"):
        np.testing.assert_allclose(
            now[name],
            stored[name],
            rtol=2e-3,
            err_msg=f"{name}: raise PREPARATIONS in _version.py, then python {__file__}",
        )


@pytest.mark.slow
def test_the_bias_field_is_removed_and_the_units_stay(scan, found):
    volume, brain, _, log = scan
    removed = np.log(volume.stored[brain] / found.corrected[brain])
    assert removed.mean() == pytest.approx(0, abs=0.01)  # a geometric mean of 1
    deep = ndimage.binary_erosion(brain, iterations=2)[brain]
    left = (log[brain] - log[brain].mean() - removed)[deep]
    assert left.std() < 0.25 * log[brain].std()
    low, high = found.measures.field
    assert low == pytest.approx(np.exp(removed.min()), rel=1e-3)
    assert high == pytest.approx(np.exp(removed.max()), rel=1e-3)


@pytest.mark.slow
def test_nothing_depends_on_what_is_in_a_lesion_and_two_runs_give_the_same_bytes(scan):
    volume, brain, *_ = scan
    lesion = np.zeros(SHAPE, bool)
    lesion[30:42, 30:44, 34:46] = True
    dark, bright = (
        prepare_volume(
            replace(volume, stored=np.where(lesion, value, volume.stored)), brain, lesion=lesion
        )
        for value in (np.float32(3), np.float32(900))
    )
    np.testing.assert_array_equal(dark.corrected[~lesion], bright.corrected[~lesion])
    np.testing.assert_array_equal(dark.tissues[:, ~lesion], bright.tissues[:, ~lesion])
    assert dark.measures == bright.measures
    np.testing.assert_allclose(dark.tissues.sum(axis=0)[lesion & brain], 1, rtol=1e-5)
    assert (dark.tissues[:, lesion] != bright.tissues[:, lesion]).any()
    assert sum(dark.measures.tissues_ml) == pytest.approx(
        (brain & ~lesion).sum() * volume.voxel_mm3 / 1000, rel=1e-4
    )


@pytest.mark.slow
def test_tissues_are_where_they_are_and_measured(scan, found):
    _, brain, truth, _ = scan
    ours, theirs = found.tissues.argmax(axis=0), truth.argmax(axis=0)
    for tissue, least in ((0, 0.8), (1, 0.93), (2, 0.95)):
        one, other = (ours == tissue) & brain, (theirs == tissue) & brain
        assert 2 * (one & other).sum() / (one.sum() + other.sum()) > least, tissue
    measures, voxel = found.measures, 2.3 * 2.6 * 2.5 / 1000
    amounts = found.tissues.sum(axis=(1, 2, 3)) * voxel
    assert measures.brain_ml == pytest.approx(brain.sum() * voxel)
    assert measures.tissues_ml == pytest.approx(amounts, rel=1e-4)
    assert measures.overlap > 0.95
    assert min(measures.agreement, measures.likeness) > 0.7


# ── without the template ─────────────────────────────────────────────────────────────────────────

AWAY = np.linalg.norm(np.indices((20, 20, 20)) - 10, axis=0)
SMALL = read_volume(nib.Nifti1Image((100 - AWAY).astype(np.float32), np.eye(4)))


def test_steps_can_be_left_out():
    found = prepare_volume(SMALL, AWAY < 3, bias_field=False, tissues=False)
    np.testing.assert_array_equal(found.corrected, SMALL.stored)
    assert (found.tissues, found.measures.field, found.measures.tissues_ml) == (None, None, None)
    assert found.measures.brain_ml == pytest.approx((AWAY < 3).sum() / 1000)


def test_what_is_found_on_the_working_grid_reaches_the_scan(monkeypatch):
    def field(coarse, lesion):
        assert lesion.any()
        return np.full_like(coarse.values, 0.5)

    def template(coarse, lesion):
        assert lesion.any()
        assert coarse.values.max() < 100 / np.exp(0.5)
        gm, wm = (np.full_like(coarse.values, share) for share in (0.3, 0.5))
        return WarpedTemplate(gm, wm, 1.0, 1.0, np.eye(4))

    def tissues(values, brain, expected, lesion):
        assert np.array_equal(lesion, AWAY < 3)
        return expected * brain

    for name, stub in {"log_bias_field": field, "register_template": template}.items():
        monkeypatch.setattr(volume_module.registration, name, stub)
    monkeypatch.setattr(volume_module, "segment", tissues)
    found = prepare_volume(SMALL, AWAY < 9, lesion=AWAY < 3)
    np.testing.assert_allclose(found.corrected, SMALL.stored / np.exp(0.5), rtol=1e-6)
    np.testing.assert_allclose(found.tissues[:, 10, 10, 5], [0.2, 0.3, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("inside", "options", "message"),
    [
        (AWAY < 0, {}, "no voxel is inside the brain"),
        (AWAY < 9, {"lesion": AWAY < 9}, "the lesion covers the whole brain"),
        (AWAY < 0.5, {"bias_field": False}, "the brain is too small: 0.001 ml.*check"),
        (AWAY < 2.2, {"tissues": False}, "too small for a bias field, or has no signal.*check"),
        (AWAY < 3, {"bias_field": False}, "too small to register the template.*check"),
    ],
)
def test_a_brain_without_enough_voxels_is_refused(inside, options, message):
    with pytest.raises(FileError, match=message):
        prepare_volume(SMALL, inside, **options)


def test_intensities_that_were_normalised_have_no_bias_field():
    scored = replace(SMALL, stored=SMALL.stored - 95)
    with pytest.raises(FileError, match=r"of the brain is negative.*--no-bias-field"):
        prepare_volume(scored, AWAY < 9)
    prepare_volume(scored, AWAY < 9, lesion=scored.stored < 0, tissues=False)


if __name__ == "__main__":
    volume, inside, *_ = head()
    made = results(prepare_volume(volume, inside), inside)
    STORED.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
