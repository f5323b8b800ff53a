"""Image files whose headers or compressed bytes are damaged: refused, or read as they stand."""

import gzip
from pathlib import Path
from random import Random
from typing import Any

import nibabel
import numpy as np
from fuzz.conftest import Fuzz
from fuzz.headers import (
    HARMLESS,
    Meaning,
    damaged,
    mgh,
    mgh_meaning,
    nifti,
    nifti_meaning,
    odd_field,
)
from fuzz.judge import attempt, typed_in
from nibabel.freesurfer.mghformat import MGHHeader
from numpy.typing import NDArray

import ndflow

IDENTITY = ndflow.Affine([[1.0]], [0.0])


def passed(random: Random, path: Path) -> Any | None:
    """Return an image after an intensity map that changes nothing; None where it was refused.

    Some are written to a file, some of them by the command.
    """
    way = random.random()
    dtype: Any = "float32" if ".mg" in path.name else "float64"  # the best that a format can hold
    if way > 0.2:
        result = attempt(path, lambda: ndflow.apply(path, IDENTITY, dtype=dtype))
        return None if result is None else result.image
    output = path.with_name(random.choice(["out.nii", "out.nii.gz"]))
    if way > 0.1:
        attempt(path, lambda: ndflow.apply(path, IDENTITY, output=output, dtype=dtype))
    else:
        imap = path.with_name("identity.json")
        ndflow.save(imap, IDENTITY)
        typed_in(path, "apply", path, "--map", imap, "-o", output, "--dtype", dtype)
        imap.unlink()
    names = sorted(file.name for file in path.parent.iterdir() if not file.samefile(path))
    assert names in ([], ["out.json", output.name]), names
    return nibabel.load(output) if output.exists() else None


def check_image(image: Any, meaning: Meaning | None, affine: NDArray[np.float64]) -> None:
    """Check an image against what its file says, and against its affine as nibabel reads it."""
    assert meaning is not None, "accepted, though the file contradicts itself"
    found = np.asanyarray(image.dataobj)
    expected = meaning.values
    assert found.reshape(-1).shape == expected.reshape(-1).shape, (found.shape, expected.shape)
    # Values within a hundredth of a step of 0 count as background.
    close = 1e-12 if found.dtype == np.float64 else 1e-6
    near = np.isclose(found.ravel("F"), expected.ravel("F"), close, meaning.step / 99, True)
    assert near.all(), (found.ravel("F")[~near][:5], expected.ravel("F")[~near][:5])
    assert np.isfinite(image.affine).all(), image.affine
    assert np.allclose(image.affine, affine, 1e-4, 1e-4), (image.affine, affine)


def stored(path: Path, content: bytes) -> Path:
    """Write a file, compressed if its name says so."""
    path.write_bytes(gzip.compress(content, 1) if path.name.endswith("z") else content)
    return path


def nifti_case(random: Random, folder: Path) -> bool:
    content, size, order = nifti(random)
    harmless = True
    for _ in range(random.choice([0, 1, 1, 1, 1, 2, 3])):
        if random.random() < 0.5 and len(content) >= size:
            harmless &= odd_field(random, content, size, order) in HARMLESS
        else:
            damaged(random, content, size)
            harmless = False
    path = stored(folder / random.choice(["x.nii", "x.nii.gz"]), bytes(content))
    image = passed(random, path)
    if image is None:
        assert not harmless, "refused, though nothing is wrong with it"
        return False
    kind = {348: nibabel.Nifti1Header, 540: nibabel.Nifti2Header}[size]
    header = kind(bytes(content[:size]), order, check=False)
    sizes = np.abs(header["pixdim"][1:4])
    header["pixdim"][1:4] = np.where(sizes == 0, 1, sizes)  # as nibabel and FSL mend them
    check_image(image, nifti_meaning(bytes(content)), header.get_best_affine())
    return True


def test_nifti_headers(fuzz: Fuzz) -> None:
    fuzz(nifti_case, 150)


def mgh_case(random: Random, folder: Path) -> bool:
    content = mgh(random)
    mutations = random.choice([0, 1, 1, 1, 1, 2, 3])
    for _ in range(mutations):
        damaged(random, content, random.choice([30, 90]), lengthen=False)
    path = stored(folder / random.choice(["x.mgh", "x.mgz"]), bytes(content))
    image = passed(random, path)
    if image is None:
        assert mutations, "refused, though nothing is wrong with it"
        return False
    header = MGHHeader(bytes(content[:90]) + bytes(20))
    check_image(image, mgh_meaning(bytes(content)), header.get_affine())
    return True


def test_mgh_headers(fuzz: Fuzz) -> None:
    fuzz(mgh_case, 120)


def gzip_case(random: Random, folder: Path) -> bool:
    nifti_file = random.random() < 0.7
    plain = bytes(nifti(random)[0] if nifti_file else mgh(random))
    place = random.randrange(len(plain))
    packed = [gzip.compress(plain[:place], 1), gzip.compress(plain[place:], 9)]  # two members
    if random.random() < 0.5:
        packed = [gzip.compress(plain, random.randint(0, 9), mtime=random.getrandbits(31))]
    content = damaged_stream(random, b"".join(packed))
    path = folder / ("x.nii.gz" if nifti_file else "x.mgz")
    path.write_bytes(content)
    image = passed(random, path)
    if image is None:
        assert content != b"".join(packed), "refused, though nothing is wrong with it"
        return False
    plain = gzip.decompress(content)  # raises an error where anything is wrong
    meaning = nifti_meaning(plain) if nifti_file else mgh_meaning(plain, tags=True)
    check_image(image, meaning, image.affine)
    return True


def damaged_stream(random: Random, content: bytes) -> bytes:
    """Return a gzip file after an accident, or as it is."""
    place = random.randrange(len(content))
    flipped = bytes([content[place] ^ 1 << random.randrange(8)])
    zeros = bytes(random.randint(1, 1000))
    return random.choice(
        [
            content,
            content[:place],
            content[:place] + flipped + content[place + 1 :],
            content[: place % 18] + flipped + content[place % 18 + 1 :],
            content[:place] + content[place + 1 :],
            content[:place] + random.randbytes(3) + content[place:],
            content + zeros,
            content + gzip.compress(b""),
            content + zeros + gzip.compress(zeros),
            content + content,
            content + random.randbytes(random.randint(1, 20)),
            content + content[:place],
            gzip.compress(content),
            content[place:] + content[:place],
        ]
    )


def test_gzip_streams(fuzz: Fuzz) -> None:
    fuzz(gzip_case, 120)
