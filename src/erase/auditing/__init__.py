"""The audit: which given labels are wrong, what they should be, and how sure one can be."""

from erase.auditing.decision import Agreement, Decision, Estimate
from erase.auditing.detectors import DETECTORS
from erase.auditing.folds import Judged
from erase.auditing.result import Audit
from erase.auditing.run import FOLDS, JUDGE, JUDGE_EPOCHS, audit, check_audit, judge_params

__all__ = [
    "DETECTORS",
    "FOLDS",
    "JUDGE",
    "JUDGE_EPOCHS",
    "Agreement",
    "Audit",
    "Decision",
    "Estimate",
    "Judged",
    "audit",
    "check_audit",
    "judge_params",
]
