"""``ndflow normalise``: what becomes of an image, of its header, and what is said about it."""

import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHImage
from nibabel.nifti1 import Nifti1Extension, Nifti1Header, Nifti1PairHeader
from nibabel.nifti2 import Nifti2Header, Nifti2PairHeader
from numpy.typing import NDArray
from phantoms import AFFINE, SHAPE, head, radii, save

import ndflow

SCAN = head(0)
OTHER = head(1, tissues=((250.0, 90.0), (520.0, 40.0), (900.0, 70.0)))
CLOSE = 2e-4  # of the target's spread: what the table of a map may be off, and float32

Run = Callable[..., Any]


def fitted(voxels: NDArray[Any], inside: NDArray[Any] | None = None, **how: Any) -> Any:
    """The density of an array, without the commands: of all voxels but 0, or of some."""
    return ndflow.fit(ndflow.histogram(voxels, voxels != 0 if inside is None else inside), **how)


SOURCE, TARGET = fitted(SCAN).mixture, fitted(OTHER).mixture
SPREAD = float(np.sqrt(TARGET.covariance()[0, 0]))
EXACT = ndflow.normalising_map(SOURCE, TARGET)


def record_of(output: Path) -> dict[str, Any]:
    name = output.name.partition(".")[0]
    return json.loads(output.with_name(f"{name}.json").read_text(encoding="utf-8"))


def loaded(path: Path) -> Any:
    """An image read by nibabel, which would leave an .mgh file open."""
    return MGHImage.from_bytes(path.read_bytes()) if path.suffix == ".mgh" else nibabel.load(path)


