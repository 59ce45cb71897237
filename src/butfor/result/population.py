"""Population: the verdicts about many people, and what they say together."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from butfor.result.fresh import (
    MIN_SOLID_SEEDS,
    NOT_CHECKED,
    SOLID,
    SOLIDITIES,
    interval_of,
)
from butfor.result.record import (
    SCHEMA_VERSION,
    Opened,
    as_json,
    builtins_of,
    opened,
)
from butfor.result.reviewed import TrainingLabel, under_review
from butfor.result.run import Run
from butfor.result.verdict import ONE_LABEL, Record, Verdict
from butfor.support.errors import SettingError, plural
from butfor.support.files import save
from butfor.table.groups import in_order
from butfor.words.figures import percent, share_in_words

ALL = "everyone"
PEOPLE_COLUMNS = (
    *("case", "row", "group", "status", "prediction", "switch_changes", "logit", "score", "cut"),
    *(
        "counterfactual_prediction",
        "counterfactual_logit",
        "counterfactual_score",
        "counterfactual_cut",
        "flips",
    ),
    *(
        "at_least",
        "proof",
        "flipped_rows",
        "doubted",
        "minimal",
        "solidity",
        "distance",
        "hold",
        "base",
        "close_call",
    ),
    *("attempts", "flippable", "closest_logit", "shared", "complete"),
)
GROUP_COLUMNS = (
    *(
        "people",
        "eligible",
        "found",
        "share",
        "low",
        "high",
        "solid",
        "share_solid",
        "solid_low",
        "solid_high",
    ),
    *("close_calls", "switch_changes", "median_margin"),
)
SMALL_GROUP_PEOPLE = 10
"""Shares of smaller groups say little."""
RARE_SHARE = 0.05
"""With a smaller share of adverse decisions, few audited people are due to the threshold."""


class Population(Sequence[Verdict]):
    """The verdicts about many people, and what they say together.

    A sequence: `population[3]` is the fourth verdict. `population.about(182)` is the verdict about
    the person at position 182 of the table."""

    def __init__(
        self, verdicts: Sequence[Verdict], run: Run, labels: Sequence[TrainingLabel] = ()
    ) -> None:
        self.verdicts = tuple(verdicts)
        self.run = run
        self.labels = tuple(labels)
        """The training labels to review, in order."""
        self.performance = run.performance
        """Accuracy and rates per group; None if labels are unknown."""
        self.standards = run.standard.comparisons if run.standard else ()
        """Each group beside comparable people in other groups; empty without an adverse label."""
        self.one_standard = run.one_standard
        """Per group that falls short: whose decisions change under one standard."""
        self.interrupted = run.interrupted
        """Whether somebody stopped the audit."""
        self.groups = in_order((v.group for v in self.verdicts), run.sensitive_bands)
        self.eligible = [v for v in self.verdicts if v.eligible]
        self.found = [v for v in self.verdicts if v.found]
        self.solid = [v for v in self.found if v.solidity == SOLID]
        """Finds that hold under any seed tried."""
        self.solidity = {word: sum(v.solidity == word for v in self.found) for word in SOLIDITIES}
        """How many finds are solid, leaning, seed-bound, undecided and not checked."""
        self.checked = not self.unchecked_reason
        """Whether it is known which finds are solid."""
        self.unfinished = sum(v.unfinished for v in self.eligible)
        """How many searches were stopped before they found anything."""
        self.flip_counts = Counter(position for v in self.found for position in v.positions)
        """By position of a training row: how many people's flip sets include it."""

    def __len__(self) -> int:
        return len(self.verdicts)

    def __getitem__(self, place: Any) -> Any:
        return self.verdicts[place]

    def about(self, case: int) -> Verdict:
        """The verdict about the person at position `case` of the table."""
        for verdict in self.verdicts:
            if verdict.case == case:
                return verdict
        raise KeyError(f"There is no verdict about person {case} among these {len(self)}.")

    def __repr__(self) -> str:
        return "\n".join(self.summary)

    def with_run(self, **changes: Any) -> Population:
        """The same verdicts with other fields of the run."""
        return self._of(replace(self.run, **changes))

    def _of(self, run: Run) -> Population:
        verdicts = [Verdict(v.measured, run, v.fitted) for v in self.verdicts]
        return Population(verdicts, run, self.labels)

    # --- in words ---------------------------------------------------------------------------------

    @property
    def summary(self) -> list[str]:
        """What the audit says, a sentence each: about the model, the groups' labels, one standard,
        and few labels."""
        groups = self.run.standard.summary() if self.run.standard else []
        worlds = [one.sentence for one in self.one_standard]
        left = self.run.questions.sentences() if self.run.questions else []
        model = [sentence for sentence in (self.advice, self.run.how_accurate) if sentence]
        return [*model, *groups, *worlds, *left, self.sentence]

    @property
    def advice(self) -> str:
        """That another threshold is needed: nearly everybody gets the favourable decision, so that
        hardly anybody is audited. Empty if not."""
        run = self.run
        facts = self.run.decision
        asked = len(self.eligible)
        if facts is None or run.cut_moves:
            return ""
        few = asked < SMALL_GROUP_PEOPLE <= min(len(self), facts.people)
        rare = run.adverse and facts.favoured > (1 - RARE_SHARE) * facts.people
        if not facts.alike and not (few and rare):
            return ""
        only = "" if facts.alike else f"Only {plural(asked, 'person is', 'people are')} audited. "
        unfavourable = next(name for name in run.label_names if name != run.favourable)
        share = share_in_words(facts.recorded)
        now = facts.favoured / facts.people
        option = f"`--threshold 'top {share}%'`" if run.command else f'`threshold="top {share}%"`'
        about = f"{share_in_words(now)} % of {facts.people}"
        if now in (0, 1):
            about = f"all {facts.people}"
        this = "This" if facts.given is None else f"At {facts.given} this"
        decision = run.names.label(run.favourable if facts.favoured else unfavourable)
        remedy = "audit more people, or set a stricter threshold."
        if now in (0, 1) or facts.recorded < now:
            remedy = f"try {option}."
        return (
            f"{only}{this} model decides {decision} about {about} people. Of the training labels, "
            f"{share} % are {run.names.label(run.favourable)}: {remedy}"
        )

    @property
    def sentence(self) -> str:
        """Whose decisions hinge on few labels, in one sentence."""
        run = self.run
        asked = len(self.eligible)
        left = self.unfinished
        if not self.verdicts:
            return "Nobody was examined."
        if not asked:
            return self.audited
        people = plural(asked, "audited person")
        stopped = ""
        if left and not self.found:
            return f"The search for {left} of {people} was stopped before it found anything."
        if left:
            stopped = (
                f" The search for {plural(left, 'audited person')} was stopped before it found "
                "anything."
            )
        turned = len(self.solid if self.checked else self.found)
        n = run.data.training_rows
        labels = f"{run.budget} of {n} training labels ({percent(run.budget / n)})"
        if not turned:
            return (
                f"No{' solid' * bool(self.found)} find for {people}, with at most {labels} "
                f"flipped.{stopped}"
            )
        sure = ""
        if not self.checked:
            sure = f"; {self.unchecked_reason}"
        elif run.seeded:
            sure = ", under any seed tried"
        hinge = plural(
            turned, f"of {asked} audited decisions hinges", f"of {asked} audited decisions hinge"
        )
        return f"{hinge} on at most {labels}{sure}.{stopped}"

    @property
    def unchecked_reason(self) -> str:
        """Why it is not known which finds are solid; empty if it is."""
        seeds = self.run.fresh_seeds
        left = self.solidity[NOT_CHECKED]
        if left and (seeds or left < len(self.found)):
            return f"{plural(left, 'of these was', 'of these were')} not tested under fresh seeds"
        if left or (self.run.seeded and not seeds):
            return "whether it holds under other seeds was not checked"
        if self.run.seeded and seeds < MIN_SOLID_SEEDS:
            return (
                f"{plural(seeds, 'fresh seed is', 'fresh seeds are')} too few to call one solid "
                f"({MIN_SOLID_SEEDS} at least)"
            )
        return ""

    @property
    def audited(self) -> str:
        """How many people are audited and why the others are not, in a sentence."""
        names = self.run.names
        parts = [f"Audited: {len(self.eligible)} of {self.run.names.count(len(self))}"]
        reasons = Counter((v.left_out, v.prediction) for v in self if not v.eligible)
        for (why, decision), n in reasons.most_common():
            if why == "decision":
                parts.append(f"for {n} the decision is {names.label(decision)}")
        switched = sum(n for (why, _), n in reasons.items() if why == "switch")
        ruled = sum(n for (why, _), n in reasons.items() if why == "rule")
        if switched:
            parts.append(
                f"for {switched} it changes when {names.column(self.run.sensitive)} alone is "
                "switched"
            )
        if ruled:
            parts.append(f"the rule φ ({self.run.phi}) leaves {ruled} out")
        return f"{'; '.join(parts)}."

    @property
    def direct(self) -> str:
        """How many decisions depend on the protected attribute itself, in a sentence; empty if
        unknown."""
        run = self.run
        names = self.run.names
        name = names.column(run.sensitive)
        switched = [v for v in self if v.switch_changes is not None]
        if run.blind:
            return f"The model does not see {name}: switching it changes no decision."
        if not switched:
            return ""
        moves = Counter((v.group, v.prediction) for v in switched if v.switch_changes)
        parts = []
        if not moves:
            return (
                f"The model sees {name}, but switching it alone changes none of "
                f"{plural(len(switched), 'decision')}."
            )
        for (group, label), count in moves.most_common():  # with two labels to the other one
            other = [names.label(each) for each in run.label_names if each != label]
            way = f"to {other[0]}" if len(other) == 1 else f"from {names.label(label)}"
            parts.append(f"{names.group(run.sensitive, group)}: {count} {way}")
        changed = f"{moves.total()} of {len(switched)} decisions"
        return (
            f"The model uses {name} directly: switching it alone changes {changed} "
            f"({'; '.join(parts)})."
        )

    @property
    def proven(self) -> str:
        """What is proven, in a sentence; empty if nothing is, or that one label is the fewest."""
        proofs = [v for v in self.eligible if v.proof]
        exact = sum(v.exact for v in proofs)
        none = sum(v.status == "proven_none" for v in proofs)
        parts = []
        if exact:
            minimal = plural(exact, "of the sets found is minimal", "of the sets found are minimal")
            parts.append(minimal)
        if none:
            parts.append(f"for {plural(none, 'person')} no set within the budget works")
        if not parts or all(v.proof == ONE_LABEL for v in proofs):
            return ""
        caveat = ""
        if any(v.new_label for v in proofs):
            caveat = (
                " A proof is about flips to the one label that its verdict names, not to others."
            )
        return f"Proven: {'; '.join(parts)}.{caveat}"

    @cached_property
    def to_review(self) -> tuple[TrainingLabel, ...]:
        """The labels that a review asks about, in order: of the groups under review or, without an
        adverse label, all of them."""
        standard = self.run.standard
        if standard is None or not self.run.adverse:
            return self.labels
        groups = under_review(standard, self.run.sensitive)
        return tuple(label for label in self.labels if str(label.group) in groups)

    @property
    def warnings(self) -> list[str]:
        """A warning about small groups, if there are any."""
        groups = self.by_group.index[self.by_group["eligible"] < SMALL_GROUP_PEOPLE]
        small = [self.run.names.group(self.run.sensitive, group) for group in groups]
        if not small:
            return []
        named = " and ".join(small) if len(small) < 3 else f"{len(small)} groups"
        audited = f"{self.run.names.noun} audited of {named}"
        return [f"Fewer than {SMALL_GROUP_PEOPLE} {audited}: shares say little."]

    # --- tables -----------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One row per person. `flipped_rows` are separated by spaces; names that hold one are
        quoted, as in a shell."""
        rows = []
        for v in self.verdicts:
            score, counterfactual_score = v.scores
            computed: dict[str, Any] = {
                "flips": v.at_most,
                "flipped_rows": shlex.join(str(f.row) for f in v.flip_set),
                "score": score,
                "counterfactual_score": counterfactual_score,
            }
            measured = {c: getattr(v, c) for c in PEOPLE_COLUMNS if c not in computed}
            values = measured | computed
            rows.append([values[c] for c in PEOPLE_COLUMNS])
        whole = dict.fromkeys(("flips", "at_least", "doubted", "distance"), "Int64")
        return pd.DataFrame(rows, columns=list(PEOPLE_COLUMNS)).astype(whole)

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """Per protected group: people, eligible, found, the share found and its 95 % (Wilson)
        interval, the same for solid finds (missing if finds were not tested under fresh seeds),
        close calls (likewise), and the median distance of eligible people from the decision
        boundary.

        People whose search was stopped before it found anything might have been found: intervals
        reach as far up as if all of them were."""
        rows = []
        for group in self.groups:
            people = [v for v in self.verdicts if v.group == group]
            asked = [v for v in people if v.eligible]
            n = len(asked)
            stopped = sum(v.unfinished for v in asked)
            found = sum(v.found for v in asked)
            solid = sum(v.solidity == SOLID for v in asked)
            sure = _share(solid, n, stopped) if self.checked else (math.nan,) * 3
            tested = not self.run.seeded or any(v.base is not None for v in asked) or not asked
            close = sum(bool(v.close_call) for v in asked) if tested else math.nan
            switched = sum(bool(v.switch_changes) for v in people)
            margin = median(abs(v.logit) for v in asked) if asked else math.nan
            rows.append(
                (
                    len(people),
                    n,
                    found,
                    *_share(found, n, stopped),
                    solid,
                    *sure,
                    close,
                    switched,
                    margin,
                )
            )
        index = pd.Index(self.groups, name=self.run.sensitive)
        return pd.DataFrame(rows, index=index, columns=list(GROUP_COLUMNS))

    def distance_curve(self) -> pd.DataFrame:
        """The share of decisions that k labels change, for every k up to the budget: per group and
        for everyone, with its 95 % (Wilson) interval. It counts solid sets or, if none was tested
        under fresh seeds, all found sets."""
        groups = {
            str(group): [v for v in self.eligible if v.group == group] for group in self.groups
        }
        rows = []
        for name, people in {ALL: self.eligible, **groups}.items():
            sizes = [v.distance if self.checked else v.at_most for v in people]
            stopped = sum(v.unfinished for v in people)
            n = len(people)
            for k in range(1, self.run.budget + 1) if people else ():
                turned = sum(size is not None and size <= k for size in sizes)
                rows.append((name, k, n, *_share(turned, n, stopped)))
        return pd.DataFrame(rows, columns=["group", "labels", "people", "share", "low", "high"])

    @cached_property
    def keystones(self) -> pd.DataFrame:
        """Training rows by how many people's flip sets include them: the labels to review first."""
        cases: dict[int, list[str]] = {}
        for v in self.found:
            for position in v.positions:
                cases.setdefault(position, []).append(str(v.case))
        positions = pd.Index([position for v in self.found for position in v.positions])
        flips = pd.concat([v.flips for v in self.found or self.verdicts[:1]] or [pd.DataFrame()])
        frame = flips[~positions.duplicated()].rename(
            columns={c: f"{c} (of the table)" for c in ("row", "people", "cases")}
        )
        frame.insert(0, "people", list(map(len, cases.values())))
        frame.insert(1, "cases", list(map(" ".join, cases.values())))
        return frame.sort_values("people", ascending=False, kind="stable").rename_axis("row")

    def metric_frame(self, metrics: Any = None) -> Any:
        """The people whose label is known as fairlearn's `MetricFrame`, so that its metrics stand
        beside ours. Labels and decisions are 1 if they are favourable; the protected attributes are
        its sensitive features.

        Parameters
        ----------
        metrics : function or dict of functions, optional
            As for `MetricFrame`. Without them: count, accuracy, selection rate and error rates.
        """
        try:
            from fairlearn.metrics import (
                MetricFrame,
                count,
                false_negative_rate,
                false_positive_rate,
                selection_rate,
            )
        except ImportError:
            raise SettingError("metric_frame() needs fairlearn: pip install fairlearn") from None
        from sklearn.metrics import accuracy_score

        people = [v for v in self.verdicts if v.recorded_label is not None]
        run = self.run
        if not people or not run.favourable:
            lacks = "no label named as adverse"
            if not people:
                lacks = "no label of these people: give explain_all(X, y)"
            raise SettingError(f"metric_frame(): the audit has {lacks}.")
        usual = [count, accuracy_score, selection_rate, false_positive_rate, false_negative_rate]
        if not metrics:
            metrics = {function.__name__.removesuffix("_score"): function for function in usual}
        if run.groups:
            features = pd.DataFrame(
                [run.groups[str(v.group)] for v in people], columns=list(run.attributes)
            )
        else:
            features = pd.DataFrame([(v.group,) for v in people], columns=[run.sensitive])
        return MetricFrame(
            metrics=metrics,
            y_true=[int(v.recorded_label in run.favourable_labels) for v in people],
            y_pred=[int(v.prediction in run.favourable_labels) for v in people],
            sensitive_features=features,
        )

    # --- files and pages --------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The record: the settings, and per person the measurements and the status."""
        people = [v.to_line() for v in self.verdicts]
        record = {"schema_version": SCHEMA_VERSION, "run": builtins_of(self.run), "people": people}
        if self.labels:
            record["labels"] = builtins_of(self.labels)
        return record

    def to_json(self, path: str | Path | None = None) -> Any:
        """The record as JSON text or, given a `path`, the path it was written to."""
        return save(as_json(self.in_folder_of(path).to_dict()), path)

    @classmethod
    def from_json(cls, text: str | Path | Mapping[str, Any] | Opened) -> Population:
        """Read a population from JSON text or from a file. One that was changed since is
        refused."""
        record = Record.of(text if isinstance(text, Opened) else opened(text))
        verdicts = [Verdict(person, record.run) for person in record.people]
        return cls(verdicts, record.run, record.labels)

    from_dict = from_json

    def plot(self) -> Any:
        """A dot per person on the score's axis, by group. Notebooks show it; `to_svg` writes it."""
        from butfor.report import page

        return page.chart(self)

    def to_html(self, path: str | Path | None = None) -> Any:
        """The report as one self-contained page or, given a `path`, the path it was written to."""
        from butfor.report import page

        return save(page.population_page(self.in_folder_of(path)), path)

    def in_folder_of(self, path: str | Path | None) -> Population:
        """The population for a file there, which names the table as seen from its folder."""
        return self if path is None else self._of(self.run.seen_from(Path(path).parent))

    def _repr_html_(self) -> str:
        from butfor.report import page

        return page.fragment(self)


def _share(count: int, n: int, stopped: int) -> tuple[float, float, float]:
    """A share and its 95 % interval, which reaches as far up as if every stopped search had found
    something."""
    low, _ = interval_of(count, n, method="wilson")
    _, high = interval_of(count + stopped, n, method="wilson")
    return count / (n or math.nan), low, high
