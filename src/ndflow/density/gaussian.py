"""The linear algebra of Gaussians that all formulas are built on.

Shapes: ``n`` points, ``K`` components, ``d`` channels. Arrays over components and points are laid
out components first, ``(K, n)`` and ``(K, n, d)``, so that sums over components run along
contiguous rows. Means are ``(K, d)``, matrices ``(K, d, d)``. Where a docstring says so, there may
be any leading axes before K: several mixtures at once, over the same points.

This is the only module that treats d = 1 separately. There a matrix is a number, and each function
has a branch for it, which makes the case of one channel as fast as code written for it alone. Sums
go through ``sum`` and ``einsum``, never through BLAS, whose order of summation depends on the
number of threads: the same input gives the same bytes for any number of them.
"""

from __future__ import annotations

import numpy as np

from ndflow.values import FloatArray, einsum

_LOG_2PI = float(np.log(2 * np.pi))


def displacements(x: FloatArray, means: FloatArray) -> FloatArray:
    """Return ``x − μ_k`` for points ``(n, d)`` and means ``(…, K, d)``, as ``(…, K, n, d)``."""
    if means.shape[-1] == 1:
        return np.subtract(x[:, 0], means)[..., np.newaxis]
    return x - means[..., np.newaxis, :]


def quadratic(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return ``vᵀ M v`` for symmetric matrices ``(…, K, d, d)`` and vectors ``(…, K, n, d)``."""
    if matrices.shape[-1] == 1:
        flat = vectors[..., 0]
        result: FloatArray = flat * flat
        result *= matrices[..., 0]
        return result
    return einsum("...i,...i->...", times(matrices, vectors), vectors)


def times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return ``M v`` for matrices ``(…, K, d, d)`` and vectors ``(…, K, n, d)``."""
    if matrices.shape[-1] == 1:
        return matrices * vectors
    return einsum("...ij,...nj->...ni", matrices, vectors)


def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the matrix products ``A B`` over any leading axes."""
    if a.shape[-1] == 1:
        return a * b
    return einsum("...ij,...jk->...ik", a, b)


def outer(one: FloatArray, two: FloatArray | None = None) -> FloatArray:
    """Return ``v wᵀ`` over any leading axes, or ``v vᵀ``."""
    other = one if two is None else two
    return one[..., :, np.newaxis] * other[..., np.newaxis, :]


def trace(matrices: FloatArray) -> FloatArray:
    """Return the traces over any leading axes."""
    if matrices.shape[-1] == 1:
        return matrices[..., 0, 0]
    return einsum("...ii->...", matrices)


def diagonals(matrices: FloatArray) -> FloatArray:
    """Return the diagonals of matrices ``(K, d, d)`` as a writeable view, ``(K, d)``."""
    d = matrices.shape[-1]
    return matrices.reshape(-1, d * d)[:, :: d + 1]


def symmetric(matrices: FloatArray) -> FloatArray:
    """Return the symmetric parts: rounding leaves symmetric matrices slightly asymmetric."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def inverse(matrices: FloatArray) -> FloatArray:
    """Return the inverses of symmetric positive-definite matrices, exactly symmetric."""
    if matrices.shape[-1] == 1:
        return 1.0 / matrices
    return symmetric(np.linalg.inv(matrices).astype(np.float64, copy=False))


def cholesky(matrices: FloatArray) -> FloatArray:
    """Return the lower Cholesky factors; LinAlgError if a matrix is not positive definite."""
    if matrices.shape[-1] == 1:
        if not (matrices > 0).all():
            raise np.linalg.LinAlgError("matrix is not positive definite")
        return np.sqrt(matrices)
    return np.linalg.cholesky(matrices).astype(np.float64, copy=False)


def log_det(matrices: FloatArray) -> FloatArray:
    """Return ``ln |M|`` of positive-definite matrices ``(K, d, d)``."""
    if matrices.shape[-1] == 1:
        return np.log(matrices[..., 0, 0])
    diagonal = einsum("...ii->...i", cholesky(matrices))
    result: FloatArray = 2.0 * np.log(diagonal).sum(axis=-1)
    return result


def log_pdf(x: FloatArray, means: FloatArray, precisions: FloatArray) -> FloatArray:
    """Return the log density of each Gaussian at each point, ``(K, n)``."""
    result = quadratic(precisions, displacements(x, means))
    result *= -0.5
    result += 0.5 * (log_det(precisions) - means.shape[1] * _LOG_2PI)[:, np.newaxis]
    return result


def log_sum_exp(terms: FloatArray) -> FloatArray:
    """Return ``ln Σ_k exp(terms_k)`` over the first axis."""
    top = terms.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)  # at infinite points, or NaN
    with np.errstate(divide="ignore"):
        result: FloatArray = np.log(np.exp(terms - top).sum(axis=0)) + top
    return result


def softmax(terms: FloatArray) -> FloatArray:
    """Return ``exp(terms_k) / Σ_l exp(terms_l)`` over the first axis."""
    result: FloatArray = np.exp(terms - terms.max(axis=0))
    result /= result.sum(axis=0)
    return result


def monomials(x: FloatArray) -> FloatArray:
    """Return 1, ``x_i``, and ``x_i x_j`` for i ≤ j, of points ``(n, d)``, as ``(F, n)``.

    A quadratic function of a point is a sum of these, with `coefficients`: for several channels,
    values of many such functions at many points are then one sum of few terms.
    """
    columns = np.ascontiguousarray(x.T)
    one, two = np.triu_indices(len(columns))
    return np.concatenate([np.ones((1, len(x))), columns, columns[one] * columns[two]])


