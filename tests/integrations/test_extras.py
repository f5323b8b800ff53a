"""Integrations without the package that they are for: the error says what to install."""

import importlib
import sys

import pytest


def test_a_missing_torchio_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchio", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "ndflow.integrations.torchio", raising=False)
    with pytest.raises(ImportError, match=r"needs TorchIO.*pip install 'ndflow\[torchio\]'"):
        importlib.import_module("ndflow.integrations.torchio")
