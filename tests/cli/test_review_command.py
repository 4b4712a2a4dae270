"""`erase review`: from a graph to a page, and from decisions to files."""

import json
import os
import random
import shlex
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.client import HTTPException
from http.cookiejar import CookieJar
from pathlib import Path
from threading import Event, Timer
from typing import Any

import httpx2
import pandas as pd
import pytest

import erase
from command_line import NO_TABLE_OPTIONS, parsed
from erase.audit.storage import save_audit
from erase.cli import main
from erase.review.session import Plan, Session
from reviewed_graphs import MINI, TOKEN, graph_of
from synthetic_audits import planted_audit

AUDIT = planted_audit(120, MINI)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of tables, with a saved audit beside it."""
    path = tmp_path / "shop"
    erase.write_graph(graph_of(AUDIT), path)
    save_audit(AUDIT, tmp_path / "audit.safetensors")
    return path


@pytest.fixture
def reviewed(folder: Path, tmp_path: Path) -> Path:
    """Return a database with decisions on two labels."""
    with erase.Reviews(tmp_path / "r.sqlite", erase.read_graph(folder)) as reviews:
        wrong = AUDIT.issues.iloc[0]
        reviews.record(int(wrong["node"]), str(wrong["suggested"]), by="ann", note="sure")
        right = AUDIT.issues.iloc[-1]
        reviews.record(int(right["node"]), str(right["given"]), by="ann")
        return reviews.path


def test_the_options_and_their_defaults() -> None:
    assert parsed("review", "g") == {
        "graph": "g",
        "db": None,
        "audit": None,
        "by": "",
        "budget": 100,
        "every": 20,
        "strategy": "mixed",
        "random_share": 0.2,
        "double_share": 0.1,
        "all_labels": False,
        "port": None,
        "host": "127.0.0.1",
        "token": None,
        "no_browser": False,
        "export": None,
        "write_back": None,
        "seed": 0,
        "device": "auto",
        "safe_csv": False,
        "quiet": False,
        **NO_TABLE_OPTIONS,
    }


def test_decisions_become_files(folder: Path, reviewed: Path, tmp_path: Path) -> None:
    command = ["review", str(folder), "--db", str(reviewed), "--export"]
    for name in ("labels.csv", "decisions.csv", "graph.npz"):
        assert main([*command, str(tmp_path / name)]) == 0
    wrong = AUDIT.issues.iloc[0]
    labels = pd.read_csv(tmp_path / "labels.csv", dtype=str).set_index("name")
    row = labels.loc[wrong["name"]]
    assert (row["label"], row["was"], row["changed"]) == (
        wrong["suggested"],
        wrong["given"],
        "True",
    )
    assert (labels["changed"] == "True").sum() == 1
    assert labels["trusted"].notna().sum() == 2
    decisions = pd.read_csv(tmp_path / "decisions.csv", dtype=str)
    assert decisions["node_name"].tolist()[0] == wrong["name"]
    assert decisions["note"].tolist()[0] == "sure"
    assert erase.read_graph(tmp_path / "graph.npz").num_nodes == 120
    before = pd.read_csv(folder / "nodes.csv", dtype=str, keep_default_na=False)
    target = tmp_path / "nodes.csv"
    assert main([*command[:-1], "--write-back", str(target)]) == 0
    after = pd.read_csv(target, dtype=str, keep_default_na=False)
    differs = (after != before).any(axis=1)
    assert after.loc[differs, "label"].tolist() == [wrong["suggested"]]


@pytest.mark.parametrize("kind", ["database", "decisions", "labels"])
def test_other_commands_take_the_decisions(
    kind: str, folder: Path, reviewed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = reviewed
    if kind != "database":
        file = tmp_path / f"{kind}.csv"
        assert main(["review", str(folder), "--db", str(reviewed), "--export", str(file)]) == 0
    seen: list[Any] = []
    of = erase.NodeTask.of

    def watched(graph: Any, **options: Any) -> Any:
        seen.append(graph)
        return of(graph, **options)

    monkeypatch.setattr(erase.NodeTask, "of", watched)
    command = [str(folder), "--method", "label-propagation", "--quiet", "--reviews", str(file)]
    for name in ("audit", "fit"):
        seen.clear()
        assert main([name, *command, "--out", str(tmp_path / name)]) == 0
        assert sum(str(each) != "" for each in seen[0].trusted) == 2


def test_an_audit_estimates_as_the_page_does(folder: Path, reviewed: Path, tmp_path: Path) -> None:
    with erase.Reviews(reviewed, erase.read_graph(folder)) as reviews:
        session = Session(AUDIT, reviews, Plan(every=0, random_share=0.5))
        for turn, (node, drawn) in enumerate(session._ranked(AUDIT)[0][:60]):
            k = (AUDIT.given[node] + (turn % 4 == 0)) % 3
            reviews.record(node, AUDIT.class_names[k], by="ann", random=drawn)
        page = Session(AUDIT, reviews, Plan(every=0)).progress()
    command = ["audit", str(folder), "--method", "label-propagation", "--quiet"]
    assert main([*command, "--reviews", str(reviewed), "--out", str(tmp_path / "out")]) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["noise_rate"] == pytest.approx(page["wrong"])
    assert summary["confirmed"] == page["random"] > 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "--token SECRET"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 16"),
        (["--export", "labels.csv"], "a database of decisions"),
        (["--random-share", "3", "--audit", "../audit.safetensors"], "from 0 to 1"),
        (["--double-share", "nan"], "a double share from 0 to 1"),
        (["--seed", "-1"], "a seed"),
        (["--device", "cuda:99"], "device"),
    ],
)
def test_wrong_options_are_refused(
    words: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main(["review", ".", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv", "../shop/nodes.csv", "link.csv"])
def test_the_graphs_own_tables_are_not_exported_over(
    name: str, folder: Path, reviewed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "link.csv").symlink_to(folder / "nodes.csv")
    before = (folder / "nodes.csv").read_bytes(), (folder / "edges.csv").read_bytes()
    command = ["review", str(folder), "--db", str(reviewed), "--export", str(folder / name)]
    assert main(command) == 2
    assert "a table of the graph. Name another file; --write-back" in capsys.readouterr().err
    assert before == ((folder / "nodes.csv").read_bytes(), (folder / "edges.csv").read_bytes())


def test_an_address_that_is_not_free_is_told_before_the_audit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def audit(*_: Any, **__: Any) -> None:
        raise AssertionError("minutes of work, and then an error")

    monkeypatch.setattr("erase.audit.audit", audit)
    monkeypatch.chdir(folder.parent)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words in (["--port", port], ["--host", "999.1.1.1", "--token", TOKEN]):
            assert main(["review", "shop", "--no-browser", *words]) == 2
            assert "expected an address that is free" in capsys.readouterr().err


def test_reviews_of_another_graph_are_refused(
    reviewed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    erase.write_graph(graph_of(planted_audit(60, MINI)), tmp_path / "other")
    for name in ("audit", "fit"):
        assert main([name, str(tmp_path / "other"), "--reviews", str(reviewed)]) == 2
        assert (
            "the graph of the reviews, with 120 nodes; got one with 60" in capsys.readouterr().err
        )
        assert main([name, str(tmp_path / "other"), "--reviews", "missing"]) == 2
        assert "which is no file" in capsys.readouterr().err


def test_a_second_server_is_told(
    folder: Path, reviewed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with erase.Reviews(reviewed) as reviews, reviews.serve_alone():
        assert main(["review", str(folder), "--db", str(reviewed), "--no-browser"]) == 2
    assert "that no other server uses" in capsys.readouterr().err


def test_the_page_is_served_from_a_saved_audit(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The browser that it opens is a script, which presses Ctrl-C in the end."""
    opened: list[str] = []
    texts: list[str] = []

    def visit(url: str) -> None:
        opened.append(url)
        with httpx2.Client(base_url=url.split("/?")[0]) as client:
            texts.append(client.get(url, follow_redirects=True).text)
            item, *_ = client.get("/api/items?n=1").json()
            texts.append(dict(item["details"])["id"])
            texts.append(client.get("/api/start").json()["reviewer"])
            texts.append(client.get("/export/nodes.csv").text)
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", visit)
    command = ["review", str(folder), "--db", str(tmp_path / "new" / "r.sqlite"), "--port", "0"]
    command += ["--audit", str(tmp_path / "audit.safetensors"), "--by", "ann", "--token", TOKEN]
    assert main(command) == 0
    assert opened[0].endswith(f"/?token={TOKEN}")
    assert "<title>Review of shop</title>" in texts[0]
    assert texts[1].startswith("package ")
    assert texts[2] == "ann"
    assert texts[3] == (folder / "nodes.csv").read_text("utf-8")
    assert "0 labels are reviewed" in capsys.readouterr().err


