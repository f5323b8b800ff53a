"""``--lesions`` and ``--freeze``: lesions keep their contrast, frozen components stay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import Run, typed
from phantoms import head, radii, save
from studies import positive, read_json, record_of

import ndflow

TISSUES = ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0))
BRIGHT = 1350.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight healthy scans, and one with a bright lesion."""
    place = tmp_path_factory.mktemp("lesions")
    for number in range(8):
        save(place / f"h{number}.nii.gz", scan(number))
    ill = scan(9)
    generator = np.random.default_rng(0)
    where = lesion()
    ill[where] = np.rint(generator.normal(BRIGHT, 30, np.count_nonzero(where)))
    save(place / "ill.nii.gz", ill)
    return place


def scan(number: int) -> Any:
    tissues = tuple((mean * (1 + 0.01 * (number % 3)), sd) for mean, sd in TISSUES)
    return head(number, tissues=tissues)


def lesion() -> Any:
    return (radii() < 0.45) & (np.arange(radii().shape[0])[:, None, None] < 12)


@pytest.fixture(scope="module")
def healthy(folder: Path) -> Path:
    reference = folder / "healthy.json"
    scans = (folder / f"h{number}.nii.gz" for number in range(8))
    typed("reference", *scans, "--lesions", "auto", "-o", reference)
    return reference


def test_a_lesion_is_found_reported_and_keeps_its_contrast(
    run: Run, folder: Path, healthy: Path
) -> None:
    plain, spared = folder / "plain.nii.gz", folder / "spared.nii.gz"
    assert run("normalise", folder / "ill.nii.gz", "--to", healthy, "-o", plain).code == 0
    words = ("normalise", folder / "ill.nii.gz", "--to", healthy, "-o", spared)
    ran = run(*words, "--lesions", "auto")
    found = record_of(spared)["match"]["lesions"]
    assert ran.code == 0
    (line,) = (part for part in ran.err.splitlines() if "lesion" in part)
    start = f"warning: {folder / 'ill.nii.gz'}: kept out as a lesion: {found['share']:.1%} of the"
    assert line.startswith(start)
    assert f"around intensity {found['intensities'][0]:.4g}" in line
    assert "kept out of the match as a lesion; check that a lesion has these intensities" in line
    (doubt,) = (one for one in record_of(spared)["doubts"] if "lesion" in one["kind"])
    assert doubt["kind"] == "kept out as a lesion"
    assert f"{doubt['text'].removesuffix('.')}; {doubt['hint']}" in line
    assert found["overlap"] >= found["needed"]
    assert not found["unlike"]
    assert found["share"] == pytest.approx(lesion().sum() / (radii() < 1).sum(), rel=0.2)
    assert all(abs(mean - BRIGHT) < 40 for mean in found["intensities"])
    assert found["excess"] > found["threshold"]
    assert "lesions" not in record_of(plain)["match"]

    def contrast(values: Any) -> float:
        white = (scan(9) > 900) & ~lesion() & (scan(9) < 1100)
        grey = (scan(9) > 600) & (scan(9) < 800)
        high, low = np.median(values[white]), np.median(values[grey])
        return float((np.median(values[lesion()]) - high) / (high - low))

    before, without, kept = (
        contrast(np.asarray(nibabel.load(path).dataobj))
        for path in (folder / "ill.nii.gz", plain, spared)
    )
    assert kept / before == pytest.approx(1, abs=0.1)
    assert abs(without / before - 1) > abs(kept / before - 1)


def test_no_lesion_is_found_in_a_healthy_scan(run: Run, folder: Path, healthy: Path) -> None:
    save(folder / "new.nii.gz", scan(20))
    for name, more in (("plain", ()), ("watched", ("--lesions", "auto"))):
        words = ("normalise", folder / "new.nii.gz", "--to", healthy)
        assert run(*words, "-o", folder / f"{name}_new.nii.gz", *more).well
    assert record_of(folder / "watched_new.nii.gz")["match"]["lesions"]["components"] == []
    images = [
        np.asarray(nibabel.load(folder / f"{n}_new.nii.gz").dataobj) for n in ("plain", "watched")
    ]
    assert np.array_equal(*images)


def other_scanner() -> Any:
    """Return a scan with the same lesion, of a scanner with more noise and another contrast."""
    image = head(30, tissues=((380.0, 110.0), (620.0, 100.0), (1000.0, 90.0)))
    where = lesion()
    image[where] = np.rint(np.random.default_rng(1).normal(1700, 30, np.count_nonzero(where)))
    return image


def large_lesion() -> Any:
    """Return a scan of the same scanner, of which a sixth is bright."""
    image = scan(31)
    where = (radii() < 1) & (np.arange(radii().shape[0])[:, None, None] < 8)
    image[where] = np.rint(np.random.default_rng(2).normal(1500, 30, np.count_nonzero(where)))
    return image


@pytest.mark.parametrize("image", [other_scanner, large_lesion])
def test_nothing_is_kept_out_of_a_scan_that_is_unlike_the_reference_and_it_says_so(
    run: Run, folder: Path, healthy: Path, tmp_path: Path, image: Callable[[], Any]
) -> None:
    path = save(tmp_path / "odd.nii.gz", image())
    plain, watched = tmp_path / "plain.nii.gz", tmp_path / "watched.nii.gz"
    run("normalise", path, "--to", healthy, "-o", plain)
    ran = run("normalise", path, "--to", healthy, "-o", watched, "--lesions", "auto")
    assert ran.code == 0
    (line,) = (part for part in ran.err.splitlines() if "lesion" in part and "overlap" in part)
    assert line.startswith(
        f"warning: {path}: lesions not looked for: it is unlike any healthy scan"
    )
    assert "use a reference of healthy scans from the same scanner" in line
    record = record_of(watched)
    assert record["match"]["lesions"]["unlike"]
    assert record["match"]["lesions"]["components"] == []
    assert "lesions not looked for" in [doubt["kind"] for doubt in record["doubts"]]
    assert plain.read_bytes() == watched.read_bytes()


