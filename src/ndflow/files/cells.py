r"""Cells of a table: any text can be written and read back, and none is run by a spreadsheet.

Most text is written as it is. Two kinds are marked with an apostrophe, which makes them text in a
spreadsheet:

- ``'=1+1``: what would be taken for a formula, because it begins with ``=``, ``+``, ``-`` or ``@``
  and is no number; or begins with an apostrophe that could be taken for a mark;
- ``'\Site\u2028A``: what is empty, has blanks at its ends, or holds characters that cannot be seen
  or would end a cell or a line. Such characters, and backslashes, are written as in Python.

Marks are recognised in tables of other people, too, but nothing that they are likely to write:
``'s-Hertogenbosch`` means itself.
"""

from __future__ import annotations

import re

__all__ = ["decoded_cell", "encoded_cell"]

_SIGNS = r"=+@\-＝＋＠－"  # spreadsheets take the full-width ones for the others
_FORMULA = re.compile(rf"[{_SIGNS}]|'[{_SIGNS}'\\]")
_MARKED = re.compile(rf"'[{_SIGNS}']")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|nan)", re.ASCII | re.IGNORECASE)
_ESCAPED = re.compile(r"\\(?:([\\tnr])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_SHORT = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}
_LETTERS = {character: letter for letter, character in _SHORT.items()}


def encoded_cell(text: str | None) -> str:
    r"""Return a cell for a text: one line, without tabs; ``n/a`` for None.

    Examples
    --------
    >>> print(*map(encoded_cell, ["Köln", "-1.5", None, "=1+1", "a\tb"]))
    Köln -1.5 n/a '=1+1 '\a\tb
    """
    if text is None:
        return "n/a"
    if not text or not text.isprintable() or text != text.strip():
        body = text.rstrip(" ")
        return "'\\" + "".join(map(_escaped, body)) + "\\x20" * (len(text) - len(body))
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def decoded_cell(cell: str) -> str:
    """Return the text of a cell, whoever wrote it.

    Examples
    --------
    >>> decoded_cell("'=1+1"), decoded_cell("'s-Hertogenbosch")
    ('=1+1', "'s-Hertogenbosch")
    """
    if cell.startswith("'\\"):
        return _ESCAPED.sub(_unescaped, cell[2:])
    return cell[1:] if _MARKED.match(cell) else cell


def _escaped(character: str) -> str:
    if character in _LETTERS:
        return f"\\{_LETTERS[character]}"
    if character.isprintable():
        return character
    code = ord(character)
    if code < 1 << 8:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _unescaped(found: re.Match[str]) -> str:
    letter, *codes = found.groups()
    return _SHORT[letter] if letter else chr(int(next(filter(None, codes)), 16))
