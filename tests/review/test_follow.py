"""What follows an audit: a review that gives nothing away, answers that come back, limits that hold."""

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

import butfor
from benchmarks.review import plant
from butfor import load_dataset
from butfor.cli import main
from butfor.data.table import load_table
from butfor.result.population import Population
from butfor.result.record import sealed
from butfor.review.answers import Outcome
from butfor.review.gate import Check, check, junit, markdown, share_in
from butfor.review.select import Task, matched
from butfor.review.select import _training as training_of_run


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


@pytest.fixture
def tasks(german, tmp_path, capsys) -> Path:
    assert run(capsys, "review", german, "--out", tmp_path / "tasks", "--random-state", 3)[0] == 0
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
        for word in ("male", "sex", "decoy", "keystone", "audit", "logit", "solid", "position", "0.5"):
            assert word not in text, f"{name} holds {word!r}"
    for name in ("tasks.csv", "tasks.json"):  # the two names are told once, as what to choose from
        assert "bad credit" not in everything[name]
        assert "good credit" not in everything[name]
    config = ElementTree.fromstring(everything["label_config.xml"])
    assert [choice.get("value") for choice in config.iter("Choice")] == ["bad credit", "good credit"]


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


def test_keystones_are_the_solid_flip_sets_and_decoys_are_like_them(german, tasks):
    data, key = load_dataset("german"), key_of(tasks)
    population = Population.from_json(german)
    people = Counter(position for v in population.solid for position in v.positions)
    by_id = {task["id"]: task for task in key}
    assert {t["position"]: t["people"] for t in key if not t["decoy"]} == people
    decoys = [t for t in key if t["decoy"]]
    assert len(decoys) == len(people)
    assert len({t["position"] for t in decoys}) == len(decoys)
    assert not {t["position"] for t in decoys} & {p for v in population.found for p in v.positions}
    assert len({t["beside"] for t in decoys}) == len(decoys)
    for decoy in decoys:
        keystone = by_id[decoy["beside"]]
        assert decoy["label"] == keystone["label"]
        sexes = data.X_train["sex"].iloc[[decoy["position"], keystone["position"]]]
        assert sexes.nunique() == 1
    for task in key:
        assert task["label"] == data.label_names[data.y_train.iloc[task["position"]]]
        assert task["row"] == data.X_train.index[task["position"]]


def test_rows_of_alternative_sets_are_no_decoys(german, tasks, tmp_path, capsys):
    decoys = [task["position"] for task in key_of(tasks) if task["decoy"]]

    def use_them(record: dict) -> None:
        found = next(person for person in record["people"] if "flip_set" in person)
        found["alternatives"] = [decoys[k : k + 6] for k in range(0, len(decoys), 6)]  # the budget is 6

    other = changed(german, tmp_path / "other.json", use_them)
    assert run(capsys, "review", other, "--out", tmp_path / "again", "--random-state", 3)[0] == 0
    again = json.loads((tmp_path / "again.key.json").read_text())["tasks"]
    assert not {task["position"] for task in again} & set(decoys)


