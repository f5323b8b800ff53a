"""What the defaults give on a real cohort without tissue maps, and how stable they are.

    python experiments/default_study.py COHORT [PREPARED]

COHORT is a BIDS dataset with masks and tissue probability maps, PREPARED the result of ``ndflow
prepare`` on the same scans. Tissue maps of the cohort only judge: the quartiles of CSF, GM and WM
in each scan after normalisation, whose standard deviation over scans is averaged over the nine.
With PREPARED, image and mask are those of the preparation, and so are the tissue maps of the last
row; the judge stays the same.

Stability: two halves of a scan's voxels, and two draws of noise of .05 of its standard deviation,
are normalised to the references of all scans; W1 is the distance of the two results.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np

from ndflow.density import Histogram, fit, histogram
from ndflow.evaluation.tissues import quartiles
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, method_called
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.population import Tissues
from ndflow.study.plan import Study
from ndflow.study.references import make_references
from ndflow.subject.doubts import voxel_quantiles
from ndflow.subject.presets import Choices, StudyFacts, settled_study

TISSUES = ("CSF", "GM", "WM")
NYUL = Options(method="nyul")
LEVELS = (np.arange(400) + 0.5) / 400
NOISE = 0.05


class Known(NamedTuple):
    """What is known about a scan: its model, the judge's quartiles, and two pairs of repeats."""

    site: str
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
        tissues = None
        if maps is not None:
            amounts = np.array([one[inside].sum() for one in maps])
            densities = tuple(
                fit(histogram(stored, weights=one[inside], **levels)).mixture for one in maps
            )
            tissues = Tissues(densities, amounts / amounts.sum())
        seen = (np.isfinite(values) if prepared else inside) & (sum(judge) > 0)
        found[name] = Known(
            person["site"],
            model_of(histogram(stored, **levels), tissues),
            np.array([quartiles(values[seen], one[seen]) for one in judge]),
            [] if prepared else list(repeats(values[inside])),
        )
    return found


def settings(known: dict[str, Known], preset: Any, *, maps: bool) -> Options:
    """Return what a preset decides."""
    sites: dict[str, int] = {}
    for one in known.values():
        sites[one.site] = sites.get(one.site, 0) + 1
    facts = StudyFacts(len(known), sites, with_maps=len(known) if maps else 0)
    return settled_study(Choices(preset), facts).options


def goals_of(
    sites: dict[str, str],
    models: dict[str, DensityModel],
    options: Options,
) -> dict[str, Goal]:
    """Return what each scan is brought to, by the code of any study."""
    scans = [Subject("", site=site, name=name) for name, site in sites.items()]
    study = Study(Path(), scans, replace(options, scale="standard"))
    goals = make_references(study, scans, models).goals
    return {scan.name: study.mode.goal_of(goals, scan.site) for scan in scans}


def main() -> None:
    """Run."""
    cohort = Path(sys.argv[1])
    for prepared in [None, *map(Path, sys.argv[2:3])]:
        known = scans(cohort, prepared)
        methods = {
            "affine": Options(method="affine"),
            "nyul": NYUL,
            "paper": settings(known, "paper", maps=False),
            "auto, without maps": settings(known, "auto", maps=False),
        }
        if prepared:
            methods["auto, with maps"] = settings(known, "auto", maps=True)
        print(f"\n{'prepared' if prepared else 'with the masks of the cohort'}: {len(known)} scans")
        print("| method | CSF | GM | WM | all | halves | noise |\n|---|--:|--:|--:|--:|--:|--:|")
        sites = {name: one.site for name, one in known.items()}
        for label, chosen in methods.items():
            with_maps = label.endswith("with maps")
            models = {
                name: one.model if with_maps else replace(one.model, tissues=None)
                for name, one in known.items()
            }
            goals = goals_of(sites, models, chosen)
            judged = np.array(
                [goals[name].solve(models[name]).imap(one.judged) for name, one in known.items()]
            )
            sd = judged.std(axis=0, ddof=1)
            cells = [f"{part.mean():.3f}" for part in sd] + [f"{sd.mean():.4f}"]
            pairs = []
            for name, one in known.items():
                ends = [goals[name].solve(model).imap(raw) for model, raw in one.repeats]
                if ends:
                    pairs.append([np.abs(ends[k] - ends[k + 1]).mean() for k in (0, 2)])
            cells += [f"{part:.4f}" for part in np.mean(pairs, axis=0)] if pairs else ["–", "–"]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
