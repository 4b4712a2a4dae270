"""Methods that are a loss on the given labels: cross-entropy (CE), GCE and APL."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from erase.methods.base import Constraint, Number, OneOf, Range
from erase.methods.network import SupervisedClassifier
from erase.training.loop import at_nodes, mean_cross_entropy

_LOG_ZERO = math.log(1e-4)  # stands for log 0 in reverse cross-entropy


@dataclass(kw_only=True, eq=False, repr=False)
class CrossEntropy(SupervisedClassifier):
    """Cross-entropy: the baseline that takes every given label as right.

    Minimises −log p(given label) over the training nodes.

    The parameters are those of :class:`erase.methods.network.NetworkClassifier`.
    """

    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        return mean_cross_entropy(logits, nodes, classes)


@dataclass(kw_only=True, eq=False, repr=False)
class CrossEntropyGCN(CrossEntropy):
    """Cross-entropy with a two-layer GCN (Kipf and Welling, 2017): a second plain baseline.

    Minimises −log p(given label) over the training nodes.

    The parameters are those of :class:`erase.methods.network.NetworkClassifier`, where `heads`
    has no effect and `encoder` is "gcn".
    """

    constraints: ClassVar[dict[str, Constraint]] = SupervisedClassifier.constraints | {
        "encoder": OneOf(("gcn",))
    }

    encoder: str = "gcn"


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


@dataclass(kw_only=True, eq=False, repr=False)
class APL(SupervisedClassifier):
    """Active passive loss (Ma et al., 2020): bounded, so no wrong label outweighs the others.

    Minimises a·NCE + b·RCE. NCE = log p_y / Σ_k log p_k raises the given class; RCE =
    −Σ_k p_k log max(1[k = y], 10⁻⁴) = 9.21·(1 − p_y) lowers the others.

    Args:
        active: a, weight of the normalised cross-entropy.
        passive: b, weight of the reverse cross-entropy.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`.
    """

    constraints: ClassVar[dict[str, Constraint]] = SupervisedClassifier.constraints | {
        "active": Number(low=0),
        "passive": Number(low=0),
    }
    space: ClassVar[dict[str, Range | OneOf]] = SupervisedClassifier.space | {
        "active": Range(0.1, 10.0, log=True),
        "passive": Range(0.1, 10.0, log=True),
    }

    active: float = 1.0
    passive: float = 1.0

    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        log_p = at_nodes(logits, nodes).log_softmax(2)  # [R, n, K]
        of_given = log_p.gather(2, classes[..., None])[..., 0]  # [R, n]
        normalised = of_given / log_p.sum(2)
        reverse = _LOG_ZERO * of_given.expm1()
        return (self.active * normalised + self.passive * reverse).mean(1)
