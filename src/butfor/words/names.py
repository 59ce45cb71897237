"""The reader's words for people, groups, labels and columns, from a names.toml; plain forms for
what has no name:

[people]
noun = "applicants"
[groups.race]
hispanic = "Hispanic"
[labels]
True = "were approved"
[columns]
obrat = "debt ratio"
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from butfor.support.errors import SettingError, nearest, plural
from butfor.support.files import toml_of

T = TypeVar("T", bound=Any)
SECTIONS = ("people", "groups", "labels", "columns")
PEOPLE = ("noun", "one")
"""Keys of [people]: several people, and one of them."""
ATTRIBUTE_JOINT = " × "
"""Between the names of several attributes."""
VALUE_JOINT = " · "
"""Between their values."""
LABEL_JOINT = " or "
"""Between several labels."""
EQUALS = " = "
"""Between a column and its value."""


@dataclass(frozen=True)
class Names:
    """What the reader calls people, groups, labels and columns. Every method falls back to a plain
    form."""

    people: dict[str, str] = field(default_factory=dict)
    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """ "applicants", "people"."""
        return self.people.get("noun") or "people"

    @property
    def one(self) -> str:
        """ "applicant", "person"."""
        usual = "person" if self.noun == "people" else self.noun.removesuffix("s")
        return self.people.get("one") or usual

    def count(self, number: float) -> str:
        """ "1 applicant", "3 applicants"."""
        return plural(number, self.one, self.noun)

    def group(self, attribute: str, value: Any) -> str:
        """ "Hispanic", "race = hispanic", "race = black and sex = f"."""
        parts = [f"{self.column(name)}{EQUALS}{one}" for name, one in _parts(attribute, value)]
        return self._named(attribute, value) or " and ".join(parts)

    def value(self, attribute: str, value: Any) -> str:
        """ "Hispanic", "hispanic": in a column that is called after the attribute."""
        return self._named(attribute, value) or str(value)

    def people_in(self, attribute: str, value: Any) -> str:
        """ "Hispanic applicants", "people with race = hispanic"."""
        named = self._named(attribute, value)
        if named:
            return f"{named} {self.noun}"
        return f"{self.noun} with {self.group(attribute, value)}"

    def comparable(self, attribute: str, reference: Any = None) -> str:
        """ "comparable people in other groups", "comparable White applicants"."""
        if reference is None:
            return f"comparable {self.noun} in other groups"
        return f"comparable {self.people_in(attribute, reference)}"

    def were(self, label: str | Sequence[str]) -> str:
        """ "were approved", "were labelled approved = True", "were labelled 'good' or 'fair'"."""
        if not isinstance(label, str):
            phrases = [self.were(one) for one in label]
            shared = ""
            for start in ("were labelled ", "were "):
                if all(phrase.startswith(start) for phrase in phrases):
                    shared = start
                    break
            return shared + LABEL_JOINT.join(phrase.removeprefix(shared) for phrase in phrases)
        return self._label(label) or f"were labelled {self.label(label)}"

    def label(self, label: str | Sequence[str]) -> str:
        """ "approved", "approved = True", "'good credit'": for tables, and after "the decision is";
        of several labels each."""
        if not isinstance(label, str):
            return LABEL_JOINT.join(map(self.label, label))
        quoted = label if EQUALS in label else f"'{label}'"
        return self._label(label).removeprefix("were ") or quoted

    def column(self, name: object) -> str:
        """ "debt ratio", "obrat"."""
        return self.columns.get(str(name), str(name))

    def _label(self, label: str) -> str:
        return self.labels.get(label) or self.labels.get(label.rpartition(EQUALS)[2], "")

    def _named(self, attribute: str, value: Any) -> str:
        """ "Black female", if every attribute's value has a name."""
        words = [self.groups.get(name, {}).get(one, "") for name, one in _parts(attribute, value)]
        return " ".join(words) if all(words) else ""

    # --- files ------------------------------------------------------------------------------------

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """From a TOML file."""
        content = toml_of(
            Path(file), "The names", "'butfor check-table --write-names' writes a template."
        )
        return cls.of(content, f"'{file}'")

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str = "names") -> Self:
        """From sections as in the file."""
        for section, entries in content.items():
            if section not in SECTIONS:
                raise SettingError(
                    f"{where}: there is no section [{section}]. {nearest(section, SECTIONS)}"
                )
            tables = {section: entries}
            if section == "groups" and isinstance(entries, Mapping):
                tables = {f"groups.{name}": words for name, words in entries.items()}
            for table, words in tables.items():
                if not isinstance(words, Mapping):
                    example = f'[{section}]\nname = "word"'
                    if "groups" in table:
                        example = '[groups.race]\nwhite = "White"'
                    raise SettingError(f"{where}: [{table}] must hold names, such as\n{example}")
                for name, word in words.items():
                    if not isinstance(word, str) or not word.strip():
                        raise SettingError(
                            f'{where}: [{table}] {name} = {word!r}: write words in quotes, "…".'
                        )
                    if section == "people" and name not in PEOPLE:
                        raise SettingError(
                            f"{where}: [people] has no '{name}'. {nearest(name, PEOPLE)}"
                        )
        return cls(**{section: dict(entries) for section, entries in content.items()})

    def check(
        self,
        groups: Mapping[str, Iterable[object]],
        labels: Iterable[str],
        columns: Iterable[object],
    ) -> Self:
        """Refuse names of what the table does not have. `groups`: by attribute its values."""
        spellings = list[str]()
        for label in labels:
            spellings += [label, label.rpartition(EQUALS)[2]]
        mentioned: list[tuple[str, Iterable[str], Iterable[object]]] = [
            ("protected attribute", self.groups, groups)
        ]
        for attribute, words in self.groups.items():
            mentioned.append((f"group of {attribute}", words, groups.get(attribute, ())))
        mentioned.append(("label", self.labels, spellings))
        mentioned.append(("column", self.columns, columns))
        for what, names, in_table in mentioned:
            possible = sorted(set(map(str, in_table)))
            missing = [name for name in names if name not in possible]
            if missing:
                meant = nearest(missing[0], possible, "The table has")
                raise SettingError(
                    f"The names mention '{missing[0]}': the table has no such {what}. {meant}"
                )
        return self

    def to_dict(self) -> dict[str, Any]:
        return {section: words for section, words in asdict(self).items() if words}


