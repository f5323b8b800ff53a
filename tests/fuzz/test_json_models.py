"""Model files whose numbers, texts and structure were changed: refused, or read as they stand."""

import copy
import json
import shutil
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from commands import typed
from fuzz.conftest import Fuzz, attempt, typed_in
from mixtures import random_mixture
from phantoms import head, save
from studies import read_json

import ndflow
from ndflow.population import Tissues
from ndflow.subject.records import ScanModel
from ndflow.subject.target import builtin_file

SCAN, SHARES = head(0, shape=(10, 10, 10)), [0.2, 0.45, 0.35]

_DIGITS = "@digits@"
ODD = [None, True, False, "", "x" * 300, "a\u2028b", "a\0b", "\ud800", "=cmd|' /C calc'!A0"]
ODD += ["../../etc", -1, 0, 1, 2**31, 2**63, 10**400, -(10**400), _DIGITS, 0.5, 1e308, -1e308]
ODD += [1e-320, float("nan"), float("inf"), -float("inf"), [], {}, [[]], [0.0], [[0.0]]]
ODD += [[1, "a", None], {"": 0}, {"densities": 0.5}, {"type": "GaussianMixture"}]
ODD += [{"type": "Affine", "matrix": [[1.0]], "offset": [0.0]}]


def place_in(random: Random, document: Any) -> tuple[Any, Any]:
    """Return a container below a document, and a key or index in it; shallow ones more often."""
    container = document
    while True:
        key = random.choice(
            list(container) if isinstance(container, dict) else range(len(container))
        )
        if not isinstance(container[key], dict | list) or not container[key]:
            return container, key
        if random.random() < 0.2:
            return container, key
        container = container[key]


def changed(random: Random, document: dict[str, Any]) -> None:
    """Change a value of a document in place."""
    if not document:
        return
    container, key = place_in(random, document)
    what = random.random()
    if what < 0.55:
        container[key] = random.choice(ODD)
    elif what < 0.7:
        del container[key]
    elif what < 0.85 and isinstance(container[key], float):
        factor = random.choice([-1, 0, 1.001, 2, 1e-12, 1e12, 1e200])
        container[key] = container[key] * factor
    elif isinstance(container, list):
        container.insert(key, container[key])
    elif isinstance(container[key], list) and container[key]:
        random.shuffle(container[key])
    else:
        container[f"{key} "] = container.pop(key)


def text_of(random: Random, document: Any) -> bytes:
    """Return a document as text, which may be damaged too."""
    text = json.dumps(document).replace(f'"{_DIGITS}"', "7" * 5000)
    place = random.randrange(len(text))
    if random.random() < 0.8:
        return text.encode()
    depth = random.choice([20, 70, 5000, 200_000])
    return random.choice(
        [
            text[:place],
            text[:place] + text[place + 1 :],
            text[:place] + chr(random.randrange(32, 0x300)) + text[place + 1 :],
            "\ufeff" + text,
            text + text,
            text.replace("{", '{"kind": "map", ', 1),
            text[:-1] + ', "more": ' + "[" * depth + "]" * depth + "}",
            text[:-1] + ', "more": ' + "[" * depth,
            "[" * depth,
            text.replace("1", "1e999", 1),
            text.replace(",", ",,", 1),
            "",
            "\0" + text,
            "null",
        ]
    ).encode("utf-8", "surrogatepass")


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
        shutil.copy(builtin_file("T1w@1"), folder / "builtin.json")
        tissues = Tissues([source.transformed([[1.0]], [shift]) for shift in (0, 1, 2)], SHARES)
        ScanModel(source, tissues=tissues).write(folder / "tissues.json")
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
    if not is_map:
        ran = typed_in("", "reference", path, "-o", path.with_name("average.json"))
        assert loaded or ran.code == 2


def test_json_models(fuzz: Fuzz) -> None:
    fuzz(mutated, 100)
