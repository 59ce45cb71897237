"""Reading a table as the options say, and the commands about tables: `butfor standard`,
`check-table`, `datasets`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from cloup import command, option, option_group

from butfor.cli import options as opt
from butfor.cli import printing
from butfor.cli.options import OutputOptions, TableOptions, told_of
from butfor.standard.settings import ComparisonSettings
from butfor.support.errors import (
    SettingError,
    TableError,
    listed,
    plural,
)
from butfor.support.terminal import (
    one_line,
    say,
    say_wrapped,
    shown_json,
)

if TYPE_CHECKING:
    from butfor.table.checking import Concern
    from butfor.table.embedded import Dataset
    from butfor.table.groups import Sensitive
    from butfor.words.names import Names


def load(
    table: str,
    columns: TableOptions,
    note: Callable[[str], None],
    *,
    whole: bool = False,
    hold_out: bool = True,
) -> Dataset:
    """The table that the options name. `whole`: it is not split; `hold_out`: whether validation
    rows are set aside."""
    from butfor.table.reading import load_table

    return load_table(
        table,
        label=columns.label,
        sensitive=columns.sensitive,
        drop=opt.names_in(columns.drop),
        identifier=columns.id,
        cluster=columns.cluster,
        weight=columns.weight,
        missing=columns.missing,
        decimal=columns.decimal,
        day_first=columns.day_first,
        test=columns.test,
        validation=columns.validation,
        split_seed=columns.split_seed,
        whole=whole,
        hold_out=hold_out,
        note=note,
    )


def adverse_of(data: Dataset, given: str | None) -> list[str] | None:
    """The labels that people would rather not have, by name: those given or, of an embedded set,
    the one it knows."""
    from butfor.table.labels import label_number

    if given is None:
        return None if data.adverse is None else [data.adverse]
    labels = [given]
    if given not in data.label_names:
        labels = list(map(str.strip, given.split(",")))
    return [data.label_names[label_number(label, data.label_names)] for label in labels]


def names_of(data: Dataset, columns: TableOptions, file: str | None) -> Names:
    """What the file of --names calls people, groups, labels and columns of this table."""
    from butfor.words.names import Names

    if not file:
        return Names()
    return Names.read(file).check(**nameable(data, protected(data, columns)))


def protected(data: Dataset, columns: TableOptions) -> Sensitive:
    """The protected attribute of the training rows."""
    from butfor.table.groups import Sensitive

    given = data.sensitive if data.groups is None else data.groups["train"]
    return Sensitive.of(given, data.X_train, opt.bands_in(columns.bands), data.roles.dates)


def nameable(data: Dataset, sensitive: Sensitive) -> dict[str, Any]:
    """Groups by attribute (not their combinations), labels and columns."""
    each = [one for one in sensitive.each if not one.combinations]
    groups = {one.name: sorted(set(map(str, one.values))) for one in each}
    return {
        "groups": groups,
        "labels": data.label_names,
        "columns": list(dict.fromkeys([*data.X_train, *groups])),
    }


@command("standard")
@opt.TABLE_NAME
@option_group("Table", *opt.COLUMNS)
@option_group(
    "Question",
    opt.ADVERSE,
    *opt.COMPARISON,
    opt.option_of(ComparisonSettings, "standard", flag="--model"),
    opt.option_of(ComparisonSettings, "n_jobs"),
    opt.option_of(ComparisonSettings, "random_state"),
)
@option_group(
    "Output",
    opt.option_of(OutputOptions, "out", help="Folder for the page, labels.csv and standard.json."),
    *(opt.OVERWRITE, opt.NAMES, opt.CONFIG, opt.JSON, opt.QUIET),
)
def standard(
    table: str,
    adverse: str | None,
    model: str | None,
    n_jobs: int | None,
    random_state: int,
    **options: Any,
) -> int:
    """Are a group's labels held to another standard?

    \b
    butfor standard loans.csv --label approved --adverse no --sensitive race
    butfor standard german --out standards/

    Compares each group with people of the other groups whose recorded columns are alike, and
    estimates for every label how likely it is to be wrong. Uses all rows of TABLE and needs no
    model of yours.
    """
    import pandas as pd

    from butfor.models.by_name import model_named
    from butfor.standard.compare import compare_standards
    from butfor.standard.inputs import LARGE_TABLE_ROWS
    from butfor.standard.wrong import IF_REAL, WRONG
    from butfor.support.files import (
        as_csv,
        check_folder,
        claimed,
        save,
    )
    from butfor.support.progress import ConsoleProgress, Progress

    columns = told_of(TableOptions, options)
    output = told_of(OutputOptions, options)
    progress = Progress() if output.quiet or output.json else ConsoleProgress()
    if output.out is not None:
        click.get_current_context().with_resource(claimed(output.out))
        check_folder(output.out, output.overwrite)
    data = load(table, columns, progress.note, whole=True)
    name = data.name
    names = names_of(data, columns, output.names)
    sensitive = data.sensitive
    bad = adverse_of(data, adverse)
    if bad is None:
        raise SettingError(
            f"Name the unfavourable label with --adverse: {listed(data.label_names)}."
        )
    # All rows in the file's order, with their labels by name; what an audit splits is one table
    # here.
    X, y, *beside = data.rows_of("train", "val", "test")
    y = y.map(dict(enumerate(data.label_names)))
    groups, cluster, weight = beside
    del data  # its parts are copies of X
    if len(X) > LARGE_TABLE_ROWS:  # text takes ten times the memory of codes
        X = X.astype(
            {
                column: "category"
                for column in X.columns
                if isinstance(X[column].dtype, pd.StringDtype)
            }
        )
    found = compare_standards(
        X,
        y,
        sensitive_features=sensitive if groups is None else groups,
        sensitive_bands=opt.bands_in(columns.bands),
        adverse=bad,
        standard=None if model is None else model_named(model),
        cluster=cluster,
        sample_weight=weight,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        **opt.comparison_told(options, sensitive),
    )
    found = replace(found, table=name, names=names)
    if output.out is not None:
        found.to_json(output.out / "standard.json")
        save(as_csv(found.to_frame().rename_axis("row")), output.out / "labels.csv")
        found.to_html(output.out / "standard.html")
    if output.json:
        say(shown_json(found.to_json()))
    else:
        printing.print_standards(found)
        if found.interrupted:
            say(f"Stopped after {plural(found.draws, 'draw')}.", err=True)
        if output.out is not None and not output.quiet:
            say_wrapped(
                f"Wrote standard.html, labels.csv and standard.json into {output.out}.", err=True
            )
            say_wrapped(f"Column 'wrong' of labels.csv: {WRONG}", err=True)
            say_wrapped(f"Column 'wrong_if_real': {IF_REAL}", err=True)
    return 130 if found.interrupted else 0


@command("check-table")
@opt.TABLE_NAME
@opt.TABLE
@opt.ADVERSE
@opt.CONFIG
@opt.SET
@option("--strict", is_flag=True, help="Exit with code 2 if anything but little overlap is found.")
@option("--write-names", type=opt.ROWS, help="Write a template for --names to this file.")
@opt.JSON
def check_table(
    table: str,
    settings: dict[str, Any],
    json: bool,
    strict: bool,
    write_names: str | None,
    adverse: str | None,
    **options: Any,
) -> int:
    """Check a table for problems that would mislead an audit.

    \b
    butfor check-table loans.csv --label approved --sensitive sex

    Looks for groups without comparable people, columns that give the label away or determine the
    protected attribute, probabilities of groups, identifiers, constant columns, numbers that stand
    for "missing" (999999), numbers read as text, and test rows that are also training rows.
    """
    from butfor.table.checking import concerns_of
    from butfor.table.labels import label_number

    notes: list[str] = []
    columns = told_of(TableOptions, settings | options)
    data = load(table, columns, notes.append)
    attribute = protected(data, columns)
    bad = adverse_of(data, adverse) or data.label_names
    named = {label_number(label, data.label_names) for label in bad}
    concerns = concerns_of(data.X_train, data.y_train, attribute, data.X_test)
    too_little, poor = overlap_concerns(data, columns, named)
    concerns = [*too_little, *concerns, *poor]
    if write_names is not None:
        from butfor.support.files import real, save
        from butfor.words.names import template

        if real(Path(write_names)).exists():
            raise SettingError(
                f"--write-names {write_names}: the file is there already; name another."
            )
        save(template(**nameable(data, attribute)), write_names)
        say(f"Wrote {write_names}. Take away a # and write your own words.", err=True)
    if json:
        say(
            shown_json(
                dumps([asdict(concern) for concern in concerns], indent=1, ensure_ascii=False)
            )
        )
    else:
        shares = {
            label: (data.y_train == k).mean()
            for k, label in enumerate(data.label_names)
            if k in named
        }
        common = ", ".join(
            f"{100 * share:.0f} % labelled '{label}'" for label, share in shares.items()
        )
        say(
            f"{data.name}: {len(data.X_train)} training, {len(data.X_val)} validation and "
            f"{len(data.X_test)} test rows, {plural(data.X_train.shape[1], 'column')}; {common}."
        )
        for line in (*notes, *attribute.remarks, *map(str, concerns)):
            say(one_line(line))
        say(f"{plural(len(concerns), 'thing')} to look at." if concerns else "Nothing to look at.")
    return 2 if strict and len(concerns) > len(poor) else 0


def overlap_concerns(
    data: Dataset, columns: TableOptions, adverse: set[int]
) -> tuple[list[Concern], list[Concern]]:
    """A concern about groups that cannot be compared, or that none can, and one about groups with
    little overlap, among all rows, as `butfor standard` compares them. `adverse`: labels by
    number."""
    from butfor.standard.compare import overlaps
    from butfor.standard.groups import little_overlap_in_words, not_comparable_in_words
    from butfor.table.checking import Concern
    from butfor.table.groups import Sensitive

    X, y, groups, cluster, weight = data.rows_of("train", "val", "test")
    given = data.sensitive if groups is None else groups
    attribute = Sensitive.of(given, X, opt.bands_in(columns.bands), data.roles.dates)
    try:
        found = overlaps(
            X,
            ~y.isin(adverse if len(adverse) < len(data.label_names) else [0]).to_numpy(),
            attribute.each,
            cluster=cluster,
            weight=None if weight is None else weight.to_numpy(),
        )
    except (SettingError, TableError) as error:
        return [Concern("overlap", (), str(error))], []
    few = dict[str, str]()
    little = dict[str, str]()
    for group, overlap in found.items():
        rows = len(group.rows)
        name = f"{group.attribute} = {group.value}"
        if overlap.too_little(rows):
            few[name] = overlap.why(rows)
        elif overlap.poor:
            little[name] = overlap.why(rows)
    too_little = list[Concern]()
    poor = list[Concern]()
    if few:
        too_little = [Concern("overlap", (), not_comparable_in_words(few))]
    if little:
        poor = [Concern("little overlap", (), little_overlap_in_words(little))]
    return too_little, poor


@click.command()
@opt.JSON
def datasets(json: bool) -> None:
    """List the embedded data sets."""
    from butfor.table.embedded import catalogue_frame

    frame = catalogue_frame()
    if json:
        say(frame.to_json(orient="records", indent=1))
        return
    words = {"label_balance": "class 1", "sensitive": "protected", "embedded": "here"}
    shown = frame[
        ["name", "rows", "inputs", "sensitive", "label_balance", "budget", "embedded"]
    ].rename(columns=words)
    shown["class 1"] = [
        f"{100 * v:.1f} %" if v is not None and v == v else "–" for v in shown["class 1"]
    ]
    shown["here"] = ["yes" if here else "fetched on first use" for here in frame["embedded"]]
    printing.print_table(shown)
    say("class 1: rows with the second label; budget: the most labels to flip.")
