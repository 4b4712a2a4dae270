"""APL: an active and a passive loss, normalised and reverse cross-entropy (Ma et al., 2020)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from erase.methods.base import Constraint, Number, OneOf, Range
from erase.methods.supervised import SupervisedClassifier
from erase.training.loop import at_nodes

_LOG_ZERO = math.log(1e-4)  # stands for log 0 in reverse cross-entropy


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
