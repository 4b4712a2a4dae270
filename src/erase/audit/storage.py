"""An audit in one file, to continue with later: safetensors with JSON inside, nothing that runs."""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import convert
from torch import Tensor

from erase.audit.agreement import Agreement
from erase.audit.decision import Decision
from erase.audit.feature_noise import FeatureNoise
from erase.audit.flags import CANNOT_TELL
from erase.audit.noise_rate import Estimate
from erase.audit.result import Audit, issue_table
from erase.data.files import StrPath, load_arrays, save_arrays
from erase.errors import EraseError, damage_errors

FILE = "audit.safetensors"
_FORMAT = 3
_VERDICTS = np.array(["right", "wrong", CANNOT_TELL])
_ARRAYS = ("pred_probs", "given", "embedding", "edge_index")
_ISSUES = (
    "node_ids",
    "node_names",
    "class_names",
    "given",
    "decision",
    "edge_index",
    "pred_probs",
    "trusted",
)
_PER_LABEL = ("suggested", "quality", "is_issue", "verdict", "contradicted", "posterior")
_SWITCHES = ("is_issue", "contradicted")
_TRANSITIONS = ("transition", "transition_low", "transition_high")
_SHARES = ("quality", "posterior", "expected_false_alarms", "threshold")
_LISTS = ("class_names", "label_values", "node_names", "node_ids")


def save_audit(audit: Audit, path: StrPath) -> None:
    """Write an audit into one file, for `load_audit`."""
    decision = {each.name: getattr(audit.decision, each.name) for each in fields(Decision)}
    decision["verdict"] = (decision["verdict"][:, None] == _VERDICTS).argmax(1).astype(np.uint8)
    arrays = {f"decision/{k}": v for k, v in decision.items() if isinstance(v, np.ndarray)}
    arrays |= {name: getattr(audit, name) for name in _ARRAYS}
    arrays |= {} if audit.trusted is None else {"trusted": audit.trusted}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in arrays.items()}
    # as arrays: the JSON of a safetensors file is limited, and there may be millions of names
    tensors |= {name: _pack(getattr(audit, name)) for name in _LISTS}
    metadata = {
        "kind": "audit",
        "format": _FORMAT,
        "noise_rate": asdict(audit.decision.noise_rate),
        "at_least": asdict(audit.decision.at_least),
        "assumption": audit.decision.assumption,
        "feature_noise": None if (noise := audit.decision.feature_noise) is None else asdict(noise),
        "agreement": asdict(audit.decision.agreement),
        "expected_false_alarms": audit.decision.expected_false_alarms,
        "threshold": audit.decision.threshold,
        "confirmed": audit.decision.confirmed,
        "settings": audit.settings,
        "notes": audit.notes,
        "seconds": audit.seconds,
    }
    save_arrays(path, tensors, metadata)


def load_audit(path: StrPath) -> Audit:
    """Read an audit that :meth:`Audit.save` wrote; it is equal to the one that was saved.

    Args:
        path: the folder that was saved to, or the file ``audit.safetensors`` in it.
    """
    is_folder = isinstance(path, str | os.PathLike) and os.path.isdir(path)
    tensors, metadata = load_arrays(Path(path) / FILE if is_folder else path)
    metadata = metadata if isinstance(metadata, dict) else {}
    if "kind" not in metadata and "method" in metadata:
        raise EraseError(
            "an audit, such as the audit.safetensors of erase audit",
            f"{path}, which holds a model, not an audit",
            "Check the path; erase.load_model reads a model.",
        )
    if (metadata.get("kind"), metadata.get("format")) != ("audit", _FORMAT):
        raise EraseError(
            f"an audit of format {_FORMAT}, written by Audit.save",
            f"{path}, of kind {metadata.get('kind')!r} and format {metadata.get('format')!r}",
            "Check the path, or update erase if a newer version wrote it.",
        )
    with damage_errors(
        "an audit whose parts fit together", path, "Copy it again, or run the audit again."
    ):
        return _from_file(tensors, metadata)


