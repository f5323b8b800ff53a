"""Which site does a scan come from? What random forests predict from voxels, and by chance.

The better a normalisation, the less a classifier finds that distinguishes the sites. Scans are
divided into folds, each of which is predicted by what was learned from the others.

The references of a study are made again from the training scans of each fold alone, with the
settings of the study, and the voxels go through the maps to these: nothing of a test scan has gone
into what it is brought to. Where a study was given a reference, that one is used. (With one map per
site, the site of a test scan chooses its map, as it does in practice.)

Part of what distinguishes sites is not intensity, and no intensity map can remove it: whom they
scanned, how heads were masked and tissues labelled, noise and resolution. Two floors show how much:

- *ranks*: the ranks of the voxels within each scan. All scans have the same histogram, but what is
  where in the brain, noise included, is as it was: it is where methods end up that match histograms
  without mercy.
- *anatomy*: the scan that its tissue maps alone would give, with the same intensity for each tissue
  in all scans. There is neither contrast nor noise; what is left is anatomy as the maps show it,
  including how they were made.

*Accuracy* is pooled over scans, which a large class dominates, and balanced over classes; the
paper's "Overall" is the former. The entropy of a prediction, ``−Σ p log2 p``, and its confidence,
the largest p, show how certain it is: the more bits, the less certain.

*The accuracy that chance gives* is that of forests trained and tested on shuffled labels. Held
fixed are the scans, their features and the division into folds; shuffled are the labels, within
each fold, so that every fold keeps as many scans of each class. Forests are trained anew for each
shuffle: nothing of what the true labels have taught is left. They have fewer trees than the forest
whose accuracy is reported, because many are needed; so the accuracy that is compared with them is
that of one more forest of their size, trained with the true labels. With r of n shuffles at least
as accurate,

    p = (1 + r) / (1 + n)

is exact, in the sense that P(p ≤ α) ≤ α if labels mean nothing: then the true labels are just one
more shuffle (Phipson and Smyth, 2010).

*Scans of one subject* are not independent. So subjects exchange their labels as wholes, with others
of as many scans in the same fold, and the labels of a subject that has several are shuffled among
its own scans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ndflow.errors import InvalidValueError
from ndflow.image.subject import Subject
from ndflow.image.volume import Volume
from ndflow.study.finished import FinishedStudy
from ndflow.study.plan import Study
from ndflow.study.references import goal_of, make_references, read_reference, visits_of
from ndflow.study.tasks import Failure, Progress, Task, run_tasks
from ndflow.subject.records import ScanModel
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

# ── predictions ───────────────────────────────────────────────────────────────────────────────────


class Chance(NamedTuple):
    """The balanced accuracy that chance gives.

    Attributes
    ----------
    mean, high : its mean and its 95th percentile.
    p : the probability that chance gives at least the accuracy that was reached.
    """

    mean: float
    high: float
    p: float


class SiteClassification(NamedTuple):
    """How well sites could be told apart.

    Attributes
    ----------
    probabilities : (scans, sites), predicted by forests that were not trained on the scan; sites
        are in alphabetical order, and each row sums to 1.
    chance : what shuffled sites give; None where that was not asked for.
    """

    probabilities: FloatArray
    chance: Chance | None


class Accuracy(NamedTuple):
    """How often the most probable class is the true one.

    Attributes
    ----------
    per_class : in each class.
    pooled, balanced : of all scans, and the mean over classes.
    """

    per_class: dict[str, float]
    pooled: float
    balanced: float


def accuracy(probabilities: FloatArray, labels: Sequence[str]) -> Accuracy:
    """Return how often the most probable class is the true one.

    Parameters
    ----------
    probabilities : (scans, classes), of the classes in alphabetical order.
    labels : (scans,), the true class of each scan.

    Examples
    --------
    >>> accuracy(np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), ["a", "b", "b"])[0]
    {'a': 1.0, 'b': 0.0}
    """
    truth = np.array(labels)
    classes = np.unique(truth)
    right = classes[probabilities.argmax(axis=1)] == truth
    per_class = {str(name): float(right[truth == name].mean()) for name in classes}
    balanced = float(np.mean([*per_class.values()]))
    return Accuracy(per_class, float(right.mean()), balanced)


def entropy(probabilities: ArrayLike) -> FloatArray:
    """Return the entropy of each row of (scans, classes), in bits.

    Examples
    --------
    >>> entropy([[1.0, 0.0], [0.5, 0.5]]).tolist()
    [0.0, 1.0]
    """
    bits: FloatArray = special.entr(np.asarray(probabilities, np.float64)).sum(axis=1) / np.log(2)
    return bits


# ── folds and forests ─────────────────────────────────────────────────────────────────────────────

Indices = NDArray[np.intp]
Fold = tuple[Indices, Indices]  # of the training and of the test scans

_SEEDS = 1 << 32
_ATTEMPTS = 100


def folds(labels: Sequence[str], seed: int, groups: Sequence[str] | None = None) -> list[Fold]:
    """Divide scans into two stratified folds.

    Parameters
    ----------
    labels : (scans,), the class of each scan.
    seed : of the random division.
    groups : (scans,); scans of one group, such as those of one subject, stay in one fold.

    Returns
    -------
    Indices of the training and of the test scans, one pair per fold.

    Raises
    ------
    InvalidValueError : if a class cannot be in all folds.

    Examples
    --------
    >>> sites = ["a", "a", "b", "b"]
    >>> [[sites[index] for index in test] for _, test in folds(sites, seed=0)]
    [['a', 'b'], ['a', 'b']]
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is not None and len(set(groups)) == len(groups):
        groups = None
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    attempts = _ATTEMPTS if min(Counter(labels).values()) > 1 else 0
    for attempt in range(attempts):  # with groups, a class may be missing from a training fold
        splitter = kind(2, shuffle=True, random_state=(seed + attempt) % _SEEDS)
        parts = list(splitter.split(np.zeros(len(labels)), np.array(labels), groups))
        if all({labels[index] for index in train} == set(labels) for train, _ in parts):
            return parts
    raise InvalidValueError(
        "each site needs scans of at least 2 subjects, one for each fold; leave out smaller sites, "
        "and subjects that were scanned at every site"
    )


