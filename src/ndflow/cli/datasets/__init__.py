"""Runs on BIDS datasets."""
