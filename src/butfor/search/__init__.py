"""The search: a strategy proposes flip sets, the trainer trains and caches them, the model's own `fit` confirms."""

from __future__ import annotations

from butfor.errors import SettingError, nearest
from butfor.search.guided import GuidedSearch
from butfor.search.published import Algorithm1, Exhaustive, Singles, TenAttempts
from butfor.search.solid import SolidSearch
from butfor.search.strategy import Strategy, budget_in_labels

__all__ = [
    "STRATEGIES",
    "Algorithm1",
    "Exhaustive",
    "GuidedSearch",
    "Singles",
    "SolidSearch",
    "Strategy",
    "TenAttempts",
    "as_strategy",
    "budget_in_labels",
]

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (SolidSearch, GuidedSearch, Algorithm1, Singles, TenAttempts, Exhaustive)
}


def as_strategy(given: str | Strategy) -> Strategy:
    """A strategy from its name; a `Strategy` unchanged."""
    if isinstance(given, Strategy):
        return given
    if not isinstance(given, str) or given not in STRATEGIES:
        raise SettingError(f"There is no strategy '{given}'. {nearest(given, STRATEGIES)}")
    return STRATEGIES[given]()
