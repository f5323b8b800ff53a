"""Integrations without the package that they are for: the error says what to install."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "packages", "called"),
    [
        ("monai", ["monai", "monai.transforms.inverse", "torch"], "MONAI"),
        ("sklearn", ["sklearn.base"], "scikit-learn"),
        ("torchio", ["torchio", "torch"], "TorchIO"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    module: str, packages: list[str], called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"ndflow.integrations.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"needs {called}.*pip install '.\[{module}\]'"):
        importlib.import_module(f"ndflow.integrations.{module}")
