"""Files: images in and out, masks, and models. No mathematics."""

from ndflow.io.atomic import check_new, new_file
from ndflow.io.foreground import foreground
from ndflow.io.masks import nonzero, read_mask
from ndflow.io.models import read_model, write_json, write_model
from ndflow.io.reading import Source, read_volume
from ndflow.io.stream import DEFAULT_MAX_BYTES, sha256_of
from ndflow.io.volume import Volume
from ndflow.io.writing import DTYPES, check_output, write_volume

__all__ = [
    "DEFAULT_MAX_BYTES",
    "DTYPES",
    "Source",
    "Volume",
    "check_new",
    "check_output",
    "foreground",
    "new_file",
    "nonzero",
    "read_mask",
    "read_model",
    "read_volume",
    "sha256_of",
    "write_json",
    "write_model",
    "write_volume",
]
