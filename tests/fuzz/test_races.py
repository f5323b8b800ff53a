"""Inputs that are replaced or removed while a command runs: the result belongs to one content.

The file changes before it is opened for the n-th time, or after the last one; so the moment is
random, but does not depend on how fast a machine is.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from fuzz.conftest import Fuzz
from fuzz.judge import typed_in
from fuzz.small_study import SmallStudy, mask, scan
from studies import read_json

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
