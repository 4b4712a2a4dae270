"""Noise: the paper's matrices, the published draw bit for bit, and what stays untouched."""

import time

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.typing import NDArray
from torch_geometric.data import Data

from conftest import two_communities
from erase.errors import EraseError
from erase.noise import NOISES, corrupt, flip, one_way, pair, published_draw, symmetric


def labelled(n: int, k: int, seed: int = 0) -> Data:
    """A graph without edges whose every label is given."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.random((n, 5), np.float32))
    y = torch.from_numpy(rng.integers(0, k, n))
    y[:k] = torch.arange(k)
    return Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.int64), y=y)


def frequencies(true: torch.Tensor, given: torch.Tensor, k: int) -> NDArray[np.float64]:
    counts = np.zeros((k, k))
    np.add.at(counts, (true.numpy(), given.numpy()), 1)
    shares: NDArray[np.float64] = counts / counts.sum(1, keepdims=True)
    return shares


def test_the_papers_matrices() -> None:
    q = symmetric(4, 0.3)
    assert q.diagonal().tolist() == [0.7] * 4
    assert q[0, 1:].tolist() == pytest.approx([0.1] * 3)
    p = pair(4, 0.3)
    for i in range(4):
        assert p[i, i] == 0.7
        assert p[i, (i + 1) % 4] == 0.3
    assert np.count_nonzero(p) == 8


@given(st.integers(2, 8), st.floats(0, 1), st.integers(0, 1000), st.sampled_from(sorted(NOISES)))
def test_every_matrix_is_a_transition_with_the_asked_rate(
    k: int, rate: float, seed: int, name: str
) -> None:
    build = NOISES[name].matrix
    if build is None:
        return
    matrix = build(k, rate, np.random.default_rng(seed))
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(1), 1)
    np.testing.assert_allclose(matrix.diagonal(), 1 - rate)
    if name == "asymmetric" and 0 < rate < 1:
        assert (np.count_nonzero(matrix, axis=1) == 2).all()


def by_choice(y: NDArray[np.int64], k: int, kind: str, rate: float) -> NDArray[np.int64]:
    """The published draw as it is told: one choice after the other."""
    legacy = np.random.RandomState(123)
    if kind == "symmetric":
        matrix = symmetric(k, rate)
    else:
        matrix = (1 - rate) * np.eye(k)
        for i in range(k):
            matrix[i, legacy.choice([j for j in range(k) if j != i])] = rate
    return np.array([legacy.choice(k, p=matrix[label]) for label in y])


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_published_draw_is_reproduced_choice_by_choice(kind: str, rate: float) -> None:
    y = np.random.default_rng(1).integers(0, 7, 140)
    assert published_draw(y, 7, kind, rate).tolist() == by_choice(y, 7, kind, rate).tolist()


def test_a_fixed_draw_does_not_depend_on_the_seed_and_a_redrawn_one_does() -> None:
    data = labelled(400, 5)
    fixed = [corrupt(data, "symmetric", 0.4, seed=s, draw="fixed").y for s in (0, 1)]
    assert torch.equal(*fixed)
    first, again, other = (corrupt(data, "symmetric", 0.4, seed=s).y for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", sorted(NOISES))
def test_realised_noise_has_the_asked_rate_and_matrix(name: str) -> None:
    data = labelled(60_000, 4)
    noisy = corrupt(data, name, 0.3, seed=3).y
    assert float((noisy != data.y).float().mean()) == pytest.approx(0.3, abs=0.01)
    seen = frequencies(data.y, noisy, 4)
    np.testing.assert_allclose(seen.diagonal(), 0.7, atol=0.02)
    if name in ("symmetric", "pair"):
        expected = symmetric(4, 0.3) if name == "symmetric" else pair(4, 0.3)
        np.testing.assert_allclose(seen, expected, atol=0.015)
    if name == "asymmetric":
        assert (np.count_nonzero(seen, axis=1) == 2).all()


def test_instance_noise_depends_on_the_features() -> None:
    """Two nodes of one class with opposite features err towards different classes."""
    data = labelled(20_000, 3)
    data.y = torch.arange(20_000) % 3
    data.x = torch.zeros(20_000, 2)
    group = torch.arange(20_000) // 3 % 2
    data.x[:, 0] = torch.where(group == 0, 3.0, -3.0)
    data.x[:, 1] = 1.0
    noisy = corrupt(data, "instance", 0.4, seed=0).y
    shares = []
    for g in (0, 1):
        wrong = noisy[(group == g) & (data.y == 0) & (noisy != 0)]
        shares.append(float((wrong == 1).float().mean()))
    assert abs(shares[0] - shares[1]) > 0.2


def test_instance_noise_is_the_same_for_sparse_features() -> None:
    data = labelled(300, 3)
    data.x = data.x * (data.x > 0.9)
    sparse = data.clone()
    sparse.x = data.x.to_sparse_csr()
    assert torch.equal(corrupt(data, "instance", 0.4).y, corrupt(sparse, "instance", 0.4).y)


def test_your_own_matrix() -> None:
    data = labelled(30_000, 3)
    own = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])
    noisy = corrupt(data, own, seed=1).y
    np.testing.assert_allclose(frequencies(data.y, noisy, 3), own, atol=0.015)
    assert bool((noisy[data.y == 1] == 1).all())
    with pytest.raises(EraseError, match="Divide each row by its sum"):
        corrupt(data, 2 * own)
    with pytest.raises(EraseError, match="Leave rate out"):
        corrupt(data, own, 0.3)


def test_only_the_asked_labels_change_and_no_other_label_is_left() -> None:
    data = two_communities(size=200)
    before = data.y.clone()
    noisy = corrupt(data, "symmetric", 0.5, seed=0)
    assert torch.equal(data.y, before)
    assert bool((noisy.y[data.test_mask] == -1).all())
    assert torch.equal(noisy.y[data.val_mask], data.y[data.val_mask])
    assert 0.35 < float((noisy.y != data.y)[data.train_mask].float().mean()) < 0.65
    both = corrupt(data, "symmetric", 0.5, seed=0, on="train+val")
    assert 0.3 < float((both.y != data.y)[data.val_mask].float().mean()) < 0.7


def test_class_names_survive_even_where_a_class_is_gone() -> None:
    data = two_communities()
    data.y = data.y * 2  # class 1 does not occur, class 2 does
    noisy = corrupt(data, "pair", 0.0)
    assert noisy.class_names == ["0", "1", "2"]
    named = Data(y=["a", "b", "a", "b"], x=torch.eye(4), edge_index=torch.tensor([[0], [1]]))
    assert corrupt(named, "pair", 1.0).y.tolist() == ["b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("symetric", 0.1), "Choose one"),
        (("symmetric", 1.5), "Pass rate="),
        (("symmetric", None), "Pass rate="),
    ],
)
def test_bad_requests_say_what_to_do(arguments: tuple[str, float], remedy: str) -> None:
    with pytest.raises(EraseError, match=remedy):
        corrupt(two_communities(), *arguments)
    with pytest.raises(EraseError, match="Use draw='redrawn'"):
        corrupt(two_communities(), "random", 0.1, draw="fixed")
    with pytest.raises(EraseError, match="'train' or 'train\\+val'"):
        corrupt(two_communities(), "random", 0.1, on="all")  # type: ignore[arg-type]


def test_a_flip_takes_the_class_whose_cdf_interval_holds_the_number() -> None:
    row = np.array([[0.25, 0.25, 0.5]] * 3)
    uniform = np.array([0.0, 0.2499, 0.25, 0.4999, 0.5, 0.9999])
    assert flip(np.zeros(6, np.int64), row, uniform).tolist() == [0, 0, 1, 1, 2, 2]
    assert one_way(np.array([1, 0]), 1.0).tolist() == [[0, 1], [1, 0]]


def test_ten_million_labels_take_seconds() -> None:
    y = np.random.default_rng(0).integers(0, 10, 10_000_000)
    uniform = np.random.default_rng(1).random(10_000_000)
    start = time.perf_counter()
    given_labels = flip(y, symmetric(10, 0.3), uniform)
    assert time.perf_counter() - start < 10
    assert np.mean(given_labels != y) == pytest.approx(0.3, abs=0.001)
