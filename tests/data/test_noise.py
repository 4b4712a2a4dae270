"""Noise: the paper's matrices, the published draw bit for bit, and what stays untouched."""

import time

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.typing import NDArray
from scipy.stats import truncnorm
from torch_geometric.data import Data

from erase.data.labels import encode_labels
from erase.data.noise import NOISES, corrupt, flip, one_way, pair, published_draw, symmetric
from erase.errors import EraseError
from erase.random import numpy_stream
from graphs import two_communities


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
def test_every_matrix_is_a_transition_with_the_requested_rate(
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
    """The published draw as described: one choice after the other."""
    legacy = np.random.RandomState(123)
    if kind == "symmetric":
        matrix = symmetric(k, rate)
    elif kind == "pair":
        matrix = pair(k, rate)
    else:
        matrix = (1 - rate) * np.eye(k)
        for i in range(k):
            matrix[i, legacy.choice([j for j in range(k) if j != i])] = rate
    return np.array([legacy.choice(k, p=matrix[label]) for label in y])


@pytest.mark.parametrize("kind", ["symmetric", "pair", "asymmetric"])
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
def test_realised_noise_has_the_requested_rate_and_matrix(name: str) -> None:
    data = labelled(60_000, 4)
    noisy = corrupt(data, name, 0.3, seed=3).y
    assert float((noisy != data.y).float().mean()) == pytest.approx(0.3, abs=0.01)
    seen = frequencies(data.y, noisy, 4)
    if name != "annotator":  # which has favourite classes
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


def test_only_the_selected_labels_change_and_no_other_label_is_left() -> None:
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
    assert corrupt(data, "pair", 0.0).class_names == ["0", "2"]
    data.y[data.test_mask] = 5  # a class of test nodes alone
    assert corrupt(data, "pair", 0.0).class_names == ["0", "2", "5"]
    data.num_classes = 7
    assert corrupt(data, "pair", 0.0).class_names == list("0123456")
    named = Data(y=["a", "b", "a", "b"], x=torch.eye(4), edge_index=torch.tensor([[0], [1]]))
    assert corrupt(named, "pair", 1.0).y.tolist() == ["b", "a", "b", "a"]


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_noise_keeps_to_the_labels_own_numbers(noise: str) -> None:
    data = labelled(600, 3)
    own = data.clone()
    own.y = torch.tensor([10, 200, 3000])[data.y]
    usual, noisy = corrupt(data, noise, 0.4, seed=1), corrupt(own, noise, 0.4, seed=1)
    assert noisy.y.tolist() == torch.tensor([10, 200, 3000])[usual.y].tolist()
    y, names, values = encode_labels(noisy)
    assert torch.equal(y, usual.y)
    assert (names, values.tolist()) == (("10", "200", "3000"), [10, 200, 3000])
    again = corrupt(noisy, np.eye(3)[[1, 2, 0]])
    assert again.y.tolist() == torch.tensor([200, 3000, 10])[usual.y].tolist()


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


@pytest.mark.parametrize("name", ["symmetric", "pair", "asymmetric", "random"])
def test_matrix_and_flips_come_from_two_streams_of_the_seed(name: str) -> None:
    data = labelled(500, 6)
    build = NOISES[name].matrix
    assert build is not None
    for seed in (0, 4):
        matrix = build(6, 0.5, numpy_stream(seed, f"noise {name}"))
        uniform = numpy_stream(seed, "noise flips").random(500)
        noisy = corrupt(data, name, 0.5, seed=seed).y
        assert noisy.tolist() == flip(data.y.numpy(), matrix, uniform).tolist()


def test_asymmetric_targets_differ_by_class_and_by_seed() -> None:
    build = NOISES["asymmetric"].matrix
    assert build is not None
    shifts = set()
    for seed in range(5):
        targets = (build(8, 0.5, np.random.default_rng(seed)) - 0.5 * np.eye(8)).argmax(1)
        shifts.add(tuple((targets - np.arange(8)) % 8))
    assert len(shifts) == 5
    assert all(len(set(shift)) > 1 for shift in shifts)  # not one shift for all classes


def test_random_noise_differs_between_classes_and_by_class() -> None:
    build = NOISES["random"].matrix
    assert build is not None
    matrix = build(5, 0.5, np.random.default_rng(0))
    wrong = matrix[~np.eye(5, dtype=bool)].reshape(5, 4)
    assert (wrong.std(1) > 0.01).all()
    for i in range(5):
        for j in range(i):
            others = [c for c in range(5) if c not in (i, j)]
            ratio = matrix[i, others] / matrix[j, others]
            assert ratio.std() > 0.05  # not one distribution for all


@pytest.mark.parametrize("seed", [0, 2])
def test_instance_noise_follows_its_definition_node_by_node(seed: int) -> None:
    data = labelled(300, 4)
    data.x = 4 * data.x
    data.train_mask = torch.arange(300) % 3 != 0
    rng = numpy_stream(seed, "noise instance")
    nodes = data.train_mask.nonzero().flatten().tolist()
    low, high = (0 - 0.4) / 0.1, (1 - 0.4) / 0.1
    rates = truncnorm.rvs(low, high, 0.4, 0.1, size=len(nodes), random_state=rng)
    flipped, uniform = rng.random(len(nodes)) < rates, rng.random(len(nodes))
    weight = [rng.standard_normal((5, 4), np.float32) for _ in range(4)]
    expected = data.y.tolist()
    for i, node in enumerate(nodes):
        true = int(data.y[node])
        if flipped[i]:
            power = np.exp(data.x[node].numpy().astype(np.float64) @ weight[true])
            power[true] = 0.0
            expected[node] = int(np.searchsorted(power.cumsum() / power.sum(), uniform[i]))
    noisy = corrupt(data, "instance", 0.4, seed=seed)
    assert noisy.y[data.train_mask].tolist() == [expected[node] for node in nodes]


@pytest.mark.parametrize("rate", [1e-9, 1.0])
def test_the_rates_of_instance_noise_spread_by_a_tenth_inside_zero_and_one(rate: float) -> None:
    """At its ends a truncated normal has the mean 0.1 · √(2/π) ≈ 0.08 away from them."""
    data = labelled(60_000, 3)
    share = float((corrupt(data, "instance", rate).y != data.y).float().mean())
    assert abs(share - rate) == pytest.approx(0.1 * (2 / np.pi) ** 0.5, abs=0.004)


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_no_noise_is_no_noise(noise: str) -> None:
    data = labelled(3_000, 3)
    assert torch.equal(corrupt(data, noise, 0.0).y, data.y)


def test_on_both_splits_training_labels_err_too() -> None:
    data = two_communities(size=200)
    both = corrupt(data, "symmetric", 0.5, seed=0, on="train+val")
    for part in (data.train_mask, data.val_mask):
        assert 0.35 < float((both.y != data.y)[part].float().mean()) < 0.65


def test_unknown_labels_stay_unknown() -> None:
    data = two_communities(size=50)
    data.y[:10] = -1  # training nodes
    noisy = corrupt(data, "symmetric", 0.5)
    assert bool((noisy.y[:10] == -1).all())
    assert bool((noisy.y[10:50] >= 0).all())


def test_without_a_training_split_validation_labels_still_stay_clean() -> None:
    data = two_communities(size=100)
    del data.train_mask, data.test_mask
    noisy = corrupt(data, "pair", 1.0)
    assert torch.equal(noisy.y[data.val_mask], data.y[data.val_mask])
    assert torch.equal(noisy.y[~data.val_mask], 1 - data.y[~data.val_mask])


def test_given_class_names_are_kept() -> None:
    data = two_communities()
    data.class_names = ["apple", "pear"]
    assert corrupt(data, "pair", 0.5).class_names == ["apple", "pear"]


def test_more_bad_requests_say_what_to_do() -> None:
    data = two_communities()
    with pytest.raises(EraseError, match="draw='redrawn' or 'fixed'"):
        corrupt(data, "pair", 0.1, draw="again")  # type: ignore[arg-type]
    with pytest.raises(EraseError, match="probabilities"):
        corrupt(data, np.array([[1.5, -0.5], [0.0, 1.0]]))
    with pytest.raises(EraseError, match="rows sum to 1"):
        corrupt(data, np.array([[0.5, 0.0], [0.5, 1.0]]))  # columns do
    data.y = torch.zeros_like(data.y)
    with pytest.raises(EraseError, match="at least two classes"):
        corrupt(data, "pair", 0.1)
