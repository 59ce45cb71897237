"""From results to lines and tables on a terminal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butfor.support.errors import plural
from butfor.support.terminal import (
    one_line,
    say,
    say_wrapped,
    width_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from butfor.result.population import Population
    from butfor.result.verdict import Verdict
    from butfor.standard import Standards
    from butfor.standard.groups import GroupStandard

REVIEW_FIRST = 3
WIDE = 200
NAMES = 18
ROW = 20
"""Characters: of a table without a terminal; of a table's column names, and of each row beside the
person."""


def print_verdict(verdict: Verdict) -> None:
    """One person: the sentences, and the person beside the flipped rows."""
    others = verdict.collateral.sentence if verdict.collateral else ""
    left = verdict.run.questions.sentences() if verdict.run.questions else []
    for line in filter(
        None, (verdict.sentence, verdict.belief, verdict.doubt_sentence, others, *left)
    ):
        say_wrapped(line)
    if verdict.found:
        beside = verdict.to_frame()
        fit = max(2, ((width_of(sys.stdout) or WIDE) - NAMES) // ROW)
        rows = beside.iloc[:, :fit].astype(object)
        print_table(rows.where(rows.notna(), "").reset_index(names=""))
        if (more := beside.shape[1] - fit) > 0:
            say_wrapped(
                f"{plural(more, 'more flipped row')}: on a wider terminal, or with --out on the "
                "page."
            )


def print_population(population: Population, folder: Path | None) -> None:
    """Many people: the answer, a table of the groups, what to keep in mind, and what to do next."""
    import pandas as pd

    from butfor.report.groups import impacts
    from butfor.result.reviewed import worth_a_review

    run = population.run
    (*summary, hinge) = population.summary
    audited = population.audited if 0 < len(population.eligible) < len(population) else ""
    cut = run.cut if run.threshold else ""
    for line in filter(None, (*summary, population.direct, audited, cut, hinge, population.proven)):
        say_wrapped(line)

    # The groups, in five columns, all about the test people: more is on the page.
    name = run.sensitive
    finds = population.solid if population.checked else population.found
    gaps = {c.group: gap_of(c) for c in population.standards if c.attribute == name}
    rates = {each.group: each for each in impacts(population) if each.attribute == name}
    rows = []
    for group in population.groups:
        impact = rates.get(str(group))
        asked = [v for v in population.eligible if v.group == group]
        people = impact.people if impact else sum(v.group == group for v in population)
        row = {run.names.column(name): run.names.value(name, group), "People": people}
        if rates:
            ratio = "" if impact is None or impact.ratio is None else f" ({impact.ratio:.2f})"
            row["Favourable (ratio)"] = f"{100 * impact.rate:.1f} %{ratio}" if impact else "–"
        if gaps:
            row["Gap to comparable people"] = gaps.get(str(group), "–")
        left = sum(v.unfinished for v in asked)
        count = (
            f"{sum(v.group == group for v in finds)} of "
            f"{len(asked)}{f', {left} stopped' if left else ''}"
        )
        row["On few labels"] = count if asked else "–"
        rows.append(row)
    print_table(pd.DataFrame(rows))

    if worth_a_review(population.to_review):
        named = run.rows_in_words([label.row for label in population.to_review[:REVIEW_FIRST]])
        how = "add --out FOLDER."
        if folder is not None:
            how = f"butfor review {shlex.quote(str(folder / 'audit.json'))} --out tasks/"
        say_wrapped(f"Next: review first the labels of {named}: {how}")
    for line in filter(None, (run.no_better, *population.warnings)):
        say_wrapped(line)


def print_standards(standards: Standards) -> None:
    """The answer, a table of the groups, the rest of the summary, and what to keep in mind."""
    import pandas as pd

    from butfor.words.figures import share

    say_wrapped(standards.answer)
    rows = []
    for c in standards.comparisons:
        row = {"Group": standards.name_of(c), "People": c.rows, "Favourable": share(c.recorded)}
        row["Gap to comparable people"] = gap_of(c)
        if c.p_adjusted is not None:
            p = c.p_in_words(explained=False).removeprefix("= ")
            row["Adjusted p"] = "–" if c.not_comparable else p
        rows.append(row)
    print_table(pd.DataFrame(rows))
    for line in standards.lines[1:]:
        say_wrapped(line)


def gap_of(comparison: GroupStandard) -> str:
    """ "6.3 less (1 to 11)", "none", "not comparable"."""
    from butfor.words.figures import often

    if comparison.not_comparable:
        return "not comparable"
    gap = often(comparison.difference, comparison.interval).replace("as often", "none")
    return gap.replace(" points", "").replace(" often", "")


def print_table(frame: pd.DataFrame) -> None:
    """A table as wide as the terminal; a pipe or a log has no width of its own, so nothing is
    wrapped there."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, color_system=None, width=width_of(sys.stdout) or WIDE)
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    rows: list[Any] = [frame.columns, *frame.itertuples(index=False)]
    cells = [[escape(one_line(str(cell))) for cell in row] for row in rows]
    for column in map(list, zip(*cells, strict=True)):
        longest = max((len(word) for text in column for word in text.split()), default=0)
        share = (
            console.width // frame.shape[1] - 3
        )  # broken inside a word only where there is no other way
        table.add_column(column[0], overflow="fold", min_width=min(longest, share))
    for row in cells[1:]:
        table.add_row(*row)
    with console.capture() as captured:
        console.print(table)
    say("\n".join(line.rstrip() for line in captured.get().splitlines() if line.strip()))
