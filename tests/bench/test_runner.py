"""What is recorded is what was fitted, whoever trains it, in whatever order, after any kill."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

import forked
from erase.bench import PROTOCOLS, Protocol, labels_of_cell, runner, score
from erase.bench.digests import code_of
from erase.bench.records import Cell, Journal, Record, read
from erase.bench.runner import (
    Batch,
    Execution,
    Result,
    arrays_path,
    method_of,
    plan,
    run_batch,
    run_cells,
)
from erase.bench.studies import STUDIES, Study, choose, read_study
from erase.data.datasets import DATASETS, DatasetSpec
from erase.data.files import write_graph
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS, CrossEntropy
from erase.methods.relabelling import smoothing
from erase.nn.coding import log_ntvr, rate_ntvr
from graphs import two_communities

HERE = Execution("cpu", threads=1)
SMALL: dict[str, Any] = {"hidden": 8, "heads": 2, "epochs": 3}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add a dataset of 120 nodes, for tests that stay in this process."""

    def load(seed: int = 0) -> Any:
        return two_communities(seed, size=40, classes=3)

    spec = DatasetSpec("Three communities.", load, "generated", features="words", split="halves")
    monkeypatch.setitem(DATASETS, "tiny", spec)
    runner._dataset.cache_clear()
    yield
    runner._dataset.cache_clear()


def cell(**changes: Any) -> Cell:
    return replace(Cell("tiny", "symmetric", 0.4, "ce", SMALL, "honest", 0), **changes)


STUDY = Study("tests", ())


def batch(*cells: Cell, **changes: Any) -> Batch:
    return replace(Batch(cells, False, False, "cpu", 1), **changes)


def essence(found: Sequence[Record]) -> dict[Cell, Record]:
    """Return records by cell without what a clock and a machine add."""
    return {r.cell: replace(r, seconds=None, peak_bytes=None, machine="") for r in found}


def run_here(path: Path, cells: Sequence[Cell], study: Study = STUDY, **how: Any) -> list[Record]:
    run_cells(study, cells, path, replace(HERE, **how))
    return read(path)


# --- a cell


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_record_is_the_score_of_the_cells_own_fit(protocol: str) -> None:
    wanted = cell(protocol=protocol, seed=3, labels_per_class=5)
    (result,) = run_batch(batch(wanted))
    clean = two_communities(0, size=40, classes=3)
    given = labels_of_cell(clean, wanted)
    model = CrossEntropy(**SMALL, seed=3, device="cpu").fit(given)
    record = result.record
    assert record.cell == wanted
    assert record.scores == score(model, clean, given)
    assert record.scores["train_labels"] == 15
    assert record.settings == SMALL
    assert (record.best_epoch, record.epochs) == (model.best_epoch_, 3)
    assert record.batch == 1
    assert record.seconds is not None
    assert record.seconds > 0
    assert record.error is None
    computing = {"torch", "torch_geometric", "scikit-learn", "numpy", "python"}
    computing |= {"threads", "deterministic"}
    assert set(record.versions) == {"erase", *computing}
    assert re.fullmatch("[0-9a-f]{12}", record.code)
    assert record.code == code_of(wanted)
    assert result.arrays is None


def test_a_preset_of_the_dataset_is_used_and_params_win() -> None:
    wanted = cell(dataset="citeseer", method="erase", params={"trust": 0.1})
    model = method_of(wanted, "cpu").get_params()
    assert (model["eps2"], model["trust"]) == (0.4, 0.1)


@pytest.mark.parametrize("path", ["pubmed.npz", "ogbn-arxiv.npz", "./PubMed", "data/pubmed"])
def test_a_file_called_like_a_dataset_brings_no_settings(path: str) -> None:
    for method in ("erase", "ce"):
        usual = METHODS[method](**SMALL, device="cpu").get_params()
        assert method_of(cell(dataset=path, method=method), "cpu").get_params() == usual


def test_only_methods_with_the_parameter_get_the_noise_rate() -> None:
    for rate in (0.2, 0.4):
        assert method_of(cell(method="codis", rate=rate), "cpu").get_params()["noise_rate"] == rate
        assert "noise_rate" not in method_of(cell(rate=rate), "cpu").get_params()
    own = cell(method="codis", params={"noise_rate": 0.1})
    assert method_of(own, "cpu").get_params()["noise_rate"] == 0.1


