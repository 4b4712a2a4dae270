"""Every way into the package as a group of cases: success or an EraseError, and nothing else.

A group takes a hypothesis `data` object or a random generator, and an empty folder. It is given by
the name of its function in `GROUPS`.
"""

import contextlib
import gzip
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import networkx
import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

import erase
from erase.bench import records as bench_records
from erase.bench.studies import check, choose, read_study
from erase.bench.tables import build
from erase.bench.tune import choose_space, tune
from erase.cli import main
from erase.data.noise import NOISES
from erase.data.tables import TableOptions
from erase.data.task import NodeTask
from erase.methods import METHODS, build_method, load_model
from erase.review.store import Reviews, read_reviews
from fuzz.mutations import (
    NUMBERS,
    WORDS,
    anything,
    damaged_archive,
    damaged_bytes,
    damaged_json,
    damaged_safetensors,
    damaged_text,
)
from graphs import two_communities

N = 5
RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
STUDY = """summary = "two methods"
keep_embeddings = false
[[grid]]
datasets = ["cora", "debian"]
noises = "symmetric"
rates = [0.1, 0.3]
methods = ["ce", "erase"]
seeds = 3
params = {epochs = [7], dropout = [0.2, 0.4]}
labels_per_class = [4, 8]
"""


def small_graph() -> Data:
    """Return the graph that cases damage."""
    return Data(
        x=torch.arange(10.0).reshape(N, 2),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]),
        y=torch.tensor([0, 1, 1, 0, 1]),
        train_mask=torch.tensor([True, True, True, False, False]),
        val_mask=torch.tensor([False, False, False, True, False]),
        node_names=["a", "b", "c", "d", "e"],
        node_ids=[10, 11, 12, 13, 14],
        class_names=["no", "yes"],
        edge_weight=torch.ones(4),
    )


def check_task(task: NodeTask) -> None:
    """Assert what every method relies on: what was let in is sound."""
    n, edges = task.num_nodes, task.edge_index
    assert task.x.shape[0] == n == task.y.numel() == task.train_mask.numel()
    values = task.x if task.x.layout == torch.strided else task.x.values()
    assert bool(torch.isfinite(values).all()), "features"
    if edges.numel():
        assert 0 <= int(edges.min()) <= int(edges.max()) < n, "edges"
    key = edges[0] * n + edges[1]
    assert bool((key[1:] > key[:-1]).all()), "order of edges"
    assert -1 <= int(task.y.min()) <= int(task.y.max()) < max(1, task.num_classes), "labels"
    assert len(task.label_values) == task.num_classes
    if task.edge_weight is not None:
        assert bool(torch.isfinite(task.edge_weight).all()), "weights"


def enter(graph: Any) -> None:
    """Let a graph in, with and without labels."""
    for labelled in (True, False):
        with contextlib.suppress(erase.EraseError):
            check_task(NodeTask.of(graph, labelled=labelled))


def pyg_data(data: st.DataObject, folder: Path) -> None:
    """Put odd values into a Data."""
    graph = small_graph()
    names = [
        *graph.keys(), "num_nodes", "num_classes", "class_values", "adj_t", "edge_attr", "directed",
        "feature_names", "feature_contract", "notes", "test_mask", "val_idx", "train",
        "label_kind", "trusted", "trusted_random",
    ]  # fmt: skip
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
        graph[name] = data.draw(anything())
        if data.draw(st.integers(0, 9)) == 0:
            del graph[data.draw(st.sampled_from(sorted(graph.keys())))]
    enter(graph)
    suffix = data.draw(st.sampled_from(["", ".npz", "tables"]))
    with contextlib.suppress(erase.EraseError):
        if suffix:
            erase.write_graph(graph, folder / f"g{suffix}".removesuffix("tables"))
        else:
            erase.write_folder(graph, folder / "g")


