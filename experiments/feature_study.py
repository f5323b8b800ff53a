"""The figures of docs/guides/scikit-learn.md: how many rows a density needs, and joint features.

    python experiments/feature_study.py

One feature, normal or lognormal, is brought to the standard normal density; the error is that of
fresh values, whose true place is known. Then dependent features with two peaks each are brought
jointly to independent normal ones; the error is the largest of their covariances.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from ndflow.integrations.sklearn import DensityFlowTransformer

FEATURES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "normal": lambda z: z,
    "lognormal": lambda z: np.exp(0.6 * z),
}
SAMPLES = 12


def one_feature(name: str, rows: int, generator: np.random.Generator) -> list[float]:
    """Return the errors of the density flow, linear scaling and empirical quantiles."""
    feature, fresh = FEATURES[name], generator.normal(size=(2000, 1))
    errors = []
    for _ in range(SAMPLES):
        X = feature(generator.normal(size=(rows, 1)))
        quantiles = QuantileTransformer(n_quantiles=min(rows, 1000), output_distribution="normal")
        transformers = (DensityFlowTransformer(), StandardScaler(), quantiles)
        mapped = [one.fit(X).transform(feature(fresh)) for one in transformers]
        errors.append([float(np.sqrt(np.mean((one - fresh) ** 2))) for one in mapped])
    return [float(error) for error in np.mean(errors, axis=0)]


def dependent(rows: int, features: int, generator: np.random.Generator) -> NDArray[np.float64]:
    X = generator.normal(size=(rows, features))
    second = generator.random(rows) < 0.4
    X[second] = 0.5 * X[second] + 2
    X[:, 1] += 0.7 * X[:, 0]
    X[:, 0] = np.exp(0.3 * X[:, 0])
    return X


def joint_features(features: int, rows: int) -> float:
    """Return the largest error of a covariance, in fresh rows."""
    generator = np.random.default_rng(0)
    X = dependent(rows, features, generator)
    flow = DensityFlowTransformer(joint=True).fit(X)
    mapped = flow.transform(dependent(3000, features, generator))
    return float(np.abs(np.cov(mapped.T) - np.eye(features)).max())


def main() -> None:
    generator = np.random.default_rng(0)
    print("feature, rows: flow, scaler, quantiles")
    for name in FEATURES:
        for rows in (30, 100, 1000):
            errors = one_feature(name, rows, generator)
            print(f"{name}, {rows}: " + ", ".join(f"{error:.2f}" for error in errors))
    print("features, rows: largest error of a covariance")
    for features in (2, 4, 6, 10):
        for rows in (200, 3000):
            print(f"{features}, {rows}: {joint_features(features, rows):.2f}")


if __name__ == "__main__":
    main()
