"""What was done in a study, in words, for its page and the methods of a paper; what to cite."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

from ndflow._version import __version__
from ndflow.image.mask import BRAIN
from ndflow.population.balancing import BIBTEX as BALANCING
from ndflow.preparation.brain import BIBTEX
from ndflow.study.finished import FinishedStudy
from ndflow.study.plan import ANY_CHANNEL, Study
from ndflow.subject.records import StudyRecord
from ndflow.subject.target import SCALES
from ndflow.values import plural

_MASKS = {
    "given": "inside its mask",
    "auto": "inside its foreground, found automatically,",
    "brain": "inside its brain mask, found by deepbet (Fisch et al. 2024),",
    "nonzero": "over all voxels but 0",
}
Steps = Mapping[str, str]  # of one scan, as its sidecar names them

_N4 = """@article{tustison2010,
  author  = {Tustison, Nicholas J. and Avants, Brian B. and Cook, Philip A. and Zheng, Yuanjie and
             Egan, Alexander and Yushkevich, Paul A. and Gee, James C.},
  title   = {{N4ITK}: Improved {N3} Bias Correction},
  journal = {IEEE Transactions on Medical Imaging},
  volume  = {29},
  number  = {6},
  pages   = {1310--1320},
  year    = {2010},
  doi     = {10.1109/TMI.2010.2046908},
}"""
_SYN = """@article{avants2008,
  author  = {Avants, Brian B. and Epstein, Charles L. and Grossman, Murray and Gee, James C.},
  title   = {Symmetric Diffeomorphic Image Registration with Cross-Correlation: Evaluating Automated
             Labeling of Elderly and Neurodegenerative Brain},
  journal = {Medical Image Analysis},
  volume  = {12},
  number  = {1},
  pages   = {26--41},
  year    = {2008},
  doi     = {10.1016/j.media.2007.06.004},
}"""
_ICBM152 = """@article{fonov2011,
  author  = {Fonov, Vladimir and Evans, Alan C. and Botteron, Kelly and Almli, C. Robert and
             McKinstry, Robert C. and Collins, D. Louis},
  title   = {Unbiased Average Age-Appropriate Atlases for Pediatric Studies},
  journal = {NeuroImage},
  volume  = {54},
  number  = {1},
  pages   = {313--327},
  year    = {2011},
  doi     = {10.1016/j.neuroimage.2010.07.033},
}"""
_UNIFIED = """@article{ashburner2005,
  author  = {Ashburner, John and Friston, Karl J.},
  title   = {Unified Segmentation},
  journal = {NeuroImage},
  volume  = {26},
  number  = {3},
  pages   = {839--851},
  year    = {2005},
  doi     = {10.1016/j.neuroimage.2005.02.018},
}"""

# What was done, by a step and what its record says; and the works that it is built on.
_DONE = {
    ("mask", "brain"): ("brains were found by deepbet (Fisch et al. 2024)", (BIBTEX,)),
    ("bias field", "corrected"): (
        "bias fields were estimated inside the brain by N4 (Tustison et al. 2010) and divided out",
        (_N4,),
    ),
    ("tissues", "found"): (
        "probabilities of CSF, GM and WM were estimated from intensities by expectation "
        "maximisation with tissue priors (Ashburner and Friston 2005), those of the ICBM152 "
        "template (Fonov et al. 2011), deformed to each scan by ANTs SyN (Avants et al. 2008)",
        (_UNIFIED, _ICBM152, _SYN),
    ),
}


def facts(run: FinishedStudy, failed: int) -> list[tuple[str, str]]:
    """Return what was run, as pairs of a name and a value; `failed` counts scans."""
    study, record = run.study, run.record
    done = len(study.scans)
    named = [f"{name} ({count})" for name, count in study.site_counts.items()]
    fitted = done if record.fitted is None else record.fitted
    fitted -= sum(own.unknown for own in record.balance.values())
    lesions = sum(scan.lesion is not None for scan in study.scans)
    return [
        ("Command", shlex.join(record.command)),
        ("Scans", f"{done} normalised, {failed} failed"),
        ("Sites", ", ".join(named) or "not named"),
        *([("Lesion masks", f"of {plural(lesions, 'scan')}")] if lesions else []),
        ("Images", "not named" if study.channel == ANY_CHANNEL else study.channel),
        *([("Preset", record.preset.text)] if record.preset else []),
        ("Settings", ", ".join(_settings(study))),
        ("Reference", "given" if study.given else f"made from {fitted} scans"),
        *([("Balance", _effective(record))] if record.balance else []),
        ("Versions", ", ".join(f"{name} {number}" for name, number in record.versions.items())),
    ]


def _settings(study: Study) -> list[str]:
    options = study.options
    words = [f"method {options.method}", f"mode {study.mode.name}"]
    words += study.method.options(options)
    if not study.given or study.mode.by_site:
        words += [f"average {study.options.average}"]
    words += [f"balance {' '.join(study.options.balance)}"] if study.options.balance else []
    words += [f"effective count {study.options.effective_count:g}"]
    if options.range is not None:
        words += [f"range {options.range[0]:g} to {options.range[1]:g}"]
    words += [f"scale {options.scale}"] if options.scale else []
    words += [f"outside {options.outside}"] if options.outside else []
    return [*words, f"dtype {options.dtype}"]


def methods_paragraph(
    run: FinishedStudy,
    sites: Sequence[str],
    masks: Collection[str],
    prepared: Sequence[Steps] = (),
) -> str:
    """Return a paragraph for the methods section of a paper.

    Parameters
    ----------
    run : what was done.
    sites : those that are known.
    masks : how voxels were chosen, as the sidecars say: ``given``, ``auto``, ``brain``,
        ``nonzero``.
    prepared : how scans were prepared, for each that was prepared by ndflow.
    """
    study, record = run.study, run.record
    scans = len(study.scans)
    method, options = study.method, study.options
    kind = "" if study.channel == ANY_CHANNEL else f"{study.channel} "
    many = f"{scans} {kind}image{'' if scans == 1 else 's'}"
    many += f" from {len(sites)} sites" if len(sites) > 1 else ""
    version = record.versions.get("ndflow", __version__)
    first = f"Intensities of {many} were normalised with ndflow {version}."
    first += _prepared(prepared, scans)
    way = method.description(options)
    last = f"{method.remarks(options)}{_preset(study)}{_balance(study, record)}"
    last += f"{_lesions(study)}{_units(study)}"
    if not method.matches_densities:
        return f"{first} Scans were {way}.{last}"
    where = " or ".join(_MASKS[mask] for mask in sorted(masks) if mask in _MASKS)
    of_each = f"of each scan {where}" if where else "of each scan"
    density = (
        f"The histogram {of_each} was modelled as a Dirichlet-process Gaussian mixture by "
        f"variational inference"
    )
    target = _reference(study, record.fitted, scans)
    if not study.mode.by_site:
        goal = study.target_rule.phrase(target)
        return f"{first} {density}, aligned in mean and standard deviation to {goal}, {way}.{last}"
    were = "was" if _average(study) == "density" else "were"
    by_site = (
        f"{first} {density}. The average {_average(study)} of each site {were} aligned in mean and "
        f"standard deviation to {target}, {way}; the map of a site was applied to all its scans "
        f"after the alignment of each to zero mean and unit standard deviation"
    )
    if not study.mode.per_scan:
        return f"{by_site}.{last}"
    goal = study.target_rule.phrase("the same reference")
    return (
        f"{by_site}; the result of each scan was matched once more, in the same way, to "
        f"{goal}.{last}"
    )


def cited(study: Study, masks: Collection[str], prepared: Sequence[Steps] = ()) -> str:
    """Return what to cite, as BibTeX; parameters as for `methods_paragraph`."""
    works = [study.method.bibtex, *([BIBTEX] if BRAIN in masks else []), *_works_for(prepared)]
    works += [BALANCING] if study.options.balance else []
    return "\n\n".join(dict.fromkeys(works))


def _preset(study: Study) -> str:
    if study.preset is None:
        return ""
    because = f", because {study.preset.past}" if study.preset.reason else ""
    return f" Settings followed the preset {study.preset.name!r} of ndflow{because}."


def _balance(study: Study, record: StudyRecord) -> str:
    names = study.options.balance
    if not names:
        return ""
    text = (
        f" In these averages, the scans of each site were weighted by entropy balancing "
        f"(Hainmueller, 2012), so that all sites had the same {_joined(names)} on average"
    )
    reach = {site: own.reach for site, own in record.balance.items()}
    near = [site for site in reach if reach[site] == "approximate"]
    full = [site for site in reach if reach[site] == "means and variances"]
    text += f", and the same variance of numbers at {_joined(full)}" if full[1:] else ""
    text += f"; at {_joined(near)} only approximately" if near else ""
    text += f" (effective numbers of scans: {_effective(record)})" if record.balance else ""
    unknown = sum(own.unknown for own in record.balance.values())
    without = f" {plural(unknown, 'scan')} without these covariates had no part in them."
    return f"{text}.{without if unknown else ''}"


def _joined(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _effective(record: StudyRecord) -> str:
    return ", ".join(
        f"{site} {own.effective:.1f} of {own.scans}" for site, own in record.balance.items()
    )


def _lesions(study: Study) -> str:
    count = sum(scan.lesion is not None for scan in study.scans)
    if not count:
        return ""
    return (
        f" Lesions were outlined in {plural(count, 'image')}; their voxels were excluded from all "
        f"estimates, but mapped like the others."
    )


def _average(study: Study) -> str:
    return "density" if study.options.average == "density" else "quantiles"


def _reference(study: Study, fitted: int | None, scans: int) -> str:
    if study.given:
        return "a given reference"
    among = "all" if fitted in (None, scans) else f"{fitted}"  # some may have failed afterwards
    return f"the average {_average(study)} of {among} aligned scans"


def _units(study: Study) -> str:
    scale = study.options.scale
    if scale is not None and scale in SCALES:
        mean, sd = SCALES[scale]
        return (
            f" Results are in units in which the reference has a mean of {mean:g} and a standard "
            f"deviation of {sd:g}."
        )
    if study.options.range is None:
        return ""
    low, high = study.options.range
    return (
        f" Results are in units in which the 0.1st and 99.9th percentiles of the reference lie at "
        f"{low:g} and {high:g}."
    )


def _prepared(prepared: Sequence[Steps], scans: int) -> str:
    """Return sentences about how scans were prepared; nothing if nothing was done to any.

    Parameters
    ----------
    prepared : how, for each scan that was prepared.
    scans : how many there are in all.

    Examples
    --------
    >>> _prepared([{"mask": "brain", "bias field": "left", "tissues": "none"}], 3)
    ' Before, scans were prepared: brains were found by deepbet (Fisch et al. 2024) (1 scan).'
    """
    parts = []
    for (step, way), (text, _) in _DONE.items():
        count = sum(steps.get(step) == way for steps in prepared)
        if count:
            parts.append(text if count == scans else f"{text} ({plural(count, 'scan')})")
    return f" Before, scans were prepared: {'; '.join(parts)}." if parts else ""


def _works_for(prepared: Sequence[Steps]) -> list[str]:
    """Return what to cite for the preparation, as entries of BibTeX."""
    return [
        work
        for (step, way), (_, works) in _DONE.items()
        if any(steps.get(step) == way for steps in prepared)
        for work in works
    ]
