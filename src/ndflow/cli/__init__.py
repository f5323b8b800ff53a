"""The command line: one thin file a command, and `main`, which turns errors into messages."""

from ndflow.cli.main import main

__all__ = ["main"]
