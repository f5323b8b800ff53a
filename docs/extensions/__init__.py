"""What the site does that Sphinx does not: each module is one extension."""
