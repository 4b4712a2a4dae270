"""Measure large graphs: sampled training, and the audit; accuracy, time, memory, processes.

    python benchmarks/scale.py [--only MEASURE …] [--nodes N] [--records FILE] [--graphs FOLDER]
                               [--shared]

Graphs are made once, into FOLDER; every measurement is `erase fit`, `erase audit` or
`erase predict` in processes of their own. Those of the audit begin with "audit"; some of them need
ERASE_DATA. A measurement that is among the records already is not made again, so that the same
command continues. With `--shared`
a record notes that other work ran on the machine at the same time.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import erase
from erase.data.datasets.citation_graphs import write_citations
from erase.data.files import write_graph
from erase.methods.relabelling.smoothing import FeatureMap
from erase.nn.neighbours import nearest, nearly_nearest

RECORDS = Path(__file__).parent / "records" / "scale.jsonl"
ARXIV_NODES = 169_343

# the command, and the kernel's high-water mark of the program at its end
FIT = """
import re, sys
from erase.cli import main
status = main(sys.argv[2:])
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
with open(sys.argv[1], "a") as file:
    file.write(f"{int(peak) * 1024}\\n")
sys.exit(status)
"""

# the command, its processor time, and the kernel's high-water mark of each process at its end
TIMED = """
import re, sys, time
from erase.cli import main
status = main(sys.argv[2:])
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
with open(sys.argv[1], "a") as file:
    file.write(f"{int(peak) * 1024} {time.process_time()}\\n")
sys.exit(status)
"""

# what one would do without this package: features of two hops, cross-validation, cleanlab
USUAL_WAY = """
import re, sys, time
import numpy as np
import scipy.sparse as sp
from cleanlab.rank import get_label_quality_scores
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
import erase
from erase.data.splits import without_splits
name, options = sys.argv[1], eval(sys.argv[2])
clean = without_splits(erase.load_dataset(name, **options))
noisy = erase.corrupt(clean, "symmetric", 0.3, seed=0, on="train+val")
start, used = time.perf_counter(), time.process_time()
n = noisy.num_nodes
row, column = noisy.edge_index.numpy()
a = sp.csr_matrix((np.ones(len(row), np.float32), (row, column)), shape=(n, n)) + sp.eye(n)
a = (sp.diags(1 / np.asarray(a.sum(1)).ravel()) @ a).tocsr().astype(np.float32)
x = noisy.x
if str(x.layout) == "torch.sparse_csr":
    parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    x = sp.csr_matrix(parts, shape=x.shape)
else:
    x = sp.csr_matrix(x.numpy())
x = sp.hstack([x, a @ x, a @ (a @ x)]).tocsr()
given = noisy.y.numpy()
model = LogisticRegression(C=1.0, max_iter=100)
proba = cross_val_predict(model, x, given, cv=5, method="predict_proba")
quality = get_label_quality_scores(given, proba)
seconds, used = time.perf_counter() - start, time.process_time() - used
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
print(seconds, used, peak, roc_auc_score(given != clean.y.numpy(), -quality))
"""

# what a core is free for
PRODUCTS = """
import time, torch
torch.set_num_threads(1)
a = torch.rand(1024, 1024)
for _ in range(5):
    a @ a
start = time.perf_counter()
for _ in range(100):
    a @ a
print(time.perf_counter() - start)
"""

# ERASE as it is on small graphs, but for a narrower hidden layer, in samples of few neighbours
USUAL: dict[str, Any] = {
    "batch_size": 1_000,
    "num_neighbors": "2,2",
    "hidden": 128,
    "epochs": 5,
}


def recipe() -> dict[str, Any]:
    """Return what ERASE's preset for ogbn-arxiv changes, as `--set` takes it."""
    usual, preset = erase.ERASE(), erase.ERASE.preset(dataset="ogbn-arxiv")
    params, changed = usual.get_params(), preset.get_params()
    return {key: as_text(value) for key, value in changed.items() if value != params[key]}


