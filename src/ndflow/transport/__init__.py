"""From one density to another: alignment, matching, flows, and intensity maps."""

from ndflow.transport.divergence import divergence, divergence_gradient
from ndflow.transport.flow import Flow
from ndflow.transport.maps import Affine, Chain, Channelwise, IntensityMap, PiecewiseLinear, align
from ndflow.transport.match import Match, check_rules, components_by_rule, match
from ndflow.transport.meshed import Meshed
from ndflow.transport.normalising_map import (
    DETERMINED_RANGE,
    align_and_match,
    flow_map,
    normalising_map,
)
from ndflow.transport.quantile_map import LinearTails, QuantileMap
from ndflow.transport.tabulated import (
    InverseTabulated,
    LinearInterpolant,
    Tabulated,
    linear_interpolant,
    smooth_table,
    tabulate,
)

__all__ = [
    "DETERMINED_RANGE",
    "Affine",
    "Chain",
    "Channelwise",
    "Flow",
    "IntensityMap",
    "InverseTabulated",
    "LinearInterpolant",
    "LinearTails",
    "Match",
    "Meshed",
    "PiecewiseLinear",
    "QuantileMap",
    "Tabulated",
    "align",
    "align_and_match",
    "check_rules",
    "components_by_rule",
    "divergence",
    "divergence_gradient",
    "flow_map",
    "linear_interpolant",
    "match",
    "normalising_map",
    "smooth_table",
    "tabulate",
]
