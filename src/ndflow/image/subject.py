"""Subject: what is scanned. Images by channel with their masks, and what is known about them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import NamedTuple

from ndflow.errors import InvalidValueError
from ndflow.image.mask import AUTO, BRAIN, to_be_found
from ndflow.image.read import Source, files_of
from ndflow.values import listed, short

CHANNEL = r"[A-Za-z0-9][A-Za-z0-9_+-]*"  # the name of a channel
ANY_CHANNEL = "intensity"  # the channel of an image where nobody has said what it shows
_MOST = 4  # channels
_WHOLE = re.compile(r"(\d+)[.,]0+")  # how a spreadsheet may write a whole number


class TissueMaps(NamedTuple):
    """The tissue probability maps of a subject, on its grid; None where there is none."""

    csf: Source | None = None
    gm: Source | None = None
    wm: Source | None = None

    @property
    def complete(self) -> bool:
        """Whether all three are there."""
        return all(part is not None for part in self)

    def check_complete(self) -> TissueMaps:
        """Return the maps, if there are all three or none."""
        if not self.complete and any(part is not None for part in self):
            raise InvalidValueError("maps of all three tissues are needed: csf, gm and wm")
        return self


_NO_MAPS = TissueMaps()


class Output(NamedTuple):
    """Where the result of a channel goes, relative to the folder of a study.

    Attributes
    ----------
    name : what the image is called among others.
    image, sidecar : the normalised image, and the JSON that describes it.
    metadata : what BIDS wants to know about the image, for the sidecar.
    """

    name: str
    image: str
    sidecar: str
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Subject:
    """One person at one visit; one channel is the ordinary case of several.

    Attributes
    ----------
    images : by channel, all on one grid; or a single image, whose channel is not known.
    mask, lesion : shared by all channels; the mask may be one to be found, ``auto`` or ``brain``.
    tissues : the tissue probability maps.
    person, site : who was scanned, and where, if known; 1.0 is 1.
    name : its name among others.
    origin : where the user named it, such as a row of a table.
    covariates : other columns of the table.
    outputs : where results go, by channel.
    """

    images: Mapping[str, Source]
    mask: Source | None = None
    lesion: Source | None = None
    tissues: TissueMaps = _NO_MAPS
    person: str | None = None
    site: str | None = None
    name: str = ""
    origin: str = ""
    covariates: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the channels; a single image is that of an unnamed channel."""
        images = self.images if isinstance(self.images, Mapping) else {ANY_CHANNEL: self.images}
        for name in images:
            if not isinstance(name, str) or not re.fullmatch(CHANNEL, name):
                raise InvalidValueError(
                    f"a channel must have a name of letters, digits, _, + and -, such as T1w, "
                    f"not {short(name)}"
                )
        if not 1 <= len(images) <= _MOST:
            raise InvalidValueError(f"{len(images)} channels, but at most {_MOST} are possible")
        object.__setattr__(self, "images", dict(images))
        for name in ("person", "site"):
            if number := _WHOLE.fullmatch(getattr(self, name) or ""):
                object.__setattr__(self, name, number[1])

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of its channels, in order."""
        return tuple(self.images)

    @property
    def image(self) -> Source:
        """The image of its first channel."""
        return next(iter(self.images.values()))

    @property
    def path(self) -> str:
        """What messages call it: its first image."""
        if isinstance(self.image, str | os.PathLike):
            return os.fspath(self.image)
        return next(iter(files_of(self.image)), "the image")

    @property
    def output(self) -> Output:
        """Where the result of its first channel goes."""
        return self.outputs[self.channels[0]]

    @property
    def has_brain_mask(self) -> bool:
        """Whether it has a mask of the brain, and not all voxels but 0, or the foreground."""
        return self.mask is not None and not (isinstance(self.mask, str) and self.mask == AUTO)

    @property
    def finds_brain(self) -> bool:
        """Whether its brain mask is to be found."""
        return isinstance(self.mask, str) and self.mask == BRAIN

    @property
    def mask_channel(self) -> str:
        """The channel in which the mask is found, if it is to be found."""
        if not self.finds_brain or len(self.images) == 1:
            return self.channels[0]
        found = next((name for name in self.channels if name.lower() in ("t1w", "t1")), None)
        if found is None:
            raise InvalidValueError(
                f"--mask brain: a brain is found in a T1w image, but the channels are "
                f"{listed(self.channels)}; call the T1w image T1w, or give a mask as a file"
            )
        return found

    def alone(self, channel: str) -> Subject:
        """Return one of its channels by itself."""
        outputs = {channel: self.outputs[channel]} if channel in self.outputs else {}
        return replace(self, images={channel: self.images[channel]}, outputs=outputs)

    def files(self, *, tissues: bool = False) -> dict[str, tuple[str, ...]]:
        """Return the files that it is read from, by what they are.

        An image is called ``image``, or by its channel where there are several.

        Parameters
        ----------
        tissues : whether its tissue probability maps are read, too.
        """
        single = len(self.images) == 1
        sources = {"image" if single else name: image for name, image in self.images.items()}
        sources |= {"mask": self.mask, "lesion": self.lesion}  # type: ignore[dict-item]
        if tissues:
            sources |= self.tissues._asdict()
        return {
            name: files_of(source)
            for name, source in sources.items()
            if source is not None and not to_be_found(source)
        }


def count_by_site(subjects: Iterable[Subject]) -> dict[str, int]:
    """Return how many subjects each site has; those whose site is not known do not count."""
    counts = Counter(subject.site for subject in subjects if subject.site)
    return dict(sorted(counts.items()))


# ── contrasts ─────────────────────────────────────────────────────────────────────────────────────
# What an image shows, by the end of its name: ``_T1w``, ``_FLAIR``, ``-T2``.
#
# Brains are found in T1w images only, and everything else needs a mask. That includes two suffixes
# of BIDS for images that are T1-weighted as well, on which deepbet has not been tested: ``UNIT1``
# (MP2RAGE), whose background is noise of full brightness, and ``inplaneT1``, a few slices.

T1W = "T1w"

# The suffixes of BIDS, and what others call the same.
_WORDS = """
T1w T1, T2w T2, PDw PD, T2starw T2star, PDT2 PDT2w, FLAIR, FLASH, UNIT1, inplaneT1, inplaneT2,
angio MRA, T1map, T2map, T2starmap, PDmap, T1rho, R1map, R2map, R2starmap, dwi DTI, ADC, FA, MD,
bold, cbv, sbref, epi, asl, m0scan, perf, swi, magnitude, magnitude1, magnitude2, phase, phase1,
phase2, phasediff, fieldmap, pet, ct
"""
_CONTRASTS = {
    word.lower(): names.split()[0] for names in _WORDS.split(",") for word in names.split()
}
_LABELS = re.compile("(sub|ses)-[^-]*", re.IGNORECASE)  # whose end is the name of somebody


def ending_of(name: str) -> str:
    """Return the last word of a name, if it is that of a contrast; otherwise nothing.

    >>> ending_of("IXI002-Guys-0828-T2.nii.gz"), ending_of("sub-PD.nii")
    ('T2', '')
    """
    last = name.partition(".")[0].rpartition("_")[2]
    word = last if _LABELS.fullmatch(last) else last.rpartition("-")[2]
    return word if word.lower() in _CONTRASTS else ""


def contrast_in_name(path: str) -> str | None:
    """Return what an image shows by its name, as a suffix of BIDS; None if that does not say.

    >>> contrast_in_name("IXI002_T2.nii"), contrast_in_name("scan.nii")
    ('T2w', None)
    """
    return _CONTRASTS.get(ending_of(PurePath(path).name).lower())


def contrast_called(word: str) -> str:
    """Return what BIDS calls a contrast; an unknown one stays as it is.

    >>> contrast_called("T1"), contrast_called("MTR")
    ('T1w', 'MTR')
    """
    return _CONTRASTS.get(word.lower(), word)


def other_by_name(path: str, channel: str) -> str | None:
    """Return what an image shows by its name, if that is not what its channel is called.

    >>> other_by_name("sub-01_FLAIR.nii", "T1w"), other_by_name("sub-01_FLAIR.nii", ANY_CHANNEL)
    ('FLAIR', None)
    """
    shown, wanted = contrast_in_name(path), _CONTRASTS.get(channel.lower())
    return shown if shown and wanted and shown != wanted else None


def is_other_contrast(word: str) -> bool:
    """Tell whether a word, such as ``T2``, means images that are not T1w."""
    return _CONTRASTS.get(word.lower(), T1W) != T1W
