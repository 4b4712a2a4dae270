"""A review in progress: who gets which label next, what was found, and audits in the background."""

import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from erase.audit import Audit
from erase.audit.queue import Strategy, rank
from erase.audit.report.palette import class_marks
from erase.data.fields import node_columns, well_formed
from erase.errors import EraseError
from erase.review.estimate import (
    basis,
    errors_left,
    may_stop,
    reviewed,
    sample_wanted,
    wrong_share,
)
from erase.review.evidence import Details, Evidence
from erase.review.store import Choice, Reviews, majority

FRESH = 0.3  # seconds for which the numbers of the progress are not computed again
_QUEUE = 100  # labels ranked at a time; a strategy may take long for more
_FEW = 50  # labels left in the queue at which more are ranked in the background
_PAUSE = 1.0  # seconds before labels are ranked again where few were left
_LEASE = 300.0  # seconds for which a label is shown to one reviewer only
_RECENT = 300.0  # seconds over which the pace is measured
_GROUPS = 60
_HASH = 2_654_435_761  # Knuth's multiplicative hash


@dataclass(frozen=True)
class Plan:
    """How a review is run.

    Attributes:
        strategy: which labels come first, see `next_to_review`.
        random_share: the share of labels drawn at random.
        double_share: the share of labels that two reviewers see.
        every: decisions after which the audit is redone; 0: never.
        budget: decisions that are planned, for the progress bar.
        stop_below: the share of wrong labels left at which the review may stop.
    """

    strategy: Strategy = "mixed"
    random_share: float = 0.2
    double_share: float = 0.1
    every: int = 20
    budget: int = 100
    stop_below: float = 0.02

    def __post_init__(self) -> None:
        """Refuse shares outside 0..1."""
        for name in ("random_share", "double_share", "stop_below"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise EraseError(
                    f"a {name.replace('_', ' ')} from 0 to 1", f"{share}", "Pass 0.1, for example."
                )


class Session:
    """A review of one graph by one or more people. Threads may share it.

    Args:
        audit: of the graph.
        reviews: where decisions are kept.
        plan: how the review is run.
        details: what is known of a node beside its edges.
        reaudit: makes an audit with the decisions so far; None: the first audit stays.
        name: of the graph.
    """

    def __init__(
        self,
        audit: Audit,
        reviews: Reviews,
        plan: Plan | None = None,
        *,
        details: Details | None = None,
        reaudit: Callable[[], Audit] | None = None,
        name: str = "graph",
    ) -> None:
        self.reviews, self.plan, self.name = reviews, plan or Plan(), well_formed([name])[0]
        self.class_names = audit.class_names
        self._details, self._reaudit = details, reaudit
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._counting = threading.Lock()  # one thread at a time computes the estimates
        self._is_ranking_due = self._has_ranker = False
        self._queue: list[tuple[int, bool]] = []  # what comes next: node, random
        self._has_more, self._ranked_at = False, 0.0
        self._leases: dict[int, tuple[str, float, bool]] = {}  # node: reviewer, until, random
        self._made: deque[float] = deque()
        self._since_audit = 0
        self._audits = 0
        self._is_auditing = self._is_closed = False
        self._failure = ""
        self._progress: dict[str, Any] = {}
        self._counted, self._is_stale = 0.0, True
        self._use(audit)
        if reviews.estimates().empty:
            self._add_estimate()

    @property
    def audit(self) -> Audit:
        """The latest audit."""
        return self.evidence.audit

    @property
    def is_auditing(self) -> bool:
        """Whether an audit is under way."""
        return self._is_auditing

    def start(self) -> None:
        """Start the threads that rank labels and redo the audit."""
        threading.Thread(target=self._keep_ranked, daemon=True).start()
        self._has_ranker = True
        if self._reaudit is not None and self.plan.every:
            work = threading.Thread(target=self._work, args=[self._reaudit], daemon=True)
            work.start()

    def close(self) -> None:
        """Ask the threads to end; an audit that is under way ends with the process."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()

    def classes(self) -> list[dict[str, str]]:
        """Return how the classes look."""
        return [asdict(mark) for mark in class_marks(self.class_names)]

    def next_items(
        self, by: str, count: int, have: Sequence[int] = (), *, fresh: bool = False
    ) -> list[dict[str, Any]]:
        """Return the labels that a reviewer should decide on next, with their evidence.

        Args:
            by: the reviewer.
            count: how many.
            have: nodes that the reviewer's page holds already; they stay reserved.
            fresh: release what else was reserved, since another audit may rank it lower.
        """
        now, evidence = time.monotonic(), self.evidence
        with self._lock:
            votes, chosen = self.reviews.votes(), dict[int, bool]()
            if fresh:
                mine = [node for node, lease in self._leases.items() if lease[0] == by]
                for node in set(mine) - set(have):
                    del self._leases[node]
                self._rank_soon()
            for node in have:
                if node in self._leases and self._leases[node][0] == by:
                    self._leases[node] = (by, now + _LEASE, self._leases[node][2])

            def is_free(node: int) -> bool:
                if node in have or node in chosen or by in votes.get(node, ()):
                    return False
                holder, until, _ = self._leases.get(node, ("", 0.0, False))
                return holder in ("", by) or until < now

            own = [(node, lease[2]) for node, lease in self._leases.items() if lease[0] == by]
            seconds = [(node, False) for node in self._wanted if by not in votes.get(node, ())]
            for attempt in range(2):
                for node, random in (*own, *seconds, *self._queue):
                    if len(chosen) == count:
                        break
                    if is_free(node) and (node in self._wanted or node not in votes):
                        chosen[node] = random
                is_worth_it = self._has_more or self._ranked_at + _PAUSE < now
                if len(chosen) == count or attempt or not is_worth_it:
                    break
                self._take(*self._ranked(evidence.audit))
            for node, random in chosen.items():
                self._leases[node] = (by, now + _LEASE, random)
            left = sum(is_free(node) and node not in votes for node, _ in self._queue)
            if left < _FEW and self._has_more and self._has_ranker:
                self._rank_soon()
        return [self._item(evidence, node) for node in chosen]

    def item(self, node: int) -> dict[str, Any]:
        """Return the evidence about one node."""
        if not 0 <= node < len(self.audit.given):
            raise EraseError("the number of a node", str(node), "Open a node of the graph.")
        return self._item(self.evidence, node)

    def decide(self, by: str, choices: Sequence[Choice]) -> int:
        """Store decisions; return how many of them were new."""
        full = []
        with self._lock:
            for choice in choices:
                self._check_labelled(choice.node)
                random = self._leases.get(choice.node, ("", 0.0, False))[2]
                given, suggested = self._shown(choice.node)
                full.append(replace(choice, given=given, suggested=suggested, random=random))
        new = self.reviews.record_all(full, by=by)
        with self._wake:
            for choice in full:
                self._leases.pop(choice.node, None)
                self._want_second(choice.node)
            if new:
                self._made.extend([time.monotonic()] * new)
                self._since_audit += new
                self._is_stale = True
                if self._since_audit >= self.plan.every:
                    self._wake.notify_all()
        return new

    def undo(self, by: str, key: str = "") -> list[dict[str, Any]]:
        """Take back the latest decision of a reviewer; return its nodes, which are theirs again."""
        nodes = self.reviews.undo(by, key)
        with self._lock:
            for node in nodes:
                drawn = self.reviews.was_random(node)
                self._leases[node] = (by, time.monotonic() + _LEASE, drawn)
                self._queue.append((node, drawn))
                self._want_second(node)
            self._is_stale = True
        return [self._item(self.evidence, node) for node in nodes]

    def groups(self, by: str) -> list[dict[str, Any]]:
        """Return the confusions with the most doubted labels that the reviewer has not seen."""
        nodes = self._doubted(by)
        given, suggested = self.audit.given[nodes], self.evidence.suggested(nodes)
        pairs = Counter(zip(given.tolist(), suggested.tolist(), strict=True))
        return [
            {"given": given, "suggested": suggested, "labels": count}
            for (given, suggested), count in pairs.most_common(_GROUPS)
        ]

    def group(self, by: str, given: int, suggested: int, count: int) -> list[dict[str, Any]]:
        """Return cards of the labels with one confusion, the most suspicious first."""
        nodes = self._doubted(by)
        same = (self.audit.given[nodes] == given) & (self.evidence.suggested(nodes) == suggested)
        nodes = nodes[same]
        first = nodes[np.argsort(self.evidence.quality(nodes), kind="stable")][:count]
        return [self.evidence.card(node) for node in first.tolist()]

    def disagreements(self) -> list[dict[str, Any]]:
        """Return the labels on which reviewers disagree, with what each of them chose."""
        votes = self.reviews.votes()
        return [
            {**self.evidence.card(node), "votes": dict(votes[node])}
            for node in self.reviews.disagreements()[:200]
        ]

    def agreement(self) -> list[dict[str, Any]]:
        """Return the agreement of pairs of reviewers."""
        rows = self.reviews.agreement().to_dict("records")
        return [row | {"kappa": None if isnan(row["kappa"]) else row["kappa"]} for row in rows]

    def progress(self) -> dict[str, Any]:
        """Return how far the review is: counts, pace, estimate, and whether one may stop."""
        now = time.monotonic()
        with self._lock:
            while self._made and self._made[0] < now - _RECENT:
                self._made.popleft()
            made = len(self._made)
            span = max(now - self._made[0], 30.0) if made else 1.0
        with self._counting:  # decisions do not wait for it
            if self._is_stale and self._counted + FRESH < now:
                self._is_stale = False  # before: a decision meanwhile makes it stale again
                self._progress, self._counted = self._estimates(), now
        return {
            **self._progress,
            "per_minute": round(60 * made / span, 1),
            "budget": self.plan.budget,
            "audits": self._audits,
            "is_auditing": self._is_auditing,
            "audit_failed": self._failure,
        }

    def curve(self) -> list[dict[str, float]]:
        """Return the learning curve: estimates by the number of decisions."""
        rows = self.reviews.estimates().drop(columns="made").to_dict("records")
        return [{str(key): value for key, value in row.items()} for row in rows]

    def label_table(self) -> pd.DataFrame:
        """Return a row per label: what it was, what it is now, and what is trusted."""
        audit = self.audit
        trusted, random = self.reviews.trusted(self.class_names, audit.given >= 0)
        first = self.reviews.first_given(audit.given, self.class_names)
        return label_table(
            first, trusted, random, self.class_names, audit.node_ids, audit.node_names
        )

    def decision_table(self) -> pd.DataFrame:
        """Return every decision, with the id and name of its node."""
        return decision_table(self.reviews, self.audit.node_ids, self.audit.node_names)

    def _item(self, evidence: Evidence, node: int) -> dict[str, Any]:
        view = evidence.view(node)
        votes = self.reviews.votes()
        number = {name: k for k, name in enumerate(self.class_names)}
        trusted = {}
        for place, each in enumerate(view["id"]):
            if place and (label := majority(votes.get(each, {}))) is not None:
                trusted[place] = number[label]
        return {**view, "trusted": trusted}

    def _shown(self, node: int) -> tuple[str, str]:
        suggested = int(self.evidence.suggested(np.array([node]))[0])
        return self.class_names[int(self.audit.given[node])], self.class_names[suggested]

    def _check_labelled(self, node: int) -> None:
        if not 0 <= node < len(self.audit.given) or self.audit.given[node] < 0:
            raise EraseError("a node with a given label", f"node {node}", "Choose another node.")

    def _doubted(self, by: str) -> NDArray[np.int64]:
        """Return unreviewed nodes for which another class is more probable."""
        audit, decision = self.audit, self.audit.decision
        labelled = np.flatnonzero(audit.given >= 0)
        other = decision.suggested != audit.given[labelled]
        nodes = labelled[other & (decision.is_issue | (decision.quality < 0.5))]
        votes = self.reviews.votes()
        return np.array([node for node in nodes.tolist() if node not in votes], dtype=np.int64)

    def _want_second(self, node: int) -> None:
        """Note whether another reviewer should see this node too: a share, and where unsure."""
        is_double = (node * _HASH % 2**32) / 2**32 < self.plan.double_share
        votes = self.reviews.votes().get(node, {})
        if len(votes) == 1 and (is_double or None in votes.values()):
            self._wanted[node] = None
        else:
            self._wanted.pop(node, None)

    def _use(self, audit: Audit) -> None:
        """Show the results of this audit from now on; decisions do not wait for it."""
        evidence, ranked = Evidence(audit, self._details), self._ranked(audit)
        with self._lock:
            self.evidence = evidence
            self._take(*ranked)
            self._wanted: dict[int, None] = {}
            for node in list(self.reviews.votes()):
                self._want_second(node)
            self._is_stale = True

    def _ranked(self, audit: Audit) -> tuple[list[tuple[int, bool]], bool]:
        """Rank labels that nobody has reviewed or is shown; say whether there may be more."""
        with self._lock:
            now = time.monotonic()
            shown = [node for node, (_, until, _) in self._leases.items() if until >= now]
            taken = np.zeros(len(audit.given), dtype=bool)
            taken[[*self.reviews.votes(), *shown]] = True
        plan, seed, turn = self.plan, self.reviews.seed, int(taken.sum())
        table = rank(audit, taken, _QUEUE, plan.strategy, plan.random_share, seed, turn)
        queue = zip(table["node"].tolist(), table["random"].tolist(), strict=True)
        return list(queue), len(table) == _QUEUE

    def _take(self, queue: list[tuple[int, bool]], has_more: bool) -> None:
        """Hand these labels out next."""
        self._queue, self._has_more, self._ranked_at = queue, has_more, time.monotonic()

    def _rank_soon(self) -> None:
        """Have labels ranked again, in the background where there is a thread for it."""
        if not self._has_ranker:
            self._take(*self._ranked(self.evidence.audit))
            return
        self._is_ranking_due = True
        self._wake.notify_all()

    def _keep_ranked(self) -> None:
        """Rank labels again before the queue is empty, so that nobody waits for it."""
        while True:
            with self._wake:
                while not self._is_closed and not self._is_ranking_due:
                    self._wake.wait()
                if self._is_closed:
                    return
                self._is_ranking_due = False
                audit = self.evidence.audit
            ranked = self._ranked(audit)
            with self._lock:
                if audit is self.evidence.audit:
                    self._take(*ranked)

    def _estimates(self) -> dict[str, Any]:
        """Return counts and estimates, the audit's own while few random labels are known."""
        audit, trusted, draws = reviewed(self.audit, self.reviews)
        known = trusted >= 0
        below = self.plan.stop_below
        return {
            "labels": int((audit.given >= 0).sum()),
            "reviewed": len(self.reviews.votes()),
            "by_reviewer": self.reviews.by_reviewer(),
            "agreed": int(known.sum()),
            "changed": int((known & (trusted != audit.given)).sum()),
            "random": len(draws),
            "random_wrong": int(draws.wrong.sum()),
            "basis": basis(audit, trusted, draws),
            "sample_wanted": sample_wanted(audit),
            "disagreements": len(self.reviews.disagreements()),
            "wrong": asdict(wrong_share(audit, trusted, draws)),
            "left": asdict(errors_left(audit, trusted, draws)),
            "may_stop": may_stop(audit, trusted, draws, below),
            "stop_below": below,
        }

    def _add_estimate(self) -> None:
        found = self._estimates()
        self.reviews.add_estimate(
            found["reviewed"], found["changed"], *found["wrong"].values(), *found["left"].values()
        )

    def _work(self, reaudit: Callable[[], Audit]) -> None:
        """Redo the audit whenever enough decisions have come in."""
        if sys.platform == "linux":  # there a thread has its own priority
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            with self._wake:
                while not self._is_closed and self._since_audit < self.plan.every:
                    self._wake.wait()
                if self._is_closed:
                    return
                self._since_audit, self._is_auditing = 0, True
            try:
                self._use(reaudit())
                self._add_estimate()
                self._failure = ""
            except Exception as error:  # the review goes on with the audit before
                self._failure = f"{type(error).__name__}: {error}"
            with self._lock:
                self._is_auditing = False
                self._audits += 1


def label_table(
    given: NDArray[np.int64],
    trusted: NDArray[np.int64],
    random: NDArray[np.bool_],
    class_names: Sequence[str],
    ids: Sequence[Any] | None,
    names: Sequence[str] | None,
) -> pd.DataFrame:
    """Return a row per label: ``node``, ``id``, ``name``, ``label``, ``was``, ``changed``,
    ``trusted`` and ``trusted_random``.
    """
    nodes = np.flatnonzero((given >= 0) | (trusted >= 0))
    words = np.array([*class_names, ""], dtype=object)
    now = np.where(trusted >= 0, trusted, given)[nodes]
    columns = node_columns(nodes, ids, names) | {
        "label": words[now],
        "was": words[given[nodes]],
        "changed": now != given[nodes],
        "trusted": words[trusted[nodes]],
        "trusted_random": random[nodes],
    }
    return pd.DataFrame(columns)


def decision_table(
    reviews: Reviews, ids: Sequence[Any] | None, names: Sequence[str] | None
) -> pd.DataFrame:
    """Return every decision, with the id and the name of its node.

    The last column is the seed of the random order, without which the decisions do not say which
    labels are a random sample.
    """
    table = reviews.decisions.assign(seed=reviews.seed)
    columns = node_columns(table["node"].to_numpy(dtype=np.int64), ids, names)
    for place, name in enumerate(name for name in ("id", "name") if name in columns):
        table.insert(2 + place, f"node_{name}", columns[name])
    return table
