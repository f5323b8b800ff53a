"""What is doubtful about scans is printed, recorded and shown."""

from pathlib import Path

import numpy as np
import pytest
from commands import Ran, Run, typed
from numpy.typing import NDArray
from pages import report_of
from phantoms import head, save
from studies import read_json, record_of, write_tsv

SHAPE = (24, 24, 24)
COUNT = int(np.prod(SHAPE))
WIDE = np.diag([5.0, 5.0, 5.0, 1.0])


def odd(name: str, seed: int = 0) -> NDArray[np.int16]:
    """Return a scan with a histogram that no brain has."""
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.normal(500, 60, COUNT),
        "spike": np.where(rng.random(COUNT) < 0.4, 500, rng.normal(500, 150, COUNT)),
    }[name]
    return np.rint(values).clip(1).reshape(SHAPE).astype(np.int16)


def warnings_of(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if line.startswith("warning: ")]


def test_fit_and_reference_pass_doubts_on(run: Run, tmp_path: Path) -> None:
    spike, normal = (save(tmp_path / f"{name}.nii", odd(name)) for name in ("spike", "normal"))
    model = tmp_path / "spike.json"
    (line,) = warnings_of(run("fit", spike, "-o", model))
    assert line.startswith(f"warning: {spike}: poor fit: the mixture deviates")
    assert [doubt["kind"] for doubt in read_json(model)["doubts"]] == ["poor fit"]
    average = tmp_path / "reference.json"
    again, few = warnings_of(run("reference", model, normal, "-o", average))
    assert again.startswith(f"warning: poor fit: 1 of 2 scans ({model}): look for ")
    assert few.startswith(f"warning: {average}: few scans: the reference is the average of 2 scans")
    ran = run("normalise", normal, "--to", average, "-o", tmp_path / "o.nii")
    assert few in warnings_of(ran)
    assert record_of(tmp_path / "o.nii")["target"]["doubts"][0]["kind"] == "few scans"
    ran = run("normalise", normal, "--to", model, "-o", tmp_path / "o.nii", "--force")
    assert line.replace(str(spike), str(model)) in warnings_of(ran)
    assert ran.out.splitlines()[-1].endswith("; warnings about 1 of 1 image")


def test_what_was_normalised_before_is_noticed_unless_it_was_undone(
    run: Run, tmp_path: Path
) -> None:
    scan, aim = (
        save(tmp_path / f"{n}.nii", odd("normal", seed)) for n, seed in (("a", 1), ("b", 2))
    )
    first, back, out = (tmp_path / name for name in ("first.nii", "back.nii", "out.nii"))
    assert warnings_of(run("normalise", scan, "--to", aim, "-o", first)) == []
    for words in (
        ("normalise", first, "--to", aim),
        ("apply", first, "--map", tmp_path / "first.json"),
    ):
        (line,) = warnings_of(run(*words, "-o", out, "--force"))
        assert line.startswith(f"warning: {first}: already normalised: ndflow has ")
    undo = ("apply", first, "--map", tmp_path / "first.json", "--inverse", "-o", back)
    assert (
        warnings_of(run(*undo))
        == warnings_of(run("normalise", back, "--to", aim, "-o", out, "--force"))
        == []
    )
    table = write_tsv(tmp_path / "t.tsv", [{"image": name} for name in ("a.nii", "b.nii")])
    run("cohort", table, tmp_path / "study", "-q")
    again = ("cohort", tmp_path / "study" / "images", tmp_path / "again", "--no-report")
    assert "already normalised: 2 of 2 scans" in run(*again).err


@pytest.mark.parametrize("command", ["normalise", "cohort", "bids"])
def test_images_of_another_contrast_by_name_are_refused_before_any_work(
    run: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "dataset_description.json").write_text("{}", "utf-8")
    folder, out = tmp_path / "sub-1" / "anat", tmp_path / "out"
    folder.mkdir(parents=True)
    scans = [save(folder / f"sub-1_{name}.nii", odd("normal")) for name in ("T1w", "T2w")]
    table = write_tsv(tmp_path / "t.tsv", [{"image": scans[1]}])
    right, wrong = {
        "normalise": (("normalise", scans[0], "--to"), ("normalise", scans[1], "--to")),
        "cohort": (("cohort", table, "--channels", "T1w"), ("cohort", table)),
        "bids": (("bids", tmp_path), ("bids", tmp_path, "--suffix", "T2w")),
    }[command]
    end = ("builtin:T1w", "-o", tmp_path / "out.nii")
    if command != "normalise":
        end = ("--reference", "builtin:T1w")
        level = ["group"] if command == "bids" else []
        right, wrong = ((*words[:2], out, *level, *words[2:]) for words in (right, wrong))
    refused = run(*wrong, *end)
    assert refused.code == 2
    assert "T2w" in refused.errors[0]
    assert "builtin:T1w@1" in refused.errors[0]
    assert not out.exists()
    assert run(*right, *end).code == 0


