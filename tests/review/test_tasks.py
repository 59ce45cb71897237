"""Tasks for a reviewer: labels, controls and clear cases, and nothing that tells them apart."""

import html
import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.result.population import Population
from butfor.result.record import with_checksum
from butfor.review.tasks import (
    CALIPER,
    likelihoods,
    matched,
    question,
    review_of,
    reviewer_page,
    write_review,
)
from recorded import LABELS, TABLE, audited, changed, fill_in, key_of, run, wronged

EVIL = "</script><img src=x onerror=document.title='run'><!--<script>"
FILES = ("instructions.txt", "review.html", "tasks.csv")
KINDS = ("label", "control", "clear case")


def script_of(page: str) -> str:
    """The text of a page's first script, which is its data."""
    return re.search("<script[^>]*>(.*?)</script>", page, re.DOTALL)[1]


def data_of(page: str) -> dict:
    return json.loads(script_of(page))


def test_every_file_shows_the_rows_and_nothing_that_tells_group_label_decision_or_kind(
    german_file, tasks
):
    data, key = butfor.load_dataset("german"), key_of(tasks)
    assert tuple(sorted(path.name for path in tasks.iterdir())) == FILES
    texts = {path.name: path.read_text() for path in tasks.iterdir()}
    rows = data.X_train.iloc[[task["position"] for task in key]].drop(columns="sex")
    shown = pd.read_csv(tasks / "tasks.csv", keep_default_na=False, dtype=str)
    assert list(shown.columns) == ["id", *rows.columns, "label"]
    assert (shown["label"] == "").all()
    assert (
        shown.drop(columns=["id", "label"]).to_numpy().tolist()
        == rows.astype(str).to_numpy().tolist()
    )
    page = data_of(texts["review.html"])
    assert shown["id"].tolist() == [task["id"] for task in key]
    assert page["columns"] == list(rows.columns)
    assert page["tasks"] == shown.drop(columns="label").to_numpy().tolist()
    secret = (
        "male",
        "sex",
        "control",
        "clear case",
        "keystone",
        "audit",
        "logit",
        "solid",
        "doubt",
    )
    for name, text in texts.items():
        for word in secret if name != "review.html" else secret[:2]:
            assert word not in text, f"{name} holds {word!r}"
    asked = f"Which label is right for this person? {page['question']}"
    assert asked in texts["instructions.txt"]
    assert [*page["labels"], page["unsure"]] == ["bad credit", "good credit", "cannot tell"]
    assert "default-src 'none'; style-src 'sha256-" in html.unescape(texts["review.html"])
    assert not re.search(
        r"https?:|url\(|@import|fetch|XMLHttp|WebSocket|innerHTML|eval", texts["review.html"]
    )
    codes, numbers = zip(*(task["id"].split("-") for task in key), strict=True)
    assert re.fullmatch(
        "[B-DF-HJ-NP-TV-XZ]{5}", *set(codes)
    )  # no word, and no date in a spreadsheet
    numbers = [int(number) for number in numbers]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) >= 1000
    for values in (numbers, [task["row"] for task in key], [task["kind"] for task in key]):
        assert values not in (sorted(values), sorted(values, reverse=True))


