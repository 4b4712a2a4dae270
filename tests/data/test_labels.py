"""Labels of a Data in every form, and those refused."""

from typing import Any

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from erase.data.conversion import from_arrays, from_networkx
from erase.data.labels import encode_labels, misspellings, refuse_other_labels, with_labels
from erase.data.tables import from_tables
from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import path_graph

NAN = float("nan")


@pytest.mark.parametrize(
    "y",
    [
        torch.tensor([0, 1, -1, 2, 1]),
        torch.tensor([[0], [1], [-1], [2], [1]]),
        torch.tensor([0.0, 1.0, NAN, 2.0, 1.0]),
        torch.tensor([0, 1, -1, 2, 1], dtype=torch.int8),
        torch.tensor([0, 1, NAN, 2, 1], dtype=torch.bfloat16),
        torch.tensor([0, 1, -1, 2, 1]).to_sparse(),
        np.ma.masked_equal([0, 1, 9, 2, 1], 9),
        np.array([0, 1, -1, 2, 1]),
        [0, 1, None, 2, 1],
        [0, 1, "", 2, 1],
        pd.Series([0, 1, None, 2, 1], dtype="Int64"),
    ],
)
def test_number_labels_in_every_form(y: Any) -> None:
    codes, names, values = encode_labels(Data(y=y))
    assert codes.tolist() == [0, 1, -1, 2, 1]
    assert codes.dtype == torch.int64
    assert names == ("0", "1", "2")
    assert values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", None, "c", "a"],
        ["b", "a", "", "c", "a"],
        ["b", "a", NAN, "c", "a"],
        np.array(["b", "a", "", "c", "a"]),
        np.array([["b"], ["a"], [""], ["c"], ["a"]]),
        pd.Series(["b", "a", None, "c", "a"]),
        pd.Series(["b", "a", None, "c", "a"], dtype="category"),
        pd.Series(["b", "a", pd.NA, "c", "a"], dtype="string"),
        ["b", "a", pd.NA, "c", "a"],
        np.ma.masked_equal(np.array(["b", "a", "?", "c", "a"]), "?"),
    ],
)
def test_name_labels_in_every_form(y: Any) -> None:
    codes, names, values = encode_labels(Data(y=y))
    assert codes.tolist() == [1, 0, -1, 2, 0]
    assert names == ("a", "b", "c")
    assert values.tolist() == ["a", "b", "c"]


def test_number_labels_with_class_names_stay_numbers() -> None:
    _, names, values = encode_labels(path_graph(class_names=["a", "b", "c"]))
    assert names == ("a", "b", "c")
    assert values.tolist() == [0, 1, 2]


def test_label_values_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        encode_labels(path_graph())[2][0] = 7


