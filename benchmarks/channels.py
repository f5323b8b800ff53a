"""Seconds and peak memory of joint maps of two, three and four channels, on one core.

    python benchmarks/channels.py [--voxels 2000000] [--markdown FILE]

Voxels are drawn from densities that were fitted to two simulated scans at 4 mm, one to normalise
and one to reach (`channel_worlds.py`); the fourth channel, T1c, is T1w with texture of its own.
*Find* is the fit of each channel and the joint map itself, *map* its application to all voxels,
*back* that of its inverse to the mapped voxels, with the time to make the inverse. Memory is that
of the whole process, with the voxels, the mapped ones and those that were mapped back. There and
back, voxels are *off by* so many standard deviations: 99.9 % of them by no more than the first
number, and all by no more than the second.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

import numpy as np
from channel_worlds import draw_channel_world
from measuring import Table, child
from worlds import world_grid

from ndflow.density import GaussianMixture, fit, histogram
from ndflow.density.condense import joint_histogram
from ndflow.preparation.registration import load_anatomy
from ndflow.transport.joint import EFFECTIVE_COUNT, joint_map

AIMS = {2: (10.0, 1500.0), 3: (60.0, None)}  # seconds to map all voxels, and megabytes
SEED = 0


def densities(channels: int) -> list[GaussianMixture]:
    """Return the densities of a scan and of a reference."""
    anatomy = load_anatomy()
    world = draw_channel_world(SEED, "mixing", min(channels, 3), anatomy, world_grid(anatomy))
    generator = np.random.default_rng(SEED)
    found = []
    for scan in (world.scans[1], world.reference[0]):
        values = scan.values
        if channels == 4:
            t1w = values[:, 0]
            own = t1w + 0.25 * t1w.std() * generator.standard_normal(t1w.size)
            values = np.column_stack([values, own])
        found.append(fit(joint_histogram(values), effective_count=EFFECTIVE_COUNT).mixture)
    return found


def one(source: GaussianMixture, target: GaussianMixture, count: int) -> dict[str, float]:
    """Measure in this process."""
    voxels = source.sample(count, np.random.default_rng(SEED))
    times = [time.process_time()]
    found = joint_map(voxels, [fit(histogram(column)).mixture for column in voxels.T], target)
    times.append(time.process_time())
    mapped = found.map(voxels)
    times.append(time.process_time())
    back = found.map.inverse()(mapped)
    times.append(time.process_time())
    off = (np.abs(back - voxels) / voxels.std(axis=0)).max(axis=1)
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
    find, there, again = np.diff(times).tolist()
    return {
        "find": find,
        "map": there,
        "back": again,
        "off": float(np.quantile(off, 0.999)),
        "furthest": float(off.max()),
        "distance": found.figures.finished,
        "megabytes": peak / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--voxels", type=int, default=2_000_000)
    parser.add_argument("--densities", help=argparse.SUPPRESS)  # of a scan and its target, as JSON
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    given = parser.parse_args()
    if given.densities:
        ends = map(GaussianMixture.from_dict, json.loads(given.densities))
        print(json.dumps(one(*ends, given.voxels)))
        return
    rows, notes = [], []
    for channels in (2, 3, 4):
        ends = json.dumps([mixture.to_dict() for mixture in densities(channels)])
        words = [__file__, "--densities", ends, "--voxels", given.voxels]
        figures = json.loads(child(words)[1].splitlines()[-1])
        cells = ["{find:.1f}", "{map:.1f}", "{back:.1f}", "{megabytes:.0f}"]
        line = "|".join([str(channels), *cells, "{off:.0e}", "{furthest:.0e}"])
        rows.append(line.format(**figures))
        seconds, megabytes = AIMS.get(channels, (None, None))
        if seconds:
            met = "met" if figures["map"] <= seconds else "missed"
            notes.append(f"{channels} channels mapped in {seconds:g} s at most: {met}")
        if megabytes:
            met = "met" if figures["megabytes"] <= megabytes else "missed"
            notes.append(f"{channels} channels in {megabytes:g} MB at most: {met}")
    head = "channels|find, s|map, s|back, s|peak MB|off by (99.9 %)|off by (most)"
    table = Table(f"Joint maps of {given.voxels / 1e6:g} M voxels, one core", head, rows, notes)
    print(table.text())
    if given.markdown:
        given.markdown.write_text(table.markdown())


if __name__ == "__main__":
    main()
