"""Studies whose inputs change while they run, or that cannot write to the end."""

import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from fuzz.conftest import Fuzz, typed_in
from phantoms import head, nifti
from studies import contents, read_json, write_tsv

import ndflow

SHAPE = (10, 11, 9)
OTHER = {  # what files become
    "s0.nii": nifti(head(7, shape=SHAPE, gain=8)),
    "m.nii": nifti((head(0, shape=SHAPE) > 400).astype(np.uint8)),
}
MOST = 6  # a file is opened less often than this
LARGEST = 20_000  # bytes; no file of the study is larger


def fill(folder: Path) -> list[object]:
    """Write two scans, a mask, a table and a reference; return the command of the study."""
    for seed in range(2):
        (folder / f"s{seed}.nii").write_bytes(nifti(head(seed, shape=SHAPE, gain=1 + seed)))
    (folder / "m.nii").write_bytes(nifti((head(0, shape=SHAPE) > 0).astype(np.uint8)))
    rows = [{"image": "s0.nii", "mask": "m.nii"}, {"image": "s1.nii", "mask": "n/a"}]
    standard = ndflow.GaussianMixture([0.5, 0.5], [-0.8, 0.8], [1 / 0.36, 1 / 0.36])
    ndflow.save(folder / "r.json", ndflow.Reference(standard, ("T1w",), 2))
    table = write_tsv(folder / "scans.tsv", rows)
    return ["cohort", table, folder / "out", "--reference", folder / "r.json", "-q", "--no-report"]


def results(folder: Path) -> dict[str, bytes]:
    """Return images and models, which do not depend on the folder that they are in."""
    found = contents(folder / "out")
    return {name: part for name, part in found.items() if name.startswith(("images", "models"))}


@cache
def expected(changed: str = "") -> dict[str, bytes]:
    """Return the results of a study, after a file was replaced."""
    with TemporaryDirectory() as name:
        words = fill(Path(name))
        if changed:
            (Path(name) / changed).write_bytes(OTHER[changed])
        assert typed_in("", *words).code == 0
        assert max(map(len, contents(Path(name) / "out").values())) < LARGEST
        return results(Path(name))


@contextmanager
def replaced(path: Path, content: bytes | None, moment: int) -> Iterator[None]:
    """Replace a file, or remove it, before it is opened for the n-th time."""
    opened = 0
    plain = os.open

    def watched(name: object, *more: int, **options: int) -> int:
        nonlocal opened
        if isinstance(name, str | os.PathLike) and os.fspath(name) == str(path):
            opened += 1
            if opened == moment:
                change()
        return plain(name, *more, **options)  # type: ignore[arg-type]

    def change() -> None:
        path.unlink()
        if content is not None:
            path.write_bytes(content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched)
        yield
    if opened < moment:
        change()


def raced(random: Random, folder: Path) -> bool:
    words, name = fill(folder), "images/s0.nii.gz"
    victim = random.choice(sorted(OTHER))
    before, after = (folder / victim).read_bytes(), random.choice([OTHER[victim], None])
    with replaced(folder / victim, after, random.randint(1, MOST)):
        ran = typed_in("", *words)
    image = results(folder).get(name)
    assert (image is None) == bool(ran.errors), ran.err
    if image is not None:
        old, new = expected()[name], expected(victim)[name]
        assert image in (old, new), "made of both contents"
        record = read_json(folder / "out" / "maps" / "s0.json")
        hashes = [file["sha256"] for files in record["inputs"].values() for file in files]
        own = before if image == old else OTHER[victim]
        assert hashlib.sha256(own).hexdigest() in hashes, "the record names another content"
    if after is not None:  # the next run makes it right
        assert typed_in("", *words).code == 0
        assert results(folder)[name] == expected(victim)[name]
    return not ran.code


def test_races(fuzz: Fuzz) -> None:
    fuzz(raced, 8, slow=True)


@contextmanager
def room(size: int) -> Iterator[None]:
    """Let this process write no file of more than some bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def cramped(random: Random, folder: Path) -> bool:
    words = fill(folder)
    with room(random.choice([0, random.randrange(3000), random.randrange(LARGEST)])):
        ran = typed_in(folder / "out", *words)
    for name, content in results(folder).items():
        assert content == expected()[name], f"{name} is half-written"
    assert typed_in("", *words).code == 0  # there is room again
    assert results(folder) == expected()
    return ran.code == 0


def test_full_discs(fuzz: Fuzz) -> None:
    fuzz(cramped, 8, slow=True)
