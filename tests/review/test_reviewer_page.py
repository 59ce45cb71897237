"""The page that asks a reviewer: what it holds, what it escapes, and that it gives no task away."""

import html.parser
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from butfor import LabelAudit, Population
from butfor.review.answers import read_answers
from butfor.review.reviewer import reviewer_page, write_review
from butfor.review.tasks import question, review_of
from recorded import LABELS, TABLE, key_of, key_with

EVIL = "</script><img src=x onerror=document.title='run'><!--<script>"


class Parts(html.parser.HTMLParser):
    """The tags of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, text):
        if self.tags and self.tags[-1][0] == "script" and text.strip():
            self.scripts.append(text)


def data_of(page: str) -> dict:
    return json.loads(Parts(page).scripts[0])


def page_of(frame: pd.DataFrame, labels=("no", "yes")) -> str:
    return reviewer_page(frame, question("deny", labels), labels)


@pytest.mark.parametrize(
    ("column", "labels", "adverse", "asked"),
    [
        ("deny", ["no", "yes"], ["yes"], "deny: no (favourable) or yes (unfavourable)?"),
        ("deny", ["no", "yes"], [], "deny: no or yes?"),
        ("deny", ["deny = 0", "deny = 1"], ["deny = 1"], "deny: 0 (favourable) or 1 (unfavourable)?"),
        (None, ["no", "yes"], [], "No or yes?"),
        ("grade", ["a", "b", "c"], ["c"], "grade: a (favourable), b (favourable) or c (unfavourable)?"),
        ("grade", list("abcdefg"), ["g"], "grade: which of 7 labels?"),
        ("two\nlines", ["a\x00", "b"], [], "two lines: a or b?"),
    ],
)
def test_the_question_is_in_the_tables_words(column, labels, adverse, asked):
    assert question(column, labels, adverse) == asked


def test_page_instructions_and_form_ask_the_same_question(german_file, tasks):
    asked = "credit: bad credit (unfavourable) or good credit (favourable)?"
    assert data_of((tasks / "review.html").read_text())["question"] == asked
    for name in ("instructions.txt", "label_config.xml"):
        assert f"Which label is right for this person? {asked}" in (tasks / name).read_text()


def test_in_python_the_labels_own_name_asks():
    audit = LabelAudit(LogisticRegression(), budget=3, fresh_seeds=0, n_jobs=1)
    audit.fit(TABLE, LABELS.rename("loan"), sensitive_features="group", adverse="no")
    assert audit.review_tasks(labels=5).question == "loan: no (unfavourable) or yes (favourable)?"
    for unnamed in (None, 0):
        audit.fit(TABLE, LABELS.rename(unnamed), sensitive_features="group", adverse="no")
        assert audit.review_tasks(labels=5).question == "No (unfavourable) or yes (favourable)?"


def test_a_page_holds_the_rows_and_loads_nothing(tasks):
    page = (tasks / "review.html").read_text()
    shown = pd.read_csv(tasks / "tasks.csv", dtype=str, keep_default_na=False).drop(columns="label")
    data = data_of(page)
    assert data["columns"] == list(shown.columns[1:])
    assert data["tasks"] == shown.to_numpy().tolist()
    assert data["labels"] == ["bad credit", "good credit"]
    assert set(data) == {"review", "question", "look", "labels", "written", "unsure", "columns", "tasks"}
    parts = Parts(page)
    policy = next(known["content"] for tag, known in parts.tags if known.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r"https?:|url\(|@import|fetch|XMLHttp|WebSocket|sendBeacon|EventSource|innerHTML|eval", page)
    for word in ("control", "clear case", "chosen", "keystone", "audit", "logit", "doubt", "record", "male", "sex"):
        assert word not in page
    for tag, known in parts.tags:
        assert tag not in ("link", "img", "iframe", "object", "form", "base")
        assert not {"src", "href", "action"} & set(known)


def test_nothing_that_the_reviewer_gets_depends_on_why_a_task_is_asked(german_file, tmp_path):
    """The same tasks with labels and controls the other way round, and every other fact of the key changed, make the
    same files to the last byte."""
    review = review_of(Population.from_json(german_file), labels=20)
    kinds = {"label": "control", "control": "clear case", "clear case": "label"}
    other = tuple(
        replace(
            task, position=task.position + 1, row="elsewhere", label="other", people=9, doubt=0.123, wrong=0.321,
            kind=kinds[task.kind], control=3,
        )
        for task in review.tasks
    )  # fmt: skip
    changed = replace(review, key=replace(review.key, tasks=other, seed=5, audit_sha256="x"), labels=(), power=0.5)
    written = [
        {path.name: path.read_bytes() for path in write_review(made, tmp_path / name)[0]}
        for name, made in (("a", review), ("b", changed))
    ]
    assert written[0] == written[1]
    assert "review.html" in written[0]
    assert (tmp_path / "a.key.json").read_bytes() != (tmp_path / "b.key.json").read_bytes()


def test_values_are_as_the_table_has_them():
    frame = pd.DataFrame(
        {
            "whole beside a gap": [3.0, np.nan],
            "decimal": [0.1, -2.5],
            "of single precision": [3.0999999046325684, 1234567.89],
            "large": [2**63 - 1, 1],
            "truth": [True, False],
            "date": pd.to_datetime(["2024-02-29", "2024-03-01 12:30"], format="ISO8601"),
            "category": pd.Categorical(["a", None]),
            "nothing": np.array(["", None], dtype=object),
            "list": np.array([[1, 2], {"a": 1}], dtype=object),
        },
        index=pd.Index(["x-1", 7], name="id"),
    )
    assert data_of(page_of(frame))["tasks"] == [
        ["x-1", "3", "0.1", "3.1", str(2**63 - 1), "True", "2024-02-29", "a", "", "[1, 2]"],
        ["7", None, "-2.5", "1234567.89", "1", "False", "2024-03-01 12:30:00", None, None, "{'a': 1}"],
    ]


def test_whatever_the_table_holds_is_text(tmp_path):
    odd = [EVIL, "a\u2028b\u2029c", "\ud800", "\0\x1b[31m", "&amp;'\"\\", "x" * 100_000, "{{ 7 * 7 }}{% raw %}"]
    frame = pd.DataFrame({EVIL: odd}, dtype=object, index=pd.Index([f"{EVIL}{k}" for k in range(len(odd))], name="id"))
    page = reviewer_page(frame, question(EVIL, [EVIL, "no"]), [EVIL, "no"])
    parts, plain = Parts(page), Parts(page_of(frame[[]]))
    assert [tag for tag, _ in parts.tags] == [tag for tag, _ in plain.tags]
    data = data_of(page)
    assert [task[1] for task in data["tasks"]] == odd
    assert data["columns"] == [EVIL]
    assert data["labels"] == [EVIL, "no"]


def test_reviews_are_told_apart_by_what_they_ask(tasks):
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="id"))
    pages = [page_of(frame), page_of(frame), page_of(frame.set_axis(["a", "c"])), page_of(frame, ("no", "maybe"))]
    names = [data_of(page)["review"] for page in pages]
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert len(key_of(tasks)) == len(data_of((tasks / "review.html").read_text())["tasks"])


def test_answers_keep_labels_apart_that_differ_by_a_space(tmp_path):
    names = ("no", "yes", "yes ")
    (tmp_path / "answers.csv").write_text('id,label\r\n"K-0","yes "\r\n"K-1","yes"\r\n"K-2"," no "\r\n', newline="")
    (answers,) = read_answers([tmp_path / "answers.csv"], key_with(["no"] * 3, names)).reviewers
    assert answers == {"K-0": "yes ", "K-1": "yes", "K-2": "no"}
