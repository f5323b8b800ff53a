"""The boilerplate of a study as a file, ``OUT/logs/CITATION.md``, as other BIDS Apps write it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ndflow._version import versions
from ndflow.errors import FileError
from ndflow.files.atomic import new_file
from ndflow.reporting.boilerplate import cited, planned_paragraph
from ndflow.reporting.sections.preparation_words import steps_of
from ndflow.scan.outputs import make_folder
from ndflow.scan.reading import selection
from ndflow.scan.records import StudyRecord
from ndflow.study.finished import read_finished
from ndflow.study.folder import CITATION, CITATION_MARK, refuse_foreign_citation
from ndflow.study.plan import Study

__all__ = ["citation", "finished_citation", "write_citation"]


def citation(study: Study, record: StudyRecord | None = None) -> str:
    """Return the boilerplate of a study, in Markdown.

    Parameters
    ----------
    study : what was done, or is to be done; its scans are those that count.
    record : how it ended; None if it has not been run.
    """
    known = record or StudyRecord(settings=study.settings, versions=versions())
    masks = {str(selection(scan)["mask"]) for scan in study.scans}
    prepared = steps_of(study)
    paragraph = planned_paragraph(study, known, list(study.site_counts), masks, prepared)
    return (
        f"{CITATION_MARK} -->\n# Boilerplate\n\n"
        f"For the methods section of a paper; use and change it as you like.\n\n"
        f"{paragraph}\n\n## References\n\n```bibtex\n{cited(study, masks, prepared)}\n```\n"
    )


def finished_citation(study: Study) -> str:
    """Return the boilerplate of a study that was run: of its scans that were normalised."""
    (run,) = read_finished([study.folder])
    known = {scan.name for scan in run.study.scans}
    done = [scan for scan in study.scans if scan.name in known]
    as_run = replace(
        study,
        scans=done,
        averaging=run.study.averaging,
        matching=run.study.matching,
        preset=run.study.preset,
    )
    return citation(as_run, run.record)


def write_citation(study: Study, text: str) -> Path:
    """Write the boilerplate of a study, unless it is there already.

    Parameters
    ----------
    study : the study.
    text : its boilerplate.

    Returns
    -------
    Path
        The file, which replaces an earlier one of ndflow, but no file of anybody else.
    """
    refuse_foreign_citation(study.folder)
    path, content = study.folder / CITATION, text.encode()
    try:
        if path.read_bytes() == content:
            return path
    except FileNotFoundError:
        pass
    except OSError as error:
        raise FileError(path, f"cannot be read ({error.strerror})", "move it elsewhere") from None
    make_folder(study.folder)
    make_folder(path.parent)
    with new_file(path, force=True) as file:
        file.write(content)
    return path
