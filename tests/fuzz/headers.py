"""Image files that are built, mutated and understood without ndflow and without nibabel."""

import math
import struct
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4"} | {
    1024: "i8",
    1280: "u8",
}
MGH_DTYPES = {0: "u1", 1: "i4", 3: "f4", 4: "i2", 10: "u2"}
MGH_START = 284

# Where the fields of NIfTI-1 and NIfTI-2 are, and how they are stored.
_FIELDS_1 = {
    "sizeof_hdr": (0, "i"),
    "dim": (40, "8h"),
    "datatype": (70, "h"),
    "bitpix": (72, "h"),
    "pixdim": (76, "8f"),
    "vox_offset": (108, "f"),
    "scl_slope": (112, "f"),
    "scl_inter": (116, "f"),
    "cal_max": (124, "f"),
    "descrip": (148, "80s"),
    "qform_code": (252, "h"),
    "sform_code": (254, "h"),
    "quatern": (256, "6f"),
    "srow": (280, "12f"),
    "intent_name": (328, "16s"),
    "magic": (344, "4s"),
}
_FIELDS_2 = {
    "sizeof_hdr": (0, "i"),
    "magic": (4, "8s"),
    "datatype": (12, "h"),
    "bitpix": (14, "h"),
    "dim": (16, "8q"),
    "pixdim": (104, "8d"),
    "vox_offset": (168, "q"),
    "scl_slope": (176, "d"),
    "scl_inter": (184, "d"),
    "cal_max": (192, "d"),
    "descrip": (240, "80s"),
    "qform_code": (344, "i"),
    "sform_code": (348, "i"),
    "quatern": (352, "6d"),
    "srow": (400, "12d"),
    "intent_name": (508, "16s"),
}
FIELDS = {348: _FIELDS_1, 540: _FIELDS_2}
MAGIC = {348: b"n+1\0", 540: b"n+2\0\r\n\x1a\n"}
HARMLESS = ("descrip", "intent_name", "cal_max")  # fields that say nothing about the voxels

ODD_NUMBERS = [0, 1, -1, 2, 3, 7, 8, 127, 255, 32767, -32768, 65535, 2**31 - 1, -(2**31), 2**62]
ODD_FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e30, 3e38, math.nan, math.inf, -math.inf]


@dataclass(frozen=True)
class Meaning:
    """What an image file says: the value of each voxel."""

    values: NDArray[np.float64]
    step: float  # between the values of neighbouring integers


def put(content: bytearray, size: int, order: str, field: str, *values: Any) -> None:
    """Set a field of a NIfTI header."""
    place, code = FIELDS[size][field]
    struct.pack_into(order + code, content, place, *values)


