"""``ndflow doctor``: what people paste into an issue."""

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from commands import Run

import ndflow
from ndflow.diagnosis.cluster import Cluster
from ndflow.diagnosis.display import as_json, as_text
from ndflow.diagnosis.examination import Examination, without_folders
from ndflow.diagnosis.installation import Extra, Installation, Package
from ndflow.diagnosis.machine import Machine
from ndflow.diagnosis.self_test import Check, SelfTest

GB = 10**9
MACHINE = Machine(4, 64, 512 * GB, 16 * GB, 300 * GB, 2 * GB)
PASSED = SelfTest((Check("map", True, "truth within 0.01 standard deviations"),), 1.5)


def own(*extras: Extra, packages: tuple[Package, ...] = ()) -> Installation:
    return Installation("0.2.0", "3.14.0", "Linux-6-x86_64", packages, extras)


def test_a_sound_installation_is_called_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "erika.mustermann"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(home))
    done = run("doctor")
    assert (done.code, done.err) == (0, "")
    assert re.search(rf"^  ndflow +{re.escape(ndflow.__version__)}$", done.out, re.MULTILINE)
    assert len(re.findall(r"^  [\w-]+ +passed  ", done.out, re.MULTILINE)) == 6
    assert "All is well" in done.out
    assert "erika" not in done.out
    assert not list(home.iterdir())


def test_programs_can_read_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ndflow.diagnosis.examination.self_test", lambda: PASSED)
    found = json.loads(run("doctor", "--json").out)
    assert found["ndflow"] == ndflow.__version__
    assert found["self_test"]["passed"] is True
    assert found["problems"] == []
    assert found["packages"]["numpy"].startswith("2.")


def test_a_failed_self_test_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SelfTest((Check("map", False, "it is wrong", "Traceback of it"),), 1.0)
    monkeypatch.setattr("ndflow.diagnosis.examination.self_test", lambda: failed)
    done = run("doctor")
    assert done.code == 1
    assert re.search(r"^  map +failed  it is wrong$", done.out, re.MULTILINE)
    assert "All is well" not in done.out
    (error,) = done.errors
    assert "the self-test failed (map); try pip install" in error
    assert "/issues" in error
    assert "Traceback of it" in run("doctor", "-v").err
    quiet = run("doctor", "-q")
    assert (quiet.code, quiet.out, quiet.errors) == (1, "", done.errors)


def test_a_scheduler_that_does_not_answer_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("ndflow.diagnosis.examination.self_test", lambda: PASSED)
    monkeypatch.setattr("ndflow.diagnosis.cluster._SECONDS", 0.2)
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:9")
    done = run("doctor")
    assert done.code == 1
    assert done.errors[0].startswith("error: Dask: no Dask scheduler answers there")
    assert "127.0.0.1" not in done.out + done.err


def test_what_is_missing_is_named_with_the_line_that_installs_it() -> None:
    deepbet = Package("deepbet", ">=1.0", None)
    jinja2 = Package("jinja2", ">=3.1", "3.1.6")
    numpy = Package("numpy", ">=2.0", "1.26")
    found = own(Extra("prepare", (deepbet,)), Extra("report", (jinja2,)), packages=(numpy,))
    examination = Examination(found, MACHINE, None, PASSED)
    text = as_text(examination)
    assert "missing  deepbet, for ndflow prepare" in text
    assert re.search(r"^ +pip install 'ndflow\[prepare\]'$", text, re.MULTILINE)
    assert "report     found  jinja2 3.1.6" in text
    assert "pytorch.org/get-started" in text
    (problem,) = examination.problems
    assert problem.startswith("ndflow needs numpy>=2.0 (here 1.26); try pip install")


def test_limits_of_a_container_are_shown() -> None:
    text = as_text(Examination(own(), MACHINE, None, PASSED))
    assert "4; the machine has 64" in text
    assert "512 GB, 300 GB of it free; 16 GB may be used here" in text


