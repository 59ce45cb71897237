"""One kernel launch trains thousands of networks on a CUDA GPU.

A block of threads takes a network, trains it from the first epoch to the last (forward, backward, Adam, validation,
early stopping, and the logits of the people at the end), then takes the next. Nothing returns to the host in between,
and blocks share only the queue: a network's result is bit for bit the same beside any other networks. All arithmetic is
float32. The host polls for progress, and can tell the kernel to stop after the epoch.

The network stays in the block's shared memory; the rows stream from L2, where all blocks find the same X. Each warp
takes a tile of 64 rows through the whole network on its own, without waiting for the other warps:

    tile of X ──W₁──▸ H₁ ──W₂──▸ H₂ ──w──▸ logits ──▸ derivatives D₂ ──W₂ᵀ──▸ D₁
                                              gradients: D₂·H₁ᵀ, D₁·Xᵀ

A tile's layers lie in shared memory feature by feature, `[width × 64]`. A lane computes 8 neurons × 8 rows of a layer
from 16 numbers per step of the sum; and 4 × 8 entries of a gradient, which it keeps in registers over all tiles of a
batch. At the end of a batch the warps' gradients are added in the warps' order, and every thread does Adam's step for
its share of the weights. Adam's moments and the labels, one bit each, lie in global memory, one set per block. Layers
wider than 32 neurons are worked on 32 at a time; their gradients lie in memory of the thread's own.

Wide tables are mostly one-hot. Inputs of 0 and 1 are kept as bits and multiplied by the tensor cores, which take 16-bit
numbers: 0 and 1 are such numbers, and W₁ and D₁ are exact sums of three of them, so that no product is rounded. For
their gradient the warps wait for each other after every tile, and each adds all tiles' D₁ for its own inputs.

`can_train` says which networks fit. The NVRTC library that comes with PyTorch compiles the CUDA C++ at its first use.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from butfor.errors import EngineError
from butfor.learn.protocols import Advance, Floats
from butfor.mlp.launchplan import TILE, Inputs, Plan, inputs_of
from butfor.mlp.recipe import Job, Recipe, Rows
from butfor.mlp.reference import batch_orders, packed_start

DEEPEST = 3
"""The most hidden layers."""
MOST_ORDER_BYTES = 2**31
"""The most bytes of batch orders on the device; longer trainings go to stacked tensors."""


def can_train(job: Job, device: torch.device) -> bool:
    """Whether one launch can train these networks on the device."""
    recipe, rows = job.recipe, job.rows
    return (
        device.type == "cuda"
        and recipe.outputs == 1
        and torch.version.cuda is not None
        and 1 <= len(recipe.hidden) <= DEEPEST
        and _order_bytes(recipe, rows.n) <= MOST_ORDER_BYTES
        and all(np.isin(y, (0, 1)).all() for y in (rows.y, rows.y_val))
        and nvrtc() is not None
        and Plan.of(recipe, rows, inputs_of(rows, job.people), device) is not None
    )


def parts(job: Job) -> list[slice]:
    """One slice per launch: trainings whose batch orders fit on the device together, usually all."""
    most = MOST_ORDER_BYTES // max(1, _order_bytes(job.recipe, job.rows.n))
    starts, held = [0], set[int]()
    for k, seed in enumerate(job.seeds):
        if seed not in held and len(held) == most:
            starts.append(k)
            held.clear()
        held.add(seed)
    return [slice(*ends) for ends in pairwise([*starts, len(job.seeds)])]


def _order_bytes(recipe: Recipe, n: int) -> int:
    return 0 if recipe.batch_size is None else 4 * recipe.max_epochs * n


def train(job: Job, device: torch.device, weights: bool = True) -> tuple[np.ndarray, ...]:
    """The fields of `Fits`. `weights`: whether to copy the networks back, which is slow."""
    with torch.cuda.device(device):
        inputs = inputs_of(job.rows, job.people)
        plan = Plan.of(job.recipe, job.rows, inputs, device)
        assert plan is not None, "can_train comes first"
        kernel = compiled(plan, torch.cuda.current_device())
        work, tensors = prepare(job, plan, inputs, device)
        torch.cuda.synchronize()  # all inputs are in place before another stream reads `control`
        kernel.launch(work, min(plan.slots, len(job.flip_sets)))
        _watch(tensors["control"], job.advance)
    trained = inputs.usual_order(tensors["weights"], job.recipe.hidden[0]) if weights else tensors["weights"][:, :0]
    logits, kept, ran, losses = (tensors[name] for name in ("logits", "best_epochs", "epochs", "losses"))
    return tuple(tensor.cpu().numpy() for tensor in (logits, kept, ran, losses, trained))


POINTERS = (
    "X X_val people starts bits bits_val bits_people y y_val flips flip_ends seed_of orders "
    "weights losses logits moments hot best_epochs epochs labels control"
)
COUNTS = "networks n n_val n_people batch patience max_epochs"


class Work(ctypes.Structure):
    """The kernel's argument; the fields of its `struct Work`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in POINTERS.split()),
        ("learning_rate", ctypes.c_double),
        *((name, ctypes.c_int) for name in COUNTS.split()),
    ]


