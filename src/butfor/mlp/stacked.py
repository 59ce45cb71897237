"""Many networks at once as stacked tensors (`butfor.mlp.stacks`), on any torch device.

On CUDA, networks small enough for one streaming multiprocessor go to `butfor.mlp.onelaunch`, where a single kernel
launch trains them all.

Every product is one matrix product per network, so the other networks of a stack take no part in a network's sums. A
library may still choose another kernel for another stack size; then the last bits differ, and training amplifies that.
In `onelaunch` a network is bit for bit the same beside any others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from butfor.errors import EngineError, SettingError
from butfor.learn.protocols import Advance
from butfor.machine import available_memory
from butfor.mlp import onelaunch
from butfor.mlp.learner import NetworkEngine
from butfor.mlp.recipe import Fits, Job, one_thread
from butfor.mlp.stacks import Data, Stack, forward

LARGEST_STACK = {"cpu": 64, "cuda": 1024}
"""The most networks in a stack; more gain nothing and leave the caches."""


class StackedEngine(NetworkEngine):
    """Trains stacks of networks on `device`. `one_launch=False` keeps CUDA on the stacked tensors."""

    name = "stacked"

    def __init__(self, device: str = "cpu", one_launch: bool = True) -> None:
        self.device = find_device(device)
        self.one_launch = one_launch
        self.width = LARGEST_STACK[self.device.type]

    def train(self, job: Job, fits: Fits) -> None:
        weights = fits.weights.shape[1] > 0
        if self.one_launch and job.flip_sets and onelaunch.can_train(job, self.device):
            for part in onelaunch.parts(job):
                fits.put(part, *onelaunch.train(job.part(part), self.device, weights))
            return
        size = stack_size(job, self.device)
        with one_thread(), float32_products(), torch.no_grad():
            data = Data.of(job.rows, job.people, self.device)
            for first in range(0, len(job.flip_sets), size):
                part = slice(first, first + size)
                labels = np.array([job.rows.labels(flips) for flips in job.flip_sets[part]])
                fits.put(part, *_train(Stack(job.recipe, data, labels, job.seeds[part]), job.advance, weights))


def _train(stack: Stack, advance: Advance | None, weights: bool) -> tuple[np.ndarray, ...]:
    """The fields of `Fits`."""
    going = len(stack.kept)
    for members, _ in stack.train():
        if advance and len(members) < going:
            advance(going - len(members))
        going = len(members)
    if advance:
        advance(going)
    people = stack.data.people.expand(len(stack.kept), -1, -1)
    logits = forward(stack.layers(stack.weights), stack.recipe.activation, people)[1].flatten(1)
    losses = stack.losses[np.arange(len(stack.kept)), stack.kept]
    wanted = stack.weights if weights else stack.weights[:, :0]
    return logits.cpu().numpy(), stack.kept, stack.ran, losses, wanted.cpu().numpy()


def find_device(device: str) -> torch.device:
    """The torch device of that name; an error if it is not available."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise SettingError(f"device='{device}' is not a device: say 'cpu', 'cuda' or 'cuda:0'.") from None
    if found.type not in LARGEST_STACK:
        raise SettingError(f"device='{device}' is not supported: say 'cpu' or 'cuda'.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise EngineError(
            f"device='{device}' is not available: PyTorch sees {torch.cuda.device_count()} CUDA GPUs. "
            "Use device='cpu', or install a CUDA build of PyTorch."
        )
    return found


@contextmanager
def float32_products() -> Iterator[None]:
    """Matrix products in full float32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def free_memory(device: torch.device) -> int:
    """Bytes that a stack may still take."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return available_memory()


def stack_size(job: Job, device: torch.device) -> int:
    """The number of networks that train at once in half of the free memory."""
    recipe, rows = job.recipe, job.rows
    batch = min(recipe.batch_size or rows.n, rows.n)
    # Training keeps the rows, every hidden layer, its slope, its derivative and one more for the present operation.
    training = batch * (rows.d + 3 * sum(recipe.hidden) + max(recipe.hidden, default=1) + 8)
    asking = max(len(rows.X_val), len(job.people)) * (2 * max(recipe.hidden, default=1) + 4)
    # Weights, gradient, two moments, the best so far, the results, and what Adam computes with.
    bytes_each = 4 * (max(training, asking) + 2 * rows.n + 10 * recipe.parameters(rows.d))
    fitting = (free_memory(device) // 2 - 4 * rows.X.size) // bytes_each
    if fitting < 1:
        raise EngineError(
            f"Training one network on {rows.n} rows takes about {bytes_each / 2**20:.0f} MiB, more than "
            f"{device.type} has free. Use a smaller batch_size, or engine='fused'."
        )
    return min(fitting, LARGEST_STACK[device.type])
