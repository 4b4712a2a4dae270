"""Arrays, networkx graphs and tables become the graph they describe."""

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import erase
from erase.data.tables import from_tables
from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import path_graph, rare_features

EDGES = [[0, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize("form", ["[2,E]", "[E,2]", "scipy", "list", "torch"])
def test_from_arrays_equals_from_data(form: str) -> None:
    data, array = path_graph(), np.array(EDGES)
    edges: Any = {
        "[2,E]": array.T,
        "[E,2]": array,
        "scipy": sp.coo_matrix((np.ones(4), (array[:, 0], array[:, 1])), shape=(5, 5)),
        "list": EDGES,
        "torch": torch.tensor(EDGES),
    }[form]
    task = NodeTask.from_arrays(
        edges, data.y.numpy(), data.x.numpy(), train=[0, 1], val=data.val_mask.numpy(), num_nodes=5
    )
    expected = NodeTask.from_data(data)
    for name in ("x", "edge_index", "y", "train_mask", "val_mask"):
        assert torch.equal(getattr(task, name), getattr(expected, name))


@pytest.mark.parametrize("form", [np.array, torch.tensor, lambda ends: list(map(np.array, ends))])
def test_two_by_two_arrays_are_read_as_sources_and_targets(form: Any) -> None:
    task = NodeTask.from_arrays(form([[0, 1], [2, 2]]), y=[0, 1, 0])
    assert task.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]


@pytest.mark.parametrize("edges", [[(0, 2), (1, 2)], [[0, 2], [1, 2]], ((0, 2), (1, 2))])
def test_a_list_of_two_pairs_is_read_as_pairs(edges: Any) -> None:
    task = NodeTask.from_arrays(edges, y=[0, 1, 0])
    assert task.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": None}, "edges as an array of numbers; got None"),
        ({"edges": "0-1"}, "edges as an array of numbers; got '0-1'"),
        ({"edges": [(0, 1), (1,)]}, "edges as an array of numbers; got rows of different lengths"),
        ({"x": [[1.0], [1.0, 2.0], [1.0]]}, "features as an array.*rows of different lengths"),
        ({"node_names": 3}, "node_names as a list of names; got 3"),
        ({"train": ["a"]}, "train_mask as an array of numbers; got <U1"),
    ],
)
def test_what_is_no_array_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_arrays(**{"edges": [(0, 1)], "y": [0, 1, 0], **arguments})


def test_from_arrays_takes_names_sparse_features_and_no_edges() -> None:
    x = sp.csr_matrix(rare_features().numpy())
    task = NodeTask.from_arrays(
        [], ["no", "yes", None, "no", "no"], x, node_names=list("abcde"), class_names=["no", "yes"]
    )
    assert torch.equal(task.x.to_dense(), rare_features())
    assert task.num_edges == 0
    assert task.y.tolist() == [0, 1, -1, 0, 0]
    assert task.label_values.tolist() == ["no", "yes"]
    assert task.node_names == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("x", [None, np.ones((3, 2))])
def test_from_arrays_checks_the_number_of_nodes(x: Any) -> None:
    with pytest.raises(EraseError, match="4 nodes and 3 labels"):
        NodeTask.from_arrays([[0], [1]], [0, 1, 1], x, num_nodes=4)


def test_arrays_torch_dislikes_are_taken() -> None:
    """Read-only, reversed and big-endian arrays come from files, slices and pandas."""
    x = np.arange(1.0, 11.0, dtype=">f8").reshape(5, 2)[::-1]
    y = np.array([0, 1, 1, 0, 1], dtype=">i4")
    y.flags.writeable = False
    task = NodeTask.from_arrays(np.array(EDGES)[::-1], y, x, train=np.array([1, 0])[::-1])
    assert task.x[0].tolist() == [9.0, 10.0]
    assert task.y.tolist() == [0, 1, -1, -1, -1]
    assert task.edge_index.tolist() == NodeTask.from_data(path_graph()).edge_index.tolist()


