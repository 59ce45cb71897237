"""`butfor standard`: is every group held to the standard of the others?"""

from __future__ import annotations

import json as json_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cloup import argument, command, option, option_group

from butfor.cli import wiring
from butfor.cli.options import COLUMNS, CONFIG, FOLDER
from butfor.terminal import one_line, say, shown_json

if TYPE_CHECKING:
    import pandas as pd

    from butfor.data import Dataset


@command("standard")
@argument("table")
@option_group("Table", *COLUMNS)
@option_group(
    "Question",
    option("--adverse", help="The label that people would rather not have, or several (a,b)."),
    option("--shuffles", type=int, default=99, show_default=True, help="Tables with the protected attribute shuffled."),
    option("--model", help="The standard: a classifier of yours, package.module:name. Default: the mean of two."),
    option("--n-jobs", type=int, help="Tables at a time. Default: one per core."),
    option("--random-state", type=int, default=0, show_default=True, help="Seed of the shuffles."),
)
@option_group(
    "Output",
    option("--out", type=FOLDER, help="Write the page, labels.csv and standard.json into this folder."),
    CONFIG,
    option("--json", is_flag=True, help="Print JSON, and nothing else."),
    option("--quiet", is_flag=True, help="No progress."),
)
def standard(table: str, **options: Any) -> int:
    """Are the labels of a group in TABLE what a model of the other groups' rows would have given?

    \b
    butfor standard loans.csv --label approved --adverse no --sensitive race
    butfor standard loans.csv --label approved --adverse no --sensitive race,sex --out standards/

    All rows of TABLE are compared; no model of yours is needed. Every label gets its doubt: the probability, by the
    others' standard, of the other label.
    """
    from butfor.files import make_folder, save_table, save_text
    from butfor.learn.named import model_named
    from butfor.progress import ConsoleWatcher, Watcher
    from butfor.report.page import standard_page
    from butfor.standard import ASSUMPTION, compare_standards

    o = SimpleNamespace(**options, **dict.fromkeys(("test", "validation", "positive", "split_seed", "keep")))
    if o.out is not None:
        make_folder(o.out)
    watch = Watcher() if o.quiet or o.json else ConsoleWatcher()
    data = wiring.load(table, o, watch.note)
    X, y, groups = _all_rows(data)
    found = compare_standards(
        X,
        y,
        sensitive_features=groups,
        sensitive_bands=wiring.bands_in(o.bands),
        adverse=wiring.adverse_labels(data, o.adverse),
        standard=None if o.model is None else model_named(o.model),
        shuffles=o.shuffles,
        n_jobs=o.n_jobs,
        random_state=o.random_state,
        watch=watch,
    )
    text = json_module.dumps(found.to_dict(), indent=1, ensure_ascii=False)
    if o.out is not None:
        save_text(o.out / "standard.json", text)
        save_table(o.out / "labels.csv", found.to_frame().rename_axis("row"))
        save_text(o.out / "standard.html", standard_page(found, data.name))
    if o.json:
        say(shown_json(text))
    else:
        for line in (found.answer, *found.sentences(), ASSUMPTION):
            say(one_line(line))
        if found.interrupted:
            say(f"Stopped after {found.shuffles} of {o.shuffles} shuffles.", err=True)
        if o.out is not None and not o.quiet:
            say(f"Wrote standard.html, labels.csv and standard.json into {o.out}.", err=True)
    return 130 if found.interrupted else 0


def _all_rows(data: Dataset) -> tuple[pd.DataFrame, pd.Series, Any]:
    """The whole table: what an audit splits; its labels by name; and its protected attribute."""
    import pandas as pd

    X = pd.concat([data.X_train, data.X_val, data.X_test])
    y = pd.concat([data.y_train, data.y_val, data.y_test]).map(dict(enumerate(data.label_names)))
    order = X.index.argsort() if X.index.is_unique and X.index.inferred_type == "integer" else slice(None)
    groups = data.sensitive if data.groups is None else pd.concat(list(data.groups.values())).iloc[order]
    return X.iloc[order], y.iloc[order], groups
