"""Where a score lies exactly on the line between two decisions."""

import numpy as np
import pytest

from butfor.decide import Decision, decides_one


@pytest.mark.parametrize("label", [0, 1])
def test_who_is_exactly_at_the_cut_gets_its_label(label):
    decision = Decision(given=0.8, label=label, at=0.8)
    below, at, above = decision.fixed_answer + decision.sign * np.array([-1e-3, 0.0, 1e-3])
    decided = decides_one(decision.margins(np.array([below, at, above])))
    assert (decided == (label == 1)).tolist() == [False, True, True]
