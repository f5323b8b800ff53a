"""How well methods recover the truth of random simulated studies.

    python benchmarks/worlds.py choose    # candidates for the defaults, in worlds with even seeds
    python benchmarks/worlds.py report    # the methods that we compare, in those with odd seeds
    python benchmarks/worlds.py report --people COHORT  # with real anatomies

Nothing was chosen by the worlds with odd seeds. (Those below 65 were looked at once, before a rule
was changed for reasons that the even ones show as well; so they are not reported.) Each half has 32
worlds (``--worlds``).
Numbers are means over worlds, or medians of ratios to Nyúl's method in the same world, with 95 %
intervals: of bootstraps over worlds, and of Clopper and Pearson for shares of worlds.

A world is what a study might meet: a few sites of different sizes, each with a scanner, a way of
making masks, and people of its own. All that the demonstration fixes is drawn at random here:

- contrast curves, which increase, with increments between the tissues that vary by a factor between
  sites, and by another, of up to 15 % (sd), between the scans of one site;
- noise, how sharp the images are, and a bias field, which nobody corrected at three sites in ten;
- masks that lack some of the rim of the brain, or hold some of what lies around it;
- people, who are alike at one half of the sites;
- age, which brings more CSF and GM that is a little brighter, and may differ between sites;
- lesions of a few people.

Scanners are those of `ndflow.demo.simulate`, on a grid of 4 mm, so that a world of sixty scans
takes a few seconds. Anatomies are its template under a deformation, with more or less CSF; or with
``--people``, under the same deformation, the tissue maps of a person of about the right age, from a
BIDS dataset in the space of the template. Even worlds have one half of these people, odd ones the
other. They have no lesions.

References and maps are made by the same code as those of any study (`ndflow.study.references`), so
what is measured in worlds is what users get. Scores are in true intensities, so they do not depend
on the scale that a method happens to choose. A value y of the normalised scans means ``c̄(y)``, the
mean over scans of the true intensities that have this value (`ndflow.demo.run`).

- *spread*: by how much true intensities differ between scans where normalised values are the same,
  in standard deviations of the true intensities.
- *age*: the medians of CSF, GM and WM, as ``c̄`` of their normalised values, and as they truly are,
  are regressed on age over all scans. The score is the root mean square, over tissues, of the
  difference of both slopes, in standard deviations per decade. Where people of different ages were
  scanned at different sites, scanners look like age; and maps that make all scans alike remove it.
- *lesion*: the contrast of lesions with WM, relative to the true contrast; the root mean square of
  how far that is from 1.
- *within sites*: the spread over the scans of one site, as a ratio to that of Nyúl's method, of all
  sites with at least three scans.
- *covered*: the share of scans in which the true CSF, GM and WM (the means of the template) are
  where the 90 % interval of a scan says: around the mean over scans, in distances of GM and WM.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import ndimage, stats
from scipy.interpolate import PchipInterpolator

from ndflow.demo.run import Truth, recovery_of
from ndflow.demo.simulate import (
    MEANS,
    Fields,
    Grid,
    SimulatedSubject,
    draw_fields,
    grid_over,
    make_subject,
    simulate_scan,
)
from ndflow.density import fit, histogram
from ndflow.evaluation.tissues import weighted_quantile
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, Solution, method_called
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.population import Tissues
from ndflow.preparation.registration import Anatomy, Map, load_anatomy
from ndflow.study.plan import Study
from ndflow.study.references import make_references
from ndflow.subject.doubts import voxel_quantiles
from ndflow.subject.presets import Choices, StudyFacts, settled_study
from ndflow.transport import IntensityMap, PiecewiseLinear
from ndflow.values import FloatArray

# ── worlds ────────────────────────────────────────────────────────────────────────────────────────

RESOLUTION = 4.0  # mm

_SITES, _SIZES = (2, 5), (4, 40)
_CONTRAST = (0.15, 0.5)  # sd of the logarithms of increments of a contrast curve
_OWN_CONTRAST = (0.0, 0.15)  # the same between scans of one scanner
_NOISE = (0.008, 0.025)  # see `simulate_scan`
_BIAS, _UNCORRECTED = ((0.01, 0.04), (0.04, 0.1)), 0.3  # the second where nobody corrected it
_BLUR = (0.0, 1.6)  # mm, the sd of the kernel
_RIM, _OWN_RIM, _WIDEST = 0.08, 0.03, 0.4  # of the voxels next to the border; between sites, scans
_GAIN_SD = 0.08  # of its logarithm, between scans of one scanner
_AGES, _AGE, _AGE_SD = (18.0, 90.0), 50.0, (4.0, 15.0)  # of people who are alike, and others
_ATROPHY, _ATROPHY_PER_YEAR, _ATROPHY_SD = 1.4, 0.025, (0.15, 0.35)  # as in the demonstration
_NEAR = 4.0  # years between the age that is wanted and that of a real person
_REGIONS = 0.02  # sd of canonical intensity within a tissue of real people
_BRIGHTER_PER_YEAR = 6e-4  # GM, in canonical units: 8 % of its contrast with WM in thirty years
_LESIONS = 0.1  # of the people
_BONE = 0.15  # canonical intensity of the brightest bone
_NODES = np.array([0.0, *MEANS, 1.1])


class WorldSite(NamedTuple):
    """A site, its scanner and its habits.

    Attributes
    ----------
    name : of the site.
    increments : of the contrast curve between `_NODES`, before the gain.
    gain, noise, bias : see `simulate_scan`; the gain multiplies the curve.
    blur : the sd of the kernel that blurs its images, in mm.
    rim : the share of the voxels around the brain that its masks hold; if negative, the share of
        those at the rim of the brain that they lack.
    age : the mean of its people.
    alike : whether they are of one age.
    own_contrast : by how much the increments differ between its scans.
    size : how many scans it has.
    """

    name: str
    increments: tuple[float, ...]
    gain: float
    noise: float
    bias: float
    blur: float
    rim: float
    age: float
    alike: bool
    own_contrast: float
    size: int


class Person(NamedTuple):
    """A real anatomy.

    Attributes
    ----------
    age : in years.
    tissues : the probabilities of CSF, GM and WM, (3, ...), between 0 and 255.
    affine : (4, 4), from voxel indices to the millimetres of the template.
    """

    age: float
    tissues: NDArray[np.uint8]
    affine: FloatArray


class WorldScan(NamedTuple):
    """A scan, as a study sees it, and the truth about it.

    Attributes
    ----------
    name, site : what it is called.
    age : of the person, in years.
    voxels : (n, 3), where those inside the mask are on the grid.
    values : (n,), the intensities of the voxels inside the mask.
    canonical : (n,), what they truly are; NaN outside the brain.
    tissues : (n, 3), the probabilities of CSF, GM and WM; 0 outside the brain.
    lesion : (n,), whether a voxel belongs to a lesion.
    curve : from canonical intensities to those of the scan, without noise and bias field.
    """

    name: str
    site: str
    age: float
    voxels: NDArray[np.intp]
    values: Map
    canonical: Map
    tissues: Map
    lesion: NDArray[np.bool_]
    curve: PiecewiseLinear


class World(NamedTuple):
    """A random study.

    Attributes
    ----------
    seed : the same seed gives the same world.
    sites : where scans come from.
    confounding : the sd of the mean ages of sites, in sd of age within one.
    scans : of all sites.
    """

    seed: int
    sites: tuple[WorldSite, ...]
    confounding: float
    scans: tuple[WorldScan, ...]


def world_grid(anatomy: Anatomy) -> Grid:
    """Return the grid of all scans."""
    return grid_over(anatomy, RESOLUTION)


def read_people(cohort: Path) -> list[Person]:
    """Return the anatomies of a BIDS dataset with tissue maps in the space of the template."""
    found = []
    with (cohort / "participants.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            start = f"{cohort}/{row['participant_id']}/anat/{row['participant_id']}_label-"
            images = [nibabel.load(f"{start}{one}_probseg.nii.gz") for one in ("CSF", "GM", "WM")]
            tissues = np.array([np.rint(255 * image.get_fdata()) for image in images])
            found.append(Person(float(row["age"]), tissues.astype(np.uint8), images[0].affine))
    return found


def draw_world(seed: int, anatomy: Anatomy, grid: Grid, people: Sequence[Person] = ()) -> World:
    """Draw a random study.

    Parameters
    ----------
    seed : of the random numbers.
    anatomy : the template.
    grid : of the scans, see `world_grid`.
    people : real anatomies, instead of those that are drawn; one half of them is used in worlds
        with even seeds, the other half in those with odd ones.
    """
    people = people[seed % 2 :: 2]
    generator = np.random.default_rng([seed, 17])
    contrast = generator.uniform(*_CONTRAST)
    confounding = float(generator.uniform(0, 1))
    sites = tuple(
        _draw_site(chr(ord("A") + place), contrast, confounding, generator)
        for place in range(int(generator.integers(_SITES[0], _SITES[1], endpoint=True)))
    )
    scans = tuple(
        scan
        for place, site in enumerate(sites)
        for scan in _scans(site, anatomy, people, grid, np.random.default_rng([seed, 17, place]))
    )
    return World(seed, sites, confounding, scans)


def _draw_site(
    name: str, contrast: float, confounding: float, generator: np.random.Generator
) -> WorldSite:
    low, high = np.log(_SIZES)
    bias = _BIAS[int(generator.random() < _UNCORRECTED)]
    alike = bool(generator.random() < 0.5)
    return WorldSite(
        name,
        tuple(np.diff(_NODES) * np.exp(contrast * generator.standard_normal(_NODES.size - 1))),
        float(np.exp(generator.uniform(*np.log([300, 2000])))),
        float(generator.uniform(*_NOISE)),
        float(generator.uniform(*bias)),
        float(generator.uniform(*_BLUR)),
        float(_RIM * generator.standard_normal()),
        float(_AGE + confounding * _AGE_SD[1] * generator.standard_normal()),
        alike,
        float(generator.uniform(*_OWN_CONTRAST)),
        round(float(np.exp(generator.uniform(low, high)))),
    )


def _scans(
    site: WorldSite,
    anatomy: Anatomy,
    people: Sequence[Person],
    grid: Grid,
    generator: np.random.Generator,
) -> Iterator[WorldScan]:
    for number in range(site.size):
        age_sd, atrophy_sd = (ends[not site.alike] for ends in (_AGE_SD, _ATROPHY_SD))
        age = float(np.clip(site.age + age_sd * generator.standard_normal(), *_AGES))
        own, gain = generator.standard_normal(2)
        fields = draw_fields(anatomy.brain.shape, generator)
        if people:
            likely = np.exp([-0.5 * ((one.age - age) / _NEAR) ** 2 for one in people])
            likely = (likely + 1e-12) / (likely + 1e-12).sum()
            person = people[int(generator.choice(len(people), p=likely))]
            age, subject = person.age, _real_subject(person, anatomy, fields, grid, generator)
        else:
            atrophy = _ATROPHY + _ATROPHY_PER_YEAR * (age - _AGE) + atrophy_sd * own
            lesion = bool(generator.random() < _LESIONS)
            subject = make_subject(anatomy, fields, grid, atrophy=atrophy, lesion=lesion)
        healthy = subject.tissues[:, 1] * ~subject.lesion
        older = subject.canonical + np.float32(_BRIGHTER_PER_YEAR * (age - _AGE)) * healthy
        subject = subject._replace(canonical=older)
        subject = _blurred(subject, grid, site.blur)
        steps = np.exp(site.own_contrast * generator.standard_normal(len(site.increments)))
        levels = site.gain * np.exp(_GAIN_SD * gain) * np.cumsum([0, *site.increments * steps])
        knots = np.linspace(_NODES[0], _NODES[-1], 111)
        curve = PiecewiseLinear(knots, PchipInterpolator(_NODES, levels)(knots))
        rim = float(np.clip(site.rim + _OWN_RIM * generator.standard_normal(), -_WIDEST, _WIDEST))
        seen = _masked(subject, grid, rim, generator)
        values = simulate_scan(seen, curve, generator, bias=site.bias, noise=site.noise)
        brain = seen.tissues.sum(axis=1) > 0
        yield WorldScan(
            f"{site.name}{number + 1:02d}",
            site.name,
            age,
            seen.voxels,
            values,
            np.where(brain, seen.canonical, np.float32(np.nan)),
            seen.tissues,
            seen.lesion,
            curve,
        )


def _real_subject(
    person: Person,
    anatomy: Anatomy,
    fields: Fields,
    grid: Grid,
    generator: np.random.Generator,
) -> SimulatedSubject:
    """Return a real person under a deformation, whose tissues differ a little by region."""
    place = grid.voxels.T * grid.resolution
    lattice = place * (np.array(fields.bias.shape)[:, np.newaxis] - 1)
    lattice = lattice / (np.array(anatomy.brain.shape)[:, np.newaxis] - 1)
    moved = place + [
        ndimage.map_coordinates(part, lattice, order=1) for part in fields.displacement
    ]
    way = np.linalg.solve(person.affine, anatomy.affine)
    at = way[:3, :3] @ moved + way[:3, 3:]
    tissues = np.array(
        [ndimage.map_coordinates(part, at, np.float32, order=1) / 255 for part in person.tissues]
    )
    inside = tissues.sum(axis=0) > 0.5
    tissues = tissues[:, inside] / tissues[:, inside].sum(axis=0)
    region = draw_fields(anatomy.brain.shape, generator).bias
    bias, region = (
        ndimage.map_coordinates(part, lattice[:, inside], np.float32, order=1)
        for part in (fields.bias, region)
    )
    canonical = np.array(MEANS) @ tissues + _REGIONS * region * (1 - tissues[0])
    return SimulatedSubject(
        grid.voxels[inside],
        canonical.astype(np.float32),
        tissues.T,
        np.zeros(int(inside.sum()), bool),
        bias,
    )


def _blurred(subject: SimulatedSubject, grid: Grid, sd: float) -> SimulatedSubject:
    """Return a subject whose canonical intensities and tissues are blurred inside the brain."""
    if sd == 0:
        return subject
    place = tuple(subject.voxels.T)

    def blur(values: Map) -> Map:
        volume = np.zeros(grid.shape, np.float32)
        volume[place] = values
        smooth: Map = ndimage.gaussian_filter(volume, sd / grid.resolution, truncate=2.0)[place]
        return smooth

    inside = blur(np.ones(len(subject.voxels), np.float32))
    canonical = blur(subject.canonical) / inside
    tissues = np.stack([blur(part) / inside for part in subject.tissues.T], axis=1)
    return subject._replace(canonical=canonical, tissues=tissues)


def _masked(
    subject: SimulatedSubject, grid: Grid, rim: float, generator: np.random.Generator
) -> SimulatedSubject:
    """Return the voxels inside a mask that lacks some of the rim, or holds some bone around it."""
    brain = np.zeros(grid.shape, bool)
    brain[tuple(subject.voxels.T)] = True
    if rim < 0:
        inner = ndimage.binary_erosion(brain)[tuple(subject.voxels.T)]
        kept = inner | (generator.random(inner.size) >= -rim)
        return SimulatedSubject(*(part[kept] for part in subject))
    around = np.argwhere(ndimage.binary_dilation(brain) & ~brain)
    around = around[generator.random(len(around)) < rim]
    bone = _BONE * generator.random(len(around), dtype=np.float32)
    return SimulatedSubject(
        np.concatenate([subject.voxels, around]),
        np.concatenate([subject.canonical, bone]),
        np.concatenate([subject.tissues, np.zeros((len(around), 3), np.float32)]),
        np.concatenate([subject.lesion, np.zeros(len(around), bool)]),
        np.concatenate([subject.bias, np.zeros(len(around), np.float32)]),
    )


# ── studies in memory ─────────────────────────────────────────────────────────────────────────────


def world_models(world: World, *, tissues: bool = False) -> dict[str, DensityModel]:
    """Return what a study knows about the intensities of its scans, by their names.

    Parameters
    ----------
    world : the study.
    tissues : whether the true tissue probability maps are known, too.
    """
    return {scan.name: _model(scan, tissues) for scan in world.scans}


def goals_in_memory(
    sites: Mapping[str, str],
    models: Mapping[str, DensityModel],
    options: Options,
) -> dict[str, Goal]:
    """Return what each scan of a study is brought to, by its name.

    Parameters
    ----------
    sites : of the scans, by their names.
    models : of the scans, likewise.
    options : the settings.
    """
    scans = [Subject("", site=site, name=name) for name, site in sites.items()]
    study = Study(Path(), scans, replace(options, scale="standard"))
    goals = make_references(study, scans, models).goals
    return {scan.name: study.mode.goal_of(goals, scan.site) for scan in scans}


def world_solutions(
    world: World,
    models: Mapping[str, DensityModel],
    options: Options,
) -> dict[str, Solution]:
    """Return how the scans are normalised, by their names.

    Parameters
    ----------
    world : the study.
    models : of its scans, see `world_models`.
    options : the settings.
    """
    sites = {scan.name: scan.site for scan in world.scans}
    goals = goals_in_memory(sites, models, options)
    return {name: goal.solve(models[name]) for name, goal in goals.items()}


def _model(scan: WorldScan, tissues: bool) -> DensityModel:
    stored = np.rint(scan.values).astype(np.int16)  # as a file would hold them
    counted = histogram(stored)
    nyul = Options(method="nyul")
    return DensityModel(
        fit(counted).mixture,
        method_called("nyul").measure(counted, nyul),
        _tissues(scan, stored) if tissues else None,
        voxel_quantiles(counted)[0],
    )


def _tissues(scan: WorldScan, stored: np.ndarray) -> Tissues:
    shares = scan.tissues.T.astype(np.float64)
    densities = tuple(fit(histogram(stored, weights=share)).mixture for share in shares)
    amounts = shares.sum(axis=1)
    return Tissues(densities, amounts / amounts.sum())


# ── scores ────────────────────────────────────────────────────────────────────────────────────────

_LEVELS = np.linspace(0.01, 0.99, 99)
_FEWEST = 5  # voxels of a lesion
_SEVERAL = 3  # scans of a site whose spread is looked at
_CSF, _GM, _WM = range(3)


class WorldScores(NamedTuple):
    """How well maps recover the truth; 0 is perfect. See the module.

    Attributes
    ----------
    spread : between scans, at the same normalised value.
    age : the error of the effect of age.
    lesion : the error of the contrast of lesions; NaN in a world without any.
    within : the spread of each site that has several scans.
    covered : the share of scans whose intervals hold the true CSF, GM and WM; none without any.
    """

    spread: float
    age: float
    lesion: float
    within: list[float]
    covered: list[float]


def world_scores(world: World, solutions: Mapping[str, Solution]) -> WorldScores:
    """Return how well the truth of a world is recovered.

    Parameters
    ----------
    world : the study.
    solutions : how each scan is normalised, by its name.
    """
    maps = {name: solution.imap for name, solution in solutions.items()}
    truths = {scan.name: _truth(scan) for scan in world.scans}
    of_sites = [
        {scan.name: maps[scan.name] for scan in world.scans if scan.site == site.name}
        for site in world.sites
        if site.size >= _SEVERAL
    ]
    spread = recovery_of(maps, truths).spread
    sd = float(np.mean([truth.canonical for truth in truths.values()], axis=0).std())

    def meaning(values: FloatArray) -> FloatArray:
        """Return c̄ of normalised values."""
        total = np.zeros(values.shape)
        for name, imap in maps.items():
            total += truths[name].curve.inverse()(imap.inverse()(values))
        return total / len(maps)

    medians = np.array([_medians(scan, scan.values) for scan in world.scans])
    shown = np.array([maps[scan.name](own) for scan, own in zip(world.scans, medians, strict=True)])
    true = np.array([_medians(scan, scan.canonical) for scan in world.scans])
    found = meaning(shown.ravel()).reshape(shown.shape)
    decades = np.array([scan.age for scan in world.scans]) / 10
    errors = (_slopes(decades, found) - _slopes(decades, true)) / sd
    return WorldScores(
        spread,
        float(np.sqrt((errors**2).mean())),
        _lesion_error(world, maps, found[:, _WM], true[:, _WM], meaning),
        [recovery_of(own, truths).spread for own in of_sites],
        _covered(solutions, truths),
    )


def _covered(solutions: Mapping[str, Solution], truths: Mapping[str, Truth]) -> list[float]:
    claimed = [one.target.intervals for one in solutions.values() if one.target]
    if not claimed or None in claimed:
        return []
    widths = np.array([list(own.values()) for own in claimed if own])
    means = np.array(MEANS)
    places = np.array([one.imap(truths[name].curve(means)) for name, one in solutions.items()])
    middle = places.mean(axis=0)
    errors = np.abs(places - middle) / (middle[_WM] - middle[_GM])
    shares: list[float] = (errors <= widths).mean(axis=0).tolist()
    return shares


def _truth(scan: WorldScan) -> Truth:
    brain = scan.canonical[np.isfinite(scan.canonical)].astype(np.float64)
    return Truth(scan.curve, np.quantile(brain, _LEVELS))


def _medians(scan: WorldScan, values: Map) -> FloatArray:
    """Return the medians of CSF, GM and WM, weighted by their probabilities, without lesions."""
    known = np.isfinite(values) & ~scan.lesion
    return np.array(
        [
            weighted_quantile(values[known], share[known], [0.5])[0]
            for share in scan.tissues.T.astype(np.float64)
        ]
    )


def _slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the least-squares slope of each column of y on x."""
    centred = x - x.mean()
    slopes: FloatArray = centred @ y / (centred @ centred)
    return slopes


