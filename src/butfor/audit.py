"""LabelAudit: train the model, find the labels that decisions hinge on, say how far to believe it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.check import check_people
from butfor.data.sensitive import in_order
from butfor.errors import SettingError, TableError, listed
from butfor.follow_up import FollowUp
from butfor.machine import single_threaded
from butfor.progress import Progress
from butfor.prove import Bracket, prove
from butfor.result.groups import Performance
from butfor.result.population import Population
from butfor.result.record import Run
from butfor.result.verdict import Verdict
from butfor.rules import Allowed, eligible, flippable
from butfor.run.compare import beside_ridge
from butfor.run.fitted import FittedAudit, noted
from butfor.run.parts import parts_of, run_parts
from butfor.run.runner import Runner
from butfor.run.verdicts import figures_of, settings_of, verdicts_of
from butfor.search.ledger import Ledger
from butfor.search.published import Recorded
from butfor.situation import Situation
from butfor.stopping import Stop, listen
from butfor.validate import as_person, as_positions


class LabelAudit(FollowUp):
    __doc__ = FittedAudit.__doc__

    def explain(
        self,
        person: Any,
        *,
        sensitive_features: Any = None,
        towards: Any = None,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> Verdict:
        """The verdict about one person: one row of a table with the training columns."""
        self._check_fitted()
        frame = as_person(person, self.table_.X)
        beside = None if sensitive_features is None else np.atleast_1d(np.asarray(sensitive_features, dtype=object))
        asked = self.explain_all(frame, sensitive_features=beside, towards=towards, stop=stop, progress=progress)
        return replace(asked[0], case=None)

    def explain_all(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        cases: Sequence[int] | None = None,
        towards: Any = None,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> Population:
        """Verdicts about all rows of X, or about those at the positions `cases`.

        A decision is turned when it is any other, or the one that `towards` names: then whoever has it already is left
        out. With more than two labels, flips give the label asked for, else the one whose score comes next.
        `sensitive_features` holds one value per row of X where the model is blind to the protected attribute. The other
        rows of X serve to count collateral changes and, with their labels `y`, accuracy. `stop` ends the search early
        (`butfor.max_seconds(600) | butfor.max_retrainings(5000)`), and so does Ctrl-C; what is done is returned, the
        rest is marked incomplete."""
        begun, progress = time.monotonic(), progress or Progress()
        everyone, truth = self._people(X, y, sensitive_features)
        wanted = None if towards is None else self._label(towards, "towards")
        people = len(everyone.people)
        cases = list(range(people)) if cases is None else as_positions(cases, people)
        astray = [case for case in cases if not np.isfinite(everyone.logits[case])]
        if astray:
            raise TableError(
                f"The model's answer about person {astray[0]} is infinite or not a number: look at that row for "
                "numbers that are far from the training rows'."
            )
        performance = None if truth is None else self._performance(everyone, truth)
        concerns = check_people(self.table_.X, everyone.people)
        concerns += [performance.concern] if performance and performance.concern else []
        concerns = self.concerns_ + noted(concerns, progress)
        searches = not isinstance(self.strategy_, Recorded)
        with listen() as flag:
            standards = self._compared(progress, stop, alone=len(cases) == 1) if searches else None
            engine = self._engine(progress)
            self.rank_.train_on(engine)
            with single_threaded() as opened:
                ledger = opened.enter_context(closing(self._ledger(progress))) if self.ledger is not None else None
                opened.enter_context(progress)
                runners = run_parts(
                    self,
                    everyone,
                    truth,
                    cases,
                    wanted,
                    engine,
                    ledger=ledger,
                    stop=stop,
                    flag=flag,
                    begun=begun,
                    progress=progress,
                )
                more, whole = dict[str, Any](), cases == list(range(people)) and not self.table_.multiclass
                if len(cases) > 1 and searches:
                    self._values = None
                    if not any(runner.interrupted or runner.out_of_time for runner in runners):
                        trainer = runners[0].trainer if whole else None
                        more = self._about_labels(engine, progress, everyone, truth, trainer)
            record = self.run_record() | figures_of(runners)
            record |= {
                "remarks": self.remarks(everyone.people),
                "seconds": round(time.monotonic() - begun, 3),
                "towards": None if wanted is None else self.label_names_[wanted],
                "stop": {"seconds": stop.seconds, "retrainings": stop.retrainings} if stop else None,
                "performance": performance.to_dict() if performance else None,
                "concerns": [concern.to_dict() for concern in concerns],
                "standard": standards.to_dict() if standards and standards.shuffles else None,
                "phi_reason": self.phi_.reason(everyone.of(np.array(cases, dtype=np.int64))),
            }
            run = Run(record | more)
            verdicts = {v.case: v for runner in runners for v in verdicts_of(runner, run, self._doubt_for(runner))}
            values = () if self._values is None else self.label_values()
            interrupted = runners[-1].interrupted
            return Population([verdicts[case] for case in cases], run, interrupted=interrupted, labels=values)

    def _doubt_for(self, runner: Runner) -> NDArray[np.float64] | None:
        """The doubt about labels, where the standards were compared; of more than two labels that is about two sides,
        and says nothing of a flip within one."""
        if self._standards is None or not self.table_.multiclass:
            return None if self._standards is None else self._standards.doubt
        table, decision_split = self.table_, runner.situation.table.decision_split
        assert decision_split is not None
        return np.where(table.sides(table.codes) != table.sides(decision_split.new), self._standards.doubt, np.nan)

    def _performance(self, everyone: Situation, truth: NDArray[np.int64]) -> Performance:
        table, decided = self.table_, everyone.decisions
        groups = pd.Series(everyone.groups, name=self.sensitive_.name)
        order = in_order(everyone.groups, self.sensitive_.cuts)
        commoner = int(np.bincount(table.codes).argmax())  # of equally common ones the first
        named = None if table.multiclass and self.adverse_ is None else self.sides_[1]
        return Performance.of(groups, truth, decided, commoner, table.sides, named, order)

    def _ledger(self, progress: Progress) -> Ledger:
        if not self.learner_.single.identified:
            raise SettingError(
                "A ledger tells models apart by their records, and this one's lacks "
                f"{listed(self.learner_.gaps())}; leave it out."
            )
        return Ledger(self.ledger or "", progress.note)

    def run_record(self) -> dict[str, Any]:
        """What is needed to run this audit again; `not_rebuildable` names what a record cannot carry."""
        self._check_fitted()
        return settings_of(self)

    __dir__ = object.__dir__  # scikit-learn's would compute standards and doubts, as would its form for notebooks

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # --- what can be asked without a search ---------------------------------------------------------

    def eligible_cases(self, X: Any, most: int | None = None, *, sensitive_features: Any = None) -> list[int]:
        """The positions in X of the people φ admits, in order, `most` of them at the most."""
        situation, _ = self._people(X, None, sensitive_features)
        return [int(case) for case in np.flatnonzero(eligible(self.phi_, situation))[:most]]

    def flippable(self, X: Any, *, sensitive_features: Any = None) -> Allowed:
        """For each row of X, which training labels ψ allows to flip."""
        situation, _ = self._people(X, None, sensitive_features)
        return flippable(self.psi_, situation)

    def brackets(self, X: Any, *, sensitive_features: Any = None) -> list[Bracket]:
        """What is proven about each row of X: how many of the labels that ψ allows it takes at least to turn the
        decision and, where that is known, which so many do it. Refused where no prover knows the model."""
        situation, _ = self._people(X, None, sensitive_features)
        psi, found = flippable(self.psi_, situation), dict[int, Bracket]()
        for part in parts_of(situation):
            with single_threaded():
                proven = prove(part.of(situation), part.allowed(psi, situation))
            if proven is None:
                raise SettingError(
                    f"Nothing can be proven about {self.learner_.name}; ridge classifiers, linear regression and "
                    "kernel ridge on 0 and 1, nearest neighbours and PartitionEnsemble have proofs."
                )
            found |= zip(map(int, part.people), proven, strict=True)
        return [found[k] for k in sorted(found)]

    def compare_with_ridge(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> dict[str, Any]:
        """This model beside ridge, whose decisions have exact proofs: how often each is right about the rows X, whose
        decision changes, and how many are proven to stand. For the page: `population.run["ridge"]`."""
        situation, codes = self._people(X, y, sensitive_features)
        if self.table_.multiclass:
            raise SettingError("The comparison with ridge is about two labels; here there are more.")
        with single_threaded():
            return beside_ridge(situation, self.psi_, self.budget_, None if codes is None else codes == 1)
