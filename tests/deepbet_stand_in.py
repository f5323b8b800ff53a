"""A stand-in for deepbet and torch, for tests of everything around the network.

It is a package on the path, with the interface and the habits of the real one: it prints, warns,
asserts, and takes what is brighter than half of the maximum for the brain. Calls are counted in a
file, so that those of other processes count too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
    def calls(self) -> int:
        """How often the network has run."""
        return len(self._lines())

    @property
    def threads(self) -> dict[str, int]:
        """How many threads torch had during the last call, and has now."""
        import torch

        return {"during": int(self._lines()[-1]), "after": torch.get_num_threads()}

    def widen(self) -> None:
        """Take nearly everything for the brain from now on."""
        (self.folder / "wide").touch()

    def _lines(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def standing_in(folder: Path) -> Iterator[StandIn]:
    """Put the stand-in into a folder, and the folder first on the path.

    Workers that were started before do not know it, and those that know it must not outlive it.
    """
    import sys

    from joblib.externals.loky import get_reusable_executor

    from ndflow.preparation import brain as brain_mask

    get_reusable_executor().shutdown(wait=True)
    (folder / "deepbet").mkdir(parents=True)
    (folder / "deepbet" / "__init__.py").write_text("from deepbet.bet import BrainExtraction\n")
    (folder / "deepbet" / "bet.py").write_text(_BET)
    (folder / "torch.py").write_text(_TORCH)
    about = folder / f"deepbet-{VERSION}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: deepbet\nVersion: {VERSION}\n")
    brain_mask._network.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] in ("deepbet", "torch")]:
            patch.delitem(sys.modules, name)
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        yield StandIn(folder)
        for name in [name for name in sys.modules if name.split(".")[0] in ("deepbet", "torch")]:
            del sys.modules[name]
    get_reusable_executor().shutdown(wait=True)
    brain_mask._network.cache_clear()
