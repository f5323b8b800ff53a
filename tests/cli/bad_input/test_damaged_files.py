"""Images that are damaged, or whose headers make no sense, are refused by name."""

import gzip
import struct
from typing import Any

import numpy as np
import pytest
from bad_input import HEAD, Desk
from nibabel.freesurfer.mghformat import MGHImage
from phantoms import nifti
from studies import snapshot

PACKED = gzip.compress(nifti(HEAD), mtime=0)


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
        (flipped(-6), f"damaged: .*checksum.*{AGAIN}"),
        (flipped(-2), f"damaged.*{AGAIN}"),
        (flipped(len(PACKED) // 2), f"damaged.*{AGAIN}"),
        (PACKED + b"garbage", f"damaged.*{AGAIN}"),
        (gzip.compress(nifti(HEAD)[:-1]), f"ends 1 bytes? before the end of its voxels.*{AGAIN}"),
        (gzip.compress(nifti(HEAD) + b"garbage"), "more than the voxels.*; its header is damaged"),
        (b"<html>404</html>", "neither NIfTI nor MGH; check that it is the right file"),
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
    assert set(snapshot(folder)) == {
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


# ── headers that make no sense ────────────────────────────────────────────────────────────────────


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
        ({"vox_offset": 1e30}, "vox_offset.*damaged"),
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
    desk.refused_scan(nifti(HEAD, **fields), message)


@pytest.mark.parametrize("slope", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("inter", [0.0, 7.0, np.nan])
def test_without_a_slope_voxels_are_unscaled(desk: Desk, slope: float, inter: float) -> None:
    desk.normalised(nifti(HEAD))
    plain = desk.out.read_bytes()
    desk.normalised(nifti(HEAD, scl_slope=slope, scl_inter=inter))
    assert desk.out.read_bytes() == plain


# ── MGH ──────────────────────────────────────────────────────────────────────────────────────────


def mgh(at: int, content: bytes) -> bytes:
    """Return the bytes of an MGH file of a head, with some of them replaced."""
    whole = bytearray(MGHImage(HEAD, np.eye(4)).to_bytes())
    whole[at : at + len(content)] = content
    return bytes(whole)


@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (20, bytes(4), "more than the voxels.*; its header is damaged"),  # uint8 for int16
        (4, (8).to_bytes(4), "more than the voxels.*; its header is damaged"),  # 8 for 24
        (30, struct.pack(">f", np.inf), "its orientation is invalid.*; its header is damaged"),
        (78, struct.pack(">f", np.inf), "its orientation is invalid.*; its header is damaged"),
    ],
)
def test_an_mgh_header_that_makes_no_sense_is_refused(
    desk: Desk, at: int, content: bytes, message: str
) -> None:
    good, bad = desk.put("good.mgh", mgh(0, b"")), desk.put("bad.mgh", mgh(at, content))
    desk.refused(bad, message, "normalise", bad, "--to", desk.target, "-o", desk.out)
    assert desk.run("normalise", good, "--to", desk.target, "-o", desk.out).code == 0
