"""From results to lines, tables and files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butfor import __version__
from butfor.cli.config import FILE, written_config
from butfor.files import make_folder, save_table, save_text
from butfor.terminal import one_line, say, shown

if TYPE_CHECKING:
    import pandas as pd

    from butfor import LabelAudit
    from butfor.data import Dataset
    from butfor.report.privacy import Public, Redacted
    from butfor.result.performance import Performance
    from butfor.result.population import Population
    from butfor.result.verdict import Verdict


def introduction(data: Dataset, labels: LabelAudit, people: int) -> list[str]:
    """What is audited, before anything is searched."""
    accuracy = ((labels.model_.logits(data.X_test) > 0) == data.y_test).mean()
    commoner = (data.y_test == (data.y_train.mean() > 0.5)).mean()
    lines = [
        f"{data.name}: {labels.table_.n} training rows, {data.X_train.shape[1]} columns; {labels.learner_.name} is "
        f"right about {100 * accuracy:.0f} % of {len(data.X_test)} test rows (always the commoner label: "
        f"{100 * commoner:.0f} %). Asking about {people} of them."
    ]
    lines += labels.remarks(data.X_test)
    if labels.table_.validation is None and len(data.X_val):
        lines.append(
            f"The {len(data.X_val)} validation rows of the split are not used: this model does not stop early."
        )
    margin = getattr(labels.learner_, "margin", "decision_function")
    if margin != "decision_function":
        lines.append(f"{labels.learner_.name} has no decision_function; its margin is {margin}.")
    if labels.sensitive_.blind:
        lines.append(f"The model does not see '{labels.sensitive_.name}': no switch of it can change a decision.")
    if labels.members_ > 1:
        lines.append(
            f"The audited model is the mean of {labels.members_} trainings that differ in the seed alone; "
            f"{labels.fresh_seeds} fresh seeds put what is found to the test."
        )
    elif labels.seeded_:
        lines.append("The audited model is a single training: what is found is true for its seed.")
    if not labels.seeded_:
        lines.append(
            f"{labels.learner_.name} has no seed that matters here: the same labels always give the same model."
        )
    return lines


def write_files(
    result: Verdict | Population,
    population: Population,
    directory: Path,
    again: dict[str, Any],
    kept: pd.DataFrame | None = None,
) -> list[str]:
    """audit.json, people.csv (with what is kept of the test rows), keystones.csv, report.html, and audit.toml, which
    repeats the audit."""
    make_folder(directory)
    result.to_json(directory / "audit.json")
    people = population.to_frame()
    if kept is not None:
        theirs = kept.iloc[[v.case for v in population if v.case is not None]].reset_index(drop=True)
        people = people.join(theirs.rename(columns={c: f"{c} (kept)" for c in theirs if c in people}))
    save_table(directory / "people.csv", people, index=False)
    save_table(directory / "keystones.csv", population.keystones)
    result.to_html(directory / "report.html")
    save_text(directory / FILE, written_config(again, __version__))
    return ["audit.json", "people.csv", "keystones.csv", "report.html", FILE]


def print_result(result: Verdict | Population) -> None:
    from butfor.result.verdict import Verdict

    say(result.sentence)
    if isinstance(result, Verdict):
        for line in (result.belief, result.collateral.sentence if result.collateral else ""):
            if line:
                say(line)
        if result.found:
            beside = result.to_frame()
            print_table(beside.astype(object).where(beside.notna(), "").reset_index(names=""))
        return
    for told in (result.direct, result.details, result.proven):
        if told:
            say(told)
    _print_performance(result.performance)
    shares, asked = _indexed(result.by_group), list(result.by_group["eligible"])
    for column in ("share", "low", "high", "share_solid", "solid_low", "solid_high"):
        known = zip(shares[column], asked, strict=True)
        shares[column] = [f"{100 * v:.0f} %" if v == v and n else "–" for v, n in known]
    shares["close_calls"] = [f"{v:.0f}" if v == v else "–" for v in shares["close_calls"]]
    shares["median_margin"] = [f"{v:.2f}" if v == v else "–" for v in shares["median_margin"]]
    print_table(
        shares,
        "Shares of eligible people with a counterfactual dataset, and with a solid one, each with its 95 % interval;\n"
        "close calls; and how far (median |logit|) eligible people are from the decision boundary.",
    )
    compared = result.comparison.sentence if result.comparison else ""
    for warning in [compared or (result.uncompared if result.unfinished else ""), *result.warnings]:
        if warning:
            say(warning)
    if result.run.get("steady"):
        from butfor.report.words import steady_sentence

        say(steady_sentence(result.run["steady"]))
    top = result.keystones.head(5)
    if len(top):
        most = [f"row {row} ({int(values['people'])})" for row, values in top.iterrows()]
        say(f"Labels in most flip sets, to review first: {', '.join(most)}.")


def print_discreetly(handed: Redacted | Public) -> None:
    """No more than what is written."""
    say(handed.sentence)
    print_table(handed.shown())


def _print_performance(performance: Performance | None) -> None:
    from butfor.result.performance import RATES

    if performance is None:
        return
    say(performance.sentence)
    rates = _indexed(performance.rates)
    for column in RATES:
        rates[column] = [f"{100 * v:.0f} %" if v == v else "–" for v in rates[column]]
    print_table(
        rates.rename(columns=lambda name: str(name).replace("_", " ")),
        f"Of people with a known label: labelled '{performance.positive}' (base rate), decided so (selection rate),\n"
        "decided wrongly; wrongly decided so (false positive), and wrongly not (false negative).",
    )


def _indexed(groups: pd.DataFrame) -> pd.DataFrame:
    """Groups as a column, which may be called as one of ours is."""
    name = str(groups.index.name)
    return groups.reset_index(names=f"'{name}'" if name in groups else name)


def print_table(frame: Any, caption: str | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    # A pipe or a log has no width of its own: never wrap a table there.
    console = Console(highlight=False, width=None if sys.stdout is not None and sys.stdout.isatty() else 200)
    table = Table(
        box=box.SIMPLE_HEAD, caption=None if caption is None else escape(shown(caption)), caption_justify="left"
    )
    for column in frame.columns:
        table.add_column(escape(one_line(str(column))), overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(escape(one_line(str(cell))) for cell in row))
    with console.capture() as captured:
        console.print(table)
    say(captured.get().removesuffix("\n"), styled=True)
