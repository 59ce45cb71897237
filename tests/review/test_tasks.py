"""Tasks for a reviewer: labels, controls and clear cases, and nothing that tells them apart."""

import html
import json
import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import load_dataset
from butfor.errors import TableError
from butfor.result.population import Population
from butfor.review.tasks import _rounded
from recorded import audited, changed, fill_in, key_of, run, wronged


def test_the_folder_shows_rows_and_nothing_else(german_file, tasks):
    assert sorted(p.name for p in tasks.iterdir()) == [
        "instructions.txt", "label_config.xml", "review.html", "tasks.csv", "tasks.json",
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


def test_no_file_of_the_folder_tells_group_label_decision_or_kind(german_file, tasks):
    everything = {path.name: path.read_text() for path in tasks.iterdir() if path.name != "review.html"}
    for name, text in everything.items():
        for word in (
            "male",
            "sex",
            "control",
            "clear",
            "keystone",
            "audit",
            "logit",
            "solid",
            "position",
            "doubt",
            "0.5",
        ):
            assert word not in text, f"{name} holds {word!r}"
    for name in ("tasks.csv", "tasks.json"):  # the two names are told once, as what to choose from
        assert "bad credit" not in everything[name]
        assert "good credit" not in everything[name]
    config = ElementTree.fromstring(everything["label_config.xml"])
    choices = [choice.get("value") for choice in config.iter("Choice")]
    assert choices == ["bad credit", "good credit", "cannot tell"]


def test_ids_and_order_say_nothing_about_rows(tasks):
    key = key_of(tasks)
    ids, rows, kinds = ([task[name] for task in key] for name in ("id", "row", "kind"))
    codes, numbers = zip(*(task.split("-") for task in ids), strict=True)
    assert len(set(codes)) == 1
    assert re.fullmatch("[B-DF-HJ-NP-TV-XZ]{5}", codes[0])  # no word, and no date in a spreadsheet
    numbers = [int(number) for number in numbers]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) >= 1000
    for values in (numbers, rows, kinds):
        assert values != sorted(values)
        assert values != sorted(values, reverse=True)
    assert abs(np.corrcoef(numbers, [kind == "label" for kind in kinds])[0, 1]) < 0.3


def test_the_likeliest_labels_are_chosen_and_clear_cases_of_both_labels_are_hardly_doubted(german_file, tasks):
    data, key = load_dataset("german"), key_of(tasks)
    population = Population.from_json(german_file)
    kinds = {kind: [t for t in key if t["kind"] == kind] for kind in ("label", "control", "clear case")}
    assert {t["position"] for t in kinds["label"]} == {label.position for label in population.labels[:30]}
    assert {t["position"]: t["people"] for t in key} == {
        t["position"]: population.flip_counts[t["position"]] for t in key
    }
    assert any(t["people"] for t in kinds["label"])
    assert len({t["position"] for t in key}) == len(key) == sum(map(len, kinds.values()))
    labels = pd.read_csv(german_file.with_name("labels.csv"))
    assert labels.loc[[t["position"] for t in kinds["label"]], "rank"].max() == 30
    sex = data.X_train["sex"].to_numpy()
    for kind, groups in (("label", {"female"}), ("control", {"male"})):
        assert {sex[t["position"]] for t in kinds[kind]} == groups
        assert {t["label"] for t in kinds[kind]} == {"bad credit"}
    assert {t["control"] for t in kinds["label"]} - {None} == {t["position"] for t in kinds["control"]}
    assert Counter(t["label"] for t in kinds["clear case"]).keys() == {"bad credit", "good credit"}
    assert max(t["doubt"] for t in kinds["clear case"]) <= 0.1
    assert len(kinds["clear case"]) <= 20
    for task in key:
        assert task["label"] == data.label_names[data.y_train.iloc[task["position"]]]
        assert task["row"] == data.X_train.index[task["position"]]


