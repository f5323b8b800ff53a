"""Pages about several channels."""