def test_the_help_calls_it_experimental_and_names_its_limits(run: Run) -> None:
    for command in ("normalise", "cohort"):
        words = " ".join(run(command, "--help").out.replace("│", " ").split())
        assert "Experimental. Find intensities brighter than in any healthy scan" in words
        assert "at most 10 % of a scan" in words
    words = " ".join(run("reference", "--help").out.replace("│", " ").split())
    assert "Experimental. Record that the scans are healthy" in words


def test_a_study_of_patients_finds_lesions_with_a_reference_of_healthy_scans(
    run: Run, folder: Path, healthy: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.tsv").write_text(f"image\n{folder / 'ill.nii.gz'}\n{folder / 'h1.nii.gz'}\n")
    words = ("cohort", tmp_path / "t.tsv", tmp_path / "out", "--lesions", "auto")
    ran = run(*words)
    assert ran.code == 2
    assert "needs a reference of healthy scans" in ran.err
    assert run(*words, "--reference", healthy).code == 0
    maps = [read_json(tmp_path / "out/maps" / f"{name}.json") for name in ("ill", "h1")]
    found = [made["match"]["lesions"]["components"] for made in maps]
    assert found[0]
    assert not found[1]
    doubts = [[doubt["kind"] for doubt in made.get("doubts", ())] for made in maps]
    assert "kept out as a lesion" in doubts[0]
    assert not any("lesion" in kind for kind in doubts[1])
    assert run("report", tmp_path / "out").code == 0
    page = (tmp_path / "out/report.html").read_text()
    assert "Kept out of the match as a lesion" in page
    assert "No lesion was found." in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--lesions", "auto", "--to", "h1.nii.gz"),
            "does not know what is healthy",
        ),
        (("--lesions", "auto", "--freeze", "0", "--to", "healthy.json"), "give one of them"),
        (
            ("--lesions", "auto", "--method", "nyul", "--to", "healthy.json"),
            "lesions is not an option of",
        ),
        (("--freeze", "99", "--to", "healthy.json"), "a component that does not exist"),
        (("--freeze", "bright", "--to", "healthy.json"), "write an index (3)"),
        (("--freeze", "9:1", "--to", "healthy.json"), "the lower end first"),
    ],
)
def test_contradictory_options_are_refused(
    run: Run, folder: Path, healthy: Path, monkeypatch: pytest.MonkeyPatch, words: Any, said: str
) -> None:
    monkeypatch.chdir(folder)
    ran = run("normalise", "ill.nii.gz", "-o", "no.nii.gz", *words)
    assert ran.code == 2
    assert said in ran.err
    assert not Path("no.nii.gz").exists()


def test_a_reference_made_without_lesions_auto_cannot_find_lesions(run: Run, folder: Path) -> None:
    reference = folder / "bare.json"
    assert run("reference", folder / "h1.nii.gz", folder / "h2.nii.gz", "-o", reference).code == 0
    words = ("normalise", folder / "ill.nii.gz", "--to", reference, "-o", folder / "no.nii.gz")
    ran = run(*words, "--lesions", "auto")
    assert ran.code == 2
    assert "ndflow reference --healthy" in ran.err


def test_frozen_components_stay_where_the_alignment_takes_them(
    run: Run, folder: Path, healthy: Path
) -> None:
    output = folder / "frozen.nii.gz"
    words = ("normalise", folder / "ill.nii.gz", "--to", healthy, "-o", output)
    assert run(*words, "--freeze", "1250:", "--freeze", "weight<0.01").well
    made = record_of(output)
    assert made["settings"]["freeze"] == ["1250:", "weight<0.01"]
    mixture = ndflow.GaussianMixture.from_dict(made["mixture"])
    chosen = (mixture.means[:, 0] >= 1250) | (mixture.weights < 0.01)
    assert made["match"]["frozen"] == np.flatnonzero(chosen).tolist() != []
    imap = ndflow.load(output.with_name("frozen.json"))
    target = ndflow.load(healthy)
    aligned = positive(ndflow.align(mixture, target.mixture)(np.array([BRIGHT])))
    np.testing.assert_allclose(imap(np.array([BRIGHT])), aligned, atol=2.5)
    x = np.linspace(100, 1500, 2000)
    assert (np.diff(imap(x)) > 0).all()
    np.testing.assert_allclose(imap.inverse()(imap(x)), x, atol=1e-6)


def test_a_freeze_rule_that_matches_no_component_is_a_warning(
    run: Run, folder: Path, healthy: Path, tmp_path: Path
) -> None:
    words = ("normalise", folder / "h1.nii.gz", "--to", healthy, "-o")
    assert run(*words, tmp_path / "plain.nii.gz").well
    ran = run(*words, tmp_path / "same.nii.gz", "--freeze", "5000:9000")
    assert ran.code == 0
    assert ran.err.startswith(
        f"warning: {folder / 'h1.nii.gz'}: --freeze chooses none of its components"
    )
    assert record_of(tmp_path / "same.nii.gz")["match"]["frozen"] == []
    assert "frozen" not in record_of(tmp_path / "plain.nii.gz")["match"]
