"""One kernel launch trains thousands of networks on a CUDA GPU.

A block of threads takes a network, trains it from the first epoch to the last (forward, backward,
Adam, validation, early stopping, and the logits of the people at the end), then takes the next.
Nothing returns to the host in between, and blocks share only the queue: a network's result is bit
for bit the same beside any other networks. All arithmetic is float32. The host polls for progress,
and can tell the kernel to stop after the epoch.

The network stays in the block's shared memory; the rows stream from L2, where all blocks find the
same X. Each warp takes a tile of 64 rows through the whole network on its own, without waiting for
the other warps:

    tile of X ──W₁──▸ H₁ ──W₂──▸ H₂ ──w──▸ logits ──▸ derivatives D₂ ──W₂ᵀ──▸ D₁
                                              gradients: D₂·H₁ᵀ, D₁·Xᵀ

A tile's layers lie in shared memory feature by feature, `[width × 64]`. A lane computes 8 neurons ×
8 rows of a layer from 16 numbers per step of the sum; and 4 × 8 entries of a gradient, which it
keeps in registers over all tiles of a batch. Then the warps' gradients are added in the warps'
order, and every thread does Adam's step for its share of the weights. Adam's moments and the
labels, one bit each, lie in global memory, one set per block. Layers wider than 32 neurons are
worked on 32 at a time; their gradients lie in memory of the thread's own.

Wide tables are mostly one-hot. Inputs of 0 and 1 are kept as bits and multiplied by the tensor
cores, which take 16-bit numbers: 0 and 1 are such numbers, and W₁ and D₁ are exact sums of three of
them, so that no product is rounded. For their gradient the warps wait for each other after every
tile, and each adds all tiles' D₁ for its own inputs.

`can_train` says which networks fit. The NVRTC library that comes with PyTorch compiles the CUDA C++
at its first use.
"""

from __future__ import annotations

import ctypes
import sys
import time
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .definition import batch_orders, packed_start
from .recipe import ACTIVATIONS, Fits, Floats, Job, Recipe, Rows, count

SOURCE = Path(__file__).with_name("onelaunch.cu")
TILE_ROWS = 64
"""Rows of a tile."""
CHUNK_NEURONS = 32
"""Neurons worked on at a time."""
MOST_PLAIN_INPUTS = 64
"""The most inputs of a table without bits."""
MOST_HIDDEN_LAYERS = 3
"""The most hidden layers."""
LEAST_WARPS = 2
"""With fewer warps on a multiprocessor, stacked tensors are as good."""
LEAST_BITS = 32
"""The fewest inputs of 0 and 1 for which tensor cores are faster than single products."""
MOST_BITS = 896
"""The most for which a tile's bits fit in the memory of its derivatives."""
TENSOR_CORE_GENERATION = 8
"""The first generation of GPUs (compute capability) whose tensor cores multiply bfloat16."""
MOST_ORDER_BYTES = 2**31
"""The most bytes of batch orders on the device; longer trainings go to stacked tensors."""
KEPT_ORDERS = 64
"""Seeds whose batch orders are kept for the next launch."""


def can_train(job: Job, device: torch.device) -> bool:
    """Whether one launch can train these networks on the device."""
    recipe = job.recipe
    rows = job.rows
    return (
        device.type == "cuda"
        and rows.outputs == 1
        and torch.version.cuda is not None
        and 1 <= len(recipe.hidden) <= MOST_HIDDEN_LAYERS
        and _order_bytes(recipe, rows.n) <= MOST_ORDER_BYTES
        and all(np.isin(y, (0, 1)).all() for y in (rows.y, rows.y_val))
        and nvrtc() is not None
        and Plan.of(recipe, rows, inputs_of(rows, job.people), device) is not None
    )


def train(job: Job, device: torch.device) -> Fits:
    """Train the job's networks, usually by one launch: all whose batch orders fit on the device
    together."""
    fits = Fits.empty(job)
    held = set[int]()
    starts = [0]
    most = MOST_ORDER_BYTES // max(1, _order_bytes(job.recipe, job.rows.n))
    for k, seed in enumerate(job.seeds):
        if seed not in held and len(held) == most:
            starts.append(k)
            held.clear()
        held.add(seed)
    for part in [slice(*ends) for ends in pairwise([*starts, len(job.seeds)])]:
        some = replace(job, flip_sets=job.flip_sets[part], seeds=job.seeds[part])
        fits.put(part, launch(some, device))
    return fits


def _order_bytes(recipe: Recipe, n: int) -> int:
    return 0 if recipe.batch_size is None else 4 * recipe.max_epochs * n


