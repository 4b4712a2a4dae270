"""Projections of representations, for pictures: to length 1, principal components, t-SNE."""

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from erase.random import numpy_stream

Points = NDArray[np.float64]

_TSNE_INPUT_WIDTH = 50
_TSNE_FEWEST_NODES = 5
_TSNE_ITERATIONS = 500


def directions(z: NDArray[np.floating]) -> Points:
    """Return the rows of z [N, D] brought to length 1; zero rows stay zero."""
    wide = np.asarray(z, dtype=np.float64)
    wide = wide / np.abs(wide).max(1, keepdims=True, initial=np.finfo(float).tiny)  # finite squares
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: Points = np.divide(wide, length, out=np.zeros_like(wide), where=length > 0)
    return unit


def principal_components(z: NDArray[np.floating], count: int) -> tuple[Points, Points]:
    """Return the coordinates [n, count] on the first principal axes, and their shares of variance.

    The largest loading of an axis is positive; where there are fewer axes, zeros fill up.
    """
    points, shares = np.zeros((len(z), count)), np.zeros(count)
    if not z.size:
        return points, shares
    # PCA would subtract the mean from the covariance, which loses float32 rows that are nearly
    # alike: of 2,000 rows that differ by 1e-3, one of its first two axes was lost.
    centred = z - z.mean(0, dtype=np.float64).astype(z.dtype)
    if np.linalg.norm(centred) < np.sqrt(np.finfo(z.dtype).tiny):
        return points, shares
    nodes, width = z.shape
    kept = min(count, nodes, width)
    # both solvers are exact and without a seed; each is the fast one for its shape
    model = PCA(kept, svd_solver="covariance_eigh" if nodes > width else "full")
    points[:, :kept] = model.fit_transform(centred)
    shares[:kept] = model.explained_variance_ratio_
    return points, shares


def tsne_input(z: NDArray[np.floating]) -> Points:
    """Return the principal components [n, 2 … 50] that t-SNE is given."""
    return principal_components(z, min(max(z.shape[1], 2), _TSNE_INPUT_WIDTH))[0]


def tsne(
    points: Points,
    seed: int,
    angle: float = 0.5,
    iterations: int = _TSNE_ITERATIONS,
    perplexity: float = 30.0,
) -> Points:
    """Return the t-SNE map [n, 2] of principal components [n, ≥ 2], started from the first two.

    Of fewer than five nodes, the first two components are the map.

    Args:
        points: as :func:`tsne_input` returns them.
        seed: of t-SNE.
        angle: of the Barnes–Hut approximation; the larger, the coarser and faster.
        iterations: of t-SNE, 250 at least.
        perplexity: about how many neighbours of a point count; less in a small graph.
    """
    start = points[:, :2]
    if len(points) < _TSNE_FEWEST_NODES:
        return start
    model = TSNE(
        perplexity=min(perplexity, (len(points) - 1) / 3),
        init=1e-4 * start / (start[:, 0].std() or 1.0),
        learning_rate="auto",
        max_iter=iterations,
        angle=angle,
        random_state=int(numpy_stream(seed, "t-SNE").integers(2**31)),
    )
    return np.asarray(model.fit_transform(points), dtype=np.float64)
