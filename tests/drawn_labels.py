"""Labels drawn by a known model of their noise, for tests of what an audit finds out about them."""

import numpy as np
from numpy.typing import NDArray

from erase.audit.witnesses import Floats, Witnesses


def drawn(
    n: int, transition: Floats, seed: int = 0, spread: float = 3.0
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return true classes [n], given ones [n] and the true posteriors [n, K] of random nodes."""
    rng = np.random.default_rng(seed)
    k = len(transition)
    logits = spread * rng.normal(size=(n, k))
    proba = np.exp(logits - logits.max(1, keepdims=True))
    proba /= proba.sum(1, keepdims=True)
    true = np.array([rng.choice(k, p=row) for row in proba])
    given = np.array([rng.choice(k, p=transition[c]) for c in true])
    return true, given, proba


def symmetric(k: int, rate: float) -> Floats:
    matrix = np.full((k, k), rate / (k - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def pairwise(k: int, rate: float) -> Floats:
    return (1 - rate) * np.eye(k) + rate * np.roll(np.eye(k), 1, axis=1)


def witnesses_of(
    given: NDArray[np.int64],
    features: Floats | None,
    graph: Floats,
    coverage: float = 1.0,
) -> Witnesses:
    return Witnesses(features, features, graph, graph, coverage)
