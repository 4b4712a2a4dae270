"""Gram matrices added up over chunks against the rows at once."""

import pytest
import torch

from erase.nn.class_grams import ClassGrams
from erase.nn.coding import rate_reduction


@pytest.mark.parametrize("gamma", [1.0, 2.0])
@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_class_grams_of_chunks_give_the_reduction_and_its_gradient(
    gamma: float, chunk: int
) -> None:
    generator = torch.Generator().manual_seed(chunk)
    z = torch.randn(50, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    classes = torch.randint(3, (50,), generator=generator) * 2  # 1 and 3 have no member
    expected = rate_reduction(z, classes, 5, eps2=0.1, gamma=gamma)
    expected[0].backward()
    grams = ClassGrams(5, 6, z)
    parts = list(zip(z.detach().split(chunk), classes.split(chunk), strict=True))
    for rows, own in parts:
        grams.add(rows, own)
    *answers, pull = grams.reduction(eps2=0.1, gamma=gamma)
    for ours, theirs in zip(answers, expected, strict=True):
        torch.testing.assert_close(ours, theirs.detach())
    slope = torch.cat([grams.gradient(rows, own, pull) for rows, own in parts])
    torch.testing.assert_close(slope, z.grad)


def test_no_rows_have_no_rate() -> None:
    grams = ClassGrams(3, 4, torch.empty(0))
    reduction, rate, class_rate, _ = grams.reduction(eps2=0.5, gamma=2.0)
    assert (float(reduction), float(rate), float(class_rate)) == (0.0, 0.0, 0.0)
