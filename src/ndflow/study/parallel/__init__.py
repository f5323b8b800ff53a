"""The same work on many scans, in one process or on many."""