def test_a_seed_gives_the_same_tasks_and_another_others(german_file, tmp_path, capsys):
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(capsys, "review", german_file, "--out", tmp_path / name, "--labels", 10, "--random-state", seed, "--anyway")
        texts.append((tmp_path / name / "tasks.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_it_says_what_to_expect_and_hides_what_is_asked(german_file, tmp_path, capsys):
    given = ("--out", tmp_path / "tasks", "--labels", 20, "--hide", "age, job", "--anyway")
    code, out, _ = run(capsys, "review", german_file, *given)
    assert code == 0
    key = Counter(task["kind"] for task in key_of(tmp_path / "tasks"))
    assert out.startswith(
        f"{key.total()} tasks, shuffled: 20 labels 'bad credit' of sex = female, {key['control']} controls (the same "
        f"label of other groups, as likely to be favourable) and {key['clear case']} clear cases (doubt at most 0.1)."
    )
    alone = 20 - key["control"]
    assert (f"{alone} of the labels " in out) == (alone > 0)
    likely = sum(label.wrong for label in Population.from_json(german_file).labels[:20])
    assert f"About {likely:.0f} of these 20 labels are likely to be wrong (of the first 5, " in out
    assert "the sum of their probabilities of being wrong" in out
    assert "it tells why each task is asked" in out
    assert str(tmp_path / "tasks.key.json") in out
    assert not {"age", "job", "sex"} & set(pd.read_csv(tmp_path / "tasks" / "tasks.csv").columns)


def test_the_group_under_review_is_called_and_controls_are_of_the_reference():
    X, y, _ = wronged(900, 1)
    X["group"] = X["group"].where((X["group"] == "b") | (np.arange(900) % 3 > 0), "c")
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, n_jobs=1)
    for reference, controls in ((None, {"a", "c"}), ("a", {"a"})):
        audit.fit(X, y, sensitive_features="group", adverse="no", reference=reference)
        assert audit.standards().of_group("b").differs
        tasks = audit.review_tasks(labels=60).tasks
        assert {X["group"][t.position] for t in tasks if t.kind == "label"} == {"b"}
        assert {X["group"][t.position] for t in tasks if t.kind == "control"} == controls


def test_where_there_are_no_clear_cases_it_says_so():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400), "group": rng.choice(["a", "b"], 400)})
    y = np.where(rng.random(400) < np.where(X["group"] == "b", 0.35, 0.7), "yes", "no")
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, n_jobs=1)
    audit.fit(X, pd.Series(y), sensitive_features="group", adverse="no")
    review = audit.review_tasks(labels=50)
    assert not [task for task in review.tasks if task.kind == "clear case"]
    said = "There are no clear cases with an adverse or a favourable label, so the reviewer's error will not be known."
    assert said in review.lines
    with pytest.raises(TableError, match="may be chance"):
        audit.after_review({task.id: "yes" for task in review.tasks}, X[:5])


@pytest.mark.parametrize("options", [("--drop", "file"), ("--id", "file"), ()])
def test_with_a_file_column_reviewers_look_at_the_file_and_all_say_that_it_is_not_blind(tmp_path, capsys, options):
    X, y, wrong = wronged(900, 0, noise=2.0)
    table = X.assign(file=[f"F{k:03d}" for k in range(900)], granted=y)
    table.to_csv(tmp_path / "loans.csv", index=False)
    settings = ("--label", "granted", "--adverse", "no", "--sensitive", "group", "--model", "logistic", "--budget", "2")
    record = audited(tmp_path / "audit", str(tmp_path / "loans.csv"), *settings, "--cases", "0:3", *options)
    given = ("--out", tmp_path / "tasks", "--labels", 70, "--anyway")
    code, _, err = run(capsys, "review", record, *given, "--file-column", "flie")
    assert (code, "--file-column 'flie': there is no such column. Did you mean 'file'?" in err) == (2, True)
    assert run(capsys, "review", record, *given, "--file-column", "file")[0] == 0
    shown, rows = pd.read_csv(tmp_path / "tasks" / "tasks.csv"), {}
    for task in key_of(tmp_path / "tasks"):
        rows[task["id"]] = int(str(task["row"]).removeprefix("F"))
    assert shown["file"].tolist() == [f"F{rows[number]:03d}" for number in shown["id"]]
    look = "Look up every person's original file: 'file' names it."
    for name in ("review.html", "instructions.txt"):
        text = html.unescape((tmp_path / "tasks" / name).read_text())
        assert look in text
        assert "this review is not blind to the group" in text
        assert "do not look anybody up" not in text
    answers = {number: "yes" if wrong[row] else y[row] for number, row in rows.items()}
    filled = fill_in(tmp_path / "tasks", answers)
    assert run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")[0] == 0
    said = "The review was not blind to the group: reviewers saw the original files."
    assert said in (tmp_path / "after" / "review.html").read_text()


