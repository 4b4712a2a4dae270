"""ERASE's training labels: denoised, prototype and semantic labels (paper, section 4.1)."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from erase.nn.precision import full_float32
from erase.nn.sparse import Graph, Normalisation, propagate

PrototypeLabels = Literal["softmax", "absolute"]
DenoiseEdges = Literal["training", "all"]


def denoise(
    graph: Graph,
    y: Tensor,
    train_mask: Tensor,
    num_classes: int,
    *,
    keep: float,
    steps: int,
    normalisation: Normalisation,
    restart: bool = False,
    edges: DenoiseEdges = "training",
) -> Tensor:
    """Return the denoised labels L̃ [N, K]: given labels propagated among training nodes (eq. 5).

    Edges that touch a node without a training label carry nothing, so rows outside `train_mask`
    stay zero. A training node without a training neighbour keeps its label, scaled by α^T. With
    ``edges="all"`` labels pass through other nodes as well, whose rows begin at zero.

    Note: the published numbers of ogbn-arxiv rest on all edges.

    Args:
        graph: the whole graph.
        y: [N] given labels; read only inside `train_mask`.
        train_mask: [N] bool.
        num_classes: K.
        keep: α, the weight of a node's own label in every step.
        steps: T.
        normalisation: of the adjacency matrix of these edges.
        restart: draw every node back to its given label, see :func:`erase.nn.sparse.propagate`.
        edges: "training", those between two training nodes, or "all".
    """
    labels = torch.zeros(y.numel(), num_classes, device=y.device)
    labels[train_mask] = one_hot(y[train_mask], num_classes).float()
    spread_over = graph if edges == "all" else graph.masked(train_mask)
    operator = spread_over.normalised(normalisation)
    return propagate(*operator, labels, keep=keep, steps=steps, restart=restart)


@full_float32()
def prototypes(z: Tensor, members: Tensor) -> Tensor:
    """Return the mean representation c_j [..., K, D] of every class (eq. 6), zero where empty.

    Args:
        z: [..., N, D].
        members: [..., N, K] 1 where a training node's denoised label is largest at that class, a
            zero row for every other node.
    """
    return (members.mT @ z) / members.sum(-2).clamp(min=1.0)[..., None]


@full_float32()
def prototype_labels(z: Tensor, centres: Tensor, kind: PrototypeLabels) -> Tensor:
    """Return L^proto [..., N, K] from s_ij = cos(z_i, c_j): its softmax over j (eq. 7), or |s|.

    Note: the published numbers rest on ``"absolute"``; the paper prints ``"softmax"``. A zero
    representation or an empty class has s = 0.
    """
    length = torch.linalg.vector_norm(z, dim=-1, keepdim=True).clamp(min=1e-12)
    cosine: Tensor = z @ normalize(centres, dim=-1).mT / length
    return cosine.softmax(-1) if kind == "softmax" else cosine.abs()


def semantic_labels(guesses: Tensor, denoised: Tensor, *, trust: float, softmax: bool) -> Tensor:
    """Return L^s = (1−β) L^proto + β L̃ [..., N, K] (eq. 8; β = `trust`), or its softmax.

    Note: the published numbers rest on the softmax, which the paper does not mention.
    """
    mixture = (1 - trust) * guesses + trust * denoised
    return mixture.softmax(-1) if softmax else mixture
