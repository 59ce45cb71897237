"""Any model through the seam: what is accepted, what is refused, and that every find is the model's
own."""

import pickle
import sys
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import butfor
from benchmarks.proofs import confirmed
from butfor.cli import main
from butfor.errors import LearnerError, ReplayError, SettingError, TableError
from butfor.measured import run_of
from butfor.models import abilities, as_json, linear
from butfor.models.by_name import model_named
from butfor.models.engines import OwnFit
from butfor.models.kinds import model_of
from butfor.models.making import as_learner, learner_of
from butfor.search.guided import guided
from butfor.search.rankings import as_ranking
from butfor.search.rankings.mix import RankingMix
from butfor.search.rankings.named import Combined, Distance, Surrogate
from butfor.support.progress import Progress
from butfor.table.table import Table
from conftest import odd_table

ROWS, ASKED = 160, 25
TABLE = odd_table(ROWS + ASKED)
LOANS, GRANTED = TABLE.drop(columns="granted"), TABLE["granted"]
TRAINING, LABELS, PEOPLE = LOANS[:ROWS], GRANTED[:ROWS], LOANS[ROWS:]
NUMBERS, OPEN = ["Income (k€), net", "# debts"], {"phi": "everyone", "psi": "everything"}


def fitted(model, X=TRAINING, y=LABELS, groups="région", fit=None, **settings):
    """An audit of one model without fresh seeds."""
    audit = butfor.LabelAudit(model, **{"budget": 4, "members": 1, "fresh_seeds": 0} | settings)
    return audit.fit(X, y, sensitive_features=groups, **fit or {})


# --- every find, for every kind of model ----------------------------------------------------------


def skorch():
    from skorch import NeuralNetClassifier
    from torch import nn

    class Small(nn.Sequential):
        def __init__(self):
            super().__init__(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 2), nn.Softmax(dim=-1))

    return NeuralNetClassifier(Small, max_epochs=4, lr=0.1, train_split=None)


def columns_pipeline():
    words = ["protected group?", "région", "member"]
    columns = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), words))
    return make_pipeline(columns, LogisticRegression())


MODELS = {
    "logistic": LogisticRegression,
    "ridge": RidgeClassifier,
    "svc": SVC,
    "neighbours": KNeighborsClassifier,
    "bayes": GaussianNB,
    "forest": lambda: RandomForestClassifier(8, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=12, random_state=0),
    "discriminant": LinearDiscriminantAnalysis,  # can transform, yet is no preprocessing
    "pipeline": columns_pipeline,
    "xgboost": lambda: model_named("xgboost").set_params(n_estimators=12),
    "lightgbm": lambda: model_named("lightgbm").set_params(n_estimators=12),
    "skorch": skorch,
}


@pytest.mark.filterwarnings(
    "ignore:Lazy modules:UserWarning", "ignore:X does not have valid feature names:UserWarning"
)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_found_is_what_the_users_own_fit_says(name):
    model, table = MODELS[name](), Table(TRAINING, LABELS)
    audit = fitted(model, budget=10, n_jobs=1)
    population = audit.explain_all(
        PEOPLE, GRANTED[ROWS:], cases=range(12), stop=butfor.max_retrainings(40)
    )
    assert not hasattr(model, "classes_")  # the user's object is not touched
    decided = audit.predict(PEOPLE)
    if name in (
        "logistic",
        "boosting",
        "neighbours",
        "svc",
        "pipeline",
    ):  # which plain scikit-learn trains alike
        encode = (
            butfor.TableEncoder(dtype="float64").fit(TRAINING).transform
            if name != "pipeline"
            else lambda X: X
        )
        assert np.array_equal(
            decided, MODELS[name]().fit(encode(TRAINING), LABELS).predict(encode(PEOPLE))
        )
    assert [verdict.prediction for verdict in population] == [
        f"granted = {one}" for one in decided[:12]
    ]
    verdict = population.found[0]
    D, labels = verdict.dataset()
    assert (labels != LABELS).sum() == len(verdict.positions) <= 10
    with warnings.catch_warnings(action="ignore"):
        again = audit.learner_.fit(Table(D, labels), Table(D, labels).labels())
    after = again.logits(PEOPLE[verdict.case : verdict.case + 1])[0] > 0
    assert verdict.counterfactual_prediction == f"granted = {after}"
    assert after != decided[verdict.case]
    assert butfor.replay(verdict, audit=audit).agrees
    if name in ("forest", "boosting", "xgboost", "lightgbm"):
        scores = as_ranking("leaves").score(audit.model_, table, pd.concat([TRAINING[:5], PEOPLE]))
        assert scores[range(5), range(5)] == pytest.approx(1)  # a row shares every leaf with itself
        assert 0 <= scores.min() < scores[5:].mean() < 1
        if name == "forest":
            own, encode = audit.model_.final, audit.model_.front.encoder.transform
            people, rows = own.apply(encode(PEOPLE)), own.apply(encode(TRAINING))
            assert scores[5:] == pytest.approx((people[:, None] == rows).mean(axis=2))


