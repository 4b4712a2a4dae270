"""Evidence of the neighbours against a loop over them."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from torch import Tensor

from conftest import edge_lists
from erase.audit.neighbours import neighbour_evidence


@given(edge_lists(), st.integers(0, 10**6))
def test_evidence_is_that_of_a_loop(graph: tuple[Tensor, int], seed: int) -> None:
    edges, n = graph
    rng = np.random.default_rng(seed)
    given_labels, suggested = rng.integers(-1, 3, n), rng.integers(0, 3, n)
    proba = rng.dirichlet(np.ones(3), n)
    found = neighbour_evidence(edges.numpy(), given_labels, suggested, proba)
    labelled = np.flatnonzero(given_labels >= 0)
    assert len(found.neighbours) == len(labelled)
    for row, node in enumerate(labelled):
        around = [b for a, b in edges.T.tolist() if a == node]
        known = [given_labels[b] for b in around if given_labels[b] >= 0]
        own, other = given_labels[node], suggested[node]
        mean = np.mean([proba[b, own] for b in around]) if around else np.nan
        agree = np.mean([label == own for label in known]) if known else np.nan
        share = np.mean([label == other for label in known]) if known else np.nan
        assert found.neighbours[row] == len(around)
        np.testing.assert_allclose(
            [found.agree[row], found.suggested[row], found.proba[row]], [agree, share, mean]
        )


def test_evidence_by_hand() -> None:
    """0 – 1, 0 – 2, 0 – 3: two neighbours of node 0 are labelled, one as it is."""
    edges = np.array([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    proba = np.array([[0.5, 0.5], [0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    found = neighbour_evidence(edges, np.array([0, 0, 1, -1]), np.array([1, 0, 1, 0]), proba)
    assert found.neighbours.tolist() == [3, 1, 1]
    assert found.agree.tolist() == [0.5, 1.0, 0.0]
    assert found.suggested.tolist() == [0.5, 1.0, 0.0]
    np.testing.assert_allclose(found.proba, [0.5, 0.5, 0.5])
