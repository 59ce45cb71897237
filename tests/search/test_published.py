"""The published strategies find what they found in version 0.4, person by person and field by field; the guided one
finds more."""

import json
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.explain import eligible_cases
from butfor.nets import train_one
from conftest import fitted

APPROVED = Path(__file__).with_name("published.json")
"""What 0.4 found on one core, when models were not shared between people."""
FIELDS = (
    "status", "positions", "attempts", "first_size", "minimal", "shared", "complete", "failed", "at_least", "proof",
)  # fmt: skip
LOGITS = ("logit", "closest_logit", "counterfactual_logit")
SEARCHES = [(4, "algorithm1", None), (4, "singles", None), (4, "singles", "chance"), (4, "attempts", None),
            (4, "attempts", "chance"), (1, "exhaustive", None)]  # fmt: skip
PEOPLE = {"salary": 11, "student": 3, "german": 4}


def audited(name, model, budget):
    if model == "network":
        return fitted(name, budget=budget, n_jobs=1)
    data = butfor.load_dataset(name)
    audit = butfor.LabelAudit(LogisticRegression(max_iter=2000), budget=budget, members=1, fresh_seeds=0, n_jobs=1)
    return audit.fit(data.X_train, data.y_train, sensitive_features=data.sensitive), data


def finds(name, model):
    """search → per person the fields and rounded logits of the verdict."""
    results = {}
    audits = {budget: audited(name, model, budget) for budget in (1, 4)}
    for budget, strategy, rank in SEARCHES:
        if (name, model, strategy) == ("student", "logistic", "exhaustive"):
            continue  # takes long
        audit, data = audits[budget]
        asked = audit.with_search(strategy=strategy, rank=rank)
        results[f"{strategy} {rank or ''}".strip()] = [
            {field: getattr(v, field) for field in FIELDS}
            | {field: None if getattr(v, field) is None else round(getattr(v, field), 4) for field in LOGITS}
            | {"course": [[size, round(logit, 4)] for size, logit in v.course]}
            for v in asked.explain_all(data.X_test, cases=range(PEOPLE[name]))
        ]
    return json.loads(json.dumps(results))


@pytest.mark.parametrize("model", ["logistic", "network"])
@pytest.mark.parametrize("name", PEOPLE)
def test_published_strategies_find_what_they_found(name, model):
    approved, now = json.loads(APPROVED.read_text())[f"{name} {model}"], finds(name, model)
    assert set(now) == set(approved)
    for search, people in approved.items():
        for person, (before, after) in enumerate(zip(people, now[search], strict=True)):
            for field, value in before.items():  # courses are approved for algorithm1 alone
                if field == "course":
                    assert [size for size, _ in after[field]] == [size for size, _ in value], (search, person)
                    assert [logit for _, logit in after[field]] == pytest.approx([g for _, g in value], abs=1e-3)
                else:
                    close = field in LOGITS and value is not None
                    assert after[field] == (pytest.approx(value, abs=1e-3) if close else value), (search, person, field)


def test_guided_finds_more_than_algorithm_1_and_sets_that_are_minimal():
    audit, data = fitted("compas", 1000, strategy="guided")
    population = audit.explain_all(data.X_test, cases=eligible_cases(audit.fitted_, data.X_test, 24))
    published = audit.with_search(strategy="algorithm1", rank="combined")
    plain = published.explain_all(data.X_test, cases=[v.case for v in population])
    assert len(population.found) > len(plain.found)
    verdict = next(v for v in population.found if len(v.positions) > 1)
    assert verdict.minimal
    assert len(verdict.positions) <= verdict.first_size <= verdict.run.budget
    network, rows, x = audit.model_.network, audit.model_.rows, audit.model_.encoded(data.X_test.iloc[[verdict.case]])
    for left_out in verdict.positions:
        fewer = tuple(row for row in verdict.positions if row != left_out)
        assert (train_one(network.recipe, rows, fewer).logits(x)[0] > 0) == (verdict.logit > 0)
