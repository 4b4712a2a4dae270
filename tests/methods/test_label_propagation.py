"""Label propagation against dense matrices, and in the limit against the closed form."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.label_propagation import LabelPropagation
from graphs import dense_adjacency, edge_lists, path_graph, two_communities


def normalised(edge_index: Tensor, num_nodes: int) -> NDArray[np.float64]:
    """D^-1/2 A D^-1/2, dense."""
    a = dense_adjacency(edge_index, num_nodes).numpy()
    degree = a.sum(1)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    matrix: NDArray[np.float64] = scale[:, None] * a * scale
    return matrix


def first_labels(task: NodeTask) -> NDArray[np.float64]:
    """Y₀, training node by training node."""
    y = np.zeros((task.num_nodes, task.num_classes))
    for node in task.train_index.tolist():
        y[node, int(task.y[node])] = 1
    return y


def spread(keep: float = 0.1, steps: int = 50, **changes: Any) -> LabelPropagation:
    return LabelPropagation(keep=keep, steps=steps, device="cpu", **changes)


@given(edge_lists(), st.integers(0, 6), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(0, 99))
def test_scores_are_the_recursion_with_dense_matrices(
    graph: tuple[Tensor, int], steps: int, keep: float, seed: int
) -> None:
    edge_index, n = graph
    n = max(n, 2)
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=generator)
    y[:2] = torch.tensor([0, 1])
    train = torch.rand(n, generator=generator) < 0.4
    train[:2] = True
    data = Data(edge_index=edge_index, y=y, x=torch.ones(n, 1), train_mask=train, num_classes=3)
    data.val_mask = ~train
    model = spread(keep, steps).fit(data)
    s, first = normalised(edge_index, n), first_labels(NodeTask.from_data(data))
    scores = first
    for _ in range(steps):
        scores = (1 - keep) * s @ scores + keep * first
    np.testing.assert_allclose(model.transform(), scores, atol=1e-6)
    shares = first.sum(0) / first.sum()
    for node in range(n):
        total = scores[node].sum()
        expected = scores[node] / total if total > 0 else shares
        np.testing.assert_allclose(model.predict_proba()[node], expected, atol=1e-5)


def test_many_steps_reach_the_closed_form() -> None:
    data = two_communities(size=20, classes=3)
    task = NodeTask.from_data(data)
    s, first = normalised(task.edge_index, task.num_nodes), first_labels(task)
    limit = 0.2 * np.linalg.solve(np.eye(task.num_nodes) - 0.8 * s, first)
    np.testing.assert_allclose(spread(0.2, 200).fit(task).transform(), limit, atol=1e-6)


def test_a_node_keeps_its_given_label_with_the_weight_keep() -> None:
    """On 0 – 1 – 2 – 3 – 4 with labels at 0 and 1, one step by hand."""
    scores = spread(keep=0.25, steps=1).fit(path_graph()).transform()
    half = 2**-0.5  # S between degrees 1 and 2
    expected = [[0.25, 0.75 * half], [0.75 * half, 0.25], [0.0, 0.375], [0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    everything = spread(keep=1.0).fit(path_graph())
    assert everything.transform().tolist() == [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]


def test_where_no_label_arrives_the_classes_have_their_shares() -> None:
    data = path_graph(train_mask=torch.tensor([True, True, True, False, False]), val_mask=None)
    data.edge_index = torch.tensor([[0, 1], [1, 0]])
    model = spread().fit(data)
    np.testing.assert_allclose(model.predict_proba()[3:], [[1 / 3, 2 / 3]] * 2, rtol=1e-6)
    assert not model.transform()[3:].any()


def test_validation_labels_features_and_seeds_do_not_matter() -> None:
    data = two_communities()
    model = spread().fit(data)
    other = data.clone()
    other.x = torch.rand_like(data.x)
    other.y[data.val_mask] = 1 - data.y[data.val_mask]
    again = spread(seed=7).fit(other)
    np.testing.assert_array_equal(again.transform(), model.transform())
    np.testing.assert_array_equal(again.labels_, model.predict())


def test_runs_are_columns_of_one_matrix(tmp_path: Path) -> None:
    data = two_communities(classes=3)
    graphs = [corrupt(data, "symmetric", 0.4, seed=s) for s in range(3)]
    together = spread().fit_many(graphs, [0, 1, 2])
    for model, graph in zip(together, graphs, strict=True):
        np.testing.assert_allclose(model.transform(), spread().fit(graph).transform(), atol=1e-7)
    assert not np.array_equal(together[0].transform(), together[1].transform())
    together[1].save(tmp_path / "model.safetensors")
    back = LabelPropagation.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(back.transform(), together[1].transform())


def test_there_is_nothing_to_watch_or_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    model = spread().fit(two_communities(), checkpoint=path, resume=True, progress=True)
    assert not path.exists()
    assert (model.best_epoch_, model.history_, model.fit_.weights) == (0, [], {})


def test_its_defaults_and_what_it_refuses() -> None:
    assert LabelPropagation().get_params() == {
        "keep": 0.1,
        "steps": 50,
        "seed": 0,
        "device": "auto",
    }
    with pytest.raises(EraseError, match="Correct steps of LabelPropagation"):
        spread(steps=-1).fit(path_graph())
