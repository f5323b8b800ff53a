"""``ndflow normalise``: several scans at once, and those among them that fail."""

from pathlib import Path

import pytest
from commands import Run
from one_scan import SCAN
from phantoms import SHAPE, head, save, voxels_of
from studies import record_of


@pytest.fixture
def study(tmp_path: Path) -> list[Path]:
    """Three scans."""
    (tmp_path / "study").mkdir()
    return [save(tmp_path / "study" / f"{n}.nii.gz", head(n)) for n in range(3)]


@pytest.mark.parametrize("place", ["new", "existing", "slash/"])
def test_several_scans_go_to_a_folder(
    run: Run, study: list[Path], target: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "existing").mkdir()
    folder = tmp_path / place
    output = f"{folder}/" if place.endswith("/") else folder
    done = run("normalise", *study, "--to", target, "-o", output)
    assert done.well
    expected = sorted(f"{n}{end}" for n in range(3) for end in (".json", ".nii.gz"))
    assert sorted(path.name for path in folder.iterdir()) == expected


def test_one_scan_goes_to_a_folder_under_its_own_name(
    run: Run, scan: Path, target: Path, tmp_path: Path
) -> None:
    assert run("normalise", scan, "--to", target, "-o", f"{tmp_path}/new/").well
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "scan.json",
        "scan.nii.gz",
    ]


