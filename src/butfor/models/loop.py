"""PyTorch's own loop, of which `butfor.nets` promises the bits, and where that was compared.

Anyone can check a verdict in a few lines of PyTorch: autograd and Adam. `nets.train_one` calls the same operations
directly. Once for each shape of network and table, a short training both ways shows whether they are the same bits on
this machine; where one bit differs, the loop trains."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.optim.adam import adam

from butfor.nets import Network, Recipe, Rows, definition
from butfor.nets.definition import mean_loss, packed_start, train_one
from butfor.nets.recipe import BETA1, BETA2, EPSILON, unpack

COMPARED_EPOCHS, COMPARED_BATCHES = 3, 3
"""Of the short training: whole batches, a last shorter one, and the moments of several steps."""


def train(recipe: Recipe, rows: Rows, flips: Sequence[int] = ()) -> Network:
    """The network of the definition."""
    return train_one(recipe, rows, flips, None if same_bits(recipe, rows) else Loop)


class Loop:
    """Autograd, and `torch.optim.Adam` by the function that its `step` calls: the class itself imports PyTorch's
    compiler, which takes longer than the audit of one person."""

    def __init__(self, recipe: Recipe, widths: tuple[int, ...]) -> None:
        weights, biases = unpack(packed_start(widths, recipe.seed), widths)
        self.tensors = [part.clone().requires_grad_() for pair in zip(weights, biases, strict=True) for part in pair]
        self.means, self.squares = ([torch.zeros_like(part) for part in self.tensors] for _ in range(2))
        self.steps = [torch.tensor(0.0) for _ in self.tensors]
        self.activation, self.learning_rate = getattr(torch, recipe.activation), recipe.learning_rate

    def outputs(self, inputs: Tensor) -> list[Tensor]:
        h = inputs
        for layer in range(0, len(self.tensors), 2):
            h = linear(self.activation(h) if layer else h, *self.tensors[layer : layer + 2])
        return [h]

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        with torch.enable_grad():
            gradients = torch.autograd.grad(mean_loss(self.outputs(inputs)[-1], labels), self.tensors)
        how: dict[str, Any] = {"foreach": False, "amsgrad": False, "weight_decay": 0.0, "maximize": False}
        how |= {"beta1": BETA1, "beta2": BETA2, "eps": EPSILON, "lr": self.learning_rate}
        adam(self.tensors, list(gradients), self.means, self.squares, [], self.steps, **how)

    def packed(self) -> Tensor:
        return torch.cat([part.detach().flatten() for part in self.tensors])


class Compared(dict[str, bool]):
    """What `same_bits` found for each shape, kept in the user's cache folder for this torch, processor
    and definition, so that it is compared once and not in every process."""

    def __init__(self) -> None:
        parts = [torch.__version__, torch.__config__.show(), processor(), torch.backends.cpu.get_cpu_capability()]
        with suppress(OSError):
            parts.append(Path(definition.__file__).read_text(encoding="utf-8"))
        self.here = hashlib.sha256("".join(parts).encode()).hexdigest()[:32]
        self.file = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "butfor" / "same-bits"
        with suppress(OSError, ValueError):
            for here, said, shape in (line.split(" ", 2) for line in self.file.read_text("utf-8").splitlines()):
                if here == self.here:
                    super().__setitem__(shape, said == "same")

    def __setitem__(self, shape: str, same: bool) -> None:
        super().__setitem__(shape, same)
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(f"{self.here} {'same' if same else 'other'} {shape}\n")


def processor() -> str:
    """This machine's processor and its instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "CPU part", "flags", "Features"))}))


compared: Compared | None = None


def same_bits(recipe: Recipe, rows: Rows) -> bool:
    """Whether `nets.train_one` is the loop to the bit, by a short training both ways. Only the shape determines which
    operation computes a product, so the answer holds for every table of the shape."""
    global compared
    shape = repr((rows.widths(recipe), recipe.activation, recipe.batch_size, rows.n, len(rows.y_val)))
    if compared is None:
        compared = Compared()
    if shape not in compared:
        size = recipe.batch_size or rows.n
        kept = min(rows.n, COMPARED_BATCHES * size + rows.n % size)  # some whole batches and the last, shorter one
        few, short = replace(rows, X=rows.X[:kept], y=rows.y[:kept]), replace(recipe, max_epochs=COMPARED_EPOCHS)
        ours, loop = train_one(short, few), train_one(short, few, (), Loop)
        parts = zip(ours.weights + ours.biases, loop.weights + loop.biases, strict=True)
        compared[shape] = ours.best_epoch == loop.best_epoch and all(a.tobytes() == b.tobytes() for a, b in parts)
    return compared[shape]
