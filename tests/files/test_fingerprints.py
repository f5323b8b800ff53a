"""Fingerprints change with anything a result depends on; checksums show damage."""

import pytest

from ndflow._version import RESULTS
from ndflow.files.fingerprints import fingerprint_of, is_intact, with_checksum

RESULT = {"fingerprint": "f", "command": "ndflow fit x", "values": [1.5, 2.5]}


def test_a_fingerprint_depends_on_all_parts_but_not_on_their_order() -> None:
    one = fingerprint_of(inputs={"image": ["a"]}, settings={"x": 1, "y": 2})
    assert one == fingerprint_of(settings={"y": 2, "x": 1}, inputs={"image": ["a"]})
    assert one != fingerprint_of(inputs={"image": ["b"]}, settings={"x": 1, "y": 2})
    assert one != fingerprint_of(inputs={"image": ["a"]}, settings={"x": 1, "y": 3})
    assert one != fingerprint_of(inputs={"image": ["a"]})


def test_a_fingerprint_depends_on_the_generation_of_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = fingerprint_of(x=1)
    monkeypatch.setattr("ndflow.files.fingerprints.RESULTS", RESULTS + 1)
    assert fingerprint_of(x=1) != before


def test_the_checksum_covers_everything_except_the_command() -> None:
    content = with_checksum(RESULT)
    assert with_checksum(content) == content
    assert with_checksum(RESULT | {"command": "other"})["checksum"] == content["checksum"]
    assert with_checksum(RESULT | {"values": [1.5]})["checksum"] != content["checksum"]


@pytest.mark.parametrize("change", [{"values": [1.5]}, {"checksum": "0"}, {"fingerprint": "g"}])
def test_a_change_is_damage_unless_it_is_the_command(change: dict[str, object]) -> None:
    content = with_checksum(RESULT)
    assert is_intact(RESULT)  # nothing to check
    assert is_intact(content)
    assert is_intact(content | {"command": "other"})
    assert not is_intact(content | change)
    assert not is_intact(content | {"seal": "0"})
