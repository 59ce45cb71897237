"""Runs everybody's search at once.

In every round the sets that people ask for are trained side by side, equal ones once, and everyone
is told of every set that ψ allows them. Rankings wait until nothing else is asked, confirmations
also only until there are many. Rounds depend on the searches alone, not on the engine's width or
the number of cores.

At a limit or Ctrl-C the searches are closed and each person's smallest set that works is confirmed,
as far as there is time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.models.ensemble import mean_answers
from butfor.models.seam import FlipSet, Floats, Training
from butfor.models.trainer import Trainer
from butfor.search.gains import GainTable
from butfor.search.person import Confirm, Person, Rank, Search, Try, flip_set
from butfor.search.proofs import MARGIN_TOLERANCE
from butfor.search.rules import Allowed
from butfor.search.strategies import Strategy
from butfor.support.errors import SettingError, Stopped, brief

SEARCH = "search"
CONFIRMATION = "confirmation"
"""Phases of a search, as progress names them."""
MEASURED_SETS = 8
"""Sets on which the engine's distance from the model's own `fit` is measured."""
SAFE_DISTANCES = 10
"""How many times that distance a gain must be below 0 for "no set changes the decision" to be said
without that `fit`."""
MAX_WAITING_CLAIMS = 16
"""Sets that wait for confirmation before they are confirmed side by side."""

RankAgain = Callable[[Sequence[tuple[Person, FlipSet]]], Iterable[NDArray[np.floating[Any]]]]
"""People and their flips → each one's scores after these flips, `[rows]`."""


@dataclass(frozen=True, eq=False)
class Find:
    """A set that changes the decision, which the model's own `fit` confirmed."""

    flips: FlipSet
    answers: Floats
    """Of the model trained on it, about everyone who was searched for."""
    first_size: int
    """The size of the first set that worked, before it was shrunk."""
    shared: bool
    """Whether that was trained for somebody else."""
    minimal: bool
    """Whether every set with one flip fewer was trained and clearly keeps the decision."""
    clearance: float | None = None
    """The gain in standard deviations of the members, if the search looked at them one by one."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the search for one person came to."""

    complete: bool = False
    """Whether the strategy was through before the work ended."""
    asked: tuple[tuple[FlipSet, float], ...] = ()
    """The sets tried for this person and their gains, up to the first that worked or, if the search
    looked at members one by one, to its end."""
    closest: float | None = None
    """The best gain of any set, also of those that were trained for others."""
    all_tried: bool = False
    """Whether every label that ψ allows was tried alone, and none changes the decision."""
    find: Find | None = None


@dataclass(eq=False)
class Running:
    """One person's search while it runs."""

    person: Person
    search: Search
    question: Any = None
    """The `Try`, `Confirm` or `Rank` that waits for an answer; None when the search is through."""
    asked: list[tuple[FlipSet, float]] = field(default_factory=list)
    """The person's own sets and their gains, in the order asked."""
    first: FlipSet | None = None
    """The first set that worked and was not refuted."""
    asked_until_first: int = 0
    found: FlipSet | None = None
    """The smallest set that was confirmed so far."""
    complete: bool = False
    final: bool = False
    """Whether the search may not begin again."""

    def note_first(self) -> None:
        """Remember the first set that works, own sets first."""
        if self.first is not None:
            return
        working = self.person.working
        if working:
            own = [flips for flips, _ in self.asked if flips in working]
            self.first = (own or list(working))[0]
            self.asked_until_first = len(self.asked)


