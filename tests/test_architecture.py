"""The picture of docs/architecture.md shows the source as it is."""

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("grimp")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    path = ROOT / "experiments" / "draw_architecture.py"
    spec = importlib.util.spec_from_file_location("draw_architecture", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_up_to_date(drawing: ModuleType) -> None:
    drawn = drawing.PICTURE.read_text(encoding="utf-8")
    assert drawing.architecture_svg() == drawn, "run experiments/draw_architecture.py"


def test_the_picture_shows_every_package(drawing: ModuleType) -> None:
    shown = {element.text for element in ElementTree.fromstring(drawing.architecture_svg()).iter()}
    packages = {path.parent.name for path in (ROOT / "src" / "ndflow").glob("*/__init__.py")}
    assert packages <= shown


def test_no_line_goes_up(drawing: ModuleType) -> None:
    order = drawing.layers()
    for importer, imported in drawing.imports():
        assert order.index(importer) < order.index(imported), (importer, imported)


def test_the_page_names_files_that_exist() -> None:
    source = ROOT / "src" / "ndflow"
    named = set(re.findall(r"`([\w./]+\.(?:py|md|toml|css|jinja|js))`", PAGE))
    assert len(named) > 30
    missing = {
        name
        for name in named
        if not any((base / name).exists() for base in (ROOT, source, ROOT / "docs"))
    }
    assert not missing