@pytest.mark.parametrize("width", [30, 44, 80, 200])
def test_it_is_as_wide_as_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    needs = tuple(Package(f"package-{number}", "", "1.0") for number in range(20))
    text = as_text(Examination(own(packages=needs), MACHINE, None, PASSED))
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "\x1b" not in text


def test_colours_are_for_terminals_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if it were a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    green = "\x1b[32mpassed"
    assert green in as_text(Examination(own(), MACHINE, None, PASSED))
    monkeypatch.setenv("NO_COLOR", "1")
    assert green not in as_text(Examination(own(), MACHINE, None, PASSED))


def test_folders_of_the_user_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "erika"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "erika" / "tmp"))
    told = f"{tmp_path}/erika/tmp/x: cannot be written, nor {tmp_path}/erika/y"
    assert without_folders(told) == "TMPDIR/x: cannot be written, nor ~/y"


def test_errors_and_tracebacks_hide_them_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "erika"
    monkeypatch.setenv("HOME", str(home))
    check = Check("map", False, f"{home}/x: it is wrong", f'  File "{home}/y.py", line 1')
    cluster = Cluster(problem=f"cannot read {home}/z")
    found = Examination(own(), MACHINE, cluster, SelfTest((check,), 1.0))
    monkeypatch.setattr("ndflow.diagnosis.examination.examine", lambda _: found)
    done = run("doctor", "-v")
    assert "~/x: it is wrong" in done.err
    assert 'File "~/y.py"' in done.err
    assert "Dask: cannot read ~/z" in done.err
    assert "erika" not in done.out + done.err


@pytest.mark.parametrize(
    ("told", "published"),
    [
        ('File "/data/erika m/lib/site-packages/numpy/a.py"', 'File "site-packages/numpy/a.py"'),
        ("cannot load (/data/erika/site-packages/x.so)", "cannot load (site-packages/x.so)"),
        ('File "/data/erika m/src/ndflow/values.py"', 'File "ndflow/values.py"'),
        (r'File "D:\erika\Lib\site-packages\x.py"', r'File "site-packages\x.py"'),
        (f'File "{ndflow.__file__}"', 'File "ndflow/__init__.py"'),
        ("/data/erika/env/lib/os.py: wrong", "PYTHON/lib/os.py: wrong"),
        ("report it: https://example.org/some/ndflow/issues", None),
        ("density/ndflow/x", None),
    ],
)
def test_folders_before_packages_are_cut(
    told: str, published: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", "/data/erika/env")
    assert without_folders(told) == (published or told)


def test_backslashes_do_not_keep_folders_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", r"C:\Users\erika")
    check = Check(
        "files", False, r"C:\Users\erika\x: wrong", r"No such file: 'C:\\Users\\erika\\y'"
    )
    text = as_json(Examination(own(), MACHINE, None, SelfTest((check,), 1.0)))
    assert "erika" not in text
    (published,) = json.loads(text)["self_test"]["checks"]
    assert published["found"] == r"TMPDIR\x: wrong"


def test_folders_are_hidden_before_lines_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("tempfile.tempdir", "/erika/with/a/name/that/is/long")
    check = Check("files", False, "cannot write /erika/with/a/name/that/is/long/x")
    text = as_text(Examination(own(), MACHINE, None, SelfTest((check,), 1.0)))
    assert "TMPDIR/x" in text
    assert "erika" not in text


@pytest.mark.parametrize("missing", ["joblib", "packaging"])
def test_a_missing_package_is_named(
    missing: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(name: str) -> Distribution:
        if name == missing:
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr("ndflow.diagnosis.installation.distribution", installed)
    monkeypatch.setattr("ndflow.diagnosis.examination.self_test", lambda: PASSED)
    for name in (missing, f"{missing}.requirements", f"{missing}.specifiers"):
        monkeypatch.setitem(sys.modules, name, None)  # it cannot be imported
    done = run("doctor")
    assert done.code == 1
    assert re.match(rf"error: ndflow needs .*\b{missing}\b.*; try pip install", done.errors[0])
