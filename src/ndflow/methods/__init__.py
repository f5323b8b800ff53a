"""Normalisation methods: one contract, one module per method."""
