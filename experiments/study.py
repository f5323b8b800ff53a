"""The tables of docs/study.md: what the default gives on a real cohort.

    python experiments/study.py COHORT [PREPARED]

COHORT is a BIDS dataset with masks and tissue probability maps, PREPARED the result of ``ndflow
prepare`` on the same scans. Tissue maps of the cohort only judge: the quartiles of CSF, GM and WM
in each scan after normalisation, whose standard deviation over scans is averaged over the nine.
With PREPARED, image and mask are those of the preparation, and so are the tissue maps of the last
row; the judge stays the same. Intervals are jackknives over scans (`ndflow.evaluation.statistics`).

Stability: two halves of a scan's voxels, and two draws of noise of .05 of its standard deviation,
are normalised to the references of all scans; W1 is the distance of the two results.

Other scans: references are made from four fifths of the scans of each site, and applied to the
remaining fifth, in turn.

Age: its partial correlation with the median of each tissue, given the site.

The default takes from these scans how much people differ (`ndflow.population.tissues.USUAL`), so it
is also run as if that were half or twice as much, or the same for all tissues (*round*), which
no scan has shown.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import nibabel
import numpy as np

from ndflow.density import Histogram, fit, histogram
from ndflow.evaluation.statistics import covariate_effect, jackknife
from ndflow.evaluation.tissues import quartiles
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, method_called
from ndflow.options import Options
from ndflow.population import Tissues, tissues
from ndflow.study.plan import Study
from ndflow.study.references import make_references
from ndflow.subject.doubts import voxel_quantiles
from ndflow.subject.presets import Choices, StudyFacts, settled_study

TISSUES = ("CSF", "GM", "WM")
NYUL = Options(method="nyul")
LEVELS = (np.arange(400) + 0.5) / 400
NOISE = 0.05
FOLDS = 5


class Known(NamedTuple):
    """What is known about a scan: its model, the judge's quartiles, and two pairs of repeats."""

    site: str
    age: float
    model: DensityModel
    judged: np.ndarray
    repeats: list[tuple[DensityModel, np.ndarray]]


def model_of(counted: Histogram, tissues: Tissues | None = None) -> DensityModel:
    """Return the model of a histogram."""
    landmarks = method_called("nyul").measure(counted, NYUL)
    return DensityModel(fit(counted).mixture, landmarks, tissues, voxel_quantiles(counted)[0])


def flat(path: Path) -> np.ndarray:
    """Read an image of probabilities, or a mask."""
    return np.asarray(nibabel.load(path).get_fdata()).reshape(-1, order="F")


def repeats(values: np.ndarray) -> Iterator[tuple[DensityModel, np.ndarray]]:
    """Yield two halves, and two draws of noise, with their quantiles."""
    generator = np.random.default_rng(1)
    half = generator.random(values.size) < 0.5
    parts = [values[half], values[~half]]
    parts += [
        values + NOISE * values.std() * generator.standard_normal(values.size) for _ in range(2)
    ]
    for part in parts:
        counted = histogram(part.astype(np.float32))
        yield model_of(counted), np.quantile(part, LEVELS)


def scans(cohort: Path, prepared: Path | None) -> dict[str, Known]:
    """Read all scans."""
    with (cohort / "participants.tsv").open(encoding="utf-8") as file:
        people = list(csv.DictReader(file, delimiter="\t"))
    found = {}
    for person in people:
        name = person["participant_id"]
        start = cohort / name / "anat" / name
        image, mask = Path(f"{start}_T1w.nii.gz"), Path(f"{start}_desc-brain_mask.nii.gz")
        judge = [flat(Path(f"{start}_label-{one}_probseg.nii.gz")) for one in TISSUES]
        maps = None
        if prepared is not None:
            start = prepared / name / "anat" / name
            image, mask = (Path(f"{start}_desc-{k}.nii.gz") for k in ("preproc_T1w", "brain_mask"))
            maps = [flat(Path(f"{start}_label-{one}_probseg.nii.gz")) for one in TISSUES]
        volume = read_volume(image)
        values = volume.values(volume.flat).astype(np.float64)
        inside = (flat(mask) > 0.5) & np.isfinite(values)
        levels = {"slope": volume.slope, "inter": volume.inter}
        stored = volume.flat[inside]
        own = None
        if maps is not None:
            amounts = np.array([one[inside].sum() for one in maps])
            densities = tuple(
                fit(histogram(stored, weights=one[inside], **levels)).mixture for one in maps
            )
            own = Tissues(densities, amounts / amounts.sum())
        seen = (np.isfinite(values) if prepared else inside) & (sum(judge) > 0)
        found[name] = Known(
            person["site"],
            float(person["age"]),
            model_of(histogram(stored, **levels), own),
            np.array([quartiles(values[seen], one[seen]) for one in judge]),
            [] if prepared else list(repeats(values[inside])),
        )
    return found


