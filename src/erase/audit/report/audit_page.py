"""The page of an audit: one HTML file to look through suspicious labels, with no network.

What can be said in sentences and tables is in the document itself; the list, the nodes and the map
are drawn by the scripts in ``web/`` from arrays inside the file. Nothing but these scripts can run
in the page, and nothing can be fetched: its Content-Security-Policy says so to the browser.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from erase.audit import Audit, Decision
from erase.audit.report.audit_blocks import (
    Bar,
    Card,
    Cards,
    Matrix,
    Pair,
    Pairs,
    Part,
    Slice,
    count_of,
    interval,
    percent,
)
from erase.audit.report.audit_data import page_data
from erase.audit.report.class_marks import ClassMark, class_marks
from erase.audit.report.page import Block, Table, Text
from erase.data.files import StrPath, atomic_write

SCRIPTS = (
    "data.js", "elements.js", "matrix.js", "list.js",
    "neighbourhood.js", "node.js", "map.js", "start.js",
)  # fmt: skip

_PAIRS = 8  # confusions told in words
_MATRIX_CLASSES = 40  # more do not fit a table one can read


def write_audit_page(audit: Audit, path: StrPath, name: str = "") -> None:
    """Write the page of an audit, whole or not at all.

    Args:
        audit: what is shown.
        path: the HTML file.
        name: of the graph, for the title.
    """
    # half a surrogate pair in a name is nothing a file can hold: it becomes a question mark
    content = audit_page(audit, name).html().encode("utf-8", "replace")
    with atomic_write(Path(path), "wb") as file:
        file.write(content)


def audit_page(audit: Audit, name: str = "") -> "AuditPage":
    """Return the page that :func:`write_audit_page` writes."""
    marks = class_marks(audit.class_names)
    return AuditPage(
        title=f"Which labels are wrong? {name}".rstrip(),
        lead=_lead(audit),
        parts=[
            Part("noise", "How noisy are the labels?", _noise(audit)),
            Part("classes", "Which classes are confused?", _confusion(audit, marks)),
            Part("labels", "Suspicious labels", [Fragment("labels.html")]),
            Part("map", "Map of the nodes", [Fragment("map.html")]),
            Part("method", "How this was found out", _method(audit)),
        ],
        data=page_data(audit, seed=int(audit.settings.get("seed", 0))),
    )


@dataclass(frozen=True, eq=False)
class AuditPage:
    """A page with scripts.

    Attributes:
        title: of the page.
        lead: its first sentences.
        parts: what stands on it; the navigation links to them.
        data: what the scripts read.
    """

    title: str
    lead: str
    parts: Sequence[Part]
    data: dict[str, Any]

    def html(self) -> str:
        """Return the document; it refers to nothing outside itself."""
        title = escape(self.title)
        script = "\n".join(_web(name) for name in SCRIPTS)
        links = "\n".join(
            f'<li><a href="#{part.anchor}">{escape(part.heading)}</a></li>' for part in self.parts
        )
        parts = "\n".join(part.html() for part in self.parts)
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,">\n'
            f"<title>{title}</title>\n<style>\n{_web('audit.css')}</style>\n</head>\n<body>\n"
            f'<a class="skip" href="#labels">Skip to the suspicious labels</a>\n'
            f'<header>\n<h1>{title}</h1>\n<p class="lead">{escape(self.lead)}</p>\n'
            f'<nav aria-label="On this page"><ul>\n{links}\n</ul></nav>\n</header>\n'
            f"<main>\n{parts}\n</main>\n{_web('node.html')}"
            f'<script type="application/json" id="data">{_json(self.data)}</script>\n'
            f'<script type="module">{script}</script>\n</body>\n</html>\n'
        )


@dataclass(frozen=True)
class Fragment:
    """HTML from a file of the package, for the scripts to fill."""

    file: str

    def html(self) -> str:
        """Return the file."""
        return _web(self.file)


def expected_errors(given: NDArray[np.int64], decision: Decision) -> NDArray[np.float64]:
    """Return how many labels of each given class truly are of each class, ``[true, given]``.

    The sum over nodes of P(true class | node, given label).

    Args:
        given: [n] classes of the labelled nodes.
        decision: about them.
    """
    classes = decision.posterior.shape[1]
    sums = np.zeros((classes, classes))
    np.add.at(sums.T, given, decision.posterior)
    return sums


def _lead(audit: Audit) -> str:
    n, labels = len(audit.given), len(audit.issues)
    edges = audit.edge_index.shape[1] // 2
    known = audit.decision.agreement
    answer = "Nothing here is proof: it tells where to look first."
    if not known.is_informative:
        answer = (
            "That may be chance, so this page cannot tell which labels are wrong, and flags none."
        )
    return (
        f"{count_of(n, 'node')} in {len(audit.class_names)} classes, {count_of(edges, 'edge')}, "
        f"and {count_of(labels, 'given label')} that we checked. Models that had not seen a label "
        f"agree with {percent(known.model)} of the labels; always naming the most common class "
        f"would agree with {percent(known.majority)}. {answer}"
    )


def _noise(audit: Audit) -> list[Block]:
    decision, labels = audit.decision, len(audit.issues)
    if not decision.agreement.is_informative:
        words = str(decision.agreement)
        return [Text(f"We cannot tell. {words[0].upper()}{words[1:]}.")]
    rate, flagged, verdict = decision.noise_rate, decision.is_issue, decision.verdict
    count, wrong = int(flagged.sum()), int((flagged & (verdict == "wrong")).sum())
    cards = [
        Card(
            percent(rate.value),
            "of the given labels are wrong, by our estimate.",
            f"With 90% certainty {interval(rate.low, rate.high)}: between "
            f"{round(rate.low * labels):,} and {round(rate.high * labels):,} of "
            f"{count_of(labels, 'label')}.",
        ),
        Card(
            f"{count:,}",
            f"{'label is' if count == 1 else 'labels are'} flagged: look at these first.",
            f"For {wrong:,} of them we suggest another label; for {count - wrong:,} we can't tell "
            f"which one is right."
            if count
            else "No label is suspicious enough.",
        ),
    ]
    if count:
        allowed = audit.settings.get("max_false_alarms")
        limit = "" if allowed is None else f"; you allowed {percent(float(allowed))}"
        cards.append(
            Card(
                f"{round(decision.expected_false_alarms * count):,}",
                "of the flagged labels are probably right after all.",
                f"We expect {percent(decision.expected_false_alarms)} false alarms{limit}.",
            )
        )
    unsure = int((flagged & (verdict != "wrong")).sum())
    verdicts = [
        Slice("right", "right", int((verdict == "right").sum())),
        Slice("doubt", "can't tell, not flagged", int((verdict == "can't tell").sum()) - unsure),
        Slice("unsure", "can't tell, flagged", unsure),
        Slice("wrong", "wrong, flagged", wrong),
    ]
    return [Cards(cards), Bar("Verdicts", verdicts)]


def _confusion(audit: Audit, marks: Sequence[ClassMark]) -> list[Block]:
    decision = audit.decision
    if not decision.agreement.is_informative:
        return [Text("We cannot tell.")]
    errors = expected_errors(audit.given[audit.given >= 0], decision)
    np.fill_diagonal(errors, 0)
    order = np.argsort(-errors, axis=None, kind="stable")[:_PAIRS]
    pairs = [
        Pair(
            true=int(true),
            given=int(given),
            labels=float(errors[true, given]),
            share=float(decision.transition[true, given]),
            low=float(decision.transition_low[true, given]),
            high=float(decision.transition_high[true, given]),
        )
        for true, given in zip(*np.unravel_index(order, errors.shape), strict=True)
        if errors[true, given] >= 0.5
    ]
    body: list[Block] = [Text("No two classes seem to be confused.")]
    if pairs:
        told = "Most often, one class is written where another is right (brackets: 90% interval):"
        body = [Text(told), Pairs(pairs, marks)]
    classes = np.arange(len(marks))
    if len(classes) > _MATRIX_CLASSES:
        involved = errors.sum(0) + errors.sum(1)
        classes = np.sort(np.argsort(-involved, kind="stable")[:_MATRIX_CLASSES])
        body.append(Text(f"The {_MATRIX_CLASSES} classes of {len(marks)} with the most errors:"))
    body.append(
        Matrix(
            [int(k) for k in classes],
            marks,
            decision.transition,
            decision.transition_low,
            decision.transition_high,
        )
    )
    return body


def _method(audit: Audit) -> list[Block]:
    settings = audit.settings
    known = audit.decision.agreement
    judge, folds = settings.get("method", "a model"), settings.get("folds", "several")
    body: list[Block] = [
        Text(
            f"The judge is {judge}. The given labels were dealt into {folds} parts, and the labels "
            f"of each part were judged by a model trained without them: no label took part in its "
            f"own judgement. From the judge's probabilities and the given labels together follow "
            f"how often each class is mistaken for another, and from that the chance that a label "
            f"is right. Among the labels for which another class is more probable, those with the "
            f"smallest chance are flagged, as many as keep the expected share of false alarms "
            f"within its limit: here, up to a chance of {percent(audit.decision.threshold)}. A "
            f"label whose own class is the most probable is never flagged."
        ),
        Text(
            f"The models' probabilities and the labels have a correlation of "
            f"{known.correlation:.2f}: 0 is chance, whatever the sizes of the classes, and 1 a "
            f"perfect prediction. Below {known.needed:.2f} nothing is flagged. The interval "
            f"of the share of wrong labels is the wider of two: that of models fitted to resampled "
            f"labels, and that of the count of wrong labels among so many."
        ),
        Text(
            "The neighbours and the look-alikes of a node are shown for you to judge; look-alikes "
            "are labelled nodes whose representations point the same way (cosine similarity). "
            "The map shows the representations of one of the judge's models: nodes that are near "
            "look alike, distances between far groups mean little."
        ),
    ]
    if audit.notes:
        body.append(Text(f"Notes: {' '.join(audit.notes)}"))
    rows = [[name, _shown(value)] for name, value in settings.items()]
    rows.append(["seconds", f"{audit.seconds:.0f}"])
    body.append(Table(["Setting", "Value"], rows))
    return body


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return str(value)


def _policy(script: str) -> str:
    """Return the policy that lets this script run, styles apply, and nothing else happen."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'sha256-{digest}'",
            "style-src 'unsafe-inline'",
            "img-src data:",
        ]
    )


def _json(value: object) -> str:
    """Return JSON that can stand in a script element: no ``<`` ends or opens anything."""
    content = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return content.replace("<", "\\u003c")


def _web(name: str) -> str:
    return files("erase.audit.report").joinpath("web", name).read_text(encoding="utf-8")
