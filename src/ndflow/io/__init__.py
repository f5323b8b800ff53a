"""Files: images in and out, masks, and models. No mathematics."""

from ndflow.io.atomic import AnyPath, check_new, new_file, remove_abandoned
from ndflow.io.bids import BidsScan, find_scans
from ndflow.io.derivative import check_dataset, derivative_path, source_uri, write_dataset_files
from ndflow.io.foreground import foreground
from ndflow.io.lock import locked
from ndflow.io.masks import FEWEST, BoolArray, Inside, Mask, Nonzero, misplaced, read_mask
from ndflow.io.memory import make_array, make_image
from ndflow.io.models import check_new_model, model_bytes, read_model, write_model
from ndflow.io.reading import Source, files_of, read_volume
from ndflow.io.stream import DEFAULT_MAX_BYTES, open_file, sha256_of
from ndflow.io.table import Row, escaped, read_table, write_table
from ndflow.io.volume import Volume
from ndflow.io.writing import DTYPES, check_output, fitted, write_volume

__all__ = [
    "DEFAULT_MAX_BYTES",
    "DTYPES",
    "FEWEST",
    "AnyPath",
    "BidsScan",
    "BoolArray",
    "Inside",
    "Mask",
    "Nonzero",
    "Row",
    "Source",
    "Volume",
    "check_dataset",
    "check_new",
    "check_new_model",
    "check_output",
    "derivative_path",
    "escaped",
    "files_of",
    "find_scans",
    "fitted",
    "foreground",
    "locked",
    "make_array",
    "make_image",
    "misplaced",
    "model_bytes",
    "new_file",
    "open_file",
    "read_mask",
    "read_model",
    "read_table",
    "read_volume",
    "remove_abandoned",
    "sha256_of",
    "source_uri",
    "write_dataset_files",
    "write_model",
    "write_table",
    "write_volume",
]
