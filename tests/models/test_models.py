"""Any model through the seam: what is accepted, what is refused, and that every find is the model's own."""

import pickle
import sys
import textwrap
import warnings
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import butfor
from benchmarks.proofs import confirmed
from butfor.cli import main
from butfor.errors import LearnerError, SettingError, TableError
from butfor.measured import run_of
from butfor.models import estimators as describe
from butfor.models.engines import OwnFit
from butfor.models.learner import Table, Training
from butfor.models.learners import as_learner, learner_of, model_named
from butfor.progress import Progress
from butfor.rank import as_ranking
from butfor.rank.mix import RankingMix
from butfor.rank.named import Combined, Distance, Surrogate
from butfor.search import guided
from conftest import odd_table

ROWS, ASKED = 160, 25


def loans(rows=ROWS + ASKED):
    table = odd_table(rows)
    return table.drop(columns="granted"), table["granted"]


LOANS, GRANTED = loans()
TRAINING, LABELS, PEOPLE = LOANS[:ROWS], GRANTED[:ROWS], LOANS[ROWS:]
NUMBERS = ["Income (k€), net", "# debts"]


def fitted_model(model, **fit):
    """An audit of a model, and people to ask about."""
    audit = butfor.LabelAudit(model, budget=4, members=1, fresh_seeds=0)
    return audit.fit(TRAINING, LABELS, sensitive_features="région", **fit), PEOPLE


@cache
def audit_of(name):
    """The same for a model by name, fitted once."""
    return fitted_model(MODELS[name]())


def xgboost():
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=12, random_state=0)


def lightgbm():
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=12, random_state=0, verbose=-1)


def skorch():
    from skorch import NeuralNetClassifier
    from torch import nn

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 2), nn.Softmax(dim=-1))

        def forward(self, X):
            return self.layers(X)

    return NeuralNetClassifier(Small, max_epochs=4, lr=0.1, train_split=None)


def columns_pipeline():
    numeric, words = ["Income (k€), net", "# debts"], ["protected group?", "région", "member"]
    columns = make_column_transformer((StandardScaler(), numeric), (OneHotEncoder(), words))
    return make_pipeline(columns, LogisticRegression())


MODELS = {
    "logistic": lambda: LogisticRegression(),
    "ridge": lambda: RidgeClassifier(),
    "svc": lambda: SVC(),
    "neighbours": lambda: KNeighborsClassifier(),
    "bayes": lambda: GaussianNB(),
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(8, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(8, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=12, random_state=0),
    "mlp": lambda: MLPClassifier((6,), max_iter=30, random_state=0),
    "calibrated": lambda: CalibratedClassifierCV(GaussianNB(), cv=2),
    "discriminant": lambda: LinearDiscriminantAnalysis(),  # these three can transform, yet are no preprocessing
    "voting": lambda: VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())], voting="soft"),
    "stacking": lambda: StackingClassifier([("a", GaussianNB())], cv=2),
    "pipeline": columns_pipeline,
    "xgboost": xgboost,
    "lightgbm": lightgbm,
    "skorch": skorch,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Lazy modules:UserWarning")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_what_is_found_is_what_the_users_own_fit_says(name):
    given = MODELS[name]()
    audit = butfor.LabelAudit(given, budget=10, members=1, fresh_seeds=0, n_jobs=1)
    audit.fit(TRAINING, LABELS, sensitive_features="région")
    population = audit.explain_all(PEOPLE, GRANTED[ROWS:], cases=range(12), stop=butfor.max_retrainings(40))
    assert not hasattr(given, "classes_")  # the user's object is not touched
    if name in ("logistic", "boosting", "neighbours", "svc", "pipeline"):  # which plain scikit-learn trains alike
        encode = butfor.TableEncoder(dtype="float64").fit(TRAINING).transform if name != "pipeline" else lambda X: X
        theirs = MODELS[name]().fit(encode(TRAINING), LABELS).predict(encode(PEOPLE))
        assert np.array_equal(audit.model_.logits(PEOPLE) > 0, theirs)
    decided = audit.model_.logits(PEOPLE) > 0
    assert [verdict.prediction for verdict in population] == [f"granted = {one}" for one in decided[:12]]
    verdict = population.found[0]
    D, labels = verdict.dataset()
    assert (labels != LABELS).sum() == len(verdict.positions) <= 10
    with warnings.catch_warnings(action="ignore"):
        again = audit.learner_.fit(Table(D, labels), Table(D, labels).labels())
    after = again.logits(PEOPLE[verdict.case : verdict.case + 1])[0] > 0
    assert verdict.counterfactual_prediction == f"granted = {after}"
    assert after != decided[verdict.case]
    assert butfor.replay(verdict, audit=audit).agrees


