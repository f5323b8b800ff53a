"""A self-test of two seconds: a scan with a known truth, through everything a study needs.

One simulated head is seen by two scanners. Its *canonical* intensity c is that of the tissues, and
the scanners show ``a(c)`` and ``b(c)``, both increasing, with noise of their own. So the map from
the first scan to the second is known: ``b ∘ a⁻¹``. Each check compares what ndflow finds with such
a fact, within a tolerance that a sound installation keeps by far.

What is tested is imported by the checks, so that a package that cannot be imported is a check that
failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exc
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ndflow.values import FloatArray

if TYPE_CHECKING:
    from ndflow.scan.results import Result

__all__ = ["Check", "SelfTest", "self_test"]

_SHAPE = (40, 48, 40)
_TISSUES = ((0.25, 0.06), (0.6, 0.05), (0.9, 0.04))  # mean and sd of CSF, GM and WM
_BORDERS = (0.62, 0.86)  # between WM, GM and CSF, relative to the radius of the head
_NOISE = 0.01  # relative to the brightest intensity

# The largest errors of a sound installation, several times those that are usual.
_FIT = 0.02  # of the voxels
_MAP, _INVERSE = 0.1, 1e-4  # standard deviations
_BUILTIN = 10.0  # units of the built-in reference


@dataclass(frozen=True)
class Check:
    """One check of the self-test.

    Attributes
    ----------
    name : what was checked.
    passed : whether it is as it should be.
    found : what was found, or what went wrong.
    details : the traceback of an error.
    """

    name: str
    passed: bool
    found: str
    details: str = ""


@dataclass(frozen=True)
class SelfTest:
    """The checks of a self-test, and how long they took together.

    Attributes
    ----------
    checks : in the order in which they were made.
    seconds : by the clock.
    """

    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(check.passed for check in self.checks)


def self_test() -> SelfTest:
    """Run the self-test. It writes to the folder for temporary files only, and cleans up.

    Returns
    -------
    SelfTest
        What was found. An error within a check is a check that failed.
    """
    begin = time.perf_counter()
    head = _Head()
    checks = tuple(_checked(name, check, head) for name, check in _CHECKS.items())
    return SelfTest(checks, time.perf_counter() - begin)


class _WrongError(Exception):
    """Something is not as it should be."""


def _checked(name: str, check: Callable[[_Head], str], head: _Head) -> Check:
    try:
        return Check(name, True, check(head))
    except _WrongError as wrong:
        return Check(name, False, str(wrong))
    except Exception as error:  # of whatever package: that is what the test is for
        return Check(name, False, f"{type(error).__name__}: {error}", format_exc())


def _first_scanner(canonical: FloatArray) -> FloatArray:
    shown: FloatArray = 1200 * canonical**1.3
    return shown


def _second_scanner(canonical: FloatArray) -> FloatArray:
    shown: FloatArray = 300 * np.log1p(3 * canonical)
    return shown


class _Head:
    """The simulated head, and what ndflow makes of it: each computed when it is first needed."""

    @cached_property
    def canonical(self) -> FloatArray:
        """The canonical intensities of the head; 0 outside."""
        generator = np.random.default_rng(2018)
        axes = np.meshgrid(*(np.linspace(-1.1, 1.1, n) for n in _SHAPE), indexing="ij")
        radius = np.sqrt(sum(axis**2 for axis in axes))
        tissue = 2 - np.digitize(radius, _BORDERS)
        means, sds = np.array(_TISSUES).T
        values = means[tissue] + sds[tissue] * generator.standard_normal(_SHAPE)
        inside: FloatArray = np.where(radius < 1, np.clip(values, 0.02, 1.1), 0)
        return inside

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Which voxels belong to the head."""
        return self.canonical > 0

    @cached_property
    def first(self) -> NDArray[np.float32]:
        """The head as the first scanner shows it."""
        return self._seen_by(_first_scanner, np.random.default_rng(1))

    @cached_property
    def second(self) -> NDArray[np.float32]:
        """The head as the second scanner shows it."""
        return self._seen_by(_second_scanner, np.random.default_rng(2))

    @cached_property
    def result(self) -> Result:
        """What comes of bringing the first scan to the second."""
        from ndflow.scan.normalise import normalise

        return normalise(self.first, self.second)

    @cached_property
    def normalised(self) -> NDArray[np.float32]:
        """The voxels of that result."""
        return np.asarray(self.result.image)

    def _seen_by(
        self, curve: Callable[[FloatArray], FloatArray], generator: np.random.Generator
    ) -> NDArray[np.float32]:
        noise = _NOISE * curve(np.ones(1)) * generator.standard_normal(_SHAPE)
        shown = np.maximum(curve(self.canonical) + noise, 1)
        return np.where(self.inside, shown, 0).astype(np.float32)


