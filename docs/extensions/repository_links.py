"""Files of the repository that are no pages of this folder: included, or linked to.

``changelog.md`` and ``contributing.md`` stand for the files at the top of the repository. Links to
them, ordinary relative links in the repository, lead to these pages on the site, and links to
other files of the repository, such as ``../LICENSE``, to the repository itself.
"""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/ndflow/ndflow/blob/main"
INCLUDED = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}

_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_PAGES = {name: f"docs/{page}.md" for page, name in INCLUDED.items()} | {
    "README.md": "docs/index.md"
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Change the text of pages when it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    if app.env.doc2path(page).suffix != ".md":
        return
    file = INCLUDED.get(page)
    if file is not None:
        source[0] = (ROOT / file).read_text(encoding="utf-8")
        app.env.note_dependency(str(ROOT / file))
    source[0] = on_the_site(source[0], file or f"docs/{page}.md", f"docs/{page}.md")


def on_the_site(text: str, file: str, page: str) -> str:
    """Return the text of a file of the repository, with its links as a page of the site has them.

    Parameters
    ----------
    text : what the file holds.
    file, page : where it is in the repository, and where the page is that it becomes.

    Returns
    -------
    str
        The same text, if all its links stay within ``docs``.
    """

    def link(found: re.Match[str]) -> str:
        target = normpath(join(dirname(file), found[1]))
        target = _PAGES.get(target, target)
        if not target.startswith("docs/"):
            return f"]({REPOSITORY}/{target}{found[2] or ''})"
        return f"]({relpath(target, dirname(page))}{found[2] or ''})"

    return _LINK.sub(link, text)
