"""Which engine trains: by name, or chosen from what this machine has."""

from __future__ import annotations

from collections.abc import Callable

from butfor.errors import EngineError, SettingError
from butfor.learn.recipe import Engine

NAMES = ("auto", "reference", "fused", "stacked")


def choose_engine(
    name: str = "auto",
    device: str | None = None,
    jobs: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Engine:
    """The engine of that name. "auto" takes the GPU where torch sees one (or `device` names one),
    else the fused CPU engine, else the reference; where it falls back it tells so in one line."""
    if name not in NAMES:
        raise SettingError(f"There is no engine '{name}'; choose one of {', '.join(NAMES)}.")
    if jobs is not None and jobs < 1:
        raise SettingError(f"jobs={jobs} must be at least 1.")
    if device is not None and device != "cpu" and name in ("reference", "fused"):
        raise SettingError(f"Engine '{name}' runs on the CPU only; for device '{device}' use engine 'stacked'.")
    if name == "auto":
        return _auto(device, jobs, tell or (lambda line: None))
    if name == "stacked":
        from butfor.learn.stacked import StackedEngine

        return StackedEngine(device=device or _best_device())
    if name == "fused":
        return _fused(jobs)
    from butfor.learn.reference import ReferenceEngine

    return ReferenceEngine()


def _auto(device: str | None, jobs: int | None, tell: Callable[[str], None]) -> Engine:
    if device not in (None, "cpu") or (device is None and _best_device() != "cpu"):
        from butfor.learn.stacked import StackedEngine

        try:
            return StackedEngine(device=device or _best_device())
        except EngineError as error:
            tell(f"{error} Using the CPU instead.")
    try:
        return _fused(jobs)
    except EngineError as error:
        tell(f"{error} Using the plain PyTorch trainer instead; it is slow.")
    from butfor.learn.reference import ReferenceEngine

    return ReferenceEngine()


def _fused(jobs: int | None) -> Engine:
    try:
        from butfor.learn.fused import FusedEngine
    except ImportError as error:
        raise EngineError(f"Engine 'fused' needs numba ({error}): pip install numba.") from error
    return FusedEngine(jobs=jobs)


def _best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
