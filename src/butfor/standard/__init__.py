"""One standard for all: are people of each group labelled as comparable people of the other groups
are?

Figures of groups, of columns, of slices and of single labels. It knows tables and no audited model.
Begin with `compare.py`, which says the method in its docstring, then `null.py` (drawn tables).
`settings.py` says what a comparison can be told.

Names are imported when first used: the command reads the settings, and starts without pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from butfor.standard.compare import compare_standards as compare_standards
    from butfor.standard.groups import ASSUMPTION as ASSUMPTION
    from butfor.standard.groups import GroupStandard as GroupStandard
    from butfor.standard.groups import LeftOut as LeftOut
    from butfor.standard.groups import Overlap as Overlap
    from butfor.standard.groups import SecondOpinion as SecondOpinion
    from butfor.standard.groups import Standards as Standards

__all__ = [
    "ASSUMPTION",
    "GroupStandard",
    "LeftOut",
    "Overlap",
    "SecondOpinion",
    "Standards",
    "compare_standards",
]


def __getattr__(name: str) -> Any:
    if name == "compare_standards":
        from butfor.standard.compare import compare_standards

        return compare_standards
    if name in __all__:
        from butfor.standard import groups

        return getattr(groups, name)
    raise AttributeError(f"module 'butfor.standard' has no attribute '{name}'")
