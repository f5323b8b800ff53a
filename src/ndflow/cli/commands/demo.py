"""``ndflow demo`` and ``ndflow doctor``: try ndflow out, and test that it works here."""

from __future__ import annotations

import platform
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ndflow._version import __version__, installing, versions
from ndflow.cli import options as shared
from ndflow.cli.console import ProgressDisplay, Verbosity, command_line, print_error

if TYPE_CHECKING:
    from ndflow.demo.run import Demonstration


def demo(
    dir: Annotated[str, Parameter(metavar="DIR")] = "ndflow-demo",
    /,
    *,
    raw: bool = False,
    jobs: shared.Jobs = -1,
    verbosity: shared.VerbosityOptions = Verbosity(),
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
    from ndflow.cli.endings import PageOutcome, conclude
    from ndflow.demo.run import run_demo, write_raw_scans

    folder = Path(dir).absolute()
    if raw:
        scans, later = write_raw_scans(folder)
        verbosity.say(
            f"{scans + later} raw scans of three simulated scanners written to {dir}: "
            f"study.tsv lists {scans}, later.tsv {later} more"
        )
        return 0
    with ProgressDisplay(verbosity) as progress:
        done = run_demo(folder, progress, jobs=jobs, command=command_line())
    for line in (*_table(done, folder), ""):
        verbosity.say(line)
    again = f"ndflow cohort study.tsv OUT {done.results[-1].options}".rstrip()
    return conclude(done.summary, done.study, verbosity, PageOutcome(done.page), again=again)


def _table(done: Demonstration, folder: Path) -> list[str]:
    """Return what was simulated, how each method did, and how to read it."""
    from ndflow.subject.records import percent
    from ndflow.values import plural

    rows = [("", "spread", "tissues", "options of ndflow cohort")]
    for one in done.results:
        spread, options = "–", ""
        if one.recovery:
            spread, options = f"{one.recovery.spread:.3f}", one.options or "(none: the default)"
        rows.append((one.name, spread, percent(one.apart), options))
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
        "spread: where all scans show the same value, by how much their true intensities differ,",
        "in standard deviations; tissues: by how much the median intensities of CSF, GM and WM",
        "vary between scans, in percent of the gap between GM and WM. Less is better. The tissue",
        "maps of auto are those that the scans were made from, better than any real ones;",
        "auto-without-maps was given none.",
    ]


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────

_EXTRAS = ("report", "evaluate", "prepare", "cluster", "sklearn", "torchio", "monai")  # for users
_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_SHAPE = (40, 48, 40)
# The largest errors of a sound installation, several times those that are usual.
_FIT = 0.02  # of the voxels
_MAP, _INVERSE = 0.1, 1e-4  # standard deviations


def doctor(*, verbosity: shared.VerbosityOptions = Verbosity()) -> int:
    """Show what is installed, and test that ndflow works here.

    The self-test takes about a second. It names no users, hosts or folders, so it
    can be pasted into a public issue. The exit code is 1 if the self-test fails.

    Example: `ndflow doctor`
    """
    try:
        for line in _installed():
            verbosity.say(line)
        for name, (error, most) in _self_test().items():
            if not error <= most:
                print_error(f"self-test: {name}: error {error:.2g}, more than {most:g}")
                return 1
            verbosity.say(f"self-test {name:<8} passed (error {error:.1g})")
    except Exception as error:  # of whatever package: that is what the test is for
        verbosity.error(f"self-test: {type(error).__name__}: {error}", traceback.format_exc())
        return 1
    return 0


def _installed() -> Iterator[str]:
    """Yield the versions of what ndflow needs, and which extras are installed."""
    from importlib.metadata import requires

    yield f"ndflow {__version__}, Python {platform.python_version()}, {platform.platform()}"
    by_extra: dict[str, list[str]] = {extra: [] for extra in ("", *_EXTRAS)}
    for one in requires("ndflow") or []:
        name, condition = _NAME.match(one), _EXTRA.search(one)
        by_extra.get(condition[1] if condition else "", []).append(name[0] if name else one)
    for extra, names in by_extra.items():
        label = f"[{extra}]" if extra else "needs    "
        found = versions(*names)
        if missing := [name for name in names if name not in found]:
            yield f"{label} lacks {', '.join(missing)}; try {installing(extra or 'all')}"
        else:
            yield f"{label} {', '.join(f'{name} {found[name]}' for name in names)}"


def _self_test() -> dict[str, tuple[float, float]]:
    """Return the error of each step on a phantom with a known truth, and the largest allowed.

    One head of three tissues is seen by two scanners, which show increasing functions a and b of
    the true intensities, so the map from the first scan to the second is b ∘ a⁻¹.
    """
    import numpy as np

    from ndflow.subject.fit import fit
    from ndflow.subject.normalise import apply, normalise

    random = np.random.default_rng(2018)
    axes = np.meshgrid(*(np.linspace(-1.1, 1.1, n) for n in _SHAPE), indexing="ij")
    radius = np.sqrt(sum(axis**2 for axis in axes))
    tissue = 2 - np.digitize(radius, (0.62, 0.86))
    means, sds = np.array([0.25, 0.6, 0.9]), np.array([0.06, 0.05, 0.04])  # of CSF, GM and WM
    truth = np.clip(means[tissue] + sds[tissue] * random.standard_normal(_SHAPE), 0.02, 1.1)
    inside = radius < 1
    first = np.where(inside, 1200 * truth**1.3, 0).astype(np.float32)
    second = np.where(inside, 300 * np.log1p(3 * truth), 0).astype(np.float32)

    levels = np.linspace(0.05, 0.95, 91)
    quantiles = np.quantile(first[inside], levels)
    fitted = np.abs(fit(first).mixture.cdf(quantiles).ravel() - levels).max()
    result = normalise(first, second)
    true = np.quantile(second[inside], levels)
    mapped = np.sqrt(np.mean((result.imap(quantiles) - true) ** 2)) / second[inside].std()
    back = np.asarray(apply(np.asarray(result.image), result.imap, inverse=True).image)
    undone = np.abs(back - first)[inside].max() / first[inside].std()
    return {
        "fit": (float(fitted), _FIT),
        "map": (float(mapped), _MAP),
        "inverse": (float(undone), _INVERSE),
    }
