"""What presets decide for a study, before any work and once its densities are known."""
