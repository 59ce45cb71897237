"""One standard for all: the labels that a group falls short of, flipped; and verdicts that know doubt."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.errors import ReplayError, SettingError
from butfor.progress import Progress
from butfor.report.page import person_page, population_page
from butfor.result.schema import read_record
from butfor.run.explain import flippable_labels
from conftest import press


def loans(rows, wronged, seed):
    """Loans by income and debts; of group b's granted ones a share is refused all the same."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"group": rng.choice(["a", "b"], rows), "income": rng.normal(size=rows)})
    X["debts"] = rng.normal(size=rows)
    granted = X["income"] - X["debts"] + 0.3 * rng.normal(size=rows) > 0
    wrong = granted & (X["group"] == "b") & (rng.random(rows) < wronged)
    return X, pd.Series(np.where(granted & ~wrong, "yes", "no"))


TABLE, LABELS = loans(400, 0.4, 0)
PEOPLE, TRUTH = loans(80, 0.0, 1)


@pytest.fixture(scope="module")
def audit():
    audit = butfor.LabelAudit(LogisticRegression(), budget=12, n_jobs=1)
    return audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")


@pytest.fixture(scope="module")
def population(audit):
    return audit.explain_all(PEOPLE, TRUTH)


def test_who_is_turned_is_what_the_models_own_fit_says_on_the_flipped_labels(audit):
    (one,) = audit.one_standard(PEOPLE, TRUTH)
    flips = list(one.flips)
    assert one.group == "b"
    assert len(flips) == audit.standards().of_group("b").missing > 20
    assert (TABLE["group"].to_numpy()[flips] == "b").all()
    assert (LABELS.to_numpy()[flips] == "no").all()
    adverse = np.flatnonzero((TABLE["group"] == "b") & (LABELS == "no"))
    assert audit.fitted_.doubt[flips].mean() > 2 * audit.fitted_.doubt[np.setdiff1d(adverse, flips)].mean()
    encoder = butfor.TableEncoder("onehot", dtype="float64").fit(TABLE)
    y = (LABELS == "yes").to_numpy()
    flipped = y.copy()
    flipped[flips] = True
    before, after = (LogisticRegression().fit(encoder.transform(TABLE), labels) for labels in (y, flipped))
    decisions = [model.predict(encoder.transform(PEOPLE)) for model in (before, after)]
    assert [person.case for person in one.changed] == list(np.flatnonzero(decisions[0] != decisions[1]))
    assert len(one.changed) > 3
    ours = (PEOPLE["group"] == "b").to_numpy()
    assert one.rates["b"] == pytest.approx([decided[ours].mean() for decided in decisions])
    assert one.accuracy == pytest.approx([(decided == (TRUTH == "yes")).mean() for decided in decisions])
    assert one.people == ours.sum()
    assert f"({len(flips)} of 400 labels), {len(one.of_group)} of {ours.sum()} decisions" in one.sentence


def test_the_record_carries_it_and_the_page_shows_it_first(population, tmp_path):
    (one,) = population.one_standard
    population.to_json(tmp_path / "audit.json")
    record = read_record(tmp_path / "audit.json")
    assert record.run.one_standard == (one,)
    assert [group.name for group in population.standards] == ["group = a", "group = b"]
    page = population_page(population)
    assert page.index("People with group = b were labelled") < page.index("eligible people")
    assert one.sentence in page
    linked = [person.case for person in one.changed if f'href="#case-{person.case}"' in page]
    assert linked == [person.case for person in one.changed]
    assert "--psi doubted" in page
    bent = json.loads((tmp_path / "audit.json").read_text())
    bent["run"]["one_standard"][0]["changed"] = "nobody"
    with pytest.raises(ReplayError, match="one_standard"):
        read_record(json.dumps(bent), allow_changes=True)


def test_every_flip_carries_its_doubt_and_replays(audit, population):
    found = [v for v in population if v.found]
    assert found
    for verdict in found[:3]:
        for flip in verdict.flip_set:
            assert flip.doubt == pytest.approx(audit.fitted_.doubt[flip.position], abs=1e-4)
        assert verdict.doubted == sum(flip.doubt > 0.5 for flip in verdict.flip_set)
        assert "The standard of the other groups would have given" in person_page(verdict)
        assert butfor.replay(verdict).agrees
    assert "doubt of label" in population.keystones
    assert population.to_frame()["doubted"].notna().sum() == len(found)


@pytest.mark.parametrize(("psi", "least"), [("doubted", 0.5), ("doubted(0.8)", 0.8)])
def test_psi_doubted_allows_the_groups_doubted_labels_alone(audit, psi, least):
    other = butfor.LabelAudit(LogisticRegression(), psi=psi, n_jobs=1).fit(TABLE, LABELS, sensitive_features="group")
    allowed = flippable_labels(other.fitted_, PEOPLE[:20]).whole()
    decided = np.where(other.model_.logits(PEOPLE[:20]) > 0, "yes", "no")
    for mask, group, decision in zip(allowed, PEOPLE["group"], decided, strict=False):
        by_hand = (TABLE["group"] == group) & (decision == LABELS) & (audit.fitted_.doubt > least)
        np.testing.assert_array_equal(mask, by_hand)
    assert other._standards is None  # doubt alone needs no draws