def prepare(job: Job, plan: Plan, inputs: Inputs, device: torch.device) -> tuple[Work, dict[str, Tensor]]:
    """The kernel's argument, and the tensors it points to, which must outlive the launch."""
    recipe, rows, people = job.recipe, job.rows, job.people
    K, blocks = len(job.flip_sets), min(plan.slots, len(job.flip_sets))
    flips = [i for one in job.flip_sets for i in one]
    each, seed_of = np.unique(job.seeds, return_inverse=True)
    recipes = [replace(recipe, seed=int(seed)) for seed in each]
    orders = [torch.zeros(1, dtype=torch.int32)] if recipe.batch_size is None else drawn_orders(recipes, rows.n)
    given = {
        "people": _feature_major(people[:, inputs.dense]),
        "starts": inputs.kernel_order(torch.stack([packed_start(one, rows.d) for one in recipes]), recipe.hidden[0]),
        "bits_people": inputs.bits(people),
        "flips": torch.tensor(flips or [0], dtype=torch.int32),
        "flip_ends": torch.tensor(np.cumsum([0, *map(len, job.flip_sets)]), dtype=torch.int32),
        "seed_of": torch.tensor(seed_of, dtype=torch.int32),
        "orders": torch.cat(orders),
    }
    shapes = {
        "weights": (K, plan.numbers),
        "losses": (K,),
        "logits": (K, len(people)),
        "moments": (blocks, 2, plan.numbers),
        "hot": (blocks, 3, plan.hot_numbers),
    }
    counts = {"best_epochs": (K,), "epochs": (K,), "labels": (blocks, -(-rows.n // 32)), "control": (3,)}
    try:
        tensors = placed(rows, inputs, plan.gather, device) | _on(device, given)
        tensors |= {name: torch.zeros(shape, device=device) for name, shape in shapes.items()}
        tensors |= {name: torch.zeros(shape, dtype=torch.int32, device=device) for name, shape in counts.items()}
    except torch.cuda.OutOfMemoryError:
        raise EngineError(
            f"{device} has not enough free memory for {K} networks on {rows.n} rows: train fewer flip sets in one call."
        ) from None
    sizes = K, rows.n, len(rows.X_val), len(people), recipe.batch_size or rows.n, recipe.patience, recipe.max_epochs
    pointers = (tensors[name].data_ptr() for name in POINTERS.split())
    return Work(*pointers, recipe.learning_rate, *sizes), tensors


@lru_cache(maxsize=2)
def placed(rows: Rows, inputs: Inputs, gather: bool, device: torch.device) -> dict[str, Tensor]:
    """A table on the device in the kernel's layout; `gather`: rows are read in any order. Cached, since packing takes
    longer than many launches."""
    X = rows.X[:, inputs.dense]
    tensors = {
        "X": _row_major(X) if gather else _feature_major(X),
        "X_val": _feature_major(rows.X_val[:, inputs.dense]),
        "bits": inputs.bits(rows.X),
        "bits_val": inputs.bits(rows.X_val),
        "y": _bits(rows.y),
        "y_val": _bits(rows.y_val),
    }
    return _on(device, tensors)


def _on(device: torch.device, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}


_drawn: dict[tuple[Recipe, int], Tensor] = {}


def drawn_orders(recipes: Sequence[Recipe], n: int) -> list[Tensor]:
    """Each seed's batch orders of all epochs, `[epochs × n]`. Drawing them takes longer than many launches, so they are
    cached, up to the bytes that a launch may hold."""
    orders = []
    for recipe in recipes:
        if (recipe, n) not in _drawn:
            if sum(4 * drawn.numel() for drawn in _drawn.values()) > MOST_ORDER_BYTES:
                _drawn.clear()
            epochs = islice(batch_orders(recipe, n), recipe.max_epochs)
            _drawn[recipe, n] = torch.stack([order.int() for order in epochs])
        orders.append(_drawn[recipe, n])
    return orders


def _feature_major(X: Floats) -> Tensor:
    """`[inputs × rows]`, rows padded with zeros to whole tiles."""
    return torch.from_numpy(np.pad(X, ((0, -len(X) % TILE), (0, 0))).T.copy())


def _row_major(X: Floats) -> Tensor:
    """`[rows × inputs]`, inputs padded with zeros to multiples of four."""
    return torch.from_numpy(np.pad(X, ((0, 0), (0, -X.shape[1] % 4))))


def _bits(y: Floats) -> Tensor:
    """Labels as bits, 32 to a word, the first lowest."""
    packed = np.packbits(np.pad(y, (0, -len(y) % 32)) > 0, bitorder="little")
    return torch.from_numpy(packed.view("<i4").copy())


def _watch(control: Tensor, advance: Advance | None) -> None:
    """Wait for the launch and report progress; tell the kernel to stop if interrupted."""
    done, side = torch.cuda.Event(), torch.cuda.Stream()
    done.record()
    seen, told = 0, torch.zeros(3, dtype=torch.int32, pin_memory=True)
    try:
        while not done.query():
            time.sleep(0.002)
            if advance:
                with torch.cuda.stream(side):
                    told.copy_(control, non_blocking=True)
                side.synchronize()
                if told[1] > seen:
                    advance(int(told[1]) - seen)
                    seen = int(told[1])
    except BaseException:
        told.fill_(1)
        with torch.cuda.stream(side):
            control[2:].copy_(told[2:], non_blocking=True)
        torch.cuda.synchronize()
        raise
    if advance and int(control[1]) > seen:
        advance(int(control[1]) - seen)


class Kernel:
    """A compiled kernel, loaded on the current device."""

    def __init__(self, binary: bytes, plan: Plan) -> None:
        self.plan = plan
        self.driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        self.function, module = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), binary)
        self._call("cuModuleGetFunction", ctypes.byref(self.function), module, b"fit")
        maximum_shared_bytes, shared_carveout_percent = 8, 9
        self._call("cuFuncSetAttribute", self.function, maximum_shared_bytes, plan.shared_bytes)
        self._call("cuFuncSetAttribute", self.function, shared_carveout_percent, 100)

    def launch(self, work: Work, blocks: int) -> None:
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(work))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        grid, block = (blocks, 1, 1), (32 * self.plan.warps, 1, 1)
        self._call("cuLaunchKernel", self.function, *grid, *block, self.plan.shared_bytes, stream, arguments, None)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.driver, name)(*arguments)
        if status != 0:
            message = ctypes.c_char_p()
            self.driver.cuGetErrorString(status, ctypes.byref(message))
            raise EngineError(f"The CUDA driver refused {name}: {(message.value or b'?').decode()}.")


