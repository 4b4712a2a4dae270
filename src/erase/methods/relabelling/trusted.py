"""Learn from trusted labels how much weight to give features, neighbours and given labels.

A person has confirmed or corrected some labels. From these, one regression learns the class of a
node from everything else that is known about it:

    P(k | node) ∝ exp( w₁ log S[k] + w₂ log G[k] + b·[k = g] + c_k + z·B_k ),

with S and G the predictions by smoothed features and by the neighbourhood, neither of which uses
the node's label, its given label g, and z all of these and the smoothed features in one row. B is
also the noise model: a column of it shows for which given labels class k is the true one. A
normal prior holds the weights where few labels are trusted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

# Chosen on Cora and CiteSeer, draws 100 to 102 of annotator noise at 30 %.
_WIDTH = 128  # leading directions of the smoothed features
_OF_FEATURES, _OF_PREDICTIONS, _OF_LABEL = 3.0, 2.0, 1.5  # scales of the parts of z
_START = 0.4  # w₁ and w₂ without trusted labels
# Standard deviations of the prior: of w, b, c and B.
_PREDICTION, _LABEL, _CLASS, _ROW = 0.4, 1.0, 0.7, 3.0**0.5
_SMALLEST = 1e-4  # probability: a prediction that excludes a class is not final


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about n nodes apart from trusted labels.

    Attributes:
        smoothed: [n, K] S.
        graph: [n, K] G.
        given: [n] given classes, -1 where there is none.
        features: [n, D] smoothed features, the directions that matter most first.
    """

    smoothed: Floats
    graph: Floats
    given: Classes
    features: NDArray[np.floating]

    def rows(self, chosen: NDArray[np.generic]) -> "Evidence":
        """Return the evidence about some of the nodes."""
        return Evidence(
            self.smoothed[chosen], self.graph[chosen], self.given[chosen], self.features[chosen]
        )

    def logs(self) -> Floats:
        """Return the logarithms of the two predictions [2, n, K]."""
        logs: Floats = np.log(np.maximum(np.stack([self.smoothed, self.graph]), _SMALLEST))
        return logs

    def label(self) -> Floats:
        """Return the given labels, one-hot [n, K]; zero where there is none."""
        hot: Floats = (self.given[:, None] == np.arange(self.graph.shape[1])).astype(np.float64)
        return hot

    def row(self) -> Floats:
        """Return z [n, D + 3K]."""
        x = self.features[:, :_WIDTH].astype(np.float64)
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
        predictions = _OF_PREDICTIONS * np.hstack([self.smoothed, self.graph])
        return np.hstack([_OF_FEATURES * x, predictions, _OF_LABEL * self.label()])


@dataclass(frozen=True, eq=False)
class TrustedModel:
    """The weights w [2], b, c [K] and B [D + 3K, K]."""

    predictions: Floats
    label: float
    classes: Floats
    row: Floats

    def proba(self, evidence: Evidence) -> Floats:
        """Return P(k | node) [n, K]."""
        logits = np.tensordot(self.predictions, evidence.logs(), 1) + self.label * evidence.label()
        proba: Floats = softmax(logits + self.classes + evidence.row() @ self.row, axis=1)
        return proba


def fit_trusted(evidence: Evidence, trusted: Classes) -> TrustedModel:
    """Return the model of m trusted labels.

    Args:
        evidence: about their nodes.
        trusted: [m] classes.
    """
    logs, label, z = evidence.logs(), evidence.label(), evidence.row()
    (count, m, k), width = logs.shape, z.shape[1]
    rows, hot = np.arange(m), np.eye(k)[trusted]
    sizes = np.cumsum([count, 1, k])
    start = np.concatenate([np.full(count, _START), np.zeros(1 + k + width * k)])
    spread = np.repeat([_PREDICTION, _LABEL, _CLASS, _ROW], [count, 1, k, width * k])

    def loss(steps: Floats) -> tuple[float, Floats]:
        w, b, c, flat = np.split(start + spread * steps, sizes)
        logits = np.tensordot(w, logs, 1) + b * label + c + z @ flat.reshape(width, k)
        proba = softmax(logits, axis=1)
        error = proba - hot
        slope = [
            np.einsum("vmk,mk->v", logs, error),
            [(error * label).sum()],
            error.sum(0),
            (z.T @ error).ravel(),
        ]
        value = -np.log(np.maximum(proba[rows, trusted], 1e-12)).sum() + steps @ steps / 2
        return float(value), np.concatenate(slope) * spread + steps

    found = minimize(loss, np.zeros_like(start), jac=True, method="L-BFGS-B").x
    w, b, c, flat = np.split(start + spread * found, sizes)
    return TrustedModel(w, float(b[0]), c, flat.reshape(width, k))


def trusted_posterior(evidence: Evidence, trusted: Classes, fold: Classes) -> Floats:
    """Return P(true class) of n nodes [n, K]; a trusted label takes no part in its own row.

    Args:
        evidence: about the nodes.
        trusted: [n] classes, -1 where there is none.
        fold: [n] trusted labels of a fold are predicted by the model of the others.
    """
    known = trusted >= 0
    proba = fit_trusted(evidence.rows(known), trusted[known]).proba(evidence)
    for this in np.unique(fold[known]):
        inside, others = known & (fold == this), known & (fold != this)
        model = fit_trusted(evidence.rows(others), trusted[others])
        proba[inside] = model.proba(evidence.rows(inside))
    return proba
