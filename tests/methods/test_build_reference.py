"""References with the parts that a method needs."""

import numpy as np
import pytest
from every_method import LANDMARK_METHODS
from phantoms import head

import ndflow
from ndflow.methods.base import DensityModel, build_reference, method_of
from ndflow.options import Options
from ndflow.population import Tissues

SCANS = [head(seed, gain=1 + seed) for seed in range(3)]
HISTOGRAMS = [ndflow.histogram(scan, scan != 0) for scan in SCANS]
FITS = [ndflow.fit(histogram).mixture for histogram in HISTOGRAMS]
PLAIN = [DensityModel(mixture) for mixture in FITS]
WEIGHTS = [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", LANDMARK_METHODS)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_landmarks_are_averaged_with_the_same_weights(
    name: str, weights: list[float] | None
) -> None:
    method, options = LANDMARK_METHODS[name], Options(method=name)
    models = [
        DensityModel(mixture, method.measure(histogram, options))
        for mixture, histogram in zip(FITS, HISTOGRAMS, strict=True)
    ]
    made = build_reference(models, method, weights=weights)
    parts = zip(models, weights or [1.0] * 3, strict=True)
    known = [(m.landmarks, ndflow.transport.align(m.mixture), w) for m, w in parts if m.landmarks]
    assert made.landmarks is not None
    assert made.landmarks == method.average(known)
    assert made.mixture == build_reference(PLAIN, method, weights=weights).mixture


def test_a_model_in_other_units_has_all_its_parts_in_them() -> None:
    method, options = method_of(Options(method="nyul")), Options(method="nyul")
    tissues = Tissues((FITS[0], FITS[1], FITS[2]), np.full(3, 1 / 3))
    model = DensityModel(FITS[0], method.measure(HISTOGRAMS[0], options), tissues)
    units = ndflow.Affine(2.0, 100.0)
    moved = model.transformed(units)
    assert model.landmarks is not None
    assert moved.landmarks == model.landmarks.transformed(units)
    assert moved.tissues == tissues.transformed(units)
    np.testing.assert_allclose(moved.mixture.mean(), units(FITS[0].mean()))
    assert set(moved.to_dict()) == {"mixture", "landmarks", "tissues"}
    assert set(DensityModel(FITS[0]).to_dict()) == {"mixture"}
