"""One standard for all: are people of each group labelled as comparable people of the other groups
are?"""

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
