"""Smoothed features against loops and dense float64 matrices; their size, order and new graphs."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn.functional import normalize

from erase.data.task import NodeTask
from erase.methods.relabelling import smoothing
from erase.methods.relabelling.smoothing import (
    SMOOTHINGS,
    FeatureMap,
    Smoother,
    Smoothing,
    join,
    keep_features,
    singular_directions,
)
from erase.nn import neighbours, sparse
from erase.nn.neighbours import nearest_graph
from erase.nn.sparse import Graph, propagate
from erase.training.disk import OnDisk
from graphs import (
    LargestTensor,
    brute_force_neighbours,
    clusters,
    dense_adjacency,
    edge_lists,
    edge_weights,
    full,
    two_communities,
    unit_rows,
)

Floats = NDArray[np.float64]


def weigh(x: Tensor) -> Tensor:
    return FeatureMap.fit(x, x.shape[1]).weigh(x)


def reduce(x: Tensor, width: int) -> Tensor:
    """Return `x` [N, F], not weighed, in its largest singular directions."""
    wide = x.shape[1] > width
    basis = singular_directions(x, min(width, x.shape[0])) if wide else None
    return FeatureMap(torch.ones(x.shape[1]), basis=basis).reduce(x)


def smoothed_features(x: Tensor, edge_index: Tensor, width: int = 256, **options: Any) -> Tensor:
    return Smoother.fit(x, Graph(edge_index, len(x)), width, {"it": Smoothing(**options)})[1]["it"]


def counts(seed: int = 0, nodes: int = 30, words: int = 8) -> Tensor:
    """Return word counts [N, F]; the first word is everywhere, the last nowhere, node 0 empty."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(1, 5, (nodes, words), generator=generator).float()
    x *= torch.rand(nodes, words, generator=generator) < 0.3
    x[:, 0], x[:, -1] = 1.0, 0.0
    x[0, 1:] = 0.0
    return x


def signed(seed: int = 0) -> Tensor:
    x = counts(seed)
    x[1::2] *= -1
    x[:, 0] = 0.0
    return x


