"""The options of commands: how many there are, and that they reach the record of a result."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run
from phantoms import head, save
from studies import SMALL, read_tsv, record_of

from ndflow.cli.app import app
from ndflow.options import options_of

EXPERT = [one.name.replace("_", "-") for one in options_of() if one.metadata["expert"]]


@pytest.mark.parametrize(("command", "most"), [("cohort", 24), ("bids", 28), ("normalise", 18)])
def test_a_command_has_few_options(command: str, most: int) -> None:
    arguments = app[command].assemble_argument_collection(parse_docstring=True)
    shown = [one for one in arguments if one.name.startswith("-") and one.parse and one.show]
    assert 10 < len(shown) <= most


def test_expert_settings_are_listed(run: Run) -> None:
    shown = run("cohort", "--set", "help")
    assert (shown.code, shown.err) == (0, "")
    assert [line.partition(":")[0] for line in shown.out.splitlines()] == EXPERT


@pytest.mark.parametrize("word", ["effectivecount=5", "scale=standard", "objective"])
def test_an_unknown_setting_is_answered_with_those_that_there_are(
    run: Run, inputs: Path, word: str
) -> None:
    ran = run("cohort", inputs, inputs / "out", "--set", word)
    assert ran.code == 2
    (line,) = ran.errors
    assert line.startswith(f"error: --set {word}: ")
    assert ", ".join(EXPERT) in line
    assert not (inputs / "out").exists()


def test_expert_settings_reach_the_record(run: Run, inputs: Path) -> None:
    out = inputs / "out.nii.gz"
    words = ("normalise", inputs / "scan.nii.gz", "--to", inputs / "reference.json", "-o", out)
    settings = ("--set", "objective=cramer", "--set", "effective-count=5e3")
    assert run(*words, *settings).well
    chosen = record_of(out)["settings"]
    assert (chosen["objective"], chosen["effective_count"]) == ("cramer", 5000)


def test_tissue_maps_reach_the_record(run: Run, tmp_path: Path) -> None:
    labels, files = head(tissues=((1, 0), (2, 0), (3, 0))), {}
    for label, tissue in enumerate(("csf", "gm", "wm"), 1):
        share = (labels == label).astype(np.float32)
        files[tissue] = str(save(tmp_path / f"{tissue}.nii.gz", share))
    scan, to, out = save(tmp_path / "scan.nii.gz", head()), tmp_path / "r.json", tmp_path / "x.nii"
    maps = ("--tissue-maps", *(f"{tissue}={file}" for tissue, file in files.items()))
    assert run("reference", scan, *maps, "-o", to).code == 0
    assert run("normalise", scan, *maps, "--to", to, "--proportions", "tissue", "-o", out).code == 0
    record = record_of(out)
    assert record["settings"]["proportions"] == "tissue"
    assert {tissue: record["inputs"][tissue][0]["file"] for tissue in files} == files


def test_a_folder_is_a_table(run: Run, tmp_path: Path) -> None:
    for number, site in enumerate("AAB"):
        (tmp_path / "in" / site).mkdir(parents=True, exist_ok=True)
        save(tmp_path / "in" / site / f"s{number}.nii.gz", head(number, shape=SMALL))
    assert run("cohort", tmp_path / "in", tmp_path / "out").code == 0
    listed = {row["name"]: row["site"] for row in read_tsv(tmp_path / "out" / "scans.tsv")}
    assert listed == {"s0": "A", "s1": "A", "s2": "B"}
