"""``ndflow normalise``: formats, geometry and headers of images are kept."""

import gzip
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import Run
from nibabel.freesurfer.mghformat import MGHImage
from nibabel.nifti1 import Nifti1Extension, Nifti1Header, Nifti1PairHeader
from nibabel.nifti2 import Nifti2Header, Nifti2PairHeader
from one_scan import CLOSE, EXACT, SCAN, TARGET, TARGET_SD, exact_map
from phantoms import AFFINE, SHAPE, save, voxels_of
from studies import record_of, sha256

import ndflow


def loaded(path: Path) -> Any:
    """Load an image; .mgh from its bytes, because nibabel would leave the file open."""
    return MGHImage.from_bytes(path.read_bytes()) if path.suffix == ".mgh" else nibabel.load(path)


HEADERS = {
    ("1", True): Nifti1Header,
    ("1", False): Nifti1PairHeader,
    ("2", True): Nifti2Header,
    ("2", False): Nifti2PairHeader,
}
STORED = SCAN + np.int16(8)  # so that the background is 0: 0.5 · 8 − 4
CHANGED = {"datatype", "bitpix", "vox_offset", "scl_slope", "scl_inter", "cal_min", "cal_max"}


def header_like_a_scanners(make: Any, endianness: str) -> Any:
    """Return a header with values in fields that a careless writer would lose."""
    header = make(endianness=endianness)
    header.set_data_shape(SHAPE)
    header.set_data_dtype(np.int16)
    header.set_qform(AFFINE, 1)
    sheared = AFFINE.copy()
    sheared[0, 1] = 0.125  # which only the sform can represent
    header.set_sform(sheared, 4)
    header.set_xyzt_units("mm", "sec")
    header.set_slope_inter(0.5, -4)
    header["descrip"], header["aux_file"], header["intent_name"] = b"a T1", b"aux", b"name"
    header["cal_min"], header["cal_max"], header["toffset"] = 10, 900, 2.5
    header["pixdim"][4] = 2.3
    header["slice_end"], header["slice_duration"] = 19, 0.25
    return header


def written(path: Path, version: str, endianness: str) -> bytes:
    """Write an image byte by byte, and return its header."""
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


@pytest.mark.parametrize(
    ("name", "version", "endianness"),
    [
        ("single.nii", "1", ">"),
        ("single.nii.gz", "1", "<"),
        ("single.nii.gz", "2", ">"),
        ("pair.hdr", "2", "<"),
        ("pair.img", "1", "<"),
    ],
)
def test_a_nifti_image_keeps_its_header_except_how_voxels_are_stored(
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
    exact = exact_map(density, TARGET)(0.5 * STORED[inside] - 4)
    result = np.asanyarray(image.dataobj)
    assert np.abs(result[inside] - exact).max() < CLOSE * TARGET_SD
    assert not result[~inside].any()


@pytest.mark.parametrize("name", ["x.mgh", "x.mgz"])
def test_an_mgh_image_keeps_its_geometry_and_scanner_settings(
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
    off = np.asanyarray(result.dataobj)[inside] - EXACT(SCAN[inside])
    assert np.abs(off).max() < CLOSE * TARGET_SD


@pytest.mark.parametrize(
    ("name", "into"),
    [
        ("a.mgz", "x.nii"),
        ("a.mgz", "x.nii.gz"),
        ("a.nii.gz", "x.hdr"),
        ("a.nii.gz", "x.img.gz"),
        ("a.nii.gz", "x.mgh"),
        ("a.nii.gz", "x.mgz"),
    ],
)
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
    assert np.abs(off).max() < CLOSE * TARGET_SD


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


def test_both_files_of_a_pair_are_in_the_record(run: Run, target: Path, tmp_path: Path) -> None:
    written(tmp_path / "pair.img", "1", "<")
    output = tmp_path / "out.nii.gz"
    assert run("normalise", tmp_path / "pair.img", "--to", target, "-o", output).code == 0
    names = [tmp_path / "pair.hdr", tmp_path / "pair.img"]
    assert record_of(output)["inputs"]["image"] == [
        {"file": str(name), "sha256": sha256(name)} for name in names
    ]
