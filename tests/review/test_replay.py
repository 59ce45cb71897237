"""A record is run again: what it claims is computed anew, whatever the model, and what was altered is named."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import butfor
from butfor.errors import ReplayError
from butfor.explain import flippable_labels
from recorded import LABELS, TABLE, audited, changed, run, wronged

LOGISTIC = "--model logistic --budget 30"
KINDS = {
    "logistic, with worlds": f"{LOGISTIC} --adverse no --psi doubted --phi everyone",
    "boosting": "--model boosting --budget 3",
    "one network": "--set hidden=4 --set epochs=40 --members 1 --fresh-seeds 4 --budget 20",
    "ridge, with proofs": "--model ridge --budget 30 --phi predicted(no)",
    "a threshold": f"{LOGISTIC} --threshold 0.7 --adverse no",
    "places": f"{LOGISTIC} --threshold 'top 20%' --adverse no",
    "three labels": f"{LOGISTIC} --label grade --adverse low --drop granted",
    "weights, pairs and dates": f"{LOGISTIC} --weight weight --cluster home",
    "names": f"{LOGISTIC} --names {{folder}}/names.toml",
    "groups that are not learned from": f"{LOGISTIC} --drop group,grade --id number",
    "bands": f"{LOGISTIC} --sensitive age --bands 30,50",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("replay"), np.random.default_rng(0)
    X, y, _ = wronged(900, 1)
    table = X.assign(age=rng.integers(18, 70, 900), granted=y)
    table["grade"] = np.where(y == "yes", np.where(X["income"] > 0.5, "high", "middle"), "low")
    days = pd.to_datetime("2021-03-04") + pd.to_timedelta(np.arange(900) % 90, unit="D")
    extra = {"weight": rng.integers(1, 4, 900), "home": np.arange(900) // 2, "day": days.astype(str)}
    table.assign(**extra).to_csv(folder / "weighed.csv", index=False)
    table.assign(number=[f"N{k}" for k in range(900)]).to_csv(folder / "loans.csv", index=False)
    (folder / "names.toml").write_text('[people]\nnoun = "applicants"\n[groups.group]\nb = "Group B"\n')
    return folder


@pytest.fixture(scope="module")
def record(folder, request) -> Path:
    options = shlex.split(KINDS[request.param].format(folder=folder))
    table = folder / ("weighed.csv" if "--weight" in options else "loans.csv")
    for name, value in {"--label": "granted", "--sensitive": "group", "--drop": "grade"}.items():
        options += [] if name in options else [name, value]
    return audited(folder / request.param, str(table), "--cases", "0:8", "--overwrite", *options)


@pytest.mark.parametrize("record", KINDS, indirect=True)
def test_a_fresh_record_agrees_and_altered_finds_do_not(record, tmp_path, capsys):
    written = json.loads(record.read_text())
    finds = [k for k, person in enumerate(written["people"]) if person.get("flip_set")]
    assert finds, "nothing to retrain"
    code, out, _ = run(capsys, "replay", record, "--fresh-seeds")
    assert (code, "DISAGREE" in out) == (0, False), out
    assert f"{len(finds)} of {len(finds)} counterfactual datasets agree." in out
    assert ("one standard for group = b: agree (20 worlds" in out) == ("--adverse" in KINDS[record.parent.name])
    assert ("proven: at least" in out) == ("proofs" in record.parent.name)
    assert ("of 4 fresh seeds" in out) == ("network" in record.parent.name)

    def alter(record):
        for place, name in ((finds[0], "counterfactual_logit"), (-1, "logit")):
            record["people"][place][name] += 0.5
        flip = record["people"][finds[0]]["flip_set"][0]
        flip["row"] = "elsewhere"

    code, out, _ = run(capsys, "replay", changed(record, tmp_path / "altered.json", alter))
    assert code == 1
    named = [line for line in out.splitlines() if "DISAGREE" in line]
    assert len(named) == (1 if finds[0] == len(written["people"]) - 1 else 2)
    assert "flip_set[0].row is 'elsewhere', but should be " in named[0]
    assert "counterfactual_logit is " in named[0]
    assert "logit is " in named[-1]


ALTERED = {
    "logistic, with worlds": {
        "flippable": lambda r, find: find.update(flippable=find["flippable"] + 1),
        "switch_changes": lambda r, find: find.update(switch_changes=None),
        "flip_set[0].doubt": lambda r, find: find["flip_set"][0].update(doubt=0.9),
        "flip_set[0].label": lambda r, find: find["flip_set"][0].update(label="yes"),
        "group": lambda r, find: find.update(group="z"),
        "recorded_label": lambda r, find: find.update(recorded_label="neither"),
        "row is 7": lambda r, find: find.update(row=7),
        "flip_set[0].values": lambda r, find: find["flip_set"][0]["values"].update(income=9.0),
        "values.income": lambda r, find: find["values"].update(income=9.0),
        "eligible": lambda r, find: r["people"][-1].update(eligible=False),
        "does not change the decision": lambda r, find: find.update(flip_set=find["flip_set"][:1]),
        "run.members": lambda r, find: r["run"].update(members=3),
        "run.seeded": lambda r, find: r["run"].update(seeded=True),
        "worlds[4].flips": lambda r, find: r["run"]["one_standard"][0]["worlds"][4].update(flips=999),
        "worlds_by_person": lambda r, find: r["run"]["one_standard"][0]["changed"][0].update(worlds=3),
        "mean_rates.b": lambda r, find: [w["rates"].update(b=0.99) for w in r["run"]["one_standard"][0]["worlds"]],
    },
    "one network": {"fresh.with_flips": lambda r, find: find["fresh"].update(with_flips=-4)},
    "ridge, with proofs": {
        "at_least": lambda r, find: find.update(at_least=0),
        "proof": lambda r, find: find.update(proof="trust me"),
        "pulls": lambda r, find: find.update(pulls=None),
        "pulls.income": lambda r, find: find["pulls"].update(income=1.0),
    },
    "places": {
        "cut": lambda r, find: find.update(cut=0.1),
        "accepted": lambda r, find: r["run"]["decision"].update(accepted=1),
    },
    "three labels": {"new_decision": lambda r, find: find.update(new_decision="low")},
}  # fmt: skip


@pytest.mark.parametrize("record", ALTERED, indirect=True)
def test_each_altered_field_is_named(record, tmp_path, capsys):
    for name, alter in ALTERED[record.parent.name].items():

        def bend(record, alter=alter):
            alter(record, next(person for person in record["people"] if person.get("flip_set")))

        code, out, err = run(capsys, "replay", changed(record, tmp_path / "altered.json", bend), "--fresh-seeds")
        assert code == 1, (name, out, err)
        assert any(name in line and "DISAGREE" in line for line in out.splitlines()), (name, out)


REFUSED = {
    "nobody": (lambda r: r["people"][0].update(case=999), "case is 999, but the table's test rows are 0 to 179"),
    "another table": (lambda r: r["run"]["data"].update(sha256="0"), "its training rows are different"),
    "no file": (lambda r: r["run"]["data"].update(table="absent.csv"), "absent.csv"),
    "given in Python": (lambda r: r["run"]["data"].update(table=None), "The record names no file or embedded data set"),
    "weights beside": (lambda r: r["run"].update(not_rebuildable=["sample_weight: given"]), "'sample_weight'"),
    "a group unknown": (lambda r: r["run"]["one_standard"][0].update(group="z"), "which run.standard does not compare"),
    "a seed unknown": (lambda r: r["run"]["one_standard"][0]["worlds"][0].update(seed=-1), "worlds[0].seed is -1"),
    "a learner unknown": (lambda r: r["run"].update(learner={"kind": "nonsense"}), "of kind 'nonsense'"),
}  # fmt: skip


@pytest.mark.parametrize("record", ["logistic, with worlds"], indirect=True)
def test_what_cannot_be_replayed_gets_a_sentence(record, tmp_path, capsys):
    for change, sentence in REFUSED.values():
        code, _, err = run(capsys, "replay", changed(record, tmp_path / "bent.json", change))
        assert (code, err.count("\n"), sentence in err) == (2, 1, True), err
    for option, file in (("--test", "people.csv"), ("--data", "absent.csv"), ("--validation", "rows.csv")):
        code, _, err = run(capsys, "replay", record, option, tmp_path / file)
        assert (code, f"{option} {tmp_path / file}" in err or "absent.csv" in err) == (2, True), err
    moved = tmp_path / "moved.csv"
    moved.write_bytes((record.parents[1] / "loans.csv").read_bytes())
    assert run(capsys, "replay", record, "--data", moved)[0] == 0


def test_in_python_a_verdict_replays_in_its_session_and_its_record_with_the_audit():
    def far(situation):
        return np.abs(situation.logits) < 9

    X, model = TABLE[["income", "debts"]], KNeighborsClassifier(5, metric=lambda a, b: np.abs(a - b).sum())
    for audit, phi in (
        (butfor.LabelAudit(LogisticRegression(), budget=30, phi=far), True),
        (butfor.LabelAudit(model, budget=4, strategy="singles"), False),
    ):
        audit.fit(X[:120], LABELS[:120], sensitive_features=TABLE["group"][:120])
        population = audit.explain_all(X[120:140], sensitive_features=TABLE["group"][120:140])
        verdict = (population.found or population)[0]
        assert verdict.found or not phi
        kept = butfor.Verdict.from_json(verdict.to_json())
        again = butfor.replay(verdict, None if phi else model)
        assert again
        assert "agree" in repr(again)
        with pytest.raises(ReplayError, match="because the table was given in Python"):
            butfor.replay(kept)
        assert butfor.replay(kept.to_dict(), audit=audit)
        record = verdict.to_dict()
        record["people"][0]["logit"] += 1
        assert "logit is " in str(butfor.replay(record, audit=audit).differs)
    with pytest.raises(ReplayError, match="which a record cannot store"):
        butfor.replay(verdict)


def test_a_record_about_an_embedded_set_replays_by_itself(salary, salary_population):
    audit, data = salary
    verdict = salary_population.found[0]
    assert butfor.replay(verdict)
    record = verdict.to_dict()
    assert butfor.replay(record)
    allowed = flippable_labels(audit.fitted_, data.X_test.iloc[[verdict.case]])[0]
    outside = int(np.flatnonzero(~allowed)[0])
    record["people"][0]["flip_set"][0]["position"] = outside
    assert f"row at position {outside} is flipped, but the rule ψ does not allow it" in butfor.replay(record).differs
