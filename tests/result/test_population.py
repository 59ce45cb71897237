"""What is said about many people: groups, direct dependence, what is proven, and people beside
fairlearn's metrics."""

import sys

import pytest
from sklearn.linear_model import LogisticRegression

import butfor

GERMAN = butfor.load_dataset("german")


def test_direct_dependence_comes_first():
    X, men = GERMAN.X_train, (GERMAN.X_train["sex"] == "male").astype(int).to_numpy()
    audit = butfor.LabelAudit(LogisticRegression(max_iter=2000), budget=2, phi="everyone")
    audit.fit(X[["sex", "age"]], men, sensitive_features="sex")
    people = GERMAN.X_test[["sex", "age"]]
    population = audit.explain_all(people, cases=range(15))
    other = people[:15].assign(sex=people["sex"][:15].map({"male": "female", "female": "male"}))
    assert ((audit.model_.logits(other) > 0) != (audit.model_.logits(people[:15]) > 0)).all()
    assert all(v.switch_changes for v in butfor.Population.from_json(population.to_json()))
    women = (people["sex"][:15] == "female").sum()
    assert population.direct == (
        "The model uses sex directly: switching it alone changes 15 of 15 decisions "
        f"(sex = male: {15 - women} to '0'; sex = female: {women} to '1')."
    )
    assert population.by_group["switch_changes"].sum() == 15
    blind = butfor.LabelAudit(LogisticRegression(max_iter=2000), budget=2)
    blind.fit(X[["age", "amount"]], GERMAN.y_train, sensitive_features=X["sex"])
    told = blind.explain_all(
        GERMAN.X_test[["age", "amount"]], sensitive_features=GERMAN.X_test["sex"], cases=range(3)
    )
    assert "does not see sex" in told.direct
    assert {v.switch_changes for v in told} == {None}


def test_people_stand_beside_fairlearns_metrics(monkeypatch):
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), budget=1)
    audit.fit(
        GERMAN.X_train, GERMAN.y_train, sensitive_features="sex", adverse="bad credit", draws=20
    )
    population = audit.explain_all(GERMAN.X_test, GERMAN.y_test, cases=range(60))
    assert [v.recorded_label for v in population] == [
        GERMAN.label_names[code] for code in GERMAN.y_test[:60]
    ]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fairlearn.metrics", None)
        with pytest.raises(butfor.errors.SettingError, match="pip install fairlearn"):
            population.metric_frame()
    pytest.importorskip("fairlearn", reason="fairlearn is not installed")
    frame = butfor.Population.from_json(population.to_json()).metric_frame()
    assert frame.by_group.index.names == ["sex"]
    people = GERMAN.X_test[:60].assign(
        right=audit.predict(GERMAN.X_test[:60]) == GERMAN.y_test[:60]
    )
    assert frame.by_group["accuracy"].to_dict() == pytest.approx(
        people.groupby("sex")["right"].mean().to_dict()
    )
    assert frame.by_group["count"].sum() == 60
    with pytest.raises(butfor.errors.SettingError, match="no label of these people"):
        audit.explain_all(GERMAN.X_test, cases=range(2)).metric_frame()
