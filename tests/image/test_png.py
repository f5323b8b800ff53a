"""PNG files: another library reads them as we meant them, and damage is noticed."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ndflow.errors import FileError
from ndflow.image.preview import decode_png, encode_palette, encode_png, is_ours

GREYS = np.random.default_rng(0).integers(0, 256, (7, 11), np.uint8)


def test_another_library_reads_the_greys_and_that_0_is_transparent() -> None:
    image = Image.open(io.BytesIO(encode_png(GREYS, {"a": [1, 2]})))
    assert (image.mode, image.size) == ("L", (11, 7))
    np.testing.assert_array_equal(np.asarray(image), GREYS)
    assert image.info["transparency"] == 0
    assert image.text["ndflow"] == '{"a": [1, 2]}'
    alpha = np.asarray(image.convert("RGBA"))[..., 3]
    np.testing.assert_array_equal(alpha == 0, GREYS == 0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (40, 300)])
def test_another_library_reads_the_colours(shape: tuple[int, int]) -> None:
    numbers = np.random.default_rng(1).integers(0, 3, shape, np.uint8)
    content = encode_palette(numbers, ["#000000", "#D55E00", "#0102ff"], {"a": 1})
    image = Image.open(io.BytesIO(content))
    colours = np.array([[0, 0, 0], [0xD5, 0x5E, 0], [1, 2, 255]])
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), colours[numbers])
    assert image.text["ndflow"] == '{"a": 1}'


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (40, 300)])
def test_what_was_written_is_read(shape: tuple[int, int]) -> None:
    greys = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    found, note = decode_png(encode_png(greys, {"x": 0.5}), "x.png")
    np.testing.assert_array_equal(found, greys)
    assert note == {"x": 0.5}


def test_every_damaged_byte_is_noticed_and_the_file_is_named() -> None:
    content = encode_png(GREYS, {"a": 1})
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        with pytest.raises(FileError, match=r"there\.png"):
            decode_png(bytes(damaged), "there.png")
    for length in range(len(content) - 12):  # without its last chunk it is still all there
        with pytest.raises(FileError):
            decode_png(content[:length], "there.png")


def test_only_our_pictures_are_ours(tmp_path: Path) -> None:
    ours, plain, other = (tmp_path / f"{name}.png" for name in ("ours", "plain", "other"))
    ours.write_bytes(encode_png(GREYS, {}))
    plain.write_bytes(encode_png(GREYS))
    Image.fromarray(GREYS).save(other)
    assert [is_ours(path) for path in (ours, plain, other, tmp_path / "none")] == [
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(FileError):
        decode_png(other.read_bytes(), other)
    ours.write_bytes(ours.read_bytes()[:-1])
    assert not is_ours(ours)
