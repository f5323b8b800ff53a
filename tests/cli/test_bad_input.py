"""What a command is given may be damaged, hostile or strange: it is refused by name, or comes out
right. Nothing is lost, and nothing is left behind.
"""

import gzip
import json
import os
import pickle  # noqa: TID251  # to see that it is refused
import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHHeader
from nibabel.nifti1 import Nifti1Header
from nibabel.nifti2 import Nifti2Header
from numpy.typing import NDArray
from phantoms import AFFINE, SHAPE, head

HEAD = head()
INSIDE = HEAD > 0
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TARGET = {  # three tissues, in units of their own
    "type": "GaussianMixture",
    "weights": [0.3, 0.4, 0.3],
    "means": [[20.0], [60.0], [95.0]],
    "precisions": [[[0.04]], [[0.04]], [[0.04]]],
}
MAP = {"type": "Affine", "matrix": [[2.0]], "offset": [5.0]}


def nifti(voxels: NDArray[Any] = HEAD, affine: NDArray[Any] = AFFINE, **fields: Any) -> bytes:
    """A NIfTI file, with fields that nibabel would not write."""
    header = Nifti1Header()
    header.set_data_shape(voxels.shape)
    header.set_data_dtype(voxels.dtype)
    header["sform_code"], header["vox_offset"], header["scl_slope"] = 1, 352, 1
    header["srow_x"], header["srow_y"], header["srow_z"] = affine[:3]
    for name, value in fields.items():
        header[name] = value
    return header.binaryblock + bytes(4) + voxels.tobytes(order="F")


def model(kind: str, **parts: Any) -> dict[str, Any]:
    return {"format": "ndflow", "version": 1, "kind": kind, "ndflow": "0.1.0", **parts}


