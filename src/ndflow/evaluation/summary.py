"""The summary of a comparison: tables in the layout of the paper, and a verdict in words.

The verdict says what became more alike, and what it cost. Every run is compared with the alignment
of mean and standard deviation, the least that anybody would do. A difference is only called one if
it is significant: p < .05 in a paired t-test over scans of how far each lies from the other sites,
or from the average of its own, with the same sign as the distance that is quoted, and with three
scans at least; for tissues, in the tests of their table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from textwrap import TextWrapper
from typing import Any, NamedTuple

from ndflow.evaluation.classification import ANATOMY, FLOORS, RANKS
from ndflow.evaluation.comparison import AFFINE, UNNORMALISED, Comparison, Condition
from ndflow.evaluation.sites import distance_within_sites, to_other_sites, to_own_site
from ndflow.evaluation.statistics import paired_t
from ndflow.evaluation.tables import Row, Tables, separabilities
from ndflow.values import FloatArray, plural

# ── tables ────────────────────────────────────────────────────────────────────────────────────────

_SIGNIFICANT = 0.05

# The titles of tables, and how to read them.
_ABOUT = {
    "recovery": (  # of the demonstration
        "How well the scans agree, measured against the truth",
        "Spread: how much true intensities differ where all scans show the same value. Between "
        "sites: W1 of histograms. Both in standard deviations; less is better. Error: distance "
        "from a scale linear in the true intensities, which no method aims at. The tissue maps of "
        "auto are those that the scans were made from; auto-without-maps was given none.",
    ),
    "tissue": (
        "Tissue quartiles",
        "Mean ± sd over scans. The sd is less than with z-scoring: * paired, † unpaired "
        "(Brown–Forsythe, Holm, p < .05). Last: mean sd, and the same in units of the gap between "
        "WM and GM.",
    ),
    "fitness": (
        "Histograms compared with the average density of the z-scored scans",
        "Medians over scans of differences of densities (mae, rmse), Wasserstein, Kolmogorov–"
        "Smirnov and Jensen–Shannon distances (w1, ks, js) and differences of quantiles (qq); own: "
        "from the average of the condition itself; variation and jump of the slopes of maps.",
    ),
    "sites": (
        "Distances between and within sites",
        "W1 of histograms, in sd of the average scan; shares of those after z-scoring.",
    ),
    "classification": (
        "Site classification by random forests",
        "Share of scans whose site is predicted correctly, with references made without them; "
        "chance from shuffled sites; entropy in bits, and p of a paired t-test of it against "
        "z-scoring. Without any difference of intensity: ranks, where all scans have the same "
        "histogram; anatomy, where each tissue has one intensity in all scans.",
    ),
    "repeats": (
        "Scans of the same subject",
        "W1 of histograms within and between subjects, and their ratio.",
    ),
    "contrast": (
        "Contrast and variation of tissues",
        "Contrast: mean of WM minus that of GM, in standard deviations of the average brain; "
        "dprime: in those of the tissues themselves, and p of a paired t-test of it against "
        "z-scoring; cv: coefficient of variation of tissue medians over scans.",
    ),
    "reliability": (
        "Reliability of tissue medians in scans of the same subject",
        "Intraclass correlation (icc, absolute agreement of single scans), with its 95 % interval; "
        "1 is best.",
    ),
    "covariate": (
        "Effects of covariates on tissue medians",
        "Partial correlation within sites, each covariate given the others, with its 95 % "
        "interval; *: p < .05.",
    ),
}

# The overview: the title of a column, its table and name there, and what it means.
_OVERVIEW = {
    "scans": ("fitness", "w1_own", "distance of a scan from the average of all, median, in sd"),
    "sites": ("sites", "between", "distance between sites, in sd"),
    "within": ("sites", "within", "distance of a scan from the average of its site, in sd"),
    "predicted": ("classification", "balanced", "balanced accuracy of predicting sites"),
    "d′": ("contrast", "dprime", "separability of GM and WM by intensity"),
    "repeats": ("repeats", "ratio", "differences of scans of one subject, as a share of others"),
    "tissues": ("tissue", "sd", "sd of the quartiles of WM, GM and CSF over scans, mean"),
}
_OF_FLOORS = {
    RANKS: "what remains if all scans have the same histogram",
    ANATOMY: "what remains if each tissue has one intensity in all scans",
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
    """Return the most important numbers in a table, and how to read it."""
    columns: dict[str, dict[str, str]] = {}
    notes = []
    names = dict.fromkeys(row["condition"] for row in made["fitness"])
    for title, (table, column, meaning) in _OVERVIEW.items():
        if table in made:
            shown = "{:.0%}".format if column == "balanced" else _cell
            found = {name: _mean(_of(made, table, name), column) for name in (*names, *FLOORS)}
            columns[title] = {name: shown(one) for name, one in found.items() if one is not None}
            notes.append(f"{title:<9}  {meaning}")
    floors = [floor for floor in FLOORS if floor in columns.get("predicted", ())]
    notes += [f"{f'({floor})':<9}  {_OF_FLOORS[floor]}" for floor in floors]
    lines = [["condition", *columns]]
    for name in (*names, *floors):
        called = f"({name})" if name in floors else name
        lines.append([called, *(column.get(name, "–") for column in columns.values())])
    return "\n".join([*_aligned(lines), "", *notes]) + "\n"


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
    head = [*keys, *next(iter(made.values()))]
    body = [[*shared, *own.values()] for shared, own in made.items()]
    return [column.replace("_", " ") for column in head], body


def _plain(rows: Sequence[Row]) -> dict[str, str]:
    return {name: _cell(part) for name, part in rows[0].items() if name != "condition"}


def _quartiles(rows: Sequence[Row]) -> dict[str, str]:
    """The paper's Table 1."""
    cells = {}
    for row in rows:
        marks = _mark(row["paired_holm"], "*") + _mark(row["unpaired_holm"], "†")
        mean = round(row["mean"], 2) + 0.0  # not -0.00
        cells[f"{row['tissue']} Q{row['quartile']}"] = f"{mean:.2f} ± {row['sd']:.3f}{marks}"
    means = {"mean sd": "sd", "÷ gap": "relative_sd"}
    return cells | {title: f"{_mean(rows, column):.4f}" for title, column in means.items()}


