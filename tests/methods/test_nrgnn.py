"""NRGNN: candidates by brute force, losses by loops, epochs and predictions on dense graphs."""

from copy import deepcopy
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn.functional import normalize, relu
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods.nrgnn import (
    NRGNN,
    _NRGNNLearner,
    extended_loss,
    nearest_without_label,
    pseudo_labels,
)
from erase.nn import neighbours
from erase.random import torch_stream
from graphs import LargestTensor, dense_adjacency, two_communities

SMALL: dict[str, Any] = {"hidden": 8, "predictor": 6, "device": "cpu"}


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def noisy(communities: Data) -> Data:
    return corrupt(communities, "symmetric", 0.3, seed=1)


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=2, max_size=12),
    st.data(),
    st.integers(1, 5),
    st.booleans(),
)
def test_candidates_are_the_nearest_nodes_without_a_label(
    rows: list[list[int]], data: st.DataObject, nearest: int, sparse: bool
) -> None:
    n, x = len(rows), torch.tensor(rows, dtype=torch.float32)
    mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    found = nearest_without_label(x.to_sparse_csr() if sparse else x, torch.tensor(mask), nearest)
    unit = normalize(x.double(), dim=1)
    cosines = (unit @ unit.T).round(decimals=12).tolist()
    without = [j for j in range(n) if not mask[j]]
    count = max(min(nearest, len(without) - 1), 0)
    expected = []
    for i in range(n):
        others = sorted((j for j in without if j != i), key=lambda j: (-cosines[i][j], j))
        expected += [[i, j] for j in others[:count]]
    assert found.T.tolist() == expected


def test_pseudo_labels_are_certain_predictions_of_unlabelled_nodes() -> None:
    proba = torch.tensor([[[0.9, 0.1], [0.1, 0.9], [0.75, 0.25], [0.05, 0.95]]])
    labelled = torch.tensor([[True, False, False, False]])
    pseudo, named = pseudo_labels(proba.log(), labelled, 0.8)
    assert pseudo.tolist() == [[False, True, False, True]]
    assert named.tolist() == [[0, 1, 0, 1]]
    assert not pseudo_labels(proba.log(), labelled, 1.0)[0].any()


def test_the_extended_loss_is_the_mean_over_its_nodes() -> None:
    logits = doubles(2, 5, 3).requires_grad_()
    classes = torch.tensor([[0, 1, 2, 0, 1], [2, 2, 1, 0, 0]])
    used = torch.tensor([[True, False, True, True, False], [False] * 5])
    found = extended_loss(logits, classes, used)
    log_p = logits.log_softmax(2)
    expected = -(log_p[0, 0, 0] + log_p[0, 2, 2] + log_p[0, 3, 0]) / 3
    torch.testing.assert_close(found, torch.stack([expected, torch.zeros_like(expected)]))
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    assert not gradient[0, 1].any()
    assert not gradient[1].any()


def test_the_defaults() -> None:
    assert NRGNN().get_params() == {
        "nearest": 50,
        "min_weight": 0.1,
        "negatives": 50,
        "predictor": 64,
        "certainty": 0.8,
        "edges": 0.03,
        "miner": 1.0,
        "encoder": "gcn",
        "hidden": 128,
        "heads": 8,
        "dropout": 0.5,
        "lr": 3e-3,
        "weight_decay": 5e-4,
        "epochs": 200,
        "patience": 150,
        "batch_size": 0,
        "num_neighbors": (15, 10),
        "seed": 0,
        "device": "auto",
    }


