"""Co-Dis: its loss and its choice by loops, and whole epochs with two networks and two Adams."""

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods.codis import CoDis, _CoDisLearner, disagreeing_losses, mean_of_smallest
from erase.random import torch_stream
from erase.training.graphs import WholeGraph
from graphs import random_logits, two_communities

SMALL: dict[str, Any] = {"hidden": 16, "heads": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def noisy() -> Data:
    return corrupt(two_communities(size=30, classes=3), "symmetric", 0.3, seed=1, on="train+val")


def loss_by_hand(p: list[float], peer: list[float], y: int, weight: float) -> float:
    divergence = 0.0
    for a, b in zip(p, peer, strict=True):
        m = (a + b) / 2
        divergence += 0.5 * (m * math.log(m / a) + m * math.log(m / b))
    return -math.log(p[y]) - weight * divergence


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("weight", [0.0, 0.15, 1.0])
def test_the_loss_is_the_formula(classes: int, scale: float, weight: float) -> None:
    logits, _, given = random_logits(classes, scale)
    own, peer = logits[:, :6].log_softmax(2), logits[:, 3:].log_softmax(2)
    losses = disagreeing_losses(own, peer, given, weight)
    for r in range(2):
        for i in range(6):
            p, q = own[r, i].exp().tolist(), peer[r, i].exp().tolist()
            expected = loss_by_hand(p, q, int(given[r, i]), weight)
            assert float(losses[r, i]) == pytest.approx(expected, rel=1e-9)
    single = disagreeing_losses(own.float(), peer.float(), given, weight)
    torch.testing.assert_close(single.double(), losses, rtol=1e-4, atol=1e-5)


def test_gradients_reach_the_own_network_only_and_are_finite() -> None:
    logits, _, given = random_logits(4, 2.0)
    own, peer = logits[:, :6].clone().requires_grad_(), logits[:, 3:].clone().requires_grad_()

    def losses(own: Tensor, peer: Tensor) -> Tensor:
        return disagreeing_losses(log_softmax(own, 2), log_softmax(peer, 2), given, 0.3)

    assert torch.autograd.gradcheck(lambda x: losses(x, peer.detach()), [own])
    losses(own, peer).sum().backward()
    assert own.grad is not None
    assert peer.grad is None
    sure = torch.full((1, 1, 3), -1e4)
    sure[..., 0] = 1e4
    leaf = sure.clone().requires_grad_()
    loss = disagreeing_losses(
        log_softmax(leaf, 2), log_softmax(-sure, 2), torch.tensor([[1]]), 0.15
    )
    loss.sum().backward()
    assert leaf.grad is not None
    assert torch.isfinite(loss).all()
    assert torch.isfinite(leaf.grad).all()


def mean_of_chosen(losses: Tensor, peer: Tensor, count: int) -> Tensor:
    """The mean over the `count` nodes with the smallest peer loss, chosen by numpy."""
    order = np.argsort(peer.detach().numpy(), kind="stable")[:count]
    return losses[order.tolist()].sum() / count


def test_the_smallest_losses_of_the_peer_are_chosen_in_every_run() -> None:
    generator = torch.Generator().manual_seed(0)
    losses = torch.rand(4, 10, generator=generator)
    peer = torch.randint(4, (4, 10), generator=generator) / 4  # with ties: the first ones win
    counts = [1, 4, 9, 10]
    means = mean_of_smallest(losses, peer, torch.tensor(counts))
    expected = [mean_of_chosen(losses[r], peer[r], count) for r, count in enumerate(counts)]
    torch.testing.assert_close(means, torch.stack(expected))
    assert float(means[3]) == pytest.approx(float(losses[3].mean()))


def test_nodes_with_a_trusted_label_are_always_chosen() -> None:
    losses = torch.tensor([[1.0, 2.0, 4.0, 8.0]]).repeat(2, 1)
    peer = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).repeat(2, 1)
    always = torch.tensor([[False, False, False, True], [False, True, True, True]])
    means = mean_of_smallest(losses, peer, torch.tensor([2, 1]), always)
    torch.testing.assert_close(means, torch.tensor([(8 + 1) / 2, (2 + 4 + 8) / 3]))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_epochs_are_two_networks_that_choose_for_each_other(noisy: Data, dropout: float) -> None:
    task = NodeTask.from_data(noisy)
    changes: dict[str, Any] = {"noise_rate": 0.5, "disagreement": 0.3, "warm_up": 3}
    method = CoDis(**SMALL, **changes, dropout=dropout, lr=0.02, weight_decay=0.1)
    learner = _CoDisLearner(method, [task], [3])
    assert isinstance(learner.data, WholeGraph)
    twins = deepcopy(learner.encoders)
    adams = [torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1) for twin in twins]
    streams = [torch_stream(3, purpose) for purpose in ("dropout", "peer dropout")]
    train, y = task.train_mask, task.y[task.train_mask]
    for epoch in range(6):
        logits = [
            twin(learner.data.x, learner.graph, [stream])[0, train]
            for twin, stream in zip(twins, streams, strict=True)
        ]
        count = round(len(y) * (1 - 0.5 * min(epoch / 3, 1)))
        losses = []
        for own, peer in (logits, logits[::-1]):
            p, q = own.softmax(1), peer.detach().softmax(1)
            m = (p + q) / 2
            js = 0.5 * ((m * (m / p).log()).sum(1) + (m * (m / q).log()).sum(1))
            losses.append(cross_entropy(own, y, reduction="none") - 0.3 * js)
        chosen = [mean_of_chosen(losses[i], losses[1 - i], count) for i in (0, 1)]
        for adam, loss in zip(adams, chosen, strict=True):
            adam.zero_grad()
            loss.backward(retain_graph=True)
            adam.step()
        record = learner.step()
        assert float(record["loss"]) == pytest.approx(float((chosen[0] + chosen[1]).detach()))
        assert float(record["kept"]) == pytest.approx(count / len(y))
    for twin, ours in zip(twins, learner.encoders, strict=True):
        for name, parameter in twin.named_parameters():
            torch.testing.assert_close(ours.get_parameter(name), parameter, rtol=1e-4, atol=1e-5)
    outcome = learner.evaluate()
    with torch.no_grad():
        proba = sum(twin(learner.data.x, learner.graph).softmax(2) for twin in twins) / 2
        hidden = [twin.hidden(learner.data.x, learner.graph) for twin in twins]
    torch.testing.assert_close(outcome.proba, proba, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outcome.embedding, torch.cat(hidden, 2), rtol=1e-4, atol=1e-4)
    assert torch.equal(outcome.labels, outcome.proba.argmax(2))


