"""The engine for every learner: the learner's own `fit`, as many side by side as joblib is told to run.

`joblib.parallel_config(...)` around an audit decides where: processes (loky, the default), threads, a Dask or Ray
backend of the user's. Learner, table and people are written once to a file that every worker maps into its memory; from
then on only flip sets travel, in chunks that take some seconds. Work too small for that stays in this process.
"""

from __future__ import annotations

import math
import pickle
import shutil
import socket
import tempfile
import time
import uuid
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor.errors import EngineError, LearnerError, SettingError
from butfor.learn.protocols import Bound, Engine, FlipSet, Floats, Learner, Model, Progress, Table, Training
from butfor.machine import available_cores, single_threaded

Subject = tuple[Learner, Table, pd.DataFrame]

CHUNK_SECONDS = 2.0
"""What one chunk is meant to take: long enough to pay for its way, short enough for Ctrl-C and progress."""
START_SECONDS = 6.0
"""About what it takes until fresh processes have loaded what they need: less work than that is not worth them."""
WARM_SECONDS = 0.3
"""The same once they run."""

_held: OrderedDict[str, Subject] = OrderedDict()
"""Subjects by their file, in this process: the engine's own, and a worker's last few."""
MOST_HELD = 4


class JoblibEngine(Engine):
    """`n_jobs`: trainings side by side where joblib's own configuration does not say; one per core by default."""

    name = "joblib"
    by_definition = True

    def __init__(self, n_jobs: int | None = None) -> None:
        if n_jobs is not None and n_jobs < 1:
            raise SettingError(f"n_jobs={n_jobs} must be at least 1, or None for one per core.")
        self.n_jobs = n_jobs or available_cores()

    @property
    def width(self) -> int:
        return _side_by_side(self.n_jobs)

    def accepts(self, learner: Learner) -> bool:
        return True

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        return _Bound(self.n_jobs, (learner, table, people))

    def models(
        self, learner: Learner, table: Table, seeds: Sequence[int | None], progress: Progress | None = None
    ) -> list[Model]:
        """The models that the learner trains under each of the seeds, the labels unchanged."""
        return _Bound(self.n_jobs, (learner, table, table.X.iloc[:0])).models(seeds, progress)


class _Bound(Bound):
    """One subject, and what is known of how long a training takes."""

    warm = False
    """Whether worker processes were started before, by any binding."""

    def __init__(self, jobs: int, subject: Subject) -> None:
        self._jobs, self._subject = jobs, subject
        self._each: float | None = None
        self._spent = 0.0
        self._expected: int | None = None
        self._file: str | None = None

    def expect(self, trainings: int) -> None:
        """So many are to come, in calls that each have few of them."""
        self._expected = trainings

    def __call__(self, trainings: Sequence[Training], progress: Progress | None = None) -> Floats:
        answers: list[Floats] = []
        # Who does not say what is to come may go on as before: then starting processes now would have paid already.
        waited = self._spent if self._expected is None else 0.0
        later = max(0, (self._expected or 0) - len(trainings))
        while len(answers) < len(trainings):
            left = trainings[len(answers) :]
            if self._worth_processes(len(left) + later, waited):
                answers += self._spread(left, progress)
                break
            started = time.perf_counter()
            answers += train(self._subject, left[:1])
            took = time.perf_counter() - started
            self._each = took if self._each is None else 0.7 * self._each + 0.3 * took
            self._spent += took
            if progress:
                progress(1)
        self._expected = None if self._expected is None else later
        return np.array(answers, np.float32).reshape(len(trainings), len(self._subject[2]))

    def _worth_processes(self, left: int, waited: float = 0.0) -> bool:
        """Whether processes save more time on what is left than starting them takes, or did on what went before."""
        workers = _side_by_side(self._jobs)
        if self._each is None or workers == 1:
            return False
        saved = self._each * left * (1 - 1 / workers)
        return saved > WARM_SECONDS if _Bound.warm else waited + saved > START_SECONDS

    def models(self, seeds: Sequence[int | None], progress: Progress | None = None) -> list[Model]:
        """The models themselves, trained on the labels as they are under each seed: here, or in processes where that
        pays. What is heavy in them (a table, as numbers) does not travel."""
        learner, table, _ = self._subject
        trained: list[Model] = []
        for seed in seeds:
            if self._worth_processes(len(seeds) - len(trained)):
                break
            started = time.perf_counter()
            trained.append(_fitted(learner, seed, table))
            self._each = time.perf_counter() - started
            if progress:
                progress(1)
        left = seeds[len(trained) :]
        if left:
            from joblib import delayed

            file = self._written()
            for light in _as_they_come(_side_by_side(self._jobs))(delayed(model_from)(file, seed) for seed in left):
                trained.append(learner.restored(light, table))
                if progress:
                    progress(1)
            _Bound.warm = True
        return trained

    def _spread(self, trainings: Sequence[Training], progress: Progress | None) -> list[Floats]:
        from joblib import delayed

        workers = _side_by_side(self._jobs)
        each = max(self._each or 0.0, 1e-4)
        rounds = math.ceil(len(trainings) * each / (workers * CHUNK_SECONDS))
        size = math.ceil(len(trainings) / (workers * rounds))
        chunks = [trainings[at : at + size] for at in range(0, len(trainings), size)]
        file = self._written()
        parallel = _as_they_come(workers)
        answers: list[Floats] = []
        with warnings.catch_warnings():
            # A worker that was idle for long is started anew; joblib warns about it.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
            warnings.filterwarnings("ignore", message=".*tasks have been successfully executed", category=UserWarning)
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed", category=UserWarning)
            coming = parallel(delayed(train_from)(file, [tuple(t) for t in chunk]) for chunk in chunks)
            try:
                for chunk in coming:
                    answers += chunk
                    if progress:
                        progress(len(chunk))
            finally:
                if hasattr(coming, "close"):  # whoever stops here does not want the rest
                    coming.close()
        _Bound.warm = True
        return answers

    def _written(self) -> str:
        """The subject's file, written when it is first needed and removed with this binding."""
        if self._file is None:
            import cloudpickle
            import joblib

            folder = Path(tempfile.mkdtemp(prefix="butfor-"))
            self._file = str(folder / f"{uuid.uuid4().hex}.joblib")
            learner, table, people = self._subject
            # By value: classes and functions of a script or a notebook are not there to be imported in a worker.
            joblib.dump((cloudpickle.dumps(learner), table, people), self._file)
            hold(self._file, self._subject)
            weakref.finalize(self, _remove, self._file)
        return self._file


