"""The run: an audit's settings and results, shared by all its verdicts. It is the `run` block of a
record."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.special import expit

from butfor.result.outcome import Questions
from butfor.result.record import Cell, within
from butfor.result.reviewed import Reviewed
from butfor.result.worlds import MISSING, OneStandard
from butfor.standard.explain import MOST_KEPT_SLICES
from butfor.standard.groups import Compared, Standards
from butfor.standard.settings import ComparisonSettings
from butfor.support.checks import LARGEST_SEED
from butfor.support.files import found_from, seen_from
from butfor.support.settings import declarations
from butfor.support.stopping import Stop
from butfor.table.checking import Concern
from butfor.table.decisions import (
    MIN_PEOPLE,
    USUAL,
    DecisionFacts,
    log_odds,
)
from butfor.words.figures import (
    percent,
    share_in_words,
    signed,
    told_apart,
)
from butfor.words.names import LABEL_JOINT, Names, named

LINED = (".csv", ".tsv", ".txt", ".xlsx", ".xls")
"""Files whose lines people count: the first row of data is line 2."""
FILES = ("table", "test", "validation")
"""Fields of `Data` that are paths, unless the table is an embedded set."""
FILE_OPTIONS = ("--test", "--names")
"""Options of a command that are followed by a path."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """The table and its origin."""

    table: str | None
    """A file or an embedded set; None if the table was given in Python or, as `given` says, some
    other way."""
    sha256: str
    training_rows: int
    labelled: int = 0
    """Rows on which groups were compared: the training rows and other labelled rows."""
    set_aside: int = 0
    """Rows that only stop training early."""
    validated: bool = True
    weighted: bool = False
    clustered: bool = False
    given: str | None = None
    hash_rule: str = "csv"
    """How `sha256` was made; records of 0.5 do not say. See `provenance.data_hash`."""
    relative: bool = False
    """Whether paths are as seen from the record's folder. In memory, and in older records, they are
    as given."""
    # from here on the arguments of `load_table`
    label: str | None = None
    sensitive: str | None = None
    drop: tuple[str, ...] = ()
    split_seed: int | None = None
    missing: str = "own"
    test: str | None = None
    validation: str | None = None
    hold_out: bool = True
    identifier: str | None = None
    cluster: str | None = None
    weight: str | None = None
    decimal: str | None = None
    day_first: bool = False

    def __post_init__(self) -> None:
        within(self, training_rows=(1, 2**31), split_seed=(0, LARGEST_SEED))

    @property
    def loading(self) -> dict[str, Any]:
        """The arguments with which `load_table` loads it again."""
        names = [field.name for field in fields(self)]
        return {name: getattr(self, name) for name in names[names.index("label") :]}

    @property
    def files(self) -> dict[str, str]:
        """The paths, by field: none of an embedded set."""
        if self.label is None:
            return {}
        paths = {name: getattr(self, name) for name in FILES}
        return {name: path for name, path in paths.items() if path is not None}

    @property
    def name(self) -> str:
        """The table's name without folders; empty if it has none."""
        return Path(self.table).name if self.table and self.label is not None else self.table or ""

    @property
    def source(self) -> str:
        """The origin of a table that is neither a file nor an embedded set."""
        if self.given:
            return f"the table came from {self.given}"
        return "the table was given in Python"


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A trial of rankings before the search: how well predicted and measured effects of single
    `flips` agree, and which ranking moved the decisions about some `people` furthest."""

    spearman: float | None
    flips: int
    poor: bool
    leader: str
    people: int = 0
    gains: dict[str, float] = field(default_factory=dict)


def _with_control(one: OneStandard) -> OneStandard:
    """Of a model with a seed. Records of 0.5 compare the worlds with the audited model and its
    seeds: they lack a control."""
    return replace(one, control=MISSING) if one.worlds and not one.control else one


_log_odds_of = cache(log_odds)
"""Of the one cut of a run, which thousands of people are measured from."""


def figures_of(standards: Standards) -> Compared:
    """What a record holds of a comparison: no doubts per row, and the first slices of each
    group."""
    figures = {each.name: getattr(standards, each.name) for each in fields(Compared)}
    return Compared(**figures | {"parts": standards.parts[:MOST_KEPT_SLICES]})


@dataclass(frozen=True)
class GroupRates:
    """Of a group's people, the share whose label is on the second of `Run.sides`, the share decided
    so, and error rates: of all, of those labelled otherwise, of those labelled so. None if there
    are no such people or sides."""

    group: str
    people: int
    base_rate: float | None
    selection_rate: float | None
    error_rate: float | None
    false_positive_rate: float | None
    false_negative_rate: float | None


@dataclass(frozen=True)
class Performance:
    """Accuracy on the `people` whose labels are known, the accuracy of always predicting the
    `commonest` training label, and each group's rates."""

    people: int
    accuracy: float
    majority: float
    by_group: tuple[GroupRates, ...]
    commonest: str

    @property
    def rates(self) -> pd.DataFrame:
        """One row per group."""
        return (
            pd.DataFrame(map(vars, self.by_group))
            .set_index("group")
            .astype(float)
            .astype({"people": int})
        )


