"""The columns of a table brought to a target density, as a transformer of scikit-learn.

`fit` estimates the density of each feature as a Dirichlet-process Gaussian mixture and finds the
map from it to the target; `transform` takes values along that map, and `inverse_transform` back. On
a line, the map that takes one density to another and keeps the order of values is unique,
``f = F1⁻¹ ∘ F0`` (`ndflow.transport.quantile_map`).

Rows that are equal are joined first, and their weights added. Therefore a weight of three is the
same as a row that occurs three times, to the last digit.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow._version import installing
from ndflow.density import GaussianMixture, fit, histogram
from ndflow.density.binning import joined
from ndflow.density.mixture import marginal
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.transport import DETERMINED_RANGE, Affine, IntensityMap, QuantileMap, tabulate
from ndflow.transport.maps import Channelwise
from ndflow.transport.quantile_map import without_gaps
from ndflow.values import FloatArray, short

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils import validation
except ImportError as error:
    raise ImportError(
        "ndflow.integrations.sklearn needs scikit-learn 1.6 or later, which cannot be imported "
        f"({error}); try {installing('sklearn')}"
    ) from error

_FLOATS = (np.float64, np.float32)
_ROUNDING = 1e-14  # relative span of a constant feature
_TABLE = 1e-6  # error of the map of a feature, in standard deviations of the target


class DensityFlowTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Bring each feature to a target density, along a map that keeps the order of its values.

    Read more in ``docs/guides/scikit-learn.md``.

    Parameters
    ----------
    target : "normal", GaussianMixture or array-like, default="normal"
        What the features should look like: the standard normal density, another density, or a
        sample of shape (m, n_features), whose densities are estimated. A density of one channel, or
        a sample of one column, serves for all features.
    truncation : int, default=20
        The largest possible number of components of a density.

    Attributes
    ----------
    map_ : IntensityMap
        The map of all features.
    n_features_in_ : int
        The number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if `X` has names that are all strings.

    See Also
    --------
    ndflow.normalise : the same for scans, with masks and files.
    sklearn.preprocessing.QuantileTransformer : the empirical distribution function instead of an
        estimated density, to the normal or uniform one only.

    Notes
    -----
    Fits are deterministic. Missing values are refused; impute them first. A constant feature has no
    density, and is shifted to the mean of the target.

    The map is smooth and increases everywhere. Beyond the 0.05th and the 99.95th percentile of the
    data, it continues in a straight line, so that no value is clipped and outliers stay outliers.

    Weights are numbers of repetitions: their sum is how many observations there are, and with
    fewer observations the fit finds fewer components. Scale weights to a mean of one if they have
    an arbitrary unit.

    Examples
    --------
    >>> import numpy as np
    >>> from ndflow.integrations.sklearn import DensityFlowTransformer
    >>> generator = np.random.default_rng(0)
    >>> X = np.exp(generator.normal(size=(500, 1)))
    >>> flow = DensityFlowTransformer().fit(X)
    >>> Z = flow.transform(X)
    >>> np.allclose([Z.mean(), Z.std()], [0, 1], atol=0.05)
    True
    >>> np.allclose(flow.inverse_transform(Z), X)
    True
    """

    def __init__(self, target: Any = "normal", *, truncation: int = 20) -> None:
        self.target = target
        self.truncation = truncation

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the density of each feature, and find its map to the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; at least two rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; rows of weight 0 are left out.

        Returns
        -------
        self : DensityFlowTransformer
            The fitted transformer.

        Raises
        ------
        ValueError
            Data or weights that scikit-learn refuses, or a target with other features.
        """
        values = validation.validate_data(self, X, dtype=_FLOATS, ensure_min_samples=2)
        weights = validation._check_sample_weight(
            sample_weight, values, dtype=np.float64, ensure_non_negative=True
        )
        rows, counts = joined(values.astype(np.float64), weights)
        densities = [_density(column, counts, self.truncation) for column in rows.T]
        triples = zip(rows.T, densities, self._goals(), strict=True)
        self.map_ = Channelwise(tuple(_map(*triple) for triple in triples))
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Take values to the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values in the units of the training data.

        Returns
        -------
        X_tr : ndarray of shape (n_samples, n_features)
            The same in the units of the target, as float32 if `X` is, else as float64.
        """
        validation.check_is_fitted(self)
        values = validation.validate_data(self, X, dtype=_FLOATS, reset=False)
        return self.map_(values).astype(values.dtype, copy=False)

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Take values of the target back.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values in the units of the target.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            The same in the units of the training data.
        """
        validation.check_is_fitted(self)
        values = validation.check_array(X, dtype=_FLOATS, estimator=self)
        return self.map_.inverse()(values).astype(values.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn should know: float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _goals(self) -> list[GaussianMixture]:
        """Return the target density of each feature."""
        target, d = self.target, self.n_features_in_
        if isinstance(target, str) and target == "normal":
            target = GaussianMixture(np.ones(1), np.zeros(1), np.ones(1))
        if isinstance(target, GaussianMixture):
            goals = [marginal(target, channel) for channel in range(target.channels)]
        elif np.ndim(target) != 2:
            raise InvalidValueError(
                f"target must be 'normal', a GaussianMixture, or a table with the columns of X, "
                f"not {short(target)}"
            )
        else:
            names = list(getattr(target, "columns", ()))
            if names and names != list(getattr(self, "feature_names_in_", names)):
                raise InvalidValueError("target has other columns than X, or in another order")
            sample = validation.check_array(target, dtype=np.float64, input_name="target")
            ones = np.ones(len(sample))
            found = [_density(column, ones, self.truncation) for column in sample.T]
            goals = [goal for goal in found if goal is not None]
            if len(goals) < len(found):
                raise DegenerateDataError("target has a column without two different values")
        if len(goals) not in (1, d):
            raise InvalidValueError(f"target must have 1 or {d} features, not {len(goals)}")
        return goals * d if len(goals) == 1 else goals


def _density(column: FloatArray, counts: FloatArray, truncation: int) -> GaussianMixture | None:
    """Return the density of values that occur so many times, or None if they are constant."""
    largest = np.abs(column).max()
    span = float(np.max(0.5 * column) - np.min(0.5 * column))
    if span <= _ROUNDING * largest:
        return None
    try:
        return fit(histogram(column, weights=counts), truncation=truncation).mixture
    except DegenerateDataError:  # all values are equal but a few that are far away
        mean = np.average(column, weights=counts, keepdims=True)
        variance = np.average((column - mean) ** 2, weights=counts, keepdims=True)
        return GaussianMixture(np.ones(1), mean, 1 / variance)


def _map(column: FloatArray, source: GaussianMixture | None, goal: GaussianMixture) -> IntensityMap:
    """Return the map of a feature, in a table; a constant goes to the mean of the target."""
    if source is None:
        return Affine(np.eye(1), goal.mean() - column[0])
    exact = QuantileMap(*without_gaps(source, goal, DETERMINED_RANGE))
    low, high = source.quantile(DETERMINED_RANGE).tolist()
    return tabulate(exact, low, high, tolerance=_TABLE * float(np.sqrt(goal.covariance()[0, 0])))
