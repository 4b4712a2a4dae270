"""What each of several processes does in the test of many: fit and audit, and write what came out.

ranks.py OUT      (as one of several processes, or alone: OUT has the same names)
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from erase.audit.places import own_places
from erase.audit.run import audit_by_all
from erase.data.files import save_arrays
from erase.data.noise import corrupt
from erase.data.splits import without_splits
from erase.data.task import NodeTask
from erase.methods import METHODS
from erase.methods.relabelling import ensemble, smoothing
from erase.nn import neighbours
from erase.training.processes import gather_rows, joined, rank, shared
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
            save(case, arrays)
        relabelling = METHODS["relabelling"](**CASES["relabelling"])
        places = own_places(NodeTask.of(graph).edge_index, graph.num_nodes, 7)
        whole = places.new_empty(graph.num_nodes, 7)
        gather_rows(places, graph.num_nodes, 16, whole)
        task = NodeTask.of(without_splits(graph))
        crossed: Any = relabelling.cross_fit(task, np.arange(graph.num_nodes) % 3)
        save("divided", {
            "squares": torch.tensor(shared(lambda number: number**2, range(7))),
            "places": whole @ whole.T,  # their signs may differ
            "out-of-fold": torch.from_numpy(crossed.own),
        })  # fmt: skip
        save("rows", {
            "features": torch.tensor(places.shape),
            "embedding": torch.tensor(crossed.embedding.shape),
            "smoothed": torch.tensor(crossed.smoothed.shape),
        })  # fmt: skip
        for name, method in {"": relabelling, " by labels": METHODS["label-propagation"]()}.items():
            found = audit_by_all(without_splits(graph), method=method)
            if found is not None:
                audited, evidence = found
                save(f"audit{name}", {
                    "proba": torch.from_numpy(audited.pred_probs),
                    "posterior": torch.from_numpy(audited.decision.posterior),
                    "transition": torch.from_numpy(audited.decision.transition),
                    "embedding": torch.from_numpy(audited.embedding),
                    "by graph": torch.from_numpy(evidence.graph),
                    "smoothed": torch.from_numpy(evidence.smoothed),
                    "features": torch.from_numpy(evidence.features),
                })  # fmt: skip


def save(case: str, arrays: dict[str, torch.Tensor]) -> None:
    """Write what this process has."""
    save_arrays(Path(sys.argv[1]) / f"{case} {rank()}.safetensors", arrays, {})


if __name__ == "__main__":
    main()
