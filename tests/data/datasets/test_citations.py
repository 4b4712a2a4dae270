"""The generator keeps what it promises, at any size."""

import gzip
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric.data import Data

from erase.data.datasets import citations
from erase.errors import EraseError


def homophily(data: Data) -> float:
    source, target = data.edge_index
    return float((data.y[source] == data.y[target]).double().mean())


def degrees(data: Data) -> Tensor:
    return torch.bincount(data.edge_index[0], minlength=data.num_nodes)


def word_accuracy(data: Data) -> float:
    x = data.x.to_dense() if data.x.layout == torch.sparse_csr else data.x
    rows = torch.nn.functional.normalize(x)
    model = LogisticRegression(C=10, max_iter=500)
    model.fit(rows[data.train_mask], data.y[data.train_mask])
    return float(model.score(rows[data.test_mask], data.y[data.test_mask]))


@settings(max_examples=40, deadline=None)
@given(
    num_nodes=st.integers(2, 300),
    edges_per_node=st.floats(0, 5),
    num_classes=st.integers(2, 6),
    share=st.floats(0, 1),
    imbalance=st.floats(1, 20),
    seed=st.integers(0, 1_000),
)
def test_any_graph_is_simple_symmetric_and_exactly_as_requested_or_refused(
    num_nodes: int,
    edges_per_node: float,
    num_classes: int,
    share: float,
    imbalance: float,
    seed: int,
) -> None:
    num_edges = int(edges_per_node * num_nodes)
    try:
        data = citations(
            num_nodes=num_nodes,
            num_edges=num_edges,
            num_classes=num_classes,
            num_features=20,
            homophily=share,
            imbalance=imbalance,
            seed=seed,
        )
    except EraseError as refusal:
        if num_nodes >= num_classes and "a node cites at most a quarter" not in str(refusal):
            raise
        return
    pairs = set(zip(*data.edge_index.tolist(), strict=True))
    assert data.num_edges == len(pairs) == 2 * num_edges
    assert pairs == {(j, i) for i, j in pairs}
    assert all(i != j for i, j in pairs)
    same = int((data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).sum())
    assert same == 2 * round(share * num_edges)
    assert torch.bincount(data.y).shape == (num_classes,)
    assert torch.bincount(data.y).min() >= 1
    sums = torch.mv(data.x, torch.ones(20))
    torch.testing.assert_close(sums, torch.ones(num_nodes))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_homophily_is_the_one_requested(share: float) -> None:
    assert homophily(citations(num_nodes=1_000, homophily=share)) == pytest.approx(share, abs=1e-3)


def test_foreign_citations_reach_every_class_alike() -> None:
    data = citations(num_nodes=4_000, num_classes=4, homophily=0.0, degree_exponent=6.0)
    per_class = torch.bincount(data.y[data.edge_index[0]]) / data.num_edges
    torch.testing.assert_close(per_class, torch.full((4,), 0.25), atol=0.02, rtol=0)


def test_three_edges_per_node_by_default() -> None:
    assert citations(num_nodes=500).num_edges == 2 * 3 * 500


def test_degrees_have_a_tail_far_heavier_than_exponential() -> None:
    degree = degrees(citations(num_nodes=20_000, num_classes=5)).double()
    mean = float(degree.mean())
    # Of 20,000 exponential degrees with this mean, 20,000·e^-12 = 0.1 would exceed twelve means.
    assert int((degree > 12 * mean).sum()) >= 5
    # Hill's estimate of the tail's exponent, from the 200 largest degrees
    top = degree.sort(descending=True).values[:201]
    exponent = 1 + 1 / float((top[:-1] / top[-1]).log().mean())
    assert exponent == pytest.approx(3.0, abs=0.5)


def test_the_degree_exponent_thins_the_tail() -> None:
    heavy, thin = (
        int(degrees(citations(num_nodes=5_000, degree_exponent=exponent)).max())
        for exponent in (2.5, 5.0)
    )
    assert heavy > 3 * thin


