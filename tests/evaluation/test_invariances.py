"""What must not change the numbers of a comparison: units, order, and where maps come from."""

from pathlib import Path

import numpy as np
import pytest
from compared_runs import Desk, Rows, alike, compared, numbers
from phantoms import head, save
from studies import SMALL, Silent

from ndflow.image.mask import foreground
from ndflow.study.plan import Study
from ndflow.study.run import run_study
from ndflow.study.table import named, read_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", ["individual", "two-level"])
def test_the_scale_does_not_matter(desk: Desk, mode: str) -> None:
    """Neither for the tables of a study, nor for studies of different scales side by side."""
    runs = [desk.run(f"{s} {mode}", mode=mode, scale=s) for s in ("standard", "positive")]
    names = {f"standard {mode}": f"positive {mode}", "affine": "affine"}
    if mode == "individual":
        alone = [numbers(compared(out), "age") for out in runs]
        alike(*alone, names, rel=1e-4, abs=1e-5)
    both = numbers(compared(*runs), "age")
    alike(both, both, names, rel=1e-4, abs=1e-5)


def test_the_affine_condition_equals_a_study_run_with_the_affine_method(desk: Desk) -> None:
    flow, affine = desk.run("flow"), desk.run("aligned", method="affine")
    both = compared(flow, affine)
    assert [one.name for one in both.conditions] == ["unnormalised", "affine", "flow"]
    assert both.affine.study is not None
    names = {name: name for name in ("unnormalised", "affine", "flow")}
    alike(numbers(compared(flow), "age"), numbers(both, "age"), names, rel=2e-3, abs=1e-4)


def test_the_order_of_studies_changes_only_the_order_of_rows(desk: Desk, several: Rows) -> None:
    found = numbers(compared(desk.run("nyul", method="nyul"), desk.run("flow")), "age")
    names = {name: name for name in ("unnormalised", "affine", "flow", "nyul")}
    alike(several, found, names, rel=1e-9, abs=1e-12)


def test_an_automatic_mask_counts_like_the_same_mask_given(tmp_path: Path) -> None:
    runs = []
    for kind in ("found", "given"):
        rows = ["image\tmask"]
        for number in range(3):
            noise = np.random.default_rng(number)
            body = head(number, shape=SMALL)
            data = np.where(body == 0, noise.integers(1, 30, SMALL), body).astype(np.int16)
            image = save(tmp_path / f"n{number}.nii", data)
            mask = save(tmp_path / f"m{number}.nii", foreground(data).astype(np.uint8))
            rows.append(f"{image}\t{mask if kind == 'given' else 'n/a'}")
        (tmp_path / "n.tsv").write_text("\n".join(rows))
        scans = named(read_table(tmp_path / "n.tsv").subjects, unmasked="auto")
        run_study(Study(tmp_path / kind, scans), Silent())
        runs.append(numbers(compared(tmp_path / kind)))
    alike(*runs, {"unnormalised": "unnormalised", "affine": "affine", "found": "given"}, rel=1e-12)
    assert "repeats" not in runs[0]  # no subject is known to be scanned twice
    assert "tissue" not in runs[0]
