"""The objective of the whole graph, gone through in chunks: the same value, gradient and fit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import ERASE
from erase.nn.encoders import ENCODERS, Encoder, Features
from erase.nn.sparse import Graph
from erase.training.chunks import RecomputedPass
from graphs import (
    LargestTensor,
    edge_lists,
    edge_weights,
    interrupt_and_resume,
    two_communities,
    with_weights,
)
from tf32 import is_in_backward, on_a_gpu_that_may_round

SMALL: dict[str, Any] = {
    "hidden": 16,
    "width": 12,
    "heads": 2,
    "epochs": 6,
    "lr": 0.01,
    "device": "cpu",
}
CHUNKS: dict[str, Any] = SMALL | {"batch_size": 7, "objective": "graph"}


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kind", sorted(ENCODERS))
@pytest.mark.parametrize("widths", [(4, 9), (8, 3)], ids=["widens", "narrows"])
@given(edge_lists(), st.integers(1, 5), st.sampled_from([0.0, 0.5]), st.booleans())
def test_recomputed_gradients_are_those_of_the_whole_graph(
    kind: str,
    widths: tuple[int, int],
    graph: tuple[Tensor, int],
    size: int,
    dropout: float,
    weighted: bool,
) -> None:
    edge_index, n = graph
    whole = Graph(edge_index, n, weight=edge_weights(edge_index, n) if weighted else None)
    encoder = Encoder(
        kind,
        in_width=5,
        hidden=widths[0],
        width=widths[1],
        heads=2,
        dropout=dropout,
        hidden_activation="leaky-l1",
        output_activation="l2",
        streams=[stream(), stream(1)],
        weighted=weighted,
    )
    x = torch.randn(n, 5, generator=stream(2))
    slope = torch.randn(2, n, widths[1], generator=stream(3))
    streams = [stream(4), stream(5)]
    passed = RecomputedPass(encoder, lambda nodes: Features(x[nodes]), whole, streams, size)
    ours = torch.cat([z for _, z in passed.chunks()], 1)
    passed.backward(lambda rows, z: slope[:, rows])
    gradients = [parameter.grad for parameter in encoder.parameters()]

    again = [stream(4), stream(5)]
    parts = [Features(part).dropout(dropout, again)._values for part in x.split(size)]
    dropped = Features(x)
    dropped._values = torch.cat(parts, 1)  # [2, N, 5]
    expected = encoder(dropped, whole)
    encoder.zero_grad()
    expected.backward(slope)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)
    for gradient, parameter in zip(gradients, encoder.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-3, atol=1e-4)
    for stream_, other in zip(streams, again, strict=True):
        assert torch.equal(stream_.get_state(), other.get_state()) or dropout == 0.0


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
@pytest.mark.parametrize(
    "change", [{}, {"restart": True, "prototype": "softmax"}, {"weights": True}], ids=str
)
def test_a_fit_is_that_of_the_whole_graph(
    communities: Data, encoder: str, change: dict[str, Any]
) -> None:
    if change == {"weights": True}:
        communities, change = with_weights(communities), {}
    shared = {"encoder": encoder, "dropout": 0.0, "epochs": 3} | change
    whole = ERASE(**(SMALL | shared)).fit(communities)
    chunks = ERASE(**(CHUNKS | shared)).fit(communities)
    for ours, theirs in zip(chunks.history_, whole.history_, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    np.testing.assert_array_equal(chunks.labels_, whole.labels_)
    np.testing.assert_allclose(chunks.transform(), whole.transform(), atol=1e-4)
    np.testing.assert_allclose(chunks.predict_proba(), whole.predict_proba(), atol=1e-3)


class _InTwos:
    """Representations [1, N, D] that come two rows at a time."""

    def __init__(self, z: Tensor) -> None:
        self.z = z

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        for start in range(0, self.z.shape[1], 2):
            yield slice(start, start + 2), self.z[:, start : start + 2]


def test_prototypes_survive_products_in_tf32(communities: Data) -> None:
    learner: Any = ERASE(**CHUNKS, prototype="absolute")._learner([NodeTask.of(communities)], [0])
    rows = 1 + 1e-3 * torch.rand(1, learner.graph.num_nodes, 12, generator=stream())
    expected = learner._prototype_labels(_InTwos(rows))
    with on_a_gpu_that_may_round() as products:
        found = learner._prototype_labels(_InTwos(rows))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert products.rounded == 0


def test_gradients_are_computed_in_full_precision(communities: Data) -> None:
    learner = ERASE(**CHUNKS)._learner([NodeTask.of(communities)], [0])
    with on_a_gpu_that_may_round() as products:
        may_round, steps = products.rounds, []

        def rounds() -> bool:
            steps.append(is_in_backward())
            return steps[-1] and may_round()

        products.rounds = rounds
        learner.step()
        assert any(steps)  # there were products on the way back
        assert products.rounded == 0


def test_a_killed_run_resumes_to_the_same_result(communities: Data, tmp_path: Path) -> None:
    whole = ERASE(**CHUNKS).fit(communities)
    resumed = interrupt_and_resume(ERASE(**CHUNKS), communities, tmp_path / "run.safetensors")
    assert resumed.history_ == whole.history_
    np.testing.assert_array_equal(resumed.transform(), whole.transform())


def test_representations_are_never_held_as_a_whole() -> None:
    data = two_communities(size=1_000)
    settings = SMALL | {"width": 200, "batch_size": 50, "objective": "graph"}
    learner = ERASE(**settings)._learner([NodeTask.of(data)], [0])
    with LargestTensor() as largest:
        learner.step()
    assert largest.numbers < 2_000 * 200 / 2


@pytest.mark.parametrize("change", [{"one_stage": True}, {"semantics": "cross-entropy"}], ids=str)
def test_what_has_no_exact_form_is_refused(communities: Data, change: dict[str, Any]) -> None:
    with pytest.raises(EraseError, match="objective='graph'"):
        ERASE(**(CHUNKS | change)).fit(communities)