def voxels_of(path: Path) -> NDArray[Any]:
    return np.asanyarray(loaded(path).dataobj)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return save(tmp_path / "scan.nii.gz", SCAN)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The density of the other head, in a file."""
    ndflow.save(tmp_path / "target.json", TARGET)
    return tmp_path / "target.json"


@pytest.fixture
def normalised(run: Run, scan: Path, target: Path, tmp_path: Path) -> Run:
    """Return a function that normalises the scan to the target, with some options."""

    def command(*options: object, name: str = "out.nii.gz") -> Path:
        output = tmp_path / name
        done = run("normalise", scan, "--to", target, "-o", output, *options)
        assert (done.code, done.out) == (0, ""), done.err
        return output

    return command


# ── formats, geometry and header ─────────────────────────────────────────────────────────────────

HEADERS = {
    ("1", True): Nifti1Header,
    ("1", False): Nifti1PairHeader,
    ("2", True): Nifti2Header,
    ("2", False): Nifti2PairHeader,
}
STORED = SCAN + np.int16(8)  # so that the background is 0: 0.5 · 8 − 4
CHANGED = {"datatype", "bitpix", "vox_offset", "scl_slope", "scl_inter", "cal_min", "cal_max"}


def header_like_a_scanners(make: Any, endianness: str) -> Any:
    """A header with something in fields that a careless writer would lose."""
    header = make(endianness=endianness)
    header.set_data_shape(SHAPE)
    header.set_data_dtype(np.int16)
    header.set_qform(AFFINE, 1)
    sheared = AFFINE.copy()
    sheared[0, 1] = 0.125  # that only the sform can hold
    header.set_sform(sheared, 4)
    header.set_xyzt_units("mm", "sec")
    header.set_slope_inter(0.5, -4)
    header["descrip"], header["aux_file"], header["intent_name"] = b"a T1", b"aux", b"name"
    header["cal_min"], header["cal_max"], header["toffset"] = 10, 900, 2.5
    header["pixdim"][4] = 2.3
    header["slice_end"], header["slice_duration"] = 19, 0.25
    return header


def written(path: Path, version: str, endianness: str) -> bytes:
    """Write an image by hand, and return its header."""
    single = path.name.startswith("single")
    header = header_like_a_scanners(HEADERS[version, single], endianness)
    header["vox_offset"] = header.sizeof_hdr + 4 if single else 0
    voxels = STORED.astype(np.dtype(np.int16).newbyteorder(endianness)).tobytes("F")
    block: bytes = header.binaryblock
    files = {path: block + bytes(4) + voxels}
    if not single:
        files = {path.with_suffix(".hdr"): block, path.with_suffix(".img"): voxels}
    for name, content in files.items():
        packed = gzip.compress(content, mtime=0) if name.suffix == ".gz" else content
        name.write_bytes(packed)
    return block


def first_bytes(path: Path, count: int) -> bytes:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content)[:count]


@pytest.mark.parametrize("endianness", "<>")
@pytest.mark.parametrize("version", "12")
@pytest.mark.parametrize("name", ["single.nii", "single.nii.gz", "pair.hdr", "pair.img"])
def test_a_nifti_image_keeps_its_whole_header_but_what_voxels_are(
    run: Run, target: Path, tmp_path: Path, name: str, version: str, endianness: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    block = written(tmp_path / "in" / name, version, endianness)
    done = run("normalise", tmp_path / "in" / name, "--to", target, "-o", tmp_path / "out" / name)
    assert (done.code, done.err) == (0, "")

    output = tmp_path / "out" / name.replace(".img", ".hdr")
    make = HEADERS[version, name.startswith("single")]
    before = make(block, endianness, check=False)
    after = make(first_bytes(output, len(block)), endianness, check=False)
    assert {field for field in before if before[field].tobytes() != after[field].tobytes()} <= (
        CHANGED
    )
    assert after.get_data_dtype() == np.dtype("float32").newbyteorder(endianness)
    assert after["bitpix"] == 32
    assert (after["scl_slope"], after["scl_inter"]) == (1, 0)
    assert (after["cal_min"], after["cal_max"]) == (0, 0)

    image = loaded(output)
    was = loaded(tmp_path / "in" / name)
    assert type(image) is type(was)
    assert np.array_equal(image.affine, was.affine)
    for form in ("sform", "qform"):
        (here, code), (there, kept) = (
            getattr(part, f"get_{form}")(coded=True) for part in (image, was)
        )
        assert code == kept == {"sform": 4, "qform": 1}[form]
        assert np.array_equal(here, there)
    inside = SCAN != 0
    density = ndflow.fit(ndflow.histogram(STORED, inside, slope=0.5, inter=-4)).mixture
    exact = ndflow.normalising_map(density, TARGET)(0.5 * STORED[inside] - 4)
    result = voxels_of(output)
    assert np.abs(result[inside] - exact).max() < CLOSE * SPREAD
    assert not result[~inside].any()


@pytest.mark.parametrize("name", ["x.mgh", "x.mgz"])
def test_an_mgh_image_keeps_its_geometry_and_the_settings_of_the_scanner(
    run: Run, target: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "in").mkdir()
    image = MGHImage(SCAN, AFFINE)
    image.header["tr"], image.header["flip_angle"], image.header["te"] = 2300, 0.157, 2.98
    nibabel.save(image, tmp_path / "in" / name)
    done = run("normalise", tmp_path / "in" / name, "--to", target, "-o", tmp_path / name)
    assert (done.code, done.err) == (0, "")
    result = loaded(tmp_path / name)
    assert result.get_data_dtype() == ">f4"
    for field in image.header:
        if field != "type":
            assert result.header[field].tobytes() == image.header[field].tobytes(), field
    assert np.array_equal(result.affine, image.affine)
    inside = SCAN != 0
    off = voxels_of(tmp_path / name)[inside] - EXACT(SCAN[inside])
    assert np.abs(off).max() < CLOSE * SPREAD


@pytest.mark.parametrize("into", ["x.nii", "x.nii.gz", "x.hdr", "x.img.gz", "x.mgh", "x.mgz"])
@pytest.mark.parametrize("name", ["a.nii.gz", "a.mgz"])
def test_the_name_of_the_output_chooses_the_format(
    run: Run, target: Path, tmp_path: Path, name: str, into: str
) -> None:
    image = (MGHImage if name.endswith("mgz") else nibabel.Nifti1Image)(SCAN, AFFINE)
    nibabel.save(image, tmp_path / name)
    (tmp_path / "out").mkdir()
    done = run("normalise", tmp_path / name, "--to", target, "-o", tmp_path / "out" / into)
    assert (done.code, done.err) == (0, "")
    result = loaded(tmp_path / "out" / into)
    assert into.startswith("x.mg") == isinstance(result, MGHImage)
    np.testing.assert_allclose(result.affine, AFFINE, atol=1e-5)
    inside = SCAN != 0
    off = np.asanyarray(result.dataobj)[inside] - EXACT(SCAN[inside])
    assert np.abs(off).max() < CLOSE * SPREAD


def test_extensions_of_the_header_are_kept(run: Run, target: Path, tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(SCAN, AFFINE)
    image.header.extensions.append(Nifti1Extension("comment", b"from the scanner"))
    nibabel.save(image, tmp_path / "a.nii.gz")
    assert (
        run("normalise", tmp_path / "a.nii.gz", "--to", target, "-o", tmp_path / "b.nii").code == 0
    )
    (extension,) = nibabel.load(tmp_path / "b.nii").header.extensions
    assert extension.get_content().rstrip(b"\0") == b"from the scanner"


def test_a_fourth_axis_of_length_1_is_kept(run: Run, target: Path, tmp_path: Path) -> None:
    flat = save(tmp_path / "three.nii.gz", SCAN)
    deep = save(tmp_path / "four.nii.gz", SCAN[..., np.newaxis])
    inside = save(tmp_path / "mask.nii.gz", (SCAN > 400).astype(np.uint8))
    images = []
    for image in (flat, deep):
        output = tmp_path / f"out_{image.name}"
        command = ("normalise", image, "--to", target, "-o", output, "--mask", inside)
        assert run(*command).code == 0
        images.append(voxels_of(output))
    assert images[1].shape == (*SHAPE, 1)
    assert np.array_equal(images[0], images[1][..., 0])


# ── the voxels ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "float64",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
    ],
)
def test_the_type_of_a_voxel_can_be_chosen(normalised: Run, dtype: str) -> None:
    output = normalised("--dtype", dtype, "--range", 10, 100)
    image = nibabel.load(output)
    assert image.get_data_dtype() == dtype
    assert (image.dataobj.slope, image.dataobj.inter) == (1, 0)
    low, high = TARGET.quantile([0.001, 0.999])
    inside = SCAN != 0
    expected = 10 + 90 * (EXACT(SCAN[inside]) - low) / (high - low)
    off = np.abs(voxels_of(output)[inside] - expected).max()
    assert off < CLOSE * 90 + (0.5 if "int" in dtype else 0)


def test_values_that_the_type_cannot_hold_are_clipped_and_counted(
    run: Run, scan: Path, target: Path, tmp_path: Path
) -> None:
    command = ("normalise", scan, "--to", target, "--range", "-2", 200)
    plain, small = tmp_path / "plain.nii", tmp_path / "small.nii"
    assert run(*command, "-o", plain).code == 0
    done = run(*command, "-o", small, "--dtype", "int8")
    assert done.code == 0
    unclipped = np.rint(voxels_of(plain))
    beyond = int(np.count_nonzero((unclipped < -128) | (unclipped > 127)))
    assert beyond > 100
    assert np.array_equal(voxels_of(small), np.clip(unclipped, -128, 127))
    assert record_of(small)["clipped"] == beyond
    assert f"warning: {small}: {beyond:,} voxels did not fit the type int8" in done.err


# ── masks ────────────────────────────────────────────────────────────────────────────────────────


def test_masks_belong_to_the_scans_in_order(run: Run, target: Path, tmp_path: Path) -> None:
    images, masks, chosen = [], [], []
    for number, cut in enumerate((0.7, 0.95)):
        images.append(save(tmp_path / f"scan{number}.nii.gz", head(number + 5)))
        chosen.append(radii() < cut)
        masks.append(save(tmp_path / f"mask{number}.nii.gz", chosen[-1].astype(np.uint8)))
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out", "--mask", *masks)
    assert (done.code, done.err) == (0, "")
    for number, inside in enumerate(chosen):
        record = record_of(tmp_path / "out" / f"scan{number}.nii.gz")
        assert record["voxels"]["fitted"] == np.count_nonzero(inside)
        mixture = ndflow.GaussianMixture.from_dict(record["mixture"])
        assert mixture == fitted(head(number + 5), inside).mixture
        assert [part["file"] for part in record["inputs"]["mask"]] == [str(masks[number])]


def test_each_mask_may_follow_an_option_of_its_own(run: Run, target: Path, tmp_path: Path) -> None:
    images = [save(tmp_path / f"{number}.nii", head(number)) for number in range(2)]
    masks = [
        save(tmp_path / f"m{number}.nii", (radii() < cut).astype(np.uint8))
        for number, cut in enumerate((0.7, 0.95))
    ]
    command = ("normalise", *images, "--to", target, "-o", tmp_path / "out")
    assert run(*command, "--mask", masks[0], "--mask", masks[1]).code == 0
    counts = [record_of(tmp_path / "out" / f"{n}.nii")["voxels"]["fitted"] for n in range(2)]
    assert counts == [np.count_nonzero(radii() < cut) for cut in (0.7, 0.95)]


@pytest.mark.parametrize("option", ["--mask", "--exclude"])
def test_too_few_masks_are_refused(
    run: Run, scan: Path, target: Path, tmp_path: Path, option: str
) -> None:
    second = save(tmp_path / "second.nii.gz", SCAN)
    command = ("normalise", scan, second, "--to", target, "-o", tmp_path / "out")
    done = run(*command, option, scan)
    assert done.code == 2
    (message,) = done.errors
    assert message.startswith(f"error: {option}: ")
    assert "2 images" in message
    assert not (tmp_path / "out").exists()


def test_the_mask_of_a_target_image_chooses_its_voxels(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    inside = radii() < 0.8
    other = save(tmp_path / "other.nii.gz", OTHER)
    mask = save(tmp_path / "other_mask.nii.gz", inside.astype(np.uint8))
    output = tmp_path / "out.nii.gz"
    done = run("normalise", scan, "--to", other, "--to-mask", mask, "-o", output)
    assert (done.code, done.err) == (0, "")
    record = record_of(output)
    density = ndflow.GaussianMixture.from_dict(record["target"]["mixture"])
    assert density == fitted(OTHER, inside).mixture
    assert record["target"]["name"] == str(other)
    assert [part["file"] for part in record["inputs"]["target_mask"]] == [str(mask)]


@pytest.mark.parametrize("automatic", ["--mask", "--to-mask"])
def test_the_foreground_is_found_where_air_is_noisy(
    run: Run, tmp_path: Path, automatic: str
) -> None:
    shape = (40, 44, 36)
    voxels = head(0, shape=shape)
    inside = voxels != 0
    air = np.abs(np.random.default_rng(1).normal(0, 8, shape)) + 1
    noisy = save(tmp_path / "noisy.nii.gz", np.where(inside, voxels, air).astype(np.int16))
    clean = save(tmp_path / "clean.nii.gz", OTHER)
    image, to = (noisy, clean) if automatic == "--mask" else (clean, noisy)
    output = tmp_path / "out.nii.gz"
    done = run("normalise", image, "--to", to, "-o", output, automatic, "auto")
    assert (done.code, done.err) == (0, "")
    record = record_of(output)
    if automatic == "--mask":
        assert record["voxels"]["fitted"] == pytest.approx(np.count_nonzero(inside), rel=0.02)
    found = record["mixture"] if automatic == "--mask" else record["target"]["mixture"]
    mixture = ndflow.GaussianMixture.from_dict(found)
    assert mixture.mean()[0] == pytest.approx(voxels[inside].mean(), rel=0.02)


def test_auto_stands_for_the_mask_of_all_scans(run: Run, target: Path, tmp_path: Path) -> None:
    images = [save(tmp_path / f"{number}.nii", head(number)) for number in range(2)]
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out", "--mask", "auto")
    assert done.code == 0
    assert all((tmp_path / "out" / image.name).exists() for image in images)


def test_without_a_mask_all_voxels_but_0_count(normalised: Run) -> None:
    record = record_of(normalised())
    assert record["voxels"] == {
        "fitted": np.count_nonzero(SCAN),
        "excluded": 0,
        "outliers": 0,
        "not_finite": 0,
    }
    assert ndflow.GaussianMixture.from_dict(record["mixture"]) == SOURCE
    assert "mask" not in record["inputs"]


def test_excluded_voxels_are_not_fitted_but_mapped(run: Run, target: Path, tmp_path: Path) -> None:
    lesion = np.zeros(SHAPE, bool)
    lesion[8:14, 10:16, 6:12] = True
    voxels = np.where(lesion, 2000, SCAN).astype(np.int16)
    voxels[0, 0, 0] = 0
    image = save(tmp_path / "a.nii.gz", voxels)
    # A part of it lies outside the head, where there is nothing to exclude.
    wide = lesion.copy()
    wide[:2] = True
    mask = save(tmp_path / "lesion.nii.gz", wide.astype(np.uint8))
    output = tmp_path / "b.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output, "--exclude", mask)
    assert (done.code, done.err) == (0, "")

    seen = (voxels != 0) & ~wide
    record = record_of(output)
    assert record["voxels"]["fitted"] == np.count_nonzero(seen)
    assert record["voxels"]["excluded"] == np.count_nonzero((voxels != 0) & wide)
    density = fitted(voxels, seen).mixture
    assert ndflow.GaussianMixture.from_dict(record["mixture"]) == density
    exact = ndflow.normalising_map(density, TARGET)(voxels)
    inside = voxels != 0
    assert np.abs(voxels_of(output) - exact)[inside].max() < CLOSE * SPREAD
    assert [part["file"] for part in record["inputs"]["exclude"]] == [str(mask)]


# ── outside ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def surrounded(tmp_path: Path) -> tuple[Path, Path, NDArray[Any], NDArray[np.bool_]]:
    """A head with fat around its mask, some zeros inside it and some around: image and mask."""
    voxels, inside = SCAN.copy(), radii() < 0.9
    voxels[12, 14, 5:15] = 0
    assert (voxels[~inside] == 0).any()
    assert (voxels[~inside] != 0).any()
    image = save(tmp_path / "image.nii.gz", voxels)
    return image, save(tmp_path / "mask.nii.gz", inside.astype(np.uint8)), voxels, inside


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
@pytest.mark.parametrize("masked", [True, False])
def test_what_is_outside_becomes_what_was_asked_for(
    run: Run,
    target: Path,
    tmp_path: Path,
    surrounded: tuple[Path, Path, NDArray[Any], NDArray[np.bool_]],
    outside: str | None,
    masked: bool,
) -> None:
    image, mask, voxels, inside = surrounded
    inside = inside if masked else voxels != 0
    options: list[object] = ["--mask", mask] if masked else []
    options += ["--outside", outside] if outside else []
    output = tmp_path / "out.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output, *options)
    assert (done.code, done.err) == (0, "")
    result = voxels_of(output)

    exact = ndflow.normalising_map(fitted(voxels, inside), TARGET)(voxels)
    stays = ~inside if outside in ("zero", "keep") else ~inside & (voxels == 0)
    if outside == "map":
        stays = np.zeros(SHAPE, bool)
    assert np.abs(result - exact)[~stays].max() < CLOSE * SPREAD
    assert np.array_equal(result[stays], voxels[stays] if outside == "keep" else 0 * voxels[stays])


# ── units ────────────────────────────────────────────────────────────────────────────────────────


def is_standard(result: NDArray[Any]) -> bool:
    inside = result[SCAN != 0]
    return abs(inside.mean()) < 0.02 and abs(inside.std() - 1) < 0.02


def is_like_the_target(result: NDArray[Any]) -> bool:
    inside, there = result[SCAN != 0], OTHER[OTHER != 0]
    return (
        abs(inside.mean() - there.mean()) < 0.02 * there.std()
        and abs(inside.std() / there.std() - 1) < 0.02
    )


@pytest.mark.parametrize("scale", [None, "standard", "target"])
@pytest.mark.parametrize("kind", ["reference", "mixture", "image"])
def test_the_units_of_the_result(
    run: Run, scan: Path, tmp_path: Path, kind: str, scale: str | None
) -> None:
    to = tmp_path / "to.json"
    if kind == "image":
        to = save(tmp_path / "to.nii.gz", OTHER)
    else:
        ndflow.save(to, ndflow.reference([TARGET]) if kind == "reference" else TARGET)
    output = tmp_path / "out.nii.gz"
    options = ["--scale", scale] if scale else []
    done = run("normalise", scan, "--to", to, "-o", output, *options)
    if kind == "reference" and scale == "target":
        assert done.code == 2
        (message,) = done.errors
        assert message.startswith(f"error: {to}: a reference has no units of its own")
        assert "--scale standard" in message
        assert "--range LOW HIGH" in message
        assert not output.exists()
        assert not output.with_name("out.json").exists()
        return
    assert (done.code, done.err) == (0, "")
    standard = scale == "standard" or (scale is None and kind == "reference")
    assert is_standard(voxels_of(output)) == standard
    assert is_like_the_target(voxels_of(output)) != standard


def test_the_standard_scale_is_the_targets_own_made_standard(normalised: Run) -> None:
    plain = voxels_of(normalised(name="plain.nii"))
    standard = voxels_of(normalised("--scale", "standard", name="standard.nii"))
    inside = SCAN != 0
    expected = (plain[inside] - TARGET.mean()[0]) / SPREAD
    assert np.abs(standard[inside] - expected).max() < CLOSE


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1000, 3000.5), (-2, -1)])
def test_a_range_is_a_linear_change_of_units(normalised: Run, low: float, high: float) -> None:
    plain = voxels_of(normalised(name="plain.nii"))
    ranged = voxels_of(normalised("--range", low, high, name="ranged.nii"))
    bottom, top = TARGET.quantile([0.001, 0.999])
    inside = SCAN != 0
    expected = low + (high - low) * (plain[inside] - bottom) / (top - bottom)
    assert np.abs(ranged[inside] - expected).max() < CLOSE * (high - low)


@pytest.mark.parametrize("kind", ["image", "reference"])
def test_the_targets_percentiles_land_on_the_ends_of_the_range(
    run: Run, tmp_path: Path, kind: str
) -> None:
    # Brought to itself, the target shows where its own percentiles went.
    image = save(tmp_path / "image.nii.gz", head(1, shape=(48, 50, 44)))
    to = image
    if kind == "reference":
        to = tmp_path / "reference.json"
        ndflow.save(to, ndflow.reference([fitted(head(1, shape=(48, 50, 44))).mixture]))
    output = tmp_path / "out.nii.gz"
    assert run("normalise", image, "--to", to, "-o", output, "--range", 100, 1100).code == 0
    result = voxels_of(output)
    ends = np.percentile(result[result != 0], [0.1, 99.9])
    np.testing.assert_allclose(ends, [100, 1100], atol=30)


# ── methods ──────────────────────────────────────────────────────────────────────────────────────


def moments(mixture: ndflow.GaussianMixture) -> tuple[float, float]:
    weights, means = mixture.weights, mixture.means[:, 0]
    mean = float(np.sum(weights * means))
    variance = np.sum(weights * (1 / mixture.precisions[:, 0, 0] + means**2)) - mean**2
    return mean, float(np.sqrt(variance))


def test_the_affine_method_aligns_mean_and_spread_alone(normalised: Run) -> None:
    output = normalised("--method", "affine")
    (mean, sd), (to_mean, to_sd) = moments(SOURCE), moments(TARGET)
    inside = SCAN != 0
    expected = (SCAN[inside] - mean) / sd * to_sd + to_mean
    np.testing.assert_allclose(voxels_of(output)[inside], expected, rtol=1e-6, atol=1e-3)
    record = record_of(output)
    assert record["divergence"]["before"] == record["divergence"]["after"] > 0
    assert record["jacobian"]["range"] == pytest.approx([to_sd / sd] * 2)
    assert record["jacobian"]["relative_to_affine"] == pytest.approx([1, 1])


def mass_apart(output: Path) -> float:
    """Wasserstein's distance between the voxels and those of the target."""
    shares = (np.arange(500) + 0.5) / 500
    result, there = voxels_of(output)[SCAN != 0], OTHER[OTHER != 0]
    return float(np.abs(np.quantile(result, shares) - np.quantile(there, shares)).mean())


