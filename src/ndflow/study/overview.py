"""What was understood of a table, a folder or a dataset, to be read before any work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ndflow.image.mask import AUTO, BRAIN, to_be_found
from ndflow.image.subject import Subject
from ndflow.study.plan import Study
from ndflow.study.prepare_step import PrepareStep
from ndflow.values import plural

_WIDTH = 80  # of a list of names
_NONE = "none"


def overview(study: Study, unused: Mapping[str, str], skipped: Mapping[str, int]) -> dict[str, str]:
    """Return what is known about the scans of a study or a preparation, in words.

    Parameters
    ----------
    study : what is to be done.
    unused : columns that are not used, and why.
    skipped : how many images were left out, by reason.

    Returns
    -------
    dict
        What is known about sites, masks, maps and covariates, by what it is about.
    """
    raw = study if study.preparing is not None else study.raw
    scans = study.scans if raw is None else raw.scans
    covariates = sorted({name for scan in scans for name in scan.covariates} - unused.keys())
    about = {"sites": _sites(study)}
    lesions = _of(sum(scan.lesion is not None for scan in scans), scans)
    if raw is None or raw.preparing is None:
        about |= {"brain masks": _masks(scans), "lesion masks": lesions}
        about["tissue maps"] = _tissue_maps(study)
    else:
        chosen = raw.preparing
        found = scans
        if chosen.mask == "brain":
            found = [replace(scan, mask=scan.mask or BRAIN) for scan in scans]
        about |= {"brain masks": _masks(found), "lesion masks": lesions}
        corrected = "left as they are" if chosen.no_bias_field else "to be corrected by N4"
        about["bias fields"] = corrected
        step = PrepareStep.of(raw)
        kinds = Counter(step.choices(scan).tissues for scan in scans)
        words = {"{} given": kinds["given"], "{} to be found": kinds["found"]}
        about["tissue maps"] = _counted(words)
        if chosen.resolution is not None:
            about["copies"] = f"in the space of the template, {chosen.resolution:g} mm"
    about["covariates"] = _listed(covariates) or _NONE
    if study.preparing is None:
        names = ", ".join(study.options.balance)
        weighted = f", weighted so that sites are alike in {names}" if names else ""
        about["reference"] = study.given or f"made from these scans{weighted}"
        if study.preset is not None and not study.partial:  # the group decides
            about["preset"] = study.preset.text
    if unused:
        about["not used"] = ", ".join(
            f"{', '.join(name for name in unused if unused[name] == why)} ({why})"
            for why in dict.fromkeys(unused.values())
        )
    if skipped:
        about["skipped"] = ", ".join(f"{number} {what}" for what, number in sorted(skipped.items()))
    return about


def _sites(study: Study) -> str:
    counts = study.site_counts
    without = len(study.scans) - sum(counts.values())
    if not counts:
        return _NONE
    largest = sorted(counts, key=lambda site: (-counts[site], site))
    parts = _listed([f"{site} {counts[site]}" for site in largest])
    unknown = f"; not known for {plural(without, 'scan')}" if without else ""
    return f"{len(counts)} ({parts}){unknown}"


def _masks(scans: Sequence[Subject]) -> str:
    found = Counter(str(scan.mask) for scan in scans if to_be_found(scan.mask))
    without = sum(scan.mask is None for scan in scans)
    if without == len(scans):
        return "none (all voxels but 0 count)"
    return _counted(
        {
            "{} given": len(scans) - found.total() - without,
            "{} to be found by deepbet": found[BRAIN],
            "{} to be found automatically": found[AUTO],
            "{} without (all voxels but 0 count)": without,
        }
    )


def _tissue_maps(study: Study) -> str:
    complete = sum(scan.tissues.complete for scan in study.scans)
    partly = sum(any(scan.tissues) for scan in study.scans) - complete
    text = _of(complete, study.scans)
    if partly:
        text += f"; {plural(partly, 'scan')} with one or two of csf, gm and wm only"
    if complete and not (study.target_rule.uses_tissue_maps and len(study.channels) == 1):
        text += "; for the evaluation only (--proportions tissue uses them)"
    return text


def _counted(words: Mapping[str, int]) -> str:
    return ", ".join(text.format(number) for text, number in words.items() if number) or _NONE


def _of(number: int, scans: Sequence[Subject]) -> str:
    return f"{number} of {plural(len(scans), 'scan')}" if number else _NONE


def _listed(names: Sequence[str]) -> str:
    """Return names separated by commas, as many as fit."""
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > _WIDTH:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)
