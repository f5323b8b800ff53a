"""The command line: one thin file a command, and `main`, which turns errors into messages."""

from ndflow.cli.console import print_error

__all__ = ["main"]


def main() -> int:
    """Run the command that was typed, and return its exit code."""
    try:
        from ndflow.cli.app import run
    except KeyboardInterrupt:  # while modules are loaded
        print_error("interrupted; nothing has been done")
        return 130
    return run()
