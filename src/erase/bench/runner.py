"""The runner behind `erase bench`: cells in batches, here, on many processes or on a cluster.

A batch is what `fit_many` trains together: cells that differ in labels and seeds only, or cells of
detection or review that share a draw of the noise and its out-of-fold models. Workers train batches
and send the records back; only the main process writes them. A result depends on the cell, the
device, the number of threads and the batch only, so an interrupted study continues with the same
results.
"""

import gc
import json
import os
import platform
import re
import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import joblib
import numpy as np
import sklearn
import torch
import torch_geometric
from joblib.externals.loky.process_executor import TerminatedWorkerError
from numpy.typing import NDArray
from torch_geometric.data import Data

from erase.audit.out_of_fold import out_of_sample
from erase.bench.correction import CORRECTED_BY, labels_to_train, without_correction
from erase.bench.detection import DetectionSetup, detects, score_detection
from erase.bench.digests import code_of
from erase.bench.inductive import (
    UNSEEN,
    score_drawn_nodes,
    scores_drawn_nodes,
    task_to_fit,
    without_drawn_nodes,
)
from erase.bench.records import Cell, Journal, Record
from erase.bench.review import Draw, reviews, score_review
from erase.bench.reviewed import TrustedLabels, without_reviews
from erase.bench.run import PROTOCOLS, labels_of_cell, score
from erase.bench.studies import Study
from erase.data.datasets import dataset_name, load_dataset
from erase.data.fields import field
from erase.data.files import atomic_write, read_graph
from erase.data.folder import is_folder
from erase.data.labels import encode_labels
from erase.data.splits import read_splits
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import NodeClassifier, build_method, default_params
from erase.methods.base import resolve_device
from erase.methods.relabelling.smoothing import keep_features
from erase.nn.coding import log_ntvr, rate_ntvr
from erase.training.progress import Progress
from erase.version import __version__

GPU_BATCH = 50
_GRAPHS_KEPT = 2  # with their smoothed features, in each process
_SECONDS_BETWEEN_LOOKS = 0.5  # of a worker, after its parent
_NOT_IDENTITY = ("seed", "device")