def test_boosted_trees_that_are_not_installed_are_named_with_their_pip_line(monkeypatch):
    assert model_named("xgboost", 3).get_params()["random_state"] == 3
    monkeypatch.setattr("butfor.models.by_name.find_spec", lambda package: None)
    with pytest.raises(SettingError, match="pip install xgboost"):
        model_named("xgboost")


class Faint(LogisticRegression):
    """Its margins are too small for a float of four bytes."""

    def decision_function(self, X):
        return 1e-60 * super().decision_function(X)


def test_a_margin_too_small_for_a_float_keeps_its_side():
    decided = LogisticRegression().fit(LOANS[NUMBERS], GRANTED).predict(LOANS[NUMBERS])
    assert len(set(decided)) == 2
    audit = fitted(Faint(), LOANS[NUMBERS], GRANTED, LOANS["région"])
    assert np.array_equal(audit.predict(LOANS[NUMBERS]), decided)


# --- what is refused, and how ---------------------------------------------------------------------


class Hidden(ClassifierMixin, BaseEstimator):
    """A classifier that gives decisions alone."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


class Moody(Hidden):
    """Answers otherwise each time, whatever its parameters."""

    def decision_function(self, X):
        return np.random.default_rng().normal(size=len(X))

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


def gap(one, other):
    """A distance that a record cannot store."""
    return np.abs(one - other).sum()


def asked(model=None, X=LOANS[NUMBERS], fit=None, **settings):
    """Fits a model to the numbers of the table and asks about one person."""
    model = LogisticRegression() if model is None else model
    region = LOANS["région"]
    audit = butfor.LabelAudit(model, **settings).fit(
        X, GRANTED, sensitive_features=region, **fit or {}
    )
    return audit.explain_all(X[:1], sensitive_features=region[:1])


class Constant(butfor.Model):
    def __init__(self, answers):
        self.answers = answers

    def logits(self, people):
        return self.answers(len(people))


def learner(answers=None, labels=GRANTED, **parts):
    """Asks about a learner of one's own whose model gives these answers."""
    model = butfor.Model() if answers is None else Constant(answers)
    usual = {
        "name": "mine",
        "fit": lambda self, table, labels: model,
        "record": lambda self: {"kind": "mine"},
    }
    made = type(
        "Mine", (butfor.Learner,), {name: part for name, part in (usual | parts).items() if part}
    )()
    return butfor.LabelAudit(made).fit(LOANS, labels, sensitive_features="région")


