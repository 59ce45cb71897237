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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.models.ensemble import mean_answers
from butfor.models.seam import FlipSet, Floats, Training
from butfor.models.trainer import Trainer
from butfor.search.person import Confirm, Known, Person, Rank, Search, Try, flip_set
from butfor.search.rules import Allowed
from butfor.search.strategies import Strategy
from butfor.support.errors import SettingError, Stopped, brief

SEARCH = "search"
"""The phase of a search, as progress names it."""
CONFIRMATION = "confirmation"
"""The phase in which finds are confirmed."""
MEASURED_SETS = 8
"""Sets on which the engine's distance from the model's own `fit` is measured."""
SAFE_DISTANCES = 10
"""How many times that distance a gain must be below 0 for "no set changes the decision" to be said
without that `fit`."""
MAX_WAITING_CLAIMS = 16
"""Sets that wait for confirmation before they are confirmed side by side."""

RankAgain = Callable[[Sequence[tuple[Person, FlipSet]]], Iterable[NDArray[np.floating[Any]]]]
"""People and their flips → each one's scores after these flips, `[rows]`."""


def schedule(
    searches: Mapping[Person, Search],
    strategy: Strategy,
    known: Known,
    trainer: Trainer,
    psi: Allowed,
    rank_again: RankAgain,
    after_round: Callable[[int], None] = lambda left: None,
) -> None:
    """Run the searches of the strategy to their end; what they find is noted in the persons. `psi`:
    which labels may be flipped for whom. `after_round` hears how many searches are left."""
    people = list(searches)
    progress = trainer.progress
    open_ = dict(searches)
    questions: dict[Person, Try | Confirm | Rank] = {}
    again = set[FlipSet]() if strategy.shares else set(trainer.means)
    """Sets that a search may yet ask for and that a trial has trained."""
    restarted: set[Person] = set()
    budget = max((person.budget for person in people), default=0)

    def step(person: Person, answer: Any = None) -> None:
        """Give a search the answer to its question and take the next one."""
        try:
            asked = open_[person].send(answer)
        except StopIteration as end:
            asked = None if end.value is None else _question(person, Confirm(end.value), strategy)
            if asked is None or asked.flips == person.found:
                del open_[person]
                questions.pop(person, None)
                # Complete, unless a set that works was left unconfirmed: after many refusals that
                # is for good.
                person.complete = person.found is not None or not person.working
                if not person.complete:
                    restarted.add(person)
                return  # else it did not see to the confirmation itself
        questions[person] = _question(person, asked, strategy)

    def tell(flips: FlipSet, askers: Iterable[Person]) -> None:
        """Tell the people of a trained set: those who asked, and with sharing everyone whom ψ
        allows it."""
        told = np.zeros(len(known.away), bool)
        told[[person.number for person in askers]] = True
        if strategy.shares and flips and len(flips) <= budget:
            told |= psi.permits(flips)
        if flips not in known.sets:
            known.add(flips, trainer.table.margins(trainer.answers([flips]))[0])
        known.tell(flips, told)

    def note_first() -> None:
        """Note for each person the first set that works."""
        for person in people:
            if person.first is None and person.working:
                asked = [flips for flips, _ in person.asked if person.works(flips)]
                person.first = [*asked, *person.working][0]
                person.tried = len(person.asked)
        progress.found(sum(person.first is not None for person in people))

    def train(tries: Mapping[Person, Try]) -> None:
        """Train the sets of one round as far as trainings are left, and tell everyone."""
        askers: dict[tuple[FlipSet, int | None], list[Person]] = {}
        for person, question in tries.items():
            for flips in question.sets:
                askers.setdefault((flips, question.members), []).append(person)
        short = False
        wanted = list[Training]()
        for flips, members in askers:
            missing = list[Training]()
            if members is not None or flips not in known.sets:
                missing = trainer.missing(flips, members)
            short = short or len(wanted) + len(missing) > trainer.left
            if not short:
                wanted += missing
        try:
            trainer.fit(wanted)
        finally:  # what was trained before a stop counts
            for (flips, members), who in askers.items():
                if members is None and (flips in known.sets or not trainer.missing(flips)):
                    tell(flips, who)
            for person, question in tries.items():
                for flips in question.sets:
                    if question.members is None and flips in person.gains:
                        person.asked.append((flips, person.gains[flips]))
                    elif (
                        question.members and flips and not trainer.missing(flips, question.members)
                    ):
                        answers = trainer.member_answers(flips)[: question.members]
                        gain = float(gains_of(person, mean_answers(answers)))
                        earlier = [(f, g) for f, g in person.asked if f != flips]
                        person.asked = [*earlier, (flips, gain)]
                        if question.members >= trainer.members:
                            person.note(flips, gain)
            note_first()
        if short:
            raise Stopped(by_hand=False)

    def gains_of(person: Person, answers: Floats) -> NDArray[np.float32]:
        """The person's gain by each model. That of an ensemble is by the mean answers: with places
        or more than two labels, it is not the mean of the members' gains."""
        margins = trainer.table.margins(answers)[..., person.number]
        return np.asarray(margins * np.float32(person.away))

    def note_confirmed(claims: Mapping[Person, FlipSet]) -> None:
        """Note whose decision the model's own `fit` changes."""
        for person, flips in claims.items():
            logit = float(trainer.confirmed_logits(flips)[person.number])
            if not math.isnan(logit) and (logit > 0) == (person.away > 0):
                if person.found is None or len(flips) < len(person.found):
                    person.found = flips
                    person.found_logit = logit
            else:
                person.rejected.add(flips)
                if person.first == flips:
                    person.first = None
        note_first()

    def confirm(claims: Mapping[Person, FlipSet]) -> None:
        progress.phase(CONFIRMATION)
        try:
            trainer.confirm(list(dict.fromkeys(claims.values())))
        finally:  # what was confirmed before a stop counts
            trained = {
                person: flips for person, flips in claims.items() if flips in trainer.confirmed
            }
            note_confirmed(trained)
        progress.phase(SEARCH)

    progress.phase(SEARCH)
    try:
        for flips in list(trainer.means) if strategy.shares else ():
            tell(flips, [])
        note_first()
        for person in people:
            step(person)
        while open_:
            tries = {person: q for person, q in questions.items() if isinstance(q, Try)}
            if trainer.left < math.inf:  # finding comes before shrinking
                tries = {person: q for person, q in tries.items() if person.first is None} or tries
            if tries:
                train(tries)
                trainer.flag.check()
                for person, question in tries.items():
                    if question.members is None:
                        gains: Any = [person.gains[flips] for flips in question.sets]
                        step(person, gains[0] if question.one else gains)
                    else:
                        by_member = [
                            gains_of(person, trainer.member_answers(flips)[: question.members])
                            for flips in question.sets
                        ]
                        step(person, np.array(by_member, np.float64))
                # Sets that may still be confirmed, or asked for.
                working = {flips for sets in known.working for flips in sets}
                pending = {
                    flips for q in questions.values() if isinstance(q, Try) for flips in q.sets
                }
                trainer.release(keep=working, again=pending | again)
                after_round(len(open_))
            rankings = {person: q for person, q in questions.items() if isinstance(q, Rank)}
            claims = {person: q.flips for person, q in questions.items() if isinstance(q, Confirm)}
            if rankings and not tries:
                after_flips = [(person, ranking.flips) for person, ranking in rankings.items()]
                scores = rank_again(after_flips)
                for (person, ranking), score in zip(rankings.items(), scores, strict=True):
                    trainer.flag.check()
                    ranked = np.flatnonzero(psi[person.number] & np.isfinite(score))
                    others = np.setdiff1d(ranked, ranking.flips)
                    step(person, others[np.argsort(-score[others], kind="stable")])
            elif claims and (not tries or len(set(claims.values())) >= MAX_WAITING_CLAIMS):
                confirm(claims)
                for person, flips in claims.items():
                    step(person, flips not in person.rejected)
            # Somebody who gave up may have been told since then of a set that works: the search
            # goes on from there.
            for person in people if strategy.shares and not open_ else ():
                if person.found is None and person.working and person not in restarted:
                    restarted.add(person)
                    open_[person] = strategy.search(person)
                    step(person)
        if strategy.enumerates and budget == 1 and not trainer.bound.by_definition:
            unchanged = [p for p in people if p.complete and p.found is None and len(p.order)]
            _rule_out(unchanged, known, trainer)
    except Stopped:
        pass
    for person, search in open_.items():
        search.close()
        person.complete = False

    # Confirm each person's smallest set that works: after a limit until all time is spent, one by
    # one for a moment after Ctrl-C.
    def unconfirmed() -> dict[Person, FlipSet]:
        left = [
            person
            for person in people
            if person in open_ or not (person.complete or person.rejected)
        ]
        smallest = {person: person.smallest() for person in left}
        return {
            person: flips
            for person, flips in smallest.items()
            if flips is not None and (person.found is None or len(flips) < len(person.found))
        }

    with suppress(Stopped), trainer.flag.grace():
        while left := unconfirmed():
            batches = [left]
            if trainer.flag.interrupted:
                batches = [{person: flips} for person, flips in left.items()]
            for claims in batches:
                confirm(claims)
    if lost := sum(person.found is None for person in unconfirmed()):
        sets = f"{lost} sets that change decisions were"
        if lost == 1:
            sets = "1 set that changes a decision was"
        progress.note(
            f"Stopped before {sets} confirmed by retraining: not reported. With a ledger the next "
            "run continues from here."
        )


