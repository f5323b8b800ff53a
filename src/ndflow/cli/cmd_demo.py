"""``ndflow demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import Jobs, Verbosity, VerbosityOptions

__all__ = ["demo"]


def demo(
    dir: Annotated[str, Parameter(metavar="DIR")] = "ndflow-demo",
    /,
    *,
    jobs: Jobs = -1,
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Make a small study of three scanners, normalise it, and show what happened on a page.

    The anatomy is real (ICBM152, from nilearn), the scanners are not: so it is known what a map
    should be, and how well each method finds it. Takes a minute or two.

    Example: `ndflow demo`

    Parameters
    ----------
    dir
        Where everything goes.
    """
    from ndflow.cli.console import print_result
    from ndflow.cli.progress import ProgressDisplay
    from ndflow.cli.run_scans import command_line
    from ndflow.demo.run import check_demo, run_demo

    place = Path(dir).absolute()
    check_demo(place)
    with ProgressDisplay(talk) as watch:
        done = run_demo(place, watch, jobs=jobs, command=command_line())
    apart, missed = done.apart, done.missed
    print_result(
        f"{done.scans} scans of three scanners: their histograms lay "
        f"{apart['unnormalised']:.2f} standard deviations apart, {apart['affine']:.3f} aligned, "
        f"and {apart['individual']:.3f} now ({apart['site']:.3f} with one map a scanner)."
    )
    print_result(
        f"The true intensity curves were missed by {missed['affine']:.3f} standard deviations when "
        f"aligned, {missed['nyul']:.3f} by Nyúl's method, {missed['individual']:.3f} by ndflow, "
        f"{missed['site']:.3f} by ndflow with one map a scanner."
    )
    print_result(f"Open {done.page} in a browser to see it.")
    print_result(
        "On scans of your own: ndflow cohort study.tsv OUT, with a table of image, mask and site;"
    )
    print_result("then ndflow evaluate OUT to see what it did, and OUT/report.html to show it.")
    return 0
