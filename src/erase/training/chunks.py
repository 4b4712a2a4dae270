"""Representations of a whole graph, some rows at a time.

For graphs whose representations are too large for memory, and for several processes that compute
some rows each.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from erase.nn.encoders import Encoder, Features, Layer, Messages, Streams
from erase.nn.heads import LinearHead, regress_centred
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph
from erase.nn.sums import single_process
from erase.training.disk import OnDisk
from erase.training.processes import add_up, count, rank

NODES_AT_ONCE = 16_384  # in a chunk without gradients
LARGE = 2**30  # bytes of representations held in memory; more go to a file
ENOUGH_EXAMPLES = 2**18  # most training nodes of a regression in chunks

ReadRows = Callable[[Tensor], Features]


@torch.no_grad()
def hidden_of_all(encoder: Encoder, x: ReadRows, graph: Graph) -> Tensor:
    """Return the hidden layer [R, N, hidden] of a whole graph, some nodes at a time.

    Args:
        encoder: computes it.
        x: returns the features of the nodes [n] it is called with.
        graph: the whole graph.
    """
    messages = messages_of_all(encoder.first, x, graph, NODES_AT_ONCE)
    return in_chunks(lambda rows: encoder.hidden_from(messages, rows), graph, NODES_AT_ONCE)


@torch.no_grad()
def output_of_all(encoder: Encoder, hidden: Tensor, graph: Graph) -> Tensor:
    """Return z [R, N, width] of a whole graph from its hidden layer, some nodes at a time."""
    messages = encoder.second.message(hidden)
    return in_chunks(lambda rows: encoder.output_from(messages, rows), graph, NODES_AT_ONCE)


def messages_of_all(layer: Layer, x: ReadRows, graph: Graph, size: int) -> Messages:
    """Return the messages of a first layer for all nodes, read `size` nodes at a time."""
    nodes = torch.arange(graph.num_nodes, device=graph.edge_index.device)
    messages: Messages = ()
    for some in nodes.split(size):
        parts = layer.message(x(some))
        if not messages:  # filled in place: parts put together at the end would be held twice
            shapes = [(part.shape[0], graph.num_nodes, *part.shape[2:]) for part in parts]
            messages = tuple(map(torch.Tensor.new_empty, parts, shapes))
        start = int(some[0])
        for whole, part in zip(messages, parts, strict=True):
            whole[:, start : start + len(some)] = part
    return messages


def in_chunks(work: Callable[[Graph], Tensor], graph: Graph, size: int) -> Tensor:
    """Return [R, N, C] from `work`, which returns [R, M, C] for some rows of the `graph`.

    Of several processes each computes some chunks.
    """
    first = work(graph.rows(0, 1))
    out = first.new_zeros(first.shape[0], graph.num_nodes, first.shape[2])
    for start, rows in own_chunks(graph, size):
        part = work(rows)
        out[:, start : start + part.shape[1]] = part
    add_up(out)
    return out


def by_rows(work: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Return [R, N, C] from `work`, which turns some rows of z [R, N, D] into [R, M, C]."""
    return torch.cat([work(some) for some in z.split(NODES_AT_ONCE, 1)], 1)


