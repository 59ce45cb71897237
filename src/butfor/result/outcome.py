"""What became of a question of an audit. "Nobody" is an answer; a question not asked, or not finished, has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from butfor.result.words import BECAUSE

ANSWERED: Literal["answered"] = "answered"
NOT_FINISHED: Literal["not finished"] = "not finished"
NOT_ASKED: Literal["not asked"] = "not asked"
TIME: Literal["time"] = "time"
STOPPED: Literal["stopped"] = "stopped"
NO_TRAINING_ROWS: Literal["no training rows"] = "no training rows"
NO_CONTROL: Literal["no control"] = "no control"


@dataclass(frozen=True)
class Outcome:
    """`why` a question has no answer, or only a part of one: `done` of so many parts."""

    status: Literal["answered", "not finished", "not asked"] = ANSWERED
    why: Literal["time", "stopped", "no training rows", "no control"] | None = None
    done: int | None = None
    of: int | None = None

    @property
    def because(self) -> str:
        """ "the time allowed was up"."""
        return BECAUSE.get(self.why or "", "")
