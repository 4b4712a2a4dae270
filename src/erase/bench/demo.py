"""The demo: the embedded graph with noisy labels audited and trained on, compared on one page."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from torch_geometric.data import Data

from erase.audit import Audit, audit
from erase.audit.report.audit_page import audit_page
from erase.audit.report.render import render, write_page
from erase.bench.detection import score_audit
from erase.bench.run import PROTOCOLS, given_labels, score
from erase.data.datasets import load_dataset
from erase.data.files import StrPath, write_json, write_table
from erase.data.labels import encode_labels
from erase.methods import ERASE, CrossEntropy, NodeClassifier, Relabelling

PROTOCOL = PROTOCOLS["honest"]
_EXAMPLES = 10
# columns of the table; the keys are those of `score`
_SCORES = {
    "test_accuracy": "Test accuracy",
    "correction_rate": "Wrong labels corrected",
    "accuracy_correct": "Right labels kept",
}
_FILES = {
    "audit/issues.csv": "every given label, its suggestion and the evidence",
    "audit/labels_clean.csv": "the labels with the suggestions applied",
    "audit/summary.json": "the audit in numbers",
    "predictions.csv": "given label, true label and every method's prediction of each node",
    "summary.json": "the scores and settings of this demo",
}


@dataclass(frozen=True, eq=False)
class Demo:
    """An audit of noisy labels and methods trained on them, with the truth.

    Attributes:
        clean: the graph with all its true labels.
        given: the same graph with labels as audit and methods got them.
        noise: the noise in words.
        audit: of `given`.
        models: fitted to `given`, by the name to show.
        seconds: training time by method.
    """

    clean: Data
    given: Data
    noise: str
    audit: Audit
    models: Mapping[str, NodeClassifier]
    seconds: Mapping[str, float]

    def scores(self) -> dict[str, dict[str, float]]:
        """Return the scores of every method against the true labels."""
        return {name: score(model, self.clean, self.given) for name, model in self.models.items()}

    def predictions(self) -> pd.DataFrame:
        """Return a row per node: given label, true label, and the prediction of every method."""
        true, class_names, values = encode_labels(self.clean)
        given, _, _ = encode_labels(self.given)
        names = np.array([*class_names, ""], dtype=object)  # -1, no label, is the last
        number = {value: k for k, value in enumerate(values.tolist())}
        columns: dict[str, Any] = {"node": np.arange(len(true))}
        if "node_names" in self.clean:
            columns["name"] = list(self.clean.node_names)
        columns |= {"given": names[given.numpy()], "true": names[true.numpy()]}
        for name, model in self.models.items():
            columns[name] = names[[number[value] for value in model.predict().tolist()]]
        return pd.DataFrame(columns)


def run_demo(
    out: StrPath,
    *,
    rate: float = 0.4,
    seed: int = 0,
    device: str = "auto",
    epochs: int = 100,
    progress: bool = True,
) -> dict[str, Any]:
    """Audit the embedded graph with noisy labels, train on them, and write the results to `out`.

    Returns the summary that ``summary.json`` holds; ``report`` in it is the page to open.

    Args:
        out: folder, made where it is missing.
        rate: φ of the symmetric noise on training and validation labels.
        seed: of the noise, the audit and the methods.
        device: "auto", "cpu" or "cuda".
        epochs: most epochs of ERASE and cross-entropy.
        progress: print each step to stderr.
    """

    def step(text: str) -> None:
        if progress:
            print(text, file=sys.stderr, flush=True)

    out = Path(out)
    clean = load_dataset("debian")
    noise = f"symmetric:{rate:g}"
    given = given_labels(clean, "symmetric", rate, seed, PROTOCOL)
    step(f"1/3 Auditing the labels of the embedded graph, noise {noise} …")
    found = audit(given, seed=seed, device=device, progress=progress)
    found = replace(found, settings={"graph": "debian", "noise": noise, **found.settings})
    shared: dict[str, Any] = {"seed": seed, "device": device, "epochs": epochs}
    models: dict[str, NodeClassifier] = {
        "relabelling": Relabelling(seed=seed, device=device),
        "ERASE": ERASE.preset(dataset="debian", **shared),
        "cross-entropy": CrossEntropy(**shared),
    }
    seconds = {}
    for name, model in models.items():
        step(f"2/3 Training {name} …")
        start = time.perf_counter()
        model.fit(given, progress=progress)
        seconds[name] = time.perf_counter() - start
    step("3/3 Writing the report …")
    demo = Demo(clean, given, noise, found, models, seconds)
    found.save(out / "audit")
    write_table(demo.predictions(), out / "predictions.csv")
    write_page(out / "report.html", render("demo.html", **demo_page(demo)))
    summary = {
        "graph": "debian",
        "noise": noise,
        "protocol": vars(PROTOCOL),
        "seed": seed,
        "audit": score_audit(found, clean),
        "scores": demo.scores(),
        "seconds": {"audit": found.seconds, **seconds},
        "report": str(out / "report.html"),
    }
    write_json(summary, out / "summary.json")
    return summary


def demo_page(demo: Demo) -> dict[str, Any]:
    """Return what the template ``demo.html`` shows."""
    scores = demo.scores()
    rows = [
        [
            name,
            *(f"{scores[name][key]:.1%}" if key in scores[name] else "–" for key in _SCORES),
            f"{demo.seconds[name]:.1f} s" if name in demo.seconds else "–",
        ]
        for name in demo.models
    ]
    true, _, _ = encode_labels(demo.clean)
    suspects = demo.audit.issues[demo.audit.issues["is_issue"]].head(_EXAMPLES)
    number = {name: k for k, name in enumerate(demo.audit.class_names)}
    return audit_page(demo.audit) | {
        "title": "Demo: find wrong labels, and train in spite of them",
        "noise": demo.noise,
        "truth": score_audit(demo.audit, demo.clean),
        "scores": scores,
        "score_header": ["Method", *_SCORES.values(), "Training"],
        "score_rows": rows,
        "examples": [
            {
                "name": getattr(row, "name", f"node {row.node}"),
                "node": int(row.node),
                "classes": [number[row.given], number[row.suggested], int(true[row.node])],
            }
            for row in suspects.itertuples(index=False)
        ],
        "files": _FILES,
        "methods": [repr(clone(model)) for model in demo.models.values()],
    }
