"""The figures in docs/guides/visits.md about people who are scanned several times.

    python experiments/visit_study.py [WORLDS [COHORT VISITS]]

People are simulated as in ``ndflow demo`` at 4 mm.

*Two visits.* Between visits, CSF grows by 3 % of the brain, and nothing else changes. Twenty other
people are scanned by each of two scanners, by which maps of sites are found. Contrast differs
between the scans of a scanner by a factor with the given sd, or not at all. All figures are about
both visits of a person:

- *off*: the root mean square difference of true intensities with the same value in the results,
  in standard deviations of the true intensities.
- *volume*: how much more voxels are below a fixed threshold between CSF and GM, as a share of the
  true change. Mean and standard deviation over people.

*Travelling people.* Two sites, two scanners, ages twenty years apart, twenty people each; three
others were scanned at both. By how much do the maps of sites differ, on average over all people, at
the intensities of CSF, GM and WM? In standard deviations of the reference.

*Real visits.* VISITS is a folder of images ``sub-P_ses-S_CONTRAST.nii.gz`` with ``sub-P_mask``
and ``sub-P_change``, on one grid for each person. What changes between visits, in sd of
the results: the root mean square of means over blocks of 12 mm where no lesion changed; and by how
much more the voxels of changed lesions change than others, relative to z-scoring.
"""

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import nibabel
import numpy as np
from balance_study import NODES, SCANNERS, curve, drawn, people
from scipy.interpolate import PchipInterpolator

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import worlds

import ndflow
from ndflow.demo.simulate import (
    MEANS,
    Fields,
    SimulatedSubject,
    draw_fields,
    grid_over,
    make_subject,
    simulate_scan,
)
from ndflow.density import Fit, Histogram, fit, histogram
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, method_called
from ndflow.options import Options
from ndflow.preparation.registration import load_anatomy
from ndflow.study.plan import Study
from ndflow.study.references import goal_of, make_references, visits_of
from ndflow.subject.doubts import voxel_quantiles
from ndflow.transport import IntensityMap, PiecewiseLinear, align

CHANGE, ATROPHY, ATROPHY_SD = 0.03, 1.4, 0.5
OTHERS, PEOPLE = 20, 8  # at each scanner; who come twice to one, or once to both
FIRST = 100  # seed of worlds; those before were looked at while the blur of densities was chosen
THRESHOLD = (MEANS[0] + MEANS[1]) / 2
METHODS = {
    "z-scores": Options(method="zscore"),
    "Nyúl": Options(method="nyul"),
    "paper, apart": Options(visits="apart"),
    "adaptive, apart": Options(visits="apart", mode="two-level", proportions="adaptive"),
    "average, together": Options(mode="two-level"),
    "adaptive, together": Options(mode="two-level", proportions="adaptive"),
}


class Scan(NamedTuple):
    """A simulated scan: whose, by which scanner, what is known about it, and the truth."""

    person: str
    scanner: str
    counted: Histogram
    fit: Fit
    curve: PiecewiseLinear
    values: np.ndarray
    canonical: np.ndarray


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


# ── two visits ────────────────────────────────────────────────────────────────────────────────────


def simulated(seed: int, contrast: float, real: Sequence[worlds.Person]) -> list[Scan]:
    """Return the scans of a study; people who come twice are called p0, p1 and so on.

    With the anatomies of `real` people, atrophy shifts the log-odds of CSF as in the template.
    """
    anatomy = load_anatomy()
    grid = grid_over(anatomy, 4.0)
    generator = np.random.default_rng([seed, 99])
    found = []

    def shown(person: str, fields: Fields, atrophy: float) -> SimulatedSubject:
        if not real:
            return make_subject(anatomy, fields, grid, atrophy=atrophy, lesion=False)
        own = np.random.default_rng([seed, int(person[1:]), ord(person[0])])
        one = real[int(own.integers(len(real)))]
        shares = one.tissues * np.exp(np.array([atrophy - ATROPHY, 0, 0]))[:, None, None, None]
        shares *= one.tissues.sum(axis=0) / np.maximum(shares.sum(axis=0), 1e-9)
        return worlds._real_subject(one._replace(tissues=shares), anatomy, fields, grid, own)

    def add(person: str, scanner: str, fields: Fields, atrophy: float) -> None:
        subject = shown(person, fields, atrophy)
        steps = np.diff(SCANNERS[scanner]) * np.exp(contrast * generator.standard_normal(4))
        levels = SCANNERS[scanner][0] + np.concatenate([[0.0], np.cumsum(steps)])
        gain = 800 * float(np.exp(0.08 * generator.standard_normal()))
        knots = np.linspace(0, NODES[-1], 111)
        own = PiecewiseLinear(knots, gain * PchipInterpolator(NODES, levels)(knots))
        values = simulate_scan(subject, own, generator, bias=0.02, noise=0.015)
        counted = histogram(np.rint(values).astype(np.int16))
        found.append(Scan(person, scanner, counted, fit(counted), own, values, subject.canonical))

    for number in range(2 * OTHERS):
        fields = draw_fields(anatomy.brain.shape, generator)
        add(f"o{number}", "XY"[number % 2], fields, _atrophy(generator))
    for number in range(2 * PEOPLE):
        fields = draw_fields(anatomy.brain.shape, generator)
        before = _atrophy(generator)

        def csf(atrophy: float, number: int = number, fields: Fields = fields) -> float:
            return float(shown(f"p{number}", fields, atrophy).tissues[:, 0].mean())

        low, high, wanted = before, before + 3, csf(before) + CHANGE
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if csf(middle) < wanted else (low, middle)
        add(f"p{number}", "X", fields, before)
        add(f"p{number}", "XY"[number % 2], fields, low)
    return found


