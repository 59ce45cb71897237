"""Comparisons of standards: what they compute, what they find, what they refuse."""

import signal
import threading

import numpy as np
import pandas as pd
import pytest
from msgspec import convert
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor
from butfor.data.sensitive import Sensitive
from butfor.errors import LearnerError, SettingError, Stopped, TableError
from butfor.progress import Progress
from butfor.standard.boosting import fit_boosting
from butfor.standard.compare import compare
from butfor.standard.groups import GroupStandard
from butfor.standard.logistic import design_of, fit_logistic
from butfor.standard.model import OwnModel, TwoModels
from butfor.standard.null import CommonStandard
from butfor.stopping import halt_by
from conftest import press


def loans(rows=400, wronged=0.0, seed=0):
    """Loans decided by income and debts alone, but for a share of group b's that were refused all the same."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "group": rng.choice(["a", "b"], rows),
            "income": rng.normal(size=rows),
            "debts": rng.normal(size=rows),
            "town": rng.choice(["north", "south"], rows),
        }
    )
    granted = X["income"] - X["debts"] + 0.5 * rng.normal(size=rows) > 0
    wrong = granted & (X["group"] == "b") & (rng.random(rows) < wronged)
    return X, pd.Series(np.where(granted & ~wrong, "yes", "no")), wrong.to_numpy()


def compared(X, y, **how):
    how = {"sensitive_features": "group", "adverse": "no", "draws": 0, "n_jobs": 1} | how
    return butfor.compare_standards(X, y, **how)


def test_probabilities_come_from_a_model_of_the_other_rows_without_the_attribute():
    X, y, _ = loans()
    numbers, ours = X[["income", "debts"]], (X["group"] == "b").to_numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    found = compared(X.drop(columns="town"), y, standard=model)
    by_hand = model.fit(numbers[~ours], y[~ours] == "yes").predict_proba(numbers[ours])[:, 1]
    granted = (y[ours] == "yes").to_numpy()
    np.testing.assert_allclose(found.doubt[ours], np.where(granted, 1 - by_hand, by_hand))
    b = found.of_group("b")
    assert b.difference == pytest.approx(by_hand.mean() - granted.mean())
    assert b.missing == max(0, round((by_hand - granted).sum()))


def test_an_estimator_that_warns_in_every_fit_warns_once_per_group(recwarn):
    X, y, _ = loans()
    compared(X.drop(columns="town"), y, standard=LogisticRegression(max_iter=1), draws=6)
    assert len([warning for warning in recwarn if issubclass(warning.category, ConvergenceWarning)]) == 2


def test_wronged_labels_are_found_counted_and_doubted_most():
    X, y, wrong = loans(800, wronged=0.3)
    found = compared(X, y, draws=39)
    b = found.of_group("b")
    assert b.p < 1 / 40  # by the normal tail, and it says so
    assert any("normal approximation" in note for note in found.notes())
    assert "adjusted p ≤ 0.025, the smallest that 39 draws can show)." in found.answer
    assert b.differs
    truth = wrong.sum() / (X["group"] == "b").sum()
    assert b.interval[0] < truth < b.interval[1]
    assert b.interval[0] > 0
    assert abs(b.missing - wrong.sum()) < 0.5 * wrong.sum()
    first = np.argsort(-found.wrong)[: b.missing]
    assert wrong[first].mean() > 0.5
    assert (found.groups[first] == "b").all()
    assert not found.is_favourable[first].any()
    assert found.answer.startswith("People with group = b were labelled 'yes'")
    assert "less often than comparable people in other groups (95 % interval" in found.answer
    assert found.of_group("a").missing == 0


def test_without_bias_nothing_is_found():
    X, y, _ = loans()
    found = compared(X, y, draws=39)
    assert not any(c.differs for c in found.comparisons)
    assert all(c.interval[0] < 0 < c.interval[1] for c in found.comparisons)
    assert found.answer.startswith("No group was labelled 'yes' less often")


def shifted(rows=3000, seed=3):
    """Two groups that differ in their columns, and labels that the columns alone decide."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(rows) < 0.3, "b", "a")
    income = rng.normal(size=rows) - 1.2 * (group == "b")
    town = np.where(rng.random(rows) < 0.3 + 0.4 * (group == "b"), "north", "south")
    p = 1 / (1 + np.exp(-(1.5 * income + (town == "north"))))
    X = pd.DataFrame({"group": group, "income": income, "town": town})
    return X, p, rng.random(rows) < p