# --- margins --------------------------------------------------------------------------------------------


class Faint(LogisticRegression):
    """Its margins are too small for a float of four bytes."""

    def decision_function(self, X):
        return 1e-60 * super().decision_function(X)


def test_a_margin_too_small_for_a_float_keeps_its_side():
    audit, own = on()(Faint()), LogisticRegression().fit(LOANS[NUMBERS], GRANTED)
    decided = own.predict(LOANS[NUMBERS])
    assert len(set(decided)) == 2
    assert np.array_equal(audit.predict(LOANS[NUMBERS]), decided)


# --- what is refused, and how ---------------------------------------------------------------------------


class Hidden(ClassifierMixin, BaseEstimator):
    """A classifier that gives decisions alone."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


class Moody(ClassifierMixin, BaseEstimator):
    """Answers otherwise each time, whatever its parameters."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)

    def decision_function(self, X):
        return np.random.default_rng().normal(size=len(X))


WRONG = {
    "engine": (5, OwnFit, "local:0", "local:²", "local", "local:99999999999", "tcp://here", ""),
    "n_jobs": ("2", 0, -2, 100_000, 1.5, True),
    "random_state": (None, -1, 2**32, 0.5, True),
    "rank": (type("R", (), {"score": None}),), "strategy": ([],), "fresh_seeds": (None,),
}  # fmt: skip
HOLED = LOANS[NUMBERS].where(lambda X: X["# debts"] > 0)
WEIGHT = np.ones(ROWS + ASKED)


def gap(one, other):
    """A distance that a record cannot store."""
    return np.abs(one - other).sum()


