"""Mixtures and maps that are damaged, hostile or of the wrong kind are refused."""

import gzip
import json
import os
import pickle  # noqa: TID251  # to see that it is refused
import re
from typing import Any

import numpy as np
import pytest
from bad_input import HEAD, INSIDE, MAP, TARGET, Desk, model
from phantoms import nifti, voxels_of

import ndflow

PACKED = gzip.compress(nifti(HEAD), mtime=0)


class Trap:
    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


def text(kind: str, **changes: Any) -> str:
    """Return a model with some entries changed."""
    return json.dumps(model(kind, **{kind: {"mixture": TARGET, "map": MAP}[kind] | changes}))


def refuses_model(desk: Desk, kind: str, content: bytes | str, message: str) -> None:
    bad = desk.put("bad.json", content)
    use = ("apply", desk.scan, "--map") if kind == "map" else ("normalise", desk.scan, "--to")
    desk.refused(bad, message, *use, bad, "-o", desk.out)
    if kind == "mixture":
        desk.refused(bad, message, "reference", desk.target, bad, "-o", desk.folder / "out/x.json")


NUMBER = r"\d*5\.0"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON .*; check that it is the right file"),
        (b"import os", "not JSON .*; check that it is the right file"),
        (nifti(HEAD), "not JSON|not text in UTF-8"),
        (PACKED, "not text in UTF-8"),
        (b"\xff\xfe{\0}\0", "not text in UTF-8"),
        (b"[" * 100_000, "nested more than 64 levels deep"),
        (b'{"a":' * 100_000, "nested more than 64 levels deep"),
        (b"[1, 2]", "JSON, but not a model of ndflow"),
        (b"{}", "JSON, but not a model of ndflow"),
        *(
            (pickle.dumps(Trap(), protocol), "not JSON|not text in UTF-8")
            for protocol in (0, pickle.HIGHEST_PROTOCOL)
        ),
    ],
)
def test_a_file_that_is_not_a_model_is_refused_and_never_executed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    monkeypatch.chdir(desk.folder)
    refuses_model(desk, "mixture", content, message)  # which checks that there is no new folder


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("}$", "", r"not JSON \(line 1, column \d+"),
        ("}$", "}}", r"not JSON \(line 1, column \d+"),
        ("}$", ', "kind": "map"}', "holds 'kind' twice"),
        ("}$", ', "a": {"b": [1], "b": [2]}}', "holds 'b' twice"),
        ("}$", f', "a": {"[" * 66}{"]" * 66}}}', "nested more than 64 levels deep"),
        (NUMBER, "NaN", "holds NaN"),
        (NUMBER, "-Infinity", "holds -Infinity"),
        (NUMBER, "1e999", "holds 1e999"),
        (NUMBER, "9" * 9999, "digits"),
        (NUMBER, "9" * 400, "must be an array of real numbers"),
        (NUMBER, "null", "must be finite"),
        (NUMBER, '"5.0"', "must be an array of real numbers"),
        ('"format": "ndflow"', '"format": "other"', "JSON, but not a model of ndflow"),
        ('"version": 2', '"version": 3', "version is 3, but this version of ndflow reads 2"),
        ('"version": 2', '"version": 0', "format version is 0"),
        ('"version": 2', '"version": "2"', "format version is '2'"),
        ('"version": 2, ', "", "format version is None"),
        ('"kind": "[a-z]*"', '"kind": "histogram"', "kind 'histogram', where .* is expected"),
        ('"kind": "[a-z]*", ', "", "kind None, where .* is expected"),
        ('"map": {', '"other": {', "not a valid map: it has no 'map'"),
        ('"type": "[A-Za-z]*"', '"type": "os.system"', "'os.system' is not a type of value"),
        ('"type": "[A-Za-z]*"', '"type": "Value"', "'Value' is not a type of value"),
        ('"type": "[A-Za-z]*"', '"type": ["Affine"]', "is not a type of value"),
        ('"type": "[A-Za-z]*", ', "", "None is not a type of value"),
        ('"type": "[A-Za-z]*"', '"type": "Status"', "got a Status"),
        ('"type"', '"surplus": 1, "type"', "unknown entries: surplus"),
        ('"offset"', '"meens"', "unknown entries: meens"),
        ('{"type".*}$', "null}", "not a valid map: it has no 'map'"),
        ('{"type".*}$', '"mixture"}', "not a valid .*must be a JSON object"),
        ('{"type".*}$', "[" * 62 + "]" * 62 + "}", "not a valid .*must be a JSON object"),
    ],
)
def test_a_damaged_model_is_refused(desk: Desk, old: str, new: str, message: str) -> None:
    damaged = re.sub(old, new, text("map"), count=1)
    assert damaged != text("map")
    refuses_model(desk, "map", damaged, message)


