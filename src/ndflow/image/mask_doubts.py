"""Whether a mask is one of a brain: the bounds, and their reasons.

They are about human brains. Objects of less than 200 ml, such as phantoms and the brains of most
animals, are not judged by their size or their rim. What was measured is in
``docs/guides/masks.md``.
"""

from __future__ import annotations

from ndflow.doubt import Doubt
from ndflow.image.mask_figures import MaskFigures

__all__ = ["LARGEST", "SMALLEST", "TOO_SMALL", "TOO_WIDE", "mask_doubts"]

LARGEST = 2000.0  # ml: intracranial volumes of adults are 1000 to 2000, heads 3000 and more
SMALLEST = 600.0  # ml: that of a child of six months
_HEAD_FITS = 2000.0  # ml: a field of view that a head would fit into
_JUDGED = 200.0  # ml
_RIM = 0.5  # between CSF, 0.3, and cortex, 0.7: darker means more than half CSF, or bone
_FOUND_RIM = 0.4  # of masks that deepbet found, which hold all CSF: had 0.45 to 0.61
_FACES = 0.1  # of a face: a sphere as large as a brain that lacks 5 mm on one side
_NOISE = 0.1  # of the voxels outside: 0 where the skull was removed, 0.3 and more around heads
_ZEROS = 0.03  # 3 % of zeros, 2.5 sd from the mean, move it by 0.08 sd
_PIECES = 0.9  # the cerebellum is a tenth of the brain

TOO_WIDE = (
    "mask too wide",
    "look at the mask on top of the scan, and give one of the brain alone (--mask, or the column "
    "mask of the table)",
)
TOO_SMALL = (
    "mask too small",
    "look at the mask on top of the scan: parts of the brain may be missing",
)
_HEAD = (
    "whole head",
    "give a mask of the brain (--mask, or the column mask of the table), or let --mask brain find "
    "it in a T1w image; --mask auto finds the head, not the brain",
)
_ZERO = (
    "zeros inside the mask",
    "check that the mask belongs to this image, and is not wider than what the image shows",
)
_IN_PIECES = ("mask in pieces", "look at the mask, and keep its largest piece")
_CUT = (
    "mask touches the border",
    "check that the image shows the whole brain, and that the mask ends with it",
)


def mask_doubts(figures: MaskFigures, *, given: bool, found: bool = False) -> tuple[Doubt, ...]:
    """Return what is doubtful about a mask.

    Parameters
    ----------
    figures : what was measured.
    given : whether it is a mask of the brain, which the user gave or deepbet found, and not all
        voxels but 0 or the foreground.
    found : whether deepbet found it.

    Examples
    --------
    >>> head = MaskFigures(0.4, 0.2, 0.0, 1.0, 0.5, volume=3500.0, field_of_view=9000.0)
    >>> [doubt.kind for doubt in mask_doubts(head, given=False)]
    ['whole head']
    """
    doubts = [*_size(figures, given, _FOUND_RIM if found else _RIM)]
    if figures.zeros > _ZEROS:
        doubts.append((_ZERO, f"{figures.zeros:.1%} of the voxels inside the mask are 0"))
    if figures.volume is not None and figures.volume >= _JUDGED and figures.largest < _PIECES:
        text = f"The largest piece of the mask is {figures.largest:.0%} of it"
        doubts.append((_IN_PIECES, text))
    return tuple(Doubt(kind, f"{text}.", hint) for (kind, hint), text in doubts)


def _size(figures: MaskFigures, given: bool, darkest: float) -> list[tuple[tuple[str, str], str]]:
    """Return at most one doubt about what the mask covers, and one where it is cut off.

    A rim that is darker than `darkest` is one.
    """
    volume, field = figures.volume, figures.field_of_view
    if volume is None or field is None:
        return []
    holds = f"{'The mask holds' if given else 'The voxels that count are'} {volume:,.0f} ml"
    reaches = f"up to {figures.faces:.0%} of a face of the image"
    cut = figures.faces > _FACES
    if volume > LARGEST:
        text = f"{holds}, but a brain with all its CSF at most {LARGEST:,.0f} ml"
        return [(TOO_WIDE if given else _HEAD, text)]
    if volume < SMALLEST and field >= _HEAD_FITS:
        return [(TOO_SMALL, f"{holds}, but a brain at least {SMALLEST:,.0f} ml")]
    if not given and cut and volume >= SMALLEST:
        return [(_HEAD, f"{holds}, and cover {reaches}, which a brain does not")]
    if not given and figures.noise > _NOISE and volume >= _JUDGED:
        return [(_HEAD, f"{holds}, and there is noise around, so the skull was not removed")]
    found = []
    if volume >= _JUDGED and figures.rim is not None and figures.rim < darkest:
        text = f"The outermost 4 mm of the mask have {figures.rim:.0%} of the signal inside"
        found.append((TOO_WIDE, f"{text}, so they seem to hold bone or background"))
    if volume >= _JUDGED and cut:
        found.append((_CUT, f"The mask covers {reaches}"))
    return found
