"""Finished runs compared: every number again from the images on disk, by other means."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import head, radii, save
from scipy import stats

import ndflow
from ndflow.compare import site_classifier as telling
from ndflow.compare.comparison import Comparison, compare
from ndflow.compare.measure import TISSUES, _lattice
from ndflow.compare.result_tables import tables
from ndflow.files.scan_table import read_table
from ndflow.image.foreground import foreground
from ndflow.settings import Averaging, Matching
from ndflow.study.finished import FinishedStudy, read_finished
from ndflow.study.parallel.tasks import Outcome
from ndflow.study.passes import Study
from ndflow.study.run import members_of, run_cohort

SHAPE = (14, 16, 12)
SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5), "Celle": (400.0, 600.0, 0.6)}
NAMES = [f"s{number:02}" for number in range(12)]
SITE = [site for site in SITES for _ in range(4)]
SUBJECT = [f"p{number // 2}" for number in range(10)] + ["p5", "p6"]  # two have one scan only
AGE = [20 + 7 * (number * 5 % 12) for number in range(12)]
PIECES = 16  # that a level is cut into, where it is spread over its stretch of the line
TREES = 5

Array = NDArray[np.float64]
Rows = dict[str, dict[tuple[str, ...], dict[str, str | float | None]]]


class Silent:
    """Somebody who looks on and says nothing."""

    def begin(self, stage: str, total: int) -> None: ...

    def step(self, stage: str, outcome: Outcome) -> None:
        assert outcome.failure is None, outcome.failure


class Desk:
    """Scans of three sites with tissue maps, and runs of them that are made once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table = folder, folder / "t.tsv"
        for tissue, weight in weights().items():
            save(folder / f"{tissue}.nii.gz", weight)
        lines = ["image\tsite\tsubject\tage\twm\tgm\tcsf"]
        for number, (name, site, age) in enumerate(zip(NAMES, SITE, AGE, strict=True)):
            fluid, grey, gain = SITES[site]
            kinds = ((fluid, 60.0), (grey + 10 * (number % 4) + 1.5 * age, 50.0), (1000.0, 40.0))
            data = head(number, shape=SHAPE, tissues=kinds, gain=gain * (1 + 0.03 * number))
            save(folder / f"{name}.nii.gz", data)
            maps = "\t".join(f"{tissue}.nii.gz" for tissue in ("WM", "GM", "CSF"))
            lines.append(f"{name}.nii.gz\t{site}\t{SUBJECT[number]}\t{age}\t{maps}")
        self.table.write_text("\n".join(lines))
        self.run = cache(self._run)

    def _run(
        self, name: str, mode: Any = "individual", given: Path | None = None, **how: Any
    ) -> Path:
        out = self.folder / name
        rows = read_table(self.table)
        averaging, matching = Averaging(mode=mode), Matching(**how)
        reference = None if given is None else str(given)
        study = Study(out, members_of(rows, out), averaging, matching=matching, given=reference)
        assert not run_cohort(study, rows, Silent(), command=(), force=False).failures
        return out

    def voxels(self, image: Path, number: int) -> Array:
        """Of an image, where the scan that it was made of is not 0."""
        inside = np.asarray(nibabel.load(self.folder / f"{NAMES[number]}.nii.gz").dataobj) != 0
        return np.asarray(nibabel.load(image).dataobj, np.float64)[inside]


def weights() -> dict[str, NDArray[np.uint8]]:
    """Return how often each voxel counts for each tissue: whole numbers, so it can be repeated."""
    radius = radii(SHAPE)
    white, fluid = (1 / (1 + np.exp(-x / 0.05)) for x in (0.6 - radius, radius - 0.85))
    shares = {"WM": white, "GM": 1 - white - fluid, "CSF": fluid}
    return {
        tissue: np.rint(20 * np.maximum(share, 0)).astype(np.uint8)
        for tissue, share in shares.items()
    }


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("scans"))


def compared(*runs: Path) -> Comparison:
    return compare(read_finished(runs), Silent(), permutations=2, trees=TREES)


