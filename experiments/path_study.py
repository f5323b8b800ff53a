"""The table of paths in docs/concepts/joint-maps.md: three ways from one joint density to another.

    python experiments/path_study.py [SCANS]

SCANS has the scans of two patients in several channels, ``sub-patient07_T1w.nii.gz`` and so on
(default: ``../shared/scans/channels``); each is brought to the density of the other. Then scans of
simulated worlds in which scanners mix channels, each brought to the density of its reference. For
each path of the joint flow:

- its *energy*, the least of ``∫∫ q |u|² dx dt`` over all ways to pass the path in unit time, which
  is the square of its length; in squared standard deviations of the target, as a multiple of the
  mean squared displacement, below which it cannot be;
- the smallest and largest determinant of the Jacobian, at voxels;
- the Runge–Kutta steps that it needs for an error of 1e-4 standard deviations;
- the seconds to integrate 100,000 voxels, without a mesh;
- the sliced Wasserstein distance to the target that is left after the joint flow, and at the end.

The median over scans, with the extremes for determinants.
"""

import sys
import time
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np

from ndflow.demo.channels.channel_worlds import draw_channel_world
from ndflow.demo.worlds import world_grid
from ndflow.density import GaussianMixture, fit, histogram
from ndflow.density.joint_histogram import joint_histogram
from ndflow.preparation.template import load_anatomy
from ndflow.transport import Affine, Chain, Flow
from ndflow.transport.joint import Channelwise, Meshed, joint_map
from ndflow.transport.joint.joint_map import EFFECTIVE_COUNT, PATHS

PATIENTS = ("07", "19")
SETS = (("T1w", "FLAIR"), ("T1w", "T2w", "FLAIR"))
SEEDS = range(101, 105)  # of worlds that are not reported elsewhere
VOXELS = 200_000  # of a patient, a random sample
FOLLOWED = 2000  # voxels whose ways are followed for the energy
PIECES = 40  # of the way
TIMED = 100_000


class Figures(NamedTuple):
    """What was measured for one scan and one path."""

    energy: float
    least: float
    most: float
    steps: int
    seconds: float
    joint: float
    finished: float


def patient(folder: Path, name: str, channels: tuple[str, ...]) -> np.ndarray:
    """Return voxels that are not 0 in any channel."""
    volumes = [
        np.asarray(nib.load(folder / f"sub-patient{name}_{channel}.nii.gz").dataobj, np.float64)
        for channel in channels
    ]
    inside = np.logical_and.reduce([volume != 0 for volume in volumes])
    voxels = np.stack([volume[inside] for volume in volumes], axis=1)
    return np.random.default_rng(0).permutation(voxels)[:VOXELS]


def density(voxels: np.ndarray) -> GaussianMixture:
    return fit(joint_histogram(voxels), effective_count=EFFECTIVE_COUNT).mixture


def length(flows: list[Flow], x: np.ndarray, sd: np.ndarray) -> tuple[float, float]:
    """Return the length of a path, and the root mean square displacement at its end."""
    start, total = x, 0.0
    pieces = max(1, PIECES // len(flows))
    for flow in flows:
        for piece in range(pieces):
            t, h = piece / pieces, 1 / pieces
            first = flow.velocity(t, x)
            middle = flow.velocity(t + h / 2, x + h / 2 * first)  # the midpoint rule
            total += h * float(np.sqrt(((middle / sd) ** 2).sum(axis=1).mean()))
            x = x + h * middle
    return total, float(np.sqrt((((x - start) / sd) ** 2).sum(axis=1).mean()))


def measured(voxels: np.ndarray, target: GaussianMixture, path: str) -> Figures | None:
    """Bring voxels to a density along a path; None where no joint flow is part of the map."""
    marginals = [fit(histogram(column)).mixture for column in voxels.T]
    found = joint_map(voxels, marginals, target, path=path)
    if not found.figures.kept:
        return None
    parts = found.map.maps
    flows = [part.flow if isinstance(part, Meshed) else part for part in parts]
    flows = [flow for flow in flows if isinstance(flow, Flow)]
    before = Chain(tuple(part for part in parts[:2] if isinstance(part, Channelwise | Affine)))
    start = before(voxels[:TIMED])
    begin = time.process_time()
    Chain(tuple(flows))(start)
    seconds = (time.process_time() - begin) * TIMED / len(start)
    sd = np.sqrt(np.diagonal(target.covariance()))
    along, straight = length(flows, start[:FOLLOWED], sd)
    figures = found.figures
    return Figures(
        (along / straight) ** 2,
        *figures.determinants,
        figures.steps,
        seconds,
        figures.joint,
        figures.finished,
    )


def row(name: str, path: str, all_figures: list[Figures]) -> str:
    columns = np.array(all_figures).T
    energy, _, _, steps, seconds, joint, finished = np.median(columns, axis=1)
    least, most = columns[1].min(), columns[2].max()
    return (
        f"| {name} | {path} | {energy:.2f} | {least:.2g} to {most:.2g} | {steps:.0f} | "
        f"{seconds:.2f} | {joint:.4f} | {finished:.4f} |"
    )


def main() -> None:
    here = Path(__file__).resolve().parents[2] / "shared" / "scans" / "channels"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    pairs: dict[str, list[tuple[np.ndarray, GaussianMixture]]] = {}
    for channels in SETS:
        own = [patient(folder, name, channels) for name in PATIENTS]
        ends = [density(voxels) for voxels in own]
        pairs[f"patients, {len(channels)} channels"] = list(zip(own, ends[::-1], strict=True))
    anatomy = load_anatomy()
    for channels in (2, 3):
        chosen = pairs.setdefault(f"worlds, {channels} channels", [])
        for seed in SEEDS:
            world = draw_channel_world(seed, "mixing", channels, anatomy, world_grid(anatomy))
            target = density(np.concatenate([scan.values for scan in world.reference]))
            chosen.append((world.scans[0].values, target))
    print("| scans | path | energy | determinants | steps | s | joint | finished |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for name, chosen in pairs.items():
        for path in PATHS:
            figures = [measured(voxels, target, path) for voxels, target in chosen]
            kept = [one for one in figures if one is not None]
            if len(kept) < len(figures):
                print(f"{path}: {len(figures) - len(kept)} left out", file=sys.stderr)
            print(row(name, path, kept) if kept else f"| {name} | {path} | none |", flush=True)


if __name__ == "__main__":
    main()