@dataclass(eq=False)
class Lab:
    """Has sets trained and confirmed, and tells people of them."""

    trainer: Trainer
    gains: GainTable
    psi: Allowed
    """Which labels may be flipped for whom."""
    shares: bool
    """Whether everyone whom ψ allows a set is told of it, or only who asked."""
    budget: int

    def train(self, askers: Mapping[tuple[FlipSet, int | None], Sequence[Person]]) -> None:
        """Train sets, or their first members, as far as trainings are left, and tell people."""
        wanted, limited = self.affordable(askers)
        try:
            self.trainer.fit(wanted)
        finally:  # what was trained before a stop counts
            for (flips, members), people in askers.items():
                if members is None and not self.missing(flips):
                    self.tell(flips, people)
        if limited:
            raise Stopped(by_hand=False)
        self.trainer.work.check()

    def affordable(
        self, asked: Iterable[tuple[FlipSet, int | None]]
    ) -> tuple[list[Training], bool]:
        """The trainings that these sets take, and whether the limit allows only some of them."""
        wanted: list[Training] = []
        for flips, members in asked:
            missing = self.missing(flips, members)
            if len(wanted) + len(missing) > self.trainer.left:
                return wanted, True
            wanted += missing
        return wanted, False

    def missing(self, flips: FlipSet, members: int | None = None) -> list[Training]:
        """The trainings until the gains of a set, or its first members' answers, are known."""
        if members is None and flips in self.gains:
            return []
        return self.trainer.missing(flips, members)

    def tell(self, flips: FlipSet, askers: Iterable[Person]) -> None:
        """Tell who asked of a trained set and, if people share, everyone whom ψ allows it."""
        told = np.zeros(len(self.gains.people), bool)
        told[[person.number for person in askers]] = True
        if self.shares and flips and len(flips) <= self.budget:
            told |= self.psi.permits(flips)
        if flips not in self.gains:
            answers = self.trainer.answers([flips])
            self.gains.add(flips, self.trainer.margins(answers)[0])
        self.gains.tell(flips, told)

    def member_gains(self, person: Person, flips: FlipSet, members: int) -> NDArray[np.float32]:
        """The person's gain by each of the first members."""
        return self.gains_of(person, self.trainer.member_answers(flips)[:members])

    def mean_gain(self, person: Person, flips: FlipSet, members: int) -> float:
        """The gain by the members' mean answers: with places or more than two labels, it is not the
        mean of their gains."""
        answers = mean_answers(self.trainer.member_answers(flips)[:members])
        return float(self.gains_of(person, answers))

    def gains_of(self, person: Person, answers: Floats) -> NDArray[np.float32]:
        """The person's gain by each of these models."""
        logits = self.trainer.margins(answers)[..., person.number]
        return np.asarray(logits * np.float32(person.gains.away))

    def confirm(self, claims: Iterable[tuple[Person, FlipSet]]) -> None:
        """Train these sets with the model's own `fit`; a person's set that it does not confirm is
        refuted."""
        claims = list(claims)
        self.trainer.progress.phase(CONFIRMATION)
        try:
            self.trainer.confirm(list(dict.fromkeys(flips for _, flips in claims)))
        finally:  # what was confirmed before a stop counts
            for person, flips in claims:
                if self.is_refuted(person, flips):
                    person.gains.refuted.add(flips)
        self.trainer.progress.phase(SEARCH)

    def is_confirmed(self, flips: FlipSet) -> bool:
        """Whether the model's own `fit` was asked about the set."""
        return flips in self.trainer.confirmed

    def is_refuted(self, person: Person, flips: FlipSet) -> bool:
        """Whether that `fit` keeps the person's decision."""
        if not self.is_confirmed(flips):
            return False
        logit = float(self.trainer.confirmed_logits(flips)[person.number])
        return not changes(logit, person.gains.away)

    def forget(self, asked: Iterable[FlipSet]) -> None:
        """Have the trainer forget the answers to sets that are not asked for and change nobody's
        decision, so that nobody may have them confirmed."""
        self.trainer.release(keep=self.gains.sets_that_change(), again=set(asked))

    def all_tried(self, person: Person) -> bool:
        """Whether every label alone was trained; after a failed training that is not so."""
        rows = np.flatnonzero(self.psi[person.number])
        return len(rows) > 0 and all(
            math.isfinite(person.gains.get((int(row),), math.nan)) for row in rows
        )

    def is_minimal(self, person: Person, flips: FlipSet) -> bool:
        """Whether every set with one flip fewer was trained and keeps the decision: clearly, since
        nearer to the line an engine's rounding decides."""
        if not self.shares:
            return False
        line = 0.0 if self.trainer.bound.by_definition else -MARGIN_TOLERANCE
        fewer = [tuple(row for row in flips if row != left_out) for left_out in flips]
        unrefuted = [smaller for smaller in fewer if smaller not in person.gains.refuted]
        return all(person.gains.get(smaller, math.inf) <= line for smaller in unrefuted)