def on(X=None, **fit):
    """Fits a model to the numbers of the table."""

    def fitted(model, **settings):
        audit = butfor.LabelAudit(model, **settings)
        return audit.fit(LOANS[NUMBERS] if X is None else X, GRANTED, sensitive_features=LOANS["région"], **fit)

    return fitted


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: on()(LogisticRegression), "is a class; give an instance, LogisticRegression()"),
        (lambda: on()(LinearRegression()), r"is not a classifier.* use butfor\.ThresholdedRegressor"),
        (lambda: on()(Hidden()), "neither decision_function nor predict_proba"),
        (lambda: on()(Moody()), "fitted twice.*Fix its seed .* or other sources of randomness"),
        (lambda: on()("forest"), "neither a scikit-learn classifier nor a learner"),
        (lambda: on()(42), "neither a scikit-learn classifier nor a learner"),
        (lambda: on()(torch_module()), r"skorch\.NeuralNetClassifier"),
        (lambda: on(HOLED)(LogisticRegression()), "LogisticRegression could not be trained on this table: Input X"),
        (lambda: on()(butfor.MLP((4,), learning_rate=1e30, max_epochs=3)), "Training diverged.*Lower the learning"),
        (lambda: on()(KNeighborsClassifier(), encoder=StandardScaler()), "into a pipeline with the model"),
        (lambda: on()(KNeighborsClassifier(), encoder="ordinal"), "into a pipeline with the model"),
        (lambda: on(sample_weight=WEIGHT)(KNeighborsClassifier()), "KNeighborsClassifier takes no sample_weight"),
        (lambda: on(sample_weight=-WEIGHT)(LogisticRegression()), "finite numbers, at least 0"),
        (lambda: on(sample_weight=[np.nan, *WEIGHT[1:]])(LogisticRegression()), "weight of row 0 is missing"),
        (lambda: audit_of("bayes")[0].explain(PEOPLE[:1]).local_weights(), "no local linear model"),
        (lambda: audit_of("bayes")[0].with_search("gradient"), "'gradient' needs .*, and this is an audit of Gauss"),
        (lambda: ask(KNeighborsClassifier(metric=gap), ledger="l.sqlite"), "ledger"),
        (lambda: ask(phi=butfor.rules.stable_under_switch), r"write stable_under_switch\(\)"),
        *((lambda name=name, value=value: ask(**{name: value}), name) for name in WRONG for value in WRONG[name]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_cannot_be_audited_is_refused_before_any_search(asked, said):
    with pytest.raises((LearnerError, SettingError, TableError), match=said):
        asked()


def ask(model=None, **settings):
    on()(model or LogisticRegression(), **settings).explain_all(
        LOANS[NUMBERS][:1], sensitive_features=LOANS["région"][:1]
    )


def torch_module():
    return pytest.importorskip("torch").nn.Linear(2, 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_seed_that_nobody_fixed_is_the_audits_wherever_it_stands():
    for model, name in (
        (RandomForestClassifier(5), "random_state"),
        (make_pipeline(StandardScaler(), MLPClassifier((3,), max_iter=2)), "mlpclassifier__random_state"),
    ):
        lines = Lines()
        audit = on(progress=lines)(model, members=1, random_state=7)
        assert audit.learner_.estimator.get_params()[name] == audit.learner_.own_seed == 7
        assert model.get_params()[name] is None  # it is theirs
        said = f"{type(model).__name__} came without a fixed seed, so '{name}' is set to 7, the audit's random_state."
        assert [line for line in lines.heard if "random_state" in line] == [said]
    fixed = Lines()
    for model, matters in (
        (LogisticRegression(), False),
        (HistGradientBoostingClassifier(max_iter=4, random_state=3), False),
        (RandomForestClassifier(5, random_state=3), True),
    ):
        assert on(progress=fixed)(model, members=1).fitted_.seeded is matters
    assert not [line for line in fixed.heard if "random_state" in line]


class Lines(Progress):
    """Keeps what it is told."""

    def __init__(self):
        self.heard = []

    def note(self, line):
        self.heard.append(line)


def test_a_flip_set_whose_training_diverges_has_no_answer():
    class Fragile(LogisticRegression):
        """Breaks where the third label is turned."""

        def fit(self, X, y):
            if y[2] != FIRST[2]:
                raise ValueError("no")
            return super().fit(X, y)

    FIRST, seen, region = LABELS.astype(int).to_numpy(), LOANS[NUMBERS], LOANS["région"]
    audit = butfor.LabelAudit(
        Fragile(), budget=1, strategy="exhaustive", psi="everything", members=1, fresh_seeds=0, engine="joblib"
    )
    audit.fit(seen[:50], GRANTED[:50], sensitive_features=region[:50])
    train = OwnFit(1).bind(audit.learner_, audit.table_, seen[ROWS:])
    answers = train([Training((2,)), Training((3,))])
    assert np.isnan(answers[0]).all()
    assert np.isfinite(answers[1]).all()
    population = audit.explain_all(seen[ROWS:], sensitive_features=region[ROWS:])
    assert all(2 not in v.positions for v in population.found)
    assert "NaN" not in population.to_json()


# --- the protected attribute ----------------------------------------------------------------------------


def test_attributes_that_the_model_does_not_see_are_their_combinations():
    seen, groups = LOANS.drop(columns=["région", "member"]), LOANS[["région", "member"]]
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, members=1, fresh_seeds=0)
    audit.fit(seen[:ROWS], LABELS, sensitive_features=groups[:ROWS])
    population = audit.explain_all(seen[ROWS:], sensitive_features=groups[ROWS:])
    assert len(population.eligible) == ASKED  # φ's switch holds for everyone
    joint = groups["région"].astype(str) + " · " + groups["member"].astype(str)
    assert [verdict.group for verdict in population] == list(joint[ROWS:])
    assert all(set(joint.iloc[list(v.positions)]) == {v.group} for v in population.found)
    with pytest.raises(SettingError, match="beside the table"):
        audit.explain_all(seen[ROWS:])


# --- weights, and rows set aside ------------------------------------------------------


def test_weights_reach_the_learner_and_every_retraining():
    weight = np.where(np.arange(ROWS) < 80, 3.0, 0.1)
    seen, asked, region = TRAINING[NUMBERS], PEOPLE[NUMBERS], LOANS["région"]
    for model in (LogisticRegression(tol=1e-8), make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8))):
        audit = butfor.LabelAudit(model, budget=5, members=1, fresh_seeds=0, phi="everyone", psi="everything")
        audit.fit(seen, LABELS, sample_weight=weight, sensitive_features=region[:ROWS])
        given = {"logisticregression__sample_weight" if hasattr(model, "steps") else "sample_weight": weight}
        own = clone(model).fit(seen, LABELS, **given)
        assert audit.model_.logits(asked) == pytest.approx(own.decision_function(asked), abs=1e-4)
        verdict = audit.explain_all(asked, sensitive_features=region[ROWS:], cases=range(10)).found[0]
        decided = own.fit(seen, verdict.dataset()[1], **given).predict(asked)[verdict.case]
        assert verdict.counterfactual_prediction == f"granted = {decided}"


