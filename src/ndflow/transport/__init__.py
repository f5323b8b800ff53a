"""From one density to another: alignment, matching, flows, and intensity maps."""

from ndflow.transport.divergence import divergence as divergence
from ndflow.transport.flow import Flow as Flow
from ndflow.transport.maps import Affine as Affine
from ndflow.transport.maps import Chain as Chain
from ndflow.transport.maps import IntensityMap as IntensityMap
from ndflow.transport.maps import PiecewiseLinear as PiecewiseLinear
from ndflow.transport.maps import align as align
from ndflow.transport.match import Match as Match
from ndflow.transport.match import match as match
from ndflow.transport.normalising_map import DETERMINED_RANGE as DETERMINED_RANGE
from ndflow.transport.normalising_map import normalising_map as normalising_map
from ndflow.transport.quantile_map import LinearTails as LinearTails
from ndflow.transport.quantile_map import QuantileMap as QuantileMap
from ndflow.transport.tabulated import InverseTabulated as InverseTabulated
from ndflow.transport.tabulated import LinearInterpolant as LinearInterpolant
from ndflow.transport.tabulated import Tabulated as Tabulated
from ndflow.transport.tabulated import linear_interpolant as linear_interpolant
from ndflow.transport.tabulated import tabulate as tabulate
