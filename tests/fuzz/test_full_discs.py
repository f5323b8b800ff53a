"""Files that cannot be written to their end: nothing half-written stays, and nothing is lost."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from fuzz.conftest import Fuzz
from fuzz.judge import typed_in
from fuzz.small_study import SmallStudy
from studies import results_of

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
def expected() -> dict[str, bytes]:
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
            assert path.read_bytes() == expected()[name], f"{name} is half-written"
    assert typed_in("", *study.words()).code == 0  # there is room again
    assert same(results_of(study.out)) == expected()
    return ran.code == 0


def test_full_discs(fuzz: Fuzz) -> None:
    fuzz(cramped, 6, slow=True)
