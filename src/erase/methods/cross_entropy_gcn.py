"""CE with a graph convolution: the network everybody knows, as a sanity check of the others."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from erase.methods.base import Constraint, OneOf
from erase.methods.supervised import SupervisedClassifier
from erase.training.loop import mean_cross_entropy


@dataclass(kw_only=True, eq=False, repr=False)
class CrossEntropyGCN(SupervisedClassifier):
    """Cross-entropy with a two-layer GCN (Kipf and Welling, 2017): a second plain baseline.

    Minimises −log p(given label) over the training nodes.

    The parameters are those of :class:`erase.methods.network.NetworkClassifier`, where `heads`
    means nothing and `encoder` is "gcn".
    """

    constraints: ClassVar[dict[str, Constraint]] = SupervisedClassifier.constraints | {
        "encoder": OneOf(("gcn",))
    }

    encoder: str = "gcn"

    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        return mean_cross_entropy(logits, nodes, classes)
