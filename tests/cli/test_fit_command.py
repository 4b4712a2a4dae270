"""`erase fit` as a user types it: in process for speed, installed for truth."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
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
from erase.bench import Protocol, given_labels, score
from erase.cli import main
from erase.cli.fit import _check_scale
from erase.cli.output import Output
from erase.data.files import read_json, write_graph
from erase.data.folder import write_folder
from erase.errors import EraseError
from erase.methods import METHODS
from graphs import two_communities

SMALL = ["--set", "hidden=16", "--set", "heads=2", "--set", "epochs=5", "--device", "cpu"]
ERASE_SMALL = ["--method", "erase", *SMALL, "--set", "width=12"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    data = two_communities(size=40, classes=3)
    data.class_names = ["apple", "pear", "plum"]
    data.node_names = [f"node {i}" for i in range(data.num_nodes)]
    write_graph(data, tmp_path / "fruit.npz")
    return tmp_path / "fruit.npz"


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


def test_fit_writes_files_people_can_open(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["fit", str(graph), "--out", str(out), *ERASE_SMALL]) == 0
    assert {p.name for p in out.iterdir()} == {
        "predictions.csv",
        "history.csv",
        "embeddings.npy",
        "model.safetensors",
        "summary.json",
    }
    table = pd.read_csv(out / "predictions.csv", keep_default_na=False)
    assert list(table) == ["node", "name", "given", "predicted", "probability", "corrected"]
    assert len(table) == 120
    assert table["name"][3] == "node 3"
    assert set(table["predicted"]) <= {"apple", "pear", "plum"}
    model = erase.load_model(out / "model.safetensors")
    names = np.array(["apple", "pear", "plum"])
    assert names[model.predict()].tolist() == table["predicted"].tolist()
    np.testing.assert_array_equal(np.load(out / "embeddings.npy"), model.transform())
    assert len(pd.read_csv(out / "history.csv")) == 5
    assert summary(out)["scores"]["test_accuracy"] == pytest.approx(
        model.score(erase.read_graph(graph))
    )
    printed = capsys.readouterr().out
    assert "test accuracy" in printed
    assert str(out) in printed
    assert "predicted for unlabelled nodes and corrected for labelled ones" in printed


def test_fit_with_noise_reports_the_correction_rate(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    noise = ["--noise", "symmetric:0.4", "--seed", "3", "--validation", "noisy"]
    assert main(["fit", str(graph), "--out", str(out), "--quiet", *noise, *ERASE_SMALL]) == 0
    written = summary(out)
    assert written["protocol"] == {"noise": "redrawn", "validation": "noisy", "labels": "split"}
    clean = erase.read_graph(graph)
    given = erase.corrupt(clean, "symmetric", 0.4, seed=3, on="train+val")
    wrong = (given.y != clean.y) & clean.train_mask
    assert written["scores"]["mislabelled"] == int(wrong.sum()) > 0
    predicted = erase.load_model(out / "model.safetensors").predict()
    corrected = predicted[wrong.numpy()] == clean.y.numpy()[wrong.numpy()]
    assert written["scores"]["correction_rate"] == pytest.approx(corrected.mean())
    table = pd.read_csv(out / "predictions.csv", keep_default_na=False)
    assert (table["given"][clean.test_mask.numpy()] == "").all()


def test_json_is_the_summary_and_nothing_else(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["fit", str(graph), "--method", "ce", "--json", "--out", str(out), *SMALL]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == summary(out)


def test_quiet_says_nothing(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    main(["fit", str(graph), "--method", "ce", "--quiet", "--out", out, *SMALL])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_presets_and_settings_reach_the_method(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ["--preset", "paper", "--set", "denoise=false", "--set", "trust=1", "--quiet"]
    main(["fit", str(graph), "--out", str(out), *ERASE_SMALL, *more])
    written = summary(out)
    assert (written["normalisation"], written["denoise"], written["trust"]) == (
        "symmetric",
        False,
        1.0,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere"], "Datasets: cora"),
        (["fit", "nowhere.npz"], "nowhere.npz"),
        (["fit", "debian", "--set", "tust=1"], "Correct the name"),
        (["fit", "debian", "--method", "erase", "--set", "trust=2"], "trust"),
        (
            ["fit", "debian", "--set", "trust=1"],
            "trust, which belongs to erase. Add --method erase",
        ),
        (["fit", "debian", "--set", "loss_q=1"], "Correct the name"),
        (["fit", "debian", "--method", "ce", "--set", "rounds=1"], "belongs to relabelling. Add "),
        (["fit", "debian", "--preset", "paper"], "Add --method erase, or leave out --preset."),
        (["fit", "debian", "--noise", "symmetric"], "symmetric:0.3"),
        (["fit", "debian", "--noise", "typo:0.3"], "symmetric, pair"),
        (["fit", "debian", "--device", "abacus"], "'auto', 'cpu' or 'cuda'"),
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
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("erase: expected ")
    assert message in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        ([], "Relabelling"),
        (["--set", "rounds=1"], "Relabelling"),
        (["--clean"], "Relabelling"),
        (["--preset", "reference"], "Relabelling"),
        (["--method", "erase", "--set", "epochs=2", "--set", "width=16"], "ERASE"),
        (["--method", "erase", "--preset", "paper", "--set", "epochs=2"], "ERASE"),
        (["--method", "ce", "--set", "epochs=2"], "CrossEntropy"),
    ],
)
def test_relabelling_is_fitted_unless_another_method_is_asked_for(
    asked: list[str], method: str, tmp_path: Path
) -> None:
    graph, out = tmp_path / "g.npz", tmp_path / "out"
    write_graph(two_communities(), graph)
    assert main(["fit", str(graph), "--quiet", "--out", str(out), *asked]) == 0
    summary = read_json(out / "summary.json")
    assert summary["method"] == method
    if asked == ["--clean"]:
        audited = read_json(out / "audit" / "summary.json")
        assert audited["settings"]["graph"] == str(graph)
    data = two_communities()
    labels = data.train_mask | data.val_mask if method == "Relabelling" else data.train_mask
    assert summary["labels_learnt"] == int(labels.sum())


def test_a_parameter_that_no_method_has_is_told_with_those_of_the_usual_one(
    graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(graph), "--set", "foo=1"]) == 2
    message = capsys.readouterr().err
    assert "among folds, rounds, validation" in message
    assert "foo=1" in message


def test_relabelling_says_which_labels_are_doubtful(tmp_path: Path) -> None:
    graph, out = tmp_path / "g.npz", tmp_path / "out"
    clean = two_communities(size=60)
    noisy = erase.corrupt(clean, "symmetric", 0.2, seed=0)
    write_graph(noisy, graph)
    assert main(["fit", str(graph), "--quiet", "--out", str(out)]) == 0
    table = pd.read_csv(out / "predictions.csv")
    labelled = (noisy.train_mask | noisy.val_mask).numpy()
    assert table["quality"].notna().tolist() == labelled.tolist()
    wrong = (noisy.y != clean.y).numpy() & labelled
    assert table["quality"][wrong].max() < table["quality"][labelled & ~wrong].median()
    assert not (out / "history.csv").exists()  # there are no epochs


def test_a_folder_is_fitted_by_the_method_of_every_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "g", tmp_path / "out"
    write_folder(two_communities(), folder)
    assert main(["fit", str(folder), "--out", str(out)]) == 0
    assert summary(out)["method"] == "Relabelling"
    assert "into memory" not in capsys.readouterr().err  # it is read in parts
    whole = ["fit", str(folder), "--out", str(out), "--method", "ce", "--set", "epochs=1"]
    assert main(whole) == 0
    note = "Note: ce reads the whole folder into memory. A graph larger than the memory "
    assert f"{note}needs --method erase --set batch_size=1000." in capsys.readouterr().err
    monkeypatch.setattr("erase.cli.fit.physical_memory", lambda: 1000)
    assert main(whole) == 2
    assert "Train on samples of it: --method erase --set batch_size=1000." in (
        capsys.readouterr().err
    )
    assert main(["fit", str(folder), "--out", str(out)]) == 2
    assert "Use more machines, --set width=64, or samples" in capsys.readouterr().err
    sampled = [*ERASE_SMALL, "--set", "batch_size=20", "--set", "num_neighbors=2,2"]
    assert main(["fit", str(folder), "--out", str(out), *sampled]) == 0
    assert "Note: erase reads" not in capsys.readouterr().err


def test_several_processes_need_a_method_that_samples_or_shares_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _check_scale(erase.ERASE(), "debian", "erase", 2, Output(quiet=True))
    _check_scale(erase.Relabelling(), "debian", "relabelling", 2, Output(quiet=True))
    monkeypatch.setattr(erase.Relabelling, "shares_rows", False)
    with pytest.raises(EraseError, match="Use --method erase --set batch_size=1000"):
        _check_scale(erase.Relabelling(), "debian", "relabelling", 2, Output(quiet=True))


def test_defaults() -> None:
    assert parsed("fit", "g") == {
        "seed": 0,
        "device": "auto",
        "json": False,
        "quiet": False,
        "graph": "g",
        "out": None,
        "method": "relabelling",
        "preset": None,  # reference
        "settings": [],
        "reviews": None,
        "noise": None,
        "draw": None,  # redrawn
        "validation": None,  # clean, or noisy where it trains
        "clean": False,
        "resume": False,
        "safe_csv": False,
        "precision": "float32",
        "deterministic": False,
        **NO_TABLE_OPTIONS,
    }


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ([], "noisy"),
        (["--method", "smoothed"], "noisy"),
        (["--method", "smoothed", "--set", "validation=false"], "clean"),
        (["--method", "ce", *SMALL], "clean"),
        (["--method", "erase", "--preset", "relabelled", *SMALL], "noisy"),
        (["--validation", "clean"], "clean"),
    ],
)
def test_clean_validation_labels_never_train_unless_asked_for(
    graph: Path, tmp_path: Path, method: list[str], expected: str
) -> None:
    noise = ["--noise", "symmetric:0.3", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(["fit", str(graph), *noise, *method]) == 0
    assert summary(tmp_path / "out")["protocol"]["validation"] == expected


@pytest.mark.parametrize("draw", ["redrawn", "fixed"])
@pytest.mark.parametrize("validation", ["clean", "noisy", "none"])
def test_draw_validation_and_seed_reach_the_labels_and_the_method(
    graph: Path, tmp_path: Path, draw: Any, validation: Any
) -> None:
    out = tmp_path / "out"
    noise = ["--noise", "symmetric:0.5", "--seed", "3", "--draw", draw, "--validation", validation]
    main(["fit", str(graph), "--method", "ce", "--out", str(out), "--quiet", *noise, *SMALL])
    written, clean = summary(out), erase.read_graph(graph)
    assert written["protocol"] == {"noise": draw, "validation": validation, "labels": "split"}
    assert written["seed"] == 3
    given = given_labels(clean, "symmetric", 0.5, 3, Protocol(draw, validation))
    table = pd.read_csv(out / "predictions.csv", keep_default_na=False)
    names = ["apple", "pear", "plum", ""]
    assert table["given"].tolist() == [names[k] for k in given.y.tolist()]
    assert written["scores"] == score(erase.load_model(out / "model.safetensors"), clean, given)


def test_the_table_of_predictions_has_the_probability_and_the_corrected_label(
    graph: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    noise = ["--noise", "symmetric:0.5", "--set", "trust=0.2"]
    main(["fit", str(graph), "--out", str(out), "--quiet", *noise, *ERASE_SMALL])
    table = pd.read_csv(out / "predictions.csv", keep_default_na=False)
    model = erase.load_model(out / "model.safetensors")
    np.testing.assert_allclose(table["probability"], model.predict_proba().max(1), rtol=1e-5)
    names = np.array(["apple", "pear", "plum"])
    assert table["corrected"].tolist() == names[model.labels_].tolist()
    assert table["corrected"].tolist() != table["predicted"].tolist()


def test_the_summary_tells_epochs_and_settings(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    still = ["--set", "lr=1e-12", "--set", "dropout=0", "--set", "patience=2"]
    main(["fit", str(graph), "--out", str(out), "--quiet", *ERASE_SMALL, *still])
    written = summary(out)
    assert (written["best_epoch"], written["epochs_run"]) == (1, 3)
    assert written["threads"] == torch.get_num_threads()  # equal bits need an equal number of them
    assert (written["noise"], written["protocol"]) == (None, None)
    assert written["dropout"] == 0.0
    assert isinstance(written["dropout"], float)
    assert (written["method"], written["version"]) == ("ERASE", erase.__version__)


def test_neighbours_are_written_with_a_comma(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    batches = ["--set", "batch_size=8", "--set", "num_neighbors=4,3"]
    assert main(["fit", str(graph), "--out", str(out), "--quiet", *ERASE_SMALL, *batches]) == 0
    written = summary(out)
    assert (written["batch_size"], written["num_neighbors"]) == (8, [4, 3])
    assert erase.load_model(out / "model.safetensors").get_params()["num_neighbors"] == (4, 3)
    wrong = ["--set", "num_neighbors=4"]
    assert main(["fit", str(graph), "--out", str(out), "--quiet", *ERASE_SMALL, *wrong]) == 2


def test_switches_may_be_written_as_python_writes_them(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    main(["fit", str(graph), "--out", str(out), "--quiet", *ERASE_SMALL, "--set", "denoise=False"])
    assert summary(out)["denoise"] is False


def test_a_dataset_brings_its_settings_in_any_case_of_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(name: str) -> Any:
        asked.append(name)
        return two_communities(size=40, classes=3)

    monkeypatch.setattr("erase.data.datasets.load_dataset", load)
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "CiteSeer", "--quiet", *ERASE_SMALL]) == 0
    assert asked == ["citeseer"]
    written = summary(tmp_path / "out" / "citeseer-erase")
    assert (written["eps2"], written["steps"], written["normalisation"]) == (0.4, 4, "column")
    assert main(["fit", "CiteSeer", "--quiet", "--method", "ce", *SMALL]) == 0
    assert (tmp_path / "out" / "citeseer-ce" / "summary.json").exists()


@pytest.mark.parametrize("name", ["pubmed.npz", "ogbn-arxiv.npz", "PubMed"])
def test_a_file_called_like_a_dataset_brings_no_settings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    for path in (f"files/{name}", "files/graph.npz"):
        write_graph(two_communities(size=40, classes=3), path)
        for method in ("ce", "erase"):
            wide = ["--set", "width=12"] if method == "erase" else []
            out = ["--out", f"{Path(path).stem}-{method}"]
            assert main(["fit", path, "--quiet", "--method", method, *SMALL, *wide, *out]) == 0
    for method in ("ce", "erase"):
        named, usual = (summary(Path(f"{stem}-{method}")) for stem in (Path(name).stem, "graph"))
        for one in (named, usual):
            del one["graph"], one["seconds"], one["notes"]
        assert named == usual


def test_predictions_have_the_numbers_of_the_labels(tmp_path: Path) -> None:
    data = two_communities(size=40, classes=3)
    data.y = torch.tensor([10, 200, 3000])[data.y]
    write_graph(data, tmp_path / "graph.npz")
    write_graph(data, tmp_path / "tables")
    write_folder(data, tmp_path / "folder")
    tables = []
    for graph in ("graph.npz", "tables", "folder"):
        out = tmp_path / f"out-{graph}"
        more = ["--method", "label-propagation", "--noise", "pair:0.2", "--quiet"]
        assert main(["fit", str(tmp_path / graph), "--out", str(out), *more]) == 0
        tables.append(
            pd.read_csv(out / "predictions.csv").drop(columns=["id", "name"], errors="ignore")
        )
        assert summary(out)["scores"]["test_accuracy"] > 0.8
        assert erase.load_model(out / "model.safetensors").classes_.tolist() == [10, 200, 3000]
    assert set(tables[0]["predicted"]) == {10, 200, 3000}
    test = data.test_mask.numpy()
    assert (tables[0]["predicted"][test] == data.y.numpy()[test]).mean() > 0.8
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])


def test_the_columns_that_are_features_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = two_communities(size=20)
    write_graph(data, tmp_path / "graph")
    nodes = pd.read_csv(tmp_path / "graph" / "nodes.csv")
    nodes = nodes[["id", "label", "split", "x0", "x1"]].rename(columns={"x0": "size", "x1": "age"})
    nodes.assign(paper=range(500, 540)).to_csv(tmp_path / "graph" / "nodes.csv", index=False)
    out = tmp_path / "out"
    main(["fit", str(tmp_path / "graph"), "--out", str(out), "--method", "label-propagation"])
    output = capsys.readouterr().err
    assert "Note: Not used as features: 'paper': values that are all different" in output
    (used,) = (note for note in summary(out)["notes"] if note.startswith("Features: "))
    assert "'size', 'age'" in used
    assert f"Note: {used}" in output


def test_notes_about_the_graph_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = two_communities(size=20)
    del data.train_mask, data.val_mask, data.test_mask
    write_graph(data, tmp_path / "bare.npz")
    arguments = ["fit", str(tmp_path / "bare.npz"), "--out", str(tmp_path / "out"), *SMALL]
    main([*arguments, "--method", "ce"])
    assert "Note: No training split is given" in capsys.readouterr().err


def test_the_printed_table_names_each_share(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    main(["fit", str(graph), "--method", "ce", "--out", str(out), "--noise", "pair:0.4", *SMALL])
    head, row = capsys.readouterr().out.splitlines()[:2]
    assert head.split("  ", 1)[1].split("  ") == [
        "test accuracy",
        "wrong labels corrected",
        "right labels kept",
    ]
    scores = summary(out)["scores"]
    shown = (scores[key] for key in ("test_accuracy", "correction_rate", "accuracy_correct"))
    assert row.split()[1::2] == [f"{100 * share:.1f}" for share in shown]


@pytest.mark.parametrize("method", [[], ["--method", "ce", *SMALL]], ids=["relabelling", "ce"])
def test_without_noise_wrong_and_right_labels_are_not_reported(
    method: list[str], graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["fit", str(graph), "--out", str(out), *method]) == 0
    head, row = capsys.readouterr().out.splitlines()[:2]
    assert head.split("  ", 1)[1].strip() == "test accuracy"
    scores = summary(out)["scores"]
    assert row.split()[1:] == [f"{100 * scores['test_accuracy']:.1f}", "%"]
    assert not {"mislabelled", "accuracy_correct", "correction_rate"} & set(scores)
    labels = erase.read_graph(graph)
    model = erase.load_model(out / "model.safetensors")
    assert scores["test_accuracy"] == pytest.approx(model.score(labels))
    assert scores["train_labels"] == int(labels.train_mask.sum())


def test_without_test_labels_and_noise_there_is_nothing_to_compare_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = two_communities(size=20)
    del data.train_mask, data.val_mask, data.test_mask
    write_graph(data, tmp_path / "bare.npz")
    assert main(["fit", str(tmp_path / "bare.npz"), "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("There are no test labels to compare")
    assert summary(tmp_path / "out")["scores"] == {"train_labels": 40}


def test_only_given_labels_are_shown_as_given(graph: Path, tmp_path: Path) -> None:
    main(["fit", str(graph), "--out", str(tmp_path), "--quiet", "--method", "ce", *SMALL])
    table = pd.read_csv(tmp_path / "predictions.csv", keep_default_na=False)
    clean = erase.read_graph(graph)
    given = (clean.train_mask | clean.val_mask).numpy()
    assert (table["given"] != "").tolist() == given.tolist()


@pytest.mark.parametrize("option", [["--draw", "fixed"], ["--validation", "none"]])
def test_options_of_the_noise_need_noise(
    option: list[str], graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(graph), *option]) == 2
    assert "Add it, or leave them out" in capsys.readouterr().err


def test_the_seed_has_one_place(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(graph), "--set", "seed=5"]) == 2
    assert "options of their own" in capsys.readouterr().err


def test_a_finished_run_is_not_resumed(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["fit", str(graph), "--out", str(tmp_path / "out"), "--method", "ce", *SMALL]
    main(arguments)
    written = (tmp_path / "out" / "summary.json").stat().st_mtime_ns
    assert main([*arguments, "--resume"]) == 0
    assert "Without --resume it is made anew" in capsys.readouterr().err
    assert (tmp_path / "out" / "summary.json").stat().st_mtime_ns == written


FINISHED = ["--method", "ce", *SMALL, "--noise", "pair:0.2", "--quiet"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (["--method", "gce"], "method 'GCE' instead of 'CrossEntropy'"),
        (["--set", "epochs=6"], "epochs 6 instead of 5"),
        (["--seed", "1"], "seed 1 instead of 0"),
        (["--noise", "pair:0.3"], "noise 'pair:0.3' instead of 'pair:0.2'"),
        (["--validation", "noisy"], "'validation': 'noisy', 'labels': 'split'} instead of {"),
        (["--draw", "fixed"], "protocol {'noise': 'fixed'"),
        (["--clean"], "clean True instead of False"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_run_with_other_settings_is_not_called_finished(
    other: list[str], message: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["fit", str(graph), "--out", str(tmp_path / "out"), *FINISHED]
    assert main(arguments) == 0
    before = (tmp_path / "out" / "summary.json").read_bytes()
    assert main([*arguments, "--resume", *other]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert "another --out, or leave out --resume" in output
    assert (tmp_path / "out" / "summary.json").read_bytes() == before
    assert main([*arguments, "--resume"]) == 0


@pytest.mark.parametrize("content", ["[]", "{", "null"])
def test_a_damaged_summary_is_not_taken_for_a_finished_run(
    content: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.json").write_text(content)
    assert main(["fit", str(graph), "--out", str(tmp_path), *FINISHED, "--resume"]) == 2
    assert "summary.json" in capsys.readouterr().err


def test_a_finished_run_of_another_graph_is_not_called_finished(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.npz"
    write_graph(two_communities(size=40, classes=3), other)
    out = ["--out", str(tmp_path / "out"), *FINISHED]
    assert main(["fit", str(graph), *out]) == 0
    assert main(["fit", str(other), *out, "--resume"]) == 2
    assert f"graph '{other}' instead of '{graph}'" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["features", "edges", "training label", "test label"])
def test_a_finished_run_of_a_changed_graph_is_not_called_finished(
    change: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out"), "--method", "label-propagation"]
    assert main(["fit", str(graph), *out]) == 0
    data = erase.read_graph(graph)
    if change == "features":
        data.x[0, 0] += 1
    elif change == "edges":
        data.edge_index = data.edge_index[:, :-1]
    else:
        node = 0 if change == "training label" else -1
        data.y[node] = (data.y[node] + 1) % 3
    write_graph(data, graph)
    assert main(["fit", str(graph), *out, "--resume"]) == 2
    output = capsys.readouterr().err
    assert f"got {graph}, which has changed since. Leave out --resume" in output
    assert main(["fit", str(graph), *out]) == 0
    assert main(["fit", str(graph), *out, "--resume"]) == 0


@pytest.mark.parametrize("place", ["_train", "save"])
def test_a_killed_second_run_leaves_no_mixture_of_two_runs(
    place: str, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in training, the old results stay without a summary; later, nothing old is left."""
    out = tmp_path / "out"
    arguments = ["fit", str(graph), "--out", str(out), "--method", "ce", *SMALL, "--quiet"]
    assert main(arguments) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(METHODS["ce"], place, interrupt)
        assert main([*arguments, "--seed", "1"]) == 130
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    assert "summary.json" not in after
    del before["summary.json"]
    if place == "_train":
        assert after == before
    else:
        assert set(after) == {"predictions.csv", "history.csv", "embeddings.npy"}
        assert not any(after[name] == before[name] for name in after)