def test_a_scan_is_normalised_among_others_as_it_is_alone(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    assert run("normalise", *study, "--to", target, "-o", tmp_path / "out").code == 0
    for image in study:
        alone = tmp_path / f"alone_{image.name}"
        assert run("normalise", image, "--to", target, "-o", alone).code == 0
        assert alone.read_bytes() == (tmp_path / "out" / image.name).read_bytes()


def test_any_number_of_workers_gives_the_same_bytes(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for jobs, folder in enumerate(folders, start=1):
        done = run("normalise", *study, "--to", target, "-o", folder, "-j", jobs)
        assert done.well
    for image in study:
        first, second = (folder / image.name for folder in folders)
        assert first.read_bytes() == second.read_bytes()
        records = [record_of(path) for path in (first, second)]
        for record in records:
            del record["command"]  # which names the number of workers
        assert records[0] == records[1]


def failures(folder: Path) -> list[list[str]]:
    lines = (folder / "failures.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


@pytest.mark.parametrize("jobs", [1, 2])
def test_scans_that_fail_do_not_stop_the_others(
    run: Run, study: list[Path], target: Path, tmp_path: Path, jobs: int
) -> None:
    damaged, missing = tmp_path / "damaged.nii.gz", tmp_path / "missing.nii"
    damaged.write_bytes(study[0].read_bytes()[:-100])
    images = [study[0], damaged, study[1], missing, study[2]]
    folder = tmp_path / "out"
    done = run("normalise", *images, "--to", target, "-o", folder, "-j", jobs)
    assert done.code == 1
    header, *rows = failures(folder)
    assert header == ["scan", "stage", "cause", "try"]
    assert [row[:2] for row in rows] == [[str(damaged), "normalise"], [str(missing), "normalise"]]
    assert all(cause and hint for _, _, cause, hint in rows)
    assert len(done.errors) == 3
    for message, (name, _, cause, hint) in zip(done.errors, rows, strict=False):
        assert message == f"error: {cause}; {hint}"
        assert message.startswith(f"error: {name}: ")
    assert done.errors[-1] == f"error: 2 of 5 scans failed; see {folder / 'failures.tsv'}"
    assert "Traceback" not in done.err
    made = {path.name for path in folder.iterdir()}
    assert made == {"failures.tsv"} | {
        f"{n}{end}" for n in range(3) for end in (".json", ".nii.gz")
    }


def test_the_exit_code_is_2_where_all_scans_fail(run: Run, target: Path, tmp_path: Path) -> None:
    images = [tmp_path / "a.nii", tmp_path / "b.nii"]
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out")
    assert done.code == 2
    assert len(done.errors) == 3
    assert [row[0] for row in failures(tmp_path / "out")[1:]] == [str(path) for path in images]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["failures.tsv"]


def test_a_single_scan_that_fails_is_one_line_and_leaves_nothing(
    run: Run, target: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    done = run("normalise", tmp_path / "a.nii", "--to", target, "-o", tmp_path / "b.nii")
    assert done.code == 2
    assert done.err.splitlines() == done.errors
    (message,) = done.errors
    assert message.startswith(f"error: {tmp_path / 'a.nii'}: no such file; ")
    assert sorted(tmp_path.iterdir()) == before


def test_a_target_that_cannot_be_read_is_reported_once(
    run: Run, study: list[Path], tmp_path: Path
) -> None:
    done = run("normalise", *study, "--to", tmp_path / "no.nii", "-o", tmp_path / "out")
    assert done.code == 2
    assert len(done.errors) == 1
    assert done.errors[0].startswith(f"error: {tmp_path / 'no.nii'}: no such file; ")
    assert not (tmp_path / "out").exists()


def test_the_list_of_failures_is_removed_once_nothing_fails(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "3.nii.gz"
    folder = tmp_path / "out"
    assert run("normalise", *study, missing, "--to", target, "-o", folder).code == 1
    save(missing, head(3))
    done = run("normalise", *study, missing, "--to", target, "-o", folder, "--force")
    assert done.well
    assert not (folder / "failures.tsv").exists()
    assert (folder / "3.nii.gz").exists()


def test_existing_results_are_kept_and_the_others_are_made(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "0.nii.gz").write_bytes(b"mine")
    (folder / "1.json").write_bytes(b"mine too")  # a record counts as a result
    done = run("normalise", *study, "--to", target, "-o", folder)
    assert done.code == 1
    assert (folder / "0.nii.gz").read_bytes() == b"mine"
    assert (folder / "1.json").read_bytes() == b"mine too"
    assert sorted(path.name for path in folder.iterdir()) == [
        "0.nii.gz",
        "1.json",
        "2.json",
        "2.nii.gz",
        "failures.tsv",
    ]
    assert [row[0] for row in failures(folder)[1:]] == [str(path) for path in study[:2]]
    assert f"error: {folder / '0.nii.gz'}: exists already; " in done.err
    assert f"error: {folder / '1.json'}: exists already; " in done.err
    assert "--force" in done.err

    words = ("normalise", *study, "--to", target, "-o", folder, "--force")
    assert run(*words).code == 2  # not even by force, because it is not ours
    assert (folder / "0.nii.gz").read_bytes() == b"mine"
    (folder / "0.nii.gz").unlink()
    assert run(*words).code == 1
    assert (folder / "1.json").read_bytes() == b"mine too"
    (folder / "1.json").unlink()
    assert run(*words).code == 0
    assert voxels_of(folder / "0.nii.gz").shape == SHAPE


CLASHES = {
    "the same name in two folders": ("a/x.nii.gz", "b/x.nii.gz"),
    "the same scan twice": ("a/x.nii.gz", "a/x.nii.gz"),
    "another format, but the same record": ("a/x.nii.gz", "a/x.nii"),
    "header and data of one pair": ("a/x.hdr", "a/x.img"),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_results_that_would_share_a_name_are_refused_first(
    run: Run, target: Path, tmp_path: Path, clash: str
) -> None:
    images = [tmp_path / name for name in CLASHES[clash]]
    for image in images:
        image.parent.mkdir(exist_ok=True)
        if image.suffix != ".img":
            save(image, SCAN)
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out", "--force")
    assert done.code == 2
    (message,) = done.errors
    assert str(images[0]) in message
    assert not (tmp_path / "out").exists()


def test_one_file_for_several_scans_is_refused(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    done = run("normalise", *study, "--to", target, "-o", tmp_path / "out.nii.gz")
    assert done.code == 2
    assert done.errors == [
        f"error: {tmp_path / 'out.nii.gz'}: one file for 3 images; name a folder as the output"
    ]
    assert not (tmp_path / "out.nii.gz").exists()
