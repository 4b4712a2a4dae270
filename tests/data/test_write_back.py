"""Corrected labels in a table: which cells change, and how they are written."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from erase.data.write_back import Corrections, write_back
from erase.errors import EraseError

CHANGES = Corrections(np.array([0, 1, 0, -1, 1]), np.array([0, 0, -1, -1, 2]), ("a", "b", 'c,"d"'))
IDS = ["u", "v", "w", "x", "y"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("u,a\nv,b\nw,a\nx,\ny,b", 'u,a\nv,a\nw,\nx,\ny,"c,""d"""'),
        ('u,"a"\n"v","b"\nw,"a"\nx\ny,"b"\n', 'u,"a"\n"v","a"\nw,""\nx\ny,"c,""d"""\n'),
        (
            'u,a,"1\n2"\nv,b,"3\n4"\nw, a\nx,,\ny,b,',
            'u,a,"1\n2"\nv,a,"3\n4"\nw,\nx,,\ny,"c,""d""",',
        ),
    ],
    ids=["plain", "quoted and short", "several lines"],
)
def test_labels_are_replaced_and_removed(rows: str, expected: str, tmp_path: Path) -> None:
    header = "id,label,about\n" if rows.count(",") > 6 else "id,label\n"
    (tmp_path / "nodes.csv").write_text(header + rows)
    assert write_back(tmp_path / "nodes.csv", tmp_path / "new.csv", CHANGES, IDS, {}) == 3
    assert (tmp_path / "new.csv").read_text() == header + expected


def test_long_text_is_no_obstacle(tmp_path: Path) -> None:
    rows = [f"{'long ' * 50_000},{id},{label}" for id, label in zip(IDS, "abaab", strict=True)]
    (tmp_path / "nodes.csv").write_text("\n".join(["about,id,label", *rows]))
    write_back(tmp_path / "nodes.csv", tmp_path / "new.csv", CHANGES, IDS, {})
    table = pd.read_csv(tmp_path / "new.csv", keep_default_na=False)
    assert table["label"].tolist() == ["a", "a", "", "a", 'c,"d"']
    assert table["about"].str.len().tolist() == [250_000] * 5


def test_parquet_without_a_label_has_none(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": IDS, "label": [7.0, 9.0, 7.0, np.nan, 9.0], "size": range(5)})
    table.to_parquet(tmp_path / "nodes.parquet")
    changes = Corrections(CHANGES.given, np.array([0, 0, -1, -1, 1]), ("7", "9"))
    assert write_back(tmp_path / "nodes.parquet", tmp_path / "new.parquet", changes, IDS, {}) == 2
    new = pd.read_parquet(tmp_path / "new.parquet")
    pd.testing.assert_frame_equal(new, table.assign(label=[7.0, 7.0, np.nan, np.nan, 9.0]))


def test_another_table_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label\nv,b\nu,a\nw,a\nx,\ny,b\n")
    with pytest.raises(EraseError, match="with other rows"):
        write_back(tmp_path / "nodes.csv", tmp_path / "new.csv", CHANGES, IDS, {})
    assert [file.name for file in tmp_path.iterdir()] == ["nodes.csv"]


def test_merged_names_get_the_usual_spelling(tmp_path: Path) -> None:
    changes = Corrections(np.array([0, 0, 0, 1, -1]), np.array([0, 0, 0, 0, -1]), ("a", "b"), True)
    (tmp_path / "nodes.csv").write_text("id,label\nu,a\nv,A\nw,a\nx,b\ny,\n")
    assert write_back(tmp_path / "nodes.csv", tmp_path / "new.csv", changes, IDS, {}) == 2
    assert (tmp_path / "new.csv").read_text() == "id,label\nu,a\nv,a\nw,a\nx,a\ny,\n"
