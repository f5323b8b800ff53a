"""``--method``: every baseline in every command gives what is computed here by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, typed
from numpy.typing import NDArray
from phantoms import head, save, voxels_of
from studies import positive

import ndflow
from ndflow.methods.base import LandmarkMethod, method_of
from ndflow.options import METHODS, Options
from ndflow.population import Landmarks
from ndflow.transport import PiecewiseLinear

SHAPE = (14, 16, 12)
HEADS = {
    "s0": head(0, shape=SHAPE),
    "s1": head(1, shape=SHAPE, tissues=((300.0, 60.0), (660.0, 50.0), (1000.0, 40.0)), gain=2.0),
    "s2": head(2, shape=SHAPE, tissues=((350.0, 50.0), (740.0, 40.0), (1000.0, 50.0)), gain=0.5),
    "new": head(3, shape=SHAPE, tissues=((280.0, 50.0), (720.0, 50.0), (1000.0, 40.0)), gain=1.3),
}
BRAINS = {name: voxels[voxels != 0] for name, voxels in HEADS.items()}
SCANS = ["s0", "s1", "s2"]
SHARES = [1, *range(10, 100, 10), 99]
BASELINES = [name for name in METHODS if name not in ("ndflow", "affine")]
methods = pytest.mark.parametrize("method", ["affine", *BASELINES])
baselines = pytest.mark.parametrize("method", BASELINES)


class Desk:
    """Some scans, a table of three of them, and the results of the study with each method."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table = folder, folder / "scans.tsv"
        for name, voxels in HEADS.items():
            save(self.scan(name), voxels)
        rows = [f"{name}.nii.gz\t{site}" for name, site in zip(SCANS, "AAB", strict=True)]
        self.table.write_text("\n".join(["image\tsite", *rows, ""]))

    def scan(self, name: str) -> Path:
        return self.folder / f"{name}.nii.gz"

    def study(self, method: str) -> Path:
        out = self.folder / f"study-{method}"
        if not out.exists():
            typed("cohort", self.table, out, "-q", "--method", method)
        return out


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("methods"))


