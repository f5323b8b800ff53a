"""How the scan of a study was prepared, if ndflow did: found by the sidecar beside its image."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import kind_in
from ndflow.image.preview import is_ours
from ndflow.scan.outputs import sidecar_of, stem
from ndflow.study.preparing.preparation_plan import FIGURES
from ndflow.study.preparing.preparation_records import AlignedRecord, PreparationRecord

__all__ = ["PreparedImage", "preparation_of"]

_DEPTH = 4  # folders above an image: anat, session, subject, and that of the preparation


class PreparedImage(NamedTuple):
    """What is known about an image that ndflow has prepared.

    Attributes
    ----------
    record : its sidecar.
    picture : for quality control; None if it is not there.
    """

    record: PreparationRecord
    picture: Path | None


def preparation_of(image: AnyPath, sha256: str | None = None) -> PreparedImage | None:
    """Return how an image was prepared; None if ndflow has not prepared it.

    That of an aligned copy is that of the image which it is a copy of.

    Parameters
    ----------
    image : the file.
    sha256 : its hash. Somebody may have changed it after it was prepared; then the sidecar is about
        another image.
    """
    path = Path(image)
    sidecar = sidecar_of(path)
    if not sidecar.is_file():
        return None
    try:
        if kind_in(sidecar) == AlignedRecord.kind:
            copy = AlignedRecord.read(sidecar)
            same = sha256 is None or copy.outputs.get("image") == sha256
            return preparation_of(path.with_name(copy.copy_of)) if same else None
        record = PreparationRecord.read(sidecar)
    except FileError:  # that of somebody else
        return None
    if sha256 is not None and record.outputs.get("image") != sha256:
        return None
    places = (folder / FIGURES / f"{stem(path)}.png" for folder in path.parents[:_DEPTH])
    return PreparedImage(record, next((place for place in places if is_ours(place)), None))
