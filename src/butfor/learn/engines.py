"""Which engine trains a learner: by name, or the fastest of this machine that accepts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from butfor.errors import EngineError, SettingError
from butfor.learn.ensemble import members_of
from butfor.learn.joblib_engine import JoblibEngine
from butfor.learn.linear_engine import LinearEngine
from butfor.machine import available_cores
from butfor.mlp.learner import MLPLearner, NetworkEngine
from butfor.seam import Engine, Learner

NAMES = ("auto", "fused", "stacked", "linear", "joblib")

Tell = Callable[[str], None]


def choose_engine(
    given: str | Engine,
    learner: Learner,
    device: str | None = None,
    jobs: int | None = None,
    tell: Tell = lambda line: None,
) -> Engine:
    """The engine of that name, or as it is, if it accepts the learner. "auto" takes, for our network, the GPU where
    torch sees one (or `device` names one), else compiled code; for linear classifiers their own engine; else the
    learner's own fit. Where it falls back it tells so in one line; from a device that was named it never does."""
    check_engine(given, jobs, device)
    learner, _ = members_of(learner)
    if not isinstance(given, str):
        engine = given
    elif given == "auto":
        engine = _fastest(learner, device, jobs, tell)
    elif given == "joblib":
        engine = JoblibEngine(jobs)
    elif given == "linear":
        engine = LinearEngine()
    else:
        engine = network_engine(given, device, jobs)
    if not engine.accepts(learner):
        raise SettingError(f"Engine '{engine.name}' does not train {learner.name}; use engine 'auto' or 'joblib'.")
    if isinstance(given, str) and engine.name != "stacked" and device not in (None, "cpu"):
        raise SettingError(
            f"Engine '{engine.name}', which trains {learner.name}, runs on the CPU only; leave out device='{device}'."
        )
    return engine


def definition_of(engine: str | Engine, jobs: int | None = None) -> Any:
    """What has the learner's own `fit` do the work: where the engine is, if it says so, else on this machine."""
    return getattr(engine, "definition", None) or JoblibEngine(jobs)


def network_engine(name: str, device: str | None = None, jobs: int | None = None) -> NetworkEngine:
    """An engine for our network by its name."""
    check_engine(name, jobs, device)
    if name == "stacked":
        from butfor.mlp.stacked import StackedEngine

        return StackedEngine(device=_best_device() if device is None else device)
    try:
        from butfor.mlp.fused import FusedEngine
    except ImportError as error:
        raise EngineError(f"Engine 'fused' needs numba ({error}): pip install numba.") from error
    return FusedEngine(jobs=jobs)


def _fastest(learner: Learner, device: str | None, jobs: int | None, tell: Tell) -> Engine:
    if not isinstance(learner, MLPLearner):
        return LinearEngine() if LinearEngine().accepts(learner) else JoblibEngine(jobs)
    if device not in (None, "cpu"):
        return network_engine("stacked", device)
    if device is None and _best_device() != "cpu":
        try:
            return network_engine("stacked")
        except EngineError as error:
            tell(f"{error} Using the CPU instead.")
    try:
        return network_engine("fused", jobs=jobs)
    except EngineError as error:
        tell(f"{error} Using the plain PyTorch trainer instead; it is slow.")
    return JoblibEngine(jobs)


def check_engine(given: str | Engine, jobs: int | None = None, device: str | None = None) -> None:
    """Refuse a name that no engine has, a number of jobs that cannot be, and a device that is not here. Of an engine
    that is one already (a cluster, say) the devices are its own."""
    if isinstance(given, str) and given not in NAMES:
        raise SettingError(f"There is no engine '{given}'; choose one of {', '.join(NAMES)}.")
    if not isinstance(given, str) and (isinstance(given, type) or not hasattr(given, "bind")):
        raise SettingError(f"engine={given!r} is neither an engine's name nor an engine (accepts, bind).")
    if jobs is not None and (not isinstance(jobs, int) or jobs < 1):
        raise SettingError(f"jobs={jobs!r} must be a whole number, at least 1.")
    if device is not None and isinstance(given, str):
        if given not in ("auto", "stacked") and device != "cpu":
            raise SettingError(f"Engine '{given}' runs on the CPU only; for device '{device}' use engine 'stacked'.")
        from butfor.mlp.stacked import present

        present(device)
    most = max(16, 4 * available_cores())
    if jobs is not None and jobs > most:
        raise SettingError(f"jobs={jobs} is more than the {available_cores()} cores here are good for: {most} at most.")


def _best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
