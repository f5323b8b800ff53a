"""What is doubtful about scans and masks is said, recorded and shown."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran, Run, typed
from pages import ReportPage, report_of
from phantoms import head, save, voxels_of
from scipy.stats import wasserstein_distance
from studies import read_json, record_of, write_tsv

import ndflow
from ndflow.values import Doubt

SHAPE = (24, 24, 24)
COUNT = int(np.prod(SHAPE))
ODD: dict[str, Callable[[np.random.Generator], Any]] = {
    "normal": lambda rng: rng.normal(500, 60, COUNT),
    "bimodal": lambda rng: rng.choice([300, 800], COUNT) + rng.normal(0, 20, COUNT),
    "uneven": lambda rng: rng.choice([300, 800], COUNT, p=[0.9, 0.1]) + rng.normal(0, 20, COUNT),
    "uniform": lambda rng: rng.uniform(100, 900, COUNT),
    "spike": lambda rng: np.where(rng.random(COUNT) < 0.4, 500, rng.normal(500, 150, COUNT)),
    "spikes": lambda rng: rng.choice([100, 300, 500, 900], COUNT) + rng.normal(0, 2, COUNT),
    "skewed": lambda rng: 1 + rng.exponential(200, COUNT),
}
FAR, WORSE = "still", "further from its target"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scans with histograms that no brain has."""
    folder = tmp_path_factory.mktemp("odd")
    for seed, name in enumerate(ODD):
        save(folder / f"{name}.nii.gz", drawn(name, seed))
    return folder


def drawn(name: str, seed: int) -> np.ndarray[Any, Any]:
    voxels = np.rint(ODD[name](np.random.default_rng(seed))).clip(1).reshape(SHAPE)
    return voxels.astype(np.int16)


def warnings_of(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if line.startswith("warning: ")]


def apart(one: Path, two: Path) -> float:
    """Return the distance of two scans in standard deviations of the second."""
    ours, theirs = (voxels_of(path).ravel() for path in (one, two))
    return float(wasserstein_distance(ours, theirs) / theirs.std())


@pytest.mark.parametrize(
    ("scan", "target", "words"),
    [
        ("normal", "bimodal", [FAR, WORSE]),
        ("bimodal", "uneven", [FAR, "stretches", "squeezes"]),
        ("spikes", "uneven", [FAR, "stretches", "the mixture deviates"]),
    ],
)
def test_a_poor_match_is_a_warning_with_the_figures_of_the_result(
    run: Run, odd: Path, tmp_path: Path, scan: str, target: str, words: list[str]
) -> None:
    image, out = odd / f"{scan}.nii.gz", tmp_path / "out.nii.gz"
    aim = odd / f"{target}.nii.gz"
    ran = run("normalise", image, "--to", aim, "-o", out, "--preset", "paper")
    assert (ran.code, ran.errors) == (0, [])
    own = [line for line in warnings_of(ran) if line.startswith(f"warning: {image}: ")]
    for word in words:
        assert [line for line in own if word in line], (word, own)
    left = apart(out, aim)
    assert 0.25 < left < 0.9
    (far,) = (line for line in own if FAR in line)
    told = float(far.partition(FAR)[2].split()[0])
    assert told == pytest.approx(left, abs=0.03)
    assert [
        f"warning: {image}: {Doubt.from_dict(doubt)}" for doubt in record_of(out)["doubts"]
    ] == own
    assert run("normalise", image, "--to", aim, "-o", out, "--force", "-q").err == ""


def test_fit_and_reference_pass_doubts_on(run: Run, odd: Path, tmp_path: Path) -> None:
    spike, model = odd / "spike.nii.gz", tmp_path / "spike.json"
    ran = run("fit", spike, "-o", model)
    (line,) = warnings_of(ran)
    assert line.startswith(f"warning: {spike}: poor fit: the mixture deviates")
    (doubt,) = read_json(model)["doubts"]
    assert doubt["kind"] == "poor fit"
    ran = run("reference", model, odd / "normal.nii.gz", "-o", tmp_path / "reference.json")
    (again,) = warnings_of(ran)
    assert again == line.replace(str(spike), str(model))
    ran = run("normalise", odd / "normal.nii.gz", "--to", model, "-o", tmp_path / "out.nii.gz")
    assert again in warnings_of(ran)


# ── studies ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of eight ordinary scans and four odd ones, in the folder of its table."""
    folder = tmp_path_factory.mktemp("study")
    rows = []
    for number in range(8):
        save(folder / f"s{number}.nii.gz", head(number, shape=(26, 30, 24)))
        rows.append({"image": f"s{number}.nii.gz", "site": "AB"[number % 2]})
    for place in (1, 3, 5, 7):
        image = save(folder / f"odd{place}.nii.gz", drawn("spike", place))
        rows.insert(place, {"image": image.name, "site": "A"})
    write_tsv(folder / "table.tsv", rows)
    ordinary = [folder / f"s{number}.nii.gz" for number in range(8)]
    typed("reference", *ordinary, "-o", folder / "reference.json", "-q")
    typed("cohort", folder / "table.tsv", folder / "out", *given(folder), "-q")
    return folder