@dataclass(eq=False)
class Scheduler:
    """Asks the searches, and sees to it that they get their answers."""

    strategy: Strategy
    lab: Lab
    rank_again: RankAgain
    all: list[Running] = field(default_factory=list)
    of_a_trial: list[FlipSet] = field(default_factory=list)
    """Sets that a trial of rankings has trained."""

    def run(self, searches: Mapping[Person, Search]) -> Iterator[tuple[int, Outcome]]:
        """What the searches come to, by the person's number: they go on round after round until
        they or the work end, then what is left is confirmed."""
        trainer = self.lab.trainer
        progress = trainer.progress
        self.all = [Running(person, search) for person, search in searches.items()]
        self.of_a_trial = list(trainer.means)
        progress.phase(SEARCH)
        with suppress(Stopped):
            self.begin()
            while self.under_way():
                self.round()
            if self.strategy.enumerates and self.lab.budget == 1:
                rule_out(self.all, self.lab.gains, trainer)
        for running in self.under_way():
            running.search.close()
        with suppress(Stopped), trainer.work.grace():
            self.confirm_smallest()
        self.say_what_is_lost()
        for running in self.all:
            yield running.person.number, self.outcome(running)

    def begin(self) -> None:
        if self.strategy.shares:
            for flips in self.of_a_trial:
                self.lab.tell(flips, [])
        self.note_first()
        for running in self.all:
            self.ask(running)

    def round(self) -> None:
        """Train what is asked for; when nothing is, rank again; when nothing is either, confirm."""
        tries = self.tries_of_this_round()
        if tries:
            self.train(tries)
        rankings = self.waiting_for(Rank)
        claims = {running: running.question.flips for running in self.waiting_for(Confirm)}
        if rankings and not tries:
            self.rank(rankings)
        elif claims and (not tries or len(set(claims.values())) >= MAX_WAITING_CLAIMS):
            self.confirm(claims)
            for running, flips in claims.items():
                self.ask(running, flips not in running.person.gains.refuted)
        if self.strategy.shares and not self.under_way():
            self.revive()
        done = len(self.all) - len(self.under_way())
        self.lab.trainer.progress.done(done, len(self.all))

    # --- ask the searches ---

    def under_way(self) -> list[Running]:
        return [running for running in self.all if running.question is not None]

    def waiting_for(self, kind: type) -> list[Running]:
        """Whose question is of this kind."""
        return [running for running in self.all if isinstance(running.question, kind)]

    def ask(self, running: Running, answer: Any = None) -> None:
        """Give a search the answer to its question and take the next one."""
        try:
            asked = running.search.send(answer)
        except StopIteration as end:
            self.end(running, end.value)
        else:
            running.question = checked(asked, running.person, self.strategy)

    def end(self, running: Running, returned: FlipSet | None) -> None:
        """The search is through; what it returns is confirmed, if it did not see to that itself. It
        is complete unless a set that works was never confirmed: after many refusals that is for
        good."""
        running.question = None
        if returned is not None:
            claim = checked(Confirm(returned), running.person, self.strategy)
            if claim.flips != running.found:
                running.question = claim
                return
        running.complete = running.found is not None or not running.person.working
        running.final = running.final or not running.complete

    def revive(self) -> None:
        """Somebody who gave up may have been told since then of a set that works: the search goes
        on from there, once."""
        for running in self.all:
            if running.found is None and running.person.working and not running.final:
                running.final = True
                running.complete = False
                running.search = self.strategy.search(running.person)
                self.ask(running)

    # --- train ---

    def tries_of_this_round(self) -> list[Running]:
        tries = self.waiting_for(Try)
        if self.lab.trainer.left < math.inf:  # finding comes before shrinking
            return [running for running in tries if running.first is None] or tries
        return tries

    def train(self, tries: Sequence[Running]) -> None:
        """Have the sets trained that these people ask for, equal ones once."""
        askers: dict[tuple[FlipSet, int | None], list[Person]] = {}
        for running in tries:
            for flips in running.question.sets:
                askers.setdefault((flips, running.question.members), []).append(running.person)
        try:
            self.lab.train(askers)
        finally:  # what was trained before a stop counts
            for running in tries:
                self.note_asked(running)
            self.note_first()
        for running in tries:
            self.ask(running, self.answer_to(running))
        asked = [flips for running in self.waiting_for(Try) for flips in running.question.sets]
        if not self.strategy.shares:
            asked += self.of_a_trial
        self.lab.forget(asked)

    def note_asked(self, running: Running) -> None:
        """Note the gains of the person's own sets, as far as these were trained."""
        person = running.person
        members = running.question.members
        for flips in running.question.sets:
            if members is None:
                if flips in person.gains:
                    running.asked.append((flips, person.gains[flips]))
            elif flips and not self.lab.missing(flips, members):
                gain = self.lab.mean_gain(person, flips, members)
                before = [pair for pair in running.asked if pair[0] != flips]
                running.asked = [*before, (flips, gain)]
                if members >= person.members:
                    person.gains.note(flips, gain)

    def note_first(self) -> None:
        for running in self.all:
            running.note_first()
        self.lab.trainer.progress.found(sum(running.first is not None for running in self.all))

    def answer_to(self, running: Running) -> Any:
        """The gain of each set, of one set alone, or of each member, as the search asked."""
        person = running.person
        question = running.question
        if question.members is not None:
            sets = question.sets
            gains = [self.lab.member_gains(person, flips, question.members) for flips in sets]
            return np.array(gains, np.float64)
        if question.one:
            return person.gains[question.sets[0]]
        return [person.gains[flips] for flips in question.sets]

    def rank(self, rankings: Sequence[Running]) -> None:
        """Rank labels again, after the flips that these people name."""
        asked = [(running.person, running.question.flips) for running in rankings]
        scores = self.rank_again(asked)
        for running, (person, flips), score in zip(rankings, asked, scores, strict=True):
            self.lab.trainer.work.check()
            allowed = np.flatnonzero(self.lab.psi[person.number] & np.isfinite(score))
            others = np.setdiff1d(allowed, flips)
            self.ask(running, others[np.argsort(-score[others], kind="stable")])

    # --- confirm ---

    def confirm(self, claims: Mapping[Running, FlipSet]) -> None:
        """Have these sets trained with the model's own `fit`."""
        try:
            self.lab.confirm((running.person, flips) for running, flips in claims.items())
        finally:
            self.note_confirmed(claims)

    def note_confirmed(self, claims: Mapping[Running, FlipSet]) -> None:
        for running, flips in claims.items():
            if not self.lab.is_confirmed(flips):
                continue
            if flips in running.person.gains.refuted:
                if running.first == flips:
                    running.first = None
            elif running.found is None or len(flips) < len(running.found):
                running.found = flips
        self.note_first()

    def confirm_smallest(self) -> None:
        """Confirm each person's smallest set that works: after a limit until all time is spent, one
        by one for a moment after Ctrl-C."""
        left = self.unconfirmed()
        while left:
            blocks = [left]
            if self.lab.trainer.work.interrupted:
                blocks = [{running: flips} for running, flips in left.items()]
            for block in blocks:
                self.confirm(block)
            left = self.unconfirmed()

    def unconfirmed(self) -> dict[Running, FlipSet]:
        """Each person's smallest set that works, if it is smaller than what was confirmed."""
        unconfirmed = {}
        for running in self.all:
            given_up = running.complete or running.person.gains.refuted
            if given_up and running.question is None:
                continue
            flips = running.person.smallest()
            if flips and (running.found is None or len(flips) < len(running.found)):
                unconfirmed[running] = flips
        return unconfirmed

    def say_what_is_lost(self) -> None:
        lost = sum(running.found is None for running in self.unconfirmed())
        if lost:
            sets = f"{lost} sets that change decisions were"
            if lost == 1:
                sets = "1 set that changes a decision was"
            self.lab.trainer.progress.note(
                f"Stopped before {sets} confirmed by retraining: not reported. With a ledger the "
                "next run continues from here."
            )

    # --- what came of it ---

    def outcome(self, running: Running) -> Outcome:
        asked = running.asked
        if running.first and running.person.spread is None:
            own = [flips for flips, _ in asked]
            by_then = running.asked_until_first
            asked = asked[: own.index(running.first) + 1 if running.first in own else by_then]
        gains = [gain for _, gain in asked]
        if self.strategy.shares:
            gains.append(running.person.gains.closest)
        return Outcome(
            complete=running.complete,
            asked=tuple(asked),
            closest=max(filter(math.isfinite, gains), default=None),
            all_tried=self.every_label_was_tried(running),
            find=None if running.found is None else self.find(running, running.found),
        )

    def find(self, running: Running, flips: FlipSet) -> Find:
        return Find(
            flips=flips,
            answers=self.lab.trainer.confirmed[flips],
            first_size=len(running.first or ()),
            shared=running.first not in [own for own, _ in running.asked],
            minimal=len(flips) == 1 or self.lab.is_minimal(running.person, flips),
            clearance=clearance(running.person, flips),
        )

    def every_label_was_tried(self, running: Running) -> bool:
        if not self.strategy.enumerates or self.lab.budget > 1 or running.found:
            return False
        return running.complete and self.lab.all_tried(running.person)


