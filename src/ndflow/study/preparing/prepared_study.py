"""A study of raw scans, which are prepared first, to OUT/prepared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ndflow.errors import InvalidValueError
from ndflow.image.subject import Scan
from ndflow.preparation.contrasts import T1W
from ndflow.scan.settings import NoMask, Preparing
from ndflow.study.plan import ANY_CHANNEL, Study
from ndflow.study.preparing.preparation_plan import PREPARED, Preparation
from ndflow.study.preparing.result_names import scans_to_prepare

__all__ = ["check_suffixes", "preparing_for", "with_preparation"]

_NONZERO: NoMask = "nonzero"


def check_suffixes(suffixes: Sequence[str]) -> None:
    """Refuse to prepare images of a dataset that are not T1w."""
    for suffix in suffixes:
        if suffix != T1W:
            raise InvalidValueError(
                f"--prepare is for T1w images, not for {suffix}; leave out one of the two"
            )


def preparing_for(
    prepare: bool,
    mask: str | None,
    *,
    no_bias_field: bool = False,
    no_tissues: bool = False,
    new_tissues: bool = False,
) -> Preparing | None:
    """Return how the scans of a study are prepared; None if they are not.

    Parameters
    ----------
    prepare : whether they are.
    mask : for scans without one, if the user said so.
    no_bias_field, no_tissues, new_tissues : see `ndflow.scan.settings.Preparing`.

    Raises
    ------
    InvalidValueError
        For choices that make sense only with a preparation, or only without one.
    """
    if not prepare:
        steps = {
            "--no-bias-field": no_bias_field,
            "--no-tissues": no_tissues,
            "--new-tissues": new_tissues,
        }
        if given := [option for option, chosen in steps.items() if chosen]:
            raise InvalidValueError(
                f"{given[0]} is about --prepare; add --prepare, or leave it out"
            )
        return None
    if mask == "auto":
        raise InvalidValueError(
            "--prepare finds brain masks, and --mask auto the foreground; leave out one of them"
        )
    where: NoMask = _NONZERO if mask == _NONZERO else "brain"
    return Preparing(where, no_bias_field, no_tissues, new_tissues)


def with_preparation(
    study: Study,
    source: Path,
    preparing: Preparing,
    *,
    dataset: bool = False,
    partial: bool = False,
) -> Study:
    """Return a study whose scans are prepared first.

    Parameters
    ----------
    study : of the raw scans; those with ``Sources`` in their metadata will refer to prepared ones.
    source : the folder that they come from.
    preparing : how they are prepared.
    dataset : whether that is a BIDS dataset.
    partial : whether other runs prepare more of its scans.
    """
    channel = None if study.channel == ANY_CHANNEL else study.channel
    plan = Preparation(
        study.folder / PREPARED,
        scans_to_prepare(study.scans, source, channel),
        preparing,
        study.reading,
        channel,
        study.writing.force,
        study.jobs,
        study.scheduler,
        source=source,
        any_source=not dataset,
        within=True,
        partial=partial,
    )
    ready = [_ready(plan, raw, one) for raw, one in zip(plan.scans, study.scans, strict=True)]
    return replace(study, scans=ready, preparation=plan)


def _ready(plan: Preparation, raw: Scan, scan: Scan) -> Scan:
    ready = plan.prepared(raw, scan)
    if "Sources" not in scan.metadata:
        return ready
    mask = plan.paths(raw).mask.relative_to(plan.folder).as_posix()
    sources = [f"bids:{PREPARED}:{raw.output}", f"bids:{PREPARED}:{mask}"]
    metadata = {**scan.metadata, "Sources": sources}
    if raw.mask is None and plan.preparing.mask == _NONZERO:
        metadata["SkullStripped"] = raw.metadata.get("SkullStripped", True)
    return replace(ready, metadata=metadata)