def test_groups_that_differ_in_their_columns_alone_do_not_differ():
    X, _, favourable = shifted()
    found = compared(X, np.where(favourable, "yes", "no"), draws=39)
    for c in found.comparisons:
        assert abs(c.raw_gap) > 0.1
        assert not c.differs
        assert c.interval[0] < 0 < c.interval[1]
        assert c.raw_gap == pytest.approx(c.explained + c.difference)


def test_labels_shifted_by_a_known_share_give_that_difference():
    X, _, favourable = shifted()
    nothing = compared(X, np.where(favourable, "yes", "no")).of_group("b")
    inside = np.flatnonzero(favourable & (X["group"] == "b").to_numpy())
    refused = inside[:: len(inside) // 60][:60]
    changed = favourable.copy()
    changed[refused] = False
    found = compared(X, np.where(changed, "yes", "no")).of_group("b")
    assert found.difference - nothing.difference == pytest.approx(60 / nothing.rows)
    assert found.raw_gap - nothing.raw_gap == pytest.approx(60 / nothing.rows)


def test_the_centre_is_subtracted_and_the_rest_adds_up():
    X, y, _ = loans(300)
    without, found = compared(X, y), compared(X, y, draws=20)
    for plain, c in zip(without.comparisons, found.comparisons, strict=True):
        assert c.centre != 0 == plain.centre
        assert c.difference == pytest.approx(plain.difference - c.centre)
        assert c.expected - c.recorded == pytest.approx(c.difference)
        assert plain.interval is None is plain.p
    assert without.answer.startswith("Without draws")


def test_it_is_deterministic_whatever_the_number_of_jobs():
    X, y, _ = loans(200)
    once, again = (compared(X, y, draws=30, n_jobs=jobs) for jobs in (1, 2))
    assert once.to_dict() == again.to_dict()
    np.testing.assert_array_equal(once.doubt, again.doubt)
    assert once.to_dict() != compared(X, y, draws=30, random_state=1).to_dict()
    own = LogisticRegression()
    once, again = (compared(X, y, draws=6, n_jobs=jobs, standard=own) for jobs in (1, 2))
    assert once.to_dict() == again.to_dict()


def test_several_attributes_are_compared_alone_and_together():
    X, y, _ = loans(600)
    found = compared(X, y, sensitive_features=["group", "town"], draws=10)
    names = [c.name for c in found.comparisons]
    assert names[:4] == ["group = a", "group = b", "town = north", "town = south"]
    assert names[4:] == [f"group × town = {a} · {b}" for a in "ab" for b in ("north", "south")]
    assert all(c.p <= c.p_adjusted <= 1 for c in found.comparisons)
    assert found.of_group("a · north").rows == ((X["group"] == "a") & (X["town"] == "north")).sum()
    assert np.isfinite(found.doubt).all()
    beside = compared(X[["income", "debts"]], y, sensitive_features=X[["group", "town"]], draws=10)
    assert beside.to_dict() == found.to_dict()
    ages = X[["group"]].assign(age=np.arange(len(X)) % 50)
    banded = compared(X[["income", "debts"]], y, sensitive_features=ages, sensitive_bands={"age": [25]})
    assert [c.name for c in banded.comparisons][2:4] == ["age = 25 and over", "age = under 25"]


def test_more_than_two_labels_are_two_sides():
    X, y, _ = loans()
    three = y.where(X["town"] == "north", y.replace("yes", "partly"))
    found = compared(X, three, adverse="no")
    assert found.favourable == "partly or yes"
    assert found.by_group.equals(compared(X, y).by_group)
    two = compared(X, three, adverse=["no", "partly"])
    assert two.favourable == "yes"
    assert two.of_group("a").recorded < found.of_group("a").recorded


def three_groups(rows=900):
    X, y, _ = loans(rows)
    X["group"] = np.random.default_rng(9).choice(["a", "b", "c"], rows)
    refused = (X["group"] == "c") & (np.arange(rows) % 3 > 0)
    return X, y.mask(refused, "no")


def test_a_reference_group_is_what_others_are_compared_with():
    X, y = three_groups()
    found = compared(X, y, reference="a", draws=20)
    assert [c.group for c in found.comparisons] == ["b", "c"]
    assert all(c.reference == "a" for c in found.comparisons)
    kept = X["group"] != "c"
    alone = compared(X[kept], y[kept])
    assert found.of_group("b").difference + found.of_group("b").centre == pytest.approx(
        alone.of_group("b").difference, abs=0.01
    )
    assert "in group = a (95 % interval" in found.of_group("c").sentence("yes")
    everyone = compared(X, y, draws=20)
    assert everyone.of_group("b").difference < found.of_group("b").difference  # c is among the others of b
    assert any("reference" in note for note in everyone.notes())
    both = compared(X, y, sensitive_features=["group", "town"], reference=["a", "north"])
    assert {c.reference for c in both.comparisons} == {"a", "north", "a · north"}


def test_a_reference_that_cannot_be_used_gets_a_sentence():
    X, y = three_groups()
    with pytest.raises(SettingError, match="reference: there is no group 'z'"):
        compared(X, y, reference="z")
    X.loc[X.index[:20], "group"] = "few"
    with pytest.raises(
        TableError, match="reference group group = few cannot be used: 20 rows, and a comparison needs 30"
    ):
        compared(X, y, reference="few")


def test_rows_that_belong_together_widen_the_interval():
    X, y, _ = loans(150, seed=4)
    many = pd.concat([X] * 6, ignore_index=True)
    rng = np.random.default_rng(0)
    many[["income", "debts"]] += 0.3 * rng.normal(size=(len(many), 2))
    labels = pd.concat([y] * 6, ignore_index=True)
    advert = np.tile(np.arange(150), 6)
    alone = compared(many, labels, draws=40).of_group("b")
    together = compared(many, labels, draws=40, cluster=advert)
    assert together.clusters == 150
    assert "150 clusters" in " ".join(together.notes())
    wide, narrow = (c.interval[1] - c.interval[0] for c in (together.of_group("b"), alone))
    assert wide > 1.3 * narrow
    named = compared(many.assign(advert=advert), labels, draws=40, cluster="advert")
    assert named.to_dict() == together.to_dict()  # the column is no input
    assert "a decision of its own" in " ".join(compared(many, labels).notes())


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ("advert", "cluster: there is no column 'advert'"),
        ([1, 2], "cluster holds 2 values, but the table has 400 rows"),
    ],
)
def test_clusters_that_cannot_be_used_get_a_sentence(cluster, sentence):
    X, y, _ = loans()
    with pytest.raises((SettingError, TableError), match=sentence):
        compared(X, y, cluster=cluster)


