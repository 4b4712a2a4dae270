"""Citation-like graphs of any size, made from a seed, for tests and for scaling."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.datasets.splits import Masks, split_by_share, split_per_class
from erase.data.datasets.words import bag_of_words
from erase.data.folder import MOST_NODES, FolderWriter, StrPath
from erase.errors import EraseError
from erase.random import numpy_stream

IntArray = npt.NDArray[np.int64]

MOST_WORDS = 10_000_000  # of a vocabulary
MAX_ROUNDS = 500  # of redrawing citations that exist already; a dozen is usual
PATIENCE = 20  # rounds in which a node may redraw before another node cites in its place
DENSE_DISTANCE = 4.0  # length of a class mean, in standard deviations, at signal 1
BLOCK = 65_536  # rows of dense features, or citations, handled at a time


def citations(
    num_nodes: int = 2_000,
    num_edges: int | None = None,
    num_classes: int = 7,
    num_features: int = 1_000,
    homophily: float = 0.8,
    degree_exponent: float = 3.0,
    imbalance: float = 1.0,
    class_exponent: float | None = None,
    class_shift: float = 12.0,
    words_per_node: float = 15.0,
    signal: float = 0.3,
    dense: bool = False,
    train_per_class: int = 20,
    val_per_class: int = 30,
    train_share: float | None = None,
    val_share: float = 0.2,
    seed: int = 0,
) -> Data:
    """Generate a graph of papers that cite each other, words included.

    Every paper cites about as many others; a paper is cited in proportion to its fame, which has a
    power law. The number of edges and the homophily are exact. A word comes from the paper's topic
    with probability `signal`, else from all words; word frequencies have a power law too.
    Time and memory are linear in nodes, edges, words and classes (up to the logarithm of sorting).

    Args:
        num_nodes: N.
        num_edges: undirected edges, each twice in ``edge_index``; None for three per node.
        num_classes: K.
        num_features: F, the size of the vocabulary or the width of dense features.
        homophily: share of edges that join two nodes of one class.
        degree_exponent: fame exceeds f for a share of nodes ~ f^(1 - degree_exponent); above 1.
        imbalance: size of the largest class over that of the smallest, in geometric steps.
        class_exponent: e of a power law in their place: class k has a size ~ (k + c)^-e. With 3 and
            c = 12, 40 classes are as uneven as ogbn-arxiv's: 16 % of nodes are in the largest.
        class_shift: c; only with `class_exponent`.
        words_per_node: mean number of words drawn for a node, repeated ones included; at least 1.
        signal: from 0 (features do not depend on the class) to 1 (every word is on topic).
        dense: gaussian features around a mean per class, instead of sparse words.
        train_per_class: training nodes of a class.
        val_per_class: validation nodes of a class.
        train_share: share of all nodes that trains, instead of numbers per class.
        val_share: share of all nodes that validates; only with `train_share`.
        seed: of the graph and of its split.

    Returns:
        The fields that every dataset has; ``x`` is sparse CSR with rows that sum to 1, or dense.

    >>> data = citations(num_nodes=100, num_edges=200, num_classes=4, homophily=0.75)
    >>> source, target = data.edge_index
    >>> data.num_edges, float((data.y[source] == data.y[target]).float().mean())
    (400, 0.75)
    """
    return _Design(**locals()).graph()


def write_citations(path: StrPath, **options: Any) -> None:
    """Write the graph of `citations` into a folder, as `write_folder` would, in less memory.

    Dense features never exist as a whole. What remains is about 30 bytes an edge while edges are
    drawn, 50 a node, and, without `dense`, the words.

    Args:
        path: the folder.
        **options: those of `citations`.
    """
    given = inspect.signature(citations).bind(**options)
    given.apply_defaults()
    _Design(**given.arguments).write(path)


@dataclass(frozen=True, kw_only=True)
class _Design:
    """The arguments of `citations`, checked; the parts of the graph are drawn from it."""

    num_nodes: int
    num_edges: int | None
    num_classes: int
    num_features: int
    homophily: float
    degree_exponent: float
    imbalance: float
    class_exponent: float | None
    class_shift: float
    words_per_node: float
    signal: float
    dense: bool
    train_per_class: int
    val_per_class: int
    train_share: float | None
    val_share: float
    seed: int

    def __post_init__(self) -> None:
        for each in fields(self):
            value, is_whole = getattr(self, each.name), each.type in (int, int | None)
            known = (int, np.integer) if is_whole else (int, float, np.number)
            may_miss = value is None and each.type in (int | None, float | None)
            is_number = isinstance(value, known) and not isinstance(value, bool)
            if each.type is not bool and not (may_miss or is_number):
                kind = "a whole number" if is_whole else "a number"
                raise EraseError(f"{each.name} as {kind}", repr(value), f"Change {each.name}.")
        _check_ranges(
            num_nodes=(self.num_nodes, self.num_classes, MOST_NODES),
            num_edges=(self._edges_to_draw, 0, np.inf),
            num_classes=(self.num_classes, 2, np.inf),
            num_features=(self.num_features, 1 if self.dense else self.num_classes, MOST_WORDS),
            homophily=(self.homophily, 0, 1),
            degree_exponent=(self.degree_exponent, 1.1, np.inf),
            imbalance=(self.imbalance, 1, np.inf),
            class_exponent=(self.class_exponent or 0.0, 0, 100),
            class_shift=(self.class_shift, 0.1, 1e6),
            words_per_node=(self.words_per_node, 1, 1e6),
            signal=(self.signal, 0, 1),
        )

    def graph(self) -> Data:
        y = self._classes()
        keys = self._pairs(y)
        low, high = np.divmod(keys, self.num_nodes)
        both = np.sort(np.concatenate([keys, high * self.num_nodes + low]))
        edge_index = torch.from_numpy(np.stack(np.divmod(both, self.num_nodes)))
        if self.dense:
            x = torch.empty(self.num_nodes, self.num_features)
            for start, rows in self._gaussians(y):
                x[start : start + len(rows)] = torch.from_numpy(rows)
        else:
            x = self._words(y)
        train, val, test = self._split(y)
        return Data(
            x=x,
            edge_index=edge_index,
            y=torch.from_numpy(y),
            train_mask=train,
            val_mask=val,
            test_mask=test,
            class_names=self._class_names,
            name="citations",
        )

    def write(self, path: StrPath) -> None:
        y = self._classes()
        with FolderWriter(path, self.num_nodes, self._class_names) as writer:
            keys = self._pairs(y)
            for start in range(0, len(keys), BLOCK):
                pair = np.divmod(keys[start : start + BLOCK], self.num_nodes)
                writer.add_edges(pair, both_ways=True)
            del keys
            writer.add_labels(y)
            for part, mask in zip(("train", "val", "test"), self._split(y), strict=True):
                writer.set_split(part, mask)
            if self.dense:
                for _, rows in self._gaussians(y):
                    writer.add_features(rows)
            else:
                writer.add_features(self._words(y))

    @property
    def _edges_to_draw(self) -> int:
        return 3 * self.num_nodes if self.num_edges is None else self.num_edges

    @property
    def _class_names(self) -> list[str]:
        return [str(k) for k in range(self.num_classes)]

    def _stream(self, purpose: str) -> np.random.Generator:
        return numpy_stream(self.seed, f"citations: {purpose}")

    def _classes(self) -> IntArray:
        """Return the class of every node, [N]; every class has at least one."""
        shares: npt.NDArray[Any]
        if self.class_exponent is None:
            shares = self.imbalance ** -np.linspace(0, 1, self.num_classes)
        else:
            shares = (np.arange(self.num_classes) + self.class_shift) ** -self.class_exponent
        spare = self.num_nodes - self.num_classes
        sizes = 1 + np.diff(np.round(spare * np.cumsum(shares) / shares.sum()), prepend=0)
        in_order = np.repeat(np.arange(self.num_classes), sizes.astype(np.int64))
        return self._stream("classes").permutation(in_order)

    def _pairs(self, y: IntArray) -> IntArray:
        edges, rng = self._edges_to_draw, self._stream("edges")
        return _cite(y, edges, self.homophily, self.degree_exponent, rng)

    def _words(self, y: IntArray) -> Tensor:
        rng = self._stream("features")
        return _words(y, self.num_classes, self.num_features, self.words_per_node, self.signal, rng)

    def _gaussians(self, y: IntArray) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        rng = self._stream("features")
        return _gaussians(y, self.num_classes, self.num_features, self.signal, rng)

    def _split(self, y: IntArray) -> Masks:
        labels, rng = torch.from_numpy(y), numpy_stream(self.seed, "split")
        if self.train_share is None:
            return split_per_class(labels, rng, self.train_per_class, self.val_per_class)
        return split_by_share(labels, rng, self.train_share, self.val_share)


def _check_ranges(**ranges: tuple[float, float, float]) -> None:
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            bound = f"{name} ≥ {low}" if high == np.inf else f"{name} in {low}..{high}"
            raise EraseError(bound, f"{name}={value}", f"Change {name}.")


def _cite(
    y: IntArray, num_edges: int, homophily: float, exponent: float, rng: np.random.Generator
) -> IntArray:
    """Return different pairs of nodes low < high, as low · N + high, [num_edges]."""
    num_nodes = len(y)
    within = round(homophily * num_edges)
    _check_density(np.bincount(y), within / num_nodes, (num_edges - within) / num_nodes)
    order = np.argsort(y, kind="stable")
    # Pareto: P(fame > f) = f^(1 - exponent) for f ≥ 1
    fame = (1.0 - rng.random(num_nodes)) ** (-1.0 / (exponent - 1.0))
    ends = np.cumsum(fame)  # the node at place p of `order` owns [ends[p - 1], ends[p])
    first = np.concatenate([[0], np.cumsum(np.bincount(y))])  # class k owns places first[k:k + 2]
    borders = np.concatenate([[0.0], ends])[first]

    # All nodes cite equally often, up to one: shuffled rounds through all nodes.
    turns = -(-num_edges // num_nodes)
    citing: IntArray = np.empty((turns, num_nodes), dtype=np.int64)
    for turn in citing:
        turn[:] = rng.permutation(num_nodes)
    citing = citing.reshape(-1)
    parts = []
    for inside, sources in ((True, citing[:within]), (False, citing[within:num_edges])):
        pairs: IntArray = np.empty(0, dtype=np.int64)
        for attempt in range(MAX_ROUNDS):
            if attempt >= PATIENCE:  # a famous node may have no uncited node left
                sources = rng.integers(num_nodes, size=len(sources))
            left = []
            step = max(BLOCK, len(sources) // 8 + 1)  # drawing takes a dozen arrays: short ones
            for start in range(0, len(sources), step):
                some = sources[start : start + step]
                keys, good = _draw(some, inside, y, order, ends, borders, rng)
                pairs, accepted = _add_new(pairs, keys, good)
                left.append(some[~accepted])
            sources = np.concatenate(left) if left else sources
            if not len(sources):
                break
        else:
            raise _too_dense(f"{len(sources):,} citations without a place")
        parts.append(pairs)
    return np.concatenate(parts)


def _draw(
    sources: IntArray,
    inside: bool,
    y: IntArray,
    order: IntArray,
    ends: npt.NDArray[np.float64],
    borders: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Draw the nodes that `sources` cite, in their class or outside; return pairs and validity."""
    num_nodes = len(y)
    low, high = borders[y[sources]], borders[y[sources] + 1]
    # A point on the line of fame: inside the own class, or on the line with it cut out.
    length = high - low if inside else ends[-1] - (high - low)
    point = rng.random(len(sources)) * length
    point += low if inside else np.where(point < low, 0.0, high - low)
    place = np.searchsorted(ends, point, side="right")
    targets = order[np.minimum(place, num_nodes - 1)]
    # rounding may cross a border, which would change the exact homophily
    good = (targets != sources) & ((y[targets] == y[sources]) == inside)
    return np.minimum(sources, targets) * num_nodes + np.maximum(sources, targets), good


