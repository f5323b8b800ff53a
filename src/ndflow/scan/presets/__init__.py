"""Presets: what is used where the user chooses nothing."""
