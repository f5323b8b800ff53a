"""The summary of a comparison: tables in the layout of the paper, and a verdict in words.

The verdict says what became more alike, and at what cost, by how much each measure has changed,
with the 95 % interval of the change: further runs are compared with the first, and all with
z-scoring, the least that anybody would do. A run that failed is compared with nothing: it says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import TextWrapper, fill
from typing import NamedTuple

import numpy as np

from ndflow.evaluation.classification import ANATOMY, RANKS
from ndflow.evaluation.comparison import AFFINE, Comparison, shown_name
from ndflow.evaluation.measures import RECOGNISED, Row
from ndflow.evaluation.tables import Tables
from ndflow.evaluation.tissues import separability
from ndflow.study.checks import TO_COMPARE, failure
from ndflow.study.site_checks import INVERTED
from ndflow.values import Doubt, FloatArray, listed

# ── tables ────────────────────────────────────────────────────────────────────────────────────────

# The titles of tables, and how to read them.
_ABOUT = {
    "recovery": (  # of the demonstration
        "How well the scans agree, measured against the truth",
        "Spread: how much true intensities differ where all scans show the same value. Between "
        "sites: W1 of histograms. Both in standard deviations; less is better. Error: distance "
        "from a scale linear in the true intensities, which no method aims at. The tissue maps of "
        "auto are those that the scans were made from; auto-without-maps was given none.",
    ),
    "measures": (
        "Measures of all scans",
        "Mean sd over scans of the quartiles of tissues, and of each tissue. Between, within: "
        "distances of sites, and of scans from the average of their site (W1 of histograms, in "
        "sd). Recognised: share of scans whose site is predicted. d′: distance between the means "
        "of GM and WM, in sd of these tissues. Repeats: how much scans of one subject differ, as a "
        "share of scans of different subjects. Person: sd of the medians of tissues within people. "
        "Shading: rms difference between their scans of means over 12 mm, in sd. Less is better, "
        "but for d′.",
    ),
    "changes": (
        "Changes of these measures",
        "How many times as large they are, with the 95 % interval; of shares, the difference in "
        "percentage points. Last, differences of correlations: of a covariate with the median of a "
        "tissue, within sites.",
    ),
    "tissue": (
        "Tissue quartiles",
        "Mean ± sd over scans. Last: mean sd, and the same in units of the gap between WM and GM.",
    ),
    "fitness": (
        "Histograms compared with the average density of the z-scored scans",
        "Medians over scans of the difference of densities (rmse) and the Wasserstein distance "
        "(w1); own: from the average of the condition itself; variation and jump of the slopes of "
        "maps.",
    ),
    "classification": (
        "Site classification by random forests",
        "Share of scans whose site is predicted correctly, with references made without them; "
        "chance from shuffled sites; entropy in bits. Without any difference of intensity: ranks, "
        "where all scans have the same histogram; anatomy, where each tissue has one intensity in "
        "all scans.",
    ),
    "reliability": (
        "Reliability of tissue medians in scans of the same subject",
        "Intraclass correlation (icc, absolute agreement of single scans), with its 95 % interval; "
        "1 is best.",
    ),
    "covariate": (
        "Effects of covariates on tissue medians",
        "Partial correlation within sites, each covariate given the others, with its 95 % "
        "interval.",
    ),
}

# The overview: columns of the measures, and what they mean.
_OVERVIEW = {
    "tissues": "sd of the quartiles of tissues over scans",
    "between": "distance between sites, in sd",
    "within": "distance of a scan from the average of its site",
    RECOGNISED: "share of scans whose site is recognised",
    "dprime": "distinctness of GM and WM (d′)",
    "repeats": "differences of scans of one subject, ÷ others",
    "person": "sd of tissue medians within people",
    "shading": "difference of their visits over 12 mm, in sd",
}


class Section(NamedTuple):
    """A table with its title.

    Attributes
    ----------
    name : of its file.
    title : what it shows.
    note : how to read it.
    head : the names of the columns.
    rows : cells.
    """

    name: str
    title: str
    note: str
    head: list[str]
    rows: list[list[str]]


def overview(made: Tables) -> str:
    """Return the most important numbers in a table, with a column for each condition."""
    rows = made["measures"]
    lines = [["", *(shown_name(row["condition"]) for row in rows)]]
    lines += [
        [meaning, *(_measure(name, row[name]) for row in rows)]
        for name, meaning in _OVERVIEW.items()
        if any(row.get(name) is not None for row in rows)
    ]
    return "\n".join(_aligned(lines)) + "\n"


def sections(made: Tables) -> list[Section]:
    """Return the tables of a comparison, or of its files, as summary and report show them."""
    return [
        Section(name, *about, *_arranged(made[name], *_LAYOUTS.get(name, (["condition"], _plain))))
        for name, about in _ABOUT.items()
        if name in made
    ]


def as_text(parts: Sequence[Section], notes: Sequence[str]) -> str:
    """Return sections as plain text."""
    blocks = [
        "\n".join([one.title, one.note, "", *_aligned([one.head, *one.rows])]) for one in parts
    ]
    blocks += ["\n".join(["Not done", *notes])] if notes else []
    return "\n\n\n".join(blocks) + "\n"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, whose columns but the first are aligned to the right."""
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    made = []
    for name, *cells in lines:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        made.append("  ".join([name.ljust(first), *padded]).rstrip())
    return made


