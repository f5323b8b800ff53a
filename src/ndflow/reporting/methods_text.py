"""What was done in a study, in words, for its page and the methods of a paper; what to cite."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files

from ndflow._version import __version__
from ndflow.population.balancing import BIBTEX as BALANCING
from ndflow.preparation.brain import BIBTEX as DEEPBET
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

# What was done, by a step and what its record says; and the works that it is built on.
_DONE = {
    ("mask", "brain"): ("brains were found by deepbet (Fisch et al. 2024)", ["fisch2024"]),
    ("bias field", "corrected"): (
        "bias fields were estimated inside the brain by N4 (Tustison et al. 2010) and divided out",
        ["tustison2010"],
    ),
    ("tissues", "found"): (
        "probabilities of CSF, GM and WM were estimated from intensities by expectation "
        "maximisation with tissue priors (Ashburner and Friston 2005), those of the ICBM152 "
        "template (Fonov et al. 2011), deformed to each scan by ANTs SyN (Avants et al. 2008)",
        ["ashburner2005", "fonov2011", "avants2008"],
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
    words = [f"method {options.method}", f"mode {study.mode.name}", *study.method.options(options)]
    if not study.given or study.mode.by_site:
        words.append(f"average {options.average}")
    if options.balance:
        words.append(f"balance {' '.join(options.balance)}")
    words.append(f"effective count {options.effective_count:g}")
    if options.range is not None:
        words.append(f"range {options.range[0]:g} to {options.range[1]:g}")
    last = {"scale": options.scale, "outside": options.outside, "dtype": options.dtype}
    return [*words, *(f"{name} {value}" for name, value in last.items() if value)]


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
    density = (
        f"The histogram of each scan {where}{' ' if where else ''}was modelled as a "
        f"Dirichlet-process Gaussian mixture by variational inference"
    )
    average, were = ("density", "was") if options.average == "density" else ("quantiles", "were")
    among = "all" if record.fitted in (None, scans) else record.fitted  # some may have failed since
    target = f"the average {average} of {among} aligned scans"
    target = "a given reference" if study.given else target
    if not study.mode.by_site:
        goal = study.target_rule.phrase(target)
        return f"{first} {density}, aligned in mean and standard deviation to {goal}, {way}.{last}"
    by_site = (
        f"{first} {density}. The average {average} of each site {were} aligned in mean and "
        f"standard deviation to {target}, {way}; the map of a site was applied to all its scans "
        f"after the alignment of each to zero mean and unit standard deviation"
    )
    if study.mode.per_scan:
        goal = study.target_rule.phrase("the same reference")
        by_site += f"; the result of each scan was matched once more, in the same way, to {goal}"
    return f"{by_site}.{last}"


def cited(study: Study, masks: Collection[str], prepared: Sequence[Steps] = ()) -> str:
    """Return what to cite, as BibTeX; parameters as for `methods_paragraph`."""
    done = {step for steps in prepared for step in steps.items()}
    done |= {("mask", mask) for mask in masks}
    text = files("ndflow.reporting").joinpath("templates", "preparation.bib").read_text("utf-8")
    entries = [DEEPBET, *text.strip().split("\n\n")]
    by_key = {re.split("[{,]", entry, maxsplit=2)[1]: entry for entry in entries}
    works = [by_key[key] for step, (_, keys) in _DONE.items() if step in done for key in keys]
    balancing = [BALANCING] if study.options.balance else []
    return "\n\n".join([study.method.bibtex, *works, *balancing])


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
    counts = Counter(step for steps in prepared for step in steps.items())
    parts = [
        text if counts[step] == scans else f"{text} ({plural(counts[step], 'scan')})"
        for step, (text, _) in _DONE.items()
        if counts[step]
    ]
    return f" Before, scans were prepared: {'; '.join(parts)}." if parts else ""
