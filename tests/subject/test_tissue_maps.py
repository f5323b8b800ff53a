"""The tissues of a scan, read from tissue probability maps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import AFFINE, head, radii, save

import ndflow
from ndflow import Affine
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.subject.fit import tissues_of
from ndflow.subject.voxels import read_voxels

SCAN = head(1)
KINDS = head(1, tissues=((1, 0), (2, 0), (3, 0)))  # the same head: 1 is CSF, 2 GM, 3 WM
INSIDE = SCAN != 0
# Never quite certain, and with a sum below 1 at the rim.
SURE = np.where(radii() < 0.95, 0.9, 0.6)
MAPS = TissueMaps(*(np.where(k == KINDS, SURE, 0.03 * INSIDE) for k in (1, 2, 3)))
HARDLY_ANY = 0.3 * (INSIDE & (np.cumsum(INSIDE).reshape(SCAN.shape) <= 4))


def read(maps: TissueMaps = MAPS, image: Any = SCAN, **how: Any) -> Any:
    scan = Subject(image, tissues=maps, **how)
    return tissues_of(scan, read_voxels(scan, max_bytes=Options().max_bytes), Options())


def amounts(where: NDArray[np.bool_] = INSIDE) -> NDArray[np.float64]:
    """Return the proportions of the tissues, by summation."""
    total = np.array([one[where].sum() for one in MAPS])
    return total / total.sum()


def files(folder: Path, **other: Any) -> dict[str, Path]:
    maps = MAPS._asdict() | other
    return {name: save(folder / f"{name}.nii.gz", one) for name, one in maps.items()}


def test_proportions_are_sums_of_probabilities_of_the_voxels_that_count() -> None:
    inner, lesion = radii() < 0.9, np.arange(24)[:, None, None] < 10 * np.ones(SCAN.shape)
    np.testing.assert_allclose(read()[0].proportions, amounts(), rtol=1e-9)
    found = read(mask=inner, lesion=lesion.astype(np.uint8))[0].proportions
    np.testing.assert_allclose(found, amounts(inner & ~lesion), rtol=1e-9)
    percent = TissueMaps(*(np.rint(100 * one).astype(np.uint8) for one in MAPS))
    np.testing.assert_allclose(read(percent)[0].proportions, amounts(), atol=1e-9)


def test_densities_are_those_of_voxels_weighted_by_probability(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(SCAN.astype(float) / 2 + 10, AFFINE)
    image.header.set_data_dtype(np.int16)  # nibabel chooses a slope
    nibabel.save(image, tmp_path / "scan.nii.gz")
    order = np.argsort(SCAN[INSIDE])
    for voxels, units in ((SCAN, Affine(1.0, 0.0)), (tmp_path / "scan.nii.gz", Affine(0.5, 10.0))):
        tissues = read(image=voxels, mask=INSIDE)[0]
        for density, share in zip(tissues.densities, MAPS, strict=True):
            weight = share[INSIDE][order]
            below = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
            assert np.abs(density.cdf(units(SCAN[INSIDE][order])) - below).max() < 0.03


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (MAPS.gm[:-1], r"has the shape \(23, 28, 20\), but .* \(24, 28, 20\)"),
        (-MAPS.gm, "no probability is positive inside the mask, or some are negative"),
        (np.where(INSIDE, 0.0, 1.0), "no probability is positive inside the mask"),
        (1e-4 * MAPS.gm, r"its tissue maps reach 0\.9, 9e-05, 0\.9; .*the same units"),
        (HARDLY_ANY, r"hardly any GM \(\d.* of the tissues\); check its tissue"),
    ],
)
def test_an_implausible_tissue_map_is_refused(
    tmp_path: Path, wrong: NDArray[Any], cause: str
) -> None:
    maps = TissueMaps(**files(tmp_path, gm=wrong))
    scan = save(tmp_path / "scan.nii.gz", SCAN)
    with pytest.raises(FileError, match=cause) as caught:
        read(maps, scan)
    of_all = "hardly" in cause or "units" in cause
    assert caught.value.path == str(scan if of_all else maps.gm)
    assert caught.value.hint


def test_a_tissue_map_that_lies_elsewhere_is_refused_and_a_small_shift_is_warned_of(
    tmp_path: Path,
) -> None:
    scan, maps = save(tmp_path / "scan.nii.gz", SCAN), files(tmp_path)
    off = AFFINE.copy()
    off[0, 3] += 0.1 * 2.0  # a tenth of a voxel
    save(maps["wm"], MAPS.wm, off)
    said = read(TissueMaps(**maps), scan)[1]
    assert len(said) == 1
    assert f"{maps['wm']}: lies 0.1 voxels away from {scan}" in said[0]
    off[0, 3] += 20.0
    save(maps["wm"], MAPS.wm, off)
    with pytest.raises(FileError, match=r"wm\.nii\.gz: lies 10\.1 voxels away from"):
        read(TissueMaps(**maps), scan)


# ── targets in the proportions of a scan ─────────────────────────────────────────────────────────


def test_a_scan_is_normalised_by_its_tissue_maps() -> None:
    bare, maps = ndflow.reference([ndflow.fit(SCAN)]), dict[str, Any](MAPS._asdict())
    known = replace(bare, tissues=ndflow.population.tissue_model([read()[0]]))
    result = ndflow.normalise(SCAN, known, proportions="tissue", **maps)
    np.testing.assert_allclose(
        list(result.record.match.target.proportions.values()), amounts(), rtol=1e-9
    )
    np.testing.assert_allclose(result.image[INSIDE], result.imap(SCAN[INSIDE]), atol=1e-3)
    by_preset = ndflow.normalise(SCAN, known, **maps)
    assert np.array_equal(by_preset.image, result.image)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (bare, maps, "are for --proportions tissue only"),
        (known, {"csf": MAPS.csf, "wm": MAPS.wm}, "of all three tissues are needed"),
    ]
    for reference, how, message in wrong:
        with pytest.raises((FileError, InvalidValueError), match=message):
            ndflow.normalise(SCAN, reference, **how)


def test_voxels_of_a_tissue_map_that_are_not_finite_are_ignored() -> None:
    hole = radii() < 0.3
    image = np.where(hole, np.nan, SCAN.astype(float))
    here, said, _ = read(image=image, mask=INSIDE)
    np.testing.assert_allclose(here.proportions, amounts(INSIDE & ~hole), rtol=1e-9)
    white = np.where(hole, np.nan, MAPS.wm)
    white[12, 14, 10] = np.inf  # in the hole
    there = read(MAPS._replace(wm=white))[0]
    total = np.array([MAPS.csf[INSIDE].sum(), MAPS.gm[INSIDE].sum(), white[INSIDE & ~hole].sum()])
    np.testing.assert_allclose(there.proportions, total / total.sum(), rtol=1e-9)
    assert said == []
