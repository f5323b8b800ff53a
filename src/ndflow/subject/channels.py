"""Subject: the channels of one subject, on the way in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.mask import ALIGNED, BRAIN, TOLERATED, to_be_found, voxels_apart
from ndflow.image.read import Grid, Source, read_grid
from ndflow.image.subject import Scan, TissueMaps
from ndflow.methods.base import method_called, method_of
from ndflow.methods.targets import target_rule
from ndflow.options import Options
from ndflow.subject.presets import Choices
from ndflow.values import short

NAME = r"[A-Za-z0-9][A-Za-z0-9_+-]*"  # of a channel

_FEWEST, _MOST = 2, 4
_NO_MAPS = TissueMaps()
_WORDS = "give two to four channels, for example T1w=FILE FLAIR=FILE"


@dataclass(frozen=True)
class Subject:
    """The channels of one subject, all on one grid, with one mask for all of them.

    Attributes
    ----------
    images : a path, a nibabel image, or an array, by the name of the channel.
    mask, lesion, tissues : see `Scan`. The brain is found in the channel T1w, and the foreground in
        the first channel.

    Examples
    --------
    >>> Subject({"T1w": "a.nii.gz", "FLAIR": "b.nii.gz"}).names
    ('T1w', 'FLAIR')
    """

    images: Mapping[str, Source]
    mask: Source | None = None
    lesion: Source | None = None
    tissues: TissueMaps = _NO_MAPS

    def __post_init__(self) -> None:
        """Validate the names."""
        for name in self.images:
            if not isinstance(name, str) or not re.fullmatch(NAME, name):
                raise InvalidValueError(
                    f"a channel must have a name of letters, digits, _, + and -, such as T1w, "
                    f"not {short(name)}"
                )
        if not _FEWEST <= len(self.images) <= _MOST:
            number = len(self.images)
            hint = "for one, give the image alone, without a name" if number == 1 else _WORDS
            what = "channel" if number == 1 else "channels"
            raise InvalidValueError(f"{number} {what} given, but two to four are needed; {hint}")
        object.__setattr__(self, "images", MappingProxyType({**self.images}))

    def __reduce__(self) -> tuple[object, ...]:
        """Return what makes it again, because a view of a dictionary cannot go to a worker."""
        return Subject, (dict(self.images), self.mask, self.lesion, self.tissues)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels, in order."""
        return tuple(self.images)

    @property
    def path(self) -> str:
        """What messages call it: its first image."""
        return self.scan(self.names[0]).path

    @property
    def mask_channel(self) -> str:
        """The channel in which the mask is found, if it is to be found."""
        if not (to_be_found(self.mask) and self.mask == BRAIN):
            return self.names[0]
        found = next((name for name in self.names if name.lower() in ("t1w", "t1")), None)
        if found is None:
            raise InvalidValueError(
                f"--mask brain: a brain is found in a T1w image, but the channels are "
                f"{listed(self.names)}; call the T1w image T1w, or give a mask as a file"
            )
        return found

    def scan(self, name: str) -> Scan:
        """Return a channel by itself, as a scan."""
        return Scan(self.images[name], self.mask, self.lesion, self.tissues)

    def files(self) -> dict[str, tuple[str, ...]]:
        """Return the files that it is read from, by what they are: images by channel."""
        shared = self.scan(self.names[0]).files(tissues=True)
        del shared["image"]
        return {name: self.scan(name).files()["image"] for name in self.names} | shared


