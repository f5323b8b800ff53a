"""What people use now: each of these methods ends in an `IntensityMap`, like ours."""

from ndflow.baselines.landmarks import (
    BASELINES,
    NYUL_LANDMARKS,
    Joined,
    Landmarks,
    check_installed,
    measure,
    of_density,
    standard,
)
from ndflow.baselines.percentiles import quantiles_at

__all__ = [
    "BASELINES",
    "NYUL_LANDMARKS",
    "Joined",
    "Landmarks",
    "check_installed",
    "measure",
    "of_density",
    "quantiles_at",
    "standard",
]
