"""The address of a cluster, which is private, is not in what is said about it."""

import sys
from pathlib import Path

import pytest

from ndflow.diagnosis.cluster import cluster


@pytest.mark.parametrize("given", ["alice", "alice/nope.json", "alice.json", "tcp://alice"])
def test_what_was_given_is_not_repeated(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    problem = cluster(given).problem
    assert problem
    assert "alice" not in problem


def test_a_missing_joblib_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)  # it cannot be imported
    monkeypatch.delitem(sys.modules, "ndflow.study.parallel.workers", raising=False)
    assert "pip install --upgrade ndflow" in cluster("tcp://127.0.0.1:9").problem