def test_the_reviewer_sees_no_float_noise():
    values = [0.1 + 0.2, 0.2210000038146972, 3.900000095367432, 0.0008500000089406968, 1234567.89, -0.0, 40.0]
    shown = _rounded(pd.Series(values)).astype(str).tolist()
    assert shown == ["0.3", "0.221", "3.9", "0.00085", "1234567.89", "-0.0", "40.0"]
    assert _rounded(pd.Series([3, 10**9])).tolist() == [3, 10**9]
    assert _rounded(pd.Series(np.float32([0.1, 2.5]))).tolist() == [0.1, 2.5]
    assert _rounded(pd.Series([np.nan])).isna().all()


def test_columns_named_like_ours_keep_apart(tmp_path, capsys):
    data = load_dataset("german")
    frame = pd.concat([data.X_train, data.X_val, data.X_test]).rename(columns={"age": "id", "job": "label"})
    frame["credit"] = pd.concat([data.y_train, data.y_val, data.y_test])
    frame.to_csv(tmp_path / "german.csv", index=False)
    settings = (
        "--label",
        "credit",
        "--adverse",
        "0",
        "--sensitive",
        "sex",
        "--model",
        "logistic",
        "--budget",
        "6",
        "--cases",
        "0:12",
    )
    record = audited(tmp_path / "audit", str(tmp_path / "german.csv"), *settings)
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--anyway")[0] == 0
    header = (tmp_path / "tasks" / "tasks.csv").read_text().splitlines()[0].split(",")
    assert header[0] == "id"
    assert header[-1] == "label"
    assert {"id (of the table)", "label (of the table)"} < set(header)


def test_bad_reviews_get_one_sentence(german_file, salary_file, tasks, tmp_path, capsys):
    from_python = changed(german_file, tmp_path / "python.json", lambda r: r["run"]["data"].update(table=None))
    away = changed(german_file, tmp_path / "away.json", lambda r: r["run"]["data"].update(sha256="0"))
    for arguments, sentence in [
        ((german_file,), "--out FOLDER"),
        ((german_file, "--out", tasks), "exists and may belong"),
        ((german_file, "--out", tmp_path / "new", "--key", tmp_path / "new" / "key.json"), "must not see it"),
        ((german_file, "--out", tmp_path / "new", "--hide", "colour"), "--hide 'colour': there is no such column"),
        ((german_file, "--out", tmp_path / "new", "--labels", 0), "--labels 0"),
        (
            (german_file, "--out", tmp_path / "new", "--labels", 9000),
            "--labels 9000 must be from 1 to 59, the labels of sex = female that are left",
        ),
        ((german_file, "--answers", tasks / "tasks.csv", "--labels", 3), "--labels says what to review"),
        ((german_file, "--out", german_file.parent), "is the folder of a file that this command reads"),
        ((german_file, "--out", tmp_path / "new", "--key", german_file), "is the record itself"),
        ((from_python, "--out", tmp_path / "new"), "because the table was given in Python"),
        ((salary_file, "--out", tmp_path / "new"), "The record names no label to review"),
        ((away, "--out", tmp_path / "new"), "its training rows are different"),
    ]:
        code, _, err = run(capsys, "review", *arguments, "--anyway")
        assert code == 2
        assert sentence in err
        assert len(err.splitlines()) == 1
    assert not (tmp_path / "new").exists()