def _add_new(
    pairs: IntArray, keys: IntArray, good: npt.NDArray[np.bool_]
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Merge the good keys that are neither in `pairs` nor repeated; return which these were."""
    candidates = np.flatnonzero(good)
    fresh, where = np.unique(keys[candidates], return_index=True)
    place = np.searchsorted(pairs, fresh)
    known = np.zeros(len(fresh), dtype=bool)
    inside = place < len(pairs)
    known[inside] = pairs[place[inside]] == fresh[inside]
    accepted = np.zeros(len(keys), dtype=bool)
    accepted[candidates[where[~known]]] = True
    # two sorted runs: the stable sort merges them in linear time
    return np.sort(np.concatenate([pairs, fresh[~known]]), kind="stable"), accepted


def _check_density(sizes: IntArray, within: float, between: float) -> None:
    """Refuse graphs in which a node would cite more than a quarter of those it may cite."""
    smallest, others = int(sizes.min()) - 1, int(sizes.sum() - sizes.max())
    if within > smallest / 4 or between > others / 4:
        raise _too_dense(
            f"{within:.1f} citations per node inside a class of {smallest + 1} nodes and "
            f"{between:.1f} to {others} nodes of other classes"
        )


def _too_dense(got: str) -> EraseError:
    return EraseError(
        "a sparse graph, in which a node cites at most a quarter of the nodes that it may cite",
        got,
        "Use fewer edges, fewer classes, less imbalance or more nodes.",
    )


def _words(
    y: IntArray,
    num_classes: int,
    num_words: int,
    words_per_node: float,
    signal: float,
    rng: np.random.Generator,
) -> Tensor:
    """Return sparse bags of words [N, F]; word j belongs to the topic of class j mod K."""
    counts = 1 + rng.poisson(words_per_node - 1, len(y))
    node = np.repeat(np.arange(len(y)), counts)
    ranks = _zipf(num_words, len(node), rng)
    on_topic = np.flatnonzero(rng.random(len(node)) < signal)
    topic_ranks = _zipf(num_words // num_classes, len(on_topic), rng)
    ranks[on_topic] = topic_ranks * num_classes + y[node[on_topic]]
    keys = np.sort(node * num_words + ranks)
    keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique hashes integers, ten times slower
    row_starts = np.searchsorted(keys, np.arange(len(y) + 1) * num_words)
    return bag_of_words(row_starts, keys % num_words, num_words)


def _zipf(num_words: int, size: int, rng: np.random.Generator) -> IntArray:
    """Draw ranks 0, 1, … below `num_words`; rank r has probability ~ 1 / (r + 1)."""
    cumulative = np.cumsum(1.0 / np.arange(1, num_words + 1))
    ranks: IntArray = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.minimum(ranks, num_words - 1, out=ranks)  # rounding may reach the end


def _gaussians(
    y: IntArray, num_classes: int, width: int, signal: float, rng: np.random.Generator
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Return dense features, unit gaussians around a mean per class: first node, rows [n, F]."""
    means = rng.standard_normal((num_classes, width), dtype=np.float32)
    means *= DENSE_DISTANCE * signal / np.linalg.norm(means, axis=1, keepdims=True)
    for start in range(0, len(y), BLOCK):
        some = y[start : start + BLOCK]
        yield start, rng.standard_normal((len(some), width), dtype=np.float32) + means[some]
