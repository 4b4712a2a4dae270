"""`make crash`: commands that are killed, stopped, out of disk, refused, and run two at once.

Every command runs in a fork of this process, which has loaded everything, so that a random moment
is one of its work. Afterwards no half file is left, the next command succeeds, and its results have
the bits of an unbroken run. Exit status 1 if something fails.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import resource
import shutil
import signal
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import erase
import erase.review.server  # so that forks have loaded everything
from erase.cli import main as run_command
from erase.data.files import load_arrays
from graphs import two_communities

SMALL = ["--set", "hidden=8", "--set", "heads=2"]
EPOCHS = ["--set", "epochs=60", "--set", "patience=60"]
TOKEN = "the-secret-of-these-trials"
DECISIONS = {node: node % 2 for node in range(20)}  # class by node, of a review
TIMES = ("seconds", "peak_bytes", "versions", "machine")  # of a record or summary


def commands(place: Path, out: Path) -> dict[str, list[str]]:
    """Return each command that writes to `out`."""
    graph, model = str(place / "g.npz"), str(place / "model.safetensors")
    quiet = ["--out", str(out), "--quiet", "--device", "cpu"]
    return {
        "fit": ["fit", graph, "--method", "ce", *SMALL, *EPOCHS, *quiet],
        "audit": ["audit", graph, "--method", "ce", *SMALL, "--set", "epochs=10", *quiet],
        "convert": ["convert", graph, str(out), "--quiet"],
        "predict": ["predict", model, graph, *quiet],
        "bench": ["bench", str(place / "study.toml"), *quiet[:3], "--device", "cpu"],
        "tune": ["tune", graph, "--method", "ce", "--trials", "3", "--seeds", "1", *SMALL,
                 "--set", "epochs=5", *quiet],
    }  # fmt: skip


def results(command: str, out: Path) -> Any:
    """Return what must be equal bit by bit, and read every file on the way."""
    if command == "bench":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        kept = [{k: v for k, v in row.items() if k not in TIMES} for row in rows]
        return sorted(json.dumps(row, sort_keys=True) for row in kept)
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.suffix == ".json":
            summary = json.loads(path.read_text())
            found[name] = summary if command == "convert" else sorted(summary)
        elif path.suffix == ".safetensors":
            arrays, _ = load_arrays(path)
            found[name] = {key: value.tolist() for key, value in arrays.items()}
        elif command == "tune" and name == "trials.csv":
            lines = path.read_text().splitlines()
            at = lines[0].split(",").index("seconds")
            found[name] = [[c for i, c in enumerate(r.split(",")) if i != at] for r in lines]
        elif path.is_file() and path.suffix in (".csv", ".npy"):
            found[name] = path.read_bytes()
    return found


def started(words: list[str], log: Path, prepare: Callable[[], object] = lambda: None) -> int:
    """Start a command in a fork; return its process id."""
    child = os.fork()
    if child:
        return child
    status = 99
    try:
        descriptor = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o666)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        prepare()
        status = run_command(words)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def ended(child: int) -> int:
    """Return the exit status of a process, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Trial:
    """One command with its unbroken results."""

    def __init__(self, command: str, place: Path) -> None:
        self.command, self.place = command, place
        self.folder = place / command
        self.folder.mkdir()
        self.out = self.folder / ("out.jsonl" if command == "bench" else "out")
        self.words = commands(place, self.out)[command]
        self.log = place / f"{command}.log"
        start = time.monotonic()
        status = ended(started(self.words, self.log))
        self.seconds = time.monotonic() - start
        assert status == 0, self.log.read_text()
        self.whole = results(command, self.out)
        self.names = self.listed()

    def listed(self) -> list[str]:
        """Return the names of all files, without locks and names of runs."""
        names = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*")]
        return sorted(name for name in names if not name.endswith(".lock"))

    def fresh(self) -> None:
        """Remove what there is, or leave it for the next run to replace."""
        if random.random() < 0.5 or self.command in ("bench", "tune"):
            shutil.rmtree(self.folder)
            self.folder.mkdir()

    def check_next(self, when: str) -> None:
        """Check that nothing is half, and that the same command ends as an unbroken one."""
        for path in self.out.rglob("*") if self.out.is_dir() else []:
            hidden = any(part.startswith(".") for part in path.relative_to(self.folder).parts)
            if path.is_file() and not hidden and path.suffix in (".json", ".safetensors"):
                results(self.command, self.out)  # raises where one cannot be read
        resume = ["--resume"] if (self.out / "checkpoint.safetensors").exists() else []
        status = ended(started([*self.words, *resume], self.log))
        assert status == 0, f"{when}: the next run ends with {status}: {self.log.read_text()}"
        assert results(self.command, self.out) == self.whole, f"{when}: other results"
        assert self.listed() == self.names, f"{when}: {set(self.listed()) ^ set(self.names)}"

    def stopped(self, number: signal.Signals) -> None:
        """Send a signal at a random moment."""
        self.fresh()
        child = started(self.words, self.log)
        time.sleep(random.uniform(0, 1.1 * self.seconds))
        os.kill(child, number)
        status = ended(child)
        allowed = (0, -number, 128 + number)
        assert status in allowed, f"{number.name}: {status}: {self.log.read_text()}"
        if status == 128 + number:  # it could clean up
            left = [name for name in self.listed() if name.endswith((".part", ".old"))]
            assert not left, f"{number.name} leaves {left}"
        self.check_next(number.name)

    def without_space(self, size: int) -> None:
        """Run with a limit on the size of files, as on a full disk."""
        self.fresh()

        def prepare() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        status = ended(started(self.words, Path(os.devnull), prepare))
        left = [name for name in self.listed() if name.endswith((".part", ".old"))]
        assert not left, f"a full disk leaves {left}"
        assert status in (0, 1, 2), f"a full disk: status {status}"
        self.check_next(f"a disk of {size} bytes")

    def read_only(self) -> None:
        """Run where nothing can be written: one line, status 2."""
        shutil.rmtree(self.folder)
        self.folder.mkdir(mode=0o555)
        self.log.unlink()
        status = ended(started(self.words, self.log, _as_nobody))
        shown = self.log.read_text()
        assert status == 2, f"read-only: {status}: {shown}"
        assert shown.count("erase: ") == 1, shown
        assert "permission denied" in shown.lower(), shown
        self.folder.chmod(0o755)
        assert not list(self.folder.iterdir())
        self.check_next("read-only")

    def twice_at_once(self) -> None:
        """Run two: each succeeds or is refused, and the results are whole."""
        self.fresh()
        children = [started(self.words, self.place / f"{i}.log") for i in range(2)]
        status = sorted(map(ended, children))
        assert status in ([0, 0], [0, 2]), f"two at once: {status}"
        assert results(self.command, self.out) == self.whole, "two at once: other results"
        self.check_next("two at once")


