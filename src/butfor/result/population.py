"""Population: the verdicts about many people, and what they say together."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, overload

import pandas as pd

from butfor.data.sensitive import in_order
from butfor.learn.decision_split import decides_one
from butfor.result.fresh import LEAST, NOT_CHECKED, SOLID, WORDS, wilson
from butfor.result.groups import Performance
from butfor.result.labels import ClosedGap, TrainingLabel
from butfor.result.pages import pages
from butfor.result.record import as_json, percent, record_of, save
from butfor.result.reviewed import Reviewed
from butfor.result.run import Run
from butfor.result.verdict import ONE_LABEL, Verdict
from butfor.result.worlds import OneStandard
from butfor.standard.groups import GroupStandard, answer_of

SMALL_GROUP = 10
"""A group of fewer people has no rate to speak of."""
ALL = "everyone"
FRAME_COLUMNS = (
    "case row group status prediction switch_changes logit score cut counterfactual_prediction counterfactual_logit "
    "counterfactual_score counterfactual_cut flips "
    "at_least proof flipped_rows doubted minimal solidity distance hold base close_call attempts flippable "
    "closest_logit shared complete"
)


class Population(Sequence[Verdict]):
    """The verdicts about many people, in the order asked for, and what they say together.

    A sequence: `population[3]` is the fourth verdict. The verdict about the person at position 182 of the table is
    `population.about(182)`."""

    def __init__(self, verdicts: Sequence[Verdict], run: Run, labels: Sequence[TrainingLabel] = ()) -> None:
        self.verdicts = tuple(verdicts)
        self.run = run
        self.labels = tuple(labels)
        """The training labels to review, in order."""

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @overload
    def __getitem__(self, place: int) -> Verdict: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Verdict]: ...

    def __getitem__(self, place: int | slice) -> Verdict | Sequence[Verdict]:
        if isinstance(place, int) and not -len(self) <= place < len(self):
            raise IndexError(f"There is no verdict {place}: there are {len(self)}, numbered from 0.")
        return self.verdicts[place]

    def about(self, case: int) -> Verdict:
        """The verdict about the person at position `case` of the table."""
        for verdict in self.verdicts:
            if verdict.case == case:
                return verdict
        raise KeyError(f"There is no verdict about person {case} among these {len(self)}.")

    def __repr__(self) -> str:
        return " ".join(filter(None, (self.run.alike, self.sentence)))

    def with_run(self, **changes: Any) -> Population:
        """The same verdicts, other fields of the run."""
        run = replace(self.run, **changes)
        return Population([replace(verdict, run=run) for verdict in self.verdicts], run, self.labels)

    # --- people -------------------------------------------------------------------------------------

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped it by hand."""
        return self.run.interrupted

    @property
    def eligible(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.eligible]

    @property
    def found(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.found]

    @property
    def solid(self) -> list[Verdict]:
        """Those found that hold under any seed tried."""
        return [v for v in self.found if v.solidity == SOLID]

    @property
    def solidity(self) -> dict[str, int]:
        """How many finds are solid, leaning, seed-bound, undecided and not checked."""
        counts = Counter(v.solidity for v in self.found)
        return {word: counts[word] for word in WORDS}

    @cached_property
    def checked(self) -> bool:
        """Whether finds were put to enough fresh seeds, or need not be: then shares of solid ones mean something."""
        return not self.unchecked_reason

    @property
    def unfinished(self) -> int:
        """Eligible people without a find whose search was stopped before it was through."""
        return sum(v.unfinished for v in self.eligible)

    @property
    def one_shot(self) -> int:
        """How many were found at their own first attempt. The search among the members of an ensemble goes on after it
        all the same; there it counts whose first set turned the decision."""
        if self.run.strategy == "solid":
            return sum(bool(v.course) and decides_one(v.course[0][1]) != decides_one(v.logit) for v in self.found)
        return sum(v.attempts == 1 and not v.shared for v in self.found)

    # --- in words -----------------------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        run, asked, left = self.run, len(self.eligible), self.unfinished
        if not self.verdicts:
            return "Nobody was asked about."
        if not asked:
            return self.audited
        if left and not self.found:
            return f"The search for {left} of {_people(asked)} was stopped before it found anything."
        turned = len(self.solid if self.checked else self.found)
        budget, n = run.budget, run.data.training_rows
        labels = f"{budget} of {n} training labels ({percent(budget / n)})"
        stopped = f" The search for {_people(left)} was stopped before it found anything." if left else ""
        if not turned:
            solid = " solid" if self.found else ""
            return f"No{solid} find for {_people(asked)}, with at most {labels} flipped.{stopped}"
        seeds = ", under any seed tried" if self.checked and run.seeded else ""
        unchecked = "" if self.checked else f"; {self.unchecked_reason}"
        hinge = "hinges" if turned == 1 else "hinge"
        return f"{turned} of {asked} audited decisions {hinge} on at most {labels}{seeds}{unchecked}.{stopped}"

    @property
    def left_out(self) -> str:
        """How many decisions were not audited because a switch changes them, in a sentence; empty where none."""
        switched = [v for v in self if not v.eligible and v.left_out_by == "switch"]
        if not switched:
            return ""
        decisions = {v.prediction for v in (*self.eligible, *switched)}
        which = f" '{decisions.pop()}'" if len(decisions) == 1 else ""
        asked = len(self.eligible) + len(switched)
        return f"Not audited: {len(switched)} of {asked}{which}, which switching {self.run.sensitive} changes."

    @property
    def audited(self) -> str:
        """Who is audited and why the others are not, in a sentence."""
        reasons = Counter(v.reason.rstrip(".") for v in self if not v.eligible)
        parts = [f"Audited: {len(self.eligible)} of {len(self)} people"]
        for reason, n in reasons.most_common():
            words = reason.replace("this person was", f"{n} {'was' if n == 1 else 'were'}").replace(
                "this person", f"{n}"
            )
            parts.append(words if words != reason else f"for {n} {reason}")
        return f"{'; '.join(parts)}."

    @property
    def unchecked_reason(self) -> str:
        """Why it is not known which finds are solid, in words; empty where it is."""
        seeds, left = self.run.fresh_seeds, self.solidity[NOT_CHECKED]
        if left and (seeds or left < len(self.found)):
            return f"{left} of these {'was' if left == 1 else 'were'} not tested under fresh seeds"
        if left or not (seeds or not self.run.seeded):
            return "whether it holds under other seeds was not checked"
        if seeds < LEAST and self.run.seeded:
            return f"{seeds} fresh seed{'s are' if seeds > 1 else ' is'} too few to call one solid ({LEAST} at least)"
        return ""

    @property
    def direct(self) -> str:
        """How far the model depends on the protected attribute itself, in a sentence; empty where that is not known."""
        name = self.run.sensitive
        if self.run.blind:
            return f"The model does not see {name}: switching it changes no decision."
        known = [v for v in self if v.switch_changes is not None]
        changed = [v for v in known if v.switch_changes]
        if not known:
            return ""
        if not changed:
            return f"The model sees {name}, but switching it alone changes none of {len(known)} decisions."
        parts = []
        for group in self.groups:
            before = Counter(v.prediction for v in changed if v.group == group)
            turns = [f"{count} {self._after_switch(decision)}" for decision, count in before.items()]
            parts += [f"{name} = {group}: {', '.join(turns)}"] if turns else []
        return (
            f"The model uses {name} directly: switching it alone changes {len(changed)} of {len(known)} decisions "
            f"({'; '.join(parts)})."
        )

    def _after_switch(self, decision: str) -> str:
        """What a switch makes of it: of two labels the other one."""
        others = [name for name in self.run.label_names if name != decision]
        return f"to '{others[0]}'" if len(others) == 1 else f"from '{decision}'"

    @property
    def proven(self) -> str:
        """What is proven from the other side, in a sentence; empty where nothing is."""
        known = [v for v in self.eligible if v.proof]
        if all(v.proof == ONE_LABEL for v in known):  # there is nothing to prove
            return ""
        exact, none = sum(v.exact for v in known), sum(v.status == "proven_none" for v in known)
        said = [f"{exact} of the sets found {'is' if exact == 1 else 'are'} minimal"] if exact else []
        said += [f"for {none} {'person' if none == 1 else 'people'} no set within the budget works"] if none else []
        return f"Proven: {'; '.join(said)}." if said else ""

    @property
    def concerns(self) -> list[str]:
        """What a look at the table and at the model's accuracy found, a sentence each."""
        return [concern.sentence for concern in self.run.concerns]

    @property
    def warnings(self) -> list[str]:
        """What to keep in mind when groups are compared."""
        groups = (group for group, row in self.by_group.iterrows() if row["eligible"] < SMALL_GROUP)
        small = [f"{self.run.sensitive} = {group}" for group in groups]
        if not small:
            return []
        named = " and ".join(small) if len(small) < 3 else f"{len(small)} groups"
        return [f"Fewer than {SMALL_GROUP} people audited of {named}: shares say little."]

    # --- tables -------------------------------------------------------------------------------------

    def distance_curve(self) -> pd.DataFrame:
        """The share of decisions that k labels turn, for every k up to the budget: per group and for all, with its 95 %
        (Wilson) interval. Solid sets count or, where none was put to fresh seeds, all that were found."""
        groups = [(ALL, self.eligible)]
        groups += [(group_name(group), [v for v in self.eligible if v.group == group]) for group in self.groups]
        rows = []
        for group, people in groups:
            sizes = [v.distance if self.checked else v.at_most for v in people]
            stopped, n = sum(v.unfinished for v in people), len(people)
            for k in range(1, self.run.budget + 1) if people else ():
                turned = sum(size is not None and size <= k for size in sizes)
                rows.append((group, k, n, turned / n, *wilson(turned, n, stopped)))
        return pd.DataFrame(rows, columns=["group", "labels", "people", "share", "low", "high"])

    @property
    def groups(self) -> list[Any]:
        return in_order((v.group for v in self.verdicts), self.run.sensitive_bands)

    def to_frame(self) -> pd.DataFrame:
        """One row per person."""
        other: dict[str, Callable[[Verdict], Any]] = {
            "flips": lambda v: v.at_most,
            "flipped_rows": lambda v: in_one_cell(flip.row for flip in v.flip_set),
            "score": lambda v: v.scores[0],
            "counterfactual_score": lambda v: v.scores[1],
        }
        columns, whole = FRAME_COLUMNS.split(), dict.fromkeys(("flips", "at_least", "doubted", "distance"), "Int64")
        rows = [[other[c](v) if c in other else getattr(v, c) for c in columns] for v in self.verdicts]
        return pd.DataFrame(rows, columns=columns).astype(whole)

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """Per protected group: people, eligible, found, the share found and its 95 % (Wilson) interval, the same of
        solid finds (missing where fresh seeds were not asked), close calls (likewise), and the median distance of
        eligible people from the decision boundary. Whoever's search was stopped before it found anything might have
        been found: intervals reach as far up as if they all were."""
        rows = [self._shares([v for v in self.verdicts if v.group == group]) for group in self.groups]
        columns = list(self._shares([]))
        return pd.DataFrame(rows, index=pd.Index(self.groups, name=self.run.sensitive), columns=columns)

    def _shares(self, members: Sequence[Verdict]) -> dict[str, float]:
        eligible = [v for v in members if v.eligible]
        found, solid = (sum(v.found for v in eligible), sum(v.solidity == SOLID for v in eligible))
        open_, n = sum(v.unfinished for v in eligible), len(eligible)
        seeds_asked = not self.run.seeded or any(v.base is not None for v in eligible) or not eligible
        low, high = wilson(found, n, open_)
        solid_low, solid_high = wilson(solid, n, open_) if self.checked else (math.nan, math.nan)
        return {
            "people": len(members),
            "eligible": n,
            "found": found,
            "share": found / (n or math.nan),
            "low": low,
            "high": high,
            "solid": solid,
            "share_solid": solid / (n or math.nan) if self.checked else math.nan,
            "solid_low": solid_low,
            "solid_high": solid_high,
            "close_calls": sum(bool(v.close_call) for v in eligible) if seeds_asked else math.nan,
            "switch_changes": sum(bool(v.switch_changes) for v in members),
            "median_margin": median(abs(v.logit) for v in eligible) if eligible else math.nan,
        }

    @cached_property
    def keystones(self) -> pd.DataFrame:
        """Training rows by how many people's flip sets they are in: the labels to review first."""
        flips = pd.DataFrame([(at, str(v.case)) for v in self.found for at in v.positions], columns=["at", "case"])
        if flips.empty:
            columns: list[Any] = list(self.verdicts[0].flips.columns) if self.verdicts else []
            return pd.DataFrame(columns=["people", "cases", *map(_unlike_ours, columns)]).rename_axis("row")
        first = ~flips["at"].duplicated().to_numpy()
        frame = pd.concat([v.flips for v in self.found])[first].rename(columns=_unlike_ours)
        frame.insert(0, "people", list(self.flip_counts.values()))
        frame.insert(1, "cases", flips.groupby("at", sort=False)["case"].agg(" ".join).to_list())
        return frame.sort_values("people", ascending=False, kind="stable").rename_axis("row")

    @property
    def flip_counts(self) -> Counter[int]:
        """Training rows by position, and how many people's flip sets they are in."""
        return Counter(position for verdict in self.found for position in verdict.positions)

    # --- the model, labels and groups ---------------------------------------------------------------

    @property
    def performance(self) -> Performance | None:
        """How good the model is, against the commoner label and per group; None where labels were not known."""
        return self.run.performance

    @property
    def reviewed(self) -> Reviewed | None:
        """What a review of these labels changed, where there was one."""
        return self.run.reviewed

    @property
    def closed_gap(self) -> ClosedGap | None:
        """The fewest doubted labels that close the gap between two groups, where that was asked for."""
        return self.run.close_gap

    @property
    def standards(self) -> tuple[GroupStandard, ...]:
        """Each group beside the standard of the others; none where no adverse label was named."""
        return self.run.standard.comparisons if self.run.standard else ()

    @property
    def one_standard(self) -> tuple[OneStandard, ...]:
        """Per group that falls short: whose decisions change once it does not."""
        return self.run.one_standard

    @property
    def standards_answer(self) -> str:
        """In one sentence: is every group held to one standard?"""
        return answer_of(self.standards, self.run.favourable)

    # --- files and pages ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The record: the settings once, what was measured about each person, and its status in words."""
        return record_of(self.run, [v.to_line() for v in self.verdicts], self.labels)

    def to_json(self, path: str | Path | None = None) -> str:
        """The record as JSON text, also written to `path` where one is given."""
        return save(as_json(self.to_dict()), path)

    @classmethod
    def from_json(cls, text: str | Path | dict[str, Any]) -> Population:
        """A population from its JSON text, or from the file that a path names; refused where that was changed since."""
        from butfor.result.schema import read_record  # with msgspec, which audits do without

        record = read_record(text)
        return cls([Verdict.of(person, record.run) for person in record.people], record.run, record.labels)

    from_dict = from_json

    def plot(self) -> Any:
        """The share of decisions that so many labels turn, for everyone and per group: a chart that notebooks show,
        and that `to_svg` writes."""
        return pages().population_chart(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """The self-contained report page, also written to `path` where one is given. Beyond 300 people the file at
        `path` is an index, with a file per person in a folder beside it; what is returned without a path is always
        one page."""
        return pages().population_page(self) if path is None else pages().write_report(self, Path(path))

    def _repr_html_(self) -> str:
        return pages().population_fragment(self)


def _people(count: int) -> str:
    return f"{count} audited {'person' if count == 1 else 'people'}"


def in_one_cell(labels: Iterable[Any]) -> str:
    """Ids between spaces or, where an id holds one itself, as a JSON list."""
    texts = [str(label) for label in labels]
    simple = all(text and not any(map(str.isspace, text)) and text[0] != "[" for text in texts)
    return " ".join(texts) if simple else json.dumps(texts, ensure_ascii=False)


def _unlike_ours(column: Any) -> Any:
    """A column of the table, under another name where keystones have one of that name."""
    return f"{column} (of the table)" if column in ("row", "people", "cases") else column


def group_name(group: Any) -> str:
    """A group's name, unlike that of everyone."""
    return f"{ALL} (group)" if str(group) == ALL else str(group)
