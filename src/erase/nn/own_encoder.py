"""An encoder of the user's: any module with PyG's forward(x, edge_index)."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from erase.errors import EraseError
from erase.nn.encoders import Activation, Encoder, Features, Streams, activate
from erase.nn.sparse import Graph

Factory = Callable[[int, int], nn.Module]


class OwnEncoder(Encoder):
    """A user's module in the place of an encoder of this package: one run, the whole graph.

    The module gets dense features [N, F], after dropout in training, and ``edge_index`` [2, E] with
    both directions of every edge; also ``edge_weight`` [E], if the graph has weights. It returns
    [N, D], which the method's output activation is applied to. The hidden layer is that output
    before the activation. Random numbers that the module draws, for its initial weights and in
    training, depend on the stream alone.

    In a state dict the weights have the run as their first dimension, as those of all encoders.

    Args:
        factory: called with F and D, returns the module.
        in_width: F.
        width: D.
        dropout: share of input entries dropped in training, besides what the module drops.
        output_activation: see :func:`erase.nn.encoders.activate`.
        stream: seeds the initial weights.
    """

    def __init__(
        self,
        factory: Factory,
        *,
        in_width: int,
        width: int,
        dropout: float,
        output_activation: Activation,
        stream: torch.Generator,
    ) -> None:
        nn.Module.__init__(self)
        with _drawing_from(stream, torch.device("cpu")):
            self.module = factory(in_width, width)
        _check(self.module)
        self.width = width
        self.dropout = dropout
        self.output_activation = output_activation
        self.register_state_dict_post_hook(_add_run)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_drop_run)  # type: ignore[no-untyped-call]

    def hidden(self, x: Features, graph: Graph, dropout: Streams | None = None) -> Tensor:
        """Return the module's output [1, N, D]; a `dropout` stream means training."""
        if graph.weight is not None and not _takes_weights(self.module):
            raise EraseError(
                "an encoder whose forward takes edge_weight, for a graph with edge weights",
                f"{type(self.module).__name__}, which takes none",
                "Add the argument, or ignore weights: NodeTask.of(graph, weights=False).",
            )
        weight = {} if graph.weight is None else {"edge_weight": graph.weight}
        if dropout is None:
            self.module.eval()
            out = self.module(x.dense(), graph.edge_index, **weight)
        else:
            self.module.train()
            if self.dropout > 0:
                x = x.dropout(self.dropout, dropout)
            with _drawing_from(dropout[0], graph.edge_index.device):
                out = self.module(x.dense(), graph.edge_index, **weight)
        expected = (graph.num_nodes, self.width)
        if not isinstance(out, Tensor) or tuple(out.shape) != expected:
            got = f"shape {list(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise EraseError(
                f"an encoder that returns a tensor {list(expected)}",
                got,
                "Let its last layer have out_channels columns.",
            )
        return out[None]

    def output(self, hidden: Tensor, graph: Graph) -> Tensor:
        """Return z [1, N, D] from the module's output."""
        return activate(hidden, self.output_activation)


def _check(module: Any) -> None:
    advice = "Return a torch.nn.Module with forward(x, edge_index) from factory(in, out)."
    if not isinstance(module, nn.Module):
        raise EraseError("an encoder that is a torch.nn.Module", type(module).__name__, advice)
    if any(is_lazy(parameter) for parameter in module.parameters()):
        raise EraseError(
            "an encoder whose layers have their widths",
            "lazy layers, with in_channels=-1",
            "Pass the factory's in_channels on to the first layer.",
        )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise EraseError("an encoder with parameters to train", "none", advice)


def _takes_weights(module: nn.Module) -> bool:
    """Say whether `edge_weight` is used; PyG's models accept it and state whether they use it."""
    accepts = "edge_weight" in inspect.signature(module.forward).parameters
    return accepts and bool(getattr(module, "supports_edge_weight", True))


@contextmanager
def _drawing_from(stream: torch.Generator, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators from a stream, and restore them afterwards."""
    seed = int(torch.randint(2**62, (), generator=stream, device=stream.device))
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def _add_run(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
    for name in state:
        if name.startswith(prefix):
            state[name] = state[name][None]


def _drop_run(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
    for name in state:
        if name.startswith(prefix):
            state[name] = state[name][0]
