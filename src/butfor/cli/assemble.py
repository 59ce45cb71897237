"""From options to a table, a model and an audit, and back to the settings that repeat it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from butfor.cli.parse import bands_in, batch_in, budget_in, layers_in, names_in, references_in, seconds_in
from butfor.errors import SettingError, TableError, listed
from butfor.files import save_text
from butfor.names import Names, template

if TYPE_CHECKING:
    from butfor import LabelAudit
    from butfor.data import Dataset
    from butfor.data.check import Concern
    from butfor.data.sensitive import Sensitive
    from butfor.progress import Progress
    from butfor.report.public import Public
    from butfor.stopping import Stop

NOT_REPEATED = ("table", "config", "out", "ledger", "json", "quiet", "public", "engine", "n_jobs", "overwrite")
"""Options that do not change what an audit finds."""
OF_OUR_NETWORK = ("hidden", "batch_size", "epochs")


SPELLED = {
    r"\breference=\{'(.*?)': '(.*?)'\}": r"--reference \1=\2",
    r"^reference\b": "--reference",
    r"^cluster\b": "--cluster",
    r"(?<!')\bsample_weight\b(?!')": "--weight",
    r"\bthreshold=": "--threshold ",
}
"""How errors of the library name a parameter, and how its option is spelled."""


def spelled(message: str) -> str:
    """An error of the library, with parameters as they are spelled on the command line."""
    for parameter, option in SPELLED.items():
        message = re.sub(parameter, option, message)
    return message


def load(table: str, o: SimpleNamespace, note: Any, *, whole: bool = False) -> Dataset:
    """The table that the options name, split unless it is to stay whole."""
    from butfor.data.table import load_table

    return load_table(
        table,
        label=o.label,
        sensitive=o.sensitive,
        drop=names_in(o.drop),
        split_seed=o.split_seed,
        missing=o.missing,
        test=o.test,
        validation=o.validation,
        hold_out=getattr(o, "model", "mlp") == "mlp",
        identifier=o.id,
        keep=names_in(o.keep),
        cluster=o.cluster,
        weight=o.weight,
        whole=whole,
        note=note,
    )


def groups_of(data: Dataset, part: str = "train") -> Any:
    """The protected attribute of rows that do not have it among their columns; of training rows that do, its column."""
    if data.groups is not None:
        return data.groups[part]
    return data.sensitive if part == "train" else None


def protected(data: Dataset) -> list[str]:
    """The names of the protected attributes."""
    return [data.sensitive] if isinstance(data.sensitive, str) else data.sensitive


def attribute_of(data: Dataset, o: SimpleNamespace) -> Sensitive:
    """The protected attribute of the training rows."""
    from butfor.data.sensitive import Sensitive

    return Sensitive.of(groups_of(data), data.X_train, bands_in(o.bands))


def concerns(data: Dataset, o: SimpleNamespace) -> list[Concern]:
    """What would mislead an audit of this table."""
    from butfor.data.check import concerns_of

    return concerns_of(data.X_train, data.y_train, attribute_of(data, o), data.X_test)


def names_of(o: SimpleNamespace, data: Dataset) -> Names:
    """What --names calls people, groups, labels and columns of this table."""
    return Names.read(o.names).check(**_nameable(o, data)) if o.names else Names()


def write_names(file: str, o: SimpleNamespace, data: Dataset) -> None:
    """Write a file for --names, to be filled in; one that is there stays as it is."""
    if Path(file).exists():
        raise SettingError(f"--write-names {file}: the file is there already; name another.")
    save_text(file, template(**_nameable(o, data)))


def _nameable(o: SimpleNamespace, data: Dataset) -> dict[str, Any]:
    """Groups by attribute, labels and columns."""
    each = [one for one in attribute_of(data, o).each if not one.combinations]  # not their combinations
    groups = {one.name: sorted(set(map(str, one.values))) for one in each}
    return {"groups": groups, "labels": data.label_names, "columns": list(dict.fromkeys([*data.X_train, *groups]))}


def refuse(concerns: Sequence[object]) -> None:
    """What --strict does about a table, and about a model of it."""
    if concerns:
        raise TableError(f"--strict refuses this: {' '.join(map(str, concerns))}")


def fitted_audit(data: Dataset, o: SimpleNamespace, progress: Progress) -> LabelAudit:
    """An audit as the options say, its model trained."""
    from butfor import LabelAudit
    from butfor.ledger import Ledger

    if o.ledger is not None:
        Ledger(o.ledger, progress.note).close()  # one that cannot be used is said before anything is trained
    if o.towards is not None:
        o.towards = label_named(data, o.towards, "--towards")  # before anything is trained
    model = _model(data, o)
    labels = LabelAudit(
        model,
        encoder=_encoder(data, o, model),
        members=o.members,
        budget=_budget(data, o),
        threshold=o.threshold,
        rank=o.rank,
        strategy=o.strategy,
        phi=_phi(o),
        psi=o.psi,
        fresh_seeds=o.fresh_seeds,
        engine=o.engine,
        n_jobs=o.n_jobs,
        ledger=o.ledger,
        random_state=o.random_state,
    )
    return labels.fit(
        data.X_train,
        data.y_train,
        sensitive_features=groups_of(data),
        sensitive_bands=bands_in(o.bands),
        sample_weight=data.weight and data.weight["train"],
        cluster=data.cluster and data.cluster["train"],
        validation=(data.X_val, data.y_val) if o.model == "mlp" else None,
        adverse=None if o.adverse is data.adverse is None else adverse_labels(data, o.adverse),
        reference=references_in(o.reference, protected(data)),
        also_labelled=data.not_trained_on,
        pool=data.X_test,
        progress=progress,
    )


def stop_of(o: SimpleNamespace) -> Stop:
    """The limits of --max-seconds and --max-retrainings."""
    from butfor.stopping import Stop, max_retrainings

    stop = Stop(None if o.max_seconds is None else seconds_in(o.max_seconds))
    return stop if o.max_retrainings is None else stop | max_retrainings(o.max_retrainings)


def _model(data: Dataset, o: SimpleNamespace) -> Any:
    from butfor.models.named import inputs_of, model_named

    if o.model != "mlp":
        ours = [f"--{name.replace('_', '-')}" for name in OF_OUR_NETWORK if getattr(o, name) is not None]
        if ours:
            raise SettingError(f"{' and '.join(ours)}: for --model mlp only; leave out for '{o.model}'.")
        return model_named(o.model, o.random_state, inputs_of(data.X_train) if o.model == "logistic" else 0)
    from butfor import MLP

    return MLP(
        hidden=data.setup.hidden if o.hidden is None else layers_in(o.hidden),
        max_epochs=data.setup.max_epochs if o.epochs is None else o.epochs,
        batch_size=data.setup.batch_size if o.batch_size is None else batch_in(o.batch_size),
        random_state=o.random_state,
    )


def _encoder(data: Dataset, o: SimpleNamespace, model: Any) -> Any:
    """The published encoding for our network on an embedded set; else what was asked for, or what the audit chooses."""
    from sklearn.utils import get_tags

    from butfor import TableEncoder
    from butfor.models.named import MODELS

    missing = "refuse" if o.missing == "refuse" else "own"
    how = {"missing": missing, "unknown": o.unknown, "max_categories": o.max_categories}
    if o.model == "mlp":
        return TableEncoder(o.encoding or ("embed" if data.licence else "onehot"), data.setup.numeric, **how)
    # One of scikit-learn's that takes no missing values would refuse a table of nothing but numbers for them.
    holes = any(X.isna().any(axis=None) for X in (data.X_train, data.X_test))
    filled = holes and o.model in MODELS and not get_tags(model).input_tags.allow_nan
    if o.encoding or o.unknown != "own" or o.max_categories is not None or filled:
        return TableEncoder(o.encoding or "onehot", dtype="float64", **how)
    return None


def _phi(o: SimpleNamespace) -> str | None:
    """Who may be audited: as --phi says; without it the published rule and, of an adverse label that was named, those
    who get it. That of an embedded set is known without anybody naming it."""
    return "stable_under_switch" if o.phi is None and o.adverse is None else o.phi


def adverse_labels(data: Dataset, given: str | None) -> list[str]:
    """The labels that people would rather not have: those given or, of an embedded set, the one it knows."""
    if given is None and data.adverse is not None:
        return [data.adverse]
    if given is None:
        raise SettingError(f"Name the label that people do not want with --adverse: {listed(data.label_names)}.")
    several = [given] if given in data.label_names else [each.strip() for each in given.split(",")]
    return [label_named(data, each, "--adverse") for each in several]


def label_named(data: Dataset, given: str, option: str) -> str:
    """A label's full name, from its name or its value."""
    from butfor.data.labels import label_number

    return data.label_names[label_number(given, data.label_names, option=option)]


