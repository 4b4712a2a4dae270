"""Sparse operators, encoders, coding rates and classifier heads."""
