"""``ndflow``: find the command, run it, and turn errors into one line and an exit code.

| code | meaning                                                                        |
|------|--------------------------------------------------------------------------------|
| 0    | everything was done                                                            |
| 1    | some scans failed, or something else could not be made or was not as it should |
|      | be; the rest was done                                                          |
| 2    | wrong usage, or nothing could be done                                          |
| 129  | the terminal was closed                                                        |
| 130  | interrupted (Ctrl-C)                                                           |
| 141  | nobody reads the output any more (``| head``)                                  |
| 143  | terminated by the system                                                       |
"""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

from ndflow._version import __version__
from ndflow.cli.commands.demo import demo, doctor
from ndflow.cli.commands.evaluate import evaluate, report, verify
from ndflow.cli.commands.scans import apply, fit, normalise, reference
from ndflow.cli.commands.study import bids, cohort, prepare
from ndflow.cli.console import Terminated, print_error, signals_raised
from ndflow.cli.options import OPTIONS, explain_expert, shown_default
from ndflow.errors import NdflowError

_COMMANDS: list[Callable[..., int]] = [normalise, prepare, cohort, bids, reference, fit, apply]
_COMMANDS += [evaluate, report, verify, demo, doctor]
COMMANDS = {command.__name__: command for command in _COMMANDS}

_ALIASES = {"normalise": "normalize"}

app = App(
    name="ndflow",
    help="Make MRI intensities comparable across scanners.",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=shown_default, show_choices=False),
    result_action="return_value",
    group_parameters=OPTIONS,
    suppress_keyboard_interrupt=False,
)
for _place, (_name, _command) in enumerate(COMMANDS.items()):
    app.command(_command, alias=_ALIASES.get(_name), sort_key=_place)


def main() -> int:
    """Run the command that was typed, and return its exit code."""
    # BLAS is never called; starting its threads, one per core, would take longer than all other
    # imports together.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _usable_streams()
    typed = sys.argv[1:]
    if ("--set", "help") in pairwise(typed) or "--set=help" in typed:
        print(explain_expert())
        return 0
    try:
        with signals_raised():
            code = app(typed, exit_on_error=False, print_error=False)
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # end as quietly as programs that SIGPIPE kills
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 141
    except CycloptsError as error:
        print_error(_usage_error(error, typed))
        return 2
    except NdflowError as error:
        print_error(str(error), _details(typed))
        return 2
    except KeyboardInterrupt:
        print_error(f"interrupted; {_how_to_resume(typed)}")
        return 130
    except Terminated as stop:
        print_error(f"{stop}; {_how_to_resume(typed)}")
        return stop.code
    except Exception as error:
        cause = f"unexpected {type(error).__name__}: {error}"
        print_error(f"{cause}; please report it, with the output of -v", _details(typed))
        return 2


def _usable_streams() -> None:
    """Open streams that are closed (``2>&-``), and write what their encoding lacks as escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _how_to_resume(typed: Sequence[str]) -> str:
    if typed[:1] in (["prepare"], ["cohort"], ["bids"]):
        return "run the same command again to resume where it left off"
    return "the files that have been written are complete"


def _details(typed: Sequence[str]) -> str:
    return traceback.format_exc() if {"-v", "--verbose"} & set(typed) else ""


def _usage_error(error: CycloptsError, typed: Sequence[str]) -> str:
    """Return what is wrong with the command line, on one line, and where to find help."""
    command = f"{typed[0]} " if typed and typed[0] in [*app] else ""
    text = " ".join(str(error).split()).removeprefix(f'Command "{command.strip()}" parameter ')
    text = text.replace("requires an argument", "is missing or has no value")
    if isinstance(error, UnusedCliTokensError):
        text = f"Unexpected argument: {shlex.join(error.unused_tokens or ())}"
    text, see = text.rstrip("., "), f"see ndflow {command}--help"
    argument = error.argument if isinstance(error, MissingArgumentError) else None
    if argument and not argument.name.startswith("-"):
        text += "; it goes before options that take several values, such as --mask"
    return f"{text} {see.capitalize()}" if text.endswith("?") else f"{text}; {see}"