def given_arrays(data: st.DataObject, folder: Path) -> None:
    """Call `from_arrays` and `FolderWriter` with odd arguments."""
    graph = small_graph()
    arguments: dict[str, Any] = {"edges": graph.edge_index.numpy(), "y": graph.y.numpy()}
    names = [
        "edges", "y", "x", "train", "val", "num_nodes", "node_names", "class_names", "node_ids",
        "feature_names", "edge_weight", "directed", "strict", "merge_classes", "trusted",
        "trusted_random",
    ]  # fmt: skip
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
        arguments[name] = data.draw(anything())
    with contextlib.suppress(erase.EraseError):
        enter(erase.from_arrays(**arguments))
    n = data.draw(st.sampled_from([N, *NUMBERS]))
    with (
        contextlib.suppress(erase.EraseError),
        erase.FolderWriter(folder / "g", n, ["a", "b"]) as writer,
    ):
        step = data.draw(st.sampled_from(["add_edges", "add_features", "add_labels", "add_names"]))
        getattr(writer, step)(data.draw(anything()))
        writer.set_split("train", data.draw(anything()))


def pandas_tables(data: st.DataObject, folder: Path) -> None:
    """Call `from_tables` with odd cells, columns and options."""
    nodes = pd.DataFrame({"id": range(N), "label": list("ababa"), "age": [1.0, 2, 3, 4, None]})
    edges = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]})
    for table in (nodes, edges):
        for _ in range(data.draw(st.integers(0, 2))):
            column: Any = data.draw(
                st.sampled_from([*table.columns, "name", "split", "weight", 3, "x", "trusted"])
            )
            rows = len(table)
            cells = [data.draw(anything())] * rows
            if data.draw(st.booleans()):
                cells = data.draw(st.lists(anything(), min_size=rows, max_size=rows))
            objects = np.empty(rows, dtype=object)
            for row, cell in enumerate(cells):  # pandas 2.2 would turn tensors into arrays
                objects[row] = cell
            table[column] = pd.Series(objects, dtype=object)
    known = [each.name for each in fields(TableOptions)]
    options = data.draw(st.dictionaries(st.sampled_from(known), anything(), max_size=1))
    with contextlib.suppress(erase.EraseError):
        enter(erase.from_tables(nodes, edges, **options))


def networkx_graphs(data: st.DataObject, folder: Path) -> None:
    """Let networkx graphs with odd attributes in."""
    kinds = [networkx.Graph, networkx.DiGraph, networkx.MultiGraph]
    graph: Any = data.draw(st.sampled_from(kinds))()
    hashable = st.sampled_from([*NUMBERS, *WORDS]) | st.tuples(st.integers())
    nodes = data.draw(st.lists(hashable, max_size=7))
    keys = st.sampled_from(["label", "name", "split", "x", "age", "trusted", 5])
    for node in nodes:
        graph.add_node(node)
        graph.nodes[node].update(data.draw(st.dictionaries(keys, anything(), max_size=3)))
    if nodes:
        for _ in range(data.draw(st.integers(0, 6))):
            ends = data.draw(st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)))
            graph.add_edge(*ends, weight=data.draw(anything()))
    enter(graph)


