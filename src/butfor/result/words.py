"""The texts of words.toml: statuses, strategies and rankings, for pages and notebooks."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from butfor.result.fresh import FIRST_LOOK, LEAST, USUAL

TEXT = Template(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
NUMBERS = {"USUAL": USUAL, "BUT_ONE": USUAL - 1, "FIRST": FIRST_LOOK, "LEAST": LEAST}
SHARED = tomllib.loads(TEXT.safe_substitute(NUMBERS))["shared"]
TEXTS = tomllib.loads(TEXT.substitute(NUMBERS | SHARED))
REVIEW, UNSEEDED = SHARED["REVIEW"], SHARED["UNSEEDED"]
STRATEGIES, RANKINGS = TEXTS["strategies"], TEXTS["rankings"]


@dataclass(frozen=True)
class Words:
    """A status in words; words.toml says what each text is for."""

    sign: str
    title: str
    meaning: str = ""
    plain: str = ""
    shows: str = ""
    lacks: Sequence[str] = ()
    steps: Sequence[str] = ()
    many: str = ""


STATUS = {name: Words(**texts) for name, texts in TEXTS["status"].items()}
"""By `verdict.status`."""
SOLIDITY = {name: Words(**texts) for name, texts in TEXTS["solidity"].items()}
"""By `verdict.solidity`, in the order shown."""
CLOSE_CALL = Words(**TEXTS["close_call"])


def words_of(status: str, solidity: str | None, seeded: bool) -> Words:
    """The words for a verdict: by its solidity if labels were found, else by its status."""
    if solidity is None:
        return STATUS[status]
    words = SOLIDITY[solidity] if seeded else replace(SOLIDITY["solid"], shows=TEXTS["seedless"])
    return replace(words, lacks=[*words.lacks, *SHARED["LACKS"]])
