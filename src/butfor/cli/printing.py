"""From results to lines, tables and files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from butfor.terminal import one_line, say, shown

if TYPE_CHECKING:
    import pandas as pd

    from butfor import LabelAudit
    from butfor.data import Dataset
    from butfor.report.public import Public
    from butfor.result.population import Population
    from butfor.result.verdict import Verdict

REVIEW_FIRST = 3


def introduction(data: Dataset, labels: LabelAudit, people: int) -> list[str]:
    """What is audited, before anything is searched."""
    from butfor.run.explain import acceptance
    from butfor.run.verdicts import run_of

    name, fitted = labels.learner_.name, labels.fitted_
    decided = fitted.decide(data.X_test)
    accuracy = (fitted.classes[decided] == data.y_test).mean()
    run = run_of(fitted, acceptance=acceptance(fitted, decided), command="butfor audit")
    commoner = (data.y_test == data.y_train.mode()[0]).mean()
    lines = [
        *([run.alike] if run.alike else []),
        f"{data.name}: {labels.table_.n} training rows, {data.X_train.shape[1]} columns. Accuracy of {name}: "
        f"{100 * accuracy:.0f} % on {len(data.X_test)} test rows (always the commoner label: {100 * commoner:.0f} %). "
        f"Auditing {people} of them.",
        *([run.cut] if run.cut else []),
        *labels.fitted_.remarks(data.X_test),
    ]
    if labels.table_.validation is None and len(data.X_val):
        lines.append(
            f"The {len(data.X_val)} validation rows of the split are not used: this model does not stop early."
        )
    margin = labels.learner_.record().get("margin", "decision_function")
    if margin != "decision_function":
        lines.append(f"{name} has no decision_function; its margin is {margin}.")
    if labels.fitted_.sensitive.blind:
        lines.append(
            f"The model does not see '{labels.fitted_.sensitive.name}': no switch of it can change a decision."
        )
    return [*lines, _seeds(labels)]


def _seeds(labels: LabelAudit) -> str:
    if not labels.fitted_.seeded:
        return f"{labels.learner_.name} learns the same from the same labels: no seed matters here."
    if labels.fitted_.members == 1:
        return "The audited model is trained once: what is found holds for its seed."
    return (
        f"The audited model is the mean of {labels.fitted_.members} models that differ in the seed alone; every find "
        f"is tested under {labels.fresh_seeds} fresh seeds."
    )


def write_files(
    result: Verdict | Population,
    population: Population,
    labels: LabelAudit,
    folder: Path,
    config: str,
    kept: pd.DataFrame | None,
) -> list[str]:
    """The record, the page, a row per person (with what is kept of the test rows), the keystones, every label with
    its place in the order of review, and the settings."""
    from butfor.cli.options import SETTINGS
    from butfor.files import make_folder, save_table, save_text

    make_folder(folder)
    result.to_json(folder / "audit.json")
    people = population.to_frame()
    if kept is not None:
        theirs = kept.iloc[[v.case for v in population if v.case is not None]].reset_index(drop=True)
        people = people.join(theirs.rename(columns={c: f"{c} (kept)" for c in theirs if c in people}))
    save_table(folder / "people.csv", people, index=False)
    save_table(folder / "keystones.csv", population.keystones)
    ranked = ["labels.csv"] if population.labels else []
    if ranked:
        save_table(folder / "labels.csv", labels.labels(population).rename_axis("row"))
    result.to_html(folder / "report.html")
    save_text(folder / SETTINGS, config)
    return ["audit.json", "people.csv", "keystones.csv", *ranked, "report.html", SETTINGS]


def print_verdict(verdict: Verdict) -> None:
    """One person: the sentences, and the person beside the flipped rows."""
    others = verdict.collateral.sentence if verdict.collateral else ""
    for line in (verdict.sentence, verdict.belief, verdict.doubt_sentence, others):
        if line:
            say(line)
    if verdict.found:
        beside = verdict.to_frame()
        print_table(beside.astype(object).where(beside.notna(), "").reset_index(names=""))


def print_population(population: Population, folder: Path | None) -> None:
    """Many people: the answer, a table of the groups, and what to do next with the record in the folder."""
    import pandas as pd

    from butfor.report.groups import audited_table
    from butfor.result.labels import worth_a_review
    from butfor.standard.groups import where

    performance = population.performance
    answer = [population.standards_answer] if population.standards else []
    for c in population.standards:
        assert population.run.standard is not None
        called = where(population.run.standard.parts, c)
        if c.differs and c.missing:
            answer += [f"  {line}" for line in (*c.details(), *called)]
        elif called:
            answer += [c.sentence(population.run.standard.favourable), *(f"  {line}" for line in called)]
    answer += [one.sentence for one in population.one_standard]
    answer += [population.closed_gap.sentence] if population.closed_gap else []
    answer += [population.sentence, population.run.cut, population.direct, population.proven]
    for line in (population.run.alike, *answer):
        if line:
            say(line)
    if performance is not None:
        say(performance.sentence)
    heads, rows = audited_table(population)
    print_table(pd.DataFrame(rows, columns=heads))
    for warning in population.warnings:
        say(warning)
    top = population.labels[:REVIEW_FIRST]
    if worth_a_review(population.labels):
        first = ", ".join(str(label.row) for label in top)
        record = "audit.json" if folder is None else folder / "audit.json"
        say(f"Next: review labels {first} first. 'butfor review {record} --out tasks/' prepares the tasks.")


def print_public(view: Public) -> None:
    """No more than what is written."""
    say(view.sentence)
    print_table(view.shown())


def print_table(frame: pd.DataFrame, caption: str | None = None) -> None:
    """A table as wide as the terminal; a pipe or a log has no width of its own, so nothing is wrapped there."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, width=None if sys.stdout is not None and sys.stdout.isatty() else 200)
    table = Table(box=box.SIMPLE_HEAD, caption=caption and escape(shown(caption)), caption_justify="left")
    for column in frame.columns:
        table.add_column(escape(one_line(str(column))), overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(escape(one_line(str(cell))) for cell in row))
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    say("\n".join(line for line in lines if line), styled=True)
