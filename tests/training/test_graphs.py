"""The whole graph of a task: its edges and their weights."""

import torch
from torch_geometric.data import Data

from erase.data.task import NodeTask, fingerprint
from erase.training.graphs import whole_graph

PATH = {"edge_index": torch.tensor([[0, 1, 1], [1, 0, 2]]), "y": torch.tensor([0, 1, 0])}


def test_directions_of_an_edge_have_the_mean_of_their_weights() -> None:
    data = Data(**PATH, edge_weight=torch.tensor([1.0, 4.0, 3.0]), directed=True)
    task = NodeTask.from_data(data)
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [1.0, 4.0, 3.0, 3.0]
    graph = whole_graph(task, torch.device("cpu"))
    assert graph.weight is not None
    assert graph.weight.tolist() == [2.5, 2.5, 3.0, 3.0]
    data.directed = False
    same = whole_graph(NodeTask.from_data(data), torch.device("cpu"))
    assert same.weight is not None
    assert torch.equal(same.weight, graph.weight)


def test_weights_are_part_of_a_graphs_fingerprint() -> None:
    plain, light, heavy = (
        NodeTask.from_data(Data(**PATH, **weight))
        for weight in ({}, {"edge_weight": torch.ones(3)}, {"edge_weight": 2 * torch.ones(3)})
    )
    assert len({fingerprint([task]) for task in (plain, light, heavy)}) == 3
    assert fingerprint([NodeTask.of(heavy, weights=False)]) == fingerprint([plain])
