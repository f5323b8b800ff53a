"""The pages of the documentation that need torch run, as `docs.blocks` explains."""

import pytest
from docs.blocks import Page, pages, run_page
from docs.folders import Folders

PAGES = [page for page in pages() if page.needs_torch and page.has_code]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Folders for pages, each kind of which is filled once."""
    return Folders(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_runs(page: Page, folders: Folders) -> None:
    with folders.copy_for(page) as folder:
        run_page(page, folder)
