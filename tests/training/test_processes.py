"""Several processes against one: the same losses, gradients and fits, whoever computes what."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

import forked
from erase.data.files import load_arrays, write_graph
from erase.methods import METHODS
from erase.methods.network import NetworkClassifier
from graphs import two_communities

SMALL: dict[str, Any] = {
    "hidden": 16,
    "width": 12,
    "heads": 2,
    "epochs": 3,
    "lr": 0.01,
    "device": "cpu",
    "batch_size": 16,
    "num_neighbors": (3, 2),
}


def settings(name: str, **changes: Any) -> tuple[str, dict[str, Any]]:
    known = METHODS[name]().get_params()
    return name, {k: v for k, v in (SMALL | changes).items() if k in known}


CASES = {
    name: settings(name)
    for name, method in METHODS.items()
    if issubclass(method, NetworkClassifier)
} | {
    "one node": settings("ce", batch_size=1),  # others have no row at all
    "erase, exact": settings("erase", objective="graph", batch_size=9),
    "erase, one stage": settings("erase", one_stage=True),
    "erase, cross-entropy": settings("erase", semantics="cross-entropy"),
    "erase, gcn": settings("erase", encoder="gcn"),
    "erase, sage": settings("erase", encoder="sage"),
}


def run(folder: Path, processes: int) -> None:
    """Train all cases with several processes, which find each other as under torchrun."""
    folder.mkdir()
    (folder / "cases.json").write_text(json.dumps(CASES))
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    where = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port), "OMP_NUM_THREADS": "1"}
    where |= {"WORLD_SIZE": str(processes), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    outs = [folder / f"process {rank}" for rank in range(processes)]
    code = (Path(__file__).parent / "ranks.py").read_text()
    started = []
    for rank, out in enumerate(outs):
        out.mkdir()
        own = where | {"RANK": str(rank)}
        paths = (str(folder / "cases.json"), str(folder))
        started.append(forked.start(code, *paths, out=out, environment=own))
    for process, out in zip(started, outs, strict=True):
        process.join()
        assert process.exitcode == 0, (out / "stderr").read_text()[-3000:]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return the folder of what a number of processes gave; they run when first asked for."""
    folder = tmp_path_factory.mktemp("ranks")

    @cache
    def of(processes: int) -> Path:
        run(folder / str(processes), processes)
        return folder / str(processes)

    return of


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("processes", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_many_processes_train_as_one(
    answers: Callable[[int], Path], case: str, processes: int
) -> None:
    """80 nodes, 40 of them training: neither batches nor chunks are divisible by 3."""
    alone, _ = load_arrays(answers(1) / f"{case} 0.safetensors")
    for rank in range(processes):
        shared, _ = load_arrays(answers(processes) / f"{case} {rank}.safetensors")
        assert set(shared) == set(alone)
        for name, value in alone.items():
            if name.startswith(("gradient/", "watched/", "history")):
                scale = 1e-5 * max(1.0, float(value.abs().max()))
                torch.testing.assert_close(shared[name], value, rtol=1e-4, atol=scale, msg=name)
        torch.testing.assert_close(shared["proba"], alone["proba"], rtol=0, atol=2e-2)
    first, last = (
        load_arrays(answers(processes) / f"{case} {rank}.safetensors")[0]
        for rank in (0, processes - 1)
    )
    for name, value in first.items():
        assert torch.equal(value, last[name]), name


def erase_fit(folder: Path, *torchrun: str, epochs: int = 40) -> list[str]:
    """Return the command that two processes fit a graph by."""
    data = two_communities(size=100)
    if not (folder / "graph.npz").exists():
        write_graph(data, folder / "graph.npz")
    parameters = settings("erase", epochs=epochs, patience=epochs)[1]
    options = [
        part
        for key, value in parameters.items()
        if key != "device"
        for part in ("--set", f"{key}={str(value).strip('()')}")
    ]
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *torchrun),
        *("-m", "erase", "fit", str(folder / "graph.npz"), "--method", "erase"),
        *("--device", "cpu", *options),
    ]


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes that torchrun has started, the first rank first."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return sorted(int(child) for child in text.split())


def fit_and_kill(command: list[str], out: Path, victim: int) -> tuple[int, str]:
    """Run the command, and kill one of its workers once there is a checkpoint."""
    environment = os.environ | {"ERASE_CHECKPOINT_SECONDS": "0", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, "--out", str(out)], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (out / "checkpoint.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(workers(process)[victim], signal.SIGKILL)
        _, output = process.communicate()
    return process.returncode, output


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_is_restarted_to_the_same_result(tmp_path: Path, victim: int) -> None:
    command = erase_fit(tmp_path, "--max-restarts", "1", epochs=150)
    whole = subprocess.run(
        [*command, "--out", str(tmp_path / "whole"), "--json"], capture_output=True, text=True
    )
    assert whole.returncode == 0, whole.stderr[-2000:]
    assert json.loads(whole.stdout)["epochs_run"] == 150  # one process alone has printed
    code, output = fit_and_kill(command, tmp_path / "killed", victim)
    assert code == 0, output[-2000:]
    for name in ("embeddings.npy", "history.csv", "predictions.csv"):
        ours, theirs = (tmp_path / folder / name for folder in ("killed", "whole"))
        assert ours.read_bytes() == theirs.read_bytes(), name
    assert not (tmp_path / "killed" / "checkpoint.safetensors").exists()


@pytest.mark.slow
def test_without_restarts_a_killed_process_ends_the_job_with_a_message(tmp_path: Path) -> None:
    code, output = fit_and_kill(erase_fit(tmp_path, epochs=3_000), tmp_path / "out", 1)
    assert code != 0
    assert "erase: expected all processes of this job to be alive" in output
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.slow
def test_processes_need_batches(tmp_path: Path) -> None:
    command = [*erase_fit(tmp_path), "--set", "batch_size=0", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Set batch_size, or start one process" in done.stderr
