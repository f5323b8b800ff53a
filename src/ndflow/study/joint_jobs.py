"""The work on one subject of a joint study: its joint density, and its images.

Both are made only if their fingerprints show that they are missing or out of date; see
`ndflow.study.scan_jobs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.files.fingerprints import contents, fingerprint_of
from ndflow.files.stream import sha256_of
from ndflow.image.mask import BoolArray, read_mask
from ndflow.image.preview import is_ours, preview_of, write_preview
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.study.joint_plan import JointSubject
from ndflow.study.plan import ResultPaths
from ndflow.study.scan_jobs import ScanDone
from ndflow.subject.channels import Subject
from ndflow.subject.fit import joint_model
from ndflow.subject.joint_normalise import map_jointly
from ndflow.subject.joint_target import JointTarget
from ndflow.subject.records import JointMapRecord, JointModel
from ndflow.subject.results import SubjectResults, deliver, hashes
from ndflow.subject.voxels import selection
from ndflow.values import JSON

_NO_RESULT = ("force", "max_bytes")  # settings that change no result
Paths = tuple[Path, ...]


def fit_jointly_job(
    scan: Subject,
    paths: Paths,
    subject: JointSubject,
    *,
    results: Sequence[ResultPaths],
    options: Options,
) -> ScanDone:
    """Estimate the joint density of a subject, unless that was done before.

    Parameters
    ----------
    scan, paths : the first channel, and where all results go.
    subject, results : all channels, and where the results of each go.
    options : what the user chose.
    """
    before = fitted_jointly_before(scan, paths, subject, results=results, options=options)
    if before is not None:
        return before
    made = joint_model(subject.channels, options)
    if not isinstance(made.record, JointModel):
        raise TypeError("a joint density is expected")
    inputs = made.record.sha256 or {}
    fingerprint = model_fingerprint(subject.channels, options, inputs)
    model = results[0].model
    model.parent.mkdir(parents=True, exist_ok=True)
    replace(made.record, fingerprint=fingerprint).write(model, force=True)
    return ScanDone(False, made.warnings, made.record.doubts, _content(subject.channels, inputs))


def fitted_jointly_before(
    scan: Subject,
    paths: Paths,
    subject: JointSubject,
    *,
    results: Sequence[ResultPaths],
    options: Options,
) -> ScanDone | None:
    """Return what is known about a subject whose density is up to date; None if it is not."""
    model = results[0].model
    if not model.exists():
        return None
    now = contents(hashes(subject.channels.files()))
    before = JointModel.up_to_date(model, model_fingerprint(subject.channels, options, now))
    if before is None:
        return None
    return ScanDone(True, doubts=before.doubts, content=_content(subject.channels, now))


def _content(subject: Subject, inputs: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the hashes of its images, to find subjects that are the same."""
    return tuple(one for name in subject.names for one in inputs.get(name, ()))


def model_fingerprint(
    subject: Subject, options: Options, inputs: dict[str, tuple[str, ...]]
) -> str:
    """Return the fingerprint of everything that the joint density of a subject depends on."""
    chosen = selection(subject.scan(subject.mask_channel)) | options.of("fit")
    return fingerprint_of(inputs=inputs, settings=chosen, channel_names=list(subject.names))


def image_fingerprint(
    subject: JointSubject,
    place: int,
    inputs: dict[str, tuple[str, ...]],
    target: JointTarget,
    settings: dict[str, JSON],
) -> str:
    """Return the fingerprint of everything that the image of one channel depends on.

    Parameters
    ----------
    subject, place : all channels, and which of them.
    inputs : the hashes of its files, by what they are.
    target : what they are brought to.
    settings : what the user chose.
    """
    channels, scan = subject.channels, subject.scans[place]
    return fingerprint_of(
        inputs=inputs,
        settings={name: part for name, part in settings.items() if name not in _NO_RESULT},
        mask=selection(channels.scan(channels.mask_channel))["mask"],
        channel_names=list(channels.names),
        channel=channels.names[place],
        goal=target.goal.to_dict(),
        site=scan.site,
        metadata=dict(scan.metadata),
    )


def normalise_jointly_job(
    scan: Subject,
    paths: Paths,
    subject: JointSubject,
    *,
    results: Sequence[ResultPaths],
    target: JointTarget,
) -> ScanDone:
    """Bring the channels of a subject to the joint reference, unless that was done before.

    Parameters
    ----------
    scan, paths, subject, results : as for `fit_jointly_job`.
    target : what they are brought to, and how.
    """
    options = target.options
    chosen = options.of("fit", "match", "write")
    before = normalised_jointly_before(scan, paths, subject, results=results, target=target)
    if before is not None:
        return before
    channels = subject.channels
    made = map_jointly(channels, target)
    inputs = contents(made.channels.files)
    _refuse_replaced(scan, inputs, results[0].model)
    lesion = _lesion(channels, options)
    written = {}
    for place, (name, record) in enumerate(made.records.items()):
        own, volume = results[place], made.channels.volumes[place]
        for path in own[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
        fingerprint = image_fingerprint(subject, place, inputs, target, chosen)
        written[name] = deliver(
            subject.scans[place],
            volume,
            made.chunks[place],
            replace(record, site=scan.site, fingerprint=fingerprint),
            output=own.image,
            sidecar=own.sidecar,
            inputs=channels.files(),
            options=replace(options, force=True),  # whatever is there was made by an earlier run
        )
        result = read_volume(str(own.image), max_bytes=options.max_bytes)
        write_preview(own.preview, preview_of(volume, made.channels.inside, result, lesion))
    doubts = tuple(dict.fromkeys(doubt for one in written.values() for doubt in one.doubts))
    return ScanDone(False, SubjectResults.of(channels, written).warnings, doubts)


def _lesion(subject: Subject, options: Options) -> BoolArray | None:
    if subject.lesion is None:
        return None
    read = read_mask(subject.lesion, fewest=0, max_bytes=options.max_bytes)
    return read.inside.reshape(-1, order="F")


def normalised_jointly_before(
    scan: Subject,
    paths: Paths,
    subject: JointSubject,
    *,
    results: Sequence[ResultPaths],
    target: JointTarget,
) -> ScanDone | None:
    """Return what is known about a subject whose results are up to date; None if one is not."""
    if not all(one.sidecar.exists() and one.image.exists() for one in results):
        return None
    now = contents(hashes(subject.channels.files()))
    chosen = target.options.of("fit", "match", "write")
    doubts: list[Doubt] = []
    for place, own in enumerate(results):
        fingerprint = image_fingerprint(subject, place, now, target, chosen)
        before = JointMapRecord.up_to_date(own.sidecar, fingerprint)
        if before is None or before.outputs != (sha256_of(own.image),):
            return None
        if not is_ours(own.preview):
            return None
        doubts += before.doubts
    return ScanDone(True, doubts=tuple(dict.fromkeys(doubts)))


def _refuse_replaced(scan: Subject, inputs: dict[str, tuple[str, ...]], model: Path) -> None:
    """Refuse images that are not what the density was estimated from."""
    known = JointModel.read(model).sha256 or {}
    for what, hashed in inputs.items():
        if known.get(what) != hashed:
            cause = f"its {what} was replaced after its density was estimated ({scan.origin})"
            hint = "run the same command again when it no longer changes"
            raise FileError(scan.path, cause, hint)
