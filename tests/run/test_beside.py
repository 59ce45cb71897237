"""What stands beside the rows in Python: clusters, weights, references, labels of other rows,
missing labels, dates."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import butfor
import recorded
from butfor.errors import SettingError, TableError
from recorded import LABELS, TABLE, Notes, fitted

HOMES = np.repeat(np.arange(200), 2)


def compared(X=TABLE, y=LABELS, **how):
    return recorded.compared(X, y, **how)


# --- clusters and weights -------------------------------------------------------------------------


def test_an_audit_compares_clusters_and_weights_as_a_comparison_does():
    weight = np.where(np.arange(400) % 4, 0.5, 2.0)
    audit = fitted(TABLE.assign(home=HOMES), cluster="home", sample_weight=weight)
    whole = compared(cluster=HOMES, sample_weight=weight, draws=20)
    assert audit.standards().clusters == 200
    assert audit.standards().comparisons == whole.comparisons
    assert "home" not in audit.table_.X
    people = TABLE.assign(home=HOMES).iloc[:4]
    assert (audit.predict(people) == audit.predict(TABLE.iloc[:4])).all(), (
        "people may have the column or not"
    )
    verdict = audit.explain(people.iloc[[0]])
    assert "home" not in verdict.values
    assert butfor.replay(verdict)
    assert "cluster: given in Python" in verdict.run.not_rebuildable


def test_a_weighted_find_is_what_plain_scikit_learn_decides():
    weight, X = np.where(np.arange(400) % 4, 0.5, 2.0), TABLE.drop(columns="group")
    audit = butfor.LabelAudit(
        LogisticRegression(), fresh_seeds=0, budget=8, phi="everyone", psi="everything"
    )
    audit.fit(X, LABELS, sensitive_features=TABLE["group"], sample_weight=weight)
    found = audit.explain_all(X.iloc[:60], sensitive_features=TABLE["group"].iloc[:60]).found
    assert found
    for verdict in found:
        labels = LABELS.mask(
            np.isin(np.arange(400), verdict.positions), LABELS.map({"yes": "no", "no": "yes"})
        )
        own = LogisticRegression().fit(audit.model_.encoded(X), labels, sample_weight=weight)
        asked = audit.model_.encoded(X.iloc[[verdict.case]])
        assert own.predict(asked)[0] == verdict.counterfactual_prediction != verdict.prediction


def test_labels_of_a_cluster_go_together_in_worlds_too():
    """Pairs of rows with the same label: in a world both are flipped, or neither, more often than
    apart."""
    pairs = TABLE.iloc[::2].loc[lambda t: t.index.repeat(2)].reset_index(drop=True)
    labels = LABELS.iloc[::2].loc[lambda y: y.index.repeat(2)].reset_index(drop=True)
    spread, rows = {}, int((pairs["group"] == "b").sum())
    for name, cluster in (("alone", None), ("together", HOMES)):
        (found,) = fitted(pairs, labels, cluster=cluster).one_standard(pairs.iloc[:60])
        spread[name] = np.std([world.flips - world.shortfall * rows for world in found.worlds])
    assert spread["together"] > 1.15 * spread["alone"]


def test_our_network_takes_weights_for_the_comparison_alone():
    notes, weight = Notes(), np.where(np.arange(400) % 4, 0.5, 2.0)
    net = butfor.MLP(hidden=(4,), max_epochs=5)
    audit = fitted(model=net, sample_weight=weight, cluster=HOMES, progress=notes)
    assert any(
        "takes no weights: they serve the comparison of groups alone" in line
        for line in notes.lines
    )
    assert (
        audit.standards().of_group("b").effective_rows < 0.8 * audit.standards().of_group("b").rows
    )
    plain = fitted(model=net)
    assert (audit.model_.logits(TABLE) == plain.model_.logits(TABLE)).all()
    assert butfor.replay(audit.explain(TABLE.iloc[[0]]))


def test_references_of_attributes_that_share_values_are_given_by_attribute():
    rng = np.random.default_rng(0)
    X = TABLE.assign(black=rng.choice(["no", "yes"], 400), married=rng.choice(["no", "yes"], 400))
    both = {"sensitive_features": ["black", "married"]}
    for reference in (["no", "yes"], "no"):
        for door in (compared, fitted):
            with pytest.raises(
                SettingError,
                match=r"a group of 'black', 'married'; say of which: reference=\{'black'",
            ):
                door(X, reference=reference, **both)
    found = compared(X, reference={"black": "no", "married": "yes"}, **both)
    wanted = {"black": "no", "married": "yes", "black × married": "no · yes"}
    assert {c.attribute: c.reference for c in found.comparisons} == wanted
    beside = {
        "sensitive_features": X[["black", "married"]].add_suffix("!")
    }  # the model does not see them
    audit = fitted(reference={"black!": "no", "married!": "yes"}, **beside)
    assert audit.fitted_.comparison.reference == {
        f"{' × '.join(f'{n}!' for n in k.split(' × '))}": v for k, v in wanted.items()
    }


def test_labels_of_other_rows_that_training_does_not_know_are_refused():
    for labels in (LABELS[:9].str.title(), pd.Series([1] * 9)):
        with pytest.raises(
            TableError, match=r"The labels of also_labelled include '.*', which no training row has"
        ):
            fitted(also_labelled=(TABLE[:9], labels))
    with pytest.raises(
        SettingError, match="The training rows have cluster, so also_labelled needs it too"
    ):
        fitted(cluster=HOMES, also_labelled=(TABLE[:9], LABELS[:9]))


@pytest.mark.parametrize("validation_too", [False, True])
def test_worlds_of_a_network_do_not_depend_on_how_rows_are_numbered(validation_too):
    parts, found = np.split(np.arange(400), [240, 320]), []
    for begin in (0, 0, 0), (0, 300, 600):
        new = [
            pd.RangeIndex(first, first + len(at)) for first, at in zip(begin, parts, strict=True)
        ]
        train, val, test = (
            [each.iloc[at].set_axis(i) for each in (TABLE, LABELS)]
            for at, i in zip(parts, new, strict=True)
        )
        more = tuple(map(pd.concat, zip(val, test, strict=True))) if validation_too else test
        net = butfor.MLP(hidden=(4,), max_epochs=8, batch_size=32)
        audit = fitted(*train, model=net, validation=val, also_labelled=more)
        worlds = audit.one_standard(test[0])[0]
        found.append((worlds.rates, [world.rates for world in worlds.worlds]))
        steering = audit.standards().validation
        assert list(steering.groups) == val[0]["group"].tolist()
        assert list(steering.is_favourable) == (val[1] == "yes").tolist()
    assert found[0] == found[1]


# --- labels and dates -----------------------------------------------------------------------------


def test_rows_without_a_label_are_left_out_and_counted():
    holes = LABELS.mask(np.arange(400) % 10 == 3)
    known, weight = holes.notna().to_numpy(), np.linspace(1, 2, 400)
    for door in (compared, fitted):
        notes = Notes()
        one = door(y=holes, sample_weight=weight, cluster=HOMES.tolist(), progress=notes)
        other = door(TABLE[known], LABELS[known], sample_weight=weight[known], cluster=HOMES[known])
        assert "40 rows without a label left out." in notes.lines
        if door is compared:
            assert one.comparisons == other.comparisons
        else:
            assert (one.model_.logits(TABLE) == other.model_.logits(TABLE)).all()
            assert (one.table_.cluster == HOMES[known]).all()
    numbers = (LABELS == "yes").astype(float).where(known)
    assert fitted(y=numbers, adverse=0).classes_.tolist() == [0, 1]
    with pytest.raises(TableError, match="All labels are missing"):
        fitted(y=[None] * 400)


def test_dates_are_days_for_the_model_and_dates_for_people():
    days = pd.Series(
        pd.to_datetime("2021-03-04") + pd.to_timedelta(np.arange(400) % 90, unit="D"), TABLE.index
    )
    as_text = TABLE.assign(on=days.dt.strftime("%Y-%m-%d"))
    as_days = TABLE.assign(on=(days - pd.Timestamp(0)).dt.days)
    tables = (TABLE.assign(on=days), as_text, as_days)
    logits = [[v.logit for v in fitted(X, adverse=None).explain_all(X[:4])] for X in tables]
    assert logits[0] == logits[1] == logits[2]
    audit, notes = fitted(as_text), Notes()
    verdict = audit.explain(as_text.iloc[3])
    assert verdict.values["on"] == "2021-03-07"
    assert butfor.replay(verdict)
    found = compared(TABLE.assign(on=days), draws=2, progress=notes)
    assert "Column 'on' holds dates: they count as days since 1970-01-01." in notes.lines
    assert {value[:4] for value in found.slices.query("column == 'on'")["value"]} <= {
        "2021",
        "unde",
    }

    def months(frame):
        return frame[["income"]].assign(month=frame["on"].dt.month)

    own = make_pipeline(FunctionTransformer(months), StandardScaler(), LogisticRegression())
    assert fitted(TABLE.assign(on=days), model=own).predict(TABLE.assign(on=days)).shape == (400,)


CHANCE = np.random.default_rng(0).random(400)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            {"y": TABLE["income"], "adverse": 0},
            "Make two labels of the numbers by comparing them: y >= ",
        ),
        ({"sensitive_features": CHANCE}, "holds numbers from 0 to 1, like probabilities"),
        ({"sample_weight": np.zeros(400)}, "sample_weight is 0 in every row of"),
        (
            {"sample_weight": (TABLE["group"] != "b") * 1.0},
            "sample_weight is 0 in every row of group = b",
        ),
        ({"sample_weight": np.where(np.arange(400) == 7, 1e300, 1.0)}, r"that of row 7 is 1e\+300"),
    ],
)
def test_labels_groups_and_weights_that_say_nothing_are_refused(how, sentence):
    for door in (compared, fitted):
        with pytest.raises((SettingError, TableError), match=sentence):
            door(**how)


def test_probabilities_may_be_cut_and_a_comparison_notes_what_a_check_of_the_table_notes():
    assert compared(sensitive_features=CHANCE, sensitive_bands=[0.5]).comparisons
    found = compared(TABLE.assign(copy=LABELS))
    assert found.answer.startswith("Column 'copy' is a copy of the label")
