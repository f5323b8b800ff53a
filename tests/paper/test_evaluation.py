"""What matching does to twelve real scans of three sites; docs/study.md has all 68."""

from pathlib import Path

import pytest
from commands import typed
from studies import read_tsv

pytestmark = pytest.mark.slow

SCANS = {
    "HH": ("HH001", "HH010", "HH018", "HH026"),
    "NSK": ("NSK001", "NSK005", "NSK010", "NSK015"),
    "UCLA": ("UCLA001", "UCLA004", "UCLA006", "UCLA013"),
}
CHOSEN = ("--set", "objective=cramer", "--set", "regularisation=1e-4")
RUNS = {
    "individual": CHOSEN,
    "site": (*CHOSEN, "--mode", "site"),
    "nyul": ("--method", "nyul"),
    "average": (*CHOSEN, "--proportions", "average"),
}

Tables = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def tables(cohort_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Run the study, and return its tables."""
    folder = tmp_path_factory.mktemp("evaluation")
    ends = {"image": "T1w", "mask": "desc-brain_mask"}
    ends |= {tissue.lower(): f"label-{tissue}_probseg" for tissue in ("GM", "WM", "CSF")}
    lines = ["\t".join(("site", *ends))]
    for site, names in SCANS.items():
        for name in names:
            start = cohort_folder / f"sub-{name}" / "anat" / f"sub-{name}"
            lines.append("\t".join((site, *(f"{start}_{end}.nii.gz" for end in ends.values()))))
    (folder / "t.tsv").write_text("\n".join(lines))
    for name, words in RUNS.items():
        typed("cohort", folder / "t.tsv", folder / name, *words, "-q", "-j", 2)
    outs = [folder / name for name in RUNS]
    words = ("--trees", 2, "--permutations", 0, "-q", "-j", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
        typed("evaluate", *outs, "-o", folder / "out", *words)
    return {path.stem: read_tsv(path) for path in (folder / "out").glob("*.tsv")}


def row(tables: Tables, table: str, condition: str) -> dict[str, float]:
    (found,) = (one for one in tables[table] if one["condition"] == condition)
    return {name: float(text) for name, text in found.items() if name != "condition"}


def test_tissues_look_more_alike_than_after_the_alignment(tables: Tables) -> None:
    cells = {(c["condition"], c["tissue"], c["quartile"]): c for c in tables["tissue"]}
    for tissue in ("WM", "GM"):
        ours, affine = (cells[way, tissue, "2"] for way in ("individual", "affine"))
        assert float(ours["sd"]) < float(affine["sd"])
        assert float(ours["relative_sd"]) < float(affine["relative_sd"])


def test_in_their_own_proportions_tissues_are_twice_as_alike(tables: Tables) -> None:
    own, average = (
        sum(float(cell["sd"]) for cell in tables["tissue"] if cell["condition"] == way)
        for way in ("individual", "average")
    )
    assert own < 0.5 * average


def test_histograms_fit_better_than_after_nyul_by_smoother_maps(tables: Tables) -> None:
    ours, nyul = (row(tables, "fitness", way) for way in ("individual", "nyul"))
    assert ours["rmse"] <= 0.8 * nyul["rmse"]
    assert ours["jump"] <= 0.2 * nyul["jump"]


def test_one_map_per_site_brings_sites_together_and_keeps_variation_within(tables: Tables) -> None:
    share = {
        (one["condition"], one["measure"]): float(one["change"])
        for one in tables["changes"]
        if one["against"] == "affine"
    }
    assert share["site", "between"] <= 0.5
    assert share["individual", "between"] <= 0.7  # scans keep their own shares of tissues
    assert share["site", "within"] >= 0.95
    assert share["individual", "within"] < share["site", "within"]
