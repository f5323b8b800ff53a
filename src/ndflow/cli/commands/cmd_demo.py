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
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Simulate a small study of three scanners, normalise it and show the results in a report.

    The anatomy is real (ICBM152, from nilearn) but the scanners are simulated, so the true
    intensity maps are known and the error of each method can be measured. Takes a minute or two.

    Example: `ndflow demo`

    Parameters
    ----------
    dir
        The folder for everything that is written.
    """
    from ndflow.cli.console import print_error, print_result
    from ndflow.cli.progress import ProgressDisplay, print_doubts
    from ndflow.cli.run_scans import command_line
    from ndflow.demo.demonstration import check_demo, run_demo

    folder = Path(dir).absolute()
    check_demo(folder)
    with ProgressDisplay(verbosity) as progress:
        done = run_demo(folder, progress, jobs=jobs, command=command_line())
    print_doubts(done.doubts, done.scans, verbosity)
    apart, missed = done.apart, done.missed
    print_result(
        f"Distance between the histograms of three scanners ({done.scans} scans), in standard "
        f"deviations: {apart['unnormalised']:.2f} unnormalised, {apart['affine']:.3f} after "
        f"alignment alone, {apart['individual']:.3f} after normalisation "
        f"({apart['site']:.3f} with one map per scanner)."
    )
    print_result(
        f"Distance from the true intensity maps, in standard deviations: {missed['affine']:.3f} "
        f"for alignment alone, {missed['nyul']:.3f} for Nyúl's method, "
        f"{missed['individual']:.3f} for ndflow, "
        f"{missed['site']:.3f} for ndflow with one map per scanner."
    )
    if done.problem:
        print_error(f"{done.page}: could not be written: {done.problem}")
        return 1
    print_result(f"Open {done.page} in a browser to see the report.")
    print_result(
        "For your own scans: run ndflow cohort study.tsv OUT, with a table of image, mask and site;"
    )
    print_result(
        "then ndflow evaluate OUT and ndflow report OUT, to add the evaluation to the report."
    )
    return 0