def friends() -> nx.Graph:
    graph = nx.Graph()
    graph.add_node("ann", label="red", split="train", age=30, taste=[1.0, 0.0], home="Rome")
    graph.add_node("bob", label="blue", split="train", age=40, taste=[0.0, 1.0], home="Oslo")
    graph.add_node("cem", label="red", split="val", age=50, taste=[1.0, 1.0], home="Rome")
    graph.add_node("dan", label="blue", split="test", age=60, taste=[0.5, 0.5], home="Bonn")
    graph.add_node("eve", age=70, taste=[2.0, 0.5], home="Bonn")
    graph.add_edges_from([("ann", "cem"), ("bob", "dan"), ("eve", "eve")])
    return graph


def test_from_networkx() -> None:
    task = NodeTask.of(friends())
    assert task.node_names == ("ann", "bob", "cem", "dan", "eve")
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert task.label_values[task.y[:3]].tolist() == ["red", "blue", "red"]
    assert task.y[3:].tolist() == [-1, -1]
    assert task.train_index.tolist() == [0, 1]
    assert task.val_index.tolist() == [2]
    assert task.x[4].tolist() == pytest.approx([2**0.5, 2.0, 0.5, 1, 0, 0])
    assert task.node_ids == ("ann", "bob", "cem", "dan", "eve")
    assert "Features: 6 from numbers: 'age'; vectors: 'taste'; categories: 'home'." in task.notes


def test_an_undirected_networkx_graph_has_no_one_way_edges() -> None:
    undirected, directed = friends(), nx.DiGraph(friends().edges)
    directed.add_nodes_from(friends().nodes(data=True))
    assert not [note for note in NodeTask.of(undirected).notes if "one-way" in note]
    loops = "1 self-loop was dropped: the encoders add their own."
    assert loops in NodeTask.of(undirected).notes
    assert [note for note in NodeTask.of(directed).notes if note.startswith("2 one-way")]


