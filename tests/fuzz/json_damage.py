"""JSON with values that nobody expects: wrong types, odd numbers, odd text, other structures."""

import json
from random import Random
from typing import Any

_DIGITS = "@digits@"
ODD = [None, True, False, "", "x" * 300, "a\u2028b", "a\0b", "\ud800", "=cmd|' /C calc'!A0"]
ODD += ["../../etc", -1, 0, 1, 2**31, 2**63, 10**400, -(10**400), _DIGITS, 0.5, 1e308, -1e308]
ODD += [1e-320, float("nan"), float("inf"), -float("inf"), [], {}, [[]], [0.0], [[0.0]]]
ODD += [[1, "a", None], {"": 0}, {"type": "GaussianMixture"}]
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