def launch(job: Job, device: torch.device) -> tuple[np.ndarray, ...]:
    """The fields of `Fits`."""
    with torch.cuda.device(device):
        inputs = inputs_of(job.rows, job.people)
        plan = Plan.of(job.recipe, job.rows, inputs, device)
        assert plan is not None, "can_train comes first"
        kernel = compiled(plan, torch.cuda.current_device())
        work, tensors = prepare(job, plan, inputs, device)
        torch.cuda.synchronize()  # all inputs are in place before another stream reads `control`
        kernel.launch(work, min(plan.slots, len(job.flip_sets)))
        _watch(tensors["control"], job)
    return tuple(
        tensors[name].cpu().numpy() for name in ("logits", "best_epochs", "epochs", "losses")
    )


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs that are numbers (`dense`) and those that are bits (`hot`)."""

    dense: NDArray[np.int64]
    hot: NDArray[np.int64]

    @classmethod
    def of(cls, *tables: Floats) -> Inputs:
        """Inputs that are 0 or 1 in every row become bits if there are many inputs."""
        every = np.arange(tables[0].shape[1])
        by_table = [((table == 0) | (table == 1)).all(axis=0) for table in tables]
        binary = np.logical_and.reduce(by_table)
        if len(every) <= MOST_PLAIN_INPUTS or binary.sum() < LEAST_BITS:
            binary[:] = False
        return cls(every[~binary], every[binary])

    def bits(self, X: Floats) -> Tensor:
        """The hot inputs, 32 to a word, the first lowest; rows are padded to multiples of four
        words."""
        padded = np.pad(X[:, self.hot] > 0, ((0, 0), (0, -len(self.hot) % 128)))
        packed = np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little"))
        return torch.from_numpy(packed.view("<i4"))

    def kernel_order(self, packed: Tensor, width: int) -> Tensor:
        """Packed networks with a first layer of `width` neurons, its inputs in the kernel's
        order."""
        order = np.concatenate([self.dense, self.hot])
        size = width * len(order)
        first = packed[:, :size].unflatten(1, (width, len(order)))[:, :, torch.from_numpy(order)]
        return torch.cat([first.flatten(1), packed[:, size:]], dim=1)


def inputs_of(rows: Rows, people: Floats) -> Inputs:
    """The inputs that are bits in a table and for people. Those of the table are cached, and mostly
    hold for people too."""
    usual = _inputs_of(rows)
    hot = people[:, usual.hot]
    return usual if ((hot == 0) | (hot == 1)).all() else Inputs.of(rows.X, rows.X_val, people)


@lru_cache(maxsize=4)
def _inputs_of(rows: Rows) -> Inputs:
    return Inputs.of(rows.X, rows.X_val)


@dataclass(frozen=True)
class Plan:
    """The constants of a compiled kernel, and the number of blocks that run at once. `widths`: all
    inputs, the hidden layers, the logit; `hot` of the inputs are bits."""

    widths: tuple[int, ...]
    hot: int
    activation: str
    gather: bool
    warps: int
    blocks: int
    slots: int

    @classmethod
    def of(cls, recipe: Recipe, rows: Rows, inputs: Inputs, device: torch.device) -> Plan | None:
        """As many warps as shared memory and registers allow, each with rows to work on; None if
        too few tiles fit."""
        chip: Any = torch.cuda.get_device_properties(device)
        most = getattr(chip, "shared_memory_per_block_optin", 0)
        if len(inputs.hot) > (MOST_BITS if chip.major >= TENSOR_CORE_GENERATION else 0):
            return None
        tiles = -(-min(recipe.batch_size or rows.n, rows.n) // TILE_ROWS)
        plans = {}
        shape = (
            rows.widths(recipe),
            len(inputs.hot),
            recipe.activation,
            recipe.batch_size is not None,
        )
        for warps in range(1, 9):
            plan = cls(*shape, warps, blocks=0, slots=0)
            if plan.shared_bytes > most:
                break
            # A block also takes 1 KiB for the system; 8 warps of 255 registers fill the registers.
            by_memory = chip.shared_memory_per_multiprocessor // (plan.shared_bytes + 1024)
            blocks = min(by_memory, 8 // warps)
            busy = tiles / (-(-tiles // warps) * warps)
            slots = blocks * chip.multi_processor_count
            plans[blocks * warps * busy, -warps] = replace(plan, blocks=blocks, slots=slots)
        if not plans:
            return None
        best = plans[max(plans)]
        enough_warps = best.blocks * best.warps >= LEAST_WARPS or tiles < LEAST_WARPS
        return best if enough_warps else None

    @property
    def hot_numbers(self) -> int:
        """The number of the hot inputs' weights, padded to words and chunks."""
        return -(-self.hot // 32) * 32 * _chunked(self.widths[1])

    @property
    def shared_bytes(self) -> int:
        """The kernel's shared memory, laid out as its source says."""
        hidden = self.widths[1:-1]
        dense = self.widths[0] - self.hot
        wide = [_chunked(width) for width in hidden]
        network = (wide[0] + 4) * (dense + 1) + wide[-1] + 4
        # Every matrix but the first is stored twice, by inputs and by outputs.
        for (into, out), (below, here) in zip(pairwise(hidden), pairwise(wide), strict=True):
            network += (here + 4) * (into + 1) + (below + 4) * out
        tile = (TILE_ROWS + 4) * (-(-dense // 4) * 4 + sum(wide[:-1]) + max(wide))
        gradient = count(self.widths) - hidden[0] * self.hot
        parts = TILE_ROWS * wide[0] * 3 // 2 if self.hot else 0
        region = max(tile, -(-gradient // 4) * 4, parts)
        return 4 * (network + self.hot_numbers * 3 // 2 + self.warps * region + 2 * self.warps + 4)

    def source(self) -> str:
        dense = self.widths[0] - self.hot
        constants = {
            "DENSE": dense,
            "DENSE_PADDED": -(-dense // 4) * 4,
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
    return -(-width // CHUNK_NEURONS) * CHUNK_NEURONS


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


def prepare(
    job: Job, plan: Plan, inputs: Inputs, device: torch.device
) -> tuple[Work, dict[str, Tensor]]:
    """The kernel's argument, and the tensors it points to, which must outlive the launch."""
    recipe = job.recipe
    rows = job.rows
    people = job.people
    K = len(job.flip_sets)
    blocks = min(plan.slots, len(job.flip_sets))
    numbers = count(plan.widths)
    flips = [i for one in job.flip_sets for i in one]
    distinct, seed_of = np.unique(job.seeds, return_inverse=True)
    recipes = [replace(recipe, seed=int(seed)) for seed in distinct]
    orders = [torch.zeros(1).int()]
    if recipe.batch_size:
        orders = [drawn_orders(one, rows.n) for one in recipes]
    starts = torch.stack([packed_start(plan.widths, one.seed) for one in recipes])
    from_host = {
        "people": _feature_major(people[:, inputs.dense]),
        "starts": inputs.kernel_order(starts, recipe.hidden[0]),
        "bits_people": inputs.bits(people),
        "flips": torch.tensor(flips or [0], dtype=torch.int32),
        "flip_ends": torch.tensor(np.cumsum([0, *map(len, job.flip_sets)]), dtype=torch.int32),
        "seed_of": torch.tensor(seed_of, dtype=torch.int32),
        "orders": torch.cat(orders),
    }
    shapes = {
        "weights": (K, numbers),
        "losses": (K,),
        "logits": (K, len(people)),
        "moments": (blocks, 2, numbers),
        "hot": (blocks, 3, plan.hot_numbers),
    }
    counts = {
        "best_epochs": (K,),
        "epochs": (K,),
        "labels": (blocks, -(-rows.n // 32)),
        "control": (3,),
    }
    try:
        tensors = placed(rows, inputs, plan.gather, device)
        tensors = tensors | {
            name: tensor.contiguous().to(device) for name, tensor in from_host.items()
        }
        tensors |= {name: torch.zeros(shape, device=device) for name, shape in shapes.items()}
        for name, shape in counts.items():
            tensors[name] = torch.zeros(shape, dtype=torch.int32, device=device)
    except torch.cuda.OutOfMemoryError:
        raise RuntimeError(
            f"{device} has not enough free memory for {K} networks on {rows.n} rows: train fewer "
            "flip sets in one call."
        ) from None
    sizes = (
        K,
        rows.n,
        len(rows.X_val),
        len(people),
        recipe.batch_size or rows.n,
        recipe.patience,
        recipe.max_epochs,
    )
    pointers = (tensors[name].data_ptr() for name in POINTERS.split())
    return Work(*pointers, recipe.learning_rate, *sizes), tensors


@lru_cache(maxsize=2)
def placed(rows: Rows, inputs: Inputs, gather: bool, device: torch.device) -> dict[str, Tensor]:
    """A table on the device in the kernel's layout; `gather`: rows are read in any order. Cached,
    since packing takes longer than many launches."""
    X = rows.X[:, inputs.dense]
    tensors = {
        "X": _row_major(X) if gather else _feature_major(X),
        "X_val": _feature_major(rows.X_val[:, inputs.dense]),
        "bits": inputs.bits(rows.X),
        "bits_val": inputs.bits(rows.X_val),
        "y": _bits(rows.y),
        "y_val": _bits(rows.y_val),
    }
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}


@lru_cache(maxsize=KEPT_ORDERS)
def drawn_orders(recipe: Recipe, n: int) -> Tensor:
    """A seed's batch orders of all epochs, `[epochs × n]`. Drawing them takes longer than many
    launches."""
    orders = islice(batch_orders(recipe, n), recipe.max_epochs)
    return torch.stack([order.int() for order in orders])


def _feature_major(X: Floats) -> Tensor:
    """`[inputs × rows]`, rows padded with zeros to whole tiles."""
    return torch.from_numpy(np.pad(X, ((0, -len(X) % TILE_ROWS), (0, 0))).T.copy())


def _row_major(X: Floats) -> Tensor:
    """`[rows × inputs]`, inputs padded with zeros to multiples of four."""
    return torch.from_numpy(np.pad(X, ((0, 0), (0, -X.shape[1] % 4))))


def _bits(y: Floats) -> Tensor:
    """Labels as bits, 32 to a word, the first lowest."""
    packed = np.packbits(np.pad(y, (0, -len(y) % 32)) > 0, bitorder="little")
    return torch.from_numpy(packed.view("<i4").copy())


def _watch(control: Tensor, job: Job) -> None:
    """Wait for the launch and report progress; tell the kernel to stop if the check raises."""
    done = torch.cuda.Event()
    side = torch.cuda.Stream()
    done.record()
    seen = 0
    told = torch.zeros(3, dtype=torch.int32, pin_memory=True)
    try:
        while not done.query():
            time.sleep(0.002)
            job.check()
            with torch.cuda.stream(side):
                told.copy_(control, non_blocking=True)
            side.synchronize()
            if told[1] > seen:
                job.advance(int(told[1]) - seen)
                seen = int(told[1])
    except BaseException:
        told.fill_(1)
        with torch.cuda.stream(side):
            control[2:].copy_(told[2:], non_blocking=True)
        torch.cuda.synchronize()
        raise
    if int(control[1]) > seen:
        job.advance(int(control[1]) - seen)


class Kernel:
    """A compiled kernel, loaded on the current device."""

    def __init__(self, binary: bytes, plan: Plan) -> None:
        self.plan = plan
        self.driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        self.function = ctypes.c_void_p()
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), binary)
        self._call("cuModuleGetFunction", ctypes.byref(self.function), module, b"fit")
        maximum_shared_bytes = 8
        shared_carveout_percent = 9
        self._call("cuFuncSetAttribute", self.function, maximum_shared_bytes, plan.shared_bytes)
        self._call("cuFuncSetAttribute", self.function, shared_carveout_percent, 100)

    def launch(self, work: Work, blocks: int) -> None:
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(work))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        grid = (blocks, 1, 1)
        block = (32 * self.plan.warps, 1, 1)
        self._call(
            "cuLaunchKernel",
            self.function,
            *grid,
            *block,
            self.plan.shared_bytes,
            stream,
            arguments,
            None,
        )

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.driver, name)(*arguments)
        if status != 0:
            message = ctypes.c_char_p()
            self.driver.cuGetErrorString(status, ctypes.byref(message))
            raise RuntimeError(
                f"The CUDA driver refused {name}: {(message.value or b'?').decode()}."
            )


@cache
def compiled(plan: Plan, device: int) -> Kernel:
    """Compile the kernel for a plan, once per process and device (some seconds)."""
    library: Any = nvrtc()
    torch.cuda.synchronize(device)  # creates the device's context if there is none
    major, minor = torch.cuda.get_device_capability(device)
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"--std=c++17"]
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(
        ctypes.byref(program), plan.source().encode(), b"onelaunch.cu", 0, None, None
    )
    status = library.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    if status != 0:
        log = _nvrtc_text(library, "ProgramLog", program).decode(errors="replace")
        raise RuntimeError(f"NVRTC could not compile the training kernel: {log}")
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
    """NVIDIA's run-time compiler, from PyTorch's own packages or the system; None if neither has
    it."""
    major = (torch.version.cuda or "0").split(".")[0]
    names = [f"libnvrtc.so.{major}", "libnvrtc.so"]
    if sys.platform == "win32":
        names = [f"nvrtc64_{major}0_0.dll"]
    packages = Path(torch.__file__).parent.parent
    paths = [*packages.glob(f"nvidia/*/lib/{names[0]}"), *packages.glob(f"torch/lib/{names[0]}")]
    for name in (*names, *map(str, paths)):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
