import os

from hypothesis import settings

# Deterministic, so that a failure can be repeated; EXPLORE=1 looks for new examples.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("explore", deadline=None, max_examples=400)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "repeatable")

# Pages of studies take seconds; those that are about them ask for them.
os.environ["NDFLOW_NO_REPORT"] = "1"
