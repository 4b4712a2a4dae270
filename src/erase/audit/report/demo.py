"""The page of ``erase demo``: what the methods made of a graph with wrong labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from erase.audit.report import drawing as draw
from erase.audit.report.page import Block, Code, Page, Picture, Section, Table, Text
from erase.data.edges import edge_ends
from erase.data.files import StrPath
from erase.data.labels import encode_labels
from erase.data.splits import split_mask
from erase.methods import ERASE, NodeClassifier

# what a method is scored by, in the order of the table; the keys are those of `bench.run.score`
COLUMNS = {
    "test_accuracy": "Test accuracy",
    "correction_rate": "Wrong labels corrected",
    "accuracy_correct": "Right labels kept",
}

_LISTED = 20
_MISSING = "–"


def write_demo_report(
    path: StrPath,
    *,
    graph: Data,
    given: Data,
    models: dict[str, NodeClassifier],
    scores: dict[str, dict[str, float]],
    noise: str,
    seconds: dict[str, float],
) -> None:
    """Write a page that compares fitted methods on a graph whose labels were corrupted.

    Args:
        path: the HTML file.
        graph: the graph with clean labels, ``class_names``, splits and perhaps ``node_names``.
        given: the same graph with labels as the methods got them.
        models: fitted methods by the name to show.
        scores: shares of 1 by method and key, keys as in :data:`COLUMNS`; any may be missing.
        noise: the noise in words.
        seconds: training time by method.
    """
    demo_page(graph, given, models, scores, noise, seconds).write(path)


def demo_page(
    graph: Data,
    given: Data,
    models: Mapping[str, NodeClassifier],
    scores: Mapping[str, Mapping[str, float]],
    noise: str,
    seconds: Mapping[str, float],
) -> Page:
    """Return the page that :func:`write_demo_report` writes."""
    labels = _Labels.of(graph, given)
    return Page(
        title=f"Learning from wrong labels: {labels.graph_name}",
        lead=_lead(graph, labels, noise),
        sections=[
            _results(models, scores, seconds),
            *_pictures(labels, models),
            _corrections(labels, models),
            _reproduction(models),
        ],
    )


@dataclass(frozen=True, eq=False)
class _Labels:
    """The labels of a graph, as they are and as they were given.

    Attributes:
        true: [N] classes, -1 where unknown.
        given: [N] classes, -1 where none is given.
        class_names: K names.
        node_names: N names.
        values: [K] what methods predict for the classes.
        train: [N] bool, training nodes with a given label.
        val: [N] bool, validation nodes with a given label.
        test: [N] bool, test nodes whose class is known.
        graph_name: to show.
    """

    true: NDArray[np.int64]
    given: NDArray[np.int64]
    class_names: Sequence[str]
    node_names: Sequence[str]
    values: NDArray[Any]
    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]
    graph_name: str

    @classmethod
    def of(cls, graph: Data, given: Data) -> "_Labels":
        true, class_names, values = encode_labels(graph)
        told, _, _ = encode_labels(given)
        n = true.numel()
        train, val = (split_mask(given, part, n) for part in ("train", "val"))
        test = split_mask(graph, "test", n)
        val = torch.zeros(n, dtype=torch.bool) if val is None else val
        train = ~val if train is None else train
        test = told < 0 if test is None else test
        names = graph.node_names if "node_names" in graph else [f"node {i}" for i in range(n)]
        return cls(
            true=true.numpy(),
            given=told.numpy(),
            class_names=class_names,
            node_names=names,
            values=values,
            train=(train & (told >= 0)).numpy(),
            val=(val & (told >= 0)).numpy(),
            test=(test & (true >= 0)).numpy(),
            graph_name=str(graph.name) if "name" in graph else "your graph",
        )

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """[N] nodes whose given label is known to be wrong."""
        wrong: NDArray[np.bool_] = (self.given >= 0) & (self.true >= 0) & (self.given != self.true)
        return wrong

    def class_name(self, k: int) -> str:
        return self.class_names[k] if k >= 0 else _MISSING


def _lead(graph: Data, labels: _Labels, noise: str) -> str:
    ends = np.sort(torch.stack(edge_ends(graph)).numpy(), axis=0)
    pairs = np.unique(ends[:, ends[0] != ends[1]], axis=1).shape[1]  # either direction, once
    train, bad = int(labels.train.sum()), int((labels.train & labels.wrong).sum())
    val, bad_val = int(labels.val.sum()), int((labels.val & labels.wrong).sum())
    validation = f", and {bad_val:,} of the {val:,} that choose the epoch" if val else ""
    return (
        f"The graph {labels.graph_name} has {len(labels.true):,} nodes in "
        f"{len(labels.class_names)} classes and {pairs:,} edges; {train:,} training labels were "
        f"given, of which {bad:,} ({_percent(bad / max(train, 1), 0)}) are wrong{validation} "
        f"(noise {noise}). Each method learnt from these labels without knowing which are wrong; "
        f"here its answers are compared with the true ones."
    )


def _results(
    models: Mapping[str, NodeClassifier],
    scores: Mapping[str, Mapping[str, float]],
    seconds: Mapping[str, float],
) -> Section:
    keys = [key for key in COLUMNS if any(key in scores.get(name, {}) for name in models)]
    rows = [
        [
            name,
            *(_percent(scores.get(name, {}).get(key)) for key in keys),
            f"{seconds[name]:.1f} s" if name in seconds else _MISSING,
        ]
        for name in models
    ]
    body: list[Block] = [Table(["Method", *(COLUMNS[key] for key in keys), "Training"], rows)]
    drawn = {name: dict(scores.get(name, {})) for name in models}
    if any(keys):
        alt = "; ".join(
            f"{name}: test accuracy {_percent(row.get('test_accuracy'))}, "
            f"wrong labels corrected {_percent(row.get('correction_rate'))}"
            for name, row in drawn.items()
        )
        body.append(
            Picture(
                draw.accuracy_bars(drawn),
                f"Bars. {alt}.",
                "Corrected and kept: of the training nodes whose given label is wrong, or right, "
                "those whose true class the method predicts.",
                vector=True,
            )
        )
    return Section("Result", body)


def _pictures(labels: _Labels, models: Mapping[str, NodeClassifier]) -> list[Section]:
    nodes = labels.test
    embeddings = {name: model.transform()[nodes] for name, model in models.items()}
    compared = draw.Embeddings(embeddings, labels.true[nodes], labels.class_names)
    methods = " and ".join(models)
    sections = [
        Section(
            "Cosine similarity between sorted representations",
            [
                Picture(
                    draw.cosine_map(compared),
                    "Heat maps of the cosine similarity between test nodes sorted by true class, "
                    f"for {methods}.",
                    "Test nodes sorted by true class, equally many of each if possible. Look for "
                    "bright blocks on the diagonal, nodes of a class pointing the same way, and "
                    "darkness elsewhere: orthogonal classes, the optimum of coding rate reduction.",
                )
            ],
        ),
        Section(
            "PCA",
            [
                Picture(
                    draw.pca_map(compared),
                    f"Two principal components of the representations of {methods}, "
                    "coloured by true class.",
                    "A linear map to the plane. Orthogonal classes lie along separate straight "
                    "rays; classes that share a ray or fill the middle are still mixed.",
                )
            ],
        ),
        Section(
            "t-SNE",
            [
                Picture(
                    draw.tsne_map(compared),
                    f"t-SNE maps of the representations of {methods}, coloured by true class.",
                    "A map that keeps neighbours. Look for islands of one colour and marker; "
                    "distances between islands mean little.",
                )
            ],
        ),
    ]
    histories = {name: model.history_ for name, model in models.items()}
    best = {name: model.best_epoch_ for name, model in models.items()}
    noisy = bool((labels.val & labels.wrong).any())
    chosen = ", ".join(f"{name} {epoch}" for name, epoch in best.items())
    curves = Picture(
        draw.curves(histories, best),
        f"Loss and validation accuracy of {methods} over epochs; chosen epochs: {chosen}.",
        "Losses are different quantities, each on its own scale. "
        + ("Validation labels are wrong in part: accuracy on them stays low. " if noisy else "")
        + f"Dashed lines and dots mark the epoch that was chosen ({chosen}).",
        vector=True,
    )
    return [*sections, Section("Loss and accuracy", [curves])]


def _corrections(labels: _Labels, models: Mapping[str, NodeClassifier]) -> Section:
    main = next(
        (name for name, model in models.items() if isinstance(model, ERASE)), next(iter(models))
    )
    said = {name: _classes(model.predict(), labels.values) for name, model in models.items()}
    mislabelled = np.flatnonzero(labels.train & labels.wrong)
    corrected = mislabelled[said[main][mislabelled] == labels.true[mislabelled]]
    count = (
        f"{main} predicts the true class of {len(corrected):,} of the {len(mislabelled):,} "
        "training nodes whose given label is wrong"
    )
    if not len(corrected):
        return Section(f"Labels that {main} corrected", [Text(f"{count}.")])
    more = f"; {_LISTED} of them, spread evenly, are" if len(corrected) > _LISTED else "; they are"
    places = np.linspace(0, len(corrected) - 1, min(_LISTED, len(corrected))).round().astype(int)
    others = [name for name in models if name != main]
    header = ["Node", "Given", main, "True", *others]
    rows = [
        [
            str(labels.node_names[node]),
            labels.class_name(labels.given[node]),
            labels.class_name(said[main][node]),
            labels.class_name(labels.true[node]),
            *(labels.class_name(said[name][node]) for name in others),
        ]
        for node in corrected[places]
    ]
    return Section(f"Labels that {main} corrected", [Text(f"{count}{more}:"), Table(header, rows)])


def _reproduction(models: Mapping[str, NodeClassifier]) -> Section:
    settings = "\n".join(repr(model) for model in models.values())
    return Section(
        "How to reproduce this page",
        [
            Code("erase demo"),
            Text("The methods, with what departs from their defaults:"),
            Code(settings),
        ],
    )


def _classes(predicted: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Return predictions [N] as numbers of classes, -1 for one that is not among `values`."""
    number = {value: k for k, value in enumerate(values.tolist())}
    return np.array([number.get(value, -1) for value in predicted.tolist()], dtype=np.int64)


def _percent(share: float | None, decimals: int = 1) -> str:
    return _MISSING if share is None or np.isnan(share) else f"{share:.{decimals}%}"