def coefficients(constant: FloatArray, linear: FloatArray, matrices: FloatArray) -> FloatArray:
    """Return ``c + bᵀ x + xᵀ M x`` as coefficients of `monomials`, ``(…, K, F)``.

    Constants are ``(…, K)``, linear parts ``(…, K, d)``, matrices ``(…, K, d, d)``, not necessarily
    symmetric.
    """
    one, two = np.triu_indices(linear.shape[-1])
    both = matrices + np.swapaxes(matrices, -1, -2)
    squares = np.where(one == two, 0.5, 1.0) * both[..., one, two]
    return np.concatenate([constant[..., np.newaxis], linear, squares], axis=-1)


def quadratic_at(
    matrices: FloatArray, means: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ``(x − μ)ᵀ M (x − μ)``, ``(…, K, n)``, and what `weighted_moments` needs of x.

    Matrices are symmetric, ``(…, K, d, d)``, means ``(…, K, d)``, and points ``(n, d)``, near 0 and
    of order one: with several channels, squares are expanded.
    """
    if matrices.shape[-1] == 1:
        vectors = displacements(x, means)
        return quadratic(matrices, vectors), vectors
    pull = einsum("...ij,...j->...i", matrices, means)
    terms = coefficients(inner(means, pull), -2.0 * pull, matrices)
    basis = monomials(x)
    return einsum("...kf,fn->...kn", terms, basis), basis


def weighted_moments(
    weights: FloatArray, basis: FloatArray, means: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Σw, Σw(x − μ) and Σw(x − μ)(x − μ)ᵀ over points.

    Weights are ``(…, K, n)`` and means ``(…, K, d)``; the basis is that of `quadratic_at`, or of
    `moment_basis`.
    """
    d = means.shape[-1]
    if d == 1:
        flat = basis[..., 0]
        total = np.add.reduce(weights, axis=-1)
        weighted = weights * flat
        first = np.add.reduce(weighted, axis=-1)
        weighted *= flat
        second = np.add.reduce(weighted, axis=-1)
        return total, first[..., np.newaxis], second[..., np.newaxis, np.newaxis]
    sums = einsum("...kn,fn->...kf", weights, basis)
    total, first, squares = sums[..., 0], sums[..., 1 : d + 1], sums[..., d + 1 :]
    one, two = np.triu_indices(d)
    second = np.empty((*first.shape, d))
    second[..., one, two] = second[..., two, one] = squares
    crossed = outer(means, first)
    second -= crossed + np.swapaxes(crossed, -1, -2)
    second += total[..., np.newaxis, np.newaxis] * outer(means)
    return total, first - total[..., np.newaxis] * means, second


def moment_basis(x: FloatArray, means: FloatArray) -> FloatArray:
    """Return what `weighted_moments` needs of points ``(n, d)``."""
    return displacements(x, means) if x.shape[1] == 1 else monomials(x)


def spectral(function: np.ufunc, matrices: FloatArray) -> FloatArray:
    """Return a function of symmetric matrices, which is that of their eigenvalues."""
    if matrices.shape[-1] == 1:
        return np.asarray(function(matrices))
    values, vectors = np.linalg.eigh(matrices)
    return einsum("...ij,...j,...kj->...ik", vectors, function(values), vectors)


def monge(start: FloatArray, end: FloatArray) -> FloatArray:
    """Return the symmetric T with ``T Σ0 T = Σ1``: the optimal transport of centred Gaussians."""
    root = spectral(np.sqrt, start)
    if start.shape[-1] == 1:
        return spectral(np.sqrt, end) / root
    back = inverse(root)
    middle = spectral(np.sqrt, product(product(root, end), root))
    return symmetric(product(product(back, middle), back))


def kernel(shift: FloatArray, covariances: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``N(δ; 0, V)``, its gradient in δ and its gradient in V, over any leading axes.

    They are ``k``, ``−k V⁻¹δ`` and ``½ k (V⁻¹δ δᵀV⁻¹ − V⁻¹)``.
    """
    d = shift.shape[-1]
    precision = inverse(covariances)
    if d == 1:
        pulled = precision[..., 0] * shift
        exponent = (shift * pulled)[..., 0] - np.log(precision[..., 0, 0])
    else:
        pulled = einsum("...ij,...j->...i", precision, shift)
        exponent = einsum("...i,...i->...", pulled, shift) - log_det(precision)
    value: FloatArray = np.exp(-0.5 * (exponent + d * _LOG_2PI))
    by_covariance = outer(pulled) - precision
    by_covariance *= 0.5 * value[..., np.newaxis, np.newaxis]
    return value, -value[..., np.newaxis] * pulled, by_covariance


def main_coordinate(x: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the coordinates of points ``(n, d)`` along their first principal axis, ``(n,)``."""
    if x.shape[1] == 1:
        return x[:, 0]
    centred = x - einsum("n,ni->i", weights, x) / weights.sum()
    _, axes = np.linalg.eigh(einsum("n,ni,nj->ij", weights, centred, centred))
    axis = axes[:, -1] * np.sign(axes[np.argmax(np.abs(axes[:, -1])), -1])
    return einsum("ni,i->n", centred, axis)


def inner(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the inner products over the last axis."""
    if one.shape[-1] == 1:
        return (one * two)[..., 0]
    return einsum("...i,...i->...", one, two)
