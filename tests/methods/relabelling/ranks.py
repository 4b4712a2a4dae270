"""What each of several processes does in the test of many: fit and audit, and write what came out.

ranks.py OUT      (as one of several processes, or alone: OUT has the same names)
"""

import sys
from pathlib import Path
from typing import Any

import torch

from erase.audit.run import audit_by_all
from erase.data.files import save_arrays
from erase.data.noise import corrupt
from erase.data.splits import without_splits
from erase.methods import METHODS
from erase.methods.relabelling import ensemble, smoothing
from erase.nn import neighbours
from erase.training.processes import joined, rank
from graphs import two_communities

CASES: dict[str, dict[str, Any]] = {
    "relabelling": {"width": 9, "folds": 3, "rounds": 1},
    "relabelling, all columns": {"width": 64, "folds": 3, "rounds": 1},
    "smoothed": {"width": 9},
    "label-propagation": {},
}


def main() -> None:
    neighbours.MOST_ROWS_IN_FULL = 40  # rows are searched by centres, and summed
    for module in (ensemble, smoothing):
        vars(module)["NODES_AT_ONCE"] = 16
    graph = corrupt(two_communities(classes=3, size=41), "pair", 0.3, seed=0, on="train+val")
    with joined(torch.device("cpu")):
        for case, settings in CASES.items():
            model = METHODS[case.split(",")[0]](**settings, device="cpu").fit(graph)
            arrays = {
                "proba": torch.from_numpy(model.predict_proba()),
                "embedding": torch.from_numpy(model.transform()),
                "labels": model.fit_.outcome.labels,
            }
            arrays |= {f"weight/{k}": v for k, v in model.fit_.weights.items()}
            save_arrays(Path(sys.argv[1]) / f"{case} {rank()}.safetensors", arrays, {})
        method = METHODS["relabelling"](**CASES["relabelling"])
        found = audit_by_all(without_splits(graph), method=method)
        if found is None:
            return
        audited, evidence = found
        arrays = {
            "proba": torch.from_numpy(audited.pred_probs),
            "quality": torch.from_numpy(audited.decision.quality),
            "posterior": torch.from_numpy(audited.decision.posterior),
            "transition": torch.from_numpy(audited.decision.transition),
            "embedding": torch.from_numpy(audited.embedding),
            "by graph": torch.from_numpy(evidence.graph),
            "smoothed": torch.from_numpy(evidence.features),
        }
        save_arrays(Path(sys.argv[1]) / f"audit {rank()}.safetensors", arrays, {})


if __name__ == "__main__":
    main()
