"""CE: a graph neural network trained by cross-entropy on the labels as they are given."""

from dataclasses import dataclass

from torch import Tensor

from erase.methods.supervised import SupervisedClassifier
from erase.training.loop import mean_cross_entropy


@dataclass(kw_only=True, eq=False, repr=False)
class CrossEntropy(SupervisedClassifier):
    """Cross-entropy: the baseline that takes every given label as right.

    Minimises −log p(given label) over the training nodes.

    The parameters are those of :class:`erase.methods.network.NetworkClassifier`.
    """

    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        return mean_cross_entropy(logits, nodes, classes)
