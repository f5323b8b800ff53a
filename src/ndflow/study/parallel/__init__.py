"""The same function applied to many scans, in one process or in several."""
