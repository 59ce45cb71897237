"""The guided search as a whole, on the first rows of Compas."""

import pytest

import butfor
from butfor.errors import SettingError
from butfor.explain import eligible_cases
from butfor.nets import train_one
from conftest import fitted

ROWS = 1000


@pytest.fixture(scope="module")
def compas():
    audit, data = fitted("compas", ROWS, strategy="guided")
    return audit, data, audit.explain_all(data.X_test, cases=eligible_cases(audit.fitted_, data.X_test, 24))


def test_what_guided_reports_is_minimal(compas):
    audit, data, population = compas
    several = [v for v in population.found if len(v.positions) > 1]
    assert several
    for verdict in several[:2]:
        assert verdict.minimal
        assert len(verdict.positions) <= verdict.first_size <= verdict.budget
        x = audit.model_.encoder.transform(data.X_test.iloc[[verdict.case]])
        for left_out in verdict.positions:
            fewer = tuple(row for row in verdict.positions if row != left_out)
            again = train_one(audit.model_.network.recipe, audit.model_.rows, fewer).logits(x)[0]
            assert (again > 0) == (verdict.logit > 0)


def test_guided_finds_more_than_algorithm_1(compas):
    audit, data, population = compas
    published = audit.with_search(strategy="algorithm1", rank="combined")
    plain = published.explain_all(data.X_test, cases=[v.case for v in population])
    assert len(population.found) > len(plain.found)


def test_the_limit_is_not_used_up_by_the_trial(compas):
    audit, data, _ = compas
    cases = eligible_cases(audit.fitted_, data.X_test, 10)
    population = audit.explain_all(data.X_test, cases=cases, stop=butfor.max_retrainings(20))
    assert population.run.retrainings == 20
    assert population.run.agreement is None
    assert sum(v.attempts for v in population) >= 10
    with pytest.raises(SettingError, match="max_retrainings=0"):
        butfor.max_retrainings(0)
