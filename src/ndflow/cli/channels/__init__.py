"""Several channels of one subject on the command line."""
