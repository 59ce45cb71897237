"""Verdict: what an audit says about one person, in words and as a record.

Found, not found, proven none and not eligible are four different results. "Not found" does not mean
fair: this search, with this budget, found nothing. "Proven none" does not mean fair either: no set
within the budget changes the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.result.fresh import (
    CLOSE_CALL_SHARE,
    SOLID,
    Collateral,
    FreshSeeds,
    solidity,
)
from butfor.result.ranges import check_people, check_ranges
from butfor.result.record import (
    SCHEMA_VERSION,
    SUMMARY,
    Cell,
    Opened,
    as_json,
    builtins_of,
    opened,
    within,
)
from butfor.result.reviewed import TrainingLabel
from butfor.result.run import Run
from butfor.support.errors import ReplayError, SettingError, plural
from butfor.support.files import save
from butfor.table.decisions import USUAL, decides_one
from butfor.table.sides import Sides
from butfor.table.table import Table
from butfor.words.figures import percent, signed, told_apart

BEFORE = "label before"
AFTER = "label after"
DOUBT = "doubt of label"
ONE_LABEL = "one label is the fewest"
ENUMERATION = "enumeration"
"""Proofs by the search itself."""
NOT_FAIR = "This does not show that the decision is fair."


@dataclass(frozen=True)
class Flip:
    """A training row whose label is flipped: position, name in the index, label before, values and,
    if groups were compared, the probability of the other label by the other groups' standard."""

    position: int
    row: Cell
    label: str
    values: dict[str, Cell]
    doubt: float | None = None


@dataclass(frozen=True, kw_only=True)
class Person:
    """What was measured about one person. A record holds exactly this, everything else is computed
    from it: to record a new quantity, add a field."""

    case: int | None
    """The person's position in the given table; None for a person given alone."""
    row: Cell
    """The person's name in the index; in the embedded sets, the position in the source file."""
    group: Cell
    values: dict[str, Cell]
    recorded_label: str | None = None
    """None if it is not known."""
    logit: float
    score: float | None = None
    """With a threshold: the probability of the favourable label or, without probabilities, the
    decision function."""
    cut: float | None = None
    """With a threshold: the lowest score with a favourable decision. The logit is measured from
    here."""
    flippable: int
    """The number of training labels that ψ allows to flip for this person."""
    left_out: str | None = None
    """Why φ leaves this person out: the "decision" is not the audited one, a "switch" of the
    protected attribute changes it, or the "rule" says so."""
    attempts: int = 0
    """Flip sets tried for this person, up to the success."""
    complete: bool = True
    """False if the search was stopped before its strategy was through."""
    shared: bool = False
    """Found with a model that was trained for somebody else."""
    first_size: int = 0
    """Flips in the first set that worked, before it was shrunk."""
    closest_logit: float | None = None
    """The logit nearest to the other decision that any tried model gave."""
    course: tuple[tuple[int, float], ...] = ()
    """Per attempt whose training did not fail or diverge: how many labels were flipped, and the
    person's logit."""
    flip_set: tuple[Flip, ...] = ()
    counterfactual_logit: float | None = None
    counterfactual_score: float | None = None
    counterfactual_cut: float | None = None
    """If places are limited, flips may move the score, the cut, or both."""
    minimal: bool = False
    """Whether no flip can be left out: every set with one flip fewer was trained and clearly keeps
    the decision."""
    fresh: FreshSeeds | None = None
    """The find under fresh seeds; None if it was not tested, or if seeds change nothing."""
    without_flips: int | None = None
    """Without a find: how many fresh seeds change the decision on the unchanged data."""
    clearance: float | None = None
    """How far the flips move the members of an ensemble: their mean gain, in standard deviations of
    one member."""
    collateral: Collateral | None = None
    """The flips' effect on the other test people."""
    at_least: int | None = None
    """Proven, by `proof`: no allowed set of fewer labels changes the decision. Above `flippable`:
    no set does. With more than two labels this is about flips to `new_label`, unless it is 1; flips
    to other labels are not ruled out."""
    proof: str | None = None
    switch_changes: bool | None = None
    """Whether the decision changes when the protected attribute alone is switched; None if unknown.
    """
    decision: str | None = None
    """With more than two labels: the decision. The logit is the margin of another decision over it.
    """
    new_label: str | None = None
    """With more than two labels: the label that flips give."""
    new_decision: str | None = None
    """With more than two labels: the decision after the flips."""
    pulls: dict[str, float] | None = None
    """Each column's pull on this person's logit, by the local linear model; None without one."""

    def __post_init__(self) -> None:
        within(self, case=(0, 2**53))


