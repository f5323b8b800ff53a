"""The folders that pages are run in."""

import pytest
from docs.with_folders import Folders


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Folders for pages, each kind of which is filled once."""
    return Folders(tmp_path_factory.mktemp("docs"))
