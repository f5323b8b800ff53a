"""A stand-in for deepbet and torch, for tests of everything around the network.

It is a package on the path, with the interface and the habits of the real one: it prints, warns,
asserts, and takes what is brighter than half of the maximum for the brain. Calls are counted in a
file, so that those of other processes count too.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

from ndflow.preparation.brain import _network

VERSION = "1.0.2"

_BET = """
import warnings
from pathlib import Path
import nibabel, numpy as np, torch

class BrainExtraction:
    def __init__(self, no_gpu=False):
        assert no_gpu

    def run(self, image):
        with open(Path(__file__).parents[1] / "calls", "a") as file:
            file.write(f"{torch.get_num_threads()}\\n")
        print("working ...")
        warnings.warn("old-fashioned", DeprecationWarning)
        values = nibabel.as_closest_canonical(image).get_fdata(dtype=np.float32)
        assert values.any(), "Not enough foreground to calculate bounding box"
        assert np.isfinite(values).all()
        mask = (values > values.max() / 2).astype(np.uint8)
        if (Path(__file__).parents[1] / "wide").exists():
            mask[1:-1, 1:-1, 1:-1] = 1
        return image, nibabel.Nifti1Image(mask, image.affine), 0.0
"""
_TORCH = """
_threads = 4
def get_num_threads():
    return _threads
def set_num_threads(number):
    global _threads
    _threads = number
"""


class StandIn:
    """The stand-in, and what became of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def threads(self) -> list[int]:
        """How many threads torch had during each call."""
        path = self.folder / "calls"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def calls(self) -> int:
        """How often the network has run."""
        return len(self.threads)


@contextmanager
def standing_in(folder: Path) -> Iterator[StandIn]:
    """Put the stand-in into a folder, and the folder first on the path."""
    files = {
        "deepbet/__init__.py": "from deepbet.bet import BrainExtraction\n",
        "deepbet/bet.py": _BET,
        "torch.py": _TORCH,
        f"deepbet-{VERSION}.dist-info/METADATA": f"Name: deepbet\nVersion: {VERSION}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        yield StandIn(folder)
        _forget()


def _forget() -> None:
    """Unload both packages, also in workers: those that knew others must not go on."""
    get_reusable_executor().shutdown(wait=True)
    _network.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] in ("deepbet", "torch")]:
        del sys.modules[name]
