"""One standard for all: are people of each group labelled as comparable people of the other groups
are?

Figures of groups, of columns, of slices and of single labels. It knows tables and no audited model.
Begin with `compare.py`, which says the method in its docstring, then `null.py` (drawn tables).
"""

from butfor.standard.compare import compare_standards
from butfor.standard.groups import (
    ASSUMPTION,
    GroupStandard,
    LeftOut,
    Overlap,
    SecondOpinion,
    Standards,
)

__all__ = [
    "ASSUMPTION",
    "GroupStandard",
    "LeftOut",
    "Overlap",
    "SecondOpinion",
    "Standards",
    "compare_standards",
]
