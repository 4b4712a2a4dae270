"""What a page shows of an embedding: a map of it, and which nodes look alike.

Representations are compared as directions, as in the other pictures: every row is brought to
length 1 first, a zero row stays zero.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from erase.audit.report.projection import Points, tsne, tsne_input
from erase.nn.neighbours import nearest
from erase.random import numpy_stream

Directions = NDArray[np.floating]
Nodes = NDArray[np.int64]

_TSNE_NODES = 5_000  # of more nodes, t-SNE places a sample
_TSNE_SAMPLE = 4_000
# Coarser than the defaults, 0.5 and 30: it takes half as long. With angle 0.8 and perplexity 30 it
# keeps as many of the ten nearest neighbours (trustworthiness): 0.988 on Cora, 0.991 on CiteSeer,
# 0.992 instead of 0.991 on Debian, 0.993 instead of 0.992 on Computers.
_TSNE_ANGLE = 1.0
_TSNE_PERPLEXITY = 20.0
# On Cora, 500 iterations take 1.4 times as long and keep 0.991 instead of 0.988; 300 keep 0.978.
_TSNE_ITERATIONS = 350
_GUIDES = 5  # sampled nodes that place one that is not


def plane(unit: Directions, seed: int = 0) -> Points:
    """Return a place [N, 2] in the unit square for every node: near nodes look alike.

    Up to 5,000 nodes: the t-SNE map of the first 50 principal components, started from the first
    two. Of more nodes, t-SNE places a sample of 4,000, and every other one goes to the mean place
    of the five sampled ones nearest to it, the nearer the heavier. One seed gives one map.

    Args:
        unit: [N, D] rows of length 1.
        seed: of the sample and of t-SNE.
    """
    points = tsne_input(unit)
    n = len(points)
    if n <= _TSNE_NODES:
        return _unit_square(tsne(points, seed, _TSNE_ANGLE, _TSNE_ITERATIONS, _TSNE_PERPLEXITY))
    chosen = np.sort(numpy_stream(seed, "map sample").permutation(n)[:_TSNE_SAMPLE])
    sample = points[chosen]
    sampled = tsne(sample, seed, _TSNE_ANGLE, _TSNE_ITERATIONS, _TSNE_PERPLEXITY)
    guides = NearestNeighbors(n_neighbors=_GUIDES, algorithm="brute").fit(sample)
    distance, guide = guides.kneighbors(points)
    weights = 1 / (distance**2 + 1e-12)  # a node of the sample stays where it is
    weights /= weights.sum(1, keepdims=True)
    places = np.einsum("ng,ngd->nd", weights, sampled[guide])
    return _unit_square(places)


def look_alikes(
    unit: Directions, nodes: Nodes, among: Nodes, count: int = 8
) -> tuple[Nodes, NDArray[np.float32]]:
    """Return, for each of n nodes, the nodes with the most similar directions, and the cosines.

    A node is not its own look-alike. Where there are fewer candidates than `count`, -1 and 0 fill
    up. Costs n × len(among) × D, in blocks of bounded memory.

    Args:
        unit: [N, D] rows of length 1.
        nodes: [n] whose look-alikes are wanted.
        among: candidates, sorted.
        count: look-alikes of a node.

    Returns:
        nodes [n, count], the most similar first, and cosines [n, count].
    """
    found = nearest(torch.as_tensor(unit), count, of=torch.tensor(nodes), among=torch.tensor(among))
    alike, cosine = (part.numpy() for part in found)
    return alike, cosine


def _unit_square(points: Points) -> Points:
    """Return the points moved and scaled, both axes alike, to fill [0, 1] × [0, 1]."""
    if not len(points):
        return points
    low, high = points.min(0), points.max(0)
    spread = (high - low).max()
    moved: Points = (points - (low + high) / 2) / (spread if spread > 0 else 1.0) + 0.5
    return moved
