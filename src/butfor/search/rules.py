"""φ and ψ: who may be audited, and which labels may be flipped for them.

A rule maps a `Situation` (the model, the table, the people and their groups) to a mask: φ has one
entry per person, ψ one row per person and one column per training row. Rules combine with ``&``,
``|`` and ``~``. A rule can also be given as text (``"stable_under_switch & predicted('bad
credit')"``), as a callable or as a boolean mask.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from keyword import iskeyword
from typing import Any, Concatenate, Literal, ParamSpec

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.ensemble import audited
from butfor.models.seam import Floats, Model, decisions_about
from butfor.support.errors import SettingError, nearest
from butfor.table.columns import spelled
from butfor.table.decisions import ONE_HALF, Decision, decides_one
from butfor.table.encoding import Asked
from butfor.table.groups import (
    Sensitive,
    fill_missing,
    group_values,
    groups_in,
    spellings,
)
from butfor.table.labels import label_number
from butfor.table.sides import Sides
from butfor.table.table import Table

MAX_RULE_DEPTH = 50
"""The most levels of a rule's text."""
MASK_ENTRIES_AT_ONCE = 2**26
"""Mask entries computed at a time."""

Mask = NDArray[np.bool_]
People = Sequence[int] | NDArray[np.int64] | slice


@dataclass(frozen=True, eq=False)
class Situation:
    """`people` are audited; `groups [people]` is their protected attribute."""

    model: Model
    table: Table
    people: pd.DataFrame
    sensitive: Sensitive
    groups: NDArray[np.object_]
    label_names: tuple[str, ...]
    training_decisions: NDArray[np.int64] = field(repr=False)
    """The class decided about each training row, by number."""
    doubts: Callable[[], NDArray[np.float64]] | None = field(default=None, repr=False)
    """Computes the doubt about each training label, for rules that need it."""
    decision: Decision = ONE_HALF

    def of(self, people: NDArray[np.int64]) -> Situation:
        """The same for some of the people."""
        some = replace(self, people=self.people.iloc[people], groups=self.groups[people])
        # These people need not be asked again.
        vars(some).update(logits=self.logits[people], decisions=self.decisions[people])
        if "switch_changes" in vars(self):
            changes = self.switch_changes
            vars(some)["switch_changes"] = None if changes is None else changes[people]
        return some

    def with_sides(self, sides: Sides) -> Situation:
        """The same, asked about other sides of the decisions."""
        table = replace(self.table, two_sides=sides)
        other = replace(self, model=audited(self.model, table, self.decision), table=table)
        vars(other).update(
            decisions=self.decisions, switch_changes=self.switch_changes, asked=self.asked
        )
        return other

    @cached_property
    def asked(self) -> Asked:
        return Asked(self.people)

    @cached_property
    def logits(self) -> Floats:
        """f of each person."""
        with self.asked.unchanged():
            return self.model.logits(self.people)

    @cached_property
    def predictions(self) -> NDArray[np.int64]:
        """1 if the logit is above 0: class 1 or, with more than two, one of the decisions to
        reach."""
        return decides_one(self.logits).astype(np.int64)

    @cached_property
    def decisions(self) -> NDArray[np.int64]:
        """The class decided about each person, by number."""
        if not self.table.multiclass:
            return self.predictions
        with self.asked.unchanged():
            return decisions_about(self.people, self.model, self.table)

    @cached_property
    def switch_changes(self) -> Mask | None:
        """Whose decision changes when the protected attribute alone is switched to any other value;
        None if the model does not see it."""
        return None if self.sensitive.blind else self.changed_by(self.sensitive.columns)

    def changed_by(self, columns: Sequence[Hashable]) -> Mask:
        """Whose decision changes when these columns alone are switched to any other values of
        training rows, or to the median of any other band."""
        bands = {name: cut for name, cut in self.sensitive.bands.items() if name in columns}
        typical = {name: cut.typical(self.table.X[name]) for name, cut in bands.items()}
        values = pd.DataFrame(
            {name: typical.get(name, self.table.X[name]) for name in columns}
        ).drop_duplicates()
        group_values(groups_in(values, lambda column: column)[0], " × ".join(map(str, columns)))
        changed = np.zeros(len(self.people), bool)
        for combination in values.itertuples(index=False, name=None):
            people = self.people.copy()
            for name, value in zip(columns, combination, strict=True):
                dtype = self.table.X[name].dtype
                switched = pd.Series([value] * len(people), index=people.index, dtype=dtype)
                if name in bands:
                    band = bands[name].of(people[name])
                    switched = switched.where(band != bands[name].of(switched), people[name])
                people[name] = switched
            changed |= decisions_about(people, self.model, self.table) != self.decisions
        return changed

    def column(self, name: Hashable) -> Hashable:
        """A column named by a rule; an error if the table does not have it."""
        if name not in self.table.X.columns:
            meant = nearest(name, self.table.X.columns, "The table has")
            raise SettingError(
                f"A rule names column '{name}', which the table does not have. {meant}"
            )
        return name


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """What a rule's `name` decides with its arguments: one of ours, "&", "|", "~", a user's
    "function" or "mask"."""

    name: str
    arguments: tuple[Any, ...]

    def __call__(self, situation: Situation) -> Mask:
        mask = _DECIDE[self.name](situation, *self.arguments)
        if isinstance(mask, Rule):
            raise SettingError(f"{mask.name} is a function that makes a rule: write {mask.name}().")
        return np.asarray(mask, dtype=bool)

    def __and__(self, other: Rule) -> Rule:
        return Rule("&", (self, other))

    def __or__(self, other: Rule) -> Rule:
        return Rule("|", (self, other))

    def __invert__(self) -> Rule:
        return Rule("~", (self,))

    def __repr__(self) -> str:
        return self.text

    @property
    def rebuildable(self) -> bool:
        """Whether its text is enough to make it again."""
        inner = [rule for rule in self.arguments if isinstance(rule, Rule)]
        return self.name not in ("function", "mask") and all(rule.rebuildable for rule in inner)

    @property
    def text(self) -> str:
        """As the parser reads it; of a function its name, of a mask its size."""
        if self.name == "mask":
            return f"a mask with {int(self.arguments[0].sum())} of {self.arguments[0].size} set"
        if self.name == "function":
            return str(getattr(self.arguments[0], "__name__", "a callable"))
        parts = []
        for argument in self.arguments:
            if isinstance(argument, Rule):
                joined = argument.name in ("&", "|")
                parts.append(f"({argument.text})" if joined else argument.text)
            elif isinstance(argument, str) and argument.isidentifier() and not iskeyword(argument):
                parts.append(argument)
            else:
                value = argument.item() if isinstance(argument, np.generic) else argument
                parts.append(repr(value))
        if self.name in ("&", "|", "~"):
            return f" {self.name} ".join(parts) if len(parts) > 1 else f"~{parts[0]}"
        return f"{self.name}({', '.join(parts)})" if parts else self.name


