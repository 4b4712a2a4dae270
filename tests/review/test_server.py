"""The server: what the page asks for, and what everybody else is refused."""

import json
import logging
import socket
import time
import urllib.request
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from erase.errors import EraseError
from erase.review import server
from erase.review import session as module
from erase.review.server import BODY_LIMIT, HEADERS, Access, Guard, served
from erase.review.session import Session
from reviewed_graphs import HOST, MINI, PORT, TOKEN, client_of, decision, small_session
from synthetic_audits import planted_audit

KEY = "0123456789abcdef"
WRITES = ("/api/decisions", "/api/undo", "/api/reviewer")
READS = ("/", "/review.js", "/review.css", "/api/start", "/api/state", "/api/items", "/api/nodes/0",
         "/api/groups", "/api/group", "/api/disagreements", "/export/decisions.csv",
         "/export/labels.csv")  # fmt: skip


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(module, "FRESH", -1.0)
    return small_session(tmp_path)


@pytest.fixture
def client(session: Session) -> TestClient:
    return client_of(session)


def test_a_decision_is_stored_before_it_is_acknowledged(
    client: TestClient, session: Session
) -> None:
    start = client.get("/api/start").json()
    assert (start["reviewer"], [each["name"] for each in start["classes"]]) == ("ann", [*MINI])
    item, *_ = client.get("/api/items?n=3").json()
    body = decision(item["node"], 1, KEY, note="fruit", seconds=2.5)
    for new in (1, 0):  # a request that is sent again is acknowledged again, and stored once
        assert client.post("/api/decisions", json=body).json() == {"stored": 1, "new": new}
    (row,) = session.reviews.decisions.to_dict("records")
    assert (row["reviewer"], row["label"], row["note"]) == ("ann", MINI[1], "fruit")
    assert client.get("/api/state").json()["progress"]["reviewed"] == 1
    (again,) = client.post("/api/undo", json={"key": KEY + "1"}).json()["items"]
    assert again["node"] == item["node"]
    assert client.get("/api/state").json()["progress"]["reviewed"] == 0


def test_odd_text_is_shown_and_formulas_are_escaped_on_request(tmp_path: Path) -> None:
    """Names of files, and of reviewers on the command line, may be anything."""
    session = small_session(tmp_path, name="caf\udce9")
    session.reviews.record(0, MINI[1], by="\udcff", note="=1+1")
    with served(session, by="\udce9", token=TOKEN, safe_csv=True) as url:
        address = urlsplit(url)
        jar = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert "caf\\udce9" in jar.open(url).read().decode()
        base = f"http://{address.netloc}"
        assert json.load(jar.open(f"{base}/api/start"))["reviewer"] == "\\udce9"
        table = pd.read_csv(jar.open(f"{base}/export/decisions.csv"))
    assert table["note"].tolist() == ["'=1+1"]


def test_what_cannot_be_stored_now_may_be_sent_again(client: TestClient, session: Session) -> None:
    """The page drops what is refused with a status below 500."""
    path = session.reviews.path
    node = client.get("/api/items?n=1").json()[0]["node"]
    moved = path.rename(path.with_name("moved.sqlite"))
    answer = client.post("/api/decisions", json=decision(node, 0, "decision-1"))
    assert answer.status_code == 503
    assert "moved, deleted or replaced" in answer.json()["error"]
    assert not session.reviews.votes()
    moved.rename(path)
    answer = client.post("/api/decisions", json=decision(node, 0, "decision-1"))
    assert answer.json() == {"stored": 1, "new": 1}


def test_several_decisions_are_one_batch(client: TestClient) -> None:
    cards = client.get("/api/group?given=0&suggested=2&n=5").json()
    if not cards:
        cards = [{"node": item["node"]} for item in client.get("/api/items?n=3").json()]
    sent = [{"key": f"{KEY}{i}", "node": card["node"], "class": 2} for i, card in enumerate(cards)]
    assert client.post("/api/decisions", json={"decisions": sent}).json()["new"] == len(cards)
    undone = client.post("/api/undo", json={"key": KEY}).json()["items"]
    assert len(undone) == len(cards)


def test_two_decisions_are_a_batch_and_one_is_none(client: TestClient, session: Session) -> None:
    nodes = [item["node"] for item in client.get("/api/items?n=3").json()]
    client.post("/api/decisions", json=decision(nodes[0], 0, f"{KEY}0"))
    sent = [{"key": f"{KEY}{node}x", "node": node, "class": 0} for node in nodes[1:]]
    client.post("/api/decisions", json={"decisions": sent})
    batch = session.reviews.decisions["batch"]
    assert batch.isna().tolist() == [True, False, False]
    undone = client.post("/api/undo", json={"key": KEY}).json()["items"]
    assert [item["node"] for item in undone] == nodes[1:]


