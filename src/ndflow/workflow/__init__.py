"""Runs: the one place where mathematics meets files.

Its modules are imported one by one, because `ndflow.workflow.settings` is all that a command needs
to show its help.
"""
