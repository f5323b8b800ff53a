"""Studies whose inputs change while they run, or that cannot write to the end."""

import hashlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from fuzz.conftest import Fuzz
from fuzz.judge import typed_in
from phantoms import head, nifti
from studies import read_json, results_of, write_tsv

import ndflow

SHAPE = (10, 11, 9)
SCANS = 2


def scan(seed: int) -> bytes:
    return nifti(head(seed, shape=SHAPE, gain=1 + seed))


def mask(seed: int) -> bytes:
    return nifti((head(0, shape=SHAPE) > (0, 400, 650)[seed % 3]).astype(np.uint8))


@dataclass(frozen=True)
class SmallStudy:
    """The files of a study in a folder; its results go to ``out`` in the same folder."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def fill(self) -> "SmallStudy":
        """Write the scans, a mask of the first of them, the table and the reference."""
        for number in range(SCANS):
            (self.folder / f"s{number}.nii").write_bytes(scan(number))
        (self.folder / "m.nii").write_bytes(mask(0))
        rows = [{"image": f"s{n}.nii", "mask": "n/a" if n else "m.nii"} for n in range(SCANS)]
        write_tsv(self.folder / "scans.tsv", rows)
        standard = ndflow.GaussianMixture([0.5, 0.5], [-0.8, 0.8], [1 / 0.36, 1 / 0.36])
        ndflow.save(self.folder / "r.json", ndflow.Reference(standard, ("T1w",), 2))
        return self

    def words(self, *more: object) -> list[object]:
        """Return the command that runs it."""
        given = ("--reference", self.folder / "r.json", "-q", "--no-report")
        return ["cohort", self.folder / "scans.tsv", self.out, *given, *more]

    def images(self) -> dict[str, bytes]:
        """Return the images that were written, by name."""
        return {path.name: path.read_bytes() for path in (self.out / "images").glob("[!.]*")}


OTHER = {"s0.nii": scan(7), "m.nii": mask(1)}  # what files become
MOST = 6  # a file is opened less often than this


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
        if content is None:
            path.unlink()
        else:
            new = path.with_name("new")
            new.write_bytes(content)
            new.replace(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched)
        yield
    if opened < moment:
        change()


@cache
def expected(victim: str) -> tuple[bytes, bytes]:
    """Return the first image of the study before and after a file was replaced."""
    found = []
    for changed in (False, True):
        with TemporaryDirectory() as folder:
            study = SmallStudy(Path(folder)).fill()
            if changed:
                (study.folder / victim).write_bytes(OTHER[victim])
            assert typed_in("", *study.words()).code == 0
            found.append(study.images()["s0.nii.gz"])
    return found[0], found[1]


def raced(random: Random, folder: Path) -> bool:
    study = SmallStudy(folder).fill()
    victim = random.choice(sorted(OTHER))
    path, before = folder / victim, (folder / victim).read_bytes()
    after = random.choice([OTHER[victim], OTHER[victim], None])
    with replaced(path, after, random.randint(1, MOST)):
        ran = typed_in("", *study.words())
    image = study.images().get("s0.nii.gz")
    assert (image is None) == bool(ran.errors), ran.err
    assert image is None or image in expected(victim), "made of both contents"
    if image is not None:
        record = read_json(study.out / "maps" / "s0.json")
        hashes = [file["sha256"] for files in record["inputs"].values() for file in files]
        own = before if image == expected(victim)[0] else OTHER[victim]
        assert hashlib.sha256(own).hexdigest() in hashes, "the record names another content"
    if after is not None:  # the next run makes it right
        assert typed_in("", *study.words()).code == 0
        assert study.images()["s0.nii.gz"] == expected(victim)[1]
    return not ran.code


def test_races(fuzz: Fuzz) -> None:
    fuzz(raced, 6, slow=True)


LARGEST = 20_000  # bytes; no file of the study is larger


@contextmanager
def room(size: int) -> Iterator[None]:
    """Let this process write no file of more than some bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@cache
def expected_whole() -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        study = SmallStudy(Path(folder)).fill()
        assert typed_in("", *study.words()).code == 0
        found = results_of(study.out)
    assert max(map(len, found.values())) < LARGEST
    return same(found)


def same(results: dict[str, bytes]) -> dict[str, bytes]:
    """Return images and models, which do not depend on the folder that they are in."""
    return {name: part for name, part in results.items() if name.startswith(("images", "models"))}


def cramped(random: Random, folder: Path) -> bool:
    study = SmallStudy(folder).fill()
    with room(random.choice([0, random.randrange(3000), random.randrange(LARGEST)])):
        ran = typed_in(study.out, *study.words())
    left = {path.relative_to(study.out).as_posix() for path in study.out.rglob("*.tmp")}
    assert not left, left
    for kind in ("images", "models"):
        for path in (study.out / kind).glob("*"):
            name = f"{kind}/{path.name}"
            assert path.read_bytes() == expected_whole()[name], f"{name} is half-written"
    assert typed_in("", *study.words()).code == 0  # there is room again
    assert same(results_of(study.out)) == expected_whole()
    return ran.code == 0


def test_full_discs(fuzz: Fuzz) -> None:
    fuzz(cramped, 6, slow=True)
