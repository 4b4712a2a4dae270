"""CSV files of nodes and edges: columns, separators, types and options."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import erase
from erase.data import tables
from erase.data.files import read_graph, write_graph
from erase.data.tables import TableOptions, read_csv
from erase.data.task import NodeTask
from erase.errors import EraseError


def write(folder: Path, nodes: str, edges: str = "source,target\n1,2\n") -> Path:
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    (folder / "edges.csv").write_text(edges, encoding="utf-8")
    return folder


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(separator: str, tmp_path: Path) -> None:
    text = "id;label;size\n1;a;2.5\n2;b;3.5\n".replace(";", separator)
    write(tmp_path, text, "source;target;weight\n1;2;4\n".replace(";", separator))
    task = NodeTask.of(read_graph(tmp_path))
    assert task.num_features == 1
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [4, 4]


def test_a_separator_can_be_given(tmp_path: Path) -> None:
    write(tmp_path, "id:label\n1:a\n2:b\n", "source:target\n1:2\n")
    assert NodeTask.of(read_graph(tmp_path, separator=":")).num_nodes == 2


def test_columns_are_named_as_in_python(tmp_path: Path) -> None:
    text = "key,who,kind,size,page\n007,Ann,a,1,red wine\n008,Bob,b,2,white wine\n"
    write(tmp_path, text, "from,to,km\n007,008,3\n")
    data = read_graph(
        tmp_path, id="key", name="who", label="kind", text=["page"], features=["size"], weight="km"
    )
    assert data.node_ids == ["007", "008"]
    assert data.node_names == ["Ann", "Bob"]
    assert data.edge_weight.tolist() == [3]
    kinds = {c["name"]: c["kind"] for c in data.feature_contract["columns"]}
    assert kinds == {"size": "number", "page": "text"}


def test_a_column_can_be_the_name_and_a_feature() -> None:
    nodes = pd.DataFrame({"id": [1, 2], "label": ["a", "b"], "title": ["red wine", "white wine"]})
    edges = pd.DataFrame({"source": [1], "target": [2]})
    named = NodeTask.from_tables(nodes, edges, name="title")
    assert named.feature_contract.source == "edges"
    both = NodeTask.from_tables(nodes, edges, name="title", text=["title"])
    assert both.node_names == ("red wine", "white wine")
    assert both.num_features == 3
    again = NodeTask.of((nodes[::-1], edges), contract=both.feature_contract)
    torch.testing.assert_close(again.x.to_dense(), both.x.to_dense().flip(0))
    assert again.node_names == ("white wine", "red wine")


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_a_table_read_in_parts_is_the_whole_table(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 30
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "id": [f"{i:03d}" for i in range(n)],
            "label": ["a", "b"] * (n // 2),
            "count": rng.integers(0, 300, n),
            "debt": rng.integers(-300, 5, n),
            "large": 2**60 + np.arange(n),
            "gaps": [None if i % 7 == 0 else 2**30 + i for i in range(n)],
            "size": rng.random(n),
            "late": [None] * (n - 1) + ["word"],
        }
    )
    table.to_csv(tmp_path / "nodes.csv", index=False)
    monkeypatch.setattr(tables, "_CELLS_AT_ONCE", rows * table.shape[1])
    read = read_csv(tmp_path / "nodes.csv", "nodes", TableOptions())
    for name in ("id", "label", "count", "debt", "large"):
        assert read[name].tolist() == table[name].tolist()
    np.testing.assert_array_equal(read["gaps"], table["gaps"])
    np.testing.assert_allclose(read["size"], table["size"], rtol=1e-6)
    assert read["late"].tolist()[-1] == "word"


def test_a_wide_table_of_counts_stays_small_and_sparse(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = (rng.random((40, 300)) < 0.05).astype(int)
    table = pd.DataFrame(counts, columns=[f"w{j}" for j in range(300)])
    table.insert(0, "id", range(40))
    table.insert(1, "label", ["a", "b"] * 20)
    write(tmp_path, table.to_csv(index=False))
    read = read_csv(tmp_path / "nodes.csv", "nodes", TableOptions())
    assert set(map(str, read.dtypes[2:])) == {"uint8"}
    data = read_graph(tmp_path)
    assert data.x.layout == torch.sparse_csr
    np.testing.assert_array_equal(data.x.to_dense(), counts)


def test_options_for_columns_are_refused_where_there_are_none(tmp_path: Path) -> None:
    data = erase.from_arrays([(0, 1)], ["goverment", *["government", "company"] * 30])
    write_graph(data, tmp_path / "g.npz")
    with pytest.raises(EraseError, match=r"label=… with tables; got 'g.npz'") as caught:
        read_graph(tmp_path / "g.npz", label="kind")
    assert caught.value.option == "label"
    assert "Leave out --label …" in caught.value.for_command_line()


@pytest.mark.parametrize("form", ["g.npz", "folder"])
def test_ids_names_weights_and_contract_come_back(form: str, tmp_path: Path) -> None:
    nodes = pd.DataFrame(
        {
            "id": [7, 8, 9],
            "name": ["Ann", "Bob", "Ann"],
            "label": ["a", "b", "a"],
            "town": ["Rome", "Rome", "Rome"],
            "age": [1, 2, 4],
        }
    )
    edges = pd.DataFrame({"source": [7, 9], "target": [8, 8], "weight": [0.5, 2]})
    data = erase.from_tables(nodes, edges)
    write_graph(data, tmp_path / form)
    back, first = NodeTask.of(read_graph(tmp_path / form)), NodeTask.of(data)
    assert back.node_names == first.node_names == ("Ann", "Bob", "Ann")
    # a table of ids is read as it is written: 007 is no number
    ids = [7, 8, 9] if form == "g.npz" else ["7", "8", "9"]
    assert list(back.node_ids or ()) == ids
    torch.testing.assert_close(back.edge_weight, first.edge_weight)
    torch.testing.assert_close(back.x.to_dense(), first.x.to_dense())
    if form == "g.npz":
        assert back.feature_contract == first.feature_contract
        assert back.notes == first.notes


def test_a_table_without_an_edge_is_a_graph() -> None:
    nodes = pd.DataFrame({"id": [1, 2], "label": ["a", "b"], "size": [1, 2]})
    edges = pd.DataFrame({"source": [], "target": []})
    assert NodeTask.from_tables(nodes, edges).num_edges == 0
    weighted = edges.assign(weight=pd.Series(dtype=object))
    assert NodeTask.from_tables(nodes, weighted).num_edges == 0


NODES = pd.DataFrame(
    {
        "id": [1, 2, 3],
        "label": ["a", "b", "a"],
        "title": ["red wine", "red beer", "white wine"],
        "size": [1.5, 2, 4],
    }
)
EDGES = pd.DataFrame({"source": [1, 2], "target": [2, 3], "weight": ["2", "x"]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["id"]}, "in features=…; got 'id', which holds the node ids. Leave it out"),
        (
            {"text": ["label"], "no_weights": True},
            "in text=…; got 'label', which holds the labels. Leave it out",
        ),
        ({"weight": "source"}, "a column of weights; got 'source', the ends of the edges"),
        ({}, "in the column 'weight' of the edges; got 'x' at the edge from 2 to 3. Correct it"),
        (
            {"id": "title"},
            "in the column 'source', the edge from 1 to 2.*these ids: id=…",
        ),
    ],
)
def test_a_column_has_one_meaning(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        erase.from_tables(NODES, EDGES, **options)


@pytest.mark.parametrize(
    "option", [{"text": "title"}, {"features": ["size", "title"], "text": "title"}]
)
def test_names_are_features_where_they_are_asked_for(option: dict[str, Any]) -> None:
    edges = EDGES[["source", "target"]]
    task = NodeTask.from_tables(NODES, edges, name="title", **option)
    assert task.node_names == ("red wine", "red beer", "white wine")
    assert [column.name for column in task.feature_contract.columns] == ["title", "size"]
    other = NodeTask.of((NODES, edges), labelled=False, contract=task.feature_contract)
    torch.testing.assert_close(other.x.to_dense(), task.x.to_dense())
    plain = NodeTask.from_tables(NODES, edges, name="title")
    assert [column.name for column in plain.feature_contract.columns] == ["size"]


def test_one_table_is_not_a_graph_whatever_its_options(tmp_path: Path) -> None:
    NODES.to_csv(tmp_path / "nodes.csv")
    with pytest.raises(EraseError, match="Pass the folder that holds the two tables"):
        read_graph(tmp_path / "nodes.csv", label="kind")


def test_a_folder_keeps_the_feature_contract_weights_and_ids(tmp_path: Path) -> None:
    nodes = pd.DataFrame({"id": [7, 8, 9], "label": ["a", "b", "a"], "age": [1, 2, 4]})
    edges = pd.DataFrame({"source": [7, 9], "target": [8, 8], "weight": [0.5, 2]})
    data = erase.from_tables(nodes, edges)
    erase.write_folder(data, tmp_path / "g")
    back = NodeTask.of(read_graph(tmp_path / "g"))
    assert back.feature_contract == NodeTask.of(data).feature_contract
    assert list(back.node_ids or ()) == [7, 8, 9]
    torch.testing.assert_close(back.edge_weight, NodeTask.of(data).edge_weight)


TITLES = ["red wine from the south", "white wine from the north", "dark beer of the town"]


def titled(count: int = 30, **columns: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    titles = [f"{TITLES[i % 3]} number {i}" for i in range(count)]
    nodes = pd.DataFrame({"id": range(100, 100 + count), "label": ["a", "b", "c"] * (count // 3)})
    nodes = nodes.assign(title=titles, **columns)
    return nodes, pd.DataFrame({"source": [100, 101], "target": [101, 102]})


def test_a_title_is_shown_as_the_name_and_serves_as_text() -> None:
    nodes, edges = titled()
    task = NodeTask.from_tables(nodes, edges)
    assert task.node_names == tuple(nodes["title"])
    assert [(c.name, c.kind) for c in task.feature_contract.columns] == [("title", "text")]
    assert "Names of the nodes: the column 'title'." in task.notes
    assert any("text (TF-IDF): 'title'" in note for note in task.notes)


def test_a_title_of_the_fit_names_nodes_tomorrow_too() -> None:
    nodes, edges = titled()
    contract = NodeTask.from_tables(nodes, edges).feature_contract
    equal = nodes.assign(title="dark beer of the town")
    task = NodeTask.of((equal, edges), labelled=False, contract=contract)
    assert set(task.node_names or ()) == {"dark beer of the town"}
    assert task.feature_contract.columns == contract.columns


def test_titles_that_nodes_share_are_no_names() -> None:
    nodes, edges = titled()
    task = NodeTask.from_tables(nodes.assign(title=["Mr", "Ms", "Dr"] * 10), edges)
    assert task.node_names == tuple(map(str, range(100, 130)))
    assert [(c.name, c.kind) for c in task.feature_contract.columns] == [("title", "category")]


@pytest.mark.parametrize("title", ["label", "split", "trusted"])
def test_a_title_with_another_meaning_is_no_name(title: str) -> None:
    nodes, edges = titled(count=6, size=range(6))
    values = {"label": "abcabc", "split": ["train", "train", "test", "", "", ""], "trusted": "abc"}
    words = [*values[title], *[""] * 6][:6]
    task = NodeTask.from_tables(nodes.assign(title=words), edges, **{title: "title"})
    assert task.node_names == tuple(map(str, range(100, 106)))


def test_a_column_called_name_is_shown_and_a_note_says_that_it_is_no_text() -> None:
    nodes, edges = titled()
    nodes = nodes.rename(columns={"title": "name"}).assign(size=range(30), title=nodes["title"])
    task = NodeTask.from_tables(nodes.drop(columns="title"), edges, features=["size"])
    assert task.node_names == tuple(nodes["name"])
    assert [c.name for c in task.feature_contract.columns] == ["size"]
    assert any("'name'; it is no feature (to use it as text" in note for note in task.notes)
    both = NodeTask.from_tables(nodes.assign(name=[f"n{i}" for i in range(30)]), edges)
    assert both.node_names == tuple(f"n{i}" for i in range(30))
    assert "title" in [c.name for c in both.feature_contract.columns]
    assert not any("Names of the nodes" in note for note in both.notes)


def test_ids_can_be_the_names() -> None:
    nodes, edges = titled()
    task = NodeTask.from_tables(nodes, edges, name="id")
    assert task.node_names == tuple(map(str, range(100, 130)))
    assert "title" in [c.name for c in task.feature_contract.columns]


@pytest.mark.parametrize("option", ["label", "name", "trusted"])
def test_a_missing_column_is_told_with_all_that_there_are(option: str) -> None:
    nodes, edges = titled()
    with pytest.raises(EraseError, match=r"\['id', 'label', 'title'\]"):
        NodeTask.from_tables(nodes, edges, **{option: "kind"})


def test_columns_that_are_taken_by_their_place_are_told() -> None:
    nodes = pd.DataFrame({"code": ["a", "b"], "label": ["x", "y"]})
    edges = pd.DataFrame({"from": ["a"], "to": ["b"]})
    notes = ["Ids of the nodes: the column 'code', the first one."]
    notes.append("Ends of the edges: the columns 'from' and 'to'.")
    assert erase.from_tables(nodes, edges).notes[:2] == notes
    chosen = erase.from_tables(nodes, edges, id="code", source="from", target="to")
    assert not {*notes} & {*(chosen.to_dict().get("notes") or ())}
    usual = erase.from_tables(nodes.set_index("code"), edges.set_axis(["source", "target"], axis=1))
    assert not {*notes} & {*(usual.to_dict().get("notes") or ())}


def test_ids_match_in_spite_of_blanks_and_of_whole_numbers_written_as_floats(
    tmp_path: Path,
) -> None:
    write(tmp_path, "id,label\n455,a\n7,b\n12,a\n", "source,target\n455.0,7\n12.00,455\n")
    assert read_graph(tmp_path).edge_index.tolist() == [[0, 2], [1, 0]]
    nodes = pd.DataFrame({"id": ["ART-1 ", "ART-2"], "label": ["a", "b"]})
    edges = pd.DataFrame({"source": ["ART-1"], "target": [" ART-2"]})
    data = erase.from_tables(nodes, edges)
    assert data.edge_index.tolist() == [[0], [1]]
    assert data.node_ids == ["ART-1 ", "ART-2"]
    floats = pd.DataFrame({"source": [455.0], "target": [7.0]})
    whole = pd.DataFrame({"id": ["455", "7"], "label": ["a", "b"]})
    assert erase.from_tables(whole, floats).edge_index.tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("ids", "end"),
    [
        (["1", "1.0"], " 1"),  # either
        (["v1", "2"], "2.0"),  # ids are no numbers
        (["1", "2"], "1.5"),
        (["A", "A "], " A"),
        (["007", "8"], "7"),
    ],
)
def test_ids_that_could_be_another_node_do_not_match(ids: list[str], end: str) -> None:
    nodes = pd.DataFrame({"id": ids, "label": ["a", "b"]})
    edges = pd.DataFrame({"source": [end], "target": [ids[1]]})
    with pytest.raises(EraseError, match=f"'{end}' in the column 'source', the edge from '{end}'"):
        erase.from_tables(nodes, edges)


def test_errors_name_the_node(tmp_path: Path) -> None:
    text = "id,label,price,split\nA,x,1,train\nB,y,2,test\nC,x,dear,train\n"
    write(tmp_path, text, "source,target\nA,B\n")
    with pytest.raises(EraseError, match="numbers in the column 'price'; got 'dear' at node 'C'"):
        read_graph(tmp_path)
    write(tmp_path, text.replace("dear", "3").replace("test", "dev"), "source,target\nA,B\n")
    with pytest.raises(EraseError, match="got 'dev' at node 'B'"):
        read_graph(tmp_path)
    write(tmp_path, text.replace("C,", "A,"))
    with pytest.raises(EraseError, match=r"got 'A' again in row 3 of the nodes \(line 4 of a CSV"):
        read_graph(tmp_path)


@pytest.mark.parametrize("label", [["a", "b", "a"], [0, 1, 0]])
def test_nothing_to_merge_is_told(label: list[Any], tmp_path: Path) -> None:
    nodes = NODES.assign(label=label)
    none = "No class name looked misspelt."
    data = erase.from_tables(nodes, EDGES[["source", "target"]], merge_classes=True)
    assert none in data.notes
    write_graph(data, tmp_path / "g.npz")
    assert none in read_graph(tmp_path / "g.npz", merge_classes=True).notes
    assert none in erase.from_arrays([(0, 1)], ["a", "b"], merge_classes=True).notes
    assert none not in erase.from_tables(nodes, EDGES[["source", "target"]]).notes


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("table", ["nodes", "edges"])
def test_a_csv_in_another_encoding_is_told_with_what_to_do(
    encoding: str, table: str, tmp_path: Path
) -> None:
    write(tmp_path, "id,label\nMüller,a\nb,b\n", "source,target\nMüller,b\n")
    file = tmp_path / f"{table}.csv"
    file.write_text(file.read_text(encoding="utf-8"), encoding=encoding)
    message = f"a table of {table}, a CSV in UTF-8; got '{table}.csv', which is in another encoding"
    with pytest.raises(EraseError, match=f'{message}. Save it as "CSV UTF-8"'):
        read_graph(tmp_path)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_csv_is_told(content: str, tmp_path: Path) -> None:
    write(tmp_path, content)
    with pytest.raises(EraseError, match=r"got 'nodes\.csv', which is empty\. Copy or write it"):
        read_graph(tmp_path)
