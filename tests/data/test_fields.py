"""What cannot be read as a field of a graph."""

from typing import Any

import pytest

from erase.data.fields import field, to_tensor
from erase.data.labels import encode_labels
from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import path_graph


@pytest.mark.parametrize("read", [encode_labels, lambda thing: field(thing, "y")])
@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (None, "a graph; got builtins.NoneType. Pass a torch_geometric Data"),
        (
            NodeTask.from_data(path_graph()),
            "got erase.data.task.NodeTask. Pass a torch_geometric Data",
        ),
        ("cora", r"'cora'. Read a file with erase\.read_graph"),
    ],
)
def test_what_holds_no_labels_is_not_a_graph(read: Any, thing: Any, message: str) -> None:
    with pytest.raises(EraseError, match=message):
        read(thing)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "edges as an array of numbers; got None. Turn"),
        ("abc", "array of numbers; got 'abc'"),
        ([[0, 1], [1]], "array of numbers; got rows of different lengths. Make them"),
        (["a"], "array of numbers; got <U1"),
        ([None, 1], "array of numbers; got object"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(given: Any, message: str) -> None:
    with pytest.raises(EraseError, match=message):
        to_tensor(given, "edges")