Voxels = NDArray[np.float32]
Features = tuple[Voxels, Voxels]  # of the training and of the test scans, one row per scan


def forest_probabilities(
    features: Sequence[Features],
    parts: Sequence[Fold],
    labels: Sequence[str],
    *,
    seed: int,
    trees: int,
) -> FloatArray:
    """Return what random forests predict, each fold from the others.

    Parameters
    ----------
    features : of the training and of the test scans, one pair for each fold; finite.
    parts : the folds.
    labels : (scans,), the class of each scan.
    seed, trees : of the forests.

    Returns
    -------
    (scans, classes), the probability of each class, in alphabetical order.

    Examples
    --------
    >>> table, sites = np.array([[0.0], [0.1], [1.0], [1.1]]), ["a", "a", "b", "b"]
    >>> parts = [(np.array([0, 2]), np.array([1, 3])), (np.array([1, 3]), np.array([0, 2]))]
    >>> features = [(table[train], table[test]) for train, test in parts]
    >>> forest_probabilities(features, parts, sites, seed=0, trees=8)[2:].tolist()
    [[0.125, 0.875], [0.125, 0.875]]
    """
    from sklearn import config_context
    from sklearn.ensemble import RandomForestClassifier

    classes, codes = np.unique(labels, return_inverse=True)
    probabilities = np.zeros((len(labels), len(classes)))
    for (known, new), (train, test) in zip(features, parts, strict=True):
        # One job: several add up the votes of trees in whichever order they finish.
        forest = RandomForestClassifier(trees, random_state=seed, n_jobs=1)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            probabilities[test] = forest.fit(known, codes[train]).predict_proba(new)
    return probabilities


# ── chance ────────────────────────────────────────────────────────────────────────────────────────

_SHUFFLED_TREES = 25


def shuffled(
    labels: Sequence[str],
    parts: Sequence[Fold],
    generator: np.random.Generator,
    groups: Sequence[str] | None = None,
) -> list[str]:
    """Return the labels of scans, shuffled within folds.

    Parameters
    ----------
    labels : (scans,).
    parts : the folds, see `folds`.
    generator : of random numbers.
    groups : (scans,), the subject of each scan; None if all are different.

    Examples
    --------
    >>> parts = [(np.array([2, 3]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3]))]
    >>> found = shuffled(["a", "b", "c", "c"], parts, np.random.default_rng(0))
    >>> sorted(found[:2]), found[2:]
    (['a', 'b'], ['c', 'c'])
    """
    given, ready = np.array(labels), np.array(labels)
    subject = np.arange(given.size) if groups is None else np.array(groups)
    for _, test in parts:
        sizes = Counter(subject[test].tolist())
        for size in sorted(set(sizes.values())):
            alike = sorted(name for name, count in sizes.items() if count == size)
            places = np.array([test[subject[test] == name] for name in alike])
            moved = generator.permutation(given[places], axis=0)
            ready[places] = generator.permuted(moved, axis=1)
    return [str(name) for name in ready]