def as_text(value: Any) -> str:
    """Return a parameter's value as `--set` reads it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


# by name: ERASE's recipe for ogbn-arxiv and the settings above, each beside cross-entropy with the
# same encoder in the same batches
METHODS: dict[str, dict[str, Any]] = {
    "erase": recipe(),
    "ce": {"hidden": 64, "lr": 0.01, "batch_size": 200, "num_neighbors": "5,5", "epochs": 5},
    "erase, usual": USUAL,
    "ce, usual": USUAL,
}

# what one process and two are compared at, and how often in turn
RANKED = {"erase, whole graph": 3, "erase, usual": 1, "ce, usual": 1}

Measure = Callable[["Place"], Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]]


def like_arxiv(nodes: int, edges: int | None = None) -> dict[str, Any]:
    """Return the arguments of a `citations` graph with ogbn-arxiv's density, homophily and classes.

    Class sizes follow (k + 12)^-3: the largest has 16 % of all nodes, as there, where it has 27,321
    of 169,343, and the tenth and the thirtieth are as large as there, too.
    """
    return {
        "num_nodes": nodes,
        "num_edges": edges or round(nodes * 1_166_243 / ARXIV_NODES),
        "num_classes": 40,
        "num_features": 128,
        "homophily": 0.65,
        "class_exponent": 3.0,
        "dense": True,
        "train_share": 0.54,
        "val_share": 0.17,
    }


class Place:
    """Where graphs are, and how large the largest may be."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder, self.nodes = folder, nodes

    def graph(self, nodes: int, edges: int | None = None) -> Path:
        """Return the file of a graph, made where it is not there."""
        options = like_arxiv(min(nodes, self.nodes), edges if nodes <= self.nodes else None)
        name = f"{options['num_nodes']}-{options['num_edges']}"
        path = self.folder / f"{name}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_graph(erase.load_dataset("citations", **options), path)
        return path


def fit(
    graph: Path, *options: str, processes: int = 1, threads: int | None = None, **parameters: Any
) -> dict[str, Any]:
    """Run `erase fit`; return its time, its largest process and what it scored."""
    settings = [part for key, value in parameters.items() for part in ("--set", f"{key}={value}")]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with tempfile.TemporaryDirectory() as folder:
        script, peaks, out = (Path(folder) / name for name in ("fit.py", "peaks", "out"))
        script.write_text(FIT)
        command = [sys.executable, *(torchrun if processes > 1 else []), str(script), str(peaks)]
        command += ["fit", str(graph), "--out", str(out), "--device", "cpu", *options, *settings]
        start = time.perf_counter()
        bound = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | bound)
        seconds = time.perf_counter() - start
        summary = json.loads((out / "summary.json").read_text())
        history = pd.read_csv(out / "history.csv")
        largest = max(int(line) for line in peaks.read_text().split())
    return {
        "seconds": round(seconds, 1),
        "fit_seconds": round(summary["seconds"], 1),
        "seconds_per_epoch": round(summary["seconds"] / summary["epochs_run"], 2),
        "peak_gigabytes": round(largest / 1e9, 3),
        "best_epoch": summary["best_epoch"],
        "test_accuracy": round(summary["scores"]["test_accuracy"], 4),
        "losses": [round(loss, 6) for loss in history["loss"]],
    }


def fit_at(place: Place, nodes: int, *options: str, **more: Any) -> dict[str, Any]:
    return fit(place.graph(nodes), *options, **more)


