"""Relabelling: corrected labels, labels that stay hidden, and weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from torch_geometric.data import Data

from erase.bench.run import PROTOCOLS, given_labels
from erase.data.datasets import load_dataset
from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS, load_model, smoothed
from erase.methods.relabelling import ensemble, smoothing
from erase.methods.relabelling import ensemble as mixtures
from erase.methods.relabelling.method import Relabelling
from erase.methods.relabelling.noise_model import Calibration, assign_folds, calibrate
from erase.methods.relabelling.smoothing import VIEWS
from erase.methods.smoothed import SmoothedLogReg
from erase.nn import neighbours
from erase.nn.regressions import Regressions
from graphs import renumbered, two_communities


def noisy(kind: str = "symmetric", rate: float = 0.3, size: int = 60, seed: int = 0) -> Data:
    graph = two_communities(classes=3, size=size)
    return corrupt(graph, kind, rate, seed=seed, on="train+val")


def small(**changes: Any) -> Relabelling:
    options: dict[str, Any] = {"device": "cpu", "width": 12, "folds": 3}
    return Relabelling(**(options | changes))


@pytest.mark.parametrize(("kind", "rate"), [("symmetric", 0.4), ("pair", 0.3)])
def test_wrong_labels_are_found_put_right_and_counted(kind: str, rate: float) -> None:
    clean = two_communities(classes=3, size=60)
    given = noisy(kind, rate)
    model = small().fit(given)
    labelled = (clean.train_mask | clean.val_mask).numpy()
    wrong = (given.y != clean.y).numpy()[labelled]
    quality = model.quality_[labelled]
    assert np.isnan(model.quality_[~labelled]).all()
    assert quality[wrong].max() < 0.5 < np.median(quality[~wrong])
    assert 1 - quality.mean() == pytest.approx(wrong.mean(), abs=0.06)
    assert (model.labels_[labelled] == clean.y.numpy()[labelled]).mean() > 0.95
    assert model.score(clean) > 0.95
    truth = np.zeros((3, 3))
    np.add.at(truth, (clean.y[labelled], given.y[labelled]), 1)
    np.testing.assert_allclose(model.transition_, truth / truth.sum(1, keepdims=True), atol=0.1)
    np.testing.assert_allclose(model.transition_.sum(1), 1)


def test_a_trusted_label_says_whether_the_given_one_is_right() -> None:
    clean, given = two_communities(classes=3, size=20), noisy(size=20)
    given.trusted = torch.where(given.train_mask & (torch.arange(60) < 15), clean.y, -1)
    model = small(view="near", rounds=0).fit(given)
    assert model.quality_[:15].tolist() == (given.y == clean.y)[:15].double().tolist()
    assert model.labels_[:15].tolist() == clean.y[:15].tolist()


def test_a_round_is_fitted_to_the_posteriors_of_the_labels() -> None:
    clean, given = two_communities(classes=3, size=60), noisy()
    task, model = NodeTask.from_data(given), small()
    labelled = (task.y >= 0).nonzero().squeeze(1)
    fold = np.arange(len(labelled)) % 3
    cpu = torch.device("cpu")
    _, features = mixtures.smoothed_features(task, model.view, model.width, cpu)
    labels = mixtures.split_labels(task, fold, seed=0)
    candidates = mixtures.fit_candidates("far", features["far"], labels, rounds=0)
    rows = Regressions(features["far"][labelled])
    before = mixtures.as_given(labels, cpu)
    after = mixtures.reconsider(labels, candidates, rows, before)
    assert after.shape == before.shape == (4, len(labelled), 3)
    torch.testing.assert_close(after.sum(2), torch.ones(4, len(labelled)))
    truth = clean.y[labelled]
    for model_number in range(4):
        seen = torch.from_numpy(fold != model_number)
        belief = after[model_number, torch.arange(len(labelled)), truth]
        wrong = (task.y[labelled] != truth) & seen
        assert float(belief[wrong].mean()) > 0.7  # 0 before
        right = float((task.y[labelled] == truth)[seen].float().mean())
        assert float(belief[seen].mean()) > right + 0.02
    assert not torch.equal(after[0], after[-1])


def test_validation_labels_train_like_training_labels() -> None:
    given = noisy()
    both = given.train_mask | given.val_mask
    other = given.clone()
    other.train_mask, other.val_mask = both, torch.zeros_like(both)
    first, second = small().fit(given), small().fit(other)
    np.testing.assert_array_equal(first.predict_proba(), second.predict_proba())


def test_no_classifier_sees_the_labels_it_is_scored_by() -> None:
    """Another label in fold 0 changes nothing that the classifiers without fold 0 learnt."""
    task = NodeTask.from_data(noisy())
    labelled = (task.y >= 0).numpy()
    fold = np.where(labelled, np.cumsum(labelled) % 4, -1)
    node = int(np.flatnonzero(fold == 0)[0])
    y = task.y.clone()
    y[node] = (y[node] + 1) % 3
    changed = NodeTask(
        x=task.x,
        edge_index=task.edge_index,
        y=y,
        train_mask=task.train_mask,
        val_mask=task.val_mask,
        class_names=task.class_names,
        label_values=task.label_values,
    )

    def weights(task: NodeTask) -> list[torch.Tensor]:
        model = small()
        cpu = torch.device("cpu")
        _, features = mixtures.smoothed_features(task, model.view, model.width, cpu)
        mixture = mixtures.fit_mixture(task, features, fold[labelled], rounds=2, seed=0)
        return [candidate.weights for candidate in mixture.candidates]

    with pytest.MonkeyPatch.context() as patch:
        # the inner folds are assigned by class: keep them where they are
        assigned: dict[tuple[int, int], Any] = {}

        def once(classes: Any, folds: int, stream: Any) -> Any:
            return assigned.setdefault((len(classes), folds), assign_folds(classes, folds, stream))

        patch.setattr(mixtures, "assign_folds", once)
        before, after = weights(task), weights(changed)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(before, after, strict=True))
    assert not any(torch.equal(a[1], b[1]) for a, b in zip(before, after, strict=True))
    assert not any(torch.equal(a[-1], b[-1]) for a, b in zip(before, after, strict=True))


def test_cross_fitting_is_what_an_audit_needs() -> None:
    task = NodeTask.from_data(noisy())
    labelled = (task.y >= 0).numpy()
    fold = np.where(labelled, np.cumsum(labelled) % 3, -1)
    crossed = small().cross_fit(task, fold)
    assert crossed.proba.shape == (3, task.num_nodes, 3)
    np.testing.assert_allclose(crossed.proba.sum(2), 1, atol=1e-5)
    assert crossed.classes_seen.all()
    single = np.where(task.y.numpy() == 2, 0, np.where(labelled, 1 + np.cumsum(labelled) % 2, -1))
    crossed = small().cross_fit(task, single)
    assert crossed.classes_seen.tolist() == [[True, True, False], [True] * 3, [True] * 3]
    assert crossed.proba[0, :, 2].mean() < 0.05
    assert crossed.proba[1, :, 2].mean() > 0.2


def test_stacking_prefers_what_predicts_labels() -> None:
    rng = np.random.default_rng(0)
    likelihood = rng.uniform(0.2, 0.4, size=(3, 200))
    likelihood[1] += 0.3
    shares = mixtures.stack(likelihood)
    assert shares.sum() == pytest.approx(1)
    assert shares[1] > 0.9 > 0.1 > shares[0] > 0
    np.testing.assert_allclose(mixtures.stack(np.full((4, 10), 0.3)), 0.25)


def test_a_graph_of_strangers_is_left_aside() -> None:
    """Random edges: the plain features are among the smoothings with weight."""
    graph = two_communities(classes=3, size=60)
    generator = torch.Generator().manual_seed(0)
    graph.edge_index = torch.randint(180, (2, 3000), generator=generator)
    given = corrupt(graph, "symmetric", 0.2, seed=0, on="train+val")
    model = small().fit(given)
    views = {view for view, _, _ in model.evidence_}
    assert "features" in views
    assert sum(share for (view, _, _), share in model.evidence_.items() if view == "features") > 0.4
    smooth = SmoothedLogReg(device="cpu", width=12).fit(given).score(graph)
    assert model.score(graph) > smooth + 0.05


def test_few_labels_are_trusted() -> None:
    """Two labels are enough for an answer, too few to call one wrong."""
    graph = two_communities(classes=2)
    graph.train_mask = torch.arange(80) < 2
    graph.val_mask = torch.zeros_like(graph.train_mask)
    model = small().fit(graph)
    assert np.isfinite(model.predict_proba()).all()
    np.testing.assert_allclose(model.predict_proba().sum(1), 1, atol=1e-5)
    assert {number for _, number, _ in model.evidence_} == {0}
    assert model.predict()[:2].tolist() == [0, 1]


def test_what_was_found_is_saved(tmp_path: Path) -> None:
    model = small(rounds=1).fit(noisy())
    model.save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert isinstance(loaded, Relabelling)
    np.testing.assert_array_equal(loaded.transition_, model.transition_)
    np.testing.assert_array_equal(loaded.quality_, model.quality_)
    assert loaded.evidence_ == model.evidence_
    assert sum(model.evidence_.values()) == pytest.approx(1)


def test_the_seed_decides_the_folds() -> None:
    given = noisy()
    first, again, other = (small(seed=seed).fit(given).predict_proba() for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_it_beats_methods_that_trust_all_labels_on_the_embedded_graph() -> None:
    clean = load_dataset("debian")
    given = given_labels(clean, "asymmetric", 0.4, 0, PROTOCOLS["honest"])
    ours = Relabelling(device="cpu", width=64, rounds=1, folds=3).fit(given).score(clean)
    theirs = SmoothedLogReg(device="cpu", width=64).fit(given).score(clean)
    assert ours > theirs + 0.03


def test_the_view_of_features_knows_no_edge() -> None:
    given = noisy()
    alone = given.clone()
    alone.edge_index = alone.edge_index[:, :0]
    model, other = (small(view="features").fit(graph) for graph in (given, alone))
    np.testing.assert_array_equal(model.predict_proba(), other.predict_proba())
    assert {view for view, _, _ in model.evidence_} == {"features"}
    near = small(view="near").fit(given)
    assert {view for view, _, _ in near.evidence_} == {"near"}
    assert (near.predict() != model.predict()).any()


def one_model(likelihood: list[float], transition: list[list[float]]) -> Calibration:
    one = np.ones(1)
    return Calibration(one, one, np.array([transition]), one, np.array(likelihood))


def test_a_candidate_with_a_class_mostly_mislabelled_must_earn_its_share() -> None:
    sober = one_model([0.6, 0.6, 0.6], [[0.8, 0.2], [0.5, 0.5]])
    wild = [[0.9, 0.1], [0.6, 0.4]]
    np.testing.assert_allclose(mixtures.mixing_shares([sober, one_model([0.6] * 3, wild)]), [1, 0])
    np.testing.assert_allclose(mixtures.mixing_shares([sober, one_model([0.5] * 3, wild)]), [1, 0])
    earned = mixtures.mixing_shares([sober, one_model([0.7] * 3, wild)])
    assert earned[1] > 0.5
    alone = mixtures.mixing_shares([one_model([0.5, 0.6], wild), one_model([0.6, 0.5], wild)])
    np.testing.assert_allclose(alone, [0.5, 0.5])
    noisy = [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]]  # right is still the most common
    both = mixtures.mixing_shares([sober, one_model([0.6] * 3, noisy)])
    np.testing.assert_allclose(both, [0.5, 0.5])


def test_a_rare_class_that_features_hardly_tell_is_not_seen_everywhere() -> None:
    generator = torch.Generator().manual_seed(0)
    n = 1500
    rare = torch.rand(n, generator=generator) < 0.2
    x = torch.randn(n, 6, generator=generator)
    x[:, 0] += 0.8 * rare
    split = torch.arange(n)
    graph = Data(
        x=x,
        edge_index=torch.zeros(2, 0, dtype=torch.int64),
        y=rare.long(),
        train_mask=split < 700,
        val_mask=(split >= 700) & (split < 1000),
        test_mask=split >= 1000,
    )
    majority = float((~rare[1000:]).float().mean())
    assert small().fit(graph).score(graph) > majority - 0.03


def mixture_of(
    given: Data, folds: int = 3, rounds: int = 1, view: str = "all"
) -> tuple[mixtures.Mixture, NodeTask, Any]:
    """Return the mixture of a graph's labels, its task, and the fold of each label."""
    task = NodeTask.from_data(given)
    fold = np.arange(int((task.y >= 0).sum())) % folds
    _, features = mixtures.smoothed_features(task, view, 12, torch.device("cpu"))
    return mixtures.fit_mixture(task, features, fold, rounds=rounds, seed=0), task, fold


