"""Compressed images that are cut, flipped, padded, joined or compressed twice."""

import gzip
from pathlib import Path
from random import Random

from fuzz.conftest import Fuzz
from fuzz.headers import mgh, mgh_meaning, nifti, nifti_meaning
from fuzz.images import check_image, passed


def mutated(random: Random, folder: Path) -> bool:
    nifti_file = random.random() < 0.7
    plain = bytes(nifti(random)[0] if nifti_file else mgh(random))
    place = random.randrange(len(plain))
    packed = [gzip.compress(plain[:place], 1), gzip.compress(plain[place:], 9)]  # two members
    if random.random() < 0.5:
        packed = [gzip.compress(plain, random.randint(0, 9), mtime=random.getrandbits(31))]
    content = damaged(random, b"".join(packed))
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


def damaged(random: Random, content: bytes) -> bytes:
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
    fuzz(mutated, 300)