def test_clusters_of_one_row_each_change_nothing():
    X, y, _ = loans(300)
    alone, apart = compared(X, y, draws=15), compared(X, y, draws=15, cluster=np.arange(300))
    assert alone.of_group("b").interval == pytest.approx(apart.of_group("b").interval, abs=0.03)


def test_small_groups_are_left_out_and_it_says_so():
    X, y, _ = loans()
    X.loc[:20, "group"] = "rare"
    found = compared(X, y)
    assert found.left_out == ("group = rare is not compared: 21 rows, and a comparison needs 30.",)
    assert np.isnan(found.doubt[:21]).all()
    assert found.to_frame()["rank"].isna().sum() == 21
    alike = y.where(X["group"] != "a", "yes")
    X["group"] = X["group"].replace("rare", "b")
    (sentence,) = compared(X, alike).left_out
    assert sentence == "group = b is not compared: the other groups together have the same label everywhere."


def test_few_labels_of_one_kind_are_judged_by_quantiles():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"group": ["a"] * 500 + ["b"] * 40, "income": rng.normal(size=540)})
    y = np.where(rng.random(540) < 0.96, "yes", "no")
    b = compared(X, y, draws=60).of_group("b")
    low, high = b.interval
    assert low < b.difference < high
    assert abs((high - b.difference) - (b.difference - low)) > 1e-3  # not symmetric, as a normal interval is
    assert not b.differs


def test_weights_count_in_fits_means_and_errors():
    X, y, _ = loans()
    weight = np.where(y == "yes", 2.0, 1.0)
    found = compared(X, y, sample_weight=weight)
    ours = (X["group"] == "a").to_numpy()
    granted = (y == "yes").to_numpy()
    assert found.of_group("a").recorded == pytest.approx(np.average(granted[ours], weights=weight[ours]))
    assert found.of_group("a").effective_rows == pytest.approx(weight[ours].sum() ** 2 / (weight[ours] ** 2).sum())
    assert " rows count as " in str(found)
    same = compared(X, y, sample_weight=np.full(400, 1.0), draws=10)
    plain = compared(X, y, draws=10)
    for one, other in zip(same.comparisons, plain.comparisons, strict=True):
        assert one.difference == pytest.approx(other.difference, abs=1e-6)
        assert one.interval == pytest.approx(other.interval, abs=1e-6)
    uneven = np.where(np.arange(400) % 4, 0.1, 4.0)
    wide, narrow = (
        c.interval[1] - c.interval[0]
        for c in (compared(X, y, sample_weight=uneven, draws=20).of_group("a"), plain.of_group("a"))
    )
    assert wide > 1.2 * narrow