def record_of(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


# ── by hand ──────────────────────────────────────────────────────────────────────────────────────


def counted(name: str) -> ndflow.Histogram:
    return ndflow.histogram(BRAINS[name])


def mixture_of(name: str) -> ndflow.GaussianMixture:
    return ndflow.fit(counted(name)).mixture


def aligned(name: str, values: Any) -> NDArray[np.float64]:
    return ndflow.transport.align(mixture_of(name))(values)


def baseline(method: str) -> LandmarkMethod:
    found = method_of(Options(method=method))
    assert isinstance(found, LandmarkMethod)
    return found


def measure(method: str, name: str) -> Landmarks:
    return baseline(method).measure(counted(name), Options(method=method))


def average(method: str) -> Landmarks:
    return baseline(method).average(
        (measure(method, name), ndflow.transport.align(mixture_of(name)), 1.0) for name in SCANS
    )


def joined(method: str, name: str, target: Landmarks) -> ndflow.IntensityMap:
    return baseline(method).join(measure(method, name).values, target.values).imap


def by_hand(method: str, name: str, target: str | None = None) -> NDArray[np.float64]:
    """Normalise a scan to another, or to the average of the study; zeros stay zero."""
    voxels, own = HEADS[name].astype(float), BRAINS[name]
    other = np.array([-1.0, 1.0]) if target is None else BRAINS[target]
    if method == "affine":
        to = None if target is None else mixture_of(target)
        mapped = ndflow.transport.align(mixture_of(name), to)(voxels)
    elif method == "zscore":
        mapped = (voxels - own.mean()) / own.std() * other.std() + other.mean()
    elif method == "nyul":
        rows = [aligned(scan, np.percentile(BRAINS[scan], SHARES)) for scan in SCANS]
        values = np.mean(rows, axis=0) if target is None else np.percentile(other, SHARES)
        mapped = PiecewiseLinear(np.percentile(own, SHARES), values)(voxels)
    else:
        landmarks = average(method) if target is None else measure(method, target)
        mapped = joined(method, name, landmarks)(voxels)
    return np.where(voxels == 0, 0.0, mapped)


def in_a_study(method: str, name: str) -> NDArray[np.float64]:
    """Normalise a scan to the average of the study, on the usual scale of the method."""
    z = by_hand(method, name)
    if method == "zscore":
        return z
    return np.where(HEADS[name] == 0, 0.0, positive(z))


def same(found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Check that two images are equal up to the rounding of float32."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5 * expected.std())


# ── normalise, cohort, reference, apply ──────────────────────────────────────────────────────────


@methods
def test_a_scan_is_brought_to_another(run: Run, desk: Desk, tmp_path: Path, method: str) -> None:
    out = tmp_path / "out.nii.gz"
    done = run("normalise", desk.scan("s0"), "--to", desk.scan("s1"), "--method", method, "-o", out)
    assert (done.code, done.errors) == (0, [])
    same(voxels_of(out), by_hand(method, "s0", "s1"))


@methods
def test_a_study_is_brought_to_its_average(desk: Desk, method: str) -> None:
    for name in SCANS:
        image = desk.study(method) / "images" / f"{name}.nii.gz"
        same(voxels_of(image), in_a_study(method, name))


@methods
def test_the_map_of_a_scan_applies_and_is_undone(
    run: Run, desk: Desk, tmp_path: Path, method: str
) -> None:
    image, record = (desk.study(method) / part for part in ("images/s1.nii.gz", "maps/s1.json"))
    again, back = tmp_path / "again.nii.gz", tmp_path / "back.nii.gz"
    assert run("apply", desk.scan("s1"), "--map", record, "-o", again).code == 0
    np.testing.assert_array_equal(voxels_of(again), voxels_of(image))
    assert run("apply", image, "--map", record, "--inverse", "-o", back).code == 0
    np.testing.assert_allclose(voxels_of(back), HEADS["s1"], atol=0.02)


@baselines
def test_a_reference_serves_a_scan_it_has_never_seen(
    run: Run, desk: Desk, tmp_path: Path, method: str
) -> None:
    made, chosen = tmp_path / "r.json", ("--method", method)
    assert run("reference", *map(desk.scan, SCANS), *chosen, "-o", made).code == 0
    saved = Landmarks.from_dict(record_of(made)["reference"]["landmarks"])
    np.testing.assert_allclose(saved.values, average(method).values, rtol=1e-9, atol=1e-9)
    # Likewise the reference that a study made, and a study that is given one.
    for to, out in ((made, "one.nii.gz"), (desk.study(method) / "reference.json", "two.nii.gz")):
        done = run("normalise", desk.scan("new"), "--to", to, *chosen, "-o", tmp_path / out)
        assert done.code == 0, done.err
        same(voxels_of(tmp_path / out), in_a_study(method, "new"))
    (tmp_path / "t.tsv").write_text(f"image\n{desk.scan('new')}\n")
    out = tmp_path / "out"
    assert run("cohort", tmp_path / "t.tsv", out, *chosen, "--reference", made).code == 0
    same(voxels_of(out / "images" / "new.nii.gz"), in_a_study(method, "new"))


def test_a_weight_counts_in_a_reference(run: Run, desk: Desk, tmp_path: Path) -> None:
    words = ("reference", *map(desk.scan, SCANS), "--method", "nyul", "-o", tmp_path / "r.json")
    assert run(*words, "--weights", 3, 1, 2).code == 0
    rows = [aligned(name, np.percentile(BRAINS[name], SHARES)) for name in SCANS]
    found = record_of(tmp_path / "r.json")["reference"]["landmarks"]["values"]
    np.testing.assert_allclose(found, np.average(rows, axis=0, weights=[3, 1, 2]), atol=1e-9)


@pytest.mark.parametrize("method", ["zscore", "nyul", "quantile"])
def test_a_density_serves_where_it_has_landmarks(
    run: Run, desk: Desk, tmp_path: Path, method: str
) -> None:
    to, out, mixture = tmp_path / "m.json", tmp_path / "out.nii.gz", mixture_of("s1")
    ndflow.save(to, mixture)
    assert run("normalise", desk.scan("s0"), "--to", to, "--method", method, "-o", out).code == 0
    values = baseline(method).landmarks_of_density(mixture, Options(method=method))
    assert values is not None
    mapped = joined(method, "s0", Landmarks(method, values))(HEADS["s0"])
    same(voxels_of(out), np.where(HEADS["s0"] == 0, 0, mapped))


def test_a_density_without_landmarks_is_refused_with_advice(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    method = "hellier"
    plain = tmp_path / "plain.json"
    ndflow.save(plain, ndflow.reference([mixture_of("s1")]))
    for words in (
        ("normalise", desk.scan("s0"), "--to", plain, "-o", tmp_path / "out.nii.gz"),
        ("cohort", desk.table, tmp_path / "out", "--reference", plain),
        ("cohort", desk.table, tmp_path / "out", "--reference", plain, "--dry-run"),
    ):
        done = run(*words, "--method", method)
        assert (done.code, done.errors) == (
            2,
            [
                f"error: {plain}: holds no landmarks of {method}; give the file of a reference "
                f"made with 'ndflow reference --method {method}'"
            ],
        )
    assert list(tmp_path.iterdir()) == [plain]


def test_a_reference_needs_the_landmarks_of_every_mixture(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    mixture, out = tmp_path / "m.json", tmp_path / "r.json"
    ndflow.save(mixture, mixture_of("s0"))
    done = run("reference", mixture, desk.scan("s1"), "--method", "hellier", "-o", out)
    assert done.code == 2
    assert f"{mixture}: holds no landmarks of hellier; " in done.errors[0]
    assert not out.exists()


@pytest.mark.parametrize("method", ["hellier", "nyul"])
def test_a_reference_of_models_has_the_landmarks_that_were_saved_with_them(
    run: Run, desk: Desk, tmp_path: Path, method: str
) -> None:
    assert run("cohort", desk.table, tmp_path / "out", "--method", method).code == 0
    models = sorted((tmp_path / "out" / "models").iterdir())
    done = run("reference", *models, "--method", method, "-o", tmp_path / "r.json")
    assert (done.code, done.err) == (0, "")
    made, own = (
        record_of(path)["reference"]["landmarks"]["values"]
        for path in (tmp_path / "r.json", tmp_path / "out" / "reference.json")
    )
    assert made == pytest.approx(own, rel=1e-12)


# ── options that some methods have ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [2, 5])
def test_the_number_of_landmarks_can_be_chosen(
    run: Run, desk: Desk, tmp_path: Path, count: int
) -> None:
    shares = [1, *(np.linspace(10, 90, count - 2) if count > 2 else []), 99]
    options, out = ("--method", "nyul", "--set", f"landmarks={count}"), tmp_path / "out"
    assert run("cohort", desk.table, out, *options).code == 0
    own = {name: np.percentile(BRAINS[name], shares) for name in SCANS}
    lines = record_of(out / "maps" / "s2.json")["map"]
    np.testing.assert_allclose(lines["knots"], own["s2"], rtol=1e-12)
    expected = np.mean([aligned(name, values) for name, values in own.items()], axis=0)
    np.testing.assert_allclose(lines["values"], positive(expected), atol=1e-7)
    # The reference records how many there are.
    to, one = out / "reference.json", tmp_path / "one.nii.gz"
    words = ("normalise", desk.scan("s2"), "--to", to, "-o", one, "--method", "nyul")
    assert run(*words, "--set", f"landmarks={count}").code == 0
    same(voxels_of(one), voxels_of(out / "images" / "s2.nii.gz"))
    line = f"error: {to}: holds {count} landmarks, not 11; use --set landmarks={count}"
    assert run(*words, "--force").errors == [line]


def test_other_methods_have_no_number_of_landmarks(run: Run, desk: Desk, tmp_path: Path) -> None:
    scan = desk.scan("s0")
    for words in (
        ("normalise", scan, "--to", scan, "-o", tmp_path / "o.nii.gz"),
        ("cohort", desk.table, tmp_path / "out"),
        ("reference", scan, "-o", tmp_path / "r.json"),
    ):
        done = run(*words, "--method", "quantile", "--set", "landmarks=5")
        assert (done.code, len(done.errors)) == (2, 1)
        assert "landmarks is not an option of the method 'quantile'" in done.errors[0]
    assert not list(tmp_path.iterdir())


@baselines
def test_baselines_refuse_the_site_mode(run: Run, desk: Desk, tmp_path: Path, method: str) -> None:
    out = tmp_path / "out"
    done = run("cohort", desk.table, out, "--mode", "site", "--method", method)
    line = f"error: the method '{method}' does not work by site; leave out --mode site"
    assert (done.code, done.errors) == (2, [line])
    assert not out.exists()


@pytest.mark.parametrize("method", ["zscore", "nyul"])
def test_results_are_in_the_units_of_the_user(
    run: Run, desk: Desk, tmp_path: Path, method: str
) -> None:
    to, out = desk.study(method) / "reference.json", tmp_path / "out.nii.gz"
    words = ("normalise", desk.scan("s0"), "--to", to, "--method", method, "-o", out)
    assert run(*words, "--range", 0, 1000).code == 0
    low, high = ndflow.load(to).mixture.quantile([0.001, 0.999])
    inside = HEADS["s0"] != 0
    z = by_hand(method, "s0")[inside]
    same(voxels_of(out)[inside], 1000 * (z - low) / (high - low))
    for scale, expected in (("standard", z), ("positive", positive(z))):
        assert run(*words, "--scale", scale, "--force").code == 0
        same(voxels_of(out)[inside], expected)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


ACCOUNTS = ("provenance.json", "scans.tsv")


def files(out: Path) -> Iterator[tuple[str, Path]]:
    """Yield all results except the records of the last run."""
    for path in out.rglob("*"):
        if path.is_file() and path.name[0] != "." and path.name not in ACCOUNTS:
            yield str(path.relative_to(out)), path


def written(out: Path) -> dict[str, tuple[int, int]]:
    return {name: (path.stat().st_mtime_ns, path.stat().st_ino) for name, path in files(out)}


def contents(out: Path) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in files(out)}


@baselines
def test_a_second_run_rewrites_nothing(run: Run, desk: Desk, method: str) -> None:
    out = desk.study(method)
    before = written(out)
    assert len(before) == 15
    assert run("cohort", desk.table, out, "--method", method).code == 0
    assert written(out) == before


def test_another_method_is_done_from_the_beginning(run: Run, desk: Desk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fewer = ("--set", "landmarks=5")
    for method, *more in (("nyul",), ("hellier",), ("affine",), ("nyul", *fewer), ("nyul",)):
        before = written(out)
        words = ("cohort", desk.table, out, "-q", "--method", method, *more)
        assert run(*words).code == (2 if before else 0)
        assert written(out) == before or not before
        assert run(*words, "--force").code == 0
        kept = {name for name, when in written(out).items() if before.get(name) == when}
        assert not {name for name in kept if name.startswith(("images", "maps", "models"))}
        assert (contents(out) == contents(desk.study(method))) == (not more)


def test_a_study_with_several_workers_is_deterministic(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    assert run("cohort", desk.table, tmp_path / "out", "--method", "hellier", "-j", 2).code == 0
    assert contents(tmp_path / "out") == contents(desk.study("hellier"))


def test_a_polynomial_of_lower_degree_is_used_with_a_warning(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    tissues = ((300.0, 60.0), (900.0, 50.0), (1000.0, 40.0))
    scan = save(tmp_path / "odd.nii.gz", head(1, shape=SHAPE, tissues=tissues))
    out = tmp_path / "out.nii.gz"
    words = ("normalise", scan, "--to", desk.scan("s0"), "--method", "hellier", "-o", out)
    done = run(*words)
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith(f"warning: {scan}: the match to the target was joined by a polynomial")
    assert line.endswith("because none of higher degree rises enough")
    assert record_of(tmp_path / "out.json")["warnings"] == [line.removeprefix("warning: ")]
    inside = voxels_of(scan) != 0
    order = np.argsort(voxels_of(scan)[inside])
    assert (np.diff(voxels_of(out)[inside][order]) >= 0).all()


def test_a_scan_that_a_method_cannot_do_does_not_stop_the_others(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    # Eight intensities at most, too few for five classes.
    odd = np.where(HEADS["s0"] != 0, 1 + HEADS["s0"] % 8, 0).astype(np.int16)
    images = [*map(desk.scan, SCANS), save(tmp_path / "odd.nii.gz", odd)]
    (tmp_path / "scans.tsv").write_text("\n".join(["image", *map(str, images), ""]))
    done = run("cohort", tmp_path / "scans.tsv", tmp_path / "out", "--method", "hellier")
    assert done.code == 1
    assert done.errors[0].startswith(f"error: {tmp_path / 'odd.nii.gz'}: ")
    for name in SCANS:
        image = tmp_path / "out" / "images" / f"{name}.nii.gz"
        same(voxels_of(image), in_a_study("hellier", name))