def numbers(comparison: Comparison, covariate: str | None = None) -> Rows:
    """Return the rows of all tables, by their texts: condition, scan, tissue and so on."""
    found: Rows = {}
    for table in tables(comparison, covariate):
        keys = [place for place, one in enumerate(table.columns) if one in KEYS]
        found[table.name] = {
            tuple(str(row[place]) for place in keys): dict(zip(table.columns, row, strict=True))
            for row in table.rows
        }
    return found


KEYS = ("condition", "scan", "tissue", "quartile")


@pytest.fixture(scope="module")
def several(desk: Desk) -> Rows:
    runs = [desk.run("flow"), desk.run("nyul", method="nyul")]
    return numbers(compared(*runs), "age")


# ── the same by other means ──────────────────────────────────────────────────────────────────────


class Spread:
    """The voxels of a scan, each level cut into pieces that lie evenly over its stretch."""

    def __init__(self, voxels: Array) -> None:
        levels, counts = np.unique(voxels, return_counts=True)
        ends = np.interp(np.arange(levels.size + 1) - 0.5, np.arange(levels.size), levels)
        ends[0], ends[-1] = 2 * levels[0] - ends[1], 2 * levels[-1] - ends[-2]
        parts = (np.arange(PIECES) + 0.5) / PIECES
        self.x = (ends[:-1, np.newaxis] + np.outer(np.diff(ends), parts)).ravel()
        self.share = np.repeat(counts / counts.sum() / PIECES, PIECES)

    def scaled(self, site: float, spread: float) -> "Spread":
        self.x = (self.x - site) / spread
        return self

    def quantiles(self) -> Array:
        shares = np.arange(1, 200) / 200
        return np.quantile(self.x, shares, weights=self.share, method="inverted_cdf")


@pytest.fixture(scope="module")
def images(desk: Desk) -> dict[str, list[Array]]:
    """Return the voxels of every scan under every condition, in the units of the condition."""
    found: dict[str, list[Array]] = {"unnormalised": [], "affine": [], "flow": [], "nyul": []}
    for number, name in enumerate(NAMES):
        raw = desk.voxels(desk.folder / f"{name}.nii.gz", number)
        mixture = ndflow.load(desk.run("flow") / "models" / f"{name}.json")
        share, mean, precision = mixture.weights, mixture.means[:, 0], mixture.precisions[:, 0, 0]
        middle = share @ mean
        spread = np.sqrt(share @ (1 / precision + (mean - middle) ** 2))
        found["unnormalised"].append(raw)
        found["affine"].append((raw - middle) / spread)
        for run, how in (("flow", {}), ("nyul", {"method": "nyul"})):
            path = desk.run(run, **how) / "images" / f"{name}.nii.gz"
            found[run].append(desk.voxels(path, number))
    return found


class Truth:
    """All scans under one condition, in common units."""

    def __init__(self, scans: Sequence[Array]) -> None:
        spread = [Spread(voxels) for voxels in scans]
        means = [float(np.average(scan.x, weights=scan.share)) for scan in spread]
        pairs = zip(spread, means, strict=True)
        sds = [
            np.sqrt(np.average((scan.x - mean) ** 2, weights=scan.share)) for scan, mean in pairs
        ]
        self.units = (float(np.mean(means)), float(np.mean(sds)))
        self.scans = [scan.scaled(*self.units) for scan in spread]
        self.quantiles = np.array([scan.quantiles() for scan in self.scans])
        self.quartiles = np.array([self._quartiles(voxels, n) for n, voxels in enumerate(scans)])

    def _quartiles(self, voxels: Array, number: int) -> Array:
        """Of (tissue, quartile), by repeating each voxel as often as it counts."""
        inside = head(number, shape=SHAPE) != 0
        found = []
        for weight in weights().values():
            ordered = np.sort(np.repeat(voxels, weight[inside]))
            below = (stats.rankdata(ordered) - 0.5) / ordered.size
            found.append(np.interp((0.25, 0.5, 0.75), below, ordered))
        return (np.array(found) - self.units[0]) / self.units[1]


@pytest.fixture(scope="module")
def truth(images: Mapping[str, Sequence[Array]]) -> dict[str, Truth]:
    return {condition: Truth(scans) for condition, scans in images.items()}


