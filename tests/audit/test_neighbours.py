"""Evidence of the neighbours against a loop over them."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from torch import Tensor

from erase.audit.neighbours import neighbour_agreement, neighbour_evidence
from graphs import edge_lists


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


@given(edge_lists(), st.integers(0, 10**6))
def test_agreement_of_the_neighbours_is_that_of_a_loop(
    graph: tuple[Tensor, int], seed: int
) -> None:
    edges, n = graph
    labels = np.random.default_rng(seed).choice([-1, 0, 0, 1, 1, 1, 2], size=n)
    sizes = np.array([(labels == k).sum() for k in range(3)])
    hits, any_around = [], False
    for node in np.flatnonzero(labels >= 0):
        around = [int(labels[b]) for a, b in edges.T.tolist() if a == node and labels[b] >= 0]
        any_around |= bool(around)
        best = max(range(3), key=lambda k: (around.count(k), sizes[k], -k))
        hits += [best == labels[node]] * bool(sizes[labels[node]] > 1)
    found = neighbour_agreement(edges.numpy(), labels)
    assert found == (np.mean(hits) if any_around and hits else None)
