"""Other spellings of commands and options: those that are accepted, and those that are slips.

American and former spellings, and those of other BIDS Apps, are accepted and mean what ours mean.
For an option that we do not have, `meant` names the one that was probably meant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["in_our_spelling", "meant"]

_OPTIONS = {"--regularization": "--regularisation", "--nprocs": "--jobs", "--n-cpus": "--jobs"}
_MODES = {"centre": "site", "center": "site"}
_FLAGS = {  # what is now one of several choices
    ("cohort", "--auto-mask"): "--mask=auto",
    ("bids", "--auto-mask"): "--mask=auto",
}
_OF_COMMAND = {("bids", "--masks"): "--derivatives"}
_SLIPS = {  # options that people try, and what may be meant, if the command has it
    "--ref": ("--to", "--reference"),
    "--reference": ("--to",),
    "--to": ("--reference",),
    "--target-image": ("--to",),
    "--template": ("--to", "--reference"),
    "--out": ("--output", "OUT"),
    "--out-dir": ("--output", "OUT"),
    "--output": ("OUT",),
    "-o": ("OUT",),
    "--output-dir": ("--output", "OUT"),
    "--outdir": ("--output", "OUT"),
    "--bids-dir": ("BIDS_DIR",),
    "--table": ("TABLE",),
    "--input": ("IMAGES", "IMAGE", "TABLE", "BIDS_DIR"),
    "-i": ("IMAGES", "IMAGE", "TABLE", "BIDS_DIR"),
    "--n-jobs": ("--jobs",),
    "--njobs": ("--jobs",),
    "--n-procs": ("--jobs",),
    "--nthreads": ("--jobs",),
    "--num-threads": ("--jobs",),
    "--threads": ("--jobs",),
    "--workers": ("--jobs",),
    "--cpus": ("--jobs",),
    "--overwrite": ("--force",),
    "--brain-mask": ("--mask",),
    "--masks": ("--mask",),
    "--lesion": ("--exclude",),
    "--lesion-mask": ("--exclude",),
    "--inv": ("--inverse",),
    "--invert": ("--inverse",),
    "--undo": ("--inverse",),
    "--participant": ("--participant-label",),
    "--subject": ("--participant-label",),
    "--session": ("--session-label",),
    "--session-id": ("--session-label",),
    "--modality": ("--suffix", "--channel"),
    "--modalities": ("--suffix",),
    "--suffix": ("--channel",),
    "--channel": ("--suffix",),
    "--contrast": ("--channel", "--suffix"),
    "--site": ("--site-column",),
    "--silent": ("--quiet",),
    "--name": ("--title",),
}


def in_our_spelling(words: Sequence[str]) -> list[str]:
    """Return the command line with other spellings replaced by ours.

    Only the command itself, names of options and the value of ``--mode`` are replaced, and ``_`` by
    ``-`` in the names of options; file names and the values of other options stay as they are.

    Examples
    --------
    >>> in_our_spelling(["normalize", "normalize", "--regularization=0.01"])
    ['normalise', 'normalize', '--regularisation=0.01']
    >>> in_our_spelling(["cohort", "centre", "center", "--mode", "centre"])
    ['cohort', 'centre', 'center', '--mode', 'site']
    >>> in_our_spelling(["bids", "raw", "out", "group", "--participant_label", "a_b", "--n_cpus=4"])
    ['bids', 'raw', 'out', 'group', '--participant-label', 'a_b', '--jobs=4']
    """
    if not words:
        return []
    command = "normalise" if words[0] == "normalize" else words[0]
    typed = [command]
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":  # what follows are names of files
            return [*typed, word, *rest]
        option, equals, value = word.partition("=")
        if option.startswith("--"):
            option = option.replace("_", "-")
            option = _OPTIONS.get(option, option)
            option = _OF_COMMAND.get((command, option), option)
        taken = value if equals else rest[0] if rest else ""
        if option == "--mode" and taken in _MODES:
            taken = _MODES[taken]
            typed += [f"{option}={taken}"] if equals else [option, taken]
            del rest[: not equals]
        elif (flag := _FLAGS.get((command, option))) and not equals:
            typed.append(flag)
        elif option == "--mode" and not equals and rest[:1] != ["--"]:  # its value is no option
            typed += [option, *rest[:1]]
            del rest[:1]
        else:
            typed.append(f"{option}{equals}{value}")
    return typed


def meant(option: str, known: Collection[str]) -> str | None:
    """Return the option or argument that was probably meant by one that a command does not have.

    Parameters
    ----------
    option : what was typed.
    known : the names of the options and arguments of the command.

    Examples
    --------
    >>> meant("--ref", ["--to", "--output"])
    '--to'
    """
    return next((name for name in _SLIPS.get(option, ()) if name in known), None)
