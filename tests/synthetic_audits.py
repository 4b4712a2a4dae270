"""Audits made by hand from planted classes: what a page has to show, without any training."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from erase.audit import Agreement, Audit, Decision, Estimate
from erase.audit.decision import IGNORES_FEATURES
from erase.audit.feature_noise import FeatureNoise

CLASSES = (
    "games", "science", "sound", "graphics", "net", "web", "mail",
    "text", "math", "video", "electronics", "database", "editors",
)  # fmt: skip


def planted_audit(
    nodes: int = 600,
    class_names: tuple[str, ...] = CLASSES,
    *,
    seed: int = 0,
    degree: float = 8.0,
    unlabelled: float = 0.1,
    noise: float = 0.15,
    width: int = 16,
    **changes: Any,
) -> Audit:
    """Return the audit of a graph whose communities are classes and whose labels are partly wrong.

    Node names are ``package 0``, … Errors go to the next class mostly.
    """
    rng = np.random.default_rng(seed)
    k = len(class_names)
    true = rng.integers(k, size=nodes)
    given = np.where(rng.random(nodes) < noise, (true + 1 + (rng.random(nodes) < 0.2)) % k, true)
    given[rng.random(nodes) < unlabelled] = -1
    edge_index = _communities(true, degree, rng)
    centres = 0.7 * rng.normal(size=(k, width))
    embedding = (centres[true] + 0.9 * rng.normal(size=(nodes, width))).astype(np.float32)
    closeness = 0.8 * (embedding @ centres.T - 0.5 * (centres**2).sum(1))
    proba = np.exp(closeness - closeness.max(1, keepdims=True)) + 1e-3
    proba /= proba.sum(1, keepdims=True)
    labelled = np.flatnonzero(given >= 0)
    decision = _decide(given[labelled], proba[labelled], noise)
    names = tuple(f"package {i}" for i in range(nodes))
    parts: dict[str, Any] = {
        "issues": _issues(given, decision, edge_index, proba, class_names, names),
        "class_names": class_names,
        "label_values": np.arange(k),
        "pred_probs": proba,
        "given": given,
        "decision": decision,
        "embedding": embedding,
        "edge_index": edge_index,
        "node_names": names,
        "settings": {"method": "erase", "folds": 5, "seed": 0, "max_false_alarms": 0.2},
        "notes": ("3 duplicate edges were dropped.",),
        "seconds": 61.4,
    }
    return Audit(**(parts | changes))


def _communities(
    true: NDArray[np.int64], degree: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return [2, E], both directions once: four in five edges inside classes, and a hub, node 0."""
    n = len(true)
    count = int(n * degree / 2)
    order = np.argsort(true, kind="stable")
    first = np.searchsorted(true[order], np.arange(true.max(initial=0) + 2))
    a = rng.integers(n, size=count)
    low, high = first[true[a]], first[true[a] + 1]
    inside = order[low + (rng.random(count) * (high - low)).astype(np.int64)]
    b = np.where(rng.random(count) < 0.8, inside, rng.integers(n, size=count))
    hub = np.arange(1, min(n, 61))
    pairs = np.stack([np.r_[a, hub * 0], np.r_[b, hub]])
    pairs = pairs[:, pairs[0] != pairs[1]]
    both: NDArray[np.int64] = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    return both


def _decide(given: NDArray[np.int64], proba: NDArray[np.float64], noise: float) -> Decision:
    n, k = proba.shape
    transition = (1 - noise) * np.eye(k) + noise / 5 * np.roll(np.eye(k), 2, axis=1)
    transition += noise * 4 / 5 * np.roll(np.eye(k), 1, axis=1)
    posterior = proba * (0.97 * transition + 0.03 / k)[:, given].T
    posterior /= posterior.sum(1, keepdims=True)
    quality = posterior[np.arange(n), given]
    suggested = posterior.argmax(1)
    other = suggested != given
    order = np.sort(quality[other])
    kept = int((np.cumsum(order) / np.arange(1, len(order) + 1) <= 0.2).sum())
    threshold = float(order[kept - 1]) if kept else 0.0
    is_issue = other & (quality <= threshold) if kept else np.zeros(n, dtype=bool)
    sure = posterior.max(1, initial=0) >= 0.8
    verdict = np.where(is_issue, np.where(sure, "wrong", "can't tell"), "right")
    return Decision(
        quality=quality,
        posterior=posterior,
        suggested=suggested,
        is_issue=is_issue,
        verdict=verdict,
        contradicted=proba.argmax(1) != given,
        noise_rate=Estimate(noise, 0.8 * noise, 1.3 * noise),
        at_least=Estimate(0.8 * noise, 0.7 * noise, noise),
        assumption=IGNORES_FEATURES,
        feature_noise=FeatureNoise(4.5, 0.2, 1.2, 0.0),
        agreement=Agreement(0.72, 0.11, 0.65, 0.05, 0.64),
        transition=transition,
        transition_low=0.7 * transition,
        transition_high=np.minimum(1.3 * transition, 1),
        expected_false_alarms=float(quality[is_issue].mean()) if kept else 0.0,
        threshold=threshold,
    )


def _issues(
    given: NDArray[np.int64],
    decision: Decision,
    edge_index: NDArray[np.int64],
    proba: NDArray[np.float64],
    class_names: tuple[str, ...],
    names: tuple[str, ...],
) -> pd.DataFrame:
    n = len(given)
    labelled = np.flatnonzero(given >= 0)
    suggested = np.full(n, -1)
    suggested[labelled] = decision.suggested
    a, b = edge_index
    counted = [
        np.bincount(a, chosen.astype(float), minlength=n)[labelled]
        for chosen in (given[b] >= 0, given[b] == given[a], given[b] == suggested[a])
    ]
    with np.errstate(invalid="ignore"):
        agree, toward = counted[1] / counted[0], counted[2] / counted[0]
        near = np.bincount(a, proba[b, given[a]], minlength=n) / np.bincount(a, minlength=n)
    classes = np.array(class_names, dtype=object)
    table = pd.DataFrame(
        {
            "node": labelled,
            "name": [names[i] for i in labelled],
            "given": classes[given[labelled]],
            "suggested": classes[decision.suggested],
            "quality": decision.quality,
            "is_issue": decision.is_issue,
            "verdict": decision.verdict,
            "probability": decision.posterior.max(1, initial=0),
            "neighbours": np.bincount(a, minlength=n)[labelled],
            "neighbours_agree": agree,
            "neighbours_suggested": toward,
            "neighbours_proba": near[labelled],
        }
    )
    return table.sort_values("quality", kind="stable").reset_index(drop=True)
