"""What a user changes after handing it over changes no answer; settings that change after `fit` are
noticed."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import butfor
from butfor.errors import SettingError
from butfor.table import columns
from recorded import LABELS, TABLE, fitted

NET = butfor.MLP(hidden=(4,), max_epochs=5)
MODELS = {
    "encoded": LogisticRegression(),
    "own steps": make_pipeline(
        StandardScaler(), DecisionTreeClassifier(max_depth=3, random_state=0)
    ),
    "network": NET,
}
NUMBERS = TABLE.assign(group=(TABLE["group"] == "b").astype(float))
TWO = TABLE[["income", "debts"]]


@pytest.fixture(params=["shallow copies", "deep copies"])
def copies(request, monkeypatch):
    """As where pandas copies on write, and as pandas 2 does by default."""
    if request.param == "deep copies":
        monkeypatch.setattr(columns, "_copies_on_write", lambda: False)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.usefixtures("copies")
def test_people_who_change_are_asked_about_anew(model):
    audit = fitted(
        NUMBERS, model=MODELS[model], settings={"members": 2 if model == "network" else 1}
    )
    P = NUMBERS.iloc[:40].copy()
    before, logits = audit.predict(P), audit.model_.logits(P)
    P["income"] -= 6
    assert (audit.predict(P) == audit.predict(P.copy())).all()
    assert (audit.predict(P) != before).any()
    assert (audit.model_.logits(P) == audit.model_.logits(P.copy())).all()
    assert (audit.model_.logits(P) != logits).any()
    one = NUMBERS.iloc[[0]].copy()
    for income in (-4.0, 0.0, 4.0):  # what if
        one.loc[0, "income"] = income
        logit = audit.model_.logits(one.copy())[0]
        assert audit.explain(one).logit == audit.model_.logits(one)[0] == logit


@pytest.mark.usefixtures("copies")
def test_a_fitted_audit_keeps_nothing_that_its_user_changes_later():
    """Everything that was handed over is spoilt in place after `fit`; the answers are those of one
    that was not."""

    def asked(spoil):
        X, y, group = (
            TWO[:300].copy(),
            LABELS[:300].copy(),
            TABLE["group"][:300].to_numpy(object, copy=True),
        )
        home, weight = (
            np.repeat(np.arange(150), 2).astype(object),
            np.where(np.arange(300) % 3, 1.0, 2.0),
        )
        more = (
            TWO[300:].copy(),
            LABELS[300:].copy(),
            TABLE["group"][300:].to_numpy(object, copy=True),
        )
        more = (*more, np.arange(100).astype(object), np.ones(100))
        pool, psi = TWO[300:].copy(), np.arange(300) % 2 == 0
        settings = {
            "budget": 12,
            "fresh_seeds": 0,
            "members": 1,
            "n_jobs": 1,
            "threshold": "top 30%",
            "psi": psi,
        }
        audit = butfor.LabelAudit(LogisticRegression(), phi="everyone", **settings)
        beside = {"sensitive_features": group, "cluster": home, "sample_weight": weight}
        audit.fit(X, y, also_labelled=more, pool=pool, **beside)
        if spoil:
            for frame in (X, pool, more[0]):
                frame["decision"], frame.loc[:, "income"] = "yes", 0.0
            for series in (y, more[1]):
                series.iloc[:] = "no"
            for values, other in (
                (group, "a"),
                (more[2], "a"),
                (home, 1),
                (weight, 1),
                (more[3], 1),
                (more[4], 9),
            ):
                values[:] = other
        groups = TABLE["group"].iloc[300:]
        return audit, audit.explain_all(TWO.iloc[300:], cases=range(12), sensitive_features=groups)

    (spoilt, one), (kept, other) = asked(True), asked(False)
    assert one.found
    assert one.to_dict()["people"] == other.to_dict()["people"]
    assert spoilt.labels().equals(kept.labels())
    assert (spoilt.predict(TWO) == kept.predict(TWO)).all()
    spoilt.psi[:] = False
    assert butfor.replay(one.found[0]), "the mask of the fit"
    with pytest.raises(SettingError, match="'psi' changed since fit"):
        spoilt.predict(TWO)


@pytest.mark.usefixtures("copies")
def test_validation_rows_and_tables_of_ones_own_are_copied():
    X, y = TABLE[:300].copy(), LABELS[:300].copy()
    validation = TABLE[300:].copy(), LABELS[300:].copy()
    audit = fitted(X, y, model=NET, validation=validation)
    other = fitted(X, y, model=NET, validation=(TABLE[300:], LABELS[300:]))
    validation[0]["income"] = 0.0
    validation[1].iloc[:] = "no"
    again = [a.learner_.fit(replace(a.table_), a.table_.labels((1, 5))) for a in (audit, other)]
    assert (again[0].logits(TABLE) == again[1].logits(TABLE)).all()
    table = butfor.Table(X, y)
    X["income"] = 0.0
    y.iloc[:] = "no"
    assert table.X["income"].nunique() > 1
    assert set(table.y) == {"yes", "no"}


def test_a_comparison_of_groups_keeps_nothing_that_its_user_changes_later():
    X, y, weight = TABLE.copy(), LABELS.copy(), np.ones(len(TABLE))
    how = {"sensitive_features": "group", "adverse": "no", "draws": 0, "n_jobs": 1}
    compared = butfor.compare_standards(X, y, sample_weight=weight, **how)
    X["income"], weight[:] = 0.0, 1e6
    y.iloc[:] = "no"
    again = butfor.compare_standards(TABLE, LABELS, sample_weight=np.ones(len(TABLE)), **how)
    assert compared.by_group.equals(again.by_group)
    assert np.array_equal(compared.wrong, again.wrong, equal_nan=True)
    assert compared.weight.max() == 1


def test_settings_of_a_part_of_the_model_that_change_after_fit_are_noticed_like_the_others():
    weights, refused = {"no": 1, "yes": 2}, "changed since fit: call fit again"
    steps = make_pipeline(StandardScaler(), LogisticRegression(class_weight=weights))
    audit, person = fitted(NUMBERS, model=steps), NUMBERS.iloc[[0]]
    questions = (
        lambda: audit.predict(person),
        lambda: audit.explain(person),
        lambda: audit.standards(),
        lambda: audit.with_search(strategy="singles"),
    )
    for name, value in (
        ("model__logisticregression__C", 0.1),
        ("model__standardscaler__with_mean", False),
    ):
        before = audit.get_params()[name]
        audit.set_params(**{name: value})
        for question in questions:
            with pytest.raises(SettingError, match=f"'{name}' {refused}"):
                question()
        audit.set_params(**{name: before}).predict(person)
    weights["yes"] = 5
    with pytest.raises(SettingError, match=f"'model__logisticregression__class_weight' {refused}"):
        audit.predict(person)
    weights["yes"] = 2
    audit.predict(person)
    with pytest.raises(SettingError, match=f"'encoder', 'model' {refused}"):
        audit.set_params(model=LogisticRegression(), encoder=butfor.TableEncoder()).predict(person)
    again = audit.set_params(model=steps, encoder=None, n_jobs=2, fresh_seeds=3)
    assert again.with_search(strategy="singles").explain(person).run.fresh_seeds == 3