def test_missing_values_and_wide_categories_are_taken():
    X, y, _ = loans()
    X.loc[::7, "income"] = np.nan
    X.loc[(X["group"] == "b") & (np.arange(400) % 5 == 0), "town"] = None
    X["code"] = [f"c{k % 150}" for k in range(len(X))]
    found = compared(X, y)
    assert np.isfinite(found.doubt).all()
    (sentence,) = found.of_group("b").missing_values
    assert sentence.startswith("town is missing in 2")
    assert sentence.endswith(" and 0 % of the others.")


def test_frames_per_group_per_column_and_per_label():
    X, y, _ = loans()
    found = compared(X, y, draws=5)
    assert list(found.by_group.index) == [("group", "a"), ("group", "b")]
    assert {"low", "high", "p_adjusted", "raw_gap", "explained"} <= set(found.by_group)
    assert set(found.columns.index.get_level_values("column")) == {"income", "debts", "town"}
    for kept, c in zip(found.to_dict()["groups"], found.comparisons, strict=True):
        assert convert(kept, GroupStandard) == c


def test_labels_most_likely_wrong_come_first_then_the_most_doubted():
    X, y, wrong = loans(300, wronged=0.4)
    found = compared(X, y, standard=LogisticRegression())
    assert found.of_group("b").missing > 0 == found.of_group("a").missing
    ranked = found.to_frame().sort_values("rank")
    assert ranked["wrong"].is_monotonic_decreasing
    assert set(ranked["group"][ranked["wrong"] > 0]) == {"b"}
    assert ranked["doubt"][ranked["wrong"] == 0].is_monotonic_decreasing
    assert wrong[ranked.index[:20]].mean() > 0.5


def test_it_is_printed_in_plain_words():
    X, y, _ = loans(wronged=0.3)
    found = compared(X, y, draws=15)
    shown = [str(found), repr(found), found._repr_html_()]
    for text in shown:
        assert "GroupStandard(" not in text
        assert "np." not in text
        assert "nan" not in text
    assert "The recorded columns explain" in shown[0] or "Given the recorded" in shown[0]
    assert "Second opinion (AIPW)" in shown[0]
    assert "robustness value" in shown[0]
    assert "<table" in shown[2]


class Impatient(Progress):
    """Presses Ctrl-C after the first drawn tables."""

    def phase(self, name, total=None, unit=""):
        self.drawing = unit == "tables"

    def advance(self, count):
        if self.drawing:
            press()


def test_ctrl_c_keeps_the_draws_that_are_done():
    X, y, _ = loans(200)
    found = compared(X, y, draws=60, progress=Impatient())
    assert found.interrupted
    assert found.draws == 25
    assert found.of_group("a").p >= 1 / 26
    assert found.of_group("a").interval is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_tables_in_hand_and_leaves_no_thread(monkeypatch, number):
    """Drawn tables after the first part never end by themselves here."""
    X, y, _ = loans(200)
    real, parts, encoded = CommonStandard.labels, [], TwoModels.of(X[["income", "debts"]])

    def drawn(self, seeds):
        parts.append(seeds)
        if len(parts) == 1:
            return real(self, seeds)
        press(number)
        for _ in range(2000):
            fit_boosting(encoded.questions, encoded.inputs, y.to_numpy()[None] == "yes")
        raise AssertionError("nobody halted it")

    monkeypatch.setattr(CommonStandard, "labels", drawn)
    before = signal.signal(number, signal.default_int_handler), threading.active_count()
    try:
        found = compared(X, y, draws=99)
    finally:
        signal.signal(number, before[0])
    assert (found.interrupted, found.draws, len(parts)) == (True, 25, 2)
    assert found.of_group("a").interval is not None
    assert not found.columns.empty
    assert np.isfinite(found.wrong).all()
    assert threading.active_count() == before[1]