@cache
def compiled(plan: Plan, device: int) -> Kernel:
    """Compile the kernel for a plan, once per process and device (some seconds)."""
    library = nvrtc()
    assert library is not None, "can_train comes first"
    torch.cuda.synchronize(device)  # creates the device's context if there is none
    major, minor = torch.cuda.get_device_capability(device)
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"--std=c++17"]
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), plan.source().encode(), b"onelaunch.cu", 0, None, None)
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if status != 0:
        log = _nvrtc_text(library, "ProgramLog", program).decode(errors="replace")
        raise EngineError(f"NVRTC could not compile the training kernel: {log}")
    binary = _nvrtc_text(library, "CUBIN", program)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return Kernel(binary, plan)


def _nvrtc_text(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
    return text.raw


@cache
def nvrtc() -> ctypes.CDLL | None:
    """NVIDIA's run-time compiler, from PyTorch's own packages or the system; None if neither has it."""
    major = (torch.version.cuda or "0").split(".")[0]
    names = [f"nvrtc64_{major}0_0.dll"] if sys.platform == "win32" else [f"libnvrtc.so.{major}", "libnvrtc.so"]
    packages = Path(torch.__file__).parent.parent
    found = [*packages.glob(f"nvidia/*/lib/{names[0]}"), *packages.glob(f"torch/lib/{names[0]}")]
    for name in (*names, *map(str, found)):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