def test_finds_under_psi_doubted_replay_from_the_record(tmp_path):
    path = tmp_path / "loans.csv"
    TABLE.assign(granted=LABELS).to_csv(path, index=False)
    from butfor.cli import main

    out = tmp_path / "out"
    asked = ["--label", "granted", "--sensitive", "group", "--model", "logistic", "--psi", "doubted", "--budget", "36"]
    asked += ["--phi", "everyone"]
    assert main(["audit", str(path), *asked, "--quiet", "--cases", "0:30", "--out", str(out)]) == 0
    assert any(person.get("flip_set") for person in json.loads((out / "audit.json").read_text())["people"])
    assert main(["replay", str(out / "audit.json")]) == 0


def test_fresh_seeds_say_how_far_to_believe_it():
    audit = butfor.LabelAudit(butfor.MLP((4,), max_epochs=30, batch_size=32), members=2, fresh_seeds=3, n_jobs=1)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    (one,) = audit.one_standard(PEOPLE)
    assert one.seeded
    assert one.changed
    assert all(person.fresh.seeds == 3 for person in one.changed)
    assert "whatever the seed" in one.sentence


def test_a_difference_that_may_be_chance_flips_nothing():
    audit = butfor.LabelAudit(LogisticRegression(), n_jobs=1)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    found = audit.standards()
    by_chance = [replace(c, p_adjusted=0.06) for c in found.comparisons]
    audit._standards = replace(found, comparisons=tuple(by_chance))
    assert audit.standards().of_group("b").missing > 20
    assert not audit.standards().of_group("b").differs
    assert audit.one_standard(PEOPLE) == []


def test_it_is_the_same_in_whichever_order_people_are_asked_about(audit, population):
    again = audit.explain_all(PEOPLE, TRUTH, cases=range(len(PEOPLE))[::-1])
    assert again.one_standard == population.one_standard != ()


class Notes(Progress):
    def __init__(self):
        self.lines = []

    def note(self, line):
        self.lines.append(line)


class Impatient(Progress):
    """Presses Ctrl-C after the first tables of the comparison."""

    done = 0

    def advance(self, count):
        if not self.done:
            press()
        self.done += count


def test_ctrl_c_while_standards_are_compared_ends_the_audit(all_draws):
    audit = butfor.LabelAudit(LogisticRegression(), n_jobs=1)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    impatient = Impatient()
    stopped = audit.explain_all(PEOPLE, progress=impatient)
    assert stopped.interrupted
    assert stopped.run.standard.draws == impatient.done < 99
    assert not any(v.complete for v in stopped.eligible)


def test_without_an_adverse_label_or_with_groups_too_small_there_is_none():
    audit = butfor.LabelAudit(LogisticRegression(), n_jobs=1)
    audit.fit(TABLE, LABELS, sensitive_features="group")
    with pytest.raises(SettingError, match="Name it: fit"):
        audit.standards()
    plain = audit.explain_all(PEOPLE[:3])
    assert plain.run.standard is None
    assert plain.standards == plain.one_standard == ()
    with pytest.raises(SettingError, match="adverse: there is no label 'maybe'"):
        audit.fit(TABLE, LABELS, sensitive_features="group", adverse="maybe")
    notes = Notes()
    audit.fit(TABLE[:50], LABELS[:50], sensitive_features="group", adverse="no")
    small = audit.explain_all(PEOPLE[:3], progress=notes)
    assert small.run.standard is None
    assert any("standards are not compared" in line for line in notes.lines)
    for rule, why in {"doubted(2)": "must be a probability", "doubted('x')": "must be a probability"}.items():
        wrong = butfor.LabelAudit(LogisticRegression(), psi=rule).fit(TABLE, LABELS, sensitive_features="group")
        with pytest.raises(SettingError, match=why):
            flippable_labels(wrong.fitted_, PEOPLE[:2])


def test_other_labelled_rows_count_and_doubts_are_those_of_the_training_rows():
    audit = butfor.LabelAudit(LogisticRegression(), n_jobs=1)
    rest = TABLE[1::2], LABELS[1::2]
    audit.fit(TABLE[::2], LABELS[::2], sensitive_features="group", adverse="no", also_labelled=rest)
    whole = butfor.compare_standards(TABLE, LABELS, sensitive_features="group", adverse="no", draws=20, n_jobs=1)
    assert audit.standards().comparisons == whole.comparisons, "the same table, however it is split"
    assert audit.labels()["doubt"].to_numpy() == pytest.approx(whole.doubt[::2], abs=1e-4)
    alone = butfor.LabelAudit(LogisticRegression(), n_jobs=1)
    alone.fit(TABLE[::2], LABELS[::2], sensitive_features="group", adverse="no")
    assert alone.standards().comparisons != whole.comparisons
