"""Model files whose numbers, texts and structure were changed: refused, or read as they stand."""

import copy
import json
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from commands import typed
from fuzz.conftest import Fuzz, attempt, typed_in
from fuzz.json_damage import changed, text_of
from mixtures import random_mixture
from phantoms import head, save
from studies import read_json

import ndflow

SCAN = head(0, shape=(10, 10, 10))


@cache
def documents() -> dict[str, Any]:
    """Return models of each kind by name, as Python reads their files; some are of commands."""
    generator = np.random.default_rng(0)
    source, target = (random_mixture(generator, 3) for _ in range(2))
    exact = ndflow.normalising_map(source, target)
    models = {
        "mixture": source,
        "reference": ndflow.reference([source, target]),
        "exact": exact,
        "table": ndflow.transport.tabulate(exact, -3.0, 3.0, tolerance=1e-2),
        "affine": ndflow.Affine([[2.0]], [1.0]),
        "several": {"T1w": source, "FLAIR": target},
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        for stem, model in models.items():
            ndflow.save(folder / f"{stem}.json", model)
        scan = save(folder / "scan.nii", SCAN)
        typed("fit", scan, "-o", folder / "fit.json", "-q")
        typed("normalise", scan, "--to", folder / "fit.json", "-o", folder / "sidecar.nii", "-q")
        return {path.stem: read_json(path) for path in folder.glob("*.json")}


def mutated(random: Random, folder: Path) -> bool:
    name = random.choice(sorted(documents()))
    document = copy.deepcopy(documents()[name])
    if random.random() < 0.9:
        del document["checksum"]  # so that it does not hide what else is wrong
    mutations = random.choice([0, 1, 1, 1, 1, 2, 3])
    for _ in range(mutations):
        changed(random, document)
    path = folder / "model.json"
    path.write_bytes(text_of(random, document))
    model = attempt(path, lambda: ndflow.load(path))
    if model is None:
        assert mutations or path.read_bytes() != json.dumps(document).encode()
    else:
        check_model(model, json.loads(path.read_text("utf-8-sig")))
    if random.random() < 0.15:
        used(path, document.get("kind") == "map", model is not None)
    return model is not None


def check_model(model: Any, document: Any) -> None:
    """Check that a model is what its file says, and that a map rises, or falls if it is affine."""
    kind = document["kind"]
    if kind == "mixtures":
        for name, one in model.items():
            check_model(one, {"kind": "mixture", **document[kind][name]})
        return
    assert holds(document[kind], json.loads(json.dumps(model.to_dict())))
    if kind == "map":
        with np.errstate(over="ignore", invalid="ignore"):
            y = model(np.linspace(-3, 3, 31))
        steps = np.diff(y[np.isfinite(y)])
        assert (steps >= 0).all() or (steps <= 0).all(), y
        return
    mixture = model if kind == "mixture" else model.mixture
    assert (mixture.weights >= 0).all()
    assert abs(mixture.weights.sum() - 1) < 1e-6
    assert np.isfinite(mixture.means).all()
    assert (np.linalg.eigvalsh(mixture.precisions) > 0).all()


def holds(given: Any, kept: Any) -> bool:
    """Return whether a file gives all that was kept of it; more keys and other nesting are fine."""
    if isinstance(kept, dict):
        return all(name in given and holds(given[name], part) for name, part in kept.items())
    if isinstance(kept, list) and any(isinstance(part, dict | str) for part in kept):
        return len(given) == len(kept) and all(map(holds, given, kept))
    if isinstance(kept, list):
        return bool(np.array_equal(np.ravel(given).astype(float), np.ravel(kept)))
    return bool(given == kept)


def used(path: Path, is_map: bool, loaded: bool) -> None:
    """Give a model to a command, which must refuse it if it cannot be read."""
    scan, out = save(path.with_name("scan.nii"), SCAN), path.with_name("out.nii")
    words = ("apply", scan, "--map") if is_map else ("normalise", scan, "--to")
    ran = typed_in("", *words, path, "-o", out)
    assert loaded or ran.code == 2
    assert out.exists() == (ran.code == 0)


def test_json_models(fuzz: Fuzz) -> None:
    fuzz(mutated, 100)
