"""`erase audit --write-back`: the user's own nodes table, its labels corrected."""

import csv
from pathlib import Path

import pandas as pd
import pytest

import erase
from cli.test_table_options import COLUMNS, QUICK, write_tables
from erase.cli import main
from erase.data.folder import write_folder
from graphs import meaningless_graph, two_communities

LABEL, CODE = 0, 1


def wrong_labels(folder: Path) -> None:
    """Give every eleventh node another label."""
    file = folder / "nodes.csv"
    names = {"apple": "pear", "pear": "plum", "plum": "apple", "Plum": "apple"}
    lines = file.read_text("utf-8").splitlines()
    for i in range(5, len(lines), 11):
        kind, rest = lines[i].split(";", 1)
        lines[i] = f"{names[kind]};{rest}"
    file.write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_tables(tmp_path / "garden")
    wrong_labels(folder)
    return folder


def audited(folder: Path, target: Path, *words: str) -> pd.DataFrame:
    """Audit a folder and write back; return labels_clean.csv by id, changed rows alone."""
    out = folder.parent / "out"
    command = ["audit", str(folder), *COLUMNS, *QUICK, "--write-back", str(target), *words]
    assert main([*command, "--out", str(out)]) == 0
    table = pd.read_csv(out / "labels_clean.csv", dtype=str, keep_default_na=False)
    changed: pd.DataFrame = table[table["changed"] == "True"].set_index("id")
    assert len(changed) > 3
    return changed


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_only_flagged_rows_differ(end: str, mark: str, folder: Path, tmp_path: Path) -> None:
    source = folder / "nodes.csv"
    head, *rows = source.read_text("utf-8").splitlines()
    rows = [_with_quotes(row) if i % 2 else row for i, row in enumerate(rows)]
    lines = [head, *rows[:7], "", *rows[7:]]  # a blank line is not a row
    before = mark + end.join(lines)  # without an end of the last line
    source.write_bytes(before.encode())
    target = tmp_path / "nodes-corrected.csv"
    changed = audited(folder, target, "--separator", ";")
    after = target.read_bytes().decode()
    assert source.read_bytes().decode() == before
    old, new = before.split(end), after.split(end)
    assert len(old) == len(new)
    differ = {}
    for a, b in zip(old, new, strict=True):
        if a != b:
            assert a.split(";", 1)[1] == b.split(";", 1)[1]
            differ[next(csv.reader([b], delimiter=";"))[CODE]] = b.split(";")[LABEL]
    assert differ == changed["label"].to_dict()


def _with_quotes(row: str) -> str:
    kind, code, title, *others = row.split(";")
    return ";".join([kind, code, f'"{title}; ""quoted"""', *others])


def test_labels_stay_quoted_and_are_written_as_the_user_does(folder: Path) -> None:
    source = folder / "nodes.csv"
    head, *lines = source.read_text("utf-8").splitlines()
    names = {"apple": "01", "pear": '"02"', "plum": "3.0", "Plum": "3.0"}
    lines = [f"{names[line.split(';')[0]]};{line.split(';', 1)[1]}" for line in lines]
    source.write_text("\n".join([head, *lines]) + "\n", "utf-8")
    changed = audited(folder, source, "--max-false-alarms", "0.5")  # in place
    after = source.read_text("utf-8").splitlines()
    differ = [(a, b) for a, b in zip([head, *lines], after, strict=True) if a != b]
    assert len(differ) == len(changed)
    for a, b in differ:
        old, new = a.split(";")[LABEL], b.split(";")[LABEL]
        assert old.startswith('"') == new.startswith('"')
        assert new.strip('"') in ("01", "02", "3.0", "")


def test_a_parquet_table_keeps_its_types(folder: Path, tmp_path: Path) -> None:
    table = pd.read_csv(folder / "nodes.csv", sep=";")
    table["kind"] = table["kind"].astype("category")
    table["size, in m"] = table["size, in m"].astype("int8")
    table.to_parquet(folder / "nodes.parquet")
    table = pd.read_parquet(folder / "nodes.parquet")
    (folder / "nodes.csv").unlink()
    target = tmp_path / "new" / "nodes.parquet"
    changed = audited(folder, target)
    after = pd.read_parquet(target)
    pd.testing.assert_frame_equal(after.drop(columns="kind"), table.drop(columns="kind"))
    assert after["kind"].dtype.name == "category"
    old, new = (each["kind"].astype(object).fillna("") for each in (table, after))
    differ = dict(zip(table["code"][old != new], new[old != new], strict=True))
    assert differ == changed["label"].to_dict()


@pytest.mark.parametrize(
    ("graph", "words", "message"),
    [
        ("debian", ["--write-back", "a.csv"], "got the dataset 'debian'"),
        ("g.npz", ["--write-back", "a.csv"], "a folder with nodes and edges tables"),
        ("arrays", ["--write-back", "a.csv"], "a folder with nodes and edges tables"),
        ("garden", ["--write-back", "a.parquet"], "ends in .csv"),
        ("garden", ["--write-back", "garden/edges.csv"], "a table of nodes to write"),
        ("garden", ["--write-back", "a.csv", "--noise", "pair:0.2"], "got --noise pair:0.2"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_audit(
    graph: str,
    words: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder.parent)
    erase.write_graph(two_communities(), "g.npz")
    write_folder(two_communities(), "arrays")
    before = sorted(folder.parent.rglob("*"))
    assert main(["audit", graph, *words]) == 2
    assert message in capsys.readouterr().err
    assert sorted(folder.parent.rglob("*")) == before


def test_labels_that_cannot_be_audited_are_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    erase.write_graph(meaningless_graph(), tmp_path / "random")
    words = ["--write-back", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out")]
    assert main(["audit", str(tmp_path / "random"), *QUICK, *words]) == 2
    assert "for --write-back; got " in capsys.readouterr().err
    assert not (tmp_path / "a.csv").exists()
    assert (tmp_path / "out" / "summary.json").exists()
