"""What the channels of a subject are brought to: one joint density, or a density for each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ndflow.density import Fit, GaussianMixture
from ndflow.density.mixture import marginal
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import Hashes
from ndflow.files.model_files import is_model, read_model
from ndflow.image.subject import Scan
from ndflow.methods.base import DensityModel, method_of
from ndflow.options import Options
from ndflow.population import Reference
from ndflow.subject.channels import Subject, check_channels, check_joint, check_separate, listed
from ndflow.subject.presets import Choices, PresetRecord, TargetFacts, settled_match
from ndflow.subject.records import JointModel, ReferenceModel, ReferenceModels, ScanModels
from ndflow.subject.target import (
    AnyTarget,
    KnownTarget,
    Target,
    check_units,
    full_name,
    in_units,
    is_builtin,
    known_target,
    read_target,
    target_of,
    units_of,
    with_scale,
)
from ndflow.subject.tissue_maps import check_maps
from ndflow.subject.voxels import check_found_mask
from ndflow.transport import Affine
from ndflow.transport.joint import REGULARISATION
from ndflow.values import plural

AnyChannelTarget = AnyTarget | Mapping[str, AnyTarget]

_KINDS = ("mixture", "mixtures", "reference", "references")


class JointTarget(NamedTuple):
    """What the channels of a subject are brought to together.

    Attributes
    ----------
    goal : the joint density, in the units of the result.
    marginals : that of each channel.
    name : what messages call it.
    has_units : whether its own intensities mean anything; those of a reference do not.
    options : how channels are brought to it.
    files : that it was read from, with their hashes.
    warnings : for the user.
    """

    goal: GaussianMixture
    marginals: tuple[GaussianMixture, ...]
    name: str
    has_units: bool
    options: Options
    files: Hashes
    warnings: tuple[str, ...] = ()


def read_joint_target(subject: Subject, to: AnyChannelTarget, choices: Choices) -> JointTarget:
    """Return the joint target that a user means, and how the channels are brought to it.

    Parameters
    ----------
    subject : the channels.
    to : a joint reference or mixture, or the path of one (.json).
    choices : what the user chose; what a joint map cannot honour is refused.
    """
    check_joint(subject, choices)
    mixture, name, has_units, files, doubts = _joint_density(to, subject.names)
    chosen = Options(**{"regularisation": REGULARISATION, **choices.options})
    options = with_scale(chosen, has_units=has_units)
    parts = [
        target_of(DensityModel(marginal(mixture, place)), not has_units, name, options)
        for place in range(mixture.channels)
    ]
    units = [_units(part, options) for part in parts]
    for part in parts:
        goal = in_units(part, options)
        check_units(options, name=name, has_units=has_units, model=goal)
    matrix = np.diag([float(one.matrix[0, 0]) for one in units])
    goal_density = mixture.transformed(matrix, np.array([float(one.offset[0]) for one in units]))
    own = tuple(marginal(goal_density, place) for place in range(mixture.channels))
    return JointTarget(goal_density, own, name, has_units, options, files, doubts)


def _units(part: Target, options: Options) -> Affine:
    """Return the map from the units of a channel of the target to those of the result."""
    return units_of(part, options) or Affine(np.eye(1), np.zeros(1))


class _Density(NamedTuple):
    mixture: GaussianMixture
    name: str
    has_units: bool
    files: Hashes
    doubts: tuple[str, ...] = ()


def _joint_density(to: AnyChannelTarget, names: Sequence[str]) -> _Density:
    words = _words(names)
    if isinstance(to, Reference):
        check_channels(names, to.channel_names, "the Reference")
        return _Density(to.mixture, "the Reference", False, {})
    if isinstance(to, Fit | GaussianMixture):
        mixture = to.mixture if isinstance(to, Fit) else to
        if mixture.channels != len(names):
            raise InvalidValueError(
                f"to: a density of {plural(mixture.channels, 'channel')}, but the channels are "
                f"{listed(names)}"
            )
        return _Density(mixture, f"the {type(to).__name__}", True, {})
    if isinstance(to, Mapping):
        raise InvalidValueError(
            "to: a target for each channel by itself, but joint=True needs one joint density; "
            "leave out joint, or make a reference of joint fits"
        )
    path = _model_path(to, words, joint=True)
    kind, payload, file = read_model(path, *_KINDS)
    files: Hashes = {"target": (file,)}
    if kind in ("mixtures", "references"):
        cause = f"holds a {kind[:-1]} of each channel by itself, not a joint one"
        raise FileError(path, cause, f"leave out --joint, or make a joint one: {_joint_way(words)}")
    if kind == "reference":
        reference = ReferenceModel.of_payload(path, payload).reference
        if reference.mixture.channels == 1:
            raise _of_one_channel(path, reference.channel_names, words, joint=True)
        check_channels(names, reference.channel_names, path)
        return _Density(reference.mixture, path, False, files)
    model = JointModel.of_payload(path, payload)
    if model.mixture.channels == 1:
        raise _of_one_channel(path, (), words, joint=True)
    if not model.channel_names:
        cause = f"a density of {model.mixture.channels} channels that does not name them"
        raise FileError(path, cause, f"make it with names: ndflow fit {words} --joint -o FILE")
    check_channels(names, model.channel_names, path)
    doubts = tuple(f"{path}: {doubt}" for doubt in model.doubts)
    return _Density(model.mixture, path, True, files, doubts)


class SeparateMatch(NamedTuple):
    """How one channel is brought to its own target.

    Attributes
    ----------
    name : of the channel.
    scan : the channel.
    target : what it is brought to.
    options, preset : how, and what a preset decided.
    """

    name: str
    scan: Scan
    target: Target
    options: Options
    preset: PresetRecord | None


def separate_matches(
    subject: Subject, to: AnyChannelTarget, choices: Choices
) -> list[SeparateMatch]:
    """Return how each channel is brought to its own target, each as if it were alone.

    Parameters
    ----------
    subject : the channels.
    to : a file of the kind `references` or `mixtures`; or a target for each channel, by its name.
    choices : what the user chose.
    """
    check_separate(subject)
    found = []
    for name, known in _separate_targets(to, subject.names).items():
        scan = subject.scan(name)
        settled = settled_match(choices, known.facts, maps=scan.tissues.complete)
        method_of(settled.options)
        check_maps(scan, settled.options)
        check_found_mask(scan)
        target = read_target(known, None, options=settled.options)
        found.append(SeparateMatch(name, scan, target, settled.options, settled.preset))
    return found


def _separate_targets(to: AnyChannelTarget, names: Sequence[str]) -> dict[str, KnownTarget]:
    """Return the target of each channel by itself."""
    words = _words(names)
    if isinstance(to, Mapping):
        check_channels(names, tuple(to), "the target")
        found = {name: known_target(one) for name, one in to.items()}
        for name, one in found.items():
            if one is None:
                raise InvalidValueError(
                    f"to: the target of {name} is an image; fit its density first, with ndflow.fit"
                )
        return {name: one for name, one in found.items() if one is not None}
    if isinstance(to, Reference | Fit | GaussianMixture | Target | KnownTarget):
        raise InvalidValueError(
            f"to: one target for the channels {listed(names)}; give one for each, by its name, or "
            f"a joint one with joint=True"
        )
    path = _model_path(to, words, joint=False)
    kind, payload, file = read_model(path, *_KINDS)
    files: Hashes = {"target": (file,)}
    if kind == "references":
        references = ReferenceModels.of_payload(path, payload)
        check_channels(names, references.channel_names, path)
        return {
            name: KnownTarget(
                path,
                DensityModel.of_reference(references.references[name].reference),
                True,
                TargetFacts.of_reference(references.references[name].reference),
                files,
            )
            for name in names
        }
    if kind == "mixtures":
        models = ScanModels.of_payload(path, payload)
        check_channels(names, models.channel_names, path)
        return {
            name: KnownTarget(
                path,
                models.mixtures[name].model,
                False,
                files=files,
                doubts=models.mixtures[name].doubts,
            )
            for name in names
        }
    if kind == "reference":
        known = ReferenceModel.of_payload(path, payload).reference
        mixture, own = known.mixture, known.channel_names
    else:
        model = JointModel.of_payload(path, payload)
        mixture, own = model.mixture, model.channel_names
    if mixture.channels == 1:
        raise _of_one_channel(path, own, words, joint=False)
    raise FileError(path, f"a joint {kind} of {mixture.channels} channels", "add --joint")


def _words(names: Sequence[str]) -> str:
    return " ".join(f"{name}=FILE" for name in names)


def _joint_way(words: str) -> str:
    return f"ndflow fit {words} --joint for each subject, then ndflow reference"


def _of_one_channel(path: str, known: Sequence[str], words: str, *, joint: bool) -> FileError:
    cause = f"of one channel{f' ({known[0]})' if known else ''}, but there are several"
    way = _joint_way(words) if joint else _joint_way(words).replace(" --joint", "")
    return FileError(path, cause, f"make one of all channels: {way}")


def _model_path(to: AnyTarget, words: str, *, joint: bool) -> str:
    """Return the path of a target that is a model file; refuse any other."""
    if is_builtin(to):
        raise _of_one_channel(full_name(to), (), words, joint=joint)
    if is_model(to):
        return os.fspath(to)
    name = os.fspath(to) if isinstance(to, str | os.PathLike) else "the target"
    flag = " --joint" if joint else ""
    hint = f"fit the channels of the target first: ndflow fit {words}{flag} -o target.json"
    raise FileError(name, "one image, where a target of several channels is expected", hint)
