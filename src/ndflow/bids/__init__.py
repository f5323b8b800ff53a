"""BIDS datasets: which scans there are, and how our derivatives are named."""
