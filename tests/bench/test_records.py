"""Cells have one identity, records survive their file, and a torn line costs one cell."""

import json
import math
import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import forked
from erase.bench.records import Cell, Journal, Record, read
from erase.errors import EraseError

CELL = Cell("cora", "symmetric", 0.3, "erase", {"eps2": 0.1, "steps": 2}, "paper", 4, None)
RECORD = Record(
    CELL,
    scores={"test_accuracy": 0.806, "mislabelled": 28},
    settings={"eps2": 0.1, "steps": 2},
    best_epoch=172,
    epochs=322,
    seconds=4.1,
    batch=10,
    peak_bytes=123_456_789,
    machine="abacus",
    versions={"erase": "0.1.0", "torch": "2.13.0", "python": "3.11"},
    error=None,
    code="0123456789ab",
)


def test_a_record_is_one_flat_line_of_json() -> None:
    line = RECORD.to_json()
    assert "\n" not in line
    assert json.loads(line) == {
        "dataset": "cora",
        "noise": "symmetric",
        "rate": 0.3,
        "method": "erase",
        "params": {"eps2": 0.1, "steps": 2},
        "protocol": "paper",
        "seed": 4,
        "labels_per_class": None,
        "scores": {"test_accuracy": 0.806, "mislabelled": 28},
        "settings": {"eps2": 0.1, "steps": 2},
        "best_epoch": 172,
        "epochs": 322,
        "seconds": 4.1,
        "batch": 10,
        "peak_bytes": 123_456_789,
        "machine": "abacus",
        "versions": {"erase": "0.1.0", "torch": "2.13.0", "python": "3.11"},
        "error": None,
        "code": "0123456789ab",
    }
    assert Record.from_json(line) == RECORD


def test_a_record_made_before_digests_can_be_read() -> None:
    content = json.loads(RECORD.to_json())
    del content["code"]
    assert Record.from_json(json.dumps(content)) == replace(RECORD, code="")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_number_for_is_null(value: float) -> None:
    record = replace(RECORD, scores={"log_ntvr": value, "rate_ntvr": 0.5})
    assert Record.from_json(record.to_json()).scores == {"log_ntvr": None, "rate_ntvr": 0.5}


def test_the_key_is_the_hash_of_the_canonical_json() -> None:
    canonical = (
        '{"dataset":"cora","labels_per_class":null,"method":"erase","noise":"symmetric",'
        '"params":{"eps2":0.1,"steps":2},"protocol":"paper","rate":0.3,"seed":4}'
    )
    assert CELL.key == sha256(canonical.encode()).hexdigest()[:16]


def test_the_order_of_parameters_is_no_part_of_a_cell() -> None:
    other = replace(CELL, params={"steps": 2, "eps2": 0.1})
    assert other == CELL
    assert other.key == CELL.key
    assert len({CELL, other}) == 1
    assert replace(CELL, rate=1) == replace(CELL, rate=1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "pubmed"},
        {"noise": "pair"},
        {"rate": 0.4},
        {"method": "ce"},
        {"params": {"eps2": 0.1}},
        {"params": {"eps2": 0.1, "steps": True}},
        {"protocol": "honest"},
        {"seed": 5},
        {"labels_per_class": 4},
    ],
    ids=str,
)
def test_every_field_is_a_part_of_a_cell(change: dict[str, Any]) -> None:
    other = replace(CELL, **change)
    assert other != CELL
    assert other.key != CELL.key


def test_a_cell_in_words() -> None:
    assert str(CELL) == "erase eps2=0.1 steps=2 on cora, symmetric 0.3, paper, seed 4"
    clean = Cell("pubmed", "none", 0, "ce", {}, "honest", 0, labels_per_class=8)
    assert str(clean) == "ce labels_per_class=8 on pubmed, none, honest, seed 0"
    found = Cell("cora", "pair", 0.3, "audit", {"judge": "ce", "folds": 5}, "honest", 0)
    assert str(found) == "audit model=ce folds=5 on cora, pair 0.3, honest, seed 0"


def records(count: int) -> list[Record]:
    return [replace(RECORD, cell=replace(CELL, seed=seed)) for seed in range(count)]


def test_a_journal_appends_and_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "study.jsonl"
    first, second, third = records(3)
    with Journal(path) as journal:
        assert journal.records == {}
        journal.append([first, second])
        assert read(path) == [first, second]  # before it is closed
    with Journal(path) as journal:
        assert journal.records == {first.cell: first, second.cell: second}
        journal.append([third])
        assert list(journal.records.values()) == [first, second, third]
    assert read(path) == [first, second, third]


