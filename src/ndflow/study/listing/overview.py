"""What was understood of a table, a folder or a dataset, to be read before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ndflow.image.scans import Scan, is_auto
from ndflow.study.plan import Study
from ndflow.values import plural

__all__ = ["described", "overview"]

_WIDTH = 80  # of a list of names
_NONE = "none"


def overview(study: Study, unused: Mapping[str, str], skipped: Mapping[str, int]) -> dict[str, str]:
    """Return what is known about the scans of a study, in words.

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
    scans = study.scans
    covariates = sorted({name for scan in scans for name in scan.covariates} - unused.keys())
    about = {
        "sites": _sites(study),
        "brain masks": _masks(scans),
        "lesion masks": _of(sum(scan.lesion is not None for scan in scans), scans),
        "tissue maps": _tissue_maps(study),
        "covariates": _listed(covariates) or _NONE,
        "reference": study.given or "made from these scans",
    }
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


def _sites(study: Study) -> str:
    counts = study.site_counts
    without = len(study.scans) - sum(counts.values())
    if not counts:
        return _NONE
    largest = sorted(counts, key=lambda site: (-counts[site], site))
    parts = _listed([f"{site} {counts[site]}" for site in largest])
    unknown = f"; not known for {plural(without, 'scan')}" if without else ""
    return f"{len(counts)} ({parts}){unknown}"


def _masks(scans: Sequence[Scan]) -> str:
    automatic = sum(is_auto(scan.mask) for scan in scans)
    without = sum(scan.mask is None for scan in scans)
    given = len(scans) - automatic - without
    parts = {
        "{} given": given,
        "{} to be found automatically": automatic,
        "{} without (all voxels but 0 count)": without,
    }
    if without == len(scans):
        return "none (all voxels but 0 count)"
    return ", ".join(text.format(number) for text, number in parts.items() if number)


def _tissue_maps(study: Study) -> str:
    complete = sum(scan.tissues.complete for scan in study.scans)
    partly = sum(any(scan.tissues) for scan in study.scans) - complete
    text = _of(complete, study.scans)
    if partly:
        text += f"; {plural(partly, 'scan')} with one or two of csf, gm and wm only"
    if complete and not study.target_rule.uses_tissue_maps:
        text += "; for the evaluation only (--target tissue uses them)"
    return text


def _of(number: int, scans: Sequence[Scan]) -> str:
    return f"{number} of {plural(len(scans), 'scan')}" if number else _NONE


def _listed(names: Sequence[str]) -> str:
    """Return names separated by commas, as many as fit."""
    shown: list[str] = []
    for name in names:
        if shown and len(", ".join([*shown, name])) > _WIDTH:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)
