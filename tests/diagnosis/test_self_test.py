"""The self-test passes where ndflow works, and fails where it does not."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ndflow.diagnosis.self_test import self_test
from ndflow.scan import normalise as module
from ndflow.scan.normalise import normalise


def failed() -> dict[str, str]:
    return {check.name: check.found for check in self_test().checks if not check.passed}


def test_wrong_maps_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def aligned(*args: Any, **options: Any) -> Any:
        return normalise(*args, method="affine", **options)

    monkeypatch.setattr(module, "normalise", aligned)
    found = failed()
    assert list(found) == ["map"]
    assert "differ by" in found["map"]


def test_wrong_voxels_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(image: Any, to: Any, **options: Any) -> Any:
        result = normalise(image, to, **options)
        if isinstance(image, np.ndarray):
            return replace(result, image=np.asarray(result.image) + 30)
        return result

    monkeypatch.setattr(module, "normalise", shifted)
    assert set(failed()) == {"inverse", "built-in", "files"}


def test_what_cannot_be_imported_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ndflow.scan.apply", None)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    found = failed()
    assert set(found) == {"inverse", "files"}
    assert found["inverse"].startswith("ModuleNotFoundError: ")
    assert found["files"].startswith("FileNotFoundError: ")
