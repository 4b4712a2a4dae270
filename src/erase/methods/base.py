"""What every method shares: hyper-parameters, input checks, predictions, files."""

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import ClassifierTags
from torch import Tensor
from torch_geometric.data import Data

from erase.data.contract import FeatureContract
from erase.data.files import load_arrays, save_arrays
from erase.data.kinds import graph_data
from erase.data.labels import encode_labels, refuse_other_labels
from erase.data.parts import output_path
from erase.data.splits import read_splits
from erase.data.task import NodeTask
from erase.display import Facts, fact_line, fact_table
from erase.errors import WITHOUT_WEIGHTS, EraseError, damage_errors, memory_errors, shown
from erase.training.loop import Fit, Loop, Outcome

_FORMAT = 2  # of model files
_LARGEST_WHOLE, _LARGEST = 2**63 - 1, float(np.finfo(np.float32).max)  # torch takes no larger ones


@dataclass(frozen=True)
class Number:
    """A parameter that is a number in [low, high], or in (low, high] with `open_low`."""

    low: float = -np.inf
    high: float = np.inf
    whole: bool = False
    open_low: bool = False

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is such a number."""
        kinds = (int, np.integer) if self.whole else (int, float, np.integer, np.floating)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        above = self.low < value if self.open_low else self.low <= value
        largest = _LARGEST_WHOLE if self.whole else _LARGEST
        return bool(above and -largest <= value <= min(self.high, largest))

    def __str__(self) -> str:
        """Return the constraint in words."""
        kind = "a whole number" if self.whole else "a number"
        low = f"{'>' if self.open_low else '≥'} {self.low:g}" if self.low > -np.inf else ""
        high = f"≤ {self.high:g}" if self.high < np.inf else ""
        return " ".join(part for part in (kind, low, "and" if low and high else "", high) if part)


@dataclass(frozen=True)
class OneOf:
    """A parameter that is one of a few values, or with `function` a function, which it describes.

    >>> str(OneOf(("gat", "gcn"), "(in, out) -> module"))
    "one of 'gat', 'gcn', or a function (in, out) -> module"
    """

    values: tuple[Any, ...]
    function: str = ""

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is one of them, and of the same type, or such a function."""
        if self.function and callable(value):
            return True
        return any(type(value) is type(v) and value == v for v in self.values)

    def __str__(self) -> str:
        """Return the constraint in words."""
        words = "one of " + ", ".join(map(repr, self.values))
        return f"{words}, or a function {self.function}" if self.function else words


@dataclass(frozen=True)
class Numbers:
    """A parameter that is a few whole numbers ≥ low, but not 0."""

    length: int
    low: int

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is such a tuple or list."""
        number = Number(low=self.low, whole=True)
        return (
            isinstance(value, tuple | list)
            and len(value) == self.length
            and all(number.accepts(part) and part != 0 for part in value)
        )

    def __str__(self) -> str:
        """Return the constraint in words."""
        return f"{self.length} whole numbers ≥ 1, or {self.low} for all"


Constraint = Number | OneOf | Numbers


@dataclass(frozen=True)
class Range:
    """Where to search for a parameter: [low, high], by its logarithm with `log`."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Predictions for all nodes by models that were each trained without one fold of the labels.

    Attributes:
        own: [N, K] of a labelled node by the model that misses its fold; the mean over all models
            where a node has no label.
        classes_seen: [folds, K] whether the model had a training label of the class.
        embedding: [N, D]; of several processes only the first has rows.
        by_fold: returns the predictions of every model for every node [folds, N, K].
        views: [n, K] by name, of the labelled nodes: the prediction of each part of the features
            without the label; empty where the method does not take features apart.
        smoothed: [N, D] features smoothed over the graph, again of the first process; None where
            the method has none.
    """

    own: NDArray[np.float32]
    classes_seen: NDArray[np.bool_]
    embedding: NDArray[np.float32]
    by_fold: Callable[[], NDArray[np.float32]]
    views: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    smoothed: NDArray[np.float32] | None = None

    @property
    def proba(self) -> NDArray[np.float32]:
        """Return the predictions of every model [folds, N, K], computed anew."""
        return self.by_fold()


COUNT = Number(low=1, whole=True)
POSITIVE = Number(low=0, open_low=True)
SHARE = Number(low=0, high=1)
SWITCH = OneOf((False, True))


def resolve_device(device: str) -> torch.device:
    """Return the torch device of a parameter; ``"auto"`` takes a GPU where there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        resolved = torch.device("meta")
    if resolved.type not in ("cpu", "cuda"):
        raise EraseError("device 'auto', 'cpu' or 'cuda'", repr(device), "Choose one.")
    is_there = torch.cuda.is_available() and (
        resolved.index is None or resolved.index < torch.cuda.device_count()
    )
    if resolved.type == "cuda" and not is_there:
        raise EraseError(
            f"the device {device!r}",
            "none that torch can see",
            "Use device='cpu'.",
            option="device",
        )
    return resolved


