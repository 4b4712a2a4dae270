"""RT-GNN: candidates by brute force, losses against loops in float64, epochs on dense graphs."""

import math
import subprocess
import sys
from copy import deepcopy
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn.functional import normalize, one_hot, relu
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods import rtgnn
from erase.methods.rtgnn import (
    RTGNN,
    Links,
    _RTGNNLearner,
    disagreement,
    labelled_loss,
    likeness,
    link_weights,
    nearest_unlabelled,
    neighbour_divergence,
    normalised_weights,
    pseudo_loss,
    reconstruction_loss,
)
from erase.nn import neighbours
from erase.nn.sparse import Graph
from erase.random import torch_stream
from graphs import LargestTensor, dense_adjacency, edge_lists, two_communities
from tf32 import on_a_gpu_that_may_round

SMALL: dict[str, Any] = {"hidden": 8, "predictor": 6, "device": "cpu"}
LINKED = st.tuples(edge_lists(max_nodes=8), st.integers(0, 99))


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def links_of(graph: tuple[Tensor, int], seed: int, runs: int = 2) -> tuple[Links, list[Tensor]]:
    """Return random candidates of each run in a graph, and the dense [N, N] matrices of them."""
    edge_index, n = graph
    random = torch.Generator().manual_seed(seed)
    candidates, matrices = [], []
    for _ in range(runs):
        labelled = torch.rand(n, generator=random) < 0.4
        chosen = labelled[:, None] & ~labelled & (torch.rand(n, n, generator=random) < 0.5)
        candidates.append(chosen.nonzero().T)
        matrices.append(chosen | chosen.T)
    return Links.of(Graph(edge_index, n), candidates), matrices


