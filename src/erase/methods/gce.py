"""GCE: generalised cross-entropy (Zhang and Sabuncu, 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from erase.methods.base import Constraint, Number, OneOf, Range
from erase.methods.supervised import SupervisedClassifier
from erase.training.loop import at_nodes


@dataclass(kw_only=True, eq=False, repr=False)
class GCE(SupervisedClassifier):
    """Generalised cross-entropy (Zhang and Sabuncu, 2018): labels the network doubts count less.

    Minimises (1 − p_y^q)/q: between cross-entropy (q → 0) and the mean absolute error (q = 1).

    The gradient of a node is that of cross-entropy times p_y^q.

    Args:
        q: how far from cross-entropy; its authors' 0.7.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`.
    """

    constraints: ClassVar[dict[str, Constraint]] = SupervisedClassifier.constraints | {
        "q": Number(low=0, high=1, open_low=True)
    }
    space: ClassVar[dict[str, Range | OneOf]] = SupervisedClassifier.space | {"q": Range(0.1, 1.0)}

    q: float = 0.7

    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        log_p = at_nodes(logits, nodes).log_softmax(2).gather(2, classes[..., None])  # [R, n, 1]
        return -(self.q * log_p).expm1().mean((1, 2)) / self.q
