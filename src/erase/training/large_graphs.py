"""Graphs too large for one step: read some nodes at a time, sampled, shared by processes.

Used with `batch_size`, and only then. Features and edges stay where the task has them, in memory
or on the disk.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, prod

import torch
from torch import Tensor

from erase.data.task import NodeTask
from erase.nn.encoders import Encoder, Features, take_rows
from erase.nn.sparse import Graph
from erase.training.chunks import InferencePass, hidden_of_all, output_of_all
from erase.training.graphs import Batch, whole_graph
from erase.training.processes import count, own_rows, put_together
from erase.training.sampling import Sample, SampledNeighbours


class ChunkedGraph:
    """A graph whose features are read some nodes at a time.

    Args:
        task: features, edges and labels.
        graph: the edges, where the network is.
        device: where the network is.
    """

    def __init__(self, task: NodeTask, graph: Graph, device: torch.device) -> None:
        self.graph, self.device = graph, device
        self._x, self._y = task.x, task.y

    def rows(self, nodes: Tensor) -> Tensor:
        """Return rows of x [n, F], where the network is."""
        return take_rows(self._x, nodes.to(self._x.device)).to(self.device)

    def read(self, nodes: Tensor) -> Features:
        """Return the features of some nodes, where the network is."""
        return Features(self.rows(nodes))

    def hidden(self, encoder: Encoder) -> Tensor:
        """Return the hidden layer of all nodes [R, N, hidden], without dropout."""
        return hidden_of_all(encoder, self.read, self.graph)

    def output(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Return the output for all nodes [R, N, width] from their hidden layer."""
        return output_of_all(encoder, hidden, self.graph)

    def z(self, encoder: Encoder) -> Tensor:
        """Return the output for all nodes [R, N, width], without dropout; on the disk if large."""
        return InferencePass(encoder, self.read, self.graph).z()


class SampledGraph(ChunkedGraph):
    """Batches of training nodes with sampled neighbours; an epoch passes over all training nodes.

    Of several processes each computes some rows of every batch.

    Args:
        task: features, edges and labels.
        graph: the edges, where the network is.
        device: where the network is.
        batch_size: training nodes of a batch.
        num_neighbors: neighbours drawn for a training node, and for each of these; −1: all.
        stream: draws the order and the neighbours.
        all_nodes: whether a batch has all nodes of a sample, not only its training nodes.

    Attributes:
        evaluate_every: epochs that together visit as many nodes as the graph has.
    """

    def __init__(
        self,
        task: NodeTask,
        graph: Graph,
        device: torch.device,
        *,
        batch_size: int,
        num_neighbors: Sequence[int],
        stream: torch.Generator,
        all_nodes: bool,
    ) -> None:
        super().__init__(task, graph, device)
        self.all_nodes = all_nodes
        drawn = [10**9 if k < 0 else k for k in num_neighbors]
        reached = task.train_index.numel() * sum(prod(drawn[:i]) for i in range(len(drawn) + 1))
        self.evaluate_every = ceil(task.num_nodes / reached)
        self._on_cpu = whole_graph(task, torch.device("cpu"))
        self.samples = SampledNeighbours(
            self._on_cpu,
            task.train_index,
            batch_size=batch_size,
            num_neighbors=num_neighbors,
            stream=stream,
        )

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        for sample in self.samples:
            yield self.batch_of(sample)

    def batch_of(self, sample: Sample) -> Batch:
        """Return a sample as the batch of a step."""
        seeds, inner, size = sample.hops[0], sample.hops[-2], sample.nodes.numel()
        rows, last_rows = (size, size) if self.all_nodes else (inner, seeds)
        part = self._sampled(sample)
        return Batch(
            x=self.read(sample.nodes),
            graph=_first_rows(part, rows, size),
            last=_first_rows(part, last_rows, rows),
            nodes=sample.nodes[:last_rows].to(self.device),
            train=torch.arange(seeds, device=self.device)[None],
            given=self._y[sample.nodes[:seeds]].to(self.device)[None],
        )

    def _sampled(self, sample: Sample) -> Graph:
        """Return the edges of a sample, with the degrees of the whole graph."""
        whole = self._on_cpu
        return Graph(
            sample.edge_index.to(self.device),
            sample.nodes.numel(),
            degree=whole.degree[sample.nodes].to(self.device),
            weight=None if whole.weight is None else whole.weight[sample.edges].to(self.device),
            strength=(
                None if whole.strength is None else whole.strength[sample.nodes].to(self.device)
            ),
        )

    def among(self, batch: Batch) -> Graph:
        """Return the graph among the nodes of a batch."""
        return self.graph.induced(batch.nodes)

    def encode(self, encoder: Encoder, batch: Batch, dropout: Sequence[torch.Generator]) -> Tensor:
        """Return the encoder's output [R, M, width] for the nodes of a batch, in training."""
        if count() > 1:
            z, rows = self.encode_own(encoder, batch, dropout)
            return put_together(z, rows, batch.last.num_rows)
        whole: Tensor = encoder(batch.x, batch.graph, dropout, last=batch.last)
        return whole

    def encode_own(
        self, encoder: Encoder, batch: Batch, dropout: Sequence[torch.Generator]
    ) -> tuple[Tensor, Tensor]:
        """Return the output for this process's share of a batch, and which rows that is.

        All processes drop the same entries of the same features.
        """
        rows = own_rows(batch.last.num_rows, batch.nodes.device)
        x = batch.x.dropout(encoder.dropout, dropout) if encoder.dropout > 0 else batch.x
        some = rows if rows.numel() else rows.new_zeros(1)  # layers need a row
        last, middle = batch.last.only(some)
        first, columns = batch.graph.only(middle)
        z: Tensor = encoder(x.take(columns), first, last=last)
        return z[:, : rows.numel()], rows


def _first_rows(part: Graph, rows: int, columns: int) -> Graph:
    """Return the first rows of a sampled graph among its first columns."""
    kept = int(torch.searchsorted(part.edge_index[0], rows))
    return Graph(
        part.edge_index[:, :kept],
        columns,
        itself=torch.arange(rows, device=part.edge_index.device),
        degree=part.degree[:columns],
        weight=None if part.weight is None else part.weight[:kept],
        strength=None if part.strength is None else part.strength[:columns],
    )


def mean_over_batches(
    step: Callable[[Batch], dict[str, Tensor]], batches: Iterable[Batch]
) -> dict[str, Tensor]:
    """Take a step on every batch; return the means of its values, over training nodes."""
    total: dict[str, Tensor] = {}
    nodes = 0
    for batch in batches:
        size = batch.train.shape[1]
        nodes += size
        for name, value in step(batch).items():
            total[name] = total.get(name, 0.0) + size * value
    return {name: value / nodes for name, value in total.items()}
