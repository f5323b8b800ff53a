"""Random mixtures that several tests share, for hypothesis and for loops."""

import numpy as np
from hypothesis import strategies as st

from ndflow import Affine, GaussianMixture
from ndflow.transport import Match, align, match


def random_mixture(
    generator: np.random.Generator, components: int, channels: int = 1, spread: float = 1.0
) -> GaussianMixture:
    """A mixture with means of order `spread` and standard deviations between about 0.3 and 1."""
    weights = generator.dirichlet(np.full(components, 3.0))
    means = spread * generator.standard_normal((components, channels))
    axes = np.linalg.qr(generator.standard_normal((components, channels, channels)))[0]
    sds = generator.uniform(0.3, 1.0, (components, channels))
    precisions = np.einsum("kij,kj,klj->kil", axes, sds**-2, axes)
    return GaussianMixture(weights, means, precisions)


def mixtures(
    channels: int | None = None, most: int = 6, spread: float = 1.0
) -> st.SearchStrategy[GaussianMixture]:
    """Hypothesis strategy for `random_mixture`."""
    return st.builds(
        lambda seed, components, d: random_mixture(
            np.random.default_rng(seed), components, d, spread
        ),
        seed=st.integers(0, 2**32 - 1),
        components=st.integers(1, most),
        d=st.integers(1, 3) if channels is None else st.just(channels),
    )


def moved(mixture: GaussianMixture, affine: Affine) -> GaussianMixture:
    return mixture.transformed(affine.matrix, affine.offset)


def regularised_match(generator: np.random.Generator, channels: int = 1) -> Match:
    """A random mixture, aligned and matched to another with the default regulariser."""
    source = random_mixture(generator, int(generator.integers(2, 7)), channels)
    target = random_mixture(generator, int(generator.integers(2, 7)), channels)
    return match(moved(source, align(source, target)), target)
