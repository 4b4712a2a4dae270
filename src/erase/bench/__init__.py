"""Runs under a stated protocol, scored against the clean labels."""

from erase.bench.run import PROTOCOLS, Protocol, given_labels, labels_of_cell, score

__all__ = ["PROTOCOLS", "Protocol", "given_labels", "labels_of_cell", "score"]