P = ParamSpec("P")
_DECIDE: dict[str, Callable[..., Any]] = {
    "&": lambda s, left, right: left(s) & right(s),
    "|": lambda s, left, right: left(s) | right(s),
    "~": lambda s, rule: ~rule(s),
    "function": lambda s, function: function(s),
    "mask": lambda s, mask: mask,
}
"""By name what a rule decides, so that it can be pickled; ours follow."""


def _rule(decide: Callable[Concatenate[Situation, P], Any]) -> Callable[P, Rule]:
    """Turns a function of a situation into a function that makes a rule."""
    _DECIDE[decide.__name__] = decide
    takes = inspect.signature(decide)

    @wraps(decide)
    def make(*arguments: P.args, **named: P.kwargs) -> Rule:
        values = takes.bind(None, *arguments, **named).args[1:]
        return Rule(decide.__name__, tuple(value for value in values if value is not None))

    return make


# --- φ: may this person be audited? ---------------------------------------------------------------


@_rule
def stable_under_switch(s: Situation, column: Hashable | None = None) -> Mask:
    """The decision stays the same when the protected attribute, or `column`, alone is switched (the
    published φ). If the model does not see it, this holds for everyone."""
    changes = s.switch_changes if column is None else s.changed_by([s.column(column)])
    return np.ones(len(s.people), bool) if changes is None else ~changes


@_rule
def in_group(s: Situation, column: Hashable, value: Any) -> Mask:
    """The person's `column` is `value`."""
    protected = str(column) == s.sensitive.name
    trained = s.sensitive.values if protected else s.table.X[s.column(column)]
    values = group_values(trained, str(column))
    if spelled(value) not in map(spelled, values):
        raise SettingError(
            f"Rule in_group: '{column}' has no value '{value}'. {nearest(value, values)}"
        )
    ours = s.groups if protected else fill_missing(s.people[column])
    return np.asarray(spellings(ours) == spelled(value))


@_rule
def predicted(s: Situation, value: Any) -> Mask:
    """The decision about the person is the one named: `value`, a label's name or value, or 0 or
    1."""
    codes = range(len(s.label_names))
    return np.asarray(s.decisions == label_number(value, s.label_names, codes, "Rule predicted"))


@_rule
def everyone(s: Situation) -> Mask:
    """Every person."""
    return np.ones(len(s.people), dtype=bool)


# --- ψ: may this training row's label be flipped for this person? ---------------------------------