def show_notes(task: NodeTask, graph: Any) -> None:
    """Print the notes of a task, except those that `graph`, a task itself, had before."""
    known = graph.notes if isinstance(graph, NodeTask) else ()
    for note in task.notes:
        if note not in known:
            print(f"Note: {note}", file=sys.stderr)


def _refuse_labels_apart(y: Any) -> None:
    """Raise an EraseError for labels that are passed beside a graph, as scikit-learn does."""
    if y is not None:
        raise EraseError(
            "a graph that holds its labels",
            "labels beside it",
            "Leave out y, or make the graph with erase.from_arrays(edges, x=X, y=y).",
        )


def _check_same_graph(first: NodeTask, other: NodeTask) -> None:
    """Raise an EraseError unless two tasks differ in their labels only."""
    same = (
        _same(first.x, other.x)
        and _same(first.edge_index, other.edge_index)
        and _same_weights(first.edge_weight, other.edge_weight)
        and first.num_classes == other.num_classes
        and len(first.train_index) == len(other.train_index)
        and len(first.val_index) == len(other.val_index)
    )
    if not same:
        raise EraseError(
            "graphs with the same nodes, edges, edge weights, features, classes and numbers of "
            "given labels",
            "two that differ in more than their labels",
            "Fit them one by one.",
        )


def _same_weights(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and _same(a, b))


