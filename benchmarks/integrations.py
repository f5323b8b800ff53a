"""How long the transforms for training take, beyond the copy of a volume.

A 1 mm volume of 182 × 218 × 182 voxels, a simulated brain, as 32-bit floats and as 16-bit integers,
is normalised where its map is known by its content and where it is not, and undone. CPU time of one
thread, the median of interleaved repetitions; the last column is relative to the copy, in the same
run. Beside it, `torchio.ZNormalization` and the transform for MONAI, where these are installed.

    python benchmarks/integrations.py [--repetitions N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import numpy as np
from measuring import Table
from numpy.typing import NDArray

from ndflow.demo.simulate import SCANNERS, draw_scan, grid_over
from ndflow.integrations.normaliser import VolumeNormaliser, apply_recorded, record_map
from ndflow.preparation.registration import load_anatomy

SHAPE = (182, 218, 182)
KNOWN, NEW = 50.0, 120.0  # milliseconds beyond the copy that we allow

Work = dict[str, tuple[Callable[[], Any], float | None]]


def volume() -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    anatomy = load_anatomy()
    grid = grid_over(anatomy, 1.0)
    scan = draw_scan(SCANNERS[0], anatomy, grid, np.random.default_rng(0), age=50)
    voxels = np.zeros(SHAPE, np.float32)
    where = scan.subject.voxels
    fits = (where < SHAPE).all(axis=1)
    voxels[tuple(where[fits].T)] = scan.image[fits]
    return voxels, voxels != 0


def work(voxels: NDArray[Any], mask: NDArray[np.bool_] | None) -> Work:
    known, new = (VolumeNormaliser("builtin:T1w", remember=many) for many in (1, 0))
    record = record_map(known.map_of(voxels, mask), voxels, mask)
    result = apply_recorded(record, voxels)

    def normalised(by: VolumeNormaliser) -> NDArray[Any]:
        return apply_recorded(record_map(by.map_of(voxels, mask), voxels, mask), voxels)

    return {
        "copy": (voxels.copy, None),
        "known": (lambda: normalised(known), KNOWN),
        "new": (lambda: normalised(new), NEW),
        "undo": (lambda: apply_recorded(record, result, inverse=True), None),
        **torchio_work(voxels),
        **monai_work(voxels, mask),
    }


def torchio_work(voxels: NDArray[Any]) -> Work:
    if find_spec("torchio") is None or voxels.dtype.kind != "f":
        return {}
    import torch
    import torchio

    torch.set_num_threads(1)
    subject = torchio.Subject(image=torchio.ScalarImage(tensor=torch.from_numpy(voxels)[None]))
    transform = torchio.ZNormalization(masking_method=lambda x: x > 0)
    return {"ZNormalization": (lambda: transform(subject), None)}


def monai_work(voxels: NDArray[Any], mask: NDArray[np.bool_] | None) -> Work:
    if find_spec("monai") is None or voxels.dtype.kind != "f":
        return {}
    import torch
    from monai.data import MetaTensor

    from ndflow.integrations.monai import NDFlow

    torch.set_num_threads(1)
    image = MetaTensor(torch.from_numpy(voxels)[None])
    known, new = (NDFlow("builtin:T1w", remember=many) for many in (1, 0))
    known(image, mask)
    return {
        "MONAI, known": (lambda: known(image, mask), KNOWN),
        "MONAI, new": (lambda: new(image, mask), NEW),
    }


def in_turns(parts: Work, times: int) -> dict[str, float]:
    """Return the median CPU time of each part in milliseconds."""
    found: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(times):
        for name, (part, _) in parts.items():
            begin = time.process_time()
            part()
            found[name].append(1e3 * (time.process_time() - begin))
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=9)
    times = parser.parse_args().repetitions
    floats, brain = volume()
    rows = []
    for name, voxels, mask in (
        ("float32, mask", floats, brain),
        ("float32, no mask", floats, None),
        ("int16, mask", np.rint(floats).astype(np.int16), brain),
    ):
        parts = work(voxels, mask)
        costs = in_turns(parts, times)
        copy = costs["copy"]
        for part, cost in costs.items():
            beyond = cost - copy
            aim = parts[part][1]
            verdict = "" if aim is None else f"≤ {aim:g}: {'yes' if beyond <= aim else 'no'}"
            rows.append(
                f"{name} | {part} | {cost:.1f} | {beyond:.1f} | {verdict} | {cost / copy:.0f}"
            )
    head = "volume | what | ms | beyond the copy | aim | times the copy"
    print(Table("One 1 mm volume, one thread", head, rows).text())


if __name__ == "__main__":
    main()