HOLED = LOANS[NUMBERS].where(lambda X: X["# debts"] > 0)
WEIGHT, NEIGHBOURS = np.ones(ROWS + ASKED), KNeighborsClassifier()
WRONG = {
    "engine": (5, OwnFit, "local:²", "local:0", "local:99999999999", "turbo"), "n_jobs": ("2", 1.5, True, 0),
    "random_state": (None, True, -1), "rank": (type("R", (), {"score": None}),), "strategy": ([],),
    "fresh_seeds": (None, -1), "members": (0,), "budget": (0,),
}  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: asked(LogisticRegression), "is a class; give an instance, LogisticRegression()"),
        (lambda: asked(LinearRegression()), r"is not a classifier.* "
                                            r"butfor\.ThresholdedRegressor\(LinearRegression"),
        (lambda: asked(Hidden()), "neither decision_function nor predict_proba"),
        (lambda: asked(Moody()), "fitted twice.*Fix its seed .* or other sources of randomness"),
        (lambda: asked(42), "neither a scikit-learn classifier nor a learner"),
        (lambda: asked(pytest.importorskip("torch").nn.Linear(2, 1)), r"skorch\.NeuralNetClassifier"),
        (lambda: asked(X=HOLED), "LogisticRegression could not be trained on this table: Input X"),
        (lambda: asked(butfor.MLP((4,), learning_rate=1e30, max_epochs=3)), "Training diverged.*Lower the learning"),
        (lambda: learner(np.zeros, name=None), "Mine lacks 'name': every learner has name, fit "
                                               "and record"),
        (lambda: learner(np.zeros, fit=None, record=None), "Mine lacks 'fit', 'record'"),
        (lambda: learner(), r"With 2 labels the model of mine needs the method logits\(people\)"),
        (lambda: learner(np.zeros, np.arange(len(LOANS)) % 3), r"With 3 labels .* needs the "
                                                               r"method scores\(people\)"),
        (lambda: learner(lambda n: [0.1] * n), "mine gave answers as list of shape .* not an "
                                               "array of a logit"),
        (lambda: learner(lambda n: np.zeros(3)), r"as ndarray of shape \(3,\) for 185 rows"),
        (lambda: asked(encoder="ordinal"), "into a pipeline with the model"),
        (lambda: asked(NEIGHBOURS, fit={"sample_weight": WEIGHT}), "KNeighborsClassifier takes no "
                                                                   "sample_weight"),
        (lambda: asked(fit={"sample_weight": -WEIGHT}), "finite numbers, at least 0"),
        (lambda: asked(fit={"sample_weight": [np.nan, *WEIGHT[1:]]}), "weight of row 0 is missing"),
        (lambda: asked(GaussianNB())[0].local_weights(), "no local linear model"),
        (lambda: fitted(GaussianNB()).with_search("gradient"), "'gradient' needs .*, and this is "
                                                               "an audit of Gauss"),
        (lambda: asked(KNeighborsClassifier(metric=gap), ledger="l.sqlite"), "ledger"),
        (lambda: asked(phi=butfor.rules.stable_under_switch), r"write stable_under_switch\(\)"),
        (lambda: asked(psi=[True] * (ROWS + ASKED - 1)), "of 185 training rows.*without a label "
                                                         "and rows set aside"),
        *((lambda name=name, value=value: asked(**{name: value}), name) for name in WRONG for value in WRONG[name]),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_refused_before_any_search(ask, said):
    with pytest.raises((LearnerError, SettingError, TableError), match=said):
        ask()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_seed_that_nobody_fixed_is_the_audits_wherever_it_stands(monkeypatch):
    heard = []
    monkeypatch.setattr(Progress, "note", lambda self, line: heard.append(line))
    for model, name in (
        (RandomForestClassifier(5), "random_state"),
        (
            make_pipeline(StandardScaler(), MLPClassifier((3,), max_iter=2)),
            "mlpclassifier__random_state",
        ),
    ):
        audit = fitted(model, LOANS[NUMBERS], GRANTED, LOANS["région"], random_state=7)
        assert audit.learner_.estimator.get_params()[name] == audit.learner_.own_seed == 7
        assert model.get_params()[name] is None  # it is theirs
        said = (
            f"{type(model).__name__} came without a fixed seed, so '{name}' is set to 7, the "
            "audit's random_state."
        )
        assert [line for line in heard if "random_state" in line] == [said]
        heard.clear()
    for model, matters in (
        (LogisticRegression(), False),
        (RandomForestClassifier(5, random_state=3), True),
    ):
        assert fitted(model, LOANS[NUMBERS], GRANTED, LOANS["région"]).fitted_.seeded is matters
    assert not [line for line in heard if "random_state" in line]


