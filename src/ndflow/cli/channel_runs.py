"""Commands on the channels of one subject: what to run, and what to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndflow.cli.console import print_result, print_warning
from ndflow.cli.options import Verbosity
from ndflow.cli.run import command_line, print_written, run_scans
from ndflow.errors import FileError
from ndflow.files.model_files import check_model
from ndflow.options import Average, Options
from ndflow.study.tasks import Task
from ndflow.subject.apply import apply_jointly, read_joint_map
from ndflow.subject.channels import Subject, check_grids, check_joint_fit, check_separate, listed
from ndflow.subject.fit import fit_subject
from ndflow.subject.joint_normalise import normalise_jointly
from ndflow.subject.joint_target import read_joint_target, separate_matches
from ndflow.subject.normalise import normalise_scan
from ndflow.subject.outputs import Outputs, channel_outputs, refuse_images_of_others
from ndflow.subject.presets import Choices
from ndflow.subject.reference import read_channel_sources, write_channel_reference
from ndflow.subject.target import check_units, in_units
from ndflow.values import plural


@dataclass(frozen=True)
class _Channels:
    """The channels of a subject, where their results go, and how much to print."""

    subject: Subject
    outputs: Outputs
    verbosity: Verbosity

    @property
    def files(self) -> dict[str, Path]:
        """The file of each result, by channel."""
        return dict(zip(self.subject.names, self.outputs.files, strict=True))

    def run(self, stage: str, function: Any, **arguments: Any) -> int:
        """Run a function on all channels together, and say what was written."""
        task = Task(self.subject.path, {"subject": self.subject, **arguments})
        code, outcomes = run_scans(
            stage, function, [task], verbosity=self.verbosity, folder=self.outputs.folder
        )
        print_written(self.outputs, outcomes * len(self.files), self.verbosity)
        return code


def fit_channels(
    subject: Subject,
    output: str,
    *,
    joint: bool,
    force: bool,
    options: Options,
    verbosity: Verbosity,
) -> int:
    """Estimate the densities of the channels of a subject and write them to one file.

    Parameters
    ----------
    subject : the channels.
    output : the file to write.
    joint : whether to estimate one joint density.
    force, options, verbosity : as for the command.

    Returns
    -------
    int
        The exit code.
    """
    (check_joint_fit if joint else check_separate)(subject)
    shared = {"joint": joint, "force": force, "options": options}
    task = Task(subject.path, {"subject": subject, "output": output, **shared})
    code, _ = run_scans("fit", fit_subject, [task], verbosity=verbosity)
    if not code and not verbosity.quiet:
        what = "the joint mixture" if joint else "the mixtures"
        print_result(f"wrote {output}, {what} of {listed(subject.names)}")
    return code


def normalise_channels(
    subject: Subject,
    to: str,
    output: str,
    choices: Choices,
    *,
    joint: bool,
    jobs: int,
    verbosity: Verbosity,
) -> int:
    """Bring the channels of a subject to a target, together or each by itself.

    Parameters
    ----------
    subject : the channels.
    to, output : the target, and the folder for the results.
    choices : what the user chose.
    joint : whether to bring them to it together.
    jobs, verbosity : as for the command.

    Returns
    -------
    int
        The exit code.
    """
    channels = _Channels(subject, channel_outputs(subject, output), verbosity)
    if choices.options.get("force"):
        refuse_images_of_others(channels.outputs)
    warnings = check_grids(subject)
    if joint:
        target = read_joint_target(subject, to, choices)
        return channels.run(
            "normalise",
            normalise_jointly,
            target=target,
            outputs=channels.files,
            command=command_line(),
        )
    matches = separate_matches(subject, to, choices)
    for one in matches:  # before any work
        goal = in_units(one.target, one.options)
        check_units(one.options, name=to, has_units=one.target.has_units, model=goal)
    if not verbosity.quiet:
        doubts = (f"{to}: {doubt}" for one in matches for doubt in one.target.doubts)
        for warning in dict.fromkeys((*warnings, *doubts)):
            print_warning(warning)
    tasks = [
        Task(
            one.scan.path,
            {
                "scan": one.scan,
                "target": one.target,
                "output": channels.files[one.name],
                "options": one.options,
                "preset": one.preset,
                "command": command_line(),
            },
        )
        for one in matches
    ]
    code, outcomes = run_scans(
        "normalise",
        normalise_scan,
        tasks,
        verbosity=verbosity,
        jobs=jobs,
        folder=channels.outputs.folder,
    )
    print_written(channels.outputs, outcomes, verbosity)
    return code


def apply_channels(
    subject: Subject,
    imap: str,
    output: str,
    *,
    inverse: bool,
    other_image: bool,
    options: Options,
    verbosity: Verbosity,
) -> int:
    """Apply a joint map to the channels of a subject, or undo it.

    Parameters
    ----------
    subject : the channels.
    imap, output : the file of the map, and the folder for the results.
    inverse, other_image, options, verbosity : as for the command.

    Returns
    -------
    int
        The exit code.
    """
    channels = _Channels(subject, channel_outputs(subject, output), verbosity)
    read_joint_map(imap, subject.names)  # before any work
    return channels.run(
        "apply",
        apply_jointly,
        imap=imap,
        inverse=inverse,
        other_image=other_image,
        outputs=channels.files,
        options=options,
        command=command_line(),
    )


def average_channels(
    paths: Sequence[str],
    output: str,
    *,
    joint: bool,
    options: Options,
    weights: Sequence[float],
    average: Average | None,
    force: bool,
    verbosity: Verbosity,
) -> int:
    """Average the densities of several channels into one file.

    Parameters
    ----------
    paths, output : the files to read, and the file to write.
    joint : whether the densities must be joint.
    options : what the reference is for.
    weights, average, force, verbosity : as for the command.

    Returns
    -------
    int
        The exit code.
    """
    sources = read_channel_sources(paths, options)
    if joint and not sources.joint:
        raise FileError(
            paths[0],
            "holds the density of each channel by itself",
            "leave out --joint here, or fit the channels with --joint",
        )
    check_model(output, paths, force=force)
    write_channel_reference(
        output,
        sources,
        options,
        weights=weights or None,
        average=average,
        force=force,
    )
    if not verbosity.quiet:
        names, number = listed(sources.channel_names), plural(len(paths), "subject")
        what = "joint average" if sources.joint else "averages"
        print_result(f"wrote {output}, the {what} of {names} over {number}")
    return 0
