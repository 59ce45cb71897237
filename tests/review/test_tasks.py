"""Tasks for a reviewer: the labels that matter among decoys, and nothing that gives them away."""

import json
from xml.etree import ElementTree

import numpy as np
import pandas as pd

import butfor
from butfor import load_dataset
from butfor.data.table import load_table
from butfor.result.population import Population
from butfor.review.rebuild import rows_of
from butfor.review.tasks import matched
from butfor.run.verdicts import run_of
from recorded import audited, changed, key_of, run


def test_the_folder_shows_rows_and_nothing_else(german_file, tasks):
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


def test_no_file_of_the_folder_tells_group_label_decision_or_decoy(german_file, tasks):
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


def test_the_most_valuable_labels_are_chosen_and_decoys_are_like_them_but_hardly_doubted(german_file, tasks):
    data, key = load_dataset("german"), key_of(tasks)
    population = Population.from_json(german_file)
    by_id = {task["id"]: task for task in key}
    chosen = sorted((t for t in key if not t["decoy"]), key=lambda t: -t["wrong"])
    assert {t["position"] for t in chosen} == {label.position for label in population.labels[:30]}
    assert {t["position"]: t["people"] for t in key} == {
        t["position"]: population.flip_counts[t["position"]] for t in key
    }
    assert any(t["people"] for t in chosen)
    decoys = [t for t in key if t["decoy"]]
    assert len(decoys) == len({t["position"] for t in decoys}) == len({t["beside"] for t in decoys}) == 30
    assert not {t["position"] for t in decoys} & {p for v in population.found for p in v.positions}
    labels = pd.read_csv(german_file.with_name("labels.csv"))
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


def test_a_seed_gives_the_same_tasks_and_another_others(german_file, tmp_path, capsys):
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(capsys, "review", german_file, "--out", tmp_path / name, "--labels", 10, "--random-state", seed)
        texts.append((tmp_path / name / "tasks.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_it_says_what_to_expect_and_hides_what_is_asked(german_file, tmp_path, capsys):
    code, out, _ = run(capsys, "review", german_file, "--out", tmp_path / "tasks", "--labels", 20, "--hide", "age, job")
    assert code == 0
    assert out.startswith("40 labels to review, shuffled: 20 whose review is worth most, and 20 decoys")
    likely = sum(label.wrong for label in Population.from_json(german_file).labels[:20])
    assert f"Of these 20 labels about {likely:.0f} are likely to be wrong (of the first 5, " in out
    assert "the sum of their probabilities of being wrong" in out
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
        ((german_file, "--out", tasks), "is there already"),
        ((german_file, "--out", tmp_path / "new", "--key", tmp_path / "new" / "key.json"), "must not see it"),
        ((german_file, "--out", tmp_path / "new", "--hide", "colour"), "there is no column 'colour'"),
        ((german_file, "--out", tmp_path / "new", "--labels", 0), "--labels 0"),
        ((german_file, "--out", tmp_path / "new", "--labels", 9000), "the record names 180 labels to review"),
        ((german_file, "--answers", tasks / "tasks.csv", "--labels", 3), "--labels says what to review"),
        ((from_python, "--out", tmp_path / "new"), "because the table was given in Python"),
        ((salary_file, "--out", tmp_path / "new"), "The record names no label to review"),
        ((away, "--out", tmp_path / "new"), "its training rows have changed since"),
    ]:
        code, _, err = run(capsys, "review", *arguments)
        assert code == 2
        assert sentence in err
        assert len(err.splitlines()) == 1
    assert not (tmp_path / "new").exists()