@dataclass(frozen=True)
class Record:
    """The content of an audit's file."""

    schema_version: int
    run: Run
    people: list[Person]
    labels: list[TrainingLabel] = field(default_factory=list)
    checksum: str = ""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_people(self)

    @classmethod
    def of(cls, file: Opened) -> Record:
        """The content of a file, with the table's path as seen from the working folder."""
        record = file.read(cls)
        if file.folder is None:
            return record
        return replace(record, run=record.run.found_from(file.folder))


class Verdict:
    """The answer about one person: what was `measured`, and the run. Every measurement is an
    attribute too, such as `case`, `row`, `group` and `logit`. `print` shows the answer in a
    sentence or two."""

    def __init__(self, measured: Person, run: Run, fitted: Any = None) -> None:
        m = measured
        flips = measured.flip_set
        fresh = measured.fresh
        self.measured = measured
        self.run = run
        """The settings of the audit, shared by all its verdicts."""
        self.fitted = fitted
        """The audit, `Fitted`; None if the verdict was read from a file."""
        self.found = bool(flips)
        self.eligible = m.left_out is None
        """Whether φ admits this person."""
        self.status = "not_found"
        """ "found", "not_found", "proven_none" or "not_eligible"."""
        if not self.eligible:
            self.status = "not_eligible"
        elif flips:
            self.status = "found"
        elif m.at_least is not None and m.at_least > min(run.budget, m.flippable):
            self.status = "proven_none"
        self.unfinished = not m.complete and not flips
        """Whether the search was stopped before it found anything."""
        self.positions = tuple(flip.position for flip in flips)
        """The positions of the flipped rows among the training rows."""
        self.at_most = len(flips) or None
        """An upper bound on the number of labels: the size of the set found."""
        self.exact = bool(flips) and m.at_least == len(flips)
        """Whether it is proven that no smaller set changes the decision."""
        doubts = [flip.doubt > 0.5 for flip in flips if flip.doubt is not None]
        self.doubted = sum(doubts) if doubts else None
        """How many flipped labels are doubtful by the other groups' standard; None if groups were
        not compared."""

        self.label_names = m.decision or run.label_names[0], m.new_label or run.label_names[1]
        """The labels of negative and positive logits; with more than two labels, the decision and
        the label that flips give."""
        side = int(decides_one(m.logit))
        self.prediction = m.decision or self.label_names[side]
        self.counterfactual_prediction = m.new_decision or (
            self.label_names[1 - side] if flips else None
        )

        self.solidity = solidity(fresh, run.seeded) if flips else None
        """Whether a find holds over seeds: solid, leaning, seed-bound, undecided or not checked.
        None without a find."""
        self.distance = self.at_most if self.solidity == SOLID else None
        """The size of the solid set that was found; None without one."""
        self.hold = fresh.hold if fresh else None
        """The share of fresh seeds that change the decision with the flips."""
        count = fresh.without_flips if fresh else m.without_flips
        seeds = fresh.seeds if fresh else run.fresh_seeds
        self.base_counts = None if count is None else (count, seeds)
        """How many fresh seeds change the decision on the unchanged data, and of how many; None if
        unknown."""
        self.base = None if count is None else count / max(1, seeds)
        """The same as a share."""
        self.close_call = None if self.base is None else self.base > CLOSE_CALL_SHARE
        """Whether more than one fresh seed in ten changes the decision without any flip; None if
        unknown."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "measured" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.measured, name)

    def __repr__(self) -> str:
        return " ".join(part for part in (self.sentence, self.belief) if part)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verdict):
            return False
        return self.measured == other.measured and self.run == other.run

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"fitted": None}

    def label_after(self, label: str) -> str:
        """The label after a flip."""
        return self.new_label or next(name for name in self.label_names if name != label)

    @property
    def scores(self) -> tuple[float | None, float | None]:
        """The score without the flips and with them; None if there is none."""
        if self.score is not None:
            return self.score, self.counterfactual_score
        after = None
        if self.counterfactual_logit is not None:
            after = self.run.score_of(self.counterfactual_logit)
        return self.run.score_of(self.logit), after

    # --- in words ---------------------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """The answer in one sentence, after one on a close call."""
        one = self.run.names.one
        row = f"{self.run.row_word} {self.run.row_number(self.row)}"
        if self.case is None:
            place = "in" if self.run.row_word == "line" else "of"
            return self.said(f"this {one}" if self.row is None else f"the {one} {place} {row}")
        same = self.row is None or str(self.row) == str(self.case)
        return self.said(f"{one} {self.case}" if same else f"{one} {self.case} ({row})")

    def said(self, who: str) -> str:
        """The same about the person under this name."""
        n = self.run.data.training_rows
        budget = self.run.budget
        label = self.run.names.label
        k = len(self.flip_set)
        now = label(self.prediction)
        close = f"A close call: {self.base_sentence}. " if self.close_call else ""
        if self.status == "found":
            mean = f", mean of {self.run.members} models" if self.run.members > 1 else ""
            fewest = ""
            if self.exact and k > 1:
                of_flips = f" of flips to {label(self.new_label)}" if self.new_label else ""
                fewest = f" No smaller set{of_flips} does: that is proven."
            return (
                f"{close}Flipping {k} of {n} training labels ({percent(k / n)}) changes the "
                f"decision about {who} from {now} to {label(self.counterfactual_prediction or '')} "
                f"({self.course_in_words}{mean}, confirmed by retraining).{fewest}"
            )
        if self.status == "not_eligible":
            return f"{close}{who[0].upper()}{who[1:]} was not audited: {self.reason}"
        if self.status == "proven_none":
            never = self.at_least is not None and self.at_least > self.flippable
            takes = "all of them together cannot" if never else f"it takes at least {self.at_least}"
            to = that = others = goal = ""
            if self.new_label:
                to = f", to {label(self.new_label)},"
                others = "Flips to other labels are not ruled out. "
                that = "" if never else " flips to that label"
                goal = f", to {label(self.run.towards)}" if self.run.towards else ""
            return (
                f"{close}Proven: flipping up to {budget} of the {self.flippable} labels "
                f"allowed{to} cannot change the decision about {who}, {now} "
                f"({self.course_in_words}){goal}; {takes}{that} ({self.proof}). {others}{NOT_FAIR}"
            )
        closest = f"; the closest: {self.closest}" if self.closest else ""
        return (
            f"{close}No counterfactual dataset found for {who}: the decision stays {now} "
            f"({self.course_in_words}) after {plural(self.attempts, 'attempt')} at flipping up to "
            f"{budget} of {n} training labels{closest}. {self.reason}"
        )

    @property
    def reason(self) -> str:
        """Why nothing was found, in a sentence; empty for a find."""
        names = self.run.names
        run = self.run
        if self.found:
            return ""
        if self.left_out == "decision":
            return (
                "the decision is "
                f"{names.label(self.prediction)}{' already' * (self.prediction == run.towards)}."
            )
        if self.left_out == "switch":
            name = names.column(run.sensitive)
            return (
                f"the decision changes when {name} alone is switched, so the model uses it "
                "directly."
            )
        if not self.eligible:
            return f"the rule φ ({run.phi}) leaves this {names.one} out."
        if not self.flippable:
            return f"The rule ψ ({run.psi}) allows no label to be flipped for this {names.one}."
        if not self.complete:
            limited = run.stop is not None and run.stop.retrainings
            if run.interrupted or run.out_of_time or limited:
                return "The search was stopped before it was through."
            return (
                "The search is incomplete: not all sets that may change the decision could be "
                "confirmed."
            )
        failed = self.attempts - len(self.course)
        return (f"{failed} of these trainings failed or diverged. " if failed else "") + NOT_FAIR

    @property
    def belief(self) -> str:
        """What fresh seeds say about a find, in a sentence; empty without one."""
        if self.fresh:
            return str(self.fresh.sentence)
        if self.solidity == SOLID:
            return "Solid: this model has no seed."
        return "Not checked under fresh seeds." if self.found else ""

    @property
    def base_sentence(self) -> str:
        """How many fresh seeds decide differently without any flip; empty if unknown."""
        if self.base_counts is None:
            return ""
        count, seeds = self.base_counts
        decide = plural(count, f"of {seeds} fresh seeds decides", f"of {seeds} fresh seeds decide")
        return f"{decide} differently on the unchanged data"

    @property
    def doubt_sentence(self) -> str:
        """How many of the flipped labels the other groups' standard doubts; empty if groups were
        not compared."""
        if self.doubted is None:
            return ""
        of = f"of these {len(self.flip_set)} labels"
        which = f"none {of} is"
        if len(self.flip_set) == 1:
            which = "this label is" if self.doubted else "this label is not"
        elif self.doubted:
            which = plural(self.doubted, f"{of} is", f"{of} are")
        return f"By the other groups' standard, {which} doubtful."

    @property
    def course_in_words(self) -> str:
        """ "score 0.44 → 0.53", "score 0.74 → 0.83, cut 0.80", "cut 0.80 → 0.78" if it moves or,
        without probabilities, "margin −0.35 → +0.18"."""
        before, after = self.scores
        if before is None:
            margin = f"margin {signed(self.logit)}"
            if self.counterfactual_logit is None:
                return margin
            return f"{margin} → {signed(self.counterfactual_logit)}"
        cut = self.cut
        cut_after = self.counterfactual_cut
        text = told_apart(before, USUAL if cut is None else cut, after, cut_after)
        scores = f"score {text[before]}"
        if after is not None:
            scores += f" → {text[after]}"
        if cut is None:
            return scores
        if cut_after is None or text[cut_after] == text[cut]:
            return f"{scores}, cut {text[cut]}"
        return f"{scores}, cut {text[cut]} → {text[cut_after]}"

    @property
    def closest(self) -> str:
        """How close the search came to the other decision."""
        if self.closest_logit is None:
            return ""
        if self.run.cut_moves:
            return f"{abs(self.closest_logit):.2f} logits from the cut"
        return f"{self.run.measure} {self.run.measured(self.closest_logit)}"

    # --- tables -----------------------------------------------------------------------------------

    @property
    def flips(self) -> pd.DataFrame:
        """The flipped training rows: label before and after, doubt if groups were compared, then
        the columns."""
        rows = [
            {BEFORE: f.label, AFTER: self.label_after(f.label), DOUBT: f.doubt, **f.values}
            for f in self.flip_set
        ]
        doubt = [] if self.doubted is None else [DOUBT]
        index = pd.Index([f.row for f in self.flip_set])
        return pd.DataFrame(rows, index=index, columns=[BEFORE, AFTER, *doubt, *self.values])

    def dataset(self, training: Table | None = None) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the whole table and its labels with the flips. A verdict that was read from
        a file needs the training rows."""
        if training is None and self.fitted is None:
            raise SettingError(
                "This verdict was read from a file, which does not hold the training rows: give "
                "them, verdict.dataset(butfor.Table(X, y))."
            )
        table: Table = training or self.fitted.table
        if self.decision is not None and self.new_label is not None:
            names = self.run.label_names
            pair = (names.index(self.decision), names.index(self.new_label))
            sides = Sides.away_from(*pair, len(names), table.n, only=True)
            table = replace(table, two_sides=sides)
        X, y = table.with_flips(self.positions)
        return X.copy(), y

    def to_frame(self) -> pd.DataFrame:
        """The person beside the flipped training rows, a column each, in the table's own units."""
        name = "person" if self.case is None else f"person {self.case}"
        person = pd.Series(self.values, dtype=object).to_frame(name)
        word = "row" if self.run.data.identifier else self.run.row_word
        names = [f"training {word} {self.run.row_number(flip.row)}" for flip in self.flip_set]
        rows = self.flips.T.set_axis(names, axis=1)
        return person.join(rows, how="right") if self.found else person

    def local_weights(self) -> pd.DataFrame:
        """Per column, the person's value and its pull on the logit, the strongest first. With the
        row "(bias)" the pulls add up to the logit. A network with ReLU is exactly linear around
        this person; logistic regression and ridge are linear everywhere."""
        if self.pulls is None:
            raise SettingError(
                "There is no local linear model of this decision: networks with ReLU, logistic "
                "regression and ridge classifiers have one."
            )
        values = {
            "value": [self.values.get(c) for c in self.pulls],
            "pull": list(self.pulls.values()),
        }
        frame = pd.DataFrame(values, index=pd.Index(list(self.pulls), name="column"))
        return frame.sort_values("pull", key=abs, ascending=False, kind="stable")

    # --- files and pages --------------------------------------------------------------------------

    def to_line(self) -> dict[str, Any]:
        """The person's line in a file: a summary for readers without this library, then the
        measurements."""
        outcome = (self.status, self.solidity, self.prediction, self.counterfactual_prediction)
        summary = dict(zip(SUMMARY, outcome, strict=True))
        defaults = {field.name: field.default for field in fields(Person)}
        measured = vars(self.measured)
        changed = {name: value for name, value in measured.items() if value != defaults[name]}
        return summary | builtins_of(changed)

    def to_dict(self) -> dict[str, Any]:
        """The record, from which the verdict can be read and replayed."""
        return {
            "schema_version": SCHEMA_VERSION,
            "run": builtins_of(self.run),
            "people": [self.to_line()],
        }

    def to_json(self, path: str | Path | None = None) -> Any:
        """The record as JSON text or, given a `path`, the path it was written to."""
        return save(as_json(self._in_folder_of(path).to_dict()), path)

    @classmethod
    def from_json(cls, text: str | Path | Mapping[str, Any]) -> Verdict:
        """Read a verdict from JSON text or from a file. One that was changed since is refused."""
        record = Record.of(opened(text))
        if len(record.people) != 1:
            raise ReplayError(
                "This is the record of many people; read it with Population.from_json."
            )
        return cls(record.people[0], record.run)

    from_dict = from_json

    def plot(self) -> Any:
        """A chart of the fresh seeds' logits without the flips and with them. Notebooks show it;
        `to_svg` writes it."""
        from butfor.report import page

        return page.chart(self)

    def to_html(self, path: str | Path | None = None, *, others: bool = True) -> Any:
        """The report as one self-contained page or, given a `path`, the path it was written to.

        It shows the flipped rows' values and labels, which are other people's. With `others=False`,
        for a page that goes to the person or a lawyer, it names these rows and shows nothing of
        them."""
        from butfor.report import page

        return save(page.person_page(self._in_folder_of(path), others=others), path)

    def _in_folder_of(self, path: str | Path | None) -> Verdict:
        """The verdict for a file there, which names the table as seen from its folder."""
        if path is None:
            return self
        return Verdict(self.measured, self.run.seen_from(Path(path).parent), self.fitted)

    def _repr_html_(self) -> str:
        from butfor.report import page

        return page.fragment(self)
