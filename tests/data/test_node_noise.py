"""Noise that depends on the node: whose labels go wrong, and to which classes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from erase.data.node_noise import Labelled, _predict, annotator, confidence, topology

K = 4


def communities(n: int = 1_200, seed: int = 0, same: float = 0.7) -> Labelled:
    """K classes of nodes with binary features and edges that follow the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    centre = rng.random((K, 60)) < 0.2
    x = (rng.random((n, 60)) < 0.1 + 0.3 * centre[y]).astype(np.float32)
    source = rng.integers(0, n, 4 * n)
    within = rng.random(4 * n) < same
    step = rng.integers(1, n // K, 4 * n) * K + np.where(within, 0, rng.integers(1, K, 4 * n))
    edges = np.stack([source, (source + step) % n])
    return Labelled(torch.from_numpy(x), torch.from_numpy(edges), y, np.arange(n), K)


def neighbour_share(graph: Labelled) -> NDArray[np.float64]:
    """Share of each node's neighbours that have another class, by a loop."""
    around: list[set[int]] = [set() for _ in graph.y]
    for a, b in graph.edge_index.T.tolist():
        if a != b:
            around[a].add(b)
            around[b].add(a)
    return np.array(
        [np.mean([graph.y[j] != graph.y[i] for j in js] or [0.0]) for i, js in enumerate(around)]
    )


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("noise", [annotator, topology, confidence])
def test_the_share_of_wrong_labels_is_the_requested_one(noise, rate: float) -> None:  # type: ignore[no-untyped-def]
    graph = communities()
    wrong = np.mean(noise(graph, rate, np.random.default_rng(1)) != graph.true)
    assert wrong == pytest.approx(rate, abs=1e-9 if noise is annotator else 0.04)


def test_an_annotator_has_favourite_classes_and_consistent_errors() -> None:
    graph = communities()
    given = annotator(graph, 0.3, np.random.default_rng(0))
    kept = [np.mean(given[graph.y == k] == k) for k in range(K)]
    assert max(kept) - min(kept) > 0.25
    wrong = given != graph.true
    twin = Labelled(graph.x, graph.edge_index, graph.y, graph.nodes, K)
    assert np.array_equal(annotator(twin, 0.3, np.random.default_rng(0)), given)
    # errors can be learnt from the features: a regression tells wrong labels from right ones
    x = graph.x.numpy()
    half = np.arange(len(wrong)) % 2 == 0
    model = LogisticRegression(max_iter=500).fit(x[half], given[half])
    agrees = np.mean(model.predict(x[~half & wrong]) == given[~half & wrong])
    assert agrees > 0.5  # chance: less than 1/3


def test_a_higher_rate_of_an_annotator_keeps_the_errors_of_a_lower_one() -> None:
    graph = communities()
    few, many = (annotator(graph, rate, np.random.default_rng(3)) for rate in (0.1, 0.4))
    wrong = few != graph.true
    assert np.array_equal(many[wrong], few[wrong])


def test_topology_errors_are_where_neighbours_disagree_and_copy_them() -> None:
    graph = communities(same=0.6)
    given = topology(graph, 0.3, np.random.default_rng(0))
    wrong = given != graph.true
    share = neighbour_share(graph)
    assert share[wrong].mean() > share[~wrong].mean() + 0.1
    # the wrong class is one that a neighbour has, nearly always
    pairs = {(int(a), int(graph.y[b])) for a, b in graph.edge_index.T.tolist() if a != b}
    pairs |= {(int(b), int(graph.y[a])) for a, b in graph.edge_index.T.tolist() if a != b}
    assert np.mean([(i, int(given[i])) in pairs for i in np.flatnonzero(wrong).tolist()]) > 0.9


def test_confidence_errors_are_where_a_model_is_unsure() -> None:
    graph = communities(same=0.5)
    given = confidence(graph, 0.3, np.random.default_rng(0))
    wrong = given != graph.true
    x = graph.x.numpy()
    proba = LogisticRegression(max_iter=500).fit(x, graph.y).predict_proba(x)
    own = proba[np.arange(len(x)), graph.y]
    assert own[wrong].mean() < own[~wrong].mean() - 0.05


def test_the_regression_in_the_row_space_is_the_regression_on_the_features() -> None:
    graph = communities()
    x = csr_array(graph.x.numpy().astype(np.float64))
    learnt = np.arange(0, 1_200, 17)
    model = LogisticRegression(C=30.0, max_iter=5_000, tol=1e-8).fit(x[learnt], graph.y[learnt])
    ours = _predict(x, graph.y, learnt, K)
    np.testing.assert_allclose(ours, model.predict_proba(x), atol=2e-3)


@pytest.mark.parametrize("noise", [annotator, topology, confidence])
def test_only_the_selected_nodes_are_labelled_and_unknown_classes_do_no_harm(noise) -> None:  # type: ignore[no-untyped-def]
    graph = communities()
    y = graph.y.copy()
    y[600:] = -1
    nodes = np.arange(0, 600, 2)
    part = Labelled(graph.x.to_sparse_csr(), graph.edge_index, y, nodes, K)
    given = noise(part, 0.3, np.random.default_rng(0))
    assert given.shape == nodes.shape
    assert given.min() >= 0
    assert given.max() < K
    alone = Labelled(graph.x, torch.zeros(2, 0, dtype=torch.int64), y, nodes, K)
    assert noise(alone, 0.3, np.random.default_rng(0)).shape == nodes.shape
