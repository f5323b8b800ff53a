"""``ndflow bids`` takes the options of other BIDS Apps, and means by them what they mean."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import Run, typed
from phantoms import head, save, tissue_shares
from studies import contents, read_json, read_tsv

import ndflow

SHAPE = (14, 16, 12)


def scan(path: Path, seed: int, gain: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return save(path, head(seed, shape=SHAPE, gain=gain))


def image(root: Path, name: str) -> Path:
    return root / name.split("_")[0] / "anat" / f"{name}.nii.gz"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three subjects at two sites, with T1w images and FLAIR; tests must not change it."""
    raw = tmp_path_factory.mktemp("data") / "raw"
    for number, subject in enumerate(("sub-a", "sub-b", "sub-c")):
        scan(image(raw, f"{subject}_T1w"), number)
        scan(image(raw, f"{subject}_FLAIR"), 10 + number, gain=0.5)
    scan(image(raw, "sub-a_acq-x_T1w"), 20)
    (raw / "dataset_description.json").write_text('{"Name": "Two sites", "BIDSVersion": "1.10.0"}')
    table = "participant_id\tsite\nsub-a\tA\nsub-b\tA\nsub-c\tB\n"
    (raw / "participants.tsv").write_text(table)
    return raw


@pytest.fixture(scope="module")
def done(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of the dataset, which tests must not change."""
    out = tmp_path_factory.mktemp("done") / "out"
    typed("bids", dataset, out, "group", "-q")
    return out


def names(out: Path) -> list[str]:
    return [row["name"] for row in read_tsv(out / "scans.tsv")]


# ── which images ─────────────────────────────────────────────────────────────────────────────────


def test_a_filter_file_chooses_images(run: Run, dataset: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "filter.json", tmp_path / "out"
    path.write_text('{"t1w": {"acquisition": null}, "bold": {"task": "rest"}}')
    ran = run("bids", dataset, out, "group", "--bids-filter-file", path)
    assert (ran.code, ran.errors) == (0, [])
    assert names(out) == ["sub-a_T1w", "sub-b_T1w", "sub-c_T1w"]
    assert f"warning: {path}: queries for other images are not used: bold" in ran.err


def test_queries_for_other_images_are_warned_of_once(
    run: Run, dataset: Path, tmp_path: Path
) -> None:
    path = tmp_path / "filter.json"
    path.write_text('{"t1w": {}, "flair": {}, "bold": {"task": "rest"}}')
    words = ("--suffix", "T1w", "FLAIR", "--bids-filter-file", path, "--dry-run")
    ran = run("bids", dataset, tmp_path / "out", "group", *words)
    assert (ran.code, ran.err.count("queries for other images")) == (0, 1)


def test_labels_may_be_written_with_an_underscore(run: Run, dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--participant_label", "sub-b", "c", "--jobs", 2, "-q")
    assert run("bids", dataset, out, "group", *words) == (0, "", "")
    assert names(out) == ["sub-b_T1w", "sub-c_T1w"]


# ── several suffixes ─────────────────────────────────────────────────────────────────────────────


def test_each_of_several_suffixes_is_a_study_of_its_own(
    run: Run, dataset: Path, done: Path, tmp_path: Path
) -> None:
    out, words = tmp_path / "out", ("--suffix", "T1w", "FLAIR")
    dry = run("bids", dataset, out, "group", *words, "--dry-run")
    assert (dry.code, len(dry.out.splitlines()), out.exists()) == (0, 7, False)
    words = (*words, "-q")
    assert run("bids", dataset, out, "group", *words) == (0, "", "")
    alone = tmp_path / "FLAIR"
    assert run("bids", dataset, alone, "group", "-q", "--suffix", "FLAIR").code == 0
    for suffix, expected in (("T1w", done), ("FLAIR", alone)):
        found = contents(out / suffix)
        assert found.keys() == contents(expected).keys()
        for name in ("reference.json", "sub-b/anat/sub-b_desc-ndflow_" + suffix + ".nii.gz"):
            assert found[name] == (expected / name).read_bytes()
        assert ndflow.load(out / suffix / "reference.json").channel_names == (suffix,)
    shared = ("reference.json", *(f"reference_{site}.json" for site in "AB"))
    assert sorted(path.name for path in out.iterdir()) == [
        "FLAIR",
        "T1w",
        "provenance.json",
        *shared,
    ]
    assert ndflow.load(out / "reference.json").keys() == {"T1w", "FLAIR"}
    before = contents(out)
    assert run("bids", dataset, out, "group", *words) == (0, "", "")
    assert contents(out) == before


def test_the_exit_code_of_several_studies_is_that_of_all(
    run: Run, dataset: Path, tmp_path: Path
) -> None:
    raw = shutil.copytree(dataset, tmp_path / "raw")
    for subject in ("sub-a", "sub-b", "sub-c"):
        image(raw, f"{subject}_FLAIR").write_bytes(b"")
    ran = run("bids", raw, tmp_path / "out", "group", "--suffix", "T1w", "FLAIR")
    assert ran.code == 1
    assert len(names(tmp_path / "out" / "T1w")) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--suffix", "T1w", "T2w"), "no scans sub-…_T2w"),
        (("--suffix", "T1w", "T1w"), "the same twice"),
        (("--suffix", "T1w", "FLAIR", "--reference", "builtin:T1w"), "made of T1w images"),
        (("--suffix", "T1w", "../x"), "suffix must be letters and digits"),
    ],
)
def test_suffixes_that_make_no_sense_are_refused_before_any_work(
    run: Run, dataset: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ran = run("bids", dataset, tmp_path / "out", "group", *words)
    assert (ran.code, len(ran.errors), said in ran.err) == (2, 1, True)
    assert not (tmp_path / "out").exists()


def test_several_suffixes_do_not_go_into_the_folder_of_one(
    run: Run, dataset: Path, done: Path
) -> None:
    before = contents(done)
    ran = run("bids", dataset, done, "group", "--suffix", "T1w", "FLAIR")
    assert (ran.code, f"{done}: holds a study" in ran.err) == (2, True)
    assert contents(done) == before


# ── derivatives ──────────────────────────────────────────────────────────────────────────────────


def test_masks_and_tissue_maps_are_looked_up_in_several_derivatives(
    run: Run, dataset: Path, tmp_path: Path
) -> None:
    strip, prep, out = (tmp_path / name for name in ("strip", "prep", "out"))
    for number, subject in enumerate(("sub-a", "sub-b", "sub-c")):
        mask = image(strip, f"{subject}_desc-brain_mask")
        mask.parent.mkdir(parents=True)
        save(mask, (head(number, shape=SHAPE) > 400).astype(np.uint8))
        for tissue, share in tissue_shares(SHAPE).items():
            path = image(prep, f"{subject}_label-{tissue.upper()}_probseg")
            path.parent.mkdir(parents=True, exist_ok=True)
            save(path, share.astype(np.float32))
    words = ("-d", f"synthstrip={strip}", prep, "--proportions", "tissue")
    ran = run("bids", dataset, out, "group", *words)
    assert (ran.code, ran.errors) == (0, [])
    row = read_tsv(out / "scans.tsv")[-1]
    assert row["mask"] == str(image(strip, "sub-c_desc-brain_mask"))
    assert row["gm"] == str(image(prep, "sub-c_label-GM_probseg"))
    links = read_json(out / "dataset_description.json")["DatasetLinks"]
    named = {"raw": dataset, "synthstrip": strip, "prep": prep}
    assert {name: (out / link).resolve() for name, link in links.items()} == {
        name: path.resolve() for name, path in named.items()
    }
    sources = read_json(out / "sub-c/anat/sub-c_desc-ndflow_T1w.json")["Sources"]
    assert sources == [
        "bids:raw:sub-c/anat/sub-c_T1w.nii.gz",
        "bids:synthstrip:sub-c/anat/sub-c_desc-brain_mask.nii.gz",
    ]


def test_derivatives_that_are_of_no_use_are_named(run: Run, dataset: Path, tmp_path: Path) -> None:
    prep, out = tmp_path / "prep", tmp_path / "out"
    scan(image(prep, "sub-a_space-MNI_desc-brain_mask"), 0)
    ran = run("bids", dataset, out, "participant", "-d", prep, "--mask", "auto")
    assert ran.code == 0
    assert f"warning: {prep}: no mask or tissue probability map of these scans" in ran.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("no",), "no: no such folder"),
        (("x=no",), "no: no such folder"),
        (("x=",), "names no folder"),
        (("x=a", "x=b"), "'x' is given twice"),
        (("raw=a",), "'raw' names the dataset itself"),
    ],
)
def test_derivatives_that_make_no_sense_are_refused(
    run: Run, dataset: Path, tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    ran = run("bids", dataset, tmp_path / "out", "group", "--derivatives", *given)
    assert (ran.code, len(ran.errors), said in ran.err) == (2, 1, True)
