"""Studies of several channels: each channel by itself, or all of a subject together."""
