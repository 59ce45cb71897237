"""What became of a question of an audit. "Nobody" is an answer; a question not asked, or not
finished, has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from butfor.result.words import BECAUSE

Status = Literal["answered", "not finished", "not asked"]
Why = Literal["time", "stopped", "setting", "no seed", "table", "no training rows", "no control"]
ANSWERED: Status = "answered"
NOT_FINISHED: Status = "not finished"
NOT_ASKED: Status = "not asked"
TIME: Why = "time"
STOPPED: Why = "stopped"
SETTING: Why = "setting"
"""Nobody asked for it."""
NO_SEED: Why = "no seed"
"""No seed changes the model."""
TABLE: Why = "table"
"""The table cannot answer it."""
NO_TRAINING_ROWS: Why = "no training rows"
NO_CONTROL: Why = "no control"


@dataclass(frozen=True)
class Outcome:
    """`why` a question has no answer, or only a part of one: `done` of so many parts."""

    status: Status = ANSWERED
    why: Why | None = None
    done: int | None = None
    of: int | None = None

    @classmethod
    def of_parts(cls, done: int, of: int, why: Why) -> Outcome:
        """Answered if all parts are done."""
        if done >= of:
            return cls()
        return cls(NOT_FINISHED if done else NOT_ASKED, why, done, of)

    @property
    def answered(self) -> bool:
        return self.status == ANSWERED

    @property
    def cut_short(self) -> bool:
        """Whether time or the user ended it."""
        return self.why in (TIME, STOPPED)

    @property
    def because(self) -> str:
        """ "the time allowed was up"."""
        return BECAUSE.get(self.why or "", "")

    @property
    def parts(self) -> str:
        """ "3 of 9"; "none of 9"; empty if nobody counted."""
        return "" if self.of is None else f"{self.done or 'none'} of {self.of}"


@dataclass(frozen=True)
class Questions:
    """What became of the questions beside the search. The comparison of groups counts tables that
    were drawn; fresh seeds and side effects count finds; one standard counts groups that fall
    short."""

    comparison: Outcome
    fresh_seeds: Outcome
    side_effects: Outcome
    one_standard: Outcome

    def sentences(self) -> list[str]:
        """What time or the user cut short, a sentence each; one standard says it itself for each
        group that it knows of."""
        sentences = []
        if self.comparison.cut_short and self.comparison.done:
            sentences.append(
                f"Of the tables drawn by one standard {self.comparison.parts} were made: "
                f"{self.comparison.because}. Intervals and p-values are rougher than usual."
            )
        elif self.comparison.cut_short:
            worlds = ""
            if not self.one_standard.answered:
                worlds = ", nor whose decisions would change under one standard"
            sentences.append(
                f"Whether groups are held to another standard is not known{worlds}: "
                f"{self.comparison.because}."
            )
        if self.fresh_seeds.cut_short:
            tested = "nothing was tested"
            if self.fresh_seeds.of:
                tested = f"{self.fresh_seeds.parts} finds were tested"
            sentences.append(f"Fresh seeds: {tested}, since {self.fresh_seeds.because}.")
        if self.side_effects.cut_short:
            sentences.append(
                f"Side effects on other people: counted for {self.side_effects.parts} finds, "
                f"since {self.side_effects.because}."
            )
        return sentences
