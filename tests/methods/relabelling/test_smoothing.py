"""Views against loops and dense matrices in float64, and what they promise about size and order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from conftest import LargestTensor, dense_adjacency, edge_lists, two_communities
from erase.data.task import NodeTask
from erase.methods.relabelling import smoothing as views
from erase.methods.relabelling.smoothing import (
    join,
    nearest,
    nearly_nearest,
    reduce,
    smooth,
    smoothed_view,
    views_of,
    weigh,
)
from tf32 import on_a_gpu_that_may_round

Floats = NDArray[np.float64]


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


def unit_rows(rows: Floats) -> Floats:
    out = np.zeros_like(rows)
    for i, row in enumerate(rows):
        if np.abs(row).max() > 0:
            out[i] = row / np.sqrt((row**2).sum())
    return out


def full(x: Tensor) -> Floats:
    array: Floats = (x.to_dense() if x.layout == torch.sparse_csr else x).double().numpy()
    return array


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
    assert not full(weighed)[0].any()  # its one word is everybody's


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


# Nearest neighbours -------------------------------------------------------------------------------


def brute_force(x: Floats, count: int) -> Floats:
    """Return G [N, N], pair by pair: equal cosines are taken in the order of nodes."""
    rows = unit_rows(x)
    n = len(x)
    near = np.zeros((n, n))
    for i in range(n):
        others = [(round(-float(rows[i] @ rows[j]), 9), j) for j in range(n) if j != i]
        for minus, j in sorted(others)[:count]:
            if minus < 0:
                near[i, j] = -minus
    return np.maximum(near, near.T)


def as_matrix(edges: Tensor, cosines: Tensor, n: int) -> Floats:
    """Return G [N, N] after a look at the edges: sorted, each once."""
    keys = (edges[0] * n + edges[1]).tolist()
    assert keys == sorted(set(keys))
    assert (cosines > 0).all()
    matrix = np.zeros((n, n))
    matrix[tuple(edges.numpy())] = cosines.numpy()
    return matrix


@pytest.mark.parametrize("sparse", [False, True])
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=n, max_size=n)
    ),
    st.integers(0, 13),
    st.integers(1, 60),
)
def test_neighbours_are_those_of_brute_force(
    sparse: bool, rows: list[tuple[int, ...]], count: int, at_once: int
) -> None:
    """Small whole numbers: rows of zeros, equal rows and equal cosines are common."""
    x = torch.tensor(rows).float()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "_COSINES_AT_ONCE", at_once)  # many blocks, of a row or more
        edges, cosines = nearest(x.to_sparse_csr() if sparse else x, count)
    np.testing.assert_allclose(
        as_matrix(edges, cosines, len(x)), brute_force(full(x), count), atol=1e-6
    )


def test_of_equals_the_lowest_numbers_are_near() -> None:
    x = torch.ones(6, 2)
    x[0] = 0.0  # near to nobody
    edges, cosines = nearest(x, 2)
    pairs = {(a, b) for a, b in edges.T.tolist() if a < b}
    assert pairs == {(1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (1, 5), (2, 5)}
    np.testing.assert_allclose(cosines, 1.0, rtol=1e-6)


def test_cosines_that_differ_by_rounding_are_equal() -> None:
    cosines = torch.tensor([[0.5, 1.0, 0.5 + 3e-7, 0.9, 0.5 + 2e-6, 0.5 - 3e-7]])
    others, highest = views._highest(cosines, slice(1, 2), 3)
    assert others.tolist() == [[3, 4, 0]]
    np.testing.assert_allclose(highest, [[0.9, 0.5, 0.5]], atol=1e-5)
    others, _ = views._highest(cosines, slice(1, 2), 4)
    assert others.tolist() == [[3, 4, 0, 2]]


def test_blocks_are_small_where_features_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(20, 400)
    x[torch.arange(20).repeat(3), torch.arange(60) // 2] = 1.0
    monkeypatch.setattr(views, "_COSINES_AT_ONCE", 2_000)
    x = x.to_sparse_csr()
    with LargestTensor() as largest:
        nearest(x, 2)
    assert largest.numbers == 2_000  # five rows at once


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
    near, cosines = nearest(x, count)
    pattern, values = join(edge_index, near, cosines, weight, n)
    total = (
        dense_adjacency(edge_index, n).numpy() + np.eye(n) + weight * brute_force(full(x), count)
    )
    np.testing.assert_allclose(full(pattern.matrix(values)), normalised(total), atol=1e-6)


@given(edge_lists(), st.integers(0, 6), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_smoothing_is_a_sum_of_matrix_powers(
    graph: tuple[Tensor, int], steps: int, restart: float
) -> None:
    edge_index, n = graph
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(steps))
    near, cosines = nearest(x, 2)
    pattern, values = join(edge_index, near, cosines, 0.25, n)
    s = full(pattern.matrix(values))
    expected = (1 - restart) ** steps * np.linalg.matrix_power(s, steps) @ full(x)
    for t in range(steps):
        expected += restart * (1 - restart) ** t * np.linalg.matrix_power(s, t) @ full(x)
    smoothed = smooth(pattern, values, x, restart=restart, steps=steps)
    np.testing.assert_allclose(smoothed, expected, atol=1e-5)


# The view -----------------------------------------------------------------------------------------


def graph_of(seed: int = 0, nodes: int = 40) -> tuple[Tensor, Tensor]:
    """Return features in general position [N, 24], a third not zero, and edges."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(nodes, 24, generator=generator)
    x *= torch.rand(nodes, 24, generator=generator) < 0.3
    task = NodeTask.from_data(two_communities(seed, nodes // 2))
    return x, task.edge_index


def view_of(x: Tensor, edge_index: Tensor, **changes: Any) -> Floats:
    options: dict[str, Any] = {"neighbours": 3, "width": 12} | changes
    return full(smoothed_view(x, edge_index, **options))


@pytest.mark.parametrize("is_dense", [False, True])
def test_the_view_is_its_parts_one_after_the_other(is_dense: bool) -> None:
    x, edge_index = graph_of()
    x = x + 0.1 if is_dense else x
    weighed = full(weigh(x))
    u, sigma, _ = np.linalg.svd(weighed, full_matrices=False)
    first = (u * sigma)[:, :12]
    near = brute_force(first if is_dense else weighed, 3)
    s = normalised(dense_adjacency(edge_index, len(x)).numpy() + np.eye(len(x)) + 0.5 * near)
    h = first
    for _ in range(4):
        h = 0.8 * s @ h + 0.2 * first
    h = unit_rows(h - h.mean(0))
    view = view_of(x, edge_index, restart=0.2, steps=4, neighbour_weight=0.5)
    np.testing.assert_allclose(view @ view.T, h @ h.T, atol=1e-3)  # the tail is approximate
    everything = view_of(x, edge_index, width=24, steps=0)
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
def test_every_option_changes_the_view(change: dict[str, Any]) -> None:
    usual, other = view_of(*graph_of()), view_of(*graph_of(), **change)
    assert np.abs(usual @ usual.T - other @ other.T).max() > 0.01


def test_the_order_of_nodes_is_the_order_of_rows() -> None:
    x, edge_index = graph_of()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    renumbered = order.argsort()[edge_index]  # node order[i] becomes node i
    view, other = view_of(x, edge_index), view_of(x[order], renumbered)
    np.testing.assert_allclose(other, view[order.numpy()], atol=1e-4)


def test_many_nodes_are_compared_by_their_reduced_features(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watch(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
        seen.append(tuple(x.shape))
        return nearest(x, count)

    for name in ("nearest", "nearly_nearest"):
        monkeypatch.setattr(views, name, watch)
    in_full = view_of(*graph_of())
    monkeypatch.setattr(views, "_MOST_NODES_IN_FULL", 39)
    reduced = view_of(*graph_of())
    assert seen == [(40, 24), (40, 12)]
    assert np.abs(in_full @ in_full.T - reduced @ reduced.T).max() > 0.01


@pytest.mark.parametrize("x", [torch.zeros(4, 3), torch.ones(4, 3), torch.zeros(4, 300)])
def test_where_features_say_nothing_the_view_is_zero(x: Tensor) -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    np.testing.assert_allclose(full(smoothed_view(x, edge_index)), 0, atol=1e-6)
    alone = smoothed_view(x[:1], torch.zeros(2, 0, dtype=torch.int64))
    np.testing.assert_allclose(full(alone), 0, atol=1e-6)


def test_where_all_nodes_are_alike_the_view_is_not_their_rounding() -> None:
    nodes = torch.arange(7)
    ring = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    x = torch.tensor([[-0.1, 0.0, 0.7, 0.0, 0.0, 0.3, 0.0, 0.0]]).repeat(7, 1)
    assert np.linalg.norm(full(smoothed_view(x, ring, restart=0.3)), axis=1).max() < 0.1


@pytest.mark.parametrize("sparse", [False, True])
def test_nothing_of_size_nodes_times_nodes_exists(sparse: bool) -> None:
    n = 6_000
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, 20, generator=generator)
    x = x * (x > 0.7) if sparse else x
    nodes = torch.arange(n)
    edge_index = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    with LargestTensor() as largest:
        view = smoothed_view(x, edge_index, width=16, steps=2)
    assert view.shape == (n, 16)
    assert views._COSINES_AT_ONCE - n < largest.numbers <= views._COSINES_AT_ONCE < n * n // 8


def test_the_three_views_are_smoothed_views_with_other_options() -> None:
    task = NodeTask.from_data(two_communities())
    found = views_of(task.x, task.edge_index, width=5)
    options: dict[str, dict[str, int]] = {
        "features": {"steps": 0, "neighbours": 0},
        "near": {"steps": 2, "neighbours": 0},
        "far": {},
    }
    assert list(found) == list(options)
    for name, chosen in options.items():
        expected = smoothed_view(task.x, task.edge_index, width=5, **chosen)
        torch.testing.assert_close(found[name], expected)


def clusters(nodes: int = 900, seed: int = 0) -> Tensor:
    """Return rows around thirty directions; the first is zero."""
    generator = torch.Generator().manual_seed(seed)
    middle = torch.randn(30, 12, generator=generator)[torch.arange(nodes) % 30]
    x = middle + 0.3 * torch.randn(nodes, 12, generator=generator)
    x[0] = 0.0
    return x


def test_where_every_centre_is_asked_nothing_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_FEWEST_ROWS_OF_A_CENTRE", 100)
    x = clusters()
    expected, cosines = nearest(x, 5)
    edges, found = nearly_nearest(x, 5)
    wanted, got = ({(a, b) for a, b in pairs.T.tolist()} for pairs in (expected, edges))
    assert len(wanted ^ got) <= 4  # equally near, but for rounding
    torch.testing.assert_close(found.sum(), cosines.sum())
    assert 0 not in edges


def test_where_some_centres_are_asked_most_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_FEWEST_ROWS_OF_A_CENTRE", 10)
    monkeypatch.setattr(views, "_CENTRES_ASKED", 4)
    x = clusters()
    expected, cosines = nearest(x, 5)
    edges, found = nearly_nearest(x, 5)
    wanted = {(a, b) for a, b in expected.T.tolist()}
    assert 0.8 * len(wanted) < len(wanted & {(a, b) for a, b in edges.T.tolist()}) < len(wanted)
    assert found.mean() > 0.98 * cosines.mean()
    again, _ = nearly_nearest(x, 5)
    torch.testing.assert_close(again, edges)


def test_many_nodes_are_not_compared_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_MOST_NODES_IN_FULL", 899)
    monkeypatch.setattr(views, "_FEWEST_ROWS_OF_A_CENTRE", 20)
    x, nobody = clusters(), torch.zeros(2, 0, dtype=torch.int64)
    with LargestTensor() as largest:
        found = smoothed_view(x, nobody)
    assert largest.numbers < 900 * 900 / 2
    expected = views._centred(
        smooth(
            *join(nobody, *nearly_nearest(weigh(x), 10), 0.25, 900), weigh(x), restart=0.1, steps=20
        )
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("x", [torch.zeros(900, 3), torch.ones(900, 3)], ids=["nothing", "equal"])
def test_rows_that_are_all_alike_are_not_compared_with_all(
    x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_FEWEST_ROWS_OF_A_CENTRE", 5)
    monkeypatch.setattr(views, "_CENTRES_ASKED", 2)
    with LargestTensor() as largest:
        edges, cosines = nearly_nearest(x, 3)
    assert largest.numbers <= 900 * 180  # all with all centres
    assert edges.numel() > 0 if bool(x.any()) else edges.numel() == 0
    torch.testing.assert_close(cosines, torch.ones_like(cosines))


@pytest.mark.parametrize("search", [nearest, nearly_nearest])
def test_neighbours_of_nearly_equal_rows_survive_products_in_tf32(
    search: Callable[[Tensor, int], tuple[Tensor, Tensor]],
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = 5 + 0.5 * torch.randn(200, 16, generator=generator)  # cosines from 0.97 on
    expected = {tuple(pair) for pair in search(x, 5)[0].T.tolist()}
    with on_a_gpu_that_may_round() as products:
        found = {tuple(pair) for pair in search(x, 5)[0].T.tolist()}
    assert found == expected
    assert products.rounded == 0