def test_everybody_cites() -> None:
    assert degrees(citations(num_nodes=3_000, num_edges=3_000)).min() >= 1


def test_classes_have_equal_sizes_or_the_requested_ratio() -> None:
    equal = torch.bincount(citations(num_nodes=1_000, num_classes=4).y)
    assert equal.tolist() == [250] * 4
    uneven = torch.bincount(citations(num_nodes=10_000, num_classes=4, imbalance=8).y)
    assert float(uneven[0] / uneven[-1]) == pytest.approx(8, rel=0.02)
    assert float(uneven[0] / uneven[1]) == pytest.approx(2, rel=0.02)


def test_classes_may_have_a_power_law() -> None:
    sizes = torch.bincount(
        citations(num_nodes=10_000, num_classes=4, class_exponent=2.0, class_shift=1.0).y
    ).double()
    law = torch.tensor([1, 1 / 4, 1 / 9, 1 / 16]).double()
    torch.testing.assert_close(sizes / 10_000, law / law.sum(), atol=3e-4, rtol=0)
    shifted = citations(num_nodes=10_000, num_classes=4, class_exponent=2.0, class_shift=3.0).y
    assert float(torch.bincount(shifted)[0] / torch.bincount(shifted)[3]) == pytest.approx(
        4, rel=0.01
    )


def test_an_exponent_of_three_is_as_uneven_as_arxiv() -> None:
    path = Path(os.environ.get("ERASE_DATA", "")) / "ogbn_arxiv/raw/node-label.csv.gz"
    if not path.is_file():
        pytest.skip("ERASE_DATA names no folder with ogbn-arxiv's labels")
    with gzip.open(path) as file:
        true = np.sort(np.bincount(np.loadtxt(file, dtype=np.int64)))[::-1]
    data = citations(
        num_nodes=169_343, num_edges=0, num_classes=40, num_features=40, class_exponent=3.0
    )
    ours = np.bincount(data.y)
    assert 0.5 * np.abs(true - ours).sum() / 169_343 < 0.08  # of the nodes are in another class
    assert ours[0] / 169_343 == pytest.approx(true[0] / 169_343, abs=0.002)

    def effective(sizes: npt.NDArray[np.int64]) -> float:
        share = sizes / sizes.sum()
        return float(np.exp(-(share * np.log(share)).sum()))

    assert effective(ours) == pytest.approx(effective(true), rel=0.05)


def test_words_have_a_power_law_and_tell_the_class() -> None:
    data = citations(num_nodes=1_500, num_features=500, signal=0.3)
    count = torch.bincount(data.x.col_indices(), minlength=500).double()
    assert count[:10].sum() > 5 * count[100:110].sum()
    assert word_accuracy(data) > 2.5 / 7
    # word j belongs to class j mod 7: the nodes of that class have it more often
    rows = torch.repeat_interleave(torch.arange(1_500), data.x.crow_indices().diff())
    own = data.y[rows] == data.x.col_indices() % 7
    assert own.double().mean() == pytest.approx(0.3 + 0.7 / 7, abs=0.1)


def test_signal_makes_words_tell_more_or_nothing() -> None:
    nothing, much = (
        word_accuracy(citations(num_nodes=1_500, num_features=500, signal=signal))
        for signal in (0.0, 0.7)
    )
    assert nothing < 1 / 7 + 0.05
    assert much > 0.8


def test_words_per_node_is_their_mean_number() -> None:
    few, many = (
        len(citations(num_nodes=500, words_per_node=number).x.values()) / 500
        for number in (3.0, 30.0)
    )
    assert 2.5 < few <= 3.2
    assert 20 < many <= 30.5


