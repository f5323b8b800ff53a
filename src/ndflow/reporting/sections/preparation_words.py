"""How scans were prepared, in words for the methods of a paper, and what to cite for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ndflow.preparation.brain_mask import BIBTEX
from ndflow.study.plan import Study
from ndflow.study.preparing.preparation_of import preparation_of
from ndflow.study.preparing.raw_scan import choices_for
from ndflow.values import plural

__all__ = ["Steps", "prepared_words", "steps_of", "works_for"]

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


def steps_of(study: Study) -> list[Steps]:
    """Return how the scans of a study were prepared by ndflow, or will be; others are left out."""
    plan = study.preparation
    raw = {} if plan is None else {scan.name: choices_for(plan, scan).steps for scan in plan.scans}
    found: list[Steps] = []
    for scan in study.scans:
        known = None if scan.name in raw else preparation_of(scan.path)
        if scan.name in raw:
            found.append(raw[scan.name])
        elif known is not None:
            found.append(known.record.steps)
    return found


def prepared_words(prepared: Sequence[Steps], scans: int) -> str:
    """Return sentences about how scans were prepared; nothing if nothing was done to any.

    Parameters
    ----------
    prepared : how, for each scan that was prepared.
    scans : how many there are in all.

    Examples
    --------
    >>> prepared_words([{"mask": "brain", "bias field": "left", "tissues": "none"}], 3)
    ' Before, scans were prepared: brains were found by deepbet (Fisch et al. 2024) (1 scan).'
    """
    parts = []
    for (step, way), (text, _) in _DONE.items():
        count = sum(steps.get(step) == way for steps in prepared)
        if count:
            parts.append(text if count == scans else f"{text} ({plural(count, 'scan')})")
    return f" Before, scans were prepared: {'; '.join(parts)}." if parts else ""


def works_for(prepared: Sequence[Steps]) -> list[str]:
    """Return what to cite for the preparation, as entries of BibTeX."""
    return [
        work
        for (step, way), (_, works) in _DONE.items()
        if any(steps.get(step) == way for steps in prepared)
        for work in works
    ]