ANEW = "erase: interrupted. No checkpoint was kept: the same command starts anew.\n"


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["relabelling", "smoothed", "label-propagation"])
def test_a_method_without_checkpoints_does_not_offer_to_resume(
    method: str,
    graph: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "checkpoint.safetensors").write_bytes(b"of another run")
    monkeypatch.setattr(METHODS[method], "_train", interrupt)
    arguments = ["fit", str(graph), "--method", method, "--out", str(out), "--resume"]
    assert main(arguments) == 130
    assert capsys.readouterr().err.endswith(ANEW)


@pytest.mark.parametrize("written", [True, False])
def test_resuming_is_offered_where_a_checkpoint_was_written(
    written: bool,
    graph: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if written:
        monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    arguments = ["fit", str(graph), "--method", "ce", "--out", str(tmp_path), "--quiet", *SMALL]
    with monkeypatch.context() as patch:
        patch.setattr("erase.bench.score", interrupt)
        assert main(arguments) == 130
    output = capsys.readouterr().err
    if written:
        assert output.endswith("interrupted. Run the same command with --resume to continue.\n")
        assert main([*arguments, "--resume"]) == 0
    else:
        assert output.endswith(ANEW)


@pytest.mark.parametrize("resume", [True, False])
def test_an_interrupted_audit_of_fit_tells_whether_a_checkpoint_is_left(
    resume: bool,
    graph: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(b"of the run before")
    monkeypatch.setattr(import_module("erase.audit"), "audit", interrupt)
    arguments = ["fit", str(graph), "--method", "ce", "--clean", "--out", str(tmp_path), *SMALL]
    assert main([*arguments, "--resume"] if resume else arguments) == 130
    output = capsys.readouterr().err
    assert checkpoint.exists() == resume
    assert output.endswith("with --resume to continue.\n" if resume else ANEW)


def test_a_place_one_cannot_write_to_is_a_sentence(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    arguments = ["fit", str(graph), "--out", str(tmp_path / "file"), "--method", "ce", *SMALL]
    assert main(arguments) == 2
    assert "expected a folder to write to; got " in capsys.readouterr().err


def command(*arguments: str) -> list[str]:
    """The installed command, not a function of it."""
    return [str(Path(sys.executable).parent / "erase"), *arguments]


def fit_command(graph: Path, out: Path, *more: str) -> list[str]:
    size = [
        "--method",
        "erase",
        "--set",
        "hidden=64",
        "--set",
        "width=64",
        "--set",
        "epochs=1000",
        "--set",
        "patience=1000",
    ]
    return command("fit", str(graph), "--out", str(out), "--device", "cpu", "--quiet", *size, *more)


def test_a_killed_fit_resumes_to_the_same_result(graph: Path, tmp_path: Path) -> None:
    """No chance to clean up: what was on disk, whole, must be enough."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    size = ["--set", "epochs=120", "--set", "patience=120"]
    words = ["fit", str(graph), "--quiet", *ERASE_SMALL, *size, "--out"]
    often = {"ERASE_CHECKPOINT_SECONDS": "0"}
    process = forked.start(forked.COMMAND, *words, str(broken), out=tmp_path, environment=often)
    checkpoint = broken / "checkpoint.safetensors"
    while not checkpoint.exists():
        assert process.is_alive(), (tmp_path / "stderr").read_text()
        time.sleep(0.001)
    process.kill()
    process.join()
    assert checkpoint.exists()
    assert not (broken / "summary.json").exists()
    assert main([*words, str(broken), "--resume"]) == 0
    assert not checkpoint.exists()
    assert main([*words, str(whole)]) == 0
    for name in ("predictions.csv", "history.csv", "embeddings.npy"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_the_installed_command_resumes_to_the_same_result(
    graph: Path, tmp_path: Path, death: signal.Signals
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    often = os.environ | {"ERASE_CHECKPOINT_SECONDS": "0.05"}
    subprocess.run(fit_command(graph, whole), check=True)
    # who runs the tests in the background may have set them to ignore Ctrl-C
    listens = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        fit_command(graph, broken), env=often, stderr=subprocess.PIPE, preexec_fn=listens
    )
    checkpoint = broken / "checkpoint.safetensors"
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(death)
    _, output = process.communicate()
    assert process.returncode == (-9 if death == signal.SIGKILL else 130)
    if death == signal.SIGINT:
        assert b"--resume" in output
    assert checkpoint.exists()
    assert not (broken / "summary.json").exists()
    subprocess.run(fit_command(graph, broken, "--resume"), check=True)
    assert not checkpoint.exists()
    for name in ("predictions.csv", "history.csv", "embeddings.npy"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


def test_clean_prints_each_note_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = two_communities()
    data.edge_weight = torch.ones(data.num_edges) * 2
    write_graph(data, tmp_path / "g.npz")
    fit = ["fit", str(tmp_path / "g.npz"), "--clean", "--device", "cpu"]
    assert main([*fit, "--out", str(tmp_path / "out")]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Note: ")]
    assert len(notes) == len(set(notes)) > 1
