"""Nonparametric density flows: MRI intensities made comparable across scanners."""

__version__ = "0.1.0"
