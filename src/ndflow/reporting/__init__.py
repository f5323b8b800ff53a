"""The page of a study: what it says, and how it is laid out."""
