"""What ogbn-papers100M takes on 8 GPUs, in bytes and seconds: the arithmetic of docs/papers100m.md.

    python benchmarks/papers100m.py              print the tables
    python benchmarks/papers100m.py --write      put them into docs/papers100m.md
    python benchmarks/papers100m.py --measure    measure this machine first, into records/host.json

Rates come from records where there are some: a GPU's from records/profile.jsonl, a core's from
records/host.json. Values that were not measured here are in `Assumed`, by name.
"""

import argparse
import json
import math
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import erase
from erase.data.datasets import write_dataset
from erase.nn.sparse import Graph
from erase.random import numpy_stream, torch_stream
from erase.training.sampling import SampledNeighbours
from speed import machine_name, versions

HERE = Path(__file__).parent
HOST, PROFILE = HERE / "records" / "host.json", HERE / "records" / "profile.jsonl"
PAGE = HERE.parent / "docs" / "papers100m.md"
BEGIN, END = "<!-- made by benchmarks/papers100m.py -->\n", "<!-- end -->\n"

# the graph, as OGB describes it
N, E, F, K = 111_059_956, 1_615_685_872, 128, 172
TRAIN, VALID, TEST = 1_207_179, 125_265, 214_338
NNZ = 2 * E  # both directions; repeated and mutual citations make it less
# the recipe behind the paper's ogbn-arxiv row
HIDDEN, D, FANOUT, STEPS, EPOCHS = 64, 512, (5, 5), 50, 5
INT, FLOAT = 8, 4


@dataclass(frozen=True)
class Assumed:
    """Assumed values of the machine, which were not measured.

    Attributes:
        gpus: H200s in one machine.
        gpu_bytes: memory of one, as its driver reports it.
        cores_per_gpu: that sample and gather for one GPU.
        host_bytes: memory of the machine.
        pcie: bytes a second from the host to one GPU, pinned.
        all_reduce: bytes a second that a ring of NVLinks carries per GPU.
        disk: bytes a second that the disk reads in sequence.
        spmm_share: of the bandwidth of a copy that random rows of 22 columns reach.
        inverses: milliseconds for a batch of 512×512 matrices, Cholesky and inverse, on an H200,
            by the number of matrices.
        solver_steps: of the logistic regression in an epoch.
    """

    gpus: int = 8
    gpu_bytes: float = 139 * 2**30
    cores_per_gpu: int = 12
    host_bytes: float = 1e12
    pcie: float = 40e9
    all_reduce: float = 200e9
    disk: float = 3e9
    spmm_share: float = 0.3
    inverses: tuple[tuple[int, float], ...] = ((8, 3.7), (80, 9.4), (800, 43.6))
    solver_steps: int = 100


@dataclass(frozen=True)
class Rates:
    """What was measured.

    Attributes:
        flops: float32 operations a second of an H200.
        bandwidth: bytes a second of a copy on it.
        encoder: (nodes, seconds) of an encoder's forward and backward pass on it.
        coding: seconds of the coding rates of a small batch on it, launches included.
        other: seconds of semantic labels and optimiser on it.
        host: records/host.json.
    """

    flops: float
    bandwidth: float
    encoder: tuple[tuple[int, float], ...]
    coding: float
    other: float
    host: Mapping[str, float]

    @classmethod
    def read(cls) -> "Rates":
        """Return the committed records."""
        lines = [json.loads(line) for line in PROFILE.read_text().splitlines()]
        rows = {row["dataset"]: row for row in lines if row["machine"] == "NVIDIA H200"}
        stages = {
            name: {each["stage"]: each["milliseconds"] / 1e3 for each in row["stages"]}
            for name, row in rows.items()
        }
        small, large = "cora", "pubmed"
        encoder = [(rows[n]["nodes"], stages[n]["encoder, there and back"]) for n in (small, large)]
        return cls(
            flops=1e9 * rows[large]["gflops"],
            bandwidth=1e9 * rows[large]["gigabytes_a_second"],
            encoder=tuple(encoder),
            coding=stages[small]["coding rates"],
            other=stages[large]["semantic labels"] + stages[large]["optimiser"],
            host=json.loads(HOST.read_text())["rates"],
        )


def interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return the value at `at` on the line through the two nearest of `points`.

    >>> interpolate([(0, 1.0), (10, 3.0), (20, 4.0)], 5), interpolate([(0, 1.0), (10, 3.0)], 20)
    (2.0, 5.0)
    """
    place = min(max(1, sum(x < at for x, _ in points)), len(points) - 1)
    (x0, y0), (x1, y1) = points[place - 1], points[place]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)


Row = tuple[str, float, str]


def folder_bytes(n: int = N, e: int = E, nnz: int = NNZ, f: int = F) -> list[Row]:
    """Return what a graph's folder holds: n nodes, e edges given and nnz written, f features."""
    whole = n * f * FLOAT + 2 * nnz * INT + (n + 1) * INT + n * (INT + 3)
    return [
        ("features, `x.npy`", n * f * FLOAT, "N·F·4"),
        ("edges, `edge_index.npy`", 2 * nnz * INT, "2·2E·8, both directions"),
        ("… of these the columns of CSR", nnz * INT, "2E·8; a sampler never reads the rows"),
        ("row starts, `indptr.npy`", (n + 1) * INT, "(N+1)·8"),
        ("labels and three masks", n * (INT + 3), "N·(8+3)"),
        ("the folder", whole, ""),
        ("beside it while it is written", 2 * e * INT + nnz * INT, "buckets, then columns"),
    ]


def memory_bytes(assumed: Assumed) -> list[Row]:
    """Return what training would hold."""
    columns = math.ceil(K / assumed.gpus)
    return [
        ("representations of all nodes", N * D * FLOAT, "N·D·4"),
        ("… of labelled nodes only", (TRAIN + VALID + TEST) * D * FLOAT, ""),
        ("probabilities, or semantic labels", N * K * FLOAT, "N·K·4"),
        ("hidden layer of all nodes", N * HIDDEN * FLOAT, "N·64·4"),
        ("CSR with values on one GPU", NNZ * (INT + FLOAT) + N * INT, "2E·(8+4) + N·8"),
        (f"… and {columns} label columns, twice", 2 * N * columns * FLOAT, f"2·N·{columns}·4"),
        ("class Grams", (K + 1) * D * D * FLOAT, "(K+1)·D²·4"),
        ("a pattern and its transpose, values", NNZ * 36, "2E·(16+8+8+4): what a fit keeps now"),
        (
            "label matrices of a fit",
            4 * N * K * FLOAT,
            "4·N·K·4: denoised, members, guesses, mixed",
        ),
        ("memory of one GPU", assumed.gpu_bytes, "H200"),
        ("memory of the machine", assumed.host_bytes, "assumed"),
    ]


def conversion_seconds(rates: Rates, assumed: Assumed) -> list[Row]:
    """Return how long the folder takes to be written, by one core."""
    host = rates.host
    inflated = 1.5 * 2 * E * INT  # targets are reached through the sources
    sizes = {name: size for name, size, _ in folder_bytes()}
    moved = 2 * sizes["beside it while it is written"] + sizes["the folder"]
    return [
        ("inflate the edges", inflated / host["inflate_edges"], "1.5 times: two streams"),
        ("inflate the features", N * F * FLOAT / host["inflate_features"], ""),
        ("deal, sort and write the edges", E * host["writer_seconds_per_edge"], "core seconds"),
        ("the disk", moved / assumed.disk, "beside the core, not after it"),
    ]


def step_seconds(batch: int, rates: Rates, assumed: Assumed) -> dict[str, float]:
    """Return the stages of a training step of `batch` seeds on each GPU."""
    host, cores = rates.host, assumed.cores_per_gpu
    nodes = batch * host["nodes_per_seed"]
    rows = nodes * F * FLOAT
    inverses = interpolate(assumed.inverses, K + 1) / 1e3
    grams = 4 * nodes * D * D / rates.flops  # forward and backward
    ring = 2 * (assumed.gpus - 1) / assumed.gpus
    return {
        "sampling": batch / host["seeds_per_second"] / cores,
        "features, from memory": rows / host["gather_bytes_per_second"] / cores,
        "over the bus": rows / assumed.pcie,
        "encoder": interpolate(rates.encoder, nodes),
        "coding rates": max(rates.coding, inverses + grams),
        "Grams across GPUs": ring * (K + 1) * D * D * FLOAT / assumed.all_reduce,
        "labels, optimiser": rates.other,
    }


