"""Sparse operators against dense float64 matrices written out entry by entry."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch_geometric.nn.models import LabelPropagation
from torch_geometric.utils import softmax as pyg_softmax

from erase.nn.sparse import Graph, Normalisation, Pattern, attend, propagate, sparse_product
from graphs import dense_adjacency, edge_lists, edge_weights


def dense_normalised(adjacency: Tensor, how: Normalisation) -> Tensor:
    """Divide entry by entry, loops and all."""
    out = torch.zeros_like(adjacency)
    degree = adjacency.sum(1)
    for i in range(len(adjacency)):
        for j in range(len(adjacency)):
            if adjacency[i, j]:
                d_i, d_j = degree[i], degree[j]
                out[i, j] = {"symmetric": (d_i * d_j) ** -0.5, "column": 1 / d_j, "row": 1 / d_i}[
                    how
                ]
    return out


def random_pattern(rows: int, cols: int, share: float, seed: int) -> tuple[Pattern, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    dense *= torch.rand(rows, cols, generator=generator) < share
    index = dense.nonzero()
    pattern = Pattern.from_coordinates(index[:, 0], index[:, 1], (rows, cols))
    return pattern, dense[index[:, 0], index[:, 1]], dense


@given(edge_lists(), st.sampled_from(["symmetric", "column", "row"]), st.booleans())
def test_normalised_adjacency_is_the_dense_one(
    graph: tuple[Tensor, int], how: Normalisation, self_loops: bool
) -> None:
    edge_index, n = graph
    pattern, values = Graph(edge_index, n).normalised(how, self_loops=self_loops)
    adjacency = dense_adjacency(edge_index, n) + (torch.eye(n) if self_loops else 0)
    torch.testing.assert_close(
        pattern.matrix(values).to_dense().double(), dense_normalised(adjacency, how)
    )


HOW: list[Normalisation] = ["symmetric", "column", "row"]


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@given(edge_lists(), st.sampled_from(HOW), st.booleans())
def test_weighted_adjacency_is_the_dense_one(
    scale: float, graph: tuple[Tensor, int], how: Normalisation, self_loops: bool
) -> None:
    edge_index, n = graph
    weight = scale * edge_weights(edge_index, n)
    pattern, values = Graph(edge_index, n, weight=weight).normalised(how, self_loops=self_loops)
    adjacency = torch.zeros(n, n, dtype=torch.float64)
    adjacency[edge_index[0], edge_index[1]] = weight.double()
    adjacency += torch.eye(n) if self_loops else 0
    expected = adjacency * dense_normalised(adjacency, how)
    torch.testing.assert_close(pattern.matrix(values).to_dense().double(), expected)


@given(edge_lists(), st.sampled_from(HOW), st.booleans())
def test_weights_of_one_are_no_weights(
    graph: tuple[Tensor, int], how: Normalisation, self_loops: bool
) -> None:
    edge_index, n = graph
    ones = torch.ones(edge_index.shape[1])
    _, values = Graph(edge_index, n, weight=ones).normalised(how, self_loops=self_loops)
    _, expected = Graph(edge_index, n).normalised(how, self_loops=self_loops)
    torch.testing.assert_close(values, expected, rtol=2e-7, atol=0)


@given(edge_lists(), st.sampled_from(HOW), st.booleans(), st.integers(0, 99))
def test_parts_of_a_weighted_graph_have_its_entries(
    graph: tuple[Tensor, int], how: Normalisation, self_loops: bool, seed: int
) -> None:
    edge_index, n = graph
    whole = Graph(edge_index, n, weight=edge_weights(edge_index, n))
    dense = to_dense(whole, how, self_loops)
    first, last = sorted((seed % (n + 1), (seed // 7) % (n + 1)))
    torch.testing.assert_close(
        to_dense(whole.rows(first, last), how, self_loops), dense[first:last]
    )
    some = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[: seed % n + 1]
    part, needed = whole.only(some)
    torch.testing.assert_close(to_dense(part, how, self_loops), dense[some][:, needed])
    mask = torch.zeros(n, dtype=torch.bool)
    mask[some] = True
    inside, among = whole.masked(mask), whole.induced(some)
    torch.testing.assert_close(
        to_dense(among, how, self_loops), to_dense(inside, how, self_loops)[some][:, some]
    )


def to_dense(graph: Graph, how: Normalisation, self_loops: bool) -> Tensor:
    pattern, values = graph.normalised(how, self_loops=self_loops)
    return pattern.matrix(values).to_dense()


def test_columns_sum_to_one_and_rows_do_not() -> None:
    star = Graph(torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), 4)
    pattern, values = star.normalised("column")
    dense = pattern.matrix(values).to_dense()
    torch.testing.assert_close(dense.sum(0), torch.ones(4))
    assert dense.sum(1).tolist() == pytest.approx([3.0, 1 / 3, 1 / 3, 1 / 3])


@given(edge_lists(), st.integers(0, 6), st.floats(0, 1), st.integers(0, 99))
def test_propagation_is_the_dense_power(
    graph: tuple[Tensor, int], steps: int, keep: float, seed: int
) -> None:
    edge_index, n = graph
    labels = torch.rand(n, 3, generator=torch.Generator().manual_seed(seed))
    pattern, values = Graph(edge_index, n).normalised("symmetric")
    adjacency = dense_normalised(dense_adjacency(edge_index, n), "symmetric")
    step = (1 - keep) * adjacency + keep * torch.eye(n, dtype=torch.float64)
    expected = torch.linalg.matrix_power(step, steps) @ labels.double()
    ours = propagate(pattern, values, labels, keep=keep, steps=steps)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-6)


@given(edge_lists(), st.integers(0, 6), st.floats(0, 1), st.integers(0, 99))
def test_propagation_with_restarts_is_its_recursion(
    graph: tuple[Tensor, int], steps: int, keep: float, seed: int
) -> None:
    edge_index, n = graph
    labels = torch.rand(n, 3, generator=torch.Generator().manual_seed(seed))
    adjacency = dense_normalised(dense_adjacency(edge_index, n), "symmetric")
    expected = labels.double()
    for _ in range(steps):
        expected = (1 - keep) * adjacency @ expected + keep * labels.double()
        expected = expected.clamp(0, 1)
    operator = Graph(edge_index, n).normalised("symmetric")
    ours = propagate(*operator, labels, keep=keep, steps=steps, restart=True)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-6)


def test_restarts_are_pygs_label_propagation_on_a_hub_too() -> None:
    leaves = torch.arange(1, 10)  # a star and a tail: the hub's row of S sums to about 3
    out = torch.cat([torch.zeros(9, dtype=torch.int64), torch.tensor([9])])
    ends = torch.cat([leaves, torch.tensor([10])])
    key = torch.cat([out * 11 + ends, ends * 11 + out]).sort().values
    edge_index = torch.stack([key // 11, key % 11])
    labels = torch.zeros(11, 2)
    labels[torch.arange(9), (torch.arange(9) > 6).long()] = 1.0  # two nodes bring no label
    theirs = LabelPropagation(num_layers=50, alpha=0.6)(labels, edge_index)
    ours = propagate(
        *Graph(edge_index, 11).normalised("symmetric"), labels, keep=0.4, steps=50, restart=True
    )
    torch.testing.assert_close(ours, theirs)
    assert float(ours[0, 0]) == 1.0  # clamped: without, it would be 1.34
    assert 0 < float(ours[10].sum()) < 1


@pytest.mark.parametrize("entries", [0, 40])
def test_weighted_sums_of_rows_are_the_product(entries: int) -> None:
    generator = torch.Generator().manual_seed(0)
    keys = torch.randperm(12 * 9, generator=generator)[:entries].sort().values
    pattern = Pattern.from_coordinates(keys // 9, keys % 9, (12, 9))  # some rows are empty
    values, dense = torch.randn(entries, generator=generator), torch.randn(5, 9).T  # not contiguous
    expected = pattern.matmul(values, dense)
    torch.testing.assert_close(pattern.sum_rows(values, dense), expected)
    exact = pattern.sum_rows(values.double(), dense.double())
    torch.testing.assert_close(exact, expected.double(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("restart", [False, True])
def test_many_labels_spread_a_few_columns_at_a_time(
    monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    operator = Graph(edge_index, 4).normalised("column")
    labels = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(0))
    before = labels.clone()
    together = propagate(*operator, labels, keep=0.4, steps=3, restart=restart)
    monkeypatch.setattr("erase.nn.sparse._LABELS_AT_ONCE", 9)  # two columns of four nodes
    products: list[tuple[int, ...]] = []
    sum_rows = Pattern.sum_rows

    def watched(self: Pattern, values: Tensor, dense: Tensor) -> Tensor:
        products.append(tuple(dense.shape))
        return sum_rows(self, values, dense)

    monkeypatch.setattr(Pattern, "sum_rows", watched)
    apart = propagate(*operator, labels, keep=0.4, steps=3, restart=restart)
    torch.testing.assert_close(apart, together)
    assert set(products) == {(4, 2)}
    assert torch.equal(labels, before)


@pytest.mark.parametrize("how", ["symmetric", "column", "row"])
@pytest.mark.parametrize("self_loops", [False, True])
@given(edge_lists())
def test_rows_of_a_graph_are_rows_of_its_matrix(
    how: Normalisation, self_loops: bool, graph: tuple[Tensor, int]
) -> None:
    edge_index, n = graph
    whole = Graph(edge_index, n)
    pattern, values = whole.normalised(how, self_loops=self_loops)
    dense = pattern.matrix(values).to_dense()
    for start in range(0, n, 3):
        part = whole.rows(start, min(start + 3, n))
        own, entries = part.normalised(how, self_loops=self_loops)
        assert own.shape == (min(3, n - start), n)
        torch.testing.assert_close(own.matrix(entries).to_dense(), dense[start : start + 3])
        assert part.of_rows(torch.arange(n), 0).tolist() == list(range(start, min(start + 3, n)))


@given(edge_lists(), st.integers(0, 99))
def test_an_induced_graph_has_the_edges_among_its_nodes(
    graph: tuple[Tensor, int], seed: int
) -> None:
    edge_index, n = graph
    nodes = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[: n // 2 + 1]
    induced = Graph(edge_index, n).induced(nodes)
    pattern = induced.pattern()
    ours = pattern.matrix(torch.ones(pattern.indices.numel(), dtype=torch.float64)).to_dense()
    torch.testing.assert_close(ours, dense_adjacency(edge_index, n)[nodes][:, nodes])
    ordered = edge_index.new_tensor(sorted(induced.edge_index.T.tolist())).reshape(-1, 2).T
    assert torch.equal(induced.edge_index, ordered)


def test_one_step_of_propagation_equals_pygs() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    labels = torch.tensor([0, 1, 0, 1])
    theirs = LabelPropagation(num_layers=1, alpha=0.7)(labels, edge_index)
    onehot = torch.nn.functional.one_hot(labels, 2).float()
    ours = propagate(*Graph(edge_index, 4).normalised("symmetric"), onehot, keep=0.3, steps=1)
    torch.testing.assert_close(ours, theirs)


@given(edge_lists())
def test_masking_keeps_only_edges_inside(graph: tuple[Tensor, int]) -> None:
    edge_index, n = graph
    mask = torch.arange(n) % 2 == 0
    pattern = Graph(edge_index, n).masked(mask).pattern()
    m = mask.double()
    expected = dense_adjacency(edge_index, n) * torch.outer(m, m)
    ones = torch.ones(pattern.indices.numel(), dtype=torch.float64)
    torch.testing.assert_close(pattern.matrix(ones).to_dense(), expected)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_product_and_its_gradients(seed: int) -> None:
    pattern, values, dense = random_pattern(7, 5, 0.4, seed)
    right = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    values.requires_grad_()
    torch.testing.assert_close(sparse_product(pattern, values, right), dense @ right)
    assert torch.autograd.gradcheck(lambda v, r: sparse_product(pattern, v, r), (values, right))


def test_transposing_twice_gives_the_pattern_back() -> None:
    pattern, values, dense = random_pattern(6, 9, 0.3, 5)
    back = pattern.transposed.transposed
    assert torch.equal(back.indices, pattern.indices)
    assert torch.equal(back.t_order, pattern.t_order)
    turned = pattern.transposed.matrix(values[pattern.t_order])
    torch.testing.assert_close(turned.to_dense(), dense.T)


def test_repeated_pattern_is_a_block_diagonal_of_copies() -> None:
    pattern, values, dense = random_pattern(4, 4, 0.6, 6)
    copies = 3
    wide = pattern.repeat(copies)
    right = torch.randn(4, copies, 2, dtype=torch.float64)
    repeated = torch.stack([values] * copies, 1)  # [E, H]; entries of one row must stay together
    order = torch.argsort(
        (pattern.rows[:, None] * copies + torch.arange(copies)).flatten(), stable=True
    )
    ours = wide.matmul(repeated.flatten()[order], right.reshape(4 * copies, 2))
    expected = torch.einsum("ij,jhc->ihc", dense, right)
    torch.testing.assert_close(ours.view(4, copies, 2), expected)


def test_row_sums_and_maxima_with_empty_rows() -> None:
    pattern = Pattern.from_coordinates(torch.tensor([0, 0, 2]), torch.tensor([0, 2, 1]), (3, 3))
    values = torch.tensor([1.0, -4.0, 2.0])
    assert pattern.row_sum(values).tolist() == [-3.0, 0.0, 2.0]
    assert pattern.row_max(values).tolist() == [1.0, -torch.inf, 2.0]


@given(edge_lists(), st.integers(0, 99), st.sampled_from([1.0, 1e3]))
def test_attention_equals_pygs_softmax_over_neighbours(
    graph: tuple[Tensor, int], seed: int, scale: float
) -> None:
    edge_index, n = graph
    generator = torch.Generator().manual_seed(seed)
    pattern = Graph(edge_index, n).pattern(self_loops=True)
    h, source, target = (
        scale * torch.randn(n, *more, dtype=torch.float64, generator=generator)
        for more in ((3,), (), ())
    )
    score = torch.nn.functional.leaky_relu(source[pattern.indices] + target[pattern.rows], 0.2)
    weight = pyg_softmax(score, pattern.rows, num_nodes=n)
    expected = torch.zeros(n, 3, dtype=torch.float64)
    expected.index_add_(0, pattern.rows, weight[:, None] * h[pattern.indices])
    torch.testing.assert_close(attend(pattern, h, source, target), expected)


def test_gradients_of_attention() -> None:
    generator = torch.Generator().manual_seed(0)
    pattern = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 4).pattern(self_loops=True)
    h, source, target = (
        torch.randn(4, *more, dtype=torch.float64, generator=generator).requires_grad_()
        for more in ((3,), (), ())
    )
    assert torch.autograd.gradcheck(lambda *a: attend(pattern, *a), (h, source, target))
