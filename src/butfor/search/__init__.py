"""The search: protocols say what to try, `joint` tries it for all people together, `trainer` trains and remembers."""

from __future__ import annotations

from butfor.errors import SettingError
from butfor.search.guided import GuidedSearch
from butfor.search.protocols import Algorithm1, Attempts, Exhaustive, Protocol, Singles, budget_in_labels
from butfor.search.solid import SolidSearch

__all__ = [
    "PROTOCOLS", "Algorithm1", "Attempts", "Exhaustive", "GuidedSearch", "Protocol", "Singles", "SolidSearch",
    "as_protocol", "budget_in_labels",
]  # fmt: skip

PROTOCOLS: dict[str, Protocol] = {
    p.name: p for p in (SolidSearch(), GuidedSearch(), Algorithm1(), Singles(), Attempts(), Exhaustive())
}


def as_protocol(given: str | Protocol) -> Protocol:
    """A protocol from its name, or as it is."""
    if isinstance(given, Protocol):
        return given
    if not isinstance(given, str) or given not in PROTOCOLS:
        raise SettingError(f"There is no protocol '{given}'; choose one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[given]
