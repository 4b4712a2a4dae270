"""The section on speed shows what the records hold, and only that."""

from pathlib import Path

from pace import read_lines, speed_section

EPOCH = {
    "measure": "epoch with selection",
    "dataset": "cora",
    "ours_seconds": 0.004,
    "straightforward_seconds": 0.1,
    "ratio": 25.0,
    "machine": "a GPU",
}
MANY = {
    "measure": "10 runs at once",
    "dataset": "cora",
    "one_seconds": 0.004,
    "many_seconds": 0.01,
    "ratio": 2.5,
    "gigabytes": 1.91,
    "machine": "a GPU",
}
FIT = {
    "measure": "fit",
    "dataset": "citations",
    "options": {"num_nodes": 169343},
    "epochs": 3,
    "peak_gigabytes": 5.64,
    "seconds_per_epoch": 22.92,
    "machine": "2 cores",
}
GROWTH = {
    "measure": "twice the size",
    "dataset": "citations",
    "options": {"num_nodes": 169343},
    "once_seconds": 18.04,
    "twice_seconds": 37.9,
    "ratio": 2.101,
    "epochs": 4,
    "machine": "2 cores",
}
RELABELLING = {
    "measure": "fit of relabelling",
    "dataset": "citations",
    "options": {"num_nodes": 169343},
    "seconds": 151.23,
    "gigabytes": 3.14,
    "fits": 2,
    "test_accuracy": 0.873,
    "machine": "2 cores",
}
PROFILE = {
    "dataset": "pubmed",
    "machine": "a GPU",
    "stages": [{"stage": "coding rates", "milliseconds": 3.1, "floor_milliseconds": 0.09}],
}


def test_steps_of_the_methods_stand_beside_the_papers() -> None:
    lines = [
        {"measure": "iteration", "machine": name, "steps": 9, "milliseconds": times}
        for name, times in (
            ("a GPU", {"ce": 5.04, "erase": 11.0}),
            ("2 cores", {"ce": 8, "erase": 150}),
        )
    ]
    text = speed_section(lines, [])
    assert "one run, Cora, ms | the paper, RTX 3090 | a GPU | 2 cores |" in text
    assert "| CE | – | 5.0 | 8.0 |" in text
    assert "| ERASE | 145 | 11.0 (−134.0) | 150.0 (+5.0) |" in text
    assert "Medians of 9 steps" in text


def test_every_measure_has_its_line() -> None:
    text = speed_section([EPOCH, MANY, FIT, GROWTH, RELABELLING], [PROFILE])
    assert "| Cora, a GPU | 4.0 | 100.0 | 25.0 |" in text
    assert "| 10 runs at once, Cora, a GPU | 10.0 | 4.0 | 2.50 | 1.9 |" in text
    assert "| ERASE, citations of 169,343 nodes, 2 cores | 22.92 | 5.6 | 3 |" in text
    assert "| citations of 169,343 nodes, 2 cores | 151.2 | 3.1 | 2 | 87.3 |" in text
    assert "169,343 nodes an epoch takes 2.10 times as long (37.9 s against 18.0 s" in text
    assert "| a GPU | PubMed |\n| --- | ---: |\n| coding rates | 3.10 (0.09) |" in text


def test_what_was_not_measured_is_left_out() -> None:
    text = speed_section([EPOCH], [])
    assert text.startswith("## Speed\n")
    assert text.count("| --- |") == 1
    assert "TF32 against" not in text


def test_reads_lines_of_json(tmp_path: Path) -> None:
    (tmp_path / "speed.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    assert read_lines(tmp_path / "speed.jsonl") == [{"a": 1}, {"a": 2}]
    assert read_lines(tmp_path / "absent.jsonl") == []
