"""What an audit is asked beyond single decisions: standards, the value of reviews, what a review changes, gaps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError, Stopped, TableError, listed
from butfor.learn.protocols import Engine
from butfor.machine import single_threaded
from butfor.progress import Progress
from butfor.provenance import data_hash
from butfor.result.labels import MOST_RECORDED, TO_REVIEW, ClosedGap, LabelValue, OneStandard, Reviewed
from butfor.result.population import Population
from butfor.result.record import plain
from butfor.run.fitted import FittedAudit
from butfor.run.labels import BY, FlipTrial, Values, best_ranking, close_gap, effects, one_standard, review_values
from butfor.search.trainer import Trainer
from butfor.situation import Situation
from butfor.standard.compare import attributes_of, compare
from butfor.standard.groups import GroupStandard, Standards
from butfor.stopping import Stop
from butfor.validate import as_labels, as_table, like_training

if TYPE_CHECKING:
    from butfor.tasks.answers import Outcome
    from butfor.tasks.tasks import Review

SHUFFLES = 99
STANDARDS_SHARE = 0.2
"""The share of the time given that comparing standards may take."""
CORRECTED = "a review that corrected its labels"


class FollowUp(FittedAudit):
    """The part of a `LabelAudit` that asks about labels and groups; what is computed is kept until the next fit."""

    # --- standards ----------------------------------------------------------------------------------

    @property
    def standard_(self) -> Standards:
        """Each group's labels beside the standard of the others; computed when it is first asked for."""
        self._check_fitted()
        return self._compare()

    @property
    def doubt_(self) -> NDArray[np.float64]:
        """Per training row, the probability of the other label by the standard of the other groups."""
        self._check_fitted()
        return self._compare(shuffles=0).doubt

    def _compare(
        self, shuffles: int = SHUFFLES, seconds: float | None = None, progress: Progress | None = None
    ) -> Standards:
        """The training rows, group by group beside the others' standard, with shuffles where some are wanted. Doubt
        about one of two labels is the same whichever is the adverse one; where none is named, the first counts as
        such."""
        if shuffles or self.table_.multiclass:
            self._require_adverse()
        if self._standards is None or (shuffles and not self._standards.shuffles):
            adverse, table, sides = self.adverse_ or 0, self.table_, self.sides_
            self._standards = compare(
                table.X,
                table.zero_one.astype(np.int64) != adverse,
                attributes_of(self.sensitive_, table.X),
                names=(sides[adverse], sides[1 - adverse]),
                shuffles=shuffles,
                weight=table.weight,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
                seconds=seconds,
                progress=progress,
            )
        return self._standards

    def _require_adverse(self) -> None:
        if self.adverse_ is None:
            raise SettingError("Which label would people rather not have? Name it: fit(X, y, adverse=…).")

    def _compared(self, progress: Progress, stop: Stop | None, alone: bool) -> Standards | None:
        """The comparison of standards, where groups can be compared. Of a person `alone`, and where no adverse label is
        named, only the doubt about labels is wanted; where time is limited, a part of it is for this. Whether it was
        interrupted is said once."""
        if self.adverse_ is None and (alone or self.table_.multiclass):
            return None
        seconds = None if stop is None or stop.seconds is None else STANDARDS_SHARE * stop.seconds
        try:
            found = self._compare(0 if alone or self.adverse_ is None else SHUFFLES, seconds, progress)
        except (TableError, SettingError) as error:
            if self.adverse_ is not None:
                progress.note(f"Note: standards are not compared. {error}")
            return None
        self._standards = replace(found, interrupted=False)
        return found

    def one_standard(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, progress: Progress | None = None
    ) -> list[OneStandard]:
        """For every group that falls short of the others' standard by more than chance: who of X is decided otherwise
        once as many of its doubted adverse labels are flipped, and what fresh seeds say of it."""
        standards, progress = self.standard_, progress or Progress()
        with progress, single_threaded():
            return one_standard(standards, self._asking(X, y, sensitive_features, progress))

    # --- people -------------------------------------------------------------------------------------

    def _people(
        self, X: Any, y: Any = None, sensitive_features: Any = None
    ) -> tuple[Situation, NDArray[np.int64] | None]:
        """The people of a table and, where they are known, their own labels by number."""
        self._check_fitted()
        X, truth = as_table(X), None
        if y is not None:
            labels = as_labels(X, y)
            unknown = set(labels.unique()) - set(self.classes_)
            if unknown:
                raise TableError(f"The labels of these people hold {listed(unknown)}, which no training label is.")
            truth = np.searchsorted(self.classes_, labels.to_numpy().astype(self.classes_.dtype))
        X = like_training(X, self.table_.X)
        return self._situation(X, self.sensitive_.of_people(X, sensitive_features)), truth

    def _situation(self, people: pd.DataFrame, groups: NDArray[np.object_]) -> Situation:
        return Situation(
            model=self.model_,
            table=self.table_,
            people=people,
            sensitive=self.sensitive_,
            groups=groups,
            label_names=self.label_names_,
            training_decisions=self.training_decisions_,
            doubts=lambda: self.doubt_,
        )

    def _asking(
        self, X: Any, y: Any, sensitive_features: Any, progress: Progress, outcome: Outcome | None = None
    ) -> FlipTrial:
        """Flip sets to be tried on the people X; of more than two labels, a review says which ones flips give."""
        everyone, truth = self._people(X, y, sensitive_features)
        table, decision_split = self.table_, self.table_.decision_split
        if outcome is not None and decision_split is not None:
            new = decision_split.new.copy()
            new[list(outcome.corrected)] = self._codes(outcome)
            table = table.with_split(replace(decision_split, new=new))
        trainer = Trainer(
            self._engine(progress), self.learner_, table, everyone.people, n_jobs=self.n_jobs, progress=progress
        )
        return self._together(everyone, truth, trainer)

    def _together(self, everyone: Situation, truth: NDArray[np.int64] | None, trainer: Trainer) -> FlipTrial:
        favourable = 1 if self.adverse_ is None else 1 - self.adverse_
        return FlipTrial(everyone, truth, trainer, self.seeds_, self.seeded_, favourable)

    # --- what a review is worth ---------------------------------------------------------------------

    def _about_labels(
        self,
        engine: Engine,
        progress: Progress,
        everyone: Situation,
        truth: NDArray[np.int64] | None,
        trainer: Trainer | None,
    ) -> dict[str, Any]:
        """The value of reviews, and one standard for all; as far as it is not stopped. `trainer` asks about everyone,
        where there is one."""
        if self._standards is None:
            return {}
        try:
            progress.phase("the value of reviews")
            self._value(everyone.people, everyone.groups, engine)
            if self._standards.shuffles:
                trainer = trainer or Trainer(engine, self.learner_, self.table_, everyone.people, progress=progress)
                return {"one_standard": one_standard(self._standards, self._together(everyone, truth, trainer))}
        except Stopped:
            progress.note("Stopped before one standard for all was trained: the verdicts stand without it.")
        return {}

    @property
    def review_value_(self) -> NDArray[np.floating[Any]]:
        """Per training row, what a review of its label is worth: doubt² × what flipping it does to the people of its
        group who are decided as it says (adversely, where an adverse label is named). These are the people of the last
        `explain_all`, before that the training rows."""
        return self._valued().value

    def _valued(self) -> Values:
        self._check_fitted()
        return self._values or self._value(self.table_.X, self.sensitive_.values)

    def _value(self, X: pd.DataFrame, groups: NDArray[np.object_], engine: Engine | None = None) -> Values:
        standards, ranking = self._compare(shuffles=0), best_ranking(self.model_)
        if engine is not None:
            ranking.train_on(engine)
        with single_threaded():
            effect = effects(self.model_, self.table_, self.sensitive_.values, X, groups, self.adverse_, ranking)
        self._values = review_values(standards, self.table_, effect, self.adverse_)
        return self._values

    def label_values(self) -> tuple[LabelValue, ...]:
        """The labels that are worth a review, the most valuable first, without those that were reviewed already."""
        values, doubt = self._valued(), self.doubt_
        left = [int(at) for at in values.order if int(at) not in self.answered_][:MOST_RECORDED]
        return tuple(
            LabelValue(
                position=at,
                row=plain(self.table_.X.index[at]),
                group=plain(self.sensitive_.values[at]),
                label=self.label_names_[self.table_.codes[at]],
                doubt=round(float(doubt[at]), 4),
                value=float(f"{values.value[at]:.4g}"),
                wrong=None if values.wrong is None else round(float(values.wrong[at]), 4),
            )
            for at in left
        )

    def review_frame(self, population: Population | None = None) -> pd.DataFrame:
        """One row per training row: its label and group, doubt, value, how likely it is wrong, its rank among those to
        review, and in how many people's flip sets of a population it is."""
        values, names = self._valued(), self.label_names_
        rank = pd.array([pd.NA] * self.table_.n, dtype="Int64")
        rank[values.order] = range(1, len(values.order) + 1)
        people = population.flip_counts if population is not None else {}
        columns = {
            "label": [names[label] for label in self.table_.codes],
            "group": self.sensitive_.values,
            "doubt": self.doubt_.round(4),
            "value": values.value,
            "wrong": np.nan if values.wrong is None else values.wrong.round(4),
            "rank": rank,
            "people": [people.get(at, 0) for at in range(self.table_.n)],
        }
        return pd.DataFrame(columns, index=self.table_.X.index)

    # --- a review -----------------------------------------------------------------------------------

    def review_tasks(
        self,
        population: Population | None = None,
        *,
        labels: int = TO_REVIEW,
        hide: Sequence[str] = (),
        random_state: int = 0,
    ) -> Review:
        """The labels to review, as many decoys among them: `shown` is for the reviewer, by task id. With a population
        the tasks know in how many people's flip sets each label is."""
        from butfor.tasks.tasks import Rows, make_review

        rows = Rows(
            self.table_,
            self.sensitive_.values,
            self.doubt_,
            self.label_names_,
            self.sensitive_.columns,
            answered=self.answered_,
        )
        self.review_ = make_review(self.label_values(), rows, population, labels=labels, hide=hide, seed=random_state)
        return self.review_

    def corrected(self, answers: Mapping[int, Any] | Outcome, progress: Progress | None = None) -> Self:
        """This audit on the table as reviewers corrected it, its model trained anew. `answers`: the label that is right
        for each task of `review_tasks`, by its id, or "cannot tell". Labels that were not reviewed stay."""
        from butfor.tasks.answers import check_answers

        self._check_fitted()
        outcome = check_answers(answers, self.review_, self.label_names_)
        other, progress = copy(self), progress or Progress()
        other._forget()
        other.table_ = self.table_.corrected(outcome.corrected, self._codes(outcome))
        other.answered_ = self.answered_ | outcome.positions
        other.corrected_ = tuple(sorted({*self.corrected_, *outcome.corrected}))
        other.origin_, other.data_hash_ = {"table": None, "given": CORRECTED}, data_hash(other.table_)
        other.learner_, other.members = self.learner_.single, self.members_
        with progress:
            other._train(progress)
            other._draw_line(self.table_.sides(np.arange(len(self.classes_))))
        other._choose_search()
        return other

    def _codes(self, outcome: Outcome) -> list[int]:
        """The labels of the corrected rows, by number."""
        return [self.label_names_.index(outcome.made[at]) for at in outcome.corrected]

    def after_review(
        self,
        answers: Mapping[int, Any] | Outcome,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        before: Sequence[GroupStandard] | None = None,
        progress: Progress | None = None,
    ) -> tuple[Reviewed, Self]:
        """What a review changes: who of X is decided otherwise once its corrections are made, rates, accuracy and
        standards before and after; and the audit of the corrected table, for the next round. `before`: the groups
        beside the others' standard, where that is known already."""
        from butfor.tasks.answers import check_answers

        self._check_fitted()
        outcome, progress = check_answers(answers, self.review_, self.label_names_), progress or Progress()
        before = self._groups_beside_the_others() if before is None else before
        with progress, single_threaded():
            tried = self._asking(X, y, sensitive_features, progress, outcome)
            progress.phase("the corrected labels", self.members_ + 2 * len(tried.seeds))
            flipped = tried.flip(outcome.corrected)
        after = self.corrected(outcome, progress)
        after._value(tried.everyone.people, tried.everyone.groups)
        now = [self.label_names_[after.table_.codes[at]] for at in after.corrected_]
        reviewed = Reviewed(
            favourable=self.sides_[tried.favourable],
            answered=tuple(sorted(after.answered_)),
            corrected=after.corrected_,
            chosen=outcome.counts(decoys=False),
            decoys=outcome.counts(decoys=True),
            keystones=outcome.counts(decoys=False, keystones=True),
            unsure=len(outcome.unsure),
            expected=outcome.expected,
            corrected_to=tuple(now) if self.table_.multiclass else (),
            before=tuple(before),
            after=tuple(after._groups_beside_the_others()),
            **flipped,
        )
        return reviewed, after

    def _groups_beside_the_others(self) -> Sequence[GroupStandard]:
        """Each group beside the others' standard; none where that cannot be compared."""
        try:
            return self.standard_.comparisons if self.adverse_ is not None else ()
        except TableError:
            return ()

    # --- gaps ---------------------------------------------------------------------------------------

    def close_gap(
        self,
        X: Any,
        y: Any = None,
        *,
        by: str = BY[0],
        groups: Sequence[Any] | None = None,
        within: float = 0.01,
        sensitive_features: Any = None,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> ClosedGap:
        """The fewest doubted labels, in order of their value, whose flipping brings two groups' rates about X within a
        point of each other: `by` "selection" or "true positive" rates. `groups`: which two, else those furthest apart.
        That the doubted labels do not suffice is an answer too. When the time of `stop` is up it ends as by Ctrl-C."""
        self._check_fitted()
        self._require_adverse()
        standards, progress = self._compare(shuffles=0), progress or Progress()
        with progress, single_threaded():
            tried = self._asking(X, y, sensitive_features, progress)
            if stop is not None and stop.seconds is not None:
                tried.trainer.flag.set_deadline(time.monotonic() + stop.seconds)
            return close_gap(self._valued().order.tolist(), standards, tried, by, groups, within)
