"""The page of an audit: one HTML file to look through suspicious labels, without a network."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from erase.audit import Audit, Decision
from erase.audit.report.audit_data import page_data
from erase.audit.report.palette import class_marks
from erase.audit.report.render import render, write_page
from erase.audit.statements import (
    headline,
    is_bound,
    plausible_range,
    wrong_share_sentences,
)
from erase.data.files import StrPath

_PAIRS = 8  # confusions in words
_MATRIX_CLASSES = 40  # more do not fit a readable table
_BLANK = 0.005  # smaller shares have no number and no colour in the matrix


def write_audit_page(audit: Audit, path: StrPath, name: str = "") -> None:
    """Write the page of an audit, whole or not at all.

    Args:
        audit: what is shown.
        path: the HTML file.
        name: of the graph, for the title; by default that of the file it came from, where known.
    """
    write_page(path, render("audit.html", **audit_page(audit, name)))


def audit_page(audit: Audit, name: str = "") -> dict[str, Any]:
    """Return what the template ``audit.html`` shows."""
    decision, settings = audit.decision, audit.settings
    flagged, noise = decision.is_issue, decision.feature_noise
    return {
        "title": f"Audit of {name or _graph_name(audit)}",
        "nodes": len(audit.given),
        "edges": audit.edge_index.shape[1] // 2,
        "labels": len(audit.issues),
        "marks": class_marks(audit.class_names),
        "agreement": decision.agreement,
        "is_informative": decision.agreement.is_informative,
        "share": headline(decision)[0],
        "plausible": plausible_range(decision),
        "rate": decision.noise_rate,
        "confirmed": decision.confirmed,
        "feature_noise_known": noise is not None,
        "follows_features": noise is not None and noise.is_present,
        "may_follow_features": noise is not None and not noise.is_certain,
        "is_bound": is_bound(decision),
        "known": wrong_share_sentences(
            decision, settings.get("graph"), settings.get("tables") or {}
        ),
        "flagged": int(flagged.sum()),
        "wrong": int((flagged & (decision.verdict == "wrong")).sum()),
        "expected_false_alarms": decision.expected_false_alarms,
        "threshold": decision.threshold,
        "allowed": settings.get("max_false_alarms"),
        "verdicts": _verdicts(decision),
        "pairs": _confused_pairs(audit),
        "matrix": _matrix(audit),
        "method": settings.get("method", "not recorded"),
        "folds": settings.get("folds", "several"),
        "notes": audit.notes,
        "settings": [
            *([key, _shown(value)] for key, value in settings.items()),
            ["seconds", f"{audit.seconds:.0f}"],
        ],
        "data": page_data(audit, seed=int(settings.get("seed", 0))),
    }


def _graph_name(audit: Audit) -> str:
    graph = audit.settings.get("graph")
    return "a graph" if graph is None else Path(graph).stem


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


def _errors(audit: Audit) -> NDArray[np.float64]:
    errors = expected_errors(audit.given[audit.given >= 0], audit.decision)
    np.fill_diagonal(errors, 0)
    return errors


def _verdicts(decision: Decision) -> list[dict[str, Any]]:
    """Return how many labels have each verdict, as slices of a bar."""
    flagged, unsure = decision.is_issue, decision.verdict == "can't tell"
    slices = {
        ("right", "right"): decision.verdict == "right",
        ("doubt", "can't tell, not flagged"): unsure & ~flagged,
        ("unsure", "can't tell, flagged"): unsure & flagged,
        ("wrong", "wrong, flagged"): flagged & (decision.verdict == "wrong"),
    }
    if (corrected := ~flagged & (decision.verdict == "wrong")).any():
        slices["wrong", "wrong, corrected by a person"] = corrected
    return [
        {"kind": kind, "words": words, "count": int(chosen.sum())}
        for (kind, words), chosen in slices.items()
    ]


def _confused_pairs(audit: Audit) -> list[dict[str, Any]]:
    """Return the pairs of classes with the most expected errors, at least half a label each."""
    errors, decision = _errors(audit), audit.decision
    order = np.argsort(-errors, axis=None, kind="stable")[:_PAIRS]
    return [
        {
            "true": int(true),
            "given": int(given),
            "labels": float(errors[true, given]),
            "share": float(decision.transition[true, given]),
            "low": float(decision.transition_low[true, given]),
            "high": float(decision.transition_high[true, given]),
        }
        for true, given in zip(*np.unravel_index(order, errors.shape), strict=True)
        if errors[true, given] >= 0.5
    ]


def _matrix(audit: Audit) -> list[dict[str, Any]]:
    """Return the rows of the transition matrix ``[true, given]``, of the classes with most errors.

    An error is coloured by the root of its share over the root of the largest.
    """
    errors, decision = _errors(audit), audit.decision
    involved = np.argsort(-(errors.sum(0) + errors.sum(1)), kind="stable")
    classes = np.sort(involved[:_MATRIX_CLASSES]).tolist()
    shares = decision.transition
    others = [shares[i, j] for i in classes for j in classes if i != j]
    largest = max(others, default=0.0) or 1.0
    return [
        {
            "true": true,
            "cells": [
                {
                    "given": given,
                    "share": float(shares[true, given]),
                    "low": float(decision.transition_low[true, given]),
                    "high": float(decision.transition_high[true, given]),
                    "is_shown": shares[true, given] >= _BLANK,
                    "heat": float(np.sqrt(shares[true, given] / largest))
                    if shares[true, given] >= _BLANK
                    else 0.0,
                }
                for given in classes
            ],
        }
        for true in classes
    ]


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return str(value)