def _feature_noise(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of `FeatureNoise`; version 0.2 knew no probability, only what was so."""
    noise: dict[str, Any] | None = metadata["feature_noise"]
    if noise is None or "probability" in noise:
        return noise
    return noise | {"probability": float(noise["label_weight"] < 3 and noise["graph_share"] < 0.9)}


def _from_file(tensors: dict[str, Tensor], metadata: dict[str, Any]) -> Audit:
    lists: dict[str, Any] = {name: _unpack(tensors.pop(name)) for name in _LISTS}
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    decision = {k.removeprefix("decision/"): v for k, v in arrays.items() if "/" in k}
    # an audit of version 0.2.0 does not have it
    decision.setdefault("contradicted", np.zeros_like(decision["is_issue"]))
    decision |= {
        "verdict": _VERDICTS[decision["verdict"]],
        "noise_rate": convert(metadata["noise_rate"], Estimate),
        "at_least": convert(metadata["at_least"], Estimate),
        "assumption": convert(metadata["assumption"], str),
        "feature_noise": convert(_feature_noise(metadata), FeatureNoise | None),
        "agreement": convert(metadata["agreement"], Agreement),
        "expected_false_alarms": convert(metadata["expected_false_alarms"], float),
        "threshold": convert(metadata["threshold"], float),
        "confirmed": convert(metadata["confirmed"], int),
    }
    settings = convert(metadata["settings"], dict[str, Any])
    if "parameters" in settings:  # JSON has no tuples
        settings["parameters"] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in settings["parameters"].items()
        }
    _check_shapes(arrays, decision, lists)
    parts: dict[str, Any] = {
        **{name: None if value is None else tuple(value) for name, value in lists.items()},
        **{name: arrays[name] for name in _ARRAYS},
        "trusted": arrays.get("trusted"),
        "label_values": np.array(lists["label_values"]),
        "decision": Decision(**decision),
    }
    return Audit(
        issues=issue_table(**{name: parts[name] for name in _ISSUES}),
        settings=settings,
        notes=convert(metadata["notes"], tuple[str, ...]),
        seconds=convert(metadata["seconds"], float),
        **parts,
    )


def _check_shapes(arrays: dict[str, Any], decision: dict[str, Any], lists: dict[str, Any]) -> None:
    """Raise a ValueError unless the arrays of an audit belong to the same nodes and classes."""
    given, edges, k = arrays["given"], arrays["edge_index"], len(lists["class_names"])
    n, labels = len(given), int((given >= 0).sum())
    proba = arrays["pred_probs"]
    as_expected = (
        proba.shape == (n, k)
        and bool((np.abs(proba.sum(1) - 1) < 1e-3).all() and (proba >= 0).all())
        and bool(((given >= -1) & (given < k)).all())
        and len(lists["label_values"]) == k == len({*lists["class_names"]})
        and edges.ndim == 2
        and len(edges) == 2
        and bool(((edges >= 0) & (edges < n)).all())
        and len(arrays["embedding"]) == n
        and all(lists[name] is None or len(lists[name]) == n for name in _LISTS[2:])
        and all(len(decision[name]) == labels for name in _PER_LABEL)
        and bool(((decision["suggested"] >= 0) & (decision["suggested"] < k)).all())
        and decision["posterior"].shape == (labels, k)
        and all(decision[name].shape == (k, k) for name in _TRANSITIONS)
        and all(_are_shares(decision[name]) for name in (*_SHARES, *_TRANSITIONS))
        and all(decision[name].dtype == np.bool_ for name in _SWITCHES)
        and all(bool((decision[name].view(np.uint8) <= 1).all()) for name in _SWITCHES)
        and bool(np.isfinite(arrays["embedding"]).all())
    )
    if not as_expected:
        raise ValueError("arrays of different graphs, or numbers that are not probabilities")


def _are_shares(values: Any) -> bool:
    """Say whether numbers are within 0..1, but for rounding; NaN is not."""
    return bool(((np.asarray(values) >= -1e-6) & (np.asarray(values) <= 1 + 1e-6)).all())


def _pack(values: Any) -> Tensor:
    """Return a list of names or numbers, or None, as bytes."""
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    text = json.dumps(plain, default=lambda v: v.item() if isinstance(v, np.generic) else str(v))
    return torch.from_numpy(np.frombuffer(text.encode(), np.uint8).copy())


def _unpack(packed: Tensor) -> Any:
    return json.loads(packed.numpy().tobytes())