def _atrophy(generator: np.random.Generator) -> float:
    return ATROPHY + ATROPHY_SD * float(generator.standard_normal())


def solved(scans: Sequence[Scan], options: Options) -> list[IntensityMap]:
    """Return the map of each scan, as a study finds it."""
    subjects = [
        Subject(f"{place:03d}.nii", name=f"{place:03d}", site=scan.scanner, person=scan.person)
        for place, scan in enumerate(scans)
    ]
    measure = method_called(options.method).measure
    models = {
        one.name: DensityModel(
            scan.fit.mixture,
            measure(scan.counted, options),
            quantiles=voxel_quantiles(scan.counted)[0],
        )
        for one, scan in zip(subjects, scans, strict=True)
    }
    study = Study(Path(), subjects, replace(options, scale="standard", average="quantile"))
    made = make_references(study, subjects, models)
    visits = visits_of(made.study, subjects)
    return [
        goal_of(made.study, made.goals, one, visits, models).solve(models[one.name]).imap
        for one in subjects
    ]


def of_visits(scans: Sequence[Scan], maps: Sequence[IntensityMap]) -> dict[bool, list[list[float]]]:
    """Return *off* and *volume* of each person with two visits, on one scanner and on two."""
    shown = np.linspace(0.05, 1.0, 200)
    lows = [float(imap(one.curve(THRESHOLD))) for one, imap in zip(scans, maps, strict=True)]
    threshold = float(np.mean(lows))
    found: dict[bool, list[list[float]]] = {True: [], False: []}
    for place in range(2 * OTHERS, len(scans), 2):
        pair = [(scans[place + k], maps[place + k]) for k in range(2)]
        y = [imap(one.curve(shown)) for one, imap in pair]
        true = np.quantile(pair[0][0].canonical, np.linspace(0.01, 0.99, 99))
        at = np.interp(true, shown, (y[0] + y[1]) / 2)
        off = rms(np.interp(at, y[0], shown) - np.interp(at, y[1], shown))
        below = [float((imap(one.values) < threshold).mean()) for one, imap in pair]
        truly = [float((one.canonical < THRESHOLD).mean()) for one, _ in pair]
        volume = (below[1] - below[0]) / (truly[1] - truly[0])
        found[pair[0][0].scanner == pair[1][0].scanner].append(
            [off / float(pair[0][0].canonical.std()), volume]
        )
    return found


def two_visits(count: int, real: Sequence[worlds.Person] = ()) -> None:
    print("contrast  method              one scanner: off, volume      two: off, volume")
    for contrast in (0.0, 0.05):
        found = {name: {True: [], False: []} for name in METHODS}
        for seed in range(FIRST, FIRST + count):
            scans = simulated(seed, contrast, real)
            for name, options in METHODS.items():
                for same, rows in of_visits(scans, solved(scans, options)).items():
                    found[name][same] += rows
        for name, both in found.items():
            words = f"{contrast:8}  {name:18}"
            for rows in both.values():
                off, volume = np.array(rows).T
                words += f"  {rms(off):.3f}  {volume.mean():.2f} ± {volume.std():.2f}   "
            print(words, flush=True)


# ── travelling people ─────────────────────────────────────────────────────────────────────────────


