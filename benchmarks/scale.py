"""Measure sampled training on large graphs: accuracy beside cross-entropy, time, memory, processes.

    python benchmarks/scale.py [--only MEASURE …] [--nodes N] [--records FILE] [--graphs FOLDER]
                               [--shared]

Graphs are made once, into FOLDER; every measurement is `erase fit` in processes of its own. A
measurement that is among the records already is not made again, so that the same command continues.
With `--shared` a record notes that other work ran on the machine at the same time.
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

import erase
from erase.data.files import write_graph

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
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
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