def test_quartiles_are_those_of_voxels_repeated_as_often_as_they_count(
    several: Rows, truth: dict[str, Truth]
) -> None:
    names = [f"{tissue}_Q{quartile}" for tissue in TISSUES for quartile in (1, 2, 3)]
    for condition, one in truth.items():
        for number, name in enumerate(NAMES):
            row = several["tissue_scans"][condition, name]
            assert row["site"] == SITE[number]
            found = np.array([row[each] for each in names], float)
            assert found == pytest.approx(one.quartiles[number].ravel(), rel=2e-4, abs=2e-4)


def holm(p: Sequence[float]) -> list[float]:
    ordered = sorted(p)
    return [
        min(1.0, max((len(p) - j) * ordered[j] for j in range(ordered.index(one) + 1))) for one in p
    ]


def test_spreads_are_tested_against_the_alignment_as_scipy_does(
    several: Rows, truth: dict[str, Truth]
) -> None:
    base = truth["affine"].quartiles.reshape(12, 9)
    for condition, one in truth.items():
        cells = [several["tissue"][condition, tissue, q] for tissue in TISSUES for q in "123"]
        own = one.quartiles.reshape(12, 9)
        gap = abs(own[:, 1].mean() - own[:, 4].mean())
        for column, cell in zip(own.T, cells, strict=True):
            assert cell["mean"] == pytest.approx(column.mean(), abs=2e-4)
            assert cell["sd"] == pytest.approx(column.std(ddof=1), rel=1e-3, abs=1e-4)
            assert cell["relative_sd"] == pytest.approx(column.std(ddof=1) / gap, rel=2e-3)
        if condition in ("unnormalised", "affine"):
            assert {cell["paired"] for cell in cells} == {None}
            continue
        paired, unpaired = [], []
        for a, b in zip(own.T, base.T, strict=True):
            from_a, from_b = (np.abs(x - np.median(x)) for x in (a, b))
            paired.append(stats.ttest_rel(from_a, from_b, alternative="less").pvalue)
            both = stats.levene(a, b, center="median").pvalue
            unpaired.append(both / 2 if from_a.mean() < from_b.mean() else 1 - both / 2)
        for name, p in (("paired", paired), ("unpaired", unpaired)):
            found = [float(cell[name] or 0) for cell in cells]
            assert found == pytest.approx(p, rel=0.01, abs=1e-9)
            assert [cell[f"{name}_holm"] for cell in cells] == pytest.approx(holm(found))
        assert min(paired) < 0.01 < max(paired)  # or there was nothing to test


def test_distances_of_histograms_are_those_of_scipy(several: Rows, truth: dict[str, Truth]) -> None:
    aligned = truth["affine"].scans
    x = np.concatenate([scan.x for scan in aligned])
    share = np.concatenate([scan.share for scan in aligned]) / 12
    low, high = np.quantile(x, (0.001, 0.999), weights=share, method="inverted_cdf")
    edges = np.linspace(low, high, 101)
    target = np.histogram(x, edges, weights=share)[0] / np.diff(edges)
    fine = np.linspace(-4, 4, 4001)

    def below(points: Array, masses: Array) -> Array:
        order = np.argsort(points)
        return np.interp(fine, points[order], np.cumsum(masses[order]), left=0)

    for condition, one in truth.items():
        for number in (0, 5, 10):
            row, scan = several["fitness_scans"][condition, NAMES[number]], one.scans[number]
            w1 = stats.wasserstein_distance(scan.x, x, scan.share, share)
            assert row["w1"] == pytest.approx(w1, rel=2e-3, abs=2e-4)
            off = np.histogram(scan.x, edges, weights=scan.share)[0] / np.diff(edges) - target
            assert row["rmse"] == pytest.approx(np.sqrt(np.mean(off**2)), rel=0.02)
            assert row["mae"] == pytest.approx(np.abs(off).mean(), rel=0.02)
            ks = np.abs(below(scan.x, scan.share) - below(x, share)).max()
            assert row["ks"] == pytest.approx(ks, abs=3e-3)
    for condition in truth:
        rows = [several["fitness_scans"][condition, name] for name in NAMES]
        for measure in ("rmse", "w1", "js", "qq"):
            median = np.median([float(row[measure] or 0) for row in rows])
            assert several["fitness"][condition,][measure] == pytest.approx(median, rel=1e-12)


