"""Time ERASE against the straightforward implementation, and measure what a fit holds in memory.

    ERASE_DATA=... python benchmarks/speed.py [--device cuda] [--only MEASURE] [--records FILE]

Both run in this process, a few epochs each in turn, on the published draw; the ratio of the medians
counts, for absolute times are those of the machine (a GPU's are not). Memory is measured in
processes of their own. Prints each measurement and appends it as one JSON line.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

import erase
from erase.bench.names import PAPER_METHODS
from erase.data.task import NodeTask
from erase.methods import build_method
from erase.methods.erase import ERASE
from erase.methods.network import NetworkClassifier
from erase.training.loop import Learner, _epoch, _Recorded
from straightforward import SETTINGS, Straightforward

RECORDS = Path(__file__).parent / "records" / "speed.jsonl"
BLOCK = 4  # epochs of one implementation before the other's turn

FIT = """
import re, sys, time, erase, torch
name, options, noise, model = sys.argv[1], *map(eval, sys.argv[2:])
clean = erase.load_dataset(name, **options)
noisy = erase.corrupt(clean, "symmetric", 0.3, **noise)
if model.device == "cuda":
    torch.ones(1, device="cuda")  # the device wakes up
start = time.perf_counter()
model.fit(noisy)
seconds = time.perf_counter() - start
# the kernel's high-water mark of this program; getrusage's may be the parent's, kept over the fork
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
if model.device == "cuda":
    peak = torch.cuda.max_memory_allocated()
print(peak, seconds, model.score(clean))
"""


AUDIT = """
import time, erase
from erase.data.splits import without_splits
graph = without_splits(erase.load_dataset("cora"))
start = time.perf_counter()
erase.audit(graph)
print(time.perf_counter() - start)
"""
ENDLESS = "while True: pass"
# how threads wait: as GNU OpenMP does by itself, as erase makes it, not at all
WAITING = {
    "usual": {"GOMP_SPINCOUNT": "300000"},
    "ours": {},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}


def busy(rounds: int) -> dict[str, Any]:
    """Return the time of an audit of Cora, all labels, alone and beside a busy process."""
    unset = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for company in ("alone", "beside a busy process"):
            other = (
                subprocess.Popen([sys.executable, "-c", ENDLESS]) if company != "alone" else None
            )
            try:
                for waiting, variables in WAITING.items():
                    process = subprocess.run(
                        [sys.executable, "-c", AUDIT],
                        check=True,
                        capture_output=True,
                        text=True,
                        env=unset | variables,
                    )
                    times.setdefault(f"{waiting}, {company}", []).append(float(process.stdout))
            finally:
                if other is not None:
                    other.kill()
    return {
        "measure": "audit beside a busy process",
        "dataset": "cora",
        "cores": os.cpu_count(),
        "seconds": {name: round(median(values), 2) for name, values in times.items()},
    }


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def our_epoch(dataset: str, runs: int, device: str, **options: Any) -> Callable[[], object]:
    """Return an epoch of `runs` runs with selection, as the loop carries it out."""
    clean = erase.load_dataset(dataset, **options)
    tasks = [
        NodeTask.from_data(erase.corrupt(clean, "symmetric", 0.3, seed=seed))
        for seed in range(runs)
    ]
    learner = ERASE.preset("reference", dataset, device=device)._learner(tasks, range(runs))
    val = torch.stack([task.val_index for task in tasks]).to(device)
    given = torch.stack([task.y[task.val_index] for task in tasks]).to(device)
    work = partial(_epoch, learner, val, given, evaluate=True)
    replayed = _Recorded(learner, work) if device == "cuda" else work
    return lambda: torch.stack(list(replayed().watched.values())).tolist()


def epoch_ratio(dataset: str, device: str, epochs: int) -> dict[str, Any]:
    """Return median seconds of an epoch with selection, ours and straightforward."""
    clean = erase.load_dataset(dataset)
    noisy = erase.corrupt(clean, "symmetric", 0.3, draw="fixed")
    ours = our_epoch(dataset, 1, device)
    masks = clean.train_mask, clean.val_mask
    theirs = Straightforward(clean, noisy.y, *masks, SETTINGS[dataset], device=device)

    def their_epoch() -> None:
        theirs.step()
        theirs.select()

    block = min(BLOCK, epochs)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(epochs // block):
        # blocks, since a switch costs caches and waking threads; each block's first epoch warms up
        times["ours"] += [seconds(ours) for _ in range(block + 1)][1:]
        times["theirs"] += [seconds(their_epoch) for _ in range(block + 1)][1:]
    ours_s, theirs_s = median(times["ours"]), median(times["theirs"])
    return {
        "measure": "epoch with selection",
        "dataset": dataset,
        "ours_seconds": round(ours_s, 5),
        "straightforward_seconds": round(theirs_s, 4),
        "ratio": round(theirs_s / ours_s, 2),
        "epochs": len(times["ours"]),
    }


def growth(epochs: int) -> dict[str, Any]:
    """Return median seconds of an epoch at ogbn-arxiv's size and at twice that, in turn."""
    once, twice = (our_epoch("citations", 1, "cpu", **arxiv_sized(times)) for times in (1, 2))
    pairs = [(seconds(once), seconds(twice)) for _ in range(epochs + 1)][1:]
    small, large = (median(times) for times in zip(*pairs, strict=True))
    return {
        "measure": "twice the size",
        "dataset": "citations",
        "options": arxiv_sized(1),
        "once_seconds": round(small, 3),
        "twice_seconds": round(large, 3),
        "ratio": round(large / small, 3),
        "epochs": epochs,
    }


