"""The command for a whole BIDS dataset, after one for some of its participants."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from cyclopts import App, CycloptsError, Parameter

__all__ = ["of_the_group"]


def of_the_group(command: Callable[..., int], bids_dir: str, out: str, typed: Sequence[str]) -> str:
    """Return the command for the whole group: with the same options, but for all participants.

    Parameters
    ----------
    command : the function behind ``ndflow bids``.
    bids_dir, out : the arguments that it was given.
    typed : all that was typed after ``bids``.
    """
    options: list[str] = []
    kept = False
    for word in _options_of(command, bids_dir, out, typed):
        if word.startswith("-"):
            name = word.partition("=")[0].replace("_", "-")
            kept = name not in ("--participant-label", "--quiet", "-q")
        if kept:
            options.append(word)
    return shlex.join(["ndflow", "bids", bids_dir, out, "group", *options])


def _options_of(
    command: Callable[..., int], bids_dir: str, out: str, typed: Sequence[str]
) -> list[str]:
    """Return what was typed without the three arguments, which may be values of options too."""
    arguments = (bids_dir, out, "participant")
    meaning = _meaning(command, typed)
    places = ([at for at, word in enumerate(typed) if word == one] for one in arguments)
    for three in product(*places):
        rest = [word for at, word in enumerate(typed) if at not in three and word != "--"]
        if _meaning(command, [*rest, "--", *arguments]) == meaning:
            return rest
    return []  # never: the three have been typed


def _meaning(command: Callable[..., int], typed: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the values of all arguments and options; None if they make no sense."""
    app = App(default_command=command, default_parameter=Parameter(negative=()))
    try:
        return app.parse_args(typed, exit_on_error=False, print_error=False)[1].arguments
    except CycloptsError:
        return None
