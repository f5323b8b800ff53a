"""Whether a finished joint study is still what it was; see `ndflow.study.verify`.

A subject's density is that of all of its sidecars, by which its file in OUT/models is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import kind_in
from ndflow.image.subject import Scan
from ndflow.scan.channels.channel_records import JointMapRecord, JointModel
from ndflow.study.channels.joint_plan import JointStudyRecord
from ndflow.study.findings import Checked, Finding, broken, compared
from ndflow.study.folder import PROVENANCE, SCANS
from ndflow.study.listing.scan_table import read_study_scans
from ndflow.study.parallel.check_scans import check_scans
from ndflow.study.parallel.followed import Progress
from ndflow.study.parallel.tasks import Task, read_failures

__all__ = ["JointVerification", "is_joint_study", "verify_joint_study"]


class JointVerification(NamedTuple):
    """What was checked of a joint study.

    Attributes
    ----------
    images : how many images it has.
    checked : the files, and what is wrong with them.
    known : the files in its folder that belong to its images.
    """

    images: int
    checked: Checked
    known: set[Path]


def is_joint_study(folder: Path) -> bool:
    """Tell whether a folder holds a joint study."""
    return kind_in(folder / PROVENANCE) == JointStudyRecord.kind


def verify_joint_study(
    folder: Path, record: JointStudyRecord, jobs: int, follow: Progress
) -> JointVerification:
    """Check the files of all images of a joint study, and the densities of its subjects.

    Parameters
    ----------
    folder, record : of the study.
    jobs, follow : as for `ndflow.study.parallel.check_scans.check_scans`.

    Raises
    ------
    FileError
        Where its list of scans cannot be read.
    """
    scans = read_study_scans(folder / SCANS)
    failed = {name for name, _, _ in read_failures(folder)}
    count = len(record.channel_names)
    subjects = [scans[start : start + count] for start in range(0, len(scans), count)]
    done = [
        subject
        for subject in subjects
        if any((folder / scan.sidecar).exists() for scan in subject)
        or failed.isdisjoint({subject[0].name, subject[0].subject or ""})
    ]
    tasks = []
    for subject in done:
        images = dict(zip(record.channel_names, subject, strict=False))
        tasks += [
            Task(scan.name, {"scan": scan, "folder": folder, "images": images}) for scan in subject
        ]
    checked = check_scans(_check_image, tasks, jobs, follow)
    models = _check_models(folder, done)
    known = {path for scan in scans for path in _places(folder, scan)}
    known |= {Path(name) for name in models.files}
    return JointVerification(
        len(scans),
        Checked([*checked.files, *models.files], [*checked.findings, *models.findings]),
        known,
    )


def _places(folder: Path, scan: Scan) -> tuple[Path, Path, Path]:
    """Return where the image, the sidecar and the preview of a scan are."""
    return folder / scan.output, folder / scan.sidecar, folder / "figures" / f"{scan.name}.png"


def _check_image(scan: Scan, folder: Path, images: dict[str, Scan]) -> Checked:
    image, sidecar, preview = _places(folder, scan)
    files = [str(image), str(sidecar), *([str(preview)] if preview.exists() else [])]
    try:
        record = JointMapRecord.read(sidecar)
    except FileError as error:
        return Checked(files, [broken(sidecar, error)])
    written = [FileHash(str(image), sha256) for sha256 in record.outputs or ()]
    found = [*compared(written, "not what the study wrote")]
    for what, known in (record.inputs or {}).items():
        # The study may have moved together with its scans: names are those of its list.
        own = images[what].files()["image"] if what in images else scan.files().get(what)
        names = own or tuple(file.file for file in known)
        files += names
        read = [FileHash(n, file.sha256) for n, file in zip(names, known, strict=False)]
        found += compared(read, f"not the {what} that the study read")
    return Checked(files, found)


def _check_models(folder: Path, subjects: Sequence[Sequence[Scan]]) -> Checked:
    """Check that there is the file of a density for each subject."""
    files: list[str] = []
    found: list[Finding] = []
    models: list[GaussianMixture] = []
    expected = [_mixture(folder / scans[0].sidecar) for scans in subjects]
    for path in sorted((folder / "models").glob("*.json")):
        try:
            model = JointModel.read(path)
        except FileError as error:
            files.append(str(path))
            found.append(broken(path, error))
            continue
        if any(model.mixture == mixture for mixture in expected):
            files.append(str(path))
            models.append(model.mixture)
    missing = [
        scans[0]
        for scans, mixture in zip(subjects, expected, strict=True)
        if mixture is not None and not any(mixture == model for model in models)
    ]
    for scan in missing if not found else ():
        place = folder / "models" / f"{scan.subject or scan.name}.json"
        found.append(Finding("missing", str(place), "the density of its subject"))
    return Checked(files, found)


def _mixture(sidecar: Path) -> GaussianMixture | None:
    try:
        return JointMapRecord.read(sidecar).mixture
    except FileError:
        return None
