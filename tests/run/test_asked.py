"""Not asked, not finished and nobody are three answers: of the comparison, worlds, fresh seeds and
side effects."""

import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import worlds
from butfor.errors import Stopped
from butfor.report.page import population_page
from butfor.result.outcome import Outcome
from butfor.result.population import Population
from conftest import press
from recorded import LABELS, TABLE, Notes, fitted, run, wronged

PEOPLE, _, _ = wronged(60, 1)


class Slow(LogisticRegression):
    """Takes a while, so that a limit is met; nobody else trains it faster."""

    pause = 0.0

    def fit(self, X, y):
        time.sleep(self.pause)
        return super().fit(X, y)


def one_by_one(audit):
    audit.fitted_.learner.given.__class__.pause = 0.02
    return audit


@pytest.fixture
def slow():
    audit = fitted(model=Slow(), settings={"budget": 12, "fresh_seeds": 30, "engine": "joblib"})
    audit.standards()  # known, so that the limit is for the rest
    yield one_by_one(audit)
    Slow.pause = 0.0


def said_everywhere(population, sentence, tmp_path):
    """In `print`, on the page and in what a record says."""
    population.to_json(tmp_path / "audit.json")
    again = Population.from_json(tmp_path / "audit.json")
    assert again.run.questions == population.run.questions
    assert again.run.one_standard == population.run.one_standard
    unbroken = population_page(again).replace("\N{NO-BREAK SPACE}", " ")
    assert sentence in unbroken
    assert sentence in str(again)


def test_worlds_that_a_limit_of_time_leaves_out_are_not_nobody(slow, tmp_path):
    population = slow.explain_all(PEOPLE, stop=butfor.max_seconds(1))
    assert population.run.out_of_time
    (one,) = population.one_standard
    assert (one.outcome, one.worlds) == (Outcome("not asked", "time"), ())
    assert population.run.questions.one_standard == Outcome("not asked", "time", 0, 1)
    said_everywhere(population, f"for {one.who} is not known: the time allowed was up.", tmp_path)
    page = population_page(population)
    assert "would probably change under one standard come first" not in page
    assert "those whose decision hinges on few labels" in page.lower()
    counted, found = population.run.questions.side_effects, len(population.found)
    assert (counted.status == "answered") == (
        not found or all(v.collateral for v in population.found)
    )


def test_nobody_falls_short_is_an_answer():
    rng = np.random.default_rng(5)
    even = np.where(TABLE["income"] + 0.3 * rng.normal(size=len(TABLE)) > 0, "yes", "no")
    population = fitted(y=even, settings={"fresh_seeds": 30}).explain_all(PEOPLE, cases=range(3))
    assert population.one_standard == ()
    assert population.run.questions.one_standard == population.run.questions.comparison == Outcome()
    assert population.run.questions.fresh_seeds == Outcome("not asked", "no seed")
    assert "not known" not in str(population)


def test_what_ctrl_c_leaves_of_worlds_of_several_groups(monkeypatch, tmp_path):
    audit = fitted(settings={"engine": "joblib"})
    monkeypatch.setattr(worlds, "train_worlds", pressed_after(worlds.train_worlds, 3))
    (one,) = audit.one_standard(PEOPLE)
    assert one.outcome == Outcome("not finished", "stopped", 3, 20)
    assert one.sentence.endswith("Only 3 of 20 worlds were made: the audit was stopped.")
    population = audit.explain_all(PEOPLE, cases=range(3))
    assert population.run.questions.one_standard == Outcome("not finished", "stopped", 0, 1)
    said_everywhere(population, "Only 3 of 20 worlds were made: the audit was stopped.", tmp_path)
    monkeypatch.setattr(worlds, "train_worlds", pressed_after(worlds.train_worlds, 0))
    found = audit.one_standard(PEOPLE)
    assert found[0].outcome == Outcome("not finished", "stopped", 0, 20)
    assert "is not known: the audit was stopped" in repr(found)


def pressed_after(real, count):
    def trained(*given):
        for done, each in enumerate(real(*given)):
            if done == count:
                press()
                raise Stopped(by_hand=True)
            yield each

    return trained


def test_a_comparison_that_was_stopped_is_not_one_that_nobody_asked_for(tmp_path):
    class Impatient(Notes):
        def phase(self, name, *_):
            if name == "the other groups' standard":
                press()

    population = fitted().explain_all(PEOPLE, cases=range(3), progress=Impatient())
    assert population.run.questions.comparison == Outcome("not finished", "stopped")
    said_everywhere(
        population,
        "Whether groups are held to another standard is not known, nor whose decisions would "
        "change under one "
        "standard: the audit was stopped.",
        tmp_path,
    )
    plain = fitted(adverse=None).explain_all(PEOPLE, cases=range(3))
    assert plain.run.questions.comparison == Outcome("not asked", "setting")
    assert plain.run.questions.one_standard == Outcome("not asked", "setting")
    assert "is not known" not in str(plain)


def test_a_comparison_that_a_limit_cut_short_is_that_of_its_audit_alone():
    audit = fitted(settings={"budget": 2})
    short = audit._standards = replace(audit.standards(), cut_short=True)
    population = audit.explain_all(PEOPLE, cases=range(1))
    audit._standards = short  # as an audit with a limit leaves it
    assert audit.labels(population) is not None
    assert audit._standards is short, "nothing is drawn again for the labels of that audit"
    assert not audit.standards().cut_short


def test_the_command_says_what_its_limit_left_out(tmp_path, capsys):
    TABLE.assign(y=LABELS).to_csv(tmp_path / "t.csv", index=False)
    question = (
        "--label",
        "y",
        "--sensitive",
        "group",
        "--adverse",
        "no",
        "--model",
        "forest",
        "--budget",
        "12",
    )
    limit = ("--max-seconds", "2", "--members", "2", "--quiet", "--out", tmp_path / "out")
    code, printed, _ = run(capsys, "audit", tmp_path / "t.csv", *question, *limit)
    assert code == 0
    printed = " ".join(printed.split())
    assert "the time allowed was up" in printed
    assert "the time allowed was up" in (tmp_path / "out" / "report.html").read_text()


def test_a_limit_of_time_ends_confirmations_too():
    """Each is a training by the model's own fit: those that are done count, the others are not
    begun."""
    settings = {
        "budget": 12,
        "fresh_seeds": 0,
        "phi": "everyone",
        "psi": "everything",
        "strategy": asked_once,
    }
    audit = fitted(model=Slow(), settings=settings | {"engine": Unsure()})
    audit.standards()
    try:
        Slow.pause = 0.1
        begun = time.monotonic()
        population = audit.explain_all(PEOPLE, stop=butfor.max_seconds(1.5))
        took = time.monotonic() - begun
    finally:
        Slow.pause = 0.0
    assert took < 3, "sixty confirmations take six seconds"
    assert 1 <= len(population.found) < 40


def asked_once(person):
    """The person's best labels; the search goes on for ever."""
    yield person.best(person.budget)
    while True:
        yield person.best(person.budget)


class Unsure(butfor.Engine):
    """Guesses fast that every set changes every decision, so that all are left to the model's own
    fit."""

    name = "unsure"

    def bind(self, learner, table, people):
        rows = ENCODER.transform(people)
        now = (
            LogisticRegression()
            .fit(ENCODER.transform(TABLE), LABELS == "yes")
            .decision_function(rows)
        )

        def train(trainings, advance=None):
            return np.array([-now if flips else now for flips, _ in trainings], np.float32)

        return train


ENCODER = butfor.TableEncoder("onehot", dtype="float64").fit(TABLE)