def w1(one: Array, other: Array) -> float:
    return float(np.abs(one - other).mean())


def test_distances_of_sites_and_of_subjects_are_means_over_pairs(
    several: Rows, truth: dict[str, Truth]
) -> None:
    near = {}
    for condition, one in truth.items():
        scans = list(zip(one.quantiles, SITE, SUBJECT, strict=True))
        middle = {c: np.mean([q for q, own, _ in scans if own == c], axis=0) for c in SITES}
        pairs = list(combinations(scans, 2))
        near[condition] = {
            "between": np.mean([w1(*pair) for pair in combinations(middle.values(), 2)]),
            "within": np.mean([w1(q, middle[own]) for q, own, _ in scans]),
            "pairwise": np.mean([w1(a[0], b[0]) for a, b in pairs if a[1] != b[1]]),
            "within_subjects": np.mean([w1(a[0], b[0]) for a, b in pairs if a[2] == b[2]]),
            "between_subjects": np.mean([w1(a[0], b[0]) for a, b in pairs if a[2] != b[2]]),
        }
    for condition, expected in near.items():
        row = several["sites"][condition,] | several["repeats"][condition,]
        assert row["pairs"] == 5
        expected["ratio"] = expected["within_subjects"] / expected["between_subjects"]
        for name in ("between", "within"):
            expected[f"{name}_share"] = expected[name] / near["affine"][name]
        for name, number in expected.items():
            assert row[name] == pytest.approx(number, rel=0.01), (condition, name)


def test_the_effect_of_age_is_that_of_a_regression_on_age_and_sites(
    several: Rows, truth: dict[str, Truth]
) -> None:
    dummies = [[float(own == site) for site in SITES] for own in SITE]
    design = np.column_stack([AGE, dummies])
    for condition, one in truth.items():
        for place, tissue in enumerate(TISSUES):
            medians = one.quartiles[:, place, 1]
            beta, rest, *_ = np.linalg.lstsq(design, medians)
            se = np.sqrt(rest[0] / 8 * np.linalg.inv(design.T @ design)[0, 0])
            row = several["covariate"][condition, tissue]
            assert row["scans"] == 12
            assert row["slope"] == pytest.approx(beta[0], rel=0.02, abs=2e-6)
            assert row["se"] == pytest.approx(se, rel=0.02)
            p = 2 * stats.t.sf(abs(float(row["slope"] or 0) / float(row["se"] or 1)), 8)
            assert row["p"] == pytest.approx(p)
            left = [
                x - design[:, 1:] @ np.linalg.lstsq(design[:, 1:], x)[0] for x in (AGE, medians)
            ]
            assert row["correlation"] == pytest.approx(stats.pearsonr(*left)[0], abs=0.01)