def test_reviewers_name_themselves(session: Session) -> None:
    ann, bob = client_of(session, ""), client_of(session, "")
    assert ann.post("/api/reviewer", json={"name": "  Ann  Ó  "}).json() == {"reviewer": "Ann Ó"}
    bob.post("/api/reviewer", json={"name": "bob"})
    for client, name in ((ann, "Ann Ó"), (bob, "bob")):
        item, *_ = client.get("/api/items?n=1").json()
        client.post("/api/decisions", json=decision(item["node"], 0, f"{KEY}{name[:1]}"))
        assert client.get("/api/start").json()["reviewer"] == name
    assert session.reviews.reviewers == ["Ann Ó", "bob"]


def test_files_are_there_to_download(client: TestClient) -> None:
    item, *_ = client.get("/api/items?n=1").json()
    client.post("/api/decisions", json=decision(item["node"], 2, KEY))
    decisions = pd.read_csv(BytesIO(client.get("/export/decisions.csv").content))
    assert decisions["label"].tolist() == [MINI[2]]
    answer = client.get("/export/labels.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="labels.csv"'
    labels = pd.read_csv(BytesIO(answer.content)).set_index("node")
    assert labels.loc[item["node"], "label"] == MINI[2]
    assert client.get("/export/reviews.sqlite").status_code == 404
    assert client.get("/export/..%2freviews.sqlite").status_code == 404


@pytest.mark.parametrize("path", READS)
def test_nothing_is_shown_without_the_token(path: str, session: Session) -> None:
    client = client_of(session, admitted=False)
    assert client.get(path).status_code == 403
    assert client.get("/?token=wrong").status_code == 403
    wrong = {"cookie": f"{Access(PORT, TOKEN).cookie}=wrong"}
    assert client.get(path, headers=wrong).status_code == 403
    answer = client.get(f"/?token={TOKEN}", follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/",
    )  # the token leaves the bar
    answer = client.get(path)
    assert answer.status_code == 200
    for name, value in HEADERS.items():
        assert answer.headers[name] == value


def test_the_token_opens_the_start_page_only(session: Session) -> None:
    """Other addresses that carry it would keep it, in logs and histories."""
    client = client_of(session, admitted=False)
    for path in ("/api/start", "/export/decisions.csv", "/review.js"):
        answer = client.get(f"{path}?token={TOKEN}", follow_redirects=False)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil:8765"],
)
def test_a_foreign_host_is_refused(host: str, client: TestClient) -> None:
    """A page that rebinds its name to this machine sends its own name."""
    assert client.get("/api/start", headers={"host": host}).status_code == 421
    assert client.get("/api/start", headers={"host": f"localhost:{PORT}"}).status_code == 200