@pytest.mark.parametrize(
    ("changes", "k"),
    [
        ({}, 2),
        ({"num_classes": 5}, 5),
        ({"num_classes": 1000}, 1000),
        ({"y": torch.tensor([0, 1, 99, 0, 1])}, 3),
        ({"y": torch.tensor([0, 1, 99, 0, 1]), "num_classes": 100}, 100),  # a part of a graph
        ({"class_values": [5, 1, 0]}, 3),
    ],
)
def test_the_number_of_classes(changes: dict[str, Any], k: int) -> None:
    _, names, _ = encode_labels(path_graph(**changes))
    assert len(names) == k


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, r"labels in data\.y; got none\. Set y \[N\].*label=…"),
        ({"y": torch.tensor([0, 1, -2, 0, 1])}, r"label -2 at node 2.*set it to -1"),
        ({"num_classes": 2, "y": torch.tensor([0, 1, 1, 2, 1])}, r"0\.\.1.*label 2 at node 3"),
        (
            {"class_names": ["a"]},
            r"0\.\.0 \(1 classes\).*label 1 at node 1.*or give class_values",
        ),
        ({"y": torch.tensor([0.0, 1.5, 1, 0, 1])}, r"whole numbers.*1\.5 at node 1.*Number the"),
        ({"y": torch.tensor([0.0, 1, float("inf"), 0, 1])}, "inf at node 2"),
        ({"y": torch.eye(5)}, r"shape \[5, 5\]. Take y\.argmax\(1\)"),
        ({"y": ["a", 1, "b", "a", "b"]}, "all whole numbers or all names.*Use one kind"),
        ({"y": [[0], [1], {}, 0, 1]}, "all whole numbers or all names"),
        (
            {"y": list("abcab"), "class_names": ["a", "b"]},
            r"\(a, b\); got label 'c' at node 2.*or add it",
        ),
        ({"class_names": 2}, "class_names as a list of names; got 2. Give a list"),
        ({"class_names": "ab"}, "class_names as a list of names; got 'ab'"),
        ({"class_names": ["a", "a"]}, "different class_names.*twice"),
        ({"y": torch.tensor([], dtype=torch.long)}, "0 nodes"),
        ({"num_classes": 1001}, r"at most 1000 classes on a graph of 5 nodes; got .* = 1001"),
        (
            {"y": torch.tensor([1, 3, 2, 1, 3]), "class_values": [1, 3]},
            r"among class_values \(1, 3\), or -1.*label 2 at node 2.*or add it to class_values",
        ),
        ({"class_values": [0, 1, 1]}, r"different whole numbers from 0 on; got \[0, 1, 1\]"),
        ({"class_values": [0, -1]}, r"different whole numbers from 0 on; got \[0, -1\]"),
        ({"class_values": [0, 0.5]}, r"different whole numbers from 0 on; got \[0, 0.5\]"),
        ({"class_values": [0, 1], "class_names": list("abc")}, "3 class_values.*; got 2"),
        ({"y": torch.tensor([0, 1.5, 1, 0, 1], dtype=torch.bfloat16)}, "1.5 at node 1"),
        ({"y": torch.tensor([0, 1, 1, 0, 1], dtype=torch.cfloat)}, "whole numbers.*complex64"),
        ({"y": np.array([0, 1, 1, 0, 1j])}, "whole numbers, or names; got complex128"),
        ({"y": [np.complex128(1), 0, 1, 0, 1]}, "all whole numbers or all names"),
        ({"y": pd.Series(pd.to_datetime([None] * 5))}, "whole numbers, or names; got datetime64"),
        ({"y": [np.ones((2, 2)), np.ones((2, 3))]}, r"\[N\]; got entries of different shapes"),
        ({"num_classes": "three"}, "whole number from 1 on; got 'three'. Correct it"),
        ({"num_classes": 2.5}, "whole number from 1 on; got 2.5"),
        ({"num_classes": 0}, "whole number from 1 on; got 0"),
        ({"node_names": ["a"], "y": torch.tensor([0, 1, -2, 0, 1])}, "label -2 at node 2. Correct"),
        ({"y": np.full(5, 2**64 - 1, np.uint64)}, "below 2\\^63; got label 18446744073709551615"),
        ({"y": np.array([0, 1, 1, 0, 1e19])}, "up to 2\\^53 .*; got label 1[0]{19} at node 4"),
        # as floats these two would be one class
        ({"y": [2**53 + 2, 2**53 + 3, 1.0, 0, 1]}, "up to 2\\^53 where they are floating-point"),
        ({"y": ["a" * 1001, "b", "b", "b", "b"]}, "at most 1,000 characters; got one of 1,001"),
        ({"y": ["a\0", "a", "a", "b", "b"]}, r"without NUL; got 'a\\x00'"),
        ({"y": torch.zeros(5, dtype=torch.long, device="meta")}, "got a torch.int64 tensor"),
    ],
)
def test_bad_labels_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        encode_labels(path_graph(**changes))


NO_CLASSES = {
    "the largest uint64": (
        np.array([0, 1, 1, 0, 2**64 - 1], dtype=np.uint64),
        "labels below 2^63; got {} 18446744073709551615 at node 4. Number the classes",
    ),
    "a list with 2^63": (
        [0, 1, 1, 0, 2**63],
        "labels below 2^63; got {} 9223372036854775808 at node 4",
    ),
    "an integer beyond floats": (
        [0, 1, None, 0, 10**400],
        "labels below 2^63; got {} a number of 1329 bits at node 4",
    ),
    "such an integer beside a float": (
        [0, 1, 1.0, 0, 10**400],
        "labels below 2^63; got {} a number of 1329 bits at node 4",
    ),
    "a list with -2^63 - 1": (
        [0, 1, 1, 0, -(2**63) - 1],
        "labels below 2^63; got {} -9223372036854775809 at node 4",
    ),
    "1e19": (
        np.array([0, 1, 1, 0, 1e19]),
        "labels up to 2^53 where they are floating-point numbers; got {} 10000000000000000000 at",
    ),
    "infinity": (np.array([0, 1, 1, 0, np.inf]), "whole numbers, or names; got {} inf at node 4"),
    "infinity in a list": ([0, 1, 1, 0, np.inf], "whole numbers, or names; got {} inf at node 4"),
    "a half": (np.array([0, 1, 1, 0, 0.5]), "whole numbers, or names; got {} 0.5 at node 4"),
    "a half beside a gap": ([0, 1, None, 0, 0.5], "whole numbers, or names; got {} 0.5 at node 4"),
}
ENDS = ([0, 1, 2, 3], [1, 2, 3, 4])


