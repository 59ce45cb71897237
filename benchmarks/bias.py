"""Does it find bias? Labels of one group made adverse on purpose, and who finds them, and whom they hurt.

In the training rows of five data sets a share of one group's favourable labels is made adverse: `uniform`; `hard`
(nearer to a boundary, more often); `region` (on one side of a random direction of the inputs); `labeller` (one value
of one categorical column). The audited model sees the attribute, or is blind to it.

    python -m benchmarks.bias                wrong labels among those reviewed first; one standard for all
    python -m benchmarks.bias --review       what reviews find and restore, label by label
    python -m benchmarks.bias --value 30000  how long valuing so many labels takes
    python -m benchmarks.bias --null 100     nothing planted, the attribute shuffled: false alarms
    python -m benchmarks.bias --signs        which numbers tell the people who are hurt from the others

Wrong labels: of the first n/4 and n adverse labels of any group, n the number planted, the share that was planted, by
doubt (the mean of two models, or one of them), by cleanlab (self-confidence and find_label_issues, by cross-validated
probabilities of the audited model), by keystones, by chance. One standard: `hurt` are test people of the group whom
the model of the clean table accepts and that of the planted table refuses; `turned` those whom the model accepts once
M of its adverse labels are flipped. Precision is the share of the turned who were hurt, recall the share of
the hurt who are turned. No setting was chosen on these tables.

Reviews: a reviewer who knows the truth reviews the first n/8 … n adverse labels and corrects the wrong ones; `restored`
is the share of the hurt who are accepted then. `erring`: the same where one answer in ten is wrong. Ways: the value of
a review (doubt² × effect on the test people, as an audit of them has it), the same by other people (the validation
rows), doubt, the effect alone, cleanlab, keystones, chance. `expected`: the share of wrong ones that was foretold. How
fast people count less with their margin was chosen on seeds 100 and 101.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from benchmarks.rows import Columns, Row, names, numbers, options, parse, run, show
from benchmarks.work import explain, mean, network
from butfor.audit import LabelAudit
from butfor.data import Dataset, load_dataset
from butfor.data.sensitive import Sensitive
from butfor.encode import TableEncoder, is_numeric
from butfor.learn.engines import choose_engine
from butfor.learn.ensemble import Ensemble
from butfor.learn.learners import as_learner
from butfor.learn.named import model_named
from butfor.learn.protocols import FlipSet, Learner, Table, Training
from butfor.machine import available_cores, single_threaded
from butfor.run.labels import Values, combine, effects
from butfor.standard.compare import compare
from butfor.standard.groups import Standards

GROUPS = {"german": "female", "compas": "non-White", "adult": "Female", "default": "2", "student": None}
"""The group whose labels are made adverse; of Student the smaller one."""
KINDS = ("uniform", "hard", "region", "labeller")
SHARES = (0.2, 0.1)
MODELS = ("logistic", "boosting")
BOTH = " and ".join(MODELS)
NETWORKS = ("german", "compas")
"""Where the network is measured too."""
MEMBERS = 8
BUDGET = 0.02
"""Of audits: the share of labels that may be flipped."""
REFUSED = 20
"""People asked about at the most, for keystones and distances."""
DRAWS = 99
SMALL = ("german", "compas", "student")
"""Where people are asked about one by one."""
PARTS = (8, 4, 2, 1)
"""Labels reviewed: the number planted, divided by these."""
ERRING = 0.1
"""Answers that are wrong, of a reviewer who errs."""

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Planted:
    """One table with planted labels, and what is known of it."""

    name: str
    kind: str
    share: float
    blind: bool
    seed: int

    @cached_property
    def data(self) -> Dataset:
        return load_dataset(self.name, random_state=self.seed)

    @cached_property
    def group(self) -> str:
        counts = self.data.X_train[self.data.sensitive].astype(str).value_counts()
        return GROUPS[self.name] or str(counts.index[-1])

    @cached_property
    def favourable(self) -> int:
        return 1 - self.data.label_names.index(str(self.data.adverse))

    def of_group(self, X: pd.DataFrame) -> Mask:
        return (X[self.data.sensitive].astype(str) == self.group).to_numpy()

    @cached_property
    def rows(self) -> Rows:
        """The positions of the labels that are made adverse."""
        X, rng = self.data.X_train, np.random.default_rng([self.seed, KINDS.index(self.kind)])
        candidates = np.flatnonzero(self.of_group(X) & (self.data.y_train == self.favourable).to_numpy())
        count = round(self.share * len(candidates))
        weight = np.ones(len(candidates))
        inputs = TableEncoder("onehot", dtype="float64").fit_transform(X.drop(columns=self.data.sensitive))
        if self.kind == "hard":
            clean = LogisticRegression(max_iter=1000).fit(inputs, self.data.y_train)
            weight = np.exp(-np.abs(clean.decision_function(inputs[candidates])))
        if self.kind == "region":
            along = inputs[candidates] @ rng.standard_normal(inputs.shape[1])
            weight = (along >= np.sort(along)[-max(count, len(along) // 3)]).astype(float)
        if self.kind == "labeller":
            columns = [c for c in X.columns if c != self.data.sensitive and not is_numeric(X[c])]
            values = [X[c].astype(str).to_numpy()[candidates] for c in columns]
            theirs = [v == value for v in values for value in np.unique(v) if (v == value).sum() >= count]
            weight = theirs[rng.integers(len(theirs))].astype(float) if theirs else weight
        return np.sort(rng.choice(candidates, count, replace=False, p=weight / weight.sum()))

    @cached_property
    def labels(self) -> pd.Series:
        """With the planted ones."""
        y = self.data.y_train.copy()
        y.iloc[self.rows] = 1 - self.favourable
        return y

    def inputs(self, X: pd.DataFrame) -> pd.DataFrame:
        """What the audited model sees."""
        return X.drop(columns=self.data.sensitive) if self.blind else X

    def standards(self, standard: Any = None, draws: int = 0, attribute: Any = None) -> Standards:
        X = self.data.X_train
        sensitive = Sensitive.of(X[self.data.sensitive].to_numpy() if attribute is None else attribute, X)
        return compare(
            X.drop(columns=self.data.sensitive),
            (self.labels == self.favourable).to_numpy(),
            [sensitive],
            names=("adverse", "favourable"),
            standard=standard,
            draws=draws,
            n_jobs=1,
            explain=bool(draws),
        )

    @cached_property
    def doubts(self) -> dict[str, Floats]:
        """Doubt by the two models and by each alone; and by the two, groups that fall short first."""
        both = self.standards()
        short = [c.group for c in both.comparisons if c.missing]
        return {
            "doubt": both.doubt,
            "doubt, groups that fall short": both.doubt + np.isin(both.groups.astype(str), short),
            "doubt, logistic": self.standards(LogisticRegression(max_iter=1000)).doubt,
            "doubt, boosting": self.standards(HistGradientBoostingClassifier(random_state=0)).doubt,
        }

    def accepted(self, model: str, sets: Sequence[FlipSet]) -> Mask:
        """For each flip set, whom of the test people the model accepts that is trained on it: `[sets × people]`."""
        table, people = Table(self.inputs(self.data.X_train), self.labels), self.inputs(self.data.X_test)
        learner = self.learner(model)
        seeds: list[int | None] = [None]
        if model == "mlp":
            table = Table(table.X, table.y, (self.inputs(self.data.X_val), self.data.y_val))
            seeds = list(range(MEMBERS))
        engine = choose_engine("auto", learner, 1)
        logits = engine.bind(learner, table, people)([Training(flips, seed) for flips in sets for seed in seeds])
        means = np.asarray(logits).reshape(len(sets), len(seeds), len(people)).mean(axis=1)
        return (means > 0) == bool(self.favourable)

    def learner(self, model: str) -> Learner:
        if model == "mlp":
            return as_learner(network(self.data.setup), TableEncoder("embed", self.data.setup.numeric))
        return as_learner(model_named(model), None)


def orders(planted: Planted, model: str, keystones: bool) -> Iterator[tuple[str, Floats]]:
    """Ways to review labels that others have, and chance: a number per training row, higher first."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    labels, probabilities = planted.labels.to_numpy(), probabilities_of(planted, model)
    yield "cleanlab", 1 - get_label_quality_scores(labels, probabilities, method="self_confidence")
    issues = np.zeros(len(labels))
    ranked = find_label_issues(labels, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
    issues[ranked] = np.arange(len(ranked), 0, -1)
    yield "cleanlab, issues", issues
    if keystones:
        yield "keystones", keystone_counts(planted, model)
    yield "chance", np.random.default_rng(planted.seed).random(len(labels))


def probabilities_of(planted: Planted, model: str) -> Floats:
    """Of both labels, cross-validated, by the audited kind of model."""
    rows = TableEncoder("onehot", dtype="float64").fit_transform(planted.inputs(planted.data.X_train))
    estimator = network(planted.data.setup) if model == "mlp" else model_named(model)
    found = cross_val_predict(estimator, rows, planted.labels.to_numpy(), method="predict_proba")
    return np.asarray(found, np.float64)


def reviewed_first(planted: Planted, order: Floats, count: int) -> Rows:
    """The first `count` adverse labels; ties in random order."""
    adverse = np.flatnonzero((planted.labels != planted.favourable).to_numpy())
    shuffled = np.random.default_rng(planted.seed).permutation(adverse)
    return np.asarray(shuffled[np.argsort(-np.nan_to_num(order[shuffled], nan=-1), kind="stable")][:count])


def wrong_among(planted: Planted, order: Floats, count: int) -> float:
    """Of the first `count` adverse labels, the share that was planted."""
    return float(np.isin(reviewed_first(planted, order, count), planted.rows).mean())


def values_of(planted: Planted, model: str) -> tuple[Values, Values, Standards]:
    """What a review of each label is worth, by the audited model's decisions about the test people; and by those about
    other people, the validation rows, who are not the ones that are restored."""
    data, learner = planted.data, planted.learner(model)
    table = Table(planted.inputs(data.X_train), planted.labels)
    if model == "mlp":
        table = Table(table.X, table.y, (planted.inputs(data.X_val), data.y_val))
        learner = Ensemble(learner, MEMBERS)
    adverse, standards, fitted = 1 - planted.favourable, planted.standards(), learner.fit(table, table.labels())

    def by(people: pd.DataFrame) -> Values:
        row_groups, groups = (X[data.sensitive].astype(str).to_numpy(object) for X in (data.X_train, people))
        effect = effects(fitted, table, row_groups, planted.inputs(people), groups, adverse)
        return combine(standards, table, effect, adverse)

    return by(data.X_test), by(data.X_val), standards


def places(values: Values) -> Floats:
    """The order of review as a number per label, higher first."""
    place = np.full(len(values.value), -np.inf)
    place[values.order] = -np.arange(len(values.order), dtype=float)
    return place


def restored(planted: Planted, model: str, keystones: bool) -> list[Row]:
    """One row per way and number of labels reviewed."""
    with single_threaded():
        values, with_moved_files, standards = values_of(planted, model)
        ways = {"value": places(values), "value, by other people": places(with_moved_files)}
        ways |= {"doubt": standards.doubt, "effect": values.effect.astype(np.float64)}
        ways |= dict(orders(planted, model, keystones))
        n = len(planted.rows)
        errs = np.random.default_rng([planted.seed, 11]).random(len(planted.labels)) < ERRING
        cases, sets = [], [(), tuple(map(int, planted.rows))]
        for way, order in ways.items():
            for part in PARTS:
                first = reviewed_first(planted, order, -(-n // part))
                wrong = np.isin(first, planted.rows)
                for erring in (False, True):
                    changed = first[wrong ^ (errs[first] & erring)]
                    sets.append(tuple(sorted(map(int, changed))))
                expected = float(values.wrong[first].mean()) if values.wrong is not None and way == "value" else None
                cases.append({"way": way, "part": part, "wrong": float(wrong.mean()), "expected": expected})
        unique = list(dict.fromkeys(sets))
        accepted = dict(zip(unique, planted.accepted(model, unique), strict=True))
        before, true = accepted[()], accepted[sets[1]]
        hurt = planted.of_group(planted.data.X_test) & true & ~before
        about = {"set": planted.name, "kind": planted.kind, "share": planted.share, "blind": planted.blind}
        about |= {"model": model, "seed": planted.seed, "n": n, "hurt": int(hurt.sum())}
        for k, case in enumerate(cases):
            for name, at in (("restored", 2 + 2 * k), ("erring", 3 + 2 * k)):
                case[name] = float(accepted[sets[at]][hurt].mean()) if hurt.any() else None
    return [about | case for case in cases]


def fitted_audit(planted: Planted, model: str, psi: str) -> tuple[LabelAudit, pd.DataFrame, Any]:
    """An audit of the planted table, and the group's test people whom its model refuses."""
    data, beside = planted.data, planted.data.X_train[planted.data.sensitive]
    audit = LabelAudit(model_named(model), budget=BUDGET, psi=psi, phi="everyone", fresh_seeds=0, n_jobs=1)
    audit.fit(
        planted.inputs(data.X_train),
        planted.labels,
        sensitive_features=beside.to_numpy() if planted.blind else data.sensitive,
        adverse=1 - planted.favourable,
    )
    X = planted.inputs(data.X_test)
    refused = np.flatnonzero(planted.of_group(data.X_test) & ~planted.accepted(model, [()])[0])[:REFUSED]
    theirs = data.X_test[data.sensitive].to_numpy()[refused] if planted.blind else None
    return audit, X.iloc[refused], theirs


def keystone_counts(planted: Planted, model: str) -> Floats:
    """In how many people's flip sets a row is, of the group's refused people."""
    audit, people, groups = fitted_audit(planted, model, "published")
    counts = np.zeros(len(planted.labels))
    for verdict in explain(audit, people, sensitive_features=groups):
        counts[list(verdict.positions)] += 1
    return counts


def review_and_standard(planted: Planted, models: Sequence[str], keystones: bool) -> list[Row]:
    """One row per way to review, and one per model on one standard for all."""
    about = {"set": planted.name, "kind": planted.kind, "share": planted.share, "blind": planted.blind}
    about |= {"seed": planted.seed, "n": len(planted.rows)}
    done: list[Row] = []
    with single_threaded():
        for model in [m for m in models if m != "mlp"]:
            asked = keystones and model == "logistic" and planted.name in SMALL
            for way, order in [*planted.doubts.items(), *orders(planted, model, asked)]:
                quarter, whole = (
                    wrong_among(planted, order, k) for k in (-(-len(planted.rows) // 4), len(planted.rows))
                )
                done.append(about | {"model": model, "way": way, "quarter": quarter, "whole": whole})
        standards = planted.standards()
        comparison = standards.of_group(planted.group)
        flips = tuple(sorted(map(int, standards.missing_labels(planted.group)))) if comparison else ()
        ours = planted.of_group(planted.data.X_test)
        for model in models:
            if model == "mlp" and planted.name not in NETWORKS:
                continue
            clean = tuple(map(int, planted.rows))
            before, true, after = planted.accepted(model, [(), clean, flips])
            hurt, turned = ours & true & ~before, ours & after & ~before
            both = int((hurt & turned).sum())
            done.append(
                about
                | {"model": model, "way": "one standard", "missing": len(flips), "hurt": int(hurt.sum())}
                | {"turned": int(turned.sum()), "both": both, "people": int(ours.sum())}
            )
    return done


def value_seconds(rows: int, models: Sequence[str]) -> Iterator[Row]:
    """How long it takes to value so many labels of Adult, by its test people: doubts, and the rest."""
    data = load_dataset("adult")
    X, y = (pd.concat(parts).iloc[:rows] for parts in ((data.X_train, data.X_val), (data.y_train, data.y_val)))
    for model in models:
        named = model != "mlp"
        encoder = None if named else TableEncoder("embed", data.setup.numeric)
        audit = LabelAudit(model_named(model) if named else network(data.setup), encoder=encoder, fresh_seeds=0)
        validation = None if named else (data.X_test, data.y_test)
        audit.fit(X, y, sensitive_features=data.sensitive, adverse=data.adverse, validation=validation)
        groups = data.X_test[data.sensitive].to_numpy(object)
        started = time.perf_counter()
        audit.fitted_.doubt  # noqa: B018  computed now
        doubted = time.perf_counter()
        effects(audit.model_, audit.table_, audit.fitted_.sensitive.values, data.X_test, groups, audit.fitted_.adverse)
        seconds = {"doubt": doubted - started, "value": time.perf_counter() - doubted}
        yield {"model": model, "rows": len(X), "people": len(data.X_test), "members": audit.fitted_.members} | seconds


def false_alarm(planted: Planted, models: Sequence[str]) -> list[Row]:
    """Nothing planted, the attribute shuffled: p of the group, and whom one standard turns all the same."""
    rng = np.random.default_rng([planted.seed, 7])
    attribute = rng.permutation(planted.data.X_train[planted.data.sensitive].astype(str).to_numpy())
    test = rng.permutation(planted.of_group(planted.data.X_test))
    with single_threaded():
        standards = planted.standards(draws=DRAWS, attribute=attribute)
        comparison = standards.of_group(planted.group)
        assert comparison is not None
        flips = tuple(sorted(map(int, standards.missing_labels(planted.group))))
        done = []
        for model in models:
            before, after = planted.accepted(model, [(), flips])
            turned = float((test & (before != after)).sum() / test.sum())
            shown = turned if comparison.differs else 0.0
            done.append(
                {"set": planted.name, "model": model, "seed": planted.seed, "p": comparison.p, "turned": turned}
                | {"turned_and_told": shown}
            )
    return done


def signs(planted: Planted, model: str) -> list[Row]:
    """Among the group's refused test people, how well numbers tell those who were hurt: AUC."""
    with single_threaded():
        audit, people, groups = fitted_audit(planted, model, "published")
        at = planted.data.X_test.index.get_indexer(people.index)
        flips = tuple(sorted(map(int, planted.standards().missing_labels(planted.group))))
        true, after = planted.accepted(model, [tuple(map(int, planted.rows)), flips])[:, at]
        if true.all() or not true.any():
            return []
        doubted = fitted_audit(planted, model, "doubted")[0]
        numbers = {
            "margin": -np.abs(audit.model_.logits(people)),
            "label distance": -distances(audit, people, groups),
            "doubted distance": -distances(doubted, people, groups),
            "one standard": after.astype(float),
        }
    about = {"set": planted.name, "kind": planted.kind, "model": model, "seed": planted.seed}
    return [about | {"sign": name, "auc": float(roc_auc_score(true, number))} for name, number in numbers.items()]


def distances(audit: LabelAudit, people: pd.DataFrame, groups: Any) -> Floats:
    """How many labels it takes; one more than the budget where no set was found."""
    verdicts = explain(audit, people, sensitive_features=groups)
    return np.array([len(v.positions) if v.found else audit.fitted_.budget + 1 for v in verdicts], float)


def spread(jobs: int, tasks: Sequence[Any]) -> list[Row]:
    """All tasks over the cores."""
    return [row for rows in Parallel(n_jobs=jobs)(tasks) for row in rows]


def summary_of(rows: Sequence[Row], by: Sequence[str]) -> Iterator[Row]:
    """Means over seeds, shares and what the model sees; precision and recall over all people together."""
    frame = pd.DataFrame(rows)
    for keys, some in frame.groupby(list(by), sort=False):
        row = dict(zip(by, keys, strict=True)) | {"tables": len(some)}
        for name in ("quarter", "whole", "n", "missing", "hurt", "turned", "auc", "p", "turned_and_told"):
            if name in some and some[name].notna().any():
                row[name] = float(some[name].mean())
        if "both" in some and some["both"].notna().any():
            row["precision"] = mean([b / t for b, t in zip(some["both"], some["turned"], strict=True) if t], 3)
            row["recall"] = mean([b / h for b, h in zip(some["both"], some["hurt"], strict=True) if h], 3)
        if "p" in some:
            row["alarms"] = float((some["p"] < 0.05).mean())
        yield row


REVIEW: Columns = {
    "set    ": "{set}",
    "kind    ": "{kind}",
    "model   ": "{model}",
    "way                          ": "{way}",
    "tables": "{tables}",
    "n/4 wrong": "{quarter:.2f}",
    "n wrong": "{whole:.2f}",
    "planted": "{n:.0f}",
    "    M": "{missing:.0f}",
    "  hurt": "{hurt:.1f}",
    "turned": "{turned:.1f}",
    "precision": "{precision:.2f}",
    "recall": "{recall:.2f}",
}
RESTORED: Columns = {
    "model                ": "{model}",
    "way                   ": "{way}",
    "tables": "{tables}",
    "reviewed": "n/{part}",
    "wrong": "{wrong:.2f}",
    "        ±": "{wrong_margin:.2f}",
    "expected": "{expected:.2f}",
    "restored": "{restored:.2f}",
    "       ±": "{restored_margin:.2f}",
    "erring": "{erring:.2f}",
}
SECONDS: Columns = {
    "model   ": "{model}",
    "members": "{members}",
    "  rows": "{rows}",
    "people": "{people}",
    "doubts, s": "{doubt:.1f}",
    "values, s": "{value:.1f}",
}
ALARMS: Columns = {
    "set    ": "{set}",
    "model   ": "{model}",
    "tables": "{tables}",
    "p < 0.05": "{alarms:.2f}",
    "turned": "{turned:.4f}",
    "turned and told": "{turned_and_told:.4f}",
}
SIGNS: Columns = {
    "set    ": "{set}",
    "model   ": "{model}",
    "sign            ": "{sign}",
    "tables": "{tables}",
    "  AUC": "{auc:.2f}",
}


def restored_summary(rows: Sequence[Row]) -> Iterator[Row]:
    """Means over all tables, with 95 % intervals from the spread over seeds; for two models together, and for each."""
    frame = pd.DataFrame(rows)
    for model in [BOTH, *dict.fromkeys(frame["model"])]:
        ours = frame[frame["model"].isin(MODELS if model == BOTH else [model])]
        for (way, _), some in ours.groupby(["way", "part"], sort=False):
            row: Row = {"model": model, "way": way, "part": int(some["part"].iloc[0]), "tables": len(some)}
            for name in ("wrong", "expected", "restored", "erring"):
                if some[name].notna().any():
                    seeds = some.groupby("seed")[name].mean()
                    row[name] = float(some[name].mean())
                    row[f"{name}_margin"] = float(1.96 * seeds.std() / np.sqrt(len(seeds))) if len(seeds) > 1 else None
            yield row


def draw_restored(results: Path, picture: Path) -> None:
    """Curves of wrong labels found and decisions restored against labels reviewed, from the rows of a JSON file."""
    from matplotlib.figure import Figure

    frame = pd.DataFrame(json.loads(results.read_text(encoding="utf-8"))["restored"])
    frame = frame[frame["model"] == BOTH]
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, (name, title) in zip(
        figure.subplots(1, 2),
        (("wrong", "share of reviewed labels that are wrong"), ("restored", "share of hurt people restored")),
        strict=True,
    ):
        for way, some in frame.groupby("way", sort=False):
            reviewed = [1 / part for part in some["part"]]
            axes.plot(reviewed, some[name], marker="o", label=way, lw=3 if way == "value" else 1.2)
            margin = some[f"{name}_margin"].astype(float).fillna(0)
            axes.fill_between(reviewed, some[name] - margin, some[name] + margin, alpha=0.12)
        axes.set_xticks([1 / part for part in PARTS], ["n/8", "n/4", "n/2", "n"])
        axes.set_xlabel("labels reviewed")
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(picture, metadata={"Date": None})


def draw(results: Path, picture: Path) -> None:
    """Bars of the wrong labels among those reviewed first, by way, from the rows of a JSON file."""
    from matplotlib.figure import Figure

    frame = pd.DataFrame(json.loads(results.read_text(encoding="utf-8"))["review"]).dropna(subset=["quarter"])
    means = frame.groupby("way")[["quarter", "whole"]].mean().sort_values("quarter")
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(means))
    axes.barh(places + 0.2, means["quarter"], 0.38, color="#ad410b", label="among the first n/4")
    axes.barh(places - 0.2, means["whole"], 0.38, color="#0b5a9e", label="among the first n")
    axes.set_yticks(places, list(means.index))
    axes.set_xlabel("share of reviewed labels that are wrong")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=list(GROUPS))
    parser.add_argument("--kinds", type=names, default=list(KINDS))
    parser.add_argument("--models", type=names, default=[*MODELS, "mlp"])
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2, 3])
    parser.add_argument("--shares", type=lambda text: [float(share) for share in names(text)], default=list(SHARES))
    parser.add_argument("--keystones", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--null", type=int, help="tables without planted labels, over all sets")
    parser.add_argument("--signs", action="store_true")
    parser.add_argument("--review", action="store_true")
    parser.add_argument("--value", type=int, metavar="ROWS", help="labels of Adult to value, with how long it takes")
    parser.add_argument("--picture", nargs=2, type=Path, metavar=("RESULTS", "FILE"), help="draw what was measured")
    parser.add_argument("--n-jobs", type=int, default=available_cores())
    as_json, given = parse(parser, arguments)
    o = argparse.Namespace(**given)
    if o.picture:
        (draw_restored if o.review else draw)(*o.picture)
        return 0
    if o.value is not None:
        show(value_seconds(o.value, o.models), SECONDS, as_json)
        return 0
    if o.null is not None:
        each = -(-o.null // len(o.datasets))
        tables = [Planted(name, "uniform", 0.0, True, seed) for name in o.datasets for seed in range(each)]
        rows = spread(o.n_jobs, [delayed(false_alarm)(table, ["logistic"]) for table in tables])
        show(summary_of(rows, ("set", "model")), ALARMS, as_json)
        return 0
    tables = [Planted(*case) for case in product(o.datasets, o.kinds, o.shares, (False, True), o.seeds)]
    if o.review:
        work = [
            delayed(restored)(table, model, o.keystones and model == "logistic" and table.name in SMALL)
            for table, model in product(tables, o.models)
            if model != "mlp" or table.name in NETWORKS
        ]
        show(restored_summary(spread(o.n_jobs, work)), RESTORED, as_json)
        return 0
    if o.signs:
        some = [table for table in tables if table.name in SMALL]
        rows = spread(o.n_jobs, [delayed(signs)(table, "logistic") for table in some])
        show(summary_of(rows, ("set", "model", "sign")), SIGNS, as_json)
        return 0
    rows = spread(o.n_jobs, [delayed(review_and_standard)(table, o.models, o.keystones) for table in tables])
    show(summary_of(rows, ("set", "kind", "model", "way")), REVIEW, as_json)
    return 0


if __name__ == "__main__":
    from benchmarks import bias  # under its own name, so that other processes know its functions

    run(bias.main)