def test_results_do_not_depend_on_the_order_of_work() -> None:
    cells = [cell(seed=seed, rate=rate) for seed in (0, 1) for rate in (0.2, 0.4)]
    forth = [run_batch(batch(c))[0].record for c in cells]
    back = [run_batch(batch(c))[0].record for c in reversed(cells)]
    assert essence(forth) == essence(back)


def arithmetic() -> tuple[int, str, bool]:
    return (
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )


def test_a_batch_sets_how_to_compute_and_restores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(work: Batch) -> list[Result]:
        seen.append(arithmetic())
        return []

    monkeypatch.setattr(runner, "_train", look)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    torch.set_num_threads(1)
    before = arithmetic()
    run_batch(batch(cell(), threads=2, precision="high", deterministic=True))
    assert seen == [(2, "high", True)]
    assert arithmetic() == before == (1, "highest", False)
    with runner._arithmetic(batch(cell(), threads=2, precision="high", deterministic=True)):
        (planned,) = plan(STUDY, [cell()], HERE)
    assert (planned.threads, planned.precision, planned.deterministic) == (1, "high", True)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_the_peak_is_that_of_the_block_alone() -> None:
    def peak(megabytes: int) -> int:
        with runner._watched(torch.device("cpu")) as used:
            torch.ones(megabytes << 18).sum()
        assert used.peak_bytes is not None
        return used.peak_bytes

    base, high, again = peak(0), peak(300), peak(0)
    assert high - base > 250 << 20
    assert again - base < 50 << 20


def test_memory_that_cannot_be_measured_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, text: str) -> int:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "write_text", refuse)
    with runner._watched(torch.device("cpu")) as used:
        pass
    assert used.peak_bytes is None


# --- batches


def test_cells_that_differ_in_labels_and_seeds_are_trained_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROTOCOLS, "blind", Protocol("redrawn", "none"))
    together = [
        cell(noise=noise, rate=rate, seed=seed, protocol=protocol)
        for protocol in ("paper", "honest")
        for noise, rate in (("symmetric", 0.2), ("pair", 0.4), ("none", 0.0))
        for seed in (0, 1)
    ]
    apart = [
        cell(dataset="citations"),
        cell(method="gce"),
        cell(params={}),
        cell(labels_per_class=4),
        cell(protocol="blind"),
        cell(method="codis", rate=0.2),
        cell(method="codis", rate=0.4),
    ]
    mixed = [*together[:5], *apart, *together[5:]]
    found = plan(STUDY, mixed, replace(HERE, batch=100))
    assert [b.cells for b in found] == [tuple(together), *((c,) for c in apart)]
    sizes = [len(b.cells) for b in plan(STUDY, together, replace(HERE, batch=5))]
    assert sizes == [5, 5, 2]
    assert len(plan(STUDY, together, HERE)) == 12  # one by one on a CPU


def test_a_batch_is_fifty_on_a_gpu_and_threads_share_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert Execution("cpu", jobs=3).resolved() == Execution("cpu", 3, 2, 1)
    assert Execution("cpu", jobs=20).resolved().threads == 1
    assert Execution("cpu", threads=5, batch=7).resolved() == Execution("cpu", 1, 5, 7)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)  # OMP_NUM_THREADS
    assert Execution("cpu").resolved().threads == 3
    assert Execution("cpu", jobs=4).resolved().threads == 2
    there = Execution("cuda", cluster="tcp://there").resolved()
    assert (there.device, there.threads, there.batch) == ("cuda", 1, 50)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert Execution("auto").resolved().batch == 50


