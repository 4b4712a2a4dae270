"""Normalised and reverse cross-entropy against their sums, node by node."""

import math

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from conftest import random_logits
from erase.errors import EraseError
from erase.methods.apl import APL


def by_hand(a: float, b: float, logits: Tensor, nodes: Tensor, classes: Tensor) -> list[float]:
    losses = []
    for run in range(len(logits)):
        total = 0.0
        for node, y in zip(nodes[run].tolist(), classes[run].tolist(), strict=True):
            exponentials = [math.exp(value) for value in logits[run, node].tolist()]
            p = [value / sum(exponentials) for value in exponentials]
            normalised = math.log(p[y]) / sum(math.log(value) for value in p)
            one_hot = [float(k == y) for k in range(len(p))]
            reverse = -sum(p[k] * math.log(max(one_hot[k], 1e-4)) for k in range(len(p)))
            total += a * normalised + b * reverse
        losses.append(total / nodes.shape[1])
    return losses


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
@pytest.mark.parametrize(("active", "passive"), [(1.0, 1.0), (2.0, 0.0), (0.0, 0.5)])
def test_the_loss_is_the_formula(classes: int, scale: float, active: float, passive: float) -> None:
    logits, nodes, given = random_logits(classes, scale)
    expected = by_hand(active, passive, logits, nodes, given)
    method = APL(active=active, passive=passive)
    assert method._losses(logits, nodes, given).tolist() == pytest.approx(expected, rel=1e-9)
    single = method._losses(logits.float(), nodes, given)
    assert single.tolist() == pytest.approx(expected, rel=1e-4)


def test_gradients_are_those_of_the_formula_and_finite_where_p_vanishes() -> None:
    logits, nodes, classes = random_logits(3, 2.0)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: APL()._losses(x, nodes, classes), [logits])
    sure = torch.full((1, 1, 3), -1e4)
    sure[..., 0] = 1e4
    # p = (1, 0, 0): NCE is 0 for the first class, ½ for the others, RCE is 0 and −log 10⁻⁴
    for y, expected in enumerate([0.0, 0.5 + math.log(1e4), 0.5 + math.log(1e4)]):
        leaf = sure.clone().requires_grad_()
        loss = APL()._losses(leaf, torch.tensor([[0]]), torch.tensor([[y]]))
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        assert float(loss.detach()) == pytest.approx(expected)
        assert torch.isfinite(gradient).all()


def test_its_defaults_and_what_it_refuses(communities: Data) -> None:
    assert (APL().active, APL().passive) == (1.0, 1.0)
    with pytest.raises(EraseError, match="Correct passive of APL"):
        APL(passive=-1.0).fit(communities)
    with pytest.raises(EraseError, match="Correct active of APL"):
        APL(active=-1.0).fit(communities)
