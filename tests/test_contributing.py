"""A method or a step that is added as CONTRIBUTING.md says works, and nothing else is touched."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from phantoms import head, save, voxels_of
from studies import SITES, SMALL, positive, write_tsv

import ndflow
from ndflow.options import METHODS
from ndflow.study.run import MORE

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAME = "percentile"


def blocks(heading: str) -> list[str]:
    """Return the Python in a section of CONTRIBUTING.md."""
    section = TEXT.partition(heading)[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def copied(folder: Path) -> Path:
    """Return a copy of the package."""
    ignored = shutil.ignore_patterns("__pycache__", ".mypy_cache")
    return Path(shutil.copytree(ndflow.__path__[0], folder / "ndflow", ignore=ignored))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the module and the line that CONTRIBUTING.md shows."""
    module, line = blocks("## Add a method\n")
    assert len(module.splitlines()) <= 50
    folder = tmp_path_factory.mktemp("package")
    copy = copied(folder)
    (copy / "methods" / f"{NAME}.py").write_text(module, encoding="utf-8")
    registry = copy / "options.py"
    table = "METHODS = {  # name: module\n"
    before = registry.read_text(encoding="utf-8")
    assert table in before
    registry.write_text(before.replace(table, table + line), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scans of two sites, and their table."""
    folder = tmp_path_factory.mktemp("scans")
    rows = []
    for number, site in enumerate(["Aachen", "Aachen", "Bonn", "Bonn"]):
        csf, gm, gain = SITES[site]
        tissues = ((csf, 60.0), (gm, 50.0), (1000.0, 40.0))
        save(folder / f"s{number}.nii.gz", head(number, shape=SMALL, tissues=tissues, gain=gain))
        rows.append({"image": f"s{number}.nii.gz", "site": site})
    write_tsv(folder / "table.tsv", rows)
    return folder


def in_the_copy(package: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy of the package."""
    environment = os.environ | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=300,
    )


