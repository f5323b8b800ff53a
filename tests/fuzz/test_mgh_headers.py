"""MGH headers, mutated bit by bit and byte by byte."""

from pathlib import Path
from random import Random

from fuzz.conftest import Fuzz
from fuzz.headers import damaged, mgh, mgh_meaning
from fuzz.images import check_image, passed, stored
from nibabel.freesurfer.mghformat import MGHHeader


def mutated(random: Random, folder: Path) -> bool:
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
    fuzz(mutated, 300)