# --- the table: groups and weights beside it, rows set aside, labels as the user has them ---------------


def test_attributes_that_the_model_does_not_see_are_their_combinations():
    seen, groups = LOANS.drop(columns=["région", "member"]), LOANS[["région", "member"]]
    audit = fitted(LogisticRegression(), seen[:ROWS], groups=groups[:ROWS])
    population = audit.explain_all(seen[ROWS:], sensitive_features=groups[ROWS:])
    assert len(population.eligible) == ASKED  # φ's switch holds for everyone
    joint = groups["région"].astype(str) + " · " + groups["member"].astype(str)
    assert [verdict.group for verdict in population] == list(joint[ROWS:])
    assert all(set(joint.iloc[list(v.positions)]) == {v.group} for v in population.found)
    with pytest.raises(SettingError, match="beside the table"):
        audit.explain_all(seen[ROWS:])


def test_rows_set_aside_come_back_in_the_dataset_and_do_not_reach_the_encoder():
    table = odd_table(400)
    X, y = table.drop(columns="granted")[:360], table["granted"][:360]
    audit = fitted(butfor.MLP((6,), max_epochs=30, batch_size=None), X, y, budget=8)
    verdict = audit.explain_all(table.drop(columns="granted")[360:], cases=range(20)).found[0]
    assert "of 270 training labels" in verdict.sentence
    D, labels = verdict.dataset()
    assert D.equals(X)
    assert list(labels.index[labels != y]) == sorted(verdict.flips.index)
    assert butfor.replay(verdict).agrees
    kept = audit.table_.whole.kept
    assert y.iloc[kept].sum() == pytest.approx(
        0.75 * y.sum(), abs=1
    )  # both labels have their share
    alone = butfor.TableEncoder().fit(X.iloc[kept])
    assert np.array_equal(audit.model_.rows.X, alone.transform(X.iloc[kept]))
    assert not np.array_equal(alone.transform(X), butfor.TableEncoder().fit_transform(X))


def test_class_weights_name_the_users_own_labels():
    X, labels, region = LOANS[NUMBERS], GRANTED.map({False: "owed", True: "paid"}), LOANS["région"]
    model = LogisticRegression(solver="newton-cholesky", class_weight={"owed": 1, "paid": 5})
    audit = fitted(model, X[:ROWS], labels[:ROWS], region[:ROWS], budget=3)
    assert np.array_equal(audit.predict(X), clone(model).fit(X[:ROWS], labels[:ROWS]).predict(X))
    population = audit.explain_all(
        X[ROWS:], labels[ROWS:], sensitive_features=region[ROWS:], cases=range(4)
    )
    assert butfor.replay(population.found[0]).agrees
    with pytest.raises(TableError, match="which no training row has"):
        audit.explain_all(X[ROWS:], ["x"] * ASKED, sensitive_features=region[ROWS:])


# --- what is computed once, and what a model says of itself ---------------------------------------


def by_labels() -> BaseEstimator:
    """A transformer of somebody else's with a name that scikit-learn has too."""

    class StandardScaler(BaseEstimator, TransformerMixin):
        def fit(self, X, y):
            self.mean_ = X[np.asarray(y) == 1].mean().to_numpy()
            return self

        def transform(self, X):
            return X.to_numpy() - self.mean_

    return StandardScaler()


