"""From whatever a user has to a checked :class:`erase.NodeTask`."""