def dense(seed: int = 0) -> Tensor:
    """Return numbers [N, F] of different means and scales, the last column always 0.1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(30, 6, generator=generator) * torch.tensor([1, 2, 1e-6, 1e6, 5, 0])
    return x + torch.tensor([0, 1, 1e-6, 273.15, -7, 0.1])


# Weighing -----------------------------------------------------------------------------------------


def test_words_are_weighed_by_how_rare_they_are() -> None:
    x = full(counts())
    n, words = x.shape
    expected = np.zeros_like(x)
    for j in range(words):
        holders = sum(x[i, j] != 0 for i in range(n))
        for i in range(n):
            expected[i, j] = x[i, j] * np.log(n / max(holders, 1))
    weighed = weigh(counts())
    assert weighed.layout == torch.sparse_csr
    np.testing.assert_allclose(full(weighed), unit_rows(expected), atol=1e-6)
    assert not full(weighed)[0].any()  # its one word is in every row


def test_rare_signed_numbers_are_divided_by_their_root_mean_square() -> None:
    x = full(signed())
    expected = np.zeros_like(x)
    for j in range(x.shape[1]):
        size = np.sqrt(np.mean(x[:, j] ** 2))
        expected[:, j] = x[:, j] / size if size else 0.0
    weighed = weigh(signed())
    assert weighed.layout == torch.sparse_csr
    np.testing.assert_allclose(full(weighed), unit_rows(expected), atol=1e-6)


def test_dense_columns_are_standardised() -> None:
    x = full(dense())
    expected = np.zeros_like(x)
    for j in range(x.shape[1] - 1):  # the last does not vary
        expected[:, j] = (x[:, j] - x[:, j].mean()) / x[:, j].std()
    weighed = weigh(dense())
    assert weighed.layout == torch.strided
    np.testing.assert_allclose(full(weighed), unit_rows(expected), atol=1e-4)


@pytest.mark.parametrize("features", [counts, signed, dense])
def test_how_features_are_stored_makes_no_difference(features: Callable[[], Tensor]) -> None:
    x = features()
    np.testing.assert_array_equal(full(weigh(x)), full(weigh(x.to_sparse_csr())))


@pytest.mark.parametrize("features", [counts, signed, dense])
@pytest.mark.parametrize("scale", [1e-20, 1e30])
def test_the_scale_of_features_makes_no_difference(
    features: Callable[[], Tensor], scale: float
) -> None:
    np.testing.assert_allclose(full(weigh(features() * scale)), full(weigh(features())), atol=1e-4)


def test_stored_zeros_are_zeros() -> None:
    stored = torch.sparse_csr_tensor([0, 2, 3], [0, 2, 0], [-1.0, 0.0, 2.0], (2, 3))
    np.testing.assert_array_equal(full(weigh(stored)), full(weigh(stored.to_dense())))
    assert full(weigh(stored)).tolist() == [[-1, 0, 0], [1, 0, 0]]


def test_a_column_that_varies_by_rounding_does_not_vary() -> None:
    x = dense()
    x[:, -1] += 1e-7 * torch.arange(30)
    np.testing.assert_allclose(full(weigh(x)), full(weigh(dense())), atol=1e-6)
    x[:, -1] += 1e-4 * torch.arange(30)
    assert np.abs(full(weigh(x))[:, -1]).max() > 0.1


def test_half_of_the_entries_is_the_most_that_words_fill() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(full(weigh(x)), [[1, 0], [0, 1]])
    x[0, 1] = 1.0  # now columns vary around their means
    np.testing.assert_allclose(full(weigh(x)), [[0.5**0.5, -(0.5**0.5)], [-(0.5**0.5), 0.5**0.5]])


# Reduction ----------------------------------------------------------------------------------------


def decaying(rows: int = 60, columns: int = 40, seed: int = 0) -> Floats:
    """Return a matrix whose singular values are 1, ½, ¼, …"""
    rng = np.random.default_rng(seed)
    u = np.linalg.qr(rng.standard_normal((rows, rows)))[0]
    v = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    k = min(rows, columns)
    matrix: Floats = u[:, :k] * 0.5 ** np.arange(k) @ v[:, :k].T
    return matrix


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(60, 40), (25, 40)])
def test_reduced_rows_are_coordinates_in_the_largest_singular_directions(
    sparse: bool, shape: tuple[int, int]
) -> None:
    matrix = decaying(*shape)
    x = torch.from_numpy(matrix).float()
    reduced = full(reduce(x.to_sparse_csr() if sparse else x, 5))
    u, sigma, _ = np.linalg.svd(matrix)
    np.testing.assert_allclose(np.linalg.norm(reduced, axis=0), sigma[:5], atol=1e-5)
    largest = np.abs(u[:, :5]).argmax(0)
    signs = np.sign(u[largest, np.arange(5)])
    np.testing.assert_allclose(reduced, u[:, :5] * signs * sigma[:5], atol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("words", [0.05, 0.4], ids=["few words", "many words"])
def test_directions_of_summed_products_are_those_of_the_rows(
    sparse: bool, words: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read in chunks and once; columns of U Σ are equal but for their signs."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(300, 3, generator=generator) @ torch.rand(3, 60, generator=generator)
    x = (torch.rand(300, 60, generator=generator) < words * shares).float()
    x = x.to_sparse_csr() if sparse else x
    expected = FeatureMap.fit(x, 9)
    monkeypatch.setattr(neighbours, "MOST_ROWS_IN_FULL", 100)
    monkeypatch.setattr(smoothing, "NODES_AT_ONCE", 70)
    found = FeatureMap.fit(x, 9)
    torch.testing.assert_close(found.weight, expected.weight)
    theirs, ours = (full(each.reduce(each.weigh(x))) for each in (expected, found))
    signs = np.sign((ours * theirs).sum(0))
    np.testing.assert_allclose(ours * signs, theirs, atol=2e-3)
    assert not np.array_equal(ours * signs, theirs)  # another way to the same result
    assert found.basis is not None
    largest = found.basis.abs().argmax(0)
    assert bool((found.basis[largest, torch.arange(9)] > 0).all())


def test_columns_are_standardised_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = 5 + torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    x[:, 2] = 3.0
    expected = FeatureMap.fit(x, 4)
    monkeypatch.setattr(smoothing, "NODES_AT_ONCE", 30)
    found = FeatureMap.fit(x, 4)
    torch.testing.assert_close(found.weigh(x), expected.weigh(x), atol=1e-5, rtol=1e-5)
    assert found.weight[2] == 0


def test_large_smoothed_features_lie_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    x, edge_index = counts(), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    graph = Graph(edge_index, len(x))
    smoother, expected = Smoother.fit(x, graph, 8, SMOOTHINGS)
    made: list[OnDisk] = []

    class Watched(OnDisk):
        def __init__(self, *shape: int) -> None:
            super().__init__(*shape)
            made.append(self)

    monkeypatch.setattr(smoothing, "OnDisk", Watched)
    monkeypatch.setattr(smoothing, "_LARGE", 100)
    monkeypatch.setattr(smoothing, "NODES_AT_ONCE", 7)
    again, found = Smoother.fit(x, graph, 8, SMOOTHINGS)
    assert [*found] == [*expected] == [*SMOOTHINGS]
    places = {each.tensor.data_ptr() for each in made}
    for name, features in found.items():
        assert features.data_ptr() in places
        torch.testing.assert_close(features, expected[name])
        torch.testing.assert_close(again.means[name], smoother.means[name])


@pytest.mark.parametrize("weighted", [False, True])
def test_graphs_are_joined_some_rows_at_a_time(
    weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(40, 5, generator=generator)
    keys = torch.randperm(1600, generator=generator)[:90]
    keys = torch.cat([keys, keys % 40 * 40 + keys // 40]).unique()
    edges = torch.stack([keys // 40, keys % 40])[:, keys // 40 != keys % 40]
    low, high = edges.min(0).values, edges.max(0).values
    weight = torch.rand(1600, generator=generator)[low * 40 + high] if weighted else None
    near = neighbours.nearest_graph(x, 3)
    expected = join(Graph(edges, 40, weight=weight), *near, 0.25)
    monkeypatch.setattr(smoothing, "_JOINED_AT_ONCE", 7)
    found = join(Graph(edges, 40, weight=weight), *near, 0.25)
    assert torch.equal(found[0].indptr, expected[0].indptr)
    assert torch.equal(found[0].indices, expected[0].indices)
    torch.testing.assert_close(found[1], expected[1])


def test_few_columns_stay_as_they_are_and_few_rows_need_few_columns() -> None:
    x = counts()
    assert torch.equal(reduce(x, 8), x)
    assert torch.equal(reduce(x.to_sparse_csr(), 8), x)
    assert reduce(x, 7).shape == (30, 7)
    wide = torch.from_numpy(decaying(4, 40)).float()
    reduced = full(reduce(wide, 20))
    assert reduced.shape == (4, 4)
    np.testing.assert_allclose(reduced @ reduced.T, full(wide) @ full(wide).T, atol=1e-5)


def test_reduction_does_not_depend_on_the_order_of_rows() -> None:
    """Where singular values are alike, the answer depends on what is drawn: one row a column."""
    x = torch.randn(200, 150, generator=torch.Generator().manual_seed(0))
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    np.testing.assert_allclose(reduce(x[order], 5), reduce(x, 5)[order], atol=1e-3)


def test_reduction_repeats_itself_and_leaves_global_generators_alone() -> None:
    x = torch.from_numpy(decaying()).float()
    before = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    assert torch.equal(reduce(x, 5), reduce(x, 5))
    after = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    np.testing.assert_array_equal(after, before)


# Smoothing ----------------------------------------------------------------------------------------


def normalised(matrix: Floats) -> Floats:
    """D^-1/2 M D^-1/2."""
    scale = matrix.sum(1) ** -0.5
    result: Floats = scale[:, None] * matrix * scale
    return result


@given(edge_lists(), st.integers(0, 3), st.sampled_from([0.0, 0.25, 1.0]), st.integers(0, 99))
def test_the_operator_is_the_sum_of_three_matrices(
    graph: tuple[Tensor, int], count: int, weight: float, seed: int
) -> None:
    edge_index, n = graph
    x = torch.rand(n, 3, generator=torch.Generator().manual_seed(seed))
    near, cosines = nearest_graph(x, count)
    pattern, values = join(Graph(edge_index, n), near, cosines, weight)
    near_by = brute_force_neighbours(full(x), count)
    total = dense_adjacency(edge_index, n).numpy() + np.eye(n) + weight * near_by
    np.testing.assert_allclose(full(pattern.matrix(values)), normalised(total), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@given(edge_lists())
def test_edge_weights_are_entries_of_the_operator(scale: float, graph: tuple[Tensor, int]) -> None:
    edge_index, n = graph
    weight = scale * edge_weights(edge_index, n)
    x = torch.rand(n, 3, generator=torch.Generator().manual_seed(0))
    pattern, values = join(Graph(edge_index, n, weight=weight), *nearest_graph(x, 2), 0.25)
    total = np.eye(n) + 0.25 * brute_force_neighbours(full(x), 2)
    total[tuple(edge_index.numpy())] += weight.numpy()
    np.testing.assert_allclose(full(pattern.matrix(values)), normalised(total), atol=1e-6)


@given(edge_lists(), st.integers(0, 6), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_smoothing_is_a_sum_of_matrix_powers(
    graph: tuple[Tensor, int], steps: int, restart: float
) -> None:
    edge_index, n = graph
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(steps))
    near, cosines = nearest_graph(x, 2)
    pattern, values = join(Graph(edge_index, n), near, cosines, 0.25)
    s = full(pattern.matrix(values))
    expected = (1 - restart) ** steps * np.linalg.matrix_power(s, steps) @ full(x)
    for t in range(steps):
        expected += restart * (1 - restart) ** t * np.linalg.matrix_power(s, t) @ full(x)
    smoothed = propagate(pattern, values, x, keep=restart, steps=steps, restart=True, bounded=False)
    np.testing.assert_allclose(smoothed, expected, atol=1e-5)


# All of it ----------------------------------------------------------------------------------------


def graph_of(seed: int = 0, nodes: int = 40) -> tuple[Tensor, Tensor]:
    """Return features in general position [N, 24], a third not zero, and edges."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(nodes, 24, generator=generator)
    x *= torch.rand(nodes, 24, generator=generator) < 0.3
    task = NodeTask.from_data(two_communities(seed, nodes // 2))
    return x, task.edge_index


def smoothed_of(x: Tensor, edge_index: Tensor, **changes: Any) -> Floats:
    options: dict[str, Any] = {"neighbours": 3, "width": 12} | changes
    return full(smoothed_features(x, edge_index, **options))


@pytest.mark.parametrize("is_dense", [False, True])
def test_smoothed_features_are_their_parts_one_after_the_other(is_dense: bool) -> None:
    x, edge_index = graph_of()
    x = x + 0.1 if is_dense else x
    weighed = full(weigh(x))
    u, sigma, _ = np.linalg.svd(weighed, full_matrices=False)
    first = (u * sigma)[:, :12]
    near = brute_force_neighbours(first if is_dense else weighed, 3)
    s = normalised(dense_adjacency(edge_index, len(x)).numpy() + np.eye(len(x)) + 0.5 * near)
    h = first
    for _ in range(4):
        h = 0.8 * s @ h + 0.2 * first
    h = unit_rows(h - h.mean(0))
    view = smoothed_of(x, edge_index, restart=0.2, steps=4, neighbour_weight=0.5)
    np.testing.assert_allclose(view @ view.T, h @ h.T, atol=1e-3)  # the tail is approximate
    everything = smoothed_of(x, edge_index, width=24, steps=0)
    exact = weighed - weighed.mean(0)
    np.testing.assert_allclose(everything, unit_rows(exact), atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"width": 6},
        {"restart": 0.3},
        {"steps": 3},
        {"neighbours": 0},
        {"neighbours": 5},
        {"neighbour_weight": 1.0},
    ],
    ids=str,
)
def test_every_option_changes_smoothed_features(change: dict[str, Any]) -> None:
    usual, other = smoothed_of(*graph_of()), smoothed_of(*graph_of(), **change)
    assert np.abs(usual @ usual.T - other @ other.T).max() > 0.01