@pytest.mark.parametrize(
    ("preprocessing", "once"),
    [
        (StandardScaler(copy=False), True),
        (SelectKBest(f_classif, k=3), False),
        (by_labels(), False),
    ],
    ids=[
        "no label has a say",
        "labels choose columns",
        "labels have a say, by a name that is known",
    ],
)
def test_preprocessing_without_labels_is_done_once_and_changes_nothing(preprocessing, once):
    rng = np.random.default_rng(0)
    X, weight = pd.DataFrame(rng.normal(size=(80, 5)), columns=list("abcde")), rng.random(80) + 0.5
    y = pd.Series((X["a"] + rng.normal(size=80) > 0).astype(int))
    model = make_pipeline(preprocessing, SVC())
    learner, table, before = as_learner(model), Table(X, y, weight=weight), X.copy()
    fits = [learner.fit(table, table.labels(flips)) for flips in ((), (3,), (5, 9))]
    assert (fits[0].steps[0] is fits[1].steps[0]) == once
    assert X.equals(before)  # also if the scaler may write into its input
    for fit, flips in zip(fits, ((), (3,), (5, 9)), strict=True):
        own = clone(model).fit(
            before.copy(), table.classes[table.labels(flips).astype(int)], svc__sample_weight=weight
        )
        np.testing.assert_array_equal(
            fit.logits(before[:30]), own.decision_function(before[:30].copy()).astype("f4")
        )


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2, ROWS)], ids=["alike", "weighted"])
def test_influence_for_ridge_is_exact_and_for_logistic_regression_newtons(weight):
    newton = LogisticRegression(solver="newton-cholesky")
    columns = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), ["région"]))
    nested = make_pipeline(columns, make_pipeline(StandardScaler(with_mean=False), newton))
    for model, share, error in (
        (RidgeClassifier(alpha=2.0), 1e-5, 1e-6),
        (newton, 0.2, 0.02),
        (nested, 0.2, 0.02),
    ):
        audit = fitted(model, fit={"sample_weight": weight})
        scores = as_ranking("influence").score(audit.model_, audit.table_, PEOPLE)
        before = audit.model_.logits(PEOPLE)
        for row in (0, 99):
            after = audit.learner_.fit(audit.table_, audit.table_.labels((row,))).logits(PEOPLE)
            real = (after - before) * np.where(before > 0, -1, 1)
            assert scores[:, row] == pytest.approx(real, rel=share, abs=error)
        assert "influence" in RankingMix.of(audit.model_).parts


def test_what_pulls_a_decision_adds_up_to_it():
    for model in (LogisticRegression(), columns_pipeline(), butfor.MLP((5,), max_epochs=9)):
        verdict = fitted(model).explain(PEOPLE.iloc[[3]])
        weights = verdict.local_weights()
        assert weights["pull"].sum() == pytest.approx(verdict.logit, abs=1e-4)
        assert list(weights["pull"].abs()) == sorted(weights["pull"].abs(), reverse=True)
        if not hasattr(model, "steps"):
            assert set(weights.index) == {*PEOPLE.columns, "(bias)"}
            assert weights.loc["# debts", "value"] == PEOPLE.iloc[3]["# debts"]


# --- answers that hold only where one looks closely: sparse inputs, ties of neighbours, torch in a pipeline ------


@pytest.mark.parametrize(
    "model", [RidgeClassifier(), *map(butfor.ThresholdedRegressor, (Ridge(), LinearRegression()))]
)
def test_proofs_are_for_dense_inputs_alone(model):
    towns = LOANS.assign(town=np.arange(ROWS + ASKED) % 30)
    for sparse in (True, False):
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
        columns = make_column_transformer(
            (encoder, ["protected group?", "région", "town"]), remainder="passthrough"
        )
        audit = fitted(make_pipeline(columns, model), towns[:ROWS], **OPEN)
        if sparse:
            with pytest.raises(SettingError, match="There is no proof for"):
                audit.brackets(towns[ROWS:])
        else:
            assert len(audit.brackets(towns[ROWS:])) == ASKED


