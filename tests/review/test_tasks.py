"""Tasks for a reviewer: the labels that matter among decoys, and nothing that gives them away."""

import json
import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import load_dataset
from butfor.data.table import load_table
from butfor.result.population import Population
from butfor.review.decoys import choose_decoys
from butfor.review.rebuild import rows_of
from butfor.review.tasks import _rounded
from butfor.run.verdicts import run_of
from recorded import audited, changed, key_of, run


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


def test_no_file_of_the_folder_tells_group_label_decision_or_decoy(german_file, tasks):
    everything = {path.name: path.read_text() for path in tasks.iterdir() if path.name != "review.html"}
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
    codes, numbers = zip(*(task.split("-") for task in ids), strict=True)
    assert len(set(codes)) == 1
    assert re.fullmatch("[B-DF-HJ-NP-TV-XZ]{5}", codes[0])  # no word, and no date in a spreadsheet
    numbers = [int(number) for number in numbers]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) >= 1000
    for values in (numbers, rows, decoys):
        assert values != sorted(values)
        assert values != sorted(values, reverse=True)
    assert abs(np.corrcoef(numbers, decoys)[0, 1]) < 0.3


def test_the_likeliest_labels_are_chosen_and_decoys_of_both_labels_are_hardly_doubted(german_file, tasks):
    data, key = load_dataset("german"), key_of(tasks)
    population = Population.from_json(german_file)
    chosen, decoys = ([t for t in key if t["decoy"] == decoy] for decoy in (False, True))
    assert {t["position"] for t in chosen} == {label.position for label in population.labels[:30]}
    assert {t["position"]: t["people"] for t in key} == {
        t["position"]: population.flip_counts[t["position"]] for t in key
    }
    assert any(t["people"] for t in chosen)
    assert len({t["position"] for t in key}) == len(key) == 60
    assert not {t["position"] for t in decoys} & {p for v in population.found for p in v.positions}
    assert Counter(t["label"] for t in decoys) == {"bad credit": 20, "good credit": 10}
    labels = pd.read_csv(german_file.with_name("labels.csv"))
    assert labels.loc[[t["position"] for t in chosen], "rank"].max() == 30
    third = labels.groupby("label")["doubt"].quantile(1 / 3)
    for decoy in decoys:
        assert labels["doubt"][decoy["position"]] <= third[decoy["label"]] + 1e-4
        assert decoy["doubt"] == labels["doubt"][decoy["position"]]
    women = (data.X_train["sex"] == "female").to_numpy()
    shares = [np.mean([women[t["position"]] for t in some]) for some in (chosen, decoys)]
    assert shares[1] >= 0.5 * shares[0] > women.mean() / 2, "of the same group where there are enough"
    for task in key:
        assert task["label"] == data.label_names[data.y_train.iloc[task["position"]]]
        assert task["row"] == data.X_train.index[task["position"]]


