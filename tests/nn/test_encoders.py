"""Our layers are PyG's with the same weights; features may be sparse; activations as named."""

from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn.functional import leaky_relu, normalize, relu
from torch_geometric.nn import GATConv, GCNConv, GraphConv, SAGEConv

from erase.errors import EraseError
from erase.nn.encoders import ENCODERS, Encoder, Features, GATLayer, GCNLayer, SAGELayer, activate
from erase.nn.sparse import Graph
from graphs import edge_lists, edge_weights


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pyg_twin(layer: GATLayer | GCNLayer | SAGELayer) -> Any:
    """Return PyG's layer with the weights of ours."""
    if isinstance(layer, GATLayer):
        _, in_width, out_width = layer.weight.shape
        gat = GATConv(in_width, out_width // layer.heads, heads=layer.heads)
        gat.lin.weight.data = layer.weight.data[0].T.clone()
        gat.att_src.data = layer.source.data.clone()
        gat.att_dst.data = layer.target.data.clone()
        gat.bias.data = layer.bias.data[0, 0].clone()
        return gat
    if isinstance(layer, GCNLayer):
        gcn = GCNConv(*layer.weight.shape[1:])
        gcn.lin.weight.data = layer.weight.data[0].T.clone()
        gcn.bias.data = layer.bias.data[0, 0].clone()
        return gcn
    sage = SAGEConv(*layer.neighbours.shape[1:])
    sage.lin_l.weight.data = layer.neighbours.data[0].T.clone()
    sage.lin_l.bias.data = layer.bias.data[0, 0].clone()
    sage.lin_r.weight.data = layer.itself.data[0].T.clone()
    return sage


WITH_PYG_TWIN = ("gat", "gcn", "sage")  # what PyG has too; others are checked by the other tests
CASES = [  # in, out, heads: wide to narrow, narrow to wide (aggregated first), several heads
    (9, 4, 1),
    (4, 9, 1),
    (6, 12, 3),
]


@pytest.mark.parametrize("kind", WITH_PYG_TWIN)
@pytest.mark.parametrize("case", CASES, ids=str)
@given(edge_lists())
def test_layers_equal_pygs_in_value_and_gradient(
    kind: str, case: tuple[int, int, int], graph: tuple[Tensor, int]
) -> None:
    edge_index, n = graph
    in_width, out_width, heads = case
    layer = ENCODERS[kind](in_width, out_width, heads, [stream()])
    layer.get_parameter("bias").data.normal_(generator=stream(1))
    twin = pyg_twin(layer)  # type: ignore[arg-type]
    x = torch.randn(n, in_width, generator=stream(2))
    x[x.abs() < 0.5] = 0
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    weigh = torch.randn(n, out_width, generator=stream(3))
    (out,) = layer(ours[None], Graph(edge_index, n))
    expected = twin(theirs, edge_index)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    (out * weigh).sum().backward()
    (expected * weigh).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)
    (sparse,) = layer(Features(x.to_sparse_csr()), Graph(edge_index, n))
    torch.testing.assert_close(sparse, expected, rtol=1e-4, atol=1e-5)


