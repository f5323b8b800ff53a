"""Headers that claim too much and compression bombs cost no memory."""

import gzip
import json
import re
from typing import Any

from bad_input import HEAD, TARGET, Desk, model
from commands import measured, needs_proc
from nibabel.freesurfer.mghformat import MGHHeader
from nibabel.nifti2 import Nifti2Header
from phantoms import nifti
from studies import snapshot

HUGE = [3, 32767, 32767, 32767, 1, 1, 1, 1]


def grown(desk: Desk, *commands: list[object]) -> tuple[list[int], list[int], list[str]]:
    """Run commands in one new process, after a first one on a small valid scan.

    Returns their exit codes, by how many MB the peak memory had grown, and their errors.
    """
    good: list[object] = ["normalise", desk.scan, "--to", desk.target, "-o", desk.out]
    (first, *codes), (least, *peaks), err = measured(good, *commands)
    assert first == 0, err
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    return codes, [(peak - least) >> 20 for peak in peaks], errors


@needs_proc
def test_false_headers_and_compression_bombs_cost_no_memory(desk: Desk) -> None:
    zeros = bytes(96 << 20)
    two = Nifti2Header()
    two["dim"], two["datatype"], two["bitpix"] = [3, 2**20, 2**20, 2**20, 1, 1, 1, 1], 64, 64
    mgh: Any = MGHHeader()
    mgh["dims"], mgh["type"] = [30000, 30000, 30000, 1], 3
    claims = nifti(HEAD, dim=HUGE)[:352]
    files = {
        # Headers alone; the first of them is a file of about 71 bytes.
        "a.nii.gz": (gzip.compress(claims), "holds at most"),
        "b.nii": (claims, "holds at most"),
        "c.nii": (two.binaryblock + bytes(4), "holds at most"),
        "d.mgh": (mgh.binaryblock[:90].ljust(284, b"\0"), "holds at most"),
        "e.nii.gz": (gzip.compress(nifti(HEAD, vox_offset=1e9)), "vox_offset"),
        # Compression bombs: after the voxels, as voxels, and before them.
        "f.nii.gz": (gzip.compress(nifti(HEAD) + zeros, 1), "--set max-bytes"),
        "g.nii.gz": (
            gzip.compress(nifti(HEAD, dim=[3, 400, 400, 400, 1, 1, 1, 1]) + zeros, 1),
            "--set max-bytes",
        ),
        "h.nii.gz": (
            gzip.compress(nifti(HEAD, vox_offset=90 << 20) + zeros, 1),
            "--set max-bytes|vox_off",
        ),
    }
    assert len(files["a.nii.gz"][0]) < 100
    paths = [desk.put(name, content) for name, (content, _) in files.items()]
    before = snapshot(desk.folder)
    limit = ["--set", "max-bytes=50_000_000"]
    codes, more, errors = grown(
        desk, *(["fit", path, "-o", desk.folder / "new.json", *limit] for path in paths)
    )
    assert set(codes) == {2}
    assert max(more) < 16, more
    for path, error in zip(paths, errors, strict=True):
        assert error.startswith(f"error: {path}: ")
        assert re.search(files[path.name][1], error), error
    assert {
        name: part for name, part in snapshot(desk.folder).items() if "out/" not in name
    } == before


@needs_proc
def test_a_bomb_in_the_header_costs_no_memory_below_the_limit(desk: Desk) -> None:
    bomb = gzip.compress(nifti(HEAD, vox_offset=90 << 20)[:352] + bytes(96 << 20), 1)
    path = desk.put("bomb.nii.gz", bomb)
    (code,), (more,), (error,) = grown(desk, ["fit", path, "-o", desk.folder / "new.json"])
    assert code == 2
    assert re.search("header|vox_offset", error)
    assert more < 16


def test_the_limit_can_be_raised(desk: Desk) -> None:
    content = nifti(HEAD)
    limit = len(content) - 1
    desk.refused_scan(
        content, f"{limit + 1:,} bytes.*raise.*--set max-bytes", "--set", f"max-bytes={limit}"
    )
    desk.normalised(content, "--set", f"max-bytes={limit + 1}")


@needs_proc
def test_a_mixture_of_very_many_components_costs_no_memory(desk: Desk) -> None:
    count = 10_000
    mixture = TARGET | {
        "weights": [1 / count] * count,
        "means": [[float(number)] for number in range(count)],
        "precisions": [[[1e-4]]] * count,
    }
    path = desk.put("many.json", json.dumps(model("mixture", mixture=mixture)))
    commands = ["normalise", desk.scan, "--to", path, "-o", desk.folder / "out" / "new.nii.gz"]
    codes, more, errors = grown(desk, commands)
    assert codes == [2]
    assert re.search("of 10,000 weights, where at most 512", errors[0])
    assert more[0] < 40
