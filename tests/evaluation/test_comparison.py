"""Every number of a comparison, computed again from the images on disc by other means."""

from collections.abc import Callable, Mapping, Sequence

import nibabel
import numpy as np
import pytest
from compared_runs import NAMES, SITE, SUBJECT, TREES, Array, Desk, Rows, weights
from phantoms import head
from scipy import stats
from studies import SITES, SMALL

import ndflow
from ndflow.evaluation.tissues import TISSUE_ROWS

PIECES = 16  # into which each level is cut, to spread it over its interval


class Spread:
    """The voxels of a scan, each level spread evenly over its interval in several pieces."""

    def __init__(self, voxels: Array) -> None:
        levels, counts = np.unique(voxels, return_counts=True)
        ends = np.interp(np.arange(levels.size + 1) - 0.5, np.arange(levels.size), levels)
        ends[0], ends[-1] = 2 * levels[0] - ends[1], 2 * levels[-1] - ends[-2]
        parts = (np.arange(PIECES) + 0.5) / PIECES
        self.x = (ends[:-1, np.newaxis] + np.outer(np.diff(ends), parts)).ravel()
        self.share = np.repeat(counts / counts.sum() / PIECES, PIECES)

    def scaled(self, mean: float, sd: float) -> "Spread":
        self.x = (self.x - mean) / sd
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
        sd = np.sqrt(share @ (1 / precision + (mean - middle) ** 2))
        found["unnormalised"].append(raw)
        found["affine"].append((raw - middle) / sd)
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
        """Return (tissue, quartile), from voxels repeated as often as their weight."""
        inside = head(number, shape=SMALL) != 0
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
    names = [f"{tissue}_Q{quartile}" for tissue in TISSUE_ROWS for quartile in (1, 2, 3)]
    for condition, one in truth.items():
        for number, name in enumerate(NAMES):
            row = several["features"][condition, name]
            assert row["site"] == SITE[number]
            found = np.array([row[each] for each in names], float)
            assert found == pytest.approx(one.quartiles[number].ravel(), rel=2e-4, abs=2e-4)


def test_standard_deviations_are_those_of_the_quartiles(
    several: Rows, truth: dict[str, Truth]
) -> None:
    for condition, one in truth.items():
        cells = [several["tissue"][condition, tissue, q] for tissue in TISSUE_ROWS for q in "123"]
        own = one.quartiles.reshape(12, 9)
        gap = abs(own[:, 1].mean() - own[:, 4].mean())
        for column, cell in zip(own.T, cells, strict=True):
            assert cell["mean"] == pytest.approx(column.mean(), abs=2e-4)
            assert cell["sd"] == pytest.approx(column.std(ddof=1), rel=1e-3, abs=1e-4)
            assert cell["relative_sd"] == pytest.approx(column.std(ddof=1) / gap, rel=2e-3)


def test_changes_are_those_of_the_same_scans_with_intervals_over_subjects(
    several: Rows, truth: dict[str, Truth]
) -> None:
    own_site = dict(zip(SUBJECT, SITE, strict=True))

    def change(run: str, base: str, without: str = "") -> float:
        kept = [number for number, name in enumerate(SUBJECT) if name != without]
        now, before = (truth[one].quartiles[kept].std(axis=0, ddof=1).mean() for one in (run, base))
        return float(np.log(now / before))

    for run, base in (("nyul", "flow"), ("flow", "affine"), ("nyul", "affine")):
        variance = 0.0
        for site in SITES:
            each = [change(run, base, name) for name in own_site if own_site[name] == site]
            variance += (len(each) - 1) ** 2 / len(each) * np.var(each, ddof=1)
        half = stats.t.ppf(0.975, len(own_site) - len(SITES)) * np.sqrt(variance)
        ends = np.exp(change(run, base) + half * np.array([0, -1, 1]))
        row = several["changes"][run, base, "tissues"]
        found = [row[f"change{end}"] for end in ("", "_low", "_high")]
        assert found == pytest.approx(ends, rel=5e-3)
        now, before = (several["covariate"][one, "GM"]["correlation"] for one in (run, base))
        row = several["changes"][run, base, "age–GM"]
        assert (row["before"], row["after"]) == pytest.approx((before, now))
        assert row["change"] == pytest.approx(float(now or 0) - float(before or 0))
        row = several["changes"][run, base, "recognised"]
        both = [several["classification"][one,]["balanced"] for one in (base, run)]
        assert [row["before"], row["after"]] == both
        assert row["change_low"] < row["change"] < row["change_high"]  # type: ignore[operator]


def test_distances_between_histograms_are_those_of_scipy(
    several: Rows, truth: dict[str, Truth]
) -> None:
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


def test_distances_of_sites_are_those_of_the_quantiles_of_their_voxels(
    several: Rows, truth: dict[str, Truth]
) -> None:
    for condition, one in truth.items():
        scans = one.quantiles.reshape(3, 4, -1)  # of each site
        sites = scans.mean(axis=1)
        between = np.mean([np.abs(sites[a] - sites[b]).mean() for a, b in ((0, 1), (0, 2), (1, 2))])
        within = np.abs(scans - sites[:, np.newaxis]).mean()
        row = several["measures"][condition,]
        assert (row["between"], row["within"]) == pytest.approx((between, within), rel=5e-3)


def forest(features: Callable[[Sequence[int]], Array]) -> Array:
    """Return predicted probabilities of sites; features are made from the training fold."""
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


def test_sites_are_classified_with_references_made_from_training_scans_only(
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
    ranks = stats.rankdata(scans, axis=1) / scans.shape[1]
    rows = [several["predictions"]["ranks", name] for name in NAMES]
    assert [[row[site] for site in SITES] for row in rows] == pytest.approx(forest(lambda _: ranks))
    # All scans have the same tissue maps, so anatomy says nothing about sites.
    assert several["classification"]["anatomy",]["balanced"] == pytest.approx(1 / 3)
    assert several["classification"]["anatomy",]["chance"] is None
