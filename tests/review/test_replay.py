"""A record is run again: what it claims is computed anew, whatever the model, and what was altered
is named."""

import json
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import butfor
from butfor.errors import ReplayError, SettingError
from butfor.explain import flippable_labels
from recorded import LABELS, TABLE, audited, changed, fitted, run, wronged

LOGISTIC = "--model logistic --budget 30"
FIND = {
    "counterfactual_logit": lambda r, find: find.update(
        counterfactual_logit=find["counterfactual_logit"] + 0.5
    ),
    "flip_set[0].row is 'elsewhere'": lambda r, find: find["flip_set"][0].update(row="elsewhere"),
    "; logit is ": lambda r, find: r["people"][-1].update(logit=r["people"][-1]["logit"] + 0.5),
}
KINDS = {
    "logistic, one standard": (f"{LOGISTIC} --adverse no --psi doubted --phi everyone", {
        "flippable": lambda r, find: find.update(flippable=find["flippable"] + 1),
        "switch_changes": lambda r, find: find.update(switch_changes=None),
        "flip_set[0].doubt": lambda r, find: find["flip_set"][0].update(doubt=0.9),
        "flip_set[0].label": lambda r, find: find["flip_set"][0].update(label="yes"),
        "group": lambda r, find: find.update(group="z"),
        "recorded_label": lambda r, find: find.update(recorded_label="neither"),
        "row is 7": lambda r, find: find.update(row=7),
        "flip_set[0].values": lambda r, find: find["flip_set"][0]["values"].update(income=9.0),
        "values.income": lambda r, find: find["values"].update(income=9.0),
        "left_out": lambda r, find: r["people"][-1].update(left_out="rule"),
        "does not change the decision": lambda r, find: [p.update(flip_set=p["flip_set"][:1]) for p in r["people"]
                                                         if p is not find and p.get("flip_set")],
        "run.members": lambda r, find: r["run"].update(members=3),
        "run.seeded": lambda r, find: r["run"].update(seeded=True),
    }),
    "one network": ("--set hidden=4 --set epochs=40 --members 1 --fresh-seeds 4 --budget 20", {
        "fresh.with_flips": lambda r, find: find["fresh"].update(
            with_flips=0, only_with_flips=0, only_without_flips=find["fresh"]["without_flips"]
        ),
    }),
    "ridge, with proofs": ("--model ridge --budget 30 --phi predicted(no)", {
        "at_least": lambda r, find: find.update(at_least=0),
        "proof": lambda r, find: find.update(proof="trust me"),
        "pulls.income": lambda r, find: find["pulls"].update(income=1.0),
        "pulls is None": lambda r, find: r["people"][-1].update(pulls=None),
    }),
    "a threshold, weights, pairs and dates": (
        f"{LOGISTIC} --threshold 0.7 --adverse no --weight weight --cluster home", {},
    ),
    "places": (f"{LOGISTIC} --threshold 'top 35%' --adverse no --cases 0:4", {
        "cut": lambda r, find: find.update(cut=0.1),
        "accepted": lambda r, find: r["run"]["decision"].update(accepted=1),
    }),
    "three labels": (f"{LOGISTIC} --label grade --adverse low --drop granted --cases 0:4", {
        "new_decision": lambda r, find: find.update(new_decision="low"),
    }),
    "bands that are not learned from, ids and names": (
        f"{LOGISTIC} --sensitive age --bands 30,50 --drop age,grade --id number --names "
        f"{{folder}}/names.toml", {},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Callable[[str], Path]:
    """The record of an audit of one kind."""
    folder, rng, n = tmp_path_factory.mktemp("replay"), np.random.default_rng(0), 600
    X, y, _ = wronged(n, 1)
    table = X.assign(age=rng.integers(18, 70, n), granted=y)
    table["grade"] = np.where(y == "yes", np.where(X["income"] > 0.5, "high", "middle"), "low")
    days = pd.to_datetime("2021-03-04") + pd.to_timedelta(np.arange(n) % 90, unit="D")
    extra = {"weight": rng.integers(1, 4, n), "home": np.arange(n) // 2, "day": days.astype(str)}
    table.assign(**extra).to_csv(folder / "weighed.csv", index=False)
    table.assign(number=[f"N{k}" for k in range(n)]).to_csv(folder / "loans.csv", index=False)
    (folder / "names.toml").write_text(
        '[people]\nnoun = "applicants"\n[columns]\nincome = "earnings"\n'
    )

    @cache
    def made(kind: str) -> Path:
        options = shlex.split(KINDS[kind][0].format(folder=folder))
        usual = {"--label": "granted", "--sensitive": "group", "--drop": "grade", "--cases": "0:8"}
        options += [
            word for name, value in usual.items() if name not in options for word in (name, value)
        ]
        return audited(
            folder / kind,
            str(folder / ("weighed.csv" if "--weight" in options else "loans.csv")),
            *options,
        )

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_record_agrees_and_whatever_is_altered_is_named(kind, recorded, tmp_path, capsys):
    options, alterations = KINDS[kind]
    record = recorded(kind)
    finds = sum(bool(person.get("flip_set")) for person in json.loads(record.read_text())["people"])
    assert finds, "nothing to retrain"
    code, out, err = run(capsys, "replay", record, "--fresh-seeds")
    assert (code, "DISAGREE" in out) == (0, False), (out, err)
    assert f"{finds} of {finds} counterfactual datasets agree." in out
    assert ("under one standard were not trained again" in out) == ("--adverse" in options)
    assert ("proven: at least" in out) == ("proofs" in kind)
    assert ("of 4 fresh seeds" in out) == ("network" in kind)

    def alter(record):
        find = next(person for person in record["people"] if person.get("flip_set"))
        for change in (FIND | alterations).values():
            change(record, find)

    code, out, err = run(
        capsys, "replay", changed(record, tmp_path / "altered.json", alter), "--fresh-seeds"
    )
    assert code == 1, err
    said = "\n".join(line for line in out.splitlines() if "DISAGREE" in line)
    assert [name for name in FIND | alterations if name not in said] == [], said


OF_0_5 = "4f8edd2bf7e666e61f41385823798aa1ce4158f085cb080f24d2144e7cdefe11"
"""The hash of the salary rows in a record of 0.5."""


def test_a_record_of_0_5_is_checked_by_its_own_rule_and_an_unknown_rule_is_refused(
    salary_file, tmp_path, capsys
):
    def of_0_5(record, sha256=OF_0_5):
        record["run"]["data"]["sha256"] = sha256
        del record["run"]["data"]["hash_rule"]

    assert run(capsys, "replay", changed(salary_file, tmp_path / "old.json", of_0_5))[0] == 0
    for change, said in (
        (lambda r: of_0_5(r, r["run"]["data"]["sha256"]), "its training rows are different"),
        (lambda r: r["run"]["data"].update(sha256=OF_0_5), "its training rows are different"),
        (
            lambda r: r["run"]["data"].update(hash_rule="later"),
            "install the version of butfor that wrote the record",
        ),
    ):
        code, _, err = run(capsys, "replay", changed(salary_file, tmp_path / "bent.json", change))
        assert (code, said in err) == (2, True), err


def test_rows_that_look_alike_as_text_are_another_table():
    code = (TABLE["income"] > 0).astype(int)
    audits = [
        fitted(TABLE.assign(code=code.astype(kind)), adverse=None) for kind in (int, "category")
    ]
    populations = [audit.explain_all(audit.table_.X, cases=[0]) for audit in audits]
    assert populations[0].run.data.sha256 != populations[1].run.data.sha256
    with pytest.raises(SettingError, match="The population belongs to another table"):
        audits[0].review_tasks(populations[1], labels=4)


REFUSED = {
    "nobody": (lambda r: r["people"][0].update(case=999), "The record cannot be replayed"),
    "another table": (lambda r: r["run"]["data"].update(sha256="0"), "its training rows are "
                                                                     "different"),
    "no file": (lambda r: r["run"]["data"].update(table="absent.csv"), "absent.csv"),
    "given in Python": (lambda r: r["run"]["data"].update(table=None), "The record names no file "
                                                                       "or embedded data set"),
    "weights beside": (lambda r: r["run"].update(not_rebuildable=["sample_weight: given"]), "'sample_weight'"),
    "code of yours": (lambda r: r["run"].update(not_rebuildable=["psi: far"]), "cannot restore "
                                                                               "'psi'"),
    "a learner unknown": (lambda r: r["run"].update(learner={"kind": "nonsense"}), "of kind 'nonsense'"),
}  # fmt: skip


def test_what_cannot_be_replayed_gets_a_sentence_and_a_table_may_have_moved(
    recorded, tmp_path, capsys
):
    record = recorded("logistic, one standard")
    for change, sentence in REFUSED.values():
        code, _, err = run(capsys, "replay", changed(record, tmp_path / "bent.json", change))
        assert (code, err.count("\n"), sentence in err) == (2, 1, True), err
    code, _, err = run(capsys, "replay", record, "--data", tmp_path / "absent.csv")
    assert (code, "absent.csv" in err) == (2, True), err
    moved, loans = tmp_path / "moved.csv", pd.read_csv(record.parents[1] / "loans.csv")
    loans.to_csv(moved, index=False)
    assert run(capsys, "replay", record, "--data", moved)[0] == 0

    # The file of --test has moved together with the table.
    loans[:400].to_csv(tmp_path / "train.csv", index=False)
    loans[400:].to_csv(tmp_path / "people.csv", index=False)
    given = (
        f"--test {tmp_path / 'people.csv'} --label granted --sensitive group --drop grade "
        "--cases 0:4"
    )
    record = audited(
        tmp_path / "beside", str(tmp_path / "train.csv"), *f"{LOGISTIC} {given}".split()
    )
    for name in ("train.csv", "people.csv"):
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / name).rename(tmp_path / "new" / name)
    assert run(capsys, "replay", record)[0] == 2
    assert run(capsys, "replay", record, "--data", tmp_path / "new" / "train.csv")[0] == 0


def test_in_python_a_verdict_replays_in_its_session_and_its_record_with_the_audit():
    def far(situation):
        return np.abs(situation.logits) < 9

    X = TABLE[["income", "debts"]].assign(band=pd.cut(TABLE["income"], [-9, 0, 9]))
    rows, people = slice(60), slice(60, 70)
    model = KNeighborsClassifier(5, metric=lambda a, b: np.abs(a - b).sum())
    for audit in (
        butfor.LabelAudit(LogisticRegression(), budget=30, phi=far),
        butfor.LabelAudit(model, budget=4, strategy="singles"),
    ):
        audit.fit(X[rows], LABELS[rows], sensitive_features=TABLE["group"][rows])
        population = audit.explain_all(X[people], sensitive_features=TABLE["group"][people])
        verdict = (population.found or population)[0]
        assert butfor.replay(verdict)
        assert "agree" in repr(butfor.replay(verdict))
        kept = butfor.Verdict.from_json(verdict.to_json())
        with pytest.raises(ReplayError, match=r"audit=|code of yours"):
            butfor.replay(kept)
        assert butfor.replay(kept.to_dict(), audit=audit)
        record = verdict.to_dict()
        record["people"][0]["logit"] += 1
        assert "logit is " in str(butfor.replay(record, audit=audit).differs)


def test_a_record_about_an_embedded_set_replays_by_itself_and_flips_must_be_allowed(
    salary, salary_population
):
    audit, data = salary
    verdict = salary_population.found[0]
    record = verdict.to_dict()
    assert butfor.replay(record)
    allowed = flippable_labels(audit.fitted_, data.X_test.iloc[[verdict.case]])[0]
    outside = int(np.flatnonzero(~allowed)[0])
    record["people"][0]["flip_set"][0]["position"] = outside
    assert (
        f"row at position {outside} is flipped, but the rule ψ does not allow it"
        in butfor.replay(record).differs
    )