def dense(links: Links, values: Tensor) -> Tensor:
    """Return `values` [L] as matrices [R, N, N]."""
    n = links.graph.num_nodes
    whole = links.pattern.matrix(values).to_dense()
    return torch.stack([whole[r * n : r * n + n, r * n : r * n + n] for r in range(links.runs)])


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=2, max_size=12),
    st.data(),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([1, 30, 2**24]),
)
def test_candidates_are_those_of_brute_force(
    rows: list[list[int]], data: st.DataObject, nearest: int, sparse: bool, at_once: int
) -> None:
    n = len(rows)
    mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    x = torch.tensor(rows, dtype=torch.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_COSINES_AT_ONCE", at_once)
        found = nearest_unlabelled(x.to_sparse_csr() if sparse else x, torch.tensor(mask), nearest)
    labelled = [i for i in range(n) if mask[i]]
    others = [i for i in range(n) if not mask[i]]
    expected = []
    for i in labelled:
        cosine = {}
        for j in others:
            lengths = math.hypot(*rows[i]) * math.hypot(*rows[j])
            dot = sum(a * b for a, b in zip(rows[i], rows[j], strict=True))
            cosine[j] = round(dot / lengths, 12) if lengths else 0.0
        order = sorted(others, key=lambda j: (-cosine[j], j))
        expected += [[i, j] for j in order[: min(nearest, len(labelled))]]
    assert found.T.tolist() == expected


@given(LINKED)
def test_links_are_loops_edges_and_candidates_both_ways(drawn: tuple[Any, int]) -> None:
    (edge_index, n), seed = drawn
    links, candidates = links_of((edge_index, n), seed)
    adjacency = dense_adjacency(edge_index, n) > 0
    ones = torch.ones(links.loop.numel(), dtype=torch.float64)
    for run in range(2):
        there = adjacency | candidates[run] | torch.eye(n, dtype=torch.bool)
        assert torch.equal(dense(links, ones)[run] > 0, there)
        assert torch.equal(dense(links, links.edge.double())[run] > 0, adjacency)
        assert torch.equal(dense(links, links.loop.double())[run], torch.eye(n).double())
    torch.testing.assert_close(links.total(ones), dense(links, ones).sum((1, 2)), check_dtype=False)
    assert links.pattern.matrix(ones).to_dense().sum() == ones.sum()  # runs do not meet


@given(LINKED, st.sampled_from([0.0, 0.05, 0.6]))
def test_weighted_convolutions_equal_the_dense_ones(
    drawn: tuple[Any, int], min_weight: float
) -> None:
    """Values and gradients of D^-1/2 (A_w + I) D^-1/2 M for candidates weighed by ReLU(h·h)."""
    (edge_index, n), seed = drawn
    links, candidates = links_of((edge_index, n), seed)
    h = normalize(doubles(2, n, 2, seed=seed), dim=2).requires_grad_()
    messages = doubles(2, n, 3, seed=seed + 1).requires_grad_()
    weights = link_weights(links, likeness(links, h), min_weight)
    found = links.aggregate(normalised_weights(links, weights), messages)
    adjacency = dense_adjacency(edge_index, n)
    expected = []
    for run in range(2):
        dots = h[run] @ h[run].T
        kept = (candidates[run] & (adjacency == 0) & (dots >= min_weight) & (dots > 0)).double()
        matrix = adjacency + torch.eye(n) + dots * kept
        scale = torch.diag(matrix.sum(1) ** -0.5)
        expected.append(scale @ matrix @ scale @ messages[run])
    torch.testing.assert_close(found, torch.stack(expected))
    pull = doubles(2, n, 3, seed=seed + 2)
    for a, b in zip(
        torch.autograd.grad((found * pull).sum(), (h, messages)),
        torch.autograd.grad((torch.stack(expected) * pull).sum(), (h, messages)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def apart(edge_index: Tensor, n: int) -> list[tuple[int, int]]:
    edges = set(map(tuple, edge_index.T.tolist()))
    return [(i, j) for i in range(n) for j in range(n) if i != j and (i, j) not in edges]


@given(LINKED)
def test_reconstruction_with_all_pairs_equals_the_loops(drawn: tuple[Any, int]) -> None:
    (edge_index, n), seed = drawn
    links, _ = links_of((edge_index, n), seed)
    h = doubles(2, n, 3, seed=seed).requires_grad_()
    found = reconstruction_loss(links, likeness(links, h), h, negatives=10**6)
    pairs, edges = apart(edge_index, n), edge_index.T.tolist()
    expected = []
    for run in range(2):
        total = h.new_zeros(())
        for i, j in pairs:
            total = total + (h[run, i] @ h[run, j]) ** 2
        for i, j in edges:
            total = total + (1 - h[run, i] @ h[run, j]) ** 2
        expected.append(total * n / max(len(pairs) + len(edges), 1))
    torch.testing.assert_close(found, torch.stack(expected))
    if n > 1:
        (a,) = torch.autograd.grad(found.sum(), h)
        (b,) = torch.autograd.grad(torch.stack(expected).sum(), h)
        torch.testing.assert_close(a, b)


def test_reconstruction_is_the_mean_over_draws_of_negatives() -> None:
    task = NodeTask.from_data(two_communities(size=10))
    n, graph = task.num_nodes, Graph(task.edge_index, task.num_nodes)
    links = Links.of(graph, [torch.empty(2, 0, dtype=torch.int64)])
    h = doubles(1, n, 3)
    dots = h[0] @ h[0].T
    i, j = torch.tensor(apart(task.edge_index, n)).T
    negative, positive = dots[i, j] ** 2, ((1 - dots) ** 2)[tuple(task.edge_index)]
    random = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(2000):  # 3 negatives per node, without replacement
        chosen = torch.randperm(len(i), generator=random)[: 3 * n]
        total = negative[chosen].sum() + positive.sum()
        losses.append(total * n / (3 * n + task.num_edges))
    drawn = torch.stack(losses)
    found = reconstruction_loss(links, likeness(links, h), h, negatives=3)
    assert float(found) == pytest.approx(
        float(drawn.mean()), abs=5 * float(drawn.std()) / 2000**0.5
    )


def weights_and_targets(
    p: Tensor, given: list[int], progress: float, forget: float
) -> tuple[list[float], list[int]]:
    """Return the weight and the class of each labelled node from p [2, n, K], node by node."""
    _, n, classes = p.shape
    losses = [-math.log(p[0, i, given[i]]) - math.log(p[1, i, given[i]]) for i in range(n)]
    below = sum(loss < sum(losses) / n for loss in losses) / n
    kept = math.floor(max(1 - forget * progress, below) * n + 1e-9)
    believed = sorted(range(n), key=lambda i: losses[i])[:kept]
    weights, targets = [1.0] * n, list(given)
    for i in set(range(n)) - set(believed):
        first, second = int(p[0, i].argmax()), int(p[1, i].argmax())
        sure = float(p[0, i, first] * p[1, i, second])
        weights[i] = 0.1
        if first == second != given[i] and sure > 1 - (1 - min(0.5, 1 / classes)) * progress:
            weights[i], targets[i] = sure ** (0.5 - 0.5 * progress), first
    return weights, targets


@given(
    st.integers(0, 999),
    st.integers(1, 12),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.005, 0.3, 0.5, 0.9, 0.995]),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([1.0, 4.0]),
)
def test_the_labelled_loss_equals_the_loops(
    seed: int, n: int, classes: int, progress: float, forget: float, scale: float
) -> None:
    """In value and gradient: weights, choices and corrected classes are held fixed."""
    alike = scale * doubles(2, n, classes, seed=seed + 1)
    logits = (scale / 2 * doubles(2, 2, n, classes, seed=seed) + alike).requires_grad_()
    given = torch.randint(classes, (2, n), generator=torch.Generator().manual_seed(seed))
    now = torch.full((2,), progress, dtype=torch.float64)
    found = labelled_loss(logits.log_softmax(3), given, now, forget=forget, doubted=0.1)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    p = logits.detach().softmax(3)
    for run in range(2):
        weights, targets = weights_and_targets(p[:, run], given[run].tolist(), progress, forget)
        loss = 0.0
        for i in range(n):
            for net in range(2):
                loss -= weights[i] * math.log(p[net, run, i, targets[i]]) / n
                pull = weights[i] * (p[net, run, i] - torch.eye(classes)[targets[i]]) / n
                torch.testing.assert_close(gradient[net, run, i], pull)
        assert found[run].item() == pytest.approx(loss)


def test_the_labelled_loss_by_hand() -> None:
    """Half way, four of six losses lie below the mean: 4 are kept, more than ½ · 6."""
    sure = [0.9, 0.1]
    p = torch.tensor([sure, sure, sure, sure, [0.1, 0.9], [0.5, 0.5]], dtype=torch.float64)
    log_p = torch.stack([p, p])[:, None].log()
    given = torch.tensor([[0, 0, 0, 0, 0, 1]])
    now = torch.tensor([0.5], dtype=torch.float64)
    found = labelled_loss(log_p, given, now, forget=1.0, doubted=0.1)
    # the fifth is labelled 0, both predict 1 with 0.81 > 1 − ½ · ½: it gets 1 with weight 0.81^¼;
    # the sixth, where both are uncertain, is doubted
    cheap = -2 * math.log(0.9)
    expected = (4 * cheap + 0.81**0.25 * cheap + 0.1 * 2 * math.log(2)) / 6
    assert float(found) == pytest.approx(expected)


def test_a_trusted_label_is_neither_corrected_nor_doubted() -> None:
    p = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.2, 0.8]], dtype=torch.float64)
    log_p = torch.stack([p, p])[:, None].log()
    given, now = torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, dtype=torch.float64)
    trusted = torch.tensor([[False, True, False]])
    found = labelled_loss(log_p, given, now, forget=1.0, doubted=0.1, trusted=trusted)
    # without trust the second would get class 1, as the third does: p1·p2 > ½
    expected = -2 * (math.log(0.9) + math.log(0.1) + math.log(0.8)) / 3
    assert float(found) == pytest.approx(expected)


