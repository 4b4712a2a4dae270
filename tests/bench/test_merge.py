"""Which records that were made elsewhere join a study."""

from dataclasses import replace

from erase.bench.digests import code_of
from erase.bench.records import Cell, Record
from merge import joining

FIRST, SECOND, OTHER = (
    Cell("cora", "symmetric", 0.3, "ce", {}, "honest", seed) for seed in (0, 1, 7)
)


def _record(cell: Cell, accuracy: float, code: str = "") -> Record:
    return Record(cell, {"test_accuracy": accuracy}, code=code)


def test_runs_of_the_study_by_the_present_code_join() -> None:
    made = [_record(cell, 0.9, code_of(cell)) for cell in (SECOND, FIRST)]
    assert joining(made, [FIRST, SECOND]) == {SECOND: made[0], FIRST: made[1]}


def test_runs_of_other_studies_other_code_and_failures_stay_out() -> None:
    present = _record(FIRST, 0.9, code_of(FIRST))
    made = [
        replace(present, cell=OTHER, code=code_of(OTHER)),
        replace(present, code="0" * 12),
        replace(present, error="OutOfMemoryError"),
    ]
    assert not joining(made, [FIRST, SECOND])
    assert joining([present, *made], [FIRST]) == {FIRST: present}
