"""Scan: the files of one scan, and what is known about it, on the way in."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ndflow.errors import InvalidValueError
from ndflow.image.mask import AUTO, to_be_found
from ndflow.image.read import Source, files_of

_NOTHING: Mapping[str, str] = MappingProxyType({})  # shared, because there may be many scans


class TissueMaps(NamedTuple):
    """The tissue probability maps of a scan, on its grid; None where there is none."""

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
            raise InvalidValueError(
                "tissue probability maps of all three tissues are needed: csf, gm and wm"
            )
        return self


_NO_MAPS = TissueMaps()


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan; a study may have very many, so it is kept small.

    Attributes
    ----------
    image : a path, a nibabel image, or an array.
    mask : the same; or what to find: ``"auto"``, the foreground, or ``"brain"``; None for all
        voxels but 0.
    lesion : a mask of voxels that the density does not see; they are mapped like the others.
    tissues : its tissue probability maps.
    subject, site : who was scanned, and where.
    name : what its results are called in a study, where no two scans share a name.
    origin : where the user named it, for messages; for example ``"row 7"``.
    covariates : the other columns of a table, for example ``age``.
    output, sidecar : in a study, its normalised image and the JSON that describes it, relative to
        the folder of the study.
    metadata : what else the sidecar should say.
    beside : another channel of the same subject, whose grid it must share.
    """

    image: Source
    mask: Source | None = None
    lesion: Source | None = None
    tissues: TissueMaps = _NO_MAPS
    subject: str | None = None
    site: str | None = None
    name: str = ""
    origin: str = ""
    covariates: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    output: str = ""
    sidecar: str = ""
    metadata: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    beside: str | None = None

    @property
    def path(self) -> str:
        """What messages call it."""
        if isinstance(self.image, str | os.PathLike):
            return os.fspath(self.image)
        return next(iter(files_of(self.image)), "the image")

    @property
    def has_brain_mask(self) -> bool:
        """Whether it has a mask of the brain, and not all voxels but 0, or the foreground."""
        return self.mask is not None and not (to_be_found(self.mask) and self.mask == AUTO)

    def files(self, *, tissues: bool = False) -> dict[str, tuple[str, ...]]:
        """Return the files that it is read from, by what they are.

        Parameters
        ----------
        tissues : whether the tissue probability maps are read too.
        """
        sources = {"image": self.image, "mask": self.mask, "lesion": self.lesion}
        if tissues:
            sources |= self.tissues._asdict()
        return {
            name: files_of(source)
            for name, source in sources.items()
            if source is not None and not to_be_found(source)
        }


def count_by_site(scans: Iterable[Scan]) -> dict[str, int]:
    """Return how many scans each site has; scans whose site is not known do not count."""
    counts = Counter(scan.site for scan in scans if scan.site)
    return dict(sorted(counts.items()))