def arguments(data: st.DataObject, folder: Path) -> None:
    """Call the other functions of the package with odd arguments."""
    graph, odd = small_graph(), anything()
    name = data.draw(st.sampled_from(sorted(METHODS)))
    known = sorted(METHODS[name]().get_params(deep=False))
    changes = data.draw(st.dictionaries(st.sampled_from(known), odd, min_size=1, max_size=2))
    calls: list[Callable[[], Any]] = [
        lambda: METHODS[name](**changes).check_params(),
        lambda: build_method(data.draw(odd), data.draw(odd), data.draw(odd)),
        lambda: erase.corrupt(graph, data.draw(odd), data.draw(odd)),
        lambda: erase.corrupt(
            graph, data.draw(st.sampled_from(sorted(NOISES))), 0.3, data.draw(odd)
        ),
        lambda: erase.audit(graph, folds=data.draw(odd), max_false_alarms=data.draw(odd)),
        lambda: erase.audit(graph, method=data.draw(odd), seed=data.draw(odd)),
        lambda: erase.audit(data.draw(odd)),
        lambda: erase.load_dataset(data.draw(odd)),
        lambda: erase.read_graph(data.draw(odd)),
        lambda: erase.load_model(data.draw(odd)),
        lambda: erase.load_audit(data.draw(odd)),
        lambda: erase.FeatureContract.from_dict(data.draw(odd)),
        lambda: fitted_model().predict(data.draw(odd)),
        lambda: fitted_model().score(data.draw(odd)),
        lambda: erase.ERASE.preset(data.draw(odd), data.draw(odd)),
        lambda: erase.next_to_review(graph, audit=data.draw(odd)),
        lambda: erase.next_to_review(
            two_communities(size=10), data.draw(odd), random_share=data.draw(odd), audit=an_audit()
        ),
        lambda: erase.load_dataset(
            "citations", num_nodes=50, **{data.draw(st.sampled_from(_CITATIONS)): data.draw(odd)}
        ),
    ]
    for call in data.draw(st.lists(st.sampled_from(calls), min_size=1, max_size=3)):
        with contextlib.suppress(erase.EraseError):
            call()


_CITATIONS = [  # without what a person may want to be huge
    "num_classes", "num_features", "homophily", "degree_exponent", "imbalance", "class_exponent",
    "class_shift", "signal", "train_per_class", "train_share", "seed",
]  # fmt: skip


@cache
def an_audit() -> Any:
    """Return a small audit."""
    return erase.audit(two_communities(size=10), method="label-propagation")


@cache
def fitted_model() -> Any:
    """Return a small model."""
    model = METHODS["ce"](hidden=8, heads=2, epochs=2, device="cpu")
    return model.fit(two_communities(size=10))


@cache
def whole_files() -> dict[str, bytes]:
    """Return one whole file of each kind, by name."""
    place = Path(__import__("tempfile").mkdtemp(prefix="erase-fuzz-"))
    graph = two_communities(size=10)
    erase.write_graph(graph, place / "g.npz")
    torch.save(graph.to_dict(), place / "g.pt")
    drawn = networkx.path_graph(6)
    networkx.set_node_attributes(drawn, {i: {"label": "ab"[i % 2], "s": i} for i in drawn})
    networkx.write_graphml(drawn, place / "g.graphml")
    (place / "g.graphml.gz").write_bytes(gzip.compress((place / "g.graphml").read_bytes()))
    for kind in ("csv", "parquet"):
        erase.write_graph(small_graph(), place / kind, kind)
    erase.write_folder(graph, place / "dense")
    graph.x = graph.x.to_sparse_csr()
    graph.node_names = [f"ä{i}" for i in range(len(graph.y))]
    erase.write_folder(graph, place / "sparse")
    fitted_model().save(place / "ce.safetensors")
    erase.Relabelling(device="cpu", width=4).fit(graph).save(place / "relabelling.safetensors")
    erase.audit(graph, method="label-propagation").save(place / "audit")
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def graph_files(random: Random, folder: Path) -> None:
    """Read damaged .npz, .pt, GraphML, CSV and Parquet files."""
    kinds = [name for name in whole_files() if name.startswith(("g.", "csv/", "parquet/"))]
    name = random.choice(kinds)
    content = whole_files()[name]
    if name.endswith((".npz", ".pt")) and random.random() < 0.8:
        content = damaged_archive(content, random)
    elif name.endswith((".csv", ".graphml")):
        text = damaged_text(content.decode(), random)
        content = text.encode(errors="surrogateescape")
    elif name.endswith(".gz") and random.random() < 0.5:
        content = gzip.compress(damaged_bytes(gzip.decompress(content), random))
    else:
        content = damaged_bytes(content, random)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    path = folder / name
    if "/" in name:  # the other table stays whole
        path = folder / name.split("/")[0]
        for other in kinds:
            if other != name and other.split("/")[0] == path.name:
                (folder / other).write_bytes(whole_files()[other])
    with contextlib.suppress(erase.EraseError):
        enter(erase.read_graph(path))


