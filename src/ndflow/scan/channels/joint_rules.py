"""What cannot be combined with several channels: refused by name, with what to do instead."""

from __future__ import annotations

from ndflow.errors import InvalidValueError
from ndflow.image.mask import BRAIN, to_be_found
from ndflow.methods.base import method_called, method_of
from ndflow.methods.matching import Matching, MatchingChoices
from ndflow.methods.targets import target_rule
from ndflow.scan.channels.channel_subject import Subject, listed

__all__ = ["check_joint", "check_joint_fit", "check_separate"]

_ALONE = "leave out --joint to bring each channel by itself to its reference"


def check_joint(subject: Subject, choices: MatchingChoices, preset: str) -> None:
    """Refuse choices that a joint map cannot honour.

    Parameters
    ----------
    subject : the channels.
    choices, preset : what the user chose about the match.
    """
    check_joint_fit(subject)
    if not method_called(choices.method).maps_jointly:
        why = "it looks at one channel at a time"
        raise _refused(f"--method {choices.method}", why, f"leave it out, or {_ALONE}")
    method_of(Matching(landmarks=choices.landmarks))  # an option of other methods
    if choices.target and target_rule(Matching(target=choices.target)).needs_tissue_model:
        why = "the tissues of a population are known for one channel at a time"
        raise _refused(f"--target {choices.target}", why, f"use --target average, or {_ALONE}")
    if choices.freeze:
        why = "its rules choose components by the intensities of one channel"
        raise _refused("--freeze", why, "give what should not count as a mask with --exclude")
    if choices.objective not in (None, "l2"):
        why = "that distance is defined for one channel"
        raise _refused(f"--objective {choices.objective}", why, f"leave it out, or {_ALONE}")
    if choices.solver != "exact":
        why = "a joint flow has a solver of its own"
        raise _refused(f"--solver {choices.solver}", why, "leave it out")
    if preset != "auto":
        why = "the paper does not say how to normalise several channels"
        raise _refused(f"--preset {preset}", why, f"leave it out, or {_ALONE}")


def check_joint_fit(subject: Subject) -> None:
    """Refuse what a joint density does not know."""
    if any(part is not None for part in subject.tissues):
        why = "the densities of tissues are estimated for one channel at a time"
        raise _refused("--csf, --gm and --wm", why, "leave them out")


def check_separate(subject: Subject) -> None:
    """Refuse a mask that would have to be found in every channel by itself."""
    if to_be_found(subject.mask) and subject.mask == BRAIN:
        others = [name for name in subject.names if name != subject.mask_channel]
        raise InvalidValueError(
            f"--mask brain finds brains in T1w images, not in {listed(others)}; give one mask for "
            f"all channels as a file, or use --joint, which finds it in the channel T1w"
        )


def _refused(option: str, why: str, instead: str) -> InvalidValueError:
    return InvalidValueError(f"--joint with {option}: {why}; {instead}")