def test_a_saved_audit_that_cannot_be_read_is_made_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def audit(graph: Any, **options: Any) -> Any:
        made.append(graph)
        return AUDIT

    def stop(url: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("erase.audit.audit", audit)
    monkeypatch.setattr("webbrowser.open", stop)
    db = tmp_path / "r.sqlite"
    command = ["review", str(folder), "--db", str(db), "--port", "0", "--quiet"]
    saved = tmp_path / "r-audit.safetensors"
    for content, audits in ((None, 1), (None, 1), (b"broken", 2), (b"", 3)):
        if content is not None:
            saved.write_bytes(content)
        assert main(command) == 0
        assert len(made) == audits
    assert main([*command, "--audit", str(folder / "nodes.csv")]) == 2  # what is asked for is named


def test_the_last_line_is_a_command_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my shop"
    erase.write_graph(graph_of(AUDIT), folder)
    nodes = (folder / "nodes.csv").read_text("utf-8")
    (folder / "nodes.csv").write_text(nodes.replace("label", "kind", 1), encoding="utf-8")
    save_audit(AUDIT, tmp_path / "audit.safetensors")
    db = tmp_path / "our reviews.sqlite"

    def visit(url: str) -> None:
        with erase.Reviews(db, graph_of(AUDIT)) as reviews:
            reviews.record(0, AUDIT.class_names[0], by="ann")
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", visit)
    monkeypatch.chdir(tmp_path)
    command = ["review", "my shop", "--label", "kind", "--all-labels", "--db", str(db)]
    assert main([*command, "--audit", "audit.safetensors", "--port", "0"]) == 0
    said = capsys.readouterr().err
    assert f"1 label is reviewed. Use them with --reviews '{db}'" in said
    erase_, *words = shlex.split(said.rpartition("with `")[2].rpartition("`")[0])
    assert (erase_, words[:5]) == ("erase", command[:5])
    assert main(words) == 0
    assert (tmp_path / "labels.csv").exists()


def test_audits_use_what_was_decided(
    folder: Path, reviewed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one, and the one in the background; the random order has the seed."""
    seen: list[int] = []

    def audit(graph: Any, **options: Any) -> Any:
        seen.append(sum(str(each) != "" for each in graph.trusted))
        return AUDIT

    def visit(url: str) -> None:
        with httpx2.Client(base_url=url.split("/?")[0]) as client:
            client.get(url)
            item, *_ = client.get("/api/items?n=1").json()
            body = {"key": "decision-1", "node": item["node"], "class": 0}
            assert client.post("/api/decisions", json={"decisions": [body]}).status_code == 200
            end = time.monotonic() + 10
            while client.get("/api/state").json()["progress"]["audits"] < 1:
                assert time.monotonic() < end
                time.sleep(0.02)
        raise KeyboardInterrupt

    monkeypatch.setattr("erase.audit.audit", audit)
    monkeypatch.setattr("webbrowser.open", visit)
    command = ["review", str(folder), "--db", str(reviewed), "--port", "0", "--quiet"]
    assert main([*command, "--by", "ann", "--every", "1", "--seed", "3"]) == 0
    assert seen == [2, 3]
    with erase.Reviews(reviewed) as reviews:
        assert reviews.seed == 3


def test_decisions_are_in_one_file_when_it_ends_during_an_audit(
    reviewed: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People copy the database alone, without the log that SQLite keeps beside an open one."""
    started, over = Event(), Event()
    left: list[bool] = []

    def audit(graph: Any, **options: Any) -> Any:
        if over.is_set() or threading.current_thread() is threading.main_thread():
            return AUDIT
        started.set()
        over.wait(30)
        return AUDIT

    def visit(url: str) -> None:
        with httpx2.Client(base_url=url.split("/?")[0]) as client:
            client.get(url)
            item, *_ = client.get("/api/items?n=1").json()
            body = {"key": "decision-1", "node": item["node"], "class": 0}
            assert client.post("/api/decisions", json={"decisions": [body]}).status_code == 200
        assert started.wait(30)
        raise KeyboardInterrupt

    def leave(status: int) -> None:
        left.append(reviewed.with_name(f"{reviewed.name}-wal").exists())
        over.set()
        raise SystemExit(status)

    monkeypatch.setattr("erase.audit.audit", audit)
    monkeypatch.setattr("webbrowser.open", visit)
    monkeypatch.setattr("erase.cli.review.os._exit", leave)
    command = ["review", str(folder), "--db", str(reviewed), "--port", "0", "--quiet"]
    with pytest.raises(SystemExit):
        main([*command, "--by", "ann", "--every", "1"])
    assert left == [False]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Client:
    """A scripted reviewer that talks to a server in another process."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.web = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def admitted(self) -> bool:
        try:
            self.web.open(f"{self.base}/?token={TOKEN}", timeout=5).read()
        except OSError:
            return False
        return True

    def decide(self, node: int, key: str) -> None:
        body = json.dumps({"decisions": [{"key": key, "node": node, "class": node % 3}]}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.base}/api/decisions", body, headers)
        with self.web.open(request, timeout=5) as answer:
            assert json.load(answer)["stored"] == 1


@pytest.mark.slow  # 20 starts of a server
def test_no_acknowledged_decision_is_lost_when_the_server_is_killed(
    folder: Path, tmp_path: Path
) -> None:
    """Killed at 20 random moments; what was not acknowledged is sent again, and stored once."""
    port, db = free_port(), tmp_path / "killed.sqlite"
    command = [
        sys.executable,
        "-m",
        "erase",
        "review",
        str(folder),
        "--db",
        str(db),
        "--every",
        "0",
    ]
    command += ["--audit", str(tmp_path / "audit.safetensors"), "--no-browser", "--quiet"]
    command += ["--port", str(port), "--token", TOKEN, "--by", "ann"]
    labelled = [int(node) for node in AUDIT.issues["node"]]
    chance, sent, acknowledged = random.Random(0), 0, []
    for _ in range(20):
        server = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
        try:
            client = Client(port)
            while not client.admitted():
                assert server.poll() is None
                time.sleep(0.1)
            killer: Timer | None = None
            while True:
                key = f"decision-{sent:06}"
                try:
                    client.decide(labelled[sent % len(labelled)], key)
                except (OSError, HTTPException, ValueError):  # no answer, or a part of one
                    break  # the same decision is sent again after the restart
                acknowledged.append(key)
                sent += 1
                if killer is None:
                    killer = Timer(chance.uniform(0.0, 0.4), server.kill)  # SIGKILL
                    killer.start()
            assert killer is not None
            killer.join()
        finally:
            server.kill()
            server.wait()
    keys = erase.Reviews(db).decisions["key"].tolist()
    assert len(keys) == len(set(keys))
    assert set(acknowledged) <= set(keys)
    assert len(keys) <= len(acknowledged) + 1  # the last one may be stored without an answer
    assert len(acknowledged) >= 20  # one before each kill at least
