"""Figures that show what normalisation did: from arrays to pictures, by matplotlib alone."""

from ndflow.report.fitness import FitRow, fitness_figure
from ndflow.report.pair import MapCurve, PairSide, pair
from ndflow.report.populations import Panel, populations
from ndflow.report.rendering import png, svg
from ndflow.report.style import colours, line_styles
from ndflow.report.tissues import TissueRow, tissues
from ndflow.report.violins import Group, ViolinPanel, violin_panels, violins

__all__ = [
    "FitRow",
    "Group",
    "MapCurve",
    "PairSide",
    "Panel",
    "TissueRow",
    "ViolinPanel",
    "colours",
    "fitness_figure",
    "line_styles",
    "pair",
    "png",
    "populations",
    "svg",
    "tissues",
    "violin_panels",
    "violins",
]
