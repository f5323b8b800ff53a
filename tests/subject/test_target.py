"""Targets: the forms in which they may be given, and the units of the result."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from one_scan import OTHER, fitted
from phantoms import AFFINE, radii, save
from scipy import stats

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash
from ndflow.files.stream import sha256_of
from ndflow.options import Options
from ndflow.subject.target import Target, check_units, in_units, read_target

FIT = fitted(OTHER)
REFERENCE = ndflow.reference([FIT.mixture])
TWO = ndflow.GaussianMixture([1.0], np.zeros((1, 2)), np.eye(2)[np.newaxis])


def read(to: Any, mask: Any = None, options: Options | None = None) -> Target:
    return read_target(to, mask, options=options or Options())


# Each form of a target, its density, and whether that has units.
FORMS: dict[str, tuple[Any, ndflow.GaussianMixture, bool]] = {
    "mixture": (FIT.mixture, FIT.mixture, True),
    "fit": (FIT, FIT.mixture, True),
    "reference": (REFERENCE, REFERENCE.mixture, False),
    "path of a mixture": (Path("mixture.json"), FIT.mixture, True),
    "path of a reference": ("reference.json", REFERENCE.mixture, False),
    "path of an image": ("image.nii.gz", FIT.mixture, True),
    "nibabel image": (nibabel.Nifti1Image(OTHER, AFFINE), FIT.mixture, True),
    "array": (OTHER, FIT.mixture, True),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_target_comes_in_many_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ndflow.save("mixture.json", FIT.mixture)
    ndflow.save("reference.json", REFERENCE)
    save(tmp_path / "image.nii.gz", OTHER)
    given, mixture, has_units = FORMS[form]
    target = read(given)
    assert target.model.mixture == mixture
    assert target.has_units == has_units
    files = [file.file for files in target.files.values() for file in files]
    assert files == ([str(given)] if form.startswith("path") else [])
    assert read(target) == target


def test_the_mask_and_the_settings_of_a_target_image_are_used(tmp_path: Path) -> None:
    inside = radii() < 0.8
    mask = save(tmp_path / "mask.nii.gz", inside.astype(np.uint8))
    image = save(tmp_path / "image.nii.gz", OTHER)
    target = read(image, mask, options=Options(effective_count=300))
    expected = ndflow.fit(ndflow.histogram(OTHER, inside), effective_count=300).mixture
    assert target.model.mixture == expected
    assert target.files == {
        what: (FileHash(str(path), sha256_of(path)),)
        for what, path in {"target": image, "target_mask": mask}.items()
    }


# ── units ────────────────────────────────────────────────────────────────────────────────────────


def test_units_are_those_of_a_target_scan_unless_others_are_asked_for() -> None:
    for options in (Options(), Options(scale="target")):
        assert in_units(read(FIT.mixture), options).mixture == FIT.mixture


def test_a_reference_is_on_the_standard_scale_and_results_on_the_positive_one() -> None:
    assert in_units(read(REFERENCE), Options(scale="standard")).mixture == REFERENCE.mixture
    chosen = in_units(read(REFERENCE), Options(scale="positive")).mixture
    assert in_units(read(REFERENCE), Options()).mixture == chosen


@pytest.mark.parametrize(
    ("scale", "mean", "variance"), [("standard", 0, 1), ("positive", 500, 125**2)]
)
@pytest.mark.parametrize("model", [FIT.mixture, REFERENCE])
def test_a_scale_is_the_mean_and_the_variance_of_the_target(
    model: Any, scale: Any, mean: float, variance: float
) -> None:
    density = in_units(read(model), Options(scale=scale)).mixture
    assert density.mean()[0] == pytest.approx(mean, abs=1e-10)
    assert density.covariance()[0, 0] == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize(
    ("choices", "dtype", "message"),
    [
        ({}, "int16", None),
        ({}, "uint16", None),
        ({"scale": "positive", "method": "zscore"}, "int16", None),
        (
            {"scale": "standard"},
            "int16",
            "of 1 only; .*--scale positive or --range 0 1000",
        ),
        ({"method": "zscore"}, "int16", "deviation of 1 only; .*--scale positive"),
        ({}, "uint8", "uint8 ends at 255, but .* a mean of 500; .*--range 0 255"),
        ({}, "int8", "int8 ends at 127, but .* a mean of 500; .*--range -128 127"),
        ({"range": (0, 255)}, "uint8", None),
        ({"range": (-900, -100)}, "uint16", "uint16 ends at 0, but .* a mean of -"),
        ({"range": (0, 1)}, "int16", "a standard deviation of 0"),
    ],
)
def test_integers_must_be_able_to_hold_the_result(
    choices: dict[str, Any], dtype: Any, message: str | None
) -> None:
    options = Options(**choices, dtype=dtype)
    target = read(REFERENCE, options=options)
    goal = in_units(target, options)
    # Before a study has made its reference, a range cannot be judged.
    for model in (goal, None) if "range" not in choices else (goal,):
        if message is None:
            check_units(options, name="x", model=model)
        else:
            with pytest.raises(InvalidValueError, match=message):
                check_units(options, name="x", model=model)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1000.0, 3000.5), (-2.0, -1.0)])
@pytest.mark.parametrize("model", [FIT.mixture, REFERENCE])
def test_a_range_lies_between_the_outer_percentiles(model: Any, ends: tuple[float, float]) -> None:
    density = in_units(read(model), Options(range=ends)).mixture
    means, sds = density.means[:, 0], 1 / np.sqrt(density.precisions[:, 0, 0])
    # The distribution function by hand, not with the method of the mixture.
    shares = [float(np.sum(density.weights * stats.norm.cdf((end - means) / sds))) for end in ends]
    assert shares == pytest.approx([0.001, 0.999], abs=1e-9)


def test_a_reference_has_no_units_of_its_own(tmp_path: Path) -> None:
    ndflow.save(tmp_path / "reference.json", REFERENCE)
    for given, name in ((REFERENCE, "Reference"), (tmp_path / "reference.json", "reference.json")):
        target, options = read(given), Options(scale="target")
        with pytest.raises(InvalidValueError, match=rf"{name}: .*--scale standard.*--range"):
            check_units(options, name=target.name, has_units=target.has_units)
        with pytest.raises(InvalidValueError, match=rf"{name}: .*--scale standard.*--range"):
            ndflow.normalise(OTHER, given, scale="target")


@pytest.mark.parametrize("model", [FIT.mixture, REFERENCE, FIT])
def test_a_model_has_no_mask(model: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"not an image.*--to-mask"):
        read(model, OTHER)


def test_a_density_of_several_channels_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="2 channels"):
        read(TWO)
    ndflow.save(tmp_path / "two.json", TWO)
    with pytest.raises(FileError, match=r"two\.json: .*2 channels"):
        read(tmp_path / "two.json")


def test_a_map_is_refused_as_a_target(tmp_path: Path) -> None:
    ndflow.save(tmp_path / "map.json", ndflow.Affine(2.0, 0.0))
    with pytest.raises(FileError, match=r"map\.json: of the kind 'map'"):
        read(tmp_path / "map.json")