def converted_folders(random: Random, folder: Path) -> None:
    """Open damaged folders of `erase convert`."""
    kind = random.choice(["dense", "sparse"])
    members = {k: v for k, v in whole_files().items() if k.startswith(f"{kind}/")}
    (folder / kind).mkdir()
    for name, content in members.items():
        (folder / name).write_bytes(content)
    name = random.choice(list(members))
    content = members[name]
    if name.endswith(".json"):
        damaged = damaged_json(json.loads(content), random)
        (folder / name).write_text(json.dumps(damaged))
    elif random.random() < 0.7:  # numbers within a file of the right size
        size = 1 if "mask" in name or "text" in name else 4 if "x" in name.split("/")[1][:1] else 8
        size = 8 if "ind" in name else size
        at = 128 + size * random.randrange(max(1, (len(content) - 128) // size))
        extreme = random.choice([2**63 - 1, -1, -(2**63), 2**31, 0, 1, 5, 0x7FC00000])
        number = (extreme % 2 ** (8 * size)).to_bytes(size, "little")
        (folder / name).write_bytes(content[:at] + number + content[at + size :])
    else:
        (folder / name).write_bytes(damaged_bytes(content, random))
    with contextlib.suppress(erase.EraseError):
        graph = erase.read_graph(folder / kind)
        enter(graph)
        if random.random() < 0.3:
            write_to(graph, random)
            enter(graph)
        with contextlib.suppress(erase.EraseError):
            erase.write_graph(graph, folder / "again.npz")
            names = NodeTask.of(graph, labelled=False).node_names
            assert names is None or len([*names]) == graph.num_nodes


def write_to(graph: Data, random: Random) -> None:
    """Change a number of an opened graph in its place."""
    tensors, x = [graph.edge_index, graph.indptr], graph.x
    if x is not None and x.layout == torch.sparse_csr:
        tensors += [x.crow_indices(), x.col_indices(), x.values()]
    elif x is not None:
        tensors.append(x)
    tensor = random.choice(tensors)
    if numbers := tensor.numel():
        extreme = random.choice([2**62, -1, -(2**63), 10**9, 0])
        tensor.view(-1)[random.randrange(numbers)] = extreme


def models_and_audits(random: Random, folder: Path) -> None:
    """Load damaged model and audit files, and use them."""
    kinds = [name for name in whole_files() if name.endswith(".safetensors")]
    name = random.choice(kinds)
    content = whole_files()[name]
    change = damaged_safetensors if random.random() < 0.8 else damaged_bytes
    (folder / "file.safetensors").write_bytes(change(content, random))
    with contextlib.suppress(erase.EraseError):
        if name.startswith("audit"):
            audit = erase.load_audit(folder / "file.safetensors")
            audit.save(folder / "saved")
            audit.clean_graph(two_communities(size=10))
        else:
            model = load_model(folder / "file.safetensors")
            proba = model.predict_proba(two_communities(size=10))
            assert bool(np.isfinite(proba).all()), "probabilities"
            model.save(folder / "saved")


def checkpoints(random: Random, folder: Path) -> None:
    """Continue from damaged checkpoints."""
    path = folder / "checkpoint.safetensors"
    path.write_bytes(_whole_checkpoint())
    change = damaged_safetensors if random.random() < 0.8 else damaged_bytes
    path.write_bytes(change(path.read_bytes(), random))
    with contextlib.suppress(erase.EraseError):
        _short_run().fit(two_communities(size=10), checkpoint=path, resume=True)


def _short_run() -> Any:
    return METHODS["ce"](hidden=8, heads=2, epochs=3, device="cpu")


@cache
def _whole_checkpoint() -> bytes:
    """Return a checkpoint of the first epochs."""
    from erase.training import loop

    place = Path(__import__("tempfile").mkdtemp(prefix="erase-fuzz-")) / "checkpoint"
    before, loop._SECONDS_BETWEEN_CHECKPOINTS = loop._SECONDS_BETWEEN_CHECKPOINTS, 0.0
    try:
        _short_run().fit(two_communities(size=10), checkpoint=place)
    finally:
        loop._SECONDS_BETWEEN_CHECKPOINTS = before
    return place.read_bytes()


def records_and_studies(random: Random, folder: Path) -> None:
    """Read damaged records and study files, and fill tables from them."""
    with contextlib.suppress(erase.EraseError):
        if random.random() < 0.5:
            lines = _some_records()
            at = random.randrange(len(lines))
            lines[at] = (
                json.dumps(damaged_json(json.loads(lines[at]), random))
                if random.random() < 0.6
                else damaged_text(lines[at], random)
            )
            text = "\n".join(lines) + "\n"
            (folder / "r.jsonl").write_text(text, encoding="utf-8", errors="surrogateescape")
            rows = bench_records.read(folder / "r.jsonl")
            build("main", rows, "paper")
            bench_records.Journal(folder / "r.jsonl").append(rows)
        else:
            text = damaged_text(STUDY, random)
            (folder / "s.toml").write_text(text, encoding="utf-8", errors="surrogateescape")
            study = read_study(str(folder / "s.toml"))
            cells = study.cells()
            assert len(cells) <= 100_000
            check(study, cells[:200])
            choose(cells[:200], [f"rate={random.choice(WORDS)}"])


def _some_records() -> list[str]:
    return (RECORDS / "clean.jsonl").read_text(encoding="utf-8").splitlines()[:5]


def reviews_and_searches(random: Random, folder: Path) -> None:
    """Open damaged databases and tables of decisions, and continue damaged searches."""
    name = random.choice(list(_kept_files()))
    content = _kept_files()[name]
    if name.endswith(".sqlite"):
        content = damaged_bytes(content, random)
    elif name.endswith(".json") and random.random() < 0.7:
        content = json.dumps(damaged_json(json.loads(content), random)).encode()
    else:
        text = damaged_text(content.decode(), random)
        content = text.encode(errors="surrogateescape")
    for other, whole in _kept_files().items():
        (folder / other).write_bytes(content if other == name else whole)
    with contextlib.suppress(erase.EraseError):
        if name in ("journal.log", "settings.json"):
            _search(folder)
            return
        with read_reviews(folder / name) as reviews:
            check_task(NodeTask.of(reviews.apply(two_communities(size=10))))
            assert len(reviews.decisions) >= len(reviews.votes())
            reviews.agreement()
            if name.endswith(".sqlite"):
                reviews.record(3, "0", by="ann")
                reviews.undo("ann")


def _search(folder: Path) -> None:
    method = METHODS["ce"](hidden=8, heads=2, epochs=1, device="cpu")
    space = choose_space(method, ["lr=0.001:0.1"], ["dropout", "weight_decay"])
    tune(method, [NodeTask.of(two_communities(size=10))], [0], space, folder, trials=2)


@cache
def _kept_files() -> dict[str, bytes]:
    """Return what a review and a search leave, by name."""
    place = Path(__import__("tempfile").mkdtemp(prefix="erase-fuzz-"))
    with Reviews(place / "reviews.sqlite", two_communities(size=10)) as reviews:
        for node in range(12):
            reviews.record(node, "01"[node % 2], by=["ann", "bob"][node % 3 == 0], note="ü")
        reviews.record(3, "1", by="ann")
        reviews.undo("ann")
        reviews.decisions.to_csv(place / "decisions.csv", index=False)
    _search(place)
    names = ("reviews.sqlite", "decisions.csv", "journal.log", "settings.json")
    return {name: (place / name).read_bytes() for name in names}


_COMMANDS: dict[str, list[str]] = {
    "fit": ["--method", "ce", "--set", "epochs=1", "--set", "hidden=8", "--set", "heads=2"],
    "audit": ["--method", "label-propagation"],
    "predict": [],
    "convert": [],
    "tune": ["--method", "ce", "--trials", "1", "--seeds", "1", "--set", "epochs=1"],
    "bench": ["--dry-run"],
    "table": [],
    "figure": [],
    "list": [],
    "review": [],
}
_OPTIONS = [
    "--seed", "--folds", "--set", "--noise", "--out", "--device", "--label", "--id", "--features",
    "--draw", "--validation", "--max-false-alarms", "--trials", "--space", "--holdout", "--only",
    "--jobs", "--protocol", "--format", "--separator", "--method", "--preset", "--clean", "--json",
    "--resume", "--all-labels", "--write-back", "--safe-csv", "--weird", "--max-memory",
    "--db", "--reviews", "--port", "--host", "--token", "--budget", "--strategy",
]  # fmt: skip
_VALUES = [
    "1e3", "nan", "-1", "0", "1", "2.5", "99999999999999999999", "10" * 200, "", "cpu", "cuda:99",
    "symmetric:0.3", "symmetric:nan", "symmetric:-1", "symmetric:9", "none:0", "epochs=1",
    "epochs=1e3", "epochs=nan", "lr=1e400", "seed=1", "=", "hidden=", "hidden=[[", "a,b", "\udcff",
    "dataset=cora", "rate=0.3", "lr=0:1", "lr=1:0:log", "md", "noisy", "redrawn", "16G", "x\0y",
]  # fmt: skip


def command_line(random: Random, folder: Path) -> None:
    """Run odd command lines: status 0 or 2, one line of error, and nothing left by a refusal."""
    for name in ("g.npz", "ce.safetensors", "csv/nodes.csv", "csv/edges.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(whole_files()[name])
    out, known = folder / "out", set(folder.rglob("*"))
    places = [str(folder / name) for name in ("g.npz", "csv", "missing.npz", "ce.safetensors")]
    command = random.choice(list(_COMMANDS))
    usual = {
        "predict": [places[3], places[0]],
        "convert": [places[0], str(out)],
        "bench": ["smoke"],
        "table": ["main", str(RECORDS / "clean.jsonl")],
        "figure": ["gains", str(RECORDS / "clean.jsonl")],
        "list": ["methods"],
    }.get(command, [places[random.random() < 0.3]])
    words = [*usual, *_COMMANDS[command]]
    if command in ("fit", "audit", "predict", "tune", "table"):
        words += ["--out", str(out)]
    for _ in range(random.randint(1, 2)):
        kind = random.randrange(3 if command == "tune" else 4)  # with --trials, or it takes long
        value = random.choice([*_VALUES, *places])
        if kind == 1 or not words:
            words += [random.choice(_OPTIONS), value]
        elif kind == 0:
            words[random.randrange(len(words))] = value
        elif kind == 2:
            words.append(random.choice(_OPTIONS))
        else:
            del words[random.randrange(len(words))]
    if command == "bench" and "--dry-run" not in words:
        words.append("--dry-run")  # a study takes long
    if command == "review":
        words[:0] = ["--export", str(out / "labels.csv")]  # the server would wait for ever
    printed, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
    ):
        status = main([command, *words])
    assert status in (0, 1, 2), status
    if status == 2:
        errors_shown = [
            line for line in errors.getvalue().splitlines() if line.startswith("erase: ")
        ]
        assert len(errors_shown) == 1, errors.getvalue()
        assert "Traceback" not in errors.getvalue()
    parts = [path.name for path in folder.rglob("*") if path.name.endswith(".part")]
    assert not parts, parts
    if status == 2 and "out" not in " ".join(words[:1]):
        made = [p for p in set(folder.rglob("*")) - known if p.is_file() and p.stat().st_size]
        kept = ("settings.json", "journal.log", "trials.csv", "audit", ".lock", ".csv")
        assert all(any(word in str(path) for word in kept) for path in made), made


_PATHS = [
    "/", "/api/start", "/api/state", "/api/items", "/api/nodes/3", "/api/groups", "/api/group",
    "/api/disagreements", "/api/decisions", "/api/undo", "/api/reviewer", "/export/labels.csv",
    "/export/decisions.csv", "/review.js",
]  # fmt: skip
_QUERIES = ["n", "have", "fresh", "given", "suggested", "token"]
_HEADERS = ["host", "origin", "cookie", "content-type", "content-length", "sec-fetch-site"]


@cache
def _review_server() -> tuple[Any, Any]:
    """Return a session on a small graph, and a client that its server has admitted."""
    from reviewed_graphs import client_of, small_session

    place = Path(__import__("tempfile").mkdtemp(prefix="erase-fuzz-"))
    session = small_session(place)
    client = client_of(session)
    transport: Any = client._transport
    transport.raise_server_exceptions = True  # with the place in the source
    return session, client


def review_requests(random: Random, folder: Path) -> None:
    """Send odd requests to the server of `erase review`: no error of its own, nothing half stored.

    What is answered with an error leaves the decisions as they were.
    """
    from urllib.parse import quote

    session, client = _review_server()
    for _ in range(random.randint(1, 4)):
        key = "".join(random.choices("0123456789abcdef", k=12))
        bodies: dict[str, Any] = {
            "/api/decisions": {
                "decisions": [
                    {"key": f"{key}{i}", "node": random.randrange(120), "class": i, "note": "ü",
                     "seconds": 1.5}
                    for i in range(random.randint(1, 3))
                ]
            },
            "/api/undo": {"key": key},
            "/api/reviewer": {"name": random.choice(["ann", "bob", "Ó", "x" * 60])},
        }  # fmt: skip
        path = random.choice([*_PATHS, *bodies, *bodies])
        body = json.dumps(bodies[path]).encode() if path in bodies else b""
        headers = {"content-type": "application/json"} if path in bodies else {}
        kind = random.randrange(8)
        if kind < 2 and path in bodies:
            body = json.dumps(damaged_json(bodies[path], random)).encode()
        elif kind == 2 and path in bodies:
            body = damaged_bytes(body, random)
        elif kind == 3:
            words = [random.choice([*WORDS, *map(str, NUMBERS)]) for _ in range(2)]
            query = "&".join(f"{random.choice(_QUERIES)}={_quoted(word)}" for word in words)
            path = f"{path}?{query}"
        elif kind == 4:
            headers[random.choice(_HEADERS)] = quote(_quoted(random.choice(WORDS))[:200])
        elif kind == 5:
            path = random.choice(["/api/nodes/", "/export/", "/", "/api/"]) + _quoted(
                str(random.choice([*WORDS, *NUMBERS]))
            )
        method = "POST" if body or (kind == 6 and path in bodies) else "GET"
        if kind == 7:
            method = random.choice(["PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "GET"])
        before = len(session.reviews.decisions)
        answer = client.request(method, path, content=body, headers=headers, follow_redirects=False)
        assert answer.status_code < 500, (method, path, answer.status_code)
        if answer.status_code >= 400:
            assert len(session.reviews.decisions) == before, (method, path, body)
            assert method == "HEAD" or "Traceback" not in answer.text
    for node, votes in session.reviews.votes().items():
        assert 0 <= node < 120
        assert set(votes.values()) <= {None, *session.class_names}
    if before > 2_000:
        _review_server.cache_clear()


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(str(text)[:500].encode(errors="surrogateescape"))


GROUPS: dict[str, Callable[[Any, Path], None]] = {
    each.__name__: each
    for each in (
        pyg_data,
        given_arrays,
        pandas_tables,
        networkx_graphs,
        arguments,
        graph_files,
        converted_folders,
        models_and_audits,
        checkpoints,
        records_and_studies,
        reviews_and_searches,
        command_line,
        review_requests,
    )
}
DRAWN = ("pyg_data", "given_arrays", "pandas_tables", "networkx_graphs", "arguments")


def emptied(folder: Path) -> Path:
    """Return a folder without contents."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
