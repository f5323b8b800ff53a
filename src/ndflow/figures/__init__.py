"""Figures drawn with matplotlib, one module per kind of figure."""