def _fit(head: _Head) -> str:
    """Compare the quantiles of the fitted density with those of the voxels."""
    from ndflow.scan.fit import fit

    mixture = fit(head.first).mixture
    levels = np.linspace(0.05, 0.95, 19)
    quantiles = np.quantile(head.first[head.inside], levels)
    error = float(np.abs(mixture.cdf(quantiles).ravel() - levels).max())
    _require(error, _FIT, "the density and the histogram differ by {} of the voxels")
    return f"quantiles within {error:.1g}"


def _map(head: _Head) -> str:
    """Compare the map with the true one, where most voxels are."""
    levels = np.linspace(0.05, 0.95, 91)
    canonical: FloatArray = np.quantile(head.canonical[head.inside], levels).astype(np.float64)
    truth = _second_scanner(canonical)
    sd = float(head.second[head.inside].std())
    error = float(np.sqrt(np.mean((head.result.imap(_first_scanner(canonical)) - truth) ** 2)) / sd)
    _require(error, _MAP, "the map and the truth differ by {} standard deviations")
    return f"truth within {error:.1g} standard deviations"


def _inverse(head: _Head) -> str:
    """Undo the map."""
    from ndflow.scan.apply import apply

    back = np.asarray(apply(head.normalised, head.result.imap, inverse=True).image)
    sd = float(head.first[head.inside].std())
    error = float(np.abs(back - head.first)[head.inside].max()) / sd
    _require(error, _INVERSE, "the map and its inverse miss the scan by {} standard deviations")
    return f"scan within {error:.0e} standard deviations"


def _builtin(head: _Head) -> str:
    """Bring the scan to the built-in reference, which has mean 500 and standard deviation 125."""
    from ndflow.scan.normalise import normalise

    voxels = np.asarray(normalise(head.first, "builtin:T1w").image)[head.inside]
    mean, sd = float(voxels.mean()), float(voxels.std())
    if abs(mean - 500) > _BUILTIN or abs(sd - 125) > _BUILTIN:
        raise _WrongError(f"mean {mean:.0f} and standard deviation {sd:.0f}, not 500 and 125")
    return f"mean {mean:.0f}, standard deviation {sd:.0f}"


def _files(head: _Head) -> str:
    """Normalise from file to file, and read the result with nibabel alone."""
    import nibabel

    from ndflow.scan.normalise import normalise

    affine = np.diag([-1.5, 1.5, 1.5, 1.0])
    with TemporaryDirectory(prefix="ndflow-") as folder:
        scan, output = Path(folder, "scan.nii.gz"), Path(folder, "normalised.nii.gz")
        image = nibabel.Nifti1Image(head.first, affine)  # type: ignore[no-untyped-call]
        nibabel.save(image, scan)
        normalise(scan, head.second, output=output)
        written: nibabel.Nifti1Image = nibabel.load(output)  # type: ignore[assignment]
        voxels, place = np.asarray(written.dataobj), written.affine
        size = output.stat().st_size
    if not np.array_equal(voxels, head.normalised):
        raise _WrongError("the voxels in the file are not those in memory")
    if place is None or not np.array_equal(place, affine):
        raise _WrongError("the place of the scan in space was not kept")
    return f"NIfTI of {size / 1e3:.0f} kB written and read"


def _worker(head: _Head) -> str:
    """Have another process do something, as the workers of a study do."""
    from ndflow.study.parallel.workers import run_in_workers

    killed = -1
    ((_, answer),) = run_in_workers(abs, [-len(_SHAPE)], jobs=1, killed=lambda _: killed)
    if answer == killed:
        raise _WrongError("worker processes die as soon as they are started")
    return "a process was started and answered"


def _require(error: float, largest: float, message: str) -> None:
    if not error <= largest:  # not a number is wrong, too
        raise _WrongError(f"{message.format(f'{error:.2g}')}; at most {largest:g} is expected")


_CHECKS: dict[str, Callable[[_Head], str]] = {
    "density": _fit,
    "map": _map,
    "inverse": _inverse,
    "built-in": _builtin,
    "files": _files,
    "workers": _worker,
}