@_rule
def same_group(s: Situation, column: Hashable | None = None) -> Mask:
    """The training row has the person's value of the protected attribute, or of `column`."""
    if column is None or str(column) == s.sensitive.name:
        ours = s.groups
        theirs = s.sensitive.values
    else:
        name = s.column(column)
        ours = spellings(fill_missing(s.people[name]))
        theirs = spellings(fill_missing(s.table.X[name]))
    # By number: texts of thousands of people and rows take minutes to compare.
    numbers, _ = pd.factorize(np.concatenate([ours, theirs]).astype(object), use_na_sentinel=False)
    return np.asarray(numbers[: len(ours), None] == numbers[None, len(ours) :])


@_rule
def labelled_as_predicted(s: Situation) -> Mask:
    """The training row's label equals the decision about the person."""
    return np.asarray(s.table.codes[None, :] == s.decisions[:, None])


@_rule
def correctly_predicted(s: Situation) -> Mask:
    """The model predicts the training row's own label."""
    return np.broadcast_to(s.training_decisions == s.table.codes, (len(s.people), s.table.n))


@_rule
def doubted(s: Situation, least: float = 0.5) -> Mask:
    """The training row is in the person's group, its label equals the decision about the person,
    and the label is in doubt: by the standard of the other groups, the other label has a
    probability above `least`."""
    if not isinstance(least, (int, float)) or not 0 <= least < 1:
        raise SettingError(f"Rule doubted: {least!r} must be a probability from 0 to below 1.")
    if s.doubts is None:
        raise SettingError("Rule doubted: no doubts are known here, since no groups were compared.")
    return (same_group() & labelled_as_predicted())(s) & (s.doubts() > least)


@_rule
def everything(s: Situation) -> Mask:
    """Every training row."""
    return np.ones((len(s.people), s.table.n), dtype=bool)


def published_psi(column: Hashable | None = None) -> Rule:
    """The paper's ψ: rows of the person's group whose label and prediction equal the decision about
    the person."""
    return same_group(column) & labelled_as_predicted() & correctly_predicted()


# --- from text, callable or mask ------------------------------------------------------------------

PHI: dict[str, Callable[..., Rule]] = {
    rule.__name__: rule for rule in (stable_under_switch, in_group, predicted, everyone)
}
PSI: dict[str, Callable[..., Rule]] = {"published": published_psi} | {
    rule.__name__: rule
    for rule in (same_group, labelled_as_predicted, correctly_predicted, doubted, everything)
}


def meanings(text: str) -> dict[str, str]:
    """The rules that a rule's text names, each with the first sentence of its docstring."""
    rules = PHI | PSI
    named = dict.fromkeys(re.findall(r"[a-z_]+", text))
    docs = {name: " ".join((rules[name].__doc__ or "").split()) for name in named if name in rules}
    return {name: doc.removesuffix(".").partition(". ")[0] + "." for name, doc in docs.items()}


def as_rule(given: Any, option: Literal["phi", "psi"]) -> Rule:
    """φ or ψ from a rule, its text, a callable of the situation, or a mask. φ's has one entry per
    person; ψ's one per training row, or one row of entries per person."""
    if isinstance(given, Rule):
        return given
    if isinstance(given, str):
        return _parsed(given, PHI if option == "phi" else PSI, option)
    if callable(given):
        return Rule("function", (given,))
    mask = np.array(given)
    if mask.dtype != bool:
        raise SettingError(
            f"{option} must be a rule, its text, a callable or a boolean mask, not {given!r}."
        )
    return Rule("mask", (mask,))


