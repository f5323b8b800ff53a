"""Run the comparison of docs/study.md on a cohort, and write the page.

    python experiments/study.py COHORT [FOLDER]

COHORT is a BIDS-like folder with ``participants.tsv`` (columns ``participant_id``, ``site``,
``age``) and, for each scan, ``*_T1w``, ``*_desc-brain_mask`` and ``*_label-{GM,WM,CSF}_probseg``.
The runs are kept in FOLDER, so that a second call is quick; by default they are discarded. Writes
docs/study.md and docs/figures/study-*.svg. Needs the extra ``evaluate``.
"""

import csv
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import lesion_study
import scanner_study
import stroke_study
import tissue_study

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAPER = ("--preset", "paper")  # what a run does not name is as in the paper
CRAMER = (*PAPER, "--objective", "cramer", "--regularisation", "1e-4")
RUNS = {
    "individual": CRAMER,
    "individual-l2": PAPER,
    "site": ("--mode", "site", *CRAMER),
    "nyul": ("--method", "nyul"),
    "hellier": ("--method", "hellier"),
    "quantile": ("--method", "quantile"),
    "affine": ("--method", "affine"),
}
FIGURES = ("populations", "fitness", "tissues", "predictions")
TISSUES = ("WM", "GM", "CSF")
LIKELY = 0.05

Table = list[dict[str, str]]


def main() -> None:
    """Run the studies, and write the page and its figures."""
    cohort = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        table = write_scans(cohort, folder / "scans.tsv")
        for name, words in RUNS.items():
            ndflow("cohort", table, folder / name, "--channel", "T1w", "-j", "2", *words)
        out = folder / "evaluation"
        words = ("--covariate", "age", "-j", "2", "--force")
        ndflow("evaluate", *(folder / name for name in RUNS), "-o", out, *words)
        for name in FIGURES:
            content = (out / f"{name}.svg").read_bytes()
            (DOCS / "figures" / f"study-{name}.svg").write_bytes(content)
        sections = {
            "targets": tissue_study.section(folder, table, ndflow, DOCS / "figures"),
            **lesion_study.sections(cohort, DOCS / "figures"),
            "unknown_scanners": scanner_study.section(cohort, cohort.parent / "scans"),
            "strokes": stroke_study.section(cohort.parent / "scans" / "stroke", ndflow, folder),
        }
        scans = read(table)
        names = ("tissue", "fitness", "sites", "classification", "covariate")
        (DOCS / "study.md").write_text(
            page({name: read(out / f"{name}.tsv") for name in names}, scans, sections),
            encoding="utf-8",
        )


def write_scans(cohort: Path, table: Path) -> Path:
    """Write the table of the study."""
    kinds = {"image": "T1w", "mask": "desc-brain_mask"}
    kinds |= {tissue.lower(): f"label-{tissue}_probseg" for tissue in TISSUES}
    lines = ["\t".join(("subject", "site", "age", *kinds))]
    for row in read(cohort / "participants.tsv"):
        name = row["participant_id"]
        files = (cohort / name / "anat" / f"{name}_{kind}.nii.gz" for kind in kinds.values())
        lines.append("\t".join((name, row["site"], row["age"], *map(str, files))))
    table.write_text("\n".join(lines) + "\n")
    return table