def listed(names: Sequence[str]) -> str:
    """Return names in a sentence.

    >>> listed(["T1w", "T2w", "FLAIR"])
    'T1w, T2w and FLAIR'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def check_channels(names: Sequence[str], known: Sequence[str], path: object) -> None:
    """Refuse channels that are not those of a file, in the same order.

    Parameters
    ----------
    names : the channels of a subject.
    known : those of the file.
    path : the file.

    Raises
    ------
    FileError : with what is missing, unknown, or in another place.
    """
    if tuple(names) == tuple(known):
        return
    cause = f"its channels are {listed(known)}"
    if missing := [name for name in known if name not in names]:
        hint = f"give {missing[0]} too, as {missing[0]}=FILE"
        if extra := [name for name in names if name not in known]:
            hint = f"is {extra[0]} meant to be {missing[0]}? Names must agree, letter by letter"
        verb = "was" if len(missing) == 1 else "were"
        raise FileError(path, f"{cause}, but {listed(missing)} {verb} not given", hint)
    if extra := [name for name in names if name not in known]:
        raise FileError(path, f"{cause}, and not {listed(extra)}", f"leave out {extra[0]}")
    order = " ".join(f"{name}=FILE" for name in known)
    raise FileError(
        path, f"{cause}, in this order, but {listed(names)} were given", f"give {order}"
    )


def check_grids(subject: Subject) -> list[str]:
    """Check that all channels have the same grid, from their headers alone.

    Returns
    -------
    warnings : if they are up to half a voxel apart.

    Raises
    ------
    FileError : if their shapes differ, or they are further apart.
    """
    grids = [read_grid(image, called=f"the image {name}") for name, image in subject.images.items()]
    first, warnings = grids[0], []
    for other in grids[1:]:
        if other.spatial_shape != first.spatial_shape:
            shapes = [" × ".join(map(str, grid.spatial_shape)) for grid in (other, first)]
            cause = f"{shapes[0]} voxels, but {first.path} has {shapes[1]}"
            raise FileError(other.path, cause, _resample(other, first))
        apart = voxels_apart(other, first)
        if not apart < TOLERATED:
            cause = f"lies {apart:.3g} voxels away from {first.path}, although of the same shape"
            raise FileError(other.path, cause, _resample(other, first))
        if apart > ALIGNED:
            warnings.append(
                f"{other.path}: lies {apart:.2g} voxels away from {first.path}; used nevertheless"
            )
    return warnings


def _resample(one: Grid, like: Grid) -> str:
    """Say how to bring an image to the grid of another."""
    if not (one.placed and like.placed):
        return "channels must share a grid: resample them to a common one first"
    return (
        f"channels must share a grid, and nothing is resampled silently: register them first, "
        f'then for example mri_vol2vol --regheader --mov "{one.path}" --targ "{like.path}" '
        f"--o resampled.nii.gz, or nibabel.processing.resample_from_to(image, like) in Python"
    )


def said(
    channels: Iterable[tuple[str, Iterable[str], Iterable[Doubt]]],
) -> tuple[str, ...]:
    """Return what to tell the user about several channels, and nothing twice.

    A doubt about the mask that they share is the same for all of them.

    Parameters
    ----------
    channels : the path, the warnings and the doubts of each.
    """
    lines: dict[str, None] = {}
    doubted: set[str] = set()
    for path, warnings, doubts in channels:
        lines |= dict.fromkeys(warnings)
        lines |= {f"{path}: {doubt}": None for doubt in doubts if str(doubt) not in doubted}
        doubted |= {str(doubt) for doubt in doubts}
    return tuple(lines)


# ── what a joint fit allows ───────────────────────────────────────────────────────────────────────

_ALONE = "leave out --joint to bring each channel by itself to its reference"


def check_joint(subject: Subject, choices: Choices) -> None:
    """Refuse choices that a joint map cannot honour.

    Parameters
    ----------
    subject : the channels.
    choices : what the user chose about the match.
    """
    check_joint_fit(subject)
    options = Options(**choices.options)
    if not method_called(options.method).maps_jointly:
        why = "it looks at one channel at a time"
        raise _refused(f"--method {options.method}", why, f"leave it out, or {_ALONE}")
    method_of(Options(landmarks=options.landmarks))  # an option of other methods
    if target_rule(options).needs_tissue_model:
        why = "the tissues of a population are known for one channel at a time"
        name = f"--proportions {options.proportions}"
        raise _refused(name, why, f"use --proportions average, or {_ALONE}")
    if options.freeze:
        why = "its rules choose components by the intensities of one channel"
        raise _refused("--set freeze", why, "give what should not count as a mask with --exclude")
    if options.objective != "l2":
        why = "that distance is defined for one channel"
        raise _refused(f"--set objective={options.objective}", why, f"leave it out, or {_ALONE}")
    if options.solver != "exact":
        why = "a joint flow has a solver of its own"
        raise _refused(f"--set solver={options.solver}", why, "leave it out")
    if choices.preset != "auto":
        why = "the paper does not say how to normalise several channels"
        raise _refused(f"--preset {choices.preset}", why, f"leave it out, or {_ALONE}")


def check_joint_fit(subject: Subject) -> None:
    """Refuse what a joint density does not know."""
    if any(part is not None for part in subject.tissues):
        why = "the densities of tissues are estimated for one channel at a time"
        raise _refused("--tissue-maps", why, "leave them out")


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
