"""Draw the picture of the README from what ``ndflow demo DIR`` has made.

    python docs/figures/demo.py DIR

Writes demo.svg beside this file: the picture at the top of the report.
"""

import sys
from pathlib import Path

from ndflow.workflow.accounts import accounts
from ndflow.workflow.report import headline
from ndflow.workflow.runs import read_runs

(run,) = read_runs([Path(sys.argv[1]) / "individual"])
scans = accounts(run)
picture = headline(scans, sorted({scan.centre for scan in scans})).picture
Path(__file__).with_name("demo.svg").write_bytes(picture.svg)
