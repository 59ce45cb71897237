"""Close the loop of a review: corrections made, the model trained anew, and the files that tell what became of it.

after/review.html       before and after, side by side
after/review.json       the record of it: the next round starts from here
after/corrected.csv     the label of every training row, as corrected
after/corrections.csv   the labels that were changed
after/labels.csv        every label's doubt and value on the corrected table
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from msgspec import structs

from butfor.files import make_folder, save_table, save_text
from butfor.progress import Progress
from butfor.result.population import Population
from butfor.result.run import RecordedStandards
from butfor.review.rebuild import audit_of, load_rows
from butfor.tasks.answers import Outcome


def close_review(
    audit: Population, outcome: Outcome, folder: Path, model: Any = None, progress: Progress | None = None
) -> tuple[Population, dict[str, pd.DataFrame]]:
    """Make the corrections in the table that an audit's record names, and ask about its test rows again: the record of
    the corrected table, about nobody, with what was `reviewed`; and tables, by the names of their files. The folder is
    made once the table is there, before anything is trained."""
    training, data = load_rows(audit.run)
    make_folder(folder)
    settings = {"fresh_seeds": audit.run.fresh_seeds, "random_state": audit.run.random_state}
    again = audit_of(audit.run, training, data, model, progress=progress, **settings)
    groups, before = data.groups["test"] if data.groups else None, audit.standards or None
    reviewed, after = again.after_review(
        outcome, data.X_test, data.y_test, sensitive_features=groups, before=before, progress=progress
    )
    standard = RecordedStandards.of(after.standard_) if reviewed.after else None
    run = structs.replace(audit.run, reviewed=reviewed, standard=standard, one_standard=(), close_gap=None)
    names = [after.label_names_[label] for label in after.table_.codes]
    label = audit.run.data.label or "label"
    tables = {
        "corrected.csv": pd.DataFrame({label: names}, index=after.table_.X.index.rename("row")),
        "corrections.csv": outcome.corrections().set_index("row"),
        "labels.csv": after.review_frame().rename_axis("row"),
    }
    return Population([], run, labels=after.label_values()), tables


def write_after(population: Population, tables: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """The files, the page last."""
    from butfor.report.page import review_page

    for name, table in tables.items():
        save_table(folder / name, table)
    population.to_json(folder / "review.json")
    save_text(folder / "review.html", review_page(population))
    return ["review.html", "review.json", *tables]