def many_runs(runs: int) -> dict[str, Any]:
    """Return the cost of an epoch of many runs at once beside that of one, on a GPU."""
    one = our_epoch("cora", 1, "cuda")
    single = median(seconds(one) for _ in range(30))
    torch.cuda.reset_peak_memory_stats()
    many = our_epoch("cora", runs, "cuda")
    together = median(seconds(many) for _ in range(30))
    return {
        "measure": f"{runs} runs at once",
        "dataset": "cora",
        "one_seconds": round(single, 5),
        "many_seconds": round(together, 5),
        "ratio": round(together / single, 2),
        "gigabytes": round(torch.cuda.max_memory_allocated() / 1e9, 2),
    }


def main_row() -> dict[str, Any]:
    """Return the time of ERASE's row of the paper's main table for Cora: 10 cells of 10 runs."""
    clean = erase.load_dataset("cora")
    start = time.perf_counter()
    means = {}
    for kind in ("asymmetric", "symmetric"):
        rates = (0.1, 0.2, 0.3, 0.4, 0.5)
        draws = [erase.corrupt(clean, kind, rate, draw="fixed") for rate in rates]
        tasks = [draw for draw in draws for _ in range(10)]
        models = ERASE.preset("reference", "cora", device="cuda").fit_many(tasks, [*range(10)] * 5)
        scores = torch.tensor([100 * model.score(clean) for model in models]).view(5, 10)
        for rate, mean, std in zip(rates, scores.mean(1), scores.std(1), strict=True):
            means[f"{kind} {rate}"] = [round(float(mean), 2), round(float(std), 2)]
    return {
        "measure": "main row, 10 cells of 10 runs",
        "dataset": "cora",
        "seconds": round(time.perf_counter() - start, 1),
        "mean_and_std": means,
    }


def arxiv_fit(epochs: int) -> dict[str, Any]:
    """Return the time of a full-batch fit on a graph of ogbn-arxiv's size, on a GPU."""
    clean = erase.load_dataset("citations", **arxiv_sized(1))
    noisy = erase.corrupt(clean, "symmetric", 0.3, draw="fixed")
    model = ERASE.preset("reference", "citations", device="cuda", epochs=epochs)
    whole = seconds(lambda: model.fit(noisy))
    used = torch.cuda.max_memory_allocated()
    epoch = our_epoch("citations", 1, "cuda", **arxiv_sized(1))
    return {
        "measure": "fit",
        "dataset": "citations",
        "options": arxiv_sized(1),
        "epochs": epochs,
        "seconds": round(whole, 2),
        "seconds_per_epoch": round(whole / epochs, 4),
        "epoch_seconds": round(median(seconds(epoch) for _ in range(20)), 4),
        "gigabytes": round(used / 1e9, 2),
        "test_accuracy": round(model.score(clean), 4),
    }


def peak_memory(dataset: str, epochs: int, method: str = "erase", **options: Any) -> dict[str, Any]:
    """Return the most memory a CPU fit holds, libraries included, and its time per epoch."""
    settings = f"dataset={dataset!r}, device='cpu', epochs={epochs}"
    model = f"erase.methods.build_method({method!r}, {settings})"
    peak, whole, accuracy = fit_apart(dataset, options, {"draw": "fixed"}, model)
    return {
        "measure": "fit",
        "dataset": dataset,
        "method": method,
        "options": options,
        "epochs": epochs,
        "peak_gigabytes": round(peak / 1e9, 3),
        "seconds_per_epoch": round(whole / epochs, 3),
        "test_accuracy": round(accuracy, 4),
    }


