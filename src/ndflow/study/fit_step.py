"""Fit: the density of a scan, and its brain mask where the study finds it, ``OUT/models``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.fingerprints import contents, hashes
from ndflow.files.model_files import list_outputs, not_ours, relative_outputs
from ndflow.image.mask import like_found_brain
from ndflow.image.subject import Subject
from ndflow.image.write import write_volume
from ndflow.methods.base import method_of
from ndflow.methods.ndflow import target_rule
from ndflow.options import Options
from ndflow.preparation.brain import deepbet_version
from ndflow.study.plan import Study
from ndflow.study.steps import Done, Key, Payload, Step, content_of
from ndflow.subject.fit import fit_voxels
from ndflow.subject.records import ScanModel
from ndflow.subject.voxels import Voxels, read_voxels, selection


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
        found_before = self._found_before(scan)
        masked = replace(scan, mask=str(mask)) if found_before else scan
        voxels = read_voxels(masked, max_bytes=self.options.max_bytes)
        tissues = self.uses_maps(scan)
        model, _, files = fit_voxels(masked, voxels, options=self.options, tissues=tissues)
        inputs = contents(files)
        if scan.finds_brain:
            inputs.pop("mask", None)  # it is made with the density, and not given
        key = self.key(scan, inputs)
        with ExitStack() as pending:
            outputs: dict[Path, str] = {}
            if found_before:
                outputs = {mask: model.sha256["mask"][0]}  # type: ignore[index]
            elif scan.finds_brain:
                outputs = _write_mask(mask, voxels, scan, pending)
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
            replaced = () if found_before else outputs
            list_outputs(pending, record, full.content(), replaced)
        return Done(False, model.warnings, model.doubts, content_of(scan, inputs))

    def kept(self, scan: Subject, key: Key, records: Sequence[Payload]) -> Done:
        """Return what is known about a density that is up to date."""
        model = ScanModel.of_payload(self.study.model(scan), records[0])
        return super().kept(scan, key, records)._replace(model=model)

    def _found_before(self, scan: Subject) -> bool:
        """Tell whether the mask is there, as it was found in this image by this deepbet."""
        record, mask = self.study.model(scan), self.study.mask(scan)
        if not scan.finds_brain or not mask.exists() or not_ours(record, [mask]):
            return False
        before = ScanModel.read(record)
        settings, chosen = before.settings or {}, selection(scan)
        same_way = all(settings.get(name) == chosen[name] for name in ("mask", "deepbet"))
        read, now = before.sha256 or {}, contents(hashes(scan.files()))
        return same_way and all(read.get(what) == now[what] for what in now)


def _write_mask(path: Path, voxels: Voxels, scan: Subject, pending: ExitStack) -> dict[Path, str]:
    """Write a brain mask that was found, marked as such."""
    like = voxels.volumes[scan.channels.index(scan.mask_channel)]
    like = like_found_brain(like, deepbet_version())
    inside = [voxels.inside[:]]
    return write_volume(path, like, inside, dtype="uint8", force=True, pending=pending).sha256


def lacks_tissue_maps(scan: Subject) -> FileError:
    """Return the error of a scan without all of its tissue probability maps."""
    hint = (
        "give its tissue probability maps: columns csf, gm and wm of the table, or, in BIDS, "
        "*_label-CSF_probseg and so on beside its *_desc-brain_mask; or use --proportions adaptive"
    )
    return FileError(scan.path, f"not all of its tissues are known ({scan.origin})", hint)
