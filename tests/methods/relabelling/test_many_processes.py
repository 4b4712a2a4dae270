"""Several processes that share the rows of features fit and audit as one does."""

from pathlib import Path

import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

import forked
from erase.data.files import load_arrays

FITS = ("relabelling", "relabelling, all columns", "smoothed", "label-propagation", "divided")
AUDITS = ("audit", "audit by labels")


def run(folder: Path, processes: int) -> Path:
    """Let several processes, which find each other as under torchrun, do all cases."""
    folder.mkdir()
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    where = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port), "OMP_NUM_THREADS": "1"}
    where |= {"WORLD_SIZE": str(processes), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    code = (Path(__file__).parent / "ranks.py").read_text()
    started = []
    for rank in range(processes):
        (out := folder / f"process {rank}").mkdir()
        own = where | {"RANK": str(rank)}
        started.append((forked.start(code, str(folder), out=out, environment=own), out))
    for process, out in started:
        process.join()
        assert process.exitcode == 0, (out / "stderr").read_text()[-3000:]
    return folder


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of what one process and what two gave."""
    folder = tmp_path_factory.mktemp("ranks")
    return run(folder / "1", 1), run(folder / "2", 2)


@pytest.mark.parametrize("case", [*FITS, *AUDITS])
def test_two_processes_are_one(answers: tuple[Path, Path], case: str) -> None:
    """123 nodes: the stretches are of different size, and so are the columns of each."""
    alone, _ = load_arrays(answers[0] / f"{case} 0.safetensors")
    first, _ = load_arrays(answers[1] / f"{case} 0.safetensors")
    assert set(first) == set(alone)
    for name, value in alone.items():
        torch.testing.assert_close(first[name], value, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("case", FITS)
def test_both_processes_have_the_same_fit(answers: tuple[Path, Path], case: str) -> None:
    first, second = (load_arrays(answers[1] / f"{case} {rank}.safetensors")[0] for rank in (0, 1))
    assert set(first) == set(second)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.parametrize("case", AUDITS)
def test_only_the_first_process_has_the_audit(answers: tuple[Path, Path], case: str) -> None:
    assert (answers[1] / f"{case} 0.safetensors").exists()
    assert not (answers[1] / f"{case} 1.safetensors").exists()


def test_only_the_first_process_holds_all_representations(answers: tuple[Path, Path]) -> None:
    first, second = (load_arrays(answers[1] / f"rows {rank}.safetensors")[0] for rank in (0, 1))
    assert first["features"].tolist() == [61, 7]
    assert second["features"].tolist() == [62, 7]
    for name in ("embedding", "smoothed"):
        assert [int(shapes[name][0]) for shapes in (first, second)] == [123, 0]
