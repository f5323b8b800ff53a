"""The folders that pages are run in: small, filled once per session; each page gets a copy.

``<!-- runs with: NAME -->`` on a page chooses among `FOLDERS`; each lists what it puts there.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from channel_phantoms import save_channels
from deepbet_stand_in import standing_in
from docs.blocks import Page, run_command
from phantoms import head, radii, save, tissue_shares
from studies import SITES, SMALL, write_tsv

import ndflow

_LARGE = np.diag([7.0, 7.0, 7.0, 1.0])  # mm: few voxels, but a brain of the usual size
_THREE = {"Ashford": (280.0, 660.0, 1.0), "Brindle": (380.0, 750.0, 0.5)}
_THREE |= {"Corley": (140.0, 470.0, 2.0)}


def scans(folder: Path) -> None:
    """``scan``, ``other``; masks ``brain``, ``other_brain``; ``lesion``, tissues; a reference."""
    images, masks = [], []
    for seed, (image, mask) in enumerate((("scan", "brain"), ("other", "other_brain"))):
        voxels = head(seed, gain=1 + seed)
        images.append(save(folder / f"{image}.nii.gz", voxels))
        masks.append(save(folder / f"{mask}.nii.gz", (voxels > 0).astype(np.uint8)))
    for tissue, share in tissue_shares().items():
        save(folder / f"{tissue}.nii.gz", share.astype(np.float32))
    save(folder / "lesion.nii.gz", (radii() < 0.2).astype(np.uint8))
    made = ndflow.reference(images, mask=masks, channel="T1w")
    ndflow.save(folder / "reference.json", made)


def study(folder: Path) -> None:
    """``study.tsv``: ten scans of two sites; ``new.tsv``: four more; ``patients.tsv``: two."""
    (folder / "scans").mkdir()
    rows = []
    for number in range(16):
        site = "Aachen" if number in (*range(5), 10, 11, 14, 15) else "Bonn"
        row = _subject(folder, "scans", f"sub-{number + 1:02}", number, site, SITES)
        if number >= 10:
            for tissue in ("csf", "gm", "wm"):
                del row[tissue]
        if number >= 14:
            row["lesion"] = row["mask"].replace("mask", "lesion")
            save(folder / row["lesion"], (radii(SMALL) < 0.25).astype(np.uint8))
        rows.append(row)
    write_tsv(folder / "study.tsv", rows[:10])
    write_tsv(folder / "new.tsv", rows[10:14])
    write_tsv(folder / "patients.tsv", rows[14:])


def visits(folder: Path) -> None:
    """``study.tsv`` of ``study``, in which three people were scanned at both sites."""
    study(folder)
    table = (folder / "study.tsv").read_text(encoding="utf-8")
    for number in range(5, 8):
        table = table.replace(f"sub-{number + 1:02}\t", f"sub-{number - 4:02}\t")
    (folder / "study.tsv").write_text(table, encoding="utf-8")


def finished(folder: Path) -> None:
    """The folder of ``study``, and ``OUT``, its results."""
    study(folder)
    run_command("cohort", folder / "study.tsv", folder / "OUT", "-q", "--channels", "T1w")


def channels(folder: Path) -> None:
    """T1w and FLAIR of four subjects, ``sub-01_T1w.nii.gz`` and so on, and ``channels.tsv``."""
    rows = []
    for number in range(1, 5):
        subject, row = f"sub-{number:02}", {"subject": f"sub-{number:02}"}
        for name, path in save_channels(folder, number, gains=(1 + number, 1.0)).items():
            row[name] = path.rename(folder / f"{subject}_{name}.nii.gz").name
        rows.append(row)
    write_tsv(folder / "channels.tsv", rows)


def heads(folder: Path) -> None:
    """``raw.tsv``: with masks and tissue maps; ``heads.tsv``, ``head.nii.gz``: without."""
    (folder / "heads").mkdir()
    raw, bare = [], []
    for number, site in enumerate(("Aachen", "Bonn")):
        raw.append(_subject(folder, "heads", f"head{number}", number, site, SITES, shape=None))
        path = save(folder / "heads" / f"bare{number}.nii.gz", head(number), _LARGE)
        bare.append({"image": f"heads/{path.name}", "site": site})
    write_tsv(folder / "raw.tsv", raw)
    write_tsv(folder / "heads.tsv", bare)
    shutil.copy(path, folder / "head.nii.gz")


def dataset(folder: Path) -> None:
    """``BIDS_DIR``: four participants of two sites; ``fmriprep``: images, masks and tissue maps."""
    bids, derived = folder / "BIDS_DIR", folder / "fmriprep"
    names = {"mask": "desc-brain_mask", "csf": "label-CSF_probseg"}
    names |= {"gm": "label-GM_probseg", "wm": "label-WM_probseg"}
    rows = []
    for number, site in enumerate(("Aachen", "Aachen", "Bonn", "Bonn")):
        label = f"sub-{number + 1:02}"
        for place in (bids, derived):
            (place / label / "anat").mkdir(parents=True)
        row = _subject(bids, f"{label}/anat", label, number, site, SITES)
        for kind, name in names.items():
            (bids / row[kind]).rename(derived / label / "anat" / f"{label}_{name}.nii.gz")
        preprocessed = derived / label / "anat" / f"{label}_desc-preproc_T1w.nii.gz"
        shutil.copy(bids / row["image"], preprocessed)
        rows.append({"participant_id": label, "site": site, "age": row["age"]})
    write_tsv(bids / "participants.tsv", rows)
    for place, kind in ((bids, "raw"), (derived, "derivative")):
        about = {"Name": "Four heads", "BIDSVersion": "1.10.0", "DatasetType": kind}
        about |= {"GeneratedBy": [{"Name": "phantoms"}]}
        (place / "dataset_description.json").write_text(json.dumps(about))


def tutorial(folder: Path) -> None:
    """``raw/study.tsv``: three scans of each of three sites; ``prepared`` and ``later``: ready."""
    rows = []
    for number in range(12):
        site = [*_THREE][number % 3]
        (folder / "raw" / site).mkdir(parents=True, exist_ok=True)
        name = f"{site}-{number // 3 + 1:02}"
        rows.append(_subject(folder / "raw", site, name, number, site, _THREE))
    for name, listed in (("prepared", rows[:9]), ("later", rows[9:])):
        table = write_tsv(folder / "raw" / f"{name}.tsv", listed)
        run_command("prepare", table, folder / name, "-q", "--mask", "nonzero")
    plain = ("subject", "site", "image", "age")
    write_tsv(folder / "raw" / "study.tsv", [{key: row[key] for key in plain} for row in rows[:9]])


FOLDERS: dict[str, Callable[[Path], object]] = {
    fill.__name__: fill
    for fill in (scans, study, visits, finished, channels, heads, dataset, tutorial)
}
FOLDERS["empty"] = lambda _: None


def _subject(
    folder: Path,
    place: str,
    name: str,
    number: int,
    site: str,
    sites: Mapping[str, tuple[float, float, float]],
    *,
    shape: tuple[int, int, int] | None = SMALL,
) -> dict[str, str]:
    """Write a scan with its mask and tissue maps; return its row of a table."""
    csf, gm, gain = sites[site]
    tissues = ((csf, 60.0), (gm + 15 * (number % 5), 50.0), (1000.0, 40.0))
    size = {} if shape is None else {"shape": shape}
    voxels = head(number, tissues=tissues, gain=gain, **size)
    files = {"image": voxels, "mask": (voxels > 0).astype(np.uint8)}
    files |= {one: share.astype(np.float32) for one, share in tissue_shares(voxels.shape).items()}
    row = {"subject": name, "site": site, "age": f"{20 + 7 * number % 50}", "sex": "FM"[number % 2]}
    for kind, image in files.items():
        row[kind] = f"{place}/{name}_{'T1w' if kind == 'image' else kind}.nii.gz"
        save(folder / row[kind], image)
    return row


@dataclass(frozen=True)
class Folders:
    """The folders that were filled so far, below `place`."""

    place: Path

    @contextmanager
    def copy_for(self, page: Page) -> Iterator[Path]:
        """Make a folder with the files that a page asks for, and remove it afterwards."""
        copy = self.place / "pages" / page.name.replace("/", "-").removesuffix(".md")
        copy.mkdir(parents=True)
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr("ndflow.evaluation.save.drawings", lambda _: [])  # which take seconds
            if "heads" in page.folders and find_spec("deepbet") is None:
                stack.enter_context(standing_in(self.place / "packages" / copy.name))
            for name in page.folders:
                filled = self.place / "filled" / name
                if not filled.exists():
                    filled.mkdir(parents=True)
                    FOLDERS[name](filled)
                shutil.copytree(filled, copy, dirs_exist_ok=True)
            yield copy
        shutil.rmtree(copy)
