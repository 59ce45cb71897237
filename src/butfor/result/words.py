"""The texts of words.toml: statuses, strategies and rankings, for pages and notebooks."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from butfor.result.fresh import FIRST_LOOK, LEAST
from butfor.result.fresh import USUAL as USUAL_SEEDS

FILE = Path(__file__).parent / "words.toml"
NUMBERS = {"USUAL": USUAL_SEEDS, "BUT_ONE": USUAL_SEEDS - 1, "FIRST": FIRST_LOOK, "LEAST": LEAST}
SHARED = tomllib.loads(Template(FILE.read_text(encoding="utf-8")).safe_substitute(NUMBERS))["shared"]
TEXTS = tomllib.loads(Template(FILE.read_text(encoding="utf-8")).substitute(NUMBERS | SHARED))


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
SOLIDITY = {
    name: Words(**texts | {"lacks": [*texts.get("lacks", ()), *SHARED["LACKS"]]})
    for name, texts in TEXTS["solidity"].items()
}
"""By `verdict.solidity`, in the order shown."""
SEEDLESS = replace(SOLIDITY["solid"], shows=TEXTS["seedless"])
"""Solid, if no seed changes the model."""
CLOSE_CALL = Words(**TEXTS["close_call"])
REVIEW, UNSEEDED = SHARED["REVIEW"], SHARED["UNSEEDED"]
STRATEGIES, RANKINGS = TEXTS["strategies"], TEXTS["rankings"]


def words_of(status: str, solidity: str | None, seeded: bool) -> Words:
    """The words for a verdict: by its solidity if labels were found, else by its status."""
    if solidity is None:
        return STATUS[status]
    return SOLIDITY[solidity] if seeded else SEEDLESS