def test_rows_set_aside_come_back_in_the_dataset_and_do_not_reach_the_encoder():
    X, y = loans(400)
    network = butfor.MLP((6,), max_epochs=30, batch_size=None)
    audit = butfor.LabelAudit(network, budget=8, members=1, fresh_seeds=0)
    audit.fit(X[:360], y[:360], sensitive_features="région")
    verdict = audit.explain_all(X[360:], cases=range(20)).found[0]
    assert "of 270 training labels" in verdict.sentence
    D, labels = verdict.dataset()
    assert D.equals(X[:360])
    changed = np.flatnonzero((labels != y[:360]).to_numpy())
    assert list(labels.index[changed]) == sorted(verdict.flips.index)
    assert butfor.replay(verdict).agrees
    kept = audit.table_.whole[2]
    assert y[:360].iloc[kept].sum() == pytest.approx(0.75 * y[:360].sum(), abs=1)  # both labels have their share
    alone = butfor.TableEncoder().fit(X[:360].iloc[kept])
    assert np.array_equal(audit.model_.rows.X, alone.transform(X[:360].iloc[kept]))
    assert not np.array_equal(alone.transform(X[:360]), butfor.TableEncoder().fit_transform(X[:360]))


# --- rankings and the guided search ---------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2, ROWS)])
def test_influence_for_ridge_is_exact_and_for_logistic_regression_newtons(weight):
    newton = LogisticRegression(solver="newton-cholesky")
    columns = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), ["région"]))
    nested = make_pipeline(columns, make_pipeline(StandardScaler(with_mean=False), newton))
    for model, share in ((RidgeClassifier(alpha=2.0), 1e-5), (newton, 0.2), (nested, 0.2)):
        audit, people = fitted_model(model, sample_weight=weight)
        scores = as_ranking("influence").score(audit.model_, audit.table_, people)
        before = audit.model_.logits(people)
        for row in (0, 99):
            after = audit.learner_.fit(audit.table_, audit.table_.labels((row,))).logits(people)
            real = (after - before) * np.where(before > 0, -1, 1)
            assert scores[:, row] == pytest.approx(real, rel=share, abs=1e-6 if share < 0.1 else 0.02)
    assert "influence" in RankingMix.of(audit.model_).parts


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("name", ["tree", "forest", "boosting", "xgboost", "lightgbm"])
def test_leaves_are_shared_with_oneself_and_with_some(name):
    audit, people = audit_of(name)
    ranking = as_ranking("leaves")
    itself = ranking.score(audit.model_, audit.table_, audit.table_.X[:5])
    assert itself[np.arange(5), np.arange(5)] == pytest.approx(1)
    scores = ranking.score(audit.model_, audit.table_, people)
    assert scores.min() >= 0
    assert 0 < scores.mean() < 1
    if name == "tree":
        own, encode = audit.model_.final, audit.model_.front.encoder.transform
        assert np.array_equal(scores, np.equal.outer(*(own.apply(encode(X)) for X in (people, audit.table_.X))))
    assert list(RankingMix.of(audit.model_).parts) == ["leaves", "surrogate-signed", "distance"]


def test_the_guided_search_takes_what_accepts_the_model():
    audit, people = audit_of("bayes")
    assert list(RankingMix.of(audit.model_).parts) == ["surrogate-signed", "distance"]
    figures = audit.explain_all(people, cases=range(10)).run.agreement
    assert figures.leader in ("both", "surrogate-signed", "distance")
    assert figures.spearman is None
    for protocol in ("algorithm1", "singles", "attempts", "exhaustive"):
        assert audit.with_search(None, protocol).fitted_.ranking.name == "surrogate-signed"


