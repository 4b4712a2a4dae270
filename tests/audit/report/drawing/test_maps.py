"""The pictures show the numbers they are given."""

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from erase.audit.report.drawing import (
    COLOURS,
    MARKERS,
    Embeddings,
    cosine_map,
    pairwise_pca_map,
    pca_map,
    tsne_map,
)
from erase.audit.report.drawing.maps import sample_nodes
from erase.errors import EraseError
from pictures import drawn, legend_texts, nothing_is_cut_off, titles

NAMES = ["red", "green", "blue"]


def blobs(n: int = 60, width: int = 5, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return points [n, width] around three axes, and their classes in turns."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return 3 * np.eye(width)[y] + rng.random((n, width)), y


# Which nodes are drawn ----------------------------------------------------------------------------


def test_as_many_nodes_of_each_class_as_can_be() -> None:
    y = np.repeat([0, 1, 2, -1], [100, 3, 50, 10])
    nodes = sample_nodes(y, 43, seed=0)
    assert np.bincount(y[nodes]).tolist() == [20, 3, 20]
    assert (np.diff(y[nodes]) >= 0).all()
    assert len(set(nodes.tolist())) == 43


def test_a_seed_is_a_choice_of_nodes() -> None:
    y = np.zeros(100, dtype=np.int64)
    first, again, other = (sample_nodes(y, 10, seed).tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_few_nodes_are_all_drawn_and_a_class_may_be_empty() -> None:
    assert sample_nodes(np.array([2, 0, -1, 2]), 10, seed=0).tolist() == [1, 0, 3]


# Cosine similarity --------------------------------------------------------------------------------


def test_similarity_is_sorted_by_class() -> None:
    z, y = blobs()
    figure: Any = cosine_map(Embeddings({"ours": z}, y, NAMES))
    image = np.asarray(figure.axes[0].images[0].get_array())
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    for a in range(3):
        for b in range(3):
            block = image[20 * a : 20 * a + 20, 20 * b : 20 * b + 20]
            expected = np.abs(unit[y == a] @ unit[y == b].T)
            assert block.mean() == pytest.approx(expected.mean())


def test_similarity_is_shown_within_and_between_classes() -> None:
    # cosines: nodes 0 and 1 of class 0: 0.6, −0.6 counts as much; with node 2 of class 1: 0 and 0.8
    z = np.array([[2.0, 0.0], [-0.6, 0.8], [0.0, 5.0]])
    figure: Any = cosine_map(Embeddings({"ours": z}, [0, 0, 1], ["a", "b"]))
    assert titles(figure)[0] == "ours\nwithin classes 0.60, between 0.40"


def test_classes_are_named_at_their_blocks_and_parted() -> None:
    z, _ = blobs(10)
    figure: Any = cosine_map(Embeddings({"ours": z}, [0] * 4 + [2] * 6, NAMES))  # no green
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["red", "blue"]
    assert axes.get_xticks().tolist() == [1.5, 6.5]
    assert [line.get_ydata()[0] for line in axes.lines[::2]] == [3.5]


def test_maps_share_a_scale_and_one_colour_bar() -> None:
    z, y = blobs()
    figure: Any = cosine_map(Embeddings({"ours": z, "theirs": z**2}, y, NAMES))
    ours, theirs, bar = figure.axes
    assert ours.images[0].get_clim() == theirs.images[0].get_clim() == (0, 1)
    assert bar.get_ylabel() == "|cosine similarity|"


def test_zero_and_huge_rows_have_a_similarity() -> None:
    z = np.array([[0.0, 0.0], [1e200, 0.0], [1e-200, 1e-200]])
    image = np.asarray(
        cosine_map(Embeddings({"z": z}, [0, 0, 1], ["a", "b"])).axes[0].images[0].get_array()
    )
    assert image == pytest.approx(np.array([[0, 0, 0], [0, 1, 0.5**0.5], [0, 0.5**0.5, 1]]))


# Maps to the plane --------------------------------------------------------------------------------


@pytest.mark.parametrize("plane", [pca_map, tsne_map])
def test_a_panel_a_method_and_one_legend(plane: Any) -> None:
    z, y = blobs()
    figure = plane(Embeddings({"ours": z, "theirs": -z, "none": 0 * z}, y, [*NAMES, "absent"]))
    drawn(figure)
    assert titles(figure) == ["ours", "theirs", "none"]
    assert legend_texts(figure) == [*NAMES, "absent"]
    for axes in figure.axes:
        points = np.concatenate([group.get_offsets() for group in axes.collections])
        assert points.shape == (60, 2)
        assert np.isfinite(points).all()


@pytest.mark.parametrize("plane", [pca_map, tsne_map])
def test_classes_that_are_apart_are_drawn_apart(plane: Any) -> None:
    z, y = blobs(90)
    groups = [g.get_offsets() for g in plane(Embeddings({"ours": z}, y, NAMES)).axes[0].collections]
    centres = np.array([group.mean(0) for group in groups])
    for group, centre in zip(groups, centres, strict=True):
        spread = np.linalg.norm(group - centre, axis=1).mean()
        gaps = np.sort(np.linalg.norm(centres - centre, axis=1))
        assert gaps[1] > 2 * spread


@pytest.mark.parametrize("n", [0, 1, 2, 4, 6])
@pytest.mark.parametrize("picture", [cosine_map, pca_map, tsne_map])
def test_hardly_any_node_can_be_drawn(picture: Any, n: int) -> None:
    z, y = blobs(n)
    drawn(picture(Embeddings({"ours": z}, y, NAMES)))


def test_twenty_classes_look_different() -> None:
    y = np.arange(40) % 20
    figure: Any = pca_map(Embeddings({"ours": np.eye(20)[y]}, y, [f"class {k}" for k in range(20)]))
    looks = {(h.get_color(), h.get_marker()) for h in figure.legends[0].legend_handles}
    assert len(looks) == 20
    assert len(COLOURS) * len(MARKERS) == 70


def test_no_more_than_a_thousand_nodes_are_drawn_and_that_takes_seconds() -> None:
    z, y = blobs(1_200, 16)
    start = time.process_time()
    first: Any = tsne_map(Embeddings({"ours": z}, y, NAMES)).axes[0].collections
    assert time.process_time() - start < 10
    assert sum(len(group.get_offsets()) for group in first) == 1_000


def test_one_seed_gives_one_map() -> None:
    z, y = blobs(90)
    first, again = (
        tsne_map(Embeddings({"ours": z}, y, NAMES)).axes[0].collections for _ in range(2)
    )
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a.get_offsets(), b.get_offsets())


def test_names_are_shown_as_they_are() -> None:
    z, y = blobs()
    names = ["$5 or $6", "_hidden", "a name that is far longer than any label can be"]
    for picture in (cosine_map, pca_map):
        figure = picture(Embeddings({"$\\sum": z}, y, names))
        drawn(figure)
    shown = legend_texts(figure)
    assert shown[0] == r"\$5 or \$6"  # matplotlib's way to say: no mathematics
    assert shown[1].strip() == "_hidden"
    assert shown[2] == "a name that …abel can be"


@pytest.mark.parametrize(
    ("picture", "classes", "methods"),
    [(cosine_map, 3, 1), (cosine_map, 20, 2), (cosine_map, 30, 4), (pca_map, 20, 2)],
)
def test_no_label_is_cut_off(picture: Any, classes: int, methods: int) -> None:
    y = np.arange(140) % classes
    names = [f"Artificial Intelligence/{k}" for k in range(classes)]
    figure = picture(
        Embeddings({f"method {i}": np.eye(classes)[y] for i in range(methods)}, y, names)
    )
    assert nothing_is_cut_off(figure)


def test_what_does_not_fit_together_is_refused() -> None:
    z, y = blobs()
    with pytest.raises(EraseError, match="59 nodes"):
        pca_map(Embeddings({"ours": z}, y[:-1], NAMES))
    with pytest.raises(EraseError, match="2 names"):
        cosine_map(Embeddings({"ours": z}, y, NAMES[:2]))


# Groups of nodes ----------------------------------------------------------------------------------


def test_groups_stand_below_each_other_with_their_titles() -> None:
    z, y = blobs()
    one = Embeddings({"ours": z, "theirs": -z}, y, NAMES, title="first", columns=2)
    other = Embeddings({"ours": z[:, :3], "theirs": z}, y, NAMES, title="second $", columns=2)
    figure: Any = pca_map(one, other)
    assert nothing_is_cut_off(figure)
    above, below = figure.subfigs
    assert (above.get_suptitle(), below.get_suptitle()) == ("first", r"second \$")
    assert [axes.get_title() for axes in below.axes] == ["ours", "theirs"]
    single = pca_map(one).get_figheight()
    assert figure.get_figheight() == pytest.approx(2 * single)


def test_columns_are_the_most_panels_in_a_row() -> None:
    z, y = blobs()
    shown = {str(i): z for i in range(4)}
    for columns in (2, 3):
        figure: Any = cosine_map(Embeddings(shown, y, NAMES, columns=columns))
        drawn(figure)
        tops = [axes.get_position().y1 for axes in figure.axes[:4]]
        assert sum(top == pytest.approx(max(tops), abs=0.01) for top in tops) == columns


def test_every_two_classes_have_their_own_components() -> None:
    z, y = blobs(90, 8)
    figure: Any = pairwise_pca_map(Embeddings({"theirs": z, "ours": z**2}, y, NAMES))
    assert nothing_is_cut_off(figure)
    assert "above the diagonal: ours; below: theirs" in figure.get_supxlabel()
    panels = {axes.get_label(): axes for axes in figure.axes}
    for method, (a, b), source in (("ours", (0, 2), z**2), ("theirs", (2, 0), z)):
        unit = source / np.linalg.norm(source, axis=1, keepdims=True)
        points = np.concatenate(
            [np.asarray(group.get_offsets()) for group in panels[f"{method}: {a}, {b}"].collections]
        )
        expected = PCA(2).fit_transform(np.concatenate([unit[y == a], unit[y == b]]))
        assert np.abs(points) == pytest.approx(np.abs(expected))


def test_a_right_angle_is_drawn_as_one() -> None:
    z, y = blobs(90, 8)
    figure: Any = pairwise_pca_map(Embeddings({"theirs": z, "ours": z}, y, NAMES))
    assert {axes.get_aspect() for axes in figure.axes if axes.get_label()} == {1.0}


def test_pairs_have_a_limit() -> None:
    y = np.repeat(np.arange(10), 70)
    z = np.eye(10)[y] + 0.1 * np.random.default_rng(0).random((700, 10))
    figure: Any = pairwise_pca_map(Embeddings({"a": z, "b": z}, y, [str(k) for k in range(10)]))
    panels = [axes for axes in figure.axes if axes.collections]
    assert len(panels) == 8 * 7
    assert {len(group.get_offsets()) for axes in panels for group in axes.collections} == {50}


def test_pairs_compare_two_methods() -> None:
    z, y = blobs()
    with pytest.raises(EraseError, match="two methods"):
        pairwise_pca_map(Embeddings({"ours": z}, y, NAMES))
