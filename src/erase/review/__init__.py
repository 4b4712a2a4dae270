"""Review: a person confirms or corrects labels, and the decisions come back as trusted labels."""

from erase.audit.queue import next_to_review
from erase.review.store import Reviews

__all__ = ["Reviews", "next_to_review"]