_Cells = Callable[[Sequence[Row]], dict[str, str]]


def _arranged(
    rows: Sequence[Row], keys: Sequence[str], cells: _Cells
) -> tuple[list[str], list[list[str]]]:
    """Return head and cells of a table with one line for all rows that share some keys."""
    lines: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        lines.setdefault(tuple(str(row[key]) for key in keys), []).append(row)
    made = {shared: cells(own) for shared, own in lines.items()}
    head = list(dict.fromkeys(name for own in made.values() for name in own))
    body = [
        [*map(shown_name, shared), *(own.get(name, "–") for name in head)]
        for shared, own in made.items()
    ]
    return [column.replace("_", " ") for column in (*keys, *head)], body


def _plain(rows: Sequence[Row]) -> dict[str, str]:
    return {name: _measure(name, part) for name, part in rows[0].items() if name != "condition"}


def _fits(rows: Sequence[Row]) -> dict[str, str]:
    names = ("rmse", "w1", "w1_own", "variation", "jump", "largest_jump")
    return {name: _cell(rows[0][name]) for name in names}


def _changes(rows: Sequence[Row]) -> dict[str, str]:
    return {
        f"{row['condition']}, against {shown_name(row['against'])}": _estimate(row, "change")
        for row in rows
    }


def _quartiles(rows: Sequence[Row]) -> dict[str, str]:
    """The paper's Table 1."""
    cells = {}
    for row in rows:
        mean = round(row["mean"], 2) + 0.0  # not -0.00
        cells[f"{row['tissue']} Q{row['quartile']}"] = f"{mean:.2f} ± {row['sd']:.3f}"
    means = {"mean sd": "sd", "÷ gap": "relative_sd"}
    of = {title: sum(row[name] for row in rows) / len(rows) for title, name in means.items()}
    return cells | {title: f"{mean:.4f}" for title, mean in of.items()}


def _agreements(rows: Sequence[Row]) -> dict[str, str]:
    return {f"icc {row['tissue']}": _estimate(row, "icc") for row in rows}


def _correlations(rows: Sequence[Row]) -> dict[str, str]:
    return {row["tissue"]: _estimate(row, "correlation") for row in rows}


# Tables of which not all is shown, or whose rows are arranged in another way.
_LAYOUTS: dict[str, tuple[list[str], _Cells]] = {
    "changes": (["measure"], _changes),
    "fitness": (["condition"], _fits),
    "tissue": (["condition"], _quartiles),
    "reliability": (["condition", "subjects", "model"], _agreements),
    "covariate": (["condition", "covariate"], _correlations),
}


