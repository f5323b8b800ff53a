"""The command line itself: wrong usage, verbosity and progress."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import Run, on_a_terminal
from phantoms import head, radii, save

import ndflow


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return save(tmp_path / "scan.nii.gz", head(0))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    voxels = head(1, gain=2)
    mixture = ndflow.fit(ndflow.histogram(voxels, voxels != 0)).mixture
    ndflow.save(tmp_path / "target.json", mixture)
    return tmp_path / "target.json"


# ── help and version ─────────────────────────────────────────────────────────────────────────────


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version") == (0, f"{ndflow.__version__}\n", "")


@pytest.mark.parametrize("words", [["--version"], ["cohort", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys; from ndflow.cli import main; code = main();"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "cyclopts" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "nibabel", "isal", "joblib", "matplotlib"})


INTERRUPTED = """
import sys
class Finder:
    def find_spec(name, path, target=None):
        if name == "cyclopts":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder)
from ndflow.cli import main
sys.exit(main())
"""


def test_an_early_interruption_is_reported_in_one_line() -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert ran.returncode == 130
    assert ran.stderr == "error: interrupted; nothing has been done\n"


THREADS = """
import os, sys
from ndflow.cli import main
sys.argv = ["ndflow", "fit", sys.argv[1], "-o", sys.argv[2], "-q"]
assert main() == 0
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_unused_threads_are_started(scan: Path, tmp_path: Path) -> None:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-c", THREADS, str(scan), str(tmp_path / "density.json")]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert int(ran.stdout) == 1


