"""A module of the user's as encoder: what it gets, what it may draw, what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GCNConv

from erase.errors import EraseError
from erase.nn.encoders import Features, activate
from erase.nn.own_encoder import OwnEncoder
from erase.nn.sparse import Graph
from graphs import edge_weights

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Layers(nn.Module):
    """A convolution, batch normalisation and dropout: weights, buffers and random numbers."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, out_channels)
        self.norm = nn.BatchNorm1d(out_channels)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z: Tensor = self.dropout(self.norm(self.conv(x, edge_index)))
        return z


def encoder(factory: Callable[[int, int], Any] = Layers, **changes: Any) -> OwnEncoder:
    settings: dict[str, Any] = {
        "in_width": 4,
        "width": 3,
        "dropout": 0.5,
        "output_activation": "l2",
        "stream": stream(),
    }
    return OwnEncoder(factory, **(settings | changes))


def features(sparse: bool = False) -> Features:
    x = torch.randn(3, 4, generator=stream(5)).relu()
    return Features(x.to_sparse_csr() if sparse else x)


@pytest.mark.parametrize("sparse", [False, True])
def test_it_is_the_module_and_the_activation(sparse: bool) -> None:
    own, graph = encoder(), Graph(EDGES, 3)
    module = own.module.eval()
    expected = module(features().dense(), EDGES)
    torch.testing.assert_close(own.hidden(features(sparse), graph)[0], expected)
    torch.testing.assert_close(own(features(sparse), graph)[0], activate(expected, "l2"))


def test_initial_weights_and_dropout_come_from_their_streams_alone() -> None:
    graph = Graph(EDGES, 3)
    before = torch.get_rng_state()
    first, again, other = encoder(), encoder(), encoder(stream=stream(1))
    trained = first(features(), graph, [stream(2)])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    assert torch.equal(again(features(), graph, [stream(2)]), trained)
    assert not torch.equal(again(features(), graph, [stream(3)]), trained)
    weights = [own.state_dict()["module.conv.lin.weight"] for own in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_state_has_the_run_as_first_dimension_and_restores_the_encoder() -> None:
    graph = Graph(EDGES, 3)
    first, other = encoder(), encoder(stream=stream(1))
    first(features(), graph, [stream(2)])  # moves the running means
    state = nn.ModuleDict({"encoder": first}).state_dict()
    assert all(value.shape[0] == 1 for value in state.values())
    nn.ModuleDict({"encoder": other}).load_state_dict(state)
    assert torch.equal(other(features(), graph), first(features(), graph))


def test_edge_weights_reach_a_module_that_takes_them() -> None:
    weight = edge_weights(EDGES, 3)
    own = encoder(lambda i, o: GCN(i, 8, 2, o))
    expected = own.module(features().dense(), EDGES, edge_weight=weight)
    torch.testing.assert_close(own.hidden(features(), Graph(EDGES, 3, weight=weight))[0], expected)
    assert not torch.allclose(own.hidden(features(), Graph(EDGES, 3))[0], expected)


class TooWide(nn.Linear):
    def forward(self, x: Tensor, edge_index: Tensor | None = None) -> Tensor:
        return super().forward(x)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda i, o: "gat", "torch.nn.Module; got str"),
        (lambda i, o: GCNConv(-1, o), "lazy"),
        (lambda i, o: nn.ReLU(), "parameters to train"),
    ],
)
def test_modules_that_cannot_be_encoders_are_refused(
    factory: Callable[[int, int], Any], message: str
) -> None:
    with pytest.raises(EraseError, match=message):
        encoder(factory)


@pytest.mark.parametrize("factory", [Layers, lambda i, o: GAT(i, 8, 2, o)])  # GAT ignores them
def test_edge_weights_are_refused_by_a_module_that_cannot_use_them(
    factory: Callable[[int, int], Any],
) -> None:
    graph = Graph(EDGES, 3, weight=edge_weights(EDGES, 3))
    with pytest.raises(EraseError, match=r"which takes none.*weights=False"):
        encoder(factory)(features(), graph)


def test_an_output_of_another_width_is_refused() -> None:
    own = encoder(lambda i, o: TooWide(i, o + 1))
    with pytest.raises(EraseError, match=r"a tensor \[3, 3\]; got shape \[3, 4\]"):
        own(features(), Graph(EDGES, 3))
