"""LabelAudit: settings, `fit`, and one method per question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils import Tags

from butfor import explain, worlds
from butfor.fit import (
    NO_ADVERSE,
    Fitted,
    fit,
    with_settings,
)
from butfor.labels import labels_frame, labels_to_review
from butfor.measured import run_of
from butfor.models.seam import decisions_about
from butfor.result.population import Population
from butfor.result.reviewed import Reviewed
from butfor.result.run import figures_of
from butfor.result.verdict import Verdict
from butfor.result.worlds import OneStandards
from butfor.search.proofs import Bracket
from butfor.settings import AuditSettings
from butfor.standard.groups import GroupStandard, Standards
from butfor.standard.settings import ComparisonOptions, ComparisonSettings
from butfor.support.errors import SettingError, listed
from butfor.support.progress import Progress, shown
from butfor.support.settings import signature_with
from butfor.support.stopping import Stop, listen
from butfor.support.threads import single_threaded
from butfor.table.columns import in_pandas, own
from butfor.table.decisions import USUAL
from butfor.table.groups import Cuts
from butfor.table.handed_over import as_person
from butfor.table.hashes import data_hash
from butfor.table.roles import Roles

if TYPE_CHECKING:
    from butfor.review.tasks import Review

KEEP: Any = type("Keep", (), {"__repr__": lambda self: "as it is"})()
"""Marks what `with_search` does not change."""
FIT_SETTINGS = (
    "model",
    "encoder",
    "members",
    "threshold",
    "budget",
    "random_state",
    "rank",
    "strategy",
    "phi",
    "psi",
)
"""Settings that need a new `fit` when they or their own parameters change (`model__C`); the others
apply to the next question."""


class NotFittedError(SettingError, SklearnNotFittedError):
    """Raised by a method that needs `fit` first."""


class LabelAudit(BaseEstimator):
    """Audits the training labels behind a model's decisions about people.

    It answers two questions. Was a group labelled by another standard than comparable people in
    other groups, and whose decisions change because of it (`standards`, `labels`, `one_standard`)?
    On which few training labels does one person's decision hinge (`explain`, `explain_all`)? It is
    a scikit-learn estimator: `get_params`, `set_params` and `clone` work.

    Parameters
    ----------
    model : estimator, butfor.MLP, butfor.Learner or None, default=None
        The model to audit: any scikit-learn classifier or pipeline. It is cloned, and trained again
        with its own `fit` for every claim. None chooses a network that suits the table or, without
        torch, gradient boosting.
    encoder : TableEncoder, "passthrough" or None, default=None
        Turns the table into numbers for a network, or for an estimator that does no preprocessing
        of its own. None makes a `TableEncoder`. "passthrough" gives the estimator the raw table.
    members : int or None, default=None
        The audited model is an ensemble of this many trainings under different seeds, whose mean
        logit decides. 1 is a single model, as in the paper. None chooses 16, or 8 for models and
        tables that train slowly, by kind and size; and 1 if seeds change nothing.
    threshold : float or str, default=0.5
        The decision is favourable from this probability of the favourable label on (without an
        adverse label: of the second label). "top 20%" accepts the best fifth of a pool of people,
        for every model that is trained.
    budget : float or int, default=0.01
        The most labels that may be flipped for one person: a share of the training rows (0.01,
        rounded up) or a count (3).
    rank : str, Ranking, callable or None, default=None
        Which labels to try first: a name of `butfor.rank.NAMES`, an object with `score`, or a
        function. None takes the strategy's own.
    strategy : str, generator function or None, default=None
        How to search: "solid" (the default for an ensemble), "guided" (for a single model), or a
        published one: "algorithm1", "singles", "attempts", "exhaustive". A search of your own is a
        generator function of a person.
    phi : rule, str, callable, mask or None, default=None
        Who is eligible. None takes people whose decision stays the same when the protected
        attribute is switched and, if `fit` knows the adverse label, who get that decision.
    psi : rule, str, callable or mask, default="published"
        Which labels may be flipped.
    fresh_seeds : int, default=59
        Every find is checked under up to this many seeds that took no part in the search: 30 first,
        the others only where these do not settle it. 0 checks none.
    engine : str or butfor.Engine, default="auto"
        What trains the models: a name, a torch device ("cuda") or a cluster ("local:4",
        "tcp://scheduler:8786").
    n_jobs : int, default=-1
        How many models train at a time on the CPU; -1 means one per core.
    ledger : path or None, default=None
        A file that stores the answers of the models that a search and its fresh seeds train, so
        that a run that was interrupted goes on. Confirmations are always trained anew.
    random_state : int, default=0
        Seed of every random choice of the search, and of a model whose own `random_state` is None.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    feature_names_in_, n_features_in_ : array, int
        The columns that the model learns from, and how many there are.
    model_, learner_, table_ : butfor.Model, butfor.Learner, butfor.Table
        The audited model, what trains it, and its training table.
    fitted_ : Fitted
        All of these, with the concerns and settings that the methods start from.

    Notes
    -----
    Methods that take people (`X`) also take `sensitive_features`, one value per person, if the
    protected attribute stands beside the table, and `progress`. By default a call that takes long
    shows in a terminal or notebook how far it is; `progress=False` turns that off.

    Examples
    --------
    >>> import butfor
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = butfor.load_dataset("german")
    >>> audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), budget=3)
    >>> audit = audit.fit(data.X_train, data.y_train, sensitive_features="sex", adverse=0)
    >>> verdict = audit.explain(data.X_test.iloc[[0]])
    >>> verdict.status, len(verdict.positions)
    ('found', 3)

    The examples of the methods continue this one.
    """

    fitted_: Fitted
    _standards: Standards | None
    _review: Review | None
    _settings: dict[str, Any]

    def __init__(
        self,
        model: Any = None,
        *,
        encoder: Any = None,
        members: int | None = None,
        threshold: float | str = USUAL,
        budget: float = 0.01,
        rank: Any = None,
        strategy: Any = None,
        phi: Any = None,
        psi: Any = "published",
        fresh_seeds: int = 59,
        engine: Any = "auto",
        n_jobs: int | None = -1,
        ledger: str | Path | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.members = members
        self.threshold = threshold
        self.budget = budget
        self.rank = rank
        self.strategy = strategy
        self.phi = phi
        self.psi = psi
        self.fresh_seeds = fresh_seeds
        self.engine = engine
        self.n_jobs = n_jobs
        self.ledger = ledger
        self.random_state = random_state

    @signature_with(ComparisonOptions, ComparisonSettings)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        sensitive_bands: Cuts | None = None,
        sample_weight: Any = None,
        cluster: Any = None,
        validation: tuple[Any, Any] | None = None,
        adverse: Any = None,
        also_labelled: Sequence[Any] = (),
        pool: Any = None,
        label_names: Sequence[str] | None = None,
        progress: Progress | bool | None = None,
        **comparison: Unpack[ComparisonOptions],
    ) -> Self:
        """Train the model on a table and remember its groups.

        Parameters
        ----------
        X : data frame
            The training rows: pandas, polars or pyarrow.
        y : array
            Their labels. Rows without one are left out.
        sensitive_features : str, list of str, or array
            The name of the protected column in X, or several names. An array with one value per row
            stands beside X, and the model does not see it.
        sensitive_bands : list of numbers or dates, or dict, optional
            Cut points for a protected number or date with more than 10 different values: [25, 60],
            or by column {"age": [25, 60], "born": ["1980-01-01"]}. Such a column needs them.
        sample_weight : array, optional
            A weight per training row, for the model as it is and for the comparison of groups,
            where only ratios count. A network takes no weights: there they serve the comparison
            alone.
        cluster : str or array, optional
            A column of X, or a value per row: rows with the same value are about one person, advert
            or household. Only the comparison of groups uses it; the model does not see the column.
        validation : (X, y), optional
            Rows that decide when a network stops training. Without them a network sets aside a
            share of X.
        adverse : label or list of labels, optional
            The label that people would rather not have. With it, groups are compared and people who
            get this decision are audited.
        reference : group, list of groups or dict, optional
            Compare every group with this one, and not with all others; of several attributes, one
            group each: {"black": "no", "married": "yes"}.
        draws : int, optional
            Tables drawn under one standard for everybody when groups are compared, for intervals
            and p-values. None draws 99 and goes on, up to 999, while an adjusted p is close to
            0.05; 0 compares no groups.
        also_labelled : (X, y) or (X, y, sensitive_features, cluster, sample_weight), optional
            More labelled rows, such as test rows. Only the comparison of groups uses them. What
            stands beside the training rows is needed here too; None for what does not.
        pool : data frame, optional
            With `threshold="top 20%"`: the people who compete for the places. The model must not
            have been trained on them. Without it, the rows of `also_labelled` compete.
        label_names : list of str, optional
            Names for the labels in results and pages, in sorted order of the labels.
        progress : Progress or bool, optional
            Shows progress.
        """
        fitted = fit(
            AuditSettings.of(self),
            ComparisonSettings(**comparison, n_jobs=self.n_jobs, random_state=self.random_state),
            X,
            y,
            Roles.of_user(X, y),
            sensitive_features=sensitive_features,
            sensitive_bands=sensitive_bands,
            sample_weight=sample_weight,
            cluster=cluster,
            validation=validation,
            adverse=adverse,
            also_labelled=also_labelled,
            pool=pool,
            label_names=label_names,
            progress=shown(progress),
        )
        return self._reset(fitted)

    def with_search(self, rank: Any = KEEP, strategy: Any = KEEP) -> Self:
        """A new audit: the same fitted model under another search.

        Parameters
        ----------
        rank, strategy : optional
            As for the class; what is not given stays the same.

        Examples
        --------
        >>> published = audit.with_search(strategy="algorithm1", rank="distance")
        >>> published.explain(data.X_test.iloc[[0]]).status
        'not_found'
        """
        self._require_fit(besides=("rank", "strategy", "phi", "psi"))
        new = {
            name: value
            for name, value in {"rank": rank, "strategy": strategy}.items()
            if value is not KEEP
        }
        other = copy(self).set_params(**new)
        other.fitted_ = with_settings(self.fitted_, AuditSettings.of(other))
        other._settings = other._settings_of_the_fit()
        return other

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False  # a table with named columns
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    # --- people -----------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """Decide about the rows of X with the audited model.

        Returns
        -------
        array of shape (rows,)
            One of `classes_` per row.

        Examples
        --------
        >>> audit.predict(data.X_test)[:5].tolist()
        [0, 1, 1, 1, 1]
        """
        fitted = self._require_fit()
        people = fitted.like_training(X)
        return fitted.table.classes[decisions_about(people, fitted.model, fitted.table)]

    def explain(
        self,
        person: Any,
        *,
        sensitive_features: Any = None,
        towards: Any = None,
        stop: Stop | None = None,
        progress: Progress | bool | None = None,
    ) -> Verdict:
        """Find the few training labels on which the decision about one person hinges.

        The verdict's `status` is "found", "not_found", "proven_none" or "not_eligible". After a
        find, `positions` are the positions of the flipped training rows.

        Parameters
        ----------
        person : data frame with one row, or series
            The person, with the training columns.
        sensitive_features, towards, stop, progress : as for `explain_all`
            All of them are optional.

        Examples
        --------
        >>> verdict = audit.explain(data.X_test.iloc[[0]])
        >>> verdict.positions
        (476, 484, 569)
        """
        frame = as_person(person, self._require_fit().table.X)
        beside = in_pandas(sensitive_features)
        if isinstance(beside, pd.DataFrame) and len(beside) == 1:
            beside = beside.set_axis(frame.index)
        elif beside is not None:
            beside = np.atleast_1d(np.asarray(beside, dtype=object))
        (verdict,) = self.explain_all(
            frame, sensitive_features=beside, towards=towards, stop=stop, progress=progress
        )
        return Verdict(replace(verdict.measured, case=None), verdict.run, verdict.fitted)

    def explain_all(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        cases: Sequence[int] | None = None,
        towards: Any = None,
        stop: Stop | None = None,
        progress: Progress | bool | None = None,
    ) -> Population:
        """Find the labels on which decisions hinge, for many people.

        Parameters
        ----------
        X : data frame
            The people, with the training columns.
        y : array, optional
            Their recorded labels, for accuracy and error rates.
        sensitive_features : array, optional
            Their protected attribute, if it stands beside the table.
        cases : sequence of int, optional
            Positions of the rows to audit; without it, all. The other rows still count for rates
            and side effects.
        towards : label, optional
            The decision to reach. Without it, any other decision counts as a change. With more than
            two labels, flips give this label or, without `towards`, the label with the next score.
        stop : Stop, optional
            A limit: `butfor.max_seconds(600) | butfor.max_retrainings(5000)`. Ctrl-C stops as well.
            What is done is returned; the rest is marked incomplete.
        progress : Progress or bool, optional
            Shows progress.

        Returns
        -------
        Population
            A sequence of verdicts, with rates per group and the record of the run.

        Examples
        --------
        >>> population = audit.explain_all(data.X_test, data.y_test, cases=range(40))
        >>> len(population.eligible), len(population.found)
        (10, 4)
        """
        standards = self._standards
        if standards is not None and standards.unfinished:
            standards = None
        population, compared = explain.explain_all(
            self._require_fit(),
            X,
            y,
            sensitive_features=sensitive_features,
            cases=cases,
            towards=towards,
            standards=standards,
            stop=stop,
            progress=shown(progress),
        )
        if compared is not None and (compared.draws or self.fitted_.adverse is None):
            self._standards = compared
        return population

    def brackets(self, X: Any, *, sensitive_features: Any = None) -> list[Bracket]:
        """Prove how many labels it takes to change each decision.

        Per row of X, `at_least` is a lower bound on the number of labels that ψ allows, and
        `witness` a set of that size, if one is known. With more than two labels both are about
        flips to `new_label`, the label with the next score. Ridge, nearest neighbours and
        `PartitionEnsemble` have proofs; other models raise a `SettingError`.

        Parameters
        ----------
        X, sensitive_features : as for `explain_all`
            The people.
        """
        return explain.brackets(self._require_fit(), X, sensitive_features=sensitive_features)

    # --- labels and groups ------------------------------------------------------------------------

    def standards(self, progress: Progress | bool | None = None) -> Standards:
        """Compare each group's labels with those of comparable people in other groups.

        It needs `fit(adverse=…)` and is computed once.

        Returns
        -------
        Standards
            `comparisons` has one entry per group: `difference` is the share of favourable labels
            that comparable people have, less the group's own (0.05 means 5 points less often), with
            its 95 % `interval` and `p_adjusted`.

        Examples
        --------
        >>> female = audit.standards().comparisons[0]
        >>> female.group, round(female.difference, 3)
        ('female', -0.004)
        """
        if self._require_fit().adverse is None:
            raise SettingError(NO_ADVERSE)
        return self._compared(progress)

    def labels(self, population: Population | None = None) -> pd.DataFrame:
        """List the training labels and how likely each is to be wrong.

        The frame has one row per training row: `label`; `group`; `doubt`, the probability of the
        other label according to the other groups; `wrong`, the probability that an adverse label is
        wrong, in called groups; `wrong_if_real`, the same in groups whose gap may be chance, were
        it real; `rank`, the place in a review; and `people`, the number of flip sets that include
        it.

        Parameters
        ----------
        population : Population, optional
            Where to count the flip sets.

        Examples
        --------
        >>> audit.labels(population).columns.tolist()
        ['label', 'group', 'doubt', 'wrong', 'wrong_if_real', 'rank', 'people']
        """
        standards = self._compared(unfinished=population is not None)
        return labels_frame(self.fitted_, standards, population.flip_counts if population else {})

    def one_standard(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        progress: Progress | bool | None = None,
    ) -> OneStandards:
        """Estimate whose decisions change if every group is labelled by one standard.

        For each group that was labelled favourably less often than comparable people, by more than
        chance, it draws the group's labels by the others' standard in 20 worlds and trains the
        model on each. `probability`, for each person with an adverse decision, is the share of
        worlds that decide favourably; `expected` is the number of decisions about the group that
        change, with its `interval`. If a seed changes the model, each world has a control, the same
        trainings without flips: `change` is how much more probable the favourable decision is, for
        everybody, and `expected` its sum over the group. Ctrl-C keeps the worlds that are done.

        Parameters
        ----------
        X, y, sensitive_features, progress : as for `explain_all`
            The people, and their recorded labels for accuracy.

        Returns
        -------
        OneStandards
            A tuple with one OneStandard per group. It is empty, and says so, if no group has such a
            gap.

        Examples
        --------
        >>> len(audit.one_standard(data.X_test))
        0
        """
        fitted = self._require_fit()
        progress = shown(progress)
        standards = self.standards(progress)
        with listen(), progress, single_threaded():
            people = worlds.FlipTrial.about(fitted, X, y, sensitive_features, progress)
            about = worlds.one_standard(standards, people)
            found = OneStandards(one.of_people(people.everyone.people.index) for one in about)
        found.why_empty = standards.answer
        return found

    # --- reviews ----------------------------------------------------------------------------------

    def review_tasks(
        self,
        population: Population | None = None,
        *,
        labels: int | None = None,
        hide: Sequence[str] = (),
        file_column: Any = None,
        random_state: int = 0,
    ) -> Review:
        """Prepare labels for a blind review: a group's adverse labels, controls of other groups,
        and clear cases.

        Controls are adverse labels that are as likely to be favourable. `shown` is the table for
        the reviewer, by task id; `lines` says what to expect.

        Parameters
        ----------
        population : Population, optional
            Counts, per label, the people in whose flip set it is.
        labels : int, optional
            How many labels to review. Without it, those that may be wrong, at most 100.
        hide : list of str
            Columns that the reviewer must not see.
        file_column : str, optional
            The column, or the index, that names each person's original file, if reviewers are to
            look at it.
        random_state : int, default=0
            Seed of the order and the clear cases.

        Examples
        --------
        >>> review = audit.review_tasks(population, labels=10)
        >>> len(review.labels)
        10
        """
        from butfor.review.tasks import files_in, make_review

        compared = self._compared()
        fitted = self.fitted_
        of = None if population is None else population.run.data
        if of is not None and of.sha256 != data_hash(fitted.table, of.hash_rule):
            raise SettingError(
                "The population belongs to another table: give the one that explain_all of this "
                "audit returned."
            )
        run = replace(
            run_of(fitted) if population is None else population.run, standard=figures_of(compared)
        )
        asked = Population(population or (), run, labels_to_review(fitted, compared))
        files = None if file_column is None else files_in(fitted.table.X, file_column)
        choice: dict[str, Any] = {
            "labels": labels,
            "hide": hide,
            "files": files,
            "random_state": random_state,
        }
        self._review = make_review(
            asked,
            fitted.table,
            fitted.sensitive,
            fitted.answered,
            dates=fitted.roles.dates,
            **choice,
        )
        return self._review

    def after_review(
        self,
        answers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        before: Sequence[GroupStandard] | None = None,
        apply_anyway: bool = False,
        progress: Progress | bool | None = None,
    ) -> tuple[Reviewed, Self]:
        """Correct the table with a review's answers and show what changes.

        Parameters
        ----------
        answers : dict, or list of dicts
            For each task id of `review_tasks`, the right label or "cannot tell". Several reviewers
            give a list; labels are corrected only if they agree.
        X, y, sensitive_features, progress : as for `explain_all`
            The people to decide about before and after.
        before : sequence of GroupStandard, optional
            The comparison before the review, if it is known from elsewhere.
        apply_anyway : bool, default=False
            Correct labels even if the answers show nothing, that is if labels were not changed
            clearly more often than their controls.

        Returns
        -------
        Reviewed
            Whose decisions change, and rates, accuracy and groups before and after.
        LabelAudit
            The audit of the corrected table, for the next round.
        """
        from butfor.review.answers import check_answers
        from butfor.review.close import after_review

        fitted = self._require_fit()
        outcome = check_answers(answers, self._review, apply_anyway=apply_anyway)
        reviewed, again, standards = after_review(
            fitted,
            outcome,
            X,
            y,
            sensitive_features=sensitive_features,
            before=before,
            progress=shown(progress),
        )
        other = copy(self)._reset(again)
        other._standards = standards
        return reviewed, other

    # --- what is known so far ---------------------------------------------------------------------

    def _reset(self, fitted: Fitted) -> Self:
        """Forget every answer but what was fitted."""
        self.fitted_ = fitted
        self.table_ = fitted.table
        self.learner_ = fitted.learner
        self.model_ = fitted.model
        self.classes_ = fitted.table.classes
        self.feature_names_in_ = np.array(fitted.table.X.columns, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self._standards = None
        self._review = None
        self._settings = self._settings_of_the_fit()
        return self

    def _compared(
        self, progress: Progress | bool | None = None, unfinished: bool = False
    ) -> Standards:
        """The comparison of groups, computed once; without an adverse label, only the doubts.
        `unfinished`: one that Ctrl-C or a limit of time cut short will do, as for the labels of the
        audit that it is of."""
        fitted = self._require_fit()
        if self._standards is None or (self._standards.unfinished and not unfinished):
            settings = fitted.comparison
            if fitted.adverse is None:
                settings = settings.undrawn
            self._standards = fitted.compare(settings, shown(progress))
        return self._standards

    def _require_fit(self, besides: Sequence[str] = ()) -> Fitted:
        """What was fitted, with the present settings; those of the model must not have changed."""
        if not hasattr(self, "fitted_"):
            raise NotFittedError(
                "This LabelAudit is not fitted yet: call fit(X, y, sensitive_features=...) first."
            )
        now = self.get_params(deep=True)
        changed = [
            name for name, value in self._settings.items() if not _same(value, _kept(now.get(name)))
        ]
        changed = sorted(name for name in changed if name.rpartition("__")[0] not in changed)
        if {name.partition("__")[0] for name in changed} - set(besides):
            raise SettingError(
                f"{listed(changed)} changed since fit: call fit again, or with_search(rank=…, "
                "strategy=…) for another search with the same model."
            )
        others = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in FIT_SETTINGS
        }
        settings = self.fitted_.settings
        if not all(_same(getattr(settings, name), value) for name, value in others.items()):
            self.fitted_ = replace(self.fitted_, settings=replace(settings, **others))
        return self.fitted_

    def _settings_of_the_fit(self) -> dict[str, Any]:
        """The settings that need a new `fit` when they change, with those of the model and the
        encoder. Some models (skorch's) make parts of their settings anew whenever they are asked;
        those are left out."""
        settings = self.get_params(deep=True)
        again = self.get_params(deep=True)
        of_the_fit = [name for name in settings if name.partition("__")[0] in FIT_SETTINGS]
        kept = {name: _kept(settings[name]) for name in of_the_fit}
        return {name: value for name, value in kept.items() if _same(value, _kept(again[name]))}

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _kept(setting: Any) -> Any:
    """A setting as it is now, also if what it consists of changes later. Estimators and rules are
    not copied: their own parameters are settings, or they do not change."""
    if isinstance(setting, (list, tuple)):
        return [_kept(part) for part in setting]
    if isinstance(setting, dict):
        return {name: _kept(part) for name, part in setting.items()}
    return own(setting)


def _same(before: Any, now: Any) -> bool:
    """Whether a setting is unchanged: by value, or by identity if it is an object of another
    kind."""
    if before is now:
        return True
    if isinstance(before, (pd.Series, pd.DataFrame)):
        return type(now) is type(before) and bool(before.equals(now))  # type: ignore[arg-type]
    if isinstance(before, np.ndarray):
        return isinstance(now, np.ndarray) and np.array_equal(
            before, now, equal_nan=before.dtype.kind in "fc"
        )
    if isinstance(before, list):
        return isinstance(now, list) and len(before) == len(now) and all(map(_same, before, now))
    if isinstance(before, dict):
        return (
            isinstance(now, dict)
            and list(before) == list(now)
            and all(map(_same, before.values(), now.values()))
        )
    plain = all(isinstance(setting, (str, int, float)) for setting in (before, now))
    return plain and bool(before == now)
