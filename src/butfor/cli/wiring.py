"""From options to a table, a model and an audit."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butfor.cli.options import FIRST
from butfor.errors import SettingError, listed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from butfor import Engine, LabelAudit
    from butfor.bands import Cuts
    from butfor.data import Dataset
    from butfor.data.read import Note
    from butfor.progress import Watcher
    from butfor.report.privacy import Public, Redacted


def load(table: str, options: dict[str, Any], note: Note) -> Dataset:
    """The table that the options name."""
    from butfor.data.table import load_table

    return load_table(
        table,
        label=options["label"],
        positive=options["positive"],
        sensitive=options["sensitive"],
        drop=_names(options["drop"]),
        split_seed=options["split_seed"],
        missing=options["missing"],
        test=options["test"],
        validation=options["validation"],
        hold_out=options.get("model", "mlp") == "mlp",
        identifier=options["identifier"],
        keep=_names(options["keep"]),
        names=_column_names(options["names"]),
        note=note,
    )


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _column_names(text: str | None) -> list[str] | None:
    """As they are given, one CSV line, or "numbers" for none."""
    if text is None:
        return None
    names = next(csv.reader([text], skipinitialspace=True), [])
    if text.strip() == "numbers":
        return []
    if not names or not all(name.strip() for name in names):
        raise SettingError(f"--names '{text}': give a name for every column, separated by commas, or 'numbers'.")
    return [name.strip() for name in names]


def on_cluster(options: dict[str, Any]) -> AbstractContextManager[Engine]:
    """The engine on the cluster that --cluster names, for as long as it is needed."""
    from butfor.learn.cluster import cluster_engine

    return cluster_engine(options["cluster"], options["engine"], options["device"], options["jobs"])


def fitted_audit(data: Dataset, options: dict[str, Any], watch: Watcher) -> LabelAudit:
    """An audit as the options say, its model trained."""
    from butfor import LabelAudit
    from butfor.search.ledger import Ledger

    if options["resume"] is not None:
        Ledger(options["resume"], watch.note).close()  # one that cannot be used is said before anything is trained
    model = _model(data, options)
    labels = LabelAudit(
        model,
        encoder=_encoder(data, options, model),
        members=options["members"],
        budget=_budget(options["budget"]) if options["budget"] is not None else _usual_budget(data, options),
        rank=options["rank"],
        protocol=_protocol(options),
        phi=_phi(data, options),
        psi=options["psi"],
        share=options["share"],
        max_retrainings=options["max_retrainings"],
        max_seconds=_seconds(options["time"]),
        fresh_seeds=options["fresh_seeds"],
        alternatives=options["alternatives"],
        null=options["null"],
        steady=_steady(options["steady"]),
        engine=options["engine"],
        device=options["device"],
        jobs=options["jobs"],
        ledger=options["resume"],
        strict=options["strict"],
        random_state=options["seed"],
    )
    validation = (data.X_val, data.y_val) if options["model"] == "mlp" else None
    beside = data.sensitive if data.groups is None else data.groups["train"]
    return labels.fit(
        data.X_train, data.y_train, sensitive_features=beside, sensitive_bands=bands_in(options["bands"]),
        validation=validation, watch=watch,
    )  # fmt: skip


def bands_in(given: Sequence[str]) -> Cuts | None:
    """Cut points from texts such as 25,60 and age=25,60."""
    found: dict[str, list[float]] = {}
    for text in given:
        name, _, cuts = text.rpartition("=")
        try:
            found[name] = [float(cut) for cut in cuts.split(",")]
        except ValueError:
            raise SettingError(f"--bands {text}: give cut points such as 25,60, or age=25,60.") from None
    if len(found) > 1 and "" in found:
        raise SettingError("--bands: with cut points of several columns each needs its name, such as age=25,60.")
    return found.get("", found or None)


def _model(data: Dataset, options: dict[str, Any]) -> Any:
    from butfor import MLP
    from butfor.learn.named import model_named

    if options["model"] != "mlp":
        ours = [
            f"--{name.replace('_', '-')}" for name in ("hidden", "batch_size", "epochs") if options[name] is not None
        ]
        if ours:
            raise SettingError(f"{' and '.join(ours)} belong to --model mlp; leave out for '{options['model']}'.")
        return model_named(options["model"], options["seed"])
    setup = data.setup
    return MLP(
        hidden=setup.hidden if options["hidden"] is None else _hidden(options["hidden"]),
        max_epochs=setup.max_epochs if options["epochs"] is None else options["epochs"],
        batch_size=setup.batch_size if options["batch_size"] is None else _batch_size(options["batch_size"]),
        random_state=options["seed"],
    )


UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def _seconds(given: str | None) -> float | None:
    """A time such as 90s, 10m or 2h."""
    if given is None:
        return None
    read = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smh]?)\s*", given)
    if not read or not float(read[1]):
        raise SettingError(f"--time '{given}' is not a time above 0; write 90s, 10m or 2h.")
    return float(read[1]) * UNITS[read[2]]


def _steady(given: str | None) -> int | str | None:
    return int(given) if given and given.isdigit() else given


def _encoder(data: Dataset, options: dict[str, Any], model: Any) -> Any:
    """The published encoding for our network on an embedded set; else what was asked for, or what the audit chooses."""
    from sklearn.utils import get_tags

    from butfor import TableEncoder
    from butfor.learn.named import MODELS

    asked = {
        "missing": "refuse" if options["missing"] == "refuse" else "own",
        "unknown": options["unknown"],
        "max_categories": options["max_categories"],
    }
    if options["model"] == "mlp":
        published = "embed" if data.licence else "onehot"
        return TableEncoder(options["encoding"] or published, data.setup.numeric, **asked)
    # One of scikit-learn's that takes no missing values would refuse a table of nothing but numbers for them.
    holes = any(X.isna().any(axis=None) for X in (data.X_train, data.X_test))
    filled = holes and options["model"] in MODELS and not get_tags(model).input_tags.allow_nan
    if options["encoding"] or options["unknown"] != "own" or options["max_categories"] is not None or filled:
        return TableEncoder(options["encoding"] or "onehot", dtype="float64", **asked)
    return None


def _phi(data: Dataset, options: dict[str, Any]) -> Any:
    """Who may be asked about: --phi and, of them, those who get the adverse decision."""
    from butfor.rules import as_phi, predicted

    adverse = options["adverse"]
    if adverse is None:
        return options["phi"]
    names = [*data.label_names, *(name.rpartition(" = ")[2] for name in data.label_names)]
    if adverse not in names:
        raise SettingError(f"--adverse '{adverse}' is not a decision; the labels are {listed(data.label_names)}.")
    return as_phi(options["phi"]) & predicted(data.label_names[names.index(adverse) % 2])


def _protocol(options: dict[str, Any]) -> Any:
    from butfor.search import GuidedSearch, SolidSearch

    name, tries, margin = options["protocol"], options["tries"], options["margin"]
    if tries is not None and name not in (None, "guided"):
        raise SettingError(f"--tries goes with --protocol guided; '{name}' has its own number of attempts.")
    if margin is not None and (name not in (None, "solid") or tries is not None):
        raise SettingError("--margin goes with --protocol solid, the search among the members of an ensemble.")
    if margin is not None and not math.isfinite(margin):
        raise SettingError(f"--margin {margin} must be a number from 0 up.")
    if tries is not None:
        return GuidedSearch(tries)
    return SolidSearch(margin) if margin is not None else name


def _usual_budget(data: Dataset, options: dict[str, Any]) -> float:
    """One label in a hundred; of a single model, as published, one in a thousand."""
    return data.setup.budget if options["members"] == 1 else 0.01


def _budget(text: str) -> float:
    share = text.strip().endswith("%")
    try:
        number = float(text.strip().rstrip("%")) / (100 if share else 1)
    except ValueError:
        raise SettingError(f"--budget {text}: give a share such as 0.1% or a count such as 3.") from None
    if share and not 0 < number < 1:
        raise SettingError(f"--budget {text}: a share must lie above 0 % and below 100 %.")
    if not math.isfinite(number):
        raise SettingError(f"--budget {text}: give a share such as 0.1% or a count such as 3.")
    return int(number) if number >= 1 and number == int(number) else number


def _hidden(text: str) -> tuple[int, ...]:
    if text.strip() == "none":
        return ()
    try:
        return tuple(int(width) for width in text.split(","))
    except ValueError:
        raise SettingError(f"--hidden {text}: give widths such as 32,32, or 'none'.") from None


def _batch_size(text: str) -> int | None:
    if text == "full":
        return None
    try:
        return int(text)
    except ValueError:
        raise SettingError(f"--batch-size {text}: give a number of rows, or 'full'.") from None


def cases_of(single: tuple[int, ...], spans: str | None, people: int) -> list[int]:
    """The asked-about positions; a range may reach past the end, a single case may not."""
    if spans is None:
        return list(dict.fromkeys(single)) if single else list(range(min(FIRST, people)))
    try:
        start, stop = (int(end) if end.strip() else None for end in spans.split(":"))
    except ValueError:
        raise SettingError(f"--cases {spans}: give a range such as 0:200.") from None
    if (start or 0) < 0 or (stop is not None and stop <= (start or 0)):
        raise SettingError(f"--cases {spans}: a range goes from a smaller to a larger position, such as 0:200.")
    chosen = list(dict.fromkeys([*single, *range(start or 0, people if stop is None else min(stop, people))]))
    if not chosen:
        raise SettingError(f"--cases {spans}: the test split has only people 0 to {people - 1}.")
    return chosen


def discretion(
    out: Path | None, redact: bool, public: bool, steady: str | None
) -> type[Redacted] | type[Public] | None:
    """What to write instead of everything; refused before anything is trained where it could not keep its promise."""
    if not redact and not public:
        return None
    if redact and public:
        raise SettingError("--redact and --public: choose one; --public tells less.")
    if steady is not None:
        raise SettingError(
            f"--steady goes with the full record only: leave it out, or --{'redact' if redact else 'public'}."
        )
    from butfor.report.privacy import Public, Redacted, refuse_fuller_files

    chosen = Public if public else Redacted
    if out is not None:
        refuse_fuller_files(out, chosen.level)
    return chosen
