"""The audit as a user calls it: what it finds, what it refuses, what it writes."""

import contextlib
import copy
import io
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import erase
from erase.audit import DEFAULT_METHOD, MAX_EPOCHS, audit_params
from erase.audit.decision import IGNORES_FEATURES
from erase.audit.neighbours import neighbour_agreement
from erase.audit.out_of_fold import out_of_sample
from erase.audit.run import audit_by_all
from erase.bench.detection import detection_scores, score_audit
from erase.data.files import read_json
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS, CrossEntropy, NodeClassifier
from erase.methods.label_propagation import LabelPropagation
from graphs import mask, meaningless_graph, path_graph, two_communities

COLUMNS = [
    "node",
    "name",
    "given",
    "suggested",
    "quality",
    "is_issue",
    "verdict",
    "probability",
    "neighbours",
    "neighbours_agree",
    "neighbours_suggested",
    "neighbours_proba",
]


def fruit(rate: float = 0.2, seed: int = 0) -> tuple[Data, Data]:
    """Return an easy graph of 120 named nodes, 90 of them labelled, and its corrupted copy."""
    clean = two_communities(size=40, classes=3)
    clean.class_names = ["apple", "pear", "plum"]
    clean.node_names = [f"node {i}" for i in range(120)]
    return clean, erase.corrupt(clean, "symmetric", rate, seed=seed, on="train+val")


def test_only_the_first_of_several_processes_has_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erase.audit.run.rank", lambda: 1)
    assert audit_by_all(fruit()[1], method=LabelPropagation()) is None
    with pytest.raises(EraseError, match=r"first of several processes.*process 1.*audit_by_all"):
        erase.audit(fruit()[1], method=LabelPropagation())


def model(**changes: Any) -> CrossEntropy:
    params: dict[str, Any] = {"encoder": "gcn", "hidden": 16, "epochs": 25, "lr": 0.03}
    return CrossEntropy(**(params | {"device": "cpu"} | changes))


@pytest.fixture(scope="module")
def audited() -> erase.Audit:
    return erase.audit(fruit()[1], method=model(), folds=5)


def test_injected_errors_are_found_and_corrected(audited: erase.Audit) -> None:
    clean, given = fruit()
    wrong = ((given.y != clean.y) & (given.y >= 0)).numpy()
    assert wrong.sum() > 15
    scores = score_audit(audited, clean)
    assert scores["auroc"] > 0.95
    assert scores["recall"] > 0.4
    assert scores["false_alarms"] < 0.35
    assert scores["suggestions_right"] > 0.8
    assert abs(scores["noise_rate_error"]) < 0.1
    right = audited.clean_labels() == clean.y.numpy()
    labelled = audited.given >= 0
    assert right[labelled].sum() > (~wrong)[labelled].sum() + 5


def test_issues_are_one_row_a_label_the_most_suspicious_first(audited: erase.Audit) -> None:
    issues, decision = audited.issues, audited.decision
    assert list(issues) == COLUMNS
    labelled = np.flatnonzero(audited.given >= 0)
    assert sorted(issues["node"]) == labelled.tolist()
    assert issues.index.tolist() == list(range(90))
    flagged = issues["is_issue"].to_numpy()
    assert flagged.sum() == decision.is_issue.sum() > 5
    assert (np.diff(flagged.astype(int)) <= 0).all()
    for part in (issues[flagged], issues[~flagged]):
        assert (np.diff(part["quality"]) >= 0).all()
    row = pd.Series(np.arange(90), labelled)[issues["node"]].to_numpy()
    names = np.array(audited.class_names)
    assert (issues["name"] == [f"node {i}" for i in issues["node"]]).all()
    assert (issues["given"] == names[audited.given[issues["node"]]]).all()
    assert (issues["suggested"] == names[decision.suggested[row]]).all()
    assert (issues["quality"] == decision.quality[row]).all()
    assert (issues["verdict"] == decision.verdict[row]).all()
    assert (issues["probability"] == decision.posterior[row].max(1)).all()