def test_the_order_of_nodes_is_the_order_of_rows() -> None:
    x, edge_index = graph_of()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    renumbered = order.argsort()[edge_index]  # node order[i] becomes node i
    view, other = smoothed_of(x, edge_index), smoothed_of(x[order], renumbered)
    np.testing.assert_allclose(other, view[order.numpy()], atol=1e-4)


def test_many_nodes_are_compared_by_their_reduced_features(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watch(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
        seen.append(tuple(x.shape))
        return nearest_graph(x, count)

    monkeypatch.setattr(neighbours, "nearest_graph", watch)
    in_full = smoothed_of(*graph_of())
    monkeypatch.setattr(neighbours, "MOST_ROWS_IN_FULL", 39)
    reduced = smoothed_of(*graph_of())
    assert seen == [(40, 24), (40, 12)]
    assert np.abs(in_full @ in_full.T - reduced @ reduced.T).max() > 0.01


@pytest.mark.parametrize("x", [torch.zeros(4, 3), torch.ones(4, 3), torch.zeros(4, 300)])
def test_where_features_are_constant_smoothed_features_are_zero(x: Tensor) -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    np.testing.assert_allclose(full(smoothed_features(x, edge_index)), 0, atol=1e-6)
    alone = smoothed_features(x[:1], torch.zeros(2, 0, dtype=torch.int64))
    np.testing.assert_allclose(full(alone), 0, atol=1e-6)


def test_where_all_nodes_are_alike_smoothed_features_are_not_their_rounding() -> None:
    nodes = torch.arange(7)
    ring = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    x = torch.tensor([[-0.1, 0.0, 0.7, 0.0, 0.0, 0.3, 0.0, 0.0]]).repeat(7, 1)
    assert np.linalg.norm(full(smoothed_features(x, ring, restart=0.3)), axis=1).max() < 0.1


@pytest.mark.parametrize("sparse", [False, True])
def test_nothing_of_size_nodes_times_nodes_exists(sparse: bool) -> None:
    n = 6_000
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, 20, generator=generator)
    x = x * (x > 0.7) if sparse else x
    nodes = torch.arange(n)
    edge_index = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    with LargestTensor() as largest:
        view = smoothed_features(x, edge_index, width=16, steps=2)
    assert view.shape == (n, 16)
    assert (
        neighbours._COSINES_AT_ONCE - n
        < largest.numbers
        <= neighbours._COSINES_AT_ONCE
        < n * n // 8
    )


def test_the_three_smoothings_differ_in_steps_and_neighbours() -> None:
    task = NodeTask.from_data(two_communities())
    found = Smoother.fit(task.x, Graph(task.edge_index, task.num_nodes), 5, SMOOTHINGS)[1]
    options: dict[str, dict[str, int]] = {
        "features": {"steps": 0, "neighbours": 0},
        "near": {"steps": 2, "neighbours": 0},
        "far": {},
    }
    assert list(found) == list(options)
    for name, chosen in options.items():
        expected = smoothed_features(task.x, task.edge_index, width=5, **chosen)
        torch.testing.assert_close(found[name], expected)


def test_many_nodes_are_not_compared_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "MOST_ROWS_IN_FULL", 899)
    monkeypatch.setattr(neighbours, "_FEWEST_ROWS_OF_A_CENTRE", 20)
    x, no_edges = clusters(), torch.zeros(2, 0, dtype=torch.int64)
    with LargestTensor() as largest:
        found = smoothed_features(x, no_edges)
    assert largest.numbers < 900 * 900 / 2
    near = nearest_graph(x := weigh(x), 10)
    h = propagate(
        *join(Graph(no_edges, 900), *near, 0.25), x, keep=0.1, steps=20, restart=True, bounded=False
    )
    torch.testing.assert_close(found, normalize(h - h.mean(0), dim=1))


