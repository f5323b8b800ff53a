"""What the subjects of a joint study are brought to: one reference for all of them."""

from __future__ import annotations

from collections.abc import Container

from ndflow.errors import FileError
from ndflow.methods.matching import Matching
from ndflow.population import Reference
from ndflow.scan.channels.channel_records import JointModel
from ndflow.scan.channels.channel_targets import JointTarget, read_joint_target
from ndflow.scan.channels.joint_rules import check_joint
from ndflow.scan.records import InputRecord, ReferenceModel
from ndflow.scan.reference_sources import average_models
from ndflow.study.channels.joint_plan import JointStudy
from ndflow.study.references import reference_name

__all__ = ["joint_target", "make_joint_reference"]

_OWN = "the joint reference of these subjects"


def joint_target(plan: JointStudy, to: Reference | str | None) -> JointTarget | None:
    """Return what all subjects are brought to; None, if that is not known yet.

    Parameters
    ----------
    plan : what is to be done; what a joint map cannot honour is refused.
    to : a joint reference, or the path of one; None, if it is still to be made.
    """
    first = next(iter(plan.subjects.values())).channels
    choices = plan.choices
    if to is None:
        check_joint(first, choices.matching, choices.preset)
        return None
    target = read_joint_target(
        first, to, preset=choices.preset, choices=choices.matching, writing=plan.study.writing
    )
    if target.has_units:
        cause = "the density of a subject, not a reference"
        raise FileError(target.name, cause, "make one with 'ndflow reference'")
    return target if plan.study.given is not None else target._replace(name=_OWN)


def make_joint_reference(
    plan: JointStudy, done: Container[str], *, write: bool = True
) -> JointTarget:
    """Return what subjects are brought to: the given reference, or one of all that were fitted.

    Parameters
    ----------
    plan : what is to be done.
    done : the names of the subjects whose densities are known.
    write : whether to write the reference to the folder of the study.
    """
    path = plan.folder / reference_name(None)
    if plan.study.given is not None:
        target = joint_target(plan, plan.study.given)
        if write:
            ReferenceModel.read(plan.study.given).write_if_changed(path)
    else:
        names = sorted(scan.name for scan in plan.scans if scan.name in done)
        models = {n: JointModel.read(plan.folder / "models" / f"{n}.json") for n in names}
        reference = average_models(
            [one.model for one in models.values()],
            Matching(),
            names=names,
            average="density",
            channel_names=plan.channel_names,
        )
        if write:
            inputs = tuple(
                InputRecord(name, tuple(h for own in (one.sha256 or {}).values() for h in own))
                for name, one in models.items()
            )
            ReferenceModel(reference, inputs).write_if_changed(path)
        target = joint_target(plan, reference)
    if target is None:
        raise TypeError("a joint target is expected")
    return target
