"""Small audits and comparisons over kinds of models, searches, thresholds, labels and limits, whose
records are approved.

Each function makes one record. Limits are in retrainings, never in seconds, and worlds are small
enough for all 20, so that a record says the same on a busy machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import butfor
from recorded import audited, compared, wronged

DRAWS = 20
AUDITS: dict[str, Callable[[], Any]] = {}
COMPARISONS: dict[str, Callable[[], Any]] = {}
COMMANDS: dict[str, Callable[[Path], Path]] = {}


def audit_record(make: Callable[[], Any]) -> Callable[[], Any]:
    AUDITS[make.__name__] = make
    return make


def comparison_record(make: Callable[[], Any]) -> Callable[[], Any]:
    COMPARISONS[make.__name__] = make
    return make


def command_record(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    COMMANDS[make.__name__] = make
    return make


# --- tables and audits ----------------------------------------------------------------------------


def on_german(
    model: Any, rows: int | None = None, fit: dict[str, Any] | None = None, **settings: Any
) -> Any:
    """An audit of German Credit that draws few tables, and the people of its test set."""
    data = butfor.load_dataset("german")
    audit = butfor.LabelAudit(model, **{"n_jobs": 1} | settings)
    how = {"adverse": 0, "draws": 0} if fit is None else fit
    audit.fit(
        data.X_train[:rows], data.y_train[:rows], sensitive_features="sex", progress=False, **how
    )
    return audit


def german_people() -> tuple[pd.DataFrame, pd.Series]:
    data = butfor.load_dataset("german")
    return data.X_test, data.y_test


def with_network(name: str, rows: int | None = None, **settings: Any) -> Any:
    """An audit of an embedded set by its published network."""
    data = butfor.load_dataset(name)
    setup = data.setup
    model = butfor.MLP(
        hidden=setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size
    )
    settings = {"budget": setup.budget, "members": 1, "fresh_seeds": 0, "n_jobs": 1} | settings
    audit = butfor.LabelAudit(
        model, encoder=butfor.TableEncoder("embed", setup.numeric), **settings
    )
    X, y = data.X_train.iloc[:rows], data.y_train.iloc[:rows]
    return audit.fit(
        X,
        y,
        sensitive_features=data.sensitive,
        validation=(data.X_val, data.y_val),
        draws=0,
        progress=False,
    )


def explained(audit: Any, people: int, **how: Any) -> butfor.Population:
    X, y = german_people()
    return audit.explain_all(X, y, cases=range(people), progress=False, **how)


def three_labels() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"a": rng.normal(size=150), "b": rng.normal(size=150), "sex": np.tile(["f", "m"], 75)}
    )
    high = X["a"] + 0.3 * rng.normal(size=150) > 0.5
    return X, pd.Series(np.where(high, "high", np.where(X["b"] > 0, "mid", "low")))


def on_three_labels(model: Any, fit: dict[str, Any] | None = None, **settings: Any) -> Any:
    X, y = three_labels()
    audit = butfor.LabelAudit(model, **{"budget": 8, "phi": "everyone", "n_jobs": 1} | settings)
    return audit.fit(X, y, sensitive_features="sex", draws=0, progress=False, **(fit or {}))


def best_first(person: Any) -> Iterator[Any]:
    """A search of a user's own."""
    for size in range(1, person.budget + 1):
        if person.smallest():
            break
        yield person.best(size)
    return person.smallest()


# --- searches -------------------------------------------------------------------------------------


@audit_record
def network_exhaustive() -> Any:
    data = butfor.load_dataset("salary")
    return with_network("salary", strategy="exhaustive").explain_all(
        data.X_test, data.y_test, progress=False
    )


@audit_record
def network_solid_fresh_seeds() -> Any:
    data = butfor.load_dataset("salary")
    audit = with_network(
        "salary", members=6, strategy="solid", budget=3, fresh_seeds=33, phi="everyone"
    )
    return audit.explain_all(data.X_test, data.y_test, cases=range(8), progress=False)


@audit_record
def network_guided_fresh_seeds() -> Any:
    data = butfor.load_dataset("salary")
    audit = with_network("salary", strategy="guided", budget=4, fresh_seeds=30, phi="everyone")
    return audit.explain_all(data.X_test, progress=False)


