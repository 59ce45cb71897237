"""Audits on file, and what tests do with them: run commands, change records, answer the tasks of a
review."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.cli import main
from butfor.result.record import with_checksum
from butfor.result.run import Data, Run
from butfor.review.tasks import Key, Task
from butfor.support.progress import Progress

RUN = Run(
    butfor="0",
    data=Data(table="t.csv", sha256="", training_rows=100),
    sensitive="afam",
    attributes=("afam",),
    label_names=("deny = no", "deny = yes"),
    adverse=("deny = yes",),
    learner={},
    seeded=True,
    members=1,
    budget=3,
    rank="r",
    strategy="s",
    phi="stable_under_switch & predicted(yes)",
    psi="published",
    fresh_seeds=29,
    log_odds=True,
)
"""The settings of an audit, for tests of what its results say."""
FEW_DRAWS = 20
"""Tables that audits of tests draw, unless they are about what users get."""
OTHER = {"bad credit": "good credit", "good credit": "bad credit"}


class Notes(Progress):
    """Remembers what a user is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main(drawing_few(list(map(str, arguments))))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def drawing_few(arguments: list[str]) -> list[str]:
    """The arguments of an audit with few drawn tables, unless they say how many; those of another
    command as they are."""
    drawn = arguments[0] != "audit" or "--draws" in arguments or "--help" in arguments
    return arguments if drawn else [*arguments, "--draws", str(FEW_DRAWS)]


def audited(folder: Path, *arguments: str) -> Path:
    assert main(drawing_few(["audit", *arguments, "--out", str(folder), "--quiet"])) == 0
    return folder / "audit.json"


def key_of(tasks: Path) -> list[dict]:
    return json.loads(tasks.with_name("tasks.key.json").read_text())["tasks"]


def sealed(tasks: Path) -> Key:
    """The key beside a folder of tasks, as reviews read it."""
    return msgspec.convert(json.loads(tasks.with_name("tasks.key.json").read_text()), Key)


def key_with(labels: Sequence[str], names: tuple[str, ...], **about: object) -> Key:
    """A key of tasks K-0, K-1, … with these recorded labels; `about`, per task: lists of kinds,
    controls, …"""
    columns = {"kind": ["label"] * len(labels)} | about
    rows = [{name: values[k] for name, values in columns.items()} for k in range(len(labels))]
    tasks = tuple(
        Task(f"K-{k}", k, k, label, **row)
        for k, (label, row) in enumerate(zip(labels, rows, strict=True))
    )
    return Key("sha256:0", names, names[:1], "sex = f", "other groups", None, tasks)


def changed(path: Path, to: Path, change) -> Path:
    """A copy of a JSON file after `change`, with_checksum as butfor would have written it. A copy
    elsewhere names the same table."""
    record = json.loads(path.read_text())
    data = record.get("run", {}).get("data", {})
    if data.get("relative") and data["label"]:  # an embedded set is no file
        data["table"] = str((path.parent / data["table"]).resolve())
    change(record)
    to.write_text(json.dumps(with_checksum(record)))
    return to


def of_kind(tasks: Path, kind: str) -> list[dict]:
    """The tasks of one kind, in the order shown; of labels under review, those with a control
    first."""
    return sorted(
        (t for t in key_of(tasks) if t["kind"] == kind), key=lambda t: t["control"] is None
    )


def answered(tasks: Path, labels: int, controls: int = 0, clear: int = 0) -> dict[str, str]:
    """Every task answered as recorded, but for so many of each kind."""
    answers = {task["id"]: task["label"] for task in key_of(tasks)}
    for kind, count in (("label", labels), ("control", controls), ("clear case", clear)):
        answers |= {task["id"]: OTHER[task["label"]] for task in of_kind(tasks, kind)[:count]}
    return answers


def fill_in(
    tasks: Path, answers: dict[str, str], separator: str = ",", name: str = "tasks.csv"
) -> Path:
    frame = pd.read_csv(tasks / "tasks.csv", dtype=str, keep_default_na=False)
    frame["label"] = [answers.get(task, "") for task in frame["id"]]
    frame.to_csv(tasks / name, index=False, sep=separator, encoding="utf-8-sig")
    return tasks / name


def wronged(
    rows: int, seed: int, noise: float = 0.3, share: float = 0.4
) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    """Loans by income and debts; of group b's granted ones a share is refused all the same, and
    which they are."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"group": rng.choice(["a", "b"], rows), "income": rng.normal(size=rows)})
    X["debts"] = rng.normal(size=rows)
    granted = (X["income"] - X["debts"] + noise * rng.normal(size=rows) > 0).to_numpy()
    wrong = granted & (X["group"] == "b").to_numpy() & (rng.random(rows) < share)
    return X, pd.Series(np.where(granted & ~wrong, "yes", "no")), wrong


def compared(X, y, **how):
    """A comparison of groups without drawn tables, unless `draws` asks for some; labels may be True
    for 'yes'."""
    how = {"sensitive_features": "group", "adverse": "no", "draws": 0, "n_jobs": 1} | how
    y = np.where(y, "yes", "no") if isinstance(y, np.ndarray) and y.dtype == bool else y
    return butfor.compare_standards(X, y, **how)


TABLE, LABELS, PLANTED = wronged(400, 0)


def fitted(X=TABLE, y=LABELS, model=None, settings=None, **fit):
    """An audit of applicants that knows the adverse label, of a logistic regression unless `model`
    is another."""
    settings = {"budget": 4, "members": 1, "fresh_seeds": 0, "n_jobs": 1} | (settings or {})
    audit = butfor.LabelAudit(model or LogisticRegression(), **settings)
    return audit.fit(
        X, y, **{"sensitive_features": "group", "adverse": "no", "draws": FEW_DRAWS} | fit
    )
