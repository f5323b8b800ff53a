"""Files that tests write: images in every format, and BIDS datasets."""

import gzip
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHImage
from nibabel.nifti1 import Nifti1Header, Nifti1Image
from nibabel.nifti2 import Nifti2Image
from numpy.typing import NDArray

# ── images ───────────────────────────────────────────────────────────────────────────────────────

SHAPE = (7, 6, 5)
VOXELS = np.random.default_rng(0).integers(-300, 3000, SHAPE).astype(np.int16)

FORMATS: dict[str, type[Any]] = {
    "x.nii": Nifti1Image,
    "x.nii.gz": Nifti1Image,
    "2.nii": Nifti2Image,
    "2.nii.gz": Nifti2Image,
    "x.mgh": MGHImage,
    "x.mgz": MGHImage,
}
each_format = pytest.mark.parametrize("name", FORMATS)


def rigid() -> NDArray[np.float64]:
    """Return an affine without shear, which MGH can hold too."""
    rotation = np.array([[0.0, -0.6, 0.8], [1, 0, 0], [0, 0.8, 0.6]])
    affine = np.eye(4)
    affine[:3, :3] = rotation * [1.0, 2.0, 1.5]
    affine[:3, 3] = [10, -20, 30]
    return affine


def saved(path: Path, voxels: NDArray[Any] = VOXELS, **fields: Any) -> Path:
    """Write an image with nibabel, in the format of its name."""
    image = FORMATS.get(path.name, Nifti1Image)(voxels, rigid())
    for field, value in fields.items():
        image.header[field] = value
    nibabel.save(image, path)
    return path


def loaded(path: Path) -> Any:
    """Read an image with nibabel, which would leave an .mgh file open."""
    return MGHImage.from_bytes(path.read_bytes()) if path.suffix == ".mgh" else nibabel.load(path)


def altered(folder: Path, name: str = "altered.nii", **fields: Any) -> Path:
    """Write a NIfTI file with header fields that nibabel would refuse to write."""
    content = saved(folder / "x.nii").read_bytes()
    header = Nifti1Header(content[:348])
    for field, value in fields.items():
        header[field] = value
    content = header.binaryblock + content[348:]
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    return path


# ── BIDS datasets ────────────────────────────────────────────────────────────────────────────────

ANNEXED = ".git/annex/objects/Xk/3Q/MD5E-s7--0a.nii.gz/MD5E-s7--0a.nii.gz"


def dataset(root: Path, *files: str, **tables: str) -> Path:
    """Make a dataset of empty images; tables are given by their stems, as in participants=…."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset_description.json").write_text('{"Name": "Test", "BIDSVersion": "1.10.0"}')
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name, content in tables.items():
        (root / f"{name}.tsv").write_bytes(content.encode())
    return root


_TISSUES = ("label-CSF_probseg", "label-GM_probseg", "label-WM_probseg")
_NATIVE = (
    "_desc-ribbon_mask",
    "_desc-aseg_dseg",
    "_desc-preproc_T1w.json",
    "_hemi-L_pial.surf.gii",
)
_NATIVE += ("_from-T1w_to-MNI_mode-image_xfm.h5", "_from-fsnative_to-T1w_mode-image_xfm.txt")


def fmriprep(*starts: str) -> list[str]:
    """Return what fMRIPrep makes of T1w images, by what names start with, as in sub-01_run-1."""
    grids = ("_", "_space-MNI152NLin2009cAsym_", "_space-MNI152NLin2009cAsym_res-2_")
    kinds = ("desc-preproc_T1w", "desc-brain_mask", "dseg", *_TISSUES)
    ends = (*(grid + kind for grid in grids for kind in kinds), *_NATIVE)
    return [
        "logs/CITATION.md",
        "sub-01.html",
        *anat(*(one + end for one in starts for end in ends)),
    ]


def anat(*names: str) -> list[str]:
    """Return where files belong in a dataset by their names, as in sub-01_ses-a_T1w (.nii.gz)."""
    places = []
    for name in names:
        folders = [part for part in name.split("_") if part.startswith(("sub-", "ses-"))]
        places.append("/".join((*folders, "anat", name if "." in name else f"{name}.nii.gz")))
    return places