def test_the_share_of_kept_labels_is_counted_exactly() -> None:
    """In epoch 136 of 200, 1 − ½ · 0.68 of 50 labels are 33, though floating point says less."""
    assert 50 * (1 - 0.5 * (136 / 200)) < 33
    p = torch.cat([torch.full((20,), 0.99), torch.linspace(0.6, 0.51, 30)]).double()
    log_p = torch.stack([p, 1 - p], 1).log().expand(2, 1, 50, 2)
    now = torch.tensor([136 / 200], dtype=torch.float64)
    given = torch.zeros(1, 50, dtype=torch.int64)
    found = labelled_loss(log_p, given, now, forget=0.5, doubted=0.0)
    torch.testing.assert_close(found, -2 * p.log()[None, :33].sum(1) / 50)


def test_the_first_epoch_is_plain_cross_entropy() -> None:
    log_p = doubles(2, 1, 9, 3).log_softmax(3)
    given = torch.arange(9)[None] % 3
    now = torch.zeros(1, dtype=torch.float64)
    found = labelled_loss(log_p, given, now, forget=1.0, doubted=0.0)
    plain = -(log_p * one_hot(given, 3)).sum((0, 3)).mean(1)
    torch.testing.assert_close(found, plain)


@given(st.integers(0, 99), st.sampled_from([0.0, 0.5, 0.8, 0.95]))
def test_the_pseudo_loss_equals_the_loops(seed: int, certainty: float) -> None:
    p = (6 * doubles(1, 2, 10, 3, seed=seed) + doubles(2, 2, 10, 3, seed=seed + 1)).softmax(3)
    unlabelled = doubles(2, 10, seed=seed) > 0
    found = pseudo_loss(p.log(), unlabelled, certainty)
    for run in range(2):
        losses = []
        for i in range(10):
            first, second = int(p[0, run, i].argmax()), int(p[1, run, i].argmax())
            both = float(p[0, run, i, first] * p[1, run, i, second])
            if unlabelled[run, i] and first == second and both > certainty**2:
                losses.append(-math.log(both))
        assert float(found[run]) == pytest.approx(sum(losses) / max(len(losses), 1))


