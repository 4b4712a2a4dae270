"""Where an epoch's time goes, stage by stage, beside the least it could take on this machine.

    ERASE_DATA=... python benchmarks/profile_stages.py [cora citeseer pubmed arxiv]
        [--device cuda] [--records FILE]

The floor of a stage is the larger of its multiplications at the measured rate of a matrix product,
and its bytes at the measured bandwidth of a copy; bytes count every operand and result once.
`arxiv` is a `citations` graph of ogbn-arxiv's size. Stages run one after the other here; inside a
fit on a GPU they are recorded once and replayed.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import erase
from erase.data.task import NodeTask
from erase.methods.erase import ERASE, EraseLearner
from erase.nn.coding import rate_reduction
from erase.nn.heads import classify
from speed import arxiv_sized, machine_name, versions


@dataclass(frozen=True)
class Stage:
    """A part of an epoch.

    Attributes:
        name: what it is.
        work: does it.
        operations: floating-point operations it cannot avoid.
        numbers: float32 numbers it cannot avoid to read or write.
    """

    name: str
    work: Callable[[], object]
    operations: float
    numbers: float


def seconds(work: Callable[[], object], repeat: int = 5) -> float:
    """Return the median time of `work`, the first call not counted."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return median(times[1:])


def allocated(work: Callable[[], object]) -> float:
    """Return the bytes that `work` allocates, freed or not."""
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as watched:
        work()
    events = watched.key_averages()
    return float(
        sum(
            max(0, event.self_cpu_memory_usage) + max(0, event.self_device_memory_usage)
            for event in events
        )
    )


def machine(device: str) -> tuple[float, float]:
    """Return the measured operations and bytes a second."""
    a = torch.rand(4096 if device == "cuda" else 1536, 1536, device=device)
    b = torch.rand(1536, 1536, device=device)
    rate = 2 * a.shape[0] * 1536**2 / seconds(lambda: a @ b)
    source = torch.rand(1 << 26, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * 4 * source.numel() / seconds(lambda: target.copy_(source))
    return rate, bandwidth


def stages(learner: EraseLearner) -> list[Stage]:
    """Return the stages of an epoch of one run, with what each cannot avoid."""
    method, graph = learner.method, learner.graph
    n, hidden, d, k = graph.num_nodes, method.hidden, method.width, learner.num_classes
    entries = graph.edge_index.shape[1] + n
    stored = learner.x._values.numel()
    streams = list(learner.streams.values())
    parameters = sum(p.numel() for p in learner.network.parameters())
    examples = learner.train_index.shape[1]
    learner.step()
    z = learner.encoder(learner.x, graph, streams)
    slope = torch.rand_like(z)
    rows = z.detach().clone().requires_grad_()
    targets = learner.membership.gather(1, learner.train_index)
    forward = 2.0 * (stored * hidden + 2 * entries * hidden + n * hidden * d)
    passed = stored + 4.0 * n * hidden + 3.0 * n * d
    side = min(examples, d)

    def forward_and_backward() -> None:
        learner.encoder(learner.x, graph, streams).backward(slope)

    def rates() -> None:
        rate_reduction(
            rows,
            learner.membership,
            k,
            eps2=method.eps2,
            gamma=method.gamma,
            short_rows=learner.short_rows,
        )

    def selection() -> None:
        with torch.no_grad():
            chosen = learner.encoder(learner.x, graph)
            classify("logreg", chosen, learner.train_index, targets, k, learner.seeds)

    return [
        Stage("encoder, there and back", forward_and_backward, 3 * forward, 3 * passed),
        Stage(
            "semantic labels",
            lambda: learner._membership(learner.guess(z)[0]),
            4.0 * n * k * d + 2.0 * method.steps * entries * k,
            2.0 * n * d + 2.0 * method.steps * n * k,
        ),
        Stage("coding rates", rates, 4.0 * n * d**2 + (k + 1) * d**3, 3.0 * n * d),
        Stage("optimiser", learner.optimiser.step, 10.0 * parameters, 9.0 * parameters),
        Stage(
            "selection",
            selection,
            forward + 2.0 * n * d * k + 2.0 * examples * d * side + 120.0 * examples * side * k,
            passed + n * d,
        ),
    ]


def measure(dataset: str, device: str, rate: float, bandwidth: float) -> dict[str, Any]:
    """Return the profile of one graph: each stage's time, floor and memory."""
    if dataset == "arxiv":
        clean = erase.load_dataset("citations", **arxiv_sized(1))
    else:
        clean = erase.load_dataset(dataset)
    task = NodeTask.from_data(erase.corrupt(clean, "symmetric", 0.3))
    learner = EraseLearner(ERASE.preset("reference", dataset, device=device), [task], [0])
    rows = []
    for stage in stages(learner):
        took = seconds(stage.work)
        floor = max(stage.operations / rate, 4 * stage.numbers / bandwidth)
        rows.append(
            {
                "stage": stage.name,
                "milliseconds": round(1e3 * took, 3),
                "floor_milliseconds": round(1e3 * floor, 3),
                "allocated_megabytes": round(allocated(stage.work) / 1e6, 1),
            }
        )
    return {
        "dataset": dataset,
        "nodes": task.num_nodes,
        "edges": task.num_edges,
        "classes": task.num_classes,
        "stages": rows,
    }


def table(profiled: dict[str, Any]) -> str:
    """Return a profile as text."""
    lines = [
        "{dataset}: {nodes:,} nodes, {edges:,} edges, K = {classes}".format(**profiled),
        f"  {'stage':26} {'ms':>9} {'floor ms':>9} {'times':>6} {'allocates MB':>13}",
    ]
    total = floor_total = 0.0
    for row in profiled["stages"]:
        took, floor = row["milliseconds"], row["floor_milliseconds"]
        total, floor_total = total + took, floor_total + floor
        lines.append(
            f"  {row['stage']:26} {took:9.2f} {floor:9.2f} {took / max(floor, 1e-3):6.1f} "
            f"{row['allocated_megabytes']:13.1f}"
        )
    lines.append(f"  {'epoch':26} {total:9.2f} {floor_total:9.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="*", default=["cora", "citeseer", "pubmed", "arxiv"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--records", type=Path, help="append each profile to this file")
    options = parser.parse_args()
    about = {"machine": machine_name(options.device), "versions": versions()}
    rate, bandwidth = machine(options.device)
    print(f"matrix product {rate / 1e9:.0f} Gflop/s, copy {bandwidth / 1e9:.1f} GB/s\n")
    for dataset in options.datasets:
        profiled = measure(dataset, options.device, rate, bandwidth)
        print(table(profiled), end="\n\n", flush=True)
        if options.records:
            floors = {"gflops": round(rate / 1e9), "gigabytes_a_second": round(bandwidth / 1e9, 1)}
            with options.records.open("a") as file:
                file.write(json.dumps(profiled | floors | about) + "\n")


if __name__ == "__main__":
    main()
