"""Figures drawn with matplotlib, one module per figure."""