def test_the_likeliest_labels_their_nearest_controls_and_clear_cases_are_chosen(
    german_file, tasks, tmp_path
):
    data, key, population = (
        butfor.load_dataset("german"),
        key_of(tasks),
        Population.from_json(german_file),
    )
    kinds = {kind: [task for task in key if task["kind"] == kind] for kind in KINDS}
    assert {t["position"] for t in kinds["label"]} == {
        label.position for label in population.labels[:30]
    }
    assert all(t["people"] == population.flip_counts[t["position"]] for t in key)
    assert len({t["position"] for t in key}) == len(key) == sum(map(len, kinds.values()))
    sex = data.X_train["sex"].to_numpy()
    for kind, group in (("label", "female"), ("control", "male")):
        assert {(sex[t["position"]], t["label"]) for t in kinds[kind]} == {(group, "bad credit")}
    assert {t["label"] for t in kinds["clear case"]} == {"bad credit", "good credit"}
    assert max(t["doubt"] for t in kinds["clear case"]) <= 0.1
    assert len(kinds["clear case"]) <= 20
    for task in key:
        assert task["label"] == data.label_names[data.y_train.iloc[task["position"]]]
        assert task["row"] == data.X_train.index[task["position"]]

    favourable = data.y_train.to_numpy() == 1
    likely, _ = likelihoods(data.X_train.drop(columns="sex"), favourable, sex == "male")
    controls = {t["position"]: t["control"] for t in kinds["label"] if t["control"] is not None}
    assert sorted(controls.values()) == sorted(t["position"] for t in kinds["control"]), (
        "each is used once"
    )
    assert all(
        np.abs(likely[at] - likely[other]).max() <= CALIPER for at, other in controls.items()
    )
    free = np.setdiff1d(np.flatnonzero((sex == "male") & ~favourable), list(controls.values()))
    for task in kinds["label"]:
        if task["control"] is None:
            assert np.abs(likely[task["position"]] - likely[free]).max(axis=1).min() > CALIPER, (
                "there was one"
            )
    review = review_of(population, labels=20)
    swapped = dict(zip(KINDS, KINDS[1:] + KINDS[:1], strict=True))
    other = {
        "row": "elsewhere",
        "label": "other",
        "people": 9,
        "doubt": 0.1,
        "wrong": 0.3,
        "control": 3,
    }
    other["wrong_if_real"] = 0.4
    others = tuple(
        replace(t, position=t.position + 1, kind=swapped[t.kind], **other) for t in review.tasks
    )
    away = replace(
        review, key=replace(review.key, tasks=others, audit_sha256="x"), labels=(), power=0.5
    )
    written = [
        {path.name: path.read_bytes() for path in write_review(made, tmp_path / name)[0]}
        for name, made in (("a", review), ("b", away))
    ]
    assert written[0] == written[1], "no file depends on why a task is asked"
    points = np.array([[0.5, 0.5], [0.52, 0.5], [0.53, 0.5], [0.5, 0.9], [0.9, 0.9]])
    assert matched(points, [0, 1], [2]) == {1: 2}, "the nearest pair comes first"
    assert matched(points, [0, 1, 3], [2, 4]) == {1: 2}, "both probabilities count"
    assert matched(points, [0], []) == {}


def test_it_says_what_to_expect_and_a_seed_gives_the_same_tasks(german_file, tmp_path, capsys):
    given, texts = ("--labels", 20, "--hide", "age, job", "--random-state"), []
    code, out, _ = run(capsys, "review", german_file, "--out", tmp_path / "a" / "tasks", *given, 1)
    assert (code, out.splitlines()[-1]) == (1, "No tasks were written; --anyway writes them.")
    assert not (tmp_path / "a").exists()
    record, named = json.loads(german_file.read_text()), tmp_path / "named.json"
    words = {
        "people": {"noun": "applicants"},
        "groups": {"sex": {"female": "Female"}},
        "columns": {"amount": "loan"},
    }
    record["run"]["names"] = words
    named.write_text(json.dumps(with_checksum(record)))
    for name, seed, file in (("a", 1, german_file), ("b", 1, german_file), ("c", 2, named)):
        asked = ("--out", tmp_path / name / "tasks", *given, seed, "--anyway")
        _, out, _ = run(capsys, "review", file, *asked)
        texts.append((tmp_path / name / "tasks" / "tasks.csv").read_text())
    assert texts[0] == texts[1] != texts[2]
    key = Counter(task["kind"] for task in key_of(tmp_path / "c" / "tasks"))
    likely = sum(label.likely_wrong for label in Population.from_json(german_file).labels[:20])
    for sentence in (
        f"{key.total()} tasks, shuffled: 20 labels 'bad credit' of Female applicants, "
        f"{key['control']} controls",
        f"About {likely:.0f} of these 20 labels are likely to be wrong (of the first 5, ",
        "whoever goes by them changes both alike, and the review can show little",
        "a reviewer who sees each person's file and errs one time in ten will show it with "
        "probability 0.",
        "no number of labels makes that 0.8.",  # about 8 labels are likely to be wrong
        f"Keep {tmp_path / 'c' / 'tasks.key.json'}",
    ):
        assert sentence in out
    columns = set(pd.read_csv(tmp_path / "c" / "tasks" / "tasks.csv").columns)
    assert not {"age", "job", "sex", "amount"} & columns
    assert "loan" in columns