def given(folder: Path) -> tuple[object, ...]:
    return ("--reference", folder / "reference.json")


def counted(ran: Ran) -> dict[str, str]:
    """Return the lines about doubts by their kind."""
    lines = [line.removeprefix("warning: ").partition(": ") for line in warnings_of(ran)]
    return {kind: rest for kind, _, rest in lines}


def test_a_study_counts_its_doubts_in_one_line_per_kind(run: Run, doubtful: Path) -> None:
    names = ["odd1", "odd3", "odd5", "odd7"]
    first = run("cohort", doubtful / "table.tsv", doubtful / "new", *given(doubtful))
    assert first.code == 0
    found = counted(first)
    assert found["poor fit"].startswith("4 of 12 scans (odd1, odd3, odd5, odd7): look for ")
    assert found["noise amplified"].startswith("4 of 12 scans (odd1, odd3, odd5, odd7): noise ")
    assert len(found) == len(warnings_of(first))  # not one per scan
    kept = run("cohort", doubtful / "table.tsv", doubtful / "new", *given(doubtful), "--jobs", 2)
    assert counted(kept) == found
    assert run("cohort", doubtful / "table.tsv", doubtful / "new", *given(doubtful), "-q").err == ""
    to = doubtful / "reference.json"
    summary = ndflow.cohort(doubtful / "table.tsv", doubtful / "new", reference=to, report=False)
    assert (summary.done, summary.kept) == (12, 12)
    assert list(summary.doubts) == list(found)
    assert summary.doubts["poor fit"] == names
    saved = read_json(doubtful / "new" / "provenance.json")["doubts"]
    assert list(saved) == names
    for name in names:
        kinds = [doubt["kind"] for doubt in saved[name]]
        single = [
            doubt["kind"]
            for doubt in read_json(doubtful / "new" / "maps" / f"{name}.json")["doubts"]
        ]
        assert set(single) == set(kinds) - {"unusual divergence"}
        assert [
            doubt["kind"]
            for doubt in read_json(doubtful / "new" / "models" / f"{name}.json")["doubts"]
        ] == ["poor fit"]


def test_the_page_counts_doubts_at_its_top_and_shows_those_scans_first(
    run: Run, doubtful: Path, tmp_path: Path
) -> None:
    shutil.copytree(doubtful / "out", tmp_path / "out")
    assert run("report", tmp_path / "out", "--sample", 0).code == 0
    page: ReportPage = report_of(tmp_path / "out")
    (overview,) = page.texts("p", **{"class": "overview"})
    assert overview.startswith("4 of 12 scans to check: ")
    assert "poor fit (4)" in overview
    assert page.source.index('class="overview"') < page.source.index('id="check"')
    assert page.source.index('id="check"') < page.source.index('id="result"')
    assert list(page.rows)[:5] == ["odd1", "odd3", "odd5", "odd7", "s0"]
    listed = [text for text in page.texts("li") if text.startswith("odd3 ")]
    saved = read_json(tmp_path / "out" / "provenance.json")["doubts"]["odd3"]
    assert len(listed) == len({doubt["kind"] for doubt in saved})  # once under each kind of doubt
    for doubt in saved:
        assert any(doubt["text"] in text for text in listed)
        assert doubt["hint"] in page.source.replace("&#39;", "'")


# ── pages that were not written ──────────────────────────────────────────────────────────────────


def overshooting(scan: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
    """Return a scan with a few clearly negative voxels, on a scale of its own."""
    flat = scan.ravel() * (1.0 + 4 * number)
    inside = np.flatnonzero(flat)
    flat[inside[::100]] *= -0.6
    return flat.reshape(scan.shape)


def test_studies_with_negative_intensities_have_a_page(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    rows = []
    for number in range(3):
        scan = head(number).astype(float)
        mask = save(tmp_path / f"m{number}.nii", (scan > 0).astype(np.uint8))
        image = np.where(scan > 0, overshooting(scan, number), 0).astype(np.float32)
        path = save(tmp_path / f"s{number}.nii", image)
        rows.append({"image": path.name, "mask": mask.name, "site": "ABC"[number]})
    ran = run("cohort", write_tsv(tmp_path / "t.tsv", rows), tmp_path / "out", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert list(report_of(tmp_path / "out").rows) == ["s0", "s1", "s2"]
