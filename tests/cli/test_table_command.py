"""`erase table` and `erase list tables` as a user types them."""

import csv
import io
from pathlib import Path

import pytest

from erase.bench.records import Cell, Record
from erase.bench.tables import FORMATS, TABLES
from erase.cli import main
from erase.cli.table import FORMATS_BY_SUFFIX


def write(path: Path, *records: Record) -> str:
    path.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
    return str(path)


def run(accuracy: float, method: str = "erase", protocol: str = "paper", seed: int = 0) -> Record:
    cell = Cell("cora", "symmetric", 0.3, method, {}, protocol, seed)
    return Record(cell, {"test_accuracy": accuracy})


@pytest.fixture
def paper(tmp_path: Path) -> str:
    return write(tmp_path / "paper.jsonl", run(0.8), run(0.82, seed=1))


def test_prints_a_table_from_several_files(
    tmp_path: Path, paper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rivals = write(tmp_path / "rivals.jsonl", run(0.7, "ce"), run(0.71, "ce", seed=1))
    assert main(["table", "main", paper, rivals]) == 0
    text = capsys.readouterr().out
    assert "**81.00 ± 1.41** (81.61, −0.61)" in text
    assert "| CE | – (78.65) | – (76.72) | 70.50 ± 0.71 (73.72, −3.22) |" in text
    assert text.endswith("\n")


def test_formats(paper: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "main", paper, "--format", "latex"]) == 0
    assert r"\toprule" in capsys.readouterr().out
    assert main(["table", "main", paper, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["mean"] for row in rows if row["mean"]] == ["81"]


def test_every_format_has_a_suffix() -> None:
    assert list(FORMATS_BY_SUFFIX.values()) == list(FORMATS)


def test_protocol_chooses_the_records(
    tmp_path: Path, paper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = write(tmp_path / "honest.jsonl", run(0.6, protocol="honest"))
    assert main(["table", "main", paper, honest, "--protocol", "honest"]) == 0
    assert "**60.00** [81.61]" in capsys.readouterr().out


def test_out_is_the_same_text_in_a_file(
    tmp_path: Path, paper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", "main", paper]) == 0
    text = capsys.readouterr().out
    out = tmp_path / "tables" / "main.md"
    assert main(["table", "main", paper, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8") == text


def test_records_are_not_replaced_by_their_table(
    tmp_path: Path, paper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path(paper).read_bytes()
    (tmp_path / "link").symlink_to(paper)
    for out in (paper, str(tmp_path / "link")):
        assert main(["table", "main", paper, "--out", out]) == 2
        assert "the records. Name another --out." in capsys.readouterr().err
    assert Path(paper).read_bytes() == before


def test_a_file_has_the_format_of_its_name(
    tmp_path: Path, paper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, kind in (("t.tex", "latex"), ("t.CSV", "csv"), ("t.txt", "md")):
        main(["table", "main", paper, "--format", kind])
        text = capsys.readouterr().out
        assert main(["table", "main", paper, "--out", str(tmp_path / name)]) == 0
        capsys.readouterr()
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert main(["table", "main", paper, "--format", "md", "--out", str(tmp_path / "u.csv")]) == 2
    assert "or --format csv; got --format md" in capsys.readouterr().err
    assert not (tmp_path / "u.csv").exists()


def test_records_of_another_table_are_told_which_study_to_run(
    paper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", "depth", paper]) == 2
    assert "`erase bench depth` makes them" in capsys.readouterr().err


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "main", str(tmp_path / "no.jsonl")]) == 2
    assert "no.jsonl" in capsys.readouterr().err


def test_list_names_every_table_and_its_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "tables"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(TABLES)
    assert "(study heads)" in next(line for line in lines if line.startswith("classifiers"))
