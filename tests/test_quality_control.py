"""docs/guides/quality-control.md says what to do about every kind of doubt."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A kind is the first argument of a Doubt, or the first of a pair of kind and hint.
KIND = re.compile(
    r'(?:Doubt\(|^_?[A-Z_]+ = \(|^(?:OTHER|NOT)_[A-Z]+ = )\s*"([a-z]+(?: [a-z]+)+)"', re.MULTILINE
)
ELSEWHERE = {"not shown", "warning"}  # of the page itself


def test_every_kind_of_doubt_is_explained() -> None:
    page = (ROOT / "docs/guides/quality-control.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"\*\*([a-z ]+)\*\*", page))
    sources = [path.read_text("utf-8") for path in (ROOT / "src/ndflow").rglob("*.py")]
    kinds = {kind for text in sources if "Doubt" in text for kind in KIND.findall(text)}
    assert kinds >= {"whole head", "steep map", "ages differ by site", "unlike the reference"}
    assert explained >= kinds - ELSEWHERE
