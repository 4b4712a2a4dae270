"""What a reviewer is shown: rows of the table, telling features, some neighbours of a hub."""

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from erase.audit import Audit
from erase.review import rows
from erase.review.evidence import Evidence, details_of, feature_details, table_details
from erase.review.rows import CsvRows
from reviewed_graphs import MINI
from synthetic_audits import planted_audit


def with_edges(audit: Audit, pairs: list[tuple[int, int]]) -> Audit:
    edges = np.array([*pairs, *((b, a) for a, b in pairs)]).T
    return replace(audit, edge_index=edges[:, np.argsort(edges[0], kind="stable")])


def test_the_row_is_shown_without_its_labels_and_with_texts_first(tmp_path: Path) -> None:
    """The label is not shown twice, and what others decided does not sway the reviewer."""
    table = pd.DataFrame(
        {
            "id": ["a", "b"],
            "team": ["x", "y"],
            "size": ["1", ""],
            "trusted": ["y", ""],
            "about": ["long " * 1000, "short"],
        }
    )
    table.to_csv(tmp_path / "nodes.csv", index=False)
    options = {"label": "team", "text": ["about"]}
    show = table_details(tmp_path, options, 2)
    assert show is not None
    assert [name for name, _ in show(0)] == ["about", "id", "size"]
    assert len(show(0)[0][1]) == 2_000
    assert show(1) == [("about", "short"), ("id", "b")]  # empty cells are left out
    assert table_details(tmp_path, options, 3) is None  # rows that are no nodes: none is shown
    assert details_of(Data(num_nodes=2), tmp_path, options) is not None


ROWS = [
    ["a", "plain", "1"],
    ["b", 'a "quoted" word', "2"],
    ["c", "two\nlines, and a comma", "3"],
    ["d", "", ""],
    ["e", 'ends with "', "ü €"],
]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("chunk", [1, 2, 7, 2**24])
def test_rows_are_read_from_the_file_when_they_are_shown(
    chunk: int,
    separator: str,
    end: str,
    mark: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "_CHUNK", chunk)
    text = StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end)
    writer.writerows([["id", "about", "size"], *ROWS])
    file = tmp_path / "nodes.csv"
    written = mark + text.getvalue().removesuffix(end)
    file.write_text(written, encoding="utf-8", newline="")
    assert CsvRows(file, separator).count == 5
    show = table_details(tmp_path, {}, 5)
    assert show is not None
    names = ["id", "about", "size"]
    for node in (4, 0, 2, 1, 3):
        wanted = [pair for pair in zip(names, ROWS[node], strict=True) if pair[1]]
        assert show(node) == wanted
    other = tmp_path / "other.csv"
    other.write_text("id\nz\n")
    other.replace(file)  # by a corrected table, for example
    assert show(1)[0] == ("id", "b")


def test_long_cells_and_short_rows_are_shown(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(f"id,about,size\na,{'long ' * 40_000},1\nb\n")
    show = table_details(tmp_path, {}, 2)
    assert show is not None
    assert [(name, len(text)) for name, text in show(0)] == [
        ("id", 1),
        ("about", 2_000),
        ("size", 1),
    ]
    assert show(1) == [("id", "b")]


def test_rows_of_a_file_that_was_changed_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text("id,size\na,1\nb,2\n")
    show = table_details(tmp_path, {}, 2)
    assert show is not None
    assert show(1) == [("id", "b"), ("size", "2")]
    file.write_text("id,size\nb,2\na,1\nc,3\n")
    assert show(1) == []


@pytest.mark.parametrize(
    "text",
    [
        'id,size\na,5"\nb,6"\nc,7\n',  # inches: these quotes enclose nothing
        "id,size\ra,5\rb,6\rc,7\r",
        "id,size\na,5\n\nb,6\nc,7\n\n",  # empty lines are no rows
    ],
)
def test_unusual_tables_are_shown_too(text: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(text, newline="")
    assert CsvRows(tmp_path / "nodes.csv", ",").count != 3
    show = table_details(tmp_path, {}, 3)
    assert show is not None
    assert show(2) == [("id", "c"), ("size", "7")]
    assert show(0)[1][1].startswith("5")


def test_the_rarest_features_come_first() -> None:
    words = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    graph = Data(x=words.to_sparse_csr(), feature_names=["common", "rare", "other"])
    show = feature_details(graph)
    assert show is not None
    assert show(0) == [("features", "rare, common")]
    dense = Data(x=torch.tensor([[0.5, -2.0, 0.0]]), feature_names=["a", "b", "c"])
    show = feature_details(dense)
    assert show is not None
    assert show(0) == [("b", "-2"), ("a", "0.5")]
    assert feature_details(Data(x=torch.eye(2))) is None


def test_of_a_hub_every_label_is_shown_in_proportion() -> None:
    audit = planted_audit(1_000, MINI, unlabelled=0.5)
    audit = with_edges(audit, [(0, i) for i in range(1, 1_000)])
    evidence = Evidence(audit)
    view = evidence.view(0)
    assert view["degree"][0] == 999
    ends = [b for a, b in view["edges"] if a == 0]
    shown = audit.given[[view["id"][place] for place in ends]]
    assert len(shown) == 200
    assert (shown >= 0).all()  # there are enough labelled ones
    all_labels = audit.given[1:][audit.given[1:] >= 0]
    for k in range(3):
        assert abs((shown == k).mean() - (all_labels == k).mean()) < 0.01
    few = np.where(np.arange(1_000) < 50, audit.given, -1)
    labelled = few >= 0
    decision = audit.decision
    rows = labelled[audit.given >= 0]
    part = replace(
        decision,
        **{name: getattr(decision, name)[rows] for name in ("quality", "posterior", "suggested",
                                                            "is_issue", "verdict")},
    )  # fmt: skip
    view = Evidence(replace(audit, given=few, decision=part)).view(0)
    shown = few[[view["id"][b] for a, b in view["edges"] if a == 0]]
    assert (shown >= 0).sum() == labelled[1:].sum()  # every labelled one, and others up to 200
    assert len(shown) == 200


def test_a_node_is_not_its_own_look_alike() -> None:
    audit = planted_audit(60, MINI, unlabelled=0.0)
    for node in (0, 7):
        view = Evidence(audit).view(node)
        assert len(view["alike"]) == 8
        assert 0 not in view["alike"]
