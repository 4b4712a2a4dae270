"""Denoised, prototype and semantic labels against loops written from the paper."""

import math

import pytest
import torch
from hypothesis import given
from torch import Tensor

from erase.methods.semantics import (
    DenoiseEdges,
    denoise,
    prototype_labels,
    prototypes,
    semantic_labels,
)
from erase.nn.sparse import Graph
from graphs import dense_adjacency, edge_lists
from tf32 import on_a_gpu_that_may_round


@pytest.mark.parametrize("edges", ["training", "all"])
@given(edge_lists())
def test_denoising_follows_the_masked_recursion(
    edges: DenoiseEdges, graph: tuple[Tensor, int]
) -> None:
    edge_index, n = graph
    k, keep, steps = 3, 0.6, 4
    y = torch.arange(n) % k
    mask = torch.arange(n) % 3 != 1
    m = mask.double()
    masked = dense_adjacency(edge_index, n)
    if edges == "training":
        masked *= torch.outer(m, m)  # A ⊙ mmᵀ
    degree = masked.sum(1)
    for i in range(n):
        for j in range(n):
            if masked[i, j]:
                masked[i, j] /= math.sqrt(degree[i] * degree[j])
    labels = torch.zeros(n, k, dtype=torch.float64)
    for i in range(n):
        if mask[i]:
            labels[i, y[i]] = 1.0
    for _ in range(steps):
        labels = (1 - keep) * masked @ labels + keep * labels
    hidden = torch.where(mask, y, -1)  # the labels that a NodeTask keeps
    ours = denoise(
        Graph(edge_index, n),
        hidden,
        mask,
        k,
        keep=keep,
        steps=steps,
        normalisation="symmetric",
        edges=edges,
    )
    torch.testing.assert_close(ours.double(), labels, rtol=1e-5, atol=1e-6)


def test_a_training_node_without_training_neighbours_only_fades() -> None:
    # 0 – 1 – 2 with 0 and 2 in training: no edge joins two training nodes
    graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    mask = torch.tensor([True, False, True])
    y = torch.tensor([1, -1, 0])
    ours = denoise(graph, y, mask, 2, keep=0.6, steps=5, normalisation="column")
    expected = [[0.0, 0.6**5], [0.0, 0.0], [0.6**5, 0.0]]
    torch.testing.assert_close(ours, torch.tensor(expected))
    spread = denoise(graph, y, mask, 2, keep=0.5, steps=2, normalisation="row", edges="all")
    # step 1: [0, ½] [¼, ¼] [½, 0]; step 2: a node and its neighbours, half and half
    assert spread.tolist() == [[0.125, 0.375], [0.25, 0.25], [0.375, 0.125]]


def test_denoising_outvotes_a_lone_wrong_label() -> None:
    nodes = range(4)  # a clique of four, one of them mislabelled
    edges = torch.tensor([(a, b) for a in nodes for b in nodes if a != b]).T
    ours = denoise(
        Graph(edges, 4),
        torch.tensor([0, 0, 0, 1]),
        torch.ones(4, dtype=torch.bool),
        2,
        keep=0.3,
        steps=3,
        normalisation="symmetric",
    )
    assert ours.argmax(1).tolist() == [0, 0, 0, 0]


def test_prototypes_are_class_means_and_zero_where_a_class_is_empty() -> None:
    z = torch.tensor([[1.0, 0.0], [3.0, 2.0], [9.0, 9.0], [0.0, 4.0]])
    members = torch.zeros(4, 4)  # nodes 0 and 1 in class 0, node 3 in class 2, node 2 not training
    members[[0, 1, 3], [0, 0, 2]] = 1.0
    centres = [[2, 1], [0, 0], [0, 4], [0, 0]]
    assert prototypes(z, members).tolist() == centres
    assert prototypes(torch.stack([z, 2 * z]), torch.stack([members] * 2))[1, 0].tolist() == [4, 2]


def test_prototype_labels_are_cosines() -> None:
    z = torch.tensor([[2.0, 0.0], [-1.0, 1.0], [0.0, 0.0]])
    centres = torch.tensor([[1.0, 0.0], [0.0, 5.0], [0.0, 0.0]])
    r = 1 / math.sqrt(2)
    cosine = torch.tensor([[1.0, 0.0, 0.0], [-r, r, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(prototype_labels(z, centres, "absolute"), cosine.abs())
    expected = cosine.exp() / cosine.exp().sum(1, keepdim=True)
    torch.testing.assert_close(prototype_labels(z, centres, "softmax"), expected)


@pytest.mark.parametrize("trust", [0.0, 0.3, 1.0])
def test_semantic_labels_mix_by_trust(trust: float) -> None:
    guesses, denoised = torch.tensor([[0.2, 0.8]]), torch.tensor([[1.0, 0.0]])
    mixture = torch.tensor([[(1 - trust) * 0.2 + trust, (1 - trust) * 0.8]])
    torch.testing.assert_close(
        semantic_labels(guesses, denoised, trust=trust, softmax=False), mixture
    )
    torch.testing.assert_close(
        semantic_labels(guesses, denoised, trust=trust, softmax=True),
        mixture.exp() / mixture.exp().sum(),
    )


@pytest.mark.parametrize("collapsed", [False, True], ids=["spread", "collapsed"])
def test_prototypes_survive_products_in_tf32(collapsed: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    classes = torch.arange(280) % 7
    centres = torch.randn(7, 64, generator=generator)
    z = centres[classes] + 0.5 * torch.randn(280, 64, generator=generator)
    if collapsed:  # all rows point nearly the same way
        z = 20 * torch.rand(64, generator=generator) + 0.1 * z
    members = torch.eye(7)[classes]
    exact = prototypes(z.double(), members.double())
    best = prototype_labels(z.double(), exact, "absolute").argmax(1)
    with on_a_gpu_that_may_round():
        means = prototypes(z, members)
        labels = prototype_labels(z, exact.float(), "absolute").argmax(1)
    spread = (exact - exact.mean(0)).norm()
    assert float((means - exact).norm() / spread) < 1e-4
    assert len(best.unique()) == 7
    assert float((labels == best).float().mean()) >= 0.99
