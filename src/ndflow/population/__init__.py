"""What a cohort looks like: the average of many densities, as one."""

from ndflow.population.reference import Reference, reference

__all__ = ["Reference", "reference"]