def test_a_scan_whose_name_says_something_else_than_most_is_named(run: Run, tmp_path: Path) -> None:
    names = [f"{number}_{'FLAIR' if number == 1 else 'T1w'}.nii" for number in range(3)]
    rows = [{"image": save(tmp_path / name, odd("normal", int(name[0])))} for name in names]
    ran = run("cohort", write_tsv(tmp_path / "t.tsv", rows), tmp_path / "out", "--no-report")
    assert any("other contrast: 1 of 3 scans (1_FLAIR)" in line for line in warnings_of(ran))


def test_a_study_counts_its_doubts_in_one_line_per_kind_and_in_its_report(
    run: Run, tmp_path: Path
) -> None:
    out, names = tmp_path / "out", ["odd1", "odd3"]
    ordinary = [
        save(tmp_path / f"s{number}.nii.gz", head(number, shape=(26, 30, 24)))
        for number in range(4)
    ]
    rows = [{"image": path.name, "site": "AB"[place % 2]} for place, path in enumerate(ordinary)]
    for place in (1, 3):
        image = save(tmp_path / f"odd{place}.nii.gz", odd("spike", place))
        rows.insert(place, {"image": image.name, "site": "A"})
    typed("reference", *ordinary, "-o", tmp_path / "reference.json", "-q")
    words = ("cohort", write_tsv(tmp_path / "t.tsv", rows), out)
    words += ("--reference", tmp_path / "reference.json")
    first = run(*words)
    assert first.code == 0
    kinds = dict(line.split(": ", 2)[1:] for line in warnings_of(first))
    assert len(kinds) == len(warnings_of(first))  # not one per scan
    assert kinds["poor fit"].startswith("2 of 6 scans (odd1, odd3): look for ")
    assert warnings_of(run(*words)) == warnings_of(first)  # kept results are counted, too
    saved = read_json(out / "provenance.json")["doubts"]
    assert list(saved) == names
    assert run("report", out, "--sample", 0).code == 0
    page = report_of(out)
    overview = page.texts("p", **{"class": "overview doubt"})
    assert any(line.startswith("2 of 6 scans") and "poor fit (2)" in line for line in overview)
    assert list(page.rows)[:3] == [*names, "s0"]
    for doubt in saved["odd3"]:
        assert any(doubt["text"] in text for text in page.texts("li"))


@pytest.fixture
def one_inverted(tmp_path: Path) -> Path:
    """A table of three scans of each of two sites, inverted at the second."""
    away = np.linalg.norm(np.indices((24, 24, 24)) - 11.5, axis=0)
    rows = []
    for number in range(6):
        noise = np.random.default_rng(number).normal(0, 40, away.shape)
        brain = 1500 - 60 * away + noise
        values = 2000 - brain if number >= 3 else brain
        save(tmp_path / f"{number}_T1w.nii.gz", (values * (away < 10)).astype(np.int16), WIDE)
        rows.append({"image": f"{number}_T1w.nii.gz", "site": "AB"[number >= 3]})
    return write_tsv(tmp_path / "scans.tsv", rows)


def test_an_inverted_site_stops_a_study_in_one_line_and_is_first_in_the_report(
    run: Run, one_inverted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    refused = run("cohort", one_inverted, out, "-q")
    assert refused.code == 2
    (line,) = refused.err.strip().splitlines()
    assert line.startswith("error: inverted contrast: at B, ")
    assert not (out / "images").exists()
    assert run("cohort", one_inverted, out, "-q", "--force").code == 0
    (doubt,) = (one for one in read_json(out / "provenance.json")["of_study"] if "B" in one["text"])
    assert doubt["kind"] == "inverted contrast"
    assert run("report", out).code == 0
    source = report_of(out).source
    assert (
        source.index("Inverted contrast")
        < source.index("each site: A and B")
        < source.index(">Brains")
    )