@pytest.mark.parametrize("kind", ["words", "signed", "dense", "narrow"])
def test_a_smoother_applies_to_the_graph_it_was_fitted_to_and_to_its_file(kind: str) -> None:
    x, edge_index = graph_of()
    x = {"words": x, "signed": x - 2 * x * (x > 0.5), "dense": x + 0.1, "narrow": x}[kind]
    graph = Graph(edge_index, len(x))
    smoother, found = Smoother.fit(x, graph, 40 if kind == "narrow" else 12, SMOOTHINGS)
    loaded = Smoother.of(smoother.tensors() | {"other": x}, SMOOTHINGS, torch.device("cpu"))
    smoothed = loaded.apply(x.to_sparse_csr(), graph, last="near")
    again = {name: loaded.centre(name, rows) for name, rows in smoothed}
    assert list(again) == ["features", "far", "near"]
    for name, features in found.items():
        torch.testing.assert_close(again[name], features, atol=1e-6, rtol=1e-5)


def test_another_graph_is_weighed_and_centred_as_the_fitted_one() -> None:
    """A part of a graph without edges between the parts has the rows it has in the whole."""
    x, _ = graph_of()
    no_edges = torch.zeros(2, 0, dtype=torch.int64)
    alone = {"features": SMOOTHINGS["features"]}
    smoother, found = Smoother.fit(x, Graph(no_edges, len(x)), 12, alone)
    ((_, part),) = smoother.apply(x[:7], Graph(no_edges, 7), last="features")
    centred = smoother.centre("features", part)
    torch.testing.assert_close(centred, found["features"][:7], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (12, 60), (300, 200)])