def test_two_hosts_are_refused() -> None:
    names = [(b"host", f"127.0.0.1:{PORT}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": names}
    guard = Guard(lambda *_: None, Access(PORT, TOKEN))  # type: ignore[arg-type]
    assert guard._refusal(Request(scope)) is None
    answer = guard._refusal(Request({**scope, "headers": [*names, (b"host", b"evil.example")]}))
    assert answer is not None
    assert answer.status_code == 421


def test_the_page_runs_no_foreign_script_and_is_framed_by_none() -> None:
    rules = dict(rule.split(" ", 1) for rule in HEADERS["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert HEADERS["Cache-Control"] == "no-store"


def test_endless_headers_are_refused(session: Session) -> None:
    with served(session) as url:
        place = ("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        # it may hang up before all is sent, but not wait
        with suppress(ConnectionError), socket.create_connection(place, timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 1_000_000)
            answer = client.recv(100)
            assert b" 400 " in answer or not answer
        with socket.create_connection(place, timeout=10) as client:  # others are answered
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 421 " in client.recv(100)


@pytest.mark.parametrize("path", WRITES)
def test_other_pages_cannot_write(path: str, client: TestClient, session: Session) -> None:
    body = decision(0, 0, KEY) if "decisions" in path else {"key": KEY}
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:80"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert client.post(path, json=body, headers=headers).status_code == 403
        assert client.get("/api/start", headers=headers).status_code == 403
    plain = {"content-type": "text/plain"}  # what a form of another page could send
    assert client.post(path, content=json.dumps(body), headers=plain).status_code == 415
    assert client.put(path, json=body).status_code == 405
    assert client.get(path).status_code == 405
    assert session.reviews.decisions.empty
    assert client.get("/api/start", headers={"origin": HOST}).status_code == 200


MALFORMED = {
    "empty": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "not UTF-8": b'{"key": "\xff\xfe0000000"}',
    "deep": b"[" * 50_000,
    "no key": json.dumps({"decisions": [{"node": 0, "class": 0}]}).encode(),
    "short key": json.dumps(decision(0, 0, "k")).encode(),
    "odd key": json.dumps(decision(0, 0, "<script>alert(1)</script>")).encode(),
    "no such node": json.dumps(decision(10**9, 0, KEY)).encode(),
    "huge node": json.dumps(decision(10**30, 0, KEY)).encode(),
    "negative node": json.dumps(decision(-1, 0, KEY)).encode(),
    "a text as node": json.dumps(decision("0", 0, KEY)).encode(),  # type: ignore[arg-type]
    "no such class": json.dumps(decision(1, 3, KEY)).encode(),
    "negative class": json.dumps(decision(1, -1, KEY)).encode(),
    "long note": json.dumps(decision(1, 0, KEY, note="x" * 3_000)).encode(),
    "endless seconds": json.dumps(decision(1, 0, KEY, seconds=9)).replace("9}", "1e999}").encode(),
    "unknown field": json.dumps(decision(1, 0, KEY, reviewer="eve")).encode(),
    "no decisions": b'{"decisions": []}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_bodies_are_refused(body: bytes, client: TestClient, session: Session) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post("/api/decisions", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert session.reviews.decisions.empty
    assert client.get("/api/state").status_code == 200


def test_many_decisions_and_long_names_are_limited(client: TestClient, session: Session) -> None:
    node = session.audit.issues["node"].tolist()[0]
    sent = [{"key": f"{KEY}{i}", "node": node, "class": 0} for i in range(201)]
    assert client.post("/api/decisions", json={"decisions": sent}).status_code == 400
    assert client.post("/api/decisions", json={"decisions": sent[:200]}).status_code == 200
    assert client.post("/api/reviewer", json={"name": "x" * 61}).status_code == 400
    client.cookies.set(f"{Access(PORT, TOKEN).cookie}-name", "x" * 100)  # not by our page
    assert client.get("/api/start").json()["reviewer"] == "x" * 60


def test_large_bodies_are_refused(client: TestClient) -> None:
    headers = {"content-type": "application/json"}

    def parts() -> object:
        for _ in range(1000):  # without a length, as a stream
            yield b" " * 1000

    for body in (b" " * (BODY_LIMIT + 1), parts()):
        answer = client.post("/api/decisions", content=body, headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 413


@pytest.mark.parametrize(
    "path", ["/api/items?n=x", "/api/items?n=1000", "/api/group?given=99", "/api/nodes/5000"]
)
def test_odd_questions_are_refused(path: str, client: TestClient) -> None:
    assert client.get(path).status_code == 400
    assert client.get("/api/items?have=1,x,<b>,99999999").status_code == 200
    assert client.get("/nothing").status_code == 404


@pytest.mark.parametrize("path", [f"/api/nodes/{'9' * 5000}", "/" + "a" * 10_000])
def test_endless_paths_are_refused(path: str, client: TestClient) -> None:
    """Python writes no number of so many digits."""
    assert client.get(path).status_code == 404


def test_a_page_that_leaves_in_the_middle_is_no_error(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with served(session, token=TOKEN) as url:
        logging.getLogger("uvicorn").addHandler(caplog.handler)
        port = urlsplit(url).port or 0
        head = [
            "POST /api/decisions HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            f"Cookie: {Access(port, TOKEN).cookie}={TOKEN}",
            "Content-Type: application/json",
            "Content-Length: 1000",
        ]
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(("\r\n".join(head) + "\r\n\r\n{").encode())
            time.sleep(0.3)  # until it is read
        time.sleep(0.3)
        logging.getLogger("uvicorn").removeHandler(caplog.handler)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    assert session.reviews.decisions.empty


def test_names_are_data_everywhere(tmp_path: Path) -> None:
    """A name that is HTML arrives as text: in JSON, and escaped in the page."""
    evil = '<script>alert(1)</script>"&'
    audit = planted_audit(60, ("<b>x</b>", "y"))
    names = (evil,) * 60
    session = small_session(tmp_path, name=evil)
    session._use(audit.__class__(**{**vars(audit), "node_names": names}))
    client = client_of(session)
    page = client.get("/")
    assert evil not in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    assert "<script" in page.text  # only the server's own, by its address
    assert page.text.count("<script") == 1
    item, *_ = client.get("/api/items?n=1").json()
    assert item["names"][0] == evil
    assert client.get("/api/items").headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("bound", "host", "known"),
    [
        ("127.0.0.1", "localhost:8765", True),
        ("127.0.0.1", "[::1]:8765", True),
        ("127.0.0.1", "192.168.0.7:8765", False),
        ("192.168.0.7", "192.168.0.7:8765", True),
        ("0.0.0.0", "192.168.0.7:8765", True),
        ("0.0.0.0", "evil.example:8765", False),
        ("127.0.0.1", "", False),
    ],
)
def test_hosts_by_the_address_that_is_bound(bound: str, host: str, known: bool) -> None:
    assert Access(PORT, TOKEN, host=bound).knows_host(host) is known


def test_the_usual_port_gives_way_and_a_wrong_address_is_named(session: Session) -> None:
    with socket.socket() as taken:
        with suppress(OSError):  # somebody else may have it
            taken.bind(("127.0.0.1", server.PORT))
            taken.listen()
        with served(session, port=None) as url:
            assert f":{server.PORT}/" not in url
    with (
        pytest.raises(EraseError, match=r"that is free; got 192\.0\.2\.1:8765"),
        served(session, host="192.0.2.1", port=None),
    ):
        pass
