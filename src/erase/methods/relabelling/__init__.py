"""Relabelling: classifiers on smoothed features, corrected by a model of the label noise."""

from erase.methods.relabelling.method import Relabelling

__all__ = ["Relabelling"]
