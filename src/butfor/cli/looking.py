"""`butfor check-table`: a look at a table before anything is trained."""

from __future__ import annotations

import json
from typing import Any

import click

from butfor.cli.options import TABLE, with_options
from butfor.cli.wiring import bands_in, load
from butfor.terminal import one_line, say, shown_json


@click.command("check-table")
@click.argument("table")
@with_options(TABLE)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON, and nothing else.")
def check_table(table: str, as_json: bool, strict: bool, **options: Any) -> int:
    """Look at TABLE, as an audit would read and split it, for what makes an audit say less than it seems to.

    \b
    butfor check-table loans.csv --label approved --sensitive sex

    Copies of the label and columns that tell it almost alone, identifiers, constant columns, numbers that stand for
    "missing" (999999), numbers read as text, and test rows that are training rows. With --strict, exit code 2 where
    there is any.
    """
    from butfor.data.check import check_table as concerns_about
    from butfor.situation import Sensitive

    notes: list[str] = []
    data = load(table, options, notes.append)
    beside = data.sensitive if data.groups is None else data.groups["train"]
    attribute = Sensitive.of(beside, data.X_train, bands_in(options["bands"]))
    found = concerns_about(data.X_train, data.y_train, data.X_test)
    if as_json:
        say(shown_json(json.dumps([concern.to_dict() for concern in found], indent=1, ensure_ascii=False)))
        return 2 if found and strict else 0
    share, name = data.y_train.mean(), data.label_names[1]
    say(
        f"{data.name}: {len(data.X_train)} training, {len(data.X_val)} validation and {len(data.X_test)} test rows, "
        f"{data.X_train.shape[1]} columns; {100 * share:.0f} % of the training rows are labelled '{name}'."
    )
    for line in (*notes, *attribute.remarks, *map(str, found)):
        say(one_line(line))
    say(f"{len(found)} thing{'s' * (len(found) != 1)} to look at." if found else "Nothing odd was found.")
    return 2 if found and strict else 0
