"""From a finished pursuit to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.rules import Situation
from butfor.search import Pursuit
from butfor.verdict import AFTER, BEFORE, Verdict

if TYPE_CHECKING:
    from butfor.audit import LabelAudit


def conclude(
    audit: LabelAudit,
    situation: Situation,
    k: int,
    case: int,
    psi: NDArray[np.bool_],
    pursuit: Pursuit | None,
    run: dict[str, Any],
) -> Verdict:
    """The verdict about the k-th person of the situation; no pursuit means that φ left the person out."""
    person: pd.Series = situation.people.iloc[k]
    prediction = int(situation.predictions[k])
    found = pursuit is not None and pursuit.found is not None
    positions = pursuit.found if pursuit is not None and pursuit.found is not None else ()
    status = "not_eligible" if pursuit is None else "found" if found else "not_found"
    return Verdict(
        status=status,
        case=int(case),
        row=situation.people.index[k],
        person=person,
        group=situation.people[audit.sensitive_].iloc[k],
        sensitive=str(audit.sensitive_),
        prediction=audit.label_names_[prediction],
        logit=float(situation.logits[k]),
        counterfactual_prediction=audit.label_names_[1 - prediction] if found else None,
        counterfactual_logit=pursuit.found_logit if pursuit else None,
        flips=_flips(audit, positions),
        positions=positions,
        training_rows=audit.rows_.n,
        budget=audit.budget_,
        flippable=int(psi.sum()),
        attempts=pursuit.spent if pursuit else 0,
        shared=bool(pursuit and pursuit.shared),
        complete=pursuit is None or pursuit.complete,
        confirmed=found,
        rank=audit.rank.name,
        protocol=audit.protocol.name,
        closest_logit=pursuit.closest if pursuit else None,
        course=tuple(pursuit.course) if pursuit else (),
        reason=_reason(audit, pursuit, int(psi.sum())),
        run=run,
        minimal=found and (len(positions) == 1 or bool(pursuit and pursuit.minimal)),
        first_size=pursuit.first_size if pursuit else 0,
        training=audit.training_,
    )


def _flips(audit: LabelAudit, positions: Sequence[int]) -> pd.DataFrame:
    rows = audit.training_.X.iloc[list(positions)].copy()
    labels = audit.rows_.y[list(positions)].astype(np.int64)
    rows.insert(0, BEFORE, [audit.label_names_[label] for label in labels])
    rows.insert(1, AFTER, [audit.label_names_[1 - label] for label in labels])
    rows.attrs = {}
    return rows


def _reason(audit: LabelAudit, pursuit: Pursuit | None, allowed: int) -> str:
    if pursuit is None:
        if audit.phi.text.startswith("stable_under_switch") and not any(c in audit.phi.text for c in "&|"):
            return (
                f"the prediction already changes when '{audit.sensitive_}' alone is switched, which an "
                "inference-time check shows without any retraining (φ: stable_under_switch)."
            )
        return f"the rule φ ({audit.phi.text}) leaves this person out."
    if pursuit.found is not None:
        return ""
    if not allowed:
        return f"The rule ψ ({audit.psi.text}) allows no label to be flipped for this person."
    if not pursuit.complete:
        return "The search was stopped before it was through."
    return "This does not show that the decision is fair."