def test_from_networkx_with_chosen_attributes() -> None:
    graph = friends().to_directed()
    nx.set_node_attributes(graph, {"ann": 0, "bob": 1, "dan": 1}, "team")
    task = NodeTask.from_networkx(graph, label="team", features="age", split="nowhere")
    assert task.x.flatten().tolist() == pytest.approx([-(2**0.5), -(0.5**0.5), 0, 0.5**0.5, 2**0.5])
    assert task.y.tolist() == [0, 1, -1, 1, -1]
    assert task.label_values.tolist() == [0, 1]
    both = NodeTask.from_networkx(graph, features=["taste", "age"])
    assert both.x[1].tolist() == pytest.approx([-(0.5**0.5), 0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "colour"}, r"'colour'; got \['label', 'split', 'age'.*label=…"),
        ({"features": ["size"]}, "'size'.*features=…"),
        ({"id": "home"}, "got id=…. Leave out id=…"),
        ({"weight": "km"}, "edges with an attribute 'km'; got none"),
        ({"colour": "red"}, r"options among id, name, label.*; got colour=…"),
    ],
)
def test_from_networkx_refuses_attributes_that_are_not_there(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_networkx(friends(), **arguments)


def test_a_node_without_a_feature_gets_the_median_or_is_named() -> None:
    graph = friends()
    del graph.nodes["dan"]["age"]
    task = NodeTask.from_networkx(graph, features="age")
    assert task.x[3].tolist() == pytest.approx(((45 - 47) / np.std([30, 40, 50, 45, 70]),))
    assert "Missing values became the column's median: 1 in 'age'." in task.notes
    with pytest.raises(EraseError, match="the column 'age'; got none at node 'dan'"):
        NodeTask.from_networkx(graph, features="age", strict=True)


@pytest.mark.parametrize("vectors", [[[1.0], [1.0, 2.0]], [["a"], ["b"]], [[[1.0]], [[2.0]]]])
def test_vectors_that_do_not_make_a_matrix_are_ignored(vectors: list[Any]) -> None:
    nodes = pd.DataFrame({"id": [1, 2], "label": [0, 1], "v": vectors})
    task = NodeTask.from_tables(nodes, pd.DataFrame({"a": [1], "b": [2]}))
    assert "Not used as features: 'v': values that are neither numbers nor text." in task.notes


# the columns `size`, standardised, and `old` of these tables
SCALED = [[-(1.8**0.5), 1], [-(0.2**0.5), 0], [0.2**0.5, 1], [1.8**0.5, 1]]


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    nodes = pd.DataFrame(
        {
            "size": [1.0, 2.0, 3.0, 4.0],
            "id": [10, 20, 30, 40],
            "label": ["x", "y", None, "x"],
            "split": ["Train", " train ", None, "test"],
            "old": [True, False, True, True],
            "remark": list("abcd"),
        }
    )
    edges = pd.DataFrame(
        {"weight": [1, 2], "source": [10, 20], "target": [30, 40], "since": [1999, 2001]}
    )
    return nodes, edges


def test_from_tables() -> None:
    task = NodeTask.of(tables())
    assert task.node_names == ("10", "20", "30", "40")
    assert task.node_ids == (10, 20, 30, 40)
    np.testing.assert_allclose(task.x.numpy(), SCALED, rtol=1e-6)
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert task.y.tolist() == [0, 1, -1, -1]
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [1, 2, 1, 2]
    assert task.notes[:2] == (
        "Columns of the edges are ignored: 'since'.",
        "Not used as features: 'remark': values that are all different and look like identifiers "
        "(to use one, name it: features=… or --features).",
    )


def test_from_tables_with_chosen_columns() -> None:
    nodes, edges = tables()
    nodes = nodes.rename(columns={"id": "key", "label": "kind", "split": "use"})
    edges = edges.rename(columns={"source": "from", "target": "to"})
    task = NodeTask.from_tables(
        nodes,
        edges,
        id="key",
        label="kind",
        features=["old"],
        split="use",
        source="to",
        target="from",
        weight="since",
    )
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [1999, 2001, 1999, 2001]
    assert task.x.tolist() == [[1], [0], [1], [1]]
    assert task.train_index.tolist() == [0, 1]
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]


def test_ids_match_across_numbers_and_text() -> None:
    nodes, edges = tables()
    task = NodeTask.from_tables(nodes, edges.astype({"source": str, "target": str}))
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]


