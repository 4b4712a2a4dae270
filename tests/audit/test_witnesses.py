"""Opinions without a node's own label: against loops, scikit-learn, and labels that change."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from erase.audit.witnesses import GRAPH_PARTS, _propagated, gather, neighbour_labels, pool
from erase.data.task import NodeTask


def two_parts(*, weighted: bool) -> NodeTask:
    """Return two random graphs of 20 nodes and three classes without an edge between them."""
    rng = np.random.default_rng(0)
    pairs = np.concatenate([rng.integers(20, size=(2, 50)), 20 + rng.integers(20, size=(2, 50))], 1)
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    weight = torch.from_numpy(rng.uniform(0.2, 3, pairs.shape[1])).float() if weighted else None
    return NodeTask.of(
        Data(
            x=torch.from_numpy(rng.normal(size=(40, 5))).float(),
            y=torch.from_numpy(rng.permutation(40) % 3),
            edge_index=torch.from_numpy(np.concatenate([pairs, pairs[::-1]], 1)),
            edge_weight=None if weight is None else torch.cat([weight, weight]),
        )
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbour_labels_are_those_of_paths_that_do_not_lead_back(weighted: bool) -> None:
    task = two_parts(weighted=weighted)
    given = task.y.numpy()
    w = np.zeros((40, 40))
    w[tuple(task.edge_index.numpy())] = 1.0
    if task.edge_weight is not None:
        w[tuple(task.edge_index.numpy())] = task.edge_weight / task.edge_weight.mean()
    expected = np.tile(np.bincount(given) / 40, (40, 1))
    for i in range(40):
        for j in range(40):
            expected[i, given[j]] += w[i, j]
            for last in set(range(40)) - {i}:
                expected[i, given[last]] += 0.3 * w[i, j] * w[j, last] / max(w[j].sum(), 1)
    expected /= expected.sum(1, keepdims=True)
    found = neighbour_labels(task, np.arange(40), given)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_label_takes_no_part_in_its_own_prediction(weighted: bool) -> None:
    """Two labels of parts without an edge between change places: class shares stay."""
    task = two_parts(weighted=weighted)
    nodes, given = np.arange(40), task.y.numpy()
    fold, cpu = nodes % 5, torch.device("cpu")
    degree = np.bincount(task.edge_index[0].numpy(), minlength=40)
    one = int(degree[:20].argmax())
    two = 20 + int(np.flatnonzero(given[20:] != given[one])[0])
    changed = given.copy()
    changed[[one, two]] = given[[two, one]]
    before, after = (neighbour_labels(task, nodes, labels) for labels in (given, changed))
    np.testing.assert_allclose(after[[one, two]], before[[one, two]])
    assert not np.allclose(after, before)
    before, after = (_propagated(task, nodes, labels, fold, cpu) for labels in (given, changed))
    np.testing.assert_allclose(after[[one, two]], before[[one, two]], rtol=1e-6)
    assert not np.allclose(after, before)


def test_predictions_by_features_are_absent_where_there_are_none() -> None:
    task = two_parts(weighted=False)
    found = gather(task, np.arange(40) % 5, 0, torch.device("cpu"))
    assert found.features is not None
    assert found.smoothed is not None
    for proba in (found.features, found.smoothed, found.graph):
        np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    bare = NodeTask.of(Data(y=task.y, edge_index=task.edge_index, num_nodes=40))
    found = gather(bare, np.arange(40) % 5, 0, torch.device("cpu"))
    assert found.features is found.smoothed is None
    assert found.rows(np.arange(40) < 3).graph.shape == (3, 3)


def test_a_part_of_the_graph_can_be_left_out() -> None:
    task = two_parts(weighted=False)
    nodes, fold, cpu = np.arange(40), np.arange(40) % 5, torch.device("cpu")
    given = task.y.numpy()
    whole, each = gather(task, fold, 0, cpu), gather(task, fold, 0, cpu, parts=GRAPH_PARTS)
    np.testing.assert_array_equal(whole.graph, each.graph)
    np.testing.assert_array_equal(whole.around, each.around)
    near = neighbour_labels(task, nodes, given)
    found = gather(task, fold, 0, cpu, parts=["neighbours"])
    np.testing.assert_allclose(found.graph, pool([near], given, 0))
    np.testing.assert_allclose(found.around, near**2 / (near**2).sum(1, keepdims=True))
    for name in GRAPH_PARTS:
        others = gather(task, fold, 0, cpu, parts=GRAPH_PARTS.keys() - {name})
        assert not np.allclose(others.around, whole.around)


def test_a_pool_is_the_regression_of_scikit_learn_on_log_odds() -> None:
    """Of two classes the weights of the predictions and the difference of the offsets are free."""
    rng = np.random.default_rng(0)
    given = (rng.random(4_000) < 0.3).astype(np.int64)
    odds = rng.normal(2 * given[:, None] - 1.5, [1.0, 2.0])
    probas = [np.stack([1 / (1 + np.exp(z)), 1 / (1 + np.exp(-z))], 1) for z in odds.T]
    theirs = LogisticRegression(C=np.inf).fit(odds, given).predict_proba(odds)
    np.testing.assert_allclose(pool(probas, given, 0), theirs, atol=0.005)


def test_a_pool_that_keeps_confidence_is_a_weighted_mean_led_by_the_first() -> None:
    rng = np.random.default_rng(0)
    first, noise = rng.dirichlet(np.ones(3), 500), rng.dirichlet(np.ones(3), 500)
    given = np.array([rng.choice(3, p=row) for row in first])
    same = pool([first, first], given, 0, keep_confidence=True)
    np.testing.assert_allclose(same, first, atol=1e-6)
    led = pool([first, noise], given, 0, keep_confidence=True)
    np.testing.assert_allclose(led, first, atol=0.1)