def _agreements(rows: Sequence[Row]) -> dict[str, str]:
    return {f"icc {row['tissue']}": _estimate(row, "icc") for row in rows}


def _correlations(rows: Sequence[Row]) -> dict[str, str]:
    return {row["tissue"]: _estimate(row, "correlation", _mark(row["p"], "*")) for row in rows}


# Tables with several rows per condition.
_LAYOUTS: dict[str, tuple[list[str], _Cells]] = {
    "tissue": (["condition"], _quartiles),
    "reliability": (["condition", "subjects", "model"], _agreements),
    "covariate": (["condition", "covariate"], _correlations),
}


def _estimate(row: Row, name: str, mark: str = "") -> str:
    """Return an estimate with its interval."""
    if row[name] is None:
        return _cell(None)
    return f"{row[name]:.2f}{mark} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"


def _of(made: Tables, table: str, condition: str) -> list[Row]:
    """Return the rows of a condition; none without the table."""
    return [row for row in made.get(table, ()) if row["condition"] == condition]


def _mean(rows: Sequence[Row], column: str) -> Any:
    """Return the mean over rows, of a single row its own number; None where there is none."""
    known = [row[column] for row in rows if row[column] is not None]
    return sum(known) / len(known) if known else None


def _mark(p: float | None, mark: str) -> str:
    return mark if p is not None and p < _SIGNIFICANT else ""


def _cell(part: float | str | None) -> str:
    if part is None:
        return "–"
    return f"{part:.3g}" if isinstance(part, float) else str(part)


# ── verdict ───────────────────────────────────────────────────────────────────────────────────────

_CIRCULAR = " The same tissue maps made its targets, so that is no evidence by itself."
_FEWEST = 3  # scans that can differ significantly
_wrapped = TextWrapper(100, "- ", "  ", break_on_hyphens=False, break_long_words=False).wrap


def verdict(comparison: Comparison, made: Tables) -> str:
    """Return the verdict on each run, as plain text of at most 100 columns.

    Parameters
    ----------
    comparison : what was measured.
    made : its tables.
    """
    blocks = []
    for run in comparison.conditions[2:]:
        parts = {
            "What became more alike": _alike(comparison, made, run),
            "What it cost": _cost(comparison, made, run),
        }
        lines = [f"{run.name}, compared with z-scoring alone"]
        for title, sentences in parts.items():
            if sentences:
                lines += [title, *chain.from_iterable(map(_wrapped, sentences))]
        blocks.append("\n".join(lines))
    if not blocks:
        blocks.append("There is nothing to compare z-scoring with: give a run of another method.")
    return "\n\n".join(blocks) + "\n"


