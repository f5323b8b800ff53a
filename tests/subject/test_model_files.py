"""Model files: loaded identical to the bit, and refused where damaged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixtures import random_mixture
from studies import edit

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.subject.records import ScanModel

ONE, OTHER = (random_mixture(np.random.default_rng(seed), 4) for seed in range(2))
CHAIN = ndflow.normalising_map(ONE, OTHER)
TABLE = ndflow.transport.tabulate(CHAIN, *ONE.quantile([0.001, 0.999]).tolist())
MODELS: dict[str, tuple[str, Any]] = {
    "mixture": ("mixture", ONE),
    "reference": (
        "reference",
        ndflow.reference([ONE, OTHER], names=["é", "b"], channel="T1w"),
    ),
    "affine": ("map", ndflow.Affine(2.0, 1 / 3)),
    "table": ("map", TABLE),
    "inverse of a table": ("map", TABLE.inverse()),
    "chain": ("map", CHAIN),
    "flow": ("map", ndflow.normalising_map(ONE, OTHER, solver="rk4")),
}
each_model = pytest.mark.parametrize("name", MODELS)


@each_model
def test_a_saved_model_is_loaded_unchanged(tmp_path: Path, name: str) -> None:
    kind, model = MODELS[name]
    path = tmp_path / "model.json"
    ndflow.save(path, model)
    assert ndflow.load(path) == model
    assert ndflow.load(str(path)) == model
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["format"], data["version"], data["kind"]) == ("ndflow", 2, kind)
    assert data["ndflow"] == ndflow.__version__
    assert data[kind] == json.loads(json.dumps(model.to_dict()))


@each_model
def test_the_same_model_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    for number in range(2):
        ndflow.save(tmp_path / f"{number}.json", MODELS[name][1])
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


def test_nothing_is_replaced_without_force_and_inputs_never(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    ndflow.save(path, ONE)
    with pytest.raises(FileError, match="exists already"):
        ndflow.save(path, OTHER)
    assert ndflow.load(path) == ONE
    with pytest.raises(FileError, match="one of the inputs"):
        ScanModel(OTHER).write(path, force=True, inputs=[path])
    assert ndflow.load(path) == ONE
    ndflow.save(path, OTHER, force=True)
    assert ndflow.load(path) == OTHER
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("model", [None, "mixture", {"type": "Affine"}, np.zeros(3)])
def test_a_value_that_is_not_a_model_cannot_be_saved(tmp_path: Path, model: Any) -> None:
    with pytest.raises(InvalidValueError, match="must be a mixture, a reference or a map"):
        ndflow.save(tmp_path / "a.json", model)
    assert list(tmp_path.iterdir()) == []


def damaged(path: Path, **changes: Any) -> Path:
    """Save a mixture without its checksum, and some entries changed or, where None, left out."""
    ndflow.save(path, ONE, force=True)
    edit(path, **{name: ... if part is None else part for name, part in changes.items()})
    return path


DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "no model in it": ({"mixture": None}, "it has no 'mixture'"),
    "another kind than it says": ({"mixture": ndflow.Affine(2.0, 1.0).to_dict()}, "not a valid"),
    "no such type": ({"mixture": {"type": "os.system", "command": "true"}}, "not a valid"),
    "a model that is none": ({"mixture": [1, 2]}, "not a valid"),
    "weights that are none": (
        {"mixture": ONE.to_dict() | {"weights": [-1.0, 1.0, 0.5, 0.5]}},
        "not a valid mixture: .*weights",
    ),
    "a field too many": ({"mixture": ONE.to_dict() | {"more": 1}}, "not a valid"),
    "a format of the future": ({"version": 3}, "version is 3, but"),
    "another program's": ({"format": "other"}, "not a model of ndflow"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_models_are_refused_with_the_reason(tmp_path: Path, what: str) -> None:
    changes, reason = DAMAGE[what]
    path = damaged(tmp_path / "model.json", **changes)
    with pytest.raises(FileError, match=reason) as caught:
        ndflow.load(path)
    assert caught.value.path == str(path)
    assert caught.value.hint