def test_every_fit_ends_when_its_thread_is_halted():
    X, y, _ = loans(200)
    labels, inputs = (y == "yes").to_numpy(float), X[["income", "debts"]].to_numpy()
    rows, halt = np.arange(200), threading.Event()
    encoded = TwoModels.of(X[["income", "debts"]])
    own = OwnModel(LogisticRegression(), X, encoded)
    boosted = fit_boosting(encoded.questions, inputs, labels[None])
    work = {
        "boosting": lambda: fit_boosting(encoded.questions, inputs, labels[None]),
        "its predictions": lambda: boosted.predict(inputs),
        "one regression": lambda: fit_logistic(design_of(inputs), labels[None]),
        "several": lambda: fit_logistic(design_of(inputs), np.array([labels, 1 - labels])),
        "a classifier of the user's": lambda: own.predict(rows, rows, labels[None], None),
    }
    ended = []

    def halted():
        halt_by(halt)
        for name, fit in work.items():
            fit()
            halt.set()
            try:
                fit()
            except Stopped:
                ended.append(name)
            halt.clear()

    thread = threading.Thread(target=halted)
    thread.start()
    thread.join()
    assert ended == list(work)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"adverse": "maybe"}, SettingError, "adverse: there is no label 'maybe'. The labels are 'no', 'yes'"),
        ({"sensitive_features": ["a"] * 400}, SettingError, "has only one value"),
        ({"sensitive_features": "label"}, TableError, "determines every label"),
        ({"draws": -1}, SettingError, "draws=-1 must be"),
        ({"standard": StandardScaler()}, SettingError, "fit and predict_proba"),
        ({"standard": make_pipeline(GaussianNB())}, LearnerError, "GaussianNB, cannot be trained"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(change, error, sentence):
    X, y, _ = loans()
    X["label"] = y
    with pytest.raises(error, match=sentence):
        compared(X, y, **change)


def test_labels_that_are_all_alike_and_tables_of_nothing_else():
    X, y, _ = loans()
    with pytest.raises(TableError, match="needs a favourable label"):
        compared(X, y.mask(y != "no", "no"))
    with pytest.raises(TableError, match="only protected columns"):
        compared(X[["group"]], y)


def test_limited_time_ends_the_draws():
    X, y, _ = loans(200)
    favourable = (y == "yes").to_numpy()
    sensitive = Sensitive.of("group", X)
    found = compare(X, favourable, [sensitive], names=("no", "yes"), draws=90, n_jobs=1, seconds=0.0)
    assert found.draws == 25
    assert not found.interrupted
    quick = compare(X, favourable, [sensitive], names=("no", "yes"), draws=0, n_jobs=1, explain=False)
    np.testing.assert_allclose(quick.doubt, found.doubt)
    assert quick.of_group("a").second_opinion is None
    assert quick.columns.empty


def test_embedded_sets_are_spoken_of_by_their_labels_names():
    data = butfor.load_dataset("german")
    for adverse in ("bad credit", 0):
        found = butfor.compare_standards(
            data.X_train, data.y_train, sensitive_features="sex", adverse=adverse, draws=0, n_jobs=1
        )
        assert found.of_group("female").recorded == pytest.approx(
            (data.y_train[data.X_train["sex"] == "female"] == 1).mean()
        )
        assert found.favourable == "good credit"


def test_columns_that_are_all_constant_leave_the_gap_as_it_is():
    y = np.array(["no", "yes"] * 100)
    y[:60:2] = "yes"
    X = pd.DataFrame({"x": np.ones(200), "place": "here", "g": ["a"] * 100 + ["b"] * 100})
    found = butfor.compare_standards(X, y, sensitive_features="g", adverse="no", draws=0)
    gap = found.by_group.loc[("g", "b")]
    assert gap["difference"] == pytest.approx(0.3, abs=0.02)


def test_far_too_many_columns_are_refused_and_of_many_the_ones_that_matter_are_left_out():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2500)), columns=[f"x{k}" for k in range(2500)])
    groups = np.where(X["x7"] + rng.normal(size=200) > 0, "a", "b")
    y = np.where(X["x7"] + rng.normal(size=200) > 0, "yes", "no")
    with pytest.raises(butfor.errors.TableError, match=r"make 2500 inputs .* at most 1000\. Drop columns"):
        butfor.compare_standards(X, y, sensitive_features=groups, adverse="no", draws=0)
    found = butfor.compare_standards(X.iloc[:, :100], y, sensitive_features=groups, adverse="no", draws=0)
    left_out = found.columns.reset_index()["column"]
    assert left_out.value_counts().loc["x7"] == 2
    assert len(set(left_out)) < 100
