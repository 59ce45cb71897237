"""All pairs of labels: what is found and what is proven is what trying them one by one gives."""

from itertools import combinations

import numpy as np
import pytest

import butfor
from butfor.errors import SettingError
from butfor.seam import Training
from butfor.search import pairs as pairs_module
from conftest import fitted


@pytest.fixture(scope="module")
def tried():
    """Salary with a budget of two, and every pair's answers by the engine itself."""
    audit, data = fitted("salary", protocol="exhaustive", budget=2, psi="everything", phi="everyone")
    population = audit.explain_all(data.X_test)
    n = audit.table_.n
    engine = butfor.FusedEngine().bind(audit.learner_, audit.table_, data.X_test)
    sets = [(i,) for i in range(n)] + list(combinations(range(n), 2))
    return audit, data, population, sets, engine([Training(flips) for flips in sets])


def test_every_verdict_is_what_trying_all_pairs_gives(tried):
    audit, data, population, sets, logits = tried
    before = audit.model_.logits(data.X_test) > 0
    turned = (logits > 0) != before[None, :]
    sizes = np.array([len(flips) for flips in sets])
    statuses = set()
    for verdict in population:
        real = sizes[turned[:, verdict.case]].min(initial=3)
        assert verdict.at_least == real
        assert verdict.at_most == (real if real < 3 else None)
        assert verdict.status == ("found" if real < 3 else "proven_none")
        assert verdict.proof
        statuses.add((verdict.status, verdict.at_most))
    assert {("found", 1), ("found", 2)} <= statuses
    assert all(v.exact and v.minimal for v in population.found)
    assert population.run["retrainings"] <= len(sets)


def test_blocks_and_limits_do_not_change_what_is_true(tried, monkeypatch):
    audit, data, population, _, _ = tried
    monkeypatch.setattr(pairs_module, "BLOCK", 7)
    again = audit.explain_all(data.X_test)
    assert [v.at_least for v in again] == [v.at_least for v in population]
    assert again.run["retrainings"] <= population.run["retrainings"]  # whoever is found needs no more pairs
    short = audit.searching(max_retrainings=60).explain_all(data.X_test)
    assert short.run["retrainings"] <= 60
    assert {v.status for v in short} <= {"found", "not_found"}
    assert any(v.status == "not_found" and not v.complete and v.at_least is None for v in short)


def test_a_stop_among_pairs_keeps_what_is_found_and_proves_nothing(tried, monkeypatch):
    audit, data, population, _, _ = tried
    monkeypatch.setattr(pairs_module, "BLOCK", 40)
    look, calls = butfor.search.trainer.Trainer.look, []

    def interrupted(self, flips, watch):
        calls.append(len(flips))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return look(self, flips, watch)

    monkeypatch.setattr(butfor.search.trainer.Trainer, "look", interrupted)
    stopped = audit.explain_all(data.X_test)
    assert stopped.interrupted
    whole = {v.case for v in population.found}
    assert {v.case for v in stopped.found} < whole
    assert all(
        v.status == "not_found" and not v.complete for v in stopped if v.case not in {f.case for f in stopped.found}
    )


def test_too_many_pairs_are_refused_before_any_training():
    audit, data = fitted("compas", protocol="exhaustive", budget=2, psi="everything")
    with pytest.raises(SettingError, match="pairs"):
        audit.explain_all(data.X_test, cases=[0])
