"""The engine for every learner: the learner's own `fit`, as many side by side as joblib is told to run.

`joblib.parallel_config(...)` around an audit decides where: processes (loky, the default), threads, a Dask or Ray
backend of the user's. Learner, table and people are written once to a file that every worker maps into its memory; from
then on only flip sets travel, in chunks that take some seconds. Work too small for that stays in this process.
"""

from __future__ import annotations

import math
import os
import pickle
import shutil
import socket
import tempfile
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from butfor import stopping
from butfor.errors import EngineError, LearnerError, TableError
from butfor.learn.capabilities import OwnFit, pack
from butfor.learn.protocols import Advance, Bound, FlipSet, Floats, Learner, Model, Table, Training
from butfor.machine import check_n_jobs, in_worker, single_threaded

Subject = tuple[Learner, Table, pd.DataFrame]
Function = Callable[[Subject, Any], Any]

CHUNK_SECONDS = 2.0
"""What one chunk is meant to take: long enough to pay for its way, short enough for Ctrl-C and progress."""
START_SECONDS = 6.0
"""About what it takes until fresh processes have loaded what they need: less work than that is not worth them."""
WARM_SECONDS = 0.3
"""The same once they run."""


class JoblibEngine(OwnFit):
    """`n_jobs`: trainings side by side where joblib's own configuration does not say; one per core by default."""

    name = "joblib"

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = check_n_jobs(n_jobs)

    def accepts(self, learner: Learner) -> bool:
        return True

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        return _Bound(self.n_jobs, (learner, table, people))

    def fit_models(
        self, learner: Learner, table: Table, seeds: Sequence[int | None], advance: Advance | None = None
    ) -> list[Any]:
        subject = learner, replace(table, whole=None), table.X.iloc[:0]
        return _Bound(self.n_jobs, subject).each(packed_model, seeds, advance)


class _Bound(Bound):
    """One subject, and what is known of how long a training takes."""

    name, by_definition = JoblibEngine.name, True
    warm = False
    """Whether worker processes were started before, by any binding."""

    def __init__(self, jobs: int, subject: Subject) -> None:
        self._jobs, self._subject, self.width = jobs, subject, _worker_count(jobs)
        self._each: float | None = None
        self._spent = 0.0
        self._expected: int | None = None
        self._file: str | None = None

    def expect(self, trainings: int) -> None:
        self._expected = trainings

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        answers = self.each(answer, trainings, advance)
        return np.array(answers, np.float32).reshape(len(trainings), len(self._subject[2]) * self._subject[1].outputs)

    def each(self, function: Function, items: Sequence[Any], advance: Advance | None) -> list[Any]:
        """`function(subject, item)` for each item: one by one here, until processes pay for the rest."""
        done: list[Any] = []
        # Who does not say what is to come may go on as before: then starting processes now would have paid already.
        waited = self._spent if self._expected is None else 0.0
        later = max(0, (self._expected or 0) - len(items))
        while len(done) < len(items):
            left = items[len(done) :]
            if self._worth_processes(len(left) + later, waited):
                done += self._spread(function, left, advance)
                break
            started = time.perf_counter()
            done += run(function, self._subject, left[:1])
            took = time.perf_counter() - started
            self._each = took if self._each is None else 0.7 * self._each + 0.3 * took
            self._spent += took
            if advance:
                advance(1)
        self._expected = None if self._expected is None else later
        return done

    def _worth_processes(self, left: int, waited: float) -> bool:
        """Whether processes save more time on what is left than starting them takes, or did on what went before."""
        workers = _worker_count(self._jobs)
        if self._each is None or workers == 1:
            return False
        saved = self._each * left * (1 - 1 / workers)
        return saved > WARM_SECONDS if _Bound.warm else waited + saved > START_SECONDS

    def _spread(self, function: Function, items: Sequence[Any], advance: Advance | None) -> list[Any]:
        from joblib import Parallel, delayed
        from joblib.parallel import get_active_backend

        workers = _worker_count(self._jobs)
        each = max(self._each or 0.0, 1e-4)
        rounds = math.ceil(len(items) * each / (workers * CHUNK_SECONDS))
        size = math.ceil(len(items) / (workers * rounds))
        file, chunks = self._write_subject(), [items[at : at + size] for at in range(0, len(items), size)]
        # What comes of them in this order, as soon as it is there where the backend can do that.
        streams = getattr(get_active_backend()[0], "supports_return_generator", False)
        parallel = Parallel(n_jobs=workers, return_as="generator" if streams else "list", batch_size=1)
        done: list[Any] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib's, of workers started anew and of chunks given up
            task = delayed(in_worker)
            coming = parallel(task(os.getpid(), run_from, file, function, chunk) for chunk in chunks)
            try:
                for chunk in coming:
                    done += chunk
                    if advance:
                        advance(len(chunk))
            except Exception:
                stopping.check()  # Ctrl-C may have ended a worker that had just started
                raise
            finally:
                if hasattr(coming, "close"):  # whoever stops here does not want the rest
                    coming.close()
        _Bound.warm = True
        return done

    def _write_subject(self) -> str:
        """The subject's file, written when it is first needed and removed with this binding."""
        if self._file is None:
            import cloudpickle
            import joblib

            folder = Path(tempfile.mkdtemp(prefix="butfor-"))
            self._file = str(folder / f"{uuid.uuid4().hex}.joblib")
            learner, table, people = self._subject
            # By value: classes and functions of a script or a notebook are not there to be imported in a worker.
            joblib.dump((cloudpickle.dumps(learner), table, people), self._file)
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return self._file


def run(function: Function, subject: Subject, items: Sequence[Any]) -> list[Any]:
    """`function(subject, item)` for each item, on one thread."""
    with single_threaded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the model warns about, it said when it was first fitted
        return [function(subject, item) for item in items]


def run_from(file: str, function: Function, items: Sequence[Any]) -> list[Any]:
    """In a worker: the same for a subject that was written to a file."""
    return run(function, _read_subject(file), items)


def answer(subject: Subject, training: Training) -> Floats:
    """A training's answers about the people; NaN where it diverged or could not be done."""
    learner, table, people = subject
    try:
        model = _fit(learner, training.seed, table, training.flips)
        return np.asarray(table.answers(model, people), np.float32)
    except (LearnerError, TableError):  # such as one class alone
        return np.full(len(people) * table.outputs, np.nan, np.float32)


def packed_model(subject: Subject, seed: int | None) -> Any:
    """The model on the labels as they are, without what the other side has anyway."""
    learner, table, _ = subject
    return pack(learner, _fit(learner, seed, table))


def _fit(learner: Learner, seed: int | None, table: Table, flips: FlipSet = ()) -> Model:
    """The learner's own fit, under a seed where one is named."""
    return (learner if seed is None else learner.reseeded(seed)).fit(table, table.labels(flips))


@lru_cache(maxsize=4)
def _read_subject(file: str) -> Subject:
    """What was written to a file, read once per process."""
    import joblib

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner, table, people = joblib.load(file, mmap_mode="r")
            return pickle.loads(learner), table, people
    except FileNotFoundError:
        raise EngineError(
            f"The worker on {socket.gethostname()} cannot see {file}: workers on other machines need a directory that "
            "all share; set TMPDIR to one."
        ) from None


def _worker_count(jobs: int) -> int:
    """As many as joblib's configuration says where one is in force, else `jobs`."""
    from joblib.parallel import effective_n_jobs, get_active_backend

    _, configured = get_active_backend()
    return int(effective_n_jobs(configured)) if configured is not None else jobs
