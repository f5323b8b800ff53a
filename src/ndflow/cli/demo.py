"""``ndflow demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import Jobs, Talk, TalkOptions

__all__ = ["demo"]


def demo(
    dir: Annotated[str, Parameter(metavar="DIR")] = "ndflow-demo",
    /,
    *,
    jobs: Jobs = -1,
    talk: TalkOptions = Talk(),
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
    from ndflow.cli.console import show
    from ndflow.cli.passes import Passes
    from ndflow.cli.run import command_line
    from ndflow.workflow.demo import check_demo, run_demo

    place = Path(dir).absolute()
    check_demo(place)
    with Passes(talk) as watch:
        done = run_demo(place, watch, jobs=jobs, command=command_line())
    apart, missed = done.apart, done.missed
    show(
        f"{done.scans} scans of three scanners: their histograms lay "
        f"{apart['unnormalised']:.2f} standard deviations apart, {apart['affine']:.3f} aligned, "
        f"and {apart['individual']:.3f} now ({apart['centre']:.3f} with one map a scanner)."
    )
    show(
        f"The true intensity curves were missed by {missed['affine']:.3f} standard deviations when "
        f"aligned, {missed['nyul']:.3f} by Nyúl's method, {missed['individual']:.3f} by ndflow, "
        f"{missed['centre']:.3f} by ndflow with one map a scanner."
    )
    show(f"Open {done.page} in a browser to see it.")
    show("On scans of your own: ndflow cohort study.tsv OUT, with a table of image, mask and site;")
    show("then ndflow evaluate OUT to see what it did, and OUT/report.html to show it.")
    return 0
