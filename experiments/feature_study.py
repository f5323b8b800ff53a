"""The figures of docs/guides/scikit-learn.md: how many rows a density needs.

    python experiments/feature_study.py

One feature, normal or lognormal, is brought to the standard normal density; the error is that of
fresh values, whose true place is known.
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


def main() -> None:
    generator = np.random.default_rng(0)
    print("feature, rows: flow, scaler, quantiles")
    for name in FEATURES:
        for rows in (30, 100, 1000):
            errors = one_feature(name, rows, generator)
            print(f"{name}, {rows}: " + ", ".join(f"{error:.2f}" for error in errors))


if __name__ == "__main__":
    main()
