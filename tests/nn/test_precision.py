"""Full float32 inside, and the user's own setting before and after."""

import pytest
import torch

from erase.nn.precision import full_float32
from tf32 import on_a_gpu_that_may_round, switch_allows_tf32


def test_products_are_rounded_before_and_after_but_not_inside() -> None:
    x = torch.full((2, 2), 1 + 2**-12)
    with on_a_gpu_that_may_round() as products:
        rounded = x @ x
        with full_float32():
            with full_float32():
                exact = x @ x
            still = x @ x
        again = x @ x
    assert rounded.unique().tolist() == again.unique().tolist() == [2.0]
    assert exact.unique().tolist() == still.unique().tolist() == [2 + 2**-10]
    assert products.rounded == 2


def test_an_error_inside_leaves_the_switch_as_it_was() -> None:
    @full_float32()
    def fail() -> None:
        assert not switch_allows_tf32()
        raise ValueError("inside")

    with on_a_gpu_that_may_round():
        with pytest.raises(ValueError, match="inside"):
            fail()
        assert switch_allows_tf32()
    assert not switch_allows_tf32()
