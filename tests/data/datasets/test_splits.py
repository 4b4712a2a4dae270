import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from erase.data.datasets.splits import split_by_share, split_per_class
from erase.errors import EraseError


def per_class(mask: Tensor, y: Tensor, k: int) -> int:
    return int((mask & (y == k)).sum())


@given(
    st.lists(st.integers(-1, 4), min_size=1, max_size=200),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 99),
)
def test_every_class_gets_its_number_and_small_classes_train_first(
    labels: list[int], num_train: int, num_val: int, seed: int
) -> None:
    y = torch.tensor(labels)
    train, val, test = split_per_class(y, np.random.default_rng(seed), num_train, num_val)
    assert torch.equal(train.int() + val.int() + test.int(), (y >= 0).int())
    for k in range(5):
        size = labels.count(k)
        assert per_class(train, y, k) == min(size, num_train)
        assert per_class(val, y, k) == min(max(size - num_train, 0), num_val)


def test_every_node_of_a_class_is_equally_likely_to_train() -> None:
    y = torch.tensor([0, 1] * 10)
    rng = np.random.default_rng(0)
    times = sum(split_per_class(y, rng, 5, 2)[0].int() for _ in range(2_000))
    assert isinstance(times, Tensor)
    # binomial with mean 1,000 and standard deviation 22
    assert times.min() > 880
    assert times.max() < 1_120


def test_shares_are_of_the_labelled_nodes() -> None:
    y = torch.cat([torch.zeros(100, dtype=torch.int64), torch.full((50,), -1)])
    masks = split_by_share(y, np.random.default_rng(0), 0.6, 0.1)
    assert [int(mask.sum()) for mask in masks] == [60, 10, 30]
    assert not torch.stack(masks)[:, 100:].any()


@pytest.mark.parametrize(("train", "val"), [(0.0, 0.2), (0.9, 0.2), (0.5, -0.1), (1.5, 0.0)])
def test_impossible_shares_are_refused(train: float, val: float) -> None:
    with pytest.raises(EraseError, match="train_share"):
        split_by_share(torch.zeros(10), np.random.default_rng(0), train, val)


def test_negative_numbers_per_class_are_refused() -> None:
    with pytest.raises(EraseError, match="per class"):
        split_per_class(torch.zeros(10), np.random.default_rng(0), -1, 2)
