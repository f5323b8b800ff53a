"""What was done in a study, in words: for its page, and for the methods section of a paper."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ndflow._version import __version__
from ndflow.settings import Matching
from ndflow.study.plan import ANY_CHANNEL, Study

__all__ = ["bibtex", "facts", "methods_paragraph"]

_PAPER = """@inproceedings{castro2018,
  author    = {Castro, Daniel C. and Glocker, Ben},
  title     = {Nonparametric Density Flows for {MRI} Intensity Normalisation},
  booktitle = {Medical Image Computing and Computer Assisted Intervention -- {MICCAI} 2018},
  series    = {Lecture Notes in Computer Science},
  volume    = {11070},
  pages     = {206--214},
  year      = {2018},
  doi       = {10.1007/978-3-030-00928-1_24},
}"""
_NYUL = """@article{nyul2000,
  author  = {Ny{\\'u}l, L{\\'a}szl{\\'o} G. and Udupa, Jayaram K. and Zhang, Xuan},
  title   = {New Variants of a Method of {MRI} Scale Standardization},
  journal = {IEEE Transactions on Medical Imaging},
  volume  = {19},
  number  = {2},
  pages   = {143--150},
  year    = {2000},
  doi     = {10.1109/42.836373},
}"""
_HELLIER = """@inproceedings{hellier2003,
  author    = {Hellier, Pierre},
  title     = {Consistent Intensity Correction of {MR} Images},
  booktitle = {International Conference on Image Processing ({ICIP})},
  year      = {2003},
}"""

_BASELINES = {
    "affine": "aligned by the mean and spread of their densities alone",
    "zscore": "aligned by the mean and spread of their voxels alone",
    "nyul": "normalised by {landmarks} percentiles joined piecewise linearly (Nyúl et al., 2000)",
    "quantile": "matched exactly in their distributions",
    "hellier": "normalised by a polynomial through the means of five Gaussian classes, held near "
    "fixed quantiles (after Hellier, 2003)",
    "whitestripe": "normalised by WhiteStripe, as the package intensity-normalization has it",
    "kde": "normalised by the peak of white matter in a kernel density estimate, as the package "
    "intensity-normalization has it",
    "fcm": "normalised by the mean of white matter from fuzzy c-means, as the package "
    "intensity-normalization has it",
    "lsq": "normalised by a least-squares fit of tissue means, as the package "
    "intensity-normalization has it",
}
_OBJECTIVES = {"l2": "L2 divergence", "cramer": "Cramér distance"}
_MASKS = {
    "given": "inside its mask",
    "auto": "inside its foreground, found automatically,",
    "nonzero": "over all voxels but 0",
}


def bibtex(method: str) -> str:
    """Return what to cite, as BibTeX."""
    return {"nyul": _NYUL, "hellier": _HELLIER}.get(method, _PAPER)


def facts(study: Study, record: Mapping[str, Any], done: int, failed: int) -> list[tuple[str, str]]:
    """Return what was run, as pairs of a name and a value."""
    sites = Counter(member.site for member in study.members)
    named = [f"{name} ({count})" for name, count in sorted(sites.items(), key=str) if name]
    programs = record.get("versions") or {}
    return [
        ("Command", shlex.join(map(str, record.get("command", [])))),
        ("Scans", f"{done} normalised, {failed} failed"),
        ("Sites", ", ".join(named) or "none named"),
        ("Images", "not named" if study.channel == ANY_CHANNEL else study.channel),
        ("Settings", ", ".join(_settings(study))),
        ("Reference", "given" if study.given else f"made from {record.get('fitted', done)} scans"),
        ("Programs", ", ".join(f"{name} {number}" for name, number in programs.items())),
    ]


def _settings(study: Study) -> list[str]:
    matching, writing = study.matching, study.writing
    how = [f"method {matching.method}", f"mode {study.averaging.mode}"]
    if matching.method == "ndflow":
        how += [f"objective {matching.objective}", f"regularisation {matching.regularisation:g}"]
        how += [f"solver {matching.solver}", f"target {matching.target}"]
        how += ["lesions kept out"] if matching.lesions else []
        how += [f"frozen {', '.join(matching.freeze)}"] if matching.freeze else []
    if matching.method == "nyul":
        how += [f"landmarks {matching.landmarks}"]
    if not study.given or study.averaging.mode != "individual":
        how += [f"average {study.averaging.average}"]
    how += [f"effective count {study.fitting.effective_count:g}"]
    if matching.range is not None:
        how += [f"range {matching.range[0]:g} to {matching.range[1]:g}"]
    how += [f"outside {writing.outside}"] if writing.outside else []
    return [*how, f"dtype {writing.dtype}"]


def methods_paragraph(
    study: Study,
    record: Mapping[str, Any],
    scans: int,
    sites: Sequence[str],
    masks: Collection[str],
) -> str:
    """Return a paragraph for the methods section of a paper.

    Parameters
    ----------
    study, record : what was done.
    scans : how many.
    sites : those that are known.
    masks : how voxels were chosen, as records have it: ``given``, ``auto``, ``nonzero``.
    """
    program = (record.get("versions") or {}).get("ndflow", __version__)
    kind = "" if study.channel == ANY_CHANNEL else f"{study.channel} "
    many = f"{scans} {kind}image{'' if scans == 1 else 's'}"
    many += f" of {len(sites)} sites" if len(sites) > 1 else ""
    begin = f"Intensities of {many} were normalised with ndflow {program}."
    matching = study.matching
    if matching.method != "ndflow":
        way = _BASELINES[matching.method].format(landmarks=matching.landmarks)
        return f"{begin} Scans were {way}.{_units(study)}"
    where = " or ".join(_MASKS[mask] for mask in sorted(masks) if mask in _MASKS)
    density = (
        f"The histogram of each scan {where} was modelled as a Dirichlet-process Gaussian mixture "
        f"by variational inference"
    )
    average = "density" if study.averaging.average == "density" else "quantiles"
    fitted = record.get("fitted", scans)
    among = "all" if fitted == scans else f"{fitted}"  # some may have failed only afterwards
    target = f"the average {average} of {among} aligned scans"
    if study.given:
        target = "a given reference"
    flow = (
        f"matched to it by minimising their {_OBJECTIVES[matching.objective]} "
        f"(regularisation {matching.regularisation:g}), and intensities were carried along the "
        f"mass-conserving flow between the two (Castro & Glocker, 2018)"
    )
    if study.averaging.mode == "individual":
        own = f"{density}, aligned in mean and spread to {_aim(target, matching)}, {flow}."
        if matching.lesions:
            own += (
                " Components of a scan with more mass than any healthy scan of the reference has "
                "at their intensities were kept out of the match, and moved along with it."
            )
        if matching.freeze:
            rules = ", ".join(matching.freeze)
            own += f" Components chosen by index, weight or mean intensity ({rules}) stayed fixed."
        return f"{begin} {own}{_units(study)}"
    by_site = (
        f"{begin} {density}. The average {average} of each site was aligned in mean and spread "
        f"to {target}, {flow}; the map of a site was applied to all its scans after "
        f"the alignment of each to zero mean and unit spread"
    )
    if study.averaging.mode == "site":
        return f"{by_site}.{_units(study)}"
    return (
        f"{by_site}; what came of each scan was matched once more, in the same way, to "
        f"{_aim('the same reference', matching)}.{_units(study)}"
    )


def _aim(target: str, matching: Matching) -> str:
    if matching.target == "average":
        return target
    known = "known from maps of its tissues"
    if matching.target == "adaptive":
        known = (
            "chosen such that it needs the mildest map, with a prior of what is usual; where "
            "that made no clear difference, the average was kept"
        )
    return f"the densities of CSF, GM and WM in {target}, in the scan's own proportions ({known})"


def _units(study: Study) -> str:
    if study.matching.range is None:
        return ""
    low, high = study.matching.range
    return (
        f" Results are in units in which the 0.1st and 99.9th percentiles of the reference lie at "
        f"{low:g} and {high:g}."
    )