def settings(known: dict[str, Known], *, maps: bool = False, **chosen: Any) -> Options:
    """Return what a preset decides."""
    sites: dict[str, int] = {}
    for one in known.values():
        sites[one.site] = sites.get(one.site, 0) + 1
    facts = StudyFacts(len(known), sites, with_maps=len(known) if maps else 0)
    return settled_study(Choices(**chosen), facts).options


class Result(NamedTuple):
    """What a method makes of the scans: quartiles, the same with other scans, and W1 of repeats."""

    cells: np.ndarray
    others: np.ndarray
    repeats: list[float]


def normalised(known: dict[str, Known], options: Options, *, maps: bool = False) -> Result:
    """Normalise all scans, by the code of any study."""
    scans = [Subject("", site=one.site, name=name) for name, one in known.items()]
    study = Study(Path(), scans, replace(options, scale="standard"))
    models = {
        name: one.model if maps else replace(one.model, tissues=None) for name, one in known.items()
    }

    def cells(of: Sequence[Subject], made_from: Sequence[Subject]) -> np.ndarray:
        goals = make_references(study, made_from, models).goals
        found = []
        for scan in of:
            goal = study.mode.goal_of(goals, scan.site)
            found.append(goal.solve(models[scan.name]).imap(known[scan.name].judged))
        return np.array(found).reshape(len(of), 9)

    of_site: dict[str | None, int] = {}
    fold = np.empty(len(scans), int)
    for place in np.random.default_rng(1).permutation(len(scans)):
        site = scans[place].site
        fold[place] = of_site[site] = (of_site.get(site, -1) + 1) % FOLDS
    others = np.empty((len(scans), 9))
    for k in range(FOLDS):
        kept = [scan for scan, own in zip(scans, fold, strict=True) if own != k]
        left = [scan for scan, own in zip(scans, fold, strict=True) if own == k]
        others[fold == k] = cells(left, kept)

    goals = make_references(study, scans, models).goals
    pairs = []
    for scan in scans:
        goal = study.mode.goal_of(goals, scan.site)
        ends = [goal.solve(model).imap(raw) for model, raw in known[scan.name].repeats]
        if ends:
            pairs.append([np.abs(ends[k] - ends[k + 1]).mean() for k in (0, 2)])
    return Result(cells(scans, scans), others, np.mean(pairs, axis=0).tolist() if pairs else [])


def mean_sd(cells: np.ndarray) -> float:
    """Return the standard deviation over scans, averaged over tissues and quartiles."""
    return float(cells.std(axis=0, ddof=1).mean())


def interval(measure: Callable[[np.ndarray], float], sites: np.ndarray, digits: int) -> str:
    """Return a positive measure of some scans, given by their places, with its interval."""
    places = np.arange(sites.size)
    each = [measure(places), *(measure(np.delete(places, k)) for k in places)]
    found = np.exp(jackknife(np.log(each), sites.tolist()))
    value, low, high = (f"{part:.{digits}f}".removeprefix("0") for part in found)
    return f"{value} ({low}–{high})"


