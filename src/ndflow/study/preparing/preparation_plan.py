"""Preparation: which raw scans are to be prepared, and how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ndflow.image.subject import Scan, TissueMaps, count_by_site
from ndflow.scan.settings import Preparing, Reading, flat

__all__ = ["FIGURES", "PREPARED", "Preparation", "PreparedPaths"]

PREPARED = "prepared"  # the folder of a study for scans that are prepared with it
FIGURES = "figures"

_IMAGE = "_desc-preproc_"


class PreparedPaths(NamedTuple):
    """Where the results of a scan go; not every scan has all of them.

    Attributes
    ----------
    image : the scan free of bias, on its own grid and in its own units.
    sidecar : the JSON that describes the image and all that was made with it.
    mask : of the brain.
    csf, gm, wm : the tissue probability maps.
    lesion : the mask of a lesion, as it was given.
    picture : for quality control.
    """

    image: Path
    sidecar: Path
    mask: Path
    csf: Path
    gm: Path
    wm: Path
    lesion: Path
    picture: Path

    @property
    def tissues(self) -> tuple[Path, Path, Path]:
        """The tissue probability maps."""
        return self.csf, self.gm, self.wm

    @property
    def unfinished(self) -> Path:
        """A file that is there while the others are written: what has no sidecar yet is ours."""
        return self.sidecar.with_name(f".ndflow-unfinished-{self.sidecar.stem}")

    def named(self, outputs: Iterable[str]) -> dict[str, Path]:
        """Return the files that a sidecar names, by what they are; none that we do not know."""
        known = self._asdict()
        return {what: known[what] for what in outputs if what in known}


@dataclass(frozen=True)
class Preparation:
    """What is to be prepared, and how.

    Attributes
    ----------
    folder : for the results.
    scans : with names of their own; ``output`` is the image to be made, relative to the folder, see
        `ndflow.study.preparing.result_names`.
    preparing, reading : what the user chose.
    channel : what the images show, if the user said so.
    force : whether the folder may hold something else, or scans that are not listed now.
    jobs, scheduler : see `ndflow.study.plan.Study`.
    source : the folder that the scans come from: a dataset, that of the table, or the current one.
    any_source : whether that need not be a BIDS dataset.
    table : the table that lists the scans, if there is one.
    within : whether the folder lies in that of a study, which is made with it.
    partial : whether other runs prepare more scans of the same dataset, to the same folder.
    """

    folder: Path
    scans: Sequence[Scan]
    preparing: Preparing = field(default_factory=Preparing)
    reading: Reading = field(default_factory=Reading)
    channel: str | None = None
    force: bool = False
    jobs: int = 1
    scheduler: str | None = None
    source: Path = field(default_factory=Path)
    any_source: bool = True
    table: str | None = None
    within: bool = False
    partial: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was chosen and may change a result."""
        return flat(self.preparing)

    @property
    def own_settings(self) -> dict[str, Any]:
        """The same, for the results on the scans' own grids."""
        return {n: part for n, part in self.settings.items() if n not in ("space", "resolution")}

    @property
    def site_counts(self) -> dict[str, int]:
        """How many scans each site has."""
        return count_by_site(self.scans)

    def paths(self, scan: Scan) -> PreparedPaths:
        """Return where the results of a scan go."""
        image = self.folder / scan.output
        stem, _, suffix = image.name.partition(_IMAGE)
        suffix = suffix.partition(".")[0]
        return PreparedPaths(
            image,
            self.folder / scan.sidecar,
            image.with_name(f"{stem}_desc-brain_mask.nii.gz"),
            image.with_name(f"{stem}_label-CSF_probseg.nii.gz"),
            image.with_name(f"{stem}_label-GM_probseg.nii.gz"),
            image.with_name(f"{stem}_label-WM_probseg.nii.gz"),
            image.with_name(f"{stem}_label-lesion_mask.nii.gz"),
            self.folder / FIGURES / f"{stem}{_IMAGE}{suffix}.png",
        )

    def keeps_tissues(self, scan: Scan) -> bool:
        """Tell whether the tissue probability maps that a scan came with are kept."""
        return scan.tissues.complete and not self.preparing.new_tissues

    def finds_tissues(self, scan: Scan) -> bool:
        """Tell whether tissue probability maps of a scan are to be made."""
        return not (self.preparing.no_tissues or self.keeps_tissues(scan))

    def prepared(self, scan: Scan, like: Scan | None = None) -> Scan:
        """Return a scan as it will be when it is prepared: with our image, mask and maps.

        Parameters
        ----------
        scan : one of those to be prepared.
        like : the same scan in a study, where other results are made of it.
        """
        paths = self.paths(scan)
        tissues = TissueMaps()
        if self.keeps_tissues(scan) or self.finds_tissues(scan):
            tissues = TissueMaps(*map(str, paths.tissues))
        return replace(
            like or scan,
            image=str(paths.image),
            mask=str(paths.mask),
            lesion=None if scan.lesion is None else str(paths.lesion),
            tissues=tissues,
        )