def test_in_python_the_group_is_called_controls_are_of_the_reference_and_lines_say_what_is_missing():
    X, y, _ = wronged(600, 1)
    X["group"] = X["group"].where((X["group"] == "b") | (np.arange(600) % 3 > 0), "c")
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, n_jobs=1)
    for name, reference, controls in (("loan", None, {"a", "c"}), (0, "a", {"a"})):
        audit.fit(
            X,
            y.rename(name),
            sensitive_features="group",
            adverse="no",
            reference=reference,
            draws=20,
        )
        review = audit.review_tasks(labels=60)
        assert {X["group"][t.position] for t in review.tasks if t.kind == "label"} == {"b"}
        assert {X["group"][t.position] for t in review.tasks if t.kind == "control"} == controls
        named = "loan: no (unfavourable) or yes (favourable)?"
        assert review.question == (named if name else "No (unfavourable) or yes (favourable)?")
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < np.where(X["group"] == "b", 0.35, 0.7), "yes", "no")
    audit.fit(
        X[["debts", "group"]], pd.Series(y), sensitive_features="group", adverse="no", draws=20
    )
    said = (
        "There are no clear cases with an adverse or a favourable label, so the reviewer's "
        "error will not be known, "
    )
    said += "nor who answers at random."
    assert said in audit.review_tasks(labels=50).lines


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        ("--id file --model logistic", 0),
        ("--id file --members 2 --fresh-seeds 3 --set epochs=20", 3),
    ],
)
def test_reviewers_look_at_a_file_and_columns_named_like_ours_keep_apart(
    tmp_path, capsys, options, seeds
):
    """Sentences say "granted = no", the column holds no; networks are tested under fresh seeds."""
    X, y, wrong = wronged(600, 0, noise=2.0)
    table = X.rename(columns={"debts": "id", "income": "label"}).assign(granted=y)
    links = [f"archive/{k}.pdf" for k in range(600)]
    table.assign(file=[f"F{k:03d}" for k in range(600)], link=links).to_csv(
        tmp_path / "loans.csv", index=False
    )
    settings = (
        "--label granted --adverse no --sensitive group --drop link --budget 2 --cases "
        f"0:3 {options}"
    )
    record = audited(tmp_path / "audit", str(tmp_path / "loans.csv"), *settings.split())
    given = ("--out", tmp_path / "tasks", "--labels", 50, "--anyway")
    code, _, err = run(capsys, "review", record, *given, "--file-column", "flie")
    assert (code, "--file-column: there is no column 'flie'. Did you mean 'file'?" in err) == (
        2,
        True,
    )
    code, _, err = run(capsys, "review", record, *given, "--file-column", "granted")
    assert (code, "--file-column 'granted' is the label" in err) == (2, True)
    _, out, _ = run(
        capsys, "review", record, *given, "--file-column", "link"
    )  # which nothing is learned from
    rows = {task["id"]: int(task["row"].removeprefix("F")) for task in key_of(tmp_path / "tasks")}
    shown = pd.read_csv(tmp_path / "tasks" / "tasks.csv")
    assert shown["link"].tolist() == [links[rows[number]] for number in shown["id"]]
    assert "If so, a reviewer who errs one time in ten will show it" in out
    assert "go by them" not in out, "reviewers see more than the columns"
    assert run(capsys, "review", record, *given, "--file-column", "file", "--overwrite")[0] == 0
    rows = {
        task["id"]: int(str(task["row"]).removeprefix("F")) for task in key_of(tmp_path / "tasks")
    }
    shown = pd.read_csv(tmp_path / "tasks" / "tasks.csv")
    assert list(shown.columns) == [
        "id",
        "file",
        "label (of the table)",
        "id (of the table)",
        "label",
    ]
    assert shown["file"].tolist() == [f"F{rows[number]:03d}" for number in shown["id"]]
    for name in ("review.html", "instructions.txt"):
        text = html.unescape((tmp_path / "tasks" / name).read_text())
        assert "Look up every person's original file: 'file' names it." in text
        assert "do not look anybody up" not in text
    answers = {number: "yes" if wrong[row] else y[row] for number, row in rows.items()}
    filled = fill_in(tmp_path / "tasks", answers)
    assert run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")[0] == 0
    assert (
        "The review was not blind to the group" in (tmp_path / "after" / "review.html").read_text()
    )
    corrected = pd.read_csv(tmp_path / "after" / "corrected.csv", dtype={"row": str})
    corrected.index = corrected["row"].str.removeprefix("F").astype(int)
    changed = corrected.index[corrected["granted"] != table["granted"][corrected.index]]
    assert (
        set(changed) == {row for number, row in rows.items() if answers[number] != y[row]} != set()
    )
    assert set(pd.read_csv(tmp_path / "after" / "corrections.csv")["reviewed"]) == {"yes"}
    reviewed = Population.from_json(tmp_path / "after" / "review.json").run.reviewed
    assert reviewed.changed
    assert {person.fresh.seeds if person.fresh else 0 for person in reviewed.changed} == {seeds}


