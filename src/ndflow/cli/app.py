"""``ndflow``: finds the command, and turns what goes wrong into one line and an exit code.

0, all is done; 1, some scans failed and the others are done; 2, wrong usage, or nothing could be
done; 130 and 143, interrupted or terminated.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import pairwise

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter

from ndflow._version import __version__
from ndflow.cli.cmd_apply import apply
from ndflow.cli.cmd_bids import bids
from ndflow.cli.cmd_cohort import cohort
from ndflow.cli.cmd_demo import demo
from ndflow.cli.cmd_evaluate import evaluate
from ndflow.cli.cmd_fit import fit
from ndflow.cli.cmd_normalise import normalise
from ndflow.cli.cmd_reference import reference
from ndflow.cli.cmd_report import report
from ndflow.cli.console import print_error
from ndflow.cli.signals import Terminated, signals_raised
from ndflow.errors import NdflowError

__all__ = ["app", "run"]

COMMANDS: dict[str, Callable[..., int]] = {
    "normalise": normalise,
    "cohort": cohort,
    "bids": bids,
    "reference": reference,
    "fit": fit,
    "apply": apply,
    "evaluate": evaluate,
    "report": report,
    "demo": demo,
}

_SPELLINGS = {"--regularization": "--regularisation"}
_SITE = {"centre": "site", "center": "site"}

app = App(
    name="ndflow",
    help="Make MRI intensities comparable across scanners.",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _place, (_name, _command) in enumerate(COMMANDS.items()):
    app.command(_command, name=_name, sort_key=_place)


def run() -> int:
    """Run the command that was typed, and return its exit code."""
    # We never call BLAS, whose threads, one a core, would cost more than loading all the rest.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    typed = in_our_spelling(sys.argv[1:])
    try:
        with signals_raised():
            code = app(typed, exit_on_error=False, print_error=False)
        return code if isinstance(code, int) else 0
    except CycloptsError as error:
        command = f"{typed[0]} " if typed and typed[0] in COMMANDS else ""
        print_error(f"{_in_short(error)}; {_greedy(error, typed)}see ndflow {command}--help")
        return 2
    except NdflowError as error:
        print_error(str(error), _details(typed))
        return 2
    except KeyboardInterrupt:
        print_error(f"interrupted; {_how_to_go_on(typed)}")
        return 130
    except Terminated:
        print_error(f"terminated; {_how_to_go_on(typed)}")
        return 143
    except Exception as error:
        about = f"unexpected {type(error).__name__}: {error}"
        print_error(f"{about}; please report it, with the output of -v", _details(typed))
        return 2


def in_our_spelling(words: Sequence[str]) -> list[str]:
    """Return what was typed with the American, and earlier, spellings replaced by ours."""
    typed = ["normalise" if word == "normalize" else word for word in words[:1]]
    for before, word in pairwise(words):
        option, equals, value = word.partition("=")
        option = _SPELLINGS.get(option, option)
        if before == "--mode" or (option == "--mode" and equals):
            value = _SITE.get(value, value)
            option = _SITE.get(option, option)
        typed.append(f"{option}{equals}{value}")
    return typed


def _how_to_go_on(typed: Sequence[str]) -> str:
    if typed[:1] in (["cohort"], ["bids"]):
        return "to go on where it was, type the same again"
    return "whatever stands under its final name is complete"


def _details(typed: Sequence[str]) -> str:
    return traceback.format_exc() if {"-v", "--verbose"} & set(typed) else ""


def _greedy(error: CycloptsError, typed: Sequence[str]) -> str:
    """Return a hint where an option that takes several files may have taken the images too."""
    lists = {"--mask", "--exclude", "--weights", "--csf", "--gm", "--wm"} & {
        word.partition("=")[0] for word in typed
    }
    argument = error.argument if isinstance(error, MissingArgumentError) else None
    if not lists or argument is None or argument.name.startswith("-"):
        return ""
    return f"it goes before {' and '.join(sorted(lists))}; "


def _in_short(error: CycloptsError) -> str:
    """Return what is wrong with what was typed, without the full stop."""
    return " ".join(str(error).split()).rstrip(".")