# --- records --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in MODELS if n != "skorch"])
def test_a_record_brings_the_learner_back(name):
    learner = as_learner(MODELS[name](), butfor.TableEncoder("ordinal") if name == "svc" else None)
    again = learner_of(pickle.loads(pickle.dumps(learner.record())))
    assert again.record() == learner.record()
    assert repr(again.estimator) == repr(learner.estimator)


def test_a_record_does_not_start_code_of_its_own():
    record = describe.describe(LogisticRegression())
    for path in ("os:system", "subprocess:Popen", "test_models:Moody"):
        with pytest.raises(butfor.errors.ReplayError, match="may not load such code"):
            describe.rebuild(record | {"class": path})
    with pytest.raises(butfor.errors.ReplayError, match="not an estimator"):
        describe.rebuild(record | {"class": "sklearn:show_versions"})
    with pytest.raises(butfor.errors.ReplayError, match="not installed"):
        describe.rebuild(record | {"class": "sklearn.nowhere:Thing"})


def test_parameters_are_recorded_and_what_a_record_cannot_bring_back_is_named():
    def nearest(model, table, people):
        return np.zeros((len(people), table.n))

    def recorded(model, **settings):
        audit = butfor.LabelAudit(model, budget=2, members=1, fresh_seeds=0, **settings)
        return run_of(audit.fit(TRAINING[:60], LABELS[:60], sensitive_features="région").fitted_)

    lost = recorded(KNeighborsClassifier(metric=gap), rank=nearest, phi=lambda s: s.logits < 9, strategy="singles")
    assert [line.split(":")[0] for line in lost.not_rebuildable] == ["model.metric", "data", "phi", "rank"]
    run = recorded(LogisticRegression(), rank=Surrogate(ridge=50), strategy=partial(guided, tries=3))
    assert run.rank_parameters == {"ridge": 50, "signed": False}
    assert run.strategy_parameters == {"tries": 3}
    assert run.learner["estimator"]["params"]["C"] == 1.0
    assert run.not_rebuildable == ("data: the table was given in Python",)
    run = recorded(LogisticRegression(), rank=Combined([Surrogate(7), Distance()]))
    assert run.rank_parameters["parts"][0] == {"name": "surrogate", "ridge": 7, "signed": False}


# --- scikit-learn's manners -----------------------------------------------------------------------------


