"""The house: rooms of a size that a stranger can overlook, and doors that differ."""

from collections import Counter
from pathlib import Path

import grimp
import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ndflow"
PACKAGES = sorted(
    ".".join(("ndflow", *folder.parent.relative_to(SOURCE).parts))
    for folder in SOURCE.rglob("__init__.py")
    if folder.parent != SOURCE
)
MOST_MODULES = 16
MOST_LEVELS = 8
LONGEST = 500  # lines; past 300, look for the second concept


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """The imports between all modules, those inside functions included."""
    return grimp.build_graph("ndflow", exclude_type_checking_imports=True)


def modules_of(package: str) -> list[Path]:
    folder = SOURCE.joinpath(*package.split(".")[1:])
    return [path for path in folder.glob("*.py") if path.stem != "__init__"]


def test_no_two_modules_share_a_name() -> None:
    names = Counter(path.stem for path in SOURCE.rglob("*.py") if not path.stem.startswith("__"))
    packages = {package.rpartition(".")[2] for package in PACKAGES}
    assert not [name for name, count in names.items() if count > 1]
    # A module called like its own method, `ndflow`, is the one exception to this.
    assert not packages & set(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_has_few_doors(package: str) -> None:
    assert len(modules_of(package)) <= MOST_MODULES


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_has_no_circle_and_few_levels(package: str, graph: grimp.ImportGraph) -> None:
    members = {m for m in graph.modules if m.startswith(f"{package}.")}

    def levels(module: str, above: tuple[str, ...] = ()) -> int:
        assert module not in above, f"a circle: {' → '.join((*above, module))}"
        below = graph.find_modules_directly_imported_by(module) & members
        return 1 + max((levels(one, (*above, module)) for one in below), default=0)

    assert max((levels(module) for module in members), default=0) <= MOST_LEVELS


def test_modules_are_short() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert not {path.name: length for path, length in lengths.items() if length > LONGEST}
    assert sorted(lengths.values())[len(lengths) // 2] < 150


def test_every_package_says_what_is_in_it() -> None:
    for path in SOURCE.rglob("__init__.py"):
        assert path.read_text("utf-8").startswith('"""'), path
