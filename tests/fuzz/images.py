"""An image that went through ndflow unchanged, compared with what its file says."""

import gzip
from pathlib import Path
from random import Random
from typing import Any

import nibabel
import numpy as np
from fuzz.headers import Meaning
from fuzz.judge import attempt, typed_in
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
