"""What to cite: the paper, and this version of ndflow.

CITATION.cff and docs/references.bib say the same; `tests/test_package.py` compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from ndflow._version import RELEASED, __version__
from ndflow.errors import InvalidValueError

__all__ = ["HOME", "ISSUES", "PAPER", "citation"]

HOME = "https://github.com/ndflow/ndflow"
ISSUES = f"{HOME}/issues"

CitationStyle = Literal["text", "bibtex"]

_PAPER = {
    "author": "Castro, Daniel C. and Glocker, Ben",
    "title": "Nonparametric Density Flows for {MRI} Intensity Normalisation",
    "booktitle": "Medical Image Computing and Computer Assisted Intervention -- {MICCAI} 2018",
    "series": "Lecture Notes in Computer Science",
    "volume": "11070",
    "pages": "206--214",
    "publisher": "Springer",
    "year": "2018",
    "doi": "10.1007/978-3-030-00928-1_24",
    "eprint": "1806.02613",
    "archiveprefix": "arXiv",
}
_SOFTWARE = {
    "author": "{The ndflow authors}",
    "title": "ndflow: Nonparametric Density Flows for {MRI} Intensity Normalisation",
    "version": __version__,
    "year": RELEASED.partition("-")[0],
    "url": HOME,
}


def citation(style: CitationStyle = "text") -> str:
    """Return what to cite: the paper, and this version of ndflow.

    The boilerplate of a study (``OUT/logs/CITATION.md``) also has what its settings build on.

    Parameters
    ----------
    style : ``"text"``, one paragraph each, or ``"bibtex"``.

    Returns
    -------
    str
        Both, separated by an empty line.

    Examples
    --------
    >>> print(citation().partition(".")[0])
    Castro, Daniel C
    >>> print(citation("bibtex").partition(",")[0])
    @inproceedings{castro2018
    """
    if style not in get_args(CitationStyle):
        raise InvalidValueError(f"style must be one of text and bibtex, not {style!r}")
    if style == "bibtex":
        return f"{PAPER}\n\n{_bibtex('software', 'ndflow', _SOFTWARE)}\n"
    paper = (
        "{author} ({year}). {title}. {booktitle}, {series} {volume}, {pages}. https://doi.org/{doi}"
    )
    software = "{author} ({year}). {title}, version {version}. {url}"
    return f"{_plain(paper, _PAPER)}\n\n{_plain(software, _SOFTWARE)}\n"


def _bibtex(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = (f"  {name:<9} = {{{value}}}," for name, value in fields.items())
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _plain(form: str, fields: Mapping[str, str]) -> str:
    text = form.format(**fields).replace("--", "–")
    return text.replace("{", "").replace("}", "")


PAPER = _bibtex("inproceedings", "castro2018", _PAPER)
