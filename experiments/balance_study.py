"""The figures in docs/concepts/before-you-start.md about ``--balance age``.

    python experiments/balance_study.py [DRAWS [OUT]]

People of 20 to 80 years, simulated as in ``ndflow demo`` at 4 mm, are scanned by two scanners. The
older they are, the more CSF they have, and nothing else depends on age. Sites draw people of
different ages. How much of the age is in the maps of the sites, with weights and without?

- *One scanner*: both sites have the same, so their maps should be the same. By how much do they
  differ, at the intensities of CSF, GM and WM?
- *Two scanners*: the true intensity of each voxel is known, so it is known what each of these
  intensities becomes in each scan. At the same age, by how much does that differ between sites?

All in standard deviations of the reference. Then the rule that warns of sites that differ in age:
how often does it, in studies of many kinds?

OUT is a finished study whose table has ages. Its sites are divided into halves by age and chance,
as if they were two sites: their scanner is the same, so their maps should be. By how much do these
differ, on average over the intensities of the reference? No file is written.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from ndflow.demo.simulate import MEANS, draw_fields, grid_over, make_subject, simulate_scan
from ndflow.density import fit, histogram
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.options import Options
from ndflow.population import balancing
from ndflow.preparation.registration import load_anatomy
from ndflow.study.finished import read_finished
from ndflow.study.plan import Study
from ndflow.study.references import make_references
from ndflow.study.weights import age_doubts
from ndflow.subject.records import ScanModel
from ndflow.transport import PiecewiseLinear, align

PEOPLE, PER_SITE = 140, 20
NODES = (0.0, *MEANS, 1.1)
SCANNERS = {"X": (0.01, 0.28, 0.66, 0.87, 1.08), "Y": (0.02, 0.14, 0.47, 0.90, 1.35)}
AGES = {"alike": (50, 50), "10 years apart": (45, 55), "20": (40, 60), "30": (35, 65)}
SD = 12.0  # of ages within a site
ATROPHY, PER_YEAR, ATROPHY_SD = 1.4, 0.025, 0.35  # at 50; as in the demo


class Person(NamedTuple):
    """The age of a person, the densities of the scans of both scanners, and their gain."""

    age: float
    models: dict[str, DensityModel]
    gains: dict[str, float]


def curve(scanner: str, gain: float) -> PiecewiseLinear:
    knots = np.linspace(NODES[0], NODES[-1], 111)
    return PiecewiseLinear(knots, gain * PchipInterpolator(NODES, SCANNERS[scanner])(knots))


def people() -> list[Person]:
    anatomy = load_anatomy()
    grid = grid_over(anatomy, 4.0)
    found = []
    for number in range(PEOPLE):
        generator = np.random.default_rng([17, number])
        age = 20 + 60 * (number + generator.random()) / PEOPLE
        atrophy = ATROPHY + PER_YEAR * (age - 50) + ATROPHY_SD * generator.standard_normal()
        fields = draw_fields(anatomy.brain.shape, generator)
        subject = make_subject(anatomy, fields, grid, atrophy=atrophy, lesion=False)
        models, gains = {}, {}
        for scanner in SCANNERS:
            gains[scanner] = 800 * float(np.exp(0.08 * generator.standard_normal()))
            image = simulate_scan(
                subject, curve(scanner, gains[scanner]), generator, bias=0.02, noise=0.015
            )
            models[scanner] = DensityModel(fit(histogram(np.rint(image).astype(np.int16))).mixture)
        found.append(Person(age, models, gains))
    return found


def drawn(
    pool: list[Person], means: tuple[float, float], generator: np.random.Generator
) -> list[list[int]]:
    """Draw the people of two sites, nobody twice."""
    ages = np.array([person.age for person in pool])
    left = np.ones(len(pool))
    sites = []
    for mean in means:
        chance = left * np.exp(-0.5 * ((ages - mean) / SD) ** 2)
        chosen = generator.choice(len(pool), PER_SITE, replace=False, p=chance / chance.sum())
        left[chosen] = 0
        sites.append(chosen.tolist())
    return sites


def measured(
    pool: list[Person], sites: list[list[int]], scanners: str, options: Options
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return maps' and sites' differences, the effect of age per decade, and effective scans."""
    scans, models, rows = [], {}, []
    for site, (members, scanner) in enumerate(zip(sites, scanners, strict=True)):
        for number in members:
            name = f"{number:03d}"
            age = {"age": f"{pool[number].age:.2f}"}
            scans.append(Subject(f"{name}.nii", name=name, site="AB"[site], covariates=age))
            models[name] = pool[number].models[scanner]
            rows.append((site, scanner, pool[number]))
    study = Study(Path(), scans, replace(options, scale="standard"))
    made = make_references(study, scans, models)
    goals = [made.goals[site] for site in "AB"]
    results, places = [], []
    for site, scanner, person in rows:
        intensities = curve(scanner, person.gains[scanner])(np.array(MEANS))
        places.append(align(person.models[scanner].mixture)(intensities))
        results.append(goals[site].solve(person.models[scanner]).imap(intensities))
    z = np.mean(places, axis=0)
    of_maps = goals[1].site.solution.imap(z) - goals[0].site.solution.imap(z)
    design = np.array([(1.0, float(site), person.age - 50) for site, _, person in rows])
    (_, site, age), *_ = np.linalg.lstsq(design, np.array(results), rcond=None)
    effective = [own.effective for own in made.weights.sites.values()] or [float(PER_SITE)]
    return of_maps, site, 10 * age, min(effective)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