def iterations(device: str, steps: int) -> dict[str, Any]:
    """Return median milliseconds of a forward and a backward pass of the paper's eight methods."""
    task = NodeTask.from_data(
        erase.corrupt(erase.load_dataset("cora"), "symmetric", 0.3, draw="fixed")
    )
    taken = {}
    for name in PAPER_METHODS:
        method = build_method(name, dataset="cora", device=device)
        assert isinstance(method, NetworkClassifier)
        learner = method._learner([task], [0])
        step = partial(take_step, learner)
        times = [seconds(step) for _ in range(steps + 3)][3:]
        taken[name] = round(1000 * median(times), 3)
    return {"measure": "iteration", "dataset": "cora", "milliseconds": taken, "steps": steps}


def take_step(learner: Learner) -> None:
    """Take a step, and wait for what a device computes."""
    for value in learner.step().values():
        value.tolist()


def relabelling(dataset: str, device: str, fits: int, **options: Any) -> dict[str, Any]:
    """Return the median time of a fit of relabelling, validation labels noisy, and its memory."""
    model, noise = f"erase.Relabelling(device={device!r})", {"on": "train+val"}
    done = [fit_apart(dataset, options, noise, model) for _ in range(fits)]
    peaks, times, accuracies = zip(*done, strict=True)
    return {
        "measure": "fit of relabelling",
        "dataset": dataset,
        "options": options,
        "seconds": round(median(times), 2),
        "gigabytes": round(max(peaks) / 1e9, 2),
        "fits": fits,
        "test_accuracy": round(accuracies[0], 4),
    }


def fit_apart(
    dataset: str, options: Mapping[str, Any], noise: Mapping[str, Any], model: str
) -> tuple[int, float, float]:
    """Return bytes at most, seconds and test accuracy of a fit in a process of its own.

    Args:
        dataset: a name in ``DATASETS``.
        options: how to load it.
        noise: arguments of ``corrupt`` besides symmetric noise of 0.3.
        model: an expression that makes it.
    """
    done = subprocess.run(
        [sys.executable, "-c", FIT, dataset, repr(options), repr(noise), model],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, whole, accuracy = done.stdout.split()
    return int(peak), float(whole), float(accuracy)


def arxiv_sized(times: int) -> dict[str, Any]:
    """Return the arguments of a `citations` graph `times` as large as ogbn-arxiv."""
    return {
        "num_nodes": 169_343 * times,
        "num_edges": 1_166_243 * times,
        "num_classes": 40,
        "num_features": 128,
        "homophily": 0.65,
        "dense": True,
        "train_share": 0.54,
        "val_share": 0.17,
    }


def machine_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    return {"erase": erase.__version__, "torch": str(torch.__version__)}


MEASURES: dict[str, dict[str, Callable[[], dict[str, Any]]]] = {
    "cpu": {
        "cora": lambda: epoch_ratio("cora", "cpu", 16),
        "pubmed": lambda: epoch_ratio("pubmed", "cpu", 2),
        "memory": lambda: peak_memory("pubmed", 40),
        "arxiv": lambda: peak_memory("citations", 3, **arxiv_sized(1)),
        "arxiv-twice": lambda: peak_memory("citations", 3, **arxiv_sized(2)),
        "arxiv-rtgnn": lambda: peak_memory("citations", 1, "rtgnn", **arxiv_sized(1)),
        "arxiv-pignn": lambda: peak_memory("citations", 1, "pignn", **arxiv_sized(1)),
        "iterations": lambda: iterations("cpu", 15),
        "growth": lambda: growth(4),
        "busy": lambda: busy(3),
        "relabelling": lambda: relabelling("cora", "cpu", 3),
        "relabelling-pubmed": lambda: relabelling("pubmed", "cpu", 3),
        "relabelling-arxiv": lambda: relabelling("citations", "cpu", 1, **arxiv_sized(1)),
    },
    "cuda": {
        "cora": lambda: epoch_ratio("cora", "cuda", 24),
        "pubmed": lambda: epoch_ratio("pubmed", "cuda", 8),
        "ten": lambda: many_runs(10),
        "hundred": lambda: many_runs(100),
        "iterations": lambda: iterations("cuda", 50),
        "row": main_row,
        "arxiv": lambda: arxiv_fit(100),
        "relabelling": lambda: relabelling("cora", "cuda", 3),
        "relabelling-pubmed": lambda: relabelling("pubmed", "cuda", 3),
        "relabelling-arxiv": lambda: relabelling("citations", "cuda", 1, **arxiv_sized(1)),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", choices=MEASURES)
    parser.add_argument("--only", nargs="*", help="measures to make (default: all of the device)")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    machine = {"machine": machine_name(options.device), "versions": versions()}
    options.records.parent.mkdir(parents=True, exist_ok=True)
    for name, measure in MEASURES[options.device].items():
        if options.only and name not in options.only:
            continue
        record = measure() | machine
        with options.records.open("a") as file:
            file.write(json.dumps(record) + "\n")
        for key, value in record.items():
            print(f"{key:24} {value}")
        print(flush=True)


if __name__ == "__main__":
    main()
