"""The audit: which given labels are wrong, what they should be, and how sure one can be.

``erase.audit`` is both this package and the function: calling the package runs :func:`audit`.
"""

import sys
from inspect import signature
from types import ModuleType
from typing import Any

from erase.audit.agreement import Agreement
from erase.audit.decision import Decision
from erase.audit.detectors import DETECTORS
from erase.audit.noise_rate import Estimate
from erase.audit.out_of_fold import OutOfFold
from erase.audit.result import Audit
from erase.audit.run import DEFAULT_METHOD, FOLDS, MAX_EPOCHS, audit, audit_params
from erase.audit.storage import load_audit

__all__ = [
    "DEFAULT_METHOD",
    "DETECTORS",
    "FOLDS",
    "MAX_EPOCHS",
    "Agreement",
    "Audit",
    "Decision",
    "Estimate",
    "OutOfFold",
    "audit",
    "audit_params",
    "load_audit",
]


class _Callable(ModuleType):
    __signature__ = signature(audit)

    def __call__(self, *args: Any, **options: Any) -> Audit:
        return audit(*args, **options)

    __call__.__doc__ = audit.__doc__


sys.modules[__name__].__class__ = _Callable