def changes(logit: float, away: float) -> bool:
    """Whether a logit decides the other way; that of a training that diverged does not."""
    return not math.isnan(logit) and (logit > 0) == (away > 0)


def clearance(person: Person, flips: FlipSet) -> float | None:
    """The members' mean gain in standard deviations, if the search looked at members."""
    if person.spread is None:
        return None
    gain = person.gains[flips]
    if person.spread == 0:
        return float(np.sign(gain)) * math.inf
    return gain / person.spread


def checked(asked: Any, person: Person, strategy: Strategy) -> Any:
    """What a search yielded, as a question (`Try`, `Confirm` or `Rank`) with sorted sets."""
    said = f"strategy '{strategy.name}' asked for {brief(asked)}, "
    if not isinstance(asked, (Try, Confirm, Rank)):
        one = isinstance(asked, (tuple, np.ndarray))
        asked = Try([asked] if one else asked, one=one)
    try:
        named = asked.sets if isinstance(asked, Try) else [asked.flips]
        sets = [flip_set(flips) for flips in named]
    except TypeError:
        raise SettingError(
            f"{said}which is no question: yield a flip set (a tuple of positions), a list of "
            "them, Try, Confirm or Rank."
        ) from None
    if strategy.own:
        check_own(asked, sets, person, said)
    if isinstance(asked, Try):
        return asked._replace(sets=sets)
    return asked._replace(flips=sets[0])