def test_an_audit_shows_what_was_found_in_a_line(audited: erase.Audit) -> None:
    flagged, known = audited.issues["is_issue"].sum(), audited.summary()["at_least"]
    share = f"at least {known['value']:.1%} wrong"
    assert repr(audited) == f"<Audit of {len(audited.issues)} labels: {flagged} flagged, {share}>"
    table = audited._repr_html_()
    assert f"<th>flagged</th><td>{flagged}</td>" in table
    assert f"{known['value']:.1%} to {audited.decision.contradicted.mean():.1%} of the" in table
    interval = f"90 % interval {known['low']:.1%} to {known['high']:.1%}"
    assert f" labels look wrong: the first is a lower bound ({interval}), the second are" in table
    assert "depend on the class alone: about" in table
    assert "Confirm 50 labels drawn at random to measure the share: erase review GRAPH" in table
    assert table.index("models that had not seen a label agree") < table.index("lower bound")
    assert "<th>nodes</th><td>120</td>" in table


def test_the_agreement_is_beside_that_of_the_most_common_class_and_of_the_neighbours(
    audited: erase.Audit,
) -> None:
    given = audited.given[audited.given >= 0]
    chosen = audited.pred_probs[audited.given >= 0].argmax(1)
    agreement = audited.summary()["agreement"]
    assert agreement["model"] == np.mean(chosen == given)
    assert agreement["majority"] == max(np.mean(given == k) for k in range(3))
    assert agreement["model"] > agreement["majority"] + 0.2
    assert agreement["correlation"] > agreement["needed"] > 0
    assert agreement["is_informative"] is True
    around = neighbour_agreement(audited.edge_index, audited.given)
    assert agreement["neighbours"] == around > agreement["majority"]
    assert f", neighbours' labels with {around:.1%} (" in str(audited.decision.agreement)
    assert next(iter(audited.summary())) == "agreement"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["label-propagation", DEFAULT_METHOD])
def test_random_features_and_edges_tell_nothing(method: str, seed: int) -> None:
    graph = meaningless_graph(seed)
    found = erase.audit(graph, method=method, seed=seed)
    assert not found.decision.is_issue.any()
    assert set(found.issues["verdict"]) == {"can't tell"}
    np.testing.assert_array_equal(found.clean_labels(), found.given)
    summary = found.summary()
    assert summary["flagged"] == summary["wrong"] == summary["cannot_tell"] == 0
    assert summary["agreement"]["is_informative"] is False
    assert summary["noise_rate"] == {"value": None, "low": 0.0, "high": 1.0}
    assert summary["at_least"] == {"value": None, "low": 0.0, "high": 1.0}
    assert summary["assumption"] is summary["follows_features"] is None
    assert [row["noise_rate"] for row in summary["classes"]] == [None] * len(summary["classes"])
    assert summary["transition"] is None
    assert summary["agreement"]["model"] < summary["agreement"]["majority"] + 0.1
    assert (summary["noise_rate"]["low"], summary["noise_rate"]["high"]) == (0.0, 1.0)
    assert summary["notes"][-1] == f"No label is flagged: {found.decision.agreement}."
    assert repr(found) == "<Audit of 120 labels: it cannot tell which are wrong>"
    with pytest.raises(EraseError, match=r"got models that had not seen a label.*force=True"):
        found.clean_graph(graph)


def test_labels_that_cannot_be_checked_are_corrected_only_by_force() -> None:
    graph = meaningless_graph(0)
    found = erase.audit(graph, seed=0)
    forced = found.clean_labels(force=True)
    other = found.decision.suggested != found.given
    changed = forced != found.given
    assert 20 < changed.sum() <= other.sum()
    assert other[changed].all()
    assert set(np.where(forced >= 0, forced, found.decision.suggested)[changed]) <= {0, 1, 2}
    assert torch.equal(found.clean_graph(graph, force=True).y, torch.from_numpy(forced))
    strict = replace(found, settings=found.settings | {"max_false_alarms": 0.0})
    np.testing.assert_array_equal(strict.clean_labels(force=True), found.given)


def test_force_changes_nothing_where_labels_can_be_checked(audited: erase.Audit) -> None:
    assert audited.decision.is_issue.any()
    np.testing.assert_array_equal(audited.clean_labels(force=True), audited.clean_labels())