def _as_they_come(workers: int) -> Any:
    """joblib's processes; what comes of them in its order, as soon as it is there where the backend can do that."""
    from joblib import Parallel
    from joblib.parallel import get_active_backend

    streams = getattr(get_active_backend()[0], "supports_return_generator", False)
    return Parallel(n_jobs=workers, return_as="generator" if streams else "list", batch_size=1)


def train(subject: Subject, trainings: Sequence[Training]) -> list[Floats]:
    """Each training's answers about the people; NaN where it diverged or could not be done."""
    learner, table, people = subject
    answers = []
    with ExitStack() as quietly:
        quietly.enter_context(single_threaded())
        quietly.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # what the model warns about, it said when it was first fitted
        for flips, seed in trainings:
            try:
                logits = np.asarray(_fitted(learner, seed, table, flips).logits(people), np.float32)
            except LearnerError:
                logits = np.full(len(people), np.nan, np.float32)
            answers.append(logits)
    return answers


def train_from(file: str, trainings: Sequence[tuple[tuple[int, ...], int | None]]) -> list[Floats]:
    """In a worker: the same for a subject that was written to a file."""
    return train(_subject_of(file), [Training(tuple(flips), seed) for flips, seed in trainings])


def model_from(file: str, seed: int | None) -> Any:
    """In a worker: the model itself on the labels as they are, without what the other side has anyway."""
    learner, table, _ = _subject_of(file)
    return fitted_model(learner, table, seed)


def fitted_model(learner: Learner, table: Table, seed: int | None) -> Any:
    """The same for a learner and a table that are at hand."""
    with ExitStack() as quietly:
        quietly.enter_context(single_threaded())
        quietly.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        model = _fitted(learner, seed, table)
    return learner.light(model)


def _fitted(learner: Learner, seed: int | None, table: Table, flips: FlipSet = ()) -> Model:
    """The learner's own fit, under a seed where one is named."""
    return (learner if seed is None else learner.reseeded(seed)).fit(table, table.labels(flips))


def _subject_of(file: str) -> Subject:
    """What was written to a file, read once per process."""
    if file not in _held:
        import joblib

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                learner, table, people = joblib.load(file, mmap_mode="r")
                subject = (pickle.loads(learner), table, people)
        except FileNotFoundError:
            raise EngineError(
                f"The worker on {socket.gethostname()} cannot see {file}: workers on other machines need a directory "
                "that all share; set TMPDIR to one."
            ) from None
        hold(file, subject)
    return _held[file]


def hold(file: str, subject: Subject) -> None:
    _held[file] = subject
    while len(_held) > MOST_HELD:
        _held.popitem(last=False)


def _remove(file: str) -> None:
    _held.pop(file, None)
    shutil.rmtree(Path(file).parent, ignore_errors=True)


def _side_by_side(jobs: int) -> int:
    """As many as joblib's configuration says where one is in force, else `jobs`."""
    from joblib.parallel import effective_n_jobs, get_active_backend

    _, configured = get_active_backend()
    return int(effective_n_jobs(configured)) if configured is not None else jobs