@pytest.mark.parametrize("method", ["ce", "erase"])
def test_a_batch_gives_what_its_cells_give_alone(tmp_path: Path, method: str) -> None:
    keeps = replace(STUDY, keep_embeddings=True)
    params = SMALL | ({"width": 8} if method == "erase" else {})
    cells = [
        cell(method=method, params=params, noise=noise, rate=rate, seed=seed)
        for noise, rate in (("symmetric", 0.4), ("pair", 0.2))
        for seed in (0, 1)
    ]
    single = run_here(tmp_path / "single.jsonl", cells, keeps)
    together = run_here(tmp_path / "together.jsonl", cells, keeps, batch=4)
    assert [r.batch for r in single] == [1] * 4
    assert [r.batch for r in together] == [4] * 4
    for alone, among in zip(single, together, strict=True):
        assert alone.cell == among.cell
        assert alone.best_epoch == among.best_epoch
        z = [
            np.load(arrays_path(tmp_path / f"{name}.jsonl", alone.cell))["z"]
            for name in ("single", "together")
        ]
        np.testing.assert_allclose(z[0], z[1], atol=2e-3)
        for name, value in alone.scores.items():
            assert among.scores[name] == pytest.approx(value, abs=0.07), name  # a node or two


def test_the_seconds_of_a_batch_are_shared_among_its_runs() -> None:
    cells = [cell(seed=seed, params=SMALL | {"epochs": 20}) for seed in range(8)]
    start = time.perf_counter()
    results = run_batch(batch(*cells))
    wall = time.perf_counter() - start
    spent = [result.record.seconds or 0.0 for result in results]
    assert len(set(spent)) == 1
    assert 0.2 * wall < sum(spent) < wall


def test_only_the_guilty_cell_of_a_batch_fails() -> None:
    # the published draw knows no random noise
    cells = [cell(protocol="paper", noise=noise) for noise in ("pair", "random", "symmetric")]
    good, bad, fine = (result.record for result in run_batch(batch(*cells)))
    assert bad.cell == cells[1]
    assert bad.scores == {}
    assert bad.error is not None
    assert bad.error.startswith("EraseError: expected symmetric, pair or asymmetric noise")
    assert bad.machine
    assert bad.versions
    alone = [run_batch(batch(c))[0].record for c in (cells[0], cells[2])]
    assert essence([good, fine]) == essence(alone)


class Narrow(CrossEntropy):
    """Fits at most so many runs into memory."""

    limit = 2
    sizes: list[int]

    def fit_many(self, graphs: Sequence[Any], seeds: Sequence[int], **how: Any) -> Any:
        type(self).sizes.append(len(seeds))
        if len(seeds) > type(self).limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().fit_many(graphs, seeds, **how)


def test_a_batch_that_does_not_fit_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "ce", Narrow)
    monkeypatch.setattr(Narrow, "sizes", [], raising=False)
    cells = [cell(seed=seed) for seed in range(7)]
    records = [result.record for result in run_batch(batch(*cells))]
    assert Narrow.sizes == [7, 4, 2, 2, 3, 2, 1]
    assert [r.cell for r in records] == cells
    assert [r.batch for r in records] == [2, 2, 2, 2, 2, 2, 1]
    assert all(r.error is None for r in records)


def test_a_cell_that_does_not_fit_alone_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "ce", Narrow)
    monkeypatch.setattr(Narrow, "sizes", [], raising=False)
    monkeypatch.setattr(Narrow, "limit", 0)
    records = [result.record for result in run_batch(batch(cell(), cell(seed=1)))]
    assert [r.error for r in records] == ["OutOfMemoryError: CUDA out of memory"] * 2


def test_the_runs_of_a_batch_share_one_graph() -> None:
    clean = two_communities(0, size=40, classes=3)
    given = [labels_of_cell(clean, cell(seed=seed)) for seed in (0, 1)]
    first, second = runner._tasks(given)
    assert first.x is second.x
    assert first.edge_index is second.edge_index
    assert torch.equal(second.y, NodeTask.from_data(given[1]).y)
    assert not torch.equal(first.y, second.y)


# --- what else a study keeps