def test_disagreement_is_the_symmetric_divergence_of_all_nodes() -> None:
    p = doubles(2, 3, 5, 4).softmax(3)
    for run, found in enumerate(disagreement(p.log()).tolist()):
        total = 0.0
        for i in range(5):
            for a, b in ((p[0, run, i], p[1, run, i]), (p[1, run, i], p[0, run, i])):
                total += sum(
                    x * math.log(x / y) for x, y in zip(a.tolist(), b.tolist(), strict=True)
                )
        assert found == pytest.approx(total / 5)


@given(LINKED)
def test_neighbour_divergence_equals_the_loops(drawn: tuple[Any, int]) -> None:
    (edge_index, n), seed = drawn
    links, _ = links_of((edge_index, n), seed)
    weights = doubles(links.loop.numel(), seed=seed).abs().requires_grad_()
    logits = doubles(2, 2, n, 3, seed=seed + 1).requires_grad_()
    labelled = torch.randint(n, (2, 3), generator=torch.Generator().manual_seed(seed))
    found = neighbour_divergence(links, weights, logits.log_softmax(3), labelled)
    matrices = dense(links, weights.detach())
    p, fixed = logits.softmax(3), logits.detach().softmax(3)
    expected = []
    for run in range(2):
        total = logits.new_zeros(())
        for i in labelled[run].tolist():
            others = [j for j in range(n) if j != i and matrices[run, i, j] > 0]
            scale = sum(float(matrices[run, i, j]) for j in others)
            for j in others:
                for net in range(2):
                    q = fixed[net, run, j]
                    divergence = (q * (q.log() - p[net, run, i].log())).sum()
                    total = total + matrices[run, i, j] / scale * divergence
        expected.append(total / 3)
    torch.testing.assert_close(found, torch.stack(expected))
    if links.pattern.indices.numel() > 2 * n and torch.stack(expected).requires_grad:
        (a,) = torch.autograd.grad(found.sum(), logits)
        (b,) = torch.autograd.grad(torch.stack(expected).sum(), logits, allow_unused=True)
        torch.testing.assert_close(a, b if b is not None else torch.zeros_like(a))


@pytest.fixture
def noisy(communities: Data) -> Data:
    return corrupt(communities, "symmetric", 0.3, seed=1)


def test_the_defaults() -> None:
    assert RTGNN().get_params() == {
        "nearest": 100,
        "min_weight": 0.05,
        "negatives": 100,
        "predictor": 64,
        "forget": 0.5,
        "doubted": 0.1,
        "certainty": 0.95,
        "consistency": 0.1,
        "encoder": "gcn",
        "hidden": 128,
        "heads": 8,
        "dropout": 0.5,
        "lr": 1e-3,
        "weight_decay": 5e-4,
        "epochs": 200,
        "patience": 150,
        "batch_size": 0,
        "num_neighbors": (15, 10),
        "seed": 0,
        "device": "auto",
    }


