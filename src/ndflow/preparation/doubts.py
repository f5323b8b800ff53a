"""What is doubtful about a prepared scan: the bounds, and their reasons.

They are about human brains at any age beyond six months: each is far from what healthy people,
atrophy or large lesions do to a brain, and is reached when a mask, a header or a registration is
wrong. What was measured is in ``docs/guides/preparation.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ndflow.doubt import Doubt
from ndflow.image.mask_doubts import LARGEST, SMALLEST, TOO_SMALL, TOO_WIDE
from ndflow.preparation.prepare_volume import Measures

__all__ = ["preparation_doubts"]

_OVERLAP = 0.91  # Dice; brains had 0.95 and more, with large lesions 0.92, halves below 0.9
_LIKENESS = 0.42  # brains had 0.58 and more, with large lesions 0.47, those upside down below 0.35
_BIAS = 4.0  # largest by smallest; raw heads at 3 T had up to 1.8, and stronger magnets have more
# Of the brain. Raw heads of adults had 0.20 to 0.23 of CSF, 0.45 to 0.49 of GM, 0.30 to 0.32 of WM.
# The bounds are a judgement, wide enough for children and for atrophy.
_SHARES = {
    "CSF": (0.02, 0.5),  # more than half: a mask of the head had 0.53
    "GM": (0.25, 0.75),
    "WM": (0.12, 0.6),  # where contrast is lost, one of GM and WM takes the voxels of both
}

_UNFIT = (
    "template does not fit",
    "look at its picture: does the mask hold the whole brain, and nothing else?",
)
_UNLIKE = (
    "unlike the template",
    "look at its picture: is the head upright, and is the mask that of this scan? If not, correct "
    "the header or the mask; tissue probability maps of other contrasts than T1w must be given",
)
_TISSUES = (
    "unusual tissues",
    "look at the borders in its picture: do they follow the tissues?",
)
_FIELD = (
    "strong bias field",
    "compare both rows of its picture; if contrast was lost, prepare it with --no-bias-field",
)


def preparation_doubts(measures: Measures) -> tuple[Doubt, ...]:
    """Return what is doubtful about a prepared scan.

    Parameters
    ----------
    measures : what was measured.

    Examples
    --------
    >>> [doubt.kind for doubt in preparation_doubts(Measures(730.0, overlap=0.88))]
    ['template does not fit']
    """
    return tuple(
        Doubt(kind, f"{text}.", hint)
        for (kind, hint), text in (*_of_mask(measures), *_of_template(measures), *_rest(measures))
    )


def _of_mask(measures: Measures) -> Iterator[tuple[tuple[str, str], str]]:
    holds = f"The mask holds {measures.brain_ml:,.0f} ml"
    if measures.brain_ml > LARGEST:
        yield TOO_WIDE, f"{holds}, but a brain with all its CSF at most {LARGEST:,.0f} ml"
    if measures.brain_ml < SMALLEST:
        yield TOO_SMALL, f"{holds}, but a brain at least {SMALLEST:,.0f} ml"


def _of_template(measures: Measures) -> Iterator[tuple[tuple[str, str], str]]:
    overlap, likeness = measures.overlap, measures.likeness
    if overlap is not None and overlap < _OVERLAP:
        text = f"The deformed template and the mask have a Dice coefficient of {overlap:.2f}"
        yield _UNFIT, f"{text}, but brains at least {_OVERLAP:.2f}"
    if likeness is not None and likeness < _LIKENESS:
        text = f"The deformed template and the scan have a correlation of {likeness:.2f}"
        yield _UNLIKE, f"{text}, but brains at least {_LIKENESS:.2f}"


def _rest(measures: Measures) -> Iterator[tuple[tuple[str, str], str]]:
    if measures.tissues_ml is not None and sum(measures.tissues_ml) > 0:
        shares = (ml / sum(measures.tissues_ml) for ml in measures.tissues_ml)
        odd = [
            f"{share:.0%} of the brain is {tissue}, where {low:.0%} to {high:.0%} would be usual"
            for (tissue, (low, high)), share in zip(_SHARES.items(), shares, strict=True)
            if not low <= share <= high
        ]
        if odd:
            yield _TISSUES, ", and ".join(odd)
    if measures.field is not None:
        least, most = measures.field
        if most > _BIAS * least:
            text = f"The bias in the brain goes from {least:.2f} to {most:.2f}"
            yield _FIELD, f"{text}, by a factor of more than {_BIAS:.0f}"
