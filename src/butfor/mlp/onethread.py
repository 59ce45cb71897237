"""What of torch both a network and its training need: the activations, and one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

ACTIVATION_MODULES: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}

ACTIVATION_FUNCTIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


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
