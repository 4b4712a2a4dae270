"""Graphs that are too large for one step, or for one process."""