def typed(package: Path, *words: object) -> str:
    """Run ``ndflow`` in the copy, and return what it printed."""
    done = in_the_copy(package, "-m", "ndflow", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def percentiles(path: Path) -> list[float]:
    voxels = voxels_of(path)
    found: list[float] = np.percentile(voxels[voxels != 0], [1, 99]).tolist()
    return found


def test_the_new_method_works_in_every_command(package: Path, scans: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    out = scans / "out"
    typed(package, "cohort", scans / "table.tsv", out, "--method", NAME, "-q", "--jobs", 2)
    reference = ndflow.load(out / "reference.json")
    assert isinstance(reference, ndflow.Reference)
    assert reference.landmarks is not None
    assert reference.landmarks.method == NAME
    target = positive(reference.landmarks.values).tolist()
    for number in range(4):
        result = out / "images" / f"s{number}.nii.gz"
        assert percentiles(result) == pytest.approx(target, abs=2.5)
    # A scan that was not part of the study; and one scan to another.
    new = save(scans / "new.nii.gz", head(9, shape=SMALL, gain=3.0))
    made = scans / "normalised.nii.gz"
    typed(package, "normalise", new, "--to", out / "reference.json", "--method", NAME, "-o", made)
    assert percentiles(made) == pytest.approx(target, abs=2.5)
    record = json.loads((scans / "normalised.json").read_text(encoding="utf-8"))
    assert record["settings"]["method"] == NAME
    assert record["map"]["type"] == "Affine"
    pair = scans / "pair.nii.gz"
    typed(package, "normalise", new, "--to", scans / "s0.nii.gz", "--method", NAME, "-o", pair)
    assert percentiles(pair) == pytest.approx(percentiles(scans / "s0.nii.gz"), rel=0.01)
    back = scans / "back.nii.gz"
    typed(package, "apply", made, "--map", scans / "normalised.json", "--inverse", "-o", back)
    np.testing.assert_allclose(voxels_of(back), voxels_of(new), atol=0.1)
    # Its own page, with its own words.
    typed(package, "report", out)
    page = " ".join((out / "report.html").read_text(encoding="utf-8").split())
    assert "scaled linearly by their 1st and 99th percentiles" in page
    typed(package, "evaluate", out, "--permutations", 0, "--trees", 2)
    assert (out / "evaluation" / "evaluation.json").exists()


def test_help_and_refusals_know_the_new_method(package: Path, scans: Path) -> None:
    assert NAME in typed(package, "normalise", "--help")
    options = ["--method", NAME, "--set", "objective=cramer", "-o", scans / "x.nii.gz"]
    image = scans / "s0.nii.gz"
    refused = in_the_copy(package, "-m", "ndflow", "normalise", image, "--to", image, *options)
    assert refused.returncode == 2
    assert f"objective is not an option of the method '{NAME}'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_new_method_keeps_the_contract_without_a_test_of_its_own(package: Path) -> None:
    contract = ROOT / "tests" / "methods" / "test_registry.py"
    plain = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider")
    done = in_the_copy(package, "-m", "pytest", *plain, "-k", NAME, contract)
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 10


def test_the_method_is_not_part_of_the_package() -> None:
    assert NAME not in METHODS


# ── a step ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def with_a_step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the step that CONTRIBUTING.md shows."""
    module, line = blocks("## Add a step\n")
    folder = tmp_path_factory.mktemp("with_a_step")
    copy = copied(folder)
    (copy / "study" / "deface_step.py").write_text(module, encoding="utf-8")
    run = copy / "study" / "run.py"
    before = run.read_text(encoding="utf-8")
    empty = "MORE: tuple[type[Step], ...] = ()\n"
    assert empty in before
    added = f"from ndflow.study.deface_step import DefaceStep\n\n{line}"
    run.write_text(before.replace(empty, added), encoding="utf-8")
    return folder


def test_the_new_step_runs_resumes_is_rehearsed_and_verified(
    with_a_step: Path, tmp_path: Path
) -> None:
    rows, five_mm = [], np.diag([5.0, 5.0, 5.0, 1.0])
    for number in range(3):
        brain = np.zeros(SMALL, np.uint8)
        brain[4:10, 5:11, 3:9] = 1
        save(tmp_path / f"s{number}.nii.gz", head(number, shape=SMALL), five_mm)
        save(tmp_path / f"m{number}.nii.gz", brain, five_mm)
        rows.append({"image": f"s{number}.nii.gz", "mask": f"m{number}.nii.gz"})
    table, out = write_tsv(tmp_path / "table.tsv", rows), tmp_path / "out"
    cohort = ("cohort", table, out, "--no-report")
    typed(with_a_step, *cohort)
    made = [out / "defaced" / f"s{number}.nii.gz" for number in range(3)]
    for number, path in enumerate(made):
        shown, whole = voxels_of(path), voxels_of(out / "images" / f"s{number}.nii.gz")
        np.testing.assert_array_equal(shown[3:11, 4:12, 2:10], whole[3:11, 4:12, 2:10])
        assert whole[:2].any()
        assert not shown[:2].any()
    typed(with_a_step, "verify", out)
    # What is up to date is kept; what is missing is made again, and what somebody edited is not.
    times = [path.stat().st_mtime_ns for path in made]
    made[1].unlink()
    assert "write" in typed(with_a_step, *cohort, "--dry-run")
    typed(with_a_step, *cohort)
    again = [path.stat().st_mtime_ns for path in made]
    assert (again[0], again[2]) == (times[0], times[2])
    assert made[1].exists()
    made[2].write_bytes(b"edited")
    refused = in_the_copy(with_a_step, "-m", "ndflow", *cohort)
    assert refused.returncode == 1
    assert "s2.nii.gz: changed since ndflow wrote it" in refused.stderr
    assert made[2].read_bytes() == b"edited"
    typed(with_a_step, *cohort, "--force")
    assert made[2].read_bytes() != b"edited"
    typed(with_a_step, "verify", out)


def test_the_step_is_not_part_of_the_package() -> None:
    assert MORE == ()