def _lesion_error(
    world: World,
    maps: Mapping[str, IntensityMap],
    found_wm: FloatArray,
    true_wm: FloatArray,
    meaning: Callable[[FloatArray], FloatArray],
) -> float:
    errors = []
    for scan, found, true in zip(world.scans, found_wm, true_wm, strict=True):
        if np.count_nonzero(scan.lesion) < _FEWEST:
            continue
        shown = maps[scan.name](np.array([np.median(scan.values[scan.lesion])], np.float64))
        contrast = float(meaning(shown)[0]) - found
        errors.append(contrast / (float(np.median(scan.canonical[scan.lesion])) - true) - 1)
    return math.sqrt(float(np.mean(np.square(errors)))) if errors else math.nan


# ── all methods in all worlds ─────────────────────────────────────────────────────────────────────

_REPORTED = 65  # the first seed that is reported
_NO_WORSE = 1.03  # than Nyúl's method, within a site

ADAPTIVE = {
    "mode": "two-level",
    "average": "quantile",
    "objective": "cramer",
    "proportions": "adaptive",
}

RIVALS: dict[str, dict[str, Any]] = {"affine": {"method": "affine"}, "nyul": {"method": "nyul"}}
CHOOSE: dict[str, dict[str, Any]] = {
    **RIVALS,
    "individual average (the paper)": {},
    "individual adaptive": {**ADAPTIVE, "mode": "individual"},
    "two-level average": {**ADAPTIVE, "proportions": "average"},
    "two-level adaptive": ADAPTIVE,
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


def settings(chosen: Mapping[str, Any], world: World) -> Options:
    """Return a choice as options; a preset decides by what a world has."""
    if "preset" in chosen:
        sites = {site.name: site.size for site in world.sites}
        scans = len(world.scans)
        facts = StudyFacts(scans, sites, with_maps=scans if chosen.get("tissues") else 0)
        return settled_study(Choices(chosen["preset"]), facts).options
    return Options(**{name: part for name, part in chosen.items() if name != "tissues"})


def one_world(
    seed: int, methods: Mapping[str, Mapping[str, Any]], people: Sequence[Person] = ()
) -> Row:
    """Run all methods in one world."""
    anatomy = load_anatomy()
    world = draw_world(seed, anatomy, world_grid(anatomy), people)
    maps_known = any(chosen.get("tissues") for chosen in methods.values())
    models = world_models(world, tissues=maps_known)
    bare = {name: replace(model, tissues=None) for name, model in models.items()}
    scores = {}
    for name, chosen in methods.items():
        own = models if chosen.get("tissues") else bare
        scores[name] = world_scores(world, world_solutions(world, own, settings(chosen, world)))
    print(f"world {seed}: {len(world.scans)} scans", file=sys.stderr, flush=True)
    return Row(seed, len(world.scans), scores)


def interval(values: np.ndarray, statistic: Any) -> str:
    """Return a statistic with its 95 % bootstrap interval over worlds, if there are any."""
    if not values.size:
        return "–"
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


def table_within(rows: list[Row]) -> str:
    """Return the table of what happens within sites, and of the intervals of scans."""
    lines = [
        "| method | ÷ Nyúl's at a site, median | 95 % of sites | worst | > 1.03 "
        "| CSF covered | GM | WM |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    within = {
        name: np.concatenate([row.scores[name].within for row in rows]) for name in rows[0].scores
    }
    for name, own in within.items():
        ratio = own / within["nyul"]
        cells = [name, f"{np.median(ratio):.2f}", f"{np.quantile(ratio, 0.95):.2f}"]
        cells += [f"{ratio.max():.2f}", f"{np.mean(ratio > _NO_WORSE):.0%}"]
        covered = [row.scores[name].covered for row in rows if row.scores[name].covered]
        cells += [f"{one:.2f}" for one in np.mean(covered, axis=0)] if covered else ["–"] * 3
        lines.append(f"| {' | '.join(cells)} |")
    sites = within["nyul"].size
    return "\n".join([*lines, "", f"{sites} sites with at least {_SEVERAL} scans."])


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["choose", "report"])
    parser.add_argument("--worlds", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--people", type=Path, metavar="COHORT", help="a BIDS dataset; see above")
    parser.add_argument("--json", type=Path, help="write the scores of each world to this file")
    chosen = parser.parse_args()
    methods = CHOOSE if chosen.what == "choose" else REPORT
    first = 0 if chosen.what == "choose" else _REPORTED
    seeds = range(first, first + 2 * chosen.worlds, 2)
    people = read_people(chosen.people) if chosen.people else []
    rows = Parallel(chosen.jobs)(delayed(one_world)(seed, methods, people) for seed in seeds)
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
    print(table(rows), table_within(rows), sep="\n\n")


if __name__ == "__main__":
    main()
