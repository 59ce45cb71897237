"""φ and ψ: who may be audited, and which labels may be flipped for them.

A rule looks at a `Situation` and answers with a mask: φ one entry per person, ψ one row per person
and one column per training row. Rules compose with ``&``, ``|`` and ``~``, can be written as text
(``"stable_under_switch & predicted(bad credit)"``), and a callable or a boolean mask will do too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.encode import TableEncoder
from butfor.errors import SettingError, listed
from butfor.learn.recipe import Floats, Network, Rows

Mask = NDArray[np.bool_]

MOST_GROUPS = 20
"""A protected attribute with more values is a number in disguise: switching to each makes no sense."""


@dataclass(frozen=True, eq=False)
class Situation:
    """What a rule may look at: the network, its training rows, and the people."""

    network: Network
    rows: Rows
    encoder: TableEncoder
    table: pd.DataFrame
    people: pd.DataFrame
    encoded: Floats
    sensitive: Hashable
    label_names: tuple[str, str]
    training_predictions: NDArray[np.int64]

    @cached_property
    def logits(self) -> Floats:
        return self.network.logits(self.encoded)

    @cached_property
    def predictions(self) -> NDArray[np.int64]:
        return (self.logits > 0).astype(np.int64)

    def column(self, name: Hashable | None) -> Hashable:
        """The named column, or the protected one; refused where the table has none of that name."""
        column = self.sensitive if name is None else name
        if column not in self.table.columns:
            raise SettingError(f"A rule names column '{column}'; the table has {listed(self.table.columns)}.")
        return column


class Rule:
    """A named predicate over a `Situation`."""

    def __init__(self, text: str, decide: Callable[[Situation], Any]) -> None:
        self.text = text
        self._decide = decide

    def __call__(self, situation: Situation) -> Mask:
        return np.asarray(self._decide(situation), dtype=bool)

    def __and__(self, other: Rule) -> Rule:
        return Rule(f"{self._inner()} & {other._inner()}", lambda s: self(s) & other(s))

    def __or__(self, other: Rule) -> Rule:
        return Rule(f"{self._inner()} | {other._inner()}", lambda s: self(s) | other(s))

    def __invert__(self) -> Rule:
        return Rule(f"~{self._inner()}", lambda s: ~self(s))

    def __repr__(self) -> str:
        return self.text

    def _inner(self) -> str:
        return f"({self.text})" if re.search(r"[&|]", self.text) else self.text


# --- φ: may this person be audited? ----------------------------------------------------------------


def stable_under_switch(column: Hashable | None = None) -> Rule:
    """The prediction stays the same whatever the person's `column` says (published φ)."""

    def decide(s: Situation) -> Mask:
        name = s.column(column)
        stable = np.ones(len(s.encoded), dtype=bool)
        for value in group_values(s.table[name]):
            stable &= s.network.predict(s.encoder.switch(s.encoded, name, value)) == s.predictions
        return stable

    return Rule(_call("stable_under_switch", column), decide)


def in_group(column: Hashable, value: Any) -> Rule:
    """The person's `column` is `value`."""

    def decide(s: Situation) -> Mask:
        name = s.column(column)
        known = group_values(s.table[name])
        if str(value) not in [str(v) for v in known]:
            raise SettingError(f"Rule in_group: column '{name}' has no value '{value}', only {listed(known)}.")
        return s.people[name].astype(str).to_numpy() == str(value)

    return Rule(_call("in_group", column, value), decide)


def predicted(value: Any) -> Rule:
    """The network decides `value` (a label's name, or 0 or 1) about the person."""

    def decide(s: Situation) -> Mask:
        names = [*s.label_names, "0", "1"]
        if str(value) not in names:
            raise SettingError(f"Rule predicted: '{value}' is not a label; the labels are {listed(s.label_names)}.")
        return s.predictions == names.index(str(value)) % 2

    return Rule(_call("predicted", value), decide)


def everyone() -> Rule:
    """No condition on the person."""
    return Rule("everyone", lambda s: np.ones(len(s.encoded), dtype=bool))


# --- ψ: may this training row's label be flipped for this person? -----------------------------------


def same_group(column: Hashable | None = None) -> Rule:
    """The training row has the person's value of `column`."""

    def decide(s: Situation) -> Mask:
        name = s.column(column)
        ours, theirs = s.people[name].astype(object).to_numpy(), s.table[name].astype(object).to_numpy()
        return ours[:, None] == theirs[None, :]

    return Rule(_call("same_group", column), decide)


def labelled_as_predicted() -> Rule:
    """The training row's label is what the network decides about the person."""
    return Rule("labelled_as_predicted", lambda s: s.rows.y[None, :] == s.predictions[:, None])


def correctly_predicted() -> Rule:
    """The network decides about the training row what its label says."""
    return Rule(
        "correctly_predicted",
        lambda s: np.broadcast_to(s.training_predictions == s.rows.y, (len(s.encoded), s.rows.n)),
    )


def everything() -> Rule:
    """No condition on the training row."""
    return Rule("everything", lambda s: np.ones((len(s.encoded), s.rows.n), dtype=bool))


def published_psi(column: Hashable | None = None) -> Rule:
    """The paper's ψ: rows of the person's group, labelled and predicted as the person is."""
    return same_group(column) & labelled_as_predicted() & correctly_predicted()


