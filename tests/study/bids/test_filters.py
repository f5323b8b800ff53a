"""Filter files: which images a query chooses, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from files_on_disc import anat, dataset

from ndflow.errors import FileError
from ndflow.study.bids_names import read_filters
from ndflow.study.bids_query import find_scans

NAMES = [
    "sub-1_ses-a_T1w",
    "sub-1_ses-a_acq-x_run-01_T1w",
    "sub-1_ses-a_acq-x_run-02_T1w",
    "sub-1_ses-b_acq-y_T1w",
    "sub-1_ses-b_acq-y_rec-norm_T1w.nii",
    "sub-1_ses-b_FLAIR",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return dataset(tmp_path / "raw", *anat(*NAMES))


def chosen(root: Path, query: dict[str, Any]) -> list[int]:
    """Return which of the images a query chooses."""
    path = root.parent / "filter.json"
    path.write_text(json.dumps({"t1w": query}))
    scans = find_scans(root, chosen=read_filters(path, ["T1w"]).of["T1w"])
    stems = [name.removesuffix(".nii") for name in NAMES]
    return sorted(stems.index(Path(scan.image).name.partition(".")[0]) for scan in scans)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"session": "a"}, [0, 1, 2]),
        ({"session": "ses-a"}, [0, 1, 2]),
        ({"ses": "b"}, [3, 4]),
        ({"acquisition": None}, [0]),
        ({"acquisition": ["x", "y"]}, [1, 2, 3, 4]),
        ({"acquisition": ["y", None]}, [0, 3, 4]),
        ({"run": 1}, [1]),
        ({"run": "2"}, [2]),
        ({"run": [1, 2]}, [1, 2]),
        ({"acquisition": "y", "reconstruction": None}, [3]),
        ({"datatype": "anat", "suffix": "T1w", "session": "b"}, [3, 4]),
        ({"extension": ".nii"}, [4]),
        ({"extension": ["nii.gz"], "session": "b"}, [3]),
        ({"subject": "1", "run": None, "rec": None}, [0, 3]),
    ],
)
def test_a_query_chooses_images_by_their_entities(
    root: Path, query: dict[str, Any], expected: list[int]
) -> None:
    assert chosen(root, query) == expected


@pytest.mark.parametrize(
    "query",
    [{"session": "c"}, {"acquisition": "X"}, {"datatype": "func"}, {"suffix": "T2w"}, {"run": 12}],
)
def test_a_query_that_fits_nothing_is_refused(root: Path, query: dict[str, Any]) -> None:
    with pytest.raises(FileError, match=r"filter.json: the query 't1w' fits none of the T1w"):
        chosen(root, query)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no object of queries"),
        ('{"t1w": "a"}', "no object of queries"),
        ('{"t1w": {"sesion": "a"}}', "query 't1w': unknown entity 'sesion'"),
        ('{"bold": {"task": "rest"}}', "has no query for T1w images"),
        ('{"t1w": {"session": true}}', "session must be a label|ses must be a label, not true"),
        ('{"t1w": {"session": "*"}}', "must be letters and digits only"),
        ('{"t1w": {"run": 1.5}}', "run must be a label, not 1.5"),
        ('{"t1w": {"run": []}}', "the list of run is empty"),
        ('{"t1w": {"ses": "a", "session": "a"}}', "'ses' is given twice"),
        ('{"t1w": {"run": 1}, "T1w": {"run": 2}}', "has two queries for T1w images"),
        ('{"t1w": {"run": 1}, "t1w": {"run": 2}}', "'t1w' is given twice"),
        ('{"t1w": {"run": 1, "run": 2}}', "'run' is given twice"),
        ('{"t1w": {}, "bold": {"speed": 3}}', "query 'bold': unknown entity 'speed'"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "filter.json"
    path.write_text(content)
    with pytest.raises(FileError, match=said) as caught:
        read_filters(path, ["T1w"])
    assert caught.value.path == str(path)


def test_queries_for_other_images_are_named(tmp_path: Path) -> None:
    path = tmp_path / "filter.json"
    path.write_text('{"T1w": {"run": 1}, "bold": {"task": "rest"}, "flair": {}}')
    assert read_filters(path, ["T1w"]).unused == ["bold", "flair"]
    both = read_filters(path, ["T1w", "FLAIR"])
    assert (sorted(both.of), both.unused) == (["FLAIR", "T1w"], ["bold"])
