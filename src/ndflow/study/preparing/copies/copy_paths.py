"""What aligned copies are called: like the prepared image, with entities ``space`` and ``res``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ndflow.preparation.rigid import TEMPLATE_SPACE
from ndflow.scan.outputs import sidecar_of

__all__ = ["CopyPaths", "copy_paths"]

_IMAGE = "_desc-preproc_"
_OTHER_GRID = re.compile("_(?:space|cohort|res|den)-[0-9A-Za-z]+")  # that of the scan


class CopyPaths(NamedTuple):
    """Where the files of an aligned copy go; not every copy has all of them.

    Attributes
    ----------
    image, mask, csf, gm, wm, lesion : as of the prepared scan.
    sidecar : the JSON that describes the image and all that was made with it.
    masks_json, maps_json : what BIDS wants to know about masks, and about tissue probability maps.
    """

    image: Path
    sidecar: Path
    mask: Path
    csf: Path
    gm: Path
    wm: Path
    lesion: Path
    masks_json: Path
    maps_json: Path

    @property
    def tissues(self) -> tuple[Path, Path, Path]:
        """The tissue probability maps."""
        return self.csf, self.gm, self.wm


def copy_paths(image: Path, resolution: float) -> CopyPaths:
    """Return where the aligned copy of a prepared image goes.

    Parameters
    ----------
    image : the prepared image.
    resolution : of the copy, in mm. A label of BIDS has no point: 1.5 mm are ``res-1p5``.

    Examples
    --------
    >>> copy_paths(Path("sub-01_desc-preproc_T1w.nii.gz"), 1.5).mask.name
    'sub-01_space-MNI152NLin2009aSym_res-1p5_desc-brain_mask.nii.gz'
    """
    stem, _, end = image.name.partition(_IMAGE)
    label = f"{resolution:g}".replace(".", "p")
    start = f"{_OTHER_GRID.sub('', stem)}_space-{TEMPLATE_SPACE}_res-{label}"
    copy = image.with_name(f"{start}{_IMAGE}{end}")
    return CopyPaths(
        copy,
        sidecar_of(copy),
        image.with_name(f"{start}_desc-brain_mask.nii.gz"),
        image.with_name(f"{start}_label-CSF_probseg.nii.gz"),
        image.with_name(f"{start}_label-GM_probseg.nii.gz"),
        image.with_name(f"{start}_label-WM_probseg.nii.gz"),
        image.with_name(f"{start}_label-lesion_mask.nii.gz"),
        image.with_name(f"{start}_mask.json"),
        image.with_name(f"{start}_probseg.json"),
    )
