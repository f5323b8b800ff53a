"""The command line: `main` runs the command that was typed; each is a module in `commands`."""

from ndflow.cli.console import print_error

try:
    from ndflow.cli.app import main as main
except KeyboardInterrupt:  # while modules are being imported
    print_error("interrupted; nothing has been done")
    raise SystemExit(130) from None