def _question(person: Person, asked: Any, strategy: Strategy) -> Any:
    """What a search yielded, as a question (`Try`, `Confirm` or `Rank`) with sorted sets."""
    complaint = f"strategy '{strategy.name}' asked for {brief(asked)}, "
    if not isinstance(asked, (Try, Confirm, Rank)):
        one = isinstance(asked, (tuple, np.ndarray))
        asked = Try([asked] if one else asked, one=one)
    try:
        yielded = asked.sets if isinstance(asked, Try) else [asked.flips]
        sets = [flip_set(flips) for flips in yielded]
    except TypeError:
        raise SettingError(
            f"{complaint}which is no question: yield a flip set (a tuple of positions), a list of "
            "them, Try, Confirm or Rank."
        ) from None
    if strategy.own and isinstance(asked, Rank) and not person.ranks_again:
        raise SettingError(
            f"{complaint}but this ranking cannot rank again after flips: ask only if "
            "person.ranks_again."
        )
    for flips in sets if strategy.own else ():
        within_budget = len(set(flips)) == len(flips) <= person.budget
        if not within_budget or not np.isin(flips, person.order).all():
            raise SettingError(
                f"{complaint}but the budget is {person.budget} labels, each once, and ψ allows the "
                "rows of person.order only."
            )
    return asked._replace(sets=sets) if isinstance(asked, Try) else asked._replace(flips=sets[0])


