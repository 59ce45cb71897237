"""The audit, in the order in which it happens.

    comparison ─▸ ψ ─▸ φ ─▸ proofs ─▸ trial ─▸ ranking ─▸ searches ─▸ fresh seeds ─▸ side effects ─▸
    one standard

`explain_all` walks this way once or, with more than two labels, once for each decision and the
label that flips give; `explain_together` is the way from proofs to side effects. Ctrl-C or a limit
ends it at any point: what is done is kept, the rest is marked as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from copy import copy
from dataclasses import replace
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.fit import Fitted
from butfor.labels import labels_to_review
from butfor.measured import (
    Together,
    performance_of,
    persons_of,
    run_of,
)
from butfor.models.engines import choose_engine
from butfor.models.ensemble import ledger_gaps
from butfor.models.ledger import Ledger
from butfor.models.seam import (
    FlipSet,
    Floats,
    Training,
    flip_direction,
    person_keys,
)
from butfor.models.trainer import Trainer
from butfor.result.fresh import FIRST_LOOK_SEEDS, Collateral, FreshSeeds
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
from butfor.result.run import Agreement, figures_of
from butfor.result.verdict import Verdict
from butfor.result.worlds import OneStandard
from butfor.search.gains import GainTable
from butfor.search.person import Person, Search
from butfor.search.proofs import Bracket, prove
from butfor.search.published import in_turn
from butfor.search.rankings import checked_scores
from butfor.search.rankings.mix import leader_words
from butfor.search.rules import (
    Allowed,
    Situation,
    flippable,
    why_left_out,
)
from butfor.search.schedule import Lab, Scheduler
from butfor.search.strategies import RECORDED
from butfor.standard.compare import least_draws
from butfor.standard.groups import Standards
from butfor.support.errors import (
    SettingError,
    Stopped,
    TableError,
    listed,
)
from butfor.support.progress import PEOPLE, Progress
from butfor.support.stopping import (
    Stop,
    StopFlag,
    checking,
    listen,
)
from butfor.support.threads import single_threaded
from butfor.table.checking import check_people
from butfor.table.handed_over import as_positions
from butfor.table.labels import label_number
from butfor.table.sides import Sides
from butfor.worlds import (
    FlipTrial,
    changes_decision,
    not_asked,
    one_standard,
    outcome_of,
)

STANDARDS_SHARE = 0.2
STANDARDS_MOST = 0.9
SEARCH_SHARE = 2 / 3
"""Shares of the time limit: for comparing groups, after which no more tables are drawn, and after
which the comparison is given up; and for the search. The rest is for confirmations and fresh
seeds."""
DRAWING_UP = 1e-3
"""Seconds per person, of a time limit, in which verdicts and their page are drawn up; at most half
of it."""
BLOCK = 256
SCORES = 2**23
"""The most people scored at once, and the most scores: one per person and training row must fit in
memory."""


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
    settings = fitted.settings
    table = fitted.table
    if not isinstance(stop, (Stop, NoneType)):
        raise SettingError(
            f"stop={stop!r}: give butfor.max_seconds(…), butfor.max_retrainings(…), or both "
            "joined by |."
        )
    everyone, truth = fitted.people(X, y, sensitive_features)
    cases = (
        list(range(len(everyone.people)))
        if cases is None
        else as_positions(cases, len(everyone.people))
    )
    wanted = (
        None
        if towards is None
        else label_number(towards, fitted.label_names, table.classes, "towards")
    )
    if astray := [case for case in cases if not np.isfinite(everyone.logits[case])]:
        raise TableError(
            f"The model's score for person {astray[0]} is infinite or not a number: check that "
            "row for numbers far outside the training rows."
        )
    allowed_time = stop or Stop()
    if allowed_time.seconds is not None:
        seconds = allowed_time.seconds - min(DRAWING_UP * len(cases), allowed_time.seconds / 2)
        allowed_time = replace(allowed_time, seconds=seconds)
    performance = None if truth is None else performance_of(fitted, everyone, truth)
    concerns = check_people(table.X, everyone.people)
    for concern in concerns:
        progress.note(f"Note: {concern}")
    several = len(cases) > 1
    searches = fitted.strategy.name != RECORDED

    with listen() as flag:
        # Is a group's labelling held to another standard? ψ may ask for doubts about labels;
        # without an adverse label they are all that is computed. A time limit gives the comparison
        # a share.
        comparable = fitted.adverse is not None or (several and not table.multiclass)
        drawn = several and searches and fitted.adverse is not None
        compared = Outcome() if drawn else Outcome(NOT_ASKED, SETTING)
        if searches and standards is None and comparable:
            most = allowed_time.seconds
            limit = StopFlag()
            if most is not None:
                limit.deadline = begun + STANDARDS_MOST * most
            try:
                with checking(limit.check):
                    if drawn:
                        seconds_of_draws = None if most is None else STANDARDS_SHARE * most
                        limited = replace(fitted.comparison, seconds=seconds_of_draws)
                        standards = fitted.compare(limited, progress)
                    else:
                        standards = fitted.undrawn
            except (TableError, SettingError) as error:
                if fitted.adverse is not None:
                    compared = Outcome(NOT_ASKED, TABLE)
                    progress.note(f"Note: groups are not compared. {error}")
            except Stopped as end:
                compared = Outcome(NOT_FINISHED, STOPPED if end.by_hand else TIME)
                progress.note("Stopped before the groups were compared.")
        if drawn and standards is not None and standards.cut_short:
            ended = STOPPED if standards.interrupted else TIME
            compared = Outcome(
                NOT_FINISHED, ended, standards.draws, least_draws(fitted.comparison.draws)
            )
        if standards is not None:
            doubt = standards.doubt
            everyone = replace(everyone, doubts=lambda: doubt)
        engine = choose_engine(settings.engine, fitted.learner, settings.n_jobs, progress.note)
        fitted.ranking.train_on(engine)
        with single_threaded() as opened:
            ledger = None
            if settings.ledger:
                if gaps := ledger_gaps(fitted.learner):
                    raise SettingError(
                        "A ledger identifies models by their records, and this model's record "
                        f"lacks {listed(gaps)}; leave the ledger out."
                    )
                ledger = opened.enter_context(closing(Ledger(settings.ledger, progress.note)))
            opened.enter_context(progress)

            # Whom the question may be asked about, and which labels may be flipped for whom.
            people = everyone.of(np.array(cases, dtype=np.int64))
            allowed = flippable(fitted.psi, people)
            left_out = why_left_out(fitted.phi, people, wanted)

            # Everyone or, with more than two labels, pairs of decisions; the largest is first.
            audited = np.array([why is None for why in left_out], bool)
            parts: list[Together] = []
            how: dict[str, Any] = {
                "decision": fitted.decision,
                "ledger": ledger,
                "n_jobs": settings.n_jobs,
                "progress": progress,
            }
            pairs = _pairs(people, allowed, wanted)
            for at, ours, psi in sorted(pairs, key=lambda pair: -int(audited[pair[0]].sum())):
                left = len(cases) - sum(len(part.cases) for part in parts)
                trained = sum(part.trainer.trained for part in parts)
                limits = allowed_time.left(
                    time.monotonic() - begun, trained, len(at) / max(1, left)
                )
                trainer = Trainer(
                    engine, fitted.learner, ours.table, ours.people, flag=StopFlag(limits), **how
                )
                why = [left_out[k] for k in at]
                gains = GainTable(flip_direction(ours.logits))
                together = Together(
                    ours, at, [cases[k] for k in at], psi, why, trainer, gains, copy(fitted.ranking)
                )
                announced = 0 if parts else int(audited.sum())
                parts.append(together)
                with checking(trainer.flag.check):
                    explain_together(fitted, together, everyone, truth, announced)
            # Whose decisions would change under one standard for all?
            out_of_time = any(part.trainer.flag.out_of_time for part in parts)
            labels = tuple[TrainingLabel, ...]()
            changed = list[OneStandard]()
            worlds = compared if compared.answered else Outcome(NOT_ASKED, compared.why)
            if several and searches and standards is not None:
                if standards.draws or fitted.adverse is None:
                    labels = labels_to_review(fitted, standards)
                if standards.draws:
                    until = parts[-1].trainer.flag  # which ends when all time is spent
                    trainer = Trainer(
                        engine, fitted.learner, table, everyone.people, flag=until, **how
                    )
                    trial = FlipTrial(fitted, everyone, truth, trainer)
                    with checking(until.check):
                        if flag.interrupted or out_of_time:
                            changed = not_asked(standards, trial, by_hand=flag.interrupted)
                        else:
                            changed = one_standard(standards, trial)
                    worlds = outcome_of(changed)

        # What was measured, as a record.
        trainers = [part.trainer for part in parts]
        run = run_of(
            replace(fitted, ranking=parts[0].ranking),
            everyone.decisions,
            engine=trainers[0].bound.name,
            retrainings=sum(trainer.trained for trainer in trainers),
            recalled=sum(trainer.recalled for trainer in trainers),
            confirmations=sum(trainer.confirmations for trainer in trainers),
            agreement=Agreement(**plain(parts[0].agreement)) if parts[0].agreement else None,
            interrupted=flag.interrupted,
            out_of_time=out_of_time,
            groups=fitted.sensitive.combinations_of(everyone.people),
            remarks=tuple(fitted.remarks(everyone.people)),
            seconds=round(time.monotonic() - begun, 3),
            towards=None if wanted is None else fitted.label_names[wanted],
            stop=stop,
            performance=performance,
            concerns=(*fitted.concerns, *concerns),
            standard=figures_of(standards) if standards and standards.draws else None,
            standard_notes=tuple(standards.notes()) if standards and standards.draws else (),
            one_standard=tuple(changed),
            questions=Questions(
                compared, *_outcomes(fitted, parts, len(everyone.people), flag.interrupted), worlds
            ),
        )
        persons = {
            person.case: person
            for part in parts
            for person in persons_of(fitted, part, standards, truth)
        }
        verdicts = [Verdict(persons[case], run, fitted) for case in cases]
        return Population(verdicts, run, labels), standards


def explain_together(
    fitted: Fitted,
    part: Together,
    everyone: Situation,
    truth: NDArray[np.int64] | None,
    announced: int,
) -> None:
    """Proofs, rankings, searches, fresh seeds and side effects, as far as the time allows.
    `everyone`: all rows given, with their labels `truth`; `announced`: how many people are searched
    for in all, if this part is the first and says so, else 0."""
    strategy = fitted.strategy
    ranking = part.ranking
    budget = fitted.budget
    people = part.people
    psi = part.psi
    trainer = part.trainer
    progress = part.trainer.progress
    flag = part.trainer.flag
    begun = time.monotonic()
    seconds = flag.limits.seconds
    members = trainer.members
    table = people.table
    counts = psi.counts
    persons = [
        Person(
            number=number,
            position=int(part.positions[number]),
            budget=budget,
            flippable=int(counts[number]),
            start=float(part.gains.away[number]) * float(people.logits[number]),
            gains=part.gains.people[number],
            members=members,
            random_order=ranking.is_random,
            ranks_again=ranking.score_at is not None,
        )
        for number in part.audited.tolist()
    ]

    flag.last = None if seconds is None else begun + seconds
    with suppress(Stopped):
        # What is proven replaces a search. Without a label to flip, there is nothing to rank.
        flag.check()
        proven = prove(people.of(part.audited), psi.of_people(part.audited)) if persons else None
        part.proven = {
            person.number: bracket for person, bracket in zip(persons, proven or (), strict=False)
        }
        flag.deadline = None if seconds is None else begun + SEARCH_SHARE * seconds
        flag.check()
        searches: dict[Person, Search] = {}
        for person in persons:
            bracket = part.proven.get(person.number) if strategy.proves else None
            # No set within the budget does, or no set at all.
            beyond = bracket is not None and bracket.at_least > min(budget, person.flippable)
            if bracket is not None and (beyond or bracket.witness is not None):
                searches[person] = in_turn(
                    [bracket.witness] if bracket.witness and not beyond else []
                )
            elif not person.flippable:
                searches[person] = strategy.search(person)
        to_rank = [person for person in persons if person not in searches]

        # The ranking learns from a few retrainings, if it can and enough trainings and time remain
        # for the search.
        cost = (
            0
            if ranking.trial is None or not to_rank
            else ranking.trial_sets(len(to_rank)) * members
        )
        if (
            cost
            and 2 * cost <= trainer.left
            and (
                seconds is None
                or cost * trainer.seconds_each(fitted.fit_seconds) <= SEARCH_SHARE * seconds / 4
            )
        ):
            who = [person.number for person in to_rank]
            progress.phase("trial", cost)
            part.agreement = figures = ranking.trial(
                lambda flips: trainer.margins(trainer.answers(flips))[:, who],
                people.model,
                table,
                people.people.iloc[who],
                psi.of_people(who),
                budget,
            )
            if figures["poor"]:
                progress.note(
                    "Training is noisy here: predicted and measured effects of a single flip "
                    f"agree poorly (rank correlation {figures['spearman']:.2f}). The search uses "
                    f"{leader_words(figures['leader'], figures['gains'])}, which moved decisions "
                    "furthest in a trial."
                )
        if announced:
            progress.search_begins(announced)

        # Rank the labels, block by block. With a limit of time, those closest to the other decision
        # are first.
        if seconds is not None:
            to_rank.sort(key=lambda person: -person.start)
        keys = person_keys(people.model, people.people)
        size = max(1, min(BLOCK, SCORES // table.n))
        progress.phase("ranking", len(to_rank), PEOPLE)
        for first in range(0, len(to_rank), size):
            flag.check()
            block = to_rank[first : first + size]
            asked = (people.model, table, people.people.iloc[[person.number for person in block]])
            scores = checked_scores(ranking, *asked)
            predicted = None if ranking.predictions is None else ranking.predictions(*asked)
            for k, person in enumerate(block):
                rows = np.flatnonzero(psi[person.number])
                person.order = rows[np.argsort(-scores[k][rows], kind="stable")].astype(np.int32)
                person.rng = np.random.default_rng(
                    [fitted.settings.random_state, keys[person.number]]
                )
                person.gain_limit = ranking.gain_limit  # what the trial allows to conclude
                if predicted is not None:
                    person.predicted = np.asarray(predicted[k][person.order], np.float64)
            progress.advance(len(block))

        def rank_again(
            asked: Sequence[tuple[Person, FlipSet]],
        ) -> Iterator[NDArray[np.floating[Any]]]:
            for first in range(0, len(asked), size):
                block, flips = zip(*asked[first : first + size], strict=True)
                who = people.people.iloc[[person.number for person in block]]
                yield from ranking.score_at(people.model, table, who, flips)

        searches |= {person: strategy.search(person) for person in to_rank}
        lab = Lab(trainer, part.gains, psi, strategy.shares, budget)
        part.outcomes |= dict(Scheduler(strategy, lab, rank_again).run(searches))

    if flag.out_of_time:
        left = len(persons) - sum(outcome.complete for outcome in part.outcomes.values())
        progress.note(
            f"The time is up: the search for {left} of {len(persons)} people is incomplete."
        )
    flag.deadline = flag.last
    finds = {number: find.flips for number, find in part.finds.items()}

    # Fresh seeds: without flips, and with every find.
    if fitted.seeds and persons and not flag.interrupted:
        try:
            progress.phase("fresh seeds", len(fitted.seeds))
            without = trainer.seed_logits([Training((), seed) for seed in fitted.seeds])
            changed = changes_decision(without, people.predictions).sum(axis=0)
            part.without_flips = {person.number: int(changed[person.number]) for person in persons}
            looks = (fitted.seeds[:FIRST_LOOK_SEEDS], fitted.seeds[FIRST_LOOK_SEEDS:])
            part.fresh.update(check_finds(trainer, looks, finds, people.predictions, without))
        except Stopped:
            if left := len(finds) - len(part.fresh):
                progress.note(
                    f"Stopped before all finds were checked under fresh seeds; not checked: {left}."
                )

    # Side effects: flips also change decisions about other people.
    if not (fitted.settings.fresh_seeds and finds and len(everyone.people) > 1):
        return
    if not flag.interrupted and not flag.out_of_time:
        with suppress(Stopped):
            if part.cases == list(
                range(len(everyone.people))
            ):  # known since the finds were confirmed
                before = people.decisions
                answers = trainer.confirmed
            else:
                how: dict[str, Any] = {
                    "decision": fitted.decision,
                    "n_jobs": fitted.settings.n_jobs,
                    "progress": progress,
                    "flag": flag,
                }
                others = Trainer(trainer.engine, fitted.learner, table, everyone.people, **how)
                tried = list(dict.fromkeys([(), *finds.values()]))
                progress.phase("side effects", members * len(tried))
                before, *_ = trainer.decisions(others.answers(tried))
                answers = others.means
            for number, flips in finds.items():
                now = trainer.decisions(answers[flips])
                case = part.cases[number]
                others_changed = int((now != before).sum() - (now != before)[case])
                right = (
                    (None, None)
                    if truth is None
                    else tuple(float((d == truth).mean()) for d in (before, now))
                )
                part.collateral[number] = Collateral(len(before) - 1, others_changed, *right)
    if not part.collateral:
        progress.note(
            "Stopped before side effects on other people were counted; verdicts do not include "
            "them."
        )


def check_finds(
    trainer: Trainer,
    looks: Sequence[Sequence[int]],
    finds: Mapping[int, FlipSet],
    decisions: NDArray[np.int64],
    without: Floats,
) -> Iterator[tuple[int, FreshSeeds]]:
    """Every find under fresh seeds, by person, one after the other, so that a stop keeps what is
    done. `looks`: seeds that are tried one list after the other, by finds that are still open.
    `without`: logits without flips, `[seeds × people]`. The engine trains these models; the
    documentation measures how well it agrees with the definition."""
    logits_with = dict.fromkeys(finds, np.empty(0, np.float32))
    for seeds in filter(len, looks):
        sets = list(dict.fromkeys(finds.values()))
        still_open = dict[int, FlipSet]()
        step = max(1, 4 * trainer.bound.width // len(seeds))
        trainer.progress.phase("fresh seeds", len(seeds) * len(sets))
        for some in (sets[first : first + step] for first in range(0, len(sets), step)):
            logits = trainer.seed_logits(
                [Training(flips, seed) for flips in some for seed in seeds]
            )
            logits = logits.reshape(len(some), len(seeds), -1)
            for person, flips in (
                (person, flips) for person, flips in finds.items() if flips in some
            ):
                own = np.append(logits_with[person], logits[some.index(flips), :, person])
                both = without[: len(own), person], own
                before, after = (changes_decision(each, decisions[person]) for each in both)
                fresh = FreshSeeds.of(before, after, both)
                logits_with[person] = own
                if fresh.open_until(len(without)):
                    still_open[person] = flips
                yield person, fresh
        finds = still_open


def _outcomes(
    fitted: Fitted, parts: Sequence[Together], people: int, by_hand: bool
) -> tuple[Outcome, Outcome]:
    """What became of the fresh seeds and of the side effects, by the finds for which they are
    known."""
    why = STOPPED if by_hand else TIME
    finds = sum(len(part.finds) for part in parts)
    tested = sum(len(part.fresh) for part in parts)
    counted = sum(len(part.collateral) for part in parts)
    if not fitted.settings.fresh_seeds:
        return Outcome(NOT_ASKED, SETTING), Outcome(NOT_ASKED, SETTING)
    side_effects = (
        Outcome.of_parts(counted, finds, why) if people > 1 else Outcome(NOT_ASKED, SETTING)
    )
    if not fitted.seeded:
        return Outcome(NOT_ASKED, NO_SEED), side_effects
    # Nor are close calls known.
    if any(len(part.audited) and not part.without_flips for part in parts):
        return Outcome(NOT_FINISHED if tested else NOT_ASKED, why, tested, finds), side_effects
    return Outcome.of_parts(tested, finds, why), side_effects


# --- the steps before a search --------------------------------------------------------------------


def _pairs(
    people: Situation, psi: Allowed, towards: int | None = None
) -> list[tuple[NDArray[np.int64], Situation, Allowed]]:
    """People who are asked about together, by position, and what ψ allows for them: everyone or,
    with more than two labels, by decision and by the label that flips give, `towards` or the label
    with the next score. Rows that have the new label already are not flipped."""
    table = people.table
    if not table.multiclass or not len(people.people):
        return [(np.arange(len(people.people)), people, psi)]
    decided = people.decisions
    others = people.model.scores(people.people).copy()
    others[np.arange(len(others)), decided] = -np.inf
    asked = np.full(len(decided), False) if towards is None else decided != towards
    new = np.where(asked, -1 if towards is None else towards, others.argmax(axis=1))
    pairs = []
    for pair in sorted(set(zip(decided.tolist(), new.tolist(), strict=True))):
        at = np.flatnonzero((decided == pair[0]) & (new == pair[1]))
        sides = Sides.away_from(*pair, len(table.classes), table.n, only=bool(asked[at[0]]))
        allowed = psi.of_people(at)
        allowed = replace(allowed, masks=allowed.masks & (table.codes != pair[1]))
        pairs.append((at, people.of(at).with_sides(sides), allowed))
    return pairs


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
    found = dict[int, Bracket]()
    for at, ours, psi in _pairs(situation, flippable(fitted.psi, situation)):
        with single_threaded():
            proven = prove(ours, psi)
        if proven is None:
            which = (
                " at this threshold: with a threshold, only nearest neighbours have proofs, at a "
                "fixed one."
                if fitted.decision.has_cut
                else ". Ridge classifiers, linear regression and kernel ridge on 0 and 1, nearest "
                "neighbours and "
                "PartitionEnsemble have proofs."
            )
            raise SettingError(f"There is no proof for {fitted.learner.name}{which}")
        found |= zip(map(int, at), proven, strict=True)
    return [found[k] for k in sorted(found)]
