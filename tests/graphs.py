"""Small graphs, nasty graphs, and what tests compare with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

from erase.data.files import save_arrays
from erase.data.task import NodeTask
from erase.nn.encoders import take_rows


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 12) -> tuple[Tensor, int]:
    """Draw an undirected graph as NodeTask leaves it: both directions, sorted, no self-loops.

    Isolated nodes, no edges at all and a single node are common.
    """
    n = draw(st.integers(1, max_nodes))
    pairs = draw(
        st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3 * max_nodes)
    )
    edges = sorted({(a, b) for a, b in pairs if a != b} | {(b, a) for a, b in pairs if a != b})
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T.contiguous(), n


def dense_adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return A [N, N] float64, entry by entry."""
    dense = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for a, b in edge_index.T.tolist():
        dense[a, b] = 1.0
    return dense


def edge_weights(edge_index: Tensor, num_nodes: int, seed: int = 0) -> Tensor:
    """Return a weight for every edge, the same for both directions; a fifth of them are 0."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(num_nodes, num_nodes, generator=generator)
    weight = 3 * (drawn + drawn.T) * (drawn + drawn.T > 0.6)
    return weight[edge_index[0], edge_index[1]]


def with_weights(data: Data) -> Data:
    """Return the same graph with a weight for every edge."""
    weighted = data.clone()
    weighted.edge_weight = edge_weights(data.edge_index, int(data.num_nodes or 0))
    return weighted


def two_communities(seed: int = 0, size: int = 40, classes: int = 2) -> Data:
    """Return an easy graph: communities that cite themselves and use their own words."""
    generator = torch.Generator().manual_seed(seed)
    n = size * classes
    y = torch.arange(n) % classes
    a = torch.randint(n, (6 * n,), generator=generator)
    b = torch.randint(n, (6 * n,), generator=generator)
    kept = (y[a] == y[b]) | (torch.rand(6 * n, generator=generator) < 0.05)
    words = torch.rand(n, 8 * classes, generator=generator) < 0.1
    own = torch.rand(n, 8, generator=generator) < 0.4
    for k in range(classes):
        words[y == k, 8 * k : 8 * k + 8] |= own[y == k]
    split = torch.arange(n)
    return Data(
        x=words.float(),
        edge_index=torch.stack([a[kept], b[kept]]),
        y=y,
        train_mask=split < n // 2,
        val_mask=(split >= n // 2) & (split < 3 * n // 4),
        test_mask=split >= 3 * n // 4,
    )


def topics(seed: int = 0, nodes: int = 600, classes: int = 4, words: int = 30) -> Data:
    """Return a graph of four classes with words of their own, and seven in ten edges inside one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=nodes)
    of_word = np.repeat(np.arange(classes), words)
    x = rng.random((nodes, len(of_word))) < np.where(y[:, None] == of_word, 0.24, 0.08)
    pairs = rng.integers(nodes, size=(2, 12 * nodes))
    kept = (y[pairs[0]] == y[pairs[1]]) | (rng.random(pairs.shape[1]) < 0.14)
    return Data(
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(y),
        edge_index=torch.from_numpy(pairs[:, kept]),
    )


def tiny() -> Data:
    """Return the graph of the dataset that the fixture `tiny_dataset` adds: 120 nodes."""
    graph = two_communities(size=40, classes=3)
    graph.node_names = [f"node {i}" for i in range(120)]
    return graph


def meaningless_graph(seed: int = 0, nodes: int = 120, classes: int = 3) -> Data:
    """Return a graph whose features, edges and labels are random: nothing tells a wrong label."""
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(nodes, 16, generator=generator),
        edge_index=torch.randint(nodes, (2, 4 * nodes), generator=generator),
        y=torch.randint(classes, (nodes,), generator=generator),
    )


