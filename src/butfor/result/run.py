"""The run: an audit's settings and results, shared by all its verdicts. It is the `run` block of a record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import pandas as pd

from butfor.data.check import Concern
from butfor.decide import USUAL, DecisionFacts
from butfor.machine import LARGEST_SEED
from butfor.names import ALTERNATIVES, Names
from butfor.result.record import Cell, Opened, within
from butfor.result.reviewed import Reviewed
from butfor.result.words import alike_sentence, cut_sentence, score, shown_at
from butfor.result.worlds import OneStandard
from butfor.standard.groups import Compared, Standards
from butfor.standard.slices import kept
from butfor.stopping import Stop
from butfor.words import percent, signed


@dataclass(frozen=True, kw_only=True)
class Data:
    """The table and its origin."""

    table: str | None
    """A file or an embedded set; None if the table was given in Python or, as `given` says, some other way."""
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
    # from here on the arguments of `load_table`
    label: str | None = None
    sensitive: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    split_seed: int | None = None
    missing: str = "own"
    test: str | None = None
    validation: str | None = None
    hold_out: bool = True
    identifier: str | None = None
    cluster: str | None = None
    weight: str | None = None

    def __post_init__(self) -> None:
        within(self, training_rows=(1, 2**31), split_seed=(0, LARGEST_SEED))

    @property
    def loading(self) -> dict[str, Any]:
        """The arguments with which `load_table` loads it again."""
        names = [each.name for each in fields(self)]
        return {name: getattr(self, name) for name in names[names.index("label") :]}

    @property
    def source(self) -> str:
        """The origin of a table that is neither a file nor an embedded set."""
        return f"the table came from {self.given}" if self.given else "the table was given in Python"


@dataclass(frozen=True)
class SeedRanges:
    """First and last seed of the members, and of the fresh seeds."""

    members: tuple[int, int]
    fresh: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A trial of rankings before the search: how well predicted and measured effects of single `flips` agree, and which
    ranking moved the decisions about some `people` furthest."""

    spearman: float | None
    flips: int
    poor: bool
    leader: str
    people: int = 0
    gains: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class RecordedStandards(Compared):
    """The comparison of groups, without doubts per row."""

    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Standards) -> Self:
        known = {each.name: getattr(found, each.name) for each in fields(Compared)} | {"parts": kept(found.parts)}
        return cls(**known, notes=tuple(found.notes()))

    @classmethod
    def from_file(cls, file: Opened) -> Self:
        """From the standard.json of `butfor standard`, which names some fields otherwise."""
        names = {"groups": "comparisons", "columns": "moves", "slices": "parts"}
        return file.read(cls, {names.get(name, name): value for name, value in file.content.items()})


MAJORITY = "majority"


@dataclass(frozen=True)
class GroupRates:
    """Of a group's people, the share labelled `positive`, the share decided so, and error rates: of all, of those
    labelled negative, of those labelled positive. None if there are no such people, or no label is `positive`."""

    group: str
    people: int
    base_rate: float | None
    selection_rate: float | None
    error_rate: float | None
    false_positive_rate: float | None
    false_negative_rate: float | None


@dataclass(frozen=True)
class Performance:
    """Accuracy on the `people` whose labels are known, the accuracy of always predicting the `commonest` training
    label, and each group's rates."""

    people: int
    accuracy: float
    majority: float
    positive: str
    sensitive: str
    by_group: tuple[GroupRates, ...]
    commonest: str = ""

    @property
    def rates(self) -> pd.DataFrame:
        """One row per group."""
        return (
            pd.DataFrame([asdict(each) for each in self.by_group])
            .set_index("group")
            .rename_axis(self.sensitive)
            .astype(float)
            .astype({"people": int})
        )

    def said(self, names: Names) -> str:
        """ "Accuracy: 89 % on 476 test people (always predicting deny = no: 87 %)." """
        usual = f"always predicting {names.label(self.commonest)}: {percent(self.majority)}"
        return f"Accuracy: {percent(self.accuracy)} on {self.people} test {names.noun} ({usual})."

    @property
    def concern(self) -> Concern | None:
        """A warning if the model is no better than the commonest label."""
        if self.accuracy > self.majority:
            return None
        return Concern(
            MAJORITY,
            (),
            f"The model is no more accurate ({percent(self.accuracy)}) than always predicting "
            f"{Names().label(self.commonest)} ({percent(self.majority)}), so what changes its decisions says little "
            "about the labels.",
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
    sensitive_bands: dict[str, tuple[float, ...]] = field(default_factory=dict)
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
    seed_ranges: SeedRanges | None = None
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
    standard: RecordedStandards | None = None
    one_standard: tuple[OneStandard, ...] = ()
    reviewed: Reviewed | None = None
    names: Names = field(default_factory=Names)
    """The reader's words for people, groups, labels and columns."""

    def __post_init__(self) -> None:
        seeds = {"fresh_seeds": (0, 2**31), "random_state": (0, LARGEST_SEED)}
        within(self, members=(1, 2**31), budget=(1, 2**31), **seeds)
        if len(set(self.label_names)) < max(2, len(self.label_names)):
            raise ValueError(".label_names must name at least two labels, each once")

    @property
    def lost(self) -> set[str]:
        """Names of what the record cannot restore."""
        return {line.split(":")[0] for line in self.not_rebuildable}

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The labels on either side: the first and the second or, with more than two, the adverse ones and the others
        (both sides are empty if none is named as adverse)."""
        first = self.label_names[:1] if len(self.label_names) == 2 else self.adverse
        return first, tuple(name for name in self.label_names if name not in first) if first else ()

    @property
    def favourable_labels(self) -> tuple[str, ...]:
        """The labels of the favourable decision. Without an adverse label it is the second of two; with more, none."""
        first, second = self.sides
        return first if self.adverse == second else second

    @property
    def favourable(self) -> str:
        """The same as text."""
        return ALTERNATIVES.join(self.favourable_labels)

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
            return f"what the model's decision function says for {self.names.label(self.favourable_labels)}"
        if len(self.label_names) > 2:
            return "how far the model prefers another label to the one it decides"
        return f"the model's decision function: above 0 it decides {self.names.label(self.label_names[1])}"

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
        """The probability of the favourable label at a logit; None without probabilities, or if cuts move."""
        if not self.log_odds or self.cut_moves:
            return None
        return score(logit, self._cut, self.favourable == self.label_names[1])

    def measured(self, logit: float) -> str:
        """A logit as text: the probability or, without one, the margin."""
        probability = self.score_of(logit)
        return signed(logit) if probability is None else shown_at(probability, self._cut)

    @property
    def _cut(self) -> float:
        return (self.threshold and self.threshold.probability) or USUAL

    @property
    def cut(self) -> str:
        """Where the cut is and how many decisions are favourable, in a sentence; empty if `alike` says it."""
        if self.threshold is None and self.alike:
            return ""
        return cut_sentence(self.decision, self.names.label(self.favourable_labels)) if self.decision else ""

    @property
    def alike(self) -> str:
        """That everybody gets the same decision, and what to do; empty if they do not."""
        return self.other_threshold if self.decision and self.decision.alike else ""

    @property
    def other_threshold(self) -> str:
        """How often the model decides favourably, and which threshold would do so as often as the training labels."""
        if self.decision is None or self.cut_moves:
            return ""
        other, label = next(name for name in self.label_names if name != self.favourable), self.names.label
        return alike_sentence(self.decision, label(self.favourable), label(other), bool(self.command))
