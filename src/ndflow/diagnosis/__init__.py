"""Is this installation sound? What is installed, what the machine offers, and a self-test."""