def test_dense_features_are_unit_gaussians_around_the_class_means() -> None:
    data = citations(num_nodes=4_000, num_features=32, num_classes=4, dense=True, signal=0.5)
    assert data.x.shape == (4_000, 32)
    assert data.x.dtype == torch.float32
    for k in range(4):
        x = data.x[data.y == k]
        assert float(x.mean(dim=0).norm()) == pytest.approx(0.5 * 4, abs=0.2)
        assert float(x.std(dim=0).mean()) == pytest.approx(1, abs=0.03)
    assert word_accuracy(data) > 0.6


def test_the_split_is_per_class_or_by_shares() -> None:
    data = citations(num_nodes=1_000, num_classes=4)
    assert torch.bincount(data.y[data.train_mask]).tolist() == [20] * 4
    assert torch.bincount(data.y[data.val_mask]).tolist() == [30] * 4
    few = citations(num_nodes=1_000, num_classes=4, train_per_class=5, val_per_class=6)
    assert (int(few.train_mask.sum()), int(few.val_mask.sum())) == (20, 24)
    shares = citations(num_nodes=1_000, num_classes=4, train_share=0.5, val_share=0.1)
    masks = (shares.train_mask, shares.val_mask, shares.test_mask)
    assert [int(mask.sum()) for mask in masks] == [500, 100, 400]


@pytest.mark.parametrize("dense", [False, True])
def test_the_seed_decides_everything(dense: bool) -> None:
    one, again, other = (
        citations(num_nodes=400, num_features=50, dense=dense, seed=seed) for seed in (0, 0, 1)
    )
    for field in ("edge_index", "y", "train_mask", "val_mask"):
        assert torch.equal(one[field], again[field])
        assert not torch.equal(one[field], other[field])
    dense_x = [data.x.to_dense() for data in (one, again, other)]
    assert torch.equal(dense_x[0], dense_x[1])
    assert not torch.equal(dense_x[0], dense_x[2])


def test_memory_grows_in_proportion_to_the_graph() -> None:
    def peak(num_nodes: int) -> int:
        tracemalloc.start()
        try:
            citations(num_nodes=num_nodes, num_edges=5 * num_nodes, num_classes=20)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1_000)  # whatever is allocated once
    assert 6 < peak(40_000) / peak(5_000) < 10


@pytest.mark.slow
def test_a_million_nodes_and_ten_million_edges_fit() -> None:
    data = citations(num_nodes=1_000_000, num_edges=10_000_000, num_classes=40)
    assert data.num_edges == 20_000_000
    assert homophily(data) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_nodes", 5),
        ("num_edges", -1),
        ("num_classes", 1),
        ("num_features", 6),
        ("num_nodes", 2**31),
        ("num_nodes", 1e30),
        ("num_edges", "many"),
        ("signal", None),
        ("homophily", 1.1),
        ("homophily", float("nan")),
        ("degree_exponent", 1.0),
        ("imbalance", 0.5),
        ("class_exponent", -1.0),
        ("class_shift", 0.0),
        ("words_per_node", 0.0),
        ("signal", -0.1),
        ("num_features", 10**12),
        ("num_features", 2**64),
        ("class_exponent", 1e3),
        ("class_exponent", float("inf")),
        ("class_shift", float("inf")),
        ("words_per_node", float("inf")),
    ],
)
def test_impossible_options_are_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(EraseError, match=f"{option}.*Change {option}"):
        citations(**{option: value})


@pytest.mark.parametrize(
    ("share", "edges_per_node", "got"),
    [(1.0, 6, r"inside a class of 25"), (0.0, 18.75, r"18\.8 to 75 nodes of other classes")],
)
def test_a_node_may_cite_a_quarter_of_those_it_may_cite_and_no_more(
    share: float, edges_per_node: float, got: str
) -> None:
    most = int(100 * edges_per_node)  # four classes of 25: 24/4 inside, 75/4 outside
    data = citations(num_nodes=100, num_edges=most, num_classes=4, homophily=share)
    assert data.num_edges == 2 * most
    with pytest.raises(EraseError, match=rf"{got}.*Use fewer edges"):
        citations(num_nodes=100, num_edges=most + 1, num_classes=4, homophily=share)
