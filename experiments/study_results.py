"""What docs/study.md measures, with intervals: numbers to quote, by condition, and tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from study_intervals import (
    Interval,
    Places,
    brown_forsythe,
    holm,
    interval,
    resamples,
    text,
    written,
)
from tissue_study import Moved

TISSUES = ("WM", "GM", "CSF")
CELLS = [f"{tissue} Q{quartile}" for tissue in TISSUES for quartile in (1, 2, 3)]
WM, GM = CELLS.index("WM Q2"), CELLS.index("GM Q2")
DRAWS = 10_000
DRAWS_OF_QUANTILES = 2_000  # which are many
AT_A_TIME = 500
LIKELY = 0.05

Floats = NDArray[np.float64]
Quoted = dict[str, str]
Statistic = Callable[[Floats], Floats]  # (..., scans, values) to (...)


class Estimate(NamedTuple):
    """A number, and the same in all resamples."""

    value: float
    resampled: Floats

    def over(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value / other.value, self.resampled / other.resampled)

    def minus(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value - other.value, self.resampled - other.resampled)

    @property
    def interval(self) -> Interval:
        return interval(self.value, self.resampled)


Estimates = dict[str, Estimate]  # by condition


def estimates(
    found: Mapping[str, Floats], statistic: Statistic, sites: Sequence[str], draws: int = DRAWS
) -> Estimates:
    """Return a statistic of each condition, from one row per scan; the resamples are the same."""
    places = resamples(sites, draws)
    return {name: _estimate(values, statistic, places) for name, values in found.items()}


def _estimate(values: Floats, statistic: Statistic, places: Places) -> Estimate:
    parts = np.split(places, range(AT_A_TIME, len(places), AT_A_TIME))
    return Estimate(
        float(statistic(values)), np.concatenate([statistic(values[part]) for part in parts])
    )


def mean_sd(cells: Floats) -> Floats:
    """Return the mean over cells of the standard deviation over scans."""
    return np.asarray(cells.std(axis=-2, ddof=1).mean(axis=-1))


def mean_sd_in_gaps(cells: Floats) -> Floats:
    """Return the same in units of the gap between WM and GM."""
    gap = (cells[..., WM] - cells[..., GM]).mean(axis=-1)
    return np.asarray(mean_sd(cells) / gap)


def less_sites(values: Floats, sites: Sequence[str]) -> Floats:
    """Return (..., scans, values) without the means of sites."""
    site, rest = np.array(sites), values.copy()
    for name in np.unique(site):
        own = site == name
        rest[..., own, :] -= rest[..., own, :].mean(axis=-2, keepdims=True)
    return rest


def sd_within(sites: Sequence[str]) -> Statistic:
    """Return the mean over cells of the pooled standard deviation within sites."""
    freedom = len(sites) - len(set(sites))

    def statistic(cells: Floats) -> Floats:
        squares = (less_sites(cells, sites) ** 2).sum(axis=-2)
        return np.asarray(np.sqrt(squares / freedom).mean(axis=-1))

    return statistic


def w1_between(sites: Sequence[str]) -> Statistic:
    """Return the mean W1 between the average quantiles of sites."""
    site = np.array(sites)

    def statistic(quantiles: Floats) -> Floats:
        means = [quantiles[..., site == name, :].mean(axis=-2) for name in np.unique(site)]
        pairs = [(a, b) for place, a in enumerate(means) for b in means[place + 1 :]]
        return np.mean([np.abs(a - b).mean(axis=-1) for a, b in pairs], axis=0)

    return statistic


def w1_within(sites: Sequence[str]) -> Statistic:
    """Return the mean W1 of scans from the average quantiles of their site."""
    return lambda quantiles: np.asarray(np.abs(less_sites(quantiles, sites)).mean(axis=(-2, -1)))


def partial_correlation(sites: Sequence[str]) -> Statistic:
    """Return the correlation within sites of two columns."""

    def statistic(pairs: Floats) -> Floats:
        x, y = np.moveaxis(less_sites(pairs, sites), -1, 0)
        return np.asarray((x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1)))

    return statistic


def balanced_accuracy(sites: Sequence[str]) -> Statistic:
    """Return the mean over sites of the share of correct predictions, one column."""
    site = np.array(sites)
    parts = [site == name for name in np.unique(site)]
    return lambda right: np.mean([right[..., own, 0].mean(axis=-1) for own in parts], axis=0)


class Spread(NamedTuple):
    """How much the quartiles of tissues vary under each condition."""

    cells: dict[str, Floats]
    sd: Estimates
    in_gaps: Estimates
    within: Estimates

    @classmethod
    def of(cls, cells: dict[str, Floats], sites: Sequence[str]) -> "Spread":
        return cls(
            cells,
            estimates(cells, mean_sd, sites),
            estimates(cells, mean_sd_in_gaps, sites),
            estimates(cells, sd_within(sites), sites),
        )

    def tested(self, name: str, other: str) -> list[float]:
        """Return p of each cell: is the dispersion smaller than under another condition?"""
        pairs = zip(self.cells[name].T, self.cells[other].T, strict=True)
        return holm([brown_forsythe(a, b) for a, b in pairs])

    def counted(self, name: str, other: str) -> str:
        """Say in how many cells that is so."""
        a, b = (self.cells[one].std(axis=0, ddof=1) for one in (name, other))
        likely = sum(p < LIKELY for p in self.tested(name, other))
        return f"smaller in {(a < b).sum()} of nine cells, significantly in {likely}"


def quoted(found: Estimates, digits: int = 3) -> Quoted:
    """Return estimates as the text quotes them."""
    return {name: written(one.interval, digits) for name, one in found.items()}


def intervals(found: Estimates) -> dict[str, Interval]:
    """Return the intervals of estimates."""
    return {name: one.interval for name, one in found.items()}


def over(found: Estimates, base: str) -> Estimates:
    """Return all other estimates in units of one of them."""
    return {name: one.over(found[base]) for name, one in found.items() if name != base}


def minus(found: Estimates, base: str) -> Estimates:
    """Return the differences of all other estimates to one of them."""
    return {name: one.minus(found[base]) for name, one in found.items() if name != base}


def markdown(head: list[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; numbers to the right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Columns(dict[str, Quoted]):
    """A table, by column and row: the page shows it whole, and its text quotes single cells."""

    def __init__(self, rows: Sequence[str], parts: Mapping[str, Quoted]) -> None:
        super().__init__(parts)
        self.rows = rows

    def __str__(self) -> str:
        cells = [[name, *(part.get(name, "–") for part in self.values())] for name in self.rows]
        return markdown(["", *self], cells)


def tissues_table(cells: Mapping[str, Floats], sd: Estimates, rows: Sequence[str]) -> Columns:
    """Return the mean standard deviation of the quartiles of each tissue, and of all.

    Parameters
    ----------
    cells : (scans, repeats, 9).
    sd : of all nine.
    rows : the conditions.
    """
    parts: dict[str, Quoted] = {tissue: {} for tissue in TISSUES}
    for name in rows:
        sds = cells[name].std(axis=0, ddof=1).reshape(-1, 3, 3).mean(axis=(0, 2))
        for tissue, one in zip(TISSUES, sds, strict=True):
            parts[tissue][name] = text(float(one), 3)
    whole = {"all nine": quoted(sd), "÷ nyul": quoted(over(sd, "nyul"), 2)}
    return Columns(rows, {**parts, **whole})


def site_shares(found: Mapping[str, Moved], sites: Sequence[str]) -> dict[str, Quoted]:
    """Return distances between and within sites, as shares of what the alignment leaves."""
    quantiles = {name: one.quantiles for name, one in found.items()}
    shares = {}
    for label, statistic in (
        ("between sites", w1_between(sites)),
        ("within sites", w1_within(sites)),
    ):
        distances = estimates(quantiles, statistic, sites, DRAWS_OF_QUANTILES)
        shares[label] = quoted(over(distances, "affine"), 2)
    return shares


def age_effects(
    found: Mapping[str, Moved], age: Floats, sites: Sequence[str]
) -> dict[str, Estimates]:
    """Return the partial correlation of age and the median of each tissue, by tissue."""
    return {
        tissue: estimates(
            {n: np.stack([age, one.cells[:, 3 * place + 1]], axis=-1) for n, one in found.items()},
            partial_correlation(sites),
            sites,
        )
        for place, tissue in enumerate(TISSUES)
    }