def test_epochs_are_adam_steps_on_dense_graphs(noisy: Data) -> None:
    """The predictor and both classifiers written out with matrices [N, N], and one Adam."""
    task, epochs = NodeTask.from_data(noisy), 4
    method = RTGNN(
        **SMALL, dropout=0.3, lr=0.02, weight_decay=0.1, epochs=epochs, nearest=5, certainty=0.5
    )
    learner = _RTGNNLearner(method, [task], [3])
    twin = deepcopy(learner.network)
    assert isinstance(twin, torch.nn.ModuleDict)
    adam = torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1)
    stream = torch_stream(3, "dropout")
    n, labelled = task.num_nodes, task.train_mask
    adjacency = dense_adjacency(task.edge_index, n).float()
    near, far = nearest_unlabelled(task.x, labelled, 5)
    candidate = torch.zeros(n, n)
    candidate[near, far] = candidate[far, near] = 1.0
    candidate *= adjacency == 0

    def convolve(matrix: Tensor, h: Tensor, layer: Any) -> Tensor:
        matrix = matrix + torch.eye(n)
        scale = torch.diag(matrix.sum(1) ** -0.5)
        out: Tensor = scale @ matrix @ scale @ h @ layer.weight[0] + layer.bias[0]
        return out

    def forward(training: bool) -> tuple[Tensor, list[Tensor], Tensor]:
        def x() -> Tensor:
            kept = torch.empty(task.x.shape).bernoulli_(0.7, generator=stream) / 0.7
            return task.x * kept if training else task.x

        predictor: Any = twin["predictor"]
        h = relu(convolve(adjacency, x(), predictor.first))
        dots = (h := normalize(convolve(adjacency, h, predictor.second))) @ h.T
        matrix = adjacency + candidate * relu(dots) * (dots >= 0.05)
        hiddens, logits = [], []
        for net in ("first", "second"):
            classifier: Any = twin[net]
            hiddens.append(relu(convolve(matrix, x(), classifier.first)))
            logits.append(convolve(matrix, hiddens[-1], classifier.second))
        pairs = apart(task.edge_index, n)
        i, j = torch.tensor(pairs).T
        share = min(100 * n, len(pairs)) / len(pairs)
        positive = ((1 - dots) ** 2)[adjacency > 0].sum()
        reconstruction = share * (dots[i, j] ** 2).sum() + positive
        reconstruction = reconstruction * n / (share * len(pairs) + task.num_edges)
        p = torch.stack(logits).softmax(2)
        others = matrix.detach() / matrix.detach().sum(1, keepdim=True).clamp(min=1e-12)
        q = p.detach()
        kl = (q[:, None] * (q[:, None].log() - p[:, :, None].log())).sum(3)  # [2, i, j]
        divergence = (others * kl).sum((0, 2))[labelled].mean()
        return torch.stack([reconstruction, divergence]), hiddens, torch.stack(logits)

    for epoch in range(epochs):
        parts, _, logits = forward(training=True)
        log_p = logits.log_softmax(2)[:, None]
        now = torch.tensor([epoch / epochs], dtype=torch.float64)
        given = task.y[labelled][None]
        loss = labelled_loss(log_p[:, :, labelled], given, now, forget=0.5, doubted=0.1)
        loss = loss + parts[0] + pseudo_loss(log_p, ~labelled[None], 0.5)
        loss = loss + 0.1 * (disagreement(log_p) + parts[1])
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
        torch.testing.assert_close(learner.step()["loss"], loss.detach(), rtol=1e-4, atol=1e-4)
    for name, parameter in twin.named_parameters():
        ours = learner.network.get_parameter(name)
        torch.testing.assert_close(ours, parameter, rtol=1e-3, atol=1e-3)
    with torch.no_grad():
        for classifier in learner.classifiers:  # so far that their probabilities differ
            classifier.second.weight.mul_(100)
        twin.load_state_dict(learner.network.state_dict())
        _, hiddens, logits = forward(training=False)
    outcome = learner.evaluate()
    torch.testing.assert_close(outcome.proba, logits.softmax(2).mean(0)[None], rtol=0, atol=1e-4)
    torch.testing.assert_close(outcome.embedding, torch.cat(hiddens, 1)[None])
    assert torch.equal(outcome.labels, outcome.proba.argmax(2))


@pytest.mark.parametrize(
    "change",
    [
        {"nearest": 3},
        {"min_weight": 0.9},
        {"negatives": 1},
        {"predictor": 5},
        {"forget": 0.1},
        {"doubted": 0.7},
        {"certainty": 1.0},
        {"consistency": 0.9},
        {"dropout": 0.0},
    ],
    ids=str,
)
def test_every_option_changes_the_result(noisy: Data, change: dict[str, Any]) -> None:
    settings = SMALL | {"epochs": 12, "lr": 0.05, "certainty": 0.5}
    first = RTGNN(**settings).fit(noisy)
    other = RTGNN(**settings | change).fit(noisy)
    assert first.history_[-1]["loss"] != other.history_[-1]["loss"]


