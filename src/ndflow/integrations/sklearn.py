"""Features brought to a target density, as a transformer of scikit-learn.

`fit` estimates the density of the training data as a Dirichlet-process Gaussian mixture and finds
the map from it to the target; `transform` takes values along that map, and `inverse_transform`
back. Each feature has a map of its own, or all of them have one joint map, which also changes how
they depend on each other.

The maps are those of `ndflow.integrations.feature_maps`.

Rows that are equal are joined first, and their weights added. Therefore a weight of three is the
same as a row that occurs three times, to the last digit.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.density.binning import joined
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.integrations.feature_maps import FeatureFitting, feature_density, line_map, together_map
from ndflow.integrations.feature_targets import goals, joint_goal
from ndflow.transport import Channelwise, IntensityMap
from ndflow.values import FloatArray, positive

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import FLOAT_DTYPES, check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "ndflow.integrations.sklearn needs scikit-learn 1.6 or later, which cannot be imported "
        f"({error}); try pip install 'ndflow[sklearn]'"
    ) from error

__all__ = ["DensityFlowTransformer"]

_MOST_TOGETHER = 10  # features of a joint map
_DEPENDENT = 1e-10  # smallest eigenvalue of the correlations of features that are independent


class DensityFlowTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Bring features to a target density, each by itself or several jointly.

    Read more in ``docs/guides/scikit-learn.md``.

    Parameters
    ----------
    target : "normal", path, Reference, GaussianMixture, array or dict, default="normal"
        What the features should look like: the standard normal density; a reference or a density,
        its file, or ``"builtin:T1w"``; or a sample of shape (m,) or (m, n_features), whose density
        is estimated; the columns of a table are found by the names of the features, if both have
        names. A density of one channel serves for each feature, one of several has a channel
        for each feature. Without `joint`, it may be a dictionary of all these by the names of the
        features.
    joint : bool, default=False
        Map all features together, at most ten, so that they also depend on each other as they do
        in the target. Otherwise each feature has a map of its own, which keeps the order of its
        values.
    truncation : int, default=20
        The largest possible number of components of a density.
    concentration : float, default=2.0
        α of the Dirichlet process; larger values expect more components.
    regularisation : float, default=0.0
        How strongly the components of the data are held back from moving to the target. With 0,
        the result has the target density as exactly as the density of the data is known. With more,
        such as the 0.001 that commands use for scans, components stay whole, and differences in
        their proportions are kept. The flow of a joint map is always held back a little, by 0.0003.

    Attributes
    ----------
    map_ : IntensityMap
        The map of all features.
    densities_ : list of GaussianMixture or None
        The density of each feature; None for a constant one.
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
    density, and is shifted to the mean of the target; a joint map refuses it.

    The map is smooth and increases everywhere. Beyond the 0.05th and the 99.95th percentile of the
    data, it continues in a straight line, so that no value is clipped and outliers stay outliers. A
    joint map is integrated numerically, and its inverse is accurate to about a thousandth of a
    standard deviation.

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

    def __init__(
        self,
        target: Any = "normal",
        *,
        joint: bool = False,
        truncation: int = 20,
        concentration: float = 2.0,
        regularisation: float = 0.0,
    ) -> None:
        self.target = target
        self.joint = joint
        self.truncation = truncation
        self.concentration = concentration
        self.regularisation = regularisation

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the density of the data, and find the map to the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; at least two rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or float, default=None
            How often each row counts, or one number for all; rows of weight 0 are left out.

        Returns
        -------
        self : DensityFlowTransformer
            The fitted transformer.

        Raises
        ------
        ValueError
            Data or weights that scikit-learn refuses, a target with other channels, a parameter out
            of its range, or features that have no joint density.
        """
        values = validate_data(self, X, dtype=FLOAT_DTYPES, ensure_min_samples=2)
        weights = _checked_weights(sample_weight, len(values))
        positive(self.regularisation, "regularisation", zero=True)
        rows, counts = joined(values.astype(np.float64), weights)
        fitting = FeatureFitting(self.truncation, self.concentration)
        self.densities_ = [feature_density(column, counts, fitting) for column in rows.T]
        if self.joint and self.n_features_in_ > 1:
            self.map_ = self._joint(rows, counts, fitting)
        else:
            self.map_ = self._separate(rows, fitting)
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
        check_is_fitted(self)
        values = validate_data(self, X, dtype=FLOAT_DTYPES, reset=False)
        return _in_kind(self.map_(values), values)

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
        check_is_fitted(self)
        values = check_array(X, dtype=FLOAT_DTYPES, estimator=self)
        if values.shape[1] != self.n_features_in_:
            raise InvalidValueError(
                f"X has {values.shape[1]} features, but DensityFlowTransformer is expecting "
                f"{self.n_features_in_} features as input"
            )
        return _in_kind(self.map_.inverse()(values), values)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn should know: float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _separate(self, rows: FloatArray, fitting: FeatureFitting) -> IntensityMap:
        """Return the map of each feature by itself."""
        names, named = list(self.get_feature_names_out()), hasattr(self, "feature_names_in_")
        wanted = goals(self.target, names, fitting.mixture, named=named)
        triples = zip(rows.T, self.densities_, wanted, strict=True)
        return Channelwise(tuple(line_map(*triple, self.regularisation) for triple in triples))

    def _joint(self, rows: FloatArray, counts: FloatArray, fitting: FeatureFitting) -> IntensityMap:
        """Return the map of all features together."""
        names, d = list(self.get_feature_names_out()), self.n_features_in_
        if d > _MOST_TOGETHER:
            raise InvalidValueError(
                f"a joint map takes at most {_MOST_TOGETHER} features, but X has {d}; use "
                f"joint=False, or reduce their number first, for example with PCA"
            )
        marginals = [own for own in self.densities_ if own is not None]
        if len(marginals) < d:
            pairs = zip(names, self.densities_, strict=True)
            constant = ", ".join(name for name, own in pairs if own is None)
            raise DegenerateDataError(
                f"there is no joint density with a constant feature ({constant}); leave it out, or "
                f"use joint=False"
            )
        if len(rows) <= d or np.linalg.eigvalsh(np.corrcoef(rows.T))[0] < _DEPENDENT:
            raise DegenerateDataError(
                f"there is no joint density of the {d} features, because one of them is a linear "
                f"function of the others in the {len(rows)} distinct rows of X; leave it out, "
                f"give more rows, or use joint=False"
            )
        named = hasattr(self, "feature_names_in_")
        goal = joint_goal(self.target, names, fitting.mixture, named=named)
        return together_map(rows, counts, marginals, goal, fitting, self.regularisation)


def _checked_weights(sample_weight: ArrayLike | None, count: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(count)
    given = np.full(count, sample_weight) if isinstance(sample_weight, Real) else sample_weight
    weights: FloatArray = check_array(
        given, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (count,):
        raise InvalidValueError(
            f"sample_weight must have one number for each of the {count} rows of X, not the shape "
            f"{weights.shape}"
        )
    if (weights < 0).any():
        raise InvalidValueError("sample_weight must not be negative; 0 leaves a row out")
    if not weights.any():
        raise InvalidValueError("sample_weight must not be zero for all rows")
    return weights


def _in_kind(result: FloatArray, like: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Return a result as float32 if the input is, else as float64."""
    return result.astype(np.float32) if like.dtype == np.float32 else result
