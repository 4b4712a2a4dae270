"""What a page shows of an embedding: a map of it, and which nodes look alike.

Representations are compared as directions, as in the other pictures: every row is brought to
length 1 first, a zero row stays zero.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from erase.audit.report.projection import Points, tsne, tsne_input
from erase.random import numpy_stream

Directions = NDArray[np.floating]
Nodes = NDArray[np.int64]

NOBODY = -1
_TSNE_NODES = 5_000  # of more nodes, t-SNE places a sample
_TSNE_SAMPLE = 4_000
_TSNE_ANGLE = 0.8  # coarser than the default; the eye sees no difference, and a third is saved
_GUIDES = 5  # sampled nodes that place one that is not
_BLOCK = 2**24  # similarities in memory at once


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
        return _unit_square(tsne(points, seed, _TSNE_ANGLE))
    chosen = np.sort(numpy_stream(seed, "map sample").permutation(n)[:_TSNE_SAMPLE])
    sample, places = points[chosen], np.empty((n, 2))
    sampled = tsne(sample, seed, _TSNE_ANGLE)
    for rows in _blocks(n, len(sample)):
        squared = _squared_distances(points[rows], sample)
        guides = np.argpartition(squared, _GUIDES - 1, axis=1)[:, :_GUIDES]
        near = np.take_along_axis(squared, guides, axis=1)
        weights = 1 / (near + 1e-12)  # a node of the sample stays where it is
        weights /= weights.sum(1, keepdims=True)
        places[rows] = np.einsum("ng,ngd->nd", weights, sampled[guides])
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
    alike = np.full((len(nodes), count), NOBODY, dtype=np.int64)
    cosine = np.zeros((len(nodes), count), dtype=np.float32)
    kept = min(count, len(among))
    for rows in _blocks(len(nodes), len(among)) if kept else ():
        similar = unit[nodes[rows]] @ unit[among].T
        similar[nodes[rows, None] == among] = -np.inf
        nearest = np.argpartition(-similar, kept - 1, axis=1)[:, :kept]
        values = np.take_along_axis(similar, nearest, axis=1)
        order = np.lexsort((nearest, -values), axis=1)
        values = np.take_along_axis(values, order, axis=1)
        found = among[np.take_along_axis(nearest, order, axis=1)]
        alike[rows, :kept] = np.where(np.isfinite(values), found, NOBODY)
        cosine[rows, :kept] = np.where(np.isfinite(values), values, 0)
    return alike, cosine


def _squared_distances(a: Points, b: Points) -> Points:
    squares: Points = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.maximum(squares, 0, out=squares)


def _unit_square(points: Points) -> Points:
    """Return the points moved and scaled, both axes alike, to fill [0, 1] × [0, 1]."""
    if not len(points):
        return points
    low, high = points.min(0), points.max(0)
    spread = (high - low).max()
    moved: Points = (points - (low + high) / 2) / (spread if spread > 0 else 1.0) + 0.5
    return moved


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    """Yield slices of the rows, of so many that rows × columns stays within the block."""
    step = max(_BLOCK // max(columns, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, start + step)
