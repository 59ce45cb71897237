"""Chooses the engine for a learner: by name, by device, by cluster, or the fastest on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from butfor.errors import EngineError, SettingError, nearest
from butfor.machine import available_cores, check_n_jobs, load
from butfor.models.ensemble import single_learner
from butfor.models.learner import Engine, Learner

if TYPE_CHECKING:
    from butfor.models.joblib_engine import JoblibEngine

NAMES = ("auto", "fused", "stacked", "linear", "boosting", "joblib")
ENGINES = {
    "fused": "butfor.models.network:FusedEngine",
    "stacked": "butfor.models.network:StackedEngine",
    "linear": "butfor.models.linear_engine:LinearEngine",
    "boosting": "butfor.models.boosting_engine:BoostingEngine",
    "joblib": "butfor.models.joblib_engine:JoblibEngine",
}
CLUSTER = "butfor.models.cluster_engine:open_cluster"
DEVICES = ("cpu", "cuda")
SCHEMES = ("tcp://", "tls://", "ucx://", "ucxx://", "ws://", "wss://")

Note = Callable[[str], None]


def choose_engine(
    engine: str | Engine, learner: Learner, n_jobs: int | None = None, note: Note = lambda line: None
) -> Engine:
    """The engine by its name, or an `Engine` unchanged; an error if it does not accept the learner. "auto" is the
    learner's fastest engine, on the GPU for our network if torch sees one. A device means the fastest engine there; a
    cluster is started once. If "auto" falls back to a slower engine, `note` says so; a named device never falls
    back."""
    check_engine(engine, n_jobs)
    learner = single_learner(learner)
    if not isinstance(engine, str):
        chosen = engine
    elif is_cluster(engine):
        chosen = load(CLUSTER)(engine, n_jobs)
    elif engine == "auto" or is_device(engine):
        chosen = _fastest(learner, None if engine == "auto" else engine, n_jobs, note)
    else:
        chosen = engine_named(engine, n_jobs=n_jobs)
    if not chosen.accepts(learner):
        raise SettingError(f"Engine '{chosen.name}' does not train {learner.name}; use engine 'auto' or 'joblib'.")
    return chosen


def own_fit_engine(engine: str | Engine, n_jobs: int | None = None) -> JoblibEngine:
    """The engine that runs the learner's own `fit`: on a cluster's workers if the engine is one, else on this
    machine."""
    named = load(CLUSTER)(engine, n_jobs) if isinstance(engine, str) and is_cluster(engine) else engine
    own: JoblibEngine | None = None if isinstance(named, str) else named.own_fit
    return own or engine_named("joblib", n_jobs=n_jobs)


def engine_named(name: str, device: str | None = None, n_jobs: int | None = None) -> Any:
    """A new engine; `device` is for "stacked", by default the GPU if torch sees one."""
    if name not in ENGINES:
        raise SettingError(f"There is no engine '{name}'. {nearest(name, ENGINES)}")
    made = load(ENGINES[name])
    if name == "stacked":
        return made(device=device or best_device())
    return made(n_jobs)


def _fastest(learner: Learner, device: str | None, n_jobs: int | None, note: Note) -> Engine:
    names = learner.engines
    if device not in (None, "cpu"):
        if "stacked" not in names:
            raise SettingError(f"{learner.name} trains on the CPU only; leave out engine '{device}'.")
        return engine_named("stacked", device)
    if device == "cpu" or ("stacked" in names and best_device() == "cpu"):
        names = tuple(name for name in names if name != "stacked")
    for name, instead in (("stacked", "the CPU instead."), ("fused", "the plain PyTorch trainer instead; it is slow.")):
        if name in names:
            try:
                return engine_named(name, n_jobs=n_jobs)
            except EngineError as error:
                note(f"{error} Using {instead}")
    return engine_named(next(name for name in names if name not in ("stacked", "fused")), n_jobs=n_jobs)


def check_engine(engine: str | Engine, n_jobs: int | None = None) -> None:
    """Raise an error if there is no such engine or device, or if `n_jobs` is invalid."""
    if not isinstance(engine, str):
        if not isinstance(engine, Engine):
            raise SettingError(f"engine={engine!r} is neither an engine's name nor a butfor.Engine.")
    elif is_device(engine):
        if engine != "cpu":
            load("butfor.models.network:find_device")(engine)
    elif is_cluster(engine):
        local_workers(engine)
    elif engine not in NAMES:
        raise SettingError(
            f"There is no engine '{engine}'. {nearest(engine, NAMES)} Or name a device (cuda) or a cluster (local:4)."
        )
    check_n_jobs(n_jobs)


def best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def is_device(name: str) -> bool:
    """Whether it names a torch device, such as cpu, cuda or cuda:1."""
    kind, colon, index = name.partition(":")
    return kind in DEVICES and (not colon or (index.isascii() and index.isdigit()))


def is_cluster(name: str) -> bool:
    """Whether it names worker processes here, or the address of a scheduler."""
    return name.partition(":")[0] == "local" or "://" in name


def local_workers(name: str) -> int | None:
    """The number of worker processes on this machine; None for the address of a scheduler."""
    if name.startswith(SCHEMES):
        host, _, port = name.partition("://")[2].rpartition(":")
        if name.startswith(("tcp://", "tls://")) and not (host and port.isascii() and port.isdigit()):
            raise SettingError(f"--engine {name}: name host and port, such as tcp://scheduler:8786.")
        return None
    kind, _, count = name.partition(":")
    if kind != "local":
        raise SettingError(
            f"--engine {name}: give local:4 for four worker processes here, or a scheduler's address such as "
            "tcp://scheduler:8786."
        )
    most = max(64, 4 * available_cores())
    if not (count.isascii() and count.isdigit() and len(count) < 9 and 1 <= int(count) <= most):
        raise SettingError(f"--engine {name}: the number of worker processes must be a whole number from 1 to {most}.")
    return int(count)
