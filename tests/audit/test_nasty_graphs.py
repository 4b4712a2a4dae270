"""Degenerate graphs: a clear error or a right answer.

Every case is audited twice, as a Data in Python and as a file by the command.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import erase
from erase.audit import DEFAULT_METHOD
from erase.bench.detection import score_audit
from erase.cli import main
from erase.data.files import read_json
from erase.errors import EraseError
from graphs import mask, path_graph, two_communities

ONE_EDGE = torch.tensor([[0], [1]])
NO_EDGES = torch.empty(2, 0, dtype=torch.int64)
SAYS_WHAT_TO_DO = r"^expected .+; got .+\. [A-Z].+[.]$"


def communities(**changes: Any) -> Data:
    """Return two communities with other fields, None removes; 60 of 80 nodes are labelled."""
    data = two_communities()
    data.num_nodes = 80
    for name, value in changes.items():
        if value is None:
            del data[name]
        else:
            data[name] = value
    return data


def blocks(labels: list[int], size: int, **fields: Any) -> Data:
    """Return nodes joined with all others of their block of `size`, and with no other."""
    block = torch.arange(len(labels)) // size
    joined = (block[:, None] == block) & ~torch.eye(len(labels), dtype=torch.bool)
    y = torch.tensor(labels)
    return Data(edge_index=joined.nonzero().T, y=y, num_nodes=len(y), **fields)


def two_nodes(*labels: int, edges: Tensor = ONE_EDGE) -> Data:
    return Data(edge_index=edges, y=torch.tensor(labels), num_nodes=2)


def write_as_is(data: Data, path: Path) -> None:
    """Write the arrays of a graph without looking at them, as a stranger would."""
    arrays: dict[str, Any] = {key: np.asarray(value) for key, value in data.to_dict().items()}
    np.savez(path, **arrays)


def with_nan() -> Tensor:
    x: Tensor = two_communities().x
    x[3, 2] = float("nan")
    return x


REFUSED: dict[str, tuple[Data, str]] = {
    "no label": (path_graph(y=torch.full((5,), -1)), "at least one training node with a label"),
    "no training label": (path_graph(train_mask=mask()), "at least one training node with a label"),
    "all labels equal": (
        communities(y=torch.zeros(80, dtype=torch.int64)),
        "only class '0' on 40 training nodes",
    ),
    "training labels equal, validation labels not": (
        path_graph(y=torch.tensor([1, 1, 0, 0, 0])),
        "training labels of at least two classes",
    ),
    "one label per class": (
        blocks(list(range(10)), 5),
        "10 labels, each the only one of its class",
    ),
    "two nodes of two classes": (two_nodes(0, 1), "2 labels, each the only one of its class"),
    "two nodes without an edge": (
        two_nodes(0, 1, edges=NO_EDGES),
        "2 labels, each the only one of its class",
    ),
    "two nodes of one class": (two_nodes(0, 0), "only class '0' on 2 training nodes"),
    "one node": (Data(edge_index=NO_EDGES, y=torch.tensor([0]), num_nodes=1), "only class '0'"),
    "no node": (
        Data(x=torch.empty(0, 3), edge_index=NO_EDGES, y=torch.empty(0, dtype=torch.int64)),
        "a graph with nodes",
    ),
    "NaN features": (communities(x=with_nan()), "finite features; got nan at node 3"),
    "infinite features": (
        communities(x=with_nan().nan_to_num(float("inf"))),
        "finite features; got inf at node 3",
    ),
    "an edge to a missing node": (path_graph(edge_index=torch.tensor([[0, 9], [1, 1]])), "9"),
    "an edge to a negative node": (path_graph(edge_index=torch.tensor([[0, -2], [1, 1]])), "-2"),
    "a label out of range": (path_graph(y=torch.tensor([0, 1, -7, 0, 1])), "label -7"),
    "a label beyond the names": (
        path_graph(y=torch.tensor([0, 1, 2, 0, 1]), class_names=["a", "b"]),
        "class_names|label 2|2 classes",
    ),
    "labels that are no classes": (path_graph(y=torch.tensor([0.5, 1, 1, 0, 1])), "whole numbers"),
    "fewer labels than nodes": (path_graph(y=torch.tensor([0, 1, 1, 0])), "labels|one entry|rows"),
    "fewer rows than nodes": (path_graph(x=torch.ones(4, 2)), "as many labels as nodes"),
    "splits that overlap": (path_graph(val_mask=mask(1, 2)), "do not overlap"),
    "a mask of another length": (path_graph(train_mask=torch.ones(4).bool()), "mask"),
    "fewer names than nodes": (path_graph(node_names=["a", "b"]), "node_names"),
    "two classes of one name": (path_graph(class_names=["a", "a"]), "different class_names"),
}


@pytest.mark.parametrize(("graph", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_audited_is_refused_with_a_sentence(graph: Data, message: str) -> None:
    with pytest.raises(EraseError, match=message) as caught:
        erase.audit(graph)
    assert pd.Series([str(caught.value)]).str.match(SAYS_WHAT_TO_DO).all(), str(caught.value)


@pytest.mark.parametrize(("graph", "message"), REFUSED.values(), ids=REFUSED)
def test_the_command_refuses_it_too_and_writes_nothing(
    graph: Data, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_as_is(graph, tmp_path / "nasty.npz")
    assert main(["audit", str(tmp_path / "nasty.npz"), "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    line = captured.err.splitlines()[-1].removeprefix("erase: ")
    assert pd.Series([line]).str.contains(message).all(), line
    assert pd.Series([line]).str.match(SAYS_WHAT_TO_DO).all(), line
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


def isolated() -> Data:
    """Return two communities whose first ten nodes have no neighbour."""
    data = two_communities()
    data.edge_index = data.edge_index[:, (data.edge_index >= 10).all(0)]
    return data


ANSWERED: dict[str, Data] = {
    "one class per component": blocks([0] * 10 + [1] * 10, 10),
    "one class per component, with features": blocks([0] * 10 + [1] * 10, 10, x=torch.eye(20)),
    "a component for every two nodes": blocks([0, 0, 1, 1] * 5, 2),
    "no edges": communities(edge_index=NO_EDGES),
    "no features": communities(x=None),
    "features of no column": communities(x=torch.empty(80, 0)),
    "neither edges nor features": communities(x=None, edge_index=NO_EDGES),
    "features that say nothing": communities(x=torch.ones(80, 4)),
    "features that are zero": communities(x=torch.zeros(80, 4)),
    "huge features": communities(x=1e30 * two_communities().x),
    "tiny features": communities(x=1e-30 * two_communities().x),
    "a class by name only": communities(class_names=["a", "b", "never"]),
    "a class without a training label": blocks(
        [0] * 10 + [1] * 10 + [2] * 10,
        10,
        train_mask=torch.arange(30) < 20,
        val_mask=torch.arange(30) >= 20,
    ),
    "isolated nodes": isolated(),
    "self-loops": communities(
        edge_index=torch.cat([two_communities().edge_index, torch.arange(80).repeat(2, 1)], 1)
    ),
    "every edge twice": communities(edge_index=two_communities().edge_index.repeat(1, 2)),
    "one label of a class": blocks([0] * 10 + [1] * 9 + [2], 10),
    "fewer labels than folds": blocks([0, 0, 0, 1, 1, 1], 3),
}


@pytest.mark.parametrize("graph", ANSWERED.values(), ids=ANSWERED)
def test_right_labels_of_a_strange_graph_are_not_called_wrong_by_function_and_command(
    graph: Data, tmp_path: Path
) -> None:
    found = erase.audit(graph, folds=3)
    assert not found.decision.is_issue.any()
    assert found.decision.noise_rate.low < 0.05
    assert np.isfinite(found.pred_probs).all()
    assert np.isfinite(found.issues[["quality", "probability"]]).all(axis=None)
    assert (found.clean_labels() == found.given).all()
    write_as_is(graph, tmp_path / "nasty.npz")
    out = tmp_path / "out"
    words = ["audit", str(tmp_path / "nasty.npz"), "--folds", "3", "--out", str(out), "--quiet"]
    assert main(words) == 0
    assert {"issues.csv", "report.html"} < {path.name for path in out.iterdir()}
    issues, same = found.issues, pd.read_csv(out / "issues.csv")
    np.testing.assert_allclose(same["quality"], issues["quality"], rtol=1e-6)
    assert same["node"].tolist() == issues["node"].tolist()


@pytest.mark.parametrize(
    "graph",
    [
        blocks(([0] * 10 + [1] * 10) * 4, 10),
        communities(edge_index=NO_EDGES),
        communities(x=None),
        communities(class_names=["a", "b", "never"]),
        isolated(),
    ],
    ids=["one class per component", "no edges", "no features", "a name only", "isolated"],
)
def test_wrong_labels_of_a_strange_graph_are_the_most_suspicious(graph: Data) -> None:
    noisy = erase.corrupt(graph, "symmetric", 0.2, seed=0, on="train+val")
    scores = score_audit(erase.audit(noisy), graph)
    assert scores["mislabelled"] >= 5
    assert scores["auroc"] > 0.85


def test_an_empty_class_is_never_suggested() -> None:
    found = erase.audit(communities(class_names=["a", "b", "never"]))
    assert set(found.issues["suggested"]) == {"a", "b"}
    assert found.pred_probs.shape == (80, 3)
    rows = {row["class"]: row for row in found.summary()["classes"]}
    assert rows["never"]["labels"] == rows["never"]["suggested_instead"] == 0
    assert any("No training node has the class 'never'." in note for note in found.notes)


def test_isolated_nodes_have_no_evidence_around_them() -> None:
    issues = erase.audit(isolated()).issues.set_index("node")
    alone = issues.loc[range(10)]
    assert (alone["neighbours"] == 0).all()
    assert alone[["neighbours_agree", "neighbours_proba"]].isna().all(axis=None)


def test_a_note_names_what_replaces_missing_features() -> None:
    assert any("no features" in note for note in erase.audit(communities(x=None)).notes)


def test_folds_are_never_empty() -> None:
    found = erase.audit(blocks([0, 0, 0, 1, 1, 1], 3), folds=10)
    assert found.settings["folds"] == 6
    assert "6 folds are used instead of 10: there are only 6 labels." in found.notes
    many = erase.audit(communities(), method="label-propagation", folds=1000)
    assert many.settings["folds"] == 60
    assert "60 folds are used instead of 1000: there are only 60 labels." in many.notes


def test_the_only_label_of_a_class_is_no_issue_even_if_everything_is() -> None:
    found = erase.audit(blocks([0] * 10 + [1] * 9 + [2], 10), max_false_alarms=1)
    assert not found.decision.is_issue.any()  # nor is a label that the model agrees with
    assert found.issues.set_index("node")["verdict"][19] == "can't tell"
    assert found.clean_labels()[19] == 2


@pytest.mark.parametrize("limit", [0, 0.0, 1, 1.0])
def test_no_false_alarm_is_no_alarm_and_any_is_all_that_another_class_suits_better(
    limit: float,
) -> None:
    noisy = erase.corrupt(communities(), "symmetric", 0.2, seed=0, on="train+val")
    found = erase.audit(noisy, max_false_alarms=limit)
    other = found.issues["suggested"] != found.issues["given"]
    assert 5 < other.sum() < 20
    assert found.issues["is_issue"].tolist() == (other & (limit > 0)).tolist()
    assert found.decision.expected_false_alarms <= limit


def test_where_nothing_separates_classes_the_audit_reports_it() -> None:
    found = erase.audit(ANSWERED["neither edges nor features"])
    assert not found.decision.agreement.is_informative
    assert (found.decision.noise_rate.low, found.decision.noise_rate.high) == (0, 1)
    assert repr(found) == "<Audit of 60 labels: it cannot tell which are wrong>"


def test_edges_alone_separate_classes_where_features_say_nothing() -> None:
    found = erase.audit(ANSWERED["features that say nothing"])
    assert found.decision.agreement.is_informative
    assert found.decision.agreement.model > 0.9


def test_six_labels_are_too_few_to_tell() -> None:
    found = erase.audit(ANSWERED["fewer labels than folds"])
    assert found.decision.agreement.model == 1
    assert found.decision.agreement.needed > 1
    assert found.notes[-1].startswith("No label is flagged: models that had not seen a label agree")
    assert found.notes[-1].endswith("(correlation 1.00, with too few labels).")


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "one fold": ({"folds": 1}, "2 to 1,000 folds; got 1"),
    "no fold": ({"folds": 0}, "2 to 1,000 folds; got 0"),
    "half a fold": ({"folds": 2.5}, "2 to 1,000 folds; got 2.5"),
    "folds in words": ({"folds": "5"}, "2 to 1,000 folds; got '5'"),
    "more than all": ({"max_false_alarms": 1.01}, "a share from 0 to 1; got 1.01"),
    "less than none": ({"max_false_alarms": -0.1}, "a share from 0 to 1; got -0.1"),
    "a switch": ({"max_false_alarms": True}, "a share from 0 to 1; got True"),
    "unknown": ({"method": "unknown"}, f"a method among .*{DEFAULT_METHOD}.*; got 'unknown'"),
    "no method": ({"method": None}, "a method among .*; got None"),
    "a seed below 0": ({"seed": -1}, "seed to be a whole number ≥ 0; got seed=-1"),
    "half a seed": ({"seed": 0.5}, "seed to be a whole number ≥ 0; got seed=0.5"),
    "no device": ({"device": "abacus"}, "'auto', 'cpu' or 'cuda'; got 'abacus'"),
}


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        erase.audit(communities(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--folds", "1"], "2 to 1,000 folds; got 1"),
        (["--max-false-alarms", "1.01"], "a share from 0 to 1; got 1.01"),
        (["--max-false-alarms", "nan"], "a share from 0 to 1; got nan"),
        (["--seed", "-1"], "seed to be a whole number ≥ 0; got seed=-1"),
        (["--device", "abacus"], "'auto', 'cpu' or 'cuda'; got 'abacus'"),
        (["--set", "nothing=1"], "got nothing=1"),
        (["--noise", "symmetric:2"], "2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_command_refuses_them_and_writes_nothing(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_as_is(communities(), tmp_path / "graph.npz")
    out = tmp_path / "out"
    assert main(["audit", str(tmp_path / "graph.npz"), "--out", str(out), *options]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(("share", "flagged"), [("0", 0), ("1", 10)])
def test_the_command_takes_both_ends_of_the_scale(
    share: str, flagged: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = erase.corrupt(communities(), "symmetric", 0.2, seed=0, on="train+val")
    write_as_is(noisy, tmp_path / "graph.npz")
    command = ["audit", str(tmp_path / "graph.npz"), "--out", str(tmp_path)]
    assert main([*command, "--max-false-alarms", share]) == 0
    assert read_json(tmp_path / "summary.json")["flagged"] == flagged
    none = "No label is suspicious enough to be flagged." in capsys.readouterr().out
    assert none == (flagged == 0)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PK\x03\x04 broken"),
        lambda path: path.write_text("not a graph"),
        lambda path: np.savez(path, unrelated=np.arange(3)),
        lambda path: np.savez(path, edge_index=np.zeros((2, 1)), y=np.array([{}], dtype=object)),
    ],
    ids=["empty", "torn", "text", "other arrays", "pickled"],
)
def test_files_that_are_no_graph_are_refused(
    write: Callable[[Path], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "nasty.npz")
    assert main(["audit", str(tmp_path / "nasty.npz"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("erase: expected ")
    assert not (tmp_path / "out").exists()
