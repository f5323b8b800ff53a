"""A study: where its results go, and what its settings mean."""

from pathlib import Path

import pytest

from ndflow.errors import InvalidValueError
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.study.listing import PlainNames, named
from ndflow.study.plan import ResultPaths, Study

SCANS = named(
    [Subject(f"/in/{name}.nii", site=site) for name, site in zip("abc", "BAB", strict=True)],
    PlainNames(),
)


def test_results_go_to_folders_of_the_study() -> None:
    study = Study(Path("/out"), SCANS)
    assert study.paths(SCANS[1]) == ResultPaths(
        Path("/out/models/b.json"),
        Path("/out/images/b.nii.gz"),
        Path("/out/maps/b.json"),
        Path("/out/figures/b.png"),
    )


def test_sites_are_counted_in_the_order_of_their_names() -> None:
    study = Study(Path("/out"), [*SCANS, Subject("/in/d.nii")])
    assert list(study.site_counts.items()) == [("A", 1), ("B", 2)]


def test_choices_are_looked_up_by_their_names() -> None:
    options = Options(mode="two-level", method="ndflow", proportions="tissue")
    study = Study(Path("/out"), SCANS, options)
    assert (study.mode.by_site, study.mode.per_scan) == (True, True)
    assert study.method.name == "ndflow"
    assert study.target_rule.needs_tissue_maps
    with pytest.raises(InvalidValueError, match="freeze is not an option of the method 'affine'"):
        _ = Study(Path("/out"), SCANS, options=Options(method="affine", freeze=("1",))).method