HOST_STAGES = ("sampling", "features, from memory", "over the bus")


def epoch_seconds(batch: int, rates: Rates, assumed: Assumed) -> list[Row]:
    """Return an epoch with `batch` seeds on each GPU; the host works ahead of the GPU."""
    stages = step_seconds(batch, rates, assumed)
    steps = math.ceil(TRAIN / batch / assumed.gpus)
    host = sum(stages[name] for name in HOST_STAGES)
    gpu = sum(stages.values()) - host
    cold = batch * rates.host["nodes_per_seed"] / rates.host["cold_rows_per_second"]
    columns = math.ceil(K / assumed.gpus)
    entries = NNZ * (INT + FLOAT) + NNZ * columns * FLOAT
    spread = STEPS * entries / (rates.bandwidth * assumed.spmm_share)
    streamed = STEPS * NNZ * (INT + FLOAT) / assumed.pcie
    gathered = 2 * NNZ * HIDDEN * FLOAT / assumed.gpus / (rates.bandwidth * assumed.spmm_share)
    inference = gathered + (N * F + N * HIDDEN) * FLOAT / assumed.gpus / assumed.pcie
    kept = N * D * FLOAT / assumed.gpus / assumed.pcie
    head = assumed.solver_steps * 4 * TRAIN * D * K / rates.flops / assumed.gpus
    return [
        (f"{steps} steps", steps * max(host, gpu), "the larger of the next two, each time"),
        ("… a step on the host", host, ", ".join(HOST_STAGES)),
        ("… a step on the GPU", gpu, "the other stages"),
        ("… a step's features from the disk instead", cold / assumed.cores_per_gpu, "a row a read"),
        (f"{STEPS} propagations, the graph on every GPU", spread, f"{columns} columns each"),
        ("… with the graph streamed from the host instead", streamed, "2E·12 bytes each"),
        ("all nodes through both layers", inference, "each GPU an eighth of the nodes"),
        ("… and their representations to the host", kept, "N·D·4 bytes"),
        ("logistic regression", head, f"{assumed.solver_steps} steps on the training nodes"),
    ]


def amount(value: float) -> str:
    """Return bytes in a unit that fits.

    >>> amount(56.86e9), amount(1.8e8)
    ('56.9 GB', '180 MB')
    """
    return f"{value / 1e9:,.1f} GB" if value >= 1e9 else f"{value / 1e6:,.0f} MB"


def duration(value: float) -> str:
    """Return seconds in a unit that fits.

    >>> duration(0.0123), duration(9.96), duration(400)
    ('12.3 ms', '10.0 s', '7 min')
    """
    if value < 1:
        return f"{1e3 * value:,.1f} ms"
    return f"{value:,.1f} s" if value < 100 else f"{value / 60:,.0f} min"


def table(head: str, rows: Sequence[Row], show: Callable[[float], str]) -> str:
    """Return rows as Markdown."""
    lines = [f"| {head} | | |", "| --- | ---: | --- |"]
    return "\n".join(
        [*lines, *(f"| {name} | {show(value)} | {how} |" for name, value, how in rows)]
    )


def plan(rates: Rates, assumed: Assumed) -> str:
    """Return all tables."""
    small, large = 200, 1_024
    stages = [step_seconds(batch, rates, assumed) for batch in (small, large)]
    steps = ["| a step | 200 seeds a GPU | 1,024 seeds a GPU |", "| --- | ---: | ---: |"]
    steps += [f"| {s} | {duration(stages[0][s])} | {duration(stages[1][s])} |" for s in stages[0]]
    epochs = [
        table(f"an epoch, {batch:,} seeds a GPU", epoch_seconds(batch, rates, assumed), duration)
        for batch in (small, large)
    ]
    main = [epoch_seconds(batch, rates, assumed) for batch in (small, large)]
    whole = [EPOCHS * sum(rows[i][1] for i in (0, 4, 6, 7, 8)) for rows in main]
    last = (
        f"{EPOCHS} epochs: {duration(whole[0])} with 200 seeds a GPU, {duration(whole[1])} with "
        "1,024, after one conversion."
    )
    return "\n\n".join(
        [
            table("on the disk", folder_bytes(), amount),
            table("in memory", memory_bytes(assumed), amount),
            table("`erase convert`", conversion_seconds(rates, assumed), duration),
            "\n".join(steps),
            *epochs,
            last,
        ]
    )


