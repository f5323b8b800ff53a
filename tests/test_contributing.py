"""A method and a step that are added as CONTRIBUTING.md says work; nothing else is touched."""

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

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAME = "percentile"


def blocks(title: str) -> list[str]:
    """Return the Python that a section shows: a module, and what names it."""
    _, _, section = TEXT.partition(f"## {title}\n")
    section, _, _ = section.partition("\n## ")
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the modules and the lines that CONTRIBUTING.md shows."""
    folder = tmp_path_factory.mktemp("package")
    copy = folder / "ndflow"
    shutil.copytree(
        ndflow.__path__[0], copy, ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache")
    )
    module, line = blocks("Add a method")
    (copy / "methods" / f"{NAME}.py").write_text(module, encoding="utf-8")
    table = "METHODS = {  # name: module\n"
    replace_once(copy / "options.py", table, table + line)
    module, line = blocks("Add a step")
    (copy / "study" / "quartile_step.py").write_text(module, encoding="utf-8")
    named = f"from ndflow.study.quartile_step import QuartileStep\n\n{line}"
    replace_once(copy / "study" / "run.py", "MORE: tuple[type[Step], ...] = ()\n", named)
    return folder


def replace_once(path: Path, old: str, new: str) -> None:
    before = path.read_text(encoding="utf-8")
    assert before.count(old) == 1
    path.write_text(before.replace(old, new), encoding="utf-8")


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


def test_the_new_step_is_resumed_rehearsed_and_verified_like_all_others(
    package: Path, scans: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    study = ("cohort", scans / "table.tsv", out, "--no-report")
    typed(package, *study)
    for number in range(4):
        voxels = voxels_of(out / "images" / f"s{number}.nii.gz")
        found = [*map(float, (out / "quartiles" / f"s{number}.tsv").read_text().split("\t"))]
        expected = np.percentile(voxels[voxels != 0], [25, 50, 75])
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    typed(package, "verify", out)
    table = out / "quartiles" / "s1.tsv"
    (out / "quartiles" / "s0.tsv").unlink()
    written = table.stat().st_mtime_ns
    plan = in_the_copy(package, "-m", "ndflow", *study, "--dry-run")
    assert "missing: s0.tsv" in plan.stdout + plan.stderr
    typed(package, *study)
    assert (out / "quartiles" / "s0.tsv").exists()
    assert table.stat().st_mtime_ns == written  # kept
    table.write_text("edited", encoding="utf-8")
    assert "s1.tsv" in in_the_copy(package, "-m", "ndflow", "verify", out).stdout
    refused = in_the_copy(package, "-m", "ndflow", *study)
    assert refused.returncode == 1
    assert "s1.tsv: changed since ndflow wrote it" in refused.stderr
    assert table.read_text(encoding="utf-8") == "edited"
    typed(package, *study, "--force")
    assert table.read_text(encoding="utf-8") != "edited"


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
