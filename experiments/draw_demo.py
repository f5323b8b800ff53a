"""Draw the picture of the README from the results of ``ndflow demo DIR``.

    python experiments/draw_demo.py DIR

Writes docs/figures/demo.svg, the picture at the top of the report.
"""

import sys
from pathlib import Path

from ndflow.reporting.build import headline
from ndflow.reporting.scan_summary import scan_summaries
from ndflow.study.finished import read_finished

(run,) = read_finished([Path(sys.argv[1]) / "individual"])
scans = scan_summaries(run)
picture = headline(scans, sorted({scan.site for scan in scans})).picture
(Path(__file__).parents[1] / "docs" / "figures" / "demo.svg").write_bytes(picture.svg)
