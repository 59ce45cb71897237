"""Devices and clusters by their names: cuda:1, local:4, tcp://scheduler:8786."""

from __future__ import annotations

from butfor.errors import SettingError
from butfor.machine import available_cores

DEVICES = ("cpu", "cuda")
SCHEMES = ("tcp://", "tls://", "ucx://", "ucxx://", "ws://", "wss://")


def is_device(name: str) -> bool:
    """Whether it names a torch device, such as cpu, cuda or cuda:1."""
    kind, colon, index = name.partition(":")
    return kind in DEVICES and (not colon or (index.isascii() and index.isdigit()))


def is_cluster(name: str) -> bool:
    """Whether it names worker processes here, or the address of a scheduler."""
    return name.partition(":")[0] == "local" or "://" in name


def local_workers(name: str) -> int | None:
    """How many worker processes are asked for here; None for the address of a scheduler."""
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
