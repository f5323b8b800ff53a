"""What was done in a study, in words: for its page, and for the methods section of a paper."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from ndflow._version import __version__
from ndflow.workflow.plan import ANY_CHANNEL, Study

__all__ = ["CITATION", "facts", "methods"]

CITATION = """@inproceedings{castro2018,
  author    = {Castro, Daniel C. and Glocker, Ben},
  title     = {Nonparametric Density Flows for {MRI} Intensity Normalisation},
  booktitle = {Medical Image Computing and Computer Assisted Intervention -- {MICCAI} 2018},
  series    = {Lecture Notes in Computer Science},
  volume    = {11070},
  pages     = {206--214},
  year      = {2018},
  doi       = {10.1007/978-3-030-00928-1_24},
}"""

_BASELINES = {
    "affine": "aligned by the mean and spread of their densities alone",
    "zscore": "aligned by the mean and spread of their voxels alone",
    "nyul": "normalised by {landmarks} percentiles joined piecewise linearly (Nyúl et al., 2000)",
    "quantile": "matched exactly in their distributions",
    "hellier": "normalised by a polynomial through the means of five Gaussian classes "
    "(Hellier, 2003)",
    "whitestripe": "normalised by WhiteStripe, as the package intensity-normalization has it",
    "kde": "normalised by the peak of white matter in a kernel density estimate, as the package "
    "intensity-normalization has it",
    "fcm": "normalised by the mean of white matter from fuzzy c-means, as the package "
    "intensity-normalization has it",
    "lsq": "normalised by a least-squares fit of tissue means, as the package "
    "intensity-normalization has it",
}
_OBJECTIVES = {"l2": "L2 divergence", "cramer": "Cramér distance"}


def facts(study: Study, record: Mapping[str, Any], done: int, failed: int) -> list[tuple[str, str]]:
    """Return what was run, as pairs of a name and a value."""
    centres = Counter(member.centre for member in study.members)
    named = [f"{name} ({count})" for name, count in sorted(centres.items(), key=str) if name]
    programs = [f"{name} {version(name)}" for name in ("numpy", "scipy", "nibabel")]
    matching = study.matching
    how = [f"method {matching.method}", f"mode {study.averaging.mode}"]
    if matching.method == "ndflow":
        how += [f"objective {matching.objective}", f"regularisation {matching.regularisation:g}"]
        how += [f"solver {matching.solver}", f"effective count {study.fitting.effective_count:g}"]
    return [
        ("Command", " ".join(map(str, record.get("command", [])))),
        ("Scans", f"{done} normalised, {failed} failed"),
        ("Centres", ", ".join(named) or "none named"),
        ("Images", "not named" if study.channel == ANY_CHANNEL else study.channel),
        ("Settings", ", ".join(how)),
        (
            "Reference",
            "given" if study.given else f"{study.averaging.average} average of the scans",
        ),
        (
            "Programs",
            ", ".join([f"ndflow {__version__}", f"Python {platform.python_version()}", *programs]),
        ),
    ]


def methods(study: Study, scans: int, centres: Sequence[str]) -> str:
    """Return a paragraph for the methods section of a paper."""
    images = "images" if study.channel == ANY_CHANNEL else f"{study.channel} images"
    many = f"{scans} {images}" + (f" of {len(centres)} centres" if len(centres) > 1 else "")
    begin = f"Intensities of {many} were normalised with ndflow {__version__}."
    matching = study.matching
    if matching.method != "ndflow":
        way = _BASELINES[matching.method].format(landmarks=matching.landmarks)
        return f"{begin} Scans were {way}."
    target = "a given reference" if study.given else _average(study)
    density = (
        "The histogram of each scan inside its mask was modelled as a Dirichlet-process Gaussian "
        "mixture by variational inference"
    )
    flow = (
        f"matched to it by minimising their {_OBJECTIVES[matching.objective]} "
        f"(regularisation {matching.regularisation:g}), and intensities were carried along the "
        f"mass-conserving flow between the two (Castro & Glocker, 2018)"
    )
    if study.averaging.mode == "centre":
        return (
            f"{begin} {density}. The average density of each centre was aligned in mean and spread "
            f"to {target}, {flow}; the map of a centre was applied to all its scans after "
            f"the alignment of each to zero mean and unit spread."
        )
    return f"{begin} {density}, aligned in mean and spread to {target}, {flow}."


def _average(study: Study) -> str:
    kind = "density" if study.averaging.average == "density" else "quantiles"
    return f"the average {kind} of all aligned scans"
