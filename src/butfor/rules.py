"""φ and ψ: who may be audited, and which labels may be flipped for them.

A rule maps a `Situation` (the model, the table, the people and their groups) to a mask: φ has one
entry per person, ψ one row per person and one column per training row. Rules combine with ``&``,
``|`` and ``~``. A rule can also be given as text (``"stable_under_switch & predicted('bad
credit')"``), as a callable or as a boolean mask.
"""

from butfor.search.rules import (
    Rule,
    Situation,
    correctly_predicted,
    doubted,
    everyone,
    everything,
    in_group,
    labelled_as_predicted,
    predicted,
    published_psi,
    same_group,
    stable_under_switch,
)

__all__ = [
    "Rule",
    "Situation",
    "correctly_predicted",
    "doubted",
    "everyone",
    "everything",
    "in_group",
    "labelled_as_predicted",
    "predicted",
    "published_psi",
    "same_group",
    "stable_under_switch",
]