def tree(folder: Path) -> dict[str, Any]:
    """Every file below a folder, with the hash of its content."""
    return {
        str(path.relative_to(folder)): path.is_file() and sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


def voxels(path: Path) -> NDArray[Any]:
    return np.asanyarray(nibabel.load(path).dataobj)


class Desk:
    """A folder of inputs, an empty one for results, and commands between them."""

    def __init__(self, folder: Path, run: Callable[..., Any]) -> None:
        self.folder, self.run = folder, run
        (folder / "out").mkdir()
        self.out = folder / "out" / "x.nii.gz"
        self.scan = self.put("scan.nii", nifti())
        self.target = self.put("target.json", json.dumps(model("mixture", mixture=TARGET)))
        self.map = self.put("map.json", json.dumps(model("map", map=MAP)))

    def put(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def refused(self, about: Path, message: str, *command: object) -> None:
        """Run a command that has to fail, with one line about a file, and change nothing."""
        before = tree(self.folder)
        ran = self.run(*command)
        assert ran.code == 2
        assert ran.out == ""
        first, *rest = ran.err.splitlines()
        assert first.startswith(f"error: {about}: ")
        assert re.search(message, first), first
        assert "; " in first  # what to try
        if command[0] == "reference":
            rest = [line for line in rest if not re.search("no reference was|scans failed", line)]
        assert rest == []
        assert tree(self.folder) == before

    def refused_scan(self, content: bytes, message: str, *options: object) -> None:
        """The same with a scan to normalise."""
        path = self.put("bad.nii", content)
        self.refused(
            path, message, "normalise", path, "--to", self.target, "-o", self.out, *options
        )

    def normalised(
        self, content: bytes | NDArray[Any], *options: object
    ) -> tuple[NDArray[Any], dict[str, Any], list[str]]:
        """Normalise a scan; return the voxels, the record and what was said."""
        path = self.put("good.nii", content if isinstance(content, bytes) else nifti(content))
        command = ("normalise", path, "--to", self.target, "-o", self.out, "--force", *options)
        ran = self.run(*command)
        assert (ran.code, ran.out, ran.errors) == (0, "", []), ran.err
        record = json.loads((self.folder / "out" / "x.json").read_text())
        assert sorted(path.name for path in self.out.parent.iterdir()) == ["x.json", "x.nii.gz"]
        return voxels(self.out), record, ran.err.splitlines()


@pytest.fixture
def desk(tmp_path: Path, run: Callable[..., Any]) -> Desk:
    return Desk(tmp_path, run)


# ── files that are damaged ───────────────────────────────────────────────────────────────────────

PACKED = gzip.compress(nifti(), mtime=0)


def flipped(at: int) -> bytes:
    damaged = bytearray(PACKED)
    damaged[at] ^= 0x10
    return bytes(damaged)


AGAIN = "; .*copy or download it again$"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PACKED[:5], f"cut short.*{AGAIN}"),
        (PACKED[: len(PACKED) // 2], f"cut short.*{AGAIN}"),
        (PACKED[:-8], f"cut short.*{AGAIN}"),
        (PACKED[:-1], f"cut short.*{AGAIN}"),
        (flipped(-6), rf"damaged: its checksum \(CRC\).*{AGAIN}"),
        (flipped(-2), f"damaged: .*length.*{AGAIN}"),
        (flipped(len(PACKED) // 2), f"damaged.*{AGAIN}"),
        (PACKED + b"garbage", f"trailing garbage.*{AGAIN}"),
        (gzip.compress(nifti()[:-1]), f"ends 1 bytes? before the end of its voxels.*{AGAIN}"),
        (gzip.compress(nifti() + b"garbage"), "more than the voxels.*; its header is damaged"),
        (nifti(), "not compressed, though its name says so; rename it to bad.nii$"),
        (b"<html>404</html>", "not a gzip file, .*<htm.*; check that it is the right file"),
        (b"", f"an empty file{AGAIN}"),
    ],
)
def test_a_damaged_file_is_refused(desk: Desk, content: bytes, message: str) -> None:
    path = desk.put("bad.nii.gz", content)
    desk.refused(path, message, "normalise", path, "--to", desk.target, "-o", desk.out)


ROLES = [
    "normalise {bad} --to {target} -o {out}",
    "normalise {scan} --to {bad} -o {out}",
    "normalise {scan} --to {target} --mask {bad} -o {out}",
    "normalise {scan} --to {target} --exclude {bad} -o {out}",
    "normalise {scan} --to {scan} --to-mask {bad} -o {out}",
    "fit {bad} -o {out}.json",
    "fit {scan} --mask {bad} -o {out}.json",
    "reference {target} {bad} -o {out}.json",
    "apply {bad} --map {map} -o {out}",
    "apply {scan} --map {map} --mask {bad} -o {out}",
]


@pytest.mark.parametrize("command", ROLES)
def test_a_damaged_file_is_refused_in_every_role(desk: Desk, command: str) -> None:
    bad = desk.put("bad.nii.gz", PACKED[:-1])
    words = [
        word.format(bad=bad, scan=desk.scan, target=desk.target, map=desk.map, out=desk.out)
        for word in command.split()
    ]
    desk.refused(bad, f"cut short.*{AGAIN}", *words)


def test_a_damaged_scan_does_not_stop_the_others(desk: Desk) -> None:
    bad, folder = desk.put("bad.nii.gz", PACKED[:-1]), desk.folder / "several"
    good = desk.put("good.nii.gz", PACKED)
    ran = desk.run("normalise", desk.scan, bad, good, "--to", desk.target, "-o", folder)
    assert ran.code == 1
    assert [line.split(": ")[1] for line in ran.errors] == [
        str(bad),
        "1 of 3 scans failed; see " + f"{folder}/failures.tsv",
    ]
    assert set(tree(folder)) == {
        "failures.tsv",
        "scan.nii",
        "scan.json",
        "good.nii.gz",
        "good.json",
    }
    titles, row = (folder / "failures.tsv").read_text().splitlines()
    assert titles.split("\t") == ["scan", "stage", "cause", "try"]
    assert row.split("\t")[:2] == [str(bad), "normalise"]
    assert "cut short" in row.split("\t")[2]
    assert "again" in row.split("\t")[3]


# ── headers that make no sense ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": [3, 32767, 32767, 32767, 1, 1, 1, 1]}, "holds at most .* bytes, but .* end at"),
        ({"dim": [3, 24, 28, 0, 1, 1, 1, 1]}, r"shape \(24, 28, 0\) has no voxels.*damaged"),
        ({"dim": [3, 24, -28, 20, 1, 1, 1, 1]}, "-28.* has no voxels.*damaged"),
        ({"dim": [3, -24, -28, 20, 1, 1, 1, 1]}, "has no voxels.*damaged"),
        ({"dim": [0, 24, 28, 20, 1, 1, 1, 1]}, "0 axes.*damaged"),
        ({"dim": [-3, 24, 28, 20, 1, 1, 1, 1]}, "-3 axes.*damaged"),
        (
            {"dim": [4, 24, 28, 10, 2, 1, 1, 1]},
            "2 volumes in one image.*; give one volume: ext.*av",
        ),
        ({"dim": [5, 24, 28, 5, 1, 4, 1, 1]}, "4 volumes in one image.*; give one volume"),
        ({"vox_offset": 1e30}, "holds at most"),
        ({"vox_offset": 1e6}, "holds at most"),
        ({"vox_offset": -1e6}, "vox_offset.*damaged"),
        ({"vox_offset": 12}, "vox_offset.*352 is the least.*damaged"),
        ({"vox_offset": 352.5}, "vox_offset.*damaged"),
        ({"vox_offset": np.nan}, "vox_offset.*damaged"),
        ({"vox_offset": np.inf}, "vox_offset.*damaged"),
        ({"datatype": 128}, r"the type RGB \(code 128\).*; convert it"),
        ({"datatype": 2304}, r"the type RGBA \(code 2304\).*; convert it"),
        ({"datatype": 32}, r"the type complex64 \(code 32\).*; convert it"),
        ({"datatype": 1792}, r"the type complex128 \(code 1792\).*; convert it"),
        ({"datatype": 1}, r"the type binary \(code 1\).*; convert it"),
        ({"datatype": 4321}, r"the type unknown \(code 4321\).*; convert it"),
        ({"scl_slope": 2, "scl_inter": np.nan}, "intercept.*damaged"),
        ({"scl_slope": 2, "scl_inter": np.inf}, "intercept.*damaged"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(
    desk: Desk, fields: dict[str, Any], message: str
) -> None:
    desk.refused_scan(nifti(**fields), message)


@pytest.mark.parametrize("slope", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("inter", [0.0, 7.0, np.nan])
def test_without_a_slope_voxels_are_unscaled(desk: Desk, slope: float, inter: float) -> None:
    desk.normalised(nifti())
    plain = desk.out.read_bytes()
    desk.normalised(nifti(scl_slope=slope, scl_inter=inter))
    assert desk.out.read_bytes() == plain


# ── what costs memory ────────────────────────────────────────────────────────────────────────────

MEASURE = """
import json, re, sys
from pathlib import Path
from ndflow.cli import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["ndflow", *line]
    code = main()
    peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]
    print(code, peak)
"""
HUGE = [3, 32767, 32767, 32767, 1, 1, 1, 1]


on_linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
)


def measured(desk: Desk, *lines: list[object]) -> tuple[list[int], list[int], list[str]]:
    """Run commands in one new process, after one on a small good scan.

    Returns their exit codes, by how many MB the peak of the memory had grown, and their errors.
    """
    good = ["normalise", desk.scan, "--to", desk.target, "-o", desk.out]
    words = json.dumps([[str(word) for word in line] for line in [good, *lines]])
    child = [sys.executable, "-c", MEASURE, words]
    done = subprocess.run(child, capture_output=True, text=True, timeout=120)
    rows = [[int(part) for part in line.split()] for line in done.stdout.splitlines()]
    (first, *codes), (least, *peaks) = zip(*rows, strict=True)
    assert first == 0, done.stderr
    return codes, [(peak - least) >> 10 for peak in peaks], done.stderr.splitlines()


@on_linux
def test_a_header_or_a_bomb_costs_no_memory(desk: Desk) -> None:
    zeros = bytes(96 << 20)
    two = Nifti2Header()
    two["dim"], two["datatype"], two["bitpix"] = [3, 2**20, 2**20, 2**20, 1, 1, 1, 1], 64, 64
    mgh: Any = MGHHeader()
    mgh["dims"], mgh["type"] = [30000, 30000, 30000, 1], 3
    claims = nifti(dim=HUGE)[:352]
    files = {
        # Headers alone; the first of them makes a file of some 71 bytes.
        "a.nii.gz": (gzip.compress(claims), "holds at most"),
        "b.nii": (claims, "holds at most"),
        "c.nii": (two.binaryblock + bytes(4), "holds at most"),
        "d.mgh": (mgh.binaryblock[:90].ljust(284, b"\0"), "holds at most"),
        "e.nii.gz": (gzip.compress(nifti(vox_offset=1e9)), "holds at most"),
        # Bombs: behind the voxels, as voxels, and before them.
        "f.nii.gz": (gzip.compress(nifti() + zeros, 1), "--max-bytes"),
        "g.nii.gz": (gzip.compress(nifti(dim=[3, 400, 400, 400, 1, 1, 1, 1]) + zeros, 1), "--max"),
        "h.nii.gz": (gzip.compress(nifti(vox_offset=90 << 20) + zeros, 1), "--max-bytes|vox_off"),
    }
    assert len(files["a.nii.gz"][0]) < 100
    paths = [desk.put(name, content) for name, (content, _) in files.items()]
    before = tree(desk.folder)
    limit = ["--max-bytes", 50_000_000]
    codes, grown, errors = measured(
        desk, *(["fit", path, "-o", desk.folder / "new.json", *limit] for path in paths)
    )
    assert set(codes) == {2}
    assert max(grown) < 16, grown
    for path, error in zip(paths, errors, strict=True):
        assert error.startswith(f"error: {path}: ")
        assert re.search(files[path.name][1], error), error
    assert {name: part for name, part in tree(desk.folder).items() if "out/" not in name} == before


@on_linux
def test_a_bomb_in_the_header_costs_no_memory_below_the_limit(desk: Desk) -> None:
    bomb = gzip.compress(nifti(vox_offset=90 << 20)[:352] + bytes(96 << 20), 1)
    path = desk.put("bomb.nii.gz", bomb)
    (code,), (grown,), (error,) = measured(desk, ["fit", path, "-o", desk.folder / "new.json"])
    assert code == 2
    assert re.search("header|vox_offset", error)
    assert grown < 16


def test_the_limit_can_be_raised(desk: Desk) -> None:
    content = nifti()
    limit = len(content) - 1
    desk.refused_scan(content, f"{limit + 1:,} bytes.*raise.*--max-bytes", "--max-bytes", limit)
    desk.normalised(content, "--max-bytes", limit + 1)


# ── voxels ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("masked", [False, True])
def test_what_is_not_finite_is_kept_and_counted_and_not_fitted(desk: Desk, masked: bool) -> None:
    odd = HEAD.astype(np.float32)
    odd[12, 14, 6:9] = np.nan, np.inf, -np.inf
    odd[0, 0, :2] = np.nan, np.inf  # in the air
    strange = ~np.isfinite(odd)
    mask = desk.put("mask.nii", nifti(INSIDE.astype(np.uint8)))
    options = ("--mask", mask) if masked else ()
    result, record, said = desk.normalised(odd, *options)
    assert np.array_equal(result[strange], odd[strange], equal_nan=True)
    assert record["voxels"]["not_finite"] == 5
    assert record["voxels"]["fitted"] == np.count_nonzero(INSIDE) - 3
    (line,) = said
    assert line.startswith(f"warning: {desk.folder / 'good.nii'}: 5 voxels NaN or infinite")
    assert line.removeprefix("warning: ") in record["warnings"]
    without, other, _ = desk.normalised(np.where(strange, np.float32(0), odd))
    assert record["mixture"] == other["mixture"]
    assert np.array_equal(result[~strange], without[~strange])
    # In a type that has no NaN they are counted again.
    result, record, said = desk.normalised(odd, "--dtype", "int16", *options)
    assert record["clipped"] == 5
    assert result[12, 14, 6:9].tolist() == [0, 32767, -32768]
    assert any("5 voxels did not fit the type int16" in line for line in said)


def test_what_is_not_finite_goes_through_no_map(desk: Desk) -> None:
    odd = HEAD.astype(np.float32)
    odd[12, 14, 6:9] = np.nan, np.inf, -np.inf
    path = desk.put("odd.nii", nifti(odd))
    falling = desk.put("falling.json", json.dumps(model("map", map=MAP | {"matrix": [[-2.0]]})))
    assert desk.run("apply", path, "--map", falling, "-o", desk.out).code == 0
    expected = np.where(np.isfinite(odd), np.where(odd != 0, 5 - 2 * odd, 0), odd)
    assert np.array_equal(voxels(desk.out), expected, equal_nan=True)


def few(count: int) -> NDArray[np.int16]:
    image = np.zeros_like(HEAD)
    image[np.unravel_index(np.flatnonzero(INSIDE)[:count], SHAPE)] = np.arange(1, count + 1)
    return image


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.where(INSIDE, 7, 0).astype(np.int16), "all voxels .* have the value 7; .*mask"),
        (np.full(SHAPE, -0.25, np.float32), "all voxels .* have the value -0.25; .*mask"),
        (np.zeros(SHAPE, np.int16), "no voxel.*; at least 100 .*mask"),
        (np.full(SHAPE, np.nan, np.float32), "no voxel.*; at least 100 .*mask"),
        (np.where(HEAD > 700, 7, 3 * INSIDE).astype(np.uint8), "two values only.*right file"),
        (few(99), "99 voxels are finite and not 0.*; at least 100 .*mask"),
        (np.maximum(few(400), 5), "9[0-9]% of the voxels .* have the value 5.*background.*--mask"),
    ],
    ids=["constant", "constant float", "zero", "NaN", "two values", "few voxels", "background"],
)
def test_an_image_without_a_density_is_refused(
    desk: Desk, image: NDArray[Any], message: str
) -> None:
    desk.refused_scan(nifti(image), message)
    path = desk.put("bad.nii", nifti(image))
    desk.refused(path, message, "fit", path, "-o", desk.folder / "out" / "x.json")
    desk.refused(path, message, "reference", path, "-o", desk.folder / "out" / "x.json")
    desk.refused(path, message, "normalise", desk.scan, "--to", path, "-o", desk.out)


def test_a_hundred_voxels_in_much_background_are_enough(desk: Desk) -> None:
    image = few(120)
    result, record, _ = desk.normalised(image)
    assert record["voxels"]["fitted"] == 120
    assert np.array_equal(result == 0, image == 0)
    assert (np.diff(result[image > 0][np.argsort(image[image > 0])]) > 0).all()


@pytest.mark.parametrize(
    ("factor", "offset"),
    [(1 / 2048, 0.0), (1.0, -2000.0), (1.0, -699.5), (1e-9, 0.0), (1e9, -9.995e11)],
    ids=["from 0 to 1", "negative", "of both signs", "tiny", "large"],
)
def test_units_do_not_matter(desk: Desk, factor: float, offset: float) -> None:
    plain, record, _ = desk.normalised(HEAD)
    other = np.where(INSIDE, factor * HEAD + offset, 0).astype(np.float32)
    result, changed, said = desk.normalised(other)
    assert said == []
    assert changed["voxels"] == record["voxels"]
    assert np.abs(result - plain).max() < 0.02  # where it ranges over 100, and float32 had 24 bits
    assert (result[~INSIDE] == 0).all()
    assert changed["divergence"]["after"] == pytest.approx(record["divergence"]["after"], rel=0.02)


@pytest.mark.parametrize("huge", [1e30, -1e30])
def test_a_huge_voxel_changes_nothing_but_itself(desk: Desk, huge: float) -> None:
    odd = HEAD.astype(np.float32)
    odd[12, 14, 10] = 0
    plain, _, _ = desk.normalised(odd)
    odd[12, 14, 10] = huge
    result, record, _ = desk.normalised(odd)
    assert record["voxels"]["outliers"] == 1
    assert record["clipped"] == 0
    assert np.isfinite(result).all()
    assert result[12, 14, 10] * np.sign(huge) == np.abs(result).max() > 1e25
    result[12, 14, 10] = 0
    assert np.abs(result - plain).max() < 1e-4


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_finite_voxel_never_becomes_infinite(desk: Desk, dtype: str) -> None:
    odd = np.where(INSIDE, 1e-3 * HEAD, 0)  # so that the slope of the map is more than 1
    odd[12, 14, 10] = 1.7e308
    result, record, said = desk.normalised(odd, "--dtype", dtype)
    most: Any = np.finfo(dtype) if "float" in dtype else np.iinfo(dtype)
    assert result[12, 14, 10] == most.max
    if dtype == "float64":  # which holds what was clipped on the way
        return
    assert record["clipped"] == 1
    assert any(
        f"1 voxel did not fit the type {dtype}" in line.replace("voxels", "voxel") for line in said
    )


# ── integers ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", TYPES)
def test_the_extremes_of_integers_go_in_without_wrapping(desk: Desk, dtype: str) -> None:
    limits = np.iinfo(dtype)
    small = np.rint(HEAD / 10).astype(dtype)
    plain, _, _ = desk.normalised(small)
    odd = small.copy()
    lowest, highest = (12, 14, 9), (12, 14, 10)
    odd[lowest], odd[highest] = limits.min, limits.max
    result, _, _ = desk.normalised(odd)
    rest = odd == small
    assert np.abs(result - plain)[rest].max() < 1.0  # two voxels more or less, of 100
    assert result[highest] == result.max() > plain.max()
    assert result[lowest] == result.min() if limits.min < 0 else result[lowest] == 0
    order = np.argsort(odd[INSIDE & (odd != 0)], kind="stable")
    assert (np.diff(result[INSIDE & (odd != 0)][order]) >= 0).all()


@pytest.mark.parametrize("start", [2**53, 2**62, 2**63 - 2**24, -(2**62), 2**64 - 2**24])
def test_large_integers_are_exact_enough(desk: Desk, start: int) -> None:
    dtype = "int64" if start < 2**63 - 2**30 else "uint64"
    step = max(2, abs(start) >> 51)
    large = np.array([start + step * int(v) for v in HEAD.flat], dtype).reshape(SHAPE)
    inside = desk.put("mask.nii", nifti(INSIDE.astype(np.uint8)))
    plain, _, _ = desk.normalised(HEAD, "--mask", inside, "--outside", "zero")
    result, _, _ = desk.normalised(large, "--mask", inside, "--outside", "zero")
    assert np.abs(result - plain).max() < 0.1


@pytest.mark.parametrize("dtype", TYPES)
def test_what_does_not_fit_an_integer_is_clipped_and_counted(desk: Desk, dtype: str) -> None:
    limits = np.iinfo(dtype)
    reach = float(limits.max)
    ends = ("--range", -0.7 * reach, 1.5 * reach)
    exact, _, _ = desk.normalised(HEAD, *ends, "--dtype", "float64")
    result, record, said = desk.normalised(HEAD, *ends, "--dtype", dtype)
    assert result.dtype == dtype
    rounded = [round(value) for value in exact.ravel().tolist()]
    beyond = sum(not limits.min <= value <= limits.max for value in rounded)
    assert beyond > 100
    assert record["clipped"] == beyond
    assert any(f"{beyond:,} voxels did not fit the type {dtype}" in line for line in said)
    expected = [min(max(value, int(limits.min)), int(limits.max)) for value in rounded]
    assert result.ravel().tolist() == expected
    order = np.argsort(exact[INSIDE])
    assert (result[INSIDE][order][1:] >= result[INSIDE][order][:-1]).all()


@pytest.mark.parametrize(
    ("dtype", "factor", "expected", "clipped"),
    [
        ("int64", 2.0**62, [-(2**63), -(2**63), -(2**62), 2**62, 2**63 - 1, 2**63 - 1], 3),
        ("uint64", 2.0**63, [0, 0, 0, 2**63, 2**64 - 1, 2**64 - 1], 5),
    ],
)
def test_the_edge_of_64_bits(
    desk: Desk, dtype: str, factor: float, expected: list[int], clipped: int
) -> None:
    # As a double, the largest integer of 64 bits is one more than that.
    path = desk.put("few.nii", nifti(np.array([-3, -2, -1, 1, 2, 3], np.int8).reshape(6, 1, 1)))
    steep = json.dumps(model("map", map={"type": "Affine", "matrix": [[factor]], "offset": [0]}))
    command = ("apply", path, "--map", desk.put("steep.json", steep), "-o", desk.out)
    ran = desk.run(*command, "--dtype", dtype)
    assert ran.code == 0
    assert voxels(desk.out).ravel().tolist() == expected
    assert f"{clipped} voxels did not fit" in ran.err


# ── masks ────────────────────────────────────────────────────────────────────────────────────────

PART = (INSIDE & (np.arange(SHAPE[0]) < 15)[:, None, None]).astype(np.uint8)


def moved(voxels: float) -> bytes:
    affine = AFFINE.copy()
    affine[0, 3] += 2.0 * voxels
    return nifti(PART, affine)


def scattered(count: int) -> bytes:
    return nifti((few(count) > 0).astype(np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (nifti(PART[1:]), r"\(23, 28, 20\), but .* is \(24, 28, 20\); resample"),
        (nifti(PART.transpose(1, 0, 2)), r"\(28, 24, 20\), but .* is \(24, 28, 20\); resample"),
        (nifti(PART[..., None] * np.ones(3, np.uint8)), "3 volumes in one image"),
        (moved(1.0), "1 voxels away from .*; resample it .* or mend its header"),
        (moved(30.0), "30 voxels away"),
        (nifti(PART, AFFINE * [[-1], [1], [1], [1]]), "voxels away"),
        (scattered(0), "an empty mask; at least 100 voxels"),
        (scattered(1), "a mask of 1 voxels? only; at least 100 voxels"),
        (scattered(99), "a mask of 99 voxels only; at least 100 voxels"),
        (nifti(np.full(SHAPE, np.nan, np.float32)), "an empty mask; at least 100 voxels"),
    ],
)
def test_a_mask_that_cannot_be_meant_is_refused(desk: Desk, content: bytes, message: str) -> None:
    mask = desk.put("mask.nii", content)
    for command in (
        ("normalise", desk.scan, "--to", desk.target, "--mask", mask, "-o", desk.out),
        ("normalise", desk.scan, "--to", desk.scan, "--to-mask", mask, "-o", desk.out),
        ("fit", desk.scan, "--mask", mask, "-o", desk.folder / "out" / "x.json"),
        ("apply", desk.scan, "--map", desk.map, "--mask", mask, "-o", desk.out),
    ):
        desk.refused(mask, message, *command)


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (moved(0.004), None),
        (moved(0.1), "lies 0.1 voxels away from .*; used nevertheless"),
        (nifti(3 * PART), "other values than 0 and 1; all values but 0 count as inside"),
        (nifti(PART * np.float32(0.6) + np.float32(0.2)), "values above 0.5 count as inside"),
        (nifti(np.where(PART, 1, np.nan)), "voxels are not finite, and count as outside"),
    ],
    ids=["small drift", "drift", "labels", "probabilities", "NaN"],
)
def test_a_mask_that_is_a_little_strange_is_warned_of(
    desk: Desk, content: bytes, warning: str | None
) -> None:
    mask = desk.put("mask.nii", nifti(PART))
    plain, record, said = desk.normalised(HEAD, "--mask", mask)
    assert said == []
    assert record["voxels"]["fitted"] == np.count_nonzero(PART)
    desk.put("mask.nii", content)
    result, other, said = desk.normalised(HEAD, "--mask", mask)
    assert np.array_equal(result, plain)
    assert other["mixture"] == record["mixture"]
    assert len(said) == len(other["warnings"]) == (warning is not None)
    assert all(re.search(f"^warning: {mask}: .*{warning}", line) for line in said)


