"""How one density becomes another: alignment, matching, flows, and maps of intensities."""

from ndflow.transport.affine import Affine, align
from ndflow.transport.choosing import check_rules, chosen
from ndflow.transport.chords import Chords, chords
from ndflow.transport.divergence import Gradient, divergence, divergence_gradient
from ndflow.transport.exact import LinearTails, QuantileMap
from ndflow.transport.flow import Flow
from ndflow.transport.lookup import Lookup
from ndflow.transport.maps import Chain, IntensityMap
from ndflow.transport.match import Match, match
from ndflow.transport.normalising import DETERMINED, Modelled, along, normalising_map
from ndflow.transport.piecewise import PiecewiseLinear
from ndflow.transport.tabulated import InverseTabulated, Tabulated, smooth_table, tabulate

__all__ = [
    "DETERMINED",
    "Affine",
    "Chain",
    "Chords",
    "Flow",
    "Gradient",
    "IntensityMap",
    "InverseTabulated",
    "LinearTails",
    "Lookup",
    "Match",
    "Modelled",
    "PiecewiseLinear",
    "QuantileMap",
    "Tabulated",
    "align",
    "along",
    "check_rules",
    "chords",
    "chosen",
    "divergence",
    "divergence_gradient",
    "match",
    "normalising_map",
    "smooth_table",
    "tabulate",
]
