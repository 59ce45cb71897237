"""What follows an audit: a review that gives nothing away, answers that come back, limits that hold."""

import contextlib
import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact, hypergeom
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import butfor
from butfor import load_dataset
from butfor.cli import main
from butfor.data.table import load_table
from butfor.errors import SettingError, TableError
from butfor.learn.named import model_named
from butfor.result.population import Population
from butfor.result.record import sealed
from butfor.result.reviewed import disagreement
from butfor.review.gate import Check, check, junit, markdown, share_in
from butfor.run.value import knowing, wrongness
from butfor.tasks.answers import read_answers
from butfor.tasks.select import Task, matched, rows_of


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def audited(folder: Path, *arguments: str) -> Path:
    assert main(["audit", *arguments, "--out", str(folder), "--quiet"]) == 0
    return folder / "audit.json"


@pytest.fixture(scope="module")
def salary(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("salary")
    return audited(out, "salary", "--members", "1", "--fresh-seeds", "30", "--budget", "3")


@pytest.fixture(scope="module")
def german(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("german")
    return audited(out, "german", "--model", "logistic", "--budget", "6", "--cases", "0:40")


def wronged(rows: int, seed: int) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    """Loans by income and debts; of group b's granted ones some are refused all the same, and which they are."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"group": rng.choice(["a", "b"], rows), "income": rng.normal(size=rows)})
    X["debts"] = rng.normal(size=rows)
    granted = (X["income"] - X["debts"] + 0.3 * rng.normal(size=rows) > 0).to_numpy()
    wrong = granted & (X["group"] == "b").to_numpy() & (rng.random(rows) < 0.4)
    return X, pd.Series(np.where(granted & ~wrong, "yes", "no")), wrong


TABLE, LABELS, PLANTED = wronged(400, 0)


@pytest.fixture
def tasks(german, tmp_path, capsys) -> Path:
    assert run(capsys, "review", german, "--out", tmp_path / "tasks", "--labels", 30, "--random-state", 3)[0] == 0
    return tmp_path / "tasks"


def key_of(tasks: Path) -> list[dict]:
    return json.loads(tasks.with_name("tasks.key.json").read_text())["tasks"]


def nothing(record: dict) -> None:
    """As if nothing had been found for anybody."""
    for person in record["people"]:
        for name in ("search", "flip_set", "counterfactual_logit", "minimal", "alternatives", "fresh", "collateral"):
            person.pop(name, None)
        for name in ("clearance", "at_least", "proof", "without_flips"):
            person.pop(name, None)


def changed(path: Path, to: Path, change) -> Path:
    """A copy of a JSON file after `change`, sealed as butfor would have written it."""
    record = json.loads(path.read_text())
    change(record)
    to.write_text(json.dumps(sealed(record)))
    return to


# --- what a review is worth -------------------------------------------------------------------------------


def test_value_is_doubt_squared_times_the_effect_on_people_of_the_group_who_are_refused():
    data = load_dataset("german")
    model = LogisticRegression(solver="newton-cholesky")
    audit = butfor.LabelAudit(model, fresh_seeds=0, n_jobs=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex", adverse="bad credit")
    audit.explain_all(data.X_test[:60], cases=[0, 1])
    logits, women = audit.model_.logits(data.X_test[:60]), (data.X_test[:60]["sex"] == "female").to_numpy()
    refused = women & (logits < 0)
    near = np.exp(-np.abs(logits[refused]) / (0.5 * np.median(np.abs(logits[refused]))))
    moved = audit.model_.flip_effects(audit.table_, data.X_test[:60][refused])
    effect = (near / near.sum()) @ moved
    ours = ((audit.sensitive_.values == "female") & (audit.table_.zero_one == 0)).astype(bool)
    expected = audit.doubt_**2 * np.maximum(0, effect)
    assert audit.review_value_[ours] == pytest.approx(expected[ours], rel=1e-4)
    assert (audit.review_value_[ours] > 0).sum() > 20
    assert (audit.review_value_[audit.table_.zero_one == 1] == 0).all()
    frame = audit.review_frame().sort_values("rank")
    assert frame["rank"].dropna().tolist() == list(range(1, int((audit.table_.zero_one == 0).sum()) + 1))
    short = frame["group"].map({c.group: c.missing > 0 for c in audit.standard_.comparisons})
    for among in (True, False):
        assert frame[frame["rank"].notna() & (short == among)]["value"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("model", "ranking"),
    [
        (butfor.MLP((8,), max_epochs=80), "gradient"),
        (LogisticRegression(), "influence"),
        (RidgeClassifier(), "influence"),
        (butfor.ThresholdedRegressor(KernelRidge()), "influence"),
        (DecisionTreeClassifier(max_depth=4, random_state=0), "leaves"),
        (HistGradientBoostingClassifier(max_iter=8, random_state=0), "leaves"),
        (GaussianNB(), "distance"),
    ],
)
@pytest.mark.parametrize("members", [1, 3])
def test_sums_over_people_are_the_sums_of_what_the_ranking_says_of_each(model, ranking, members):
    data = load_dataset("german")
    if members > 1 and ranking != "gradient":
        pytest.skip("one seed is like another")
    audit = butfor.LabelAudit(model, members=members, fresh_seeds=0, n_jobs=1)
    audit.fit(data.X_train[:150], data.y_train[:150], sensitive_features="sex")
    known = knowing(audit.model_)
    assert known.name == ranking
    # A member that decides otherwise would count in the other direction.
    agreed = np.all([member.logits(data.X_test) > 0 for member in audit.model_.members], axis=0)
    people = data.X_test[agreed][:30]
    assert len(people) > 10
    weights = np.random.default_rng(0).random((2, len(people)))
    weights /= weights.sum(axis=1, keepdims=True)
    total = known.total(audit.model_, audit.table_, people, weights, -1)
    if ranking == "distance":
        nearest = np.argmin(-known.score(audit.model_, audit.table_, people.iloc[[0]])[0])
        alone = known.total(audit.model_, audit.table_, people.iloc[[0]], np.ones((1, 1)), -1)[0]
        assert alone.argmax() == nearest
        return
    scores = known.score(audit.model_, audit.table_, people)
    if members == 1:  # a trimmed mean of sums is not the sum of trimmed means
        np.testing.assert_allclose(total, weights @ scores, rtol=1e-3, atol=1e-5)
    assert np.corrcoef(total[0], (weights @ scores)[0])[0, 1] > 0.95


def test_without_an_adverse_label_labels_of_either_kind_have_a_value_and_it_says_so(salary):
    data = load_dataset("german")
    audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"), fresh_seeds=0, n_jobs=1)
    audit.fit(data.X_train, data.y_train, sensitive_features="sex")
    population = audit.explain_all(data.X_test[:40], cases=[0, 1, 2])
    assert {label.label for label in population.labels[:200]} == {"bad credit", "good credit"}
    assert {label.wrong for label in population.labels} == {None}
    assert "not calibrated" in audit.review_tasks(labels=10).expectation
    assert "labels of either kind count" in population.to_html()
    assert not Population.from_json(salary).labels  # groups of 25 are too small to be compared


def test_what_to_expect_follows_from_the_shortfall():
    standards = butfor.compare_standards(TABLE, LABELS, sensitive_features="group", adverse="no", shuffles=0, n_jobs=1)
    wrong, short = wrongness(standards), standards.of_group("b")
    adverse = ((TABLE["group"] == "b") & (LABELS == "no")).to_numpy()
    assert wrong[~adverse].tolist() == [0.0] * (~adverse).sum()
    share, doubt = short.difference / short.expected, standards.doubt[adverse]
    assert wrong[adverse] == pytest.approx(doubt * share / (1 - doubt + doubt * share))
    assert wrong.sum() == pytest.approx(PLANTED.sum(), rel=0.25)
    assert wrong[PLANTED].mean() > 2 * wrong[adverse & ~PLANTED].mean()


# --- tasks ----------------------------------------------------------------------------------------------


def test_the_folder_shows_rows_and_nothing_else(german, tasks):
    assert sorted(p.name for p in tasks.iterdir()) == [
        "instructions.txt", "label_config.xml", "tasks.csv", "tasks.json",
    ]  # fmt: skip
    data, key = load_dataset("german"), {task["id"]: task for task in key_of(tasks)}
    shown = pd.read_csv(tasks / "tasks.csv", keep_default_na=False)
    assert list(shown.columns) == ["id", *data.X_train.columns.drop("sex"), "label"]
    assert (shown["label"] == "").all()
    rows = data.X_train.iloc[[key[number]["position"] for number in shown["id"]]].drop(columns="sex")
    assert shown.drop(columns=["id", "label"]).to_numpy().tolist() == rows.to_numpy().tolist()
    studio = json.loads((tasks / "tasks.json").read_text())
    assert [set(task) for task in studio] == [{"data"}] * len(key)
    assert [task["data"]["id"] for task in studio] == shown["id"].tolist()
    assert [set(task["data"]["row"]) for task in studio] == [set(rows.columns)] * len(key)


def test_no_file_of_the_folder_tells_group_label_decision_or_decoy(german, tasks):
    everything = {path.name: path.read_text() for path in tasks.iterdir()}
    for name, text in everything.items():
        for word in ("male", "sex", "decoy", "keystone", "audit", "logit", "solid", "position", "doubt", "0.5"):
            assert word not in text, f"{name} holds {word!r}"
    for name in ("tasks.csv", "tasks.json"):  # the two names are told once, as what to choose from
        assert "bad credit" not in everything[name]
        assert "good credit" not in everything[name]
    config = ElementTree.fromstring(everything["label_config.xml"])
    choices = [choice.get("value") for choice in config.iter("Choice")]
    assert choices == ["bad credit", "good credit", "cannot tell"]


def test_ids_and_order_say_nothing_about_rows(tasks):
    key = key_of(tasks)
    ids, rows, decoys = ([task[name] for task in key] for name in ("id", "row", "decoy"))
    assert len(set(ids)) == len(ids)
    assert min(ids) >= 1000  # so that no row number passes for one
    for values in (ids, rows, decoys):
        assert values != sorted(values)
        assert values != sorted(values, reverse=True)
    assert abs(np.corrcoef(ids, decoys)[0, 1]) < 0.3
    assert not set(ids) & set(rows)


def test_the_most_valuable_labels_are_chosen_and_decoys_are_like_them_but_hardly_doubted(german, tasks):
    data, key = load_dataset("german"), key_of(tasks)
    population = Population.from_json(german)
    by_id = {task["id"]: task for task in key}
    chosen = sorted((t for t in key if not t["decoy"]), key=lambda t: -t["wrong"])
    assert {t["position"] for t in chosen} == {label.position for label in population.labels[:30]}
    assert {t["position"]: t["people"] for t in key} == {t["position"]: population.hinging[t["position"]] for t in key}
    assert any(t["people"] for t in chosen)
    decoys = [t for t in key if t["decoy"]]
    assert len(decoys) == len({t["position"] for t in decoys}) == len({t["beside"] for t in decoys}) == 30
    assert not {t["position"] for t in decoys} & {p for v in population.found for p in v.positions}
    labels = pd.read_csv(german.with_name("labels.csv"))
    assert labels["rank"].notna().sum() == (labels["label"] == "bad credit").sum()
    assert labels.loc[[t["position"] for t in chosen], "rank"].max() == 30
    usual = labels.groupby(["label", "group"])["doubt"].median()
    for decoy in decoys:
        label, doubt = by_id[decoy["beside"]], labels["doubt"][decoy["position"]]
        assert decoy["label"] == label["label"]
        sexes = data.X_train["sex"].iloc[[decoy["position"], label["position"]]]
        assert (sexes.nunique() == 1) == decoy["same_group"]
        assert doubt <= usual[decoy["label"], sexes.iloc[0]]
    for task in key:
        assert task["label"] == data.label_names[data.y_train.iloc[task["position"]]]
        assert task["row"] == data.X_train.index[task["position"]]


def test_rows_of_alternative_sets_are_no_decoys(german, tasks, tmp_path, capsys):
    decoys = [task["position"] for task in key_of(tasks) if task["decoy"]]

    def use_them(record: dict) -> None:
        found = next(person for person in record["people"] if "flip_set" in person)
        found["alternatives"] = [decoys[k : k + 6] for k in range(0, len(decoys), 6)]  # the budget is 6

    other = changed(german, tmp_path / "other.json", use_them)
    assert run(capsys, "review", other, "--out", tmp_path / "again", "--labels", 10, "--random-state", 3)[0] == 0
    again = json.loads((tmp_path / "again.key.json").read_text())["tasks"]
    assert not {task["position"] for task in again if task["decoy"]} & set(decoys)


def test_a_seed_gives_the_same_tasks_and_another_others(german, tmp_path, capsys):
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(capsys, "review", german, "--out", tmp_path / name, "--labels", 10, "--random-state", seed)
        texts.append((tmp_path / name / "tasks.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_it_says_what_to_expect_and_hides_what_is_asked(german, tmp_path, capsys):
    code, out, _ = run(capsys, "review", german, "--out", tmp_path / "tasks", "--labels", 20, "--hide", "age, job")
    assert code == 0
    assert out.startswith("40 labels to review, shuffled: 20 whose review is worth most, and 20 decoys")
    likely = sum(label.wrong for label in Population.from_json(german).labels[:20])
    assert f"Of these 20 labels about {likely:.0f} are likely to be wrong (of the first 5, " in out
    assert "as if that were spread evenly" in out
    assert "Not for the reviewer" in out
    assert str(tmp_path / "tasks.key.json") in out
    assert not {"age", "job", "sex"} & set(pd.read_csv(tmp_path / "tasks" / "tasks.csv").columns)


def test_a_model_blind_to_the_group_still_has_matched_decoys(tmp_path, capsys):
    record = audited(
        tmp_path / "blind", "german", "--model", "logistic", "--budget", "6", "--cases", "0:12",
        "--drop", "sex", "--sensitive", "sex",
    )  # fmt: skip
    code, out, _ = run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 20)
    assert code == 0
    assert "of the same kind and group" in out
    sex, key = load_dataset("german").X_train["sex"], {task["id"]: task for task in key_of(tmp_path / "tasks")}
    for task in key.values():
        if task["decoy"]:
            assert sex.iloc[task["position"]] == sex.iloc[key[task["beside"]]["position"]]


def one_person(path: Path, to: Path) -> Path:
    """The record of the first person found alone."""
    return changed(path, to, lambda r: r.update(people=[next(p for p in r["people"] if "flip_set" in p)]))


def test_too_few_rows_alike_give_other_groups_and_then_none():
    labels = np.array(["yes"] * 6 + ["no"] * 2, dtype=object)
    groups = np.array(["a", "a", "a", "b", "b", "b", "a", "a"], dtype=object)
    rng = np.random.default_rng(0)
    # Rows 0 and 1 have one row of their label and group left (2), and another of their label (5); 6 has none.
    beside = matched([0, 1, 6], np.array([2, 5]), labels, groups, rng)
    assert set(beside) == {2, 5}
    assert set(beside.values()) == {0, 1}
    assert matched([0], np.array([6, 7]), labels, groups, rng) == {}


def test_columns_named_like_ours_keep_apart(tmp_path, capsys):
    data = load_dataset("german")
    frame = pd.concat([data.X_train, data.X_val, data.X_test]).rename(columns={"age": "id", "job": "label"})
    frame["credit"] = pd.concat([data.y_train, data.y_val, data.y_test])
    frame.to_csv(tmp_path / "german.csv", index=False)
    settings = ("--label", "credit", "--sensitive", "sex", "--model", "logistic", "--budget", "6", "--cases", "0:12")
    record = audited(tmp_path / "audit", str(tmp_path / "german.csv"), *settings)
    assert run(capsys, "review", record, "--out", tmp_path / "tasks")[0] == 0
    header = (tmp_path / "tasks" / "tasks.csv").read_text().splitlines()[0].split(",")
    assert header[0] == "id"
    assert header[-1] == "label"
    assert {"id (of the table)", "label (of the table)"} < set(header)


# --- answers --------------------------------------------------------------------------------------------


OTHER = {"bad credit": "good credit", "good credit": "bad credit"}


def answered(tasks: Path, wrong_labels: int, wrong_decoys: int) -> dict[int, str]:
    """Every task answered as recorded, but for so many of either kind."""
    answers = {task["id"]: task["label"] for task in key_of(tasks)}
    for decoys, wrong in ((False, wrong_labels), (True, wrong_decoys)):
        for task in [t for t in key_of(tasks) if t["decoy"] == decoys][:wrong]:
            answers[task["id"]] = OTHER[task["label"]]
    return answers


def fill_in(tasks: Path, answers: dict[int, str], separator: str = ",") -> Path:
    frame = pd.read_csv(tasks / "tasks.csv", dtype=str, keep_default_na=False)
    frame["label"] = [answers.get(int(number), "") for number in frame["id"]]
    frame.to_csv(tasks / "tasks.csv", index=False, sep=separator, encoding="utf-8-sig")
    return tasks / "tasks.csv"


@pytest.fixture(scope="module")
def closed(german, tmp_path_factory) -> tuple[Path, Path, str]:
    """A review of 30 labels whose answers came back: nine corrected, two decoys too, one that nobody could tell."""
    folder = tmp_path_factory.mktemp("closed")
    assert main(["review", str(german), "--out", str(folder / "tasks"), "--labels", "30", "--random-state", "3"]) == 0
    answers = answered(folder / "tasks", 9, 2)
    answers[next(t["id"] for t in reversed(key_of(folder / "tasks")) if not t["decoy"])] = "cannot tell"
    filled, printed = fill_in(folder / "tasks", answers, ";"), io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["review", str(german), "--answers", str(filled), "--out", str(folder / "after")]) == 0
    return folder / "tasks", folder / "after", printed.getvalue()


def test_corrections_are_made_and_what_changes_is_what_the_models_own_fit_says(german, closed):
    tasks, after, out = closed
    assert "of 9 of 29 labels and of 2 of 30 decoys." in out
    assert out.startswith("With 11 of 600 labels corrected, ")
    p = fisher_exact([[9, 20], [2, 28]], alternative="greater")[1]
    assert f"p = {p:.2g}" in out
    assert "Reviewers could not tell about 1 of the labels" in out
    wrong = [t for kind in (False, True) for t in [t for t in key_of(tasks) if t["decoy"] == kind][: 2 if kind else 9]]
    corrections = pd.read_csv(after / "corrections.csv")
    assert corrections["kind"].tolist() == ["chosen"] * 9 + ["decoy"] * 2
    assert set(corrections["row"]) == {task["row"] for task in wrong}
    assert (corrections["reviewed"] == corrections["recorded"].map(OTHER)).all()
    data = load_dataset("german")
    recorded = data.y_train.map(dict(enumerate(data.label_names)))
    corrected = pd.read_csv(after / "corrected.csv", index_col="row")["label"]
    assert corrected.index.tolist() == recorded.index.tolist()
    assert set(corrected.index[corrected != recorded]) == {task["row"] for task in wrong}
    reviewed = Population.from_json(after / "review.json").reviewed
    encoder = butfor.TableEncoder("onehot", dtype="float64").fit(data.X_train)
    rows, people = encoder.transform(data.X_train), encoder.transform(data.X_test)
    model = model_named("logistic")
    before, then = (clone(model).fit(rows, y == "good credit").predict(people) for y in (recorded, corrected))
    assert [person.case for person in reviewed.turned] == np.flatnonzero(before != then).tolist()
    assert reviewed.turned
    women = (data.X_test["sex"] == "female").to_numpy()
    assert reviewed.rates["female"] == pytest.approx((before[women].mean(), then[women].mean()))
    assert reviewed.accuracy == pytest.approx([(decided == data.y_test).mean() for decided in (before, then)])
    for c, y in ((reviewed.before, recorded), (reviewed.after, corrected)):
        found = butfor.compare_standards(
            data.X_train, y.to_numpy(), sensitive_features="sex", adverse="bad credit", shuffles=0, n_jobs=1
        )
        assert [g.difference for g in c] == pytest.approx([g.difference for g in found.comparisons])
    assert f"female: {100 * before[women].mean():.1f} % decided 'good credit' before" in out
    page = (after / "review.html").read_text()
    assert f"<h1>{reviewed.sentence}</h1>" in page
    assert page.count("<svg") == 2
    for person in reviewed.turned:
        assert f"<th>{person.case}</th>" in page


def test_a_second_round_starts_from_the_corrected_table_and_asks_nothing_twice(closed, tmp_path, capsys):
    tasks, after, _ = closed
    record = after / "review.json"
    first = {task["position"] for task in key_of(tasks)}
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 20)[0] == 0
    second = key_of(tmp_path / "tasks")
    assert not first & {task["position"] for task in second}
    corrected = pd.read_csv(after / "corrected.csv")["label"]
    assert all(task["label"] == corrected[task["position"]] for task in second)
    filled = fill_in(tmp_path / "tasks", answered(tmp_path / "tasks", 4, 0))
    code, out, _ = run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")
    assert code == 0
    assert "With 4 of 600 labels corrected" in out
    both = Population.from_json(tmp_path / "after" / "review.json").reviewed
    assert len(both.corrected) == 15
    assert set(both.answered) == first | {task["position"] for task in second}
    first_round = Population.from_json(record).reviewed
    assert both.before == first_round.after
    assert both.accuracy[0] == pytest.approx(first_round.accuracy[1]), "the model of the corrected table"
    for group, rates in both.rates.items():
        assert rates[0] == pytest.approx(first_round.rates[group][1])


def test_the_same_in_python_without_files():
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1, fresh_seeds=0)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    with pytest.raises(SettingError, match=r"review_tasks\(\) first"):
        audit.corrected({})
    groups = [label.group for label in audit.label_values()]
    assert groups == sorted(groups, reverse=True), "the group that falls short, b, comes first"
    review = audit.review_tasks(labels=60)
    assert "group" not in review.shown.columns
    assert len(review.shown) == 120
    answers = {t.id: "yes" if PLANTED[t.position] else t.label for t in review.tasks}
    right = sum(bool(PLANTED[t.position]) for t in review.tasks)
    assert right > 20
    assert sum(label.wrong for label in review.labels) == pytest.approx(right, rel=0.5)
    for bad, sentence in (
        ({}, "120 of 120 tasks have no answer"),
        (answers | {17: "yes"}, "there is no task '17'"),
        (answers | {review.tasks[0].id: "maybe"}, "'maybe' is not a label"),
    ):
        with pytest.raises(TableError, match=sentence):
            audit.corrected(bad)
    corrected = audit.corrected(answers)
    assert (corrected.table_.y != LABELS).sum() == right
    assert (audit.table_.y == LABELS).all()
    assert not {t.position for t in corrected.review_tasks(labels=20).tasks} & {t.position for t in review.tasks}
    assert corrected.standard_.of_group("b").difference < audit.standard_.of_group("b").difference - 0.05
    clean = (TABLE["income"] - TABLE["debts"]).to_numpy() > 0
    agree = [((a.model_.logits(TABLE) > 0) == clean).mean() for a in (audit, corrected)]
    assert agree[1] > agree[0]
    reviewed, after = audit.after_review(answers, TABLE)
    assert reviewed.accuracy is None
    assert np.array_equal(after.model_.logits(TABLE), corrected.model_.logits(TABLE))
    assert len(reviewed.turned) == ((after.model_.logits(TABLE) > 0) != (audit.model_.logits(TABLE) > 0)).sum()
    verdict = corrected.explain(TABLE.iloc[0])
    assert "review that corrected its labels" in str(verdict.run["not_rebuildable"])
    assert butfor.replay(verdict).agrees


def test_a_network_is_trained_anew_under_its_members_and_fresh_seeds(tmp_path, capsys):
    small = ("--members", "2", "--fresh-seeds", "5", "--epochs", "30", "--budget", "3", "--cases", "0:4")
    record = audited(tmp_path / "audit", "german", *small)
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 40)[0] == 0
    filled = fill_in(tmp_path / "tasks", answered(tmp_path / "tasks", 40, 0))
    assert run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")[0] == 0
    reviewed = Population.from_json(tmp_path / "after" / "review.json").reviewed
    assert reviewed.seeded
    assert reviewed.turned
    assert {person.fresh.seeds for person in reviewed.turned} == {5}


def annotation(label: str, cancelled: bool = False) -> dict:
    result = [{"from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": [label]}}]
    return {"id": 7, "was_cancelled": cancelled, "result": result}


def test_label_studio_gives_the_same(german, tasks, tmp_path, capsys):
    answers = answered(tasks, 9, 2)
    _, wanted, _ = run(capsys, "review", german, "--answers", fill_in(tasks, answers))
    assert "of 9 of 30 labels" in wanted
    exported = json.loads((tasks / "tasks.json").read_text())
    for k, task in enumerate(exported):
        label = answers[task["data"]["id"]]
        task |= {"id": 1 + k, "annotations": [annotation(label), annotation(OTHER[label], cancelled=True)]}
    path = tmp_path / "export.json"  # beside tasks.key.json
    path.write_text(json.dumps(exported))
    code, out, _ = run(capsys, "review", german, "--answers", path)
    assert code == 0
    assert out == wanted
    # Of three reviewers two count; of two who differ, and of one who skipped it, it cannot be told.
    label = answers[exported[0]["data"]["id"]]
    exported[0]["annotations"] = [annotation(label), annotation(OTHER[label]), annotation(label)]
    exported[1]["annotations"] = [annotation(label), annotation(OTHER[label])]
    exported[2]["annotations"] = [annotation(label, cancelled=True)]
    key = {task["id"]: task for task in key_of(tasks)}
    path.write_text(json.dumps(exported))
    outcome = read_answers(path, {number: _task(task) for number, task in key.items()}, tuple(OTHER))
    assert {outcome.answers[exported[k]["data"]["id"]] for k in (1, 2)} == {"cannot tell"}
    assert outcome.answers[exported[0]["data"]["id"]] == label
    exported[3]["annotations"] = []
    path.write_text(json.dumps(exported))
    assert "1 of 60 tasks have no answer" in run(capsys, "review", german, "--answers", path)[2]


def _task(recorded: dict) -> Task:
    return Task(**{name: value for name, value in recorded.items() if name != "decoy"})


def test_the_exact_test_is_one_sided():
    more, fewer = disagreement((6, 10), (1, 10)), disagreement((1, 10), (6, 10))
    assert f"p = {hypergeom.sf(5, 20, 7, 10):.2g}" in more
    assert "more often than labels like them" in more
    assert f"p = {hypergeom.sf(0, 20, 7, 10):.2g}" in fewer
    assert "may be chance" in fewer
    assert "nothing to compare" in disagreement((0, 0), (1, 2))


def edited(tasks: Path, change) -> Path:
    with (tasks / "tasks.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    change(rows)
    with (tasks / "tasks.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return tasks / "tasks.csv"


def _label(value):
    return lambda rows: rows[3].__setitem__(-1, value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_label("maybe"), "line 4 (task {id}): 'maybe' is not a label; write 'bad credit', 'good credit' or 'cannot"),
        (_label("Bad credit"), "'Bad credit' is not a label"),
        (_label(""), "1 of 60 tasks have no answer, the first is task {id} (line 4). Write a label or 'cannot tell'"),
        (lambda rows: rows.pop(3), "1 of 60 tasks have no answer, the first is task {id}. Write"),
        (lambda rows: rows[3].__setitem__(0, "17"), "line 4: there is no task '17' in the key"),
        (lambda rows: rows[3].__setitem__(0, "x"), "there is no task 'x'"),
        (lambda rows: rows.append(rows[3]), "task {id} is answered already, in line 4"),
        (lambda rows: rows[0].__setitem__(0, "number"), "no column 'id'"),
        (lambda rows: rows[0].__setitem__(-1, "verdict"), "no column 'label'"),
        (lambda rows: rows.clear(), "no column 'id'"),
    ],
)
def test_bad_answers_get_one_sentence_and_change_nothing(german, tasks, tmp_path, capsys, change, sentence):
    fill_in(tasks, answered(tasks, 9, 2))
    number = pd.read_csv(tasks / "tasks.csv")["id"][2]
    filled = edited(tasks, change)
    code, out, err = run(capsys, "review", german, "--answers", filled, "--out", tmp_path / "after")
    assert code == 2
    assert sentence.format(id=number) in err
    assert len(err.splitlines()) == 1
    assert not out
    assert not (tmp_path / "after").exists()


@pytest.mark.parametrize(
    "content", ["[1]", '[{"data": {}}]', "[", '{"id": 3}', '[{"data": {"id": 1}, "annotations": [{}]}]', b"\xff\xfe,"]
)
def test_a_bad_export_gets_one_sentence(german, tasks, tmp_path, capsys, content):
    path = tmp_path / "export.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, _, err = run(capsys, "review", german, "--answers", path)
    assert code == 2
    assert len(err.splitlines()) == 1


def test_a_key_of_another_audit_or_none_is_refused(german, salary, tasks, tmp_path, capsys):
    filled, key = fill_in(tasks, answered(tasks, 0, 0)), tasks.with_name("tasks.key.json")
    code, _, err = run(capsys, "review", salary, "--answers", filled)
    assert code == 2
    assert "belongs to another audit" in err
    for content in ("[]", "{}", "no", '{"audit_sha256": "x", "tasks": [{"a": 1}]}'):
        (tmp_path / "odd.json").write_text(content)
        code, _, err = run(capsys, "review", german, "--answers", filled, "--key", tmp_path / "odd.json")
        assert code == 2
        assert "is not the key of a review" in err
    code, _, err = run(capsys, "review", german, "--answers", tmp_path / "none.csv", "--key", key)
    assert code == 2
    assert "cannot be read" in err
    key.rename(tmp_path / "elsewhere.json")
    code, _, err = run(capsys, "review", german, "--answers", filled)
    assert code == 2
    assert "--key" in err
    assert run(capsys, "review", german, "--answers", filled, "--key", tmp_path / "elsewhere.json")[0] == 0


def test_bad_reviews_get_one_sentence(german, salary, tasks, tmp_path, capsys):
    from_python = changed(german, tmp_path / "python.json", lambda r: r["run"]["data"].update(table=None))
    away = changed(german, tmp_path / "away.json", lambda r: r["run"]["data"].update(sha256="0"))
    strange = changed(german, tmp_path / "strange.json", lambda r: r["run"]["data"].update(colour="red"))
    beyond = changed(german, tmp_path / "beyond.json", lambda r: r["labels"][0].update(position=600))
    for arguments, sentence in [
        ((german,), "--out FOLDER"),
        ((german, "--out", tasks), "is there already"),
        ((german, "--out", tmp_path / "new", "--key", tmp_path / "new" / "key.json"), "must not see it"),
        ((german, "--out", tmp_path / "new", "--hide", "colour"), "there is no column 'colour'"),
        ((german, "--out", tmp_path / "new", "--labels", 0), "--labels 0"),
        ((german, "--out", tmp_path / "new", "--labels", 9000), "the record names 180 labels to review"),
        ((german, "--answers", tasks / "tasks.csv", "--labels", 3), "--labels says what to review"),
        ((from_python, "--out", tmp_path / "new"), "because the table was given in Python"),
        ((salary, "--out", tmp_path / "new"), "The record names no label to review"),
        ((away, "--out", tmp_path / "new"), "its training rows have changed since"),
        ((strange, "--out", tmp_path / "new"), "run.data.colour is nothing"),
        ((beyond, "--out", tmp_path / "new"), "labels has a training row beyond the 600"),
    ]:
        code, _, err = run(capsys, "review", *arguments)
        assert code == 2
        assert sentence in err
        assert len(err.splitlines()) == 1
    assert not (tmp_path / "new").exists()


# --- the gap ----------------------------------------------------------------------------------------------


def test_the_fewest_labels_that_close_the_gap():
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1, fresh_seeds=0)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    found = audit.close_gap(TABLE)
    assert found.groups == ("b", "a")
    assert found.closed
    assert found.gap[1] <= 0.01 < found.gap[0]
    frame = audit.review_frame().reset_index(drop=True).sort_values("rank")
    doubted = frame[(frame["group"] == "b") & (frame["label"] == "no") & (frame["doubt"] > 0.5)].index
    assert len(doubted) == found.doubted
    assert set(found.flips) == set(doubted[: len(found.flips)])
    encoder = butfor.TableEncoder("onehot", dtype="float64").fit(TABLE)
    rows, ours = encoder.transform(TABLE), (TABLE["group"] == "b").to_numpy()

    def gap(labels: list[int]) -> float:
        y = (LABELS == "yes").to_numpy().copy()
        y[labels] = True
        decided = LogisticRegression().fit(rows, y).predict(rows)
        return float(decided[~ours].mean() - decided[ours].mean())

    assert gap(list(found.flips)) == pytest.approx(found.gap[1])
    assert gap(list(doubted[: len(found.flips) - 1])) > 0.01
    assert f"{len(found.flips)} doubted labels of 'b'" in found.sentence
    again = audit.close_gap(TABLE, groups=["a", "b"], within=0.5)
    assert "there is no gap to close" in again.sentence
    never = audit.close_gap(TABLE, within=-0.9)
    assert (never.closed, len(never.flips)) == (False, never.doubted)
    assert "Not within the doubted labels" in never.sentence
    truth = pd.Series(np.where(PLANTED, "yes", LABELS))
    by_truth = audit.close_gap(TABLE, truth, by="true positive")
    assert by_truth.by == "true positive"
    deserving = ours & (truth == "yes").to_numpy()
    before = audit.model_.logits(TABLE) > 0
    assert by_truth.gap[0] == pytest.approx(
        before[~ours & (truth == "yes").to_numpy()].mean() - before[deserving].mean()
    )
    for wrong, sentence in (
        ({"by": "odds"}, "selection or true positive"),
        ({"by": "true positive"}, "give y"),
        ({"groups": ["a", "z"]}, "name two of"),
    ):
        with pytest.raises(SettingError, match=sentence):
            audit.close_gap(TABLE, **wrong)


def test_the_command_closes_a_gap_and_the_page_says_it(tmp_path, capsys):
    out = tmp_path / "audit"
    quick = ("--model", "logistic", "--budget", "2", "--cases", "0:3", "--quiet")
    code, said, _ = run(capsys, "audit", "german", *quick, "--close-gap", "--out", out)
    assert code == 0
    gap = Population.from_json(out / "audit.json").closed_gap
    assert gap.by == "selection"
    assert gap.sentence in said
    assert gap.sentence.replace("'", "&#39;") in (out / "report.html").read_text()
    code, said, _ = run(capsys, "audit", "german", *quick, "--close-gap", "true-positive")
    assert "The true positive rates" in said


@pytest.mark.parametrize("command", [("review", "--out", "tasks"), ("gate", "--max-solid", "5%")])
@pytest.mark.parametrize(
    "content",
    [
        None, "", "[1]", "{}", "nonsense", '{"schema_version": 99}', '{"schema_version": 2}',
        '{"schema_version": 2, "people": 3, "run": {}}', '{"schema_version": 2, "people": [{}], "run": {}}',
        '{"schema_version": 2, "people": [], "run": {}}', '{"schema_version": 2, "people": [], "run": []}',
    ],
)  # fmt: skip
def test_what_is_no_audit_gets_one_sentence(capsys, tmp_path, monkeypatch, command, content):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("audit.json").write_text(content)
    code, out, err = run(capsys, command[0], "audit.json", *command[1:])
    assert code == 2
    assert err.startswith("Error: ")
    assert len(err.splitlines()) == 1
    assert not out


# --- gate -----------------------------------------------------------------------------------------------


def test_limits_are_kept_or_not(german, salary, capsys):
    code, out, _ = run(capsys, "gate", german, "--max-solid", "42%", "--max-gap", "0.12", "--max-close-calls", "0%")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["kept"] * 3
    assert "16 of 39 eligible people (41.03 %)" in out
    assert "11.1 points" in out
    assert "was not shuffled (--shuffles 19)" in out
    code, out, _ = run(capsys, "gate", german, "--max-solid", "41%", "--max-gap", "12pp")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == ["FAILED", "kept"]
    code, out, _ = run(capsys, "gate", salary, "--max-solid", "10%", "--max-close-calls", "0.3")
    assert code == 1
    assert "kept: max-solid 10 %: changing few labels changes the decision for 1 of 10" in out
    assert "FAILED: max-close-calls 30 %: about 5 of 10" in out


def test_what_cannot_be_measured_is_not_kept(salary, german, tmp_path, capsys):
    def unchecked(record):
        for person in record["people"]:
            person |= {"fresh": None, "without_flips": None}

    def one_group(record):
        for person in record["people"]:
            person["group"] = "everyone"

    def nobody(record):
        nothing(record)
        for person in record["people"]:
            person["eligible"] = False

    limits = ("--max-solid", "99%", "--max-gap", "99pp", "--max-close-calls", "99%")
    for source, change, failed, sentence in [
        (salary, unchecked, 3, "6 of these were not put to fresh seeds"),
        (german, unchecked, 0, "no seed changes"),
        (german, one_group, 1, "no two groups of eligible people"),
        (german, nobody, 3, "is eligible"),
        (german, lambda record: record["run"].update(interrupted=True), 3, "interrupted"),
    ]:
        code, out, _ = run(capsys, "gate", changed(source, tmp_path / "audit.json", change), *limits)
        assert out.count("FAILED") == failed
        assert code == (1 if failed else 0)
        assert sentence in out


def test_whoever_was_not_searched_for_to_the_end_counts_as_found(german, tmp_path, capsys):
    def stopped(record):
        verdicts = Population.from_dict(record)
        left = [p for p, v in zip(record["people"], verdicts, strict=True) if v.status == "not_found"][:4]
        for person in left:
            person["search"]["complete"] = False

    shorter = changed(german, tmp_path / "audit.json", stopped)  # 16 of 39 are solid
    assert "stopped early" in Population.from_json(shorter).sentence
    code, out, _ = run(capsys, "gate", shorter, "--max-solid", "45%")
    assert (code, "may be up to 20" in out) == (1, True)
    assert run(capsys, "gate", shorter, "--max-solid", "52%")[0] == 0
    code, out, _ = run(capsys, "gate", shorter, "--max-gap", "99pp")
    assert (code, "Groups are not compared" in out) == (1, True)


def test_a_review_knows_the_groups_beside_rows_of_which_some_were_set_aside(tmp_path):
    rng = np.random.default_rng(0)
    sex, x = rng.choice(["a", "b"], 180), rng.normal(size=180)
    pd.DataFrame({"x": x, "sex": sex, "y": np.where(x > 0, "yes", "no")}).to_csv(tmp_path / "t.csv", index=False)
    data = load_table(tmp_path / "t.csv", label="y", sensitive="sex", drop=["sex"])
    audit = butfor.LabelAudit(butfor.MLP((2,), max_epochs=2), members=1, fresh_seeds=0)
    audit.fit(data.X_train, data.y_train, sensitive_features=data.groups["train"])
    found = rows_of(audit.run_record())
    table, groups = found.table, found.groups
    assert table.set_aside
    assert list(groups) == list(audit.sensitive_.values) == [sex[row] for row in table.X.index]


def test_one_person_can_be_held_to_limits(german, tmp_path, capsys):
    path = one_person(german, tmp_path / "one.json")
    assert run(capsys, "gate", path, "--max-solid", "0%")[0] == 1
    assert run(capsys, "gate", path, "--max-solid", "100%")[0] == 0
    changed(path, path, lambda r: r["run"].update(interrupted=True))
    assert "interrupted" in run(capsys, "gate", path, "--max-solid", "100%")[1]


def test_the_gap_says_what_shuffling_gave(german, tmp_path, capsys):
    null = {"gap": 0.1, "shuffled": [0.05] * 18 + [0.2], "p_value": 0.1}
    shuffled = changed(german, tmp_path / "audit.json", lambda record: record["run"].update(shuffles=null))
    _, out, _ = run(capsys, "gate", shuffled, "--max-gap", "10pp")
    assert "as far in 1 of 19 shuffles (p = 0.1)" in out
    assert "was not shuffled" not in out


def test_junit_and_markdown_are_written(german, tmp_path, capsys):
    code, _, _ = run(
        capsys, "gate", german, "--max-solid", "5%", "--max-gap", "20pp", "--junit", tmp_path / "gate.xml",
        "--markdown", tmp_path / "gate.md",
    )  # fmt: skip
    assert code == 1
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "2", "1")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert set(cases) == {"max-solid", "max-gap"}
    assert "16 of 39" in cases["max-solid"].find("failure").get("message")
    assert cases["max-gap"].find("failure") is None
    text = (tmp_path / "gate.md").read_text()
    assert "1 of 2 limits failed" in text
    assert "| **failed** | max-solid 5 % |" in text
    code, _, err = run(capsys, "gate", german, "--max-solid", "5%", "--junit", tmp_path / "no" / "gate.xml")
    assert code == 2
    assert len(err.splitlines()) == 1


def test_odd_names_of_groups_break_neither_file():
    odd = [Check("max-gap", 0.1, kept, "'a|b' & '<c>\x00\x0b' \ud800\n differ") for kept in (True, False)]
    assert len(list(ElementTree.fromstring(junit(odd).encode()).iter("testcase"))) == 2
    rows = markdown(odd).splitlines()[-2:]
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)
    assert all("<c>" not in row for row in rows)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), ("10pp", 0.1), (" 2.5 % ", 0.025), ("0", 0)])
def test_shares_are_read(text, share):
    assert share_in(text, "--max-solid") == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "1", "-5%", "101%", "nan", "inf%", "", "%", "five", "5%%", "5%pp", "5pp%"])
def test_other_shares_are_refused(text, german, capsys):
    code, _, err = run(capsys, "gate", german, f"--max-solid={text}")
    assert code == 2
    assert "--max-solid" in err
    assert len(err.splitlines()) == 1


def test_no_limit_is_a_usage_error(german, capsys):
    code, out, err = run(capsys, "gate", german)
    assert code == 2
    assert "Give at least one limit" in err
    assert not out


def test_one_decision_of_forty_is_more_than_two_percent(german):
    audit = Population.from_json(german)
    people = [replace(verdict, switch_changes=k == 0) for k, verdict in enumerate(audit)]
    population = Population(people, audit.run)
    assert len(population) == 40
    assert [check(population, max_switch=limit)[0].kept for limit in (0.02, 0.025, 0.03)] == [False, True, True]


def test_a_limit_met_exactly_is_kept(german):
    population = Population.from_json(german)
    share = len(population.solid) / len(population.eligible)
    assert [c.kept for c in check(population, max_solid=share, max_gap=population.difference())] == [True, True]


# --- wrong labels planted --------------------------------------------------------------------------------