def test_excluding_everything_is_refused(desk: Desk) -> None:
    lesion = desk.put("lesion.nii", nifti(INSIDE.astype(np.uint8)))
    desk.refused_scan(nifti(), "no voxel.*not excluded; at least 100", "--exclude", lesion)


# ── models ───────────────────────────────────────────────────────────────────────────────────────


class Trap:
    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


def text(kind: str, **changes: Any) -> str:
    """A model in which some entries were changed."""
    return json.dumps(model(kind, **{kind: {"mixture": TARGET, "map": MAP}[kind] | changes}))


def refuses_model(desk: Desk, kind: str, content: bytes | str, message: str) -> None:
    bad = desk.put("bad.json", content)
    use = ("apply", desk.scan, "--map") if kind == "map" else ("normalise", desk.scan, "--to")
    desk.refused(bad, message, *use, bad, "-o", desk.out)
    if kind == "mixture":
        desk.refused(bad, message, "reference", desk.target, bad, "-o", desk.folder / "out/x.json")


NUMBER = r"\d*5\.0"
each_kind = pytest.mark.parametrize("kind", ["mixture", "map"])


@each_kind
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file; check that it is the right file"),
        (b"import os", "not JSON .*; check that it is the right file"),
        (nifti(), "not JSON|not text in UTF-8"),
        (PACKED, "a gzip file, perhaps an image, not a model"),
        (b"PK\x03\x04", "a zip archive .*, not a model"),
        (b"\xff\xfe{\0}\0", "not text in UTF-8"),
        (b"[" * 100_000, "nested more than 64 levels deep"),
        (b'{"a":' * 100_000, "nested more than 64 levels deep"),
        (b"[1, 2]", "JSON, but not a model of ndflow"),
        (b"{}", "JSON, but not a model of ndflow"),
        *(
            (pickle.dumps(Trap(), protocol), "a Python pickle, .* is not opened; .* JSON")
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
)
def test_what_is_no_model_is_refused_and_never_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, kind: str, content: bytes, message: str
) -> None:
    monkeypatch.chdir(desk.folder)
    refuses_model(desk, kind, content, message)  # and sees that there is no new folder


