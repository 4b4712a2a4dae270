"""Audit: the result of an audit, its files, and the corrected graph."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from erase.audit.decision import Decision
from erase.audit.flags import verdicts
from erase.audit.neighbours import neighbour_evidence
from erase.audit.statements import headline, wrong_share_sentences
from erase.data.fields import node_columns
from erase.data.files import StrPath, write_json, write_table
from erase.data.kinds import Graph, graph_data, relabelled
from erase.data.labels import encode_labels, encode_trusted, label_fields
from erase.data.parts import output_path
from erase.display import fact_table
from erase.errors import EraseError


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Which given labels are wrong, what they should be, and how sure that is.

    Attributes:
        issues: one row per labelled node, the most suspicious first: ``node`` (its number), ``id``
            and ``name`` (where the graph has them), ``given``, ``suggested`` (class names),
            ``quality`` (1: surely right), ``is_issue``, ``verdict`` ("right", "wrong", "can't
            tell"), ``probability`` (of the suggested class), ``neighbours`` (how many),
            ``neighbours_agree`` and ``neighbours_suggested`` (share of the labelled neighbours that
            carry the given and the suggested label; NaN where no neighbour is labelled) and
            ``neighbours_proba`` (mean probability of the given class over all neighbours; NaN where
            there is none). Where the graph has trusted labels, ``trusted`` tells which nodes have
            one: never flagged, with the trusted label as ``suggested``.
        class_names: K names.
        label_values: [K] what stands for class k among the graph's labels: a number, or its name.
        pred_probs: [N, K] rows sum to 1; out-of-sample for labelled nodes.
        given: [N] given class k, the column of `pred_probs`; -1 where none.
        decision: about the labelled nodes, in node order.
        embedding: [N, D] of one fold's model.
        edge_index: [2, E] both directions of every edge.
        node_names: N names that people read, or None.
        node_ids: N ids that join the nodes with the user's tables, or None.
        settings: method and its parameters, folds, seed, allowed false alarms, device, versions.
        notes: what was changed when the graph was read, one sentence each.
        seconds: how long it took.
        trusted: [N] trusted class, -1 where there is none; None where the graph has no trusted
            labels.
    """

    issues: pd.DataFrame
    class_names: tuple[str, ...]
    label_values: NDArray[Any]
    pred_probs: NDArray[np.float64]
    given: NDArray[np.int64]
    decision: Decision
    embedding: NDArray[np.float32]
    edge_index: NDArray[np.int64]
    node_names: tuple[str, ...] | None
    settings: dict[str, Any]
    notes: tuple[str, ...]
    seconds: float
    node_ids: tuple[Any, ...] | None = None
    trusted: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        """Return what was found, in a line."""
        if not self.decision.agreement.is_informative:
            return f"<Audit of {len(self.issues)} labels: it cannot tell which are wrong>"
        flagged, (_, words) = int(self.decision.is_issue.sum()), headline(self.decision)
        return f"<Audit of {len(self.issues)} labels: {flagged} flagged, {words} wrong>"

    def _repr_html_(self) -> str:
        summary, decision = self.summary(), self.decision
        facts = {key: summary[key] for key in ("nodes", "edges")}
        facts |= {
            "classes": len(self.class_names),
            "given labels": summary["labels"],
            "agreement": str(decision.agreement),
            "wrong labels": " ".join(wrong_share_sentences(decision, self.settings.get("graph"))),
            "flagged": summary["flagged"],
            "flagged, with another label suggested": summary["wrong"],
            "method": str(self.settings.get("method", "not recorded")),
        }
        return fact_table("Audit", facts)

    def clean_labels(self, *, force: bool = False) -> NDArray[Any]:
        """Return the corrected labels [N] as the graph has them: numbers or names.

        Of the flagged labels, those that are "wrong" become the suggested class, and those where
        one "can't tell" are removed. A trusted label replaces the given one. Nothing else changes.
        Where there is none, it is -1, or "". Where the agreement is not informative nothing is
        flagged.

        Args:
            force: correct what would be flagged if the agreement were informative.
        """
        labels: NDArray[Any] = label_fields(
            self.clean_classes(force=force), self.class_names, self.label_values
        )["y"]
        return labels

    def clean_classes(self, *, force: bool = False) -> NDArray[np.int64]:
        """Return the corrected classes [N] as `given` has them; see :meth:`clean_labels`."""
        decision, given = self.decision, self.given[self.given >= 0]
        flagged, verdict = decision.is_issue, decision.verdict
        if force and not decision.agreement.is_informative:
            limit = self.settings["max_false_alarms"]
            flagged, verdict = verdicts(given, decision.posterior, limit, decision.contradicted)
        corrected = np.where(verdict == "wrong", decision.suggested, -1)
        clean = self.given.copy()
        clean[self.given >= 0] = np.where(flagged, corrected, given)
        return clean if self.trusted is None else np.where(self.trusted >= 0, self.trusted, clean)

    def clean_graph(self, graph: Graph, *, force: bool = False) -> Graph:
        """Return a copy of the audited `graph`, of the same kind, with its given labels corrected.

        Labels that were not audited, those of test nodes, stay as they are. Raises an EraseError
        where the agreement is not informative: a graph returned as it was would look clean.

        Args:
            graph: the one that was audited, of any kind that ``NodeTask.of`` takes.
            force: correct the labels all the same, as :meth:`clean_labels` does.
        """
        data = graph_data(graph)
        y, class_names, values = encode_labels(data)
        trusted = encode_trusted(data)
        labels = y.numpy() if trusted is None else torch.where(y >= 0, y, trusted).numpy()
        audited = self.given >= 0
        if (
            class_names != self.class_names
            or len(labels) != len(audited)
            or (labels != self.given)[audited].any()
        ):
            raise EraseError(
                "the graph that was audited",
                "one with other nodes, classes or labels",
                "Pass the graph that erase.audit was given.",
            )
        if not (force or self.decision.agreement.is_informative):
            raise EraseError(
                "labels that the audit can tell right from wrong",
                str(self.decision.agreement),
                "Keep the labels as they are, label more nodes, audit with another method, or "
                "correct them all the same with force=True.",
            )
        labels = np.where(audited, self.clean_classes(force=force), y.numpy())
        return relabelled(graph, y, labels, class_names, values)

    def summary(self) -> dict[str, Any]:
        """Return the audit in numbers: how good the models are, how noisy the labels.

        ``agreement`` says how well models that had not seen a label predict it: ``model`` beside
        ``majority``, the most common class, and ``neighbours``, their most common label;
        ``correlation`` beside what is ``needed``. ``at_least`` is a lower bound of the share of
        wrong labels, and ``noise_rate`` the share under the ``assumption``, or by as many random
        trusted labels as ``confirmed`` says. ``follows_features`` says whether mistakes follow the
        features, None where that is unknown. Where the agreement is not informative, estimates
        of the noise are None.
        """
        decision, k = self.decision, len(self.class_names)
        known, noise = decision.agreement.is_informative, decision.feature_noise
        unknown: dict[str, Any] = {} if decision.has_rate else {"value": None}
        given = self.given[self.given >= 0]
        flagged, wrong = decision.is_issue, decision.is_issue & (decision.verdict == "wrong")
        labels = np.bincount(given, minlength=k)
        doubt = np.bincount(given, 1 - decision.quality, minlength=k)
        rates = np.divide(doubt, labels, np.full(k, np.nan), where=labels > 0).tolist()
        classes = {
            "class": self.class_names,
            "labels": labels.tolist(),
            "noise_rate": rates if known else pd.array([None] * k, dtype=object),
            "flagged": np.bincount(given[flagged], minlength=k).tolist(),
            "suggested_instead": np.bincount(decision.suggested[wrong], minlength=k).tolist(),
        }
        return {
            "agreement": {**asdict(decision.agreement), "is_informative": known},
            "nodes": len(self.given),
            "edges": self.edge_index.shape[1] // 2,
            "labels": len(given),
            **({} if self.trusted is None else {"trusted": int((self.trusted >= 0).sum())}),
            "at_least": asdict(decision.at_least) | unknown,
            "noise_rate": asdict(decision.noise_rate) | unknown,
            "assumption": decision.assumption if decision.has_rate else None,
            "confirmed": decision.confirmed,
            "follows_features": noise.is_present if known and noise is not None else None,
            "flagged": int(flagged.sum()),
            "wrong": int(wrong.sum()),
            "cannot_tell": int((flagged & ~wrong).sum()),
            "expected_false_alarms": decision.expected_false_alarms,
            "threshold": decision.threshold,
            "classes": pd.DataFrame(classes).to_dict("records"),
            "transition": {
                "rows": "true class",
                "columns": "given class",
                "classes": list(self.class_names),
                "value": decision.transition.tolist(),
                "low": decision.transition_low.tolist(),
                "high": decision.transition_high.tolist(),
            }
            if known
            else None,
            "settings": self.settings,
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def save(self, folder: StrPath, *, parquet: bool = False, safe_csv: bool = False) -> None:
        """Write the audit into `folder`: files to read, and one for `erase.load_audit`.

        ``issues.csv`` holds `issues`. ``labels_clean.csv`` has a row per labelled node: ``node``,
        ``id`` and ``name`` (where the graph has them), ``label`` (corrected; empty where it is
        removed), ``was`` and ``changed``. ``summary.json`` is :meth:`summary`, and
        ``audit.safetensors`` the whole audit.

        Args:
            folder: made where it is missing.
            parquet: write ``issues.parquet`` too.
            safe_csv: escape text in CSV files that a spreadsheet would take for a formula.
        """
        from erase.audit.storage import FILE, save_audit  # which imports this module

        folder = output_path(folder)
        (folder / "summary.json").unlink(missing_ok=True)  # written last: without it, unfinished
        write_table(self.issues, folder / "issues.csv", safe_csv=safe_csv)
        if parquet:
            write_table(self.issues, folder / "issues.parquet")
        write_table(self._label_table(), folder / "labels_clean.csv", safe_csv=safe_csv)
        save_audit(self, folder / FILE)
        write_json(self.summary(), folder / "summary.json")

    def _label_table(self) -> pd.DataFrame:
        nodes = np.flatnonzero(self.given >= 0)
        names = np.array([*self.class_names, ""], dtype=object)  # -1, removed, is the last
        clean, was = self.clean_classes()[nodes], self.given[nodes]
        columns = node_columns(nodes, self.node_ids, self.node_names)
        columns |= {"label": names[clean], "was": names[was], "changed": clean != was}
        return pd.DataFrame(columns)

    def to_html(self, path: StrPath, *, name: str = "") -> None:
        """Write the audit as one page that needs no network.

        Args:
            path: the HTML file.
            name: of the graph, for the title.
        """
        from erase.audit.report.audit_page import write_audit_page  # which imports this module

        write_audit_page(self, path, name)


def issue_table(
    node_ids: Sequence[Any] | None,
    node_names: Sequence[str] | None,
    class_names: Sequence[str],
    given: NDArray[np.int64],
    decision: Decision,
    edge_index: NDArray[np.int64],
    pred_probs: NDArray[np.float64],
    trusted: NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """Return `Audit.issues`: one row per labelled node, flagged ones first, then by quality."""
    nodes = np.flatnonzero(given >= 0)
    suggested = np.full(len(given), -1)
    suggested[nodes] = decision.suggested
    evidence = neighbour_evidence(edge_index, given, suggested, pred_probs)
    names = np.array(class_names, dtype=object)
    columns = node_columns(nodes, node_ids, node_names) | {
        "given": names[given[nodes]],
        "suggested": names[decision.suggested],
        "quality": decision.quality,
        "is_issue": decision.is_issue,
        "verdict": decision.verdict,
        **({} if trusted is None else {"trusted": trusted[nodes] >= 0}),
        "probability": decision.posterior.max(1),
        "neighbours": evidence.neighbours,
        "neighbours_agree": evidence.agree,
        "neighbours_suggested": evidence.suggested,
        "neighbours_proba": evidence.proba,
    }
    order = np.lexsort((decision.quality, ~decision.is_issue))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)
