"""`erase bench` as a user types it: what it writes, what it says, how it ends."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from erase.bench import runner
from erase.bench.records import Journal, read
from erase.bench.studies import STUDIES
from erase.cli import main
from erase.data.datasets import DATASETS, DatasetSpec
from erase.data.files import write_graph
from graphs import two_communities

STUDY = """
[[grid]]
datasets = "tiny"
noises = ["pair", "random"]
rates = 0.3
methods = ["ce", "gce"]
seeds = 2
protocols = ["paper", "honest"]
params = {hidden = 8, heads = 2, epochs = 2}
"""


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a study of 16 cells, of which 4 fail: the published draw knows no random noise."""

    def load(seed: int = 0) -> Any:
        return two_communities(seed, size=40, classes=3)

    spec = DatasetSpec("Three communities.", load, "generated", features="words", split="halves")
    monkeypatch.setitem(DATASETS, "tiny", spec)
    monkeypatch.chdir(tmp_path)
    runner._dataset.cache_clear()
    (tmp_path / "own.toml").write_text(STUDY)
    return tmp_path / "own.toml"


HOW = ["--device", "cpu", "--threads", "1"]


def test_records_go_to_a_file_of_the_studys_name_and_the_summary_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "own.toml", *HOW, "--only", "noise=pair"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("8 cells: 0 in the records before, 8 run in ")
    assert output.out.endswith("0 failed\n\nRecords are in out/own.jsonl.\n")
    assert output.err.splitlines()[0] == "0/8 cells are in the records"
    records = read(tmp_path / "out" / "own.jsonl")
    assert len(records) == 8
    assert {record.cell.noise for record in records} == {"pair"}


def test_failures_are_told_counted_and_kept_until_retried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["bench", "own.toml", *HOW, "--out", "deep/er.jsonl"]
    assert main([*command, "--quiet"]) == 1
    assert "".join(capsys.readouterr()) == ""
    assert main([*command, "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary.pop("seconds") >= 0
    assert summary == {
        "study": "own.toml",
        "records": "deep/er.jsonl",
        "cells": 16,
        "found": 16,
        "ran": 0,
        "failed": 4,
    }
    assert main([*command, "--retry"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("16 cells: 12 in the records before, 4 run in ")
    assert printed[0].endswith("; 4 failed")
    assert printed[1].startswith(
        "ce hidden=8 heads=2 epochs=2 on tiny, random 0.3, paper, seed 0: EraseError: expected"
    )
    assert len(Path("deep/er.jsonl").read_text().splitlines()) == 20


@pytest.mark.parametrize("json_too", [False, True])
def test_a_dry_run_shows_the_plan_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], json_too: bool
) -> None:
    command = ["bench", "own.toml", "--only", "method=gce", "--only", "noise=pair"]
    main([*command, *HOW, "--quiet", "--only", "seed=1"])
    before = (tmp_path / "out" / "own.jsonl").read_bytes()
    assert main([*command, "--dry-run", *(["--json"] if json_too else [])]) == 0
    printed = capsys.readouterr().out
    if json_too:
        assert json.loads(printed) == {
            "study": "own.toml",
            "records": "out/own.jsonl",
            "cells": 4,
            "found": 2,
            "plan": {"tiny": {"gce": 4}},
        }
    else:
        assert [line.split() for line in printed.splitlines()[:2]] == [["tiny"], ["gce", "4"]]
        assert printed.endswith("4 cells, 2 of them in out/own.jsonl.\n")
    assert (tmp_path / "out" / "own.jsonl").read_bytes() == before


def test_the_plan_of_a_study_counts_methods_by_datasets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "paper", "--dry-run"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["cora", "citeseer", "pubmed"]
    assert rows[1] == ["erase", "100", "100", "100"]
    assert ["rtgnn", "100", "100", "100"] in rows
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["papr"], "Studies: paper, honest"),
        (["own.toml", "--only", "size=3"], "KEY among dataset"),
        (["own.toml", "--jobs", "2", "--cluster", "tcp://there"], "--jobs or --cluster"),
        (["own.toml", "--device", "abacus"], "'auto', 'cpu' or 'cuda'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_leaves_nothing(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    output = capsys.readouterr().err
    assert output.startswith("erase: expected ")
    assert message in output
    assert not Path("out").exists()


def test_a_cluster_that_is_not_there_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    words = ["bench", "own.toml", "--cluster", "no-port", "--out", "records.jsonl"]
    before = sorted(each.name for each in Path().iterdir())
    assert main(words) == 2
    assert "a Dask scheduler at no-port" in capsys.readouterr().err
    assert sorted(each.name for each in Path().iterdir()) == sorted(
        [*before, ".records.jsonl.lock"]
    )


def test_a_second_runner_is_turned_away(capsys: pytest.CaptureFixture[str]) -> None:
    with Journal("out/own.jsonl"):
        assert main(["bench", "own.toml", *HOW]) == 2
    assert "another `erase bench` is writing" in capsys.readouterr().err


def test_interrupted_it_says_that_the_same_command_continues(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner.run_batch
    seen: list[object] = []

    def stop_at_the_third(batch: runner.Batch) -> list[runner.Result]:
        seen.append(batch)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return run(batch)

    monkeypatch.setattr(runner, "run_batch", stop_at_the_third)
    command = ["bench", "own.toml", *HOW, "--only", "noise=pair"]
    assert main(command) == 130
    assert "interrupted. The same command continues." in capsys.readouterr().err
    kept = read("out/own.jsonl")
    assert len(kept) == 2
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("8 cells: 2 in the records before, 6 run in ")
    assert read("out/own.jsonl")[:2] == kept


@pytest.mark.parametrize("options", [[], ["--batch", "3"], ["--threads", "2"], ["--jobs", "3"]])
def test_options_reach_the_runner(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def look(study: Any, cells: Any, path: Path, execution: runner.Execution, **how: Any) -> Any:
        seen.update(vars(execution), **how)
        return runner.Summary(len(cells), 0, [], 0.0)

    monkeypatch.setattr("erase.bench.runner.run_cells", look)
    assert main(["bench", "own.toml", "--device", "cpu", *options]) == 0
    expected = dict(
        vars(runner.Execution("cpu")), retry=False, renew=False, progress=True, trusted={}
    )
    if options:
        expected[options[0].removeprefix("--")] = int(options[1])
    assert seen == expected


def test_studies_are_listed_with_their_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "studies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(STUDIES)
    assert lines[0].endswith("(4200 cells)")


def test_a_study_may_be_of_a_graph_of_your_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph(two_communities(size=30, classes=3), "mine.npz")
    Path("own.toml").write_text(
        "[[grid]]\n"
        'datasets = ["mine.npz"]\n'
        'noises = ["none", "pair"]\n'
        "rates = 0.2\n"
        'methods = ["ce", "label-propagation"]\n'
        "seeds = 2\n"
        'protocols = "honest"\n'
    )
    assert main(["bench", "own.toml", "--device", "cpu", "--quiet"]) == 0
    assert main(["table", "own", "out/own.jsonl", "--protocol", "honest"]) == 0
    message = capsys.readouterr().out
    assert "**mine**\n\n| | clean | pair 0.2 | runs |\n" in message
    assert re.search(r"\| CE \| \**[\d.]+ ± [\d.]+\** \| \**[\d.]+ ± [\d.]+\** \| 2 \|", message)
    Path("own.toml").write_text(Path("own.toml").read_text().replace("mine.npz", "yours.npz"))
    assert main(["bench", "own.toml"]) == 2
    assert "or the file of a graph; got 'yours.npz'" in capsys.readouterr().err