def _same(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    if a.layout != b.layout or a.shape != b.shape:
        return False
    if a.layout == torch.sparse_csr:
        return (
            torch.equal(a.crow_indices(), b.crow_indices())
            and torch.equal(a.col_indices(), b.col_indices())
            and torch.equal(a.values(), b.values())
        )
    return torch.equal(a, b)


def _function_name(function: Any) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{function.__module__}.{name}"


def _own_encoder(
    constraints: dict[str, Constraint],
    params: Any,
    encoder: Callable[[int, int], Any] | None,
) -> dict[str, Any]:
    """Return the encoder to load a file with `params`, if it was fitted with one of the user's."""
    stored = params.get("encoder") if isinstance(params, dict) else None
    own = isinstance(stored, str) and "." in stored and "encoder" in constraints
    if own and encoder is None:
        raise EraseError(
            f"the encoder that the model was fitted with, {stored}",
            "none",
            "Pass the function that makes it: load_model(path, encoder=function).",
        )
    if not own and encoder is not None:
        raise EraseError(
            "no encoder for a model that was not fitted with one of your own",
            f"encoder={_function_name(encoder)}",
            "Leave it out.",
        )
    return {"encoder": encoder} if own else {}


@dataclass(kw_only=True, eq=False, repr=False)
class NodeClassifier(BaseEstimator, ABC):  # type: ignore[misc]
    """A method: hyper-parameters by name, `fit` on a graph, predictions for all its nodes.

    A subclass is a dataclass of its parameters, lists what they may be in `constraints` and where
    to search for them in `space`, and writes ``_train`` and ``_apply``; methods that train a
    network inherit both from :class:`erase.methods.network.NetworkClassifier`. The labels `y` of
    their tasks are the trusted ones where there are any, and a method never changes these.
    `uses_edge_weights` states whether edge weights of the graph count; the notes of a fit repeat
    it. `fit` changes neither the parameters nor the graph; what is learnt ends in an underscore:

    Attributes:
        classes_: [K] the classes that `predict` returns, named as in the given labels.
        labels_: [N] the method's own labels, as classes (ERASE: semantic labels); a trusted label
            stays as it is.
        history_: one dict per epoch.
        best_epoch_: the epoch the predictions come from, counted from 1.
        notes_: sentences about what was changed when the graph was read.
        contract_: what the features are, which another graph must have, too, and the options that
            its tables were read with.
    """

    constraints: ClassVar[dict[str, Constraint]] = {"seed": Number(low=0, whole=True)}
    space: ClassVar[dict[str, Range | OneOf]] = {}
    keeps_checkpoints: ClassVar[bool] = False  # whether an interrupted `fit` can be resumed
    uses_edge_weights: ClassVar[bool] = False
    reads_features: ClassVar[bool] = True
    corrects_noise: ClassVar[bool] = False  # whether probabilities are of the true classes
    reads_labels: ClassVar[bool] = False  # whether `predict` reads the labels of another graph
    shares_rows: ClassVar[bool] = (
        False  # whether several processes fit it together, without batches
    )

    seed: int = 0
    device: str = "auto"

    @property
    def trains_on_validation(self) -> bool:
        """Whether validation labels train the model, so that they cannot score it."""
        return False

    @abstractmethod
    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        """Return the fit of each run: a task and a seed each, all on one graph."""

    def _to_learn(self, task: NodeTask) -> NodeTask:
        """Return the task to train on: with trusted labels in place of the given ones."""
        return task if task.trusted is None else replace(task, y=task.learning_labels)

    @abstractmethod
    def _apply(self, task: NodeTask) -> Outcome:
        """Return the answer of the fitted method for the nodes of a graph, without training.

        The task has no labels, unless the method `reads_labels`. The outcome's `labels` are its
        predictions.
        """

    def _check_weights(self) -> None:
        """Raise an exception where the weights do not fit together: here, by a small graph."""
        task = NodeTask.from_data(
            Data(x=torch.zeros(3, self.contract_.width), edge_index=torch.tensor([[0], [1]])),
            labelled=False,
        )
        if self._apply(task).proba.shape != (3, len(self.classes_)):
            raise ValueError("probabilities of another number of classes")

    @classmethod
    def preset(cls, recipe: str = "reference", dataset: str | None = None, **changes: Any) -> Self:
        """Return the method with its settings for a dataset, and your `changes`.

        Most methods have one preset and the same settings for every dataset: their defaults.

        Args:
            recipe: name of the preset, "reference" or another one of the method.
            dataset: its name, or None.
            changes: parameters by name; they win.
        """
        if recipe != "reference":
            raise EraseError(
                f"the recipe reference, the only one of {cls.__name__}",
                repr(recipe),
                "Leave it out.",
            )
        return cls(**changes)

    def read(self, graph: Any) -> NodeTask:
        """Return the task of a graph as this method uses it, with a note about edge weights."""
        task = NodeTask.of(graph)
        if task.edge_weight is None:
            return task
        name = type(self).__name__
        note = f"Edge weights are used by {name}; {WITHOUT_WEIGHTS} or --no-weights ignores them."
        if not self.uses_edge_weights:
            task, note = task.without_weights(), f"Edge weights are ignored by {name}."
        return task if note in task.notes else replace(task, notes=(*task.notes, note))

    @memory_errors()
    def fit(
        self,
        graph: Any,
        y: None = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
        resume: bool = False,
        progress: bool = False,
    ) -> Self:
        """Train on a graph, and return the fitted method itself.

        Only labels of training and validation nodes are read; a graph without a split trains on
        all its labels.

        Args:
            graph: a PyG ``Data``, a ``NodeTask``, or anything ``NodeTask.of`` takes.
            y: refused. Labels are part of the graph; scikit-learn passes them apart.
            checkpoint: file for the state of the run, written every few seconds.
            resume: continue an interrupted run from `checkpoint`, to the same result.
            progress: show notes about the graph, epochs, loss and time left. The notes of a
                ``NodeTask`` are not repeated.
        """
        self.check_params()
        task = self.read(graph)
        _refuse_labels_apart(y)
        if progress:
            show_notes(task, graph)
        loop = Loop(output_path(checkpoint) if checkpoint is not None else None, resume, progress)
        (fit,) = self._train([self._to_learn(task)], [self.seed], loop)
        self._keep(fit, task)
        return self

    def fit_many(
        self, graphs: Sequence[Any], seeds: Sequence[int], *, progress: bool = False
    ) -> list[Self]:
        """Train many runs of one graph as one computation; return a fitted method for each.

        A run's result is that of its own `fit` with its seed, to float tolerance. On a GPU ten runs
        take little longer than one; on a CPU as long as one after the other.

        Args:
            graphs: [R] the same nodes, edges and features with other labels, or one graph for all.
            seeds: [R].
            progress: show epochs, the first run's loss and time left.
        """
        self.check_params()
        tasks = [self.read(graph) for graph in graphs]
        tasks = tasks * len(seeds) if len(tasks) == 1 else tasks
        if len(tasks) != len(seeds):
            raise EraseError(
                "a graph for each seed, or one for all",
                f"{len(tasks)} graphs and {len(seeds)} seeds",
                "Pass lists of the same length.",
            )
        for task in tasks[1:]:
            _check_same_graph(tasks[0], task)
        models = [clone(self).set_params(seed=seed) for seed in seeds]
        for model in models:
            model.check_params()
        learnt = [self._to_learn(task) for task in tasks]
        fits = self._train(learnt, seeds, Loop(progress=progress)) if tasks else []
        for model, fit, task in zip(models, fits, tasks, strict=True):
            model._keep(fit, task)
        return models

    def cross_fit(
        self, task: NodeTask, fold: NDArray[np.int64], *, progress: bool = False
    ) -> CrossFit | None:
        """Return predictions of models trained without one fold each, if one fit yields them all.

        None, as here, where a model has to be fitted for every fold.

        Args:
            task: the graph and its labels.
            fold: [N] of each labelled node, -1 elsewhere.
            progress: show progress.
        """
        return None

    def check_params(self) -> None:
        """Raise an EraseError for the first parameter that cannot be used."""
        self._check_constraints()
        resolve_device(self.device)

    def _check_constraints(self) -> None:
        for name, value in self.get_params(deep=False).items():
            constraint = self.constraints.get(name)
            if constraint is not None and not constraint.accepts(value):
                is_huge = isinstance(value, int) and abs(value) > _LARGEST_WHOLE
                raise EraseError(
                    f"{name} to be {constraint}{' and below 2^63' if is_huge else ''}",
                    f"{name}={shown(value)}",
                    f"Correct {name} of {type(self).__name__}.",
                )

    def settings(self) -> dict[str, Any]:
        """Return the method's name and parameters, which with the graph determine its result."""
        return {"method": type(self).__name__, **self.plain_params()}

    def plain_params(self) -> dict[str, Any]:
        """Return the parameters as JSON can hold them: a function by its name."""
        params: dict[str, Any] = self.get_params(deep=False)
        return {k: _function_name(v) if callable(v) else v for k, v in params.items()}

    def predict(self, graph: Any = None) -> NDArray[Any]:
        """Return the class of every node [N], as the labels of the fit name classes.

        Args:
            graph: another graph with the same features: the fitted one with new nodes and edges,
                or one that shares no node with it. Nothing is trained. Tables are read with the
                options of the fit. None: the graph of the fit.
        """
        proba = self._answer(graph).proba
        classes: NDArray[Any] = self.classes_[proba.argmax(1).numpy()]
        return classes

    def predict_proba(self, graph: Any = None) -> NDArray[np.float32]:
        """Return the probability of every class for every node [N, K].

        Args:
            graph: see :meth:`predict`.
        """
        proba = self._answer(graph).proba.numpy()
        return proba.copy() if graph is None else proba

    def transform(self, graph: Any = None, *, copy: bool = True) -> NDArray[np.float32]:
        """Return the representation of every node [N, D].

        Args:
            graph: see :meth:`predict`.
            copy: False returns the method's own array, which must not be written to.
        """
        embedding = self._answer(graph).embedding.numpy()
        return embedding.copy() if copy and graph is None else embedding

    def score(self, graph: Any, y: None = None) -> float:
        """Return the accuracy on the test nodes of `graph`, which holds the labels to compare with.

        The predictions are those of ``predict(graph)``; a method that reads the labels of a graph
        to predict keeps those of its fit for the graph of the fit. Without a test mask, all
        labelled nodes outside the training and validation masks count. A node whose class was not
        in the fit counts as an error. Labels of another kind, such as names instead of numbers, or
        without any class of the fit are refused.

        Args:
            graph: anything ``NodeTask.of`` takes.
            y: refused, as in `fit`.
        """
        _refuse_labels_apart(y)
        data = graph_data(graph, self.table_contract_)
        labels, _, values = encode_labels(data)
        nodes = read_splits(data, labels).test & (labels >= 0)
        if not bool(nodes.any()):
            raise EraseError(
                "labels to compare predictions with, at nodes that the fit did not train on",
                "a graph in which every labelled node trains or validates, or none is labelled",
                "Mark labelled nodes to score: test_mask, or test in the column split of a table.",
            )
        refuse_other_labels(self.classes_, values, "a graph")
        # `graph` may have clean labels where the fit had noisy ones
        is_known = self.reads_labels and self._is_graph_of_fit(data)
        predicted = self.predict(None if is_known else data)
        kept = nodes.numpy()
        return float(np.mean(predicted[kept] == values[labels.numpy()[kept]]))

    @memory_errors()
    def _answer(self, graph: Any) -> Outcome:
        """Return the outcome of the fit, or of another graph."""
        fit = self._fitted()
        if graph is None:
            return fit.outcome
        outcome = self._apply(self._read_other(graph))
        if not bool(outcome.proba.isfinite().all()):
            raise EraseError(
                "finite probabilities",
                "some that are not",
                "Rescale the features to those of the fit, or fit the model again.",
            )
        return outcome

    def _read_other(self, graph: Any) -> NodeTask:
        """Return another graph as a task with the features of the fit."""
        made_from_edges = self.contract_.source == "edges"
        contract = self.contract_ if self.reads_features and not made_from_edges else None
        graph = graph if isinstance(graph, NodeTask) else graph_data(graph, self.table_contract_)
        try:
            task = NodeTask.of(graph, labelled=self.reads_labels, contract=contract)
        except EraseError:
            if not self.reads_labels:
                raise
            # perhaps for want of labels; another fault is found again
            task = NodeTask.of(graph, labelled=False, contract=contract)
        if made_from_edges and self.reads_features and self.edges_ != _digest(task.edge_index):
            raise EraseError(
                "the edges of the fit, from which the features of this model are made",
                "other edges",
                "Fit this graph, or give both graphs features.",
            )
        return self._with_weights_of_fit(self._to_learn(task))

    def _is_graph_of_fit(self, data: Data) -> bool:
        """Return whether a graph has the nodes and edges of the fit."""
        task = NodeTask.of(data, labelled=False)
        same_nodes = len(task.y) == len(self._fitted().outcome.proba)
        return same_nodes and self.edges_ == _digest(task.edge_index)

    @property
    def table_contract_(self) -> FeatureContract:
        """What tables of another graph are read by: without columns, where no feature is read."""
        self._fitted()
        return self.contract_ if self.reads_features else replace(self.contract_, columns=())

    def _with_weights_of_fit(self, task: NodeTask) -> NodeTask:
        """Return a task with edge weights where the fit had them, and without where it had none."""
        if task.edge_weight is not None and not self.uses_edge_weights:
            return task.without_weights()
        if (task.edge_weight is not None) == self.weighted_:
            return task
        if self.weighted_:
            raise EraseError(
                "edge weights, with which this model was fitted",
                "a graph without",
                f"Give its edges weights, or fit without: {WITHOUT_WEIGHTS}.",
            )
        raise EraseError(
            "no edge weights, without which this model was fitted",
            "a graph with weights",
            f"Leave them out: {WITHOUT_WEIGHTS}; or fit a graph with weights.",
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted method into one file: safetensors with JSON inside, no code.

        Equal models are equal files. Of an encoder of your own the file has the weights and the
        name; `load` needs it again.
        """
        fit = self._fitted()
        arrays = {f"fit/{f.name}": getattr(fit.outcome, f.name) for f in fields(Outcome)}
        arrays |= {f"weights/{name}": value for name, value in fit.weights.items()}
        metadata = _Metadata(
            format=_FORMAT,
            method=type(self).__name__,
            params=self.plain_params(),
            classes=self.classes_.tolist(),
            class_names=list(self.class_names_),
            best_epoch=fit.best_epoch,
            history=fit.history,
            notes=list(self.notes_),
            contract=self.contract_.to_dict(),
            edges=self.edges_,
            weighted=self.weighted_,
        )
        save_arrays(path, arrays, vars(metadata))

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, encoder: Callable[[int, int], Any] | None = None
    ) -> Self:
        """Read a method that `save` wrote; it predicts exactly as before.

        A file whose parts do not fit together is refused.

        Args:
            path: the file.
            encoder: the function that the method was fitted with, if its encoder was your own.
        """
        arrays, metadata = load_arrays(Path(path))
        metadata = metadata if isinstance(metadata, dict) else {}
        found = f"{path} of method {metadata.get('method')!r}, format {metadata.get('format')!r}"
        if metadata.get("method") != cls.__name__:
            raise EraseError(
                f"a file written by {cls.__name__}.save",
                found,
                "Use erase.load_model, which finds the method by itself.",
            )
        if metadata.get("format") != _FORMAT:
            raise EraseError(
                f"a model file of format {_FORMAT}", found, "Fit the model again, and save it."
            )
        own = _own_encoder(cls.constraints, metadata.get("params"), encoder)
        with damage_errors(
            "a model file whose parts fit together", path, "Copy it again, or fit the model again."
        ):
            return cls._from_file(arrays, msgspec.convert(metadata, _Metadata), own)

    @classmethod
    def _from_file(
        cls, arrays: dict[str, Tensor], metadata: "_Metadata", own: dict[str, Any]
    ) -> Self:
        params: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value  # JSON has no tuples
            for name, value in metadata.params.items()
        }
        model = cls(**(params | own))
        model._check_constraints()
        groups: dict[str, dict[str, Tensor]] = {"fit": {}, "weights": {}}
        for path, value in arrays.items():
            group, _, name = path.partition("/")
            groups[group][name] = value
            if value.is_floating_point() and bool(value.isnan().any()):
                raise ValueError(f"NaN in {path}")
        model.contract_ = FeatureContract.from_dict(metadata.contract)
        numbers = sum(value.numel() for value in groups["weights"].values())
        smallest = model.contract_.width * max(1, params.get("hidden", 1))
        if numbers and not own and smallest > numbers:  # would be allocated to be compared
            raise ValueError("parameters of another size than the weights")
        outcome = Outcome(**groups["fit"])
        n, k = len(outcome.labels), len(metadata.classes)
        as_expected = (
            k == len(metadata.class_names)
            and outcome.proba.shape == (n, k)
            and outcome.embedding.shape[:-1] == (n,)
            and outcome.labels.shape == (n,)
            and outcome.proba.dtype == outcome.embedding.dtype == torch.float32
            and outcome.labels.dtype == torch.int64
            and bool(((outcome.labels >= 0) & (outcome.labels < k)).all())
            and bool(outcome.embedding.isfinite().all())
            and bool((outcome.proba >= 0).all() & ((outcome.proba.sum(1) - 1).abs() < 1e-3).all())
        )
        if not as_expected:
            raise ValueError("predictions that are not probabilities of the classes")
        classes, names = np.array(metadata.classes), metadata.class_names
        is_typed = {type(each) for each in metadata.classes} in ({int}, {str})
        is_distinct = len({*names}) == k == len({*metadata.classes})
        if not is_typed or not is_distinct or classes.dtype.kind not in "iU":
            raise ValueError("classes that are not different numbers or names")
        if not 0 <= metadata.best_epoch <= len(metadata.history):
            raise ValueError("a best epoch outside the history")
        model.fit_ = Fit(outcome, metadata.best_epoch, metadata.history, groups["weights"])
        model.classes_, model.class_names_ = classes, (*names,)
        model.notes_, model.edges_ = (*metadata.notes,), metadata.edges
        model.weighted_ = metadata.weighted
        device, model.device = model.device, "cpu"  # a GPU of the fit may be missing here
        model._check_weights()
        model.device = device
        return model

    def _keep(self, fit: Fit, task: NodeTask) -> None:
        if task.trusted is not None:
            labels = torch.where(task.trusted >= 0, task.trusted, fit.outcome.labels)
            fit = replace(fit, outcome=replace(fit.outcome, labels=labels))
        self.fit_ = fit
        self.classes_, self.class_names_ = task.label_values, task.class_names
        self.notes_, self.contract_ = task.notes, task.feature_contract
        self.weighted_ = task.edge_weight is not None
        # to know the graph again, where features or labels mean nothing elsewhere
        is_own = self.contract_.source == "edges" or self.reads_labels
        self.edges_ = _digest(task.edge_index) if is_own else ""
        self.__dict__.pop("encoder_", None)  # of the fit before

    @property
    def labels_(self) -> NDArray[Any]:
        """The method's own labels [N], as classes."""
        labels: NDArray[Any] = self.classes_[self._fitted().outcome.labels.numpy()]
        return labels

    @property
    def history_(self) -> list[dict[str, float]]:
        """One dict per epoch."""
        return self._fitted().history

    @property
    def best_epoch_(self) -> int:
        """The epoch the predictions come from, counted from 1."""
        return self._fitted().best_epoch

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: this is a classifier, whose labels are part of the graph."""
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def __repr__(self) -> str:
        """Return the parameters that differ from the defaults, and what was fitted."""
        title: str = super().__repr__()
        return fact_line(f"{title}, fitted", facts) if (facts := self._facts()) else title

    def _repr_html_(self) -> str:
        return fact_table(super().__repr__(), self._facts())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _facts(self) -> Facts:
        fit: Fit | None = getattr(self, "fit_", None)
        if fit is None:
            return {}
        nodes, classes = fit.outcome.proba.shape
        facts: dict[str, int | str] = {"nodes": nodes, "classes": classes}
        if fit.history:
            facts["best epoch"] = f"{fit.best_epoch} of {len(fit.history)}"
        return facts

    def _fitted(self) -> Fit:
        fit: Fit | None = getattr(self, "fit_", None)
        if fit is None:
            raise NotFittedError(f"Call fit on this {type(self).__name__} first.")
        return fit


@dataclass(frozen=True)
class _Metadata:
    """The JSON inside a model file."""

    format: int
    method: str
    params: dict[str, Any]
    classes: list[Any]
    class_names: list[str]
    best_epoch: int
    history: list[dict[str, int | float]]
    notes: list[str]
    contract: dict[str, Any]
    edges: str
    weighted: bool


def _digest(edge_index: Tensor) -> str:
    return hashlib.sha256(edge_index.contiguous().numpy().data).hexdigest()
