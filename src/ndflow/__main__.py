"""``python -m ndflow``, the same as ``ndflow``."""

import sys

from ndflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
