"""ERASE's reference recipe written down formula by formula, in plain PyTorch.

Nothing here is fast and nothing is deliberately slow: dense features, PyG's `GATConv`, memberships
as the K×N×N tensor Π of the paper, `torch.logdet` under autograd, a logistic regression after every
epoch. It shares no line with the package, so it serves both as the baseline of the speed comparison
and as an independent reference in tests.

    ERASE_DATA=… python benchmarks/straightforward.py cora --noise symmetric:0.3 --seeds 2
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch_geometric.nn import GATConv
from torch_geometric.utils import remove_self_loops


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters; the defaults are the paper's values for Cora."""

    hidden: int = 256  # d₁, all heads of the first layer together
    heads: int = 8
    width: int = 512  # d
    eps2: float = 0.05  # ε²
    gamma: float = 2.0  # γ
    steps: int = 5  # T₁ = T₂
    keep: float = 0.6  # α₁ = α₂
    trust: float = 0.6  # β
    lr: float = 1e-3
    weight_decay: float = 5e-4
    dropout: float = 0.5
    epochs: int = 400
    patience: int = 150


SETTINGS = {
    "cora": Settings(),
    "citeseer": Settings(eps2=0.4, gamma=2.0, steps=4, keep=0.6, trust=0.7),
    "pubmed": Settings(eps2=0.05, gamma=3.0, steps=3, keep=0.6, trust=0.6),
}


def coding_rate(z: Tensor, eps2: float) -> Tensor:
    """R(Z, ε) = ½ logdet(I + d/(Nε²) ZᵀZ) of z [N, d]."""
    n, d = z.shape
    eye = torch.eye(d, dtype=z.dtype, device=z.device)
    return 0.5 * torch.logdet(eye + d / (n * eps2) * z.T @ z)


def class_coding_rate(z: Tensor, memberships: Tensor, eps2: float) -> Tensor:
    """R^C(Z, ε | Π) = Σ_j tr(Π_j)/2N logdet(I + d/(tr(Π_j)ε²) ZᵀΠ_jZ), memberships [K, N, N]."""
    n, d = z.shape
    eye = torch.eye(d, dtype=z.dtype, device=z.device)
    rate = z.new_zeros(())
    for pi in memberships:
        trace = torch.trace(pi) + 1e-8  # an empty class adds nothing instead of 0/0
        rate = rate + trace / (2 * n) * torch.logdet(eye + d / (trace * eps2) * z.T @ pi @ z)
    return rate


def memberships_of(labels: Tensor, classes: int) -> Tensor:
    """Π [K, N, N]: Π[j, i, i] = 1 where node i is of class j."""
    return torch.diag_embed(F.one_hot(labels, classes).T.float())


def normalise(edge_index: Tensor, n: int) -> Tensor:
    """A D⁻¹ without self-loops, as a sparse [N, N] matrix: each column sums to 1 or is empty."""
    edge_index, _ = remove_self_loops(edge_index)
    target = edge_index[1]
    degree = torch.bincount(target, minlength=n).float()
    return torch.sparse_coo_tensor(
        edge_index, 1 / degree[target], (n, n), check_invariants=False
    ).coalesce()


def propagate(adjacency: Tensor, labels: Tensor, steps: int, keep: float) -> Tensor:
    """`steps` times L ← (1-α) Ã L + α L."""
    for _ in range(steps):
        labels = (1 - keep) * torch.sparse.mm(adjacency, labels) + keep * labels
    return labels


def denoise(
    y: Tensor, train_mask: Tensor, edge_index: Tensor, classes: int, steps: int, keep: float
) -> Tensor:
    """Phase 1: training labels propagated among training nodes only; other rows are zero. [N, K]"""
    labels = torch.zeros(len(y), classes, device=y.device)
    labels[train_mask] = F.one_hot(y[train_mask], classes).float()
    source, target = edge_index
    masked = edge_index[:, train_mask[source] & train_mask[target]]
    return propagate(normalise(masked, len(y)), labels, steps, keep)


