"""Limited places: whoever gains one takes it from somebody, and a verdict says whether the score or the cut moved."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor


def loans(rows, wronged, seed):
    """Loans by income and debts; of group b's granted ones a share is refused all the same."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"group": rng.choice(["a", "b"], rows), "income": rng.normal(size=rows)})
    X["debts"] = rng.normal(size=rows)
    granted = X["income"] - X["debts"] + 0.3 * rng.normal(size=rows) > 0
    wrong = granted & (X["group"] == "b") & (rng.random(rows) < wronged)
    return X, pd.Series(np.where(granted & ~wrong, "yes", "no"))


TABLE, LABELS = loans(400, 0.4, 0)
PEOPLE, TRUTH = loans(80, 0.0, 1)


@pytest.fixture(scope="module")
def population():
    audit = butfor.LabelAudit(LogisticRegression(), threshold="top 40%", budget=12, n_jobs=1)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no", pool=PEOPLE)
    return audit.explain_all(PEOPLE, TRUTH)


def test_one_standard_counts_who_loses_a_place(population):
    (one,) = population.one_standard
    gained, lost = ([p.worlds for p in one.changed if p.refused == refused] for refused in (True, False))
    assert sum(gained) == sum(lost) > 0  # the people asked about are those who compete
    assert one.displaced == sum(lost) / len(one.worlds)
    assert one.sentence.endswith(f"Places are limited: about {one.displaced:.0f} of 80 people would lose theirs.")


def test_a_verdict_says_how_far_score_and_cut_moved(population):
    assert population.found
    for verdict in population.found:
        assert verdict.score < verdict.cut
        assert verdict.counterfactual_score >= verdict.counterfactual_cut
        assert f"cut {verdict.cut:.2f}"[:7] in verdict.sentence
    assert population.run.cut.startswith("Decided 'yes': the best 40 % of 80 people, 32 of them, at a probability")
    assert not population.advice
