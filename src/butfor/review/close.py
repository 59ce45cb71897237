"""Closes the loop of a review: corrects labels, trains the model again and writes what changed.

after/review.html       before and after, side by side
after/review.json       the record, from which the next round starts
after/corrected.csv     the corrected label of every training row
after/corrections.csv   the labels that were changed
after/labels.csv        every label's doubt, wrong and rank on the corrected table
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.fit import Fitted, with_labels
from butfor.labels import labels_frame, labels_to_review
from butfor.result.population import Population
from butfor.result.record import plain
from butfor.result.reviewed import Reviewed
from butfor.result.run import figures_of
from butfor.review.answers import Outcome
from butfor.review.replay import fitted_again
from butfor.standard.groups import GroupStandard, Standards
from butfor.support.errors import ReplayError, TableError
from butfor.support.files import as_csv, save_all
from butfor.support.progress import Progress
from butfor.support.threads import single_threaded
from butfor.table.labels import EQUALS
from butfor.words.names import LABEL_JOINT
from butfor.worlds import FlipTrial


def after_review(
    fitted: Fitted,
    outcome: Outcome,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    before: Sequence[GroupStandard] | None,
    progress: Progress,
) -> tuple[Reviewed, Fitted, Standards | None]:
    """What a review changes for the people X, and the audit of the corrected table with its
    comparison of groups. `before`: the comparison before the review, if known."""

    def compared(audit: Fitted) -> Standards | None:
        try:
            return audit.compare(settings) if audit.adverse is not None else None
        except TableError:  # a group became too small, or never was large enough
            return None

    settings = fitted.comparison
    if before is None:
        known = compared(fitted)
        before = known.comparisons if known else ()
    if before:  # the same tables are drawn after the review, so that what differs is the labels
        settings = replace(settings, draws=before[0].draws)
    labels = dict(
        sorted(
            (task.position, fitted.label_names.index(label)) for task, label in outcome.corrections
        )
    )
    with progress, single_threaded():
        trial = FlipTrial.about(fitted, X, y, sensitive_features, progress, labels)
        progress.phase("the corrected labels", fitted.members + 2 * len(fitted.seeds))
        flipped = trial.flip(tuple(labels))
    again = with_labels(
        fitted, list(labels), list(labels.values()), "a review that corrected its labels", progress
    )
    again = replace(again, answered=fitted.answered | {task.position for task in outcome.key.tasks})
    standards = compared(again)
    now = tuple(fitted.label_names[again.table.codes[position]] for position in again.corrected)
    reviewed = Reviewed(
        attribute=fitted.sensitive.name,
        favourable=LABEL_JOINT.join(fitted.sides[fitted.favourable]),
        answered=tuple(sorted(again.answered)),
        corrected=again.corrected,
        evidence=outcome.evidence,
        corrected_to=now if fitted.table.multiclass else (),
        before=tuple(before),
        after=standards.comparisons if standards else (),
        **flipped,
    )
    return reviewed, again, standards


def close_review(
    audit: Population, outcome: Outcome, folder: Path, model: Any, progress: Progress
) -> tuple[Population, list[str]]:
    """Correct the training rows of an audit's record, decide about its test rows again, and write
    all files or none. Returns the record, with what changes in `run.reviewed` and the labels left
    to review, and the files' names."""
    from butfor.report.page import render  # imports jinja2

    fitted, data = fitted_again(audit.run, model, progress, phi="everyone", psi="everything")
    for task in outcome.key.tasks:
        row = plain(fitted.table.X.index[task.position])
        label = fitted.label_names[fitted.table.codes[task.position]]
        if (task.row, task.label) != (row, label):
            was = f"row {task.row} with label '{task.label}'"
            now = f"row {row} with label '{label}'"
            raise ReplayError(
                f"In the key, task {task.id} is {was}; in the table, it is {now}. Use the "
                "original key."
            )
    groups = data.groups["test"] if data.groups else None
    known = audit.standards or None
    reviewed, after, standards = after_review(
        fitted,
        outcome,
        data.X_test,
        data.y_test,
        sensitive_features=groups,
        before=known,
        progress=progress,
    )
    figures, notes = (figures_of(standards), tuple(standards.notes())) if standards else (None, ())
    run = replace(
        audit.run,
        reviewed=reviewed,
        standard=figures,
        standard_notes=notes,
        one_standard=(),
        questions=None,
    )
    compared = standards or after.undrawn
    population = Population([], run, labels=labels_to_review(after, compared))
    written = population.in_folder_of(folder / "review.json")

    # Sentences say "deny = no"; the column holds "no".
    column = run.data.label or "label"
    values = {name: name.removeprefix(f"{column}{EQUALS}") for name in after.label_names}
    corrected = [values[after.label_names[code]] for code in after.table.codes]
    rows = [
        (
            t.row,
            t.position,
            t.kind,
            values[t.label],
            values[label],
            t.doubt,
            t.wrong,
            t.wrong_if_real,
            t.people,
        )
        for t, label in outcome.corrections
    ]
    columns = [
        "row",
        "position",
        "kind",
        "recorded",
        "reviewed",
        "doubt",
        "wrong",
        "wrong_if_real",
        "people",
    ]
    texts = {
        "review.html": render("review.html", p=written, run=written.run),
        "review.json": written.to_json(),
        "corrected.csv": as_csv(
            pd.DataFrame({column: corrected}, index=after.table.X.index.rename("row"))
        ),
        "corrections.csv": as_csv(pd.DataFrame(rows, columns=columns).set_index("row")),
        "labels.csv": as_csv(labels_frame(after, compared, {}).rename_axis("row")),
    }
    save_all({folder / name: text for name, text in texts.items()})
    return population, list(texts)
