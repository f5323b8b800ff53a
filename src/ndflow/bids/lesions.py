"""Lesion masks in a BIDS dataset or its derivatives.

BIDS has changed what they are called, and people call them what their tools want, so all of these
are lesion masks of ``sub-01_T1w``:

    sub-01_label-lesion_mask   sub-01_desc-lesion_mask   sub-01_desc-T1lesion_mask
    sub-01_label-lesion_roi    sub-01_lesion_roi         sub-01_roi
    sub-01_T1w_label-lesion_roi                          sub-01_T1w_lesion_mask

A region of interest with another label (``label-hippocampus_roi``) is not, nor are those of what is
around a lesion (``desc-perilesion_mask``), or of another image (``sub-01_FLAIR_label-lesion_roi``,
``sub-01_desc-FLAIRlesion_mask``). The other entities decide which scan it is of, as
those of brain masks do (`ndflow.bids.masks`).
"""

from __future__ import annotations

from ndflow.bids.names import IMAGES, Entities, pairs_of

__all__ = ["lesion_entities"]

_LESION = "lesion"
_KINDS = ("mask", "roi")


def lesion_entities(name: str, suffix: str) -> Entities | None:
    """Return the entities of a lesion mask; None for other files, and masks of other images.

    Parameters
    ----------
    name : of the file.
    suffix : the kind of images that it should be of, such as ``T1w``.

    Examples
    --------
    >>> lesion_entities("sub-01_run-1_T1w_label-lesion_roi.nii.gz", "T1w")
    {'sub': '01', 'run': '1', 'label': 'lesion'}
    >>> lesion_entities("sub-01_desc-brain_mask.nii.gz", "T1w") is None
    True
    """
    if not name.endswith(IMAGES):
        return None
    *parts, kind = name.partition(".")[0].split("_")
    entities, words = pairs_of(parts)
    if kind not in _KINDS or "sub" not in entities or not {*words} <= {suffix, _LESION}:
        return None
    if entities.pop("mod", suffix) != suffix:
        return None
    label, desc = (entities.get(key, "").lower() for key in ("label", "desc"))
    described = {f"{word}{_LESION}" for word in ("", suffix.lower(), suffix.lower().rstrip("w"))}
    says = _LESION in words or label == _LESION or desc in described
    silent = kind == "roi" and not label and not desc
    return entities if says or silent else None