def check_own(asked: Any, sets: Sequence[FlipSet], person: Person, said: str) -> None:
    """Raise an error if a user's own search asks for what it may not."""
    if isinstance(asked, Rank) and not person.ranks_again:
        raise SettingError(
            f"{said}but this ranking cannot rank again after flips: ask only if person.ranks_again."
        )
    for flips in sets:
        each_once = len(set(flips)) == len(flips)
        allowed = np.isin(flips, person.order).all()
        if not each_once or len(flips) > person.budget or not allowed:
            raise SettingError(
                f"{said}but the budget is {person.budget} labels, each once, and ψ allows the "
                "rows of person.order only."
            )


def rule_out(all_searches: Iterable[Running], gains: GainTable, trainer: Trainer) -> None:
    """Before "no label changes the decision" is said: labels that come close by the engine are
    trained by the model's own `fit`, unless that is the engine. Its distance from the engine is
    measured for each person, first on the labels nearest to anybody's other decision. Until that is
    done, and if such a training failed, the searches are not complete."""
    searches = [
        running
        for running in all_searches
        if running.complete and running.found is None and len(running.person.order)
    ]
    numbers = [running.person.number for running in searches]
    sets = [flips for flips in gains.by_set if len(flips) == 1]
    if trainer.bound.by_definition or not searches or not sets:
        return
    for running in searches:
        running.complete = False
    away = gains.away[numbers].astype(float)
    by_engine = np.array([gains.by_set[flips][numbers] for flips in sets], float)
    told = np.array([gains.told[flips][numbers] for flips in sets])
    allowed = told & ~np.isnan(by_engine)
    best_first = np.where(allowed, by_engine, -np.inf)
    nearest_people = np.argsort(-best_first.max(axis=0), kind="stable")
    nearest_sets = best_first.argmax(axis=0)[nearest_people]
    new = list(dict.fromkeys(nearest_sets.tolist()))[:MEASURED_SETS]
    trained: list[int] = []
    trainer.progress.phase(CONFIRMATION)
    while new:
        trainer.confirm([sets[k] for k in new])
        trained += new
        logits = [trainer.confirmed_logits(sets[k])[numbers] for k in trained]
        by_fit = np.array(logits, np.float64) * away
        # Over the sets that could be trained; inf if there is none.
        distance = np.fmax.reduce(np.abs(by_fit - by_engine[trained]))
        distance = np.nan_to_num(distance, nan=np.inf)
        near = allowed & (best_first >= -SAFE_DISTANCES * distance)
        new = np.setdiff1d(np.flatnonzero(near.any(axis=1)), trained).tolist()
    for k, running in enumerate(searches):
        failed = near[trained, k] & np.isnan(by_fit[:, k])
        works = allowed[trained, k] & [changes(gain * away[k], away[k]) for gain in by_fit[:, k]]
        if works.any():
            best = np.argmax(np.where(works, by_fit[:, k], -np.inf))
            running.found = sets[trained[best]]
            running.first = running.found
        running.complete = running.found is not None or not failed.any()