def _parsed(text: str, names: dict[str, Callable[..., Rule]], option: str) -> Rule:
    """``a & ~(b | c(x, 'y, z'))`` → Rule, by Python's own grammar; other values than words are
    quoted."""

    def refused(problem: str) -> SettingError:
        return SettingError(
            f"{option} '{text if len(text) < 200 else f'{text[:200]}…'}': {problem}. Rules are "
            f"{', '.join(names)}, joined by & | ~ and parentheses. Put values that are not one "
            "word in quotes, for example predicted('bad credit') & in_group(sex, female)."
        )

    def rule(node: ast.expr, depth: int = 1) -> Rule:
        if depth > MAX_RULE_DEPTH:
            raise refused("is nested too deeply")
        match node:
            case ast.BinOp(left, ast.BitAnd() | ast.BitOr() as joined, right):
                both = rule(left, depth + 1), rule(right, depth + 1)
                return Rule("&" if isinstance(joined, ast.BitAnd) else "|", both)
            case ast.UnaryOp(ast.Invert(), operand):
                return ~rule(operand, depth + 1)
            case ast.Name(name):
                values = list[Any]()
            case ast.Call(ast.Name(name), arguments, []):
                values = list(map(value, arguments))
            case _:
                raise refused(f"'{ast.unparse(node)[:100]}' is not a rule")
        if name not in names:
            raise refused(f"there is no rule '{name[:100]}'")
        try:
            return names[name](*values)
        except TypeError:
            raise refused(f"rule '{name}' does not take {len(values)} argument(s)") from None

    def value(node: ast.expr) -> Any:
        with suppress(ValueError, TypeError):
            literal = node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
            if isinstance(literal, (str, int, float)):
                return literal
        raise refused(f"'{ast.unparse(node)[:100]}' is not a value; put it in quotes")

    try:
        return rule(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:
        place = ""
        if error.offset:
            rest = text.strip()[max(0, error.offset - 1) :]
            place = f" near '{rest[:20]}'"
        raise refused(f"cannot be read{place}") from None
    except (RecursionError, MemoryError):
        raise refused("is nested too deeply") from None


# --- what φ and ψ say -----------------------------------------------------------------------------

DECISION, SWITCH, RULE, ADMITTED = range(4)
LEFT_OUT = ("decision", "switch", "rule", None)
"""Why φ leaves a person out: the decision is not the one asked about, a switch of the protected
attribute changes it, or the rule says so. Where several reasons hold, the first."""


def why_left_out(phi: Rule, situation: Situation, towards: int | None = None) -> list[str | None]:
    """Why φ leaves each person out; None for those whom it admits. `towards`: who has this
    decision, by number, has nothing to ask."""

    def reasons(rule: Rule) -> NDArray[np.int64]:
        if rule.name == "&":
            return np.minimum(*map(reasons, rule.arguments))
        if rule.name == "|":
            one, other = map(reasons, rule.arguments)
            shared = np.where(one == other, one, RULE)
            return np.where(np.maximum(one, other) == ADMITTED, ADMITTED, shared)
        if rule.name == "~":
            return np.where(reasons(rule.arguments[0]) == ADMITTED, RULE, ADMITTED)
        why = RULE
        if rule.name == "predicted":
            why = DECISION
        elif rule.name == "stable_under_switch" and not rule.arguments:
            why = SWITCH
        admitted = _shaped(rule, situation, (len(situation.people),), "phi")
        return np.where(admitted, ADMITTED, why)

    codes = reasons(phi)
    return [LEFT_OUT[why] for why in np.where(situation.decisions == towards, DECISION, codes)]


def flippable(psi: Rule, situation: Situation) -> Allowed:
    """ψ's answer, checked: which training labels may be flipped for each person."""
    people = len(situation.people)
    rows = situation.table.n
    # A user's own mask or function is about all people at once.
    of_user = not psi.rebuildable
    size = max(1, people if of_user else MASK_ENTRIES_AT_ONCE // max(1, rows))
    kinds = dict[bytes, int]()
    """The number of each mask, by its bits."""
    kind = list[int]()
    for first in range(0, people, size):
        some = np.arange(first, min(people, first + size))
        about = situation if of_user else situation.of(some)
        block = _shaped(psi, about, (len(some), rows), "psi")
        for mask in np.packbits(block, axis=1):
            kind.append(kinds.setdefault(mask.tobytes(), len(kinds)))
    packed = np.frombuffer(b"".join(kinds), np.uint8).reshape(len(kinds), -(-rows // 8))
    return Allowed(np.unpackbits(packed, axis=1, count=rows).view(bool), np.array(kind, np.int64))


def _shaped(rule: Rule, situation: Situation, shape: tuple[int, ...], name: str) -> Mask:
    mask = rule(situation)
    if mask.shape not in (shape, shape[1:]):
        wanted = "one entry per person"
        apart = ""
        if name == "psi":
            wanted = f"one entry for each of {shape[1]} training rows"
            apart = " Rows without a label and rows set aside for validation have none."
        raise SettingError(
            f"{name} gave a mask of shape {mask.shape}; it needs {wanted}: {shape}.{apart}"
        )
    return np.broadcast_to(mask, shape)


# --- what ψ allows: a few masks serve everyone, since people of one group share them ------------


@dataclass(frozen=True, eq=False)
class Allowed:
    """`masks [kinds × rows]`; `kind [people]` is the index of each person's mask."""

    masks: Mask
    kind: NDArray[np.int64]

    def __iter__(self) -> Iterator[Mask]:
        return (self.masks[kind] for kind in self.kind)

    def __getitem__(self, person: int | np.integer) -> Mask:
        """One person's mask, `[rows]`."""
        return self.masks[self.kind[person]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many labels may be flipped for each person."""
        return self.masks.sum(axis=1)[self.kind]

    def of_people(self, people: People) -> Allowed:
        return Allowed(self.masks, self.kind[people if isinstance(people, slice) else list(people)])

    def permits(self, rows: Iterable[int]) -> Mask:
        """Whether all of these labels may be flipped for each person, `[people]`."""
        permits: Mask = np.all(self.masks[:, list(rows)], axis=1)
        return permits[self.kind]