def test_the_networks_differ_in_weights_and_dropout(noisy: Data) -> None:
    task = NodeTask.from_data(noisy)
    learner = _CoDisLearner(CoDis(**SMALL), [task, task], [3, 5])
    own, peer = learner.encoders
    assert not torch.equal(own.get_parameter("first.weight"), peer.get_parameter("first.weight"))
    assert len(learner.streams) == 4
    states = {s.get_state().numpy().tobytes() for s in learner.streams.values()}
    assert len(states) == 4
    assert {f"{n}.first.weight" for n in ("own", "peer")} < set(learner.network.state_dict())


def test_a_state_put_back_continues_the_warm_up(noisy: Data) -> None:
    task = NodeTask.from_data(noisy)
    method = CoDis(**SMALL, noise_rate=0.4)
    learner, other = (_CoDisLearner(method, [task], [0]) for _ in range(2))
    for _ in range(4):
        learner.step()
    other.restore(learner.state())
    assert float(other.step()["kept"]) == float(learner.step()["kept"]) < 0.9


def test_the_share_falls_to_the_noise_rate_and_stays(noisy: Data) -> None:
    model = CoDis(**SMALL, noise_rate=0.2, epochs=13, patience=99).fit(noisy)
    kept = [h["kept"] for h in model.history_]
    n = int(NodeTask.from_data(noisy).train_mask.sum())
    expected = [round(n * (1 - 0.02 * min(e, 10))) / n for e in range(13)]
    assert kept == pytest.approx(expected)
    all_wrong = CoDis(**SMALL, noise_rate=1.0, epochs=12, patience=99).fit(noisy)
    assert all_wrong.history_[-1]["kept"] == pytest.approx(1 / n)


@pytest.mark.parametrize(
    "change", [{"noise_rate": 0.5}, {"disagreement": 0.5}, {"warm_up": 2}], ids=str
)
def test_every_parameter_changes_the_training(noisy: Data, change: dict[str, Any]) -> None:
    base = SMALL | {"epochs": 4}

    def trace(params: dict[str, Any]) -> list[float]:
        return [h["loss"] for h in CoDis(**params).fit(noisy).history_]

    assert trace(base | change) != trace(base)
    assert (CoDis().noise_rate, CoDis().disagreement, CoDis().warm_up) == (0.3, 0.15, 10)
