"""The measures of a comparison: histogram fit, sites, tissues, repeatability, classification."""