def random_logits(classes: int, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits [2, 9, K] of two runs, training nodes [2, 6] and their given classes [2, 6]."""
    generator = torch.Generator().manual_seed(classes)
    logits = scale * torch.randn(2, 9, classes, generator=generator, dtype=torch.float64)
    nodes = torch.stack([torch.randperm(9, generator=generator)[:6] for _ in range(2)])
    return logits, nodes, torch.randint(classes, (2, 6), generator=generator)


def path_graph(**changes: Any) -> Data:
    """Return 0 - 1 - 2 - 3 - 4, two classes, 0 and 1 train, 2 validates, 3 and 4 test."""
    data = Data(
        x=torch.arange(1.0, 11.0).reshape(5, 2),
        edge_index=torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]]),
        y=torch.tensor([0, 1, 1, 0, 1]),
        train_mask=torch.tensor([True, True, False, False, False]),
        val_mask=torch.tensor([False, False, True, False, False]),
    )
    for name, value in changes.items():
        if value is None:
            del data[name]
        else:
            data[name] = value
    return data


def interrupt_and_resume(method: Any, data: Data, checkpoint: Path) -> Any:
    """Return a fit that was interrupted after its third checkpoint, and resumed."""
    written = 0

    def stop_after_three(*arguments: Any) -> None:
        nonlocal written
        save_arrays(*arguments)
        written += 1
        if written == 3:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        patch.setattr("erase.training.loop.save_arrays", stop_after_three)
        with pytest.raises(KeyboardInterrupt):
            clone(method).fit(data, checkpoint=checkpoint)
    return clone(method).fit(data, checkpoint=checkpoint, resume=True)


def mask(*nodes: int, n: int = 5) -> Tensor:
    """Return the mask [n] of these nodes."""
    return torch.zeros(n, dtype=torch.bool).index_fill_(0, torch.tensor(nodes).long(), True)


def renumbered(task: NodeTask, order: Tensor) -> NodeTask:
    """Return the graph of a task with node order[i] as node i, and a single label."""
    rows, cols = order.argsort()[task.edge_index]
    keys = (rows * task.num_nodes + cols).sort().values
    y = torch.full_like(task.y, -1)
    y[0] = 0
    return replace(
        task,
        x=take_rows(task.x, order),
        edge_index=torch.stack([keys // task.num_nodes, keys % task.num_nodes]),
        y=y,
        train_mask=y >= 0,
        val_mask=torch.zeros_like(task.val_mask),
    )


class LargestTensor(TorchDispatchMode):
    """Watch, while it is entered, how many numbers the largest tensor of any operation holds."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                stored = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.numbers = max(self.numbers, min(stored, tensor.numel()))
        return out


def rare_features() -> Tensor:
    """Return [5, 4] features, two of them not zero."""
    x = torch.zeros(5, 4)
    x[0, 3], x[4, 0] = 2.0, -1.0
    return x


Floats = NDArray[np.float64]


def unit_rows(rows: Floats) -> Floats:
    """Return the rows scaled to length 1; zero rows stay zero."""
    out = np.zeros_like(rows)
    for i, row in enumerate(rows):
        if np.abs(row).max() > 0:
            out[i] = row / np.sqrt((row**2).sum())
    return out


def full(x: Tensor) -> Floats:
    """Return a dense or CSR tensor as a float64 array."""
    array: Floats = (x.to_dense() if x.layout == torch.sparse_csr else x).double().numpy()
    return array


def brute_force_neighbours(x: Floats, count: int) -> Floats:
    """Return G [N, N], pair by pair: equal cosines are taken in the order of nodes."""
    rows = unit_rows(x)
    n = len(x)
    near = np.zeros((n, n))
    for i in range(n):
        others = [(round(-float(rows[i] @ rows[j]), 9), j) for j in range(n) if j != i]
        for minus, j in sorted(others)[:count]:
            if minus < 0:
                near[i, j] = -minus
    return np.maximum(near, near.T)


def clusters(nodes: int = 900, seed: int = 0) -> Tensor:
    """Return rows around thirty directions; the first is zero."""
    generator = torch.Generator().manual_seed(seed)
    middle = torch.randn(30, 12, generator=generator)[torch.arange(nodes) % 30]
    x = middle + 0.3 * torch.randn(nodes, 12, generator=generator)
    x[0] = 0.0
    return x
