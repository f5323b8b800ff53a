"""Copies of prepared scans in the space of the template: `ndflow prepare --space MNI`."""
