"""A study with the settings that its preset gives it before any work."""

from __future__ import annotations

from dataclasses import replace

from ndflow.scan.builtin.builtin_references import full_name, is_builtin
from ndflow.scan.presets.preset_rules import Choices
from ndflow.study.plan import Study
from ndflow.study.presets.decided_study import settled, study_facts
from ndflow.study.references import read_reference

__all__ = ["with_choices"]


def with_choices(study: Study, choices: Choices) -> Study:
    """Return a study in which nothing is left open, and a reference in the package has a version.

    Parameters
    ----------
    study : its scans, and the reference that was given, if any.
    choices : what the user chose.

    Raises
    ------
    FileError : if a reference was given that cannot be read.
    InvalidValueError : for choices that the method does not use.
    """
    if is_builtin(study.given):
        study = replace(study, given=full_name(study.given))
    given = None if study.given is None else read_reference(study.given, study.channel)
    return settled(replace(study, choices=choices), study_facts(study, given))