WIDE = [[[1.0, 0.0], [0.0, 1.0]]]


def many(count: int) -> str:
    """Return a mixture of many components."""
    means = [[float(number)] for number in range(count)]
    return text("mixture", weights=[1 / count] * count, means=means, precisions=[[[1e-4]]] * count)


def long(count: int) -> str:
    """Return a chain of many maps."""
    return json.dumps(model("map", map={"type": "Chain", "maps": [MAP] * count}))


def flow(steps: int) -> str:
    """Return a flow of many steps, all of which would be kept in memory."""
    ends = {"source": TARGET, "target": TARGET}
    return json.dumps(model("map", map={"type": "Flow", **ends, "steps": steps}))


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("mixture", text("map"), "kind 'map', where 'mixture' or .*right"),
        ("map", text("mixture"), "kind 'mixture', where 'map' is expected; .*right file"),
        ("mixture", json.dumps(model("mixture", mixture=MAP)), "expected .*Mixture, got .*Affine"),
        ("map", json.dumps(model("map", map=TARGET)), "expected .*Map, got .*GaussianMixture"),
        ("mixture", text("mixture", weights=[0.3, 0.4, 0.5]), "weights must sum to 1"),
        ("mixture", text("mixture", weights=[-0.3, 0.4, 0.9]), "weights must"),
        ("mixture", text("mixture", means=[[20.0], [60.0]]), "means must have the shape"),
        ("mixture", text("mixture", precisions=[[[-1]]] * 3), "precisions must be positive"),
        ("mixture", text("mixture", precisions=[[[0]]] * 3), "precisions must be positive"),
        ("mixture", text("mixture", precisions=[[[1e-320]]] * 3), "precisions must be positive"),
        ("mixture", text("mixture", weights=[1], means=[[1, 2]], precisions=WIDE), "2 channels"),
        ("map", text("map", matrix=[[0.0]]), "matrix must be invertible"),
        ("map", text("map", matrix=WIDE[0], offset=[0, 0]), "2 channels"),
        ("map", json.dumps(model("map", map={"type": "Chain", "maps": []})), "at least one map"),
        ("mixture", many(513), "of 513 weights, where at most 512 may be stored"),
        ("mixture", many(10_000), "of 10,000 weights, where at most 512 may be stored"),
        ("map", long(101), "a Chain of 101 maps, where at most 100 may be stored"),
        ("map", flow(100_000), "steps must lie between 1 and 10000"),
    ],
)
def test_a_model_of_the_wrong_kind_is_refused(
    desk: Desk, kind: str, content: str, message: str
) -> None:
    refuses_model(desk, kind, content, message)


@pytest.mark.parametrize(
    "changes",
    [
        {"means": [[1e20]] * 3},  # where adjacent doubles are many standard deviations apart
        {"means": [[1e300], [2e300], [3e300]]},
        {"precisions": [[[1e-300]]] * 3},
    ],
)
def test_a_target_with_overflowing_numbers_is_blamed_not_the_scan(
    desk: Desk, changes: dict[str, Any]
) -> None:
    bad = desk.put("bad.json", text("mixture", **changes))
    desk.refused(bad, "", "normalise", desk.scan, "--to", bad, "-o", desk.out)


@pytest.mark.parametrize("factor", [1e306, -1e306])
def test_values_that_overflow_in_a_map_are_clipped_and_counted(desk: Desk, factor: float) -> None:
    steep = desk.put("steep.json", text("map", matrix=[[factor]]))
    ran = desk.run("apply", desk.scan, "--map", steep, "-o", desk.out)
    assert ran.code == 0
    limit = np.finfo(np.float32).max * np.float32(np.sign(factor))
    assert np.array_equal(voxels_of(desk.out, None), INSIDE * limit)
    count = f"{np.count_nonzero(INSIDE):,} voxels did not fit the type float32"
    assert [count in line for line in ran.err.splitlines()] == [True]


def test_as_many_components_as_may_be_stored_are_read(desk: Desk) -> None:
    path = desk.put("many.json", many(512))
    assert desk.run("normalise", desk.scan, "--to", path, "-o", desk.out).code == 0
    chain = desk.put("long.json", long(3))
    assert desk.run("apply", desk.scan, "--map", chain, "-o", desk.out, "--force").code == 0


def test_what_could_not_be_read_again_is_not_written(desk: Desk) -> None:
    count = 513
    mixture = ndflow.GaussianMixture([1 / count] * count, np.arange(count), np.ones(count))
    with pytest.raises(ndflow.InvalidValueError, match="of 513 weights, where at most 512"):
        ndflow.save(desk.folder / "new.json", mixture)
    assert not (desk.folder / "new.json").exists()