def test_runs_with_other_training_nodes_equal_their_single_fits(noisy: Data) -> None:
    """Each run has candidates of its own, and numbers of links that differ."""
    other = noisy.clone()
    order = torch.randperm(noisy.num_nodes, generator=torch.Generator().manual_seed(0))
    other.y = two_communities().y
    other.train_mask, other.val_mask = noisy.train_mask[order], noisy.val_mask[order]
    graphs = [noisy, other, noisy]
    method = RTGNN(**SMALL, epochs=6, lr=0.02, nearest=7)
    for model, graph, seed in zip(
        method.fit_many(graphs, [4, 0, 1]), graphs, [4, 0, 1], strict=True
    ):
        alone = RTGNN(**method.get_params() | {"seed": seed}).fit(graph)
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
        RTGNN(**SMALL, epochs=1, nearest=20).fit(data)
    assert 2000 < largest.numbers < 2000**2 / 10


@pytest.mark.slow
def test_a_fit_of_20000_nodes_does_not_hold_their_pairs() -> None:
    """All pairs in float64 are 3.2 GB; a fit with 10,000 labelled nodes takes half of that."""
    code = """
import resource, torch
from torch_geometric.data import Data
from erase.methods.rtgnn import RTGNN
n, random = 20_000, torch.Generator().manual_seed(0)
edge_index = torch.randint(n, (2, 60_000), generator=random)
y, train_mask = torch.arange(n) % 3, torch.arange(n) < n // 2
data = Data(x=torch.rand(n, 8, generator=random), y=y, train_mask=train_mask, edge_index=edge_index)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
RTGNN(hidden=8, predictor=8, epochs=1, nearest=50, device="cpu").fit(data)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 1600  # MiB


def test_in_a_sample_labelled_nodes_are_those_of_the_graph(
    noisy: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates join them with others; the others are who may learn from pseudo-labels."""
    task = NodeTask.from_data(noisy)
    method = RTGNN(**SMALL, batch_size=8, num_neighbors=(3, 2), nearest=4)
    learner = _RTGNNLearner(method, [task], [0])
    masks: list[Tensor] = []

    def watched(log_p: Tensor, unlabelled: Tensor, certainty: float) -> Tensor:
        masks.append(unlabelled[0])
        return pseudo_loss(log_p, unlabelled, certainty)

    monkeypatch.setattr(rtgnn, "pseudo_loss", watched)
    for batch in learner.data.batches():
        labelled = task.train_mask[batch.nodes]
        links = learner._links_of(batch)
        candidate = ~(links.loop | links.edge)
        assert bool(candidate.any())
        ends = labelled[links.pattern.rows], labelled[links.pattern.indices]
        assert bool((ends[0] != ends[1])[candidate].all())
        learner.losses(batch)
        assert torch.equal(masks[-1], ~labelled)


def test_a_low_number_is_no_nearer_than_a_higher_cosine() -> None:
    x = torch.tensor([[1.0, 0.0], *[[1.0, 0.04]] * 2000, [1.0, 0.0]])
    assert nearest_unlabelled(x, torch.arange(2002) == 0, 1).tolist() == [[0], [2001]]


@pytest.mark.parametrize("sparse", [False, True])
def test_multiples_of_a_row_are_equally_near(sparse: bool) -> None:
    x = torch.arange(1.0, 60.0)[:, None] * torch.tensor([1.0, 2.0, 3.0])
    found = nearest_unlabelled(x.to_sparse_csr() if sparse else x, torch.arange(59) < 5, 5)
    assert found[1].view(5, 5).tolist() == [[5, 6, 7, 8, 9]] * 5


def test_a_candidate_of_just_min_weight_is_kept() -> None:
    links = Links.of(Graph(torch.empty(2, 0, dtype=torch.int64), 2), [torch.tensor([[0], [1]])])
    weights = link_weights(links, torch.full_like(links.loop, 0.5, dtype=torch.float64), 0.5)
    assert weights.tolist() == [1.0, 0.5, 0.5, 1.0]


def test_reconstruction_survives_products_in_tf32() -> None:
    """Of all pairs those with an edge are taken away: rounding stays where little is left."""
    task = NodeTask.from_data(two_communities(size=10))
    graph = Graph(task.edge_index, task.num_nodes)
    links = Links.of(graph, [torch.empty(2, 0, dtype=torch.int64)])
    h = doubles(1, task.num_nodes, 3)
    exact = reconstruction_loss(links, likeness(links, h), h, negatives=3)
    alike, rows = likeness(links, h).float(), h.float()
    with on_a_gpu_that_may_round() as products:
        found = reconstruction_loss(links, alike, rows, negatives=3)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
    assert products.rounded == 0
