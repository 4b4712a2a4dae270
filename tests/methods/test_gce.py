"""Generalised cross-entropy against its formula, node by node, and its two limits."""

import math

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from conftest import random_logits
from erase.errors import EraseError
from erase.methods.gce import GCE
from erase.training.loop import mean_cross_entropy


def by_hand(q: float, logits: Tensor, nodes: Tensor, classes: Tensor) -> list[float]:
    losses = []
    for run in range(len(logits)):
        terms = []
        for node, y in zip(nodes[run].tolist(), classes[run].tolist(), strict=True):
            exponentials = [math.exp(value) for value in logits[run, node].tolist()]
            terms.append((1 - (exponentials[y] / sum(exponentials)) ** q) / q)
        losses.append(sum(terms) / len(terms))
    return losses


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("q", [0.05, 0.7, 1.0])
def test_the_loss_is_the_formula(classes: int, scale: float, q: float) -> None:
    inputs = random_logits(classes, scale)
    expected = by_hand(q, *inputs)
    assert GCE(q=q)._losses(*inputs).tolist() == pytest.approx(expected, rel=1e-12)
    logits, nodes, given = inputs
    single = GCE(q=q)._losses(logits.float(), nodes, given)
    assert single.tolist() == pytest.approx(expected, rel=1e-4)


def test_gradients_are_those_of_the_formula_and_finite_where_p_vanishes() -> None:
    logits, nodes, classes = random_logits(3, 2.0)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: GCE()._losses(x, nodes, classes), [logits])
    sure = torch.full((1, 1, 3), -1e4)
    sure[..., 0] = 1e4
    for y in range(3):
        leaf = sure.clone().requires_grad_()
        loss = GCE()._losses(leaf, torch.tensor([[0]]), torch.tensor([[y]]))
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        assert float(loss.detach()) == pytest.approx(0 if y == 0 else 1 / 0.7)
        assert torch.isfinite(gradient).all()


def test_its_limits_are_cross_entropy_and_absolute_error() -> None:
    inputs = random_logits(4, 2.0)
    torch.testing.assert_close(
        GCE(q=1e-9)._losses(*inputs), mean_cross_entropy(*inputs), rtol=1e-6, atol=0
    )
    logits, nodes, classes = inputs
    proba = logits.softmax(2)
    wrong = [1 - proba[r, nodes[r], classes[r]].mean() for r in range(2)]
    torch.testing.assert_close(GCE(q=1.0)._losses(*inputs), torch.stack(wrong))


def test_its_default_and_what_it_refuses(communities: Data) -> None:
    assert GCE().q == 0.7
    for q in (0, -0.1, 1.1):
        with pytest.raises(EraseError, match="Correct q of GCE"):
            GCE(q=q).fit(communities)
    traces = [
        [h["loss"] for h in GCE(q=q, hidden=8, heads=2, epochs=3, device="cpu").fit(g).history_]
        for q, g in ((0.7, communities), (0.3, communities))
    ]
    assert traces[0] != traces[1]