def travelling(draws: int) -> None:
    pool, found = people(), defaultdict(list)
    for draw in range(draws):
        generator = np.random.default_rng([draw, 7])
        sites = drawn(pool, (40, 60), generator)
        rest = sorted({*range(len(pool))} - {*sites[0], *sites[1]})
        both = generator.choice(rest, 3, replace=False).tolist()
        members = [(number, site) for site in (0, 1) for number in [*sites[site], *both]]
        for name, balance in (("site", ()), ("age", ("age",)), ("subject", ("subject",))):
            scans, models = [], {}
            for number, site in members:
                called = f"{number:03d}{'XY'[site]}"
                age = {"age": f"{pool[number].age:.2f}"}
                one = Subject(
                    called, name=called, site="AB"[site], person=str(number), covariates=age
                )
                scans.append(one)
                models[called] = pool[number].models["XY"[site]]
            options = Options(mode="site", average="quantile", scale="standard", balance=balance)
            made = make_references(Study(Path(), scans, options), scans, models)
            differ = []
            for person in pool:
                values = [
                    made.goals["AB"[site]].site.solution.imap(
                        align(person.models[scanner].mixture)(
                            curve(scanner, person.gains[scanner])(np.array(MEANS))
                        )
                    )
                    for site, scanner in enumerate("XY")
                ]
                differ.append(values[1] - values[0])
            found[name].append(np.mean(differ, axis=0))
    for name, rows in found.items():
        each = " ".join(f"{rms(part):.3f}" for part in np.array(rows).T)
        print(f"{name:8} maps of sites are off by {rms(np.array(rows)):.3f} ({each})")


# ── real visits ───────────────────────────────────────────────────────────────────────────────────


def blocks(volume: np.ndarray, inside: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the means of blocks of which at least half are inside."""
    places = np.ravel_multi_index(np.nonzero(inside) // size[:, np.newaxis], volume.shape)
    _, own, counts = np.unique(places, return_inverse=True, return_counts=True)
    means = np.bincount(own, volume[inside]) / counts
    return means[counts >= size.prod() / 2]


def real_visits(folder: Path) -> None:
    known = sorted(folder.glob("sub-*_ses-*.nii.gz"))
    names = [re.fullmatch(r"(sub-\w+)_ses-(\w+)_(\w+).nii.gz", path.name) for path in known]
    found = defaultdict(list)
    methods: dict[str, Callable[[], dict[str, object]]] = {
        "z-scores": lambda: {"method": "zscore"},
        "Nyúl": lambda: {"method": "nyul"},
        "apart": lambda: {"visits": "apart"},
        "together": dict,
    }
    for contrast in sorted({name[3] for name in names}):
        own = [(p, n[1]) for p, n in zip(known, names, strict=True) if n[3] == contrast]
        for method, options in methods.items():
            with tempfile.TemporaryDirectory() as out:
                rows = [
                    {"image": p, "subject": who, "mask": folder / f"{who}_mask.nii.gz"}
                    for p, who in own
                ]
                table = Path(out, "table.tsv")
                lines = ["\t".join(map(str, row.values())) for row in rows]
                table.write_text("\n".join(["\t".join(rows[0]), *lines]) + "\n", encoding="utf-8")
                ndflow.cohort(table, Path(out, "out"), scale="standard", **options())
                for who in sorted({who for _, who in own}):
                    images = [
                        nibabel.load(Path(out, "out", "images", p.name))
                        for p, one in own
                        if one == who
                    ]
                    found[method].append(_pair(folder, who, images))
    for method, pairs in found.items():
        off, lesion = np.array(pairs).T
        kept = np.abs(lesion) / np.abs(np.array(found["z-scores"])[:, 1])
        print(f"{method:9} blocks {off.mean():.4f}  lesions {np.median(kept):.2f}")


def _pair(folder: Path, who: str, images: Sequence[nibabel.Nifti1Image]) -> tuple[float, float]:
    first, last = (image.get_fdata() for image in images)
    inside, changed = (
        nibabel.load(folder / f"{who}_{what}.nii.gz").get_fdata() > 0.5
        for what in ("mask", "change")
    )
    sd = np.sqrt((first[inside].var() + last[inside].var()) / 2)
    size = np.maximum(1, np.rint(12 / np.array(images[0].header.get_zooms()[:3]))).astype(int)
    difference = (last - first) / sd
    quiet = inside & ~changed
    lesion = np.abs(difference[inside & changed]).mean() - np.abs(difference[quiet]).mean()
    return rms(blocks(difference, quiet, size)), float(lesion)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    if len(sys.argv) > 2:
        cohort, visits = (Path(name).absolute() for name in sys.argv[2:4])
        real_visits(visits)
        two_visits(count, worlds.read_people(cohort))
    travelling(5 * count)
    two_visits(count)


if __name__ == "__main__":
    main()
