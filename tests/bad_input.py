"""A scan, a target and a map, and commands that must refuse what is wrong with one of them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from commands import Run
from numpy.typing import NDArray
from phantoms import SHAPE, head, nifti, voxels_of
from studies import snapshot

from ndflow.doubt import Doubt

HEAD = head()
INSIDE = HEAD > 0
TARGET = {  # three tissues, in other units
    "type": "GaussianMixture",
    "weights": [0.3, 0.4, 0.3],
    "means": [[20.0], [60.0], [95.0]],
    "precisions": [[[0.04]], [[0.04]], [[0.04]]],
}
MAP = {"type": "Affine", "matrix": [[2.0]], "offset": [5.0]}


def model(kind: str, **parts: Any) -> dict[str, Any]:
    return {"format": "ndflow", "version": 2, "kind": kind, "ndflow": "0.1.0", **parts}


def few(count: int) -> NDArray[np.int16]:
    image = np.zeros_like(HEAD)
    image[np.unravel_index(np.flatnonzero(INSIDE)[:count], SHAPE)] = np.arange(1, count + 1)
    return image


class Desk:
    """A folder of inputs, an empty one for results, and commands between them."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder, self.run = folder, run
        (folder / "out").mkdir()
        self.out = folder / "out" / "x.nii.gz"
        self.scan = self.put("scan.nii", nifti(HEAD))
        self.target = self.put("target.json", json.dumps(model("mixture", mixture=TARGET)))
        self.map = self.put("map.json", json.dumps(model("map", map=MAP)))

    def put(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def refused(self, about: Path, message: str, *command: object) -> None:
        """Check that a command fails with one line about a file, and changes nothing."""
        before = snapshot(self.folder)
        ran = self.run(*command)
        assert ran.code == 2
        assert ran.out == ""
        first, *rest = ran.err.splitlines()
        assert first.startswith(f"error: {about}: ")
        assert re.search(message, first), first
        assert "; " in first  # what to try
        if command[0] == "reference":
            rest = [line for line in rest if not re.search("no reference was|scans failed", line)]
        assert rest == []
        assert snapshot(self.folder) == before

    def refused_scan(self, content: bytes, message: str, *options: object) -> None:
        """Check that a scan to normalise is refused."""
        path = self.put("bad.nii", content)
        self.refused(
            path, message, "normalise", path, "--to", self.target, "-o", self.out, *options
        )

    def normalised(
        self, content: bytes | NDArray[Any], *options: object
    ) -> tuple[NDArray[Any], dict[str, Any], list[str]]:
        """Normalise a scan; return the voxels, the record and what was printed besides doubts."""
        path = self.put("good.nii", content if isinstance(content, bytes) else nifti(content))
        command = ("normalise", path, "--to", self.target, "-o", self.out, "--force", *options)
        ran = self.run(*command)
        assert (ran.code, ran.errors) == (0, []), ran.err
        record = json.loads((self.folder / "out" / "x.json").read_text())
        assert sorted(path.name for path in self.out.parent.iterdir()) == ["x.json", "x.nii.gz"]
        doubts = [f"warning: {path}: {Doubt.from_dict(one)}" for one in record["doubts"]]
        said = [line for line in ran.err.splitlines() if line not in doubts]
        return voxels_of(self.out, None), record, said
