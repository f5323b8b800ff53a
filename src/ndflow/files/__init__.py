"""Files of any kind: whole or not at all, verified, and nothing about images."""
