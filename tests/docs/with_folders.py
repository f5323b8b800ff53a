"""Folders for pages: each kind is filled once, and each page gets a copy."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from deepbet_stand_in import standing_in
from docs.blocks import Page
from docs.folders import FOLDERS


@dataclass(frozen=True)
class Folders:
    """The folders that were filled so far, below `place`."""

    place: Path

    @contextmanager
    def copy_for(self, page: Page) -> Iterator[Path]:
        """Make a folder with the files that a page asks for, and remove it afterwards."""
        names = page.folders or []
        copy = self.place / "pages" / page.name.replace("/", "-").removesuffix(".md")
        copy.mkdir(parents=True)
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            if "heads" in names and find_spec("deepbet") is None:
                stack.enter_context(standing_in(self.place / "packages" / copy.name))
            if "reports" not in names:
                patch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
            for name in names:
                if name == "reports":
                    patch.delenv("NDFLOW_NO_REPORT", raising=False)
                else:
                    shutil.copytree(self._filled(name), copy, dirs_exist_ok=True)
            yield copy
        shutil.rmtree(copy)

    def _filled(self, name: str) -> Path:
        folder = self.place / "filled" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            FOLDERS[name](folder)
        return folder