def test_epochs_are_adam_steps_on_dense_graphs(noisy: Data) -> None:
    """Predictor, miner and classifier written out with matrices [N, N], and one Adam."""
    task, epochs, certainty = NodeTask.from_data(noisy), 5, 0.52
    method = NRGNN(
        **SMALL,
        dropout=0.3,
        lr=0.02,
        weight_decay=0.1,
        epochs=epochs,
        nearest=5,
        certainty=certainty,
        edges=0.4,
        miner=0.7,
        negatives=10**6,
    )
    learner = _NRGNNLearner(method, [task], [3])
    twin: Any = deepcopy(learner.network)
    adam = torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1)
    stream = torch_stream(3, "dropout")
    n, labelled, y = task.num_nodes, task.train_mask, task.y
    adjacency = dense_adjacency(task.edge_index, n).float()
    near, far = nearest_without_label(task.x, labelled, 5)
    candidate = torch.zeros(n, n, dtype=torch.bool)
    candidate[near, far] = True

    def convolve(matrix: Tensor, h: Tensor, layer: Any) -> Tensor:
        matrix = matrix + torch.eye(n)
        scale = torch.diag(matrix.sum(1) ** -0.5)
        out: Tensor = scale @ matrix @ scale @ h @ layer.weight[0] + layer.bias[0]
        return out

    def joined(dots: Tensor, sources: Tensor) -> Tensor:
        """Return A with the candidates of `sources`, both ways."""
        own = candidate & sources[:, None]
        extra = (own | own.T) & (adjacency == 0) & (dots >= 0.1)
        return adjacency + torch.where(extra, dots, 0.0)

    def forward(training: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        def x() -> Tensor:
            kept = torch.empty(task.x.shape).bernoulli_(0.7, generator=stream) / 0.7
            return task.x * kept if training else task.x

        h = relu(convolve(adjacency, x(), twin["predictor"].first))
        h = normalize(convolve(adjacency, h, twin["predictor"].second))
        dots = h @ h.T
        matrix = joined(dots, labelled)
        hidden = relu(convolve(matrix, x(), twin["miner"].first))
        mined = convolve(matrix, hidden, twin["miner"].second).softmax(1)
        pseudo = ~labelled & (mined.amax(1) > certainty)
        matrix = joined(dots, labelled | pseudo)
        hidden = relu(convolve(matrix, x(), twin["classifier"].first))
        p = convolve(matrix, hidden, twin["classifier"].second).softmax(1)
        return dots, mined, pseudo, hidden, p

    seen = 0
    for _ in range(epochs):
        dots, mined, pseudo, _, p = forward(training=True)
        seen += int(pseudo.sum())
        apart = (adjacency == 0) & ~torch.eye(n, dtype=torch.bool)
        costs = (dots**2)[apart].sum() + ((1 - dots) ** 2)[adjacency > 0].sum()
        loss = 0.4 * costs * n / (n * n - n)
        for i in labelled.nonzero().flatten().tolist():
            loss = loss - 0.7 * mined[i, y[i]].log() / labelled.sum()
        classes = torch.where(labelled, y, mined.argmax(1))
        used = (labelled | pseudo).nonzero().flatten().tolist()
        for i in used:
            loss = loss - p[i, classes[i]].log() / len(used)
        adam.zero_grad()
        loss.backward()
        adam.step()
        torch.testing.assert_close(learner.step()["loss"], loss.detach()[None], rtol=1e-4, atol=0)
    assert 0 < seen < epochs * int((~labelled).sum())
    for name, parameter in twin.named_parameters():
        ours = learner.network.get_parameter(name)
        torch.testing.assert_close(ours, parameter, rtol=1e-3, atol=1e-3)
    with torch.no_grad():
        twin.load_state_dict(learner.network.state_dict())
        _, _, pseudo, hidden, p = forward(training=False)
    outcome = learner.evaluate()
    assert bool(pseudo.any())
    torch.testing.assert_close(outcome.proba, p[None], rtol=0, atol=1e-4)
    torch.testing.assert_close(outcome.embedding, hidden[None], rtol=0, atol=1e-4)
    assert torch.equal(outcome.labels, outcome.proba.argmax(2))


@pytest.mark.parametrize(
    "change",
    [
        {"nearest": 3},
        {"min_weight": 0.95},
        {"negatives": 1},
        {"predictor": 5},
        {"certainty": 0.9},
        {"edges": 1.0},
        {"miner": 0.1},
        {"dropout": 0.0},
    ],
    ids=str,
)
def test_every_option_changes_the_result(noisy: Data, change: dict[str, Any]) -> None:
    settings = SMALL | {"epochs": 12, "lr": 0.05, "certainty": 0.6}
    first = NRGNN(**settings).fit(noisy)
    other = NRGNN(**settings | change).fit(noisy)
    assert first.history_[-1]["classified"] != other.history_[-1]["classified"]


def test_runs_with_other_training_nodes_equal_their_single_fits(noisy: Data) -> None:
    """Each run has candidates of its own, and numbers of links that differ."""
    other = noisy.clone()
    order = torch.randperm(noisy.num_nodes, generator=torch.Generator().manual_seed(0))
    other.y = two_communities().y
    other.train_mask, other.val_mask = noisy.train_mask[order], noisy.val_mask[order]
    graphs, seeds = [noisy, other, noisy], [4, 0, 1]
    method = NRGNN(**SMALL, epochs=6, lr=0.02, nearest=7, certainty=0.55)
    for model, graph, seed in zip(method.fit_many(graphs, seeds), graphs, seeds, strict=True):
        alone = NRGNN(**method.get_params() | {"seed": seed}).fit(graph)
        assert [h["loss"] for h in model.history_] == pytest.approx(
            [h["loss"] for h in alone.history_], rel=1e-3
        )
        torch.testing.assert_close(
            torch.tensor(model.predict_proba()),
            torch.tensor(alone.predict_proba()),
            rtol=1e-3,
            atol=1e-3,
        )


@pytest.mark.parametrize("sparse", [False, True])
def test_no_tensor_is_as_large_as_all_pairs(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_COSINES_AT_ONCE", 2**16)
    data = two_communities(size=1000)
    data.x = data.x.to_sparse_csr() if sparse else data.x
    data.train_mask = torch.arange(2000) < 1000
    with LargestTensor() as largest:
        NRGNN(**SMALL, epochs=1, nearest=20).fit(data)
    assert 2000 < largest.numbers < 2000**2 / 10


def test_in_a_sample_labelled_nodes_are_those_of_the_graph(noisy: Data) -> None:
    """Labels outside the batch give candidates, and no pseudo-label; the loss has the batch's."""
    task = NodeTask.from_data(noisy)
    method = NRGNN(**SMALL, batch_size=8, num_neighbors=(3, 2), nearest=4, certainty=0.0)
    learner = _NRGNNLearner(method, [task], [0])
    for batch in learner.data.batches():
        labelled = task.train_mask[batch.nodes]
        links = learner._links_of(batch)
        assert not labelled[links.pattern.indices][links.of_row].any()
        assert bool(labelled[links.pattern.rows][links.of_row].any())
        watched = learner.losses(batch)
        assert float(watched["pseudo_labels"]) == float((~labelled).sum())