def test_the_flow_comes_nearer_to_the_target_than_the_alignment(normalised: Run) -> None:
    flow, affine = normalised(name="a.nii"), normalised("--method", "affine", name="b.nii")
    assert mass_apart(flow) < 0.5 * mass_apart(affine)


OPTIONS: dict[str, tuple[tuple[object, ...], dict[str, Any]]] = {
    "objective": (("--objective", "cramer"), {"objective": "cramer"}),
    "regularisation": (("--regularisation", 0.1), {"regularisation": 0.1}),
    "solver": (("--solver", "rk4"), {"solver": "rk4"}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_the_match_reach_the_map(normalised: Run, name: str) -> None:
    options, settings = OPTIONS[name]
    output = normalised(*options)
    exact = ndflow.normalising_map(SOURCE, TARGET, **settings)
    inside = SCAN != 0
    off = np.abs(voxels_of(output)[inside] - exact(SCAN[inside])).max()
    assert off < CLOSE * SPREAD
    assert record_of(output)["settings"][name] == settings[name]
    # The solver changes how the map is found, and not the map.
    moved = np.abs(exact(SCAN[inside]) - EXACT(SCAN[inside])).max()
    assert (moved > 10 * CLOSE * SPREAD) == (name != "solver")


def test_the_effective_count_reaches_the_fits_of_scan_and_target(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    other, output = save(tmp_path / "other.nii.gz", OTHER), tmp_path / "out.nii.gz"
    command = ("normalise", scan, "--to", other, "-o", output, "--effective-count", 200)
    assert run(*command).code == 0
    record = record_of(output)
    assert record["settings"]["effective_count"] == 200
    for voxels, part in ((SCAN, record), (OTHER, record["target"])):
        mixture = ndflow.GaussianMixture.from_dict(part["mixture"])
        assert mixture == fitted(voxels, effective_count=200).mixture
        assert mixture != fitted(voxels).mixture


# ── the record ───────────────────────────────────────────────────────────────────────────────────


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_record_says_what_was_done_to_what(run: Run, scan: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other.nii", OTHER)
    masks = {
        name: save(tmp_path / f"{name}.nii.gz", inside.astype(np.uint8))
        for name, inside in {
            "mask": radii() < 0.95,
            "to_mask": radii() < 0.9,
            "exclude": radii() < 0.2,
        }.items()
    }
    output = tmp_path / "out.nii.gz"
    words = ["normalise", scan, "--to", other, "-o", output, "--mask", masks["mask"]]
    words += ["--to-mask", masks["to_mask"], "--exclude", masks["exclude"]]
    words += ["--range", "0", "100", "--outside", "zero"]
    done = run(*words)
    assert (done.code, done.err) == (0, "")
    record = record_of(output)
    assert (record["format"], record["version"], record["kind"]) == ("ndflow", 1, "map")
    assert record["ndflow"] == ndflow.__version__
    assert record["command"] == ["ndflow", *map(str, words)]
    assert record["settings"] == {
        "mask": "given",
        "exclude": True,
        "max_bytes": 4 << 30,
        "effective_count": 1e4,
        "method": "ndflow",
        "target": "average",
        "lesions": None,
        "freeze": [],
        "objective": "l2",
        "regularisation": 1e-3,
        "solver": "exact",
        "landmarks": 11,
        "scale": None,
        "range": [0, 100],
        "outside": "zero",
        "dtype": "float32",
        "force": False,
    }
    files = {
        "image": scan,
        "mask": masks["mask"],
        "exclude": masks["exclude"],
        "target": other,
        "target_mask": masks["to_mask"],
    }
    assert record["inputs"] == {
        what: [{"file": str(file), "sha256": sha256(file)}] for what, file in files.items()
    }
    assert record["warnings"] == []
    assert record["clipped"] == 0
    assert record["fit"].startswith("converged")
    assert record["match"].startswith("converged")


def test_both_files_of_a_pair_are_in_the_record(run: Run, target: Path, tmp_path: Path) -> None:
    written(tmp_path / "pair.img", "1", "<")
    output = tmp_path / "out.nii.gz"
    assert run("normalise", tmp_path / "pair.img", "--to", target, "-o", output).code == 0
    names = [tmp_path / "pair.hdr", tmp_path / "pair.img"]
    assert record_of(output)["inputs"]["image"] == [
        {"file": str(name), "sha256": sha256(name)} for name in names
    ]


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_the_record_holds_the_divergence_before_and_after(normalised: Run, objective: str) -> None:
    found = record_of(normalised("--objective", objective))["divergence"]
    # Where the target has unit variance: the divergence depends on the units.
    there = ndflow.align(TARGET)
    standard = TARGET.transformed(there.matrix, there.offset)
    affine = ndflow.align(SOURCE, TARGET)
    aligned = SOURCE.transformed(affine.matrix, affine.offset)
    matched = ndflow.match(aligned, TARGET, objective=objective).matched
    before, after = (
        ndflow.divergence(part.transformed(there.matrix, there.offset), standard, objective)
        for part in (aligned, matched)
    )
    assert found["objective"] == objective
    assert found["before"] == pytest.approx(before, rel=1e-6)
    assert found["after"] == pytest.approx(after, rel=1e-6)
    assert after < 0.5 * before


def test_the_record_holds_the_range_of_the_jacobian(normalised: Run) -> None:
    found = record_of(normalised())["jacobian"]
    low, high = SOURCE.quantile([0.0005, 0.9995])
    step = 1e-4 * (high - low)
    x = np.linspace(low + step, high - step, 5000)
    slopes = (EXACT(x + step) - EXACT(x - step)) / (2 * step)
    ends = np.array([slopes.min(), slopes.max()])
    np.testing.assert_allclose(found["range"], ends, rtol=0.01)
    alignment = np.sqrt(TARGET.covariance()[0, 0] / SOURCE.covariance()[0, 0])
    np.testing.assert_allclose(found["relative_to_affine"], ends / alignment, rtol=0.01)
    assert found["relative_to_affine"][0] < 0.95 < 1.05 < found["relative_to_affine"][1]


def test_the_map_of_the_record_is_the_one_that_made_the_image(normalised: Run) -> None:
    output = normalised()
    imap = ndflow.load(output.with_name("out.json"))
    assert isinstance(imap, ndflow.IntensityMap)
    inside = SCAN != 0
    assert np.array_equal(voxels_of(output)[inside], imap(SCAN[inside]).astype(np.float32))


def test_a_stray_voxel_is_an_outlier_and_counted_as_one(
    run: Run, target: Path, tmp_path: Path
) -> None:
    voxels = SCAN.astype(np.float32)
    voxels[12, 14, 10] = 1e30
    image, output = save(tmp_path / "a.nii.gz", voxels), tmp_path / "b.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output)
    assert done.code == 0
    counts = record_of(output)["voxels"]
    assert counts["outliers"] >= 1
    assert counts["fitted"] + counts["outliers"] == np.count_nonzero(voxels)
    assert np.isfinite(voxels_of(output)).all()


# ── determinism ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["out.nii.gz", "out.mgz"])
def test_the_same_command_gives_the_same_bytes(
    run: Run, scan: Path, tmp_path: Path, name: str
) -> None:
    other = save(tmp_path / "other.nii.gz", OTHER)
    found = []
    for _ in range(2):
        command = ("normalise", scan, "--to", other, "-o", tmp_path / name, "--force")
        assert run(*command).code == 0
        found.append(((tmp_path / name).read_bytes(), (tmp_path / "out.json").read_bytes()))
    assert found[0] == found[1]


# ── several scans ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def study(tmp_path: Path) -> list[Path]:
    """Three scans."""
    (tmp_path / "study").mkdir()
    return [save(tmp_path / "study" / f"{n}.nii.gz", head(n)) for n in range(3)]


@pytest.mark.parametrize("place", ["new", "existing", "slash/"])
def test_several_scans_go_to_a_folder(
    run: Run, study: list[Path], target: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "existing").mkdir()
    folder = tmp_path / place
    output = f"{folder}/" if place.endswith("/") else folder
    done = run("normalise", *study, "--to", target, "-o", output)
    assert done == (0, "", "")
    expected = sorted(f"{n}{end}" for n in range(3) for end in (".json", ".nii.gz"))
    assert sorted(path.name for path in folder.iterdir()) == expected


def test_one_scan_goes_to_a_folder_under_its_own_name(
    run: Run, scan: Path, target: Path, tmp_path: Path
) -> None:
    assert run("normalise", scan, "--to", target, "-o", f"{tmp_path}/new/") == (0, "", "")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "scan.json",
        "scan.nii.gz",
    ]


def test_a_scan_is_normalised_in_company_as_it_is_alone(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    assert run("normalise", *study, "--to", target, "-o", tmp_path / "out").code == 0
    for image in study:
        alone = tmp_path / f"alone_{image.name}"
        assert run("normalise", image, "--to", target, "-o", alone).code == 0
        assert alone.read_bytes() == (tmp_path / "out" / image.name).read_bytes()


def test_workers_give_the_same_bytes(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for jobs, folder in enumerate(folders, start=1):
        done = run("normalise", *study, "--to", target, "-o", folder, "-j", jobs)
        assert done == (0, "", "")
    for image in study:
        first, second = (folder / image.name for folder in folders)
        assert first.read_bytes() == second.read_bytes()
        records = [record_of(path) for path in (first, second)]
        for record in records:
            del record["command"]  # where the two were told apart
        assert records[0] == records[1]


def failures(folder: Path) -> list[list[str]]:
    lines = (folder / "failures.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_others_are_done_where_some_scans_fail(
    run: Run, study: list[Path], target: Path, tmp_path: Path, jobs: int
) -> None:
    damaged, missing = tmp_path / "damaged.nii.gz", tmp_path / "missing.nii"
    damaged.write_bytes(study[0].read_bytes()[:-100])
    images = [study[0], damaged, study[1], missing, study[2]]
    folder = tmp_path / "out"
    done = run("normalise", *images, "--to", target, "-o", folder, "-j", jobs)
    assert done.code == 1
    header, *rows = failures(folder)
    assert header == ["scan", "stage", "cause", "try"]
    assert [row[:2] for row in rows] == [[str(damaged), "normalise"], [str(missing), "normalise"]]
    assert all(cause and hint for _, _, cause, hint in rows)
    assert len(done.errors) == 3
    for message, (name, _, cause, hint) in zip(done.errors, rows, strict=False):
        assert message == f"error: {cause}; {hint}"
        assert message.startswith(f"error: {name}: ")
    assert done.errors[-1] == f"error: 2 of 5 scans failed; see {folder / 'failures.tsv'}"
    assert "Traceback" not in done.err
    made = {path.name for path in folder.iterdir()}
    assert made == {"failures.tsv"} | {
        f"{n}{end}" for n in range(3) for end in (".json", ".nii.gz")
    }


def test_nothing_could_be_done_where_all_scans_fail(run: Run, target: Path, tmp_path: Path) -> None:
    images = [tmp_path / "a.nii", tmp_path / "b.nii"]
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out")
    assert done.code == 2
    assert len(done.errors) == 3
    assert [row[0] for row in failures(tmp_path / "out")[1:]] == [str(path) for path in images]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["failures.tsv"]


def test_a_single_scan_that_fails_is_one_line_and_leaves_nothing(
    run: Run, target: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    done = run("normalise", tmp_path / "a.nii", "--to", target, "-o", tmp_path / "b.nii")
    assert done.code == 2
    assert done.err.splitlines() == done.errors
    (message,) = done.errors
    assert message.startswith(f"error: {tmp_path / 'a.nii'}: no such file; ")
    assert sorted(tmp_path.iterdir()) == before


def test_a_target_that_cannot_be_read_is_said_once(
    run: Run, study: list[Path], tmp_path: Path
) -> None:
    done = run("normalise", *study, "--to", tmp_path / "no.nii", "-o", tmp_path / "out")
    assert done.code == 2
    assert len(done.errors) == 1
    assert done.errors[0].startswith(f"error: {tmp_path / 'no.nii'}: no such file; ")
    assert not (tmp_path / "out").exists()


def test_the_list_of_failures_goes_when_nothing_fails_any_more(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "3.nii.gz"
    folder = tmp_path / "out"
    assert run("normalise", *study, missing, "--to", target, "-o", folder).code == 1
    save(missing, head(3))
    done = run("normalise", *study, missing, "--to", target, "-o", folder, "--force")
    assert done == (0, "", "")
    assert not (folder / "failures.tsv").exists()
    assert (folder / "3.nii.gz").exists()


def test_results_that_exist_are_kept_and_the_others_made(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "0.nii.gz").write_bytes(b"mine")
    (folder / "1.json").write_bytes(b"mine too")  # a record is a result
    done = run("normalise", *study, "--to", target, "-o", folder)
    assert done.code == 1
    assert (folder / "0.nii.gz").read_bytes() == b"mine"
    assert (folder / "1.json").read_bytes() == b"mine too"
    assert sorted(path.name for path in folder.iterdir()) == [
        "0.nii.gz",
        "1.json",
        "2.json",
        "2.nii.gz",
        "failures.tsv",
    ]
    assert [row[0] for row in failures(folder)[1:]] == [str(path) for path in study[:2]]
    assert f"error: {folder / '0.nii.gz'}: exists already; " in done.err
    assert f"error: {folder / '1.json'}: exists already; " in done.err
    assert "--force" in done.err

    assert run("normalise", *study, "--to", target, "-o", folder, "--force").code == 0
    assert voxels_of(folder / "0.nii.gz").shape == SHAPE


CLASHES = {
    "the same name in two folders": ("a/x.nii.gz", "b/x.nii.gz"),
    "the same scan twice": ("a/x.nii.gz", "a/x.nii.gz"),
    "another format, but the same record": ("a/x.nii.gz", "a/x.nii"),
    "header and data of one pair": ("a/x.hdr", "a/x.img"),
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("clash", CLASHES)
def test_results_of_one_name_are_refused_before_anything_is_done(
    run: Run, target: Path, tmp_path: Path, clash: str, force: bool
) -> None:
    images = [tmp_path / name for name in CLASHES[clash]]
    for image in images:
        image.parent.mkdir(exist_ok=True)
        if image.suffix != ".img":
            save(image, SCAN)
    command = ["normalise", *images, "--to", target, "-o", tmp_path / "out"]
    done = run(*command, *(["--force"] if force else []))
    assert done.code == 2
    (message,) = done.errors
    assert message.startswith(f"error: {images[1]}: ")
    assert str(images[0]) in message
    assert not (tmp_path / "out").exists()


def test_one_file_for_several_scans_is_refused(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    done = run("normalise", *study, "--to", target, "-o", tmp_path / "out.nii.gz")
    assert done.code == 2
    assert done.errors == [
        f"error: {tmp_path / 'out.nii.gz'}: one file for 3 images; name a folder as the output"
    ]
    assert not (tmp_path / "out.nii.gz").exists()


# ── memory ───────────────────────────────────────────────────────────────────────────────────────

LARGE = (160, 200, 160)
MEASURED = """
import re
from pathlib import Path
from ndflow.cli import main
code = main()
print(code, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def peak(*words: object) -> int:
    """The most memory, in bytes, that a command took."""
    command = [sys.executable, "-c", MEASURED, *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    code, kilobytes = done.stdout.split()
    assert code == "0", done.stderr
    return 1024 * int(kilobytes)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with large images, and a small one."""
    folder = tmp_path_factory.mktemp("large")
    ndflow.save(folder / "target.json", TARGET)
    # Blown up from a small one, which is quicker than to draw that many; in air, with noise.
    generator = np.random.default_rng(0)
    small = head(0, shape=(40, 50, 40))
    voxels = np.kron(small, np.ones((4, 4, 4), np.int16))
    noisy = np.abs(generator.standard_normal(LARGE, np.float32)) * 8 + voxels
    save(folder / "int16.nii.gz", voxels)
    save(folder / "float32.nii.gz", noisy)
    save(folder / "float64.nii", noisy.astype(np.float64))
    save(folder / "mask.nii", (voxels > 0).astype(np.float64))
    return folder


@pytest.fixture(scope="module")
def least(tmp_path_factory: pytest.TempPathFactory) -> int:
    """What Python, its libraries and a small image take."""
    folder = tmp_path_factory.mktemp("small")
    ndflow.save(folder / "target.json", TARGET)
    image = save(folder / "tiny.nii.gz", SCAN)
    return peak("normalise", image, "--to", folder / "target.json", "-o", folder / "out.nii.gz")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("int16.nii.gz", None),
        ("float32.nii.gz", None),
        ("float32.nii.gz", "auto"),
        ("float32.nii.gz", "mask.nii"),
        ("float64.nii", None),
    ],
)
def test_a_volume_costs_at_most_two_and_a_half_times_its_size_in_float32(
    large: Path,
    least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    mask: str | None,
) -> None:
    monkeypatch.chdir(large)
    options = ["--mask", mask] if mask else []
    output = tmp_path / "out.nii.gz"
    used = peak("normalise", name, "--to", "target.json", "-o", output, *options)
    assert used - least < 2.5 * 4 * np.prod(LARGE)
