"""One inquiry: from the people asked about to what is known of each, before it is put into words.

    proofs ──▸ trial ──▸ search ──▸ other sets ──▸ fresh seeds ──▸ side effects

Ctrl-C ends it at any point; what was known by then is kept, and what was not is said to be unknown.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.allowed import Allowed
from butfor.errors import ButforError
from butfor.inquiry.cost import AROUND, FRESH, RANKING, SCORED, SEARCH, SHUFFLES, TIMING, TRIAL, Question, distinct_sets
from butfor.inquiry.settings import Settings
from butfor.inquiry.steady import beside_steady
from butfor.learn.ensemble import fresh_seeds
from butfor.learn.partition import PartitionEnsemble
from butfor.progress import TRAININGS, Deadline, Phase, TimeIsUp, Watcher, duration
from butfor.prove import Bracket, prove
from butfor.rank import checked_scores
from butfor.result.control import Found, base_logits, collaterals, judge, otherwise
from butfor.result.groups import Curves, Null
from butfor.rules import flippable
from butfor.seam import FlipSet, Learner, away, person_keys
from butfor.search.guided import Leaders, leader_words
from butfor.search.hunt import Hunt, SizeSearch
from butfor.search.joint import JointSearch, Pursuit
from butfor.search.pairs import PairSearch
from butfor.search.plans import Listed
from butfor.search.protocols import Exhaustive, Ranked
from butfor.search.solid import SolidSearch
from butfor.search.trainer import Trainer
from butfor.situation import Situation

SEARCH_SHARE = 2 / 3
"""Of the time that is given, for the search; the rest is for confirmations and fresh seeds."""
TIMING_SHARE = 0.02
"""Of the time that is given, what a first training may take for a second one to tell better how long they take."""
BLOCK, SCORES = 256, 2**25
"""People scored at once, and scores at the most: those against every training row must fit in memory."""


@dataclass(eq=False)
class Inquiry:
    """About the people of a situation; `psi` says which labels may be flipped for whom, `eligible` who is asked
    about."""

    settings: Settings
    learner: Learner
    seeded: bool
    situation: Situation
    psi: Allowed
    eligible: NDArray[np.int64]
    watch: Watcher
    seconds_by_definition: float = 0.0
    """What one training by the learner's own `fit` took, for the announcement."""
    others: bool = True
    """Whether the people stand in a table of more than one, so that side effects can be counted."""
    seconds: float | None = None
    """Time for everything, where a `Deadline` keeps it."""
    proven: Mapping[int, Bracket] = field(init=False)
    agreement: dict[str, Any] | None = None
    pursuits: list[Pursuit] = field(default_factory=list)
    extra: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What else is known of a person, by the names that verdicts have for it."""
    interrupted: bool = False
    out_of_time: bool = False

    def __post_init__(self) -> None:
        """What is proven needs no search."""
        asked = self.situation.of(self.eligible)
        brackets = prove(self.learner, asked, self.psi.of_people(self.eligible)) if len(self.eligible) else None
        self.proven = dict(zip(map(int, self.eligible), brackets, strict=True)) if brackets else {}

    def run(self, trainer: Trainer) -> None:
        """Search for everyone who is asked about."""
        settled = [self._settled(person, bracket) for person, bracket in self.proven.items()]
        self.pursuits = [pursuit for pursuit in settled if pursuit is not None]
        searched = np.setdiff1d(self.eligible, [pursuit.person for pursuit in self.pursuits])
        begun = time.monotonic()
        if isinstance(self.watch, Deadline) and self.seconds is not None:
            self.watch.set(begun + SEARCH_SHARE * self.seconds)
        try:
            self._announce(trainer, searched)
            self._hold_trial(trainer, searched)
            if self.pursuits:
                self._join(trainer, self.psi, self.pursuits)
            if self.seconds is not None:  # nearest first; the trial is the same with or without a limit
                searched = searched[np.argsort(np.abs(self.situation.logits[searched]), kind="stable")]
            self.pursuits += self._found_for(trainer, searched, self.psi)
        except KeyboardInterrupt:  # while labels were ranked: nobody's search had begun
            self.interrupted = True
            self._leave_open()
        if not self.interrupted:
            self._look_for_others(trainer)
        if isinstance(self.watch, Deadline) and self.seconds is not None:
            if self.watch.passed:
                self.interrupted, self.out_of_time = False, True
                left = sum(not pursuit.complete for pursuit in self.pursuits)
                self.watch.note(f"The time is up: the search for {left} of {len(self.pursuits)} people is incomplete.")
            self.watch.set(begun + self.seconds)

    @property
    def on_time(self) -> bool:
        """Whether nothing has ended it before its end."""
        return not self.interrupted and not self.out_of_time

    def stop(self, stop: KeyboardInterrupt) -> None:
        """Somebody pressed Ctrl-C between two parts of the work, or the time was up there."""
        self._stopped(stop)
        self._leave_open()

    def _leave_open(self) -> None:
        """Whoever has no search yet has one that is incomplete."""
        begun, out = {pursuit.person for pursuit in self.pursuits}, away(self.situation.logits)
        left = [int(person) for person in self.eligible if int(person) not in begun]
        self.pursuits += [Pursuit(person, Listed(iter(())), float(out[person])) for person in left]

    def note(self, person: int, **known: Any) -> None:
        self.extra.setdefault(person, {}).update(known)

    @property
    def found(self) -> list[Found]:
        decisions = self.situation.predictions
        return [Found(p.person, p.found, int(decisions[p.person])) for p in self.pursuits if p.found]

    # --- the search ---------------------------------------------------------------------------------

    def _settled(self, person: int, bracket: Bracket) -> Pursuit | None:
        """A search that need not search: its only attempt is what was proven to be the smallest set, or there is none
        because the proof goes beyond the budget or beyond all labels that may be flipped."""
        beyond = bracket.at_least > min(self.settings.budget, int(self.psi[person].sum()))
        if not self.settings.protocol.proves or (bracket.witness is None and not beyond):
            return None
        attempts = [] if beyond or bracket.witness is None else [bracket.witness]
        out = -1.0 if self.situation.predictions[person] else 1.0
        return Pursuit(person, Listed(iter(attempts)), out, settled=True)

    def _hold_trial(self, trainer: Trainer, people: NDArray[np.int64]) -> None:
        """Let the ranking look at a few real retrainings first, where it wants to."""
        if not self._trial(trainer, people):
            return
        rank: Any = self.settings.rank
        situation = self.situation
        self.watch.phase(TRIAL)
        figures: dict[str, Any] = rank.prepare(
            lambda sets: trainer.retrain(sets, self.watch)[:, people], situation.model, situation.table,
            situation.people.iloc[people], self.psi.of_people(people), self.settings.budget,
        )  # fmt: skip
        self.agreement = figures
        if figures["poor"]:
            self.watch.note(
                f"Training is rough here: predicted and real effects of a single flip agree poorly (rank correlation "
                f"{figures['spearman']:.2f}). The search goes by {leader_words(figures)}, which moved "
                "decisions furthest in a trial."
            )

    def _trial(self, trainer: Trainer, people: NDArray[np.int64]) -> int:
        """Sets that the ranking looks at first; 0 where it wants none, or where too few retrainings or too little time
        would be left to search with."""
        rank, most = self.settings.rank, self.settings.max_retrainings
        if not (hasattr(rank, "prepare") and hasattr(rank, "trial")) or not len(people):
            return 0
        sets = int(rank.trial(len(people)))
        if most is not None and 2 * sets * trainer.members > most:
            return 0
        if self.seconds is not None:
            lasts = sets * trainer.members * self._time_of_one(trainer)
            return 0 if lasts > SEARCH_SHARE * self.seconds / 4 else sets
        return sets

    def _found_for(self, trainer: Trainer, people: NDArray[np.int64], psi: Allowed) -> list[Pursuit]:
        """Search for these people among the labels that `psi` allows them."""
        if isinstance(self.settings.protocol, SolidSearch):
            return self._hunt(trainer, self.settings.protocol, people, psi)
        ranked = self._ranked(people, psi)
        pursuits = [Pursuit(person, self.settings.protocol.plan(each), out) for person, out, each in ranked]
        self._join(trainer, psi, pursuits)
        if isinstance(self.settings.protocol, Exhaustive) and self.settings.budget > 1 and not self.interrupted:
            orders = {person: each.order for person, _, each in ranked}
            search = PairSearch(trainer, psi, orders, self.settings.max_retrainings, self.watch)
            search.run(pursuits)
            self.interrupted |= search.interrupted
        return pursuits

    def _join(self, trainer: Trainer, psi: Allowed, pursuits: Sequence[Pursuit]) -> None:
        settings = self.settings
        allowed = psi.of_people([p.person for p in pursuits]).counts
        enumerates = any(settings.protocol.enumerates(int(size), settings.budget) for size in allowed)
        self.watch.phase(SEARCH)
        search = JointSearch(
            trainer, psi, settings.budget, share=settings.share, shrink=settings.protocol.shrinks,
            max_retrainings=settings.max_retrainings, pool=settings.protocol.pool([p.plan for p in pursuits]),
            claims=None if enumerates else JointSearch.CLAIMS, watch=self.watch,
        )  # fmt: skip
        search.run(pursuits)
        self.interrupted |= search.interrupted

    def _hunt(self, trainer: Trainer, protocol: SolidSearch, people: NDArray[np.int64], psi: Allowed) -> list[Pursuit]:
        hunts = self.hunts(people, psi)
        self.watch.phase(SEARCH)
        search = SizeSearch(
            trainer, protocol.margin, second=self._second(protocol, psi), measures=self._measures(trainer, protocol),
            max_retrainings=self.settings.max_retrainings, watch=self.watch,
        )  # fmt: skip
        search.run(hunts)
        self.interrupted |= search.interrupted
        return [hunt.pursuit() for hunt in hunts]

    def _measures(self, trainer: Trainer, protocol: SolidSearch) -> bool:
        return protocol.measures(self.settings.budget, trainer.engine.width, self.situation.table.n)

    def hunts(self, people: NDArray[np.int64], psi: Allowed) -> list[Hunt]:
        """Everyone's search for solid sets, not yet begun."""
        return [
            Hunt(person, ranked.order, out, min(self.settings.budget, len(ranked.order)))
            for person, out, ranked in self._ranked(people, psi)
        ]

    def _second(
        self, protocol: SolidSearch, psi: Allowed
    ) -> Callable[[Sequence[int], Sequence[FlipSet]], NDArray[np.float64]] | None:
        """Scores at a person's own flips, −∞ where ψ allows none; None where the ranking has no such thing."""
        rank, situation = self.settings.rank, self.situation
        if not isinstance(rank, Leaders) or not rank.scores_again or not protocol.looks_again(self.settings.budget):
            return None

        def scores(people: Sequence[int], flips: Sequence[FlipSet]) -> NDArray[np.float64]:
            asked = situation.people.iloc[list(people)]
            found = rank.score_again(situation.model, situation.table, asked, flips)
            return np.where(psi.of_people(people).whole(), found, -np.inf)

        return scores

    def _ranked(self, people: NDArray[np.int64], psi: Allowed) -> list[tuple[int, float, Ranked]]:
        """Each person, the way out, and the rows ψ allows in the ranking's order, as far as the protocol reaches."""
        settings, situation = self.settings, self.situation
        keys, directions = person_keys(situation.model, situation.people), away(situation.logits)
        found = []
        self.watch.phase(RANKING, unit="people")
        size = max(1, min(BLOCK, SCORES // situation.table.n))
        for first in range(0, len(people), size):
            self.watch.trained(0)  # a look at the clock
            block = people[first : first + size]
            asked = situation.people.iloc[block]
            scores = checked_scores(settings.rank, situation.model, situation.table, asked)
            foretold = (
                settings.rank.predictions(situation.model, situation.table, asked)
                if isinstance(settings.rank, Leaders)
                else None
            )
            for k, (person, score) in enumerate(zip(block, scores, strict=True)):
                allowed = np.flatnonzero(psi[person])
                depth = settings.protocol.depth(len(allowed), settings.budget)
                drawn = settings.rank.name == "chance"
                order = allowed[np.argsort(-score[allowed], kind="stable")][: None if drawn else depth]
                rng = np.random.default_rng([settings.random_state, keys[person]])
                out = float(directions[person])
                start = out * float(situation.logits[person])
                effects = None if foretold is None else np.asarray(foretold[k][order], np.float64)
                found.append(
                    (int(person), out, Ranked(order, settings.budget, rng, len(allowed), drawn, start, effects))
                )
            self.watch.ranked(len(block))
        return found

    def _look_for_others(self, trainer: Trainer) -> None:
        """Per person found, further flip sets without any row that was used before."""
        sets: dict[int, list[FlipSet]] = {p.person: [p.found] for p in self.pursuits if p.found}
        left, going = self.psi, list(sets)
        try:
            for _ in range(self.settings.alternatives):
                left = left.without({person: sets[person][-1] for person in going})
                again = self._found_for(trainer, np.array(going, dtype=np.int64), left)
                for pursuit in again:
                    if pursuit.found:
                        sets[pursuit.person].append(pursuit.found)
                if self.interrupted:
                    raise KeyboardInterrupt
                going = [p.person for p in again if p.found]
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            self.watch.note("Stopped before all alternatives were looked for: the verdicts stand without them.")
        for person, found in sets.items():
            self.note(person, alternatives=tuple(found[1:]))

    def _stopped(self, stop: KeyboardInterrupt) -> None:
        """By Ctrl-C, or because the time given is up: not the same thing."""
        if isinstance(stop, TimeIsUp):
            self.out_of_time = True
        else:
            self.interrupted = True

    # --- what a find is worth -----------------------------------------------------------------------

    def judge(self, trainer: Trainer) -> None:
        """Put every find to fresh seeds, and everyone's present decision; by the engine."""
        count = self.settings.fresh_seeds
        if not count or not self.seeded or not self.pursuits:
            return
        seeds = fresh_seeds(self.learner, count)
        self.watch.phase(FRESH)
        try:
            base = base_logits(trainer.asked, seeds, [p.person for p in self.pursuits], self.watch)
            for person, logits in base.items():
                self.note(person, base=float(otherwise(logits, int(self.situation.predictions[person])).mean()))
            for person, fresh in judge(trainer, seeds, self.found, base, self.watch):
                self.note(person, fresh=fresh)
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            left = sum("fresh" not in self.extra.get(f.person, {}) for f in self.found)
            if left:
                self.watch.note(f"Stopped before fresh seeds were through: {left} finds are not checked.")

    def look_around(
        self, trainer: Trainer, X: pd.DataFrame, labels: NDArray[np.bool_] | None, cases: Sequence[int]
    ) -> None:
        """What each find does to everybody else of the table that was asked about."""
        if not self.settings.fresh_seeds or not self.found or len(X) < 2:
            return
        try:
            if list(cases) == list(range(len(X))):
                decide: Callable[..., Any] = trainer.retrain
            else:
                decide = Trainer(trainer.engine, self.learner, self.situation.table, X).retrain
            self.watch.phase(AROUND)
            places = [cases[f.person] for f in self.found]
            sides = collaterals(lambda sets: decide(sets, self.watch), labels, self.found, places)
            for f, side in zip(self.found, sides, strict=True):
                self.note(f.person, collateral=side)
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            self.watch.note("Stopped before side effects were counted: the verdicts stand without them.")

    def beside(self, steady: PartitionEnsemble, truth: NDArray[np.bool_] | None) -> dict[str, Any] | None:
        """Today's model beside one that is provably steady."""
        try:
            return beside_steady(steady, self.situation, self.settings.psi, self.settings.budget, truth)
        except ButforError as error:
            self.watch.note(f"There is no steady model beside it: {error}")
            return None
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            self.watch.note("Stopped before the steady model was through: the verdicts stand without it.")
            return None

    # --- would it be so with other groups? ----------------------------------------------------------

    def shuffle(self, trainer: Trainer, runs: int) -> Null | None:
        """The gap between groups as it is, and with the protected attribute shuffled among training rows and among
        people, `runs` times: the model and φ stay, ψ goes by the shuffled groups. What is counted is who is turned by
        the first set of the whole budget and by how many of its labels, in every run alike, and what was trained before
        is not trained again."""
        people = self.eligible
        if len(people) < 2 or len(set(self.situation.groups[people])) < 2:
            return None
        gaps: list[float] = []
        sizes: list[tuple[NDArray[np.object_], NDArray[np.float64]]] = []
        rng = np.random.default_rng([self.settings.random_state, 1])
        try:
            for run in range(runs + 1):
                situation = self.situation if run == 0 else self.situation.shuffled(rng)
                hunts = self.hunts(people, flippable(self.settings.psi, situation))
                self.watch.phase(SHUFFLES)
                SizeSearch(trainer, 0.0, watch=self.watch).first_sizes(hunts)
                took = {hunt.person: float(len(hunt.best)) for hunt in hunts if hunt.best}
                sizes.append((situation.groups[people], np.array([took.get(int(p), np.inf) for p in people])))
                gaps.append(_gap(sizes[-1][0], np.isfinite(sizes[-1][1])))
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            if len(gaps) > 1:
                self.watch.note(f"Stopped after {len(gaps) - 1} of {runs} shuffles: these count.")
        return Null(gaps[0], tuple(gaps[1:]), Curves.of(sizes, self.settings.budget)) if len(gaps) > 1 else None

    # --- what it will cost --------------------------------------------------------------------------

    def _announce(self, trainer: Trainer, people: NDArray[np.int64]) -> None:
        """Say what it will cost, usually and at the most, by the time a training takes here. Nothing is trained for it
        but a model or two, and those only where somebody listens and nothing was trained yet."""
        question = self._question(trainer, people)
        if not self.watch.listens:
            self.watch.plan(question.asked, question.phases(0.0, 0.0, 0.0))
            return
        phases = question.phases(1.0, 1.0, 1.0)
        if not any(phase.most for phase in phases if phase.unit == TRAININGS):
            self.watch.plan(question.asked, [])
            return
        self.watch.phase(TIMING)
        each = self._time_of_one(trainer)
        timed = Phase(TIMING, trainer.timed, trainer.timed)
        swept = min(trainer.members, 4) / min(trainer.members, trainer.jobs, 4)
        scored = SCORED * self.seconds_by_definition * swept * -(-len(people) // BLOCK)
        by_definition = self.seconds_by_definition / trainer.jobs
        self.watch.plan(question.asked, [timed, *question.phases(each, by_definition, scored)])
        if self.seconds is not None:
            self.watch.note(f"It stops after about {duration(self.seconds)} (--time), whatever is left.")

    def _time_of_one(self, trainer: Trainer) -> float:
        """What a training takes; where time is short, as the first one tells."""
        short = math.inf if self.seconds is None else TIMING_SHARE * self.seconds
        return trainer.time_of_one(min(trainer.PATIENCE, short))

    def _question(self, trainer: Trainer, people: NDArray[np.int64]) -> Question:
        settings, theirs = self.settings, self.psi.of_people(people)
        protocol, counts = settings.protocol, [int(size) for size in theirs.counts]
        pairs = isinstance(protocol, Exhaustive) and settings.budget > 1  # what was trained of them is not kept
        return Question(
            protocol=protocol, budget=settings.budget, sizes=counts, settled=len(self.pursuits),
            members=trainer.members, width=trainer.width, trial=self._trial(trainer, people),
            ranked=settings.rank.name != "chance",
            looks_again=isinstance(protocol, SolidSearch) and self._second(protocol, self.psi) is not None,
            measures=isinstance(protocol, SolidSearch) and self._measures(trainer, protocol),
            max_retrainings=settings.max_retrainings,
            fresh_seeds=settings.fresh_seeds if self.seeded else 0, alternatives=settings.alternatives,
            shuffles=settings.null, others=bool(settings.fresh_seeds) and self.others,
            confirms=pairs or not trainer.engine.by_definition or trainer.remembers,
            distinct=distinct_sets(theirs, settings.budget) if settings.budget <= 2 and len(people) else None,
        )  # fmt: skip


def _gap(groups: NDArray[np.object_], turned: NDArray[np.bool_]) -> float:
    """The largest difference between two groups' shares."""
    shares = [float(turned[groups == group].mean()) for group in set(groups)]
    return max(shares) - min(shares)
