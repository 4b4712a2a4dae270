"""The graph that a network trains on: as a whole, which is one batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from erase.data.task import NodeTask
from erase.nn.encoders import Encoder, Features
from erase.nn.sparse import Graph


def whole_graph(task: NodeTask, device: torch.device) -> Graph:
    """Return the edges of a task with their weights, on a device.

    Methods take a graph as undirected: an edge with a weight of its own in each direction has the
    mean of the two.
    """
    graph = Graph(task.edge_index.to(device), task.num_nodes)
    if task.edge_weight is not None:
        graph.weight = task.edge_weight.to(device)
        if task.edge_is_given is not None:
            graph.weight = (graph.weight + graph.weight[graph.pattern().t_order]) / 2
    return graph


@dataclass(frozen=True, eq=False)
class Batch:
    """The nodes of a step, and everything that their representations depend on.

    Of the whole graph both layers have the same edges. Of a sample the first layer is computed
    where the second needs it, and the second where the loss does.

    Attributes:
        x: features of the columns of `graph`.
        graph: edges of the first layer; messages go from columns to rows.
        last: edges of the second layer; its M rows are the nodes of the batch.
        nodes: [M] their numbers in the whole graph.
        train: [R, n] the rows that are training nodes of the step.
        given: [R, n] their given labels.
    """

    x: Features
    graph: Graph
    last: Graph
    nodes: Tensor
    train: Tensor
    given: Tensor


class WholeGraph:
    """A graph whose nodes are all in every step: an epoch is one step.

    Args:
        x: [N, F] features, where the network is.
        graph: the edges.
        train: [R, n] training nodes of each run.
        given: [R, n] their given labels.
    """

    evaluate_every = 1

    def __init__(self, x: Tensor, graph: Graph, train: Tensor, given: Tensor) -> None:
        self.x, self.graph = Features(x), graph
        nodes = torch.arange(graph.num_nodes, device=train.device)
        self.batch = Batch(self.x, graph, graph, nodes, train, given)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        yield self.batch

    def encode(self, encoder: Encoder, batch: Batch, dropout: Sequence[torch.Generator]) -> Tensor:
        """Return the encoder's output [R, M, width] for the nodes of a batch, in training."""
        z: Tensor = encoder(batch.x, batch.graph, dropout, last=batch.last)
        return z

    def among(self, batch: Batch) -> Graph:
        """Return the graph among the nodes of a batch."""
        return self.graph

    def hidden(self, encoder: Encoder) -> Tensor:
        """Return the hidden layer of all nodes [R, N, hidden], without dropout."""
        return encoder.hidden(self.x, self.graph)

    def output(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Return the output for all nodes [R, N, width] from their hidden layer."""
        return encoder.output(hidden, self.graph)

    def z(self, encoder: Encoder) -> Tensor:
        """Return the output for all nodes [R, N, width], without dropout."""
        return self.output(encoder, self.hidden(encoder))