def row(*cells: str) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def tables(results: dict[str, Result], sites: np.ndarray, age: np.ndarray) -> None:
    """Print what methods make of the scans."""

    def ratio(one: np.ndarray, other: np.ndarray) -> Callable[[np.ndarray], float]:
        return lambda places: mean_sd(one[places]) / mean_sd(other[places])

    nyul = results["nyul"]
    print("\n| method | CSF | GM | WM | all nine | ÷ Nyúl's | other scans | halves | noise |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, (cells, others, repeats) in results.items():
        sd = cells.std(axis=0, ddof=1).reshape(3, 3).mean(axis=1)
        row(
            name,
            *(f"{one:.3f}" for one in sd),
            interval(lambda places, cells=cells: mean_sd(cells[places]), sites, 3),
            "–" if cells is nyul.cells else interval(ratio(cells, nyul.cells), sites, 2),
            "–" if cells is nyul.cells else interval(ratio(others, nyul.others), sites, 2),
            *([f"{one:.4f}" for one in repeats] or ["–", "–"]),
        )
    names = np.unique(sites)
    print(f"\n| ÷ Nyúl's | {' | '.join(names)} | least of nine cells | largest |")
    print(f"|---|{'--:|' * (len(names) + 2)}")
    for name, (cells, _, _) in results.items():
        if cells is nyul.cells:
            continue
        parts = [np.flatnonzero(sites == site) for site in names]
        within = [interval(ratio(cells[own], nyul.cells[own]), sites[own], 2) for own in parts]
        each = cells.std(axis=0) / nyul.cells.std(axis=0)
        row(name, *within, f"{each.min():.2f}", f"{each.max():.2f}")
    print("\n| age | CSF | GM | WM |\n|---|--:|--:|--:|")
    for name, (cells, _, _) in results.items():
        effects = [covariate_effect(median, age, sites.tolist()) for median in cells[:, 1::3].T]
        row(name, *(f"{e[2]:.2f} ({e[3]:.2f} to {e[4]:.2f})" for e in effects))


def table_of_people(results: dict[str, Result], sites: np.ndarray, age: np.ndarray) -> None:
    """Print what depends on how much people are expected to differ."""
    nyul, names = results["nyul"].cells, np.unique(sites)
    heads = ["÷ Nyúl's", *names, *(f"age–{one}" for one in TISSUES)]
    print(f"\n| people | {' | '.join(heads)} |\n|---|{'--:|' * len(heads)}")
    for name, (cells, _, _) in results.items():
        parts = [slice(None), *(sites == site for site in names)]
        ratios = [mean_sd(cells[own]) / mean_sd(nyul[own]) for own in parts]
        ages = [covariate_effect(one, age, sites.tolist()).correlation for one in cells[:, 1::3].T]
        if cells is not nyul:
            row(name, *(f"{one:.2f}" for one in (*ratios, *ages)))


def main() -> None:
    """Run."""
    cohort = Path(sys.argv[1])
    for prepared in [None, *map(Path, sys.argv[2:3])]:
        known = scans(cohort, prepared)
        methods = {
            "affine": Options(method="affine"),
            "nyul": NYUL,
            "paper": settings(known, preset="paper"),
            "site": settings(known, options={"mode": "site"}),
            "auto": settings(known),
        }
        results = {label: normalised(known, chosen) for label, chosen in methods.items()}
        if prepared:
            with_maps = settings(known, maps=True)
            results["auto, with maps"] = normalised(known, with_maps, maps=True)
        print(f"\n{'prepared' if prepared else 'with the masks of the cohort'}: {len(known)} scans")
        sites = np.array([one.site for one in known.values()])
        age = np.array([one.age for one in known.values()])
        tables(results, sites, age)
        usual, others = tissues.USUAL, {"nyul": results["nyul"], "as here": results["auto"]}
        for label, people in {
            "half": usual / 2,
            "twice": usual * 2,
            "round": np.trace(usual) / 2 * (np.eye(3) - 1 / 3),
        }.items():
            with mock.patch.object(tissues, "USUAL", people):
                others[label] = normalised(known, settings(known))
        table_of_people(others, sites, age)


if __name__ == "__main__":
    main()
