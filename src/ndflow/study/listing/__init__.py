"""Which scans a study has: from a table, a folder or a dataset; each once, and as understood."""
