"""Targets: the forms in which they may be given, and the units of the result."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from one_scan import OTHER, fitted
from phantoms import AFFINE, save
from scipy import stats

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import ANY_CHANNEL, Subject
from ndflow.options import Options
from ndflow.population import Tissues
from ndflow.subject.records import ScanModel
from ndflow.subject.reference import read_source
from ndflow.subject.target import Target, check_contrast, check_units, in_units, read_target

FIT = fitted(OTHER)
REFERENCE = ndflow.reference([FIT.mixture])


def read(to: Any, mask: Any = None, options: Options | None = None) -> Target:
    return read_target(to, mask, options=options or Options())[0]


# Each form of a target, its density, and whether that has units.
FORMS: dict[str, tuple[Any, ndflow.GaussianMixture, bool]] = {
    "mixture": (FIT.mixture, FIT.mixture, True),
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


@pytest.mark.parametrize("place", ["mixture", "tissues"])
def test_a_file_with_a_density_that_no_image_has_is_refused(tmp_path: Path, place: str) -> None:
    far = FIT.mixture.transformed([[1.0]], [1e21])
    tissues = Tissues((far, FIT.mixture, FIT.mixture), [0.2, 0.4, 0.4])
    path = tmp_path / "far.json"
    model = {"mixture": ScanModel(far), "tissues": ScanModel(FIT.mixture, tissues=tissues)}[place]
    model.write(path)
    with pytest.raises(FileError, match="which no image has") as refused:
        read_source(Subject(path), options=Options())
    assert refused.value.path == str(path)
    with pytest.raises(FileError, match="which no image has"):
        read(path)


# What images are called by their user, their names, those of the target, and whether they fit.
CONTRASTS = [
    (ANY_CHANNEL, ["a_T2w.nii"], "T1w", False),
    (ANY_CHANNEL, ["a_T2w.nii", "b_FLAIR.nii"], "T1w", False),
    (ANY_CHANNEL, ["a_T2w.nii", "b_T1w.nii"], "T1w", True),  # a doubt about one of them
    (ANY_CHANNEL, ["a_T2w.nii", "b.nii"], "T1w", True),
    (ANY_CHANNEL, ["a_T1.nii"], "T1w", True),
    (ANY_CHANNEL, ["a_T2w.nii"], ANY_CHANNEL, True),
    (ANY_CHANNEL, ["a_T2w.nii"], "MTR", True),
    ("T1w", ["a_T2w.nii"], "T1w", True),  # the user knows better
    ("T2w", ["a_T1w.nii"], "T1w", False),
]


@pytest.mark.parametrize(("called", "names", "of", "fits"), CONTRASTS)
def test_what_all_images_show_must_be_what_the_target_does(
    called: str, names: list[str], of: str, fits: bool
) -> None:
    scans = [Subject({called: name}) for name in names]
    with nullcontext() if fits else pytest.raises(FileError):
        check_contrast(scans, [of], "target.json")


# ── units ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [FIT.mixture, REFERENCE])
def test_a_scale_is_the_mean_and_the_variance_of_the_target(model: Any) -> None:
    own, target = read(model).model.mixture, read(model)
    unchanged = in_units(target, Options(scale="standard" if model is REFERENCE else "target"))
    assert unchanged.mixture == own
    assert in_units(target, Options()) == (
        in_units(target, Options(scale="positive")) if model is REFERENCE else unchanged
    )
    for scale, mean, variance in (("standard", 0, 1), ("positive", 500, 125**2)):
        density = in_units(target, Options(scale=scale)).mixture  # type: ignore[arg-type]
        assert density.mean()[0] == pytest.approx(mean, abs=1e-10)
        assert density.covariance()[0, 0] == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize(
    ("choices", "dtype", "fits"),
    [
        ({}, "int16", True),
        ({"scale": "standard"}, "int16", False),
        ({"method": "zscore"}, "int16", False),
        ({}, "uint8", False),
        ({"range": (0, 255)}, "uint8", True),
        ({"range": (-900, -100)}, "uint16", False),
        ({"range": (0, 1)}, "int16", False),
    ],
)
def test_integers_must_be_able_to_hold_the_result(choices: Any, dtype: Any, fits: bool) -> None:
    options = Options(**choices, dtype=dtype)
    expected: AbstractContextManager[Any] = (
        nullcontext() if fits else pytest.raises(InvalidValueError, match="cannot hold a")
    )
    with expected:
        read(REFERENCE, options=options)
    if "range" not in choices:  # which cannot be judged before a study has made its reference
        with expected:
            check_units(options, name="x")


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1000.0, 3000.5), (-2.0, -1.0)])
@pytest.mark.parametrize("model", [FIT.mixture, REFERENCE])
def test_a_range_lies_between_the_outer_percentiles(model: Any, ends: tuple[float, float]) -> None:
    density = in_units(read(model), Options(range=ends)).mixture
    means, sds = density.means[:, 0], 1 / np.sqrt(density.precisions[:, 0, 0])
    # The distribution function by hand, not with the method of the mixture.
    shares = [float(np.sum(density.weights * stats.norm.cdf((end - means) / sds))) for end in ends]
    assert shares == pytest.approx([0.001, 0.999], abs=1e-9)
    own = read(model).model.mixture.means[:, 0]
    assert np.array_equal(means.argsort(), own.argsort())  # what is bright stays bright