@each_kind
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("}$", "", r"not JSON \(line 1, column \d+"),
        ("}$", "}}", r"not JSON \(line 1, column \d+"),
        ("}$", ', "kind": "map"}', "holds 'kind' twice"),
        ("}$", ', "a": {"b": [1], "b": [2]}}', "holds 'b' twice"),
        ("}$", f', "a": {"[" * 66}{"]" * 66}}}', "nested more than 64 levels deep"),
        (NUMBER, "NaN", "holds NaN"),
        (NUMBER, "-Infinity", "holds -Infinity"),
        (NUMBER, "1e999", "holds 1e999, which is too large"),
        (NUMBER, "9" * 9999, "digits"),
        (NUMBER, "9" * 400, "must be an array of real numbers"),
        (NUMBER, "null", "must be finite"),
        (NUMBER, '"5.0"', "must be an array of real numbers"),
        ('"format": "ndflow"', '"format": "other"', "JSON, but not a model of ndflow"),
        ('"version": 1', '"version": 2', "version 2 of the format.*; update ndflow"),
        ('"version": 1', '"version": 0', "format version is 0"),
        ('"version": 1', '"version": "1"', "format version is '1'"),
        ('"version": 1, ', "", "format version is None"),
        ('"kind": "[a-z]*"', '"kind": "histogram"', "kind 'histogram', where .* is expected"),
        ('"kind": "[a-z]*", ', "", "kind None, where .* is expected"),
        ('"(map|mixture)": {', '"other": {', "a (map|mixture) file without a"),
        ('"type": "[A-Za-z]*"', '"type": "os.system"', "'os.system' is not a type of value"),
        ('"type": "[A-Za-z]*"', '"type": "Value"', "'Value' is not a type of value"),
        ('"type": "[A-Za-z]*"', '"type": ["Affine"]', "is not a type of value"),
        ('"type": "[A-Za-z]*", ', "", "None is not a type of value"),
        ('"type": "[A-Za-z]*"', '"type": "Status"', "a Status with missing or unknown entries"),
        ('"type"', '"surplus": 1, "type"', "unknown entries: surplus"),
        ('"(offset|means)"', '"meens"', "missing or unknown entries: .*meens"),
        ('{"type".*}$', "null}", "not a valid .*NoneType"),
        ('{"type".*}$', '"mixture"}', "not a valid .*got a str"),
        ('{"type".*}$', "[" * 62 + "]" * 62 + "}", "not a valid .*got a list"),
    ],
)
def test_a_damaged_model_is_refused(
    desk: Desk, kind: str, old: str, new: str, message: str
) -> None:
    damaged = re.sub(old, new, text(kind), count=1)
    assert damaged != text(kind)
    refuses_model(desk, kind, damaged, message)


