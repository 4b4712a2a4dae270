"""`erase audit` and `erase fit --clean` as a user types them."""

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import erase
import forked
from command_line import NO_TABLE_OPTIONS, parsed
from erase.audit import DEFAULT_METHOD, FOLDS, MAX_EPOCHS, audit_params
from erase.audit.run import audit_by_all
from erase.bench.detection import score_audit
from erase.cli import main
from erase.data.files import read_json, write_graph
from erase.methods import METHODS
from graphs import meaningless_graph, two_communities

FILES = {"issues.csv", "labels_clean.csv", "summary.json", "report.html", "audit.safetensors"}
QUICK = ["--method", "label-propagation", "--device", "cpu"]
SMALL = ["--set", "hidden=16", "--set", "heads=2", "--set", "epochs=5", "--device", "cpu"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    data = two_communities(size=40, classes=3)
    data.class_names = ["apple", "pear", "plum"]
    data.node_names = [f"node {i}" for i in range(data.num_nodes)]
    write_graph(data, tmp_path / "fruit.npz")
    return tmp_path / "fruit.npz"


def test_the_audit_is_written_as_files_people_can_open(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["audit", str(graph), "--out", str(out), *QUICK]) == 0
    assert {p.name for p in out.iterdir()} == FILES
    found = erase.audit(erase.read_graph(graph), method="label-propagation")
    issues = pd.read_csv(out / "issues.csv")
    pd.testing.assert_frame_equal(issues, found.issues)
    summary = read_json(out / "summary.json")
    assert summary["settings"]["graph"] == str(graph)
    assert summary["labels"] == 90
    assert "<title>Audit of fruit</title>" in (out / "report.html").read_text("utf-8")
    pd.testing.assert_frame_equal(erase.load_audit(out).issues, found.issues)
    printed = capsys.readouterr()
    assert "90 given labels of 120 nodes" in printed.out
    share, known = found.decision.at_least, found.decision.agreement
    first, second, third, *_ = printed.out.splitlines()
    assert first.startswith("90 given labels of 120 nodes. Models that had not seen a label agree")
    most = max(found.decision.contradicted.mean(), found.decision.noise_rate.high)
    assert second.startswith(f"{share.value:.1%} to {most:.1%} of the labels look wrong: the first")
    assert f"a lower bound (90 % interval {share.low:.1%} to {share.high:.1%}), the" in second
    rate = found.decision.noise_rate.value
    assert third.startswith(f"If mistakes depend on the class alone: about {rate:.1%}")
    assert "Note: Whether mistakes follow the features is not known: " in printed.err
    assert f"to measure the share: erase review {graph} --strategy random." in printed.out
    assert f"agree with {known.model:.1%} of the labels, the most common class with " in printed.out
    assert f"{known.majority:.1%}, neighbours' labels with {known.neighbours:.1%} " in printed.out
    assert f"(correlation {known.correlation:.2f}, " in printed.out
    assert str(out / "report.html") in printed.out
    flagged = issues[issues["is_issue"]]["name"]
    assert all(name in printed.out for name in flagged.head(10))
    assert f"{FOLDS} models at once" in printed.err


def test_json_is_the_summary_and_nothing_else(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["audit", str(graph), "--out", str(tmp_path), "--json", "--quiet", *QUICK])
    captured = capsys.readouterr()
    assert json.loads(captured.out) == read_json(tmp_path / "summary.json")
    assert captured.err == ""


def test_labels_splits_edges_features_and_folds_are_each_checked_once(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    for place in (
        "erase.data.task.encode_labels",
        "erase.data.task.read_splits",
        "erase.data.task.undirected_edges",
        "erase.data.task.node_features",
        "erase.audit.out_of_fold.check_folds",
    ):
        module, name = place.rsplit(".", 1)
        original = getattr(import_module(module), name)

        def count(*args: Any, name: str = name, original: Any = original, **options: Any) -> Any:
            calls[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(place, count)
    assert main(["audit", str(graph), "--out", str(tmp_path / "out"), "--quiet", *QUICK]) == 0
    assert set(calls.values()) == {1}
    assert len(calls) == 5


def test_quiet_says_nothing(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["audit", str(graph), "--out", str(tmp_path / "out"), "--quiet", *QUICK])
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_known_noise_shows_how_good_the_audit_was(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = ["--noise", "symmetric:0.3", "--seed", "2"]
    main(["audit", str(graph), "--out", str(tmp_path), *noise, *QUICK])
    clean = erase.read_graph(graph)
    given = erase.corrupt(clean, "symmetric", 0.3, seed=2, on="train+val")
    expected = score_audit(erase.audit(given, method="label-propagation", seed=2), clean)
    summary = read_json(tmp_path / "summary.json")
    assert summary["scores"] == pytest.approx(expected)
    assert summary["noise"] == "symmetric:0.3"
    assert expected["mislabelled"] > 10
    printed = capsys.readouterr().out
    assert f"{expected['mislabelled']} of 90 labels wrong" in printed
    assert f"auroc {expected['auroc']:.3f}" in printed


def test_all_labels_are_audited_where_asked_for(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["audit", str(graph), "--out", str(tmp_path), *QUICK])
    assert len(pd.read_csv(tmp_path / "issues.csv")) == 90
    assert "30 labels of test nodes are not audited (--all-labels" in capsys.readouterr().err
    main(["audit", str(graph), "--out", str(tmp_path), "--all-labels", *QUICK])
    assert len(pd.read_csv(tmp_path / "issues.csv")) == 120
    assert "--all-labels" not in capsys.readouterr().err


def test_options_reach_the_audit(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def watch(task: Any, **options: Any) -> Any:
        seen.update(options)
        return audit_by_all(task, method="label-propagation", folds=2)

    monkeypatch.setattr("erase.audit.run.audit_by_all", watch)
    more = ["--folds", "3", "--max-false-alarms", "0.1", "--seed", "4", "--parquet"]
    words = ["audit", str(graph), "--out", str(tmp_path), "--method", "erase", "--quiet"]
    main([*words, *more, "--set", "trust=0.3"])
    assert (tmp_path / "issues.parquet").exists()
    model = seen.pop("method")
    assert seen == {"folds": 3, "max_false_alarms": 0.1, "seed": 4, "progress": False}
    expected = erase.ERASE(seed=4, trust=0.3, epochs=MAX_EPOCHS)
    assert model.get_params() == expected.get_params()
    main([*words, "--set", "epochs=7"])
    assert seen["method"].epochs == 7
    main([*words, "--preset", "paper"])
    assert seen["method"].normalisation == "symmetric"
    main(["audit", str(graph), "--out", str(tmp_path), "--quiet"])
    usual = METHODS[DEFAULT_METHOD](**audit_params(DEFAULT_METHOD))
    assert (seen["folds"], type(seen["method"])) == (FOLDS, type(usual))
    assert seen["method"].get_params() == usual.get_params()


@pytest.mark.parametrize("name", ["pubmed", "ogbn-arxiv"])
def test_a_file_called_like_a_dataset_brings_no_settings(name: str, tmp_path: Path) -> None:
    write_graph(two_communities(size=40, classes=3), tmp_path / f"{name}.npz")
    words = ["audit", str(tmp_path / f"{name}.npz"), "--out", str(tmp_path), "--quiet"]
    for method in ("ce", "erase"):
        main([*words, "--method", method, "--folds", "2", *SMALL])
        found = read_json(tmp_path / "summary.json")["settings"]["parameters"]
        usual = METHODS[method](hidden=16, heads=2, epochs=5, device="cpu").get_params()
        assert found == {**usual, "num_neighbors": list(usual["num_neighbors"])}


def test_a_column_of_ids_does_not_make_right_labels_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = two_communities(size=60, classes=3)
    del data.x
    write_graph(data, tmp_path / "graph")
    file = tmp_path / "graph" / "nodes.csv"
    rng = np.random.default_rng(0)
    pd.read_csv(file).assign(paper=rng.permutation(180) + 31_336).to_csv(file, index=False)
    out = tmp_path / "out"
    assert main(["audit", str(tmp_path / "graph"), "--out", str(out), "--all-labels"]) == 0
    assert "Not used as features: 'paper': values that are all different" in capsys.readouterr().err
    summary = read_json(out / "summary.json")
    assert any("spectral embedding" in note for note in summary["notes"])
    assert summary["noise_rate"]["value"] < 0.1


def test_defaults() -> None:
    assert parsed("audit", "g") == {
        "graph": "g",
        "out": None,
        "method": DEFAULT_METHOD,
        "preset": "reference",
        "settings": [],
        "folds": FOLDS,
        "max_false_alarms": 0.2,
        "all_labels": False,
        "reviews": None,
        "noise": None,
        "parquet": False,
        "safe_csv": False,
        "write_back": None,
        "seed": 0,
        "device": "auto",
        "json": False,
        "quiet": False,
        "precision": "float32",
        "deterministic": False,
        **NO_TABLE_OPTIONS,
    }


def test_the_folder_is_named_after_the_graph(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["audit", "fruit.npz", "--quiet", *QUICK])
    assert {p.name for p in (tmp_path / "out" / "fruit-audit").iterdir()} == FILES


def test_a_graph_without_errors_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = two_communities(size=60)
    same = data.y[data.edge_index[0]] == data.y[data.edge_index[1]]
    data.edge_index = data.edge_index[:, same]
    write_graph(data, tmp_path / "easy.npz")
    out = str(tmp_path / "out")
    main(["audit", str(tmp_path / "easy.npz"), "--max-false-alarms", "0", "--out", out, *QUICK])
    printed = capsys.readouterr().out
    assert printed.count("No label is suspicious enough to be flagged.") == 1
    assert "None is flagged" not in printed


def test_labels_that_cannot_be_audited_are_reported_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(meaningless_graph(), tmp_path / "random.npz")
    out = tmp_path / "out"
    assert main(["audit", str(tmp_path / "random.npz"), "--out", str(out), *QUICK]) == 0
    summary = read_json(out / "summary.json")
    assert summary["agreement"]["is_informative"] is False
    assert summary["flagged"] == 0
    known = erase.audit(meaningless_graph(), method="label-propagation").decision.agreement
    assert summary["agreement"]["model"] == known.model
    printed = capsys.readouterr().out
    words = str(known)[1:]
    assert printed.startswith(f"120 given labels of 120 nodes. M{words}.\nThat may be chance.")
    assert "are wrong (90 %" not in printed
    assert "Confirm 50 labels" in printed
    assert "No label is suspicious enough" not in printed
    labels = pd.read_csv(out / "labels_clean.csv")
    assert not labels["changed"].any()
    assert "This audit cannot tell which labels are wrong" in (out / "report.html").read_text(
        "utf-8"
    )


def test_fit_does_not_correct_labels_that_cannot_be_audited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(meaningless_graph(), tmp_path / "random.npz")
    out = tmp_path / "out"
    fit = ["fit", str(tmp_path / "random.npz"), "--method", "ce", *SMALL, "--quiet"]
    assert main([*fit, "--clean", "--out", str(out)]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("erase: expected labels that the audit can tell right from wrong, for ")
    assert f"Leave out --clean, or label more nodes; the audit is in {out / 'audit'}." in line
    assert read_json(out / "audit" / "summary.json")["flagged"] == 0
    assert not (out / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "Datasets: cora"),
        (["nowhere.npz"], "nowhere.npz"),
        (["debian", "--set", "tust=1"], "Correct the name"),
        (["debian", "--method", "erase", "--set", "trust=2"], "trust"),
        (["debian", "--noise", "symmetric"], "symmetric:0.3"),
        (["debian", "--noise", "typo:0.3"], "symmetric, pair"),
        (["debian", "--device", "abacus"], "'auto', 'cpu' or 'cuda'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_leaves_nothing(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("erase: expected ")
    assert message in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--folds", "1"], "2 to 1,000 folds"),
        (["--max-false-alarms", "2"], "share from 0 to 1; got 2.0. Pass --max-false-alarms 0.2"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_bad_options_are_refused_before_training(
    options: list[str],
    message: str,
    graph: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["audit", str(graph), "--out", str(tmp_path / "out"), *options, *QUICK]) == 2
    assert message in capsys.readouterr().err


def test_without_pyarrow_parquet_is_refused_before_training(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("erase.data.files.find_spec", lambda name: None)
    assert main(["audit", str(graph), "--out", str(tmp_path / "out"), "--parquet", *QUICK]) == 2
    assert "graph-erase[parquet]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_fit_on_corrected_labels_is_the_audit_and_then_a_fit(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = ["--noise", "symmetric:0.3", "--validation", "noisy", "--seed", "2"]
    out = tmp_path / "out"
    fit = ["fit", str(graph), "--method", "ce", *noise, *SMALL, "--clean", "--out", str(out)]
    assert main(fit) == 0
    clean = erase.read_graph(graph)
    given = erase.corrupt(clean, "symmetric", 0.3, seed=2, on="train+val")
    found = erase.audit(given, seed=2, device="cpu")
    method = erase.CrossEntropy(hidden=16, heads=2, epochs=5, seed=2, device="cpu")
    expected = method.fit(found.clean_graph(given))
    saved = erase.load_model(out / "model.safetensors")
    np.testing.assert_allclose(saved.predict_proba(), expected.predict_proba(), atol=1e-5)
    summary = read_json(out / "summary.json")
    full = found.summary()
    assert summary["clean"]["wrong"] == full["wrong"] > 0
    assert summary["clean"]["cannot_tell"] == full["cannot_tell"]
    assert summary["clean"]["noise_rate"]["value"] == pytest.approx(full["noise_rate"]["value"])
    assert (out / "audit" / "labels_clean.csv").exists()
    wrong = (given.y != clean.y) & clean.train_mask
    assert summary["scores"]["mislabelled"] == int(wrong.sum())  # against what was given
    assert "corrected labels" in capsys.readouterr().err
    plain = tmp_path / "plain"
    main(["fit", str(graph), "--method", "ce", *noise, *SMALL, "--out", str(plain), "--quiet"])
    assert read_json(plain / "summary.json")["clean"] is None
    other = erase.load_model(plain / "model.safetensors")
    assert not np.allclose(saved.predict_proba(), other.predict_proba(), atol=1e-3)


def test_fit_on_corrected_labels_has_a_twin_in_python(graph: Path, tmp_path: Path) -> None:
    data = erase.corrupt(erase.read_graph(graph), "symmetric", 0.3, on="train+val")
    write_graph(data, graph)
    assert main(["fit", str(graph), "--clean", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    data = erase.read_graph(graph)
    found = erase.audit(data)
    table = pd.read_csv(tmp_path / "out" / "predictions.csv")
    labelled = found.given >= 0
    np.testing.assert_allclose(table["quality"][labelled], found.decision.quality, atol=1e-5)
    assert table["quality"][~labelled].isna().all()
    model = erase.Relabelling().fit(found.clean_graph(data))
    saved = erase.load_model(tmp_path / "out" / "model.safetensors")
    np.testing.assert_allclose(saved.predict_proba(), model.predict_proba(), atol=1e-6)
    plain = erase.Relabelling().fit(data).predict_proba()
    assert not np.allclose(saved.predict_proba(), plain, atol=1e-3)


def test_the_command_audits_in_a_new_process(graph: Path, tmp_path: Path) -> None:
    words = ["audit", str(graph), "--out", str(tmp_path / "out"), *QUICK]
    done = forked.run(forked.COMMAND, *words)
    assert done.returncode == 0, done.stderr
    assert "given labels" in done.stdout
    assert {p.name for p in (tmp_path / "out").iterdir()} == FILES


@pytest.mark.slow
def test_debian_is_audited_in_three_minutes(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    assert main(["audit", "debian", "--device", "cpu", "--out", str(tmp_path), "--quiet"]) == 0
    summary = read_json(tmp_path / "summary.json")
    assert summary["seconds"] < 180
    assert summary["labels"] == 650
