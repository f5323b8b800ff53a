"""The columns of a table of scans: those that are known, and what others may have been meant to be.

``image`` is required; ``subject``, ``site`` (or ``centre``, ``center``), ``mask``, ``lesion`` (or
``exclude``), ``gm``, ``wm`` and ``csf`` are known. Any other column is a covariate; but one that is
named almost like a known column, or that holds images, was probably meant to be used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.image.formats import kind_of

__all__ = ["FILES", "OURS", "TEXTS", "in_our_spelling", "is_image", "misunderstood", "nearest"]

FILES = ("image", "mask", "lesion", "gm", "wm", "csf")
TEXTS = ("subject", "site")
OURS = ("name", "output", "sidecar")  # columns of OUT/scans.tsv that we add

_ACCEPTED = {"centre": "site", "center": "site", "exclude": "lesion"}
_IMAGES = (".nii", ".mgh", ".hdr", ".img")
_CLOSE = 0.84  # "masks" is near "mask", but "task", "side" and "age" are near nothing
# What people call these columns elsewhere, in lower case, letters and digits only.
_ELSEWHERE = {
    "image": "img file filename filepath path scan nifti volume t1 t1w t2 t2w flair imagepath",
    "mask": "brainmask brain maskpath maskfile brainmaskpath bet skullstrip",
    "lesion": "lesionmask lesionpath exclusion excluded excludemask roi wmhmask tumour tumor",
    "gm": "greymatter graymatter grey gray gmmap gmprob gmpath gmmask c1 p1",
    "wm": "whitematter white wmmap wmprob wmpath wmmask c2 p2",
    "csf": "csfmap csfprob csfpath csfmask c3 p3",
    "subject": "sub subj subjectid participant participantid patient patientid id sid",
    "site": "scanner scannerid siteid sitename centreid centerid centrename hospital institution "
    "location studysite acquisitionsite",
}
_MEANT = {
    word: name for name, words in _ELSEWHERE.items() for word in (name, *words.split())
} | _ACCEPTED


def in_our_spelling(path: AnyPath, first: Sequence[str]) -> list[str]:
    """Return the names of the columns, in our spelling.

    Parameters
    ----------
    path : the table, for messages.
    first : the cells of its first row.
    """
    given = [name.strip() for name in first]
    known = (*FILES, *TEXTS)
    names = [
        _ACCEPTED.get(name.lower(), name.lower() if name.lower() in known else name)
        for name in given
    ]
    if "image" not in names:
        found = ", ".join(name for name in given if name) or "none"
        cause = f"row 1 names no column 'image' (its columns: {found})"
        meant = [name for name in given if nearest(name) == "image"]
        hint = (
            f"give --channels {' '.join(meant)} if these are channels, or rename one to 'image'"
            if len(meant) > 1
            else f"rename {meant[0]!r} to 'image'"
            if meant
            else "name the columns in the first row, tab- or comma-separated"
        )
        raise FileError(path, cause, hint)
    for name in names:
        if name and names.count(name) > 1:
            same = [other for other in _ACCEPTED if _ACCEPTED[other] == name]
            also = f" ({same[0]!r} is the same)" if same else ""
            raise FileError(path, f"row 1 names the column {name!r} twice{also}", "remove one")
    return names


def nearest(name: str) -> str | None:
    """Return the known column that another may have been meant to be; None if there is none.

    >>> nearest("Brain_Mask"), nearest("Scanner"), nearest("age")
    ('mask', 'site', None)
    """
    word = re.sub(r"[\W_]", "", name.lower())
    close = [word] if word in _MEANT else []
    if not close and len(word) > 3:
        close = get_close_matches(word, [one for one in _MEANT if len(one) > 3], 1, _CLOSE)
    return _MEANT[close[0]] if close else None


def is_image(cell: str) -> bool:
    """Tell whether a cell is the name of an image."""
    return kind_of(cell) in _IMAGES


def misunderstood(name: str, cells: Collection[str], known: Collection[str]) -> bool:
    """Tell whether a covariate looks as if it was meant to be something else.

    That is so if it holds images, or is named like a subject or a site that the table lacks. Other
    numbers and words, such as the volume of a lesion, are covariates whatever their name.

    Parameters
    ----------
    name : of the column.
    cells : its values.
    known : the known columns that the table has.
    """
    meant = nearest(name)
    return any(map(is_image, cells)) or (meant in TEXTS and meant not in known)