def forest(features: Callable[[Sequence[int]], Array]) -> Array:
    """Return the probabilities of sites; features are made from the scans of a training fold."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedGroupKFold

    found = np.zeros((12, 3))
    for train, test in StratifiedGroupKFold(2, shuffle=True, random_state=0).split(
        SITE, SITE, SUBJECT
    ):
        assert {SUBJECT[place] for place in train}.isdisjoint(SUBJECT[place] for place in test)
        ready = features(train)
        model = RandomForestClassifier(TREES, random_state=0)
        model.fit(ready[train], np.array(SITE)[train])
        found[test] = model.predict_proba(ready[test])
    return found


def test_sites_are_told_by_forests_whose_references_know_the_training_scans_only(
    desk: Desk, several: Rows
) -> None:
    from sklearn import metrics

    out = desk.run("flow")
    files = [nibabel.load(desk.folder / f"{name}.nii.gz") for name in NAMES]
    scans = np.array([np.asarray(file.dataobj, np.float64).ravel(order="F") for file in files])
    scans = scans[:, (scans != 0).all(axis=0)]
    models = [ndflow.load(out / "models" / f"{name}.json") for name in NAMES]

    def flow(train: Sequence[int]) -> Array:
        made = ndflow.reference([models[place] for place in train])
        pairs = zip(models, scans, strict=True)
        return np.array([ndflow.normalising_map(model, made)(own) for model, own in pairs])

    for condition, features in (("unnormalised", lambda _: scans), ("flow", flow)):
        expected = forest(features)
        rows = [several["predictions"][condition, name] for name in NAMES]
        assert [[row[site] for site in SITES] for row in rows] == pytest.approx(expected)
        entropy = stats.entropy(expected, base=2, axis=1)
        assert [row["entropy"] for row in rows] == pytest.approx(entropy)
        guess = [list(SITES)[place] for place in expected.argmax(axis=1)]
        assert [row["predicted"] for row in rows] == guess
        row = several["classification"][condition,]
        assert row["pooled"] == pytest.approx(metrics.accuracy_score(SITE, guess))
        assert row["balanced"] == pytest.approx(metrics.balanced_accuracy_score(SITE, guess))
        recall = metrics.recall_score(SITE, guess, average=None)
        assert [row[site] for site in SITES] == pytest.approx(recall)
        assert row["confidence"] == pytest.approx(expected.max(axis=1).mean())
        assert 0 < float(row["chance"] or 0) <= float(row["chance_95"] or 0) < 1
    affine, ours = (
        [several["predictions"][condition, name]["entropy"] for name in NAMES]
        for condition in ("affine", "flow")
    )
    p = stats.ttest_rel(ours, affine).pvalue
    assert several["classification"]["flow",]["entropy_p"] == pytest.approx(p)


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────


def alike(one: Rows, other: Rows, names: Mapping[str, str], **tolerance: float) -> None:
    """Check that the rows of some conditions of one are those of others of the other."""
    for table, rows in one.items():
        for key, row in rows.items():
            if key[0] not in names:
                continue
            twin = other[table][(names[key[0]], *key[1:])]
            for column, number in row.items():
                if isinstance(number, float):
                    assert twin[column] == pytest.approx(number, **tolerance), (table, key, column)
                elif column != "condition":
                    assert twin[column] == number, (table, key, column)


def test_units_do_not_matter(desk: Desk) -> None:
    """A run whose images are all the same multiple of those of another, and as much brighter."""
    one, other = desk.run("flow"), desk.run("ranged", range=(100.0, 5000.0))
    found = [numbers(compared(out), "age") for out in (one, other)]
    alike(*found, {"flow": "ranged", "affine": "affine"}, rel=2e-3, abs=1e-4)


def test_the_alignment_is_the_same_from_models_as_from_a_run_of_it(desk: Desk) -> None:
    flow, affine = desk.run("flow"), desk.run("aligned", method="affine")
    both = compared(flow, affine)
    assert [one.name for one in both.conditions] == ["unnormalised", "affine", "flow"]
    assert both.affine.study is not None
    names = {name: name for name in ("unnormalised", "affine", "flow")}
    alike(numbers(compared(flow), "age"), numbers(both, "age"), names, rel=2e-3, abs=1e-4)


def test_the_order_of_runs_changes_the_order_of_rows_alone(desk: Desk, several: Rows) -> None:
    found = numbers(compared(desk.run("nyul", method="nyul"), desk.run("flow")), "age")
    names = {name: name for name in ("unnormalised", "affine", "flow", "nyul")}
    alike(several, found, names, rel=1e-9, abs=1e-12)


def features_of(run: FinishedStudy, patch: pytest.MonkeyPatch) -> Callable[[], tuple[Array, ...]]:
    """Return a function to the features of training and test scans in the first fold, by scan."""
    caught: list[Any] = []
    patch.setattr(telling, "classify", lambda features, *_, **__: caught.append(features))
    members = list(run.members.values())
    voxels = np.random.default_rng(0).uniform(300, 900, (12, 50)).astype(np.float32)
    options = {"aligned": False, "seed": 0, "permutations": 0, "trees": TREES}
    options["people"] = list(run.members)

    def features() -> tuple[Array, ...]:
        telling.classify_sites(voxels, members, run.study, **options)
        return tuple(caught.pop()(TRAIN, TEST))

    return features


TRAIN, TEST = np.arange(0, 12, 2), np.arange(1, 12, 2)
WAYS: dict[str, dict[str, Any]] = {
    "flow": {},
    "nyul": {"method": "nyul"},
    "site": {"mode": "site"},
}


@pytest.fixture
def copied(desk: Desk, tmp_path: Path) -> Callable[..., FinishedStudy]:
    """Return a function that copies a run, which may be changed then."""

    def copy(name: str, **how: Any) -> FinishedStudy:
        shutil.copytree(desk.run(name, **how), tmp_path / name)
        return read_finished([tmp_path / name])[0]

    return copy


def swap(run: FinishedStudy, number: int) -> None:
    """Give a scan the model of another of its site."""
    models = run.study.folder / "models"
    shutil.copy(models / f"{NAMES[number ^ 2]}.json", models / f"{NAMES[number]}.json")


@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_test_scan_goes_into_the_features_of_others(
    way: str, copied: Callable[..., FinishedStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied(way, **WAYS[way])
    features = features_of(run, monkeypatch)
    before = features()
    swap(run, int(TEST[2]))
    known, tested = features()
    assert np.array_equal(known, before[0])
    changed = (tested != before[1]).any(axis=1)
    assert changed.tolist() == [place == 2 for place in range(6)]
    swap(run, int(TRAIN[3]))
    assert (features()[1] != tested).any(axis=1).all() or way == "site"
    assert (features()[1] != tested).any(axis=1)[3]  # of the same site


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_a_reference_that_was_given_is_used_and_those_of_sites_are_nested(
    mode: str, desk: Desk, copied: Callable[..., FinishedStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = desk.folder / f"alone_{mode}" / "reference.json"  # no site is known beside it
    alone.parent.mkdir()
    shutil.copy(desk.run("flow") / "reference.json", alone)
    run = copied(f"given_{mode}", mode=mode, given=alone)
    features = features_of(run, monkeypatch)
    before = features()
    swap(run, int(TRAIN[0]))
    changed = (features()[1] != before[1]).any(axis=1)
    first = [site == SITE[0] for site in np.array(SITE)[TEST]]
    assert changed.tolist() == [mode == "site" and own for own in first]


def test_a_mask_that_was_looked_for_is_the_one_to_look_inside(tmp_path: Path) -> None:
    runs = []
    for kind in ("found", "given"):
        rows = ["image\tmask"]
        for number in range(3):
            noise = np.random.default_rng(number)
            body = head(number, shape=SHAPE)
            data = np.where(body == 0, noise.integers(1, 30, SHAPE), body).astype(np.int16)
            image = save(tmp_path / f"n{number}.nii", data)
            mask = save(tmp_path / f"m{number}.nii", foreground(data).astype(np.uint8))
            rows.append(f"{image}\t{mask if kind == 'given' else 'n/a'}")
        (tmp_path / "n.tsv").write_text("\n".join(rows))
        listed = read_table(tmp_path / "n.tsv")
        members = members_of(listed, tmp_path / kind, auto_mask=True)
        run_cohort(Study(tmp_path / kind, members), listed, Silent(), command=(), force=False)
        runs.append(numbers(compared(tmp_path / kind)))
    alike(*runs, {"unnormalised": "unnormalised", "affine": "affine", "found": "given"}, rel=1e-12)
    assert "repeats" not in runs[0]  # nobody was scanned twice, as far as is known
    assert "tissue" not in runs[0]


@pytest.mark.parametrize("shape", [(192, 208, 192), (160, 200, 200), (91, 109, 91), (7, 5, 3)])
def test_voxels_are_taken_from_everywhere_in_the_grid(shape: tuple[int, ...]) -> None:
    places = np.indices(shape).reshape(3, -1)
    number = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    kept = _lattice(number).astype(int)
    assert min(2000, number.size) <= kept.size <= 40_000
    for axis, length in enumerate(shape):
        found = np.unique(places[axis][kept])
        assert found[0] <= length // 20 + 2
        assert found[-1] >= length - length // 20 - 3
        assert np.diff(found).max() <= length // 20 + 1