def shuffle_accuracy(
    features: Sequence[Features],
    parts: Sequence[Fold],
    labels: Sequence[str],
    *,
    seed: int,
    number: int,
    trees: int,
    groups: Sequence[str] | None = None,
) -> float:
    """Return the balanced accuracy of forests that are trained and tested on shuffled labels.

    Parameters
    ----------
    features : of the training and of the test scans, one pair for each fold.
    parts : the folds.
    labels : (scans,), the class of each scan.
    seed : of shuffles and forests.
    number : which shuffle; 0 for the labels as they are. Each has random numbers of its own, so
        the result does not depend on which others are computed, nor on where.
    trees : number of trees in a forest.
    groups : (scans,), the subject of each scan; None if all are different.

    Examples
    --------
    >>> table, sites = np.array([[0.0], [0.1], [1.0], [1.1]]), ["a", "a", "b", "b"]
    >>> parts = [(np.array([0, 2]), np.array([1, 3])), (np.array([1, 3]), np.array([0, 2]))]
    >>> features = [(table[train], table[test]) for train, test in parts]
    >>> shuffle_accuracy(features, parts, sites, seed=0, number=0, trees=5)
    1.0
    """
    generator = np.random.default_rng([seed, number])
    own = shuffled(labels, parts, generator, groups) if number else list(labels)
    forest_seed = int(generator.integers(_SEEDS))
    found = forest_probabilities(features, parts, own, seed=forest_seed, trees=trees)
    return accuracy(found, own).balanced


def chance_level(reached: float, by_chance: Sequence[float]) -> Chance:
    """Return what chance gives, and whether an accuracy exceeds it.

    Parameters
    ----------
    reached : with the true labels.
    by_chance : with shuffled ones; at least one.

    Examples
    --------
    >>> chance_level(0.9, [0.5, 0.4, 0.6, 0.5])
    Chance(mean=0.5, high=0.585, p=0.2)
    """
    # Accuracies that are the same may differ by rounding.
    higher = sum(one >= reached - 1e-12 for one in by_chance)
    p = (1 + higher) / (1 + len(by_chance))
    return Chance(float(np.mean(by_chance)), float(np.quantile(by_chance, 0.95)), p)


# ── one fold of one condition ─────────────────────────────────────────────────────────────────────

ANATOMY, RANKS = "anatomy", "ranks"
FLOORS = (RANKS, ANATOMY)

_SAMPLED = 40_000  # voxels of the whole grid that are kept
_GRID = 1e-3  # millimetres: grids that differ by less are the same


class Lattice(NamedTuple):
    """Some voxels of a scan, at the same places for every scan of a grid.

    Attributes
    ----------
    grid : the shape and the affine of the image; scans with equal grids are in a common space.
    voxels : unnormalised; NaN outside the mask and in lesions.
    aligned : with zero mean and unit standard deviation.
    painted : with every tissue in one intensity, the same for all scans; None without tissue
        probability maps.
    """

    grid: tuple[tuple[int, ...], tuple[float, ...]]
    voxels: Voxels
    aligned: Voxels
    painted: Voxels | None