def changed(which: int, **columns: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    both = list(tables())
    both[which] = both[which].assign(**columns)
    return both[0], both[1]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (
            changed(0, id=[10, 20, 20, 40]),
            r"column 'id'; got 20 again in row 3 of the nodes \(line 4 of",
        ),
        (changed(0, id=["a", "b", "", "c"]), "column 'id'; got none in row 3"),
        (changed(0, id=[10, 20, None, 40]), "column 'id'; got none in row 3"),
        (changed(0, split=["train", "dev", "", ""]), "got 'dev' at node 20. Use those words"),
        (changed(1, target=[30, 50]), "got 50 in the column 'target', the edge from 20 to 50. Add"),
        (changed(1, source=["10", "zoe"], target=["30", "40"]), "'zoe' in the column 'source'"),
        ((tables()[0], tables()[1][["source"]]), r"a column 'target'; got \['source'\]. Add"),
        ((tables()[0], tables()[1][["target", "weight"]]), "'target' for both ends. Name them sou"),
        ((pd.DataFrame(), tables()[1]), r"a column 'id'; got \[\]"),
        (
            (tables()[0].drop(columns="label"), tables()[1]),
            "'label' of the nodes table; got the columns 'size', 'id', 'split', 'old', 'remark'",
        ),
        ((tables()[0].iloc[:0], tables()[1].iloc[:0]), "0 nodes"),
        (
            changed(0, size=["1", "2", "3", "?"]),
            r"numbers in the column 'size'; got '\?' at node 40",
        ),
        (
            changed(0, size=[1, "two", "three", 4]),
            "'size'; got 'two' at node 20. Correct it, leave",
        ),
        (changed(0, size=[1, 2, np.ones(2), 4]), r"'size'; got array\(.* at node 30"),
        (changed(0, size=[1j, 2, 3, 4]), "real numbers in the column 'size'; got complex128"),
        (changed(0, size=pd.Series([1j, 2, 3, 4], dtype=object)), "'size'; got complex128"),
        (changed(0, size=[np.ones(2) * 1j] * 4), "real numbers in the column 'size'; got complex"),
        (changed(0, size=[1, 1e300, 3, 4]), r"1e\+300 at node 20, column 'size'.*rescale"),
        (changed(0, size=[[1.0], [1.0], [1e300], [1.0]]), r"1e\+300 at node 30, column 'size'"),
        (
            changed(0, size=[1, 2, np.inf, 4]),
            "finite numbers in the column 'size'; got inf at node 30",
        ),
        (changed(1, weight=[1, -1]), "edge weights from 0 on; got -1.0 at edge 1"),
        (changed(1, weight=["heavy", "light"]), "column 'weight' of the edges; got 'heavy'"),
        (changed(0, label=[0, 1, 1, 1j]), "whole numbers, or names; got complex128"),
        (
            (pd.concat([tables()[0], tables()[0]["size"]], axis=1), tables()[1]),
            "columns of different names; got two called 'size'. Rename or remove one",
        ),
        (
            (tables()[0], pd.concat([tables()[1], tables()[1]["source"]], axis=1)),
            "two called 'source'",
        ),
        (
            (tables()[0].drop(columns=["id", "size"]), tables()[1]),
            "a column of node ids; got the column 'label'. Name the one",
        ),
    ],
)
def test_bad_tables_are_refused(pair: tuple[pd.DataFrame, pd.DataFrame], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_tables(*pair)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(EraseError, match=r"a column 'key'; got \['size', 'id'"):
        NodeTask.from_tables(*tables(), id="key")


@pytest.mark.parametrize("name", ["id", "key"])
def test_ids_in_a_named_index_are_used(name: str) -> None:
    nodes, edges = tables()
    indexed = nodes.rename(columns={"id": name}).set_index(name)
    for options in ({}, {"id": name}):
        task = NodeTask.from_tables(indexed, edges, **options)
        assert task.node_names == ("10", "20", "30", "40")
        np.testing.assert_allclose(task.x.numpy(), SCALED, rtol=1e-6)
    assert indexed.index.name == name


def test_a_column_of_ids_goes_before_a_named_index() -> None:
    nodes, edges = tables()
    task = NodeTask.from_tables(nodes.rename_axis("row"), edges)
    assert task.node_names == ("10", "20", "30", "40")
    assert task.num_features == 2


def test_text_that_reads_as_numbers_is_numbers_and_codes_are_left_out() -> None:
    task = NodeTask.from_tables(*changed(0, size=["1", "2", "3", "4"], old=list("1abc")))
    np.testing.assert_allclose(task.x.flatten(), np.array(SCALED)[:, 0], rtol=1e-6)
    assert "Not used as features: 'old', 'remark': values that are all different" in task.notes[1]


@pytest.mark.parametrize("dtype", ["string", object])
def test_a_missing_name_in_a_table_is_an_unknown_label(dtype: Any) -> None:
    label = pd.Series(["x", "y", pd.NA, "x"], dtype=dtype)
    assert NodeTask.from_tables(*changed(0, label=label)).y.tolist() == [0, 1, -1, -1]


def many_columns(n: int = 30) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return tables of n nodes: five columns of features, and others that look like numbers."""
    rng = np.random.default_rng(0)
    nodes = pd.DataFrame(
        {
            "name": [f"node {i}" for i in range(n)],
            "label": rng.integers(0, 3, n),
            "row": range(n),
            "paper": rng.permutation(n) * 7.0 + 31_336,
            "tweet": [str(2**60 + i) for i in range(n)],
            "x0": range(100, 100 + n),
            "year": 1990 + np.arange(n) % 12,
            "size": rng.random(n),
            "share": np.arange(n) + 0.5,
            "old": rng.random(n) < 0.5,
            "url": [f"https://node/{i}" for i in range(n)],
        }
    )
    ends = [f"node {i}" for i in range(2)]
    return nodes, pd.DataFrame({"source": ends[:1], "target": ends[1:]})


def test_columns_of_identifiers_are_left_out_of_the_features_and_told() -> None:
    task = NodeTask.from_tables(*many_columns())
    nodes, edges = many_columns()
    own = nodes[["year", "size", "share"]]
    expected = nodes[["x0"]].join((own - own.mean()) / own.std(ddof=0)).join(nodes[["old"]])
    np.testing.assert_allclose(task.x.numpy(), expected.astype(np.float32), atol=1e-6)
    assert task.notes[:2] == (
        "Not used as features: 'row', 'paper', 'tweet', 'url': values that are all different and "
        "look like identifiers (to use one, name it: features=… or --features).",
        "Features: 5 from numbers: 'x0', 'year', 'size', 'share'; true or false: 'old'.",
    )
    chosen = NodeTask.from_tables(nodes, edges, features=["paper", "size"])
    used = nodes[["paper", "size"]]
    expected = (used - used.mean()) / used.std(ddof=0)
    np.testing.assert_allclose(chosen.x.numpy(), expected, atol=1e-6)
    assert chosen.notes[0] == "Features: 2 from numbers: 'paper', 'size'."


def test_networkx_attributes_that_are_identifiers_are_left_out() -> None:
    graph = nx.path_graph(20)
    for node in graph:
        graph.nodes[node].update(label=node % 2, key=5 * node, size=0.5 * node, at=[node])
    task = NodeTask.of(graph)
    assert task.x[:, 1].tolist() == [*range(20)]
    assert "Features: 2 from numbers: 'size'; vectors: 'at'." in task.notes


def test_in_a_small_graph_whole_numbers_are_features_unless_they_count_the_rows() -> None:
    for n, features in ((19, 7), (20, 5)):
        assert NodeTask.from_tables(*many_columns(n)).num_features == features


@pytest.mark.parametrize(
    ("column", "is_feature"),
    [
        ([*range(29), None], False),  # ids with a gap
        ([*range(0, 38, 2), *[None] * 11], True),  # too few to say
        ([*range(19), *[None] * 11], False),  # numbers of rows
        ([*range(29), 28], True),  # one of them twice: a count
        ([*range(29), 28.5], True),
        ([*range(-15, 15)], False),
    ],
)
def test_what_an_identifier_is(column: list[Any], is_feature: bool) -> None:
    nodes, edges = many_columns()
    data = from_tables(nodes[["name", "label"]].assign(value=column), edges)
    assert ("x" in data) == is_feature


def test_many_features_are_counted_and_the_first_named() -> None:
    nodes, edges = many_columns()
    wide = pd.DataFrame(0.5, index=range(30), columns=[f"w{j}" for j in range(12)])
    task = NodeTask.from_tables(nodes[["name", "label"]].join(wide), edges)
    names = ", ".join(f"'w{j}'" for j in range(10))
    assert task.notes[0] == f"Features: 12 from numbers: {names} and 2 more."


@pytest.mark.parametrize(
    ("name", "is_feature"), [("x3", True), ("x12", True), ("x3_id", False), ("x", False)]
)
def test_only_the_names_of_written_features_make_identifiers_features(
    name: str, is_feature: bool
) -> None:
    nodes, edges = many_columns()
    data = from_tables(nodes[["name", "label"]].assign(**{name: range(30)}), edges)
    assert ("x" in data) == is_feature


@pytest.mark.parametrize("column", ["name", "title"])
def test_names_stand_beside_ids(column: str) -> None:
    nodes, edges = changed(0, **{column: ["Ann", "Bob", None, "Ann"]})
    options = {} if column == "name" else {"name": column}
    task = NodeTask.from_tables(nodes, edges, **options)
    assert task.node_ids == (10, 20, 30, 40)
    assert task.node_names == ("Ann", "Bob", "30", "Ann")
    assert column not in {each.name for each in task.feature_contract.columns}
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]


def test_a_name_column_alone_is_the_id() -> None:
    nodes, edges = tables()
    task = NodeTask.from_tables(nodes.rename(columns={"id": "name"}), edges)
    assert task.node_ids == (10, 20, 30, 40)
    assert task.node_names == ("10", "20", "30", "40")


def test_missing_features_of_arrays_become_the_median_or_are_refused() -> None:
    x = np.array([[1.0, np.nan], [np.nan, 5.0], [3.0, 5.0], [9.0, 0.0]])
    for given in (x, sp.csr_matrix(x)):
        task = NodeTask.from_arrays([(0, 1)], [0, 1, 0, 1], given)
        assert task.x.to_dense().tolist() == [[1, 5], [3, 5], [3, 5], [9, 0]]
        assert "2 missing feature values in 2 columns became the column's median." in task.notes
        with pytest.raises(EraseError, match="finite features; got nan at node 0"):
            NodeTask.from_arrays([(0, 1)], [0, 1, 0, 1], given, strict=True)
    assert np.isnan(x).sum() == 2


def test_the_entries_of_an_adjacency_matrix_are_weights_unless_all_are_one() -> None:
    matrix = sp.csr_matrix(([2.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3))
    task = NodeTask.from_arrays(matrix, [0, 1, 0])
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [2, 2, 1, 1]
    assert NodeTask.from_arrays(matrix != 0, [0, 1, 0]).edge_weight is None
    assert NodeTask.of(erase.from_arrays(matrix, None), labelled=False).num_nodes == 3


def test_networkx_weights_and_directions_are_kept() -> None:
    graph = nx.DiGraph(friends().edges)
    graph.add_nodes_from(friends().nodes(data=True))
    graph.edges["ann", "cem"]["km"] = 3.0
    task = NodeTask.from_networkx(graph, weight="km", directed=True)
    assert task.edge_weight is not None
    assert task.edge_is_given is not None
    assert task.edge_weight.tolist() == [3, 3, 1, 1]
    assert int(task.edge_is_given.sum()) == 2


def test_misspelt_classes_are_told_and_merged_where_asked_for() -> None:
    n = 60
    label = ["government", "company"] * 30
    label[0], label[1] = "goverment", "COMPANY"
    nodes = pd.DataFrame({"id": range(n), "label": label})
    edges = pd.DataFrame({"source": [0], "target": [1]})
    task = NodeTask.from_tables(nodes, edges)
    assert task.num_classes == 4
    assert (
        "Probably misspelt classes: 'COMPANY' (1) for 'company' (29), 'goverment' (1) for "
        "'government' (29). They count as classes of their own; "
        "merge_classes=True or --merge-classes merges them."
    ) in task.notes
    merged = NodeTask.from_tables(nodes, edges, merge_classes=True)
    assert merged.class_names == ("company", "government")
    assert "Misspelt classes were merged: 'COMPANY' (1) for 'company' (29)" in " ".join(
        merged.notes
    )
    from_arrays = NodeTask.from_arrays([(0, 1)], label, merge_classes=True)
    assert torch.equal(from_arrays.y, merged.y)


def test_ids_that_cannot_be_looked_up_are_refused() -> None:
    with pytest.raises(EraseError, match=r"node_ids that are names or numbers; got \[1\]"):
        erase.from_arrays([[0], [1]], [0, 1], node_ids=[[1], [2]])
    with pytest.raises(EraseError, match=r"names or numbers; got \{\}"):
        NodeTask.of(path_graph(node_ids=[1, 2, {}, 4, 5]))
