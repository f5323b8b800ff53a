"""Where the results of several channels go: a folder, with one image per channel."""

from __future__ import annotations

import os
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.image.read import files_of
from ndflow.scan.channels.channel_subject import Subject
from ndflow.scan.outputs import Outputs, outputs_for, stem
from ndflow.values import path_like

__all__ = ["channel_outputs"]


def channel_outputs(subject: Subject, output: AnyPath) -> Outputs:
    """Return where the results of a subject go: images keep their names.

    Parameters
    ----------
    subject : the channels; images in memory are called by the names of their channels.
    output : a folder, which need not exist yet.
    """
    path_like(output, "output")
    names = {
        name: next(iter(files_of(image)), f"{name}.nii.gz")
        for name, image in subject.images.items()
    }
    seen: dict[str, str] = {}
    for name, file in names.items():
        other = seen.setdefault(stem(file), name)  # a.nii and a.nii.gz would share a sidecar
        if other != name:
            cause = f"the result of {name} would be called like that of {other}"
            hint = "images of one subject must differ in their names: copy or link one of them"
            raise FileError(file, cause, hint)
    return outputs_for([*names.values()], os.fspath(output), lambda image: Path(image).name)
