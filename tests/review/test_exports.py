"""Files that come out of a review."""

from pathlib import Path

import erase
from erase.review.exports import usual_exports
from reviewed_graphs import MINI, graph_of
from synthetic_audits import planted_audit


def test_the_graph_carries_its_trusted_labels(tmp_path: Path) -> None:
    audit = planted_audit(60, MINI)
    graph = graph_of(audit)
    node = int(audit.issues["node"].iloc[0])
    with erase.Reviews(tmp_path / "r.sqlite", graph) as reviews:
        reviews.record(node, MINI[1], random=True)
        files = usual_exports(reviews, graph, None, {})
        assert list(files) == ["graph.npz"]  # there is no table to correct
        (tmp_path / "graph.npz").write_bytes(files["graph.npz"]())
    read = erase.read_graph(tmp_path / "graph.npz")
    assert read.trusted[node] == 1
    assert (read.trusted >= 0).sum() == 1
    assert read.trusted_random.nonzero().flatten().tolist() == [node]
    assert read.y.tolist() == graph.y.tolist()  # what was given stays
