"""The page of a study: when it is written, what it says, and that it is nothing but a page."""

import csv
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import typed
from phantoms import head, save, voxels_of

from ndflow._version import __version__
from ndflow.report.evaluation_section import evaluated_numbers

Run = Callable[..., Any]

SHAPE = (14, 16, 12)
SCRIPT = "<script>alert(1)</script>"
QUOTED = """o'x"y"><b>&amp;"""
SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5), SCRIPT: (400.0, 600.0, 0.6)}
EMPTY = {"meta", "link", "br", "input"}


class Html(HTMLParser):
    """A page: its elements with their attributes and the text within them, also further down."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self.open: list[tuple[str, list[str]]] = []
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        text: list[str] = []
        self.elements.append((tag, {name: value or "" for name, value in attrs}, text))
        if tag not in EMPTY:
            self.open.append((tag, text))

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, []))

    def handle_endtag(self, tag: str) -> None:
        last, _ = self.open.pop()
        assert last == tag

    def handle_data(self, data: str) -> None:
        for _, text in self.open:
            text.append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return [
            " ".join("".join(text).split())
            for name, own, text in self.elements
            if name == tag and attributes.items() <= own.items()
        ]

    @property
    def facts(self) -> dict[str, str]:
        return dict(zip(self.texts("dt"), self.texts("dd"), strict=True))

    @property
    def rows(self) -> dict[str, list[str]]:
        """The cells of each scan's row."""
        bodies = re.findall(r'<tbody id="scan-.*?</tbody>', self.source, re.DOTALL)
        parts = [Html(body) for body in bodies]
        return {part.texts("th")[0]: part.texts("td") for part in parts}

    def pictured(self) -> set[str]:
        alts = [own["aria-label"] for name, own, _ in self.elements if name == "svg"]
        ends = ": histogram and mixture, intensity map, and histogram of the result"
        return {alt.removesuffix(ends) for alt in alts if alt.endswith(ends)}

    def viewed(self) -> set[str]:
        """The scans whose volumes stand in the page."""
        found = re.findall(r'<script type="application/json" id="volumes-\d+">(.*?)<', self.source)
        return {json.loads(text)["name"] for text in found}


