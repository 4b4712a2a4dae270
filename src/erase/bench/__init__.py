"""Runs under a stated protocol: the one room that holds clean labels beside a method's answers."""

from erase.bench.run import PROTOCOLS, Protocol, given_labels, labels_of_cell, score

__all__ = ["PROTOCOLS", "Protocol", "given_labels", "labels_of_cell", "score"]
