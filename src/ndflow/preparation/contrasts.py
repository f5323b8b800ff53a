"""What an image shows, by the end of its name: ``_T1w``, ``_FLAIR``, ``-T2``.

Brains are found in T1w images only, and everything else needs a mask. That includes two suffixes of
BIDS for images that are T1-weighted as well, on which deepbet has not been tested: ``UNIT1``
(MP2RAGE), whose background is noise of full brightness, and ``inplaneT1``, a few slices.
"""

from __future__ import annotations

import re
from pathlib import PurePath

__all__ = ["T1W", "contrast_called", "contrast_in_name", "ending_of", "is_other_contrast"]

T1W = "T1w"

# The suffixes of BIDS, and what others call the same.
_WORDS = """
T1w T1, T2w T2, PDw PD, T2starw T2star, PDT2 PDT2w, FLAIR, FLASH, UNIT1, inplaneT1, inplaneT2,
angio MRA, T1map, T2map, T2starmap, PDmap, T1rho, R1map, R2map, R2starmap, dwi DTI, ADC, FA, MD,
bold, cbv, sbref, epi, asl, m0scan, perf, swi, magnitude, magnitude1, magnitude2, phase, phase1,
phase2, phasediff, fieldmap, pet, ct
"""
_CONTRASTS = {
    word.lower(): names.split()[0] for names in _WORDS.split(",") for word in names.split()
}
_LABELS = re.compile("(sub|ses)-[^-]*", re.IGNORECASE)  # whose end is the name of somebody


def ending_of(name: str) -> str:
    """Return the last word of a name, if it is that of a contrast; otherwise nothing.

    >>> ending_of("IXI002-Guys-0828-T2.nii.gz"), ending_of("sub-PD.nii")
    ('T2', '')
    """
    last = name.partition(".")[0].rpartition("_")[2]
    word = last if _LABELS.fullmatch(last) else last.rpartition("-")[2]
    return word if word.lower() in _CONTRASTS else ""


def contrast_in_name(path: str) -> str | None:
    """Return what an image shows by its name, as a suffix of BIDS; None if that does not say.

    >>> contrast_in_name("IXI002_T2.nii"), contrast_in_name("scan.nii")
    ('T2w', None)
    """
    return _CONTRASTS.get(ending_of(PurePath(path).name).lower())


def contrast_called(word: str) -> str:
    """Return what BIDS calls a contrast; an unknown one stays as it is.

    >>> contrast_called("T1"), contrast_called("MTR")
    ('T1w', 'MTR')
    """
    return _CONTRASTS.get(word.lower(), word)


def is_other_contrast(word: str) -> bool:
    """Tell whether a word, such as ``T2``, means images that are not T1w."""
    return _CONTRASTS.get(word.lower(), T1W) != T1W