def ndflow(*words: object) -> None:
    """Run a command as a user would."""
    command = [sys.executable, "-m", "ndflow", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def read(path: Path) -> Table:
    """Read a tab-separated table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def number(row: dict[str, str], column: str) -> float:
    """Return a number of a table."""
    return float("nan") if row[column] == "n/a" else float(row[column])


class Study:
    """The numbers, by condition."""

    def __init__(self, tables: dict[str, Table]) -> None:
        self.tables = tables
        self.conditions = [row["condition"] for row in tables["fitness"]]

    def row(self, table: str, condition: str) -> dict[str, str]:
        """Return the row of a condition."""
        return next(row for row in self.tables[table] if row["condition"] == condition)

    def of(self, table: str, condition: str, column: str) -> float:
        """Return one number."""
        return number(self.row(table, condition), column)

    def cells(self, condition: str) -> list[dict[str, str]]:
        """Return the nine cells of a condition."""
        return [row for row in self.tables["tissue"] if row["condition"] == condition]

    def mean_sd(self, condition: str, column: str = "sd") -> float:
        """Return the mean of the standard deviations of the nine cells."""
        return statistics.mean(number(cell, column) for cell in self.cells(condition))

    def below_affine(self, condition: str, tissues: tuple[str, ...]) -> tuple[int, int]:
        """Return in how many cells the sd is less than that of affine, and significantly so."""
        pairs = zip(self.cells(condition), self.cells("affine"), strict=True)
        less = [a for a, b in pairs if a["tissue"] in tissues and number(a, "sd") < number(b, "sd")]
        return len(less), sum(number(cell, "paired_holm") < LIKELY for cell in less)

    def age(self, condition: str, tissue: str) -> dict[str, str]:
        """Return the effect of age."""
        rows = self.tables["covariate"]
        return next(r for r in rows if (r["condition"], r["tissue"]) == (condition, tissue))


def page(tables: dict[str, Table], scans: Table, sections: dict[str, str]) -> str:
    """Return the page."""
    study = Study(tables)
    sites = Counter(row["site"] for row in scans)
    text = (HERE / "study.in.md").read_text(encoding="utf-8")
    parts = {
        "scans": str(len(scans)),
        "sites": ", ".join(f"{name} ({count})" for name, count in sites.items()),
        "commands": "\n".join(
            f"ndflow cohort scans.tsv {name} {' '.join(words)}".rstrip()
            for name, words in RUNS.items()
        ),
        "runs": " ".join(RUNS),
        "tissue_table": tissue_table(study),
        "classification_table": classification_table(study),
        "fitness_table": plain_table(
            study, "fitness", "rmse mae w1 ks js qq rmse_own w1_own variation jump largest_jump"
        ),
        "sites_table": plain_table(
            study, "sites", "between within pairwise between_share within_share"
        ),
        "age_table": age_table(study),
        "target_commands": "\n".join(
            f"ndflow cohort scans.tsv {name} {' '.join(words)}".rstrip()
            for name, words in tissue_study.RUNS.items()
        ),
        **sections,
        **facts(study),
    }
    return text.format_map(parts)


def facts(study: Study) -> dict[str, str]:
    """Return the figures that the text quotes."""
    matter = ("WM", "GM")
    quoted = {
        f"sd_{name.replace('-', '_')}": f"{study.mean_sd(name):.4f}"
        for name in study.conditions[1:]
    }
    quoted |= {
        f"gap_{name}": f"{study.mean_sd(name, 'relative_sd'):.4f}"
        for name in ("individual", "nyul", "quantile")
    }
    below, likely = study.below_affine("individual", matter)
    of_rmse = study.of("fitness", "individual", "rmse") / study.of("fitness", "nyul", "rmse")
    own = {name: study.of("fitness", name, "rmse_own") for name in ("individual", "nyul")}
    jumps = {
        f"jump_{which}{name}": f"{study.of('fitness', name, column):.2g}"
        for name in ("individual", "nyul")
        for which, column in (("", "jump"), ("most_", "largest_jump"))
    }
    csf = {
        name: [f"{number(cell, 'sd'):.3f}" for cell in study.cells(name)[6:]]
        for name in ("affine", "individual", "nyul", "site")
    }
    ages = {
        f"age_{name}_{tissue.lower()}": f"{number(study.age(name, tissue), 'correlation'):.2f}"
        for name in ("affine", "individual", "site")
        for tissue in TISSUES
    }
    balanced = {
        f"balanced_{name}": f"{study.of('classification', name, 'balanced'):.2f}"
        for name in ("affine", "individual", "site", "nyul")
    }
    entropies = {
        f"entropy_{name}": f"{study.of('classification', name, 'entropy'):.2f}"
        for name in ("affine", "individual", "site", "nyul")
    }
    chances = [study.of("classification", name, "chance_95") for name in study.conditions]
    return (
        quoted
        | ages
        | balanced
        | entropies
        | jumps
        | {
            "below": str(below),
            "likely": str(likely),
            "of_rmse": f"{of_rmse:.2f}",
            "of_rmse_own": f"{own['individual'] / own['nyul']:.2f}",
            "chance_high": f"{max(chances):.2f}",
            "csf_affine": ", ".join(csf["affine"]),
            "csf_individual": ", ".join(csf["individual"]),
            "csf_nyul": ", ".join(csf["nyul"]),
            "csf_site": ", ".join(csf["site"]),
            "removed": f"{1 - study.of('sites', 'site', 'between_share'):.0%}",
            "kept": f"{study.of('sites', 'site', 'within_share'):.0%}",
            "kept_individual": f"{study.of('sites', 'individual', 'within_share'):.0%}",
            "variation_individual": f"{study.of('fitness', 'individual', 'variation'):.2f}",
            "variation_nyul": f"{study.of('fitness', 'nyul', 'variation'):.2f}",
            "variation_quantile": f"{study.of('fitness', 'quantile', 'variation'):.0f}",
        }
    )


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown; numbers to the right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tissue_table(study: Study) -> str:
    """Return the table of quartiles: mean ± sd, bold where significantly less than affine."""
    head = ["", *(f"{tissue} Q{quartile}" for tissue in TISSUES for quartile in (1, 2, 3))]
    rows = []
    for condition in study.conditions:
        texts = []
        for cell in study.cells(condition):
            sd = f"{number(cell, 'sd'):.3f}"
            paired, unpaired = number(cell, "paired_holm"), number(cell, "unpaired_holm")
            bold = f"**{sd}**" if paired < LIKELY else sd
            only = "‡" if paired < LIKELY <= unpaired else ""
            texts.append(f"{number(cell, 'mean'):.2f} ± {bold}{only}")
        means = (study.mean_sd(condition), study.mean_sd(condition, "relative_sd"))
        rows.append([condition, *texts, *(f"{mean:.4f}" for mean in means)])
    return markdown([*head, "mean sd", "÷ gap"], rows)


def classification_table(study: Study) -> str:
    """Return the accuracies."""
    columns = [name for name in study.tables["classification"][0] if name != "condition"]
    head = ["", *(name.replace("_", " ") for name in columns)]
    rows = [
        [row["condition"], *(short(row[column]) for column in columns)]
        for row in study.tables["classification"]
    ]
    return markdown(head, rows)


def plain_table(study: Study, name: str, columns: str) -> str:
    """Return some columns of a table."""
    wanted = columns.split()
    rows = [
        [row["condition"], *(short(row[column]) for column in wanted)] for row in study.tables[name]
    ]
    return markdown(["", *(column.replace("_", " ") for column in wanted)], rows)


def age_table(study: Study) -> str:
    """Return the effects of age: partial correlation, and p."""
    rows = []
    for condition in study.conditions:
        found = (study.age(condition, tissue) for tissue in TISSUES)
        texts = [f"{number(row, 'correlation'):.2f} ({short(row['p'])})" for row in found]
        rows.append([condition, *texts])
    return markdown(["", *TISSUES], rows)


def short(text: str) -> str:
    """Return a number in three digits."""
    return "–" if text == "n/a" else f"{float(text):.3g}"


if __name__ == "__main__":
    main()
