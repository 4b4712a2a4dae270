"""Nearest neighbours against loops: ties, blocks, candidates, and what an approximation misses."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from erase.nn import neighbours
from erase.nn.neighbours import nearest, nearest_graph
from graphs import LargestTensor, brute_force_neighbours, clusters, full
from tf32 import on_a_gpu_that_may_round

Floats = NDArray[np.float64]


def nearly_graph(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the graph of a search by centres, however few rows there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "MOST_ROWS_IN_FULL", 0)
        return nearest_graph(x, count)


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
def test_neighbours_are_those_of_brute_force_neighbours(
    sparse: bool, rows: list[tuple[int, ...]], count: int, at_once: int
) -> None:
    """Small whole numbers: rows of zeros, equal rows and equal cosines are common."""
    x = torch.tensor(rows).float()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_COSINES_AT_ONCE", at_once)  # many blocks, of a row or more
        edges, cosines = nearest_graph(x.to_sparse_csr() if sparse else x, count)
    np.testing.assert_allclose(
        as_matrix(edges, cosines, len(x)), brute_force_neighbours(full(x), count), atol=1e-6
    )


def test_of_equals_the_lowest_numbers_are_near() -> None:
    x = torch.ones(6, 2)
    x[0] = 0.0  # near to no other row
    edges, cosines = nearest_graph(x, 2)
    pairs = {(a, b) for a, b in edges.T.tolist() if a < b}
    assert pairs == {(1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (1, 5), (2, 5)}
    np.testing.assert_allclose(cosines, 1.0, rtol=1e-6)


def test_cosines_that_differ_by_rounding_are_equal() -> None:
    cosines = torch.tensor([[0.5, -torch.inf, 0.5 + 3e-7, 0.9, 0.5 + 2e-6, 0.5 - 3e-7]])
    others, highest = neighbours._highest(cosines.clone(), 3, 1e-6)
    assert others.tolist() == [[3, 4, 0]]
    np.testing.assert_allclose(highest, [[0.9, 0.5, 0.5]], atol=1e-5)
    others, _ = neighbours._highest(cosines, 4, 1e-6)
    assert others.tolist() == [[3, 4, 0, 2]]


def test_blocks_are_small_where_features_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(20, 400)
    x[torch.arange(20).repeat(3), torch.arange(60) // 2] = 1.0
    monkeypatch.setattr(neighbours, "_COSINES_AT_ONCE", 2_000)
    x = x.to_sparse_csr()
    with LargestTensor() as largest:
        nearest_graph(x, 2)
    assert largest.numbers == 2_000  # five rows at once


def test_where_every_centre_is_searched_nothing_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_FEWEST_ROWS_OF_A_CENTRE", 100)
    x = clusters()
    expected, cosines = nearest_graph(x, 5)
    edges, found = nearly_graph(x, 5)
    wanted, got = ({(a, b) for a, b in pairs.T.tolist()} for pairs in (expected, edges))
    assert len(wanted ^ got) <= 4  # equally near, but for rounding
    torch.testing.assert_close(found.sum(), cosines.sum())
    assert 0 not in edges


def test_where_some_centres_are_searched_most_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_FEWEST_ROWS_OF_A_CENTRE", 10)
    monkeypatch.setattr(neighbours, "_CENTRES_SEARCHED", 4)
    x = clusters()
    expected, cosines = nearest_graph(x, 5)
    edges, found = nearly_graph(x, 5)
    wanted = {(a, b) for a, b in expected.T.tolist()}
    assert 0.8 * len(wanted) < len(wanted & {(a, b) for a, b in edges.T.tolist()}) < len(wanted)
    assert found.mean() > 0.98 * cosines.mean()
    again, _ = nearly_graph(x, 5)
    torch.testing.assert_close(again, edges)


@pytest.mark.parametrize("x", [torch.zeros(900, 3), torch.ones(900, 3)], ids=["nothing", "equal"])
def test_rows_that_are_all_alike_are_not_compared_with_all(
    x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_FEWEST_ROWS_OF_A_CENTRE", 5)
    monkeypatch.setattr(neighbours, "_CENTRES_SEARCHED", 2)
    with LargestTensor() as largest:
        edges, cosines = nearly_graph(x, 3)
    assert largest.numbers <= 900 * 180  # all with all centres
    assert edges.numel() > 0 if bool(x.any()) else edges.numel() == 0
    torch.testing.assert_close(cosines, torch.ones_like(cosines))


@pytest.mark.parametrize("search", [nearest_graph, nearly_graph])
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


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_some_rows_have_neighbours_among_others(sparse: bool, positive: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    x[torch.rand(20, 6, generator=generator) < 0.4] = 0.0
    of, among = torch.tensor([3, 0, 11]), torch.tensor([0, 2, 3, 5, 8, 13, 19])
    others, cosines = nearest(
        x.to_sparse_csr() if sparse else x, 8, of=of, among=among, positive=positive
    )
    unit = torch.nn.functional.normalize(x, dim=1)
    for row, found, values in zip(of.tolist(), others.tolist(), cosines.tolist(), strict=True):
        cosine = {j: float(unit[row] @ unit[j]) for j in among.tolist() if j != row}
        order = sorted(
            (j for j in cosine if cosine[j] > 0 or not positive), key=lambda j: -cosine[j]
        )
        assert found == [*order, *[-1] * (8 - len(order))]
        expected = [*(cosine[j] for j in order), *[0.0] * (8 - len(order))]
        np.testing.assert_allclose(values, expected, atol=1e-12)


def test_no_candidates_give_no_neighbours() -> None:
    x, none = torch.eye(3), torch.zeros(0, dtype=torch.int64)
    assert nearest(x, 2, among=none)[0].tolist() == [[-1, -1]] * 3
    assert nearest(x, 2, of=none)[0].shape == (0, 2)
    assert nearest(x, 0)[1].shape == (3, 0)
