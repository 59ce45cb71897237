"""Run a recorded verdict again: load the data it names, train with the learner's own fit, compare all that it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor import __version__
from butfor.allowed import Allowed
from butfor.data import Dataset
from butfor.errors import ButforError, ReplayError
from butfor.learn.ensemble import fresh_seeds, members_of, together
from butfor.learn.joblib_engine import JoblibEngine
from butfor.learn.learners import given_learner, learner_of
from butfor.learn.local import pulls
from butfor.prove import Bracket, prove
from butfor.result.coherent import ENUMERATION, ONE_LABEL, contradictions, same
from butfor.result.control import otherwise
from butfor.result.fresh import FreshSeeds
from butfor.result.record import CHECKSUM, check_person, checksum, learner_record, plain, signed
from butfor.result.reload import as_recorded, loaded, recorded_person, sensitive_of
from butfor.result.shape import DATA, OBJECT, TEXT, brief, each, fields
from butfor.rules import Rule, as_phi, as_psi, eligible, flippable
from butfor.seam import FlipSet, Learner, Model, Table, Training
from butfor.search import as_protocol
from butfor.situation import Situation, changed_by_switch

AT_ONCE = 8
"""Finds whose trainings are spread over the cores together, before the next line is printed."""
BLOCK = 256
"""People looked at together."""
CLOSE = 0.01
"""How far a logit may be from the recorded one, of 1 or of itself where that is more: another machine adds up in
another order."""
NEEDED = fields({"data": DATA, "learner": OBJECT, "label_names": each(TEXT, 2)})
"""What a run block must have to be run again, of whatever schema."""


@dataclass(frozen=True)
class Replay:
    """What came out of running a record again. `agrees`: everything that could be checked is as recorded; `differs`
    names what is not."""

    case: int | None
    agrees: bool
    sentence: str
    logit: float
    counterfactual_logit: float | None
    differs: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.sentence

    def __bool__(self) -> bool:
        return self.agrees


def replay(record: dict[str, Any], training: Table | None = None, model: Any = None, *, fresh: bool = False) -> Replay:
    """Retrain from a verdict's record. `training` and `model` stand in for a table and a model that the record cannot
    bring back; `fresh` trains the fresh seeds again too."""
    check_person(record)
    outcome = next(_Scene(record["run"], training, model, fresh).check([record]))
    if CHECKSUM in record and record[CHECKSUM] != checksum(record):
        told = (*outcome.differs, "checksum is not that of the record")
        sentence = outcome.sentence.replace(": agree (", ": DISAGREE (")
        return replace(outcome, agrees=False, differs=told, sentence=f"{sentence}; its checksum DISAGREES")
    return outcome


def replay_all(records: Sequence[dict[str, Any]], model: Any = None, *, fresh: bool = False) -> Iterator[Replay]:
    """Replay many records; those of one run share its data and its first training."""
    scenes: dict[str, _Scene] = {}
    for record in records:
        check_person(record)
        NEEDED(record["run"], "run")
    keys = [json.dumps([r["run"]["data"], learner_record(r["run"])], sort_keys=True) for r in records]
    for key, same_run in groupby(zip(keys, records, strict=True), key=lambda pair: pair[0]):
        of_run = [record for _, record in same_run]
        if key not in scenes:
            scenes[key] = _Scene(of_run[0]["run"], None, model, fresh)
        for some in _portions(of_run):
            yield from scenes[key].check(some)


def _portions(records: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """So many records at once that few finds are among them."""
    some: list[dict[str, Any]] = []
    for record in records:
        some.append(record)
        if sum(r["status"] == "found" for r in some[-BLOCK:]) == AT_ONCE or len(some) == BLOCK:
            yield some
            some = []
    if some:
        yield some


@dataclass(frozen=True)
class _Again:
    """What the table and the learner say now about some people, `[people]` each; None where it cannot be known."""

    situation: Situation | None
    logits: NDArray[np.float32]
    psi: Allowed | None
    phi: NDArray[np.bool_] | None
    brackets: Sequence[Bracket] | None
    switched: NDArray[np.bool_] | None
    pulled: Sequence[dict[str, float]] | None


class _Scene:
    """The data, the learner and the trained f of one run."""

    def __init__(self, run: dict[str, Any], training: Table | None, model: Any, fresh: bool = False) -> None:
        NEEDED(run, "run")
        self.run, self.fresh = run, fresh
        with as_recorded("run.learner cannot be made again"):
            record = learner_record(run)
            self.learner: Learner = learner_of(record) if model is None else given_learner(model, record)
        self.data: Dataset | None = None
        groups = None
        if training is not None and not isinstance(training, Table):
            raise ReplayError(
                f"training={brief(type(training).__name__)} is not a table of butfor's: give butfor.Table(X, y), or "
                "replay from the Verdict."
            )
        if training is None:
            training, groups, self.data = loaded(run)
        self.table = training
        with as_recorded("run.learner cannot be trained again"):
            self.f: Model = self.learner.fit(self.table, self.table.labels())
        self.sensitive = sensitive_of(run, self.table, groups)
        self.label_names = (str(run["label_names"][0]), str(run["label_names"][1]))
        self.from_command = "command" in run and self.data is not None
        """Then people are test rows, in the data's own words; in Python both may be anybody's."""

    def check(self, records: Sequence[dict[str, Any]]) -> Iterator[Replay]:
        """Retrain what was found in these records, side by side, and compare."""
        people = pd.concat([self._person(record) for record in records])
        with as_recorded("run.learner cannot be asked again"):
            now = self._again(records, people)
            found = [k for k, record in enumerate(records) if record["status"] == "found"]
            others = [(k, tuple(sorted(flips))) for k in found for flips in records[k]["alternatives"]]
            known = [(k, flips) for k, record in enumerate(records) if (flips := self._overlooked(record, now, k))]
            sets = [(k, _positions(records[k])) for k in found] + others + known
            after = self._retrained(sets, people)
            counts = self._fresh_counts(records, found, people) if self.fresh else {}
        for k, record in enumerate(records):
            differs = [*contradictions(record), *self._as_in_table(record), *self._as_now(record, k, now)]
            logit = after[found.index(k)] if k in found else None
            differs += self._as_retrained(record, float(now.logits[k]), logit)
            turned = [after[len(found) + j] for j, (who, _) in enumerate(others) if who == k]
            for place, other in enumerate(turned):
                if self._name(other) == self._name(float(now.logits[k])):
                    differs.append(f"alternatives[{place}] does not turn the decision: {signed(other)}")
            for j, (who, flips) in enumerate(known, len(found) + len(others)):
                if who == k and self._name(after[j]) != self._name(float(now.logits[k])):
                    differs.append(f"status is {record['status']}, but flipping rows {list(flips)} turns the decision")
            if k in counts:
                differs += _other_counts(record, counts[k])
            yield self._told(record, float(now.logits[k]), logit, now, k, differs, counts.get(k))

    # --- again ------------------------------------------------------------------------------------------

    def _again(self, records: Sequence[dict[str, Any]], people: pd.DataFrame) -> _Again:
        logits = self.f.logits(people)
        pulled = pulls(self.f, people)
        groups = self._groups(records, people)
        if self.sensitive is None or groups is None:
            return _Again(None, logits, None, None, None, None, pulled)
        situation = Situation(
            self.f, self.table, people, self.sensitive, groups, self.label_names, self._training_logits
        )
        lost = [line.split(":")[0] for line in self.run.get("not_rebuildable", [])]
        psi = phi = brackets = None
        if "psi" not in lost and "psi" in self.run:
            psi = flippable(self._rule("psi", as_psi), situation)
            brackets = prove(self.learner, situation, psi)
        if "phi" not in lost and "phi" in self.run:
            phi = eligible(self._rule("phi", as_phi), situation)
        return _Again(situation, logits, psi, phi, brackets, changed_by_switch(situation), pulled)

    def _overlooked(self, record: dict[str, Any], now: _Again, k: int) -> FlipSet | None:
        """The set that a proof names for someone about whom nothing is said to be found, by a search that asks for
        proofs."""
        lost = [line.split(":")[0] for line in self.run.get("not_rebuildable", [])]
        told = "protocol" in self.run and "protocol" not in lost
        if now.brackets is None or not told or record["status"] != "not_found" or not record["complete"]:
            return None
        witness = now.brackets[k].witness
        return witness if witness and len(witness) <= record["budget"] and self._protocol_proves else None

    @cached_property
    def _protocol_proves(self) -> bool:
        try:
            return as_protocol(self.run["protocol"]).proves
        except ButforError as error:
            raise ReplayError(f"The record is bent: run.protocol is no protocol ({error})") from error

    @cached_property
    def _training_logits(self) -> NDArray[np.float32]:
        return self.f.logits(self.table.X)

    def _rule(self, name: str, read: Any) -> Rule:
        try:
            rule: Rule = read(self.run[name])
        except ButforError as error:
            raise ReplayError(f"The record is bent: run.{name} is no rule ({error})") from error
        return rule

    def _person(self, record: dict[str, Any]) -> pd.DataFrame:
        """Who was asked about: the test row where there is one, else as recorded."""
        if self.from_command and self.data is not None and record["case"] is not None:
            if record["case"] >= len(self.data.X_test):
                raise ReplayError(
                    f"The record is bent: case is {record['case']}, but the table's test rows are 0 to "
                    f"{len(self.data.X_test) - 1}."
                )
            return self.data.X_test.iloc[[record["case"]]]
        return recorded_person(record, self.table.X)

    def _groups(self, records: Sequence[dict[str, Any]], people: pd.DataFrame) -> NDArray[np.object_] | None:
        if self.sensitive is None:
            return None
        if not self.sensitive.blind:
            return self.sensitive.of_people(people)
        if self.from_command and self.data is not None and self.data.groups is not None:
            beside = self.data.groups["test"].iloc[[record["case"] for record in records]]
            return self.sensitive.of_people(people, beside)
        known = {str(plain(value)): value for value in self.sensitive.values}
        return np.array([known.get(str(r["group"]), r["group"]) for r in records], dtype=object)

    def _retrained(self, sets: Sequence[tuple[int, FlipSet]], people: pd.DataFrame) -> list[float]:
        """What the learner trained on each flip set, every member by its own `fit`, says about its person."""
        learner, seeds = members_of(self.learner)
        if not sets:
            return []
        ask = JoblibEngine().bind(learner, self.table, people)
        trainings = [Training(flips, seed) for _, flips in sets for seed in seeds]
        logits = ask(trainings).reshape(len(sets), len(seeds), -1)
        return [float(together(logits[k, :, who])) for k, (who, _) in enumerate(sets)]

    def _fresh_counts(
        self, records: Sequence[dict[str, Any]], found: Sequence[int], people: pd.DataFrame
    ) -> dict[int, FreshSeeds]:
        """Counts over the recorded number of fresh seeds, every one by the learner's own `fit`."""
        asked = [k for k in found if records[k].get("fresh")]
        learner, _ = members_of(self.learner)
        ask = JoblibEngine().bind(learner, self.table, people)
        counts = {}
        for k in asked:
            seeds = fresh_seeds(self.learner, records[k]["fresh"]["seeds"])
            before = np.array([model.logits(people.iloc[[k]])[0] for model in self._unchanged(len(seeds))], np.float32)
            after = ask([Training(_positions(records[k]), seed) for seed in seeds])[:, k]
            decided = int(self.f.logits(people.iloc[[k]])[0] > 0)
            counts[k] = FreshSeeds.of(otherwise(before, decided), otherwise(after, decided), seeds[0])
        return counts

    def _unchanged(self, count: int) -> list[Model]:
        """A model of the unchanged data per fresh seed, trained once."""
        known = self.__dict__.setdefault("_base_models", [])
        if len(known) < count:
            seeds = fresh_seeds(self.learner, count)[len(known) :]
            known += JoblibEngine().models(members_of(self.learner)[0], self.table, seeds)
        return known[:count]

    # --- compared ---------------------------------------------------------------------------------------

    def _as_in_table(self, record: dict[str, Any]) -> Iterator[str]:
        """What the record shows of rows and labels, beside the table's own."""
        if len(self.table.X) != record["training_rows"]:
            yield f"training_rows is {record['training_rows']}, but the table has {len(self.table.X)}"
            return
        X, labels = self.table.X, self.table.zero_one.astype(np.int64)
        for place, flip in enumerate(record["flips"]):
            at = flip["position"]
            yield from _unlike(f"flips[{place}].row", flip["row"], X.index[at])
            yield from _unlike(f"flips[{place}].label_before", flip["label_before"], self.label_names[labels[at]])
            yield from _unlike(f"flips[{place}].label_after", flip["label_after"], self.label_names[1 - labels[at]])
            for column in X.columns:
                shown = flip["values"].get(str(column))
                yield from _unlike(f"flips[{place}].values.{column}", shown, X[column].iloc[at])
        if not self.from_command or self.data is None:
            return
        if tuple(self.label_names) != tuple(map(str, self.data.label_names)):
            yield f"run.label_names is {list(self.label_names)}, but the table has {list(self.data.label_names)}"
        named = self.data.sensitive
        yield from _unlike("sensitive", record["sensitive"], named if isinstance(named, str) else " × ".join(named))
        row = self.data.X_test.iloc[[record["case"]]]
        yield from _unlike("row", record["row"], row.index[0])
        for column in row.columns:
            yield from _unlike(f"person.{column}", record["person"].get(str(column)), row[column].iloc[0])

    def _as_now(self, record: dict[str, Any], k: int, now: _Again) -> Iterator[str]:
        """Group, φ, ψ, proof, switch and pulls."""
        status = record["status"]
        if now.situation is not None:
            yield from _unlike("group", record["group"], now.situation.groups[k])
            yield from _unlike("sensitive", record["sensitive"], now.situation.sensitive.name)
        if now.phi is not None and bool(now.phi[k]) != (status != "not_eligible"):
            yield f"status is {status}, but the rule φ {'admits' if now.phi[k] else 'leaves out'} this person"
        elif now.phi is not None and now.situation is not None and status == "not_eligible" and self._same_version:
            yield from _unlike("reason", record["reason"], self._rule("phi", as_phi).reason(now.situation))
        if now.psi is not None:
            allowed = np.flatnonzero(now.psi[k])
            yield from _unlike("flippable", record["flippable"], len(allowed))
            sets = [("flips", _positions(record))]
            sets += [(f"alternatives[{place}]", tuple(flips)) for place, flips in enumerate(record["alternatives"])]
            for name, flips in sets:
                beyond = sorted(set(flips) - set(allowed.tolist()))
                if beyond:
                    yield f"{name} has training row {beyond[0]}, which the rule ψ does not allow to flip"
        if now.brackets is not None and status != "not_eligible" and "at_least" in record:
            yield from _unlike("at_least", record["at_least"], now.brackets[k].at_least)
            yield from _unlike("proof", record["proof"], now.brackets[k].how)
        elif now.psi is not None and record.get("proof") not in (None, ONE_LABEL, ENUMERATION):
            yield f"proof is {brief(record['proof'])}, but nothing can be proven about this learner"
        if "switch_changes" in record and now.situation is not None:
            changed = None if now.switched is None else bool(now.switched[k])
            yield from _unlike("switch_changes", record["switch_changes"], changed)
        if "pulls" in record and record["schema_version"] > 1:
            pulled = None if now.pulled is None else now.pulled[k]
            if not _alike_pulls(record["pulls"], pulled):
                yield "pulls are not those of the model"

    def _as_retrained(self, record: dict[str, Any], before: float, after: float | None) -> Iterator[str]:
        for name, recorded, logit in (
            ("logit", record["logit"], before),
            ("counterfactual_logit", record["counterfactual_logit"], after),
        ):
            if logit is not None and recorded is not None and not _near(recorded, logit):
                yield f"{name} is {signed(recorded)}, retrained it is {signed(logit)}"
        if self._name(before) != record["prediction"]:
            yield f"prediction is {brief(record['prediction'])}, retrained it is {brief(self._name(before))}"
        if after is not None and self._name(after) != record["counterfactual_prediction"]:
            told = brief(record["counterfactual_prediction"])
            yield f"counterfactual_prediction is {told}, retrained it is {brief(self._name(after))}"
        if after is not None and self._name(after) == self._name(before):
            yield "status is found, but retraining with these flips leaves the decision as it was"

    @property
    def _same_version(self) -> bool:
        """Words may be others in another version; figures may not."""
        return bool(self.run.get("butfor") == __version__)

    def _told(
        self,
        record: dict[str, Any],
        before: float,
        after: float | None,
        now: _Again,
        k: int,
        differs: list[str],
        fresh: FreshSeeds | None,
    ) -> Replay:
        course = f"'{self._name(before)}' at logit {signed(before)}"
        if after is not None:
            plural = "s" * (len(record["flips"]) != 1)
            course += f" → '{self._name(after)}' at {signed(after)} with {len(record['flips'])} label{plural} flipped"
        if record.get("proof") is not None and now.brackets is not None:
            proven = now.brackets[k].at_least
            course += f"; proven: at least {proven} label{'s' * (proven != 1)}"
        if fresh is not None:
            course += f"; in {fresh.with_flips} of {fresh.seeds} fresh seeds, {fresh.without_flips} without the flips"
        who = f"row {record['row']}" if record["case"] is None else f"person {record['case']}"
        word = "DISAGREE" if differs else "agree"
        sentence = "; ".join([f"{who}: {word} ({course})", *dict.fromkeys(differs)])
        return Replay(record["case"], not differs, sentence, before, after, tuple(dict.fromkeys(differs)))

    def _name(self, logit: float | None) -> str | None:
        return None if logit is None else self.label_names[int(logit > 0)]