def _budget(data: Dataset, o: SimpleNamespace) -> float:
    """One label in a hundred where nobody says; of a single model, as published, one in a thousand."""
    if o.budget is not None:
        return budget_in(o.budget)
    return data.setup.budget if o.members == 1 else 0.01


def public_view(o: SimpleNamespace) -> type[Public] | None:
    """What to write instead of everything; refused before anything is trained where other files lie there."""
    if not o.public:
        return None
    from butfor.report.public import Public, refuse_other_files

    if o.out is not None:
        refuse_other_files(o.out)
    return Public


def settings_again(table: str, o: SimpleNamespace, labels: LabelAudit) -> dict[str, Any]:
    """The options, by their names, of an audit that is the same, what the defaults were spelled out."""
    known = vars(o) | {
        "bands": [
            f"{name}={','.join(f'{cut:.17g}' for cut in cuts)}" for name, cuts in labels.fitted_.sensitive.cuts.items()
        ],
        "budget": str(labels.fitted_.budget),
        "strategy": labels.fitted_.strategy.name,
        "members": labels.fitted_.members,
        "split_seed": labels.fitted_.origin["split_seed"],
    }
    if o.model == "mlp":
        known |= {
            "hidden": ",".join(map(str, labels.model.hidden)) or "none",
            "batch_size": str(labels.model.batch_size or "full"),
            "epochs": labels.model.max_epochs,
            "encoding": labels.encoder.categorical,
        }
    names = [str(option.name) for option in click.get_current_context().command.params]
    said = {name: known[name] for name in names if name not in NOT_REPEATED and name in known}
    given = {name: value for name, value in said.items() if value is not None and value is not False and value != []}
    return {"table": table} | {name.replace("_", "-"): value for name, value in given.items()}


def command_again(settings: dict[str, Any]) -> str:
    """The same as a command."""
    words = ["butfor", "audit", settings["table"]]
    for name, value in settings.items():
        if name != "table":
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}"] if value is True else [word for one in values for word in (f"--{name}", str(one))]
    return shlex.join(words)
