"""Fingerprints change with anything that a result depends on."""

import pytest

from ndflow._version import RESULTS
from ndflow.files.stream import fingerprint_of


def test_a_fingerprint_depends_on_all_parts_but_not_on_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = fingerprint_of(inputs={"image": ["a"]}, settings={"x": 1, "y": 2})
    assert one == fingerprint_of(settings={"y": 2, "x": 1}, inputs={"image": ["a"]})
    assert one != fingerprint_of(inputs={"image": ["b"]}, settings={"x": 1, "y": 2})
    assert one != fingerprint_of(inputs={"image": ["a"]})
    monkeypatch.setattr("ndflow.files.stream.RESULTS", RESULTS + 1)
    assert one != fingerprint_of(inputs={"image": ["a"]}, settings={"x": 1, "y": 2})
