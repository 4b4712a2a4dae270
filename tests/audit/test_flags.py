"""Flags and verdicts by hand."""

import numpy as np

from erase.audit.flags import flag, verdicts


def test_flags_are_the_largest_set_within_the_limit() -> None:
    quality = np.array([0.9, 0.1, 0.5, 0.0, 0.3])
    assert np.flatnonzero(flag(quality, 0.2)).tolist() == [1, 3, 4]  # mean 0.133; 0.225 is next
    assert np.flatnonzero(flag(quality, 0.225)).tolist() == [1, 2, 3, 4]
    assert not flag(quality[:3], 0.05).any()
    assert flag(quality, 1.0).all()
    assert flag(np.array([]), 0.5).tolist() == []


def test_labels_of_equal_quality_share_their_fate() -> None:
    assert not flag(np.array([0.3, 0.3, 0.3]), 0.2).any()
    flagged = flag(np.array([0.0, 0.5, 0.5, 0.5]), 0.3)
    assert flagged.tolist() == [True, False, False, False]  # a part of the ties would fit


def test_verdicts_by_hand() -> None:
    posterior = np.array(
        [
            [0.1, 0.9, 0.0],  # another class is more probable than all others together
            [0.3, 0.4, 0.3],  # another class is the most probable, but not by so much
            [0.4, 0.3, 0.3],  # the given class is the most probable, though hardly
            [0.9, 0.1, 0.0],
            [0.2, 0.4, 0.4],
            [0.5, 0.5, 0.0],  # no class is more probable than the given one
        ]
    )
    given, nowhere = np.array([0, 0, 0, 0, 1, 1]), np.zeros(6, bool)
    flagged, verdict = verdicts(given, posterior, 0.2, nowhere)
    assert flagged.tolist() == [True, True, False, False, False, False]
    unsure = ["can't tell"]
    assert verdict.tolist() == ["wrong", *unsure * 2, "right", *unsure * 2]
    flagged, verdict = verdicts(given, posterior, 0.15, nowhere)
    assert flagged.tolist() == [True] + [False] * 5
    flagged, verdict = verdicts(given, posterior, 0.0, nowhere)
    assert not flagged.any()
    assert verdict.tolist() == [*unsure * 3, "right", *unsure * 2]  # not flagged is not right
    flagged, _ = verdicts(given, posterior, 1.0, nowhere)
    assert flagged.tolist() == [True, True, False, False, False, False]
    _, verdict = verdicts(given, posterior, 0.2, np.array([True, False, False, True, False, False]))
    assert verdict.tolist() == ["wrong", *unsure * 5]  # contradicted: not right


def test_the_only_label_of_a_class_is_never_decided_however_probable_it_is() -> None:
    posterior = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    flagged, verdict = verdicts(np.array([0, 0, 1]), posterior, 0.2, np.zeros(3, bool))
    assert not flagged.any()
    assert verdict.tolist() == ["right", "right", "can't tell"]
