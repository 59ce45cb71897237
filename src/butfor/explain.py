"""The audit, in the order in which it happens.

    comparison ─▸ ψ ─▸ φ ─▸ proofs ─▸ trial ─▸ ranking ─▸ searches ─▸ fresh seeds ─▸ side effects ─▸
    one standard

`explain_all` is the whole audit. `answered` is its middle, from proofs to side effects: it runs
once or, with more than two labels, once for each decision and the label that flips give. The steps
stand in `steps.py`. Ctrl-C or a limit may end the audit at any point: what is done is kept, the
rest is marked as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from butfor.fit import Fitted
from butfor.labels import labels_to_review
from butfor.measured import Answers, performance_of, persons_of, run_of
from butfor.models.engines import choose_engine
from butfor.models.ensemble import ledger_gaps
from butfor.models.ledger import Ledger
from butfor.models.seam import Engine
from butfor.models.trainer import Trainer
from butfor.question import Inquiry, Question, by_sides
from butfor.result.outcome import (
    NO_SEED,
    NOT_ASKED,
    NOT_FINISHED,
    SETTING,
    STOPPED,
    TABLE,
    TIME,
    Outcome,
    Questions,
)
from butfor.result.population import Population
from butfor.result.record import plain
from butfor.result.reviewed import TrainingLabel
from butfor.result.run import Agreement, Run, figures_of
from butfor.result.verdict import Verdict
from butfor.result.worlds import OneStandard
from butfor.search.proofs import Bracket, prove
from butfor.search.rules import Allowed, Situation, flippable, why_left_out
from butfor.search.schedule import Outcome as SearchOutcome
from butfor.standard.compare import least_draws
from butfor.standard.groups import Standards
from butfor.steps import (
    SEARCH_SHARE,
    after_trial,
    check_finds,
    has_side_effects,
    proven,
    ranked,
    searched,
    side_effects,
    to_search,
    under_fresh_seeds,
)
from butfor.support.errors import SettingError, Stopped, TableError, listed
from butfor.support.progress import Progress
from butfor.support.stopping import Stop, Work, checking, listen
from butfor.support.threads import single_threaded
from butfor.worlds import FlipTrial, not_asked, one_standard, outcome_of

STANDARDS_SHARE = 0.2
"""The share of the time limit after which a comparison of groups draws no more tables."""
STANDARDS_MOST = 0.9
"""The share of the time limit after which the comparison is given up."""
DRAWING_UP_SECONDS = 1e-3
"""Per person, of a time limit, in which verdicts and their page are drawn up; at most half of
it."""


def explain_all(
    fitted: Fitted,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    cases: Sequence[int] | None = None,
    towards: Any = None,
    standards: Standards | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> tuple[Population, Standards | None]:
    """Verdicts about the rows of X at the positions `cases`, or about all, and the comparison of
    groups for later questions. `standards`: if already known."""
    begun = time.monotonic()
    progress = progress or Progress()
    check_stop(stop)
    inquiry = Inquiry.of(fitted, X, y, sensitive_features, cases, towards)
    limits = limits_of(stop, len(inquiry.cases))
    for concern in inquiry.concerns:
        progress.note(f"Note: {concern}")

    with listen() as heard:
        # Is a group's labelling held to another standard? ψ may ask which labels are in doubt.
        compared = compared_groups(fitted, inquiry, standards, limits, begun, progress)
        inquiry = inquiry.knowing(compared.standards)

        with workshop(fitted, limits, begun, progress) as shop:
            # φ: whom may the question be asked about? ψ: which labels may be flipped for them?
            people = inquiry.people()
            allowed = flippable(fitted.psi, people)
            left_out = why_left_out(fitted.phi, people, inquiry.towards)
            whole = Question.about(people, inquiry.cases, left_out, allowed)

            # On which labels does each decision hinge?
            answers: list[Answers] = []
            for question, trainer in shop.in_turn(by_sides(whole, inquiry.towards)):
                announced = 0 if answers else len(whole.audited)
                with checking(trainer.work.check):
                    answers.append(answered(fitted, inquiry, question, trainer, announced))

            # Whose decisions would change under one standard for all?
            changed = changed_decisions(fitted, inquiry, compared, shop, heard)

        run = run_of_all(fitted, inquiry, compared, answers, changed, shop, heard, stop)
        persons = {
            person.case: person
            for answer in answers
            for person in persons_of(fitted, answer, compared.standards, inquiry.truth)
        }
        verdicts = [Verdict(persons[case], run, fitted) for case in inquiry.cases]
        labels = doubtful_labels(fitted, inquiry, compared.standards)
        return Population(verdicts, run, labels), compared.standards


def answered(
    fitted: Fitted, inquiry: Inquiry, question: Question, trainer: Trainer, announced: int
) -> Answers:
    """On which labels the decisions hinge: proofs, a ranking, searches; then fresh seeds and side
    effects of what was found. `announced`: how many people are searched for in all, if this
    question is the first and says so, else 0."""
    work = trainer.work
    work.begin()
    with work.limited_to(SEARCH_SHARE):
        # What is proven replaces a search.
        proofs = work.kept(proven(question))
        numbers = to_search(fitted, question, proofs)

        # The ranking may learn from a few retrainings; then it says which labels to try first.
        trial = after_trial(fitted, question, numbers, trainer)
        ranking, figures = work.first(trial, otherwise=(fitted.ranking, None))
        if announced:
            trainer.progress.search_begins(announced)
        orders = work.kept(ranked(ranking, question, numbers, trainer))

        # Flip, train, look; what works is confirmed by the model's own `fit`.
        searches = searched(fitted, question, proofs, ranking, orders, trainer)
        outcomes = work.kept(searches)
    say_if_time_is_up(work, question, outcomes, trainer.progress)
    finds = {
        number: outcome.find for number, outcome in outcomes.items() if outcome.find is not None
    }

    # Does a find hold under seeds that took no part in the search? A third of the time is for that.
    seeds = [] if work.interrupted else fitted.seeds
    flips = {number: find.flips for number, find in finds.items()}
    without = work.kept(under_fresh_seeds(seeds, question.audited, trainer), reserved=True)
    checks = check_finds(seeds, flips, without, question.people.predictions, trainer)
    fresh = work.kept(checks, reserved=True)
    unchecked = len(finds) - len(fresh) if seeds else 0
    if unchecked:
        trainer.progress.note(
            f"Stopped before all finds were checked under fresh seeds; not checked: {unchecked}."
        )

    # Flips also change decisions about other people.
    others = work.kept(side_effects(fitted, question, inquiry, finds, trainer))
    if finds and not others and has_side_effects(fitted, inquiry):
        trainer.progress.note(
            "Stopped before side effects on other people were counted; verdicts do not include "
            "them."
        )
    return Answers(question, ranking, figures, proofs, outcomes, without, fresh, others)


def check_stop(stop: Any) -> None:
    if stop is not None and not isinstance(stop, Stop):
        raise SettingError(
            f"stop={stop!r}: give butfor.max_seconds(…), butfor.max_retrainings(…), or both "
            "joined by |."
        )


def limits_of(stop: Stop | None, people: int) -> Stop:
    """The limits of the work, without the time in which verdicts are drawn up."""
    limits = stop or Stop()
    if limits.seconds is None:
        return limits
    drawing_up = min(DRAWING_UP_SECONDS * people, limits.seconds / 2)
    return replace(limits, seconds=limits.seconds - drawing_up)


def say_if_time_is_up(
    work: Work, question: Question, outcomes: Mapping[int, SearchOutcome], progress: Progress
) -> None:
    if work.out_of_time:
        people = len(question.audited)
        left = people - sum(outcome.complete for outcome in outcomes.values())
        progress.note(f"The time is up: the search for {left} of {people} people is incomplete.")


# --- what the audit works with --------------------------------------------------------------------


@dataclass(eq=False)
class Workshop:
    """What trains the models of an audit, and how much it trained."""

    fitted: Fitted
    engine: Engine
    ledger: Ledger | None
    limits: Stop
    begun: float
    """The moment of `time.monotonic` from which the limits count."""
    progress: Progress
    trainers: list[Trainer] = field(default_factory=list)
    """Those of the searches so far."""

    def trainer(self, people: Situation, work: Work) -> Trainer:
        return Trainer(
            self.engine,
            self.fitted.learner,
            people.table,
            people.people,
            decision=self.fitted.decision,
            ledger=self.ledger,
            n_jobs=self.fitted.settings.n_jobs,
            progress=self.progress,
            work=work,
        )

    def in_turn(self, questions: Sequence[Question]) -> Iterator[tuple[Question, Trainer]]:
        """The questions, the largest first, each with a trainer that has its share of the time and
        trainings left."""
        people_left = sum(len(question.cases) for question in questions)
        for question in sorted(questions, key=lambda question: -len(question.audited)):
            share = len(question.cases) / max(1, people_left)
            spent = time.monotonic() - self.begun
            trained = sum(trainer.trained for trainer in self.trainers)
            work = Work(self.limits.left(spent, trained, share))
            trainer = self.trainer(question.people, work)
            self.trainers.append(trainer)
            yield question, trainer
            people_left -= len(question.cases)

    @property
    def out_of_time(self) -> bool:
        return any(trainer.work.out_of_time for trainer in self.trainers)


@contextmanager
def workshop(fitted: Fitted, limits: Stop, begun: float, progress: Progress) -> Iterator[Workshop]:
    """The engine and the ledger, and progress shown, while models are trained."""
    settings = fitted.settings
    engine = choose_engine(settings.engine, fitted.learner, settings.n_jobs, progress.note)
    fitted.ranking.train_on(engine)
    with single_threaded() as opened:
        ledger = None
        if settings.ledger:
            check_ledger(fitted)
            ledger = opened.enter_context(closing(Ledger(settings.ledger, progress.note)))
        opened.enter_context(progress)
        yield Workshop(fitted, engine, ledger, limits, begun, progress)


def check_ledger(fitted: Fitted) -> None:
    gaps = ledger_gaps(fitted.learner)
    if gaps:
        raise SettingError(
            "A ledger identifies models by their records, and this model's record lacks "
            f"{listed(gaps)}; leave the ledger out."
        )


# --- groups ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Compared:
    """The comparison of groups, if there is one, and what became of that question."""

    standards: Standards | None
    outcome: Outcome

    @property
    def drawn(self) -> Standards | None:
        """The comparison, if tables were drawn for it: only then it has verdicts on groups."""
        if self.standards is None or not self.standards.draws:
            return None
        return self.standards


def compared_groups(
    fitted: Fitted,
    inquiry: Inquiry,
    known: Standards | None,
    limits: Stop,
    begun: float,
    progress: Progress,
) -> Compared:
    """The comparison of groups, with a share of the time; without an adverse label or about one
    person, only the doubts about labels. `known`: a comparison that stands already."""
    asked = inquiry.several and inquiry.searches and fitted.adverse is not None
    usual = Outcome() if asked else Outcome(NOT_ASKED, SETTING)
    if known is not None:
        return Compared(known, outcome_of_draws(fitted, known) if asked else usual)
    comparable = fitted.adverse is not None or (inquiry.several and not fitted.table.multiclass)
    if not inquiry.searches or not comparable:
        return Compared(None, usual)
    work = Work()
    seconds = None
    if limits.seconds is not None:
        work.deadline = begun + STANDARDS_MOST * limits.seconds
        seconds = STANDARDS_SHARE * limits.seconds
    try:
        with checking(work.check):
            if not asked:
                return Compared(fitted.undrawn, usual)
            standards = fitted.compare(replace(fitted.comparison, seconds=seconds), progress)
            return Compared(standards, outcome_of_draws(fitted, standards))
    except (TableError, SettingError) as error:
        if fitted.adverse is None:
            return Compared(None, usual)
        progress.note(f"Note: groups are not compared. {error}")
        return Compared(None, Outcome(NOT_ASKED, TABLE))
    except Stopped as end:
        progress.note("Stopped before the groups were compared.")
        return Compared(None, Outcome(NOT_FINISHED, STOPPED if end.by_hand else TIME))


def outcome_of_draws(fitted: Fitted, standards: Standards) -> Outcome:
    """Whether all tables were drawn that the comparison asks for."""
    if not standards.cut_short:
        return Outcome()
    why = STOPPED if standards.interrupted else TIME
    wanted = least_draws(fitted.comparison.draws)
    return Outcome(NOT_FINISHED, why, standards.draws, wanted)


@dataclass(frozen=True, eq=False)
class Changed:
    """Decisions under one standard for all, by group, and what became of that question."""

    groups: tuple[OneStandard, ...]
    outcome: Outcome


def changed_decisions(
    fitted: Fitted, inquiry: Inquiry, compared: Compared, shop: Workshop, heard: Work
) -> Changed:
    """Whose decisions change in worlds whose labels one standard gives to all."""
    standards = compared.drawn
    if standards is None or not asks_about_labels(inquiry):
        outcome = compared.outcome
        return Changed((), outcome if outcome.answered else Outcome(NOT_ASKED, outcome.why))
    # The last search ends when all time is spent.
    until = shop.trainers[-1].work
    trainer = shop.trainer(inquiry.everyone, until)
    trial = FlipTrial(fitted, inquiry.everyone, inquiry.truth, trainer)
    with checking(until.check):
        if heard.interrupted or shop.out_of_time:
            groups = not_asked(standards, trial, by_hand=heard.interrupted)
        else:
            groups = one_standard(standards, trial)
    return Changed(tuple(groups), outcome_of(groups))


def doubtful_labels(
    fitted: Fitted, inquiry: Inquiry, standards: Standards | None
) -> tuple[TrainingLabel, ...]:
    """The labels to review."""
    if standards is None or not asks_about_labels(inquiry):
        return ()
    if not standards.draws and fitted.adverse is not None:
        return ()
    return labels_to_review(fitted, standards)


def asks_about_labels(inquiry: Inquiry) -> bool:
    """Whether labels matter beyond one person, and not only what a record says."""
    return inquiry.several and inquiry.searches


# --- the record -----------------------------------------------------------------------------------


def run_of_all(
    fitted: Fitted,
    inquiry: Inquiry,
    compared: Compared,
    answers: Sequence[Answers],
    changed: Changed,
    shop: Workshop,
    heard: Work,
    stop: Stop | None,
) -> Run:
    """The record of the run; of several rankings, that for most people."""
    everyone = inquiry.everyone
    largest = answers[0]
    standards = compared.drawn
    performance = None
    if inquiry.truth is not None:
        performance = performance_of(fitted, everyone, inquiry.truth)
    tested, counted = outcomes_of_finds(fitted, answers, len(everyone.people), heard.interrupted)
    return run_of(
        replace(fitted, ranking=largest.ranking),
        everyone.decisions,
        engine=shop.trainers[0].bound.name,
        retrainings=sum(trainer.trained for trainer in shop.trainers),
        recalled=sum(trainer.recalled for trainer in shop.trainers),
        confirmations=sum(trainer.confirmations for trainer in shop.trainers),
        agreement=Agreement(**plain(largest.trial)) if largest.trial else None,
        interrupted=heard.interrupted,
        out_of_time=shop.out_of_time,
        groups=fitted.sensitive.combinations_of(everyone.people),
        remarks=tuple(fitted.remarks(everyone.people)),
        seconds=round(time.monotonic() - shop.begun, 3),
        towards=None if inquiry.towards is None else fitted.label_names[inquiry.towards],
        stop=stop,
        performance=performance,
        concerns=(*fitted.concerns, *inquiry.concerns),
        standard=None if standards is None else figures_of(standards),
        standard_notes=() if standards is None else tuple(standards.notes()),
        one_standard=changed.groups,
        questions=Questions(compared.outcome, tested, counted, changed.outcome),
    )


def outcomes_of_finds(
    fitted: Fitted, answers: Sequence[Answers], people: int, by_hand: bool
) -> tuple[Outcome, Outcome]:
    """What became of the fresh seeds and of the side effects, by the finds for which they are
    known."""
    why = STOPPED if by_hand else TIME
    finds = sum(len(answer.finds) for answer in answers)
    tested = sum(len(answer.fresh) for answer in answers)
    counted = sum(len(answer.collateral) for answer in answers)
    if not fitted.settings.fresh_seeds:
        return Outcome(NOT_ASKED, SETTING), Outcome(NOT_ASKED, SETTING)
    others = Outcome(NOT_ASKED, SETTING)
    if people > 1:
        others = Outcome.of_parts(counted, finds, why)
    if not fitted.seeded:
        return Outcome(NOT_ASKED, NO_SEED), others
    # Nor are close calls known.
    if any(answer.question.audited and not answer.without_flips for answer in answers):
        return Outcome(NOT_FINISHED if tested else NOT_ASKED, why, tested, finds), others
    return Outcome.of_parts(tested, finds, why), others


# --- without a search -----------------------------------------------------------------------------


def eligible_cases(
    fitted: Fitted, X: Any, most: int | None = None, *, sensitive_features: Any = None
) -> list[int]:
    """The positions in X of the first `most` people whom φ admits."""
    situation, _ = fitted.people(X, None, sensitive_features)
    return [case for case, why in enumerate(why_left_out(fitted.phi, situation)) if why is None][
        :most
    ]


def flippable_labels(fitted: Fitted, X: Any, *, sensitive_features: Any = None) -> Allowed:
    """The training labels that ψ allows to flip for each row of X."""
    situation, _ = fitted.people(X, None, sensitive_features)
    return flippable(fitted.psi, situation)


def brackets(fitted: Fitted, X: Any, *, sensitive_features: Any = None) -> list[Bracket]:
    """Lower bounds for each row of X; an error if there is no proof for the model."""
    situation, _ = fitted.people(X, None, sensitive_features)
    bounds = dict[int, Bracket]()
    count = len(situation.people)
    allowed = flippable(fitted.psi, situation)
    everybody = Question.about(situation, list(range(count)), [None] * count, allowed)
    for question in by_sides(everybody):
        with single_threaded():
            proofs = prove(question.people, question.allowed)
        if proofs is None:
            which = (
                " at this threshold: with a threshold, only nearest neighbours have proofs, at a "
                "fixed one."
                if fitted.decision.has_cut
                else ". Ridge classifiers, linear regression and kernel ridge on 0 and 1, nearest "
                "neighbours and "
                "PartitionEnsemble have proofs."
            )
            raise SettingError(f"There is no proof for {fitted.learner.name}{which}")
        bounds |= zip(map(int, question.positions), proofs, strict=True)
    return [bounds[position] for position in sorted(bounds)]