def _estimate(row: Row, name: str) -> str:
    """Return an estimate with its interval."""
    known = row[name] is not None
    return f"{_number(row, name)}{_interval(row, name)}" if known else _cell(None)


def _interval(row: Row, name: str, words: str = "") -> str:
    """Return the ends of an interval in brackets; nothing where they are not known."""
    low, high = f"{name}_low", f"{name}_high"
    known = row[low] is not None
    return f" ({words}{_number(row, low)} to {_number(row, high)})" if known else ""


def _number(row: Row, name: str) -> str:
    """Return a ratio, a difference of shares in percentage points, or a correlation."""
    value = row[name]
    if row.get("measure") == RECOGNISED:
        text = str(round(100 * value))
    elif row.get("kind") == "ratio" and value < 0.095:
        text = f"{value:#.2g}"
    else:
        text = f"{round(value, 2) + 0.0:.2f}"  # not -0.00
    return text.replace("-", "−")


def _measure(name: str, value: float | None) -> str:
    if value is None or name != RECOGNISED:
        return _cell(value)
    return f"{100 * value:.0f} %"


def _cell(part: float | str | None) -> str:
    if part is None:
        return "–"
    return f"{part:.3g}" if isinstance(part, float) else str(part)


# ── verdict ───────────────────────────────────────────────────────────────────────────────────────

# What is said of each measure, and in which part.
_SAID = {
    "More alike?": {
        "tissues": "The quartiles of tissues vary {change} times as much between scans{interval}: "
        "by {after} standard deviations on average, against {before}.{circular}",
        "between": "Sites lie {change} times as far apart{interval}: {after} standard deviations, "
        "against {before}.",
        RECOGNISED: "A random forest recognises the site of {after} of scans, against {before}: a "
        "change of {change} percentage points{interval}.{otherwise}",
        "shading": "Means over blocks of 12 mm differ {change} times as much between the scans of "
        "one person{interval}: by {after} standard deviations (rms), against {before}. Part of "
        "that is shading, which no intensity map removes: correct the bias fields of the visits "
        "together, before.",
    },
    "At what cost?": {
        "within": "Scans{of_site} lie {change} times as far from their average{interval}: {after} "
        "standard deviations, against {before}.",
        "dprime": "The intensities of GM and WM are {change} times as distinct{interval}: d′ "
        "{after}, against {before}.",
        "repeats": "Scans of one subject differ {change} times as much{interval}: by {after} of "
        "what scans of different subjects do, against {before}.",
        "person": "The medians of tissues vary {change} times as much between the scans of one "
        "person{interval}: by {after} standard deviations, against {before}.",
    },
}
_NO_COVARIATE = (
    "Whether effects such as that of age are preserved was not measured; add --covariate to find "
    "out."
)
_INDISTINCT = 0.25  # of the best site's d′; at three real sites, it is .84 of that at least
_wrapped = TextWrapper(100, "- ", "  ", break_on_hyphens=False, break_long_words=False).wrap


def verdict(comparison: Comparison, made: Tables) -> str:
    """Return what has changed, as plain text of at most 100 columns: a block per comparison.

    Parameters
    ----------
    comparison : what was measured.
    made : its tables.
    """
    compared: dict[tuple[str, str], list[Row]] = {}
    for row in made.get("changes", ()):
        compared.setdefault((row["condition"], row["against"]), []).append(row)
    failed = _failed(comparison)
    blocks = []
    if failed:
        why, names = next(iter(failed.values())), listed([*map(shown_name, failed)])
        title = fill(f"{names} failed. {why.text}", 100, subsequent_indent="  ")
        blocks.append("\n".join([title, "What to check", *_wrapped(f"{why.hint.capitalize()}.")]))
    for (run, base), rows in compared.items():
        if not failed.keys().isdisjoint((run, base)):
            continue
        lines = [f"{run}, compared with {'z-scoring' if base == AFFINE else base}"]
        more = {
            "of_site": " of one site" if comparison.sites else "",
            "circular": _circular(comparison, (run, base)),
            "otherwise": _otherwise(made, run),
        }
        for title, words in _SAID.items():
            own = [row for row in rows if row["measure"] in words]
            said = [words[row["measure"]].format(**_quoted(row), **more) for row in own]
            if "within" in words:
                said += _effects(rows) or [_NO_COVARIATE]
            lines += [title, *(line for sentence in said for line in _wrapped(sentence))]
        blocks.append("\n".join(lines))
    if not blocks:
        blocks.append("There is nothing to compare z-scoring with: give a run of another method.")
    return "\n\n".join(blocks) + "\n"


