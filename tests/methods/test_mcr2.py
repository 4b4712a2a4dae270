"""MCR²: its objective on the training rows alone, by determinants; its sphere; its head."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import relu
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods.mcr2 import MCR2, _MCR2Learner
from erase.random import torch_stream
from erase.training.graphs import WholeGraph
from graphs import two_communities

SMALL: dict[str, Any] = {"hidden": 16, "heads": 2, "width": 12, "device": "cpu"}


@pytest.fixture(scope="module")
def noisy() -> Data:
    return corrupt(two_communities(size=30, classes=3), "symmetric", 0.3, seed=1, on="train+val")


def reduction(z: Tensor, y: Tensor, eps2: float, gamma: float) -> Tensor:
    """γ R − R^C of rows z [n, d] by determinants, class by class."""
    n, d = z.shape
    eye = torch.eye(d, dtype=z.dtype)
    total = gamma / 2 * torch.logdet(eye + d / (n * eps2) * z.T @ z)
    for k in y.unique():
        own = z[y == k]
        total = total - len(own) / (2 * n) * torch.logdet(eye + d / (len(own) * eps2) * own.T @ own)
    return total


@pytest.mark.parametrize(("eps2", "gamma"), [(0.5, 1.0), (0.1, 2.0)])
def test_an_epoch_climbs_the_rate_reduction_of_the_training_rows(
    noisy: Data, eps2: float, gamma: float
) -> None:
    task = NodeTask.from_data(noisy)
    method = MCR2(**SMALL, eps2=eps2, gamma=gamma, output="l2", lr=0.02, weight_decay=0.1)
    learner = _MCR2Learner(method, [task], [3])
    assert isinstance(learner.data, WholeGraph)
    twin, stream = deepcopy(learner.encoder), torch_stream(3, "dropout")
    adam = torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1)
    train = task.train_mask
    for _ in range(3):
        x = learner.data.x.dropout(0.5, [stream])
        (h,) = twin.second(relu(twin.first(x, learner.graph)), learner.graph)
        z = (h / h.norm(dim=1, keepdim=True))[train].double()
        loss = -reduction(z, task.y[train], eps2, gamma)
        adam.zero_grad()
        loss.backward()
        adam.step()
        record = learner.step()
        assert float(record["loss"]) == pytest.approx(float(loss.detach()), rel=1e-4)
        assert float(record["loss"]) == pytest.approx(
            float(record["class_rate"] - gamma * record["rate"]), rel=1e-4
        )
    for name, parameter in twin.named_parameters():
        ours = learner.encoder.get_parameter(name)
        torch.testing.assert_close(ours, parameter, rtol=1e-2, atol=1e-4)


def test_rows_lie_on_the_sphere_and_the_head_learns_the_given_labels(noisy: Data) -> None:
    task = NodeTask.from_data(noisy)
    learner = _MCR2Learner(MCR2(**SMALL, output="l2", lr=0.01), [task], [0])
    for _ in range(3):
        learner.step()
    outcome = learner.evaluate()
    (z,), (proba,), train = outcome.embedding, outcome.proba, task.train_mask
    torch.testing.assert_close(z.norm(dim=1), torch.ones(task.num_nodes))
    assert bool((z < 0).any())
    head = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(z[train], task.y[train])
    np.testing.assert_allclose(proba, head.predict_proba(z.numpy()), atol=1e-3)
    assert torch.equal(outcome.labels[0], proba.argmax(1))


def test_the_defaults_are_the_originals_and_each_matters(noisy: Data) -> None:
    default = MCR2()
    settings = (default.eps2, default.gamma, default.width, default.output)
    assert settings == (0.5, 1.0, 512, "l1-relu")
    base = SMALL | {"epochs": 2}

    def trace(**changes: Any) -> list[float]:
        return [h["loss"] for h in MCR2(**(base | changes)).fit(noisy).history_]

    changes: list[dict[str, Any]] = [{"eps2": 0.4}, {"gamma": 1.1}, {"width": 8}]
    changes += [{"output": "l2-relu"}, {"output": "l2"}]
    for change in changes:
        assert trace(**change) != trace()


def test_a_tiny_tolerance_needs_a_look_at_the_rows(noisy: Data) -> None:
    task = NodeTask.from_data(noisy)
    learners = [_MCR2Learner(MCR2(**SMALL, eps2=eps2), [task], [0]) for eps2 in (0.5, 1e-8)]
    assert [learner.waits for learner in learners] == [False, True]
