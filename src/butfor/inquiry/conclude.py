"""From a finished pursuit to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from butfor.inquiry.ask import Inquiry
from butfor.learn.local import pulls
from butfor.result.coherent import ENUMERATION, ONE_LABEL
from butfor.result.record import AFTER, BEFORE
from butfor.result.verdict import Verdict
from butfor.search.joint import Pursuit
from butfor.situation import changed_by_switch


class Conclusions:
    """The verdicts of one inquiry."""

    def __init__(self, inquiry: Inquiry, run: dict[str, Any]) -> None:
        self.inquiry, self.run = inquiry, run
        self.situation, self.settings = inquiry.situation, inquiry.settings
        self._none: pd.DataFrame | None = None

    def verdicts(self, cases: Sequence[int]) -> list[Verdict]:
        """One per person, in their order; no pursuit means that φ left the person out."""
        by_person = {p.person: p for p in self.inquiry.pursuits}
        pulled = pulls(self.situation.model, self.situation.people)
        allowed = self.inquiry.psi.counts
        switched = changed_by_switch(self.situation)
        return [
            replace(
                self._verdict(k, case, int(allowed[k]), by_person.get(k), pulled[k] if pulled else None),
                switch_changes=None if switched is None else bool(switched[k]),
            )
            for k, case in enumerate(cases)
        ]

    def _verdict(
        self, k: int, case: int, allowed: int, pursuit: Pursuit | None, pulled: dict[str, float] | None
    ) -> Verdict:
        situation = self.situation
        person: pd.Series = situation.people.iloc[k]
        prediction = int(situation.predictions[k])
        found = pursuit is not None and pursuit.found is not None
        positions = pursuit.found if pursuit is not None and pursuit.found is not None else ()
        at_least, proof = self._at_least(k, pursuit, allowed)
        none = at_least is not None and at_least > min(self.settings.budget, allowed)
        unfound = "proven_none" if none else "not_found"
        return Verdict(
            status="not_eligible" if pursuit is None else "found" if found else unfound,
            at_least=at_least,
            proof=proof,
            case=int(case),
            row=situation.people.index[k],
            person=person,
            group=situation.groups[k],
            sensitive=situation.sensitive.name,
            prediction=situation.label_names[prediction],
            logit=float(situation.logits[k]),
            counterfactual_prediction=situation.label_names[1 - prediction] if found else None,
            counterfactual_logit=pursuit.found_logit if pursuit else None,
            flips=self._flips(positions),
            positions=positions,
            training_rows=situation.table.n,
            budget=self.settings.budget,
            flippable=allowed,
            attempts=pursuit.spent if pursuit else 0,
            shared=bool(pursuit and pursuit.shared),
            complete=pursuit is None or pursuit.complete,
            confirmed=found,
            rank=self.settings.rank.name,
            protocol=self.settings.protocol.name,
            closest_logit=pursuit.closest if pursuit else None,
            course=tuple(pursuit.course) if pursuit else (),
            reason=self._reason(k, pursuit, allowed),
            run=self.run,
            minimal=found and (len(positions) == 1 or bool(pursuit and pursuit.minimal)),
            first_size=pursuit.first_size if pursuit else 0,
            pulls=pulled,
            clearance=pursuit.clearance if pursuit else None,
            training=situation.table,
            learner=self.inquiry.learner,
            **self.inquiry.extra.get(k, {}),
        )

    def _at_least(self, k: int, pursuit: Pursuit | None, allowed: int) -> tuple[int | None, str | None]:
        """How many labels it takes at least, and how that is known. A training that failed says nothing about its
        labels: where there was one, not everything was tried."""
        if pursuit is None:
            return None, None
        if k in self.inquiry.proven:
            return self.inquiry.proven[k].at_least, self.inquiry.proven[k].how
        enumerated = self.settings.protocol.enumerates(allowed, self.settings.budget) and not pursuit.failed
        if pursuit.found is not None:
            if len(pursuit.found) == 1:
                return 1, ONE_LABEL
            return (len(pursuit.found), ENUMERATION) if enumerated else (None, None)
        if pursuit.complete and allowed and enumerated:
            return self.settings.budget + 1, ENUMERATION
        return None, None

    def _flips(self, positions: Sequence[int]) -> pd.DataFrame:
        if not len(positions):  # most people of an audit; a table's columns take their time
            self._none = self._rows(()) if self._none is None else self._none
            return self._none.copy()
        return self._rows(positions)

    def _rows(self, positions: Sequence[int]) -> pd.DataFrame:
        table, names = self.situation.table, self.situation.label_names
        rows = table.X.iloc[list(positions)].copy()
        labels = table.zero_one[list(positions)].astype(np.int64)
        rows.insert(0, BEFORE, [names[label] for label in labels])
        rows.insert(1, AFTER, [names[1 - label] for label in labels])
        rows.attrs = {}
        return rows

    def _reason(self, k: int, pursuit: Pursuit | None, allowed: int) -> str:
        if pursuit is None:
            return self.settings.phi.reason(self.situation)
        if pursuit.found is not None:
            return ""
        if not allowed:
            return f"The rule ψ ({self.settings.psi.text}) allows no label to be flipped for this person."
        if not pursuit.complete:
            return "The search was stopped before it was through."
        failed = f"{pursuit.failed} of these trainings failed or diverged. " if pursuit.failed else ""
        return f"{failed}This does not show that the decision is fair."
