"""The tissues of a scan, read from maps of their probabilities."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import AFFINE, head, radii, save

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.population import Tissues
from ndflow.scan.reading import read_scan
from ndflow.scan.tissue_maps import TissueMaps, maps_each, tissues_of
from ndflow.settings import Fitting, Reading

SCAN = head(1)
KINDS = head(1, tissues=((1, 0), (2, 0), (3, 0)))  # the same head: 1 is fluid, 2 grey, 3 white
INSIDE = SCAN != 0
# Not quite certain anywhere, and all three together less than 1 at the rim.
SURE = np.where(radii() < 0.95, 0.9, 0.6)
MAPS = TissueMaps(*(np.where(k == KINDS, SURE, 0.03 * INSIDE) for k in (1, 2, 3)))
HARDLY_ANY = 0.3 * (INSIDE & (np.cumsum(INSIDE).reshape(SCAN.shape) <= 4))


def read(maps: TissueMaps = MAPS, image: Any = SCAN, **how: Any) -> tuple[Tissues, list[str]]:
    return tissues_of(read_scan(image, **how), maps, Reading(), Fitting())


def amounts(where: NDArray[np.bool_] = INSIDE) -> NDArray[np.float64]:
    """The proportions of the tissues, by summing."""
    total = np.array([one[where].sum() for one in MAPS])
    return total / total.sum()


def files(folder: Path, **other: Any) -> dict[str, Path]:
    maps = MAPS._asdict() | other
    return {name: save(folder / f"{name}.nii.gz", one) for name, one in maps.items()}


def test_proportions_are_sums_of_probabilities_inside_the_mask() -> None:
    np.testing.assert_allclose(read()[0].proportions, amounts(), rtol=1e-9)
    inner = radii() < 0.9
    np.testing.assert_allclose(read(mask=inner)[0].proportions, amounts(inner), rtol=1e-9)
    assert amounts(inner)[0] < 0.8 * amounts()[0]


def test_densities_are_those_of_voxels_weighted_by_probability() -> None:
    tissues, _ = read()
    for density, share in zip(tissues.densities, MAPS, strict=True):
        order = np.argsort(SCAN[INSIDE])
        x, weight = SCAN[INSIDE][order].astype(float), share[INSIDE][order]
        below = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
        assert np.abs(density.cdf(x) - below).max() < 0.03


def test_maps_may_be_counted_in_percent_and_stored_with_a_slope(tmp_path: Path) -> None:
    percent = TissueMaps(*(np.rint(100 * one).astype(np.uint8) for one in MAPS))
    np.testing.assert_allclose(read(percent)[0].proportions, amounts(), atol=1e-9)
    scaled = []
    for number, one in enumerate(MAPS):
        image = nibabel.Nifti1Image(one, AFFINE)
        image.header.set_data_dtype(np.uint8)  # nibabel chooses a slope
        nibabel.save(image, tmp_path / f"{number}.nii.gz")
        scaled.append(tmp_path / f"{number}.nii.gz")
    np.testing.assert_allclose(read(TissueMaps(*scaled))[0].proportions, amounts(), atol=0.01)


def test_the_units_of_a_scan_are_those_of_its_tissues(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(SCAN, AFFINE)
    image.header.set_slope_inter(0.5, 10.0)
    image.to_filename(tmp_path / "scan.nii.gz")
    plain, _ = read(mask=INSIDE)
    scaled, _ = read(image=tmp_path / "scan.nii.gz", mask=INSIDE)
    stored = nibabel.load(tmp_path / "scan.nii.gz").get_fdata()[INSIDE]
    slope, inter = np.polynomial.Polynomial.fit(SCAN[INSIDE], stored, 1).convert().coef[::-1]
    for one, other in zip(plain.densities, scaled.densities, strict=True):
        mapped = slope * one.quantile([0.1, 0.5, 0.9]) + inter
        np.testing.assert_allclose(other.quantile([0.1, 0.5, 0.9]), mapped, rtol=1e-3)


def test_what_is_not_a_number_does_not_count() -> None:
    hole = radii() < 0.3
    image = np.where(hole, np.nan, SCAN.astype(float))
    here, said = read(image=image, mask=INSIDE)
    np.testing.assert_allclose(here.proportions, amounts(INSIDE & ~hole), rtol=1e-9)
    white = np.where(hole, np.nan, MAPS.wm)
    there, _ = read(MAPS._replace(wm=white))
    total = np.array([MAPS.csf[INSIDE].sum(), MAPS.gm[INSIDE].sum(), np.nansum(white[INSIDE])])
    np.testing.assert_allclose(there.proportions, total / total.sum(), rtol=1e-9)
    assert said == []


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (MAPS.gm[:-1], r"has the shape \(23, 28, 20\), but the scan \(24, 28, 20\)"),
        (-MAPS.gm, "no probability is positive inside the mask, or some are negative"),
        (0 * MAPS.gm, "no probability is positive inside the mask, or some are negative"),
        (np.where(INSIDE, 0.0, 1.0), "no probability is positive inside the mask"),
        (1e-4 * MAPS.gm, r"the maps of its tissues reach 0\.9, 9e-05, 0\.9; .*the same units"),
        (HARDLY_ANY, r"hardly any GM \(\d.* of the tissues\); check the maps"),
    ],
)
def test_a_map_that_cannot_be_right_is_refused(
    tmp_path: Path, wrong: NDArray[Any], cause: str
) -> None:
    maps = TissueMaps(**files(tmp_path, gm=wrong))
    scan = save(tmp_path / "scan.nii.gz", SCAN)
    with pytest.raises(FileError, match=cause) as caught:
        read(maps, scan)
    of_all = "hardly" in cause or "units" in cause
    assert caught.value.path == str(scan if of_all else maps.gm)
    assert caught.value.hint


def test_a_map_that_lies_elsewhere_is_refused_and_one_a_little_off_is_said(tmp_path: Path) -> None:
    scan, maps = save(tmp_path / "scan.nii.gz", SCAN), files(tmp_path)
    off = AFFINE.copy()
    off[0, 3] += 0.1 * 2.0  # a tenth of a voxel
    save(maps["wm"], MAPS.wm, off)
    _, said = read(TissueMaps(**maps), scan)
    assert len(said) == 1
    assert f"{maps['wm']}: lies 0.1 voxels away from {scan}" in said[0]
    off[0, 3] += 20.0
    save(maps["wm"], MAPS.wm, off)
    with pytest.raises(FileError, match=r"wm\.nii\.gz: lies 10\.1 voxels away from"):
        read(TissueMaps(**maps), scan)


def test_maps_are_given_for_each_image_or_for_none() -> None:
    assert maps_each((), (), (), ["a", "b"]) == [None, None]
    maps = maps_each(("c1", "c2"), ("g1", "g2"), ("w1", "w2"), ["a", "b"])
    assert maps == [TissueMaps("c1", "g1", "w1"), TissueMaps("c2", "g2", "w2")]
    with pytest.raises(InvalidValueError, match="all three tissues are needed: give --wm too"):
        maps_each(("c1",), ("g1",), (), ["a"])
    with pytest.raises(InvalidValueError, match="--gm: 1 given for 2 images; give one for each"):
        maps_each(("c1", "c2"), ("g1",), ("w1", "w2"), ["a", "b"])
    assert TissueMaps.of(None, None, None) is None
    with pytest.raises(InvalidValueError, match="all three"):
        TissueMaps.of("c", None, "w")
    assert TissueMaps.of("c", "g", "w") == ("c", "g", "w")


def test_an_array_is_normalised_with_arrays_of_its_tissues(tmp_path: Path) -> None:
    bare = ndflow.reference([ndflow.fit_image(SCAN).mixture])
    reference = tmp_path / "reference.json"
    ndflow.save(reference, bare, record={"tissues": ndflow.tissue_model([read(MAPS)[0]]).to_dict()})
    maps: Any = MAPS._asdict()
    with pytest.raises(FileError, match="no tissues that were made of maps"):
        ndflow.normalise(SCAN, bare, target="tissue", **maps)
    result = ndflow.normalise(SCAN, reference, target="tissue", **maps)
    found = result.record["aim"]
    np.testing.assert_allclose(list(found["proportions"].values()), amounts(), rtol=1e-9)
    assert found["tissues"] == "maps"
    np.testing.assert_allclose(result.image[INSIDE], result.imap(SCAN[INSIDE]), atol=1e-3)
    with pytest.raises(InvalidValueError, match="all three"):
        ndflow.normalise(SCAN, reference, target="tissue", csf=MAPS.csf, wm=MAPS.wm)
    with pytest.raises(InvalidValueError, match="are for --target tissue only"):
        ndflow.normalise(SCAN, reference, **maps)
    with pytest.raises(FileError, match=r"reach 229.5, 0.9, 0.9"):
        read(MAPS._replace(csf=255 * np.asarray(MAPS.csf)))