@dataclass(frozen=True)
class Execution:
    """How cells are run; apart from rounding, nothing here changes what comes out.

    Attributes:
        device: "auto", "cpu" or "cuda".
        jobs: processes to run at once.
        threads: of each process; 0 shares the cores among the jobs, as far as ``OMP_NUM_THREADS``
            allows, and takes one on a cluster.
        batch: most cells to train together; 0 takes 1 on a CPU, `GPU_BATCH` on a GPU.
        cluster: address of a Dask scheduler whose workers are to do the work, or None.
    """

    device: str = "auto"
    jobs: int = 1
    threads: int = 0
    batch: int = 0
    cluster: str | None = None

    def resolved(self) -> "Execution":
        """Return this with nothing left open."""
        if self.cluster is not None:
            device, cores = self.device, 1  # it is for the workers to find out what they have
        else:
            device, cores = str(resolve_device(self.device)), joblib.cpu_count()
        return replace(
            self,
            device=device,
            threads=self.threads or min(torch.get_num_threads(), max(1, cores // self.jobs)),
            batch=self.batch or (GPU_BATCH if device.startswith("cuda") else 1),
        )


@dataclass(frozen=True)
class Batch:
    """Cells to train together, and how.

    Attributes:
        cells: of one method, dataset and size.
        shift: train clean twins too, and score the shift, see `Study`.
        keep_embeddings: return the representations of the test nodes.
        device: to train on.
        threads: to train with.
        precision: of matrix products, in torch's words.
        deterministic: whether torch is to take algorithms that give the same bits every time.
        trusted: labels of the cells' dataset that people have confirmed, or None.
    """

    cells: tuple[Cell, ...]
    shift: bool
    keep_embeddings: bool
    device: str
    threads: int
    precision: str = "highest"
    deterministic: bool = False
    trusted: TrustedLabels | None = None

    def parts(self, size: int) -> list["Batch"]:
        """Return batches of up to `size` of the cells."""
        starts = range(0, len(self.cells), size)
        return [replace(self, cells=self.cells[start : start + size]) for start in starts]


@dataclass(frozen=True)
class Result:
    """What a trained cell gives: its record, and arrays by name where they are to be kept."""

    record: Record
    arrays: Mapping[str, NDArray[Any]] | None = None


@dataclass(frozen=True)
class Summary:
    """How a run of a study ended.

    Attributes:
        cells: requested.
        found: those in the records already.
        failures: records of cells that failed, now or before.
        seconds: of this run.
    """

    cells: int
    found: int
    failures: list[Record]
    seconds: float


def run_cells(
    study: Study,
    cells: Sequence[Cell],
    path: Path,
    execution: Execution,
    *,
    retry: bool = False,
    renew: bool = False,
    progress: bool = False,
    trusted: Mapping[str, TrustedLabels] = MappingProxyType({}),
) -> Summary:
    """Run the `cells` of a study that are not in the records at `path` yet, and add them there.

    Args:
        study: defines what is kept besides scores.
        cells: to run; those with a record are skipped.
        path: of the records; representations go to ``<stem>-arrays/<key>.npz`` beside it.
        execution: where and how.
        retry: run cells that failed before once more.
        renew: run cells again whose record was made by other code, see
            :func:`erase.bench.digests.code_of`; the new record counts.
        progress: show cells done, failures, rate and time left on stderr.
        trusted: labels that people have confirmed, by dataset.
    """
    execution = execution.resolved()
    start = time.monotonic()
    with Journal(path) as journal:
        known = journal.records
        missing = [
            cell
            for cell in cells
            if cell not in known
            or (retry and known[cell].error is not None)
            or (renew and known[cell].code != code_of(cell))
        ]
        found = len(cells) - len(missing)
        if execution.cluster is None:
            for dataset in dict.fromkeys(cell.dataset for cell in missing):
                _check_dataset(dataset)
        work = plan(study, missing, execution, trusted)
        failed = sum(known[c].error is not None for c in set(cells) & set(known) - set(missing))
        with _StudyProgress(progress, len(cells), found, failed) as display:
            for results in _run(work, execution):
                for result in results:
                    _write_arrays(result, path)
                journal.append(result.record for result in results)
                display.show([result.record for result in results])
        failures = [known[cell] for cell in cells if known[cell].error is not None]
    return Summary(len(cells), found, failures, time.monotonic() - start)


def plan(
    study: Study,
    cells: Iterable[Cell],
    execution: Execution,
    trusted: Mapping[str, TrustedLabels] = MappingProxyType({}),
) -> list[Batch]:
    """Return the cells as batches of those that `fit_many` can train together.

    Workers compute with the precision and determinism that torch has in this process.
    """
    execution = execution.resolved()
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(_group_key(cell), []).append(cell)
    return [
        part
        for group in groups.values()
        for part in Batch(
            tuple(group),
            study.shift,
            study.keep_embeddings,
            execution.device,
            execution.threads,
            torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(),
            trusted.get(group[0].dataset),
        ).parts(len(group) if _shares_a_draw(group[0]) else execution.batch)
    ]


def _shares_a_draw(cell: Cell) -> bool:
    """Return whether all cells of a group are run at once, whatever the size of a batch."""
    return detects(cell) or reviews(cell)


def _group_key(cell: Cell) -> str:
    """Return a key that is equal for cells that can be trained together."""
    if reviews(cell):
        return replace(cell, method="review", params={}).key
    if detects(cell):
        setup = DetectionSetup.of(cell)
        draw = [cell.noise, cell.rate, cell.protocol, cell.seed, setup.folds, setup.features]
        return json.dumps([*draw, _group_key(setup.model)])
    validates = PROTOCOLS[cell.protocol].validation != "none"
    settings = method_of(cell, "cpu").get_params(deep=False) | {"seed": 0}
    alike = [cell.dataset, cell.method, settings, cell.labels_per_class, validates]
    # an audit leaves every draw another number of labels, and every seed removes other nodes
    if CORRECTED_BY in cell.params or UNSEEN in cell.params:
        alike.append(cell.key)
    return json.dumps(alike)


def method_of(cell: Cell, device: str) -> NodeClassifier:
    """Return the method of a cell, with the noise rate if it is a parameter of the method."""
    cell = without_reviews(without_drawn_nodes(without_correction(cell)))
    rate = {"noise_rate": cell.rate} if "noise_rate" in default_params(cell.method) else {}
    changes = {**rate, **cell.params, "seed": cell.seed, "device": device}
    return build_method(cell.method, dataset=dataset_name(cell.dataset), **changes)


def run_batch(batch: Batch) -> list[Result]:
    """Train a batch and score its cells; a cell that cannot be trained gives a record of its error.

    A batch that does not fit into the memory of a GPU is halved; one that fails for another reason
    is split into single cells, so that only the cell at fault fails.
    """
    with _arithmetic(batch):
        return [_with_code(result) for result in _attempt(batch)]


def _with_code(result: Result) -> Result:
    record = result.record
    return replace(result, record=replace(record, code=code_of(record.cell)))


@contextmanager
def _arithmetic(batch: Batch) -> Iterator[None]:
    """Set threads, precision and determinism of a batch, and restore them afterwards."""
    threads = torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    deterministic = torch.are_deterministic_algorithms_enabled()
    if batch.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.set_num_threads(batch.threads)
    torch.set_float32_matmul_precision(batch.precision)
    torch.use_deterministic_algorithms(batch.deterministic)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(deterministic)


def _attempt(batch: Batch) -> list[Result]:
    try:
        return _train(batch)
    except torch.OutOfMemoryError as error:
        failure, size = f"OutOfMemoryError: {error}", (len(batch.cells) + 1) // 2
    except Exception as error:  # whatever it is, the next cells are to be run
        failure, size = f"{type(error).__name__}: {error}", 1
    if len(batch.cells) == 1:
        return [Result(_failure(batch.cells[0], failure, batch.device))]
    gc.collect()  # only now, when no traceback holds the tensors of the attempt
    if batch.device.startswith("cuda"):
        torch.cuda.empty_cache()
    return [result for part in batch.parts(size) for result in _attempt(part)]


def _train(batch: Batch) -> list[Result]:
    if reviews(batch.cells[0]):
        return _review(batch)
    return _detect(batch) if detects(batch.cells[0]) else _classify(batch)


def _review(batch: Batch) -> list[Result]:
    """Audit one draw, and let a simulated reviewer answer by every strategy."""
    clean = _dataset_of(batch)
    first = batch.cells[0]
    with _watched(resolve_device(batch.device)) as used:
        draw = Draw.of(labels_of_cell(clean, first), clean, first.seed, batch.device)
        scores = score_review(draw, batch.cells)
    shared: dict[str, Any] = {
        "seconds": used.seconds / len(batch.cells),
        "batch": len(batch.cells),
        "peak_bytes": used.peak_bytes,
        **_about(batch.device),
    }
    return [Result(Record(cell, scores[cell], **shared)) for cell in batch.cells]


def _detect(batch: Batch) -> list[Result]:
    """Train the out-of-fold models of one draw, and score every detector on their predictions."""
    first = batch.cells[0]
    clean = _dataset_of(batch)
    setup = DetectionSetup.of(first)
    task = NodeTask.from_data(setup.graph(labels_of_cell(clean, first)))
    method = method_of(setup.model, batch.device)
    with _watched(torch.device(method.device)) as used:
        out_of_fold = out_of_sample(task, method, setup.folds, first.seed)
    about = _about(batch.device)
    results = []
    for cell in batch.cells:
        start = time.perf_counter()
        scores = score_detection(cell, out_of_fold, task, clean)
        record = Record(
            cell,
            scores,
            settings=_departures(method),
            seconds=used.seconds / len(batch.cells) + time.perf_counter() - start,
            batch=len(batch.cells),
            peak_bytes=used.peak_bytes,
            **about,
        )
        results.append(Result(record))
    return results


def _classify(batch: Batch) -> list[Result]:
    clean = _dataset_of(batch)
    runs = list(batch.cells)
    if batch.shift:
        runs = list(dict.fromkeys([*runs, *map(_clean_twin, runs)]))
    given = [labels_of_cell(clean, cell) for cell in runs]
    method = method_of(runs[0], batch.device)
    with _watched(torch.device(method.device)) as used:
        seen = [labels_to_train(g, c, batch.device) for g, c in zip(given, runs, strict=True)]
        tasks = [task_to_fit(t, clean, c) for t, c in zip(_tasks(seen), runs, strict=True)]
        trained = method.fit_many(tasks, [cell.seed for cell in runs])
    models = dict(zip(runs, trained, strict=True))
    about = _about(batch.device)
    results = []
    for cell, graph in zip(batch.cells, given, strict=False):  # twins come last
        model = models[cell]
        scores: dict[str, float | None] = dict(
            score_drawn_nodes(model, clean, graph, cell)
            if scores_drawn_nodes(cell)
            else score(model, clean, graph)
        )
        if batch.shift and cell.noise != "none":
            scores |= _shift_scores(model, models[_clean_twin(cell)], batch.device)
        record = Record(
            cell,
            scores,
            settings=_departures(model),
            best_epoch=model.best_epoch_,
            epochs=len(model.history_),
            seconds=used.seconds / len(runs),
            batch=len(runs),
            peak_bytes=used.peak_bytes,
            **about,
        )
        results.append(Result(record, _embedding(model, clean) if batch.keep_embeddings else None))
    return results


@lru_cache(maxsize=2)
def _dataset(name: str) -> Data:
    known = dataset_name(name)
    return read_graph(name) if known is None else load_dataset(known)


def _check_dataset(name: str) -> None:
    """Raise an EraseError for a file that is not there or has no labels, before hours of work."""
    are_tables = dataset_name(name) is None and Path(name).is_dir() and not is_folder(name)
    words = [name, f"{Path(name).resolve().name}.npz"] if are_tables else ["TABLES", "FILE.npz"]
    remedy = f"Convert it: {shlex.join(['erase', 'convert', *words])} --label COLUMN"
    try:
        data = _dataset(name)
    except EraseError as error:
        if not are_tables:
            raise
        raise EraseError(error.expected, f"{error.got}, in {name!r}", remedy) from None
    if dataset_name(name) is None and field(data, "y") is None:
        got = f"{name!r}, which has no column 'label'" if are_tables else f"{name!r}, without any"
        raise EraseError("a dataset with labels", got, remedy)


def _dataset_of(batch: Batch) -> Data:
    """Return the dataset of a batch, with its trusted labels where there are any."""
    data = _dataset(batch.cells[0].dataset)
    return data if batch.trusted is None else batch.trusted.on(data)


def _clean_twin(cell: Cell) -> Cell:
    return replace(cell, noise="none", rate=0.0)


def _tasks(given: Sequence[Data]) -> list[NodeTask]:
    """Return the tasks of graphs that differ in their labels; they share one graph in memory."""
    first = NodeTask.from_data(given[0])
    others = (NodeTask.from_data(graph) for graph in given[1:])
    return [first, *(replace(task, x=first.x, edge_index=first.edge_index) for task in others)]


def _shift_scores(noisy: NodeClassifier, clean: NodeClassifier, device: str) -> dict[str, float]:
    shift = torch.from_numpy(noisy.transform() - clean.transform())
    shift = shift.to(resolve_device(device))
    eps2 = noisy.get_params(deep=False)["eps2"]
    return {
        "log_ntvr": float(log_ntvr(shift, eps2)),
        "rate_ntvr": float(rate_ntvr(shift, eps2)),
    }


def _departures(model: NodeClassifier) -> dict[str, Any]:
    """Return the parameters that are not the defaults."""
    defaults = type(model)().get_params(deep=False)
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in _NOT_IDENTITY and value != defaults[name]
    }


def _embedding(model: NodeClassifier, clean: Data) -> dict[str, NDArray[Any]]:
    """Return the representations of the test nodes, half as precise, and their true classes."""
    y, _, _ = encode_labels(clean)
    nodes = (read_splits(clean, y).test & (y >= 0)).nonzero().squeeze(1).numpy()
    return {"z": model.transform()[nodes].astype(np.float16), "y": y.numpy()[nodes], "nodes": nodes}


def arrays_path(records: Path, cell: Cell) -> Path:
    """Return where the arrays of a cell lie beside its records."""
    return records.with_name(f"{records.stem}-arrays") / f"{cell.key}.npz"


def _write_arrays(result: Result, records: Path) -> None:
    if result.arrays is not None:
        with atomic_write(arrays_path(records, result.record.cell), "wb") as file:
            np.savez_compressed(file, **result.arrays)  # type: ignore[arg-type]


def _failure(cell: Cell, error: str, device: str) -> Record:
    return Record(cell, error=error, **_about(device))


def _about(device: str) -> dict[str, Any]:
    machine = platform.machine()
    with suppress(EraseError):
        if (found := resolve_device(device)).type == "cuda":
            machine = torch.cuda.get_device_name(found)
            if torch.get_float32_matmul_precision() != "highest":
                machine += ", TF32 products"
    versions = {
        "erase": __version__,
        "torch": str(torch.__version__),
        "torch_geometric": torch_geometric.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "threads": str(torch.get_num_threads()),  # equal bits need an equal number of them
        "deterministic": str(torch.are_deterministic_algorithms_enabled()).lower(),
    }
    return {"machine": machine, "versions": versions}


@dataclass
class _Used:
    """Time and memory of a block."""

    seconds: float = 0.0
    peak_bytes: int | None = None


@contextmanager
def _watched(device: torch.device) -> Iterator[_Used]:
    """Measure the block: its seconds, and the most memory that was held in it.

    On a GPU that of its tensors; elsewhere that of the whole process, by the kernel's own mark.
    """
    used = _Used()
    marked = device.type == "cuda"
    if marked:
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
            marked = True
    start = time.perf_counter()
    yield used
    used.seconds = time.perf_counter() - start
    if marked and device.type == "cuda":
        used.peak_bytes = torch.cuda.max_memory_allocated(device)
    elif marked:
        held = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        used.peak_bytes = int(held[1]) * 1024 if held else None


def _run(work: Sequence[Batch], execution: Execution) -> Iterator[list[Result]]:
    if execution.cluster is not None:
        return _on_cluster(work, execution.cluster)
    if execution.jobs > 1:
        return _on_processes(work, execution.jobs)
    return _here(work)


def _here(work: Sequence[Batch]) -> Iterator[list[Result]]:
    keep_features(_GRAPHS_KEPT)
    try:
        yield from map(run_batch, work)
    finally:
        keep_features(0)


def _on_processes(work: Sequence[Batch], jobs: int) -> Iterator[list[Result]]:
    """Run batches in `jobs` processes; if one is killed, find out which batch was its last."""
    waiting = {batch.cells: batch for batch in work}
    while waiting:
        try:
            parallel = joblib.Parallel(
                n_jobs=jobs, backend="loky", batch_size=1, return_as="generator_unordered"
            )
            for results in parallel(_child(batch) for batch in list(waiting.values())):
                del waiting[tuple(result.record.cell for result in results)]
                yield results
        except TerminatedWorkerError:
            # joblib hands out 2 batches a process, in order: the one at fault is among these
            for batch in list(waiting.values())[: 2 * jobs]:
                del waiting[batch.cells]
                yield _alone(batch)


def _child(batch: Batch) -> Any:
    return joblib.delayed(_run_as_child)(batch, os.getpid())


def _run_as_child(batch: Batch, parent: int) -> list[Result]:
    _end_with(parent)
    keep_features(_GRAPHS_KEPT)
    return run_batch(batch)


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """End this process soon after its parent has ended, since nothing would write its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _alone(batch: Batch) -> list[Result]:
    """Run a batch while no other runs; where its process dies, split it."""
    try:
        (results,) = joblib.Parallel(n_jobs=2, backend="loky")([_child(batch)])
    except TerminatedWorkerError:
        if len(batch.cells) == 1:
            return [_killed(batch)]
        return [result for part in batch.parts(1) for result in _alone(part)]
    return list(results)


def _killed(batch: Batch) -> Result:
    error = "KilledWorker: the process that trained this cell died, as for want of memory"
    return _with_code(Result(_failure(batch.cells[0], error, batch.device)))


def _on_cluster(work: Sequence[Batch], address: str) -> Iterator[list[Result]]:
    """Run batches on the workers of a Dask cluster, which gives those of a dead worker to others.

    A batch that several workers died of is taken apart; a cell of which they died is a failure.
    """
    distributed = _distributed()
    try:
        client = distributed.Client(address)
    except (OSError, ValueError) as error:
        raise EraseError(
            f"a Dask scheduler at {address}",
            str(error),
            "Start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`.",
        ) from None
    with client:
        running = {client.submit(run_batch, batch, pure=False): batch for batch in work}
        completed = distributed.as_completed(running)
        for future in completed:
            batch = running.pop(future)
            try:
                results = future.result()
            except distributed.KilledWorker:
                if len(batch.cells) == 1:
                    yield [_killed(batch)]
                    continue
                parts = {client.submit(run_batch, b, pure=False): b for b in batch.parts(1)}
                running |= parts
                completed.update(parts)
            except Exception as error:  # run_batch itself raises nothing
                raise EraseError(
                    f"a cluster at {address} that stays, with erase and its data on every worker",
                    f"{type(error).__name__}: {error}",
                    "Repair it; the same command continues.",
                ) from error
            else:
                yield results


def _distributed() -> Any:
    if find_spec("distributed") is None:
        raise EraseError(
            "Dask, to run on a cluster",
            "an installation without it",
            "Run pip install 'graph-erase[cluster]', or use --jobs.",
        )
    return import_module("distributed")


class _StudyProgress:
    """Progress of a study: cells done, cells that failed, and time left."""

    def __init__(self, shown: bool, cells: int, found: int, failed: int) -> None:
        self._progress = Progress(shown, cells, found, "cell")
        self._cells, self._failed = cells, failed
        if self._progress.is_plain:
            print(f"{found}/{cells} cells are in the records", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.__exit__(*error)

    def show(self, records: Sequence[Record]) -> None:
        self._failed += sum(record.error is not None for record in records)
        self._progress.advance(
            len(records),
            {"failed": self._failed},
            lambda done, rate, left: (
                f"{done}/{self._cells} cells  {self._failed} failed  "
                f"{60 * rate:.1f} cells/min, {left:.0f} s left  ({records[-1].cell})"
            ),
        )
