"""From options to a table, a model and an audit, and back to the settings that repeat it."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from butfor.errors import ButforError, SettingError, Stopped, TableError, listed

if TYPE_CHECKING:
    from butfor import LabelAudit, Population
    from butfor.data import Dataset
    from butfor.data.sensitive import Cuts
    from butfor.progress import Progress
    from butfor.report.public import Public
    from butfor.stopping import Stop

NOT_REPEATED = ("table", "config", "out", "ledger", "json", "quiet", "public", "engine", "n_jobs", "pdf")
"""Options that do not change what an audit finds."""
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
OF_OUR_NETWORK = ("hidden", "batch_size", "epochs")


def load(table: str, o: SimpleNamespace, note: Any) -> Dataset:
    """The table that the options name."""
    from butfor.data.table import load_table

    return load_table(
        table,
        label=o.label,
        positive=o.positive,
        sensitive=o.sensitive,
        drop=names_in(o.drop),
        split_seed=o.split_seed,
        missing=o.missing,
        test=o.test,
        validation=o.validation,
        hold_out=getattr(o, "model", "mlp") == "mlp",
        identifier=o.id,
        keep=names_in(o.keep),
        note=note,
    )


def groups_of(data: Dataset, part: str = "train") -> Any:
    """The protected attribute of rows that do not have it among their columns; of training rows that do, its column."""
    if data.groups is not None:
        return data.groups[part]
    return data.sensitive if part == "train" else None


def refuse(concerns: Sequence[object]) -> None:
    """What --strict does about a table, and about a model of it."""
    if concerns:
        raise TableError(f"Refused, because of --strict: {' '.join(map(str, concerns))}")


def fitted_audit(data: Dataset, o: SimpleNamespace, progress: Progress) -> LabelAudit:
    """An audit as the options say, its model trained."""
    from butfor import LabelAudit
    from butfor.search.ledger import Ledger

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
        rank=o.rank,
        strategy=_strategy(o),
        phi=_phi(data, o),
        psi=o.psi,
        fresh_seeds=o.fresh_seeds,
        shuffles=o.shuffles,
        engine=click.get_current_context().with_resource(_engine(o)),
        n_jobs=o.n_jobs,
        ledger=o.ledger,
        random_state=o.random_state,
    )
    labels.fit(
        data.X_train,
        data.y_train,
        sensitive_features=groups_of(data),
        sensitive_bands=bands_in(o.bands),
        validation=(data.X_val, data.y_val) if o.model == "mlp" else None,
        adverse=None if o.adverse is data.adverse is None and not o.close_gap else adverse_labels(data, o.adverse),
        progress=progress,
    )
    return labels


def closed_gap(
    labels: LabelAudit, data: Dataset, population: Population, o: SimpleNamespace, begun: float, progress: Progress
) -> dict[str, Any]:
    """What the record says of the gap that --close-gap names: the fewest doubted labels that close it, or a remark on
    why they are not known. The verdicts stand in either case."""
    from butfor.stopping import Stop

    left = math.inf if o.max_seconds is None else seconds_in(o.max_seconds) - (time.monotonic() - begun)
    asked = {"by": o.close_gap.replace("-", " "), "sensitive_features": groups_of(data, "test")}
    try:
        if left <= 0 or population.run["out_of_time"]:
            raise Stopped(by_hand=False)
        return {"close_gap": labels.close_gap(data.X_test, data.y_test, **asked, stop=Stop(left), progress=progress)}
    except ButforError as error:
        remark = f"Which labels would close the gap is not known. {error}"
    progress.note(f"Note: {remark}")
    return {"remarks": [*population.run["remarks"], remark]}


@contextmanager
def _engine(o: SimpleNamespace) -> Iterator[Any]:
    """What --engine names: an engine, a device or a cluster."""
    from butfor.learn.dask_engine import cluster_engine
    from butfor.learn.engines import is_cluster

    if is_cluster(o.engine):
        with cluster_engine(o.engine, o.n_jobs) as engine:
            yield engine
    else:
        yield o.engine


def stop_of(o: SimpleNamespace, begun: float) -> Stop | None:
    """When the search is to end. Reading the table and training the model count as part of --max-seconds, but a tenth
    of it is left for the search in any case."""
    from butfor.run.parts import left_of
    from butfor.stopping import Stop, max_retrainings

    stop = Stop(None if o.max_seconds is None else seconds_in(o.max_seconds))
    stop = stop if o.max_retrainings is None else stop | max_retrainings(o.max_retrainings)
    return left_of(stop, time.monotonic() - begun)


def _model(data: Dataset, o: SimpleNamespace) -> Any:
    from butfor.learn.named import inputs_of, model_named

    if o.model != "mlp":
        ours = [f"--{name.replace('_', '-')}" for name in OF_OUR_NETWORK if getattr(o, name) is not None]
        if ours:
            raise SettingError(f"{' and '.join(ours)} belong to --model mlp; leave out for '{o.model}'.")
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
    from butfor.learn.named import MODELS

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


def _phi(data: Dataset, o: SimpleNamespace) -> Any:
    """Who may be asked about: --phi and, of them, those who get the adverse decision."""
    from butfor.rules import as_phi, predicted

    if o.adverse is None:
        return o.phi
    return as_phi(o.phi) & reduce(or_, map(predicted, adverse_labels(data, o.adverse)))


def adverse_labels(data: Dataset, given: str | None) -> list[str]:
    """The labels that people would rather not have: as they are given or, of an embedded set, known."""
    if given is None and data.adverse is not None:
        return [data.adverse]
    if given is None:
        raise SettingError(f"Say with --adverse which label people would rather not have: {listed(data.label_names)}.")
    known = _labels_by_name(data)
    several = [given] if given in known else [each.strip() for each in given.split(",")]
    return [label_named(data, each, "--adverse") for each in several]


def label_named(data: Dataset, given: str, option: str) -> str:
    """A label, from its name or its value."""
    known = _labels_by_name(data)
    if given not in known:
        raise SettingError(f"{option} '{given}' is not a decision; the labels are {listed(data.label_names)}.")
    return known[given]


def _labels_by_name(data: Dataset) -> dict[str, str]:
    return {name.rpartition(" = ")[2]: name for name in data.label_names} | {name: name for name in data.label_names}


def _strategy(o: SimpleNamespace) -> Any:
    from butfor.search import GuidedSearch, SolidSearch

    if o.tries is not None and o.strategy not in (None, "guided"):
        raise SettingError(f"--tries goes with --strategy guided; '{o.strategy}' has its own number of attempts.")
    if o.margin is not None and (o.strategy not in (None, "solid") or o.tries is not None):
        raise SettingError("--margin goes with --strategy solid, the search among the members of an ensemble.")
    if o.margin is not None and not math.isfinite(o.margin):
        raise SettingError(f"--margin {o.margin} must be a number from 0 up.")
    if o.tries is not None:
        return GuidedSearch(o.tries)
    if o.margin is not None:
        return SolidSearch(o.margin)
    return o.strategy


def _budget(data: Dataset, o: SimpleNamespace) -> float:
    """One label in a hundred where nobody says; of a single model, as published, one in a thousand."""
    if o.budget is not None:
        return budget_in(o.budget)
    return data.setup.budget if o.members == 1 else 0.01


def public_view(o: SimpleNamespace) -> type[Public] | None:
    """What to write instead of everything; refused before anything is trained where other files lie there."""
    if not o.public:
        return None
    if o.compare_ridge:
        raise SettingError("--compare-ridge goes with the full record only: leave it out, or --public.")
    from butfor.report.public import Public, refuse_other_files

    if o.out is not None:
        refuse_other_files(o.out)
    return Public


def settings_again(table: str, o: SimpleNamespace, labels: LabelAudit) -> dict[str, Any]:
    """The options, by their names, of an audit that is the same, what the defaults were spelled out."""
    known = vars(o) | {
        "bands": [f"{name}={','.join(f'{cut:.17g}' for cut in cuts)}" for name, cuts in labels.sensitive_.cuts.items()],
        "budget": str(labels.budget_),
        "strategy": labels.strategy_.name,
        "members": labels.members_,
        "split_seed": labels.origin_["split_seed"],
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


# --- what is written into options ---------------------------------------------------------------------


def names_in(text: str | None) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


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


def cases_in(text: str, people: int) -> list[int]:
    """Positions from 148, 3,8 or 0:200; a range may reach past the end."""
    chosen: list[int] = []
    for part in text.split(","):
        start, colon, stop = part.partition(":")
        try:
            first, last = int(start or 0) if colon else int(part), int(stop) if stop.strip() else people
        except ValueError:
            raise SettingError(
                f"--cases {text}: give positions such as 148 or 3,8, or a range such as 0:200."
            ) from None
        if colon and (first < 0 or last <= min(first, people - 1)):
            raise SettingError(f"--cases {text}: a range goes from a smaller to a larger position, such as 0:200.")
        if colon and first >= people:
            raise SettingError(f"--cases {text}: there are only people 0 to {people - 1}.")
        chosen += range(first, min(last, people)) if colon else [first]
    return list(dict.fromkeys(chosen))


def budget_in(text: str) -> float:
    """A share such as 0.1% or 0.001, or a count such as 3."""
    share = text.strip().endswith("%")
    try:
        number = float(text.strip().removesuffix("%")) / (100 if share else 1)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingError(f"--budget {text}: give a share such as 0.1% or a count such as 3.")
    if share and not 0 < number < 1:
        raise SettingError(f"--budget {text}: a share must lie above 0 % and below 100 %.")
    return int(number) if number >= 1 and number == int(number) else number


def seconds_in(text: str) -> float:
    """A time such as 90s, 10m or 2h."""
    read = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smh]?)\s*", text)
    if not read or not float(read[1]):
        raise SettingError(f"--max-seconds '{text}' is not a time above 0; write 90s, 10m or 2h.")
    return float(read[1]) * UNITS[read[2]]


def layers_in(text: str) -> tuple[int, ...]:
    """Widths such as 32,32, or none."""
    try:
        return () if text.strip() == "none" else tuple(int(width) for width in text.split(","))
    except ValueError:
        raise SettingError(f"--hidden {text}: give widths such as 32,32, or 'none'.") from None


def batch_in(text: str) -> int | None:
    """A number of rows, or all of them."""
    try:
        return None if text == "full" else int(text)
    except ValueError:
        raise SettingError(f"--batch-size {text}: give a number of rows, or 'full'.") from None
