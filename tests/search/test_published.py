"""The published strategies find what they found in version 0.4, person by person and field by
field; the guided one finds more."""

import json
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.explain import eligible_cases
from butfor.nets import train_one
from conftest import fitted

APPROVED = json.loads(Path(__file__).with_name("published.json").read_text())
"""What 0.4 found on one core, when models were not shared between people: by table and model,
search and person."""
LOGITS = ("logit", "closest_logit", "counterfactual_logit")


def audited(name, model, budget):
    if model == "network":
        return fitted(name, budget=budget, n_jobs=1)
    data = butfor.load_dataset(name)
    audit = butfor.LabelAudit(
        LogisticRegression(max_iter=2000), budget=budget, members=1, fresh_seeds=0, n_jobs=1
    )
    return audit.fit(data.X_train, data.y_train, sensitive_features=data.sensitive), data


@pytest.mark.parametrize("case", APPROVED)
def test_published_strategies_find_what_they_found(case):
    audits = {budget: audited(*case.split(), budget) for budget in (1, 4)}
    for search, people in APPROVED[case].items():
        strategy, _, rank = search.partition(" ")
        audit, data = audits[1 if strategy == "exhaustive" else 4]
        verdicts = audit.with_search(strategy=strategy, rank=rank or None).explain_all(
            data.X_test, cases=range(len(people))
        )
        for person, (before, verdict) in enumerate(zip(people, verdicts, strict=True)):
            for field, value in before.items():  # courses are approved for algorithm1 alone
                now, where = getattr(verdict, field), (search, person, field)
                if field == "course":
                    assert [size for size, _ in now] == [size for size, _ in value], where
                    assert [logit for _, logit in now] == pytest.approx(
                        [g for _, g in value], abs=1e-3
                    ), where
                elif field in LOGITS and value is not None:
                    assert now == pytest.approx(value, abs=1e-3), where
                else:
                    assert (list(now) if field == "positions" else now) == value, where


def test_guided_finds_more_than_algorithm_1_and_sets_that_are_minimal():
    audit, data = fitted("compas", 1000, strategy="guided")
    population = audit.explain_all(
        data.X_test, cases=eligible_cases(audit.fitted_, data.X_test, 16)
    )
    published = audit.with_search(strategy="algorithm1", rank="combined")
    plain = published.explain_all(data.X_test, cases=[v.case for v in population])
    assert len(population.found) > len(plain.found)
    verdict = next(v for v in population.found if len(v.positions) > 1)
    assert verdict.minimal
    assert len(verdict.positions) <= verdict.first_size <= verdict.run.budget
    network, rows, x = (
        audit.model_.network,
        audit.model_.rows,
        audit.model_.encoded(data.X_test.iloc[[verdict.case]]),
    )
    for left_out in verdict.positions:
        fewer = tuple(row for row in verdict.positions if row != left_out)
        assert (train_one(network.recipe, rows, fewer).logits(x)[0] > 0) == (verdict.logit > 0)
