"""What a comparison measures: distributions, sites, tissues, repeatability."""
