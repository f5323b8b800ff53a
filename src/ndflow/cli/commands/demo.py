"""``ndflow demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ndflow.cli.options import Jobs, Verbosity, VerbosityOptions
from ndflow.errors import InvalidValueError

if TYPE_CHECKING:
    from ndflow.demo.run import Demonstration


def demo(
    dir: Annotated[str, Parameter(metavar="DIR")] = "ndflow-demo",
    /,
    *,
    raw: bool = False,
    jobs: Jobs = -1,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Simulate a small study of three scanners, normalise it and show the results in a report.

    The anatomy is real (ICBM152, from nilearn) but the scanners are simulated, so the true
    intensities are known, and how well scans agree after each method can be measured. Takes a
    minute or two.

    Example: `ndflow demo`

    Parameters
    ----------
    dir
        The folder for everything that is written.
    raw
        Only write the scans of the tutorial (docs/tutorial.md), as they come from the scanners:
        shaded, without masks or tissue maps. DIR/study.tsv lists them, DIR/later.tsv three more.
    """
    from ndflow.cli.console import print_text
    from ndflow.cli.endings import print_summary
    from ndflow.cli.report_page import PageOutcome
    from ndflow.cli.run import ProgressDisplay, command_line
    from ndflow.demo.run import run_demo

    folder = Path(dir).absolute()
    if raw and jobs != -1:
        raise InvalidValueError(
            "--jobs with --raw: the scans are only written, one after the other; leave out one of "
            "the two"
        )
    if raw:
        return _write_raw(dir, verbosity)
    with ProgressDisplay(verbosity) as progress:
        done = run_demo(folder, progress, jobs=jobs, command=command_line())
    if not verbosity.quiet:
        print_text("\n".join([*_table(done, folder), "", ""]))
    again = f"ndflow cohort study.tsv OUT {done.results[-1].options}".rstrip()
    print_summary(done.summary, done.study, verbosity, PageOutcome(done.page), again=again)
    return 0


def _write_raw(folder: str, verbosity: Verbosity) -> int:
    """Write the scans of the tutorial, and say where they are."""
    from ndflow.cli.console import print_text
    from ndflow.demo.run import write_raw_scans

    scans, later = write_raw_scans(Path(folder))
    if not verbosity.quiet:
        print_text(
            f"{scans + later} raw scans of three simulated scanners written to {folder}: "
            f"study.tsv lists {scans}, later.tsv {later} more\n"
        )
    return 0


def _table(done: Demonstration, folder: Path) -> list[str]:
    """Return what was simulated, how each method did, and how to read it."""
    from ndflow.values import plural

    rows = [("", "spread", "between sites", "options of ndflow cohort")]
    for one in done.results:
        spread, options = "–", ""
        if one.recovery:
            spread, options = f"{one.recovery.spread:.3f}", one.options or "(none: the default)"
        rows.append((one.name, spread, f"{one.apart:.3f}", options))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip()
        for row in rows
    ]
    return [
        f"{plural(len(done.study.scans), 'scan')} of three scanners simulated in {folder / 'data'}",
        "",
        *lines,
        "",
        "spread: where all scans show the same value, by how much their true intensities differ.",
        "between sites: the distance (W1) of their histograms. Both in standard deviations; less",
        "is better. The tissue maps of auto are those that the scans were made from, better than",
        "any real ones; auto-without-maps was given none.",
    ]