@dataclass(frozen=True, kw_only=True)
class Run:
    """Every reader needs the fields without a default."""

    butfor: str
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    data: Data
    sensitive: str
    """The protected attribute; several names are joined."""
    attributes: tuple[str, ...] = ()
    """Its names, one by one."""
    sensitive_columns: tuple[Cell, ...] = ()
    sensitive_bands: dict[str, tuple[float | str, ...]] = field(default_factory=dict)
    """Cut points, dates as text."""
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """With several attributes: each group's values."""
    blind: bool = False
    label_names: tuple[str, ...]
    adverse: tuple[str, ...] = ()
    """The labels that people would rather not have."""
    towards: str | None = None
    reference: dict[str, str] = field(default_factory=dict)
    """By attribute the group that others are compared with; without one, with all others."""
    decision: DecisionFacts | None = None
    """Where the cut is and how many decisions are favourable; None with more than two labels."""
    learner: dict[str, Any]
    learner_name: str = "a model"
    seeded: bool
    """Whether a seed changes the model."""
    members: int
    budget: int
    rank: str
    rank_parameters: dict[str, Any] = field(default_factory=dict)
    strategy: str
    strategy_parameters: dict[str, Any] = field(default_factory=dict)
    phi: str
    psi: str
    fresh_seeds: int
    seed_ranges: dict[str, tuple[int, int] | None] | None = None
    """First and last seed of the members, and of the fresh seeds."""
    random_state: int = 0
    log_odds: bool = False
    """Whether logits are log-odds, so that they can be shown as probabilities."""
    stop: Stop | None = None
    not_rebuildable: tuple[str, ...] = ()
    """What the record cannot restore, each as "name: reason"."""
    engine: str = ""
    retrainings: int = 0
    recalled: int = 0
    confirmations: int = 0
    seconds: float | None = None
    interrupted: bool = False
    out_of_time: bool = False
    agreement: Agreement | None = None
    remarks: tuple[str, ...] = ()
    concerns: tuple[Concern, ...] = ()
    performance: Performance | None = None
    standard: Compared | None = None
    standard_notes: tuple[str, ...] = ()
    """What to know when reading it."""
    one_standard: tuple[OneStandard, ...] = ()
    questions: Questions | None = None
    """What became of the questions beside the search; None if not known, as in records of 0.5."""
    reviewed: Reviewed | None = None
    names: Names = field(default_factory=Names)
    """The reader's words for people, groups, labels and columns."""

    def __post_init__(self) -> None:
        seeds = {"fresh_seeds": (0, 2**31), "random_state": (0, LARGEST_SEED)}
        within(self, members=(1, 2**31), budget=(1, 2**31), **seeds)
        if len(set(self.label_names)) < max(2, len(self.label_names)):
            raise ValueError(".label_names must name at least two labels, each once")
        for name in ("standard", "reviewed"):
            object.__setattr__(self, name, named(getattr(self, name), self.names))
        worlds = self.one_standard
        if self.seeded:
            worlds = tuple(map(_with_control, worlds))
        object.__setattr__(self, "one_standard", tuple(named(one, self.names) for one in worlds))

    def seen_from(self, folder: str | Path) -> Run:
        """The same run for a record or a page in this folder, with paths as seen from there."""
        return self._with_paths(lambda path: seen_from(folder, path), relative=True)

    def found_from(self, folder: str | Path) -> Run:
        """A run that was read from this folder, with paths as seen from the working folder."""

        def from_here(path: str) -> str:
            place = found_from(folder, path)
            if self.data.relative:
                return place
            # Older records have paths as they were typed: as seen from the working folder of that
            # day.
            moved = os.path.exists(place) and not os.path.exists(path)
            return place if moved else path

        return self._with_paths(from_here, relative=False)

    def _with_paths(self, place: Callable[[str], str], *, relative: bool) -> Run:
        """The run with other paths, in the data and in the command."""
        files: dict[str, Any] = {name: place(path) for name, path in self.data.files.items()}
        try:
            words = shlex.split(self.command)
        except ValueError:  # somebody wrote that command, not butfor
            words = []
        for k, (option, word) in enumerate(pairwise(words), start=1):
            name, _, value = word.partition("=")
            if option in FILE_OPTIONS or (k == 2 and "table" in files):
                words[k] = place(word)
            elif option == "--set" and name == "validation":
                words[k] = f"{name}={place(value)}"
        command = shlex.join(words) if words else self.command
        return replace(self, data=replace(self.data, **files, relative=relative), command=command)

    @property
    def comparison(self) -> ComparisonSettings:
        """The settings with which its groups are compared again: as many tables are drawn as were
        drawn then."""
        recorded = {name: getattr(self, name) for name in COMPARISON_FIELDS}
        draws = None if self.standard is None else self.standard.draws
        return ComparisonSettings(**recorded, draws=draws)

    @property
    def lost(self) -> set[str]:
        """Names of what the record cannot restore."""
        return {line.split(":")[0] for line in self.not_rebuildable}

    @property
    def row_word(self) -> str:
        """What numbers of rows are: the table's own ids, lines of a file, or rows."""
        path = Path((self.data.table or "").lower().removesuffix(".gz"))
        return self.data.identifier or ("line" if path.suffix in LINED else "row")

    def row_number(self, row: object) -> object:
        """A row of the table by its own id, by the line of the file, or as the index has it."""
        lined = self.row_word == "line" and not self.data.identifier
        return row + 2 if lined and isinstance(row, int) else row

    def rows_in_words(self, rows: Sequence[object]) -> str:
        """ "lines 38, 41 and 7", "file A-17"."""
        numbers = [str(self.row_number(row)) for row in rows]
        word = self.row_word if self.data.identifier or len(rows) == 1 else f"{self.row_word}s"
        return f"{word} {' and '.join(filter(None, (', '.join(numbers[:-1]), numbers[-1])))}"

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The labels on either side: the first and the second or, with more than two, the adverse
        ones and the others (both sides are empty if none is named as adverse)."""
        first = self.label_names[:1] if len(self.label_names) == 2 else self.adverse
        if not first:
            return (), ()
        return first, tuple(name for name in self.label_names if name not in first)

    @property
    def favourable_labels(self) -> tuple[str, ...]:
        """The labels of the favourable decision. Without an adverse label it is the second of two;
        with more, none."""
        first, second = self.sides
        return first if self.adverse == second else second

    @property
    def favourable(self) -> str:
        """The same as text."""
        return LABEL_JOINT.join(self.favourable_labels)

    @property
    def threshold(self) -> DecisionFacts | None:
        """The cut, if it is another than one half."""
        return self.decision if self.decision and self.decision.cut else None

    @property
    def measure(self) -> str:
        """What verdicts show: "score", or "margin" if the model has no probabilities."""
        return "score" if self.log_odds or self.threshold else "margin"

    @property
    def measure_in_words(self) -> str:
        """The measure, for a legend."""
        if self.log_odds:
            return f"the model's probability of {self.names.label(self.favourable_labels)}"
        if self.threshold:
            return (
                "what the model's decision function says for "
                f"{self.names.label(self.favourable_labels)}"
            )
        if len(self.label_names) > 2:
            return "how far the model prefers another label to the one it decides"
        return (
            "the model's decision function: above 0 it decides "
            f"{self.names.label(self.label_names[1])}"
        )

    @property
    def threshold_in_words(self) -> str:
        if self.threshold is None:
            return "0.5" if len(self.label_names) == 2 else "none: the highest score decides"
        return "the model's own" if self.threshold.given is None else str(self.threshold.given)

    @property
    def cut_moves(self) -> bool:
        """Whether each model has its own cut, because places are limited."""
        return self.threshold is not None and self.threshold.share is not None

    def score_of(self, logit: float) -> float | None:
        """The probability of the favourable label at a logit; None without probabilities, or if
        cuts move."""
        if not self.log_odds or self.cut_moves:
            return None
        towards = logit if self.favourable == self.label_names[1] else -logit
        return float(expit(towards + _log_odds_of(self._cut)))

    def measured(self, logit: float) -> str:
        """A logit as text: the probability or, without one, the margin."""
        probability = self.score_of(logit)
        if probability is None:
            return signed(logit)
        return told_apart(probability, self._cut)[probability]

    @property
    def _cut(self) -> float:
        return (self.threshold and self.threshold.probability) or USUAL

    @property
    def cut(self) -> str:
        """Where the cut is and how many decisions are favourable, in a sentence; empty if unknown,
        or if `alike` says it."""
        facts = self.decision
        decided = f"Decided {self.names.label(self.favourable_labels)}"
        if facts is None or (facts.alike and not facts.cut):
            return ""
        share = ""
        if facts.people >= MIN_PEOPLE:
            share = f": {percent(facts.favoured / facts.people)} of {facts.people} people"
        if not facts.cut:
            if not share:
                return ""
            return f"{decided}{share} (training labels: {share_in_words(facts.recorded)} %)."
        p = facts.probability
        where = [] if p is None else [f"at a probability of {told_apart(p)[p]} or more"]
        if facts.share is not None:
            tied = f" {facts.ties} tie for the last place and all get one." if facts.ties else ""
            best = (
                f"the best {share_in_words(facts.share)} % of {facts.pool} people, "
                f"{facts.accepted} of them"
            )
            return f"{decided}: {', '.join([best, *where])}.{tied}"
        return f"{decided} {', '.join(where)}{share}."

    @property
    def how_accurate(self) -> str:
        """ "Accuracy: 89 % on 476 test people (always predicting deny = no: 87 %)."; empty if
        labels are unknown."""
        measured = self.performance
        names = self.names
        if measured is None:
            return ""
        accuracy = f"{percent(measured.accuracy)} on {measured.people} test {names.noun}"
        commonest = names.label(measured.commonest)
        usual = f"always predicting {commonest}: {percent(measured.majority)}"
        return f"Accuracy: {accuracy} ({usual})."

    @property
    def no_better(self) -> str:
        """That the model is no more accurate than always predicting the commonest label, in a
        sentence; empty if it is, and with a threshold, at which that may be wanted."""
        measured = self.performance
        if measured is None or self.threshold or measured.accuracy > measured.majority:
            return ""
        commonest = f"{self.names.label(measured.commonest)} ({percent(measured.majority)})"
        return (
            f"The model is no more accurate ({percent(measured.accuracy)}) than always predicting "
            f"{commonest}, so what changes its decisions says little about the labels."
        )


COMPARISON_FIELDS = tuple(
    name for name, about in declarations(ComparisonSettings).items() if about.recorded
)
"""Settings of the comparison that a record holds, under their own names."""


def recorded_comparison(settings: ComparisonSettings) -> dict[str, Any]:
    """The fields of a run that say how its groups were compared."""
    return {name: getattr(settings, name) for name in COMPARISON_FIELDS}
