"""Model files of version 1, brought to the keys of version 2.

Version 2 says *site* and *channel names*, keeps everything about a match under ``match``, and keeps
the landmarks and tissues of a reference inside the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["upgraded"]

_RENAMED = {
    "stamp": "fingerprint",
    "seal": "checksum",
    "centre": "site",
    "centres": "sites",
}
_OF_MATCH = {  # entries of a map's record that are about its match
    "divergence": "divergence",
    "jacobian": "slopes",
    "aim": "target",
    "frozen": "frozen",
}
_OF_REFERENCE = ("landmarks", "tissues")
_OF_INPUT = ("name", "sha256")  # of a scan in a reference; the rest was how it was fitted


def upgraded(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file of version 1 as version 2 has it."""
    content = {_RENAMED.get(name, name): _renamed_types(part) for name, part in payload.items()}
    settings = content.get("settings")
    if isinstance(settings, dict):
        settings.pop("lesions", None)
        if settings.get("mode") == "centre":
            settings["mode"] = "site"
    change = {"mixture": _mixture, "reference": _reference, "map": _map}.get(kind)
    return content if change is None else change(content)


def _mixture(content: dict[str, Any]) -> dict[str, Any]:
    hashes, maps = content.pop("sha256", None), content.pop("maps", None)
    if isinstance(hashes, list):
        content["sha256"] = {"image": hashes, **(maps if isinstance(maps, dict) else {})}
    return content


def _reference(content: dict[str, Any]) -> dict[str, Any]:
    reference = content.get("reference")
    if isinstance(reference, dict):
        for name in _OF_REFERENCE:
            if name in content:
                reference[name] = content.pop(name)
    inputs = content.get("inputs")
    if isinstance(inputs, list):
        content["inputs"] = [_input(one) if isinstance(one, dict) else one for one in inputs]
    return content


def _input(scan: dict[str, Any]) -> dict[str, Any]:
    settings = {name: part for name, part in scan.items() if name not in _OF_INPUT}
    return {name: scan[name] for name in _OF_INPUT if name in scan} | {"settings": settings}


def _map(content: dict[str, Any]) -> dict[str, Any]:
    message = content.pop("match", None)
    match = {new: content.pop(old) for old, new in _OF_MATCH.items() if old in content}
    if isinstance(message, str):
        settings = content.get("settings")
        objective = settings.get("objective", "l2") if isinstance(settings, dict) else "l2"
        content["match"] = {"message": message, **match}
        choice = match.get("target")
        if isinstance(choice, dict):
            choice["reason"] = choice.pop("from", "")
            plain = choice.get("plain")
            if isinstance(plain, dict) and isinstance(plain.get("divergence"), dict):
                plain["divergence"].setdefault("objective", objective)
    inputs = content.get("inputs")
    if isinstance(inputs, dict) and "exclude" in inputs:
        inputs["lesion"] = inputs.pop("exclude")
    return content


def _renamed_types(item: Any) -> Any:
    """Return values with the names that their types and fields have now."""
    if isinstance(item, list):
        return [_renamed_types(part) for part in item]
    if not isinstance(item, dict):
        return item
    content = {name: _renamed_types(part) for name, part in item.items()}
    if content.get("type") == "Reference" and "channels" in content:
        content["channel_names"] = content.pop("channels")
    return content