@audit_record
def network_attempts_by_chance() -> Any:
    data = butfor.load_dataset("salary")
    audit = with_network("salary", strategy="attempts", rank="chance", budget=2, phi="everyone")
    return audit.explain_all(data.X_test, progress=False)


@audit_record
def network_solid_on_german() -> Any:
    data = butfor.load_dataset("german")
    audit = with_network("german", 200, members=4, strategy="solid", budget=8, fresh_seeds=31)
    return audit.explain_all(data.X_test, cases=range(12), progress=False)


@audit_record
def logistic_guided() -> Any:
    return explained(on_german(LogisticRegression(max_iter=1000), budget=6), 25)


@audit_record
def logistic_algorithm1() -> Any:
    model = LogisticRegression(max_iter=1000)
    return explained(on_german(model, budget=5, strategy="algorithm1", rank="influence"), 15)


@audit_record
def logistic_singles() -> Any:
    return explained(on_german(LogisticRegression(max_iter=1000), budget=3, strategy="singles"), 15)


@audit_record
def logistic_own_search() -> Any:
    return explained(
        on_german(LogisticRegression(max_iter=1000), budget=5, strategy=best_first), 15
    )


@audit_record
def logistic_nothing_left_to_find() -> Any:
    return explained(on_german(LogisticRegression(max_iter=1000), budget=1), 30)


@audit_record
def logistic_nobody_eligible() -> Any:
    return explained(
        on_german(LogisticRegression(max_iter=1000), budget=5, phi=np.zeros(5, bool)), 5
    )


# --- limits ---------------------------------------------------------------------------------------


@audit_record
def logistic_30_retrainings() -> Any:
    audit = on_german(LogisticRegression(max_iter=1000), budget=6)
    return explained(audit, 30, stop=butfor.max_retrainings(30))


@audit_record
def logistic_400_retrainings() -> Any:
    audit = on_german(LogisticRegression(max_iter=1000), budget=6)
    return explained(audit, 30, stop=butfor.max_retrainings(400))


# --- models ---------------------------------------------------------------------------------------


@audit_record
def ridge() -> Any:
    return explained(on_german(RidgeClassifier(), budget=3), 25)


@audit_record
def linear_regression() -> Any:
    return explained(on_german(butfor.ThresholdedRegressor(), budget=3), 25)


@audit_record
def neighbours() -> Any:
    return explained(on_german(KNeighborsClassifier(7), budget=3), 20)


@audit_record
def partition() -> Any:
    return explained(on_german(butfor.PartitionEnsemble(RidgeClassifier(), 7), budget=4), 15)


@audit_record
def boosting() -> Any:
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    return explained(on_german(model, 300, budget=4, members=1, fresh_seeds=0), 10)


@audit_record
def forest_fresh_seeds() -> Any:
    model = RandomForestClassifier(10, max_depth=4, random_state=0)
    return explained(on_german(model, 150, budget=4, members=2, fresh_seeds=30, phi="everyone"), 4)


@audit_record
def tree() -> Any:
    return explained(
        on_german(DecisionTreeClassifier(max_depth=3, random_state=0), 300, budget=3, members=1), 8
    )


# --- decisions ------------------------------------------------------------------------------------


@audit_record
def threshold() -> Any:
    return explained(on_german(LogisticRegression(max_iter=1000), budget=4, threshold=0.7), 25)


@audit_record
def places() -> Any:
    people, _ = german_people()
    fit = {"adverse": 0, "draws": 0, "pool": people}
    return explained(
        on_german(LogisticRegression(max_iter=1000), budget=12, threshold="top 40%", fit=fit), 15
    )


@audit_record
def towards_one_label() -> Any:
    audit = on_german(LogisticRegression(max_iter=1000), budget=5, phi="everyone")
    return explained(audit, 20, towards="good credit")


@audit_record
def three_labels_guided() -> Any:
    X, y = three_labels()
    return on_three_labels(LogisticRegression()).explain_all(X[:30], y[:30], progress=False)


@audit_record
def three_labels_100_retrainings() -> Any:
    X, y = three_labels()
    audit = on_three_labels(LogisticRegression(), {"adverse": "low"})
    return audit.explain_all(X[:30], y[:30], stop=butfor.max_retrainings(100), progress=False)


@audit_record
def three_labels_towards() -> Any:
    X, y = three_labels()
    return on_three_labels(RidgeClassifier()).explain_all(
        X[:30], y[:30], towards="high", progress=False
    )


