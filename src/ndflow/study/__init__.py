"""Many scans: plan, passes, references, results."""
