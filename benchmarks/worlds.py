"""How well methods recover the truth of random simulated studies (`ndflow.demo.worlds`).

    python benchmarks/worlds.py choose    # candidates for the defaults, in worlds with even seeds
    python benchmarks/worlds.py report    # the methods that we compare, in those with odd seeds

Nothing was chosen by the worlds with odd seeds. (Those below 65 were looked at once, before a rule
was changed for reasons that the even ones show as well; so they are not reported.) Each half has 32
worlds (``--worlds``).
Numbers are means over worlds, or medians of ratios to Nyúl's method in the same world, with 95 %
intervals: of bootstraps over worlds, and of Clopper and Pearson for shares of worlds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

from ndflow.demo.world_scores import WorldScores, world_scores
from ndflow.demo.world_study import world_maps, world_models
from ndflow.demo.worlds import World, draw_world, world_grid
from ndflow.methods.matching import Matching
from ndflow.preparation.template import load_anatomy
from ndflow.scan.presets.preset_facts import StudyFacts
from ndflow.scan.presets.preset_rules import Choices, settled_study
from ndflow.scan.settings import Averaging

_REPORTED = 65  # the first seed that is reported

ADAPTIVE = {"mode": "two-level", "average": "quantile", "target": "adaptive"}
CRAMER = {**ADAPTIVE, "objective": "cramer"}

RIVALS: dict[str, dict[str, Any]] = {"affine": {"method": "affine"}, "nyul": {"method": "nyul"}}
CHOOSE: dict[str, dict[str, Any]] = {
    **RIVALS,
    "individual, L2, density (the paper)": {},
    "individual adaptive, Cramér, quantile": {**CRAMER, "mode": "individual"},
    "two-level average, Cramér, quantile": {**CRAMER, "target": "average"},
    "two-level adaptive, L2 1e-3, density": {**ADAPTIVE, "average": "density"},
    "two-level adaptive, L2 1e-3": ADAPTIVE,
    "two-level adaptive, L2 3e-3": {**ADAPTIVE, "regularisation": 3e-3},
    "two-level adaptive, Cramér 1e-3": CRAMER,
    "two-level adaptive, Cramér 3e-3": {**CRAMER, "regularisation": 3e-3},
    "two-level adaptive, Cramér 1e-2": {**CRAMER, "regularisation": 1e-2},
}
REPORT: dict[str, dict[str, Any]] = {
    **RIVALS,
    "--preset paper": {"preset": "paper"},
    "--preset auto": {"preset": "auto"},
    "--preset auto, true tissue maps": {"preset": "auto", "tissues": True},
}


class Row(NamedTuple):
    """The scores of all methods in one world."""

    seed: int
    scans: int
    scores: dict[str, WorldScores]


def settings(chosen: Mapping[str, Any], world: World) -> tuple[Averaging, Matching]:
    """Return a choice as settings; a preset decides by what a world has."""
    if "preset" in chosen:
        sites = {site.name: site.size for site in world.sites}
        scans = len(world.scans)
        facts = StudyFacts(scans, sites, with_maps=scans if chosen.get("tissues") else 0)
        decided = settled_study(Choices(chosen["preset"]), facts)
        return decided.averaging, decided.matching
    averaging = {name: chosen[name] for name in ("mode", "average") if name in chosen}
    rest = {name: part for name, part in chosen.items() if name not in {*averaging, "tissues"}}
    return Averaging(**averaging), Matching(**rest)


def one_world(seed: int, methods: Mapping[str, Mapping[str, Any]]) -> Row:
    """Run all methods in one world."""
    anatomy = load_anatomy()
    world = draw_world(seed, anatomy, world_grid(anatomy))
    maps_known = any(chosen.get("tissues") for chosen in methods.values())
    models = world_models(world, tissues=maps_known)
    bare = {name: replace(model, tissues=None) for name, model in models.items()}
    scores = {}
    for name, chosen in methods.items():
        own = models if chosen.get("tissues") else bare
        scores[name] = world_scores(world, world_maps(world, own, *settings(chosen, world)))
    print(f"world {seed}: {len(world.scans)} scans", file=sys.stderr, flush=True)
    return Row(seed, len(world.scans), scores)


def interval(values: np.ndarray, statistic: Any) -> str:
    """Return a statistic with its 95 % bootstrap interval over worlds."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(values.size, size=(2000, values.size))
    low, high = np.quantile([statistic(values[own]) for own in drawn], [0.025, 0.975])
    return f"{statistic(values):.3f} ({low:.3f}–{high:.3f})"


def table(rows: list[Row]) -> str:
    """Return the table of all methods, in Markdown."""
    lines = [
        "| method | spread | ÷ Nyúl's, median | better than it | ÷ affine, worst | age | lesion |",
        "|---|---|---|---|--:|---|---|",
    ]
    spread = {name: np.array([row.scores[name].spread for row in rows]) for name in rows[0].scores}
    for name, own in spread.items():
        ratio = own / spread["nyul"]
        won = int((ratio < 1).sum())
        low, high = stats.binomtest(won, len(rows)).proportion_ci()
        age = np.array([row.scores[name].age for row in rows])
        lesion = np.array([row.scores[name].lesion for row in rows])
        cells = [
            name,
            interval(own, np.mean),
            interval(ratio, np.median),
            f"{won} of {len(rows)} ({low:.0%}–{high:.0%})",
            f"{(own / spread['affine']).max():.2f}",
            interval(age, np.mean),
            interval(lesion[np.isfinite(lesion)], np.mean),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["choose", "report"])
    parser.add_argument("--worlds", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the scores of each world to this file")
    chosen = parser.parse_args()
    methods = CHOOSE if chosen.what == "choose" else REPORT
    first = 0 if chosen.what == "choose" else _REPORTED
    seeds = range(first, first + 2 * chosen.worlds, 2)
    rows = Parallel(chosen.jobs)(delayed(one_world)(seed, methods) for seed in seeds)
    if chosen.json:
        chosen.json.write_text(
            json.dumps(
                {
                    row.seed: {name: own._asdict() for name, own in row.scores.items()}
                    for row in rows
                },
                indent=1,
            )
        )
    print(table(rows))


if __name__ == "__main__":
    main()
