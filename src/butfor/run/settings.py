"""How an audit asks, and which settings cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from butfor.errors import SettingError
from butfor.learn.engines import check_engine
from butfor.learn.ensemble import FRESH_FROM
from butfor.rank import Ranking, as_ranking
from butfor.rules import Rule, as_phi, as_psi
from butfor.search import Strategy, as_strategy, budget_in_labels

if TYPE_CHECKING:
    from butfor.audit import LabelAudit

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Settings:
    """What the user chose, as the objects it names."""

    rank: Ranking
    strategy: Strategy
    phi: Rule
    psi: Rule
    budget: int
    fresh_seeds: int
    shuffles: int
    random_state: int


def check_settings(audit: LabelAudit) -> None:
    """Refuse settings that cannot be, before anything is trained."""
    if audit.strategy is not None:
        as_strategy(audit.strategy)
    if audit.rank is not None:
        as_ranking(audit.rank)
    as_phi(audit.phi)
    as_psi(audit.psi)
    budget_in_labels(audit.budget, 2**62)
    check_engine(audit.engine, audit.n_jobs)
    if audit.members is not None:
        _check_whole("members", audit.members, 1, FRESH_FROM)
    _check_whole("fresh_seeds", audit.fresh_seeds, 0, FRESH_FROM)
    _check_whole("shuffles", audit.shuffles, 0, FRESH_FROM)
    _check_whole("random_state", audit.random_state, 0, LARGEST_SEED)


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not least <= value <= most:
        raise SettingError(f"{name}={value!r} must be a whole number from {least} to {most}.")
