"""References that come with the package, for scans without a study of their own."""
