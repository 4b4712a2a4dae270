"""An audit in one file, to continue with later: safetensors with JSON inside, nothing that runs."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from erase.audit.decision import CANNOT_TELL, Agreement, Decision, Estimate
from erase.audit.result import Audit, issue_table
from erase.data.files import StrPath, load_arrays, save_arrays
from erase.errors import EraseError

FILE = "audit.safetensors"
_FORMAT = 1
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
)
_LISTS = ("class_names", "label_values", "node_names", "node_ids")


def save_audit(audit: Audit, path: StrPath) -> None:
    """Write an audit into one file, for `load_audit`."""
    decision = {each.name: getattr(audit.decision, each.name) for each in fields(Decision)}
    decision["verdict"] = (decision["verdict"][:, None] == _VERDICTS).argmax(1).astype(np.uint8)
    arrays = {f"decision/{k}": v for k, v in decision.items() if isinstance(v, np.ndarray)}
    arrays |= {name: getattr(audit, name) for name in _ARRAYS}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in arrays.items()}
    # as arrays: the JSON of a safetensors file is limited, and there may be millions of names
    tensors |= {name: _pack(getattr(audit, name)) for name in _LISTS}
    metadata = {
        "kind": "audit",
        "format": _FORMAT,
        "noise_rate": asdict(audit.decision.noise_rate),
        "agreement": asdict(audit.decision.agreement),
        "expected_false_alarms": audit.decision.expected_false_alarms,
        "threshold": audit.decision.threshold,
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
    path = Path(path)
    tensors, metadata = load_arrays(path / FILE if path.is_dir() else path)
    metadata = metadata if isinstance(metadata, dict) else {}
    if (metadata.get("kind"), metadata.get("format")) != ("audit", _FORMAT):
        raise EraseError(
            f"an audit of format {_FORMAT}, written by Audit.save",
            f"{path}, of kind {metadata.get('kind')!r} and format {metadata.get('format')!r}",
            "Check the path, or update erase if a newer version wrote it.",
        )
    lists: dict[str, Any] = {name: _unpack(tensors.pop(name)) for name in _LISTS}
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    decision = {k.removeprefix("decision/"): v for k, v in arrays.items() if "/" in k}
    decision |= {
        "verdict": _VERDICTS[decision["verdict"]],
        "noise_rate": Estimate(**metadata["noise_rate"]),
        "agreement": Agreement(**metadata["agreement"]),
        "expected_false_alarms": metadata["expected_false_alarms"],
        "threshold": metadata["threshold"],
    }
    settings = metadata["settings"]
    if "parameters" in settings:  # JSON has no tuples
        settings["parameters"] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in settings["parameters"].items()
        }
    parts: dict[str, Any] = {
        **{name: None if value is None else tuple(value) for name, value in lists.items()},
        **{name: arrays[name] for name in _ARRAYS},
        "label_values": np.array(lists["label_values"]),
        "decision": Decision(**decision),
    }
    return Audit(
        issues=issue_table(**{name: parts[name] for name in _ISSUES}),
        settings=settings,
        notes=tuple(metadata["notes"]),
        seconds=metadata["seconds"],
        **parts,
    )


def _pack(values: Any) -> Tensor:
    """Return a list of names or numbers, or None, as bytes."""
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    text = json.dumps(plain, default=lambda v: v.item() if isinstance(v, np.generic) else str(v))
    return torch.from_numpy(np.frombuffer(text.encode(), np.uint8).copy())


def _unpack(packed: Tensor) -> Any:
    return json.loads(packed.numpy().tobytes())
