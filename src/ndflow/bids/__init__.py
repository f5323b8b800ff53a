"""BIDS datasets: finding their scans, and writing derivatives."""