def _unlike(field: str, recorded: Any, real: Any) -> Iterator[str]:
    if not same(recorded, plain(real), slack=1e-12):
        yield f"{field} is {brief(recorded)}, but should be {brief(plain(real))}"


def _near(recorded: float, logit: float) -> bool:
    return abs(recorded - logit) <= CLOSE * max(1.0, abs(logit))


def _alike_pulls(recorded: dict[str, float] | None, now: dict[str, float] | None) -> bool:
    if recorded is None or now is None:
        return recorded is now
    scale = max(1.0, *(abs(pull) for pull in now.values()))
    return recorded.keys() == now.keys() and all(abs(recorded[c] - now[c]) <= CLOSE * scale for c in now)


def _other_counts(record: dict[str, Any], now: FreshSeeds) -> Iterator[str]:
    """Engines add up in another order than `fit`: a seed in twenty may fall on the other side of 0."""
    slack = 1 + now.seeds // 20
    for name in ("with_flips", "without_flips"):
        recorded, real = record["fresh"][name], getattr(now, name)
        if abs(recorded - real) > slack:
            yield f"fresh.{name} is {recorded} of {now.seeds}, retrained it is {real}"


def _positions(record: dict[str, Any]) -> FlipSet:
    return tuple(flip["position"] for flip in record["flips"])