@pytest.mark.parametrize("many", [90, 5_000], ids=["many labels", "few labels"])
def test_the_mixture_is_made_of_its_parts(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held out, calibrated by folds of some labels, added up; the sum is calibrated again."""
    monkeypatch.setattr(mixtures, "_MANY", many)
    mixture, task, fold = mixture_of(noisy("pair", 0.4))
    nodes = (task.y >= 0).nonzero().squeeze(1).numpy()
    given, rows = task.y.numpy()[nodes], np.arange(len(nodes))
    some, folds = mixture.labels.sample, mixture.labels.sample_fold
    assert len(set(some.tolist())) == len(folds) == min(many, len(nodes))
    assert mixture.labels.inner.max() + 1 == (2 if many < len(nodes) else 5)
    chosen = []
    for candidate in mixture.candidates:
        own = np.stack([candidate.proba(f) for f in range(3)])[fold, nodes]
        chosen.append(calibrate(given[some], own[some], prior_counts=(5.0,), folds=folds))
    shares = mixtures.mixing_shares(chosen)
    held_out, proba = np.zeros((len(nodes), 3)), np.zeros((task.num_nodes, 3))
    for candidate, share, calibration in zip(mixture.candidates, shares, chosen, strict=True):
        own = np.stack([candidate.proba(f) for f in range(3)])[fold, nodes]
        held_out += share * calibration.calibrated(own)
        proba += share * calibration.calibrated(candidate.proba(-1))
    final = calibrate(given[some], held_out[some], folds=folds)
    posterior = final.posterior(given, held_out)
    fit = mixture.fit()
    sure = final.calibrated(proba)
    np.testing.assert_allclose(fit.outcome.proba, (proba + sure) / 2, atol=1e-4)
    np.testing.assert_allclose(fit.weights["quality"][nodes], posterior[rows, given], atol=1e-3)
    np.testing.assert_allclose(fit.weights["transition"], final.transition, atol=1e-3)
    assert fit.outcome.labels[nodes].tolist() == posterior.argmax(1).tolist()
    assert (posterior.argmax(1) != held_out.argmax(1)).any()
    totals = dict.fromkeys(VIEWS, 0.0)
    for candidate, share in zip(mixture.candidates, shares, strict=True):
        totals[candidate.name[0]] += share
    best = max(totals, key=lambda view: totals[view])
    view = next(c.features for c in mixture.candidates if c.name[0] == best)
    assert torch.equal(fit.outcome.embedding, view)


@pytest.mark.parametrize(("labels", "rounds"), [(9, {0}), (10, {0, 1, 2})])
def test_ten_labels_are_enough_for_rounds(labels: int, rounds: set[int]) -> None:
    graph = two_communities(classes=2)
    graph.train_mask = torch.arange(80) < labels
    graph.val_mask = torch.zeros_like(graph.train_mask)
    assert {number for _, number, _ in small().fit(graph).evidence_} == rounds


def test_every_run_deals_its_own_labels_by_its_own_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[tuple[Any, Any]] = []

    def watched(classes: Any, folds: int, stream: Any) -> Any:
        assigned.append((classes, assign_folds(classes, folds, stream)))
        return assigned[-1][1]

    monkeypatch.setattr(mixtures, "assign_folds", watched)
    graphs = [noisy(), noisy(), noisy(seed=1)]
    small(rounds=0, folds=4).fit_many(graphs, [0, 1, 1])
    runs = [assigned[:3], assigned[3:6], assigned[6:]]
    assert [int(fold.max()) + 1 for _, fold in runs[0]] == [4, 5, 3]
    for run, graph in zip(runs, graphs, strict=True):
        y = NodeTask.from_data(graph).y
        assert all(np.array_equal(classes, y[y >= 0]) for classes, _ in run)
    for (_, first), (_, other) in zip(runs[0], runs[1], strict=True):
        assert not np.array_equal(first, other)


def test_cross_fitting_has_the_settings_of_the_method() -> None:
    given = noisy("pair", 0.4)
    task = NodeTask.from_data(given)
    labelled = (task.y >= 0).numpy()
    fold = np.where(labelled, np.cumsum(labelled) % 3, -1)
    usual = small().cross_fit(task, fold)
    again = small().cross_fit(task, fold)
    np.testing.assert_array_equal(usual.proba, again.proba)
    for change in ({"rounds": 0}, {"seed": 1}, {"view": "near"}, {"width": 6}):
        assert not np.array_equal(small(**change).cross_fit(task, fold).proba, usual.proba), change
    with pytest.raises(EraseError, match="rounds"):
        small(rounds=-1).cross_fit(task, fold)


def test_views_and_rounds_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    small(rounds=1, view="near").fit(noisy(), progress=True)
    output = capsys.readouterr().err
    assert output.endswith("Smoothing near, round 1 of 2 …\nSmoothing near, round 2 of 2 …\n")


def test_the_only_label_of_a_class_cannot_be_checked() -> None:
    data = two_communities(size=40, classes=3)
    lone = int((data.train_mask & (data.y == 2)).nonzero()[0])
    kept = (data.train_mask | data.val_mask) & (data.y != 2)
    kept[lone] = True
    data.train_mask, data.val_mask = kept, torch.zeros_like(kept)
    model = small().fit(data)
    given = kept.nonzero().squeeze(1).numpy()
    assert np.isnan(model.quality_[lone])
    assert model.labels_[lone] == 2
    others = given[given != lone]
    assert (model.quality_[others] > 0.5).mean() > 0.9
    assert model.transition_.diagonal()[:2].min() > 0.7
    mixture, _, _ = mixture_of(data)
    assert mixture.labels.sample.tolist() == np.flatnonzero(given != lone).tolist()


def test_one_label_per_class_trains_and_has_no_quality() -> None:
    data = two_communities(size=40)
    first = [int((data.train_mask & (data.y == k)).nonzero()[0]) for k in range(2)]
    data.val_mask = torch.zeros_like(data.val_mask)
    data.train_mask = torch.zeros_like(data.train_mask)
    data.train_mask[first] = True
    model = small().fit(data)
    assert np.isnan(model.quality_).all()
    np.testing.assert_array_equal(model.transition_, np.eye(2))
    assert model.labels_[first].tolist() == [0, 1]
    assert model.score(data) > 0.6
    mixture, _, _ = mixture_of(data, rounds=0)
    mean = mixture.mix(candidate.proba(-1) for candidate in mixture.candidates)
    np.testing.assert_allclose(mixture.fit().outcome.proba, mean, atol=1e-6)


def test_it_applies_to_a_graph_without_training(tmp_path: Path) -> None:
    """To the graph of the fit as `predict` does, in any order of nodes, whatever the labels."""
    task = NodeTask.from_data(noisy("pair", 0.4))
    small().fit(task).save(tmp_path / "model.safetensors")
    model = Relabelling.load(tmp_path / "model.safetensors")
    np.testing.assert_allclose(model._apply(task).proba, model.predict_proba(), atol=1e-5)
    np.testing.assert_allclose(model._apply(task).embedding, model.transform(), atol=1e-5)
    order = torch.randperm(task.num_nodes, generator=torch.Generator().manual_seed(0))
    found = model._apply(renumbered(task, order))
    np.testing.assert_allclose(found.proba, model.predict_proba()[order.numpy()], atol=1e-5)
    np.testing.assert_allclose(found.embedding, model.transform()[order.numpy()], atol=1e-5)


@pytest.mark.parametrize("view", ["all", *VIEWS])
def test_new_nodes_are_classified(view: str) -> None:
    """Fitted to two thirds of the nodes, it classifies the rest, which it has never met."""
    clean = two_communities(classes=3, size=60)
    given = corrupt(clean, "symmetric", 0.3, seed=0, on="train+val")
    known = torch.arange(180) // 3 % 3 < 2
    part = given.subgraph(known)
    part.train_mask, part.val_mask = part.train_mask | part.val_mask, None
    whole = NodeTask.from_data(given)
    model = small(view=view).fit(part)
    predicted = model._apply(whole).proba.argmax(1)
    assert float((predicted == clean.y)[~known].float().mean()) > 0.85


def test_one_label_a_class_applies_as_it_was_fitted() -> None:
    data = two_communities(size=40)
    first = [int((data.train_mask & (data.y == k)).nonzero()[0]) for k in range(2)]
    data.val_mask, data.train_mask = (torch.zeros_like(data.val_mask) for _ in range(2))
    data.train_mask[first] = True
    model = small().fit(data)
    found = model._apply(NodeTask.from_data(data)).proba
    np.testing.assert_allclose(found, model.predict_proba(), atol=1e-5)


# Frequencies of labels ----------------------------------------------------------------------------


def labels_of(given: Data) -> tuple[mixtures.Labels, torch.Tensor, torch.Tensor]:
    """Return the labels of a graph in three folds, its features, and those of labelled nodes."""
    task, cpu = NodeTask.from_data(given), torch.device("cpu")
    nodes = (task.y >= 0).nonzero().squeeze(1)
    _, features = mixtures.smoothed_features(task, "features", 12, cpu)
    labels = mixtures.split_labels(task, np.arange(len(nodes)) % 3, seed=0)
    return labels, features["features"], features["features"][nodes]


def one_sided(noise: float = 0.5) -> tuple[Data, Data]:
    """Return a graph with three classes, and the same with a share of class 0 labelled as 1."""
    clean = two_communities(classes=3, size=120)
    transition = np.eye(3)
    transition[0] = [1 - noise, noise, 0]
    return clean, corrupt(clean, transition, seed=0, on="train+val")


def test_a_balanced_regression_is_divided_by_the_frequencies_of_labels() -> None:
    labels, features, _ = labels_of(one_sided()[1])
    candidates = mixtures.fit_candidates("features", features, labels, rounds=0)
    assert [c.name[2] for c in candidates] == ["means", "C=1", "C=3", "balanced"]
    for model, hidden in enumerate(labels.hidden):
        counts = np.bincount(labels.given[~hidden], minlength=3) + 1
        expected = candidates[2].proba(model) / counts
        expected /= expected.sum(1, keepdims=True)
        np.testing.assert_allclose(candidates[3].proba(model), expected, atol=1e-5)


def test_a_balanced_regression_counts_where_it_is_better_by_a_log_likelihood_of_three() -> None:
    names = [("near", 0, "C=3"), ("near", 0, "balanced"), ("far", 0, "C=3"), ("far", 0, "balanced")]
    eye = np.eye(2).tolist()
    usual = [one_model([0.5, 0.5], eye), one_model([0.1, 0.1], eye)]  # of "near" and "far"
    for gain, counting in ((2.99, [0, 2]), (3.01, [0, 2, 3])):
        better = one_model((0.1 * np.exp([gain / 2] * 2)).tolist(), eye)
        found = mixtures._kept(names, [usual[0], better, usual[1], better])
        assert found == counting


@pytest.mark.parametrize(("labels", "margin"), [(10, 3.0), (500, 3.0), (1000, 6.0), (5000, 30.0)])
def test_a_balanced_regression_must_be_better_by_more_where_labels_are_many(
    labels: int, margin: float
) -> None:
    assert mixtures._margin(labels) == pytest.approx(margin)


def test_a_balanced_regression_corrects_labels_where_it_is_clearly_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its odds against the other kinds are exp(-margin) of what they are without a margin."""
    labels, features, own = labels_of(one_sided()[1])
    candidates = mixtures.fit_candidates("features", features, labels, rounds=0)
    rows, targets = Regressions(own), mixtures.as_given(labels, torch.device("cpu"))

    def corrected(margin: float, kinds: int = 4) -> torch.Tensor:
        monkeypatch.setattr(mixtures, "_margin", lambda labels: margin)
        return mixtures.reconsider(labels, candidates[:kinds], rows, targets)[-1]

    without, alone = corrected(0.0, kinds=3), corrected(-30.0)
    torch.testing.assert_close(corrected(np.inf), without, atol=1e-6, rtol=0)
    odds = []
    for margin in (0.0, 3.0):
        share = float(((corrected(margin) - without) / (alone - without)).median())
        odds.append(share / (1 - share))
    assert odds[1] / odds[0] == pytest.approx(np.exp(-3), rel=0.02)


def test_labels_of_one_class_that_are_given_to_another_mislead_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each class has 50 labels at first; some that others are labelled as have 100 later."""
    clean = load_dataset("debian")
    given = given_labels(clean, "asymmetric", 0.5, 100, PROTOCOLS["honest"], None, False)
    model = Relabelling(device="cpu", width=64, rounds=1, folds=3)
    found, found_kinds = model.fit(given).score(clean), {kind for _, _, kind in model.evidence_}
    monkeypatch.setattr(mixtures, "_MARGIN", np.inf)
    without, kinds = model.fit(given).score(clean), {kind for _, _, kind in model.evidence_}
    assert found_kinds - kinds == {"balanced"}
    assert found > without + 0.03


# Constants ----------------------------------------------------------------------------------------


def test_stacking_takes_sixteen_steps_from_equal_shares() -> None:
    """Two candidates of constant likelihoods a and b: each step multiplies their odds by a/b."""
    shares = mixtures.stack(np.array([[0.55] * 4, [0.5] * 4]))
    assert shares[0] / shares[1] == pytest.approx(1.1**16)


def test_class_means_are_the_softmax_of_twenty_cosines() -> None:
    rows = normalize(torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    hot = torch.eye(3)[torch.arange(30) % 3]
    regressions = Regressions(rows)
    wanted = regressions.with_targets(hot[None], torch.ones(1, 30))
    weights, intercepts = mixtures._class_means(regressions, wanted)
    means = torch.stack([rows[torch.arange(30) % 3 == k].mean(0) for k in range(3)])
    cosines = rows @ normalize(means, dim=1).T
    torch.testing.assert_close(rows @ weights[0] + intercepts[0], 20.0 * cosines)


def test_the_regressions_have_strengths_one_and_three() -> None:
    """At the optimum of C Σ CE + ½‖W‖², W = C Σ_i h_i (y_i − p_i)ᵀ."""
    mixture, task, _ = mixture_of(noisy(), rounds=0, view="features")
    assert [c.name[2] for c in mixture.candidates[:3]] == ["means", "C=1", "C=3"]
    nodes = (task.y >= 0).nonzero().squeeze(1)
    hot = torch.eye(3)[task.y[nodes]]
    for candidate, strength in zip(mixture.candidates[1:3], (1.0, 3.0), strict=True):
        rows, weight = candidate.features[nodes], candidate.weights[-1]
        excess = hot - (rows @ weight + candidate.intercepts[-1]).softmax(1)
        torch.testing.assert_close(weight, strength * rows.T @ excess, atol=0.1, rtol=0.05)


def test_the_answer_on_a_small_graph_stays_what_it_is() -> None:
    """Numbers of this version: whoever changes a constant of the method changes them."""
    model = small(width=6, folds=5).fit(noisy("pair", 0.4, size=20))
    expected = [[0.9371, 0.0402, 0.0227], [0.0124, 0.9064, 0.0812], [0.0306, 0.0106, 0.9588]]
    np.testing.assert_allclose(model.predict_proba()[:3], expected, atol=2e-4)
    expected = [[0.6561, 0.3222, 0.0218], [0.0223, 0.6573, 0.3204], [0.2714, 0.0550, 0.6736]]
    np.testing.assert_allclose(model.transition_, expected, atol=2e-4)


@pytest.mark.parametrize("name", ["relabelling", "smoothed"])
def test_predictions_in_chunks_are_those_of_the_whole(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = two_communities()
    own: dict[str, Any] = {"view": "near"} if name == "relabelling" else {"neighbours": 0}
    model = METHODS[name](**own, width=8, device="cpu").fit(data)
    proba, embedding = model.predict_proba(data), model.transform(data)
    for module in (ensemble, smoothing, smoothed):
        monkeypatch.setattr(module, "NODES_AT_ONCE", 7)
    monkeypatch.setattr(neighbours, "MOST_ROWS_IN_FULL", 10)
    np.testing.assert_allclose(model.predict_proba(data), proba, atol=1e-6)
    np.testing.assert_allclose(model.transform(data), embedding, atol=1e-6)