def _alike(comparison: Comparison, made: Tables, run: Condition) -> list[str]:
    found = []
    if comparison.sites is not None:
        names = (run.name, AFFINE, UNNORMALISED)
        now, before, raw = (_of(made, "sites", name)[0]["between"] for name in names)
        away = [to_other_sites(one.quantiles, comparison.sites) for one in (run, comparison.affine)]
        word = _word(now - before, away, ("closer together", "further apart"))
        found.append(
            f"Sites are {word}: {now:.3g} standard deviations apart, against {before:.3g} "
            f"({raw:.3g} unnormalised)."
        )
    if cells := _of(made, "tissue", run.name):
        smaller = sum(cell["paired_holm"] < _SIGNIFICANT for cell in cells)
        now, before = (_mean(some, "sd") for some in (cells, _of(made, "tissue", AFFINE)))
        judged = run.study is not None and run.study.target_rule.needs_tissue_maps
        found.append(
            f"The quartiles of tissues have a standard deviation of {now:.3g} on average, against "
            f"{before:.3g}; it is significantly smaller in {smaller} of {len(cells)}."
            f"{_CIRCULAR if judged else ''}"
        )
    return [*found, *_predicted(made, run)]


def _predicted(made: Tables, run: Condition) -> list[str]:
    """Say how well sites are recognised, by chance, and where no intensity map could change it."""
    rows = {row["condition"]: row for row in made.get("classification", ())}
    if run.name not in rows or AFFINE not in rows:
        return []
    right = {name: f"{row['balanced']:.0%}" for name, row in rows.items()}
    text = f"A random forest recognises sites with a balanced accuracy of {right[run.name]}, "
    text += f"against {right[AFFINE]}"
    row = rows[run.name]
    if row["chance"] is not None:
        text += f" (chance: {row['chance']:.0%}, p = {row['chance_p']:.2g})"
    words = {RANKS: "by the ranks of their voxels alone", ANATOMY: "by their tissue maps alone"}
    floors = [f"{right[name]} {how}" for name, how in words.items() if name in right]
    return [f"{text}. Without any difference of intensity, it reaches {' and '.join(floors)}."]


def _cost(comparison: Comparison, made: Tables, run: Condition) -> list[str]:
    found = []
    both = (run, comparison.affine)
    sites = comparison.sites or [""] * len(comparison.scans)
    if len(set(sites)) < len(sites):
        now, before = (distance_within_sites(one.quantiles, sites) for one in both)
        away = [to_own_site(one.quantiles, sites) for one in both]
        word = _word(now - before, away, ("more alike", "less alike"))
        where = "of one site " if comparison.sites else ""
        found.append(
            f"Scans {where}are {word}: {now:.3g} standard deviations from their average, against "
            f"{before:.3g}."
        )
    if "contrast" in made:
        now, before = (_of(made, "contrast", one.name)[0]["dprime"] for one in both)
        apart = [separabilities(one) for one in both]
        word = _word(now - before, apart, ("less distinct", "more distinct"))
        found.append(
            f"The intensities of GM and WM are {word}: d′ {now:.3g}, against {before:.3g}."
        )
    if "repeats" in made:
        (row,), (base,) = (_of(made, "repeats", one.name) for one in both)
        found.append(
            f"Scans of one subject differ by {row['ratio']:.3g} of what scans of different "
            f"subjects do, against {base['ratio']:.3g} ({plural(row['pairs'], 'pair')}; less is "
            f"better)."
        )
    if not comparison.covariates:
        found.append(
            "Whether effects such as that of age are preserved was not measured; add --covariate "
            "to find out."
        )
    return [*found, *_effects(made, run)]


def _effects(made: Tables, run: Condition) -> list[str]:
    kinds: dict[str, list[str]] = {}
    rows = zip(_of(made, "covariate", run.name), _of(made, "covariate", AFFINE), strict=True)
    for now, before in rows:
        same = now["correlation"] * before["correlation"] > 0
        word = {
            (True, True): "preserved" if same else "reversed",
            (True, False): "new",
            (False, True): "lost",
            (False, False): "not significant",
        }[now["p"] < _SIGNIFICANT, before["p"] < _SIGNIFICANT]
        kinds.setdefault(now["covariate"], []).append(
            f"{word} in {now['tissue']} ({_estimate(now, 'correlation')}, "
            f"against {before['correlation']:.2f})"
        )
    return [
        f"The effect of {label} on the median of each tissue, as a correlation within sites "
        f"(95 % interval), is {', '.join(own)}."
        for label, own in kinds.items()
    ]


def _word(change: float, scans: Sequence[FloatArray], words: tuple[str, str]) -> str:
    """Return the word for a change that is significant over scans, and has the same sign there.

    Parameters
    ----------
    change : of what the sentence quotes.
    scans : the distance of each scan, now and before.
    words : for less, and for more.
    """
    less, more = words
    now, before = scans
    agree = change * float((now - before).mean()) > 0
    if len(now) >= _FEWEST and agree and paired_t(now, before).p < _SIGNIFICANT:
        return less if change < 0 else more
    return f"neither significantly {less} nor {more} than after z-scoring"