def test_neighbours_decide_the_same_about_many_people_as_about_each():
    rng = np.random.default_rng(0)
    coarse = [
        pd.DataFrame({f"c{k}": rng.integers(0, 3, n).astype(str) for k in range(9)})
        for n in (300, 400)
    ]
    X, asked = (frame.assign(sex=rng.choice(["f", "m"], len(frame))) for frame in coarse)
    audit = fitted(
        KNeighborsClassifier(5), X, pd.Series(rng.integers(0, 2, 300)), "sex", budget=2, **OPEN
    )
    alone = np.concatenate([audit.model_.logits(asked.iloc[[k]]) for k in range(60)])
    assert np.array_equal(audit.model_.logits(asked)[:60], alone)
    brackets = audit.brackets(asked)
    assert brackets[:200] == audit.brackets(asked.iloc[:200])
    assert all(confirmed(audit, asked.iloc[:40], brackets[:40]))


@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_a_torch_model_may_stand_in_a_pipeline():
    pytest.importorskip("torch")
    pytest.importorskip("skorch")
    as_floats = FunctionTransformer(np.asarray, kw_args={"dtype": np.float32})
    model = make_pipeline(StandardScaler(), as_floats, skorch())
    assert (
        fitted(model, TRAINING[NUMBERS], groups=LOANS["région"][:ROWS], members=2).fitted_.members
        == 2
    )


# --- records, copies and models of one's own ------------------------------------------------------


def test_a_record_brings_the_learner_back_and_starts_no_code_of_its_own():
    learners = [as_learner(make()) for name, make in MODELS.items() if name != "skorch"]
    for learner in (*learners, as_learner(SVC(), butfor.TableEncoder("ordinal"))):
        again = learner_of(pickle.loads(pickle.dumps(learner.record())))
        assert again.record() == learner.record()
        assert repr(again.estimator) == repr(learner.estimator)
    record = as_json.describe(LogisticRegression())
    for path, said in (
        ("os:system", "may not load such code"),
        ("test_models:Moody", "may not load such code"),
        ("sklearn:show_versions", "may not load such code"),
        ("sklearn.nowhere:Thing", "not installed"),
    ):
        with pytest.raises(ReplayError, match=said):
            as_json.rebuild(record | {"class": path})


class Fussy(butfor.Learner):
    """Its own code fails, or memory runs out, on other labels than the recorded ones."""

    name = "fussy"

    def __init__(self, error):
        self.error = error

    def fit(self, table, labels):
        if list(labels) != list(table.y):
            raise self.error
        return Constant(lambda n: np.full(n, -1.0, np.float32))

    def record(self):
        return {"kind": "fussy"}


def test_a_learner_of_ones_own_that_fails_on_flipped_labels_counts_as_failed_trainings():
    verdict = fitted(Fussy(ZeroDivisionError("no")), **OPEN).explain(PEOPLE[:1])
    assert "of these trainings failed or diverged" in str(verdict)
    with pytest.raises(MemoryError):
        fitted(Fussy(MemoryError()), **OPEN).explain(PEOPLE[:1])


def test_parameters_are_recorded_and_what_a_record_cannot_bring_back_is_named():
    def nearest(model, table, people):
        return np.zeros((len(people), table.n))

    def recorded(model, **settings):
        return run_of(fitted(model, TRAINING[:60], LABELS[:60], **settings).fitted_)

    lost = recorded(
        KNeighborsClassifier(metric=gap),
        rank=nearest,
        phi=lambda s: s.logits < 9,
        strategy="singles",
    )
    assert [line.split(":")[0] for line in lost.not_rebuildable] == [
        "model.metric",
        "data",
        "phi",
        "rank",
    ]
    run = recorded(
        LogisticRegression(), rank=Surrogate(ridge=50), strategy=partial(guided, tries=3)
    )
    assert run.rank_parameters == {"ridge": 50, "signed": False}
    assert run.strategy_parameters == {"tries": 3}
    assert run.learner["estimator"]["params"]["C"] == 1.0
    assert run.not_rebuildable == ("data: the table was given in Python",)
    run = recorded(LogisticRegression(), rank=Combined([Surrogate(7), Distance()]))
    assert run.rank_parameters["parts"][0] == {"name": "surrogate", "ridge": 7, "signed": False}


