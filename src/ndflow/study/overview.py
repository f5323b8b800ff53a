"""What was understood of a table, a folder or a dataset, to be read before any work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ndflow.image.mask import AUTO, BRAIN, to_be_found
from ndflow.image.subject import Subject
from ndflow.study.plan import Preparation, Study
from ndflow.values import plural

_WIDTH = 80  # of a list of names
_NONE = "none"


def overview(
    plan: Study | Preparation, unused: Mapping[str, str], skipped: Mapping[str, int]
) -> dict[str, str]:
    """Return what is known about the scans of a study or a preparation, in words.

    Parameters
    ----------
    plan : what is to be done.
    unused : columns that are not used, and why.
    skipped : how many images were left out, by reason.

    Returns
    -------
    dict
        What is known about sites, masks, maps and covariates, by what it is about.
    """
    raw = plan.preparation if isinstance(plan, Study) else plan
    scans = plan.scans if raw is None else raw.scans
    covariates = sorted({name for scan in scans for name in scan.covariates} - unused.keys())
    about = {
        "sites": _sites(plan),
        "brain masks": _masks(scans) if raw is None else _masks_of_raw(raw),
        "lesion masks": _of(sum(scan.lesion is not None for scan in scans), scans),
        **({} if raw is None else {"bias fields": _bias_fields(raw)}),
        "tissue maps": _tissue_maps(plan),
        "covariates": _listed(covariates) or _NONE,
    }
    if raw is not None and raw.preparing.resolution is not None:
        about["copies"] = f"in the space of the template, {raw.preparing.resolution:g} mm"
    if isinstance(plan, Study):
        names = ", ".join(plan.options.balance)
        weighted = f", weighted so that sites are alike in {names}" if names else ""
        about["reference"] = plan.given or f"made from these scans{weighted}"
        if plan.preset is not None:
            about["preset"] = plan.preset.text
    if unused:
        about["not used"] = ", ".join(
            f"{', '.join(name for name in unused if unused[name] == why)} ({why})"
            for why in dict.fromkeys(unused.values())
        )
    if skipped:
        about["skipped"] = described(skipped)
    return about


def described(counts: Mapping[str, int]) -> str:
    """Return how many there are of each, as part of a sentence."""
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))


def _sites(study: Study | Preparation) -> str:
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
    given = len(scans) - found.total() - without
    parts = {
        "{} given": given,
        "{} to be found by deepbet": found[BRAIN],
        "{} to be found automatically": found[AUTO],
        "{} without (all voxels but 0 count)": without,
    }
    if without == len(scans):
        return "none (all voxels but 0 count)"
    return ", ".join(text.format(number) for text, number in parts.items() if number)


def _tissue_maps(plan: Study | Preparation) -> str:
    if isinstance(plan, Preparation):
        return _tissue_maps_of_raw(plan)
    if plan.preparation is not None:
        return _tissue_maps_of_raw(plan.preparation)
    complete = sum(scan.tissues.complete for scan in plan.scans)
    partly = sum(any(scan.tissues) for scan in plan.scans) - complete
    text = _of(complete, plan.scans)
    if partly:
        text += f"; {plural(partly, 'scan')} with one or two of csf, gm and wm only"
    if complete and not plan.target_rule.uses_tissue_maps:
        text += "; for the evaluation only (--proportions tissue uses them)"
    return text


def _masks_of_raw(plan: Preparation) -> str:
    if plan.preparing.mask == "nonzero":
        return _masks(plan.scans)
    return _masks([replace(scan, mask=scan.mask or BRAIN) for scan in plan.scans])


def _bias_fields(plan: Preparation) -> str:
    return "left as they are" if plan.preparing.no_bias_field else "to be corrected by N4"


def _tissue_maps_of_raw(plan: Preparation) -> str:
    parts = {
        "{} given": sum(plan.keeps_tissues(scan) for scan in plan.scans),
        "{} to be found": sum(plan.finds_tissues(scan) for scan in plan.scans),
    }
    return ", ".join(text.format(number) for text, number in parts.items() if number) or _NONE


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
