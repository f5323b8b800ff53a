"""What was done in a study, in words, for its page and the methods of a paper; what to cite."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ndflow.image.subject import ANY_CHANNEL, contrast_called, contrast_in_name
from ndflow.reporting.page import template
from ndflow.study.finished import FinishedStudy
from ndflow.study.plan import Study
from ndflow.study.references import visits_of
from ndflow.study.weights import PEOPLE
from ndflow.subject.records import StudyRecord
from ndflow.subject.target import SCALES, is_builtin
from ndflow.values import JSON, plural

_MASKS = {
    "given": "inside its mask",
    "auto": "inside its foreground, found automatically,",
    "brain": "inside its brain mask, found by deepbet (Fisch et al., 2024),",
    "nonzero": "over all non-zero voxels",
}
_MOST_SITES = 12  # that are named
_WEIGHTED = re.compile("(?<=T1|T2|PD)w$")
Steps = Mapping[str, str]  # of one scan, as its sidecar names them

# What was done, by a step and what its record says; and the works that it is built on.
_DONE = {
    ("mask", "brain"): ("brains were found by deepbet (Fisch et al., 2024)", ["fisch2024"]),
    ("bias field", "corrected"): (
        "bias fields were estimated inside the brain by N4 (Tustison et al., 2010) and divided out",
        ["tustison2010"],
    ),
    ("tissues", "found"): (
        "probabilities of CSF, GM and WM were estimated from intensities by expectation "
        "maximisation with tissue priors (Ashburner and Friston, 2005), those of the ICBM152 "
        "template (Fonov et al., 2011), deformed to each scan by greedy (Yushkevich et al., 2016)",
        ["ashburner2005", "fonov2011", "yushkevich2016"],
    ),
    ("channels", "registered"): (
        "other contrasts were rigidly registered with the T1w image by greedy (mutual information)",
        ["yushkevich2016"],
    ),
}


def facts(record: StudyRecord, **own: str) -> list[tuple[str, str]]:
    """Return what was run, as pairs of a name and a value; empty ones are left out."""
    settings = [
        f"{name.replace('_', ' ')} {_value(one)}"
        for name, one in record.settings.items()
        if one not in (None, [])
    ]
    known = {
        "Command": shlex.join(record.command),
        **own,
        "Preset": record.preset.text if record.preset else "",
        "Settings": ", ".join(settings),
        "Balance": _effective(record),
        "Versions": ", ".join(f"{name} {number}" for name, number in record.versions.items()),
    }
    return [(name.replace("_", " "), text) for name, text in known.items() if text]


def study_facts(run: FinishedStudy, failed: int) -> list[tuple[str, str]]:
    """Return what was run in a study; `failed` counts scans."""
    study, record = run.study, run.record
    named = [f"{name} ({count})" for name, count in study.site_counts.items()]
    fitted = record.done.get("fit", len(study.scans))
    fitted -= sum(own.unknown for own in record.balance.values())
    lesions = sum(scan.lesion is not None for scan in study.scans)
    return facts(
        record,
        Scans=f"{len(study.scans)} normalised, {failed} failed",
        Sites=", ".join(named) or "not named",
        Lesion_masks=f"of {plural(lesions, 'scan')}" if lesions else "",
        Images="not named" if study.channel == ANY_CHANNEL else study.channel,
        Reference="given" if study.given else f"made from {fitted} scans",
    )


def _value(one: JSON) -> str:
    return " ".join(map(str, one)) if isinstance(one, list) else str(one)


def methods_paragraph(
    run: FinishedStudy, masks: Collection[str], prepared: Sequence[Steps] = ()
) -> str:
    """Return a paragraph for the methods section of a paper.

    Parameters
    ----------
    run : what was done.
    masks : how voxels were chosen, as the sidecars say: ``given``, ``auto``, ``brain``,
        ``nonzero``.
    prepared : how scans were prepared, for each that was prepared by ndflow.
    """
    from jinja2 import Environment, StrictUndefined

    study, record = run.study, run.record
    counts = Counter(step for steps in prepared for step in steps.items())
    environment = Environment(undefined=StrictUndefined)  # the page escapes what it shows
    text = environment.from_string(template("methods.txt.jinja")).render(
        study=study,
        record=record,
        sites=study.site_counts,
        most=_MOST_SITES,
        kind=_contrast(study),
        versions=[f"{name} {one}" for name, one in record.versions.items() if name != "ndflow"],
        builtin=is_builtin(record.reference or ""),
        voxels=[_MASKS[mask] for mask in sorted(masks) if mask in _MASKS],
        prepared=[(done, counts[step]) for step, (done, _) in _DONE.items() if counts[step]],
        effective=_effective(record),
        people=PEOPLE,
        repeated=visits_of(study, study.scans),
        scale=SCALES.get(study.options.scale or ""),
        plural=plural,
    )
    return " ".join(text.split())


def _contrast(study: Study) -> str:
    """Return what images show, in words with a blank behind; nothing if neither name nor user say.

    Names of all scans have to agree.
    """
    named = {contrast_in_name(scan.path) for scan in study.scans}
    if study.channel != ANY_CHANNEL:
        named = {contrast_called(study.channel)}
    (contrast,) = named if len(named) == 1 else {None}
    return f"{_WEIGHTED.sub('-weighted', contrast)} " if contrast else ""


def cited(study: Study, masks: Collection[str], prepared: Sequence[Steps] = ()) -> str:
    """Return what to cite, as BibTeX; parameters as for `methods_paragraph`."""
    done = {step for steps in prepared for step in steps.items()}
    done |= {("mask", mask) for mask in masks}
    entries = template("references.bib").strip().split("\n\n")
    by_key = {re.split("[{,]", entry, maxsplit=2)[1]: entry for entry in entries}
    works = [key for step, (_, keys) in _DONE.items() if step in done for key in keys]
    balancing = ["hainmueller2012"] if study.options.balance not in ((), PEOPLE) else []
    keys = dict.fromkeys((study.method.cites, *works, *balancing))
    return "\n\n".join(by_key[key] for key in keys)


def _effective(record: StudyRecord) -> str:
    return ", ".join(
        f"{site} {own.effective:.1f} of {own.scans}" for site, own in record.balance.items()
    )
