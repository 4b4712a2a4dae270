"""Sparse operators, encoders, coding rates (also a public loss) and classifier heads."""

from erase.nn.coding import rate_reduction_loss

__all__ = ["rate_reduction_loss"]
