"""The command line: `main` runs the command that was typed; each is a module in `commands`."""

import sys

try:
    from ndflow.cli.app import main as main
except KeyboardInterrupt:  # while modules are being imported
    print("error: interrupted; nothing has been done", file=sys.stderr)
    raise SystemExit(130) from None
