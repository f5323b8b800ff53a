"""The same input gives the same bytes, for any number of BLAS threads and in any process."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ndflow

# Every stage from voxels to JSON, in one, two and three channels. It prints one checksum per stage.
PROGRAM = """
import hashlib, json
import numpy as np
import ndflow
from ndflow.density.condense import condensed, trimmed

def checksum(*items):
    digest = hashlib.sha256()
    for item in items:
        is_value = hasattr(item, "to_dict")
        digest.update(json.dumps(item.to_dict()).encode() if is_value else item.tobytes())
    return digest.hexdigest()

def mixture(d, seed, components=5):
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.full(components, 3.0))
    axes = np.linalg.qr(generator.standard_normal((components, d, d)))[0]
    precisions = np.einsum("kij,kj,klj->kil", axes, generator.uniform(1, 9, (components, d)), axes)
    return ndflow.GaussianMixture(weights, generator.standard_normal((components, d)), precisions)

def scan(d, seed):
    axis = np.linspace(-3, 3, {1: 1001, 2: 64, 3: 16}[d])
    grid = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    density = mixture(d, seed).pdf(grid)
    return ndflow.Histogram(100 * grid, 1 + np.rint(2e6 * density / density.sum()))

sums = {}
for d in (1, 2, 3):
    used = condensed(trimmed(scan(d, 1)))
    sums[f"bins {d}"] = len(used.counts)
    fit = ndflow.fit(scan(d, 1))
    sums[f"fit {d}"] = checksum(fit)
    source, target = fit.mixture, mixture(d, 2).transformed(100 * np.eye(d), np.zeros(d))
    aligned = ndflow.transport.align(source, target)
    near = source.transformed(aligned.matrix, aligned.offset)
    sums[f"divergence {d}"] = ndflow.transport.divergence(near, target)
    match = ndflow.transport.match(near, target)
    sums[f"match {d}"] = checksum(match)
    x = np.random.default_rng(3).normal(0, 300, (5_000, d))
    maps = {"flow": ndflow.transport.Flow(near, match.matched, steps=4)}
    if d == 1:
        exact = ndflow.normalising_map(source, target, objective="cramer")
        table = ndflow.transport.tabulate(exact, -300, 300)
        maps |= {"exact": exact, "table": table}
    for name, imap in maps.items():
        back = imap.inverse()
        values = imap(x), imap.log_det_jacobian(x), back(x), back.log_det_jacobian(x)
        sums[f"{name} {d}"] = checksum(imap, *values)

# Sums over more than 10,000 terms: there a plain dot product of OpenBLAS does depend on threads.
levels = np.arange(16_000.0)
wide = ndflow.Histogram(levels, 1 + mixture(1, 4).pdf(levels / 4000 - 2))
sums["long histogram"] = checksum(wide.mean(), wide.covariance())
many = ndflow.density.stack([mixture(1, seed) for seed in range(2_400)])
x = np.linspace(-3, 3, 20)
sums["long mixture"] = checksum(many.mean(), many.covariance(), many.pdf(x), many.cdf(x))
print(json.dumps(sums))
"""


def checksums(threads: int, hash_seed: int) -> dict[str, str | int]:
    """Run the program in a fresh process."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    settings = dict.fromkeys(names, str(threads)) | {"PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    environment = os.environ | settings
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


def test_two_blas_threads_in_another_process_give_the_same_bytes() -> None:
    alone = checksums(threads=1, hash_seed=0)
    assert min(alone[f"bins {d}"] for d in (1, 2, 3)) > 1000  # enough for BLAS to use threads
    assert checksums(threads=2, hash_seed=1) == alone


# Whether threads change a sum depends on the machine, the BLAS and the sizes, so the test above can
# pass by luck. What makes the promise hold is that no long sum goes through BLAS at all.

THROUGH_BLAS = {
    *("convolve", "corrcoef", "correlate", "cov", "dot", "inner", "matmul", "matvec", "multi_dot"),
    *("norm", "polyfit", "tensordot", "vdot", "vecdot", "vecmat"),
}


def uses_of_blas(source: str) -> list[str]:
    """Name what in a module would go through BLAS: ``a @ b``, ``np.dot(a, b)``, ``a.dot(b)``, …."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                found.append(f"line {node.lineno}: @")
            case ast.Attribute(value=owner, attr=name) if name == "dot" or (
                name in THROUGH_BLAS and ast.unparse(owner) in ("np", "np.linalg", "linalg")
            ):
                found.append(f"line {node.lineno}: {name}")
            case ast.alias(name=name) if name in THROUGH_BLAS:
                found.append(f"line {node.lineno}: {name}")
            case ast.keyword(arg="optimize"):
                found.append(f"line {node.value.lineno}: optimize")
    return found


MATHEMATICS = sorted(
    path
    for part in ("density", "transport", "population")
    for path in Path(ndflow.__path__[0], part).glob("*.py")
)


@pytest.mark.parametrize("module", MATHEMATICS, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_no_sum_of_the_mathematics_goes_through_blas(module: Path) -> None:
    assert uses_of_blas(module.read_text(encoding="utf-8")) == []