def semantic_labels(
    z: Tensor,
    denoised: Tensor,
    train_mask: Tensor,
    adjacency: Tensor,
    trust: float,
    steps: int,
    keep: float,
) -> Tensor:
    """Phase 2: softmax((1-β)|cos(z, c)| + β L̃), then propagated on the whole graph. [N, K]"""
    classes = denoised.shape[1]
    chosen = F.one_hot(denoised[train_mask].argmax(1), classes).float()  # [n, K]
    prototypes = chosen.T @ z[train_mask] / chosen.sum(0).clamp(min=1)[:, None]  # [K, d]
    proto = (F.normalize(z) @ F.normalize(prototypes).T).abs()
    mixed = torch.softmax((1 - trust) * proto + trust * denoised, dim=1)
    return propagate(adjacency, mixed, steps, keep)


class Encoder(nn.Module):
    """Two GAT layers; rows are L1-normalised after each."""

    def __init__(self, features: int, settings: Settings) -> None:
        super().__init__()
        self.dropout = settings.dropout
        self.first = GATConv(features, settings.hidden // settings.heads, heads=settings.heads)
        self.second = GATConv(settings.hidden, settings.width, heads=1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, self.dropout, self.training)
        h = F.normalize(F.leaky_relu(self.first(x, edge_index)), p=1)
        return F.relu(F.normalize(self.second(h, edge_index), p=1))


class Straightforward:
    """One training of ERASE on a PyG `Data` with `x`, `edge_index` and the true `y`.

    Only `y_noisy[train_mask]` is learnt from; `data.y` is read on `val_mask` to choose the epoch;
    `data.test_mask` selects the predictions that `run` returns separately.
    Seeds torch's global generator, which dropout and initialisation draw from.
    """

    def __init__(
        self,
        data: Any,
        y_noisy: Tensor,
        train_mask: Tensor,
        val_mask: Tensor,
        settings: Settings | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        torch.manual_seed(seed)
        s = self.settings = settings or Settings()
        self.x = data.x.to(device)
        self.edge_index = data.edge_index.to(device)
        self.y_val = data.y[val_mask].numpy(force=True)
        self.train_mask = train_mask.to(device)
        self.val_mask = val_mask.numpy(force=True)
        self.test_mask = data.test_mask.numpy(force=True)
        self.classes = int(data.y.max()) + 1
        self.adjacency = normalise(self.edge_index, len(self.x))
        self.denoised = denoise(
            y_noisy.to(device), self.train_mask, self.edge_index, self.classes, s.steps, s.keep
        )
        self.encoder = Encoder(self.x.shape[1], s).to(device)
        self.optimiser = torch.optim.Adam(
            self.encoder.parameters(), lr=s.lr, weight_decay=s.weight_decay, amsgrad=True
        )
        self.labels = self.denoised.argmax(1)  # semantic labels of the latest step [N]

    def loss(self) -> Tensor:
        """-(γR - R^C) of a train-mode pass; leaves that pass's semantic labels in `labels`."""
        s = self.settings
        self.encoder.train()
        z = self.encoder(self.x, self.edge_index)
        semantic = semantic_labels(
            z.detach(), self.denoised, self.train_mask, self.adjacency, s.trust, s.steps, s.keep
        )
        self.labels = semantic.argmax(1)
        pi = memberships_of(self.labels, self.classes)
        return class_coding_rate(z, pi, s.eps2) - s.gamma * coding_rate(z, s.eps2)

    def step(self) -> float:
        """One epoch of training; returns the loss before the update."""
        loss = self.loss()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()

    @torch.no_grad()
    def embed(self) -> Tensor:
        """Eval-mode representations [N, d]."""
        self.encoder.eval()
        z: Tensor = self.encoder(self.x, self.edge_index)
        return z

    def select(self) -> tuple[float, npt.NDArray[np.int64]]:
        """Validation accuracy of a fresh logistic regression, and its predictions [N]."""
        z = F.normalize(self.embed()).numpy(force=True)
        train = self.train_mask.numpy(force=True)
        head = LogisticRegression(C=1.0).fit(z[train], self.labels.numpy(force=True)[train])
        predictions: npt.NDArray[np.int64] = head.predict(z)
        return float((predictions[self.val_mask] == self.y_val).mean()), predictions

    def run(self) -> dict[str, Any]:
        """Train until patience ends; the first epoch of best validation gives the predictions."""
        best_val, best_epoch = -1.0, 0
        predictions = np.empty(0, dtype=np.int64)
        history: list[dict[str, float]] = []
        for epoch in range(self.settings.epochs):
            loss = self.step()
            val, candidate = self.select()
            history.append({"epoch": epoch, "loss": loss, "val": val})
            if val > best_val:
                best_val, best_epoch, predictions = val, epoch, candidate
            elif epoch - best_epoch >= self.settings.patience:
                break
        return {
            "best_val": best_val,
            "best_epoch": best_epoch,
            "predictions": predictions,
            "test_predictions": predictions[self.test_mask],
            "history": history,
        }


def fixed_draw(y: Tensor, train_index: Tensor, classes: int, kind: str, rate: float) -> Tensor:
    """The published noise: a copy of y [N] with `train_index` redrawn, "symmetric" or "asymmetric".

    One draw for every run, from numpy's legacy generator seeded 123.
    """
    random = np.random.RandomState(123)
    transition = np.zeros((classes, classes))
    if kind == "symmetric":
        transition[:] = rate / (classes - 1)
    elif kind == "asymmetric":
        for c in range(classes):
            transition[c, random.choice([other for other in range(classes) if other != c])] = rate
    else:
        raise ValueError(f"kind must be 'symmetric' or 'asymmetric', got {kind!r}")
    np.fill_diagonal(transition, 1 - rate)
    noisy = y.clone()
    for i in train_index.sort().values.tolist():
        noisy[i] = random.choice(classes, p=transition[int(y[i])])
    return noisy


def load(name: str, root: Path) -> Any:
    """A Planetoid graph with rows of x summing to 1; PyG writes into a copy, never into `root`."""
    from torch_geometric.datasets import Planetoid
    from torch_geometric.transforms import NormalizeFeatures

    folder = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}[name]
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(root / "Planetoid" / folder / "raw", Path(copy) / folder / "raw")
        return Planetoid(copy, folder, transform=NormalizeFeatures())[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", choices=sorted(SETTINGS))
    parser.add_argument(
        "--noise", default="symmetric:0.3", help="symmetric:RATE or asymmetric:RATE"
    )
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0, 1, … to run")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", type=Path, default=os.environ.get("ERASE_DATA"))
    args = parser.parse_args()
    if args.data is None:
        parser.error("say where the datasets are: --data or the variable ERASE_DATA")
    data = load(args.dataset, args.data)
    kind, rate = args.noise.split(":")
    classes = int(data.y.max()) + 1
    noisy = fixed_draw(data.y, data.train_mask.nonzero()[:, 0], classes, kind, float(rate))
    truth = data.y[data.test_mask].numpy()
    scores = []
    for seed in range(args.seeds):
        start = time.perf_counter()
        model = Straightforward(
            data, noisy, data.train_mask, data.val_mask, SETTINGS[args.dataset], seed, args.device
        )
        result = model.run()
        epochs = len(result["history"])
        scores.append(100 * float((result["test_predictions"] == truth).mean()))
        print(
            f"{args.dataset} {args.noise} seed {seed}: test {scores[-1]:.1f}, "
            f"validation {100 * result['best_val']:.1f} at epoch {result['best_epoch']} "
            f"of {epochs}, {(time.perf_counter() - start) / epochs:.2f} s per epoch",
            flush=True,
        )
    print(f"mean {np.mean(scores):.2f} std {np.std(scores):.2f}")


if __name__ == "__main__":
    main()
