"""How reliable a measurement is that was repeated: agreement of the scans of one subject."""
