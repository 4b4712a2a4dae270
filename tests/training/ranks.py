"""What each of several processes does in the tests of many: train, and write what came out.

torchrun --nproc-per-node=R ranks.py CASES.json OUT      (or one process: OUT has the same names)
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from erase.data.files import save_arrays
from erase.data.task import NodeTask
from erase.methods import METHODS
from erase.methods.erase_large import SampledErase
from erase.methods.network import BatchLearner
from erase.training import chunks
from erase.training.processes import average_gradients, joined, rank
from graphs import two_communities


def first_gradient(name: str, settings: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return the losses of the first batch and their averaged gradients."""
    learner = METHODS[name](**settings)._learner([NodeTask.of(two_communities())], [0])
    if isinstance(learner, SampledErase):
        learner.begin_epoch()
        watched = learner.losses(next(learner.samples.batches()))
        watched["loss"].sum().backward()
    elif isinstance(learner, BatchLearner):
        watched = learner.losses(next(learner.data.batches()))
        learner.minimised(watched).sum().backward()
    else:
        return {}
    parameters = dict(learner.network.named_parameters())
    average_gradients(list(parameters.values()))
    answer = {f"gradient/{k}": p.grad.clone() for k, p in parameters.items() if p.grad is not None}
    return answer | {f"watched/{k}": value.detach() for k, value in watched.items()}


def result(name: str, settings: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return a fit as tensors."""
    model = METHODS[name](**settings).fit(two_communities())
    losses = torch.tensor([epoch["loss"] for epoch in model.history_])
    arrays = {
        "history": losses,
        "proba": torch.from_numpy(model.predict_proba()),
        "embedding": torch.from_numpy(model.transform()),
    }
    return arrays | {f"weight/{k}": v for k, v in model.fit_.weights.items()}


def main() -> None:
    cases = json.loads(Path(sys.argv[1]).read_text())
    chunks.NODES_AT_ONCE = 16  # so that every process has some
    with joined(torch.device("cpu")):
        for case, (name, settings) in cases.items():
            arrays = first_gradient(name, settings) | result(name, settings)
            save_arrays(Path(sys.argv[2]) / f"{case} {rank()}.safetensors", arrays, {})


if __name__ == "__main__":
    main()