def measure() -> dict[str, Any]:
    """Return this machine's rates, per core and in seconds of its work, on a graph of 10⁶ nodes."""
    size = {"num_nodes": 1_000_000, "num_edges": 10_000_000, "num_features": F, "num_classes": 40}
    with tempfile.TemporaryDirectory() as place:
        write_dataset("citations", f"{place}/graph", dense=True, train_share=0.5, **size)
        task = erase.NodeTask.of(erase.read_graph(f"{place}/graph"))
        row, col = task.edge_index[:, task.edge_index[0] < task.edge_index[1]]
        order = torch.randperm(len(row), generator=torch_stream(0, "order"))
        edges = torch.stack([row[order], col[order]])

        def write() -> None:
            names = list(task.class_names)
            with erase.FolderWriter(f"{place}/again", task.num_nodes, names) as writer:
                writer.add_edges(edges)

        nodes = torch.randint(task.num_nodes, (400_000,), generator=torch_stream(0, "nodes"))
        batches = iter(
            SampledNeighbours(
                Graph(task.edge_index, task.num_nodes),
                task.train_index,
                batch_size=1_024,
                num_neighbors=FANOUT,
                stream=torch_stream(0, "seeds"),
            )
        )
        next(batches)
        sampled: list[int] = []
        rates = {
            "writer_seconds_per_edge": core_seconds(write, repeat=1) / edges.shape[1],
            "gather_bytes_per_second": len(nodes) * F * FLOAT / core_seconds(lambda: task.x[nodes]),
            "seeds_per_second": 1_024
            / core_seconds(lambda: sampled.append(len(next(batches).nodes)), repeat=20),
            "nodes_per_seed": sum(sampled) / len(sampled) / 1_024,
        }
        rates |= cold_reads(Path(place) / "cold")
    return {"rates": rates | inflation(), "machine": machine_name("cpu"), "versions": versions()}


def core_seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """Return the mean seconds that a core works on `work`, the first call not counted."""
    work()
    start = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - start) / repeat


def cold_reads(path: Path) -> dict[str, float]:
    """Return how fast a new file comes from the disk: random rows a second, bytes in sequence."""
    with path.open("wb") as file:
        for _ in range(32):
            file.write(numpy_stream(0, "content").bytes(2**24))
        file.flush()
        os.fsync(file.fileno())
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        places = numpy_stream(0, "places").integers(path.stat().st_size // 512 - 1, size=2_000)
        start = time.perf_counter()
        for place in places.tolist():
            os.pread(handle, 512, 512 * place)
        middle = time.perf_counter()
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.perf_counter()
        while os.read(handle, 2**24):
            pass
        end = time.perf_counter()
    finally:
        os.close(handle)
    random, sequence = len(places) / (middle - start), path.stat().st_size / (end - begin)
    return {"cold_rows_per_second": random, "cold_bytes_per_second": sequence}


def inflation() -> dict[str, float]:
    """Return how many bytes a second come out of zlib."""
    rng = numpy_stream(0, "inflation")
    contents = {
        "inflate_features": rng.standard_normal(2**22).astype(np.float32).tobytes(),
        "inflate_edges": np.sort(rng.integers(0, N, 2**21)).tobytes(),
    }
    packed = {name: zlib.compress(content) for name, content in contents.items()}
    return {
        name: len(contents[name]) / core_seconds(lambda p=p: zlib.decompress(p))  # type: ignore[misc]
        for name, p in packed.items()
    }


def main() -> None:
    """Print or write the plan, after measuring with ``--measure``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure this machine first")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    options = parser.parse_args()
    if options.measure:
        HOST.write_text(json.dumps(measure(), indent=2) + "\n")
    tables = plan(Rates.read(), Assumed())
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{tables}\n\n{END}{after}", encoding="utf-8")
    else:
        print(tables)


if __name__ == "__main__":
    main()
