"""Batches of nodes with sampled neighbourhoods, by PyG's loader.

For every node and hop a given number of neighbours is drawn, uniformly and without replacement.
Neighbours of a node are drawn once in a batch, in the hop after the one that first reaches it.
:class:`CSRSampler` draws them, on every machine the same; PyG's compiled one would draw others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from erase.nn.sparse import Graph, ragged


@dataclass(frozen=True, eq=False)
class Sample:
    """Seeds with the neighbours that were drawn for them.

    Attributes:
        nodes: [n] their numbers in the whole graph: the seeds, then what each hop added.
        hops: the number of nodes after the seeds, after the first hop, …
        edge_index: [2, e] receivers and senders of messages, as positions in `nodes`; sorted.
        edges: [e] which entries of the whole graph they are.
    """

    nodes: Tensor
    hops: tuple[int, ...]
    edge_index: Tensor
    edges: Tensor


class SampledNeighbours:
    """Sampled batches around `seeds`, in a new order and with new neighbours every time.

    Args:
        graph: the whole graph, on the CPU; it is not copied.
        seeds: [s] nodes to go through.
        batch_size: seeds in a batch; the last one has what is left.
        num_neighbors: of a node, for each hop; −1: all.
        stream: draws the order and the neighbours.
    """

    def __init__(
        self,
        graph: Graph,
        seeds: Tensor,
        *,
        batch_size: int,
        num_neighbors: Sequence[int],
        stream: torch.Generator,
    ) -> None:
        sampler = CSRSampler(graph, num_neighbors, stream)
        self._loader = NodeLoader(
            Data(num_nodes=graph.num_nodes, edge_index=torch.empty(2, 0, dtype=torch.int64)),
            sampler,
            input_nodes=seeds,
            batch_sampler=_Shuffled(seeds.numel(), batch_size, stream),
            generator=stream,
        )

    def __iter__(self) -> Iterator[Sample]:
        for batch in self._loader:
            sources, targets = batch.edge_index
            order = torch.argsort(targets * batch.n_id.numel() + sources)
            hops = torch.tensor(batch.num_sampled_nodes).cumsum(0).tolist()
            edge_index = torch.stack([targets, sources])[:, order]
            yield Sample(batch.n_id, tuple(hops), edge_index, batch.e_id[order])


class _Shuffled(Sampler[list[int]]):
    """Places of seeds in batches, shuffled anew every time."""

    def __init__(self, seeds: int, batch_size: int, stream: torch.Generator) -> None:
        self._seeds, self._batch_size, self._stream = seeds, batch_size, stream

    def __len__(self) -> int:
        return -(-self._seeds // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(self._seeds, generator=self._stream)
        for part in order.split(self._batch_size):
            yield part.tolist()


class CSRSampler(BaseSampler):  # type: ignore[misc]
    """PyG's sampler interface on a sorted graph, without compiled extensions or loops over nodes.

    Args:
        graph: the whole graph; it is not copied.
        num_neighbors: of a node, for each hop; −1: all.
        stream: draws them.
    """

    def __init__(self, graph: Graph, num_neighbors: Sequence[int], stream: torch.Generator) -> None:
        self._indptr, self._neighbours = graph.indptr, graph.edge_index[1]
        self._num_neighbors, self._stream = tuple(num_neighbors), stream
        self._place = torch.full((graph.num_nodes,), -1)  # in the sample under way; −1: not in it

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        """Refuse: neighbours are sampled around nodes."""
        raise NotImplementedError("neighbours are sampled around nodes, not around edges")

    def sample_from_nodes(self, inputs: NodeSamplerInput) -> SamplerOutput:
        """Return the seeds `inputs.node` and the neighbours drawn for them."""
        seeds = inputs.node
        parts, sources, targets, drawn = [seeds], [], [], []
        self._place[seeds] = torch.arange(seeds.numel())
        first, last = 0, seeds.numel()  # the nodes that this hop draws for
        for wanted in self._num_neighbors:
            entries, count = self._draw(parts[-1], wanted)
            met = self._neighbours[entries]
            fresh = met[self._place[met] < 0].unique()
            self._place[fresh] = torch.arange(last, last + fresh.numel())
            sources.append(self._place[met])
            targets.append(torch.repeat_interleave(torch.arange(first, last), count))
            drawn.append(entries)
            parts.append(fresh)
            first, last = last, last + fresh.numel()
        nodes = torch.cat(parts)
        self._place[nodes] = -1
        return SamplerOutput(
            node=nodes,
            row=torch.cat(sources),
            col=torch.cat(targets),
            edge=torch.cat(drawn),
            num_sampled_nodes=[part.numel() for part in parts],
            num_sampled_edges=[part.numel() for part in sources],
            metadata=(inputs.input_id, inputs.time),
        )

    def _draw(self, nodes: Tensor, wanted: int) -> tuple[Tensor, Tensor]:
        """Return the entries drawn for `nodes` [n], node by node, and how many each got [n]."""
        start = self._indptr[nodes]
        degree = self._indptr[nodes + 1] - start
        count = degree if wanted < 0 else degree.clamp(max=wanted)
        entries = ragged(start, count)  # right where a node has no more than that
        many = (degree > count).nonzero().squeeze(1)
        if many.numel() and wanted:
            slots = ragged((count.cumsum(0) - count)[many], count[many])
            chosen = self._distinct(degree[many], wanted)
            entries[slots] = (start[many, None] + chosen).flatten()
        return entries, count

    def _distinct(self, size: Tensor, wanted: int) -> Tensor:
        """Return [n, wanted] distinct numbers below `size` [n], every subset equally likely.

        Floyd's way: the i-th draw is among the first size − wanted + i + 1 numbers, and where it
        repeats an earlier one, the last of these is taken instead.
        """
        chosen = torch.empty(size.numel(), wanted, dtype=torch.int64)
        uniform = torch.rand(wanted, size.numel(), dtype=torch.float64, generator=self._stream)
        for i in range(wanted):
            highest = size - wanted + i
            drawn = (uniform[i] * (highest + 1)).long()
            taken = (chosen[:, :i] == drawn[:, None]).any(1)
            chosen[:, i] = torch.where(taken, highest, drawn)
        return chosen
