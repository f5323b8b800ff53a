"""Finished studies, read back from their folders."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import edit, read_json

from ndflow.errors import FileError, InvalidValueError
from ndflow.evaluation.comparison import shared_scans
from ndflow.files.stream import FileHash
from ndflow.image.read import read_volume
from ndflow.options import Options
from ndflow.study.finished import (
    FinishedStudy,
    page_fingerprint,
    read_finished,
    read_results,
    refuse_other_image,
    refuse_other_inputs,
    results_fingerprint,
)
from ndflow.subject.records import MapRecord, ScanModel

Runs = Callable[..., Any]


@pytest.fixture
def copied(study: Runs, tmp_path: Path) -> Path:
    """A study that may be changed."""
    shutil.copytree(study().folder, tmp_path / "out")
    return tmp_path / "out"


def test_a_study_is_read_back_as_it_was_run(study: Runs) -> None:
    options = Options(range=(0, 1000))
    done = study("site", options=options)
    (run,) = read_finished([done.folder])
    assert run.study.options == replace(options, mode="site")
    assert (run.study.channel, run.study.given) == ("T1w", None)
    assert (run.record.finished, run.record.done["normalise"], run.record.failed) == (True, 8, 0)
    assert run.record.sites == {"Aachen": 3, "Bonn": 3, "Celle": 2}
    for one, other in zip(done.scans, run.study.scans, strict=True):
        assert replace(one, origin="") == replace(other, origin="")
    assert list(run.scans) == done.names()


def test_what_is_no_finished_study_is_refused(copied: Path) -> None:
    record = read_json(copied / "provenance.json")

    def refused(**changes: Any) -> str:
        edit(copied / "provenance.json", **changes)
        with pytest.raises(FileError) as caught:
            read_finished([copied])
        return str(caught.value)

    assert "stopped" in refused(finished=False)
    assert "damaged" in refused(finished=True, settings=record["settings"] | {"method": "magic"})
    (copied / "scans.tsv").write_bytes((copied / "scans.tsv").read_bytes() + b"\n")
    assert "scans.tsv: changed since the study was run" in refused()


def test_the_fingerprint_of_results_changes_with_any_of_them(study: Runs, copied: Path) -> None:
    (first,), (other,) = read_finished([study().folder]), read_finished([study("site").folder])
    (copy,) = read_finished([copied])
    assert results_fingerprint(copy.study) == results_fingerprint(first.study)
    assert results_fingerprint(other.study) != results_fingerprint(first.study)
    record = MapRecord.read(copied / "maps" / "scan0.json")
    replace(record, outputs={"../images/scan0.nii.gz": "0" * 64}).write(
        copied / "maps" / "scan0.json", force=True
    )
    assert results_fingerprint(copy.study) != results_fingerprint(first.study)
    before = page_fingerprint(copied)
    (copied / "failures.tsv").touch()
    assert page_fingerprint(copied) != before


def test_a_density_or_an_input_of_another_scan_is_refused(copied: Path) -> None:
    (run,) = read_finished([copied])
    one, two = (run.study.paths(scan) for scan in run.study.scans[:2])
    record = read_results(one).record
    refuse_other_inputs(one, record, record.inputs)
    for what in ("image", "mask"):
        read = {**record.inputs, what: (FileHash("other.nii", "0" * 64),)}
        with pytest.raises(FileError, match=f"other.nii: not the {what} that"):
            refuse_other_inputs(one, record, read)
    refuse_other_image(record, read_volume(one.image))
    with pytest.raises(FileError, match="not the image that the study wrote"):
        refuse_other_image(record, read_volume(two.image))
    model = replace(ScanModel.read(one.model), mixture=ScanModel.read(two.model).mixture)
    model.write(one.model, force=True)
    with pytest.raises(FileError, match="not the model that"):
        read_results(one)


# ── the same scans in several studies ─────────────────────────────────────────────────────────────


def with_scans(run: FinishedStudy, scans: Any) -> FinishedStudy:
    return replace(run, study=replace(run.study, scans=list(scans)))


def test_shared_scans_are_those_of_all_studies_in_the_order_of_the_first(study: Runs) -> None:
    one, two = read_finished([study().folder, study("site").folder])
    some = with_scans(two, reversed(two.study.scans[2:]))
    shared = shared_scans([one, some])
    assert [each.scan.name for each in shared] == [f"scan{n}" for n in range(2, 8)]
    first = shared[0]
    assert first.scan == one.scans["scan2"]
    assert [paths.image for paths in first.paths] == [
        run.study.folder / "images" / "scan2.nii.gz" for run in (one, two)
    ]
    with pytest.raises(InvalidValueError, match="fewer than two scans"):
        shared_scans([one, with_scans(two, two.study.scans[:1])])


def test_studies_that_disagree_about_the_site_of_a_scan_are_refused(study: Runs) -> None:
    one, two = read_finished([study().folder, study("site").folder])
    odd = with_scans(two, [replace(two.study.scans[0], site="Ulm"), *two.study.scans[1:]])
    with pytest.raises(InvalidValueError, match="the site of scan0 is not the same"):
        shared_scans([one, odd])
