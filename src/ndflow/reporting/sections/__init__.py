"""The sections of a page: each module fills one part of `ndflow.reporting.content`."""
