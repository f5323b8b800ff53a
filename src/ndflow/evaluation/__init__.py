"""Finished studies compared: what is measured, the tables, the verdict and the figures."""
