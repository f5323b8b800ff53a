"""American and former spellings of commands, options and modes."""

from pathlib import Path

import pytest
from commands import Run
from hypothesis import assume, given
from hypothesis import strategies as st
from phantoms import head, save
from studies import read_json

from ndflow.cli.spelling import in_our_spelling


def test_the_american_spelling_does_the_same(run: Run, inputs: Path) -> None:
    scan, target, outputs = inputs / "scan.nii.gz", inputs / "reference.json", []
    for verb in ("normalise", "normalize"):
        outputs.append(inputs / f"{verb}.nii.gz")
        assert run(verb, scan, "--to", target, "-o", outputs[-1]).well
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_a_file_may_have_the_name_of_a_command(run: Run, inputs: Path) -> None:
    image = save(inputs / "normalize.nii.gz", head(0))
    to, out = inputs / "reference.json", inputs / "out.nii.gz"
    assert run("normalize", image, "--to", to, "-o", out).code == 0
    assert out.exists()


@pytest.mark.parametrize("spelling", ["site", "centre", "center"])
@pytest.mark.parametrize("words", [("--mode", "{}"), ("--mode={}",)])
def test_the_mode_site_was_called_centre(
    run: Run, tmp_path: Path, spelling: str, words: tuple[str, ...]
) -> None:
    scans = [save(tmp_path / f"s{n}.nii.gz", head(n, shape=(12, 14, 10))) for n in range(2)]
    table, out = tmp_path / "scans.tsv", tmp_path / "out"
    rows = [f"{path.name}\t{site}" for path, site in zip(scans, "AB", strict=True)]
    table.write_text("\n".join(["image\tsite", *rows, ""]))
    chosen = [word.format(spelling) for word in words]
    assert run("cohort", table, out, "-q", *chosen) == (0, "", "")
    made = read_json(out / "provenance.json")
    assert made["settings"]["mode"] == "site"
    assert made["command"][-len(chosen) :] == chosen  # as it was typed


@pytest.mark.parametrize("words", [("--regularization", "0.02"), ("--regularization=0.02",)])
def test_regularisation_may_be_spelt_with_a_z(
    run: Run, inputs: Path, words: tuple[str, ...]
) -> None:
    to, out = inputs / "reference.json", inputs / "out.nii.gz"
    assert run("normalise", inputs / "scan.nii.gz", "--to", to, "-o", out, *words).code == 0
    assert read_json(inputs / "out.json")["settings"]["regularisation"] == 0.02


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("normalize", "normalise"),
        ("normalize normalize --to normalize", "normalise normalize --to normalize"),
        ("cohort centre center --mode center", "cohort centre center --mode site"),
        ("cohort --mode=centre centre", "cohort --mode=site centre"),
        ("cohort --mode individual centre", "cohort --mode individual centre"),
        ("cohort --mode x=centre", "cohort --mode x=centre"),
        ("cohort --mode=x=centre", "cohort --mode=x=centre"),
        ("cohort --mode", "cohort --mode"),
        ("cohort --model=centre", "cohort --model=centre"),
        ("centre", "centre"),
        ("fit a=center --mask b=centre", "fit a=center --mask b=centre"),
        ("normalise --regularization=1e-2 x", "normalise --regularisation=1e-2 x"),
        ("normalise --regularizations", "normalise --regularizations"),
        ("fit -- --regularization --mode centre", "fit -- --regularization --mode centre"),
        ("bids a b group --participant_label x_y", "bids a b group --participant-label x_y"),
        ("bids a b group --n_cpus=2 --nprocs 3", "bids a b group --jobs=2 --jobs 3"),
        ("bids a b group --masks m --auto-mask", "bids a b group --derivatives m --mask=auto"),
        ("cohort --auto-mask --masks m", "cohort --mask=auto --masks m"),
        ("fit a --auto-mask", "fit a --auto-mask"),
        ("cohort --mode -- --auto-mask", "cohort --mode -- --auto-mask"),
        ("", ""),
    ],
)
def test_only_commands_options_and_modes_are_respelt(typed: str, expected: str) -> None:
    assert in_our_spelling(typed.split()) == expected.split()


RESPELT = ("centre", "center", "site", "normalize", "regularization")
OPTIONS = ("-o", "--to", "--mask", "--exclude", "--pattern", "--masks", "--site-column", "--method")
pairs = st.tuples(st.sampled_from(OPTIONS), st.sampled_from(RESPELT) | st.text())


@given(options=st.lists(pairs), equals=st.booleans())
def test_the_value_of_another_option_is_never_changed(
    options: list[tuple[str, str]], equals: bool
) -> None:
    words = ["cohort", *(["=".join(pair) for pair in options] if equals else sum(options, ()))]
    assume(all(word.partition("=")[0] not in ("--mode", "--regularization") for word in words))
    assert in_our_spelling(words) == words