def test_an_audit_opens_nothing_before_fit_leaves_what_it_is_given_and_pickles(tmp_path):
    audit = butfor.LabelAudit(LogisticRegression(C=3), encoder=butfor.TableEncoder("ordinal"), budget=4, fresh_seeds=2)
    audit.set_params(ledger=tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    other = clone(audit).set_params(model__C=5, budget=2, ledger=None)
    assert (other.model.C, audit.model.C, other.budget) == (5, 3, 2)
    other.fit(TRAINING, LABELS, sensitive_features="région")
    assert not hasattr(other.model, "coef_")
    assert not hasattr(other.encoder, "blocks_")
    network = butfor.LabelAudit(butfor.MLP((4,), max_epochs=3), members=2, budget=2)
    for each in (other, network.fit(TRAINING, LABELS, sensitive_features="région")):
        ours, theirs = (audit.explain_all(PEOPLE, cases=range(3)) for audit in (each, pickle.loads(pickle.dumps(each))))
        assert [v.positions for v in ours] == [v.positions for v in theirs]
    assert (ours[-1].case, [v.case for v in ours[:2]], ours.about(1)) == (2, [0, 1], ours[1])


def test_what_pulls_a_decision_adds_up_to_it():
    for model in (LogisticRegression(), RidgeClassifier(), columns_pipeline(), butfor.MLP((5,), max_epochs=9)):
        audit, people = fitted_model(model)
        verdict = audit.explain(people.iloc[[3]])
        weights = verdict.local_weights()
        assert weights["pull"].sum() == pytest.approx(verdict.logit, abs=1e-4)
        assert list(weights["pull"].abs()) == sorted(weights["pull"].abs(), reverse=True)
        if not hasattr(model, "steps"):
            assert set(weights.index) == {*people.columns, "(bias)"}
            assert weights.loc["# debts", "value"] == people.iloc[3]["# debts"]


# --- from the command line ------------------------------------------------------------------------------


def test_a_model_of_ones_own_from_the_command_line(capsys, tmp_path, monkeypatch):
    odd_table(300).to_csv(tmp_path / "loans.csv", index=False)
    (tmp_path / "ours_for_test.py").write_text(
        textwrap.dedent("""
        from sklearn.linear_model import SGDClassifier
        from sklearn.naive_bayes import GaussianNB

        ready = GaussianNB()

        class Own(SGDClassifier):
            pass

        def made():
            return Own(random_state=0)
        """)
    )
    monkeypatch.chdir(tmp_path)
    given = "audit loans.csv --label granted --sensitive région --budget 3 --cases 0:4 --members 1 --fresh-seeds 2"
    for name in ("ready", "made"):
        assert main([*given.split(), "--model", f"ours_for_test:{name}", "--out", name]) == 0
    assert main(["replay", "ready/audit.json"]) == 0
    assert main(["replay", "made/audit.json"]) == 2
    assert "may not load such code" in capsys.readouterr().err
    assert main(["replay", "made/audit.json", "--model", "ours_for_test:made"]) == 0
    sys.modules.pop("ours_for_test")


# --- from outside ---------------------------------------------------------------------------------------


class Nearest(butfor.Learner, butfor.Model):
    """Decides as the nearest training row by income is labelled; both the learner and, once fitted, the model."""

    name = "nearest by income"

    def fit(self, table, labels):
        model = Nearest()
        model.rows, model.labels = table.X, labels
        return model

    def record(self):
        return {"kind": "nearest"}

    def nearest(self, people):
        return np.abs(np.subtract.outer(people[NUMBERS[0]].to_numpy(), self.rows[NUMBERS[0]].to_numpy())).argmin(axis=1)

    def logits(self, people):
        return (2 * self.labels[self.nearest(people)] - 1).astype(np.float32)


def test_a_learner_of_ones_own():
    audit = butfor.LabelAudit(Nearest(), budget=1, psi="same_group & labelled_as_predicted")
    audit.fit(TRAINING, LABELS, sensitive_features="région")
    for verdict, row in zip(audit.explain_all(PEOPLE), audit.model_.nearest(PEOPLE), strict=True):
        same = TRAINING["région"].iloc[row] == verdict.group
        assert verdict.found == same
        assert verdict.positions == ((row,) if same else ())
    assert run_of(audit.fitted_).not_rebuildable[0] == "model: nearest by income is a learner of the user's own"


# --- what real tables and models do ---------------------------------------------------------------------


@pytest.mark.parametrize(("names", "weights"), [([1, 2], {1: 5, 2: 1}), (["owed", "paid"], {"owed": 1, "paid": 5})])
def test_class_weights_name_the_users_own_labels(names, weights):
    X, labels, region = LOANS[NUMBERS], GRANTED.map(dict(zip([False, True], names, strict=True))), LOANS["région"]
    model = LogisticRegression(solver="newton-cholesky", class_weight=weights)
    audit = butfor.LabelAudit(model, budget=3, members=1, fresh_seeds=0)
    audit.fit(X[:ROWS], labels[:ROWS], sensitive_features=region[:ROWS])
    own = clone(model).fit(X[:ROWS], labels[:ROWS])
    assert np.array_equal(audit.predict(X), own.predict(X))
    population = audit.explain_all(X[ROWS:], labels[ROWS:], sensitive_features=region[ROWS:], cases=range(4))
    assert population.found
    assert all(butfor.replay(v).agrees for v in population.found[:2])
    with pytest.raises(TableError, match="which no training row has"):
        audit.explain_all(X[ROWS:], ["x"] * ASKED, sensitive_features=region[ROWS:])


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_boosted_trees_of_other_packages_by_name(name, monkeypatch):
    model = model_named(name, 3)
    assert type(model).__module__.split(".")[0] == name
    assert model.get_params()["random_state"] == 3
    monkeypatch.setattr("butfor.models.learners.installed", lambda package: False)
    with pytest.raises(SettingError, match=f"pip install {name}"):
        model_named(name)


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
    [(StandardScaler(), True), (SelectKBest(f_classif, k=3), False), (by_labels(), False)],
    ids=["no label has a say", "labels choose columns", "labels have a say, by a name that is known"],
)
def test_preprocessing_without_labels_is_done_once_and_changes_nothing(preprocessing, once):
    rng = np.random.default_rng(0)
    X, weight = pd.DataFrame(rng.normal(size=(80, 5)), columns=list("abcde")), rng.random(80) + 0.5
    y = pd.Series((X["a"] + rng.normal(size=80) > 0).astype(int))
    model = make_pipeline(preprocessing, SVC())
    learner, table = as_learner(model), Table(X, y, weight=weight)
    before = X.copy()
    fits = [learner.fit(table, table.labels(flips)) for flips in ((), (3,), (5, 9))]
    assert (fits[0].estimator.steps[0][1] is fits[1].estimator.steps[0][1]) == once
    for fit, flips in zip(fits, ((), (3,), (5, 9)), strict=True):
        own = clone(model).fit(before.copy(), table.classes[table.labels(flips).astype(int)], svc__sample_weight=weight)
        np.testing.assert_array_equal(
            fit.logits(before.iloc[:30]), own.decision_function(before.iloc[:30]).astype("f4")
        )