def weighted_twin(layer: GATLayer | GCNLayer | SAGELayer, weight: Tensor, graph: Graph) -> Any:
    """Return PyG's layer with the weights of ours, and the edge weights to call it with."""
    if isinstance(layer, SAGELayer):  # SAGEConv has no edge weights: sum neighbours by their shares
        conv = GraphConv(*layer.neighbours.shape[1:], aggr="add")
        conv.lin_rel.weight.data = layer.neighbours.data[0].T.clone()
        conv.lin_rel.bias.data = layer.bias.data[0, 0].clone()
        conv.lin_root.weight.data = layer.itself.data[0].T.clone()
        ends = graph.edge_index[1]  # PyG's messages go from the first row to the second
        total = weight.new_zeros(graph.num_nodes).index_add_(0, ends, weight)[ends]
        return conv, weight / total.where(total > 0, 1.0)
    if isinstance(layer, GCNLayer):
        return pyg_twin(layer), weight
    _, in_width, out_width = layer.weight.shape
    gat = GATConv(in_width, out_width // layer.heads, heads=layer.heads, edge_dim=1)
    gat.load_state_dict(pyg_twin(layer).state_dict(), strict=False)
    gat.lin_edge.weight.data = layer.edge_weight.data[0].T.clone()
    gat.att_edge.data = layer.edge.data.clone()
    return gat, weight


@pytest.mark.parametrize("kind", WITH_PYG_TWIN)
@pytest.mark.parametrize("case", CASES, ids=str)
@given(edge_lists())
def test_layers_equal_pygs_on_weighted_graphs(
    kind: str, case: tuple[int, int, int], graph: tuple[Tensor, int]
) -> None:
    edge_index, n = graph
    weight = edge_weights(edge_index, n)
    whole = Graph(edge_index, n, weight=weight)
    layer: Any = ENCODERS[kind](*case, [stream()], weighted=True)
    layer.bias.data.normal_(generator=stream(1))
    twin, given_weight = weighted_twin(layer, weight, whole)
    ours = torch.randn(n, case[0], generator=stream(2)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    weigh = torch.randn(n, case[1], generator=stream(3))
    (out,) = layer(ours[None], whole)
    expected = twin(theirs, edge_index, given_weight)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    (out * weigh).sum().backward()
    (expected * weigh).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)
    if kind == "gat":
        for own, pygs in ((layer.edge_weight, twin.lin_edge.weight), (layer.edge, twin.att_edge)):
            expected_slope = torch.zeros_like(own) if pygs.grad is None else pygs.grad
            torch.testing.assert_close(
                own.grad.reshape(expected_slope.shape), expected_slope, rtol=1e-3, atol=1e-4
            )


@pytest.mark.parametrize("kind", sorted(ENCODERS))
@given(edge_lists())
def test_runs_and_chunks_of_rows_have_the_output_of_the_weighted_graph(
    kind: str, graph: tuple[Tensor, int]
) -> None:
    edge_index, n = graph
    whole = Graph(edge_index, n, weight=edge_weights(edge_index, n))
    x = torch.randn(2, n, 4, generator=stream(3))
    both = ENCODERS[kind](4, 6, 2, [stream(1), stream(2)], weighted=True)
    out = both(x, whole)
    for run in range(2):
        alone = ENCODERS[kind](4, 6, 2, [stream(run + 1)], weighted=True)
        torch.testing.assert_close(alone(x[run][None], whole)[0], out[run])
    messages, half = both.message(x), n // 2
    parts = [whole.rows(0, half)] * (half > 0) + [whole.rows(half, n)]
    chunks = torch.cat([both.aggregate(messages, rows) for rows in parts], 1)
    torch.testing.assert_close(chunks, out)


def test_attention_refuses_a_graph_whose_weights_it_cannot_use_or_misses() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    x, weighted = torch.ones(1, 2, 3), Graph(edges, 2, weight=torch.ones(2))
    with pytest.raises(EraseError, match="weights=False"):
        GATLayer(3, 2, 1, [stream()])(x, weighted)
    with pytest.raises(EraseError, match="a graph with edge weights"):
        GATLayer(3, 2, 1, [stream()], weighted=True)(x, Graph(edges, 2))


@pytest.mark.parametrize("kind", sorted(ENCODERS))
def test_weight_gradients_are_the_same_for_sparse_and_dense_features(kind: str) -> None:
    x = torch.randn(6, 5, generator=stream()) * (torch.rand(6, 5, generator=stream(1)) < 0.4)
    graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 6)
    grads = []
    for features in (Features(x), Features(x.to_sparse_csr())):
        layer = ENCODERS[kind](5, 4, 2, [stream(2)])
        layer(features, graph).square().sum().backward()
        grads.append([p.grad for p in layer.parameters()])
    for dense, sparse in zip(*grads, strict=True):
        torch.testing.assert_close(dense, sparse, rtol=1e-4, atol=1e-6)


