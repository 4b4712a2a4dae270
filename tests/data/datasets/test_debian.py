"""The embedded graph: what a demonstration may rely on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from torch_geometric.data import Data

from erase.data.datasets import load_dataset
from erase.data.datasets.debian import EMBEDDED, join_names, load_debian, split_names
from erase.errors import EraseError


@pytest.fixture(scope="module")
def debian() -> Data:
    return load_dataset("debian")


def test_the_file_is_small_and_holds_no_pickle() -> None:
    assert EMBEDDED.stat().st_size <= 600_000
    with np.load(EMBEDDED, allow_pickle=False) as stored:
        assert all(stored[key].dtype.kind == "u" for key in stored.files)


def test_packages_stand_in_their_sections(debian: Data) -> None:
    section = {
        name: debian.class_names[k]
        for name, k in zip(debian.node_names, debian.y.tolist(), strict=True)
    }
    assert len(section) == debian.num_nodes == 4_092
    known = {
        "gimp": "graphics",
        "supertuxkart": "games",
        "vim": "editors",
        "postgresql": "database",
    }
    known |= {"postfix": "mail", "kicad": "electronics", "octave": "math", "ardour": "sound"}
    assert {name: section[name] for name in known} == known


def test_edges_are_dependencies_in_both_directions(debian: Data) -> None:
    index = {name: i for i, name in enumerate(debian.node_names)}
    pairs = set(zip(*debian.edge_index.tolist(), strict=True))
    assert len(pairs) == debian.num_edges
    assert pairs == {(j, i) for i, j in pairs}
    assert (index["gimp"], index["ghostscript"]) in pairs
    assert all(i != j for i, j in pairs)
    assert debian.is_coalesced()


def test_it_is_homophilous_and_no_node_is_isolated(debian: Data) -> None:
    source, target = debian.edge_index
    assert (debian.y[source] == debian.y[target]).float().mean() > 0.8
    assert len(source.unique()) == debian.num_nodes


def test_features_are_the_words_of_name_and_description(debian: Data) -> None:
    assert debian.x.layout == torch.sparse_csr
    assert debian.x.crow_indices().dtype == debian.x.col_indices().dtype == torch.int64
    sums = torch.mv(debian.x, torch.ones(debian.x.shape[1]))
    torch.testing.assert_close(sums, torch.ones(debian.num_nodes))
    gimp = debian.x[debian.node_names.index("gimp")].to_dense()
    words = {debian.word_names[j] for j in gimp.nonzero().flatten().tolist()}
    assert words == {"gimp", "gnu", "image", "manipulation", "program"}


def test_the_split_is_fixed_with_20_and_30_packages_per_section(debian: Data) -> None:
    assert torch.bincount(debian.y[debian.train_mask]).tolist() == [20] * 13
    assert torch.bincount(debian.y[debian.val_mask]).tolist() == [30] * 13
    assert (debian.train_mask | debian.val_mask | debian.test_mask).all()
    assert torch.equal(load_dataset("debian", seed=5).train_mask, debian.train_mask)


def test_neighbours_help_as_on_a_good_demonstration_graph(debian: Data) -> None:
    n = debian.num_nodes
    words = sp.csr_array(debian.x.to_dense().numpy())
    ones = np.ones(debian.num_edges, dtype=np.float32)
    adjacency = sp.csr_array((ones, tuple(debian.edge_index.numpy())), shape=(n, n))
    average = normalize(adjacency + sp.eye_array(n), norm="l1")
    smooth = average @ (average @ words)
    train, test = debian.train_mask.numpy(), debian.test_mask.numpy()
    y = debian.y.numpy()

    def accuracy(features: Any) -> float:
        rows = normalize(features)
        model = LogisticRegression(max_iter=300).fit(rows[train], y[train])
        return float(model.score(rows[test], y[test]))

    from_words, from_both = accuracy(words), accuracy(smooth)
    assert 0.60 < from_words < 0.70
    assert from_both > 0.78


def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"not a zip"):
        file = tmp_path / "graph.npz"
        file.write_bytes(content)
        with pytest.raises(EraseError, match="build_debian"):
            load_debian(path=file)
    np.savez(file, y=np.zeros(3))
    with pytest.raises(EraseError, match=r"graph\.npz: KeyError"):
        load_debian(path=file)
    with pytest.raises(EraseError, match="FileNotFoundError"):
        load_debian(path=tmp_path / "absent.npz")


def test_names_survive_packing() -> None:
    names = ["g++-12", "0ad", "naïve", ""]
    assert split_names(join_names(names)) == names