def test_an_audit_opens_nothing_before_fit_leaves_what_it_is_given_and_pickles(tmp_path):
    audit = butfor.LabelAudit(
        LogisticRegression(C=3), encoder=butfor.TableEncoder("ordinal"), budget=4, fresh_seeds=2
    )
    audit.set_params(ledger=tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    other = clone(audit).set_params(model__C=5, budget=2, ledger=None)
    assert (other.model.C, audit.model.C, other.budget) == (5, 3, 2)
    other.fit(TRAINING, LABELS, sensitive_features="région")
    assert not hasattr(other.model, "coef_")
    assert not hasattr(other.encoder, "blocks_")
    for each in (other, fitted(butfor.MLP((4,), max_epochs=3), members=2, budget=2)):
        ours, theirs = (
            audit.explain_all(PEOPLE, cases=range(3))
            for audit in (each, pickle.loads(pickle.dumps(each)))
        )
        assert [v.positions for v in ours] == [v.positions for v in theirs]
    assert (ours[-1].case, [v.case for v in ours[:2]], ours.about(1)) == (2, [0, 1], ours[1])


def test_a_model_of_ones_own_from_the_command_line(capsys, tmp_path, monkeypatch):
    odd_table(120).to_csv(tmp_path / "loans.csv", index=False)
    module = ["from sklearn.naive_bayes import GaussianNB", "ready = GaussianNB()"]
    module += ["class Own(GaussianNB):", "    pass", "def made():", "    return Own()"]
    (tmp_path / "ours_for_test.py").write_text("\n".join(module))
    monkeypatch.chdir(tmp_path)
    given = (
        "audit loans.csv --label granted --sensitive région --budget 1 --cases 0:2 --members "
        "1 --fresh-seeds 0"
    )
    for name in ("ready", "made"):
        assert main([*given.split(), "--model", f"ours_for_test:{name}", "--out", name]) == 0
    assert main(["replay", "ready/audit.json"]) == 0
    assert main(["replay", "made/audit.json"]) == 2
    assert "may not load such code" in capsys.readouterr().err
    assert main(["replay", "made/audit.json", "--model", "ours_for_test:made"]) == 0
    sys.modules.pop("ours_for_test")


class Nearest(butfor.Learner, butfor.Model):
    """Decides as the nearest training row by income is labelled; both the learner and, once fitted,
    the model."""

    name = "nearest by income"

    def fit(self, table, labels):
        model = Nearest()
        model.rows, model.labels = table.X, labels
        return model

    def record(self):
        return {"kind": "nearest"}

    def nearest(self, people):
        return np.abs(
            np.subtract.outer(people[NUMBERS[0]].to_numpy(), self.rows[NUMBERS[0]].to_numpy())
        ).argmin(axis=1)

    def logits(self, people):
        return (2 * self.labels[self.nearest(people)] - 1).astype(np.float32)


def test_a_learner_of_ones_own():
    audit = butfor.LabelAudit(Nearest(), budget=1, psi="same_group & labelled_as_predicted")
    audit.fit(TRAINING, LABELS, sensitive_features="région")
    for verdict, row in zip(audit.explain_all(PEOPLE), audit.model_.nearest(PEOPLE), strict=True):
        same = TRAINING["région"].iloc[row] == verdict.group
        assert verdict.found == same
        assert verdict.positions == ((row,) if same else ())
    assert (
        run_of(audit.fitted_).not_rebuildable[0]
        == "model: nearest by income is a learner of the user's own"
    )


class Votes(butfor.Model):
    """One's own model that knows how labels decide: each row's label counts by a fixed weight."""

    exact = True

    def __init__(self, rows, labels):
        self.rows = rows
        self.labels = labels

    def weights(self, people):
        column = NUMBERS[0]
        away = np.subtract.outer(people[column].to_numpy(), self.rows[column].to_numpy())
        return 1 / (1 + np.abs(away))

    def logits(self, people):
        return (self.weights(people) @ (2 * self.labels - 1)).astype(np.float32)

    def flip_effects(self, table, people, contrast=None):
        return self.weights(people) * (2 - 4 * table.zero_one)


@pytest.mark.parametrize("threshold", [0.5, 0.4])
def test_abilities_of_ones_own_model_are_asked_for_by_rankings_and_proofs(threshold):
    class Voting(butfor.Learner):
        name = "votes"
        fit = staticmethod(lambda table, labels: Votes(table.X, labels))
        record = staticmethod(lambda: {"kind": "votes"})

    audit = butfor.LabelAudit(
        Voting(), budget=3, rank="influence", threshold=threshold, phi="everyone", psi="everything"
    )
    audit.fit(TRAINING, LABELS, sensitive_features="région")
    population = audit.explain_all(PEOPLE)
    assert population.eligible
    assert all(v.exact or v.status in ("proven_none", "not_found") for v in population.eligible)
    assert all(v.at_least is not None for v in population.eligible)
    model = audit.model_
    assert model.ability(abilities.FlipEffects) is model
    for other in (abilities.Leaves, abilities.Inputs, abilities.Pulls, abilities.AsNetwork):
        assert model.ability(other) is None
    with pytest.raises(SettingError, match="a tree"):
        butfor.LabelAudit(Voting(), rank="leaves").fit(
            TRAINING, LABELS, sensitive_features="région"
        ).explain_all(PEOPLE)


def test_a_ranking_may_name_what_it_asks_for():
    class Own(butfor.Ranking):
        name = "own"
        asks = "leaves"

    for model, can in (
        (RandomForestClassifier(5, random_state=0), True),
        (RidgeClassifier(), False),
    ):
        audit = butfor.LabelAudit(model, budget=1, members=1, threshold=0.4 if can else 0.5)
        audit.fit(LOANS[NUMBERS], GRANTED, sensitive_features=LOANS["région"])
        assert Own().accepts(audit.model_) == can


def test_with_fewer_rows_than_columns_effects_are_the_same_by_the_smaller_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    X, asked = rng.normal(size=(30, 80)), rng.normal(size=(5, 80))
    names = [f"c{k}" for k in range(80)]
    rows = pd.DataFrame(X, columns=names)
    for classes, model in (
        (2, RidgeClassifier()),
        (2, LogisticRegression()),
        (3, LogisticRegression()),
    ):
        y = pd.Series(np.arange(30) % classes)
        codes = y.to_numpy()
        table = SimpleNamespace(
            n=30, weight=None, codes=codes, new_codes=(codes + 1) % classes, zero_one=codes
        )
        contrast = None if classes == 2 else np.tile([[1.0, -1.0, 0.0]], (5, 1))
        fitted = model_of(model.fit(rows, y), None, model.classes_)
        small = fitted.effects(X, asked, table, contrast)
        with monkeypatch.context() as patched:
            patched.setattr(linear, "spanned", lambda X, *others: (X, *others))
            assert np.allclose(small, fitted.effects(X, asked, table, contrast), atol=1e-6)
    z = Surrogate().weights(X, asked)
    assert np.allclose(z, asked @ np.linalg.solve(X.T @ X + np.eye(80), X.T))
    with monkeypatch.context() as patched:  # nothing of columns × columns is made
        whole = np.eye
        patched.setattr(
            np, "eye", lambda size, *rest, **how: whole(size, *rest, **how) if size < 80 else 1 / 0
        )
        Surrogate().weights(X, asked)
        linear.ridge_effects(RidgeClassifier(), X, asked, np.zeros(30), np.ones(30))
