"""How an audit asks, and which settings cannot be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from butfor.errors import SettingError
from butfor.inquiry.steady import as_steady
from butfor.learn.engines import check_engine
from butfor.learn.ensemble import FRESH_FROM
from butfor.rank import Ranking, as_ranking
from butfor.rules import Rule, as_phi, as_psi
from butfor.search import as_protocol, budget_in_labels
from butfor.search.protocols import Protocol

if TYPE_CHECKING:
    from butfor.audit import LabelAudit


@dataclass(frozen=True, eq=False)
class Settings:
    """What the user chose, as the objects it names."""

    rank: Ranking
    protocol: Protocol
    phi: Rule
    psi: Rule
    budget: int
    share: bool
    max_retrainings: int | None
    fresh_seeds: int
    alternatives: int
    null: int
    random_state: int


def check_settings(audit: LabelAudit) -> None:
    """Refuse settings that cannot be, before anything is trained."""
    if audit.protocol is not None:
        as_protocol(audit.protocol)
    if audit.rank is not None:
        as_ranking(audit.rank)
    as_phi(audit.phi)
    as_psi(audit.psi)
    budget_in_labels(audit.budget, 2**62)
    check_engine(audit.engine, audit.jobs, audit.device)
    as_steady(audit.steady)
    if audit.max_retrainings is not None and audit.max_retrainings < 1:
        raise SettingError(f"max_retrainings={audit.max_retrainings} must be at least 1.")
    if audit.max_seconds is not None and not 0 < audit.max_seconds < math.inf:
        raise SettingError(f"max_seconds={audit.max_seconds} must be above 0.")
    if audit.members is not None and (
        not isinstance(audit.members, (int, np.integer)) or not 1 <= audit.members <= FRESH_FROM
    ):
        raise SettingError(f"members={audit.members!r} must be a whole number from 1 to {FRESH_FROM}.")
    for name in ("fresh_seeds", "alternatives", "null", "random_state"):
        value = getattr(audit, name)
        told = "random_state (--seed)" if name == "random_state" else name
        if not isinstance(value, (int, np.integer)) or value < 0:
            raise SettingError(f"{told}={value!r} must be a whole number from 0 up.")
        most = 2**32 - 1 if name == "random_state" else FRESH_FROM
        if value > most:
            raise SettingError(f"{told}={value} must be at most {most}.")