def test_options_may_come_before_the_scan_and_with_an_equals_sign(
    run: Run, scan: Path, target: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.nii.gz"
    words = (f"--to={target}", f"--output={output}", "--scale=standard", scan)
    assert run("normalise", *words).well
    assert output.exists()


# ── wrong usage ──────────────────────────────────────────────────────────────────────────────────

NORMALISE = ("normalise", "SCAN", "--to", "TARGET", "-o", "OUT")
WRONG: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "an unknown command": (("normalis",), ("normalis", "normalise")),
    "an unknown option": ((*NORMALISE, "--rang", "0", "1"), ("--rang", "--range")),
    "no scan": (("normalise", "--to", "TARGET", "-o", "OUT"), ("IMAGE",)),
    "a mask that takes the scan for another one": (
        ("normalise", "--mask", "SECOND", "SCAN", "--to", "TARGET", "-o", "OUT"),
        ("IMAGES", "--mask"),
    ),
    "no target": (("normalise", "SCAN", "-o", "OUT"), ("--to",)),
    "no output": (("normalise", "SCAN", "--to", "TARGET"), ("--output",)),
    "an option without its value": (("normalise", "SCAN", "-o", "OUT", "--to"), ("--to",)),
    "no map": (("apply", "SCAN", "-o", "OUT"), ("--map",)),
    "no source": (("reference", "-o", "OUT"), ("SOURCES",)),
    "an unknown scale": ((*NORMALISE, "--scale", "x"), ("--scale", "standard", "target")),
    "an unknown place": ((*NORMALISE, "--set", "outside=x"), ("outside", "zero", "keep", "map")),
    "an unknown method": ((*NORMALISE, "--method", "x"), ("--method", "ndflow", "affine")),
    "an unknown type": ((*NORMALISE, "--dtype", "complex64"), ("--dtype", "float32")),
    "an unknown average": (
        ("reference", "SCAN", "-o", "OUT", "--set", "average=x"),
        ("average", "density", "quantile"),
    ),
    "half a range": ((*NORMALISE, "--range", "1"), ("--range",)),
    "a range that falls": ((*NORMALISE, "--range", "1", "0"), ("range",)),
    "an endless range": ((*NORMALISE, "--range", "0", "inf"), ("range",)),
    "a range and a scale": (
        (*NORMALISE, "--range", "0", "1", "--scale", "standard"),
        ("range", "scale"),
    ),
    "no number": ((*NORMALISE, "--set", "regularisation=much"), ("regularisation", "much")),
    "a negative number": ((*NORMALISE, "--set", "regularisation=-1"), ("regularisation",)),
    "not a number": ((*NORMALISE, "--set", "effective-count=nan"), ("effective_count",)),
    "no bytes": ((*NORMALISE, "--set", "max-bytes=0"), ("max_bytes",)),
    "no workers": (
        ("normalise", "SCAN", "SECOND", "--to", "TARGET", "-o", "FOLDER", "--jobs", "0"),
        ("jobs",),
    ),
    "a mask for a model": ((*NORMALISE, "--to-mask", "SCAN"), ("TARGET", "--to-mask")),
    "two scans to apply to": (("apply", "SCAN", "SCAN", "--map", "TARGET", "-o", "OUT"), ()),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_usage_is_one_line_and_nothing_happens(
    run: Run, scan: Path, target: Path, tmp_path: Path, what: str
) -> None:
    second = save(tmp_path / "second.nii.gz", head(2))
    before = sorted(tmp_path.rglob("*"))
    meant = {
        "SCAN": scan,
        "SECOND": second,
        "TARGET": target,
        "OUT": tmp_path / "out.nii.gz",
        "FOLDER": tmp_path / "out",
    }
    words, expected = WRONG[what]
    done = run(*(meant.get(word, word) for word in words))
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == done.errors
    (message,) = done.errors
    for part in expected:
        assert str(meant.get(part, part)) in message
    assert "Traceback" not in message
    assert "unexpected" not in message
    assert sorted(tmp_path.rglob("*")) == before


# ── what stands in the way ────────────────────────────────────────────────────────────────────────


def refusals(scan: Path, target: Path, folder: Path) -> dict[str, tuple[tuple[object, ...], Path]]:
    """Commands that cannot work, and the file that each error must name."""
    taken, missing = folder / "taken.nii.gz", folder / "missing.nii.gz"
    normalise = ("normalise", scan, "--to", target, "-o")
    return {
        "missing scan": (("normalise", missing, "--to", target, "-o", folder / "b.nii"), missing),
        "missing target": (("normalise", scan, "--to", missing, "-o", folder / "b.nii"), missing),
        "missing mask": ((*normalise, folder / "b.nii", "--mask", missing), missing),
        "missing lesion": ((*normalise, folder / "b.nii", "--exclude", missing), missing),
        "missing map": (("apply", scan, "--map", missing, "-o", folder / "b.nii"), missing),
        "missing source": (("reference", scan, missing, "-o", folder / "r.json"), missing),
        "taken output": ((*normalise, taken), taken),
        "taken record": ((*normalise, folder / "record.nii"), folder / "record.json"),
        "taken model": (("fit", scan, "-o", folder / "record.json"), folder / "record.json"),
        "an input": ((*normalise, scan, "--force"), scan),
        "missing folder": ((*normalise, folder / "no" / "b.nii"), folder / "no" / "b.nii"),
        "missing folder of a folder": (
            ("normalise", scan, taken, "--to", target, "-o", folder / "no" / "out"),
            folder / "no" / "out",
        ),
        "no format": ((*normalise, folder / "b.tiff"), folder / "b.tiff"),
        "model for an image": ((*normalise, folder / "b.json"), folder / "b.json"),
        "image for a model": (("fit", scan, "-o", folder / "b.nii"), folder / "b.nii"),
        "image for a reference": (("reference", scan, "-o", folder / "b.nii"), folder / "b.nii"),
    }


@pytest.mark.parametrize("what", refusals(Path(), Path(), Path()))
def test_a_file_that_stands_in_the_way_is_named(
    run: Run, scan: Path, target: Path, tmp_path: Path, what: str
) -> None:
    (tmp_path / "taken.nii.gz").write_bytes(scan.read_bytes())
    (tmp_path / "record.json").write_bytes(b"mine")
    before = sorted(tmp_path.rglob("*"))
    words, culprit = refusals(scan, target, tmp_path)[what]
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.errors[0].startswith(f"error: {culprit}: ")
    assert sorted(tmp_path.rglob("*")) == before


# ── quiet and verbose ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def strange(tmp_path: Path) -> dict[str, Path]:
    """Images that give rise to warnings: one with NaN, and a mask of probabilities for it."""
    voxels = head(3).astype(np.float32)
    voxels[12, 14, 10] = np.nan
    soft = np.clip(2 * (1 - radii()), 0, 1)
    return {
        "image": save(tmp_path / "strange.nii.gz", voxels),
        "mask": save(tmp_path / "soft.nii.gz", soft.astype(np.float32)),
    }


def test_each_warning_is_one_line(
    run: Run, target: Path, tmp_path: Path, strange: dict[str, Path]
) -> None:
    words = (strange["image"], "--to", target, "-o", tmp_path / "out.nii.gz")
    done = run("normalise", *words, "--mask", strange["mask"])
    assert done.code == 0
    lines = done.err.splitlines()
    assert len(lines) >= 2
    assert {line.split(": ")[1] for line in lines} == {str(path) for path in strange.values()}
    assert all(line.startswith("warning: ") for line in lines)


@pytest.mark.parametrize("command", ["normalise", "normalise to", "fit", "reference", "apply"])
def test_quiet_prints_errors_only(
    run: Run,
    scan: Path,
    target: Path,
    tmp_path: Path,
    strange: dict[str, Path],
    command: str,
) -> None:
    ndflow.save(tmp_path / "map.json", ndflow.Affine(2.0, 100.0))
    mask = ("--mask", strange["mask"])
    image, output = tmp_path / "out.nii.gz", tmp_path / "out.json"
    words: dict[str, tuple[object, ...]] = {
        "normalise": (strange["image"], "--to", target, "-o", image, *mask),
        "normalise to": (scan, "--to", strange["image"], "-o", image),
        "fit": (strange["image"], "-o", output, *mask),
        "reference": (strange["image"], "-o", output, *mask),
        "apply": (strange["image"], "--map", tmp_path / "map.json", "-o", image, *mask),
    }
    arguments = (command.split()[0], *words[command])
    loud = run(*arguments)
    assert loud.code == 0
    assert loud.err.startswith("warning: ")
    assert run(*arguments, "--force", "-q") == (0, "", "")
    # Errors are printed nevertheless.
    done = run(*arguments, "-q")
    assert done.code == 2
    assert len(done.errors) == 1


def test_verbose_shows_the_traceback_of_an_error(run: Run, target: Path, tmp_path: Path) -> None:
    for words in (
        ("normalise", tmp_path / "no.nii", "--to", target, "-o", tmp_path / "b.nii"),
        ("normalise", target, "--to", tmp_path / "no.nii", "-o", tmp_path / "b.nii"),
    ):
        silent, loud = run(*words), run(*words, "-v")
        assert "Traceback" not in silent.err
        assert "Traceback (most recent call last)" in loud.err
        assert silent.code == loud.code == 2
        assert loud.errors == silent.errors


# ── progress ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def study(tmp_path: Path) -> list[Path]:
    (tmp_path / "study").mkdir()
    return [save(tmp_path / "study" / f"{n}.nii", head(n, shape=(12, 14, 10))) for n in range(2)]


def test_progress_is_shown_on_a_terminal_and_hides_no_errors(
    study: list[Path], target: Path, tmp_path: Path
) -> None:
    images = (study[0], tmp_path / "missing.nii", study[1])
    code, out, shown = on_a_terminal("normalise", *images, "--to", target, "-o", tmp_path / "out")
    assert code == 1
    assert out == f"wrote 2 images and their sidecars to {tmp_path / 'out'}\n"
    assert "3/3" in shown
    assert "\x1b[" in shown
    assert f"{tmp_path / 'missing.nii'}: no such file" in re.sub(r"\s+", " ", shown)


def test_no_progress_is_shown_for_quiet_or_a_single_scan(
    study: list[Path], target: Path, tmp_path: Path
) -> None:
    quiet = ("normalise", *study, "--to", target, "-o", tmp_path / "out", "-q")
    assert on_a_terminal(*quiet) == (0, "", "")
    single = ("normalise", study[0], "--to", target, "-o", tmp_path / "out.nii")
    assert on_a_terminal(*single).well


def test_no_progress_is_printed_without_a_terminal(
    process: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    # Not even where a terminal is pretended, as by some continuous integration services.
    words = ("normalise", *study, "--to", target, "-o", tmp_path / "out")
    assert process(*words, FORCE_COLOR="1", TTY_COMPATIBLE="1").well
    assert len(list((tmp_path / "out").iterdir())) == 4


def test_options_that_would_do_nothing_are_refused(run: Run, inputs: Path) -> None:
    model = inputs / "m.json"
    assert run("fit", inputs / "scan.nii.gz", "-o", model).code == 0
    for option in (("--mask", "auto"), ("--set", "effective-count=50")):
        done = run("reference", model, "-o", inputs / "r.json", *option)
        assert (done.code, option[0] in done.errors[0]) == (2, True)
    words = ("normalise", inputs / "scan.nii.gz", "--to", model, "-o", inputs / "x.nii.gz")
    assert run(*words, "--method", "affine", "--set", "solver=rk4").code == 2
