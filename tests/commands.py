"""Commands, typed by fixtures that outlive a test."""

import sys

import pytest

from ndflow.cli import main


def typed(*words: object, code: int = 0) -> None:
    """Run ``ndflow`` with some arguments, in this process, and see that it ends as it should."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ndflow", *map(str, words)])
        assert main() == code
