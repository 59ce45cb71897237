"""The plan of a launch of `onelaunch.cu`: which inputs are bits, the number of warps and blocks, and the layout of
shared memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from butfor.learn.protocols import Floats
from butfor.mlp.recipe import ACTIVATIONS, Recipe, Rows

SOURCE = Path(__file__).with_name("onelaunch.cu")
TILE, CHUNK, NARROW = 64, 32, 64
"""Rows of a tile, neurons worked on at a time, and the most inputs of a table without bits."""
LEAST_WARPS = 2
"""With fewer warps on a multiprocessor, stacked tensors are as good."""
LEAST_BITS = 32
"""The fewest inputs of 0 and 1 for which tensor cores are faster than single products."""
MOST_BITS = 896
"""The most for which a tile's bits fit in the memory of its derivatives."""
TENSOR_CORES = 8
"""The first generation of GPUs (compute capability) whose tensor cores multiply bfloat16."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs that are numbers (`dense`) and those that are bits (`hot`)."""

    dense: NDArray[np.int64]
    hot: NDArray[np.int64]

    @classmethod
    def of(cls, *tables: Floats) -> Inputs:
        """Inputs that are 0 or 1 in every row become bits if there are many inputs."""
        every = np.arange(tables[0].shape[1])
        binary = np.logical_and.reduce([((table == 0) | (table == 1)).all(axis=0) for table in tables])
        if len(every) <= NARROW or binary.sum() < LEAST_BITS:
            binary[:] = False
        return cls(every[~binary], every[binary])

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The inputs in the kernel's order."""
        return np.concatenate([self.dense, self.hot])

    def hold(self, X: Floats) -> bool:
        """Whether the inputs that are bits are 0 or 1 in these rows."""
        hot = X[:, self.hot]
        return bool(((hot == 0) | (hot == 1)).all())

    def bits(self, X: Floats) -> Tensor:
        """The hot inputs, 32 to a word, the first lowest; rows are padded to multiples of four words."""
        padded = np.pad(X[:, self.hot] > 0, ((0, 0), (0, -len(self.hot) % 128)))
        packed = np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little"))
        return torch.from_numpy(packed.view("<i4"))

    def kernel_order(self, packed: Tensor, width: int) -> Tensor:
        """Packed networks with a first layer of `width` neurons, its inputs in the kernel's order."""
        return self._reordered(packed, width, self.order)

    def usual_order(self, packed: Tensor, width: int) -> Tensor:
        """The inverse of `kernel_order`."""
        return self._reordered(packed, width, np.argsort(self.order))

    def _reordered(self, packed: Tensor, width: int, order: NDArray[np.int64]) -> Tensor:
        if not len(self.hot):
            return packed
        size, places = width * len(order), torch.from_numpy(order).to(packed.device)
        first = packed[:, :size].unflatten(1, (width, len(order)))[:, :, places]
        return torch.cat([first.flatten(1), packed[:, size:]], dim=1)


def inputs_of(rows: Rows, people: Floats) -> Inputs:
    """The inputs that are bits in a table and for people. Those of the table are cached, and mostly hold for people
    too."""
    usual = _inputs_of(rows)
    return usual if usual.hold(people) else Inputs.of(rows.X, rows.X_val, people)


@lru_cache(maxsize=4)
def _inputs_of(rows: Rows) -> Inputs:
    return Inputs.of(rows.X, rows.X_val)


@dataclass(frozen=True)
class Plan:
    """The constants of a compiled kernel, and the number of blocks that run at once. `widths`: all inputs, the hidden
    layers, the logit; `hot` of the inputs are bits."""

    widths: tuple[int, ...]
    hot: int
    activation: str
    gather: bool
    warps: int
    blocks: int
    slots: int

    @classmethod
    def of(cls, recipe: Recipe, rows: Rows, inputs: Inputs, device: torch.device) -> Plan | None:
        """As many warps as shared memory and registers allow, each with rows to work on; None if too few tiles fit."""
        chip: Any = torch.cuda.get_device_properties(device)
        most = getattr(chip, "shared_memory_per_block_optin", 0)
        if len(inputs.hot) > (MOST_BITS if chip.major >= TENSOR_CORES else 0):
            return None
        tiles = -(-min(recipe.batch_size or rows.n, rows.n) // TILE)
        plans = {}
        shape = recipe.widths(rows.d), len(inputs.hot), recipe.activation, recipe.batch_size is not None
        for warps in range(1, 9):
            plan = cls(*shape, warps, blocks=0, slots=0)
            if plan.shared_bytes > most:
                break
            # A block also takes 1 KiB for the system; 8 warps of 255 registers fill the registers.
            blocks = min(chip.shared_memory_per_multiprocessor // (plan.shared_bytes + 1024), 8 // warps)
            busy = tiles / (-(-tiles // warps) * warps)
            slots = blocks * chip.multi_processor_count
            plans[blocks * warps * busy, -warps] = replace(plan, blocks=blocks, slots=slots)
        best = plans[max(plans)] if plans else None
        return best if best and (best.blocks * best.warps >= LEAST_WARPS or tiles < LEAST_WARPS) else None

    @property
    def dense(self) -> int:
        return self.widths[0] - self.hot

    @property
    def dense_padded(self) -> int:
        return -(-self.dense // 4) * 4

    @property
    def hot_numbers(self) -> int:
        """The number of the hot inputs' weights, padded to words and chunks."""
        return -(-self.hot // 32) * 32 * _chunked(self.widths[1])

    @property
    def numbers(self) -> int:
        return sum(out * (into + 1) for into, out in pairwise(self.widths))

    @property
    def shared_bytes(self) -> int:
        """The kernel's shared memory, laid out as its source says."""
        hidden = self.widths[1:-1]
        wide = [_chunked(width) for width in hidden]
        network = (wide[0] + 4) * (self.dense + 1) + wide[-1] + 4
        # Every matrix but the first is stored twice, by inputs and by outputs.
        for (into, out), (below, here) in zip(pairwise(hidden), pairwise(wide), strict=True):
            network += (here + 4) * (into + 1) + (below + 4) * out
        tile = (TILE + 4) * (self.dense_padded + sum(wide[:-1]) + max(wide))
        gradient = self.numbers - hidden[0] * self.hot
        parts = TILE * wide[0] * 3 // 2 if self.hot else 0
        region = max(tile, -(-gradient // 4) * 4, parts)
        return 4 * (network + self.hot_numbers * 3 // 2 + self.warps * region + 2 * self.warps + 4)

    def source(self) -> str:
        constants = {
            "DENSE": self.dense,
            "DENSE_PADDED": self.dense_padded,
            "HOT": self.hot,
            "DEPTH": len(self.widths) - 2,
            "WIDTHS": ", ".join(map(str, self.widths[1:])),
            "ACTIVATION": ACTIVATIONS.index(self.activation),
            "WARPS": self.warps,
            "BLOCKS": self.blocks,
            "GATHER": int(self.gather),
            "SHARED_BYTES": self.shared_bytes,
        }
        defined = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        return defined + SOURCE.read_text(encoding="utf-8")


def _chunked(width: int) -> int:
    return -(-width // CHUNK) * CHUNK
