"""Measure accuracy at other epochs than the one that validation labels select.

    python benchmarks/epochs.py [--device cuda] [--dataset NAME ...] [--method NAME ...]

According to the paper, clean validation labels select the epoch, as they do here. These runs, on
the published draw, take the epoch with the highest accuracy on the test nodes ("test"), or the last
one ("last"). Test labels are not available in practice, so the outcome only helps to explain
published figures; it is not a result.
"""

import argparse
import json
from collections.abc import Collection, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch_geometric.data import Data

import erase
from erase.bench.studies import BOTH, CITATION_GRAPHS, RATES
from erase.methods import build_method
from ledger import TF32
from pace import read_lines
from speed import machine_name, versions

RECORDS = Path(__file__).parent / "records" / "epochs.jsonl"
PLAN = (  # epoch, method, runs of a cell, graphs
    ("test", "erase", 10, CITATION_GRAPHS),
    ("test", "ce", 5, CITATION_GRAPHS),
    ("last", "erase", 5, ("pubmed",)),
    ("last", "ce", 5, CITATION_GRAPHS),
)


class Row(NamedTuple):
    """A row of the main table at another epoch."""

    epoch: str
    dataset: str
    noise: str
    method: str
    runs: int


KEYS = Row._fields[:-1]


def graph_for(epoch: str, clean: Data, noise: str, rate: float) -> Data:
    """Return the published draw, with validation nodes that make training select `epoch`."""
    given = erase.corrupt(clean, noise, rate, draw="fixed")
    given.val_mask = clean.test_mask if epoch == "test" else torch.zeros_like(clean.val_mask)
    labelled = given.train_mask | given.val_mask
    given.y = torch.where(given.train_mask, given.y, torch.where(labelled, clean.y, -1))
    return given


def train(row: Row, device: str, **changes: Any) -> Iterator[dict[str, Any]]:
    """Return the records of a row, all its rates and runs trained together."""
    clean = erase.load_dataset(row.dataset)
    graphs = {rate: graph_for(row.epoch, clean, row.noise, rate) for rate in RATES}
    places = list(product(RATES, range(row.runs)))
    model = build_method(row.method, dataset=row.dataset, device=device, **changes)
    models = model.fit_many([graphs[rate] for rate, _ in places], [seed for _, seed in places])
    for (rate, seed), fitted in zip(places, models, strict=True):
        yield dict(zip(KEYS, row, strict=False)) | {
            "rate": rate,
            "seed": seed,
            "taken": fitted.best_epoch_,
            "test_accuracy": fitted.score(clean),
        }


def planned(methods: Collection[str], datasets: Collection[str]) -> Iterator[Row]:
    """Return the rows to make: `methods` on `datasets`, all where none is named."""
    for epoch, method, runs, graphs in PLAN:
        for dataset, noise in product(graphs, BOTH):
            if method in (methods or [method]) and dataset in (datasets or graphs):
                yield Row(epoch, dataset, noise, method, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dataset", nargs="*", default=(), help="default: all")
    parser.add_argument("--method", nargs="*", default=(), help="default: all")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    name = machine_name(options.device)
    if options.device == "cuda":  # as the tables are made
        torch.set_float32_matmul_precision("high")
        name += TF32
    machine = {"machine": name, "versions": versions()}
    options.records.parent.mkdir(parents=True, exist_ok=True)
    there = {tuple(line[k] for k in KEYS) for line in read_lines(options.records)}
    for row in planned(options.method, options.dataset):
        if row[: len(KEYS)] in there:
            continue
        lines = [line | machine for line in train(row, options.device)]
        with options.records.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        print(f"{row.method} on {row.dataset}, {row.noise}, epoch {row.epoch}: {row.runs} runs")


if __name__ == "__main__":
    main()