PLAIN = Names()


def named(part: T, names: Names) -> T:
    """A part of a record, such as a comparison of groups, that speaks in these names; a record
    holds them once."""
    if part is None or part.names == names:
        return part
    speaking = copy(part)
    object.__setattr__(speaking, "names", names)
    return speaking


def template(
    groups: Mapping[str, Iterable[object]], labels: Iterable[str], columns: Iterable[object]
) -> str:
    """A file for `Names.read` in which every name is commented out."""
    lines = [
        "# Take away a # and write your own words. What has no name keeps its plain form.",
        "",
        "[people]",
    ]
    lines += ['# noun = "applicants"', '# one = "applicant"']
    for attribute, values in groups.items():
        lines += ["", f"[groups.{_quoted(attribute)}]"]
        lines += [f"# {_quoted(one)} = {_quoted(one)}" for one in values]
    lines += ["", "# As in: Hispanic applicants were approved less often.", "[labels]"]
    lines += [f'# {_quoted(label.rpartition(EQUALS)[2])} = "were …"' for label in labels]
    lines += ["", "[columns]", *(f"# {_quoted(name)} = {_quoted(name)}" for name in columns)]
    return "\n".join([*lines, ""])


def _quoted(text: object) -> str:
    quoted = json.dumps(str(text), ensure_ascii=False)
    return quoted.replace("\x7f", r"\u007f")  # TOML refuses it as it is


def _parts(attribute: str, value: Any) -> list[tuple[str, str]]:
    """Each attribute with its value."""
    names = attribute.split(ATTRIBUTE_JOINT)
    values = str(value).split(VALUE_JOINT)
    if len(names) != len(values):
        return [(attribute, str(value))]
    return list(zip(names, values, strict=True))
