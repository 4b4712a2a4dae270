"""What a reviewer is shown: rows of the table, telling features, some neighbours of a hub."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from erase.audit import Audit
from erase.review.evidence import Evidence, details_of, feature_details, table_details
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