WIDE = [[[1.0, 0.0], [0.0, 1.0]]]


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("mixture", text("map"), "kind 'map', where 'mixture' or 'reference' is expected; .*right"),
        ("map", text("mixture"), "kind 'mixture', where 'map' is expected; .*right file"),
        ("mixture", json.dumps(model("mixture", mixture=MAP)), "expected .*Mixture, got .*Affine"),
        ("map", json.dumps(model("map", map=TARGET)), "expected .*Map, got .*GaussianMixture"),
        ("mixture", text("mixture", weights=[0.3, 0.4, 0.5]), "weights must sum to 1"),
        ("mixture", text("mixture", weights=[-0.3, 0.4, 0.9]), "weights must"),
        ("mixture", text("mixture", means=[[20.0], [60.0]]), "means must have the shape"),
        ("mixture", text("mixture", precisions=[[[-1]]] * 3), "precisions must be positive"),
        ("mixture", text("mixture", precisions=[[[0]]] * 3), "precisions must be positive"),
        ("mixture", text("mixture", precisions=[[[1e-320]]] * 3), "precisions must be positive"),
        ("mixture", text("mixture", weights=[1], means=[[1, 2]], precisions=WIDE), "2 channels"),
        ("map", text("map", matrix=[[0.0]]), "matrix must be invertible"),
        ("map", text("map", matrix=WIDE[0], offset=[0, 0]), "2 channels"),
        ("map", json.dumps(model("map", map={"type": "Chain", "maps": []})), "at least one map"),
    ],
)
def test_a_model_of_the_wrong_kind_is_refused(
    desk: Desk, kind: str, content: str, message: str
) -> None:
    refuses_model(desk, kind, content, message)


@pytest.mark.parametrize(
    "changes",
    [
        {"means": [[1e20]] * 3},  # where doubles are far more than a spread apart
        {"means": [[1e300], [2e300], [3e300]]},
        {"precisions": [[[1e-300]]] * 3},
    ],
)
def test_a_target_beyond_all_numbers_is_blamed_and_not_the_scan(
    desk: Desk, changes: dict[str, Any]
) -> None:
    bad = desk.put("bad.json", text("mixture", **changes))
    desk.refused(bad, "", "normalise", desk.scan, "--to", bad, "-o", desk.out)


@pytest.mark.parametrize("factor", [1e306, -1e306])
def test_a_map_beyond_all_numbers_is_clipped_and_counted(desk: Desk, factor: float) -> None:
    steep = desk.put("steep.json", text("map", matrix=[[factor]]))
    ran = desk.run("apply", desk.scan, "--map", steep, "-o", desk.out)
    assert ran.code == 0
    limit = np.finfo(np.float32).max * np.float32(np.sign(factor))
    assert np.array_equal(voxels(desk.out), INSIDE * limit)
    count = f"{np.count_nonzero(INSIDE):,} voxels did not fit the type float32"
    assert [count in line for line in ran.err.splitlines()] == [True]
