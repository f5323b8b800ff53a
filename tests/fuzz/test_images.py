"""Image files whose headers are damaged: refused, or read as they stand."""

import gzip
import io
import struct
from pathlib import Path
from random import Random
from typing import Any

import nibabel
import numpy as np
from fuzz.conftest import Fuzz, attempt, typed_in

import ndflow

KINDS: dict[str, Any] = {
    "x.nii": nibabel.Nifti1Image,
    "x.nii.gz": nibabel.Nifti2Image,
    "x.mgh": nibabel.MGHImage,
    "x.mgz": nibabel.MGHImage,
}
DTYPES = ["u1", "i2", "i4", "f4"]  # that all of them can hold
LENGTHS = {"x.nii": 348, "x.nii.gz": 540, "x.mgh": 90, "x.mgz": 90}  # of headers
NUMBERS = [0, 1, -1, 2, 3, 7, 8, 127, 255, 32767, -32768, 2**31 - 1, -(2**31)]
FLOATS = [0.0, -1.0, 1e-45, 1e-30, 1e30, 3e38, float("nan"), float("inf")]
IDENTITY = ndflow.Affine([[1.0]], [0.0])


def built(random: Random, name: str) -> bytearray:
    """Return the content of a valid image file, before it is compressed."""
    generator = np.random.default_rng(random.getrandbits(32))
    shape = [random.randint(1, 7) for _ in range(3)]
    voxels = generator.normal(100, 30, shape).astype(random.choice(DTYPES))
    voxels[-1, -1, -1] = 1
    affine = np.array([[-2.0, 0, 0, 20], [0, 2, 0, -30], [0, 0, 2, -10], [0, 0, 0, 1]])
    if ".mg" in name:
        image = KINDS[name](voxels, affine)
    else:
        image = KINDS[name](
            voxels, affine, KINDS[name].header_class(endianness=random.choice("<>"))
        )
        image.header.set_slope_inter(*random.choice([(1, 0), (0.5, 0), (2, -10)]))
    image.header.set_data_dtype(voxels.dtype)
    content = io.BytesIO()
    image.to_stream(content)
    return bytearray(content.getvalue())


def damage(random: Random, content: bytearray, length: int) -> None:
    """Change a bit, a byte or a number of a header of some length, or cut the file."""
    what, place = random.random(), random.randrange(min(length, len(content)))
    if what < 0.3:
        content[place] ^= 1 << random.randrange(8)
    elif what < 0.5:
        content[place] = random.randrange(256)
    elif what < 0.9 and place + 8 < len(content):
        kind = random.choice("fi")
        odd = random.choice(FLOATS if kind == "f" else NUMBERS)
        struct.pack_into(random.choice("<>") + kind, content, place - place % 4, odd)
    else:
        del content[max(place, 4) :]


def passed(random: Random, path: Path) -> Any | None:
    """Return an image after an intensity map that changes nothing; None where it was refused.

    Some are written to a file by the command.
    """
    dtype: Any = "float32" if ".mg" in path.name else "float64"  # the best that a format can hold
    if random.random() > 0.1:
        result = attempt(path, lambda: ndflow.apply(path, IDENTITY, dtype=dtype))
        return None if result is None else result.image
    imap, output = path.with_name("map.json"), path.with_name("out.nii")
    ndflow.save(imap, IDENTITY)
    typed_in(path, "apply", path, "--map", imap, "-o", output, "--dtype", dtype)
    names = {file.name for file in path.parent.iterdir()} - {path.name, imap.name}
    assert names in (set(), {"out.json", "out.nii"})
    return nibabel.load(output) if output.exists() else None


def check_image(image: Any, plain: bytes, kind: Any) -> None:
    """Check an image against its file as nibabel reads it."""
    expected = kind.from_bytes(plain)
    found, values = np.asanyarray(image.dataobj), np.asanyarray(expected.dataobj)
    assert found.reshape(-1).shape == values.reshape(-1).shape
    # Values within a hundredth of a step of 0 count as background.
    slope, _ = getattr(expected.header, "get_slope_inter", lambda: (0, 0))()
    near = np.isclose(found.ravel("F"), values.ravel("F"), 1e-6, abs(slope or 0) / 99, True)
    assert near.all(), (found.ravel("F")[~near][:5], values.ravel("F")[~near][:5])
    assert np.isfinite(image.affine).all(), image.affine
    assert np.allclose(image.affine, expected.affine, 1e-4, 1e-4), (image.affine, expected.affine)


def header_case(random: Random, folder: Path) -> bool:
    name = random.choice(sorted(KINDS))
    content = built(random, name)
    damages = random.choice([0, 1, 1, 1, 1, 2, 3])
    for _ in range(damages):
        damage(random, content, LENGTHS[name])
    path, plain = folder / name, bytes(content)
    path.write_bytes(gzip.compress(plain, 1) if name.endswith("z") else plain)
    image = passed(random, path)
    if image is None:
        assert damages, "refused, though nothing is wrong with it"
        return False
    check_image(image, plain, KINDS[name])
    return True


def test_image_headers(fuzz: Fuzz) -> None:
    fuzz(header_case, 150)
