"""The house: rooms without circles, each of which says what is in it."""

from pathlib import Path

import grimp
import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ndflow"
PACKAGES = sorted(
    ".".join(("ndflow", *folder.parent.relative_to(SOURCE).parts))
    for folder in SOURCE.rglob("__init__.py")
    if folder.parent != SOURCE
)
MOST_LEVELS = 8


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """The imports between all modules, those inside functions included."""
    return grimp.build_graph("ndflow", exclude_type_checking_imports=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_has_no_circle_and_few_levels(package: str, graph: grimp.ImportGraph) -> None:
    members = {m for m in graph.modules if m.startswith(f"{package}.")}

    def levels(module: str, above: tuple[str, ...] = ()) -> int:
        assert module not in above, f"a circle: {' → '.join((*above, module))}"
        below = graph.find_modules_directly_imported_by(module) & members
        return 1 + max((levels(one, (*above, module)) for one in below), default=0)

    assert max((levels(module) for module in members), default=0) <= MOST_LEVELS


def test_every_package_says_what_is_in_it() -> None:
    for path in SOURCE.rglob("__init__.py"):
        assert path.read_text("utf-8").startswith('"""'), path
