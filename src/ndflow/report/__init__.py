"""What happened in a study, shown: figures by matplotlib, and a page of HTML that holds them."""

from ndflow.report.content import (
    CentreEntry,
    Headline,
    Numbers,
    Page,
    Picture,
    ScanEntry,
    Views,
)
from ndflow.report.fitness import FitRow, fitness_figure
from ndflow.report.headline import headline_figure
from ndflow.report.page import render
from ndflow.report.pair import MapCurve, PairSide, pair
from ndflow.report.populations import Panel, populations
from ndflow.report.rendering import png, svg
from ndflow.report.scan import ScanPanel, scan_figure
from ndflow.report.slices import slices_figure
from ndflow.report.style import colours, line_styles
from ndflow.report.tissues import TissueRow, tissues
from ndflow.report.viewer import niivue
from ndflow.report.violins import Group, ViolinPanel, violin_panels, violins

__all__ = [
    "CentreEntry",
    "FitRow",
    "Group",
    "Headline",
    "MapCurve",
    "Numbers",
    "Page",
    "PairSide",
    "Panel",
    "Picture",
    "ScanEntry",
    "ScanPanel",
    "TissueRow",
    "Views",
    "ViolinPanel",
    "colours",
    "fitness_figure",
    "headline_figure",
    "line_styles",
    "niivue",
    "pair",
    "png",
    "populations",
    "render",
    "scan_figure",
    "slices_figure",
    "svg",
    "tissues",
    "violin_panels",
    "violins",
]
