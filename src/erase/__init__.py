"""Trustworthy node classification on graphs with wrong labels."""