# --- one standard ---------------------------------------------------------------------------------


@audit_record
def worlds() -> Any:
    X, y, _ = wronged(500, 3)
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1)
    audit.fit(X, y, sensitive_features="group", adverse="no", draws=DRAWS, progress=False)
    return audit.explain_all(X[:60], y[:60], progress=False)


@audit_record
def worlds_with_controls() -> Any:
    X, y, _ = wronged(300, 3)
    model = RandomForestClassifier(5, max_depth=3, random_state=0)
    audit = butfor.LabelAudit(
        model, budget=2, members=2, fresh_seeds=0, strategy="algorithm1", n_jobs=1
    )
    audit.fit(X, y, sensitive_features="group", adverse="no", draws=DRAWS, progress=False)
    return audit.explain_all(X[:30], y[:30], progress=False)


# --- comparisons ----------------------------------------------------------------------------------


@comparison_record
def two_groups() -> Any:
    data = butfor.load_dataset("german")
    return compared(data.X_train, data.y_train, sensitive_features="sex", adverse=0, draws=DRAWS)


@comparison_record
def without_draws() -> Any:
    X, y, _ = wronged(400, 0)
    return compared(X, y)


@comparison_record
def draws_that_go_on() -> Any:
    X, y, _ = wronged(150, 2, share=0.3)
    return compared(X, y, draws=None)


@comparison_record
def two_attributes_with_references() -> Any:
    X, y, _ = wronged(600, 1)
    X = X.assign(married=np.random.default_rng(1).choice(["yes", "no"], len(X)))
    reference = {"group": "a", "married": "yes"}
    return compared(X, y, sensitive_features=["group", "married"], reference=reference, draws=DRAWS)


@comparison_record
def clusters_and_weights() -> Any:
    X, y, _ = wronged(400, 2)
    rng = np.random.default_rng(2)
    return compared(
        X,
        y,
        cluster=rng.integers(0, 120, len(X)),
        sample_weight=rng.uniform(0.5, 2, len(X)),
        draws=DRAWS,
    )


@comparison_record
def own_standard() -> Any:
    X, y, _ = wronged(300, 4)
    return compared(X, y, standard=LogisticRegression(), draws=DRAWS)


# --- commands -------------------------------------------------------------------------------------


def applicants_file(folder: Path, rows: int = 400) -> Path:
    X, y, _ = wronged(rows, 5)
    X = X.assign(
        granted=y, born=pd.date_range("1960-01-01", periods=rows, freq="30D").strftime("%Y-%m-%d")
    )
    X.insert(0, "case", [f"A{number}" for number in range(rows)])
    path = folder / "applicants.csv"
    X.to_csv(path, index=False)
    return path


@command_record
def command_on_a_file(folder: Path) -> Path:
    table = applicants_file(folder)
    options = [
        "--label",
        "granted",
        "--adverse",
        "no",
        "--sensitive",
        "group",
        "--reference",
        "a",
        "--id",
        "case",
    ]
    more = ["--model", "logistic", "--threshold", "0.6", "--budget", "3", "--draws", str(DRAWS)]
    return audited(folder / "report", str(table), *options, *more)


@command_record
def command_on_german(folder: Path) -> Path:
    return audited(
        folder / "report",
        "german",
        "--model",
        "logistic",
        "--cases",
        "0:20",
        "--set",
        "max-retrainings=300",
    )


# --- as JSON --------------------------------------------------------------------------------------

BY_MACHINE = ("versions", "engine", "seconds", "butfor", "checksum")
"""What a record says of the machine and not of the data."""


def record_of(name: str, folder: Path) -> Any:
    """The record of an audit, comparison or command by name, without what hangs on the machine."""
    if name in COMMANDS:
        content = json.loads(COMMANDS[name](folder).read_text(encoding="utf-8"))
        content["run"]["data"]["table"] = os.path.basename(content["run"]["data"]["table"])
        content["run"]["command"] = ""
    else:
        made = AUDITS[name]() if name in AUDITS else COMPARISONS[name]()
        content = json.loads(made.to_json())
    for part in (content, content.get("run", {})):
        for key in BY_MACHINE:
            part.pop(key, None)
    return content


NAMES = (*AUDITS, *COMPARISONS, *COMMANDS)
