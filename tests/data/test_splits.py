"""Splits of a Data in every form, and those refused."""

from typing import Any

import numpy as np
import pytest
import torch

from erase.data.labels import encode_labels
from erase.data.splits import read_splits, split_mask, without_splits
from erase.errors import EraseError
from graphs import mask, path_graph


@pytest.mark.parametrize(
    ("train", "val"),
    [
        ("train_mask", "val_mask"),
        ("train_idx", "val_idx"),
        ("train_index", "valid_idx"),
        ("train_mask", "valid_mask"),
        ("train_idx", "validation_index"),
    ],
)
@pytest.mark.parametrize("as_index", [False, True])
def test_masks_and_indices_under_every_name(train: str, val: str, as_index: bool) -> None:
    splits: dict[str, Any] = {"train_mask": None, "val_mask": None}
    splits[train] = torch.tensor([3, 0]) if as_index else mask(0, 3)
    splits[val] = torch.tensor([4]) if as_index else mask(4)
    data = path_graph(**splits)
    for part, nodes in (("train", mask(0, 3)), ("val", mask(4))):
        found = split_mask(data, part, 5)
        assert found is not None
        assert torch.equal(found, nodes)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_a_mask_of_zeros_and_ones_is_a_mask(dtype: torch.dtype) -> None:
    found = split_mask(path_graph(train_mask=mask(3, 4).to(dtype)[:, None]), "train", 5)
    assert found is not None
    assert torch.equal(found, mask(3, 4))


def test_split_mask_finds_the_test_nodes_and_says_none_where_there_are_none() -> None:
    assert split_mask(path_graph(), "test", 5) is None
    found = split_mask(path_graph(test_idx=torch.tensor([4, 3])), "test", 5)
    assert found is not None
    assert found.tolist() == [False, False, False, True, True]


def test_split_mask_is_fresh() -> None:
    data = path_graph()
    found = split_mask(data, "train", 5)
    assert found is not None
    found.zero_()
    assert data.train_mask.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_mask": torch.ones(5, 3).bool()}, r"\[5, 3\]. Choose a column.*train_mask\[:, 0\]"),
        ({"train_mask": mask(0, 1)[:4]}, "each of 5 nodes; got 4 entries. Make the mask"),
        ({"val_mask": mask(2, n=6)}, "val_mask with one entry.*6 entries"),
        ({"train_mask": torch.tensor([0.0, 1.0])}, r"bool mask or node numbers.*\.bool\(\)"),
        ({"train_mask": torch.tensor([0j, 1j])}, "bool mask or node numbers; got torch.complex64"),
        ({"train_mask": ["a"]}, "train_mask as an array of numbers; got <U1"),
        ({"train_mask": torch.tensor([0, 1, 5])}, r"0\.\.4 in train_mask; got 5 at position 2"),
        ({"train_mask": torch.tensor([-1, 1])}, "got -1 at position 0. Count nodes from 0"),
    ],
)
def test_bad_splits_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        split_mask(path_graph(**changes), next(iter(changes)).removesuffix("_mask"), 5)


@pytest.mark.parametrize("form", [mask(0, 3), torch.tensor([3, 0]), np.array([0, 3]), [0, 3]])
def test_bare_split_words_hold_masks_or_node_numbers(form: Any) -> None:
    data = path_graph(train_mask=None, val_mask=None, train=form, validation=[4], test=[1])
    splits = read_splits(data, data.y)
    assert splits.train_is_given
    assert splits.train.tolist() == mask(0, 3).tolist()
    assert splits.val.tolist() == mask(4).tolist()
    assert splits.test.tolist() == mask(1).tolist()


@pytest.mark.parametrize("value", [torch.rand(8), True, "yes", ["a"], [[0], [1, 2]], torch.eye(5)])
def test_other_things_under_a_bare_split_word_are_left_alone(value: Any) -> None:
    assert split_mask(path_graph(val_mask=None, val=value), "val", 5) is None


def test_a_mask_goes_before_a_bare_split_word() -> None:
    found = split_mask(path_graph(train=[4]), "train", 5)
    assert found is not None
    assert found.tolist() == mask(0, 1).tolist()


def test_without_splits_every_labelled_node_trains() -> None:
    data = path_graph(test_mask=mask(3, 4), val_idx=torch.tensor([2]), train=torch.tensor([0, 1]))
    data.test = torch.tensor([0.5, 0.2])  # not nodes: something of the user's
    copied = without_splits(data)
    assert "train_mask" in data
    assert copied.test is data.test
    y, _, _ = encode_labels(copied)
    splits = read_splits(copied, y)
    assert not splits.train_is_given
    assert bool(splits.train.all())
    assert not bool(splits.val.any())
    assert copied.x is data.x
