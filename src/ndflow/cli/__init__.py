"""The command line: `main` runs the command that was typed; each is a module in `commands`."""

from ndflow.cli.console import print_error
from ndflow.cli.standard_streams import standard_streams
from ndflow.study.parallel.parent import end_if_asked

__all__ = ["main"]


def main() -> int:
    """Run the command that was typed, and return its exit code."""
    with standard_streams() as lost:
        code = _run()
        error = lost()
        if error is not None:
            print_error(f"stdout: cannot be written ({error.strerror}); write the output elsewhere")
        return code if error is None else code or 1


def _run() -> int:
    end_if_asked()
    try:
        from ndflow.cli.app import run
    except KeyboardInterrupt:  # while modules are being imported
        print_error("interrupted; nothing has been done")
        return 130
    return run()