def own_chunks(graph: Graph, size: int) -> Iterator[tuple[int, Graph]]:
    """Yield this process's rows of a whole graph, in chunks of up to `size` rows.

    All processes have as many chunks, all of one size but the last.
    """
    turns = -(-graph.num_nodes // (count() * size))
    size = -(-graph.num_nodes // (count() * max(turns, 1)))
    for start in range(rank() * size, graph.num_nodes, count() * size):
        yield start, graph.rows(start, min(start + size, graph.num_nodes))


class _Rows:
    """z of a whole graph, computed from the second layer's messages on request.

    Args:
        encoder: computes it.
        messages: of the second layer, of all nodes.
        graph: the whole graph.
        size: rows to compute at a time.
    """

    def __init__(self, encoder: Encoder, messages: Messages, graph: Graph, size: int) -> None:
        self._encoder, self._second, self._graph, self._size = encoder, messages, graph, size

    @torch.no_grad()
    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of this process: which ones, and their z [R, M, width]."""
        for start, rows in own_chunks(self._graph, self._size):
            z = self._encoder.output_from(self._second, rows)
            yield slice(start, start + z.shape[1]), z


class InferencePass(_Rows):
    """A pass over a whole graph without dropout; z is computed in chunks and not held.

    Args:
        encoder: computes it.
        x: returns the features of the nodes it is called with.
        graph: the whole graph.
    """

    @torch.no_grad()
    def __init__(self, encoder: Encoder, x: ReadRows, graph: Graph) -> None:
        messages = encoder.second.message(hidden_of_all(encoder, x, graph))
        super().__init__(encoder, messages, graph, NODES_AT_ONCE)

    @torch.no_grad()
    def z(self) -> Tensor:
        """Return all rows [R, N, width], in a file if they have more than :data:`LARGE` bytes."""
        first = self._encoder.output_from(self._second, self._graph.rows(0, 1))
        n = self._graph.num_nodes
        if n * first.nbytes <= LARGE or first.is_cuda or count() > 1:
            return self.map(lambda z: z)
        out = OnDisk(len(first), n, first.shape[2])
        for rows, z in self.chunks():
            out.tensor[:, rows] = z
            out.leave_memory()
        return out.tensor

    @torch.no_grad()
    def map(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        """Return [R, N, C] from `work`, which turns the z of some rows into [R, M, C]."""
        return in_chunks(
            lambda rows: work(self._encoder.output_from(self._second, rows)),
            self._graph,
            self._size,
        )


class RecomputedPass(_Rows):
    """A training pass over a whole graph whose z is never held as a whole.

    The messages of both layers are held, [N, hidden] each. Rows of z are computed from them on
    request; the backward pass computes them again, some rows at a time. Value and gradient
    are those of the whole graph at once. Of several processes each has some rows, and gradients are
    to be averaged.

    Args:
        encoder: trained.
        x: returns the features of the nodes it is called with.
        graph: the whole graph.
        dropout: a random stream for each run.
        size: rows to compute at a time.
    """

    @torch.no_grad()
    def __init__(
        self, encoder: Encoder, x: ReadRows, graph: Graph, dropout: Streams, size: int
    ) -> None:
        self._encoder, self._x, self._dropout = encoder, x, dropout
        self._states = [stream.get_state() for stream in dropout]
        self._first = messages_of_all(encoder.first, self._dropped, graph, size)
        self._hidden = in_chunks(lambda rows: encoder.hidden_from(self._first, rows), graph, size)
        super().__init__(encoder, encoder.second.message(self._hidden), graph, size)

    def _dropped(self, nodes: Tensor) -> Features:
        x = self._x(nodes)
        share = self._encoder.dropout
        return x.dropout(share, self._dropout) if share > 0 else x

    @full_float32()
    def backward(self, slope: Callable[[slice, Tensor], Tensor]) -> None:
        """Add to the parameters' gradients what follows from ∂/∂z, which is `slope(rows, z)`."""
        encoder = self._encoder
        second_slopes = self._back_through(encoder.output_from, self._second, slope)
        hidden = self._hidden.detach().requires_grad_()
        torch.autograd.backward(encoder.second.message(hidden), second_slopes)
        (hidden_slope,) = _slopes([hidden])
        first_slopes = self._back_through(
            encoder.hidden_from, self._first, lambda rows, _: hidden_slope[:, rows]
        )
        for stream, state in zip(self._dropout, self._states, strict=True):
            stream.set_state(state)  # drop the same entries as before
        nodes = torch.arange(self._graph.num_nodes, device=hidden.device)
        for turn, some in enumerate(nodes.split(self._size)):
            x = self._dropped(some)  # for other processes' turns too: the streams advance
            if turn % count() == rank():
                rows = slice(int(some[0]), int(some[-1]) + 1)
                slopes = [count() * part[:, rows] for part in first_slopes]
                torch.autograd.backward(encoder.first.message(x), slopes)

    def _back_through(
        self,
        aggregate: Callable[[Messages, Graph], Tensor],
        messages: Messages,
        slope: Callable[[slice, Tensor], Tensor],
    ) -> list[Tensor]:
        """Return the gradient at a layer's messages, from that at its output."""
        leaves = tuple(part.detach().requires_grad_() for part in messages)
        for start, rows in own_chunks(self._graph, self._size):
            output = aggregate(leaves, rows)
            part = slope(slice(start, start + output.shape[1]), output.detach())
            output.backward(count() * part)
        slopes = [part / count() for part in _slopes(leaves)]
        add_up(*slopes)
        return slopes


def _slopes(leaves: Sequence[Tensor]) -> list[Tensor]:
    return [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]


class RowsOfZ(Protocol):
    """Representations of all nodes in chunks, see :class:`InferencePass`."""

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows of this process: which ones, and their z [R, M, D]."""

    def map(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        """Return [R, N, C] from `work`, which turns the z of some rows into [R, M, C]."""


@full_float32()
def classify_in_chunks(head: LinearHead, z: RowsOfZ, rows: Tensor, y: Tensor) -> Tensor:
    """Fit the head and return its probabilities for every node [1, N, K].

    Only representations of `rows` are held; of more than :data:`ENOUGH_EXAMPLES`, every n-th.

    Args:
        head: of one run.
        z: representations [1, N, D] float32; normalised to length 1 for the classifier.
        rows: [n] training nodes, ascending.
        y: [n] their classes.
    """
    _, width, num_classes = head.weight.shape
    stride = -(-rows.numel() // ENOUGH_EXAMPLES)
    rows, y = rows[::stride].contiguous(), y[::stride]
    shared = count() > 1 and rows.numel() > width  # each process has the examples of its chunks
    examples = torch.zeros(1, rows.numel(), width, device=rows.device)
    own, filled = torch.zeros_like(y), 0
    for nodes, some in z.chunks():
        ends = rows.new_tensor([nodes.start, nodes.stop])
        first, last = torch.searchsorted(rows, ends).tolist()
        start = filled if shared else first
        places = slice(start, start + last - first)
        examples[:, places] = normalize(some[:, rows[first:last] - nodes.start], dim=2)
        own[places] = y[first:last]
        filled += last - first
    if shared:
        examples, y = examples[:, :filled], own[:filled]
    else:
        add_up(examples)
    centre = examples.sum(1, keepdim=True)
    if shared:
        add_up(centre)
    centre /= rows.numel()
    examples -= centre
    weight, intercept = regress_centred(
        examples,
        y[None],
        num_classes,
        total=rows.numel() if shared else None,
        add_up=add_up if shared else single_process,
    )
    head.set(centre, weight, intercept)
    return z.map(head)