def _failed(comparison: Comparison) -> dict[str, Doubt]:
    """Return why runs have failed, by the names of those that have."""
    sites = {scan.name: scan.site for scan in comparison.scans}
    found: dict[str, Doubt | None] = {}
    for one in comparison.conditions:
        if one.study is not None and one.tissues is not None:
            medians = one.tissues[:, ::-1, 1]  # in the order of `TISSUES`
            far = failure(dict(zip(sites, medians, strict=True)), sites)
            found[one.name] = far or _indistinct(separability(one.tissues), comparison.sites or [])
    for run in comparison.runs:  # without tissue maps, what the run itself has found
        for why in run.record.of_study:
            if why.kind == INVERTED:
                found.setdefault(run.name, why)
    return {name: why for name, why in found.items() if why}


def _indistinct(dprime: FloatArray, at: Sequence[str]) -> Doubt | None:
    """Return why a run has failed, if GM and WM of a site can hardly be told apart."""
    means = sorted((dprime[np.array(at) == site].mean(), site) for site in {*at})
    if not means or means[0][0] >= _INDISTINCT * means[-1][0]:
        return None
    (least, worst), *_, (most, best) = means
    text = f"At {worst}, d′ of GM and WM is {least:.2g}, but {most:.2g} at {best}."
    return Doubt("failed", text, TO_COMPARE)


def _quoted(row: Row) -> dict[str, str]:
    """Return a change with its interval, and both numbers."""
    found = {name: _measure(row["measure"], row[name]) for name in ("after", "before")}
    found["interval"] = _interval(row, "change", "95 % interval ")
    return found | {"change": _number(row, "change")}


def _circular(comparison: Comparison, names: Sequence[str]) -> str:
    """Say whose targets were made by the maps that judge them."""
    made = [
        one.name
        for one in comparison.conditions
        if one.name in names and one.study and one.study.target_rule.needs_tissue_maps
    ]
    words = " The same tissue maps made the targets of {}, so that is no evidence by itself."
    return words.format(listed(made)) if made else ""


def _otherwise(made: Tables, run: str) -> str:
    """Say how well sites are recognised by chance, and where no intensity map could change it."""
    rows = {row["condition"]: row for row in made.get("classification", ())}
    ways = {RANKS: "the ranks of voxels", ANATOMY: "tissue maps"}
    found = [
        f"{_measure(RECOGNISED, rows[name]['balanced'])} from {how} alone"
        for name, how in ways.items()
        if name in rows
    ]
    if run in rows and rows[run]["chance"] is not None:
        found.append(f"{_measure(RECOGNISED, rows[run]['chance'])} by chance")
    return f" It would be {listed(found)}." if found else ""


def _effects(rows: Sequence[Row]) -> list[str]:
    """Say how correlations with covariates have changed."""
    said, words = [], "95 % interval of the change "
    for row in rows:
        if row["kind"] == "difference" and row["measure"] != RECOGNISED:
            both = f"{_number(row, 'before')} → {_number(row, 'after')}"
            said.append(f"{row['measure']} {both}{_interval(row, 'change', words)}")
            words = ""
    return [f"Correlations with tissue medians within sites: {', '.join(said)}."] if said else []
