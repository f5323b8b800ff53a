"""The demonstration: a small simulated study whose true intensities are known."""
