"""The plan for ogbn-papers100M: its page is what the records give, its formulas what files hold."""

import doctest
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import papers100m
from erase.data.folder import write_folder
from papers100m import Assumed, Rates

RATES = Rates.read()


def seconds(batch: int = 1_024, rates: Rates = RATES, **changes: Any) -> dict[str, float]:
    rows = papers100m.epoch_seconds(batch, rates, Assumed(**changes))
    return {"steps" if name.endswith(" steps") else name: value for name, value, _ in rows}


def test_the_page_holds_the_plan_of_the_committed_records() -> None:
    _, _, rest = papers100m.PAGE.read_text(encoding="utf-8").partition(papers100m.BEGIN)
    assert rest.partition(papers100m.END)[0].strip() == papers100m.plan(RATES, Assumed())


def test_writing_the_page_again_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = papers100m.PAGE.read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(before, encoding="utf-8")
    monkeypatch.setattr(papers100m, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr("sys.argv", ["papers100m.py", "--write"])
    papers100m.main()
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == before


def test_the_examples_in_it_hold() -> None:
    assert doctest.testmod(papers100m).failed == 0


def test_a_folder_has_the_bytes_of_the_formula(tmp_path: Path) -> None:
    n, f, header = 30, 5, 128
    edges = torch.tensor([[i, (i + k) % n] for i in range(n) for k in (1, 2)]).t()
    mask = torch.arange(n) % 3
    data = Data(x=torch.ones(n, f), edge_index=edges, y=torch.arange(n) % 2)
    data.train_mask, data.val_mask, data.test_mask = mask == 0, mask == 1, mask == 2
    write_folder(data, tmp_path / "folder")
    sizes = {
        file.name: file.stat().st_size - header for file in (tmp_path / "folder").glob("*.npy")
    }
    planned = {name: size for name, size, _ in papers100m.folder_bytes(n, 2 * n, 4 * n, f)}
    assert sizes["x.npy"] == planned["features, `x.npy`"]
    assert sizes["edge_index.npy"] == planned["edges, `edge_index.npy`"]
    assert sizes["indptr.npy"] == planned["row starts, `indptr.npy`"]
    assert sum(sizes.values()) == planned["the folder"]


def test_each_assumption_and_rate_moves_what_it_should() -> None:
    usual = seconds()
    assert seconds(gpus=16)["steps"] < 0.52 * usual["steps"]
    streamed = "… with the graph streamed from the host instead"
    assert seconds(pcie=20e9)[streamed] == pytest.approx(2 * usual[streamed])
    spread = "50 propagations, the graph on every GPU"
    assert seconds(spmm_share=0.15)[spread] == pytest.approx(2 * usual[spread])
    assert seconds(solver_steps=50)["logistic regression"] == pytest.approx(
        usual["logistic regression"] / 2
    )
    assert seconds(all_reduce=100e9)["steps"] > usual["steps"]
    assert seconds(inverses=((8, 40.0), (800, 400.0)))["steps"] > 3 * usual["steps"]
    slow = replace(RATES, host={**RATES.host, "gather_bytes_per_second": 1e6})
    assert seconds(rates=slow)["steps"] > 40 * usual["steps"]  # the host decides
    cold = "… a step's features from the disk instead"
    assert seconds(cores_per_gpu=6)[cold] == pytest.approx(2 * usual[cold])


def test_larger_batches_make_shorter_epochs() -> None:
    assert seconds(1_024)["steps"] < seconds(200)["steps"] / 4
    small, large = (papers100m.step_seconds(b, RATES, Assumed()) for b in (200, 1_024))
    assert small["Grams across GPUs"] == large["Grams across GPUs"]
    assert large["sampling"] == pytest.approx(5.12 * small["sampling"])


def test_the_measurements_of_a_small_piece_run(tmp_path: Path) -> None:
    assert papers100m.core_seconds(lambda: sum(range(10_000))) > 0
    cold = papers100m.cold_reads(tmp_path / "cold")
    assert all(rate > 0 for rate in cold.values())
    assert all(rate > 1e6 for rate in papers100m.inflation().values())