def voxels(random: Random, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return voxels of a type, none of them 0 at the end of the file."""
    generator = np.random.default_rng(random.getrandbits(32))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return generator.normal(100, 30, shape).astype(kind)
    least = max(np.iinfo(kind).min, -300)
    stored = generator.integers(least, min(np.iinfo(kind).max, 3000), shape).astype(kind)
    stored[-1, -1, -1] = 1
    return stored


def nifti(random: Random) -> tuple[bytearray, int, str]:
    """Return a valid NIfTI file, the size of its header, and its byte order."""
    size, order = random.choice([348, 540]), random.choice("<>")
    code = random.choice(sorted(DTYPES))
    shape = tuple(random.randint(1, 7) for _ in range(3))
    stored = voxels(random, order + DTYPES[code], shape)
    extended = random.random() < 0.2
    start = size + 4 + 32 * extended
    content = bytearray(start)
    put(content, size, order, "sizeof_hdr", size)
    put(content, size, order, "magic", MAGIC[size])
    put(content, size, order, "dim", 3, *shape, 1, 1, 1, 1)
    put(content, size, order, "datatype", code)
    put(content, size, order, "bitpix", 8 * stored.itemsize)
    put(content, size, order, "pixdim", 1, 2, 2, 2, 1, 1, 1, 1)
    put(content, size, order, "vox_offset", start)
    slope, inter = random.choice([(1, 0), (0, 0), (0.5, 0), (2, -10), (math.nan, math.nan)])
    put(content, size, order, "scl_slope", slope)
    put(content, size, order, "scl_inter", inter)
    put(content, size, order, "sform_code", random.choice([0, 1, 2]))
    put(content, size, order, "qform_code", random.choice([0, 1]))
    put(content, size, order, "quatern", 0, 0, random.choice([0, 1]), 10, -20, 30)
    put(content, size, order, "srow", -2, 0, 0, 20, 0, 2, 0, -30, 0, 0, 2, -10)
    if extended:
        struct.pack_into("4B", content, size, 1, 0, 0, 0)
        struct.pack_into(order + "2i", content, size + 4, 32, 6)
    return content + stored.tobytes(order="F"), size, order


def nifti_meaning(content: bytes) -> Meaning | None:
    """Return what a NIfTI file says, by the standard alone; None where it contradicts itself."""
    orders = {int.from_bytes(content[:4], o): c for o, c in (("little", "<"), ("big", ">"))}
    size = next((size for size in FIELDS if size in orders), None)
    if size is None or len(content) < size:
        return None
    order = orders[size]
    field = {
        name: struct.unpack_from(order + code, content, place)
        for name, (place, code) in FIELDS[size].items()
    }
    axes, *dim = field["dim"]
    code, start = field["datatype"][0], field["vox_offset"][0]
    shape = tuple(dim[:axes])
    if field["magic"][0] != MAGIC[size] or not 1 <= axes <= 7 or code not in DTYPES:
        return None
    if min(shape) < 1 or math.prod(shape[3:]) > 1 or not math.isfinite(start):
        return None
    stored = _stored(content, int(start) or size + 4, order + DTYPES[code], shape)
    if stored is None or 0 < start < size + 4 or start < 0 or start % 1:
        return None
    slope, inter = field["scl_slope"][0], field["scl_inter"][0]
    return _scaled(stored, *((slope, inter) if slope and math.isfinite(slope) else (1, 0)))


def mgh(random: Random) -> bytearray:
    """Return a valid MGH file, with a footer."""
    code = random.choice(sorted(MGH_DTYPES))
    shape = tuple(random.randint(1, 7) for _ in range(3))
    stored = voxels(random, ">" + MGH_DTYPES[code], shape)
    content = bytearray(MGH_START)
    struct.pack_into(">7i", content, 0, 1, *shape, 1, code, 0)
    struct.pack_into(">h", content, 28, random.choice([0, 1, 1, 1]))
    struct.pack_into(">15f", content, 30, 1, 2, 1.5, -1, 0, 0, 0, 0, -1, 0, 1, 0, 5, -6, 7)
    return content + stored.tobytes(order="F") + struct.pack(">5f", 2300, 0.1, 3, 900, 256)


def mgh_meaning(content: bytes, *, tags: bool = False) -> Meaning | None:
    """Return what an MGH file says; None where it contradicts itself.

    With `tags`, anything may follow the footer.
    """
    if len(content) < MGH_START:
        return None
    version, *dims, code = struct.unpack_from(">6i", content)
    if version != 1 or min(dims) < 1 or dims[3] > 1 or code not in MGH_DTYPES:
        return None
    rest = len(content) if tags else 20
    stored = _stored(content, MGH_START, ">" + MGH_DTYPES[code], tuple(dims[:3]), rest)
    return None if stored is None else _scaled(stored, 1, 0)


def _stored(
    content: bytes, start: int, dtype: str, shape: tuple[int, ...], rest: int = 0
) -> NDArray[Any] | None:
    end = start + math.prod(shape) * np.dtype(dtype).itemsize
    if end > len(content) or content[end + rest :].strip(b"\0"):
        return None
    return np.frombuffer(content[start:end], dtype).reshape(shape, order="F")


def _scaled(stored: NDArray[Any], slope: float, inter: float) -> Meaning | None:
    if not math.isfinite(inter):
        return None
    if (slope, inter) == (1, 0):
        return Meaning(stored.astype(np.float64), 0.0)
    with np.errstate(all="ignore"):
        return Meaning(stored * np.float64(slope) + inter, abs(slope))


def damaged(random: Random, content: bytearray, length: int, *, lengthen: bool = True) -> None:
    """Change a bit or a byte of a header of some length, or cut or lengthen the file."""
    if not content:
        return
    what = random.random()
    place = random.randrange(min(length, len(content)))
    if what < 0.45:
        content[place] ^= 1 << random.randrange(8)
    elif what < 0.8:
        content[place] = random.randrange(256)
    elif what < 0.9 or not lengthen:
        del content[random.randrange(len(content)) :]
    else:
        content += random.randbytes(random.randint(1, 40))


def odd_field(random: Random, content: bytearray, size: int, order: str) -> str:
    """Give a field of a complete NIfTI header an odd value; return its name."""
    name = random.choice(sorted(FIELDS[size]))
    place, code = FIELDS[size][name]
    count, kind = int(code[:-1] or 1), code[-1]
    if kind == "s":
        content[place : place + count] = random.randbytes(count)
        return name
    at = place + struct.calcsize(kind) * random.randrange(count)
    odd = random.choice(ODD_FLOATS if kind in "fd" else ODD_NUMBERS)
    if kind not in "fd":
        bits = 8 * struct.calcsize(kind)
        odd = (odd + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    struct.pack_into(order + kind, content, at, odd)
    return name