def lattice_of(
    volume: Volume,
    counts: NDArray[np.bool_],
    values: FloatArray,
    tissues: Sequence[FloatArray],
    alignment: IntensityMap,
) -> Lattice:
    """Return a lattice of a scan.

    Parameters
    ----------
    volume : the scan.
    counts : (n,), whether each of its voxels counts.
    values, tissues : intensities, and probabilities of WM, GM and CSF, of those that count; there
        may be no probabilities.
    alignment : to zero mean and unit standard deviation.
    """
    shape, step = volume.spatial_shape, 1
    while np.prod([-(-length // step) for length in shape]) > _SAMPLED:
        step += 1
    every = tuple(slice((step - 1) // 2, None, step) for _ in shape)  # along each axis

    def sampled(shown: FloatArray) -> Voxels:
        picture = np.full(counts.shape, np.nan, np.float32)
        picture[counts] = shown
        kept = picture.reshape(volume.spatial_shape, order="F")[every]
        return kept.ravel(order="F")

    painted = None
    if tissues:  # as the tissue maps alone would give it: CSF 0, GM 1, WM 2
        wm, gm, csf = tissues
        whole = wm + gm + csf
        shares = np.divide(gm + 2 * wm, whole, out=np.zeros_like(whole), where=whole > 0)
        painted = sampled(shares)
    voxels = sampled(values)
    aligned = alignment(voxels).astype(np.float32)
    places = np.rint(np.asarray(volume.affine) / _GRID) * _GRID
    grid = (shape, tuple(places.ravel().tolist()))
    return Lattice(grid, voxels, aligned, painted)


def ranks_of(voxels: Voxels) -> Voxels:
    """Return the ranks of the voxels within each scan, from 0 to 1; the mean where some are equal.

    Examples
    --------
    >>> ranks_of(np.array([[5.0, 1.0, 1.0], [2.0, 3.0, 9.0]], np.float32)).tolist()
    [[1.0, 0.25, 0.25], [0.0, 0.5, 1.0]]
    """
    from scipy.stats import rankdata  # which takes half a second to import

    ranks = rankdata(voxels, axis=1) - 1
    shares: Voxels = (ranks / max(voxels.shape[1] - 1, 1)).astype(np.float32)
    return shares


def classify_folds(
    voxels: Voxels,
    scans: Sequence[Subject],
    study: Study | None,
    parts: Sequence[Fold],
    *,
    seed: int,
    trees: int,
) -> tuple[FloatArray, list[Features]]:
    """Predict the sites of all scans from their voxels, each fold from the others.

    Parameters
    ----------
    voxels : (scans, voxels), unnormalised, or as they are to be classified.
    scans : the scans.
    study : where their models are; None to leave the voxels as they are.
    parts : the folds, with every site in what each is trained on.
    seed, trees : of the forests.

    Returns
    -------
    The probabilities, and the features of the training and of the test scans in each fold.
    """
    features = [(voxels[train], voxels[test]) for train, test in parts]
    if study is not None:  # through maps to references that are made from the training scans
        models = {scan.name: ScanModel.read(study.model(scan)).model for scan in scans}
        visits = visits_of(study, scans)
        for fold, (train, test) in enumerate(parts):
            trained = [scans[place] for place in train]
            made = make_references(study, trained, models, nested=True)
            ready = np.empty_like(voxels)
            for place, scan in enumerate(scans):
                goal = goal_of(made.study, made.goals, scan, visits, models)
                ready[place] = goal.solve(models[scan.name]).imap(voxels[place])
            features[fold] = (ready[train], ready[test])
    sites = [str(scan.site) for scan in scans]
    return forest_probabilities(features, parts, sites, seed=seed, trees=trees), features


# ── tasks ─────────────────────────────────────────────────────────────────────────────────────────


def run_followed(
    function: Callable[..., Any], tasks: Sequence[Task], stage: str, progress: Progress, jobs: int
) -> tuple[dict[str, Any], list[Failure]]:
    """Return the results by the names of their tasks, in their order, and what failed.

    Parameters
    ----------
    function : what to call.
    tasks : the arguments of each call, with different names.
    stage : what to call it where progress is shown.
    progress : follows how far it has come.
    jobs : how many at a time.
    """
    done: dict[str, Any] = {}
    failures: list[Failure] = []
    if tasks:
        progress.begin(stage, len(tasks))
    with closing(run_tasks(function, tasks, jobs=jobs)) as outcomes:
        for task, outcome in zip(tasks, outcomes, strict=True):
            progress.step(stage, outcome)
            if outcome.failure is None:
                done[task.scan] = outcome.result
            else:
                failures.append(outcome.failure)
    return done, failures


# ── all conditions ────────────────────────────────────────────────────────────────────────────────

_FEWEST_VOXELS = 100


def known_sites(scans: Sequence[Subject]) -> list[str] | None:
    """Return the site of each scan; None where some are not known, or all are the same."""
    sites = [scan.site for scan in scans]
    known = [site for site in sites if site is not None]
    return known if len(known) == len(sites) and len(set(known)) > 1 else None


def known_subjects(scans: Sequence[Subject]) -> list[str]:
    """Return the subject of each scan; one that is not known counts as another one."""
    return [scan.person or f"scan {scan.name}" for scan in scans]


def recognise_sites(
    scans: Sequence[Subject],
    lattices: Sequence[Lattice],
    runs: Sequence[FinishedStudy],
    conditions: Mapping[str, Study | None],
    progress: Progress,
    *,
    seed: int,
    permutations: int,
    trees: int,
    jobs: int,
) -> tuple[dict[str, SiteClassification], list[Failure], list[str]]:
    """Predict the site of each scan under each condition, and measure what chance would give.

    Parameters
    ----------
    scans : the scans.
    lattices : the voxels of each.
    runs : the studies that are compared.
    conditions : the study of each condition, by its name; the first is unnormalised, and another
        without a study is aligned.
    progress : follows how far the work has come.
    seed, permutations, trees : of the classification; no permutations, no chance level.
    jobs : how many processes.

    Returns
    -------
    What was found under each condition, those that failed, and notes on what could not be done.
    """
    subjects = known_subjects(scans)
    sites = known_sites(scans)
    if sites is None:
        words = "no distances between sites, and no classification of sites"
        return {}, [], [f"{words}: the scans are not from two or more known sites"]
    if len({one.grid for one in lattices}) > 1:
        return {}, [], ["no classification of sites: the scans are not in a common space"]
    common = np.logical_and.reduce([np.isfinite(one.voxels) for one in lattices])
    try:
        if common.sum() < _FEWEST_VOXELS:
            raise InvalidValueError("the masks of the scans have too few voxels in common")
        parts = folds(sites, seed, groups=subjects)
    except InvalidValueError as error:
        return {}, [], [f"no classification of sites: {error}"]
    voxels = np.array([one.voxels[common] for one in lattices])
    aligned = np.array([one.aligned[common] for one in lattices])
    painted = [one.painted[common] for one in lattices if one.painted is not None]
    shown = dict.fromkeys(conditions, voxels)
    shown |= {name: aligned for name in [*conditions][1:] if conditions[name] is None}
    shown[RANKS] = ranks_of(voxels)
    if len(painted) == len(scans):
        shown[ANATOMY] = np.array(painted)
    tasks = [
        Task(name, {"voxels": own, "study": conditions.get(name)}) for name, own in shown.items()
    ]
    classify = partial(classify_folds, scans=scans, parts=parts, seed=seed, trees=trees)
    found, failures = run_followed(classify, tasks, "classify", progress, jobs)
    notes = _not_nested(runs)
    notes += [f"no classification of sites: {one.message}" for one in failures]
    few = min(trees, _SHUFFLED_TREES)
    shuffle = partial(
        shuffle_accuracy, parts=parts, labels=sites, seed=seed, trees=few, groups=subjects
    )
    # The first time, sites stay as they are.
    numbers = range(permutations + 1 if permutations else 0)
    tasks = [
        Task(f"{name}, shuffle {number}", {"features": features, "number": number})
        for name, (_, features) in found.items()
        for number in numbers
        if name not in FLOORS
    ]
    reached, lost = run_followed(shuffle, tasks, "shuffle sites", progress, jobs)
    notes += [f"no accuracy by chance: {one.message}" for one in lost]
    classified = {}
    for name, (probabilities, _) in found.items():
        called = [f"{name}, shuffle {number}" for number in numbers]
        known = [reached[one] for one in called if one in reached]
        chance = chance_level(known[0], known[1:]) if known and len(known) == len(called) else None
        classified[name] = SiteClassification(probabilities, chance)
    return classified, failures + lost, notes


def _not_nested(runs: Sequence[FinishedStudy]) -> list[str]:
    """Say which studies were given a reference that the scans themselves had gone into."""
    given = [run for run in runs if run.study.given is not None]
    read = [read_reference(str(one.study.given), one.study.channels)[0] for one in given]
    names = [one.provenance.get("names") or () for one in read]
    return [
        f"{run.name} was given a reference that some of these scans went into: its sites are "
        f"classified with that, not with one made without them"
        for run, own in zip(given, names, strict=True)
        if not run.scans.keys().isdisjoint(own)
    ]
