"""What scans need before they can be normalised, found and kept in files: `ndflow prepare`."""
