"""Representations of a whole graph that are computed some rows at a time.

For graphs whose representations should not, or cannot, be held in memory at once, and for several
processes of which each computes some rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from erase.nn.encoders import Encoder, Features, Layer, Messages, Streams
from erase.nn.heads import leave, regress_centred
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph
from erase.training.disk import OnDisk
from erase.training.processes import add_up, count, rank

NODES_AT_ONCE = 16_384  # of a graph that is passed through a layer in chunks
LARGE = 2**30  # bytes of representations that are held in memory; more lie on the disk
ENOUGH_EXAMPLES = 2**18  # a regression on sampled representations takes no more

ReadRows = Callable[[Tensor], Features]


@torch.no_grad()
def hidden_of_all(encoder: Encoder, x: ReadRows, graph: Graph) -> Tensor:
    """Return the hidden layer [R, N, hidden] of a whole graph, some nodes at a time.

    Args:
        encoder: what computes it.
        x: gives the features of the nodes that it is asked for, [n].
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
    """Return what a first layer says of all nodes, read `size` nodes at a time."""
    nodes = torch.arange(graph.num_nodes, device=graph.edge_index.device)
    parts = [layer.message(x(some)) for some in nodes.split(size)]
    return tuple(torch.cat(part, 1) for part in zip(*parts, strict=True))


def in_chunks(work: Callable[[Graph], Tensor], graph: Graph, size: int) -> Tensor:
    """Return [R, N, C] from `work`, which gives the rows [R, M, C] of a part of the `graph`.

    Of several processes each does some chunks.
    """
    first = work(graph.rows(0, 1))
    out = first.new_zeros(first.shape[0], graph.num_nodes, first.shape[2])
    for start, rows in own_chunks(graph, size):
        part = work(rows)
        out[:, start : start + part.shape[1]] = part
    add_up(out)
    return out


def own_chunks(graph: Graph, size: int) -> Iterator[tuple[int, Graph]]:
    """Yield the rows of a whole graph that are this process's, in chunks of up to `size` rows.

    Every process has as many chunks, and all but the last are equal.
    """
    turns = -(-graph.num_nodes // (count() * size))
    size = -(-graph.num_nodes // (count() * max(turns, 1)))
    for start in range(rank() * size, graph.num_nodes, count() * size):
        yield start, graph.rows(start, min(start + size, graph.num_nodes))


class Survey:
    """z of a whole graph, in use, whose rows are computed when they are asked for and not held.

    Args:
        encoder: what computes them.
        x: gives the features of the nodes that it is asked for.
        graph: the whole graph.
    """

    def __init__(self, encoder: Encoder, x: ReadRows, graph: Graph) -> None:
        self._encoder, self._graph = encoder, graph
        with torch.no_grad():
            self._messages = encoder.second.message(hidden_of_all(encoder, x, graph))

    @torch.no_grad()
    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield which rows, and their z [R, M, width]; of this process."""
        for start, rows in own_chunks(self._graph, NODES_AT_ONCE):
            z = self._encoder.output_from(self._messages, rows)
            yield slice(start, start + z.shape[1]), z

    @torch.no_grad()
    def z(self) -> Tensor:
        """Return all rows [R, N, width]; more than :data:`LARGE` bytes of them lie on the disk."""
        first = self._encoder.output_from(self._messages, self._graph.rows(0, 1))
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
        """Return [R, N, C] from `work`, which makes [R, M, C] of the z of some rows."""
        return in_chunks(
            lambda rows: work(self._encoder.output_from(self._messages, rows)),
            self._graph,
            NODES_AT_ONCE,
        )


class RecomputedPass:
    """An encoder's pass over a whole graph in training, of which z is never held as a whole.

    What the two layers say of all nodes is held, [N, hidden] each. Rows of z are computed from that
    when they are asked for, as often as they are; going back, what led to them is computed again,
    some rows at a time. Value and gradient are those of the whole graph at once. Of several
    processes each sees some rows, and the gradients are there to be averaged.

    Args:
        encoder: what is trained.
        x: gives the features of the nodes that it is asked for.
        graph: the whole graph.
        dropout: a stream for each run.
        size: rows to compute at a time.
    """

    def __init__(
        self, encoder: Encoder, x: ReadRows, graph: Graph, dropout: Streams, size: int
    ) -> None:
        self._encoder, self._x, self._graph, self._dropout = encoder, x, graph, dropout
        self._size = size
        self._states = [stream.get_state() for stream in dropout]
        with torch.no_grad():
            self._first = messages_of_all(encoder.first, self._dropped, graph, size)
            self._hidden = in_chunks(
                lambda rows: encoder.hidden_from(self._first, rows), graph, size
            )
            self._second = encoder.second.message(self._hidden)

    def _dropped(self, nodes: Tensor) -> Features:
        x = self._x(nodes)
        share = self._encoder.dropout
        return x.dropout(share, self._dropout) if share > 0 else x

    @torch.no_grad()
    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield which rows, and their z [R, M, width]; of this process."""
        for start, rows in own_chunks(self._graph, self._size):
            z = self._encoder.output_from(self._second, rows)
            yield slice(start, start + z.shape[1]), z

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
            stream.set_state(state)  # the very entries that were dropped before
        nodes = torch.arange(self._graph.num_nodes, device=hidden.device)
        for turn, some in enumerate(nodes.split(self._size)):
            x = self._dropped(some)  # also where another process's turn is: the streams go on
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
        """Return the gradient at what a layer says, from that at the rows it hears."""
        leaves = tuple(part.detach().requires_grad_() for part in messages)
        for start, rows in own_chunks(self._graph, self._size):
            heard = aggregate(leaves, rows)
            part = slope(slice(start, start + heard.shape[1]), heard.detach())
            heard.backward(count() * part)
        slopes = [part / count() for part in _slopes(leaves)]
        add_up(*slopes)
        return slopes


def _slopes(leaves: Sequence[Tensor]) -> list[Tensor]:
    return [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]


class RowsOfZ(Protocol):
    """Representations of all nodes that come in chunks, see :class:`Survey`."""

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield which rows, and their z [R, M, D]; of this process."""

    def map(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        """Return [R, N, C] from `work`, which makes [R, M, C] of the z of some rows."""


@full_float32()
def classify_in_chunks(z: RowsOfZ, width: int, rows: Tensor, y: Tensor, num_classes: int) -> Tensor:
    """Return what logistic regression says of every node [1, N, K]; those of `rows` alone are held.

    Of more than :data:`ENOUGH_EXAMPLES` it learns from every n-th.

    Args:
        z: representations [1, N, D] float32; the classifier sees them with length 1.
        width: D.
        rows: [n] the nodes it is trained on, ascending.
        y: [n] their classes.
        num_classes: K.
    """
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
        add_up=add_up if shared else leave,
    )
    return z.map(lambda some: ((normalize(some, dim=2) - centre) @ weight + intercept).softmax(2))
