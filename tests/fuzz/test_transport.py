"""Maps between random pairs of mixtures: they rise, and their inverses undo them."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz.conftest import Fuzz
from fuzz.judge import attempt

import ndflow

_CLOSE = 1e-4  # of the range, for the way there and back


def mixture(random: Random) -> ndflow.GaussianMixture:
    """Return a mixture that may have gaps without mass, spikes, tiny weights or huge units."""
    count = random.choice([1, 2, 3, 5, 8, 20])
    gap = random.choice([1.0, 3.0, 10.0, 100.0])
    weights = np.array([random.random() ** random.choice([1, 1, 8]) + 1e-6 for _ in range(count)])
    means = np.array([gap * random.gauss(0, 1) for _ in range(count)])
    sds = np.array([10 ** random.uniform(-2, 0.5) for _ in range(count)])
    unit = random.choice([1.0, 1.0, 1e3, 10 ** random.uniform(-20, 20)])
    offset = random.choice([0.0, 0.0, 1e3])
    return ndflow.GaussianMixture(
        weights / weights.sum(), unit * (means + offset), (unit * sds) ** -2
    )


def mapped(random: Random, _: Path) -> bool:
    source, target = mixture(random), mixture(random)
    options: dict[str, Any] = {
        "objective": random.choice(["l2", "cramer"]),
        "regularisation": random.choice([1e-3, 1e-3, 1e-6, 1.0]),
        "solver": random.choice(["exact", "exact", "exact", "rk4"]),
    }
    if options["solver"] == "rk4" and min(source.components, target.components) > 3:
        options["solver"] = "exact"
    imap = attempt("", lambda: ndflow.normalising_map(source, target, **options))
    if imap is None:
        return False
    sd = float(np.sqrt(source.covariance()[0, 0]))
    low, high = source.quantile([1e-4, 1 - 1e-4])
    x = np.linspace(low - sd, high + sd, 2001)
    check_rising(imap, x, source, options["solver"])
    unit = float(np.sqrt(target.covariance()[0, 0]))
    table = attempt("", lambda: ndflow.transport.tabulate(imap, low, high, tolerance=1e-4 * unit))
    if table is None:
        return False
    inside = x[(x >= low) & (x <= high)]
    assert (np.diff(table(inside)) > 0).all(), "the table does not rise"
    back = table.inverse()(table(inside))
    assert np.abs(back - inside).max() <= _CLOSE * (high - low), "the inverse of the table is off"
    miss = np.abs(table(inside) - imap(inside)).max()
    assert miss <= 1e-2 * unit, f"the table is {miss / unit:.2g} sd off"
    return True


def check_rising(imap: Any, x: Any, source: ndflow.GaussianMixture, solver: str) -> None:
    """Check that a map rises and can be undone, where there is mass to say so."""
    y = imap(x)
    assert np.isfinite(y).all()
    steps = np.diff(y)
    falls = steps <= 0 if solver == "exact" else steps < -1e-6 * (y[-1] - y[0])
    assert not falls.any(), f"falls at {falls.sum()} of {steps.size} steps, by {-steps.min():.3g}"
    back = imap.inverse()(y)
    off = np.abs(back - x) / (x[-1] - x[0])
    close = _CLOSE if solver == "exact" else 1e-2
    assert off.max() <= close, f"the inverse is {off.max():.2g} of the range off"


def test_transport(fuzz: Fuzz) -> None:
    fuzz(mapped, 40, both=False)