def group_values(values: pd.Series) -> list[Any]:
    """The values of a protected attribute among the training rows, sorted."""
    found = list(pd.unique(values.astype(object)))
    if len(found) > MOST_GROUPS:
        raise SettingError(
            f"Column '{values.name}' has {len(found)} different values, too many for a protected attribute: "
            f"group it into at most {MOST_GROUPS} first (for example age into age bands)."
        )
    return sorted(found, key=lambda value: (type(value).__name__, value))


# --- from text, callable or mask --------------------------------------------------------------------

PHI: dict[str, Callable[..., Rule]] = {
    "stable_under_switch": stable_under_switch,
    "in_group": in_group,
    "predicted": predicted,
    "everyone": everyone,
}
PSI: dict[str, Callable[..., Rule]] = {
    "published": published_psi,
    "same_group": same_group,
    "labelled_as_predicted": labelled_as_predicted,
    "correctly_predicted": correctly_predicted,
    "everything": everything,
}


def as_phi(given: Any) -> Rule:
    """φ from a rule, its text, a callable of the situation, or a mask with one entry per person."""
    return _as_rule(given, PHI, "phi")


def as_psi(given: Any) -> Rule:
    """ψ likewise; a mask has one entry per training row, or one row of them per person."""
    return _as_rule(given, PSI, "psi")


def eligible(phi: Rule, situation: Situation) -> Mask:
    """φ's answer, checked: `[people]`."""
    return _shaped(phi, situation, (len(situation.encoded),), "phi")


def flippable(psi: Rule, situation: Situation) -> Mask:
    """ψ's answer, checked: `[people × training rows]`."""
    return _shaped(psi, situation, (len(situation.encoded), situation.rows.n), "psi")


def _shaped(rule: Rule, situation: Situation, shape: tuple[int, ...], name: str) -> Mask:
    mask = rule(situation)
    if mask.shape not in (shape, shape[1:]):
        wanted = "one entry per person" if name == "phi" else "one entry per training row"
        raise SettingError(f"{name} gave a mask of shape {mask.shape}; expected {wanted}, {shape}.")
    return np.broadcast_to(mask, shape) if mask.shape else np.full(shape, bool(mask))


def _as_rule(given: Any, names: dict[str, Callable[..., Rule]], option: str) -> Rule:
    if isinstance(given, Rule):
        return given
    if isinstance(given, str):
        return _Parser(given, names, option).rule()
    if callable(given):
        return Rule(getattr(given, "__name__", "a callable"), given)
    mask = np.asarray(given)
    if mask.dtype != bool:
        raise SettingError(f"{option} must be a rule, its text, a callable or a boolean mask, not {given!r}.")
    return Rule(f"a mask with {int(mask.sum())} of {mask.size} set", lambda s: mask)


class _Parser:
    """``a & ~(b | c(x, y))`` → Rule. ``&`` binds tighter than ``|``."""

    TOKEN = re.compile(r"\s*(?:([&|~()])|([a-z_]+)(?:\(([^()]*)\))?)\s*")

    def __init__(self, text: str, names: dict[str, Callable[..., Rule]], option: str) -> None:
        self.text, self.names, self.option = text, names, option
        self.tokens: list[tuple[str, str, str | None]] = []
        at = 0
        while at < len(text):
            match = self.TOKEN.match(text, at)
            if not match or match.end() == at:
                raise self._error(f"cannot read '{text[at:]}'")
            self.tokens.append((match[1] or "", match[2] or "", match[3]))
            at = match.end()

    def rule(self) -> Rule:
        rule = self._either()
        if self.tokens:
            raise self._error(f"'{self.tokens[0][0] or self.tokens[0][1]}' was not expected")
        return rule

    def _either(self) -> Rule:
        rule = self._both()
        while self._take("|"):
            rule = rule | self._both()
        return rule

    def _both(self) -> Rule:
        rule = self._single()
        while self._take("&"):
            rule = rule & self._single()
        return rule

    def _single(self) -> Rule:
        if self._take("~"):
            return ~self._single()
        if self._take("("):
            rule = self._either()
            if not self._take(")"):
                raise self._error("a ')' is missing")
            return rule
        if not self.tokens or not self.tokens[0][1]:
            raise self._error("a rule's name is missing")
        _, name, arguments = self.tokens.pop(0)
        if name not in self.names:
            raise self._error(f"there is no rule '{name}'")
        given = [a.strip() for a in arguments.split(",")] if arguments and arguments.strip() else []
        try:
            return self.names[name](*given)
        except TypeError:
            raise self._error(f"rule '{name}' does not take {len(given)} argument(s)") from None

    def _take(self, operator: str) -> bool:
        if self.tokens and self.tokens[0][0] == operator:
            self.tokens.pop(0)
            return True
        return False

    def _error(self, problem: str) -> SettingError:
        return SettingError(
            f"{self.option} '{self.text}': {problem}. Rules are {', '.join(self.names)}, "
            "joined by & | ~ and parentheses, for example predicted(yes) & in_group(sex, female)."
        )


def _call(name: str, *arguments: Any) -> str:
    given = [str(a) for a in arguments if a is not None]
    return f"{name}({', '.join(given)})" if given else name
