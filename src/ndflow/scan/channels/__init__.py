"""Several channels of one subject: each by itself, or all of them together."""