def test_dropout_zeroes_a_share_and_scales_the_rest() -> None:
    x = torch.ones(200, 100) * (torch.rand(200, 100, generator=stream()) < 0.3)
    for features in (Features(x), Features(x.to_sparse_csr())):
        (dropped,) = features.dropout(0.25, [stream(1)]).project(torch.eye(100)[None])
        kept = dropped[x > 0]
        assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
        assert float((kept == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
        assert float(dropped[x == 0].abs().sum()) == 0.0
        assert torch.equal(
            features.project(torch.eye(100)[None])[0], x
        )  # the features themselves stay whole


def test_features_dropped_entirely_are_zero_not_nan() -> None:
    dropped = Features(torch.ones(3, 2)).dropout(1.0, [stream()]).project(torch.eye(2)[None])
    assert float(dropped.abs().sum()) == 0.0


def encoder(**changes: object) -> Encoder:
    settings = {
        "in_width": 5,
        "hidden": 8,
        "width": 6,
        "heads": 2,
        "dropout": 0.5,
        "hidden_activation": "leaky-l1",
        "output_activation": "l1-relu",
        "streams": [stream()],
    }
    return Encoder(**({"kind": "gat"} | settings | changes))  # type: ignore[arg-type]


def test_dropout_happens_in_training_only_and_from_its_own_stream() -> None:
    x, graph = (
        Features(torch.rand(4, 5, generator=stream())),
        Graph(torch.tensor([[0, 1], [1, 0]]), 4),
    )
    model = encoder()
    assert torch.equal(model(x, graph), model(x, graph))
    assert not torch.equal(model(x, graph, [stream(1)]), model(x, graph))
    assert torch.equal(model(x, graph, [stream(1)]), model(x, graph, [stream(1)]))


def test_reference_activations() -> None:
    h = torch.tensor([[1.0, -3.0], [0.0, 0.0]])
    assert activate(h, "l1-relu").tolist() == [[0.25, 0.0], [0.0, 0.0]]  # ‖z‖₁ ≤ 1
    leaky = activate(h, "leaky-l1")
    torch.testing.assert_close(leaky[0], torch.tensor([1.0, -0.03]) / 1.03)
    assert activate(h, "relu-l1").tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert activate(h, "relu").tolist() == [[1, 0], [0, 0]]
    assert activate(h, "none") is h
    torch.testing.assert_close(activate(h, "l2")[0], h[0] / 10**0.5)
    torch.testing.assert_close(activate(h, "l2-relu")[0], torch.tensor([1 / 10**0.5, 0.0]))


def test_small_entries_above_zero_are_normalised_beside_large_ones_below() -> None:
    h = torch.tensor([[1e-7, 3e-7, -100.0]])
    torch.testing.assert_close(activate(h, "relu-l1"), torch.tensor([[0.25, 0.75, 0.0]]))


@pytest.mark.parametrize("kind", ["leaky-l1", "relu-l1", "l1-relu"])
def test_normalised_activations_equal_torchs_in_value_and_gradient(kind: Any) -> None:
    h = torch.randn(30, 7, dtype=torch.float64, generator=stream())
    weigh = torch.randn(30, 7, dtype=torch.float64, generator=stream(1))
    ours, theirs = h.clone().requires_grad_(), h.clone().requires_grad_()
    if kind == "leaky-l1":
        expected = normalize(leaky_relu(theirs), p=1.0)
    elif kind == "relu-l1":
        expected = normalize(relu(theirs), p=1.0)
    else:
        expected = relu(normalize(theirs, p=1.0))
    out = activate(ours, kind)
    torch.testing.assert_close(out, expected)
    (out * weigh).sum().backward()
    (expected * weigh).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_an_l1_norm_before_the_l2_norm_changes_neither_value_nor_gradient() -> None:
    """Why the output of ogbn-arxiv's recipe, normalised by both, is "l2-relu"."""
    h = torch.randn(30, 7, dtype=torch.float64, generator=stream())
    weigh = torch.randn(30, 7, dtype=torch.float64, generator=stream(1))
    ours, theirs = h.clone().requires_grad_(), h.clone().requires_grad_()
    out = activate(ours, "l2-relu")
    expected = relu(normalize(normalize(theirs, p=1.0), p=2.0))
    torch.testing.assert_close(out, expected)
    (out * weigh).sum().backward()
    (expected * weigh).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("kind", ["leaky-l1", "relu-l1", "l1-relu"])
def test_a_zero_row_sends_no_gradient_back(kind: Any) -> None:
    h = torch.zeros(2, 3, requires_grad=True)
    activate(h, kind).sum().backward()
    assert h.grad is not None
    assert float(h.grad.abs().sum()) == 0.0


@pytest.mark.parametrize("kind", sorted(ENCODERS))
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_many_runs_at_once_equal_each_run_alone(kind: str, layout: str) -> None:
    x = torch.randn(6, 5, generator=stream()) * (torch.rand(6, 5, generator=stream(1)) < 0.5)
    features = Features(x if layout == "dense" else x.to_sparse_csr())
    graph = Graph(torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]), 6)
    seeds = [3, 5, 8]
    weigh = torch.randn(3, 6, 6, generator=stream(9))
    many = encoder(kind=kind, streams=[stream(seed) for seed in seeds])
    for train in (False, True):
        drops = [stream(100 + seed) for seed in seeds] if train else None
        many.zero_grad()
        together = many(features, graph, drops)
        (together * weigh).sum().backward()
        for run, seed in enumerate(seeds):
            one = encoder(kind=kind, streams=[stream(seed)])
            (alone,) = one(features, graph, [stream(100 + seed)] if train else None)
            torch.testing.assert_close(together[run], alone)
            (alone * weigh[run]).sum().backward()
            for mine, theirs in zip(many.parameters(), one.parameters(), strict=True):
                assert mine.grad is not None
                assert theirs.grad is not None
                torch.testing.assert_close(mine.grad[run], theirs.grad[0], rtol=1e-4, atol=1e-6)


