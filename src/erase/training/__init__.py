"""The training loop, neighbour sampling and training in several processes."""