def test_what_cannot_be_asked_gets_one_sentence_and_writes_nothing(
    german_file, salary_file, tasks, tmp_path, capsys
):
    bent = changed(
        german_file, tmp_path / "bent.json", lambda r: r["labels"][1].update(position=10**6)
    )
    new, before = ("--out", tmp_path / "new"), {path: path.read_bytes() for path in tasks.iterdir()}
    for arguments, sentence in [
        ((german_file,), "--out FOLDER"),
        ((german_file, "--out", tasks), "exists and may belong"),
        ((german_file, *new, "--key", tmp_path / "new" / "key.json"), "must not see it"),
        ((german_file, *new, "--hide", "colour"), "--hide 'colour': there is no such column"),
        (
            (german_file, *new, "--labels", 0),
            "from 1 to 59, the labels of sex = female that are left",
        ),
        ((german_file, *new, "--random-state", -1), "--random-state"),
        (
            (german_file, "--answers", tasks / "tasks.csv", "--labels", 3),
            "--labels says what to review",
        ),
        (
            (german_file, "--out", german_file.parent, "--overwrite"),
            "is the folder of a file that this command reads",
        ),
        (
            (german_file, "--answers", tasks / "tasks.csv", "--out", tasks, "--overwrite"),
            "is the folder of a file",
        ),
        ((german_file, *new, "--key", german_file), "is the record itself"),
        ((salary_file, *new), "The record names no label to review"),
        ((bent, *new), "Invalid record: labels[1].position"),
    ]:
        code, _, err = run(capsys, "review", *arguments, "--anyway")
        assert (code, len(err.splitlines()), sentence in err) == (2, 1, True), (arguments, err)
    assert {path: path.read_bytes() for path in tasks.iterdir()} == before
    assert not (tmp_path / "new").exists()
    audit = butfor.LabelAudit(LogisticRegression(), budget=2, fresh_seeds=0, n_jobs=1)
    audit.fit(TABLE[:300], LABELS[:300], sensitive_features="group")
    with pytest.raises(butfor.errors.SettingError, match="name the adverse label"):
        audit.review_tasks()
    other = audit.explain_all(TABLE[:3])
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no", draws=20)
    with pytest.raises(butfor.errors.SettingError, match="to another table"):
        audit.review_tasks(other)
    for wrong in ({"labels": 2.5}, {"random_state": 1.5}, {"hide": ["income", "debts"]}):
        with pytest.raises(butfor.errors.SettingError):
            audit.review_tasks(**wrong)


@pytest.mark.parametrize(
    ("column", "labels", "adverse", "asked"),
    [
        ("deny", ["no", "yes"], [], "deny: no or yes?"),
        (
            "deny",
            ["deny = 0", "deny = 1"],
            ["deny = 1"],
            "deny: 0 (favourable) or 1 (unfavourable)?",
        ),
        (None, ["no", "yes"], [], "No or yes?"),
        (
            "grade",
            ["a", "b", "c"],
            ["c"],
            "grade: a (favourable), b (favourable) or c (unfavourable)?",
        ),
        ("grade", list("abcdefg"), ["g"], "grade: which of 7 labels?"),
        ("two\nlines", ["a\x00", "b"], [], "two lines: a or b?"),
    ],
)
def test_the_question_is_in_the_tables_words(column, labels, adverse, asked):
    assert question(column, labels, adverse) == asked


def test_values_are_as_the_table_has_them_and_whatever_it_holds_is_text():
    frame = pd.DataFrame(
        {
            "whole beside a gap": [3.0, np.nan],
            "of single precision": [3.0999999046325684, 1234567.89],
            "large": [2**63 - 1, 1],
            "date": pd.to_datetime(["2024-02-29", "2024-03-01 12:30"], format="ISO8601"),
            "category": pd.Categorical(["a", None]),
            "list": np.array([[1, 2], {"a": 1}], dtype=object),
        },
        index=pd.Index(["x-1", 7], name="id"),
    )
    assert data_of(reviewer_page(frame, "?", ("no", "yes")))["tasks"] == [
        ["x-1", "3", "3.1", str(2**63 - 1), "2024-02-29", "a", "[1, 2]"],
        ["7", None, "1234567.89", "1", "2024-03-01 12:30:00", None, "{'a': 1}"],
    ]
    odd = [
        EVIL,
        "a\u2028b\u2029c",
        "\ud800",
        "\0\x1b[31m",
        "&amp;'\"\\",
        "x" * 100_000,
        "{{ 7 * 7 }}{% raw %}",
    ]
    rows = pd.DataFrame(
        {EVIL: odd},
        dtype=object,
        index=pd.Index([f"{EVIL}{k}" for k in range(len(odd))], name="id"),
    )
    page, plain = (
        reviewer_page(each, question(EVIL, [EVIL, "no"]), [EVIL, "no"]) for each in (rows, rows[[]])
    )
    assert "<" not in script_of(page)
    assert page.replace(script_of(page), "") == plain.replace(script_of(plain), ""), (
        "it stands in the data alone"
    )
    assert [task[1] for task in data_of(page)["tasks"]] == odd
    assert data_of(page)["columns"] == [EVIL]
    assert data_of(page)["review"] != data_of(plain)["review"], (
        "browsers keep the answers of two reviews apart"
    )
