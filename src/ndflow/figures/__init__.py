"""Figures by matplotlib, one module each."""
