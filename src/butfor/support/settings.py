"""How a setting is declared: once, as a field of a frozen dataclass, with its default and the
sentence that explains it.

    @dataclass(frozen=True, kw_only=True)
    class ComparisonSettings:
        draws: int | None = field(default=None, metadata=declared("Tables to draw.", kind=int))

The object is what Python code hands on. The command reads the same declarations: it makes an option
or a `--set NAME=VALUE` of each. This file imports little, since `--help` reads declarations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

DECLARED = "declared"
"""The key of a field's metadata."""
SAYS_DEFAULT = "Default:"
"""A sentence that has this word says what happens without the option, so that help need not show
the value in Python."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Declared:
    """What the command line needs to know of a setting besides its name and default."""

    sentence: str
    kind: Any = str
    """What a text is turned into: str, int, bool, Path, or a type of click."""
    several: bool = False
    """Whether it takes names separated by commas, and may be repeated."""
    repeated: bool = False
    """Whether it may be repeated, each time with a text of its own."""
    group: str = ""
    """The heading under which help lists the option; without one it is a setting of `--set`."""
    recorded: bool = False
    """Whether the record of a run has a field of that name, from which a replay takes it."""
    metavar: str | None = None


def declared(sentence: str, **more: Any) -> dict[str, Declared]:
    """The metadata of a settings object's field. `more` are fields of `Declared`."""
    return {DECLARED: Declared(sentence, **more)}


def declarations(settings: type) -> dict[str, Declared]:
    """What the fields of a settings object declare, by name, in order."""
    return {
        each.name: each.metadata[DECLARED] for each in fields(settings) if DECLARED in each.metadata
    }


def default_of(settings: type, name: str) -> Any:
    """The default that is shown for a setting; None where its sentence tells it."""
    (default,) = (each.default for each in fields(settings) if each.name == name)
    sentence = declarations(settings)[name].sentence
    return None if default is MISSING or SAYS_DEFAULT in sentence else default


def signature_with(options: type, settings: type) -> Callable[[F], F]:
    """Lets a function that takes `**name: Unpack[options]` show each of them in its signature, with
    the default that `settings` gives it, for `help` and for scikit-learn's metadata routing."""
    defaults = {each.name: each.default for each in fields(settings)}
    names = list(options.__annotations__)
    written = inspect.get_annotations(settings)

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        last = parameters.pop()
        assert last.kind is inspect.Parameter.VAR_KEYWORD
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters += [
            inspect.Parameter(name, keyword, default=defaults[name], annotation=written[name])
            for name in names
        ]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return shown