def test_directions_give_what_scikit_learns_svd_gives(shape: tuple[int, int], sparse: bool) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    x *= x > 0.7
    given = x.to_sparse_csr() if sparse else x
    u, sigma, _ = randomized_svd(
        sp.csr_matrix(x.numpy()) if sparse else x.numpy(), 10, transpose=False, random_state=0
    )
    np.testing.assert_allclose(full(reduce(given, 10)), u * sigma, atol=1e-3)


def test_neighbours_are_not_held_while_features_are_smoothed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a million nodes they are 0.3 GB; the operator is made of them."""
    found: list[weakref.ref[Tensor]] = []
    held: list[bool] = []

    def search(*given: Any, **options: Any) -> tuple[Tensor, Tensor]:
        near, cosines = nearest_graph(*given, **options)
        found.append(weakref.ref(near))
        return near, cosines

    def spread(*given: Any, **options: Any) -> Tensor:
        held.append(found[-1]() is not None)
        return propagate(*given, **options)

    monkeypatch.setattr(neighbours, "nearest_graph", search)
    monkeypatch.setattr(smoothing, "propagate", spread)
    x, edge_index = graph_of()
    graph = Graph(edge_index, len(x))
    smoother, _ = Smoother.fit(x, graph, 12, SMOOTHINGS)
    for _, rows in smoother.apply(x, graph, last="near"):
        held.append(any(each() is not None for each in found))
        del rows
    assert len(found) == 4
    assert held == [False] * len(held)


def test_large_features_of_another_graph_lie_in_files_and_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, edge_index = graph_of()
    graph = Graph(edge_index, len(x))
    smoother, _ = Smoother.fit(x, graph, 12, SMOOTHINGS)
    usual = {name: rows.clone() for name, rows in smoother.apply(x, graph, last="near")}
    files: list[tuple[int, ...]] = []

    class Noted(OnDisk):
        def __init__(self, *shape: int) -> None:
            files.append(shape)
            super().__init__(*shape)

    monkeypatch.setattr(smoothing, "OnDisk", Noted)
    monkeypatch.setattr(smoothing, "_LARGE", 0)
    monkeypatch.setattr(sparse, "_LABELS_AT_ONCE", 5 * len(x))  # columns in parts of five
    for name, rows in smoother.apply(x, graph, last="near"):
        torch.testing.assert_close(rows.contiguous(), usual[name], atol=0, rtol=0)
    assert files == [(12, len(x))]  # of "far" alone: "near" is the last


@pytest.mark.parametrize(("filled", "is_dense"), [(0.5, False), (0.55, True)])
def test_features_of_which_more_than_half_are_not_zero_are_standardised(
    filled: float, is_dense: bool
) -> None:
    x = (torch.arange(200).view(20, 10) % 20 < 20 * filled).float()
    assert float(x.mean()) == pytest.approx(filled)
    assert (FeatureMap.fit(x, 10).largest is not None) == is_dense


@pytest.fixture
def kept() -> Iterator[None]:
    keep_features(2)
    yield
    keep_features(0)


def small_graph(weight: Tensor | None = None) -> Graph:
    return Graph(torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]]), 4, weight=weight)


NEAR = {"near": SMOOTHINGS["near"]}


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_that_was_fitted_before_is_not_smoothed_again(sparse: bool) -> None:
    x = torch.eye(4)
    x = x.to_sparse_csr() if sparse else x
    smoother, features = Smoother.fit(x, small_graph(), 3, NEAR)
    again, same = Smoother.fit(x.clone(), small_graph(), 3, dict(NEAR))
    assert again is smoother
    assert same["near"] is features["near"]


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("change", ["value", "place", "edge", "weight", "width", "smoothing"])
def test_a_graph_that_differs_in_anything_is_smoothed_anew(change: str) -> None:
    x = torch.eye(4)
    smoother, _ = Smoother.fit(x.to_sparse_csr(), small_graph(), 3, NEAR)
    graph, width, how = small_graph(), 3, NEAR
    if change == "value":
        x = x * torch.tensor([1.0, 1, 1, 2])
    if change == "place":
        x = x[[1, 0, 2, 3]]
    if change == "edge":
        graph = Graph(torch.tensor([[0, 0, 1, 3], [1, 3, 0, 0]]), 4)
    if change == "weight":
        graph = small_graph(torch.tensor([1.0, 2, 1, 2]))
    if change == "width":
        width = 2
    if change == "smoothing":
        how = {"near": Smoothing(steps=3, neighbours=0)}
    assert Smoother.fit(x.to_sparse_csr(), graph, width, how)[0] is not smoother


@pytest.mark.usefixtures("kept")
def test_the_graphs_used_last_are_kept() -> None:
    first, second, third = (torch.eye(4) * k for k in (1.0, 2.0, 3.0))
    kept = [Smoother.fit(x, small_graph(), 3, NEAR)[0] for x in (first, second, first)]
    assert kept[2] is kept[0]
    Smoother.fit(third, small_graph(), 3, NEAR)  # drops the second
    assert Smoother.fit(first, small_graph(), 3, NEAR)[0] is kept[0]
    assert Smoother.fit(second, small_graph(), 3, NEAR)[0] is not kept[1]
    keep_features(0)
    assert Smoother.fit(second, small_graph(), 3, NEAR)[0] is not kept[1]
    assert smoothing._kept == {}


def test_nothing_is_kept_unless_asked_for() -> None:
    x = torch.eye(4)
    one, other = (Smoother.fit(x, small_graph(), 3, NEAR) for _ in range(2))
    assert one[1]["near"].data_ptr() != other[1]["near"].data_ptr()
    assert torch.equal(one[1]["near"], other[1]["near"])