def test_the_shift_is_measured_against_the_clean_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    params = SMALL | {"width": 4, "eps2": 0.2}
    cells = [
        cell(method="erase", params=params, noise=noise, rate=rate, seed=1)
        for noise, rate in (("symmetric", 0.4), ("pair", 0.2), ("none", 0.0))
    ]
    results = run_batch(batch(*cells, shift=True))
    clean = two_communities(0, size=40, classes=3)
    z = {
        c.noise: method_of(c, "cpu").fit(labels_of_cell(clean, c)).transform().astype(float)
        for c in cells
    }
    for c, result in zip(cells, results, strict=True):
        assert result.record.cell == c
        assert result.record.batch == 3  # the third is the twin of the others
        if c.noise == "none":
            assert "rate_ntvr" not in result.record.scores
            continue
        shift = torch.from_numpy(z[c.noise] - z["none"])
        expected = {"log_ntvr": log_ntvr(shift, 0.2), "rate_ntvr": rate_ntvr(shift, 0.2)}
        for name, value in expected.items():
            assert result.record.scores[name] == pytest.approx(float(value), rel=1e-3)
    (alone,) = run_batch(batch(cells[0], shift=True))
    assert alone.record.batch == 2
    assert alone.record.scores["rate_ntvr"] == pytest.approx(
        results[0].record.scores["rate_ntvr"], rel=1e-3
    )
    assert "rate_ntvr" not in run_batch(batch(cells[0]))[0].record.scores