# --- answers that hold only where one looks closely: sparse inputs, ties of neighbours, torch in a pipeline ------


def town_people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "town": rng.integers(0, 30, n).astype(str), "job": rng.choice(list("abcdefghij"), n),
        "sex": rng.choice(["f", "m"], n), "income": rng.lognormal(10, 1, n).round(),
    })  # fmt: skip


def one_hot(sparse: bool) -> object:
    words = make_column_selector(dtype_exclude="number")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
    return make_column_transformer((encoder, words), remainder="passthrough")


def labels(n: int) -> pd.Series:
    return pd.Series(np.random.default_rng(1).integers(0, 2, n))


@pytest.mark.parametrize("model", [RidgeClassifier(), *map(butfor.ThresholdedRegressor, (Ridge(), LinearRegression()))])
def test_proofs_are_for_dense_inputs_alone(model):
    audits = [
        butfor.LabelAudit(make_pipeline(one_hot(sparse), model), phi="everyone", psi="everything", fresh_seeds=0)
        for sparse in (True, False)
    ]
    sparse, dense = (audit.fit(town_people(60), labels(60), sensitive_features="sex") for audit in audits)
    with pytest.raises(SettingError, match="There is no proof for"):
        sparse.brackets(town_people(6, 2))
    assert len(dense.brackets(town_people(6, 2))) == 6


def test_neighbours_decide_the_same_about_many_people_as_about_each():
    rng = np.random.default_rng(0)
    coarse = [pd.DataFrame({f"c{k}": rng.integers(0, 3, n).astype(str) for k in range(9)}) for n in (300, 400)]
    X, asked = (frame.assign(sex=rng.choice(["f", "m"], len(frame))) for frame in coarse)
    audit = butfor.LabelAudit(KNeighborsClassifier(5), budget=2, phi="everyone", psi="everything")
    audit.fit(X, labels(300), sensitive_features="sex")
    together = audit.model_.logits(asked)
    alone = np.concatenate([audit.model_.logits(asked.iloc[[k]]) for k in range(60)])
    assert np.array_equal(together[:60], alone)
    brackets = audit.brackets(asked)
    assert brackets[:200] == audit.brackets(asked.iloc[:200])
    assert all(confirmed(audit, asked.iloc[:40], brackets[:40]))


def test_a_torch_model_may_stand_in_a_pipeline():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    as_floats = FunctionTransformer(np.asarray, kw_args={"dtype": np.float32})
    net = skorch.NeuralNetClassifier(torch.nn.Linear, module__in_features=1, module__out_features=2, max_epochs=1,
                                     criterion=torch.nn.CrossEntropyLoss)  # fmt: skip
    X = town_people(60)[["income"]]
    audit = butfor.LabelAudit(make_pipeline(StandardScaler(), as_floats, net), members=2, fresh_seeds=0)
    audit.fit(X, labels(60), sensitive_features=town_people(60)["sex"])
    assert audit.fitted_.members == 2