def _rule_out(people: Sequence[Person], known: Known, trainer: Trainer) -> None:
    """Before "no label changes the decision" is said: labels that come close by the engine are
    trained by the model's own `fit`. Its distance from the engine is measured for each person,
    first on the labels nearest to anybody's other decision. Until that is done, and if such a
    training failed, the searches are not complete."""
    numbers = [person.number for person in people]
    sets = [flips for flips in known.sets if len(flips) == 1]
    if not people or not sets:
        return
    for person in people:
        person.complete = False
    away = known.away[numbers].astype(float)
    engine = np.array([known.sets[flips][0][numbers] for flips in sets], float)
    allowed = np.array([known.sets[flips][1][numbers] for flips in sets]) & ~np.isnan(engine)
    gains = np.where(allowed, engine, -np.inf)
    closest = gains.argmax(axis=0)[np.argsort(-gains.max(axis=0), kind="stable")]
    new = list(dict.fromkeys(closest.tolist()))[:MEASURED_SETS]
    trained = list[int]()
    trainer.progress.phase(CONFIRMATION)
    while new:
        trainer.confirm([sets[k] for k in new])
        trained += new
        logits = np.array([trainer.confirmed_logits(sets[k])[numbers] for k in trained], np.float64)
        # Of sets that could be trained.
        distance = np.fmax.reduce(np.abs(logits * away - engine[trained]))
        near = allowed & (gains >= -SAFE_DISTANCES * np.nan_to_num(distance, nan=np.inf))
        new = np.setdiff1d(np.flatnonzero(near.any(axis=1)), trained).tolist()
    changes = allowed[trained] & ((logits > 0) == (away > 0)) & ~np.isnan(logits)
    for k, person in enumerate(people):
        if changes[:, k].any():
            best = int(np.argmax(np.where(changes[:, k], logits[:, k] * away[k], -np.inf)))
            person.found = sets[trained[best]]
            person.found_logit = float(logits[best, k])
            person.first = person.found
        failed = np.isnan(logits[near[trained, k], k]).any()
        person.complete = person.found is not None or not failed
