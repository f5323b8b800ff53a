"""Prepare: a raw scan without its bias field, its brain mask and tissue maps, as a BIDS derivative.

OUT/sub-*/[ses-*/]anat/    the prepared images, masks and tissue probability maps; the sidecar of
                           the image of the first channel is the record of all of them
OUT/figures/<image>.png    a picture of each scan for quality control
OUT/study.tsv              the prepared scans, for ``ndflow cohort``
OUT/study_space-MNI.tsv    their copies in the space of a template, where there are any
OUT/preparation.tsv        what was measured

Where a file is not what the record says, somebody has changed it, for example a mask by hand. Such
work is never overwritten without being asked.

- The corrected scan is float32, so that no value is rounded away, whatever its units.
- Masks are of 0 and 1, 8 bits.
- Tissue probabilities are stored in 8 bits as multiples of 1/255, which is far below what a
  segmentation can tell. The three maps of a head of 1 × 1.33 × 1.33 mm then take 1.9 MB instead of
  7.7 in float32, for a fifth of a second more. The three probabilities of a voxel are rounded
  together, so that their sum never exceeds 1.
- Tissue probability maps that were given are copied as they are stored.

Names are those of BIDS derivatives: ``sub-01_ses-1_run-2_T1w.nii.gz`` becomes
``sub-01/ses-1/anat/sub-01_ses-1_run-2_desc-preproc_T1w``. An image whose name is not of BIDS gets a
subject of its own, called like the image without all that BIDS does not allow in a label: ``my
scan_3.nii`` becomes ``sub-myscan3/anat/sub-myscan3_desc-…``.

``study.tsv`` has the rows of the user with the prepared files instead of the raw ones, relative to
the table, so the folder can be moved. Scans that failed are not in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unicodedata import normalize
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ndflow._version import PREPARATIONS, installing, not_installed, versions
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.model_files import list_outputs, outputs_in, relative_outputs, write_pending
from ndflow.files.outputs import sidecar_of, stem
from ndflow.files.stream import FileHash, Hashes, all_files, contents
from ndflow.files.tables import table_bytes
from ndflow.image.mask import BRAIN, BoolArray, like_found_brain, same_grid
from ndflow.image.read import read_grid, read_volume
from ndflow.image.subject import (
    ANY_CHANNEL,
    T1W,
    Output,
    Subject,
    TissueMaps,
    contrast_called,
    contrast_in_name,
    ending_of,
)
from ndflow.image.volume import Volume
from ndflow.image.write import new_nifti, write_volume
from ndflow.options import Preparing
from ndflow.preparation import registration
from ndflow.preparation.brain import deepbet_version, refuse_unplaced
from ndflow.preparation.picture import preparation_picture
from ndflow.preparation.registration import Bools, Map
from ndflow.preparation.volume import (
    Measures,
    PreparedVolume,
    preparation_doubts,
    prepare_volume,
    tissue_volumes,
)
from ndflow.study import bids_names
from ndflow.study.bids_names import Entities
from ndflow.study.plan import FIGURES, Study
from ndflow.study.steps import Done, Key, Step, content_of
from ndflow.study.table import alike
from ndflow.subject.doubts import image_doubts
from ndflow.subject.records import FileRecord
from ndflow.subject.voxels import error_about, read_map, read_voxels
from ndflow.values import JSON, Doubt, listed, plural

# that preparations depend on
PACKAGES = ("deepbet", "nilearn", "picsl_greedy", "SimpleITK", "torch")

_IMAGE = "_desc-preproc_"
_OTHER_GRID = re.compile("_(?:space|cohort|res|den)-[0-9A-Za-z]+")  # that of the scan
_TEMPLATE = "https://www.bic.mni.mcgill.ca/ServicesAtlases/ICBM152NLin2009"
_LEVELS = 255
# The largest float32 whose 255-fold does not exceed 1: the header stores no more digits.
STEP = float(np.nextafter(np.float32(1 / _LEVELS), np.float32(0)))
_ROUNDING = 1e-5

STUDY = "study.tsv"
ALIGNED = "study_space-MNI.tsv"
MEASURES = "preparation.tsv"

_COARSE = ("brain_ml", "csf_ml", "gm_ml", "wm_ml", "seconds")
_FINE = ("field_min", "field_max", "overlap", "likeness", "agreement")
_MEASURED = (
    *("name", "subject", "site", "mask", "bias_field", "tissues"),
    *(*_COARSE[:-1], *_FINE, "doubts", "seconds", "image"),
)
_OTHERWISE = re.compile("[^0-9A-Za-z]")
_PROCESSED = ("desc", "label")  # entities that say what was made of an image
_HASH = 6  # digits, of a name without any letter that BIDS allows


@dataclass(frozen=True)
class PreparationRecord(FileRecord):
    """How a scan was prepared.

    Attributes
    ----------
    steps : what was done, by step: ``mask`` is "given", "brain" (found by deepbet) or "nonzero";
        ``bias field`` is "corrected" or "left"; ``tissues`` is "found", "given" or "none";
        ``channels`` is "registered" where some were on grids of their own.
    settings : what the results depend on, beside the files.
    versions : of what made it.
    inputs : the files that were read, by what they are.
    measures : for quality control.
    outputs : the files that were written, see `files.model_files`.
    seconds : how long it took.
    warnings, doubts : for the user; and what to check by eye.
    fingerprint : of everything that the results depend on.
    """

    kind: ClassVar[str] = "preparation"

    steps: dict[str, str]
    settings: dict[str, JSON]
    versions: dict[str, str]
    inputs: dict[str, tuple[FileHash, ...]]
    measures: Measures
    outputs: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    fingerprint: str | None = None


class PreparedPaths(NamedTuple):
    """Where the results of a scan go; not every scan has all of them.

    Attributes
    ----------
    images : of each channel; the sidecar of the first is the record of all that was made.
    mask, lesion, tissues : the masks and the tissue probability maps.
    shared : the sidecars of masks and of maps, in the space of the template.
    """

    images: dict[str, Path]
    mask: Path
    lesion: Path
    tissues: list[Path]
    shared: list[Path]

    @property
    def record(self) -> Path:
        """The sidecar of the first image, which lists all that was made."""
        return sidecar_of(next(iter(self.images.values())))


@dataclass(frozen=True)
class PrepareStep(Step):
    """Prepare a raw scan."""

    name = "prepare"

    @property
    def preparing(self) -> Preparing:
        """How scans are prepared."""
        return self.study.preparing or Preparing()

    def steps(self, scan: Subject) -> dict[str, str]:
        """Return what is to be done with a scan, see `PreparationRecord`."""
        chosen, tissues = self.preparing, "none"
        if scan.tissues.complete and chosen.tissues != "find":
            tissues = "given"
        elif chosen.tissues != "none":
            tissues = "found"
        mask = chosen.mask if scan.mask is None else "given"
        corrected = "left" if chosen.no_bias_field else "corrected"
        moved = {"channels": "registered"} if channels_to_move(scan) else {}
        return {"mask": mask, "bias field": corrected, "tissues": tissues, **moved}

    def packages(self, scan: Subject) -> list[str]:
        """Return the packages that make the results, and that these depend on."""
        steps = self.steps(scan)
        template = steps["tissues"] == "found" or self.preparing.resolution is not None
        registered = template or "channels" in steps
        needed = {
            "picsl_greedy": registered,
            "SimpleITK": registered or steps["bias field"] == "corrected",
            "deepbet": steps["mask"] == "brain",
            "nilearn": template,
        }
        return [name for name, wanted in needed.items() if wanted]

    def paths(self, scan: Subject, *, copy: bool = False) -> PreparedPaths:
        """Return where the results of a scan go, or those of its copy, if there is one.

        A label of BIDS has no point: 1.5 mm are ``res-1p5``.
        """
        folder, _, name = str(self.study.folder / scan.output.image).rpartition("/")
        start, resolution = name.partition(_IMAGE)[0], self.preparing.resolution
        if copy and resolution is not None:
            label = f"{resolution:g}".replace(".", "p")
            start = f"{_OTHER_GRID.sub('', start)}_space-{registration.TEMPLATE_SPACE}_res-{label}"

        def file(ending: str) -> Path:
            return Path(f"{folder}/{start}_{ending}")

        suffixes = {name: bids_names.suffix_of(out.image) for name, out in scan.outputs.items()}
        return PreparedPaths(
            {name: file(f"desc-preproc_{suffix}.nii.gz") for name, suffix in suffixes.items()},
            file("desc-brain_mask.nii.gz"),
            file("label-lesion_mask.nii.gz"),
            [file(f"label-{tissue.upper()}_probseg.nii.gz") for tissue in TissueMaps._fields],
            [file("mask.json"), file("probseg.json")],
        )

    def picture(self, scan: Subject) -> Path:
        """Return where the picture for quality control goes."""
        name = Path(scan.output.image).name.partition(".")[0]
        return self.study.folder / FIGURES / f"{name}.png"

    def prepared(self, scan: Subject, *, copy: bool = False) -> Subject:
        """Return a scan as it is once it is prepared: with our images, mask and maps.

        Parameters
        ----------
        scan : the raw scan.
        copy : whether its copy in the space of the template is meant.
        """
        paths = self.paths(scan, copy=copy)
        none = self.steps(scan)["tissues"] == "none"
        maps = TissueMaps() if none else TissueMaps(*map(str, paths.tissues))
        images = {name: str(path) for name, path in paths.images.items()}
        lesion = None if scan.lesion is None else str(paths.lesion)
        return replace(scan, images=images, mask=str(paths.mask), lesion=lesion, tissues=maps)

    def records(self, scan: Subject) -> list[Path]:
        """Return where the record goes."""
        return [self.paths(scan).record]

    def outputs(self, scan: Subject) -> list[Path]:
        """Return where all other files go."""
        files = [self.picture(scan)]
        for own in (self.paths(scan), self.paths(scan, copy=True)):
            images = [*own.images.values()]
            files += [*images, *map(sidecar_of, images), own.mask, own.lesion]
            files += [*own.tissues, *own.shared]
        return [path for path in dict.fromkeys(files) if path != self.paths(scan).record]

    def files(self, scan: Subject) -> Mapping[str, Sequence[str]]:
        """Return the files that are read."""
        return scan.files(tissues=self.steps(scan)["tissues"] == "given")

    def key(self, scan: Subject, inputs: Mapping[str, Sequence[str]]) -> Key:
        """Return everything that the results depend on."""
        packages, resolution = self.packages(scan), self.preparing.resolution
        known = versions(*packages)
        copy = {} if resolution is None else {"resolution": resolution}
        settings = {
            **self.steps(scan),
            **{name: known[name] for name in packages if name in known},
            "name": Path(scan.output.image).name,
            **{name: part for name, part in scan.output.metadata.items() if name != "Sources"},
            **copy,
        }
        return Key(inputs, settings, {"results": f"preparation {PREPARATIONS}"})

    def make(self, scan: Subject) -> Done:
        """Prepare a scan, and write what was found."""
        begun = time.perf_counter()
        steps, record = self.steps(scan), self.paths(scan).record
        given = _read_raw(scan, steps, self.study.options.max_bytes)
        found = _prepare(given, steps)
        anchor = found[given.anchor]
        odd = (image_doubts(str(path), name) for name, path in scan.images.items())
        key = self.key(scan, contents(given.files))
        about = {"SkullStripped": steps["mask"] == "nonzero", **scan.output.metadata}
        with ExitStack() as pending:
            write = _Writer(pending, scan, steps, given, found, about)
            write.own(self.paths(scan))
            if self.preparing.resolution is not None:
                write.copy(self.paths(scan, copy=True), self.preparing.resolution)
            moved = [(name, found[name].corrected) for name in given.fits]
            volume = given.volumes[given.anchor]
            picture = preparation_picture(volume, anchor, given.lesion, moved)
            write.bytes(self.picture(scan), picture)
            full = PreparationRecord(
                steps=steps,
                settings=dict(key.settings),
                versions=versions(*PACKAGES),
                inputs=given.files,
                measures=anchor.measures,
                outputs=relative_outputs(record, write.written),
                seconds=round(time.perf_counter() - begun, 2),
                warnings=given.warnings,
                doubts=(*sum(odd, ()), *preparation_doubts(anchor.measures)),
                fingerprint=key.fingerprint,
            )
            start = f"{record.name.partition('_')[0]}_"  # others are not of this subject
            earlier = [path for path in outputs_in(record) if path.name.startswith(start)]
            list_outputs(pending, record, full.content(about), (*write.written, *earlier))
        same = content_of(scan, key.inputs)
        return Done(False, full.warnings, full.doubts, same)


# ── in memory ─────────────────────────────────────────────────────────────────────────────────────


class _Raw(NamedTuple):
    """A scan that was read.

    Attributes
    ----------
    volumes : its images, by channel.
    anchor : the channel in which brain and tissues are found.
    brain, lesion : which voxels are inside the brain, and inside a lesion, in three dimensions.
    maps : its tissue probability maps, if they were given and are kept.
    fits : how channels were brought to the grid of the anchor, for those that were.
    files : all that was read.
    warnings : for the user.
    """

    volumes: dict[str, Volume]
    anchor: str
    brain: BoolArray
    lesion: BoolArray | None
    maps: tuple[Volume, ...]
    fits: dict[str, registration.ChannelFit]
    files: Hashes
    warnings: tuple[str, ...]


def _anchor(scan: Subject) -> str:
    return next((name for name in scan.channels if contrast_called(name) == T1W), scan.channels[0])


def channels_to_move(scan: Subject) -> list[str]:
    """Return the channels that lie on another grid than that in which tissues are found."""
    if len(scan.images) == 1:
        return []
    with suppress(FileError):  # reading the scan will say the same
        grids = {name: read_grid(image) for name, image in scan.images.items()}
        return [name for name in grids if not same_grid(grids[name], grids[_anchor(scan)])]
    return []


def _read_raw(scan: Subject, steps: Mapping[str, str], max_bytes: int) -> _Raw:
    """Read a scan, its masks and maps, and check that they belong together."""
    for image in scan.images.values():
        refuse_unplaced(read_grid(image))
    anchor, moving = _anchor(scan), channels_to_move(scan)
    images = {name: image for name, image in scan.images.items() if name not in moving}
    mask = BRAIN if scan.mask is None and steps["mask"] == BRAIN else scan.mask
    voxels = read_voxels(replace(scan, images=images, mask=mask), max_bytes=max_bytes)
    volumes = dict(zip(images, voxels.volumes, strict=True))
    volume = volumes[anchor]
    warnings, maps, files = [*voxels.warnings], [], dict(voxels.files)
    if moving and "image" in files:  # one channel alone
        files[anchor] = files.pop("image")
    for name in moving:
        volumes[name] = read_volume(scan.images[name], max_bytes=max_bytes)
        files[name] = volumes[name].files
    if steps["tissues"] == "given":
        for tissue, source in scan.tissues._asdict().items():
            one, more = read_map(source, volume, max_bytes)
            warnings += more
            maps.append(one)
            files[tissue] = one.files
    for one in volumes.values():
        if missing := int(np.count_nonzero(~np.isfinite(one.stored))):
            warnings.append(f"{one.path}: {plural(missing, 'voxel')} NaN or infinite, set to 0")
    shape = volume.spatial_shape
    brain = voxels.inside[:].reshape(shape, order="F")
    lesion = None if voxels.lesion is None else voxels.lesion.reshape(shape, order="F")
    fits, grid = {}, registration.Grid(shape, volume.affine)
    for name in moving:
        one, values = volumes[name], volume.spatial_values
        with error_about(one.path):
            found, fits[name] = registration.moved_channel(
                one.spatial_values, one.affine, values, grid, brain
            )
        stored = np.asfortranarray(found).reshape(volume.shape, order="F")
        volumes[name] = replace(volume, path=one.path, stored=stored, slope=1.0, inter=0.0)
    return _Raw(volumes, anchor, brain, lesion, tuple(maps), fits, files, tuple(warnings))


def _prepare(given: _Raw, steps: Mapping[str, str]) -> dict[str, PreparedVolume]:
    """Prepare all channels; tissues are found in one of them, unless they were given."""
    corrected, found = steps["bias field"] == "corrected", {}
    for channel, volume in given.volumes.items():
        segmented = channel == given.anchor and steps["tissues"] == "found"
        found[channel] = prepare_volume(
            volume, given.brain, lesion=given.lesion, bias_field=corrected, tissues=segmented
        )
    one = found[given.anchor]
    one = one._replace(measures=replace(one.measures, channels=given.fits or None))
    if given.maps:
        tissues: Map = np.stack([np.asarray(own.spatial_values, np.float32) for own in given.maps])
        tissues = np.nan_to_num(tissues, posinf=0, neginf=0)
        seen = one.brain if given.lesion is None else one.brain & ~given.lesion
        sums = tissues[:, seen].sum(axis=0)
        if tissues.max() > 1 + _ROUNDING and (sums > 0).any():  # percent, for example
            tissues /= np.float32(np.median(sums[sums > 0]))
        ml = tissue_volumes(tissues, seen, given.volumes[given.anchor])
        measures = replace(one.measures, tissues_ml=ml)
        one = one._replace(tissues=tissues, measures=measures)
    return {**found, given.anchor: one}


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Writer:
    """Writes files that get their names together, and notes their hashes."""

    pending: ExitStack
    scan: Subject
    steps: Mapping[str, str]
    given: _Raw
    found: Mapping[str, PreparedVolume]
    about: Mapping[str, Any]
    written: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note what must not be replaced."""
        self._keep = all_files(self.scan.files(tissues=True))

    def own(self, paths: PreparedPaths) -> None:
        """Write the images of a scan on its own grid, its masks and its maps."""
        given, anchor = self.given, self.found[self.given.anchor]
        for channel, path in paths.images.items():
            self.volume(path, given.volumes[channel], self.found[channel].corrected)
            if sidecar_of(path) != paths.record:
                fit = given.fits[channel].to_dict() if channel in given.fits else {}
                out = self.scan.outputs[channel]
                self.json(sidecar_of(path), {**self.about, **out.metadata, **fit})
        like = given.volumes[self.scan.channels[0]]
        tissues = None if given.maps else anchor.tissues
        brain = np.logical_and.reduce([one.brain for one in self.found.values()])
        self.regions(paths, like, brain, tissues, given.lesion)
        for path, own in zip(paths.tissues, given.maps, strict=False):
            dtype = own.stored.dtype.newbyteorder("=").name
            scaling = float(own.slope), float(own.inter)
            self.volume(path, own, own.stored, dtype=dtype, scaling=scaling)

    def copy(self, paths: PreparedPaths, resolution: float) -> None:
        """Write a copy in the space of the template, aligned by rotation and shift alone."""
        size = f"{resolution:g} mm isotropic; aligned with the template by rotation and shift alone"
        geometry = {"Resolution": size, "SpatialReference": _TEMPLATE}
        given = self.given
        for channel, one in self.found.items():
            tissues = one.tissues
            if tissues is not None and not given.maps:  # as they are stored
                tissues = (in_steps(tissues) * np.float32(STEP)).astype(np.float32)
            copy = registration.aligned_copy(
                one.corrected,
                given.volumes[channel].affine,
                one.brain,
                tissues=tissues,
                lesion=given.lesion,
                linear=self.found[given.anchor].linear,
                resolution=resolution,
            )
            shape, affine = copy.grid
            header, empty = new_nifti(shape, affine, "mni"), np.zeros(shape, np.uint8, order="F")
            like = Volume("", (), empty, 1.0, 0.0, header, affine)
            self.volume(paths.images[channel], like, copy.image)
            own = {
                **geometry,
                "Sources": [f"bids::{self.scan.outputs[channel].image}"],
                "matrix": copy.matrix.tolist(),  # from mm of the template to mm of the scan
                "overlap": copy.overlap,
            }
            self.json(sidecar_of(paths.images[channel]), {**self.about, **own})
            if channel == given.anchor:
                self.regions(paths, like, copy.brain, copy.tissues, copy.lesion)
                for path in paths.shared[: 1 if copy.tissues is None else 2]:
                    self.json(path, geometry)

    def volume(self, path: Path, like: Volume, array: NDArray[Any], **how: Any) -> None:
        """Write an array as an image on the grid of another."""
        flat = [array.reshape(-1, order="F")]
        how |= {"force": True, "inputs": self._keep, "pending": self.pending}
        self.written |= write_volume(path, like, flat, **how).sha256

    def regions(
        self,
        paths: PreparedPaths,
        like: Volume,
        brain: Bools,
        tissues: Map | None,
        lesion: Bools | None,
    ) -> None:
        """Write masks, and the maps of tissues that were found, in steps as of `in_steps`."""
        ours = self.steps["mask"] == BRAIN
        marked = like_found_brain(like, deepbet_version()) if ours else like
        self.volume(paths.mask, marked, brain, dtype="uint8")
        if tissues is not None:
            found = self.steps["tissues"] == "found"
            how = {"dtype": "uint8", "scaling": (STEP, 0.0)} if found else {}
            parts = in_steps(tissues) if found else tissues
            for path, part in zip(paths.tissues, parts, strict=True):
                self.volume(path, like, part, **how)
        if lesion is not None:
            self.volume(paths.lesion, like, lesion, dtype="uint8")

    def json(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write a sidecar of BIDS that is no record."""
        self.bytes(path, (json.dumps(content, indent=1) + "\n").encode())

    def bytes(self, path: Path, content: bytes) -> None:
        """Write any other file."""
        self.written[path] = write_pending(self.pending, path, content, inputs=self._keep)


def in_steps(tissues: Map) -> NDArray[np.uint8]:
    """Return probabilities as multiples of 1/255 whose sum is that of the probabilities, rounded.

    Each is rounded down, and what is missing of the sum goes to those that lost most.

    Parameters
    ----------
    tissues : (3, ...), whose sum is at most 1.

    Examples
    --------
    >>> in_steps(np.array([[0.5], [0.25], [0.25]], np.float32)).ravel().tolist()
    [127, 64, 64]
    """
    levels = np.zeros(tissues.shape, np.uint8)
    some = tissues.any(axis=0)
    exact = np.clip(tissues[:, some], 0, 1).astype(np.float64) * _LEVELS
    down = np.floor(exact)
    missing = np.minimum(np.rint(exact.sum(axis=0)), _LEVELS) - down.sum(axis=0)
    order = np.argsort(down - exact, axis=0, kind="stable")  # who lost most comes first
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(exact))[:, np.newaxis], axis=0)
    levels[:, some] = down + (rank < missing)
    return levels


# ── what has to be there ──────────────────────────────────────────────────────────────────────────


def check_requirements(study: Study) -> None:
    """Raise an error, before any work, where a package or something of a scan is missing."""
    step = PrepareStep.of(study)
    needed: set[str] = set()
    for scan in study.scans:
        needed |= {*step.packages(scan)}
        given = [tissue for tissue, source in scan.tissues._asdict().items() if source is not None]
        if given and not scan.tissues.complete and step.preparing.tissues != "find":
            cause = f"{scan.origin}: has a tissue map of {listed(given)} only"
            raise FileError(scan.path, cause, "give csf, gm and wm, or none of them")
        path = str(scan.images[_anchor(scan)])
        contrast = contrast_of(path, _anchor(scan))
        if step.steps(scan)["mask"] == "brain" and contrast != T1W:
            cause = f"not a T1w image, but {contrast}; brains are found in T1w images only"
            raise FileError(path, cause, "give its mask, in the column mask of the table")
    needed |= {"torch"} if "deepbet" in needed else set()
    if missing := not_installed(*sorted(needed)):
        words = f"preparing these scans needs {listed(missing)}, not installed here"
        raise InvalidValueError(f"{words}; try {installing('prepare')}")


def contrast_of(path: str, channel: str) -> str:
    """Return what an image shows: as the user says, else by the end of its name, else T1w."""
    if channel != ANY_CHANNEL:
        return contrast_called(channel)
    return contrast_in_name(path) or T1W


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def scans_to_prepare(scans: Sequence[Subject], source: Path) -> list[Subject]:
    """Return scans whose results have the names of a BIDS derivative.

    Parameters
    ----------
    scans : with names of their own.
    source : the folder that they come from, to name them in BIDS URIs.

    Raises
    ------
    FileError : if two scans would have the same name.
    """
    of_bids: dict[str, Entities] = {}  # of scans whose names are of BIDS, and their own
    for scan in scans:
        file = Path(scan.path).name
        if stem(file) == scan.output.name and (found := bids_names.entities_of(file)):
            of_bids[scan.name] = found
    taken: dict[str, Subject] = {}
    named: list[Subject] = []
    for scan in scans:
        entities = of_bids.get(scan.name) or {"sub": _label(scan.name)}
        outputs = {}
        for channel, image in scan.images.items():
            if channel != ANY_CHANNEL:
                bids_names.check_label("channel", channel)
            path = str(image)
            inherited = bids_names.inherited_metadata(path) if scan.name in of_bids else {}
            output = preprocessed_name(entities, contrast_of(path, channel))
            metadata = {"Sources": [_uri(path, source)], **inherited}
            name = scan.outputs[channel].name
            outputs[channel] = Output(name, output, sidecar_of(output).as_posix(), metadata)
        first = next(iter(outputs.values())).image
        other = taken.setdefault(alike(first.rpartition("_desc-")[0]), scan)
        if other is not scan:
            cause = f"{scan.origin}: by its name, of the same subject and visit as {other.path}"
            hint = "rename one, or list one contrast at a time, each to a folder of its own"
            raise FileError(scan.path, f"{cause} ({other.origin})", hint)
        named.append(replace(scan, outputs=outputs))
    return named


def preprocessed_name(entities: Entities, suffix: str) -> str:
    """Return the path of a prepared image, relative to the folder of the results.

    Parameters
    ----------
    entities : of the scan.
    suffix : what it shows.

    Examples
    --------
    >>> preprocessed_name({"sub": "01", "ses": "1", "desc": "defaced"}, "T1w")
    'sub-01/ses-1/anat/sub-01_ses-1_desc-preproc_T1w.nii.gz'
    """
    kept = {key: label for key, label in entities.items() if key not in _PROCESSED}
    parts = [f"{key}-{label}" for key, label in kept.items()]
    folders = [f"{key}-{kept[key]}" for key in ("sub", "ses") if key in kept]
    return "/".join([*folders, "anat", "_".join([*parts, "desc-preproc", f"{suffix}.nii.gz"])])


def _uri(path: str, source: Path) -> str:
    """Return the BIDS URI of a scan."""
    try:
        relative = os.path.relpath(os.path.abspath(path), source)  # noqa: PTH100
    except ValueError:  # on two drives
        relative = Path(path).name
    return f"bids:{bids_names.RAW}:{quote(os.fsencode(Path(relative).as_posix()))}"


def _label(name: str) -> str:
    """Return a label of BIDS for the name of a scan: without all that BIDS does not allow."""
    short = name.removesuffix(ending_of(name)) or name
    plain = _OTHERWISE.sub("", normalize("NFKD", short.removeprefix("sub-")))
    return plain or hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:_HASH]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────

Row = Mapping[str, str | None]


def tables(study: Study, scans: Sequence[Subject]) -> dict[str, bytes]:
    """Return all tables about scans that were prepared, by the names of their files."""
    step = PrepareStep.of(study)
    more = sorted({name for scan in scans for name in scan.covariates})
    images = study.channels if len(study.channels) > 1 else ("image",)
    columns = ("subject", "site", *images, "mask", "csf", "gm", "wm", "lesion", *more)
    made: dict[str, tuple[Sequence[str], list[Row]]] = {
        STUDY: (columns, [_listed(study, step.prepared(scan), images) for scan in scans]),
        MEASURES: (_MEASURED, [_measured(step, scan) for scan in scans]),
    }
    if step.preparing.resolution is not None:
        copies = [step.prepared(scan, copy=True) for scan in scans]
        made[ALIGNED] = (columns, [_listed(study, copy, images) for copy in copies])
    return {
        name: table_bytes(names, ([row.get(column) for column in names] for row in rows))
        for name, (names, rows) in made.items()
    }


def _listed(study: Study, ready: Subject, images: Sequence[str]) -> Row:
    files: dict[str, Any] = dict(zip(images, ready.images.values(), strict=True))
    files |= {"mask": ready.mask, "lesion": ready.lesion, **ready.tissues._asdict()}
    relative = {
        what: source and Path(os.path.relpath(str(source), study.folder)).as_posix()
        for what, source in files.items()
    }
    return {**ready.covariates, "subject": ready.person, "site": ready.site, **relative}


def _measured(step: PrepareStep, scan: Subject) -> Row:
    record = PreparationRecord.read(step.paths(scan).record)
    known = record.measures
    coarse = (known.brain_ml, *(known.tissues_ml or [None] * 3), record.seconds)
    fine = (*(known.field or [None] * 2), known.overlap, known.likeness, known.agreement)
    return {
        "name": scan.name,
        "subject": scan.person,
        "site": scan.site,
        **{what.replace(" ", "_"): done for what, done in record.steps.items()},
        **{n: None if x is None else f"{x:.1f}" for n, x in zip(_COARSE, coarse, strict=True)},
        **{n: None if x is None else f"{x:.3f}" for n, x in zip(_FINE, fine, strict=True)},
        "doubts": "; ".join(doubt.kind for doubt in record.doubts) or None,
        "image": scan.output.image,
    }
