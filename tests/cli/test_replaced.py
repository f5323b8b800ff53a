"""Files that change while a command reads them, or that belong to something else."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from phantoms import head, save
from studies import SMALL, SiteStudy, contents, read_json, read_tsv

from ndflow.evaluation import save as evaluating
from ndflow.files.atomic import folder_lock
from ndflow.reporting import build
from ndflow.study import run as running


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    made = SiteStudy(tmp_path_factory.mktemp("study"), per_site=2)
    made.run("out", "--no-report")
    return made


@pytest.fixture
def out(study: SiteStudy, tmp_path: Path) -> Path:
    """A copy of a finished study."""
    shutil.copytree(study.folder / "out", tmp_path / "out")
    return tmp_path / "out"


def meanwhile(
    patch: pytest.MonkeyPatch, module: object, name: str, change: Callable[[], object]
) -> None:
    """Let something happen just before a function of a module is called."""
    plain = getattr(module, name)

    def changed(*arguments: Any, **more: Any) -> Any:
        change()
        return plain(*arguments, **more)

    patch.setattr(module, name, changed)


@pytest.mark.parametrize("again", [False, True], ids=["first run", "second run"])
def test_a_scan_replaced_between_the_fit_and_the_write_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    study = SiteStudy(tmp_path, per_site=2)
    words = ("cohort", study.table("all"), tmp_path / "out", "--no-report", "-q")
    if again:
        assert run(*words).code == 0
        words = (*words, "--set", "effective-count=5000", "--force")
    other = head(9, shape=SMALL, gain=7.0)
    with monkeypatch.context() as patch:
        meanwhile(patch, running, "compare_scans", lambda: save(tmp_path / "s1.nii.gz", other))
        done = run(*words)
    assert done.code == 1
    assert f"{tmp_path / 's1.nii.gz'}: replaced after its density was estimated (row 3)" in done.err
    assert [row["scan"] for row in read_tsv(tmp_path / "out" / "failures.tsv")] == ["s1"]
    assert not (tmp_path / "out" / "images" / "s1.nii.gz").exists()
    assert run(*words).code == 0
    assert run("verify", tmp_path / "out").code == 0


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_a_study_that_is_being_written_is_not_read(run: Run, out: Path, command: str) -> None:
    before = contents(out)
    with folder_lock(out):
        done = run(command, out)
    assert done.code == 2
    assert f"{out}: another run of ndflow is at work in it; wait until it has ended" in done.err
    assert contents(out) == before


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_a_study_that_is_being_read_is_not_written(
    run: Run, study: SiteStudy, out: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    codes = []
    module, name = (evaluating, "compare") if command == "evaluate" else (build, "scan_summaries")
    again = ("cohort", study.table("all"), out, "--no-report", "-q")
    meanwhile(monkeypatch, module, name, lambda: codes.append(run(*again).code))
    more = ("--permutations", 0) if command == "evaluate" else ()
    assert run(command, out, "-q", *more).code == 0
    assert codes == [2]


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_results_that_change_without_a_lock_are_noticed(
    run: Run, out: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """As on a file system without locks."""
    sidecar = out / "maps" / "s0.json"
    module, name = (evaluating, "compare") if command == "evaluate" else (build, "_page")
    meanwhile(monkeypatch, module, name, lambda: shutil.copyfile(out / "maps" / "s1.json", sidecar))
    done = run(command, out)
    assert done.code == 2
    assert "its results changed while they were read" in done.err or "s0" in done.err
    assert not (out / "report.html").exists()
    assert not (out / "evaluation").exists()


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_a_model_of_another_scan_is_refused(run: Run, out: Path, command: str) -> None:
    shutil.copyfile(out / "models" / "s1.json", out / "models" / "s0.json")
    done = run(command, out)
    assert done.code in (1, 2)
    assert (
        f"{out / 'models' / 's0.json'}: not the model that {out / 'maps' / 's0.json'}" in done.err
    )


def test_an_image_of_another_scan_is_not_evaluated(run: Run, out: Path) -> None:
    shutil.copyfile(out / "images" / "s1.nii.gz", out / "images" / "s0.nii.gz")
    done = run("evaluate", out, "--permutations", 0)
    assert done.code == 1
    assert f"{out / 'images' / 's0.nii.gz'}: not the image that the study wrote" in done.err
    assert run("report", out).code == 0
    assert "It cannot be shown in the viewer" in (out / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def pair(run: Run, study: SiteStudy, tmp_path: Path) -> list[Path]:
    """Two scans brought to one reference, with their sidecars beside them."""
    made = []
    for name in ("s0", "s1"):
        made.append(tmp_path / f"{name}.nii.gz")
        scan, reference = study.folder / f"{name}.nii.gz", study.folder / "out" / "reference.json"
        assert run("normalise", scan, "--to", reference, "-o", made[-1], "-q").code == 0
    return made


def test_a_map_is_undone_in_the_image_that_it_made_only(
    run: Run, pair: list[Path], tmp_path: Path
) -> None:
    own, other = pair
    back = tmp_path / "back.nii.gz"
    words = ("apply", own, "--inverse", "--map")
    done = run(*words, tmp_path / "s1.json", "-o", back)
    assert done.code == 2
    assert f"{own}: not the image that {tmp_path / 's1.json'} made" in done.err
    assert "--other-image" in done.err
    assert not back.exists()
    assert run(*words, tmp_path / "s1.json", "-o", back, "--other-image").code == 0
    assert run(*words, tmp_path / "s0.json", "-o", back, "--force").code == 0
    assert run("apply", other, "--map", tmp_path / "s0.json", "-o", back, "--force").code == 0
    done = run("apply", own, "--map", tmp_path / "s0.json", "-o", back, "--other-image", "--force")
    assert (done.code, "is for --inverse" in done.err) == (2, True)


@pytest.mark.parametrize("command", ["apply", "reference"])
def test_a_model_that_was_edited_is_refused(
    run: Run, study: SiteStudy, pair: list[Path], tmp_path: Path, command: str
) -> None:
    output = tmp_path / "again.nii.gz"
    image, out = study.folder / "s0.nii.gz", study.folder / "out"
    path, words = {
        "apply": (tmp_path / "s0.json", ("apply", image, "--map")),
        "normalise": (out / "reference.json", ("normalise", image, "--to")),
        "reference": (out / "models" / "s0.json", ("reference",)),
    }[command]
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(read_json(path) | {"comment": "improved"}), encoding="utf-8")
    target = tmp_path / "r.json" if command == "reference" else output
    done = run(*words, edited, "-o", target)
    assert done.code == 2
    assert f"{edited}: damaged or edited: its content is not what its checksum says" in done.err
    assert not target.exists()


def test_a_file_without_a_checksum_is_read(run: Run, study: SiteStudy, tmp_path: Path) -> None:
    """Other programs may write models too."""
    model = read_json(study.folder / "out" / "models" / "s0.json")
    plain = {name: model[name] for name in ("format", "version", "kind", "mixture")}
    (tmp_path / "plain.json").write_text(json.dumps(plain))
    assert run("reference", tmp_path / "plain.json", "-o", tmp_path / "r.json").code == 0
