"""Audits with their graphs, for tests of the review: no training is needed."""

from pathlib import Path
from typing import Any

import torch
from starlette.testclient import TestClient
from torch_geometric.data import Data

from erase.audit import Audit
from erase.review.server import Access, make_app
from erase.review.session import Plan, Session
from erase.review.store import Reviews
from synthetic_audits import planted_audit

PORT = 8765
TOKEN = "a-token-of-twenty-or-more"
HOST = f"http://127.0.0.1:{PORT}"
MINI = ("apple", "pear", "plum")


def graph_of(audit: Audit) -> Data:
    """Return the graph that an audit is about."""
    return Data(
        x=torch.from_numpy(audit.embedding),
        edge_index=torch.from_numpy(audit.edge_index),
        y=torch.from_numpy(audit.given),
        class_names=list(audit.class_names),
        node_names=list(audit.node_names or ()),
    )


def small_session(folder: Path, nodes: int = 120, **options: Any) -> Session:
    """Return a session on a small planted graph with three classes."""
    audit = planted_audit(nodes, MINI)
    reviews = Reviews(folder / "reviews.sqlite", graph_of(audit))
    plan = Plan(**{"every": 0, **options.pop("plan", {})})
    return Session(audit, reviews, plan, **options)


def client_of(session: Session, by: str = "ann", *, admitted: bool = True) -> TestClient:
    """Return a client of the session's server."""
    app = make_app(session, Access(PORT, TOKEN, by=by))
    client = TestClient(app, base_url=HOST, raise_server_exceptions=False)
    if admitted:
        assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


def decision(node: int, k: int | None, key: str, **more: Any) -> dict[str, Any]:
    """Return the body of a request that stores one decision."""
    return {"decisions": [{"key": key, "node": node, "class": k, **more}]}