def shown(values: np.ndarray) -> str:
    return " ".join(f"{value:+.3f}" for value in values.mean(axis=0))


def line(pool: list[Person], means: tuple[float, float], options: Options, draws: int) -> str:
    """Return the figures for sites with these mean ages."""
    one, two = [], []
    for draw in range(draws):
        sites = drawn(pool, means, np.random.default_rng([draw, means[0]]))
        one.append(measured(pool, sites, "XX", options))
        two.append(measured(pool, sites, "XY", options))
    maps, same, effect, effective = (np.array(part) for part in zip(*one, strict=True))
    other = np.array([part[1] for part in two])
    return (
        f"{rms(maps):.3f} ({shown(maps)})   {rms(same):.3f} ({shown(same)})   "
        f"{rms(other):.3f} ({shown(other)})   {shown(effect)}   {effective.mean():.1f}"
    )


def maps_of_sites(pool: list[Person], draws: int) -> None:
    print(
        "in brackets CSF, GM, WM; sd: maps of sites that share a scanner differ by … | at the same "
        "age, results differ between such sites by … | between sites of two scanners by … | effect "
        "of ten years | effective scans of the smaller site"
    )
    for label, means in AGES.items():
        for balance in ((), ("age",)):
            options = Options(mode="site", average="quantile", balance=balance)
            found = line(pool, means, options, draws)
            print(f"{label:15}{'balanced' if balance else 'as is':10}{found}", flush=True)
    usual = balancing.FEWEST
    for fewest in (1.5, 3.0, 8.0):
        balancing.FEWEST = fewest
        options = Options(mode="site", average="quantile", balance=("age",))
        print(f"30, {fewest:g} effective    {line(pool, AGES['30'], options, draws)}", flush=True)
    balancing.FEWEST = usual


def warnings(draws: int) -> None:
    """Print how often sites are said to differ in age."""
    print("\nshare of studies with a warning, by the sd of sites' mean ages (sd of people: 1)")
    spreads = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
    print("sites scans " + " ".join(f"{spread:5g}" for spread in spreads))
    for count in (2, 3, 6, 20):
        for scans in (5, 10, 20):
            rates = []
            for spread in spreads:
                generator = np.random.default_rng([count, scans, int(100 * spread)])
                warned = 0
                for _ in range(draws):
                    means = 50 + 14 * spread * generator.standard_normal(count)
                    ages = {
                        str(k): generator.normal(mean, 14, scans) for k, mean in enumerate(means)
                    }
                    warned += bool(age_doubts(ages))
                rates.append(warned / draws)
            print(f"{count:5} {scans:5} " + " ".join(f"{rate:5.3f}" for rate in rates), flush=True)


def halves(out: str, draws: int) -> None:
    """Print by how much the maps of two halves of a real site differ."""
    (finished,) = read_finished([out])
    study = finished.study
    levels = np.linspace(0.01, 0.99, 99)
    print("\nhalves of real sites: apart in age, difference of their maps, effective scans")
    for site, count in study.site_counts.items():
        own = [scan for scan in study.scans if scan.site == site]
        models = {scan.name: ScanModel.read(study.model(scan)).model for scan in own}
        ages = np.array([float(scan.covariates["age"]) for scan in own])
        for label, slope, balance in (
            *(("by chance", 0.0, ()), ("by chance, balanced", 0.0, ("age",))),
            *(("by age", 1.0, ()), ("by age, balanced", 1.0, ("age",))),
        ):
            apart, differ, effective = [], [], []
            for draw in range(draws):
                noise = np.random.default_rng(draw).standard_normal(count)
                score = slope * (ages - ages.mean()) / ages.std() + noise
                older = score > np.median(score)
                scans = [replace(s, site="AB"[int(o)]) for s, o in zip(own, older, strict=True)]
                options = Options(mode="site", average=study.options.average, balance=balance)
                plan = Study(Path(), scans, replace(options, scale="standard"))
                made = make_references(plan, scans, models)
                z = made.common.mixture.quantile(levels)
                a, b = (made.goals[half].site.solution.imap(z) for half in "AB")
                apart.append(ages[older].mean() - ages[~older].mean())
                differ.append(np.abs(a - b).mean())
                effective += [own.effective for own in made.weights.sites.values()]
            print(
                f"{site:10}{label:21}{np.mean(apart):5.1f} {np.mean(differ):.4f} "
                f"{np.mean(effective or [count / 2]):.1f}",
                flush=True,
            )


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    if len(sys.argv) > 2:
        halves(sys.argv[2], draws)
        return
    warnings(100 * draws)
    maps_of_sites(people(), draws)


if __name__ == "__main__":
    main()