def arxiv(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield ERASE's recipe and its usual settings, each beside cross-entropy."""
    for noise in ("symmetric:0.3", "asymmetric:0.4"):
        for method, parameters in METHODS.items():
            about = {"noise": noise, "method": method, "seed": 0}
            options = ("--noise", noise, "--method", method.split(",")[0])
            yield about, partial(fit_at, place, ARXIV_NODES, *options, **parameters)


def million(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield a fit of a million nodes and ten million edges, in memory and out of a folder."""
    for kind in ("file", "folder"):
        about = {"noise": "symmetric:0.3", "method": "erase, usual", "kind": kind}
        yield about, partial(fit_million, place, kind)


def fit_million(place: Place, kind: str) -> dict[str, Any]:
    """Fit the graph of a million nodes as a file, or as the folder that `erase convert` makes."""
    graph = place.graph(10**6, 10**7)
    if kind == "folder":
        folder = graph.with_suffix("")
        if not folder.exists():
            convert = [sys.executable, "-m", "erase", "convert", str(graph), str(folder)]
            subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
        graph = folder
    return fit(graph, "--noise", "symmetric:0.3", "--method", "erase", **USUAL | {"epochs": 2})


def growth(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield two epochs at growing sizes."""
    options = ("--noise", "symmetric:0.3", "--method", "erase")
    for nodes in (10**4, 10**5, 10**6):
        if nodes <= place.nodes:
            work = partial(fit_at, place, nodes, *options, **USUAL | {"epochs": 2})
            yield {"nodes": nodes}, work


def ranks(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield the same fit by one process and by two, of a thread each."""
    for turn, method, processes in product(range(3), RANKED, (1, 2)):
        if turn < RANKED[method]:
            about = {"method": method, "processes": processes, "turn": turn}
            yield about, partial(by_processes, place, method, processes)


def by_processes(place: Place, method: str, processes: int) -> dict[str, Any]:
    """Fit with several processes, and record how many cores were free just before."""
    graph, free = place.graph(50_000), free_cores()
    if method == "erase, whole graph":
        settings = USUAL | {"batch_size": 20_000, "objective": "graph"}
    else:
        settings = METHODS[method] | {"batch_size": 4_000, "num_neighbors": "5,5"}
    record = fit(
        graph,
        *("--noise", "symmetric:0.3", "--method", method.split(",")[0]),
        processes=processes,
        threads=1,
        **settings,
    )
    return record | {"free_cores_before": free}


# graphs of the audit: name and options of the dataset; "debian index" is of the size of Debian's
# index, with as many sections and words, which is not at hand
AUDITED: dict[str, tuple[str, dict[str, Any]]] = {
    "cora": ("cora", {}),
    "debian index": (
        "citations",
        {
            "num_nodes": 63_436,
            "num_edges": 200_000,
            "num_classes": 58,
            "num_features": 10_000,
            "homophily": 0.6,
            "class_exponent": 2.0,
            "words_per_node": 7.0,
        },
    ),
    "200k": ("citations", {"num_nodes": 200_000}),
}


def run_audit(
    graph: str,
    *options: str,
    processes: int = 1,
    threads: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Run `erase audit`; return its time, processor time, memory of each process, and AUROC."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    free = free_cores()
    with tempfile.TemporaryDirectory() as folder:
        script, peaks, out = (Path(folder) / name for name in ("audit.py", "peaks", "out"))
        script.write_text(TIMED)
        command = [sys.executable, *(torchrun if processes > 1 else []), str(script), str(peaks)]
        command += ["audit", graph, "--out", str(out), "--device", device, "--quiet"]
        command += ["--noise", "symmetric:0.3", *options]
        bound = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | bound)
        seconds = time.perf_counter() - start
        summary = json.loads((out / "summary.json").read_text())
        ends = [tuple(map(float, line.split())) for line in peaks.read_text().splitlines()]
    return {
        "seconds": round(seconds, 1),
        "audit_seconds": round(summary["seconds"], 1),
        "processor_seconds": round(sum(used for _, used in ends), 1),
        "peak_gigabytes": round(max(peak for peak, _ in ends) / 1e9, 3),
        "labels": summary["labels"],
        "scores": {key: round(value, 4) for key, value in summary["scores"].items()},
        "free_cores_before": free,
    }


def citations_folder(place: Place, nodes: int, share: float | None = None) -> Path:
    """Return the folder of a `citations` graph; `share` of its nodes trains, None: as usual."""
    path = place.folder / (f"citations-{nodes}" + ("" if share is None else f"-{share}"))
    if not path.exists():
        split = {} if share is None else {"train_share": share, "val_share": 0.0}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_citations(path, num_nodes=nodes, **split)
    return path


def audits(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield audits of all labels: Cora, a graph of the size of Debian's index, 200,000 nodes."""
    for graph, (name, options) in AUDITED.items():
        if options.get("num_nodes", 0) <= place.nodes:
            yield {"graph": graph}, partial(audit_of, place, name, options)


def audit_of(place: Place, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Audit all labels of a dataset, out of a file where it is generated."""
    if not options:
        return run_audit(name, "--all-labels")
    path = place.folder / f"{name}-{options['num_nodes']}-{options.get('num_classes', 7)}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_graph(erase.load_dataset(name, **options), path)
    return run_audit(str(path), "--all-labels")


def audit_growth(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield audits out of folders at growing sizes, with a fifth of the labels and with all."""
    for nodes, share in product((50_000, 200_000, 1_000_000), (0.2, 1.0)):
        if nodes <= place.nodes:
            yield {"nodes": nodes, "labelled": share}, partial(audit_share, place, nodes, share)


def audit_share(place: Place, nodes: int, share: float) -> dict[str, Any]:
    """Audit a part of the labels of a folder, or all."""
    if share == 1.0:
        return run_audit(str(citations_folder(place, nodes)), "--all-labels")
    return run_audit(str(citations_folder(place, nodes, share)))


def audit_gpu(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield the audit of the largest folder on a GPU, if there is one."""
    if torch.cuda.is_available():
        about = {"nodes": place.nodes, "device": torch.cuda.get_device_name()}
        yield about, partial(audit_on_gpu, place)


def audit_on_gpu(place: Place) -> dict[str, Any]:
    """Audit all labels of a folder on a GPU."""
    return run_audit(str(citations_folder(place, place.nodes)), "--all-labels", device="cuda")


def audit_ranks(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield the same audit by one process and by two, of a thread each."""
    nodes = min(200_000, place.nodes)
    for processes in (1, 2):
        yield {"nodes": nodes, "processes": processes}, partial(audit_by, place, nodes, processes)


def audit_by(place: Place, nodes: int, processes: int) -> dict[str, Any]:
    """Audit with several processes."""
    folder = str(citations_folder(place, nodes))
    return run_audit(folder, "--all-labels", processes=processes, threads=1)


def audit_beside(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield what one would do instead: regression on two-hop features, and cleanlab."""
    for graph in ("cora", "200k"):
        name, options = AUDITED[graph]
        if options.get("num_nodes", 0) <= place.nodes:
            yield {"graph": graph}, partial(usual_way, name, options)


def usual_way(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return time, memory and AUROC of the usual way; it is given the graph in memory."""
    free = free_cores()
    command = [sys.executable, "-c", USUAL_WAY, name, repr(options)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, used, peak, auroc = map(float, done.stdout.split())
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(used, 1),
        "peak_gigabytes": round(peak / 1e9, 3),
        "auroc": round(auroc, 4),
        "free_cores_before": free,
    }


# models that `erase predict` applies to a large graph, with the settings of their fit
APPLIED: dict[str, dict[str, Any]] = {
    "relabelling": {},
    "ce": {"epochs": 20},
    "erase": {"batch_size": 1_000, "num_neighbors": "2,2", "epochs": 20},
}
FITTED_NODES = 20_000


def predictions(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield `erase predict` on a folder of a million nodes, by models of 20,000 other nodes."""
    for method in APPLIED:
        nodes = min(10**6, place.nodes)
        yield {"method": method, "nodes": nodes}, partial(predict_folder, place, method, nodes)


def predict_folder(place: Place, method: str, nodes: int) -> dict[str, Any]:
    """Fit a small graph, apply the model to a folder; return time, memory and accuracy of that."""
    fitted_nodes = min(FITTED_NODES, nodes)
    small, folder = citations_folder(place, fitted_nodes), citations_folder(place, nodes)
    settings = [
        part for key, value in APPLIED[method].items() for part in ("--set", f"{key}={value}")
    ]
    with tempfile.TemporaryDirectory() as temporary:
        script, peaks, fitted, out = (
            Path(temporary) / name for name in ("predict.py", "peaks", "fitted", "out")
        )
        run = ["fit", str(small), "--method", method, "--noise", "symmetric:0.3", *settings]
        common = ["--device", "cpu", "--quiet"]
        command = [sys.executable, "-m", "erase", *run, "--out", str(fitted), *common]
        subprocess.run(command, check=True)
        free = free_cores()
        script.write_text(TIMED)
        run = ["predict", str(fitted / "model.safetensors"), str(folder), "--out", str(out)]
        start = time.perf_counter()
        subprocess.run([sys.executable, str(script), str(peaks), *run, *common], check=True)
        seconds = time.perf_counter() - start
        peak, used = map(float, peaks.read_text().split())
        found = pd.read_csv(out / "predictions.csv", usecols=["predicted"], dtype=str)["predicted"]
    graph = erase.read_graph(folder)
    truth = [graph.class_names[k] for k in graph.y.tolist()]
    return {
        "fitted_nodes": fitted_nodes,
        "edges": graph.num_edges // 2,
        "features": graph.num_features,
        "settings": APPLIED[method],
        "seconds": round(seconds, 1),
        "processor_seconds": round(used, 1),
        "peak_gigabytes": round(peak / 1e9, 3),
        "accuracy": round(float((found == truth).mean()), 4),
        "free_cores_before": free,
    }


def neighbours(place: Place) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield what the search by centres finds: words without clusters, and rows around points."""
    for rows in ("words", "points"):
        yield {"rows": rows, "nodes": min(60_000, place.nodes)}, partial(recall, rows, place.nodes)


def recall(kind: str, most: int) -> dict[str, Any]:
    """Return the share of the ten nearest that are found for 500 rows, and processor time."""
    n = min(60_000, most)
    if kind == "words":
        words = erase.load_dataset("citations", num_nodes=n).x
        columns = FeatureMap.fit(words, 256)
        x = columns.reduce(columns.weigh(words))
    else:
        generator = torch.Generator().manual_seed(0)
        points = torch.randn(200, 64, generator=generator)
        own = torch.randint(200, (n,), generator=generator)
        x = points[own] + 1.5 * torch.randn(n, 64, generator=generator)
    some = torch.arange(0, n, n // 500)
    start = time.process_time()
    found, _ = nearly_nearest(x, 10)
    used = time.process_time() - start
    expected, _ = nearest(x, 10, of=some, positive=True)
    hits = (found[some][:, :, None] == expected[:, None]).any(2)
    return {
        "width": x.shape[1],
        "recall": round(float(hits.float().mean()), 3),
        "processor_seconds": round(used, 1),
    }


def free_cores() -> float:
    """Return what two processes of a thread each multiply beside one alone; 2: both are free."""

    def seconds(processes: int) -> float:
        command = [sys.executable, "-c", PRODUCTS]
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)
        ]
        return max(float(process.communicate()[0]) for process in running)

    return round(2 * seconds(1) / seconds(2), 2)


MEASURES: dict[str, Measure] = {
    "arxiv": arxiv,
    "million": million,
    "growth": growth,
    "ranks": ranks,
    "audit": audits,
    "audit-growth": audit_growth,
    "audit-gpu": audit_gpu,
    "audit-ranks": audit_ranks,
    "audit-beside": audit_beside,
    "predict": predictions,
    "neighbours": neighbours,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--nodes", type=int, default=10**6, help="no graph is larger")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--graphs", type=Path, default=Path("out") / "scale-graphs")
    parser.add_argument("--shared", action="store_true", help="other work runs on the machine")
    options = parser.parse_args()
    options.records.parent.mkdir(parents=True, exist_ok=True)
    known = options.records.read_text().splitlines() if options.records.exists() else []
    done = [json.loads(line) for line in known]
    place = Place(options.graphs, options.nodes)
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores"
    for name in options.only:
        for about, work in MEASURES[name](place):
            about = {"measure": name, "at_most": options.nodes, **about}
            if any(about.items() <= record.items() for record in done):
                continue
            record = about | work() | {"machine": machine, "version": erase.__version__}
            if options.shared:
                record["beside_other_work"] = True
            with options.records.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
