"""`encoder_` is the fitted encoder for people who use PyG."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS
from erase.methods.network import NetworkClassifier
from erase.nn import graph_encoder
from erase.nn.encoders import ENCODERS, Encoder
from erase.nn.graph_encoder import GraphEncoder
from erase.random import torch_stream
from graphs import with_weights

SMALL: dict[str, Any] = {"hidden": 16, "heads": 2, "epochs": 4, "lr": 0.01, "device": "cpu"}
# without one, test_every_encoder_has_a_plain_layer alone fails
WITH_PLAIN_LAYER = [kind for kind in sorted(ENCODERS) if ENCODERS[kind] in graph_encoder._LAYERS]
NETWORKS = [name for name, method in METHODS.items() if issubclass(method, NetworkClassifier)]
OF_ONE_ENCODER = ("ce-gcn", "rtgnn", "nrgnn", "pta")


def fitted(name: str, graph: Data, **changes: Any) -> Any:
    known = METHODS[name]().get_params()
    params = {"width": 12} | SMALL | changes
    return METHODS[name](**{key: value for key, value in params.items() if key in known}).fit(graph)


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder_has_a_plain_layer(kind: str) -> None:
    assert ENCODERS[kind] in graph_encoder._LAYERS, (
        f"{kind} has no plain layer: subclass _PlainLayer in src/erase/nn/graph_encoder.py and add "
        "it to _LAYERS there"
    )


@pytest.mark.parametrize("encoder", WITH_PLAIN_LAYER)
@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in OF_ONE_ENCODER])
def test_the_output_is_that_of_transform(name: str, encoder: str, communities: Data) -> None:
    model, task = fitted(name, communities, encoder=encoder), NodeTask.of(communities)
    module = model.encoder_
    assert module is model.encoder_
    loops = torch.arange(7).expand(2, -1)  # self-loops do not count
    for edges in (task.edge_index, torch.cat([task.edge_index, loops], 1)):
        found = module(task.x, edges).detach()
        torch.testing.assert_close(found, torch.tensor(model.transform()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("encoder", WITH_PLAIN_LAYER)
def test_edge_weights_count_as_in_the_fit(encoder: str, communities: Data) -> None:
    model = fitted("ce", with_weights(communities), encoder=encoder)
    task = NodeTask.of(with_weights(communities))
    found = model.encoder_(task.x, task.edge_index, task.edge_weight).detach()
    torch.testing.assert_close(found, torch.tensor(model.transform()), atol=1e-5, rtol=0)
    with pytest.raises(EraseError, match="Pass the weights"):
        model.encoder_(task.x, task.edge_index)


@pytest.mark.parametrize("name", ["rtgnn", "nrgnn"])
def test_it_is_that_of_the_graph_without_candidates(name: str, communities: Data) -> None:
    model, task = fitted(name, communities), NodeTask.of(communities)
    bare = Data(x=task.x, edge_index=task.edge_index)
    found = model.encoder_(task.x, task.edge_index).detach()
    torch.testing.assert_close(found, torch.tensor(model.transform(bare)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("inner", "output"),
    [("leaky-l1", "l1-relu"), ("relu-l1", "l2-relu"), ("relu", "l2"), ("relu", "none")],
)
def test_every_activation_is_the_same(inner: str, output: str, communities: Data) -> None:
    model = fitted("erase", communities, inner=inner, output=output)
    task = NodeTask.of(communities)
    found = model.encoder_(task.x, task.edge_index).detach()
    torch.testing.assert_close(found, torch.tensor(model.transform()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("encoder", WITH_PLAIN_LAYER)
def test_it_is_exported_for_graphs_of_any_size(encoder: str, communities: Data) -> None:
    model, task = fitted("erase", communities, encoder=encoder), NodeTask.of(communities)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    exported = torch.export.export(
        model.encoder_,
        (task.x, task.edge_index),
        dynamic_shapes={"x": {0: nodes}, "edge_index": {1: edges}},
    )
    other = NodeTask.of(communities.subgraph(torch.arange(30)))
    torch.testing.assert_close(
        exported.module()(other.x, other.edge_index), model.encoder_(other.x, other.edge_index)
    )


@pytest.mark.parametrize("encoder", WITH_PLAIN_LAYER)
def test_fine_tuning_lowers_a_loss_and_leaves_the_method_alone(
    encoder: str, communities: Data
) -> None:
    model, task = fitted("ce", communities, encoder=encoder), NodeTask.of(communities)
    before, module = model.transform(), model.encoder_.train()
    head = nn.Linear(16, 2)
    optimiser = torch.optim.Adam([*module.parameters(), *head.parameters()], lr=0.02)
    losses = []
    for _ in range(30):
        logits = head(module(task.x, task.edge_index))
        loss = nn.functional.cross_entropy(logits[communities.train_mask], communities.y[:40])
        optimiser.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in module.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert (model.transform(communities) == before).all()
    assert model.fit(communities).encoder_ is not module


def test_weights_of_edges_are_refused(communities: Data) -> None:
    module = fitted("ce", communities).encoder_
    with pytest.raises(EraseError, match="Leave out edge_weight"):
        module(communities.x, communities.edge_index, torch.ones(communities.num_edges))


@pytest.mark.parametrize("kind", ["gat", "gcn", "sage"])  # what PyG has too
def test_a_layer_is_that_of_pyg(kind: str, communities: Data) -> None:
    """With one-way edges too: messages go along them as in PyG."""
    encoder = Encoder(
        kind,
        in_width=16,
        hidden=6,
        width=4,
        heads=2,
        dropout=0.0,
        hidden_activation="none",
        output_activation="none",
        streams=[torch_stream(0, "weights")],
    )
    layer: Any = encoder.first
    edges = communities.edge_index[:, communities.edge_index[0] != communities.edge_index[1]]
    edges = edges.unique(dim=1)
    found = GraphEncoder([encoder], hidden=True)(communities.x, edges)
    torch.testing.assert_close(found, _by_pyg(kind, layer, communities.x, edges))


def _by_pyg(kind: str, layer: Any, x: Tensor, edges: Tensor) -> Tensor:
    convolution: Any
    with torch.no_grad():
        if kind == "gat":
            convolution = GATConv(16, 3, heads=2)
            convolution.lin.weight.copy_(layer.weight[0].T)
            convolution.att_src.copy_(layer.source)
            convolution.att_dst.copy_(layer.target)
        elif kind == "gcn":
            convolution = GCNConv(16, 6)
            convolution.lin.weight.copy_(layer.weight[0].T)
        else:
            convolution = SAGEConv(16, 6)
            convolution.lin_l.weight.copy_(layer.neighbours[0].T)
            convolution.lin_r.weight.copy_(layer.itself[0].T)
            convolution.lin_l.bias.zero_()
    out: Tensor = convolution(x, edges)
    return out