def test_bad_choices_say_what_to_do() -> None:
    with pytest.raises(EraseError, match=", ".join(ENCODERS)):
        encoder(kind="gta")
    with pytest.raises(EraseError, match="divides the other"):
        encoder(hidden=9)


def spread(weight: Tensor) -> float:
    """The bound b of weights that are uniform in (−b, b), from their standard deviation."""
    assert abs(float(weight.mean())) < 0.1 * float(weight.std())
    bound = float(weight.std()) * 3**0.5
    assert float(weight.abs().max()) == pytest.approx(bound, rel=0.05)
    return bound


@torch.no_grad()
def test_initial_weights_have_pygs_range() -> None:
    glorot = (6 / (200 + 96)) ** 0.5
    gat = GATLayer(200, 96, 2, [stream(), stream(1)])
    gcn = GCNLayer(200, 96, 1, [stream(), stream(1)])
    for weight in (*gat.weight, *gcn.weight):  # of every run
        assert spread(weight) == pytest.approx(glorot, rel=0.05)
    assert not gat.bias.any()
    assert not gcn.bias.any()
    wide = GATLayer(5, 4000, 2, [stream()])
    for vector in (wide.source[0], wide.target[0]):  # [H, C]
        assert spread(vector) == pytest.approx((6 / (2 + 2000)) ** 0.5, rel=0.1)
    sage = SAGELayer(100, 900, 1, [stream()])
    for weight in (sage.neighbours[0], sage.itself[0]):
        assert spread(weight) == pytest.approx(0.1, rel=0.1)  # 1 / √F
    assert not sage.bias.any()  # unlike PyG's
    assert not torch.equal(sage.neighbours, sage.itself)


def test_dropout_draws_from_the_given_streams_only() -> None:
    x, weight = Features(torch.ones(50, 4)), torch.eye(4).repeat(2, 1, 1)
    before = torch.get_rng_state()
    first, again = (x.dropout(0.5, [stream(4), stream(5)]).project(weight) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", sorted(ENCODERS))
def test_an_encoder_is_two_layers_with_their_own_activations(kind: str) -> None:
    x, graph = torch.rand(4, 5, generator=stream()), Graph(torch.tensor([[0, 1], [1, 0]]), 4)
    model = encoder(kind=kind, hidden_activation="relu", output_activation="l2")
    hidden = relu(model.first(x[None], graph))
    torch.testing.assert_close(model.hidden(Features(x), graph), hidden)
    expected = normalize(model.second(hidden, graph), p=2.0, dim=2)
    torch.testing.assert_close(model(Features(x), graph), expected)
    assert (hidden.shape, expected.shape) == ((1, 4, 8), (1, 4, 6))


def test_attention_heads_are_the_first_layers() -> None:
    gat: Any = encoder(heads=2)
    assert (gat.first.heads, gat.second.heads) == (2, 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("share", "kept_sparse"), [(0.01, True), (0.2, False)])
def test_features_on_a_gpu_are_dense_where_that_is_faster(share: float, kept_sparse: bool) -> None:
    x = torch.rand(50, 40) * (torch.rand(50, 40) < share)
    features = Features(x.to_sparse_csr().cuda())
    assert (features._pattern is not None) == kept_sparse
    weight = torch.rand(3, 40, 5)
    torch.testing.assert_close(features.project(weight.cuda()).cpu(), x @ weight)