def test_embeddings_of_the_test_nodes_lie_beside_the_records(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    wanted = cell(seed=2)
    run_here(path, [wanted], replace(STUDY, keep_embeddings=True))
    arrays = np.load(tmp_path / "own-arrays" / f"{wanted.key}.npz")
    clean = two_communities(0, size=40, classes=3)
    nodes = clean.test_mask.nonzero().squeeze(1).numpy()
    assert arrays["nodes"].tolist() == nodes.tolist()
    assert arrays["y"].tolist() == clean.y[nodes].tolist()
    model = method_of(wanted, "cpu").fit(labels_of_cell(clean, wanted))
    assert arrays["z"].dtype == np.float16
    np.testing.assert_array_equal(arrays["z"], model.transform()[nodes].astype(np.float16))
    assert len(list((tmp_path / "own-arrays").iterdir())) == 1


# --- a study


def test_what_is_recorded_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.jsonl"
    cells = [cell(seed=seed) for seed in range(3)]
    done = run_cells(STUDY, cells[:2], path, HERE)
    assert (done.cells, done.found, done.failures) == (2, 0, [])
    ran: list[Cell] = []

    def watched(work: Batch) -> list[Result]:
        ran.extend(work.cells)
        return run_batch(work)

    monkeypatch.setattr(runner, "run_batch", watched)
    done = run_cells(STUDY, cells, path, HERE)
    assert (done.cells, done.found) == (3, 2)
    assert ran == cells[2:]
    assert [record.cell for record in read(path)] == cells


def test_a_failed_cell_counts_as_done_until_it_is_retried(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    cells = [cell(seed=0), cell(seed=1)]
    failed = Record(cells[0], error="EraseError: the disk was full")
    with Journal(path) as journal:
        journal.append([failed])
    done = run_cells(STUDY, cells, path, HERE)
    assert (done.found, done.failures) == (1, [failed])
    done = run_cells(STUDY, cells, path, HERE, retry=True)
    assert (done.found, done.failures) == (1, [])
    assert all(record.error is None for record in read(path))
    assert len(path.read_text().splitlines()) == 3


def test_records_made_by_other_code_are_renewed_on_request(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    cells = [cell(seed=seed) for seed in range(3)]
    old = [Record(cells[0], code="0123456789ab"), Record(cells[1])]
    as_now = Record(cells[2], code=code_of(cells[2]))
    with Journal(path) as journal:
        journal.append([*old, as_now])
    assert run_cells(STUDY, cells, path, HERE).found == 3
    assert run_cells(STUDY, cells, path, HERE, renew=True).found == 1
    records = {record.cell: record for record in read(path)}
    assert records[cells[2]] == as_now
    assert all(records[each].scores and records[each].code == as_now.code for each in cells[:2])
    assert run_cells(STUDY, cells, path, HERE, renew=True).found == 3


def test_a_failing_cell_does_not_stop_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    cells = [cell(protocol="paper", noise=noise) for noise in ("pair", "random", "symmetric")]
    done = run_cells(STUDY, cells, path, HERE)
    assert [record.cell for record in done.failures] == [cells[1]]
    assert [record.error is None for record in read(path)] == [True, False, True]


def test_a_dataset_that_is_not_there_is_found_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERASE_DATA", str(tmp_path))
    with pytest.raises(EraseError):
        run_cells(STUDY, [cell(), cell(dataset="cora")], tmp_path / "own.jsonl", HERE)
    assert not (tmp_path / "own.jsonl").exists()


def test_progress_is_shown_in_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("erase.training.progress.SECONDS_BETWEEN_LINES", 0.0)
    cells = [cell(protocol="paper", noise=noise) for noise in ("pair", "random", "symmetric")]
    run_cells(STUDY, cells[:1], tmp_path / "own.jsonl", HERE)
    assert capsys.readouterr().err == ""
    run_cells(STUDY, cells, tmp_path / "own.jsonl", HERE, progress=True)
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "1/3 cells are in the records"
    assert second.startswith("2/3 cells  1 failed  ")
    assert "cells/min" in second
    assert third.startswith("3/3 cells  1 failed  ")
    assert ", 0 s left" in third


# --- kills

SIXTY_FOUR = """
keep_embeddings = true

[[grid]]
datasets = "citations"
noises = ["symmetric", "pair"]
rates = [0.2, 0.4]
methods = ["ce", "gce"]
seeds = 4
protocols = ["paper", "honest"]
params = {hidden = 8, heads = 2, epochs = 2}
"""


@dataclass(frozen=True)
class Unbroken:
    """A study in a file, its cells, and the records of a run that nothing disturbed."""

    file: Path
    study: Study
    cells: list[Cell]
    path: Path
    records: list[Record]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    folder = tmp_path_factory.mktemp("unbroken")
    file, path = folder / "study.toml", folder / "unbroken.jsonl"
    file.write_text(SIXTY_FOUR)
    study = read_study(str(file))
    records = run_here(path, study.cells(), study)
    assert len(records) == 64
    assert all(record.error is None for record in records)
    return Unbroken(file, study, study.cells(), path, records)


def assert_same(path: Path, unbroken: Unbroken, cells: Sequence[Cell]) -> None:
    """Assert that every cell is in the file once, as in the unbroken run, arrays included."""
    assert lines(path) == len(cells)
    expected = essence(unbroken.records)
    assert essence(read(path)) == {c: expected[c] for c in cells}
    for c in cells:
        kept, there = (np.load(arrays_path(p, c)) for p in (path, unbroken.path))
        assert {name: kept[name].tobytes() for name in kept} == {
            name: there[name].tobytes() for name in there
        }


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(happened: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


def kill_again_and_again(
    start: Callable[[], Any], kill: Callable[[Any], None], records: Path, kills: int
) -> None:
    """Kill what `start` starts at random moments, each after 0 to 2 more records and a while."""
    rng = np.random.default_rng(0)
    for _ in range(kills):
        goal = lines(records) + int(rng.integers(3))
        process = start()
        wait_for(lambda goal=goal: lines(records) >= goal)  # type: ignore[misc]
        time.sleep(float(rng.uniform(0, 0.1)))
        kill(process)


@pytest.mark.parametrize(("size", "kills"), [pytest.param(1, 10, marks=pytest.mark.slow), (3, 3)])
def test_killed_at_random_moments_the_records_are_those_of_an_unbroken_run(
    tmp_path: Path, unbroken: Unbroken, size: int, kills: int
) -> None:
    records = tmp_path / "killed.jsonl"
    how = ["--device", "cpu", "--threads", "1", "--batch", str(size), "--out", str(records)]
    cells = unbroken.cells
    if size > 1:
        how += ["--only", "method=ce"]
        cells = choose(cells, ["method=ce"])

    def start() -> Any:
        words = ["bench", str(unbroken.file), "--quiet", *how]
        return forked.start(forked.COMMAND, *words, out=tmp_path)

    def kill(process: Any) -> None:
        assert process.is_alive()
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL

    kill_again_and_again(start, kill, records, kills)
    assert 0 < lines(records) < len(cells)
    last = start()
    last.join()
    assert last.exitcode == 0
    if size == 1:
        assert_same(records, unbroken, cells)
    else:  # other batches round otherwise
        together = run_here(tmp_path / "batches.jsonl", cells, unbroken.study, batch=size)
        assert lines(records) == len(cells)
        assert essence(read(records)) == essence(together)


def installed(*arguments: str) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("erase")), "bench", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_installed_command_and_its_workers_survive_ten_kills(
    tmp_path: Path, unbroken: Unbroken
) -> None:
    psutil = pytest.importorskip("psutil")
    records = tmp_path / "killed.jsonl"
    how = ["--device", "cpu", "--threads", "1", "--jobs", "2", "--out", str(records)]

    def kill(process: subprocess.Popen[bytes]) -> None:
        workers = psutil.Process(process.pid).children(recursive=True)
        assert process.poll() is None
        process.kill()
        assert process.wait() == -signal.SIGKILL
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert alive == []  # orphans notice

    kill_again_and_again(lambda: installed(str(unbroken.file), *how), kill, records, 10)
    assert 0 < lines(records) < len(unbroken.cells)
    last = installed(str(unbroken.file), *how)
    assert last.wait() == 0
    assert_same(records, unbroken, unbroken.cells)


def test_a_graph_is_smoothed_once_for_all_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []

    def counted(*how: Any) -> Any:
        fits.append(how)
        return smooth(*how)

    smooth = smoothing.Smoother._fit
    monkeypatch.setattr(smoothing.Smoother, "_fit", counted)
    cells = [cell(method="relabelling", params={}, seed=seed) for seed in range(3)]
    shared = run_here(tmp_path / "shared.jsonl", cells)
    assert len(fits) == 1
    assert smoothing._kept == {}
    alone = [run_batch(batch(one))[0].record for one in cells]
    assert len(fits) == 4
    assert essence(shared) == essence(alone)


# --- many processes


def test_two_jobs_give_what_one_gives(tmp_path: Path, unbroken: Unbroken) -> None:
    cells = unbroken.cells[::4]
    run_cells(unbroken.study, cells, tmp_path / "two.jsonl", replace(HERE, jobs=2))
    assert_same(tmp_path / "two.jsonl", unbroken, cells)
    bad = replace(cells[0], noise="random", protocol="paper")
    done = run_cells(unbroken.study, [*cells, bad], tmp_path / "two.jsonl", replace(HERE, jobs=2))
    assert [record.cell for record in done.failures] == [bad]


def record_or_die(work: Batch, *_: int) -> list[Result]:
    """Stand in for `run_batch`: a cell of seed 5 takes its process with it."""
    if any(c.seed == 5 for c in work.cells):
        os.kill(os.getpid(), signal.SIGKILL)
    return [Result(Record(c, batch=len(work.cells))) for c in work.cells]


def deaths(records: Sequence[Record]) -> list[int]:
    return [r.cell.seed for r in records if (r.error or "").startswith("KilledWorker")]


class DyingPool:
    """Stand in for joblib's pool: runs at once, and breaks when a worker would die."""

    def __init__(self, **how: Any) -> None:
        self.lazy = "return_as" in how

    def __call__(self, calls: Any) -> Any:
        results = self._results(calls)
        return results if self.lazy else list(results)

    def _results(self, calls: Any) -> Iterator[Any]:
        for function, (work, parent), _ in calls:
            assert (function, parent) == (runner._run_as_child, os.getpid())
            if any(c.seed == 5 for c in work.cells):
                raise TerminatedWorkerError
            yield [Result(Record(c, batch=len(work.cells))) for c in work.cells]


@pytest.mark.parametrize("size", [1, 3])
def test_a_cell_that_kills_its_worker_fails_and_the_rest_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("joblib.Parallel", DyingPool)
    cells = [cell(seed=seed) for seed in range(12)]
    records = run_here(tmp_path / "own.jsonl", cells, jobs=2, batch=size)
    assert lines(tmp_path / "own.jsonl") == 12
    assert {r.cell for r in records} == set(cells)
    assert deaths(records) == [5]


@pytest.mark.slow
def test_a_worker_that_is_really_killed_takes_no_other_cell_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_run_as_child", record_or_die)
    cells = [cell(seed=seed) for seed in range(12)]
    records = run_here(tmp_path / "own.jsonl", cells, jobs=2)
    assert lines(tmp_path / "own.jsonl") == 12
    assert {r.cell for r in records} == set(cells)
    assert deaths(records) == [5]


# --- a cluster


@contextmanager
def dask_cluster(
    folder: Path, workers: int, **environment: str
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and workers, a process each; give the address and the workers."""
    file = folder / "scheduler.json"

    def start(part: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{part}", "--no-dashboard"]
        command += ["--scheduler-file", str(file), *options]
        return subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        )

    processes = [start("scheduler", "--host", "127.0.0.1", "--port", "0")]
    try:
        one_thread = ("--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
        processes += [start("worker", *one_thread) for _ in range(workers)]
        wait_for(lambda: file.exists() and bool(file.read_text()))
        yield json.loads(file.read_text())["address"], processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_records_every_cell_once(
    tmp_path: Path, unbroken: Unbroken
) -> None:
    pytest.importorskip("distributed")
    cells = unbroken.cells[::2]
    records = tmp_path / "cluster.jsonl"
    with dask_cluster(tmp_path, workers=2) as (address, workers):

        def kill_one() -> None:
            wait_for(lambda: lines(records) >= 6)
            workers[0].kill()

        killer = threading.Thread(target=kill_one)
        killer.start()
        done = run_cells(unbroken.study, cells, records, replace(HERE, cluster=address))
        killer.join()
        assert workers[0].wait() == -signal.SIGKILL
        assert workers[1].poll() is None
    assert done.failures == []
    assert_same(records, unbroken, cells)


@pytest.mark.slow
def test_a_cell_that_kills_the_workers_of_a_cluster_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(runner, "run_batch", record_or_die)
    cells = [cell(seed=seed) for seed in range(8)]
    patience = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with dask_cluster(tmp_path, 3, **patience) as (address, _):
        records = run_here(tmp_path / "own.jsonl", cells, cluster=address)
    assert lines(tmp_path / "own.jsonl") == 8
    assert 5 in deaths(records)


class Future:
    def __init__(self, cells: tuple[Cell, ...]) -> None:
        self.cells = cells

    def result(self) -> list[Result]:
        if any(c.seed == 5 for c in self.cells):
            raise FakeDask.KilledWorker
        return [Result(Record(c, batch=len(self.cells))) for c in self.cells]


class FakeDask:
    """Stand in for a cluster whose workers die of seed 5."""

    class KilledWorker(Exception):  # noqa: N818
        pass

    class Client:
        def __init__(self, address: str) -> None:
            if address != "tcp://there":
                raise OSError("no answer")

        def submit(self, function: Any, work: Batch, pure: bool) -> Future:
            assert (function, pure) == (run_batch, False)
            return Future(work.cells)

        def __enter__(self) -> None:
            return None

        def __exit__(self, *_: object) -> None:
            return None

    class as_completed:  # noqa: N801
        def __init__(self, futures: Any) -> None:
            self.futures = list(futures)

        def update(self, futures: Any) -> None:
            self.futures += futures

        def __iter__(self) -> Iterator[Future]:
            while self.futures:
                yield self.futures.pop()


@pytest.mark.parametrize("size", [1, 3])
def test_a_batch_that_kills_workers_is_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(runner, "_distributed", lambda: FakeDask)
    cells = [cell(seed=seed) for seed in range(12)]
    there = replace(HERE, cluster="tcp://there", batch=size)
    run_cells(STUDY, cells, tmp_path / "own.jsonl", there)
    records = read(tmp_path / "own.jsonl")
    assert lines(tmp_path / "own.jsonl") == 12
    assert {r.cell for r in records} == set(cells)
    assert deaths(records) == [5]
    with pytest.raises(EraseError, match="a Dask scheduler at tcp://nowhere"):
        run_cells(STUDY, [cell(seed=20)], tmp_path / "b", replace(there, cluster="tcp://nowhere"))


def test_a_broken_cluster_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(future: Future) -> list[Result]:
        raise ModuleNotFoundError("No module named 'erase'")

    monkeypatch.setattr(runner, "_distributed", lambda: FakeDask)
    monkeypatch.setattr(Future, "result", lost)
    there = replace(HERE, cluster="tcp://there")
    with pytest.raises(EraseError, match=r"No module named 'erase'\. Repair it"):
        run_cells(STUDY, [cell()], tmp_path / "own.jsonl", there)
    assert not (tmp_path / "own.jsonl").exists()


def test_a_cluster_needs_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    with pytest.raises(EraseError, match=r"graph-erase\[cluster\]"):
        runner._distributed()


# --- all of it


@pytest.mark.slow
def test_the_smoke_study_runs_every_method_in_minutes(tmp_path: Path) -> None:
    records = tmp_path / "smoke.jsonl"
    start = time.monotonic()
    smoke = installed("smoke", "--device", "cpu", "--jobs", "2", "--out", str(records))
    assert smoke.wait() == 0
    assert time.monotonic() - start < 300
    assert {r.cell for r in read(records)} == set(STUDIES["smoke"].cells())


# --- progress


def test_time_left_follows_from_what_this_run_has_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 30.0])
    monkeypatch.setattr(
        "erase.training.progress.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    with runner._StudyProgress(True, cells=10, found=6, failed=1) as display:
        display.show([Record(cell()), Record(cell(seed=1))])
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("8/10 cells  1 failed  4.0 cells/min, 30 s left")


def test_earlier_failures_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("erase.training.progress.SECONDS_BETWEEN_LINES", 0.0)
    with Journal(tmp_path / "own.jsonl") as journal:
        journal.append([Record(cell(), error="EraseError: no"), Record(cell(seed=1))])
    cells = [cell(seed=seed) for seed in range(3)]
    run_cells(STUDY, cells, tmp_path / "own.jsonl", HERE, progress=True)
    assert capsys.readouterr().err.splitlines()[-1].startswith("3/3 cells  1 failed  ")


def test_the_data_of_a_cluster_is_the_workers_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERASE_DATA", str(tmp_path))
    monkeypatch.setattr(runner, "_distributed", lambda: FakeDask)
    there = replace(HERE, cluster="tcp://there")
    run_cells(STUDY, [cell(dataset="cora")], tmp_path / "own.jsonl", there)
    assert lines(tmp_path / "own.jsonl") == 1


def test_a_clean_twin_takes_its_share_of_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def six(device: torch.device) -> Iterator[Any]:
        yield runner._Used(6.0)

    monkeypatch.setattr(runner, "_watched", six)
    wanted = cell(method="erase", params=SMALL | {"width": 4})
    (result,) = run_batch(batch(wanted, shift=True))
    assert (result.record.seconds, result.record.batch) == (3.0, 2)


def test_test_nodes_without_a_class_have_no_place_in_a_picture(tmp_path: Path) -> None:
    clean = two_communities(0, size=40, classes=3)
    unknown = clean.test_mask.nonzero().squeeze(1)[:4]
    clean.y[unknown], clean.num_classes = -1, 3
    model = method_of(cell(), "cpu").fit(clean)
    kept = runner._embedding(model, clean)
    assert not set(kept["nodes"].tolist()) & set(unknown.tolist())
    assert len(kept["z"]) == len(kept["y"]) == int(clean.test_mask.sum()) - 4


def test_a_record_is_written_after_its_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed in between runs the cell again, and lacks nothing."""

    def killed(self: Journal, records: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "append", killed)
    path = tmp_path / "own.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_here(path, [cell()], replace(STUDY, keep_embeddings=True))
    assert arrays_path(path, cell()).exists()


def test_a_file_without_labels_is_refused_before_the_first_cell(tmp_path: Path) -> None:
    shop, records = tmp_path / "shop", tmp_path / "r.jsonl"
    graph = two_communities(size=10)
    write_graph(graph, shop)
    nodes = (shop / "nodes.csv").read_text("utf-8")
    (shop / "nodes.csv").write_text(nodes.replace("label", "kind", 1), encoding="utf-8")
    del graph.y
    write_graph(graph, tmp_path / "bare.npz")
    command = f"Convert it: erase convert {shop} shop.npz --label COLUMN"
    for name, message in ((shop, command), (tmp_path / "bare.npz", "bare.npz', without any")):
        with pytest.raises(EraseError, match=f"a dataset with labels; .*{message}"):
            run_cells(STUDY, [cell(), cell(dataset=str(name))], records, HERE)
    (shop / "edges.csv").write_text("source\n0\n")
    runner._dataset.cache_clear()
    with pytest.raises(EraseError, match=command):
        run_cells(STUDY, [cell(), cell(dataset=str(shop))], records, HERE)
    assert not records.exists() or not records.read_text()