class ReviewTrial(Trial):
    """`erase review`: a server that is stopped while a browser sends decisions.

    What was acknowledged is stored, once; the next server takes the rest, and the labels it exports
    are those of an unbroken review.
    """

    def __init__(self, place: Path) -> None:
        self.command, self.place = "review", place
        self.folder = place / "review"
        self.folder.mkdir()
        self.out = self.folder / "out"
        self.db, self.log = self.out / "reviews.sqlite", place / "review.log"
        self.graph = ["review", str(place / "g.npz"), "--db", str(self.db)]
        start = time.monotonic()
        child = self.serve()
        assert self.decide() == list(DECISIONS), self.log.read_text()
        os.kill(child, signal.SIGTERM)
        assert ended(child) == 0, self.log.read_text()
        self.seconds = time.monotonic() - start
        self.whole = self.exported()
        self.names = self.listed()

    def serve(self, log: Path | None = None, prepare: Callable[[], object] = lambda: None) -> int:
        """Start a server on a free port; return its process id."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        words = ["--port", str(self.port), "--token", TOKEN, "--no-browser", "--every", "0"]
        return started(
            [*self.graph, *words, "--quiet", "--device", "cpu"], log or self.log, prepare
        )

    def decide(self, limit: float = 60) -> list[int]:
        """Send every decision until the server is gone; return the acknowledged nodes."""
        done: list[int] = []
        end = time.monotonic() + limit
        while time.monotonic() < end:  # until it listens
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return done
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.ask("GET", f"/?token={TOKEN}")
                break
            time.sleep(0.02)
        for node, label in DECISIONS.items():
            sent = {"key": f"decision-{node}", "node": node, "class": label}
            try:
                status = self.ask("POST", "/api/decisions", json.dumps({"decisions": [sent]}))
            except (OSError, http.client.HTTPException):
                return done
            done += [node] if status == 200 else []
        return done

    def ask(self, method: str, path: str, body: str | None = None) -> int:
        """Send a request with the cookie; return the status of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Cookie": f"erase-review-{self.port}={TOKEN}"}
        headers |= {"Content-Type": "application/json"} if body else {}
        try:
            connection.request(method, path, body, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def exported(self) -> Any:
        """Export the labels; return them, and the decisions without their times."""
        target = self.place / "exported" / "labels.csv"
        shutil.rmtree(target.parent, ignore_errors=True)
        status = ended(started([*self.graph, "--export", str(target), "--quiet"], self.log))
        assert status == 0, self.log.read_text()
        files = sorted(target.parent.iterdir())
        tables = {file.name: pd.read_csv(file) for file in files if file.suffix == ".csv"}
        times = ("made", "seconds", "id")
        return {
            name: sorted(table.drop(columns=times, errors="ignore").astype(str).values.tolist())
            for name, table in tables.items()
        }

    def check_stored(self, nodes: list[int], when: str) -> None:
        """Check that every acknowledged decision is in the database, once."""
        if nodes:
            with erase.Reviews(self.db) as reviews:
                found = reviews.decisions["node"].tolist()
            assert len(found) == len(set(found)), f"{when}: stored twice"
            assert set(nodes) <= set(found), f"{when}: acknowledged and lost"

    def check_next(self, when: str) -> None:
        """Check that the next server takes the rest, and that the results are the same."""
        child = self.serve()
        done = self.decide()
        os.kill(child, signal.SIGTERM)
        status = ended(child)
        assert status == 0, f"{when}: the next server ends with {status}: {self.log.read_text()}"
        assert done == list(DECISIONS), f"{when}: {self.log.read_text()}"
        assert self.exported() == self.whole, f"{when}: other results"
        assert self.listed() == self.names, f"{when}: {set(self.listed()) ^ set(self.names)}"

    def stopped(self, number: signal.Signals) -> None:
        """Send a signal at a random moment, while decisions arrive."""
        if random.random() < 0.5:
            shutil.rmtree(self.folder)
            self.folder.mkdir()
        child = self.serve()
        late = threading.Timer(random.uniform(0, 1.1 * self.seconds), os.kill, (child, number))
        late.start()
        done = self.decide()
        late.join()
        status = ended(child)
        allowed = (0, -number, 128 + number)
        assert status in allowed, f"{number.name}: {status}: {self.log.read_text()}"
        self.check_stored(done, number.name)
        self.check_next(number.name)

    def without_space(self, size: int) -> None:
        """Run with a limit on the size of files, as on a full disk."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()

        def prepare() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        child = self.serve(Path(os.devnull), prepare)
        done = self.decide()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        status = ended(child)
        assert status in (0, 1, 2, 143), f"a full disk: status {status}"
        left = [name for name in self.listed() if name.endswith((".part", ".old"))]
        assert not left, f"a full disk leaves {left}"
        self.check_stored(done, f"a disk of {size} bytes")
        self.check_next(f"a disk of {size} bytes")

    def read_only(self) -> None:
        """Run where nothing can be written: one line, status 2."""
        shutil.rmtree(self.folder)
        self.folder.mkdir(mode=0o555)
        self.log.unlink()
        status = ended(self.serve(prepare=_as_nobody))
        shown = self.log.read_text()
        assert status == 2, f"read-only: {status}: {shown}"
        assert shown.count("erase: ") == 1, shown
        self.folder.chmod(0o755)
        assert not list(self.folder.iterdir())
        self.check_next("read-only")

    def twice_at_once(self) -> None:
        """Start a second server on the same database: it is refused, and the first goes on."""
        child = self.serve()
        self.decide()
        port = self.port
        second = ended(self.serve(self.place / "second.log"))
        self.port = port
        assert second == 2, f"two at once: {second}"
        assert self.ask("GET", "/api/state") == 200
        os.kill(child, signal.SIGTERM)
        assert ended(child) == 0
        self.check_next("two at once")


def _as_nobody() -> None:
    if os.geteuid() == 0:
        os.seteuid(65534)


def main() -> int:
    """Run every trial, and print how many passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20, help="random moments of kill -9")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one command")
    asked = parser.parse_args()
    random.seed(asked.seed)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and so would every command
    torch.set_num_threads(1)
    os.environ["ERASE_CHECKPOINT_SECONDS"] = "0.02"
    failures, passed = [], 0
    with tempfile.TemporaryDirectory(prefix="erase-crash-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        erase.write_graph(two_communities(size=25), place / "g.npz")
        (place / "study.toml").write_text(
            f'[[grid]]\ndatasets = "{place}/g.npz"\nnoises = "symmetric"\nrates = [0.1, 0.3]\n'
            'methods = ["ce"]\nseeds = 2\nparams = {epochs = 3, hidden = 8, heads = 2}\n'
        )
        for words in ([*commands(place, place / "first")["fit"]], ["list"]):
            assert run_command(words) == 0
        shutil.copy(place / "first" / "model.safetensors", place)
        (place / "model.safetensors").chmod(0o644)
        for command in (*commands(place, place), "review"):
            if asked.only not in (None, command):
                continue
            if command == "review":
                trial: Trial = ReviewTrial(place)
            else:
                assert run_command(commands(place, place / f"warm-{command}")[command]) == 0
                trial = Trial(command, place)
            attempts: list[tuple[str, Callable[[], None]]] = [
                *[("kill -9", lambda t=trial: t.stopped(signal.SIGKILL))] * asked.moments,
                *[("SIGTERM", lambda t=trial: t.stopped(signal.SIGTERM))] * 3,
                *[("SIGHUP", lambda t=trial: t.stopped(signal.SIGHUP))] * 3,
                *[
                    (f"disk of {size}", lambda t=trial, s=size: t.without_space(s))
                    for size in (0, 200, 3_000, 30_000)
                ],
                ("read-only", trial.read_only),
                ("two at once", trial.twice_at_once),
            ]
            for name, attempt in attempts:
                try:
                    attempt()
                    passed += 1
                except Exception as error:
                    failures.append(f"{command}, {name}: {type(error).__name__}: {error}")
            print(f"{command}: {len(attempts)} trials", flush=True)
    print("\n".join(failures))
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
