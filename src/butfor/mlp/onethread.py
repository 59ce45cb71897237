"""What of torch both a network and its training need: the activations, and one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATION_MODULES: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}

ACTIVATION_FUNCTIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}

_aten: Any = torch.ops.aten

BACKWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda gradient, output: _aten.threshold_backward(gradient, output, 0),
    "tanh": _aten.tanh_backward,
    "sigmoid": _aten.sigmoid_backward,
}
"""A gradient by an activation's output ↦ by its input; autograd's own operations."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Small networks train 20 to 50 times slower on several intra-op threads, and not bitwise alike. And where torch
    hands every product to oneDNN (on ARM), preparing the call takes longer than the product: its own BLAS is used."""
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = onednn
