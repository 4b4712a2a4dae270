"""Measure `erase review`: python benchmarks/review_load.py [--reviewers 20] [--seconds 60].

Starts the server on a synthetic audit in a process of its own, lets scripted reviewers decide at a
fixed pace through the HTTP interface, and prints the latencies of what they wait for. With
``--nodes 1000000 --labels 100000`` it measures the largest graph the page is made for: how long the
page takes to be ready after the audit, and how long an item takes that nobody has asked for before.
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import secrets
import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import torch
from torch_geometric.data import Data

from erase.audit import Audit
from erase.audit.decision import decide
from erase.audit.result import issue_table
from erase.audit.storage import save_audit
from erase.review.evidence import table_details
from erase.review.server import served
from erase.review.session import Plan, Session
from erase.review.store import Reviews

CLASSES = tuple(f"class {k}" for k in range(10))


def synthetic_audit(nodes: int, labels: int, degree: int = 10, width: int = 64) -> Audit:
    """Return an audit of random numbers: only its size matters."""
    rng = np.random.default_rng(0)
    k = len(CLASSES)
    given = np.full(nodes, -1)
    given[rng.permutation(nodes)[:labels]] = rng.integers(k, size=labels)
    ends = rng.integers(nodes, size=(2, nodes * degree // 2))
    # a few hubs, as real graphs have them
    ends[0, : nodes // 50] = rng.integers(5, size=nodes // 50)
    ends = ends[:, ends[0] != ends[1]]
    both = np.concatenate([ends, ends[::-1]], axis=1)
    edge_index = both[:, np.argsort(both[0], kind="stable")]
    proba = rng.dirichlet(np.full(k, 0.3), size=nodes)
    posterior = proba[given >= 0]
    quality = posterior[np.arange(labels), given[given >= 0]]
    few = slice(1_000)  # for what does not depend on the single label
    decision = replace(
        decide(given[given >= 0][few], posterior[few], max_false_alarms=0.2),
        quality=quality,
        posterior=posterior,
        suggested=posterior.argmax(1),
        is_issue=quality < 0.02,
        verdict=np.where(quality < 0.02, "wrong", "right"),
    )
    return Audit(
        issues=issue_table(None, None, CLASSES, given, decision, edge_index, proba),
        class_names=CLASSES,
        label_values=np.arange(k),
        pred_probs=proba,
        given=given,
        decision=decision,
        embedding=rng.normal(size=(nodes, width)).astype(np.float32),
        edge_index=edge_index,
        node_names=None,
        settings={"seed": 0, "max_false_alarms": 0.2},
        notes=(),
        seconds=0.0,
    )


def write_table(file: Path, nodes: int) -> None:
    """Write a nodes table, whose rows are shown beside the labels."""
    numbers = np.random.default_rng(1).normal(size=(1_000, 20)).round(4)
    cells = [",".join(map(str, row)) for row in numbers.tolist()]
    with file.open("w") as out:
        out.write(f"id,title,{','.join(f'x{j}' for j in range(20))}\n")
        for node in range(nodes):
            out.write(f'n{node},"Title, of node {node}",{cells[node % 1_000]}\n')


def run_server(nodes: int, labels: int, folder: str, sender: Connection) -> None:
    """Serve a review; send the port, the seconds until the page was ready, and memory."""
    audit = synthetic_audit(nodes, labels)
    graph = Data(
        edge_index=torch.from_numpy(audit.edge_index),
        y=torch.from_numpy(audit.given),
        class_names=list(CLASSES),
        num_nodes=nodes,
    )
    place = Path(folder)
    write_table(place / "nodes.csv", nodes)
    before = _megabytes()
    details = table_details(place, {}, nodes)  # as the command does, before the audit
    reviews = Reviews(place / "reviews.sqlite", graph)
    start = time.perf_counter()
    save_audit(audit, place / "audit.safetensors")
    session = Session(audit, reviews, Plan(every=0), details=details)

    with served(session) as url:
        seconds = time.perf_counter() - start
        sender.send((url, seconds, _megabytes() - before, _megabytes()))
        time.sleep(3600)  # it is ended from outside


def _megabytes() -> float:
    """Return the memory of this process."""
    (line,) = re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) / 1024


class Reviewer:
    """A scripted reviewer: fetches labels ahead, as the page does, and decides at a fixed pace."""

    def __init__(self, client: httpx2.AsyncClient, pace: float) -> None:
        self.client, self.pace = client, pace
        self.items: list[dict[str, Any]] = []
        self.fetches: list[float] = []
        self.decisions: list[float] = []
        self.errors = 0

    async def fetch(self) -> None:
        """Ask for labels."""
        have = ",".join(str(item["node"]) for item in self.items)
        start = time.perf_counter()
        answer = await self.client.get(f"/api/items?n={10 - len(self.items)}&have={have}")
        self.fetches.append(time.perf_counter() - start)
        self.errors += answer.status_code != 200
        known = {item["node"] for item in self.items}
        self.items += [item for item in answer.json() if item["node"] not in known]

    async def work(self, name: str, seconds: float) -> None:
        """Decide until the time is over."""
        await self.client.post("/api/reviewer", json={"name": name})
        await self.fetch()
        await asyncio.sleep(self.pace * secrets.randbelow(1000) / 1000)  # people are not in step
        start = time.perf_counter()
        turn = 0
        while time.perf_counter() - start < seconds:
            item = self.items.pop(0)
            body = {"key": secrets.token_hex(16), "node": item["node"], "class": turn % 10}
            sent = time.perf_counter()
            answer = await self.client.post("/api/decisions", json={"decisions": [body]})
            self.decisions.append(time.perf_counter() - sent)
            self.errors += answer.status_code != 200
            if len(self.items) < 5:
                await self.fetch()
            if turn % 6 == 0:  # the page looks at the state every three seconds
                self.errors += (await self.client.get("/api/state")).status_code != 200
            turn += 1
            await asyncio.sleep(max(0.0, turn * self.pace - (time.perf_counter() - start)))


async def measure(url: str, count: int, pace: float, seconds: float) -> dict[str, Any]:
    """Return the latencies in milliseconds."""
    base = url.split("/?")[0]
    clients = [httpx2.AsyncClient(base_url=base, timeout=30) for _ in range(count)]
    started = time.perf_counter()
    for client in clients:
        (await client.get(url, follow_redirects=True)).raise_for_status()
        if client is clients[0]:
            first = time.perf_counter() - started
    reviewers = [Reviewer(client, pace) for client in clients]
    works = [each.work(f"reviewer {i}", seconds) for i, each in enumerate(reviewers)]
    await asyncio.gather(*works)
    cold = []
    for node in range(0, 2_000, 20):  # nodes that nobody has asked for
        start = time.perf_counter()
        (await clients[0].get(f"/api/nodes/{node}")).raise_for_status()
        cold.append(time.perf_counter() - start)
    stored = (await clients[0].get("/export/decisions.csv")).text.count("\n") - 1
    for client in clients:
        await client.aclose()
    decisions = [each for reviewer in reviewers for each in reviewer.decisions]
    fetches = [each for reviewer in reviewers for each in reviewer.fetches]
    return {
        "first_page_ms": round(1000 * first, 1),
        "errors": sum(reviewer.errors for reviewer in reviewers),
        "decisions": len(decisions),
        "stored": stored,
        "decision_ms": _percentiles(decisions),
        "ten_items_ms": _percentiles(fetches),
        "one_new_item_ms": _percentiles(cold),
    }


def _percentiles(seconds: list[float]) -> dict[str, float]:
    values = 1000 * np.percentile(seconds, [50, 95, 99])
    return {name: round(float(v), 1) for name, v in zip(("p50", "p95", "p99"), values, strict=True)}


def load(nodes: int, labels: int, reviewers: int, pace: float, seconds: float) -> dict[str, Any]:
    """Start a server, let reviewers work, and return what was measured."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        server = context.Process(target=run_server, args=(nodes, labels, folder, sender))
        server.start()
        try:
            url, ready, added, memory = receiver.recv()
            found = asyncio.run(measure(url, reviewers, pace, seconds))
        finally:
            server.terminate()
            server.join()
    about = {"nodes": nodes, "labels": labels, "reviewers": reviewers}
    ready_after = {"ready_s": round(ready, 2), "added_mb": round(added), "memory_mb": round(memory)}
    return {**about, **ready_after, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=10_000)
    parser.add_argument("--reviewers", type=int, default=20)
    parser.add_argument("--pace", type=float, default=0.5, help="seconds for a decision")
    parser.add_argument("--seconds", type=float, default=60.0)
    print(json.dumps(load(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
