"""The folders that the pages of the documentation are run in: small, and made once per session.

``<!-- runs with: NAME -->`` on a page chooses one of `FOLDERS`, or several, separated by commas.
A function that fills a folder lists in its docstring what it puts there. To add one, write it, and
name it in `FOLDERS`; keep it small, since every page gets a copy.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from channel_phantoms import save_channels
from commands import execute
from docs.run_blocks import captured
from phantoms import head, radii, save, tissue_shares
from studies import SITES, SMALL, write_tsv

import ndflow

Fill = Callable[[Path], None]

_LARGE = np.diag([7.0, 7.0, 7.0, 1.0])  # mm: few voxels, but a brain of the usual size


def scans(folder: Path) -> None:
    """``scan.nii.gz``, ``other.nii.gz``, masks ``brain…``, ``other_brain…``, ``lesion…``; more.

    ``csf.nii.gz``, ``gm.nii.gz`` and ``wm.nii.gz`` are the tissues of ``scan.nii.gz``, and
    ``reference.json`` is a reference of both scans.
    """
    for seed, (image, mask) in enumerate((("scan", "brain"), ("other", "other_brain"))):
        voxels = head(seed, gain=1 + seed)
        save(folder / f"{image}.nii.gz", voxels)
        save(folder / f"{mask}.nii.gz", (voxels > 0).astype(np.uint8))
    for tissue, share in tissue_shares().items():
        save(folder / f"{tissue}.nii.gz", share.astype(np.float32))
    save(folder / "lesion.nii.gz", (radii() < 0.2).astype(np.uint8))
    images, masks = ("scan.nii.gz", "other.nii.gz"), ("brain.nii.gz", "other_brain.nii.gz")
    made = ndflow.reference(
        [folder / image for image in images],
        mask=[folder / mask for mask in masks],
        channel="T1w",
    )
    ndflow.save(folder / "reference.json", made)


def study(folder: Path) -> None:
    """``study.tsv``: ten scans of two sites with masks, tissue maps, age and sex; and other tables.

    The scans are ``scans/sub-01_T1w.nii.gz`` and so on, with ``_mask``, ``_csf``, ``_gm``, ``_wm``
    in the place of ``_T1w``. ``new.tsv`` has two more scans of each site, without tissue maps, and
    ``patients.tsv`` two of one site with a lesion, outlined in ``lesion``.
    """
    (folder / "scans").mkdir()
    rows = []
    for number in range(16):
        site = "Aachen" if number in (*range(5), 10, 11, 14, 15) else "Bonn"
        csf, gm, gain = SITES[site]
        tissues = ((csf, 60.0), (gm + 15 * (number % 5), 50.0), (1000.0, 40.0))
        voxels = head(number, shape=SMALL, tissues=tissues, gain=gain)
        files = {"mask": (voxels > 0).astype(np.uint8)}
        if number < 10:
            files |= {name: s.astype(np.float32) for name, s in tissue_shares(SMALL).items()}
        if number >= 14:
            files["lesion"] = (radii(SMALL) < 0.25).astype(np.uint8)
            voxels = np.where(files["lesion"], 1.5 * voxels, voxels).astype(np.int16)
        place = f"scans/sub-{number + 1:02}"
        save(folder / f"{place}_T1w.nii.gz", voxels)
        row = {"subject": f"sub-{number + 1:02}", "site": site, "image": f"{place}_T1w.nii.gz"}
        row |= {"age": f"{20 + 7 * number % 50}", "sex": "FM"[number % 2]}
        for name, image in files.items():
            save(folder / f"{place}_{name}.nii.gz", image)
            row[name] = f"{place}_{name}.nii.gz"
        rows.append(row)
    write_tsv(folder / "study.tsv", rows[:10])
    write_tsv(folder / "new.tsv", rows[10:14])
    write_tsv(folder / "patients.tsv", rows[14:])


def finished(folder: Path) -> None:
    """The folder of ``study``, and ``OUT``, its results."""
    study(folder)
    with captured() as said:
        code = execute("cohort", folder / "study.tsv", folder / "OUT", "-q", "--channels", "T1w")
    assert code == 0, said.getvalue()


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
    """``raw.tsv``: two heads with masks and tissue maps, so that they are prepared in seconds.

    ``heads.tsv`` names two without masks, and ``head.nii.gz`` is one of them. Pages that are run
    with this folder find brains by a stand-in for the network, which needs no torch.
    """
    (folder / "heads").mkdir()
    raw, bare = [], []
    for number, site in enumerate(("Aachen", "Bonn")):
        voxels, place = head(number, gain=1 + number), f"heads/head{number + 1}"
        files = {"image": voxels, "mask": (voxels > 0).astype(np.uint8)}
        files |= {name: share.astype(np.float32) for name, share in tissue_shares().items()}
        for name, image in files.items():
            save(folder / f"{place}_{name}.nii.gz", image)
        raw.append({name: f"{place}_{name}.nii.gz" for name in files} | {"site": site})
        save(folder / f"{place}.nii.gz", voxels, _LARGE)
        bare.append({"image": f"{place}.nii.gz", "site": site})
    write_tsv(folder / "raw.tsv", raw)
    write_tsv(folder / "heads.tsv", bare)
    shutil.copy(folder / bare[0]["image"], folder / "head.nii.gz")


def dataset(folder: Path) -> None:
    """``BIDS_DIR``, a BIDS dataset: T1w images of four participants from two sites.

    ``fmriprep`` holds their brain masks and tissue probability maps.
    """
    bids, masks = folder / "BIDS_DIR", folder / "fmriprep"
    rows = []
    for number, site in enumerate(("Aachen", "Aachen", "Bonn", "Bonn")):
        csf, gm, gain = SITES[site]
        tissues = ((csf, 60.0), (gm, 50.0), (1000.0, 40.0))
        voxels = head(number, shape=SMALL, tissues=tissues, gain=gain)
        label = f"sub-{number + 1:02}"
        for place in (bids, masks):
            (place / label / "anat").mkdir(parents=True)
        save(bids / label / "anat" / f"{label}_T1w.nii.gz", voxels)
        derived = masks / label / "anat"
        save(derived / f"{label}_desc-brain_mask.nii.gz", (voxels > 0).astype(np.uint8))
        for tissue, share in tissue_shares(SMALL).items():
            name = f"{label}_label-{tissue.upper()}_probseg.nii.gz"
            save(derived / name, share.astype(np.float32))
        rows.append({"participant_id": label, "site": site, "age": f"{30 + number}"})
    write_tsv(bids / "participants.tsv", rows)
    for place, kind in ((bids, "raw"), (masks, "derivative")):
        (place / "dataset_description.json").write_text(
            f'{{"Name": "Four heads", "BIDSVersion": "1.10.0", "DatasetType": "{kind}", '
            '"GeneratedBy": [{"Name": "phantoms"}]}'
        )


def tutorial(folder: Path) -> None:
    """``raw/study.tsv``, five small scans of each of three sites; ``prepared`` and ``later``.

    ``prepared`` is that study after its preparation, ``later`` one more scan of each site. Masks
    and tissue maps were given, so that this takes seconds.
    """
    sites = {"Ashford": (280.0, 660.0, 1.0), "Brindle": (380.0, 750.0, 0.5)}
    sites |= {"Corley": (140.0, 470.0, 2.0)}
    rows = []
    for number in range(18):
        site, own = [*sites][number % 3], number // 3 + 1
        csf, gm, gain = sites[site]
        tissues = ((csf, 60.0), (gm + 15 * (own % 4), 50.0), (1000.0, 40.0))
        voxels = head(number, shape=SMALL, tissues=tissues, gain=gain)
        files = {"mask": (voxels > 0).astype(np.uint8)}
        files |= {name: share.astype(np.float32) for name, share in tissue_shares(SMALL).items()}
        place = f"{site}/{site}-{own:02}"
        (folder / "raw" / site).mkdir(parents=True, exist_ok=True)
        save(folder / "raw" / f"{place}_T1w.nii.gz", voxels)
        row = {"subject": f"{site}-{own:02}", "site": site, "image": f"{place}_T1w.nii.gz"}
        for name, image in files.items():
            save(folder / "raw" / f"{place}_{name}.nii.gz", image)
            row[name] = f"{place}_{name}.nii.gz"
        rows.append(row | {"age": f"{20 + 7 * number % 50}"})
    for name, listed in (("prepared", rows[:15]), ("later", rows[15:])):
        write_tsv(folder / "raw" / f"{name}.tsv", listed)
        table = folder / "raw" / f"{name}.tsv"
        with captured() as said:
            code = execute("prepare", table, folder / name, "-q", "--mask", "nonzero")
        assert code == 0, said.getvalue()
    plain = ("subject", "site", "image", "age")
    write_tsv(folder / "raw" / "study.tsv", [{key: row[key] for key in plain} for row in rows[:15]])


def empty(folder: Path) -> None:
    """No files."""


FOLDERS: dict[str, Fill] = {
    fill.__name__: fill
    for fill in (scans, study, finished, channels, heads, dataset, tutorial, empty)
}
