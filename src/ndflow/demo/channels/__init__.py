"""Simulated worlds of several channels, and how well maps recover their truth."""
