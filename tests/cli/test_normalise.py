"""``ndflow normalise``: what becomes of an image, of its header, and what is said about it."""

import gzip
import json
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
    voxels = SCAN.astype(np.dtype(np.int16).newbyteorder(endianness)).tobytes("F")
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
    values = 0.5 * SCAN - 4.0
    exact = ndflow.normalising_map(fitted_scaled(SCAN, 0.5, -4.0), TARGET)(values)
    np.testing.assert_allclose(voxels_of(output), exact, atol=CLOSE * SPREAD)


def fitted_scaled(stored: NDArray[Any], slope: float, inter: float) -> Any:
    inside = slope * stored + inter != 0
    return ndflow.fit(ndflow.histogram(stored, inside, slope=slope, inter=inter)).mixture


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
    assert type(result) is type(loaded(tmp_path / "out" / into))
    assert ("mg" in into) == isinstance(result, MGHImage)
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

NOISE = np.random.default_rng(3).random(SHAPE)
KINDS = {
    "int16": SCAN,
    "uint8": (SCAN // 5).astype(np.uint8),
    "negative int16": np.where(SCAN, SCAN - 700, 0).astype(np.int16),
    "int32, too wide for a look-up table": np.where(SCAN, SCAN * 1000 + 7, 0).astype(np.int32),
    "float32": np.where(SCAN, SCAN + NOISE, 0).astype(np.float32),
    "float64 in [0, 1]": np.where(SCAN, (SCAN + NOISE) / 2000, 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_voxel_goes_where_the_exact_map_takes_it(
    run: Run, target: Path, tmp_path: Path, kind: str
) -> None:
    voxels = KINDS[kind]
    image = save(tmp_path / "a.nii.gz", voxels)
    done = run("normalise", image, "--to", target, "-o", tmp_path / "b.nii.gz")
    assert (done.code, done.err) == (0, "")
    exact = ndflow.normalising_map(fitted(voxels), TARGET)(voxels)
    result = voxels_of(tmp_path / "b.nii.gz")
    inside = voxels != 0
    assert np.abs(result - exact)[inside].max() < CLOSE * SPREAD
    assert not result[~inside].any()


@pytest.mark.parametrize(("slope", "inter"), [(0.37, -12.0), (-2.0, 3000.0), (1e-3, 0.0)])
def test_scaled_integers_are_mapped_by_their_values(
    run: Run, target: Path, tmp_path: Path, slope: float, inter: float
) -> None:
    header = Nifti1Header()
    header.set_data_shape(SHAPE)
    header.set_data_dtype(np.int16)
    header.set_sform(AFFINE, 1)
    header.set_slope_inter(slope, inter)
    header["vox_offset"] = 352
    slope, inter = float(header["scl_slope"]), float(header["scl_inter"])  # with seven digits
    image = tmp_path / "a.nii"
    image.write_bytes(header.binaryblock + bytes(4) + SCAN.tobytes("F"))
    assert run("normalise", image, "--to", target, "-o", tmp_path / "b.nii.gz").code == 0
    values = slope * SCAN + inter
    exact = ndflow.normalising_map(fitted_scaled(SCAN, slope, inter), TARGET)(values)
    inside = values != 0
    assert np.abs(voxels_of(tmp_path / "b.nii.gz") - exact)[inside].max() < CLOSE * SPREAD


def test_nan_and_infinity_stay_what_they_are(run: Run, target: Path, tmp_path: Path) -> None:
    voxels = SCAN.astype(np.float32)
    voxels[12, 14, 8:12] = [np.nan, np.inf, -np.inf, np.nan]
    image = save(tmp_path / "a.nii.gz", voxels)
    done = run("normalise", image, "--to", target, "-o", tmp_path / "b.nii.gz")
    assert done.code == 0
    assert "4 voxels are NaN or infinite" in done.err
    result = voxels_of(tmp_path / "b.nii.gz")
    finite = np.isfinite(voxels)
    assert np.array_equal(result[~finite], voxels[~finite], equal_nan=True)
    exact = ndflow.normalising_map(fitted(voxels, finite & (voxels != 0)), TARGET)
    inside = finite & (voxels != 0)
    assert np.abs(result[inside] - exact(voxels[inside])).max() < CLOSE * SPREAD
    assert record_of(tmp_path / "b.nii.gz")["voxels"]["not_finite"] == 4


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"],
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
    assert done.errors == [
        f"error: {option}: 1 given for 2 images; give one for each, in order, after the images"
    ]
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


def test_the_cramer_distance_is_less_when_it_is_what_is_made_small(normalised: Run) -> None:
    left = {}
    standard = ndflow.align(TARGET)
    for objective in ("l2", "cramer"):
        output = normalised("--objective", objective, name=f"{objective}.nii")
        record = record_of(output)
        assert record["divergence"]["objective"] == objective
        matched = ndflow.route_end(objective) if hasattr(ndflow, "route_end") else None
        assert matched is None
        aligned = SOURCE.transformed(*parts(ndflow.align(SOURCE, TARGET)))
        result = ndflow.match(aligned, TARGET, objective=objective).matched
        left[objective] = ndflow.divergence(
            result.transformed(*parts(standard)), TARGET.transformed(*parts(standard)), "cramer"
        )
        exact = ndflow.normalising_map(SOURCE, TARGET, objective=objective)
        inside = SCAN != 0
        off = np.abs(voxels_of(output)[inside] - exact(SCAN[inside])).max()
        assert off < CLOSE * SPREAD
    assert left["cramer"] < left["l2"]


def parts(affine: ndflow.Affine) -> tuple[Any, Any]:
    return affine.matrix, affine.offset