class Study:
    """Six scans of three sites."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[dict[str, str]] = []
        for number in range(6):
            site = list(SITES)[number // 2]
            low, grey, gain = SITES[site]
            kinds = ((low, 60.0), (grey + 20 * (number % 2), 50.0), (1000.0, 40.0))
            save(folder / f"s{number}.nii.gz", head(number, shape=SHAPE, tissues=kinds, gain=gain))
            row = {"image": f"s{number}.nii.gz", "site": site, "subject": f"p{number}"}
            self.rows.append(row)

    def table(self, name: str, rows: Any = None, columns: Any = None) -> Path:
        columns = columns or ["image", "site", "subject"]
        with (self.folder / f"{name}.tsv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, delimiter="\t", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows if rows is None else rows)
        return self.folder / f"{name}.tsv"


def shown(folder: Path) -> Html:
    return Html((folder / "report.html").read_text("utf-8"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = Study(tmp_path_factory.mktemp("study"))
    typed("cohort", made.table("all"), made.folder / "flow", "-q")
    return made


@pytest.fixture
def flow(study: Study, tmp_path: Path) -> Path:
    """A run of which there is a copy, without a page."""
    shutil.copytree(study.folder / "flow", tmp_path / "flow")
    return tmp_path / "flow"


@pytest.fixture(scope="module")
def full(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a page that ``cohort`` has written, one scan of which failed."""
    folder = tmp_path_factory.mktemp("full")
    (study.folder / "bad.nii.gz").write_bytes(b"no image")
    odd = study.folder / "odd"
    odd.mkdir()
    shutil.copy(study.folder / "s5.nii.gz", odd / "s5.nii.gz")
    rows = [
        *study.rows[1::2],
        {"image": "bad.nii.gz", "site": "Bonn", "subject": "p9"},
        # Called like another image: so its name has the subject in it.
        {"image": "odd/s5.nii.gz", "site": SCRIPT, "subject": QUOTED},
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NDFLOW_NO_REPORT")
        typed("cohort", study.table("full", rows), folder / "out", "--channel", "T1w", "-q", code=1)
    return folder / "out"


@pytest.fixture(scope="module")
def page(full: Path) -> Html:
    return shown(full)


# ── when it is written ───────────────────────────────────────────────────────────────────────────


def test_a_page_is_written_again_as_it_was(run: Run, full: Path) -> None:
    before = (full / "report.html").read_bytes()
    (full / "report.html").write_text("another")
    ran = run("report", full)
    assert (ran.code, ran.out, ran.err) == (0, f"wrote {full / 'report.html'}\n", "")
    assert (full / "report.html").read_bytes() == before
    assert not [path for path in full.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("how", ["--no-report", "NDFLOW_NO_REPORT"])
def test_no_page_where_none_is_wanted(
    run: Run, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a page was asked for")

    monkeypatch.setattr("ndflow.cli.progress.write_page", refuse)
    words: tuple[str, ...] = ()
    if how.startswith("--"):
        monkeypatch.delenv("NDFLOW_NO_REPORT")
        words = (how,)
    ran = run("cohort", study.table("two", study.rows[:2]), tmp_path / "out", "-q", *words)
    assert ran.code == 0
    assert not (tmp_path / "out" / "report.html").exists()


def test_a_group_of_a_bids_dataset_gets_a_page_and_participants_do_not(
    run: Run, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    raw, out = tmp_path / "raw", tmp_path / "out"
    for number in (0, 2):
        anat = raw / f"sub-{number}" / "anat"
        anat.mkdir(parents=True)
        shutil.copy(study.folder / f"s{number}.nii.gz", anat / f"sub-{number}_T1w.nii.gz")
    (raw / "participants.tsv").write_text("participant_id\tsite\nsub-0\tUlm\nsub-2\tTrier\n")
    (raw / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1.10.0"}')
    assert run("bids", raw, out, "participant", "-q").code == 0
    assert not (out / "report.html").exists()
    assert run("bids", raw, out, "group", "-q").code == 0
    page = shown(out)
    assert set(page.rows) == {"sub-0_T1w", "sub-2_T1w"}
    assert page.facts["Sites"] == "Trier (1), Ulm (1)"
    assert "report.html" in (out / ".bidsignore").read_text()


def test_a_page_of_other_results_goes_with_them(
    run: Run, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, table = tmp_path / "out", study.table("all")
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    assert run("cohort", table, out, "--mode", "site", "-q").code == 0
    before = (out / "report.html").read_bytes()
    assert len(list(out.glob("map_*.json"))) == len(SITES)
    assert run("cohort", table, out, "--mode", "site", "-q", "--no-report").code == 0
    assert (out / "report.html").read_bytes() == before  # nothing has changed
    assert run("cohort", table, out, "-q", "--no-report").code == 0
    assert not (out / "report.html").exists()
    assert not list(out.glob("map_*.json"))  # there are no maps of sites now
    assert len(list(out.glob("reference_*.json"))) == len(SITES)


def test_scans_that_fail_late_are_counted_in_the_reference(
    run: Run, study: Study, tmp_path: Path
) -> None:
    twofold = save(
        tmp_path / "twofold.nii.gz",
        head(9, shape=SHAPE, tissues=((300.0, 60.0), (1000.0, 40.0), (1000.0, 40.0))),
    )
    rows = [*study.rows, {"image": str(twofold), "site": "Bonn", "subject": "p9"}]
    out = tmp_path / "out"
    words = ("--channel", "T1w", "-q", "--freeze", 2)  # a third component, which one scan lacks
    assert run("cohort", study.table("late", rows), out, *words).code == 1
    assert run("report", out, "--sample", 0).code == 0
    page = shown(out)
    assert page.facts["Reference"] == "made from 7 scans"
    (paragraph,) = page.texts("p", id="methods-text")
    assert "6 T1w images" in paragraph
    assert "average density of 7 aligned scans" in paragraph
    assert "Components chosen by index, weight or mean intensity (2) stayed fixed" in paragraph
    with (out / "failures.tsv").open(newline="") as file:
        (failure,) = csv.DictReader(file, delimiter="\t")
    assert (failure["scan"], failure["try"]) == ("twofold", "write an index from 0 to 1")


def test_a_page_that_cannot_be_written_is_a_warning_and_the_study_is_done(
    run: Run, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    out = tmp_path / "out"
    (out / "report.html").mkdir(parents=True)
    ran = run("cohort", study.table("one", study.rows[:1]), out, "-q", "--force")
    assert (ran.code, ran.errors) == (0, [])
    (line,) = ran.err.splitlines()
    assert line.startswith(f"warning: {out}: no report was written: ")
    assert "report.html" in line.removeprefix(f"warning: {out}: ")
    assert (out / "images" / "s0.nii.gz").exists()


def test_without_the_packages_a_study_is_done_in_silence(
    run: Run, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    monkeypatch.setattr("ndflow.cli.progress.find_spec", lambda name: None)
    ran = run("cohort", study.table("two", study.rows[:2]), tmp_path / "out", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it(
    run: Run, flow: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setattr(
        "ndflow.report.build.find_spec", lambda name: None if name == package else 1
    )
    ran = run("report", flow)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert f"needs {package}, which is not installed" in ran.errors[0]
    assert "pip install 'ndflow[report]'" in ran.errors[0]
    assert not (flow / "report.html").exists()


def test_the_process_of_a_study_loads_nothing_that_draws(study: Study, tmp_path: Path) -> None:
    words = ["ndflow", "cohort", str(study.table("one", study.rows[:1])), str(tmp_path / "out")]
    program = f"""
import subprocess, sys
asked = []
subprocess.run = lambda words, **_: asked.append(words) or subprocess.CompletedProcess(words, 0)
sys.argv = {[*words, "-q"]!r}
from ndflow.cli import main
assert main() == 0
print(len(asked), sorted(set(sys.modules) & {{"matplotlib", "jinja2", "sklearn"}}))
"""
    environment = {name: value for name, value in os.environ.items() if name != "NDFLOW_NO_REPORT"}
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert (said.stdout, said.stderr) == ("1 []\n", "")


# ── what it says ─────────────────────────────────────────────────────────────────────────────────


def test_a_page_asks_for_nothing_from_anywhere(page: Html) -> None:
    for tag, own, _ in page.elements:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            if name in own and not own[name].startswith(("#", "data:", "blob:")):
                # Nothing is loaded for a link that somebody has to follow.
                assert (tag, name) == ("a", "href")
                assert "niivue" in own[name]
        assert "url(" not in re.sub(r"url\((#|data:)", "", " ".join(own.values()))
        assert not [name for name in own if name.startswith("on")]
    styles = " ".join(page.texts("style"))
    assert "@import" not in styles
    assert "url(" not in re.sub(r"url\((#|data:)", "", styles)
    (policy,) = (own["content"] for _, own, _ in page.elements if "http-equiv" in own)
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_names_are_text_wherever_they_stand(full: Path, page: Html) -> None:
    assert f"{SCRIPT} (2)" in page.facts["Sites"]
    assert [text for text in page.texts("h3") if text.startswith(SCRIPT)] == [f"{SCRIPT} 2 scans"]
    assert SCRIPT in page.texts("option")
    assert "<script>alert" not in page.source
    assert QUOTED not in page.source
    assert "b" not in {tag for tag, _, _ in page.elements}
    kinds = [own.get("type", "code") for tag, own, _ in page.elements if tag == "script"]
    assert kinds == ["application/json"] * 4 + ["text/plain", "code"]
    with (full / "scans.tsv").open(newline="") as file:
        names = {row["name"]: row["site"] for row in csv.DictReader(file, delimiter="\t")}
    assert names.pop("bad") == "Bonn"
    assert {name: cells[0] for name, cells in page.rows.items()} == names
    assert page.pictured() == page.viewed() == set(names)


def test_what_was_run_and_what_failed_is_said(full: Path, page: Html) -> None:
    facts = page.facts
    assert facts["Scans"] == "4 normalised, 1 failed"
    assert facts["Sites"].startswith("<script>")
    assert "Aachen (1), Bonn (1)" in facts["Sites"]
    assert facts["Images"] == "T1w"
    command = json.loads((full / "provenance.json").read_text())["command"]
    assert all(word in facts["Command"] for word in command)
    for word in ("method ndflow", "mode individual", "objective l2", "regularisation 0.001"):
        assert word in facts["Settings"]
    for word in (f"ndflow {__version__}", f"numpy {np.__version__}", "Python 3."):
        assert word in facts["Programs"]
    with (full / "failures.tsv").open(newline="") as file:
        (failure,) = csv.DictReader(file, delimiter="\t")
    assert "Scans that failed (1)" in page.texts("h3")
    assert failure["scan"] == "bad"
    assert "bad" in page.texts("th")
    assert {failure["cause"], failure["try"]} <= set(page.texts("td"))


def quantiles(image: Path) -> Any:
    """Return the quantiles at 1/200, 2/200, … of the voxels of an image that are not 0."""
    voxels = voxels_of(image)
    return np.quantile(voxels[voxels != 0], np.arange(1, 200) / 200)


def test_the_headline_is_how_far_images_of_sites_are_apart(full: Path, page: Html) -> None:
    scans: dict[str, list[list[Any]]] = {}
    with (full / "scans.tsv").open(newline="") as file:
        images = {row["name"]: row["image"] for row in csv.DictReader(file, delimiter="\t")}
    for name, cells in page.rows.items():
        raw = quantiles(Path(images[name]))
        after = quantiles(full / "images" / f"{name}.nii.gz")
        known = json.loads((full / "models" / f"{name}.json").read_text())["mixture"]
        weights, means = np.array(known["weights"]), np.ravel(known["means"])
        mean = weights @ means
        second = weights @ (1 / np.ravel(known["precisions"]) + means**2)
        scans.setdefault(cells[0], []).append(
            [raw, (raw - mean) / (second - mean**2) ** 0.5, after]
        )
    expected = []
    for condition in range(3):
        spread = np.mean([scan[condition].std() for own in scans.values() for scan in own])
        sites = [np.mean([scan[condition] for scan in own], axis=0) for own in scans.values()]
        pairs = itertools.combinations(sites, 2)
        expected.append(float(np.mean([np.abs(a - b).mean() / spread for a, b in pairs])))
    found = [page.facts[name] for name in ("as they came", "aligned", "normalised")]
    assert [float(value) for value in found] == pytest.approx(expected, rel=6e-3, abs=1e-3)
    assert expected[0] > expected[1] > expected[2]
    (sentence,) = page.texts("p", **{"class": "lead"})
    assert all(value in sentence for value in found)
    assert sentence.startswith("Histograms of sites lie")


def test_methods_and_citation_are_ready_for_a_paper(page: Html) -> None:
    (paragraph,) = page.texts("p", id="methods-text")
    for words in (
        f"4 T1w images of 3 sites were normalised with ndflow {__version__}",
        "Dirichlet-process Gaussian mixture",
        "average density of all aligned scans",
        "L2 divergence (regularisation 0.001)",
        "(Castro & Glocker, 2018)",
    ):
        assert words in paragraph
    assert "10.1007/978-3-030-00928-1_24" in page.texts("pre", id="citation-text")[0]


def test_tables_and_figures_of_an_evaluation_are_shown_after_it(
    run: Run, flow: Path, page: Html
) -> None:
    assert "Evaluation" not in page.texts("h2")
    ran = run("evaluate", flow, "--trees", 5, "--permutations", 2, "-q")
    assert (ran.code, ran.err) == (0, "")
    assert run("report", flow, "--sample", 0).code == 0
    page = shown(flow)
    assert "Evaluation" in page.texts("h2")
    titles = {"fitness": "Histograms against the average density of the aligned scans"}
    titles |= {"sites": "Distances between and within sites"}
    titles |= {"classification": "Sites told apart by random forests"}
    assert set(titles.values()) <= set(page.texts("h3"))
    cells = set(page.texts("td")) | set(page.texts("th"))
    for name in titles:
        with (flow / "evaluation" / f"{name}.tsv").open(newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                assert row.pop("condition") in cells
                for text in set(row.values()) - {"n/a"}:
                    assert (text if text.isdigit() else f"{float(text):.3g}") in cells
    labels = {own.get("aria-label", "") for tag, own, _ in page.elements if tag == "svg"}
    assert "Entropy and confidence of predicted sites" in labels


def test_a_condition_whose_name_is_a_number_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.report.evaluation_section._is_current", lambda *_: True)
    (tmp_path / "fitness.tsv").write_text("condition\tw1\n2.50\t0.123456\nnan\tn/a\n")
    (table,) = evaluated_numbers(tmp_path, None)
    assert table.rows == [["2.50", "0.123"], ["nan", "–"]]


def test_a_study_of_an_earlier_version_has_a_page_too(run: Run, flow: Path) -> None:
    for model in (flow / "models").iterdir():  # which kept no quantiles of the voxels
        known = {k: v for k, v in json.loads(model.read_text()).items() if k != "quantiles"}
        model.write_text(json.dumps(known))
    assert run("report", flow, "--sample", 0).code == 0
    came, aligned, result = (
        float(shown(flow).facts[name]) for name in ("as they came", "aligned", "normalised")
    )
    assert came > aligned > result > 0


# ── which scans, which studies ───────────────────────────────────────────────────────────────────


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing, which takes longer than all the rest."""
    for name in ("build.headline_figure", "build.populations", "scan_section.scan_figure"):
        monkeypatch.setattr(f"ndflow.report.{name}", lambda *_, **__: None)
    monkeypatch.setattr("ndflow.report.scan_section.slices_figure", lambda *_, **__: None)
    for name in ("build", "scan_section"):
        drawn = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
        monkeypatch.setattr(f"ndflow.report.{name}.svg", lambda _: drawn)  # noqa: B023


def test_a_sample_is_as_large_as_asked_and_has_flagged_scans_first(
    run: Run, study: Study, tmp_path: Path, sketched: None
) -> None:
    rows = []
    for number in range(5):
        # The fourth has too few voxels; the others are ordinary.
        shape = SHAPE if number == 3 else (26, 30, 24)
        save(tmp_path / f"b{number}.nii.gz", head(number, shape=shape))
        rows.append({"image": tmp_path / f"b{number}.nii.gz", "site": "AB"[number % 2]})
    typed("cohort", study.table("big", rows), tmp_path / "out", "-q")
    names = {f"b{number}" for number in range(5)}
    for sample, viewer in ((0, 9), (1, 1), (2, 0), (3, 1), (3, 2), (99, 99)):
        ran = run("report", tmp_path / "out", "--sample", sample, "--viewer", viewer)
        assert (ran.code, ran.err) == (0, "")
        page = shown(tmp_path / "out")
        assert set(page.rows) == names
        pictured, viewed = page.pictured(), page.viewed()
        assert (len(pictured), len(viewed)) == (min(sample, 5), min(sample, viewer, 5))
        assert viewed <= pictured
        assert "b3" in pictured or not sample
        assert "b3" in viewed or not (sample and viewer)
        assert [name for name, cells in page.rows.items() if cells[9] != "–"] == ["b3"]
        (flag,) = (text for text in page.texts("li") if text.startswith("b3 "))
        assert "voxels" in flag
        # Then one of each site in turn.
        if sample == 3:
            assert pictured == {"b3", "b0", "b1"}
        assert bool(page.texts("script", id="niivue")) == bool(viewed)


@pytest.mark.parametrize("option", ["--sample", "--viewer"])
def test_fewer_than_no_scans_cannot_be_shown(
    run: Run, flow: Path, sketched: None, option: str
) -> None:
    ran = run("report", flow, option, -1)
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert option.strip("-") in ran.errors[0]
    assert not (flow / "report.html").exists()


KINDS: dict[str, tuple[Any, list[str], tuple[object, ...], str, str]] = {
    # rows, columns, options; what the headline begins with, and what the methods say
    "nyul": (6, ["image", "site"], ("--method", "nyul"), "sites", "11 percentiles"),
    "zscore": (6, ["image", "site"], ("--method", "zscore"), "sites", "of their voxels alone"),
    "by site": (
        6,
        ["image", "site"],
        ("--mode", "site", "--objective", "cramer"),
        "sites",
        "by minimising their Cramér distance (regularisation 0.001)",
    ),
    "one site": (2, ["image", "site"], (), "scans", "2 images were normalised"),
    "no site": (3, ["image"], ("--average", "quantile"), "scans", "3 images were normalised"),
    "one scan": (1, ["image", "site"], (), "scans", "Intensities of 1 image were normalised"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_studies_of_any_kind_have_a_page(run: Run, study: Study, tmp_path: Path, kind: str) -> None:
    count, columns, words, what, methods = KINDS[kind]
    table = study.table(kind.replace(" ", "-"), study.rows[:count], columns)
    typed("cohort", table, tmp_path / "out", "-q", *words)
    ran = run("report", tmp_path / "out", "--sample", 1, "--viewer", 1)
    assert (ran.code, ran.err) == (0, "")
    page = shown(tmp_path / "out")
    assert len(page.rows) == count
    assert ("Sites" in page.texts("h2")) == (what == "sites")
    (sentence,) = page.texts("p", **{"class": "lead"})
    begin = f"Histograms of {what} lie " if count > 1 else "There is one scan"
    assert sentence.startswith(begin)
    assert methods in page.texts("p", id="methods-text")[0]
    assert "nan" not in sentence
    if count > 1:
        assert float(page.facts["normalised"]) < float(page.facts["as they came"])
    if kind == "no site":
        assert page.facts["Sites"] == "none named"


def test_a_folder_that_holds_no_finished_study_is_named_in_one_line(
    run: Run, flow: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    record = json.loads((flow / "provenance.json").read_text())
    (flow / "provenance.json").write_text(json.dumps(record | {"finished": False}))
    said = {"nowhere": "not a folder", "file": "not a folder", "empty": "holds no study"}
    for name, words in {**said, "flow": "was stopped; finish it"}.items():
        before = set(tmp_path.rglob("*"))
        ran = run("report", tmp_path / name)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
        assert ran.errors[0].startswith(f"error: {tmp_path / name}")
        assert words in ran.errors[0]
        assert set(tmp_path.rglob("*")) == before


def test_a_scan_that_has_gone_is_named_and_the_others_are_shown(
    run: Run, study: Study, tmp_path: Path, sketched: None
) -> None:
    shutil.copy(study.folder / "s0.nii.gz", tmp_path / "s0.nii.gz")
    rows = [{"image": tmp_path / "s0.nii.gz"}]
    typed("cohort", study.table("gone", rows, ["image"]), tmp_path / "out", "-q")
    (tmp_path / "out" / "report.html").write_text("old")
    (tmp_path / "s0.nii.gz").unlink()
    ran = run("report", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"It cannot be shown here: {tmp_path / 's0.nii.gz'}" in page


def test_an_evaluation_of_other_results_is_not_shown(
    run: Run, study: Study, tmp_path: Path, sketched: None
) -> None:
    table = study.table("again", study.rows, ["image", "site"])
    typed("cohort", table, tmp_path / "out", "-q")
    words = ("--trees", 5, "--permutations", 0)
    assert run("evaluate", tmp_path / "out", *words).code == 0
    assert run("report", tmp_path / "out").code == 0
    assert "Evaluation" in shown(tmp_path / "out").texts("h2")
    typed("cohort", table, tmp_path / "out", "-q", "--method", "affine")
    assert run("report", tmp_path / "out").code == 0
    assert "Evaluation" not in shown(tmp_path / "out").texts("h2")