def test_what_is_appended_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.jsonl"
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(path.read_bytes().count(b"\n")))
    with Journal(path) as journal:
        journal.append(records(2))
        journal.append(records(1))
    assert synced == [2, 3]  # after the lines were written, every time


def test_the_last_record_of_a_cell_counts(tmp_path: Path) -> None:
    failed = replace(RECORD, scores={}, error="EraseError: no")
    with Journal(tmp_path / "study.jsonl") as journal:
        journal.append([failed, *records(2), RECORD])
    assert read(tmp_path / "study.jsonl") == [RECORD, *records(2)]
    assert len((tmp_path / "study.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_torn_last_line_is_ignored_and_cut_off(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "study.jsonl"
    first, second, third = records(3)
    torn = f"{first.to_json()}\n{second.to_json()}\n".encode() + third.to_json().encode()[:kept]
    path.write_bytes(torn)
    assert read(path) == [first, second]
    assert path.read_bytes() == torn  # who only reads leaves a file alone
    with Journal(path) as journal:
        assert list(journal.records) == [first.cell, second.cell]
        journal.append([third])
    assert read(path) == [first, second, third]


def test_a_whole_last_line_that_lost_its_end_is_torn_too(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    path.write_text(RECORD.to_json())
    assert read(path) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: Input data was truncated"),
        ("3", "line 2: Expected `object`, got `int`"),
        (
            RECORD.to_json().replace('"seed"', '"sead"'),
            "line 2: Object contains unknown field `sead`",
        ),
        (
            RECORD.to_json().replace('"error"', '"more": 1, "error"'),
            "line 2: Object contains unknown field `more`",
        ),
        (
            RECORD.to_json().replace(', "error": null', ""),
            "line 2: .*missing required field `error`",
        ),
        (
            RECORD.to_json().replace("0.3", '"much"'),
            "line 2: Expected `float`, got `str` - at .*rate",
        ),
    ],
)
def test_any_other_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "study.jsonl"
    path.write_text(f"{RECORD.to_json()}\n{line}\n{RECORD.to_json()}\n")
    for opened in (read, Journal):
        with pytest.raises(EraseError, match=message) as caught:
            opened(path)
        assert str(path) in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EraseError, match="erase bench STUDY"):
        read(tmp_path / "nowhere.jsonl")


def test_two_cannot_write_to_one_file_but_anybody_can_read(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    with Journal(path) as journal:
        journal.append([RECORD])
        with pytest.raises(EraseError, match="another `erase bench` is writing"):
            Journal(path)
        assert read(path) == [RECORD]
    Journal(path).__exit__(None, None, None)  # free again


def test_a_link_to_a_file_has_the_lock_of_the_file(tmp_path: Path) -> None:
    path, link = tmp_path / "study.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(path)
    with Journal(path), pytest.raises(EraseError, match=r"link\.jsonl to be free"):
        Journal(link)


def test_a_file_that_cannot_be_read_is_not_kept_locked(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    path.write_text("no record\n")
    with pytest.raises(EraseError, match="line 1"):
        Journal(path)
    path.write_text("")
    with Journal(path) as journal:
        assert journal.records == {}


def test_locking_adds_nothing_that_is_listed(tmp_path: Path) -> None:
    with Journal(tmp_path / "study.jsonl") as journal:
        journal.append([RECORD])
    listed = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert listed == ["study.jsonl"]


HOLDER = """
import sys, time
from erase.bench.records import Journal
with Journal(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_is_seen_by_other_processes_and_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    with forked.holder(HOLDER, path), pytest.raises(EraseError, match="to be free"):
        Journal(path)
    with Journal(path) as journal:
        journal.append([RECORD])


def test_a_file_that_takes_little_at_a_time_gets_all(tmp_path: Path) -> None:
    class Slow:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, content: memoryview) -> Any:
            return self.file.write(content[:100])

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    with Journal(tmp_path / "study.jsonl") as journal:
        journal._file = Slow(journal._file)  # type: ignore[assignment]
        journal.append(records(3))
    assert read(tmp_path / "study.jsonl") == records(3)


def test_records_are_not_added_to_a_pipe_or_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(
            EraseError, match=r"a regular file to add to; got .*a folder, a device or a pipe"
        ):
            Journal(path)