@pytest.mark.parametrize("column", ["y", "trusted"])
@pytest.mark.parametrize("given", NO_CLASSES)
def test_numbers_that_are_no_classes_are_refused_where_they_are_given(
    given: str, column: str
) -> None:
    """Before a `NodeTask` is made of them: uint64, 1e19, inf and 0.5."""
    values, message = NO_CLASSES[given]
    message = message.format("label" if column == "y" else "trusted label")
    right: dict[str, Any] = {"y": [0, 1, 1, 0, 1]}
    with pytest.raises(EraseError) as from_array:
        from_arrays(ENDS, **right | {column: values})
    cells = pd.Series(values, dtype=object if isinstance(values, list) else None)
    wrong = {"label" if column == "y" else column: cells}
    nodes = pd.DataFrame({"id": range(5), "label": right["y"]} | wrong)
    edges = pd.DataFrame({"source": ENDS[0], "target": ENDS[1]})
    with pytest.raises(EraseError) as from_table:
        from_tables(nodes, edges)
    graph = networkx.path_graph(5)
    for key in ("label", "trusted")[: 1 if column == "y" else 2]:
        networkx.set_node_attributes(graph, dict(enumerate(nodes[key])), key)
    with pytest.raises(EraseError) as from_graph:
        from_networkx(graph)
    data = Data(edge_index=torch.tensor(ENDS), **right | {column: values})
    with pytest.raises(EraseError) as from_data:
        NodeTask.of(data)
    for raised in (from_array, from_table, from_graph, from_data):
        assert message in str(raised.value)


def test_labels_of_a_list_are_exact_up_to_the_largest_int64() -> None:
    y = [0, 1, None, 0, 2**63 - 1]
    trusted = [None, None, 2**63 - 2, 0, 2**63 - 1]
    task = NodeTask.from_arrays(ENDS, y=y, trusted=trusted)
    assert task.class_names == ("0", "1", "9223372036854775806", "9223372036854775807")
    assert task.trusted is not None
    assert task.trusted.tolist() == [-1, -1, 2, 0, 3]
    assert from_arrays(ENDS, y=y).y.tolist() == [0, 1, -1, 0, 2**63 - 1]
    nullable = pd.Series(y, dtype="Int64")
    assert from_arrays(ENDS, y=nullable).y.tolist() == [0, 1, -1, 0, 2**63 - 1]


def test_a_name_of_its_own_for_every_node_is_an_identifier() -> None:
    names = [f"paper {i}" for i in range(20)]
    with pytest.raises(EraseError, match=r"20 names on 20 nodes.*'paper 0'.*set class_names"):
        encode_labels(Data(y=names))
    with pytest.raises(EraseError, match="18 names on 20 nodes"):
        encode_labels(Data(y=[*names[:18], *names[:2]]))
    assert len(encode_labels(Data(y=names, class_names=names))[1]) == 20
    assert len(encode_labels(Data(y=[*names, *[None] * 20]))[1]) == 20  # one label a class
    assert len(encode_labels(Data(y=names[:19]))[1]) == 19


@pytest.mark.parametrize(
    ("y", "codes", "classes"),
    [
        ([1, 2, 3, -1, 1], [0, 1, 2, -1, 0], [1, 2, 3]),
        ([3000, 10, 200, 10, -1], [2, 0, 1, 0, -1], [10, 200, 3000]),
        ([2.0, 7.0, NAN, 7.0, 2.0], [0, 1, -1, 1, 0], [2, 7]),
        ([2**40, 0, 2**40, 0, -1], [1, 0, 1, 0, -1], [0, 2**40]),
        ([2**63 - 1, 0, 2**63 - 2, 0, -1], [2, 0, 1, 0, -1], [0, 2**63 - 2, 2**63 - 1]),
        ([2**53 + 2, 2**53 + 3, None, 0, NAN], [1, 2, -1, 0, -1], [0, 2**53 + 2, 2**53 + 3]),
        ([-1] * 5, [-1] * 5, []),
    ],
)
def test_the_classes_are_the_numbers_that_occur(
    y: list[float], codes: list[int], classes: list[int]
) -> None:
    found, names, values = encode_labels(Data(y=y))
    assert found.tolist() == codes
    assert values.tolist() == classes
    assert names == tuple(map(str, classes))


def test_class_values_name_the_numbers_of_all_classes_in_their_order() -> None:
    y, names, values = encode_labels(
        Data(y=[8, 3, -1, 8], class_values=[8, 5, 3], class_names=["x", "y", "z"])
    )
    assert y.tolist() == [0, 2, -1, 0]
    assert names == ("x", "y", "z")
    assert values.tolist() == [8, 5, 3]


