"""A method and a step that are added as CONTRIBUTING.md says work, and nothing else is touched."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from phantoms import voxels_of
from studies import SiteStudy, positive, read_json

import ndflow

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def blocks(heading: str) -> list[str]:
    """Return the Python in a section of CONTRIBUTING.md."""
    section = TEXT.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the modules and the lines that CONTRIBUTING.md shows."""
    folder = tmp_path_factory.mktemp("package")
    ignored = shutil.ignore_patterns("__pycache__")
    copy = Path(shutil.copytree(ndflow.__path__[0], folder / "ndflow", ignore=ignored))
    module, line = blocks("## Add a method")
    (copy / "methods" / "percentile.py").write_text(module, encoding="utf-8")
    table = "METHODS = {  # name: module\n"
    replace(copy / "options.py", table, table + line)
    module, line = blocks("## Add a step")
    (copy / "study" / "brightness_step.py").write_text(module, encoding="utf-8")
    added = f"from ndflow.study.brightness_step import BrightnessStep\n\n{line}"
    replace(copy / "study" / "run.py", "MORE: tuple[type[Step], ...] = ()\n", added)
    return folder


def in_the_copy(package: Path, *words: object) -> None:
    """Run Python with the copy of the package."""
    environment = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-m", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_method_and_the_step_work_in_a_study(package: Path, tmp_path: Path) -> None:
    table, out = SiteStudy(tmp_path, per_site=1).table("table"), tmp_path / "out"
    cohort = ("ndflow", "cohort", table, out, "--method", "percentile", "--no-report")
    in_the_copy(package, *cohort)
    landmarks = read_json(out / "reference.json")["reference"]["landmarks"]
    target = positive(np.ravel(landmarks["values"]))
    records = [out / "brightness" / f"s{number}.json" for number in range(3)]
    for number, record in enumerate(records):
        voxels = voxels_of(out / "images" / f"s{number}.nii.gz")
        inside = voxels[voxels != 0]
        assert np.percentile(inside, [1, 99]) == pytest.approx(target, abs=2.5)
        assert read_json(record)["means"] == [pytest.approx(inside.mean(), rel=1e-5)]
    times = [record.stat().st_mtime_ns for record in records]
    records[1].unlink()
    in_the_copy(package, *cohort)
    again = [record.stat().st_mtime_ns for record in records]
    assert [old == new for old, new in zip(times, again, strict=True)] == [True, False, True]


def test_the_method_keeps_the_contract_without_a_test_of_its_own(package: Path) -> None:
    contract = ROOT / "tests" / "methods" / "test_registry.py"
    plain = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider")
    in_the_copy(package, "pytest", *plain, "-k", "percentile", contract)