def test_a_seed_gives_the_same_tasks_and_another_others(german, tmp_path, capsys):
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(capsys, "review", german, "--out", tmp_path / name, "--random-state", seed)
        texts.append((tmp_path / name / "tasks.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_solid_finds_or_all_and_the_most_hinged_on(salary, german, tmp_path, capsys):
    code, out, _ = run(capsys, "review", salary, "--out", tmp_path / "solid")
    assert code == 0
    assert out.startswith("4 labels to review: 2 that decisions hinge on and 2 decoys")
    assert "Not for the reviewer" in out
    assert str(tmp_path / "solid.key.json") in out
    run(capsys, "review", salary, "--out", tmp_path / "all", "--all")
    key = json.loads((tmp_path / "all.key.json").read_text())["tasks"]
    assert sum(not task["decoy"] for task in key) == 4
    run(capsys, "review", german, "--out", tmp_path / "most", "--most", 3, "--hide", "age, job")
    key = json.loads((tmp_path / "most.key.json").read_text())["tasks"]
    assert sorted((task["people"] for task in key), reverse=True)[:4] == [2, 2, 2, 0]
    assert not {"age", "job", "sex"} & set(pd.read_csv(tmp_path / "most" / "tasks.csv").columns)


def test_a_model_blind_to_the_group_still_has_matched_decoys(tmp_path, capsys):
    record = audited(
        tmp_path / "blind", "german", "--model", "logistic", "--budget", "6", "--cases", "0:12",
        "--drop", "sex", "--sensitive", "sex",
    )  # fmt: skip
    code, out, _ = run(capsys, "review", record, "--out", tmp_path / "tasks")
    assert code == 0
    assert "recorded label and group" in out
    sex, key = load_dataset("german").X_train["sex"], {task["id"]: task for task in key_of(tmp_path / "tasks")}
    for task in key.values():
        if task["decoy"]:
            assert sex.iloc[task["position"]] == sex.iloc[key[task["beside"]]["position"]]


def one_person(path: Path, to: Path) -> Path:
    """The record of the first person found alone."""
    return changed(path, to, lambda r: r.update(people=[next(p for p in r["people"] if "flip_set" in p)]))


def test_the_record_of_one_person_has_tasks(german, tmp_path, capsys):
    one = one_person(german, tmp_path / "one.json")
    flips = json.loads(one.read_text())["people"][0]["flip_set"]
    assert run(capsys, "review", one, "--out", tmp_path / "tasks")[0] == 0
    assert sum(not task["decoy"] for task in key_of(tmp_path / "tasks")) == len(flips)


def test_too_few_rows_alike_give_other_groups_and_then_none():
    labels = np.array(["yes"] * 6 + ["no"] * 2, dtype=object)
    groups = np.array(["a", "a", "a", "b", "b", "b", "a", "a"], dtype=object)
    rng = np.random.default_rng(0)
    # Rows 0 and 1 have one row of their label and group left (2), and another of their label (5); 6 has none.
    beside = matched([0, 1, 6], np.array([2, 5]), labels, groups, rng)
    assert set(beside) == {2, 5}
    assert set(beside.values()) == {0, 1}
    assert matched([0], np.array([6, 7]), labels, None, rng) == {}


def test_columns_named_like_ours_keep_apart(tmp_path, capsys):
    table, _ = plant(tmp_path / "german.csv", 0)
    frame = pd.read_csv(table, keep_default_na=False)
    frame.rename(columns={"age": "id", "job": "label"}).to_csv(table, index=False)
    settings = ("--label", "credit", "--sensitive", "sex", "--model", "logistic", "--budget", "6", "--cases", "0:12")
    record = audited(tmp_path / "audit", str(table), *settings)
    assert run(capsys, "review", record, "--out", tmp_path / "tasks")[0] == 0
    header = (tmp_path / "tasks" / "tasks.csv").read_text().splitlines()[0].split(",")
    assert header[0] == "id"
    assert header[-1] == "label"
    assert {"id (of the table)", "label (of the table)"} < set(header)


# --- answers --------------------------------------------------------------------------------------------


OTHER = {"bad credit": "good credit", "good credit": "bad credit"}


def answered(tasks: Path, wrong_keystones: int, wrong_decoys: int) -> dict[int, str]:
    """Every task answered as recorded, but for so many of either kind."""
    answers = {task["id"]: task["label"] for task in key_of(tasks)}
    for decoys, wrong in ((False, wrong_keystones), (True, wrong_decoys)):
        for task in [t for t in key_of(tasks) if t["decoy"] == decoys][:wrong]:
            answers[task["id"]] = OTHER[task["label"]]
    return answers


def fill_in(tasks: Path, answers: dict[int, str], separator: str = ",") -> Path:
    frame = pd.read_csv(tasks / "tasks.csv", dtype=str, keep_default_na=False)
    frame["label"] = [answers.get(int(number), "") for number in frame["id"]]
    frame.to_csv(tasks / "tasks.csv", index=False, sep=separator, encoding="utf-8-sig")
    return tasks / "tasks.csv"


@pytest.mark.parametrize("separator", [",", ";"])
def test_planted_disagreements_come_back(german, tasks, tmp_path, capsys, separator):
    filled = fill_in(tasks, answered(tasks, 9, 2), separator)
    code, out, _ = run(capsys, "review", german, "--answers", filled, "--out", tmp_path / "back")
    assert code == 0
    n = sum(not task["decoy"] for task in key_of(tasks))
    assert f"of 9 of {n} keystones" in out
    assert f"of 2 of {n} decoys" in out
    p = hypergeom.sf(8, 2 * n, 11, n)  # by hand: of 11 disagreements 9 or more fall on the n keystones
    assert f"p = {p:.2g}" in out
    assert p < 0.05
    assert "more often than labels like them" in out
    wrong = [task for task in key_of(tasks) if not task["decoy"]][:9]
    for task in wrong:
        assert f"row {task['row']}: '{task['label']}' → '{OTHER[task['label']]}'" in out
    corrections = pd.read_csv(tmp_path / "back" / "corrections.csv")
    assert corrections["kind"].tolist() == ["keystone"] * 9 + ["decoy"] * 2
    assert set(corrections["row"][:9]) == {task["row"] for task in wrong}
    assert (corrections["reviewed"] == corrections["recorded"].map(OTHER)).all()


def test_empty_answers_are_not_reviewed(german, tasks, capsys):
    answers = dict(list(answered(tasks, 0, 0).items())[:10])
    code, out, _ = run(capsys, "review", german, "--answers", fill_in(tasks, answers))
    assert code == 0
    assert f"{len(key_of(tasks)) - 10} of {len(key_of(tasks))} tasks were not reviewed" in out
    assert "may be chance" in out
    code, out, _ = run(capsys, "review", german, "--answers", fill_in(tasks, {}))
    assert code == 0
    assert "nothing to compare" in out


def annotation(label: str, cancelled: bool = False) -> dict:
    result = [{"from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": [label]}}]
    return {"id": 7, "was_cancelled": cancelled, "result": result}


def test_label_studio_gives_the_same(german, tasks, tmp_path, capsys):
    answers = answered(tasks, 9, 2)
    _, wanted, _ = run(capsys, "review", german, "--answers", fill_in(tasks, answers))
    exported = json.loads((tasks / "tasks.json").read_text())
    for k, task in enumerate(exported):
        label = answers[task["data"]["id"]]
        task |= {"id": 1 + k, "annotations": [annotation(label), annotation(OTHER[label], cancelled=True)]}
    path = tmp_path / "export.json"  # beside tasks.key.json
    path.write_text(json.dumps(exported))
    code, out, _ = run(capsys, "review", german, "--answers", path)
    assert code == 0
    assert out == wanted
    # Of three reviewers two count; of two who differ none.
    label = answers[exported[0]["data"]["id"]]
    exported[0]["annotations"] = [annotation(label), annotation(OTHER[label]), annotation(label)]
    exported[1]["annotations"] = [annotation(label), annotation(OTHER[label])]
    exported[2]["annotations"] = []
    path.write_text(json.dumps(exported))
    assert "2 of 98 tasks were not reviewed" in run(capsys, "review", german, "--answers", path)[1]


def test_the_exact_test_is_one_sided():
    tasks = [Task(k, k, k, "yes", 1) for k in range(10)] + [Task(10 + k, k, k, "yes", 0, k) for k in range(10)]
    more = Outcome(tuple(tasks), {t.id: "no" if t.id < 6 or t.id == 10 else "yes" for t in tasks})
    fewer = Outcome(tuple(tasks), {t.id: "no" if t.id == 0 or t.id >= 14 else "yes" for t in tasks})
    assert more.p_value == pytest.approx(hypergeom.sf(5, 20, 7, 10))
    assert fewer.p_value == pytest.approx(hypergeom.sf(0, 20, 7, 10))
    assert fewer.p_value > 0.99


def edited(tasks: Path, change) -> Path:
    with (tasks / "tasks.csv").open(newline="", encoding="utf-8") as file:
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
        (_label("maybe"), "line 4 (task {id}): 'maybe' is not a label; write 'bad credit' or 'good credit'"),
        (_label("Bad credit"), "'Bad credit' is not a label"),
        (lambda rows: rows[3].__setitem__(0, "17"), "line 4: there is no task '17' in the key"),
        (lambda rows: rows[3].__setitem__(0, "x"), "there is no task 'x'"),
        (lambda rows: rows.append(rows[3]), "task {id} is answered already, in line 4"),
        (lambda rows: rows[0].__setitem__(0, "number"), "no column 'id'"),
        (lambda rows: rows[0].__setitem__(-1, "verdict"), "no column 'label'"),
        (lambda rows: rows.clear(), "no column 'id'"),
    ],
)
def test_bad_answers_get_one_sentence(german, tasks, capsys, change, sentence):
    number = pd.read_csv(tasks / "tasks.csv")["id"][2]
    code, out, err = run(capsys, "review", german, "--answers", edited(tasks, change))
    assert code == 2
    assert sentence.format(id=number) in err
    assert len(err.splitlines()) == 1
    assert not out


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
    none = changed(german, tmp_path / "none.json", nothing)
    loose = changed(salary, tmp_path / "loose.json", lambda r: [p.pop("fresh", None) for p in r["people"]])
    away = changed(german, tmp_path / "away.json", lambda r: r["run"]["data"].update(sha256="0"))
    strange = changed(german, tmp_path / "strange.json", lambda r: r["run"]["data"].update(colour="red"))
    for arguments, sentence in [
        ((german,), "--out FOLDER"),
        ((german, "--out", tasks), "is there already"),
        ((german, "--out", tmp_path / "new", "--key", tmp_path / "new" / "key.json"), "must not see it"),
        ((german, "--out", tmp_path / "new", "--hide", "colour"), "there is no column 'colour'"),
        ((german, "--out", tmp_path / "new", "--most", 0), "--most 0"),
        ((german, "--answers", tasks / "tasks.csv", "--most", 3), "--most says what to review"),
        ((from_python, "--out", tmp_path / "new"), "because the table was given in Python"),
        ((none, "--out", tmp_path / "new"), "no label to review"),
        ((loose, "--out", tmp_path / "new"), "--all reviews"),
        ((away, "--out", tmp_path / "new"), "its training rows have changed since"),
        ((strange, "--out", tmp_path / "new"), "run.data.colour is nothing"),
    ]:
        code, _, err = run(capsys, "review", *arguments)
        assert code == 2
        assert sentence in err
        assert len(err.splitlines()) == 1
    assert not (tmp_path / "new").exists()


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
    assert "kept: max-solid 10 %: 1 of 10" in out
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
    sex, x = rng.choice(["a", "b"], 90), rng.normal(size=90)
    pd.DataFrame({"x": x, "sex": sex, "y": np.where(x > 0, "yes", "no")}).to_csv(tmp_path / "t.csv", index=False)
    data = load_table(tmp_path / "t.csv", label="y", sensitive="sex", drop=["sex"])
    audit = butfor.LabelAudit(butfor.MLP((2,), max_epochs=2), members=1, fresh_seeds=0)
    audit.fit(data.X_train, data.y_train, sensitive_features=data.groups["train"])
    table, groups, _ = training_of_run(audit.run_record())
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


def test_planted_labels_are_those_the_file_differs_in(tmp_path):
    path, planted = plant(tmp_path / "german.csv", 5)
    data = load_dataset("german")
    real = pd.concat([data.y_train, data.y_val, data.y_test]).sort_index()
    differs = (pd.read_csv(path)["credit"] == data.label_names[1]).astype(int).to_numpy() != real.to_numpy()
    assert set(np.flatnonzero(differs)) == planted
    assert len(planted) == 20
    assert planted <= set(data.X_train.index)