@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_labels_wrong_is_no_reason_to_give_up(seed: int) -> None:
    clean = two_communities(seed, size=40, classes=7)
    noisy = erase.corrupt(clean, "symmetric", 0.5, seed=seed, on="train+val")
    found = erase.audit(noisy, seed=seed)
    assert found.decision.agreement.correlation > 3 * found.decision.agreement.needed
    scores = score_audit(found, clean)
    assert scores["recall"] > 0.5
    assert scores["false_alarms"] < 0.35


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["smoothed", DEFAULT_METHOD])
def test_a_rare_class_does_not_hide_what_the_model_predicts(method: str, seed: int) -> None:
    """One node in five is of a class that features shift a little: naming it pays hardly ever."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(400, generator=generator) < 0.2).long()
    x = torch.randn(400, 4, generator=generator)
    x[:, 0] += y
    edges = torch.randint(400, (2, 800), generator=generator)
    known = erase.audit(Data(x=x, edge_index=edges, y=y), method=method, seed=seed).decision
    assert known.agreement.model < known.agreement.majority + 0.04
    assert known.agreement.is_informative


def test_with_a_good_model_right_labels_are_not_flagged() -> None:
    """Labels that are surely right were once flagged and dropped to use up allowed false alarms."""
    clean = two_communities(1, size=60, classes=3)
    noisy = erase.corrupt(clean, "symmetric", 0.1, seed=0, on="train+val")
    found = erase.audit(noisy, max_false_alarms=0.4)
    flagged = found.issues[found.issues["is_issue"]]
    assert len(flagged) > 5
    assert (flagged["suggested"] != flagged["given"]).all()
    assert flagged["quality"].max() < 0.5
    cleaned = found.clean_graph(noisy)
    kept = found.decision.suggested == found.given[found.given >= 0]
    np.testing.assert_array_equal(
        cleaned.y[found.given >= 0].numpy()[kept], found.given[found.given >= 0][kept]
    )


def test_evidence_of_a_row_is_that_of_its_node(audited: erase.Audit) -> None:
    for row in audited.issues.head(20).itertuples():
        around = audited.edge_index[1, audited.edge_index[0] == row.node]
        known = [audited.class_names[k] for k in audited.given[around] if k >= 0]
        agree = known.count(row.given) / len(known) if known else np.nan
        suggested = known.count(row.suggested) / len(known) if known else np.nan
        assert row.neighbours == len(around)
        assert row.neighbours_agree == pytest.approx(agree, nan_ok=True)
        assert row.neighbours_suggested == pytest.approx(suggested, nan_ok=True)
        own = audited.given[row.node]
        assert row.neighbours_proba == pytest.approx(audited.pred_probs[around, own].mean())


def test_probabilities_are_out_of_sample_and_sum_to_one(audited: erase.Audit) -> None:
    out_of_fold = out_of_sample(NodeTask.of(fruit()[1]), model(), 5, 0)
    np.testing.assert_allclose(audited.pred_probs, out_of_fold.proba, atol=1e-6)
    np.testing.assert_allclose(audited.pred_probs.sum(1), 1, rtol=1e-12)
    assert audited.pred_probs.shape == (120, 3)
    np.testing.assert_array_equal(audited.embedding, out_of_fold.embedding)
    np.testing.assert_array_equal(audited.given, out_of_fold.given)
    task = NodeTask.of(fruit()[1])
    np.testing.assert_array_equal(audited.edge_index, task.edge_index)
    assert audited.node_names == task.node_names
    assert audited.class_names == ("apple", "pear", "plum")


def test_settings_record_how_it_was_done(audited: erase.Audit) -> None:
    settings = audited.settings
    assert settings["method"] == "CrossEntropy"
    assert settings["parameters"] == model().get_params()
    assert (settings["folds"], settings["seed"], settings["max_false_alarms"]) == (5, 0, 0.2)
    assert settings["device"] == "cpu"
    assert settings["versions"]["erase"] == erase.__version__
    assert set(settings["versions"]) == {"erase", "torch", "python"}
    *notes, doubt = audited.notes
    assert tuple(notes) == NodeTask.of(fruit()[1]).notes
    assert doubt.startswith("Whether mistakes follow the features is not known: ")
    assert audited.seconds > 0


def test_without_names_there_is_no_column_of_them() -> None:
    found = erase.audit(two_communities(), method=LabelPropagation())
    assert list(found.issues) == [name for name in COLUMNS if name != "name"]
    assert found.node_names is None
    assert set(found.issues["given"]) == {"0", "1"}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_can_be_the_model(name: str) -> None:
    known = METHODS[name]().get_params()
    sizes: dict[str, Any] = {"hidden": 8, "width": 6, "heads": 2, "epochs": 3, "device": "cpu"}
    method = METHODS[name](**{key: value for key, value in sizes.items() if key in known})
    found = erase.audit(fruit()[1], method=method, folds=3)
    assert found.settings["method"] == METHODS[name].__name__
    assert len(found.issues) == 90
    assert np.isfinite(found.issues[["quality", "probability"]]).all(axis=None)
    assert found.issues["quality"].between(0, 1).all()


def test_a_method_by_name_takes_seed_device_and_few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[NodeClassifier] = []

    def watch(task: Any, method: Any, *rest: Any, **options: Any) -> Any:
        seen.append(method)
        return out_of_sample(task, LabelPropagation(), *rest, **options)

    monkeypatch.setattr("erase.audit.run.out_of_sample", watch)
    erase.audit(two_communities(), seed=4, device="cpu")
    usual = METHODS[DEFAULT_METHOD](seed=4, device="cpu", **audit_params(DEFAULT_METHOD))
    assert seen[0].get_params() == usual.get_params()
    assert type(seen[0]) is type(usual)
    erase.audit(two_communities(), method="ce", seed=4)
    assert seen[1].get_params() == CrossEntropy(seed=4, epochs=MAX_EPOCHS).get_params()
    erase.audit(two_communities(), method="label-propagation", seed=4)
    assert seen[2].get_params() == LabelPropagation(seed=4).get_params()
    mine = model(seed=9)
    erase.audit(two_communities(), method=mine, seed=4, device="cpu")
    assert seen[3].get_params() == mine.get_params()
    assert seen[3] is not mine
    assert CrossEntropy().epochs > MAX_EPOCHS == 150


def test_a_model_never_trains_longer_than_its_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erase.audit.run.MAX_EPOCHS", CrossEntropy().epochs + 1)
    assert audit_params("ce") == {"epochs": CrossEntropy().epochs}


def test_every_option_changes_the_answer(audited: erase.Audit) -> None:
    given = fruit()[1]
    by_fewer = erase.audit(given, method=model(), folds=3)
    assert by_fewer.settings["folds"] == 3
    assert not np.allclose(by_fewer.pred_probs, audited.pred_probs)
    by_seed = erase.audit(given, method=model(), folds=5, seed=1)
    assert not np.allclose(by_seed.pred_probs, audited.pred_probs)
    by_method = erase.audit(given, method="label-propagation", folds=5)
    assert not np.allclose(by_method.pred_probs, audited.pred_probs)
    strict = erase.audit(given, method=model(), folds=5, max_false_alarms=0.01)
    np.testing.assert_allclose(strict.pred_probs, audited.pred_probs)
    assert strict.decision.is_issue.sum() < audited.decision.is_issue.sum()
    again = erase.audit(given, method=model(), folds=5)
    pd.testing.assert_frame_equal(again.issues, audited.issues)


def test_the_graph_and_the_method_stay_as_they_were() -> None:
    _, given = fruit()
    before, method = copy.deepcopy(given), model(epochs=2)
    found = erase.audit(given, method=method, folds=2)
    for array in (found.given, found.edge_index, found.pred_probs, found.embedding):
        array.fill(0)
    assert set(given.keys()) == set(before.keys())
    for name in given.keys():  # noqa: SIM118  (a Data iterates over pairs)
        same = given[name] == before[name]
        assert bool(same.all()) if isinstance(same, Tensor) else same
    assert not hasattr(method, "fit_")


def test_other_forms_of_a_graph_give_the_same_answer() -> None:
    graph = nx.barbell_graph(8, 0)
    labels = ["left"] * 8 + ["right"] * 8
    labels[2] = "right"
    nx.set_node_attributes(graph, dict(enumerate(labels)), "label")
    nodes = pd.DataFrame({"id": range(16), "label": labels})
    edges = pd.DataFrame(list(graph.edges), columns=["source", "target"])
    first = erase.audit(graph, method="label-propagation")
    second = erase.audit((nodes, edges), method="label-propagation")
    pd.testing.assert_frame_equal(first.issues, second.issues)
    assert first.issues["quality"].idxmin() == first.issues["node"].tolist().index(2) == 0
    assert first.issues["given"][0] == "right"


def cliques(labels: list[int], size: int = 10) -> Data:
    """Return cliques without an edge between them."""
    graph = nx.disjoint_union_all([nx.complete_graph(size) for _ in range(len(labels) // size)])
    edges = torch.tensor(list(graph.edges)).T
    return Data(edge_index=edges, y=torch.tensor(labels), num_nodes=len(labels))


@pytest.mark.parametrize("method", [LabelPropagation(), model()], ids=["labels", "network"])
def test_one_class_per_component_is_right(method: NodeClassifier) -> None:
    found = erase.audit(cliques([0] * 10 + [1] * 10), method=method)
    assert not found.decision.is_issue.any()
    assert (found.issues["neighbours_agree"] == 1).all()
    assert found.decision.noise_rate.value < 0.1


def test_an_error_inside_a_component_is_found() -> None:
    found = erase.audit(cliques([1] + [0] * 9 + [1] * 10 + [2] * 10), method="label-propagation")
    assert found.issues["node"][found.issues["is_issue"]].tolist() == [0]
    assert found.issues["suggested"][0] == "0"
    assert found.issues["verdict"][0] == "wrong"


def test_a_class_with_one_label_is_not_called_wrong() -> None:
    found = erase.audit(cliques([0] * 10 + [1] * 9 + [2]), method="label-propagation")
    assert "The only label of a class cannot be checked: '2'." in found.notes
    row = found.issues.set_index("node").loc[19]
    assert (row["is_issue"], row["verdict"]) == (False, "can't tell")
    assert row["quality"] <= 0.5


def test_many_classes_of_one_label_are_named_in_a_note() -> None:
    found = erase.audit(cliques([0, 0, 1, 2, 3, 4, 5, 6, 7, 7]), method="label-propagation")
    assert found.notes[-2].endswith("cannot be checked: '1', '2', '3', '4', '5' and 1 more.")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("cora", "load_dataset"),
        (Path("graph.npz"), "erase.read_graph"),
        (np.eye(3), "torch_geometric Data"),
        (None, "NoneType"),
        (HeteroData(), "to_homogeneous"),
        ((np.eye(2), np.eye(2)), "torch_geometric Data"),
        (Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), "labels in data.y"),
        (path_graph(y=torch.full((5,), -1)), "training node with a label"),
        (path_graph(train_mask=mask()), "training node with a label"),
        (path_graph(y=torch.tensor([1, 1, 0, 0, 0])), "at least two classes"),
        (path_graph(y=torch.tensor([0, 1, 1, 0])), "labels|one entry"),
        (path_graph(y=torch.tensor([0.5, 1, 1, 0, 1])), "whole numbers"),
        (path_graph(y=torch.tensor([0, 1, -7, 0, 1])), "label -7"),
        (path_graph(y=torch.eye(5)), "one label per node"),
        (path_graph(val_mask=mask(1, 2)), "do not overlap"),
        (path_graph(train_mask=torch.tensor([0, 9])), "node numbers"),
        (path_graph(node_names=["a", "b"]), "node_names"),
        (path_graph(class_names=["a", "a"]), "different class_names"),
        (path_graph(x=torch.full((5, 2), float("nan"))), "nan|NaN|finite"),
        (path_graph(x=torch.full((5, 2), 1e60, dtype=torch.float64)), "float32 can hold"),
        (path_graph(edge_index=torch.tensor([[0, 9], [1, 1]])), "9"),
        (path_graph(edge_index=torch.tensor([[0.5, 1], [1, 0]])), "edge"),
    ],
)
def test_bad_graphs_are_refused_with_a_sentence(graph: Any, message: str) -> None:
    with pytest.raises(EraseError, match=message):
        erase.audit(graph, method="label-propagation")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "a method among erase, ce"),
        ({"method": 3}, "a method among"),
        ({"method": CrossEntropy}, "a method among"),
        ({"method": model(dropout=2.0)}, "dropout"),
        ({"folds": 1}, "2 to 1,000 folds"),
        ({"max_false_alarms": 1.5}, "max_false_alarms"),
        ({"max_false_alarms": float("nan")}, "max_false_alarms"),
        ({"max_false_alarms": "few"}, "max_false_alarms"),
        ({"seed": -1}, "seed"),
        ({"device": "abacus"}, "'auto', 'cpu' or 'cuda'"),
    ],
)
def test_bad_options_are_refused_before_training(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("trained")

    for method in {METHODS[DEFAULT_METHOD], CrossEntropy}:
        monkeypatch.setattr(method, "_train", never)
    with pytest.raises(EraseError, match=message):
        erase.audit(path_graph(), **options)


def with_verdicts(audited: erase.Audit) -> erase.Audit:
    """Return the audit with six flagged labels: five "wrong" and one "can't tell"."""
    given = audited.given[audited.given >= 0]
    differs = np.flatnonzero(audited.decision.suggested != given)[:6]
    assert len(differs) == 6
    is_issue = np.zeros(len(given), bool)
    is_issue[differs] = True
    verdict = np.where(is_issue, "wrong", "right").astype("U10")
    verdict[differs[0]] = "can't tell"
    decision = replace(audited.decision, is_issue=is_issue, verdict=verdict)
    row = np.searchsorted(np.flatnonzero(audited.given >= 0), audited.issues["node"])
    issues = audited.issues.assign(is_issue=is_issue[row], verdict=verdict[row])
    return replace(audited, decision=decision, issues=issues)


def test_clean_labels_replace_what_is_wrong_and_drop_what_is_undecided(
    audited: erase.Audit,
) -> None:
    found = with_verdicts(audited)
    clean, decision = found.clean_labels(), found.decision
    nodes = np.flatnonzero(found.given >= 0)
    for i, node in enumerate(nodes):
        if not decision.is_issue[i]:
            assert clean[node] == found.given[node]
        elif decision.verdict[i] == "wrong":
            assert clean[node] == decision.suggested[i] != found.given[node]
        else:
            assert clean[node] == -1
    assert (clean[found.given < 0] == -1).all()
    assert (clean[nodes] == -1).sum() == 1


def test_an_unflagged_label_is_kept_whatever_the_verdict(audited: erase.Audit) -> None:
    verdict = np.where(audited.decision.is_issue, audited.decision.verdict, "can't tell")
    found = replace(audited, decision=replace(audited.decision, verdict=verdict))
    np.testing.assert_array_equal(found.clean_labels(), audited.clean_labels())


def test_a_clean_graph_keeps_what_was_not_audited(audited: erase.Audit) -> None:
    clean, given = fruit()
    whole = copy.copy(given)
    whole.y = torch.where(given.y >= 0, given.y, clean.y)  # test labels too
    cleaned = with_verdicts(audited).clean_graph(whole)
    expected = torch.from_numpy(with_verdicts(audited).clean_labels())
    assert torch.equal(cleaned.y[given.y >= 0], expected[given.y >= 0])
    assert torch.equal(cleaned.y[given.y < 0], clean.y[given.y < 0])
    assert not torch.equal(cleaned.y, whole.y)
    assert (
        "1 training nodes have no label and are left out of training." in NodeTask.of(cleaned).notes
    )
    assert cleaned.x is whole.x


def test_labels_keep_their_own_numbers_through_an_audit(tmp_path: Path) -> None:
    data = cliques([30] + [10] * 9 + [30] * 10)
    found = erase.audit(data, method="label-propagation")
    assert found.class_names == ("10", "30")
    first = found.issues.iloc[0]
    assert (first["node"], first["given"], first["suggested"]) == (0, "30", "10")
    assert found.clean_labels().tolist() == [10] * 10 + [30] * 10
    cleaned = found.clean_graph(data)
    assert cleaned.y.tolist() == [10] * 10 + [30] * 10
    assert NodeTask.of(cleaned).label_values.tolist() == [10, 30]
    found.save(tmp_path)
    table = pd.read_csv(tmp_path / "labels_clean.csv")
    assert table["label"].tolist() == [10] * 10 + [30] * 10
    assert table["was"].tolist() == data.y.tolist()


def test_a_clean_graph_of_names_has_names() -> None:
    data = cliques([1] + [0] * 9 + [1] * 10)
    data.y = ["pear", *["apple"] * 9, *["pear"] * 10]
    found = erase.audit(data, method="label-propagation")
    cleaned = found.clean_graph(data)
    assert list(cleaned.y) == ["apple"] * 10 + ["pear"] * 10
    assert found.clean_labels().tolist() == ["apple"] * 10 + ["pear"] * 10
    dropped = found.decision.is_issue.copy()
    unsure = replace(found.decision, verdict=np.where(dropped, "can't tell", "right"))
    assert replace(found, decision=unsure).clean_graph(data).y.tolist()[:2] == ["", "apple"]
    assert data.y[0] == "pear"


def test_a_class_that_loses_its_last_label_is_still_a_class() -> None:
    found = erase.audit(cliques([0] * 10 + [1] * 10), method="label-propagation")
    posterior = replace(
        found.decision,
        is_issue=found.given == 1,
        verdict=np.where(found.given == 1, "wrong", "right"),
        suggested=np.zeros(20, np.int64),
    )
    cleaned = replace(found, decision=posterior).clean_graph(cliques([0] * 10 + [1] * 10))
    assert cleaned.y.tolist() == [0] * 20
    assert list(cleaned.class_names) == ["0", "1"]


@pytest.mark.parametrize(
    "other",
    [
        two_communities(size=40, classes=3),  # without the names of classes
        two_communities(size=20, classes=3),
        fruit(rate=0.5)[1],
        NodeTask.of(fruit(rate=0.5)[1]),
    ],
    ids=["classes", "nodes", "labels", "task"],
)
def test_another_graph_cannot_be_cleaned(audited: erase.Audit, other: Any) -> None:
    with pytest.raises(EraseError, match="the graph that was audited"):
        audited.clean_graph(other)


def test_saved_files_hold_the_audit(audited: erase.Audit, tmp_path: Path) -> None:
    found = with_verdicts(audited)
    found.save(tmp_path / "new" / "folder", parquet=True)
    folder = tmp_path / "new" / "folder"
    assert sorted(p.name for p in folder.iterdir()) == [
        "audit.safetensors",
        "issues.csv",
        "issues.parquet",
        "labels_clean.csv",
        "summary.json",
    ]
    pd.testing.assert_frame_equal(pd.read_csv(folder / "issues.csv"), found.issues)
    pd.testing.assert_frame_equal(
        pd.read_parquet(folder / "issues.parquet").astype(found.issues.dtypes), found.issues
    )
    labels = pd.read_csv(folder / "labels_clean.csv", keep_default_na=False)
    assert list(labels) == ["node", "name", "label", "was", "changed"]
    nodes = np.flatnonzero(found.given >= 0)
    assert labels["node"].tolist() == nodes.tolist()
    assert labels["name"].tolist() == [f"node {i}" for i in nodes]
    names = np.array([*found.class_names, ""])
    assert labels["label"].tolist() == names[found.clean_labels()[nodes]].tolist()
    assert labels["was"].tolist() == names[found.given[nodes]].tolist()
    assert (labels["changed"] == (labels["label"] != labels["was"])).all()
    assert labels["changed"].sum() == 6
    assert (labels["label"] == "").sum() == 1
    found.save(tmp_path / "plain")
    assert not (tmp_path / "plain" / "issues.parquet").exists()


def test_the_summary_counts_what_is_there(audited: erase.Audit, tmp_path: Path) -> None:
    found = with_verdicts(audited)
    found.save(tmp_path)
    summary = read_json(tmp_path / "summary.json")
    assert summary == json.loads(json.dumps(found.summary()))
    decision, issues = found.decision, found.issues
    assert (summary["nodes"], summary["labels"]) == (120, 90)
    assert summary["edges"] == found.edge_index.shape[1] / 2
    assert summary["noise_rate"]["value"] == decision.noise_rate.value
    rate = summary["noise_rate"]
    assert rate["low"] <= rate["value"] <= rate["high"]
    known = summary["at_least"]
    assert known["low"] <= known["value"] <= known["high"]
    assert known["value"] <= rate["value"]
    assert summary["assumption"] == decision.assumption == IGNORES_FEATURES
    assert summary["confirmed"] == 0
    assert summary["flagged"] == issues["is_issue"].sum() == 6
    assert (summary["wrong"], summary["cannot_tell"]) == (5, 1)
    assert summary["expected_false_alarms"] <= summary["settings"]["max_false_alarms"]
    for row in summary["classes"]:
        own = issues[issues["given"] == row["class"]]
        assert row["labels"] == len(own)
        assert row["flagged"] == own["is_issue"].sum()
        assert row["noise_rate"] == pytest.approx(1 - own["quality"].mean())
    assert sum(row["suggested_instead"] for row in summary["classes"]) == summary["wrong"]
    assert summary["transition"]["classes"] == list(found.class_names)
    assert (summary["transition"]["rows"], summary["transition"]["columns"]) == (
        "true class",
        "given class",
    )
    for key, value in (
        ("value", decision.transition),
        ("low", decision.transition_low),
        ("high", decision.transition_high),
    ):
        np.testing.assert_array_equal(summary["transition"][key], value)
    assert summary["notes"] == list(found.notes)


def test_an_empty_class_keeps_its_place_in_the_summary() -> None:
    data = cliques([0] * 10 + [2] * 10)
    data.num_classes = 3
    summary = erase.audit(data, method="label-propagation").summary()
    assert [row["labels"] for row in summary["classes"]] == [10, 0, 10]
    assert np.isnan(summary["classes"][1]["noise_rate"])


def test_an_audit_shows_itself(audited: erase.Audit, tmp_path: Path) -> None:
    audited.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "apple" in page


def test_cleanlab_takes_the_probabilities_as_they_are(audited: erase.Audit) -> None:
    clean, given = fruit()
    labelled = audited.given >= 0
    labels = audited.given[labelled]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # cleanlab's, on import and in use
        from cleanlab import Datalab

        lab = Datalab({"label": labels}, label_name="label", task="classification", verbosity=0)
        lab.find_issues(pred_probs=audited.pred_probs[labelled], issue_types={"label": {}})
    theirs = lab.get_issues("label")
    assert (theirs["given_label"] == labels).all()
    wrong = (given.y != clean.y).numpy()[labelled]
    found = detection_scores(theirs["label_score"].to_numpy(), theirs["is_label_issue"], wrong)
    assert found["auroc"] > 0.9


def test_scores_of_an_audit_by_loops(audited: erase.Audit) -> None:
    clean, _ = fruit()
    rows = list(audited.issues.itertuples())
    names = audited.class_names
    wrong = [names[int(clean.y[row.node])] != row.given for row in rows]
    flagged = [row for row, bad in zip(rows, wrong, strict=True) if row.is_issue and bad]
    scores = score_audit(audited, clean)
    assert scores["mislabelled"] == sum(wrong)
    assert scores["labels"] == 90
    assert scores["recall"] == pytest.approx(len(flagged) / sum(wrong))
    alarms = [bad for row, bad in zip(rows, wrong, strict=True) if row.is_issue]
    assert scores["false_alarms"] == pytest.approx(alarms.count(False) / len(alarms))
    right = [row.suggested == names[int(clean.y[row.node])] for row in flagged]
    assert scores["suggestions_right"] == pytest.approx(np.mean(right))
    rate = audited.decision.noise_rate.value
    assert scores["noise_rate_error"] == pytest.approx(rate - sum(wrong) / 90)
    pairs = [
        (a.quality < b.quality) + 0.5 * (a.quality == b.quality)
        for a, bad in zip(rows, wrong, strict=True)
        for b, worse in zip(rows, wrong, strict=True)
        if bad and not worse
    ]
    assert scores["auroc"] == pytest.approx(np.mean(pairs))


def test_labels_whose_truth_is_unknown_are_not_scored(audited: erase.Audit) -> None:
    clean, _ = fruit()
    partly = copy.copy(clean)
    partly.y = clean.y.clone()
    partly.y[:10] = -1
    assert score_audit(audited, partly)["labels"] == 80
    with pytest.raises(EraseError, match="the clean labels"):
        score_audit(audited, two_communities(size=40, classes=3))


def test_notes_and_models_are_printed_with_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    erase.audit(two_communities(), method="label-propagation", folds=3, progress=True)
    output = capsys.readouterr().err
    assert output.count("Note: ") == len(NodeTask.of(two_communities()).notes) > 0
    assert "3 models at once" in output
    erase.audit(two_communities(), method="label-propagation", folds=3)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_too_few_trusted_labels_to_learn_from_are_told() -> None:
    graph = two_communities(size=40, classes=3)
    trusted = torch.full_like(graph.y, -1)
    trusted[:7] = graph.y[:7]
    trusted[0] = (graph.y[0] + 1) % 3
    graph.trusted = trusted
    notes = " ".join(erase.audit(graph, method="label-propagation").notes)
    assert "7 trusted labels, 1 of them other than the given one, are too few" in notes
    assert "confirm 13 more" in notes
    graph.trusted[:20] = graph.y[:20]
    assert "too few" not in " ".join(erase.audit(graph, method="label-propagation").notes)
