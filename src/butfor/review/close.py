"""Close the loop of a review: corrections made, the model trained anew, and the files that tell what became of it.

after/review.html       before and after, side by side
after/review.json       the record of it: the next round starts from here
after/corrected.csv     the label of every training row, as corrected
after/corrections.csv   the labels that were changed
after/labels.csv        every label's doubt and value on the corrected table
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.files import make_folder, save_table, save_text
from butfor.progress import Watcher
from butfor.result.population import Population
from butfor.review.rebuild import audit_of, loaded
from butfor.tasks.answers import Outcome


@dataclass(frozen=True, eq=False)
class After:
    """`population` has nobody: it is the record of the corrected table, `reviewed` what the review changed."""

    population: Population
    corrected: pd.Series
    corrections: pd.DataFrame
    labels: pd.DataFrame


def close_review(
    audit: Population, outcome: Outcome, folder: Path, model: Any = None, watch: Watcher | None = None
) -> After:
    """Make the corrections in the table that an audit's record names, and ask about its test rows again. The folder for
    the files is made once the table is there, before anything is trained."""
    training, data = loaded(audit.run)
    make_folder(folder)
    settings = {"fresh_seeds": audit.run["fresh_seeds"], "random_state": audit.run.get("random_state", 0)}
    again = audit_of(audit.run, training, data, model, watch=watch, **settings)
    groups, before = data.groups["test"] if data.groups else None, audit.standards or None
    reviewed, after = again.after_review(
        outcome, data.X_test, data.y_test, sensitive_features=groups, before=before, watch=watch
    )
    standard = after.standard_.to_dict() if reviewed.after else None
    run = audit.run | {"reviewed": reviewed, "standard": standard, "one_standard": None, "close_gap": None}
    names = [after.label_names_[label] for label in after.table_.codes]
    label = str(audit.run["data"].get("label") or "label")
    return After(
        Population([], run, labels=after.label_values()),
        pd.Series(names, index=after.table_.X.index.rename("row"), name=label),
        outcome.corrections(),
        after.review_frame(),
    )


def write_after(after: After, folder: Path) -> list[str]:
    """The files, the page last."""
    from butfor.report.page import review_page

    save_table(folder / "corrected.csv", after.corrected.to_frame())
    save_table(folder / "corrections.csv", after.corrections, index=False)
    save_table(folder / "labels.csv", after.labels.rename_axis("row"))
    after.population.to_json(folder / "review.json")
    save_text(folder / "review.html", review_page(after.population))
    return ["review.html", "review.json", "corrected.csv", "corrections.csv", "labels.csv"]
