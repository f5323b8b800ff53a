"""Results: a normalised image, and the sidecar that says how it was made.

The sidecar of ``out.nii.gz`` is ``out.json``. It is a model file of the kind ``map``, so the map
that made an image can be applied again, or undone, from it. Both files get their names when both
are complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from nibabel.spatialimages import SpatialImage
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, Histogram
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import FileHash, Hashes
from ndflow.files.model_files import (
    check_model,
    list_outputs,
    not_ours,
    relative_outputs,
    write_pending,
)
from ndflow.files.outputs import sidecar_of
from ndflow.files.stream import sha256_of
from ndflow.image.read import Source, read_volume
from ndflow.image.volume import Volume
from ndflow.image.write import check_output, make_array, make_image, write_volume
from ndflow.options import Options
from ndflow.subject.records import MapRecord
from ndflow.transport import IntensityMap
from ndflow.values import JSON, Doubt, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Files = Mapping[str, Sequence[str]]  # the files of a scan, by what they are


@dataclass(frozen=True, repr=False)
class Result:
    """What became of an image.

    Attributes
    ----------
    image : the new image, an array where one was given and otherwise a nibabel image; None if it
        was written to a file instead.
    record : how it was made, as its sidecar says.
    histogram : of the voxels that counted in the image that went in; None where none was made.
    target : the density it was brought to, in the units of the result, if there is one.
    output : the file that was written, if any.
    """

    image: NDArray[Any] | SpatialImage | None
    record: MapRecord
    histogram: Histogram | None = None
    target: GaussianMixture | None = None
    output: AnyPath | None = None

    @property
    def imap(self) -> IntensityMap:
        """The map that made it."""
        return self.record.map

    @property
    def mixture(self) -> GaussianMixture | None:
        """The density of the image that went in, where it was estimated."""
        return self.record.mixture

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know."""
        return self.record.warnings

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What to check by eye."""
        return self.record.doubts

    def __repr__(self) -> str:
        """Return one line: what there is, and how the match ended."""
        what = f"written to {self.output}" if self.output is not None else "in memory"
        match = f", {self.record.match.message}" if self.record.match else ""
        doubts = f", {len(self.doubts)} to inspect" if self.doubts else ""
        return f"<ndflow Result {what}{match}, {plural(len(self.warnings), 'warning')}{doubts}>"

    def _repr_html_(self) -> str:
        """Return the figure of `plot` for notebooks; without matplotlib, the one line."""
        line = f"<p>{escape(repr(self))}</p>"
        if find_spec("matplotlib") is None or self.histogram is None:
            return line
        from ndflow.figures.style import svg

        return line + svg(self.plot()).decode()

    def save(self, path: AnyPath, *, force: bool = False) -> Result:
        """Write the image to a file, with its sidecar beside it.

        Parameters
        ----------
        path : the file.
        force : whether a result that exists already may be replaced.

        Returns
        -------
        Result
            The same, but for the image, which is in the file.
        """
        if self.image is None or isinstance(self.image, np.ndarray):
            why = "an array has no geometry; normalise an image"
            raise InvalidValueError(why if self.output is None else f"it is in {self.output}")
        volume = read_volume(self.image)
        options = Options(dtype=volume.stored.dtype.name, force=force)  # type: ignore[arg-type]
        inputs = names_of(self.record.inputs or {})
        check_results([path], inputs, options=options)
        return deliver(
            self.image,
            volume,
            [volume.values(volume.flat)],
            self.record,
            output=path,
            inputs=inputs,
            options=options,
            histogram=self.histogram,
            target=self.target,
        )

    def plot(self) -> Figure:
        """Draw the histogram before and after, and the map between them.

        Of channels that were mapped together, draw the joint density of each pair.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InvalidValueError
            Where matplotlib is not installed, or no density was estimated.
        """
        from ndflow.subject.plot import plot_channels, plot_result

        record, histogram = self.record, self.histogram
        if histogram is None or record.mixture is None or record.target is None:
            raise InvalidValueError("there is no histogram to draw: no density was estimated")
        if record.channel_names:
            return plot_channels(histogram, self.imap, record.target.mixture, record.channel_names)
        return plot_result(histogram, record.mixture, self.imap, self.target)


def check_results(outputs: Iterable[AnyPath | None], inputs: Files, *, options: Options) -> None:
    """Say now what `deliver` would say at the end, for the files that were read.

    Not even by force is an image replaced that we did not write, unless it is empty.
    """
    given, force = all_files(inputs), options.force
    for output in (one for one in outputs if one is not None):
        check_output(output, dtype=options.dtype, force=force, inputs=given)
        sidecar = sidecar_of(output)
        image = Path(output)
        if image.exists() and image.stat().st_size and not_ours(sidecar, [image]):
            cause = "exists, and was not written by ndflow"
            raise FileError(output, cause, "choose another name for the output, or move it")
        check_model(sidecar, given, force=force)


def deliver(
    image: Source,
    like: Volume,
    chunks: Iterable[NDArray[Any]],
    record: MapRecord,
    *,
    output: AnyPath | None,
    inputs: Files,
    options: Options,
    sidecar: AnyPath | None = None,
    metadata: Mapping[str, JSON] | None = None,
    also: Mapping[Path, bytes] | None = None,
    histogram: Histogram | None = None,
    target: GaussianMixture | None = None,
) -> Result:
    """Write an image with its sidecar, or return it in memory.

    Parameters
    ----------
    image : as the user gave it.
    like : the same, read.
    chunks : the new voxels, see `write_volume`.
    record : how it was made, but for what only shows when it is written.
    output : where to; None for memory.
    inputs : files that must not be replaced.
    options : how.
    sidecar : where the sidecar goes, if not beside the image.
    metadata : what else the sidecar says, for BIDS.
    also : other files that appear with the image, and their content.
    histogram, target : see `Result`.
    """
    if output is None:
        make = make_array if isinstance(image, np.ndarray) else make_image
        made, clipped = make(like, chunks, dtype=options.dtype)
        full = _completed(record, clipped, like.path, options)
        return Result(made, full, histogram, target, output)
    place = Path(sidecar or sidecar_of(output))
    protected = all_files(inputs)
    with ExitStack() as pending:
        written = write_volume(
            output,
            like,
            chunks,
            dtype=options.dtype,
            force=options.force,
            inputs=protected,
            pending=pending,
        )
        outputs = {**written.sha256}
        for path, content in (also or {}).items():
            outputs[path] = write_pending(pending, path, content, inputs=protected)
        full = _completed(record, written.clipped, os.fspath(output), options)
        full = replace(full, outputs=relative_outputs(place, outputs))
        list_outputs(pending, place, full.content(metadata), outputs, force=options.force)
    return Result(None, full, histogram, target, output)


def _completed(record: MapRecord, clipped: int, path: str, options: Options) -> MapRecord:
    """Return a record with what only shows when an image is made."""
    warnings = list(record.warnings)
    if clipped:
        warnings.append(
            f"{path}: {clipped:,} voxels did not fit the type {options.dtype} and became the "
            f"nearest value that does"
        )
    total = clipped + (record.clipped or 0)  # those of a result that is saved later
    return replace(record, outputs=None, clipped=total, warnings=tuple(warnings))


def hashes(inputs: Files) -> Hashes:
    """Return the SHA-256 of every file as it is now; what was read knows its own hashes."""
    return {
        what: tuple(FileHash(name, sha256_of(name)) for name in names)
        for what, names in inputs.items()
        if names
    }


def names_of(hashed: Hashes) -> dict[str, tuple[str, ...]]:
    """Return the names of files that were read."""
    return {what: tuple(file.file for file in files) for what, files in hashed.items()}


def all_files(inputs: Files) -> list[str]:
    """Return the files that were read, whatever they are."""
    return [name for names in inputs.values() for name in names]
