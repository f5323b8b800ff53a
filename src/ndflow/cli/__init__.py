"""The command line: `main` runs the command that was typed; each is a module in `commands`."""

from ndflow.cli.console import print_error


def main() -> int:
    """Run the command that was typed, and return its exit code."""
    try:
        from ndflow.cli.app import run
    except KeyboardInterrupt:  # while modules are being imported
        print_error("interrupted; nothing has been done")
        return 130
    return run()