def test_a_seed_gives_the_same_tasks_and_another_others(german_file, tmp_path, capsys):
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(capsys, "review", german_file, "--out", tmp_path / name, "--labels", 10, "--random-state", seed)
        texts.append((tmp_path / name / "tasks.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_it_says_what_to_expect_and_hides_what_is_asked(german_file, tmp_path, capsys):
    code, out, _ = run(capsys, "review", german_file, "--out", tmp_path / "tasks", "--labels", 20, "--hide", "age, job")
    assert code == 0
    assert out.startswith(
        "40 tasks, shuffled: 20 labels to review and 20 decoys, labels that are least in doubt (doubt"
    )
    likely = sum(label.wrong for label in Population.from_json(german_file).labels[:20])
    assert f"About {likely:.0f} of these 20 labels are likely to be wrong (of the first 5, " in out
    assert "the sum of their probabilities of being wrong" in out
    assert "it tells the decoys" in out
    assert str(tmp_path / "tasks.key.json") in out
    assert not {"age", "job", "sex"} & set(pd.read_csv(tmp_path / "tasks" / "tasks.csv").columns)


def test_a_model_blind_to_the_group_still_has_decoys_of_it(tmp_path, capsys):
    record = audited(
        tmp_path / "blind", "german", "--model", "logistic", "--budget", "6", "--cases", "0:12",
        "--drop", "sex", "--sensitive", "sex",
    )  # fmt: skip
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 15)[0] == 0
    sex, key = load_dataset("german").X_train["sex"], key_of(tmp_path / "tasks")
    groups = [Counter(sex.iloc[task["position"]] for task in key if task["decoy"] == decoy) for decoy in (False, True)]
    assert groups[0] == groups[1]


def decoys(chosen, may, labels, groups, doubt=None, seed=0):
    n = len(labels)
    given = np.isin(np.arange(n), may), np.array(labels, dtype=object), np.array(groups, dtype=object)
    doubt = np.zeros(n) if doubt is None else np.array(doubt)
    return choose_decoys(chosen, *given, doubt, np.random.default_rng(seed))


def test_decoys_have_the_label_and_group_asked_for_then_the_label_then_any_label_there_is():
    yes, no = ["yes"] * 9, ["no"] * 9
    found = decoys([0, 1, 2], range(3, 18), yes + no, ["a", "b"] * 9)
    assert sorted(at >= 9 for at in found) == [False, False, True], "one in three has another label"
    assert Counter(at % 2 for at in found) == {0: 2, 1: 1}, "groups as those of the chosen"
    assert sorted(decoys([0, 1], [2, 3, 4], ["yes"] * 5, ["a", "a", "b", "b", "a"])) in ([2, 4], [3, 4])
    assert decoys([0], [1], ["yes", "no"], ["a", "b"]) == [1]
    assert decoys([0, 1], [2], ["yes"] * 3, ["a"] * 3) == [2], "none is asked about twice"
    assert decoys([0], [], ["yes", "no"], ["a", "a"]) == []


def test_the_reviewer_sees_no_float_noise():
    values = [0.1 + 0.2, 0.2210000038146972, 3.900000095367432, 0.0008500000089406968, 1234567.89, -0.0, 40.0]
    shown = _rounded(pd.Series(values)).astype(str).tolist()
    assert shown == ["0.3", "0.221", "3.9", "0.00085", "1234567.89", "-0.0", "40.0"]
    assert _rounded(pd.Series([3, 10**9])).tolist() == [3, 10**9]
    assert _rounded(pd.Series(np.float32([0.1, 2.5]))).tolist() == [0.1, 2.5]
    assert _rounded(pd.Series([np.nan])).isna().all()


@pytest.mark.parametrize("seed", range(5))
def test_decoys_are_the_least_doubted(seed):
    rng = np.random.default_rng(seed)
    labels, groups, doubt = rng.choice(["yes", "no"], 400), rng.choice(["a", "b"], 400), rng.random(400)
    chosen = [int(at) for at in np.argsort(-doubt)[:30]]
    found = decoys(chosen, [at for at in range(400) if at not in chosen], labels, groups, doubt, seed)
    assert len(set(found)) == 30
    for label in ("yes", "no"):
        ours = [doubt[at] for at in found if labels[at] == label]
        assert max(ours) < 0.25, "more than a tenth of the rows is needed"
    few = decoys(chosen[:3], [at for at in range(400) if at not in chosen], labels, groups, doubt, seed)
    assert doubt[few].max() <= 0.1
    assert len({*few, *decoys(chosen[:3], range(200, 400), labels, groups, doubt, seed + 1)}) > 3, "drawn at random"


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


def test_a_review_knows_the_groups_beside_rows_of_which_some_were_set_aside(tmp_path):
    rng = np.random.default_rng(0)
    sex, x = rng.choice(["a", "b"], 180), rng.normal(size=180)
    pd.DataFrame({"x": x, "sex": sex, "y": np.where(x > 0, "yes", "no")}).to_csv(tmp_path / "t.csv", index=False)
    data = load_table(tmp_path / "t.csv", label="y", sensitive="sex", drop=["sex"])
    audit = butfor.LabelAudit(butfor.MLP((2,), max_epochs=2), members=1, fresh_seeds=0)
    audit.fit(data.X_train, data.y_train, sensitive_features=data.groups["train"])
    found = rows_of(run_of(audit.fitted_))
    table, groups = found.table, found.groups
    assert table.set_aside
    assert list(groups) == list(audit.fitted_.sensitive.values) == [sex[row] for row in table.X.index]


def test_bad_reviews_get_one_sentence(german_file, salary_file, tasks, tmp_path, capsys):
    from_python = changed(german_file, tmp_path / "python.json", lambda r: r["run"]["data"].update(table=None))
    away = changed(german_file, tmp_path / "away.json", lambda r: r["run"]["data"].update(sha256="0"))
    for arguments, sentence in [
        ((german_file,), "--out FOLDER"),
        ((german_file, "--out", tasks), "exists and may belong"),
        ((german_file, "--out", tmp_path / "new", "--key", tmp_path / "new" / "key.json"), "must not see it"),
        ((german_file, "--out", tmp_path / "new", "--hide", "colour"), "there is no column 'colour'"),
        ((german_file, "--out", tmp_path / "new", "--labels", 0), "--labels 0"),
        ((german_file, "--out", tmp_path / "new", "--labels", 9000), "the record names 180 labels to review"),
        ((german_file, "--answers", tasks / "tasks.csv", "--labels", 3), "--labels says what to review"),
        ((german_file, "--out", german_file.parent), "is the folder of a file that this command reads"),
        ((german_file, "--out", tmp_path / "new", "--key", german_file), "is the record itself"),
        ((from_python, "--out", tmp_path / "new"), "because the table was given in Python"),
        ((salary_file, "--out", tmp_path / "new"), "The record names no label to review"),
        ((away, "--out", tmp_path / "new"), "its training rows are different"),
    ]:
        code, _, err = run(capsys, "review", *arguments)
        assert code == 2
        assert sentence in err
        assert len(err.splitlines()) == 1
    assert not (tmp_path / "new").exists()
