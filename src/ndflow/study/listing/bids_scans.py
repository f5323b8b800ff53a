"""The images of a BIDS dataset as the scans of a study, and its folder as a BIDS derivative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ndflow._version import __version__
from ndflow.bids.derivative import derivative_path, source_uris, write_dataset_files
from ndflow.bids.query import BidsImage
from ndflow.errors import FileError
from ndflow.files.atomic import folder_lock
from ndflow.image.mask import FoundMask
from ndflow.image.subject import Scan, TissueMaps
from ndflow.scan.outputs import sidecar_of, stem
from ndflow.study.listing.columns import FILES, OURS, TEXTS
from ndflow.study.listing.image_metadata import inherited_metadata
from ndflow.study.plan import Study
from ndflow.study.preparing.preparation_plan import PREPARED

__all__ = ["TAKEN", "describe_derivative", "scans_of_dataset"]

# Columns of OUT/scans.tsv, which the tables of a dataset may have too, to mean something else.
TAKEN = {*FILES, *TEXTS, *OURS}
_BRAIN = "_desc-brain_mask"
_NONE: Mapping[str, Path] = MappingProxyType({})
_DATASET_LOCK = ".ndflow-dataset-lock"


def scans_of_dataset(
    found: Sequence[BidsImage],
    *,
    unmasked: FoundMask | None,
    derivatives: Mapping[str, Path] = _NONE,
) -> list[Scan]:
    """Return the images of a dataset as the scans of a study.

    Parameters
    ----------
    found : the images, see `ndflow.bids.query.find_scans`.
    unmasked : what to find in scans without a mask; None for nothing.
    derivatives : the folders in which masks and tissue probability maps were looked up, by name.
    """
    scans: dict[str, Scan] = {}
    for one in found:
        name = stem(one.relative)
        if name in scans:
            cause = f"called like {scans[name].origin}"
            raise FileError(one.image, cause, "one of them is in a folder that is not of BIDS")
        output = derivative_path(one)
        mask = str(Path(one.mask).absolute()) if one.mask else None
        scans[name] = Scan(
            str(Path(one.image).absolute()),
            mask or unmasked,
            str(Path(one.lesion).absolute()) if one.lesion else None,
            _tissue_maps(one, mask),
            subject=f"sub-{one.entities['sub']}",
            site=one.site,
            name=name,
            origin=one.relative,
            covariates={n: cell for n, cell in one.more.items() if n.lower() not in TAKEN},
            output=output,
            sidecar=str(sidecar_of(output)),
            metadata={
                "Sources": source_uris(one, derivatives),
                "SkullStripped": False,  # unless the sidecar of the scan says so
                **inherited_metadata(one.image),
            },
        )
    return list(scans.values())


def _tissue_maps(scan: BidsImage, mask: str | None) -> TissueMaps:
    """Return the tissue probability maps in derivatives, or beside the mask and named like it."""
    if scan.tissues:
        return TissueMaps(**{t: str(Path(path).absolute()) for t, path in scan.tissues.items()})
    if mask is None or _BRAIN not in Path(mask).name:
        return TissueMaps()
    beside = {
        tissue: Path(mask).with_name(
            Path(mask).name.replace(_BRAIN, f"_label-{tissue.upper()}_probseg")
        )
        for tissue in TissueMaps._fields
    }
    return TissueMaps(**{t: str(path) for t, path in beside.items() if path.exists()})


def describe_derivative(
    study: Study, root: Path, derivatives: Mapping[str, Path], *, force: bool
) -> None:
    """Make the folder of a study a BIDS derivative; many runs may start at the same time.

    Parameters
    ----------
    study : whose folder it is.
    root, derivatives, force : as for `run_participants`.
    """
    prepared = {} if study.preparation is None else {PREPARED: study.preparation.folder}
    with folder_lock(study.folder, name=_DATASET_LOCK, wait=True):
        write_dataset_files(
            study.folder,
            source_root=root,
            version=__version__,
            derivatives={**derivatives, **prepared},
            force=force,
        )