@pytest.mark.parametrize(
    "data",
    [
        Data(y=[1, 2, 3, -1]),
        Data(y=[0, 1, 2, -1]),
        Data(y=["a", "b", "c", ""]),
        Data(y=[1, 3, 2, -1], class_values=[3, 1, 2], class_names=["x", "y", "z"]),
        Data(y=torch.tensor([0, 1, 2, -1]), class_names=["a", "b", "c"], label_kind="names"),
    ],
)
def test_other_labels_keep_all_classes_and_their_own_numbers(data: Data) -> None:
    y, names, values = encode_labels(data)
    fewer = np.array([-1, -1, 1, 1])
    again, again_names, again_values = encode_labels(with_labels(data, fewer, names, values))
    assert again.tolist() == [-1, -1, 1, 1]
    assert (again_names, again_values.tolist()) == (names, values.tolist())
    same = with_labels(data, y.numpy(), names, values)
    if values.dtype.kind != "U":
        assert same.y.tolist() == list(data.y)


def test_a_number_of_its_own_for_every_node_is_an_identifier() -> None:
    numbers = list(range(100, 120))
    with pytest.raises(EraseError, match=r"20 numbers on 20 nodes.*is 100.*or set class_values"):
        encode_labels(Data(y=numbers))
    with pytest.raises(EraseError, match="18 numbers on 20 nodes"):
        encode_labels(Data(y=[*numbers[:18], *numbers[:2]]))
    assert len(encode_labels(Data(y=numbers, class_values=numbers))[1]) == 20
    assert len(encode_labels(Data(y=[*numbers, *[-1] * 20]))[1]) == 20  # one label a class
    assert len(encode_labels(Data(y=numbers[:19]))[1]) == 19


@pytest.mark.parametrize(
    ("classes", "values", "message"),
    [
        ([0, 1], ["a", "b"], r"class numbers \(0, 1\); got a graph with class names \('a', 'b'\)"),
        (["0", "1"], [0, 1], r"class names \('0', '1'\); got a graph with class numbers \(0, 1\)"),
        (["a", "b"], ["c"], r"\('a', 'b'\); got a graph with class names \('c'\). Give both"),
        ([*range(7)], [10, 20], r"numbers \(0, 1, 2, 3, 4, …\); got .* numbers \(10, 20\)"),
    ],
)
def test_labels_of_another_kind_cannot_be_compared(
    classes: list[Any], values: list[Any], message: str
) -> None:
    with pytest.raises(EraseError, match=message):
        refuse_other_labels(np.array(classes), np.array(values), "a graph")
    refuse_other_labels(np.array(classes), np.array([*classes[:1], *classes[:1]]), "a graph")


def test_num_classes_up_to_the_number_of_nodes() -> None:
    y = torch.zeros(1200, dtype=torch.int64)
    assert len(encode_labels(Data(y=y, num_classes=1200))[1]) == 1200
    with pytest.raises(EraseError, match=r"at most 1200 classes.*got num_classes = 1201"):
        encode_labels(Data(y=y, num_classes=1201))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {"company": 50, "Company ": 40, " COMPANY": 1},
            {"Company ": "company", " COMPANY": "company"},
        ),
        ({"open-source": 9, "open source": 2}, {"open source": "open-source"}),
        ({"caf\u00e9": 9, "cafe\u0301": 8}, {"cafe\u0301": "caf\u00e9"}),  # Unicode has two forms
        ({"politician": 90, "politican": 3}, {"politican": "politician"}),  # left out
        ({"politician": 90, "polittician": 3}, {"polittician": "politician"}),  # added
        ({"politician": 90, "politicjan": 3}, {"politicjan": "politician"}),  # replaced
        ({"politician": 90, "poiltician": 3}, {"poiltician": "politician"}),  # swapped
        ({"politician": 90, "POLITICAN": 3}, {"POLITICAN": "politician"}),
        ({"tv show": 90, "tv shows": 1}, {}),  # a short word
        ({"politician": 90, "politican": 9}, {}),  # too many
        ({"topic1234": 90, "topic1235": 1}, {}),  # numbered
        ({"stat.ML": 90, "stat.ME": 1}, {}),  # codes
        ({"positive": 90, "negative": 1}, {}),
        ({"reading": 90, "Reading club": 1}, {}),
    ],
)
def test_what_a_misspelling_is(counts: dict[str, int], expected: dict[str, str]) -> None:
    assert misspellings(counts) == expected


def test_numbers_with_gaps_make_no_phantom_classes() -> None:
    y, names, values = encode_labels(Data(y=[3, 700, 3, -1, 12]))
    assert names == ("3", "12", "700")
    assert y.tolist() == [0, 2, 0, -1, 1]
    assert values.tolist() == [3, 12, 700]
