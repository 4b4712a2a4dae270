"""Time one training epoch with selection against the straightforward implementation.

    ERASE_DATA=... python benchmarks/speed.py [--epochs 12] [--records FILE]

Both run in this process, a few epochs each in turn, on the published draw of Cora; the ratio of
the medians counts, for absolute times are those of the machine. Then the memory of a whole `fit` on
PubMed, in a process of its own. Appends one JSON line a measurement.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

import erase
from erase.methods.erase import ERASE, _EraseLearner
from erase.task import NodeTask
from straightforward import SETTINGS, Straightforward

RECORDS = Path(__file__).parent / "records" / "speed.jsonl"

BLOCK = 4  # epochs of one implementation before the other's turn

PEAK = """
import resource, sys, torch, erase
clean = erase.load_dataset("pubmed")
noisy = erase.corrupt(clean, "symmetric", 0.3, draw="fixed")
model = erase.ERASE.preset("reference", "pubmed", device="cpu", epochs=int(sys.argv[1])).fit(noisy)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, model.score(clean))
"""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def epoch_ratio(dataset: str, epochs: int) -> dict[str, Any]:
    """Return median seconds of an epoch with selection, ours and straightforward."""
    clean = erase.load_dataset(dataset)
    noisy = erase.corrupt(clean, "symmetric", 0.3, draw="fixed")
    task = NodeTask.from_data(noisy)
    ours = _EraseLearner(ERASE.preset("reference", dataset, device="cpu"), [task], [0])
    theirs = Straightforward(clean, noisy.y, task.train_mask, task.val_mask, SETTINGS[dataset])

    def our_epoch() -> None:
        ours.step()
        ours.evaluate()

    def their_epoch() -> None:
        theirs.step()
        theirs.select()

    times: dict[str, list[float]] = {"ours": [], "straightforward": []}
    for _ in range(epochs // BLOCK):
        # blocks, since a switch costs caches and waking threads; each block's first epoch warms up
        times["ours"] += [seconds(our_epoch) for _ in range(BLOCK + 1)][1:]
        times["straightforward"] += [seconds(their_epoch) for _ in range(BLOCK + 1)][1:]
    ours_s, theirs_s = median(times["ours"]), median(times["straightforward"])
    return {
        "measure": "epoch with selection",
        "dataset": dataset,
        "ours_seconds": round(ours_s, 4),
        "straightforward_seconds": round(theirs_s, 4),
        "ratio": round(theirs_s / ours_s, 2),
        "epochs": epochs,
    }


def peak_memory(epochs: int) -> dict[str, Any]:
    """Return the most memory a fit on PubMed holds, data set and libraries included."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(epochs)], capture_output=True, text=True, check=True
    )
    peak, accuracy = done.stdout.split()
    return {
        "measure": "peak memory of fit",
        "dataset": "pubmed",
        "epochs": epochs,
        "gigabytes": round(int(peak) / 1e9, 3),
        "test_accuracy": float(accuracy),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=12, help="timed epochs (default 12)")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    machine = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {"erase": erase.__version__, "torch": torch.__version__},
    }
    options.records.parent.mkdir(parents=True, exist_ok=True)
    for record in (epoch_ratio("cora", options.epochs), peak_memory(40)):
        record |= machine
        with options.records.open("a") as file:
            file.write(json.dumps(record) + "\n")
        for name, value in record.items():
            print(f"{name:24} {value}")
        print()
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(f"(this process, straightforward implementation included: {own:.2f} GB)")


if __name__ == "__main__":
    main()
