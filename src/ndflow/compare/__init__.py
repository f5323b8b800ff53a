"""What `ndflow evaluate` does: finished studies measured and compared."""
