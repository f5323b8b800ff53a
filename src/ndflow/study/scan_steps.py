"""What a study does with each scan: estimate its density, and bring its images to a reference.

``OUT/models`` holds the densities; ``OUT/masks`` the brain masks, where the study finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ndflow.errors import FileError
from ndflow.files.model_files import list_outputs, not_ours, relative_outputs
from ndflow.files.stream import FileHash, Hashes, contents, hashes
from ndflow.image.mask import like_found_brain
from ndflow.image.preview import Preview, preview_bytes, preview_of
from ndflow.image.subject import Subject
from ndflow.image.write import cast_to, write_volume
from ndflow.methods.base import method_of
from ndflow.methods.modes import Goal
from ndflow.methods.ndflow import target_rule
from ndflow.options import Options
from ndflow.preparation.brain import deepbet_version
from ndflow.study.checks import scan_medians
from ndflow.study.plan import Study
from ndflow.study.steps import Done, Key, Payload, Step, content_of
from ndflow.subject.fit import fit_voxels
from ndflow.subject.normalise import Mapped, Result, deliver, map_subject
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.subject.voxels import Voxels, read_voxels, selection
from ndflow.transport import IntensityMap
from ndflow.values import JSON, Doubt

# ── fit ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class FitStep(Step):
    """Estimate the density of a scan.

    Attributes
    ----------
    options : what the user chose, or a preset.
    """

    options: Options = field(default_factory=Options)

    name = "fit"

    @classmethod
    def of(cls, study: Study) -> FitStep:
        """Return the step of a study.

        Where *auto* decides about the target by how many scans there are, tissue maps are read
        anyway: a participant of a BIDS dataset that is fitted alone has the same density as with
        the others.
        """
        options = study.options
        if study.given is None and study.target_is_open:
            options = replace(options, proportions="adaptive")
        elif study.given is not None and not study.target_rule.needs_tissue_maps:
            options = replace(options, proportions="average")  # the maps of these are not used
        return cls(replace(study, scans=(), raw=None), options)

    def records(self, scan: Subject) -> list[Path]:
        """Return where the density goes."""
        return [self.study.model(scan)]

    def outputs(self, scan: Subject) -> list[Path]:
        """Return where the brain mask goes, if it is to be found."""
        return [self.study.mask(scan)] if scan.finds_brain else []

    def files(self, scan: Subject) -> Mapping[str, Sequence[str]]:
        """Return the files that are read."""
        return scan.files(tissues=self.uses_maps(scan))

    def uses_maps(self, scan: Subject) -> bool:
        """Tell whether the tissue probability maps of a scan are read."""
        uses = target_rule(self.options).needs_tissue_model and len(scan.images) == 1
        return uses and scan.tissues.complete

    def key(self, scan: Subject, inputs: Mapping[str, Sequence[str]]) -> Key:
        """Return everything that the density depends on."""
        measured = method_of(self.options).measure_options(self.options)
        several = {"channels": list(scan.channels)} if len(scan.images) > 1 else {}
        return Key(inputs, selection(scan) | self.options.of("fit") | measured | several)

    def make(self, scan: Subject) -> Done:
        """Estimate the density, and find the brain mask if there is none yet."""
        if target_rule(self.options).needs_tissue_maps and not scan.tissues.complete:
            raise lacks_tissue_maps(scan)
        record, mask = self.study.model(scan), self.study.mask(scan)
        voxels = read_voxels(scan, max_bytes=self.options.max_bytes)
        tissues = self.uses_maps(scan)
        model, _, files = fit_voxels(scan, voxels, options=self.options, tissues=tissues)
        inputs = contents(files)
        key = self.key(scan, inputs)
        with ExitStack() as pending:
            outputs = _write_mask(mask, voxels, scan, pending) if scan.finds_brain else {}
            known = inputs | ({"mask": tuple(outputs.values())} if outputs else {})
            full = replace(
                model,
                sha256=known,
                settings=dict(key.settings),
                fingerprint=key.fingerprint,
                outputs=relative_outputs(record, outputs) or None,
            )
            if not scan.finds_brain and not not_ours(record, [mask]):
                mask.unlink(missing_ok=True)  # of an earlier run that has found it
            list_outputs(pending, record, full.content(), outputs)
        return Done(False, model.warnings, model.doubts, content_of(scan, inputs))

    def kept(self, scan: Subject, key: Key, records: Sequence[Payload]) -> Done:
        """Return what is known about a density that is up to date."""
        model = ScanModel.of_payload(self.study.model(scan), records[0])
        return super().kept(scan, key, records)._replace(model=model)


def _write_mask(path: Path, voxels: Voxels, scan: Subject, pending: ExitStack) -> dict[Path, str]:
    """Write a brain mask that was found, marked as such."""
    like = voxels.volumes[scan.channels.index(scan.mask_channel)]
    like = like_found_brain(like, deepbet_version())
    return write_volume(
        path, like, [voxels.inside], dtype="uint8", force=True, pending=pending
    ).sha256


def lacks_tissue_maps(scan: Subject) -> FileError:
    """Return the error of a scan without all of its tissue probability maps."""
    hint = (
        "give its tissue probability maps: columns csf, gm and wm of the table, or, in BIDS, "
        "*_label-CSF_probseg and so on beside its *_desc-brain_mask; or use --proportions adaptive"
    )
    return FileError(scan.path, f"not all of its tissues are known ({scan.origin})", hint)


# ── normalise ─────────────────────────────────────────────────────────────────────────────────────

_ONLY_FITTED = ("lesion", "csf", "gm", "wm")  # files that the density depends on, but no voxel
# Settings that are in the goal or in the model, or that change no result.
_SHOWN_ELSEWHERE = ("average", "balance", "mode", "visits", "effective_count", "max_bytes")


@dataclass(frozen=True)
class NormaliseStep(Step):
    """Bring a scan to the goal of its study.

    Attributes
    ----------
    goal : what it is brought to, once that is known.
    doubts : what is doubtful about it in comparison with other scans.
    model : its density, if that was read already.
    """

    goal: Goal | None = None
    doubts: tuple[Doubt, ...] = ()
    model: ScanModel | None = None

    name = "normalise"

    def records(self, scan: Subject) -> list[Path]:
        """Return where the sidecars of its images go."""
        return [self.study.paths(scan, channel).sidecar for channel in scan.channels]

    def outputs(self, scan: Subject) -> list[Path]:
        """Return where its images and previews go."""
        paths = [self.study.paths(scan, channel) for channel in scan.channels]
        return [path for own in paths for path in (own.image, own.preview)]

    def files(self, scan: Subject) -> Mapping[str, Sequence[str]]:
        """Return the files that its images are made from."""
        return self._masked(replace(scan, lesion=None)).files()

    def hashes(self, scan: Subject) -> Mapping[str, Sequence[str]]:
        """Return the hashes of these files, from which the same run has estimated the density.

        It has looked at them just before, even where it left the density as it was.
        """
        files = self.files(scan)
        read = (self.model and self.model.sha256) or contents(hashes(files))
        return {what: read[what] for what in files if what in read}

    def _masked(self, scan: Subject) -> Subject:
        """Return a scan with the file of its mask, if the study has found it."""
        return replace(scan, mask=str(self.study.mask(scan))) if scan.finds_brain else scan

    def key(self, scan: Subject, inputs: Mapping[str, Sequence[str]]) -> Key:
        """Return everything that the images depend on."""
        more: dict[str, JSON] = {
            **self._model(scan).model.to_dict(),
            "goal": None if self.goal is None else self.goal.to_dict(),
            "site": scan.site,
            "metadata": [dict(output.metadata) for output in scan.outputs.values()],
            "doubts": [doubt.to_dict() for doubt in self.doubts],
        }
        chosen = self.study.settings.items()
        settings = {name: part for name, part in chosen if name not in _SHOWN_ELSEWHERE}
        return Key(inputs, settings | {"mask": selection(scan)["mask"]}, more)

    def _model(self, scan: Subject) -> ScanModel:
        return self.model or ScanModel.read(self.study.model(scan))

    def kept(self, scan: Subject, key: Key, records: Sequence[Payload]) -> Done:
        """Return what is known about images that are up to date."""
        imap = IntensityMap.from_dict(records[0]["map"])
        return self._compared(super().kept(scan, key, records), scan, imap)

    def _compared(self, done: Done, scan: Subject, imap: IntensityMap) -> Done:
        """Return what became of a scan, with what is compared between scans."""
        model = self._model(scan)
        return done._replace(content=(), medians=scan_medians(model, imap))

    def make(self, scan: Subject) -> Done:
        """Find the map of the scan, and write its images."""
        model = self._model(scan)
        options = self.study.options
        voxels = read_voxels(self._masked(scan), max_bytes=options.max_bytes)
        _refuse_replaced(scan, voxels.files, model)
        if self.goal is None:
            raise TypeError("the goal of a scan must be known before it is normalised")
        mapped = map_subject(voxels, model, self.goal, options)
        read = {what: files for what, files in voxels.files.items() if what not in _ONLY_FITTED}
        key = replace(self, model=model).key(scan, contents(read))
        results = [self._write(scan, name, voxels, mapped, model, key) for name in scan.channels]
        doubts = dict.fromkeys(doubt for one in results for doubt in one.doubts)
        warnings = dict.fromkeys(line for one in results for line in one.warnings)
        return self._compared(Done(False, (*warnings,), (*doubts,)), scan, mapped.solution.imap)

    def _write(
        self,
        scan: Subject,
        channel: str,
        voxels: Voxels,
        mapped: Mapped,
        model: ScanModel,
        key: Key,
    ) -> Result:
        """Write the image of one channel, with its sidecar and its preview."""
        several, place = len(scan.images) > 1, scan.channels.index(channel)
        paths, solution = self.study.paths(scan, channel), mapped.solution
        preview = self._preview(voxels, place, mapped)
        record = MapRecord(
            solution.imap,
            settings=selection(scan) | self.study.settings | dict(key.settings),
            inputs=voxels.files | _read_before(scan, model, voxels.files),
            site=scan.site,
            mixture=model.mixture,
            mask=model.mask,
            match=solution.record(model.mixture),
            warnings=(*voxels.warnings, *solution.warnings(scan.path)),
            doubts=(*model.doubts, *self.doubts, *mapped.doubts[place]),
            fingerprint=key.fingerprint,
            channel=channel if several else None,
            channel_names=scan.channels if several else None,
            joint=solution.joint,
        )
        return deliver(
            scan.images[channel],
            voxels.volumes[place],
            mapped.pieces[place],
            record,
            output=paths.image,
            sidecar=paths.sidecar,
            metadata=scan.outputs[channel].metadata,
            also={paths.preview: preview_bytes(preview)},
            inputs=self._masked(scan).files(tissues=True),
            options=replace(self.study.options, force=True),  # what is there was looked at
        )

    def _preview(self, voxels: Voxels, place: int, mapped: Mapped) -> Preview:
        """Return slices before and after."""
        volume = voxels.volumes[place]
        if len(voxels.volumes) == 1:
            return preview_of(volume, voxels.inside, mapped.solution.imap, voxels.lesion)
        pieces = [*mapped.pieces[place]]
        mapped.pieces[place] = iter(pieces)
        flat = cast_to(np.concatenate(pieces), np.dtype(self.study.options.dtype))[0]
        shown = replace(volume, stored=flat.reshape(volume.shape, order="F"), slope=1.0, inter=0.0)
        return preview_of(volume, voxels.inside, shown, voxels.lesion)


def _refuse_replaced(scan: Subject, inputs: Hashes, model: ScanModel) -> None:
    """Refuse an image or a mask that is not what the density was estimated from."""
    known = model.sha256 or {}
    for what, hashed in contents(inputs).items():
        if known.get(what) != hashed:
            path = inputs[what][0].file
            cause = f"replaced after its density was estimated ({scan.origin})"
            raise FileError(path, cause, "run the same command again when it no longer changes")


def _read_before(scan: Subject, model: ScanModel, read: Hashes) -> Hashes:
    """Return what only the density was estimated from: tissue maps."""
    files = scan.files(tissues=True)
    return {
        what: tuple(FileHash(*one) for one in zip(files[what], hashed, strict=True))
        for what, hashed in (model.sha256 or {}).items()
        if what not in read and what in files
    }
