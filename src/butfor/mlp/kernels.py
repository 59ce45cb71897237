"""The compiled half of the fused engine: whole epochs of L in machine code, without the GIL.

What it must achieve: spend its time in multiply-adds. The networks of L are so small that their
matrices fit a core's nearest caches, so every matrix product of a training runs through one
register-blocked kernel, written in LLVM's own portable vectors: it becomes AVX-512, AVX2 or NEON
code on the user's machine, without a compiler installed there. Nothing is compiled per shape.

Layout: rows (samples) one after the other, a row's numbers side by side. Every row has a 1 in front,
and every hidden layer's weights `[inputs × outputs]` their bias in front: the bias is the weight
of that 1, so its gradient is one more row of the same product. Outputs are padded with zero
weights to whole vectors; rows and inputs need no padding. Addresses and distances are in bytes.
Where most inputs are 0 (one-hot columns) the first layer works through the others alone.

All compiled code is in this one file, because numba's cache looks for changes only in the file of
the function it loads.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from butfor.learn.protocols import Floats
from butfor.machine import keeps_compiled
from butfor.mlp.recipe import Entries

Ints = NDArray[np.int64]

# A block of HEIGHT × WIDE vectors of sums stays in registers, beside WIDE operands and a broadcast:
# AVX-512 has 32 registers of 16 floats, AVX2 16 of 8.
LANES, HEIGHT = (16, 12) if llvm.get_host_cpu_features().get("avx512f") else (8, 6)
WIDE = 2
TILE = 128
"""Rows worked through at once: those of a 32×32 network stay in the nearest caches."""

RELU, TANH, SIGMOID = range(3)
ADD, ADD_RELU, SLOPE = range(3)
"""How `product` finishes; SLOPE has the activation added."""
GRADIENT = -1
"""The first layer's gradient instead of its outputs."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

# Reassociation lets sums vectorise. NaN and infinity keep their meaning: a training that diverges
# must be seen to diverge.
SUMS = {"contract", "reassoc", "nsz"}


OPTIONS: dict[str, Any] = {"nogil": True, "cache": keeps_compiled(), "error_model": "numpy"}
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Of functions that compiled code alone calls."""


class Plan(NamedTuple):
    """A network's shape and where its parts lie, one entry per layer, counted in floats."""

    product: int
    """Where the compiled `product` lies."""
    activation: int
    into: Ints
    vectors: Ints
    """How many hold a row of a hidden layer's outputs; for the last layer, a row of its inputs."""
    weights: Ints
    """Of a hidden layer the bias, its weights behind it; of the last layer the weights, then the bias."""
    turned: Ints
    """The copy `[outputs × inputs]` through which errors are sent back."""
    tiles: Ints
    """The outputs of a tile's first row."""
    strides: Ints
    """From one row of outputs to the next."""


class Table(NamedTuple):
    """Rows, whole or by their entries (the other is empty), and their labels."""

    X: Floats
    sparse: Entries
    y: Floats


class Room(NamedTuple):
    """All that one training writes to."""

    weights: Floats
    gradient: Floats
    mean: Floats
    square: Floats
    kept: Floats
    turned: Floats
    gathered: Floats
    """A tile of rows in batch order `[TILE × stride]`."""
    tile: Floats
    """The hidden outputs of a tile, later their errors."""
    logits: Floats
    labels: Floats
    ids: NDArray[np.int32]
    """Which rows a tile holds."""


# ── vector code ──────────────────────────────────────────────────────────────────────────────────

FLOAT, INT, INDEX = ir.FloatType(), ir.IntType(64), ir.IntType(32)
VECTOR = ir.VectorType(FLOAT, LANES)
FUSE = ("contract",)
ZERO, ONE = (ir.Constant(VECTOR, [x] * LANES) for x in (0.0, 1.0))


def vector_code(result: Any, *parameters: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a function for compiled code out of one that emits LLVM instructions."""

    def wrap(emit: Callable[..., Any]) -> Any:
        def function(typingctx: Any, *given: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                value = emit(builder, *values)
                return context.get_dummy_value() if value is None else value

            return result(*parameters), generate

        # numba counts the arguments by this signature, and would pack `*given` into a tuple.
        names = ["typingctx", *(f"argument{i}" for i in range(len(parameters)))]
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        )
        return intrinsic(function)

    return wrap


def pointer(builder: ir.IRBuilder, address: ir.Value, offset: ir.Value, vector: int = 0) -> ir.Value:
    at = builder.add(address, builder.add(offset, INT(4 * LANES * vector)))
    return builder.inttoptr(at, VECTOR.as_pointer())


def load(builder: ir.IRBuilder, address: ir.Value, offset: ir.Value, vector: int = 0) -> ir.Value:
    return builder.load(pointer(builder, address, offset, vector), align=4)


def shuffle(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, lanes: list[int]) -> ir.Value:
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(INDEX, LANES), lanes))


def spread(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """One number in every lane."""
    first = builder.insert_element(ZERO, number, INDEX(0))
    return shuffle(builder, first, ZERO, [0] * LANES)


def plus_product(builder: ir.IRBuilder, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return builder.fadd(total, builder.fmul(x, y, flags=FUSE), flags=FUSE)


Given = dict[str, ir.Value]


def by_size(name: str, names: tuple[str, ...], **most: int) -> Callable[[Callable[..., None]], Any]:
    """Make compiled code out of `emit(builder, given, size, …)`, with a case for every size up to `most`, so that sums
    stay in registers. `names` are its arguments, all of them whole numbers, the sizes among them."""

    def wrap(emit: Callable[..., None]) -> Any:
        def call(builder: ir.IRBuilder, *values: ir.Value) -> None:
            kind = ir.FunctionType(ir.VoidType(), [INT] * len(names))
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            if function.is_declaration:
                function.linkage = "internal"
                function.attributes.add("noinline")
                define(function)
            builder.call(function, values)

        def define(function: ir.Function) -> None:
            given = dict(zip(names, function.args, strict=True))
            builder = ir.IRBuilder(function.append_basic_block())

            def choose(*sizes: int) -> None:
                if len(sizes) == len(most):
                    emit(builder, given, *sizes)
                else:
                    name, limit = list(most.items())[len(sizes)]
                    switch(builder, given[name], {size: partial(choose, *sizes, size) for size in range(1, limit + 1)})

            choose()
            builder.ret_void()

        return vector_code(types.void, *[types.int64] * len(names))(call)

    return wrap


def switch(builder: ir.IRBuilder, value: ir.Value, cases: dict[int, Callable[[], None]]) -> None:
    after = builder.function.append_basic_block()
    switching = builder.switch(value, after)
    for number, emit in cases.items():
        block = builder.function.append_basic_block()
        switching.add_case(INT(number), block)
        builder.position_at_end(block)
        emit()
        builder.branch(after)
    builder.position_at_end(after)


ADDRESSES = ("c", "c_row", "start", "start_row", "a", "a_row", "a_step", "b", "b_step")
PRODUCT = (*ADDRESSES, "steps", "height", "wide", "finish")
Sums = list[list[ir.Value]]


@by_size("butfor_block", PRODUCT, height=HEIGHT, wide=WIDE)
def _block(builder: ir.IRBuilder, given: Given, height: int, wide: int) -> None:
    """One block of `product`: Σ_k a[r, k] · b[k, :] for all its rows and vectors, then the finish."""
    sums = [[cgutils.alloca_once_value(builder, ZERO) for _ in range(wide)] for _ in range(height)]
    with cgutils.for_range(builder, given["steps"], intp=INT) as loop:
        a, b = (builder.add(given[x], builder.mul(given[f"{x}_step"], loop.index)) for x in "ab")
        operands = [load(builder, b, INT(0), v) for v in range(wide)]
        for r, row in enumerate(sums):
            at = builder.add(a, builder.mul(given["a_row"], INT(r)))
            factor = spread(builder, builder.load(builder.inttoptr(at, FLOAT.as_pointer())))
            for total, operand in zip(row, operands, strict=True):
                builder.store(plus_product(builder, builder.load(total), factor, operand), total)
    _store_block(builder, given, [[builder.load(total) for total in row] for row in sums])


def _store_block(builder: ir.IRBuilder, given: Given, sums: Sums) -> None:
    """Finish a block as `product` says."""

    def store(finish: int) -> None:
        for r, row in enumerate(sums):
            c_row, start_row = (builder.mul(given[name], INT(r)) if r else INT(0) for name in ("c_row", "start_row"))
            for v, total in enumerate(row):
                c = pointer(builder, given["c"], c_row, v)
                if finish >= SLOPE:
                    value = _times_slope(builder, finish - SLOPE, total, builder.load(c, align=4))
                else:
                    value = builder.fadd(total, load(builder, given["start"], start_row, v))
                if finish == ADD_RELU:
                    # Compared this way round, NaN stays NaN.
                    value = builder.select(builder.fcmp_ordered("<", value, ZERO), ZERO, value)
                builder.store(value, c, align=4)

    finishes = (ADD, ADD_RELU, SLOPE + RELU, SLOPE + TANH, SLOPE + SIGMOID)
    switch(builder, given["finish"], {finish: partial(store, finish) for finish in finishes})


def _times_slope(builder: ir.IRBuilder, activation: int, error: ir.Value, output: ir.Value) -> ir.Value:
    """An error times the activation's slope, which its output tells."""
    if activation == RELU:
        return builder.select(builder.fcmp_ordered("<=", output, ZERO), ZERO, error)
    if activation == TANH:
        return builder.fmul(error, builder.fsub(ONE, builder.fmul(output, output)))
    return builder.fmul(error, builder.fmul(output, builder.fsub(ONE, output)))


@vector_code(types.void, *[types.int64] * 5, types.float32)
def _dots(builder: ir.IRBuilder, results: Any, a: Any, a_row: Any, b: Any, vectors: Any, plus: Any) -> None:
    """results[r] = plus + Σ_j a[r, j] · b[j] for LANES rows r."""
    rows = [cgutils.alloca_once_value(builder, ZERO) for _ in range(LANES)]
    with cgutils.for_range(builder, vectors, intp=INT) as loop:
        offset = builder.mul(loop.index, INT(4 * LANES))
        operand = load(builder, b, offset)
        for r, row in enumerate(rows):
            numbers = load(builder, a, builder.add(offset, builder.mul(a_row, INT(r))))
            builder.store(plus_product(builder, builder.load(row), numbers, operand), row)
    sums = [builder.load(row) for row in rows]
    # Add neighbouring lanes of two rows at a time, until lane r holds the sum of row r.
    even, odd = ([which + 2 * lane for lane in range(LANES)] for which in (0, 1))
    while len(sums) > 1:
        sums = [
            builder.fadd(shuffle(builder, x, y, even), shuffle(builder, x, y, odd))
            for x, y in zip(sums[0::2], sums[1::2], strict=True)
        ]
    builder.store(builder.fadd(sums[0], spread(builder, plus)), pointer(builder, results, INT(0)), align=4)


FEW = 4
"""Vectors of sums, or of errors, that stay in registers while a sparse row is worked through."""


def _entry(builder: ir.IRBuilder, given: Given, index: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Of the index-th input that is not 0: the offset of its row of weights, and its value in every lane."""
    offset = builder.mul(index, INT(4))
    place = builder.load(builder.inttoptr(builder.add(given["places"], offset), INDEX.as_pointer()))
    value = builder.load(builder.inttoptr(builder.add(given["values"], offset), FLOAT.as_pointer()))
    return builder.mul(builder.sext(place, INT), given["row"]), spread(builder, value)


@by_size("butfor_sum_entries", ("c", "start", "places", "values", "count", "b", "row", "wide", "finish"), wide=FEW)
def _sum_of_entries(builder: ir.IRBuilder, given: Given, wide: int) -> None:
    """c = start + Σ value · b[place] over the entries of a row."""
    sums = [cgutils.alloca_once_value(builder, ZERO) for _ in range(wide)]
    with cgutils.for_range(builder, given["count"], intp=INT) as loop:
        offset, value = _entry(builder, given, loop.index)
        for v, total in enumerate(sums):
            there = load(builder, given["b"], offset, v)
            builder.store(plus_product(builder, builder.load(total), value, there), total)
    _store_block(builder, given, [[builder.load(total) for total in sums]])


@by_size("butfor_add_entries", ("gradient", "errors", "places", "values", "count", "row", "wide"), wide=FEW)
def _spread_to_entries(builder: ir.IRBuilder, given: Given, wide: int) -> None:
    """gradient[place] += value · errors for every entry of a row."""
    errors = [load(builder, given["errors"], INT(0), v) for v in range(wide)]
    with cgutils.for_range(builder, given["count"], intp=INT) as loop:
        offset, value = _entry(builder, given, loop.index)
        for v in range(wide):
            there = pointer(builder, given["gradient"], offset, v)
            builder.store(plus_product(builder, builder.load(there, align=4), value, errors[v]), there, align=4)


@vector_code(types.float32, types.int32)
def _float_of_bits(builder: ir.IRBuilder, bits: Any) -> Any:
    return builder.bitcast(bits, FLOAT)


# Called through its address (`call`): numba optimises whatever a function calls once more with every caller, and
# this is the largest part of the code by far.
@cfunc(types.void(*[types.int64] * len(PRODUCT)), cache=OPTIONS["cache"], error_model="numpy")
def product(
    c: int,
    c_row: int,
    start: int,
    start_row: int,
    a: int,
    a_row: int,
    a_step: int,
    b: int,
    b_step: int,
    rows: int,
    steps: int,
    vectors: int,
    finish: int,
) -> None:
    """c[r, :] = start[r, :] + Σ_k a[r, k] · b[k, :] for `rows` rows r, `steps` steps k and `vectors`.

    `finish` ADD stores that, ADD_RELU its positive part. SLOPE + activation stores the sum alone,
    times the activation's slope at the output that c holds now. Whatever block a number falls
    into, it is summed over k in order.
    """
    blocks = -(-rows // HEIGHT)
    height, taller = rows // blocks, rows % blocks
    for first in range(0, vectors, WIDE):
        beside, wide = 4 * LANES * first, min(WIDE, vectors - first)
        row = 0
        for index in range(blocks):
            tall = height + (index < taller)
            c_at, start_at, a_at = c + row * c_row + beside, start + row * start_row + beside, a + row * a_row
            _block(c_at, c_row, start_at, start_row, a_at, a_row, a_step, b + beside, b_step, steps, tall, wide, finish)
            row += tall


@vector_code(types.void, *[types.int64] * (1 + len(PRODUCT)))
def call(builder: ir.IRBuilder, address: ir.Value, *values: ir.Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [INT] * len(PRODUCT))
    builder.call(builder.inttoptr(address, kind.as_pointer()), values)


@njit(**INNER)
def _address(array: Floats, index: int) -> np.int64:
    """Where array[index] lies, as a signed number: numba makes a float of unsigned plus signed."""
    return np.int64(array.ctypes.data) + 4 * index


# ── functions of one number, written so that loops over them vectorise ──────────────────────────

f32 = np.float32


@njit(fastmath={"contract"}, **INNER)
def _exp(x: f32) -> f32:
    """e^x within 2 ulp, x held within ±87, NaN kept: 2^n · e^r with |r| ≤ ln 2 / 2 (after Cephes)."""
    x = f32(87) if x > f32(87) else x
    x = f32(-87) if x < f32(-87) else x
    n = np.floor(x * f32(1.44269504) + f32(0.5))
    r = x - n * f32(0.693359375) + n * f32(2.12194440e-4)
    p = f32(1.9875691500e-4)
    p = p * r + f32(1.3981999507e-3)
    p = p * r + f32(8.3334519073e-3)
    p = p * r + f32(4.1665795894e-2)
    p = p * r + f32(1.6666665459e-1)
    p = p * r + f32(5.0000001201e-1)
    p = p * r * r + r + f32(1)
    return p * _float_of_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@njit(fastmath={"contract"}, **INNER)
def _sigmoid(x: f32) -> f32:
    return f32(1) / (f32(1) + _exp(-x))


@njit(fastmath={"contract"}, **INNER)
def _tanh(x: f32) -> f32:
    """A polynomial (after Cephes) near 0, where the quotient would cancel."""
    s = x * x
    p = f32(-5.70498872745e-3)
    p = p * s + f32(2.06390887954e-2)
    p = p * s + f32(-5.37397155531e-2)
    p = p * s + f32(1.33314422036e-1)
    p = p * s + f32(-3.33332819422e-1)
    near = x + x * s * p
    far = f32(1) - f32(2) / (f32(1) + _exp(f32(2) * x))
    return near if s < f32(0.390625) else far


@njit(fastmath={"contract"}, **INNER)
def _loss(z: f32, y: f32) -> f32:
    """Binary cross-entropy of a logit: max(z, 0) − zy + log(1 + e^−|z|).

    The logarithm is 2·artanh(s), s = u / (2 + u) ≤ 1/3, by its series.
    """
    u = _exp(-abs(z))
    s = u / (f32(2) + u)
    q = s * s
    p = f32(1 / 15)
    p = p * q + f32(1 / 13)
    p = p * q + f32(1 / 11)
    p = p * q + f32(1 / 9)
    p = p * q + f32(1 / 7)
    p = p * q + f32(1 / 5)
    p = p * q + f32(1 / 3)
    p = p * q + f32(1)
    positive = z if z > f32(0) else f32(0)
    return positive - z * y + f32(2) * s * p


# ── a tile of rows forth and back ────────────────────────────────────────────────────────────────


@njit(**INNER)
def _activate(outputs: Floats, activation: int) -> None:
    rows, width = outputs.shape
    for r in range(rows):
        if activation == TANH:
            for j in range(width):
                outputs[r, j] = _tanh(outputs[r, j])
        else:
            for j in range(width):
                outputs[r, j] = _sigmoid(outputs[r, j])


@njit(**INNER)
def _by_entries(plan: Plan, numbers: Floats, tile: Floats, ids: Ints, sparse: Entries, rows: int, finish: int) -> None:
    """The first layer's outputs for the rows that `ids` names, by its weights; or GRADIENT: add theirs."""
    vectors = plan.vectors[0]
    row, first_row, bias = 4 * LANES * vectors, _address(tile, plan.tiles[0]), _address(numbers, plan.weights[0])
    all_places, all_values = np.int64(sparse.places.ctypes.data), _address(sparse.values, 0)
    for r in range(rows):
        at = sparse.starts[ids[r]]
        count, places, values = sparse.starts[ids[r] + 1] - at, all_places + 4 * at, all_values + 4 * at
        for first in range(0, vectors, FEW):
            beside, wide = 4 * LANES * first, min(FEW, vectors - first)
            outputs, start = first_row + r * 4 * plan.strides[0] + beside, bias + beside
            if finish == GRADIENT:
                _spread_to_entries(start + row, outputs, places, values, count, row, wide)
            else:
                _sum_of_entries(outputs, start, places, values, count, start + row, row, wide, finish)


@njit(**INNER)
def forward(plan: Plan, weights: Floats, room: Room, sparse: Entries, source: int, source_row: int, rows: int) -> None:
    """The logits of the rows at `source`, or of those that `room.ids` names; their hidden outputs stay in the tile."""
    last, at = len(plan.into) - 1, plan.product
    relu = plan.activation == RELU
    finish = ADD_RELU if relu else ADD
    for layer in range(last):
        t, stride, into, vectors = plan.tiles[layer], plan.strides[layer], plan.into[layer], plan.vectors[layer]
        outputs, bias, row = _address(room.tile, t), _address(weights, plan.weights[layer]), 4 * LANES * vectors
        if layer == 0 and len(sparse.starts) > 1:
            _by_entries(plan, weights, room.tile, room.ids, sparse, rows, finish)
        else:
            call(at, outputs, 4 * stride, bias, 0, source, source_row, 4, bias + row, row, rows, into, vectors, finish)
        if not relu:
            tile = room.tile[t - LANES : t - LANES + rows * stride].reshape(rows, stride)
            _activate(tile[:, LANES:], plan.activation)
        source, source_row = outputs, 4 * stride
    w, vectors = plan.weights[last], plan.vectors[last]
    bias = weights[w + LANES * vectors]
    for r in range(0, rows, LANES):
        results = _address(room.logits, r)
        _dots(results, source + r * source_row, source_row, _address(weights, w), vectors, bias)


@njit(**INNER)
def backward(plan: Plan, room: Room, sparse: Entries, source: int, source_row: int, rows: int) -> None:
    """Add the gradient of the rows `forward` has just seen; `room.logits` holds their errors now.

    A layer's outputs give way to its own errors as soon as the gradient above has used them.
    """
    last, at = len(plan.into) - 1, plan.product
    errors, errors_row, outputs = _address(room.logits, 0), 4, 1
    for layer in range(last, -1, -1):
        into, vectors, w = plan.into[layer], plan.vectors[layer], plan.weights[layer]
        if layer:
            below, below_row = _address(room.tile, plan.tiles[layer - 1]), 4 * plan.strides[layer - 1]
        else:
            below, below_row = source, source_row
        sums, row = _address(room.gradient, w), 4 * LANES * vectors
        back = _address(room.turned, plan.turned[layer])
        if layer == last:
            call(at, sums, 0, sums, 0, errors, 0, 4, below, below_row, 1, rows, vectors, ADD)
            _last_bias(room.gradient, w + into, w + LANES * vectors, room.logits, rows)
            back = _address(room.weights, w)
        elif layer == 0 and len(sparse.starts) > 1:
            # Of the bias through every row: the 4 bytes before each row of outputs hold a 1.
            call(at, sums, 0, sums, 0, errors - 4, 0, errors_row, errors, errors_row, 1, rows, vectors, ADD)
            _by_entries(plan, room.gradient, room.tile, room.ids, sparse, rows, GRADIENT)
        else:
            call(at, sums, row, sums, row, below - 4, 4, below_row, errors, errors_row, into + 1, rows, vectors, ADD)
        if layer:
            vectors, slope = plan.vectors[layer - 1], SLOPE + plan.activation
            row = 4 * LANES * vectors
            call(at, below, below_row, 0, 0, errors, errors_row, 4, back, row, rows, outputs, vectors, slope)
        errors, errors_row, outputs = below, below_row, into


@njit(fastmath=SUMS, **INNER)
def _last_bias(gradient: Floats, padding: int, bias: int, errors: Floats, rows: int) -> None:
    """The gradient of the last layer's bias, and none for the padding before it."""
    for i in range(padding, bias):
        gradient[i] = f32(0)
    total = f32(0)
    for r in range(rows):
        total += errors[r]
    gradient[bias] += total


# ── steps, epochs, early stopping ────────────────────────────────────────────────────────────────


@njit(fastmath={"contract"}, **INNER)
def _adam(room: Room, step: int, learning_rate: float) -> None:
    """One step as `torch.optim.Adam` takes it: bias corrections in double, the rest in float32.

    The gradient is cleared for the next batch. Moments too small to move a weight are dropped:
    those of dead neurons would decay into denormal numbers, which cost a hundred cycles each.
    """
    weights, gradient, mean, square = room.weights, room.gradient, room.mean, room.square
    rate = f32(-learning_rate / (1 - BETA1**step))
    root = f32(1 / math.sqrt(1 - BETA2**step))
    for i in range(len(weights)):
        g = gradient[i]
        m = mean[i] + f32(1 - BETA1) * (g - mean[i])
        v = f32(BETA2) * square[i] + f32(1 - BETA2) * g * g
        m = f32(0) if abs(m) < f32(1e-30) else m
        v = f32(0) if v < f32(1e-36) else v
        weights[i] += rate * m / (np.sqrt(v) * root + f32(EPSILON))
        mean[i] = m
        square[i] = v
        gradient[i] = f32(0)


@njit(**INNER)
def turn(plan: Plan, weights: Floats, turned: Floats) -> None:
    """Copy the weights of every hidden layer but the first to `[outputs × inputs]`."""
    for layer in range(1, len(plan.into) - 1):
        row, turned_row = LANES * plan.vectors[layer], LANES * plan.vectors[layer - 1]
        for i in range(plan.into[layer]):
            at, to = plan.weights[layer] + row * (1 + i), plan.turned[layer] + i
            for o in range(plan.into[layer + 1]):
                turned[to + o * turned_row] = weights[at + o]


@njit(**INNER)
def _take(room: Room, table: Table, order: Ints, first: int, rows: int) -> np.int64:
    """Name the tile's rows, order[first : first + rows], or those in place without an order; copy their labels, and
    themselves where they are taken whole and in an order. Where they lie now."""
    X = table.X
    for r in range(rows):
        row = order[first + r] if len(order) else first + r
        room.ids[r], room.labels[r] = row, table.y[row]
    if len(table.sparse.starts) > 1 or not len(order):
        return _address(X, first * X.shape[1] + 1)
    for r in range(rows):
        whole, to = X[room.ids[r]], room.gathered[r]
        for j in range(len(whole)):
            to[j] = whole[j]
    return _address(room.gathered, 1)


@njit(**INNER)
def _add_gradient(plan: Plan, room: Room, table: Table, order: Ints, first: int, size: int) -> None:
    """Of the mean loss of one batch: the rows order[first : first + size], or all in place without an order."""
    row, scale, logits = 4 * table.X.shape[1], f32(1) / f32(size), room.logits
    for begin in range(first, first + size, TILE):
        rows = min(TILE, first + size - begin)
        source = _take(room, table, order, begin, rows)
        forward(plan, room.weights, room, table.sparse, source, row, rows)
        for r in range(rows):
            logits[r] = (_sigmoid(logits[r]) - room.labels[r]) * scale
        backward(plan, room, table.sparse, source, row, rows)


@njit(**INNER)
def _step(plan: Plan, room: Room, table: Table, order: Ints, first: int, size: int, step: int, rate: float) -> None:
    """Learn from one batch."""
    _add_gradient(plan, room, table, order, first, size)
    _adam(room, step, rate)
    turn(plan, room.weights, room.turned)


@njit(fastmath=SUMS, **INNER)
def _total_loss(logits: Floats, labels: Floats) -> f32:
    """The sum of the losses, which replace the logits."""
    for r in range(len(labels)):
        logits[r] = _loss(logits[r], labels[r])
    total = f32(0)
    for r in range(len(labels)):
        total += logits[r]
    return total


@njit(**INNER)
def _validate(plan: Plan, room: Room, table: Table) -> f32:
    """The mean loss."""
    total = 0.0
    for first in range(0, len(table.y), TILE):
        rows = min(TILE, len(table.y) - first)
        source = _take(room, table, room.ids[:0], first, rows)
        forward(plan, room.weights, room, table.sparse, source, 4 * table.X.shape[1], rows)
        total += _total_loss(room.logits, room.labels[:rows])
    return f32(total / len(table.y))


@njit(**OPTIONS)
def run_epochs(
    plan: Plan,
    room: Room,
    training: Table,
    validation: Table,
    orders: Ints,
    epochs: int,
    batch: int,
    learning_rate: float,
    patience: int,
    history: Ints,
    best_loss: Floats,
) -> bool:
    """Train on for at most `epochs` epochs; True once patience has run out.

    `history` counts the epochs done, the kept one, and the steps done.
    """
    turn(plan, room.weights, room.turned)
    for epoch in range(epochs):
        for first in range(0, len(training.y), batch):
            size = min(batch, len(training.y) - first)
            history[2] += 1
            _step(plan, room, training, orders[epoch], first, size, history[2], learning_rate)
        history[0] += 1
        loss = _validate(plan, room, validation)
        if loss < best_loss[0]:
            best_loss[0] = loss
            history[1] = history[0]
            for i in range(len(room.weights)):
                room.kept[i] = room.weights[i]
        if history[0] - history[1] >= patience:
            return True
    return False


@njit(**OPTIONS)
def predict(plan: Plan, room: Room, table: Table, logits: Floats) -> None:
    """The kept network's logits for the table's rows."""
    for first in range(0, len(logits), TILE):
        rows = min(TILE, len(logits) - first)
        source = _take(room, table, room.ids[:0], first, rows)
        forward(plan, room.kept, room, table.sparse, source, 4 * table.X.shape[1], rows)
        for r in range(rows):
            logits[first + r] = room.logits[r]


# ── a training walked backwards: `butfor.mlp.walks` says what for, `butfor.mlp.sweeps` by which equations ─────────


LOSS, LOSS_GRADIENT, TRAIN, BACK = range(4)


class Walk(NamedTuple):
    """D outcomes of one training with ReLU, differentiated step by step: by the state after a step, by all labels."""

    by_weights: Floats
    """`[D × parameters]`, like the next two."""
    by_mean: Floats
    by_square: Floats
    by_gradient: Floats
    """Of the step at work: the directions of its Hessian products."""
    by_labels: Floats
    """`[n × D]`."""
    begun: NDArray[np.bool_]
    """Which outcomes the walk has come to; of the others there is nothing yet."""
    factors: Floats
    """Of the step at work, per parameter `[3 × parameters]`: what the weights' derivative adds to that of the mean and
    of the square, and what the square's adds to that of the gradient."""
    turned: Floats
    """As in `Room`, of a direction."""
    deltas: Floats
    """Tiles as in `Room`: the loss by each layer's outputs, and along a direction the outputs and those derivatives."""
    tangents: Floats
    errors: Floats
    rows: Floats
    """`[5 × TILE]`, per row of a tile: the loss by the logit and by the logit twice; along a direction the logit, its
    part through the hidden outputs, and the loss by the logit."""
    zeros: Floats


@njit(**OPTIONS)
def walk_epoch(
    do: int,
    plan: Plan,
    room: Room,
    walk: Walk,
    table: Table,
    order: Ints,
    batch: int,
    learning_rate: float,
    steps_before: int,
    first: int,
    stop: int,
    every: int,
    states: Floats,
) -> f32:
    """All that a walk needs, in one function: several would each be compiled with everything they call.

    LOSS: the mean loss. LOSS_GRADIENT: its derivative by the weights, in `room`. TRAIN: the steps `first` to `stop` of
    an epoch; `states [… × 3 × parameters]` gets the state before every `every`-th. BACK: the same steps backwards, from
    the states before each."""
    turn(plan, room.weights, room.turned)
    if do == LOSS:
        return _validate(plan, room, table)
    if do == LOSS_GRADIENT:
        _add_gradient(plan, room, table, order, 0, len(table.y))
        return f32(0)
    for index in range(stop - first):
        k = first + index if do == TRAIN else stop - 1 - index
        size = min(batch, len(table.y) - k * batch)
        if do == TRAIN:
            if index % every == 0:
                kept = states[index // every]
                for i in range(len(room.weights)):
                    kept[0, i], kept[1, i], kept[2, i] = room.weights[i], room.mean[i], room.square[i]
            _add_gradient(plan, room, table, order, k * batch, size)
            _adam(room, steps_before + k + 1, learning_rate)
            turn(plan, room.weights, room.turned)
            continue
        state = states[k - first]
        for i in range(len(room.weights)):
            room.weights[i], room.mean[i], room.square[i] = state[0, i], state[1, i], state[2, i]
        turn(plan, room.weights, room.turned)
        _add_gradient(plan, room, table, order, k * batch, size)
        _factors(room, walk.factors, steps_before + k + 1, learning_rate)
        for begin in range(k * batch, k * batch + size, TILE):
            rows = min(TILE, k * batch + size - begin)
            source = _take(room, table, order, begin, rows)
            forward(plan, room.weights, room, table.sparse, source, 4 * table.X.shape[1], rows)
            _deltas(plan, room, walk, rows, size)
            for d in np.flatnonzero(walk.begun):
                if begin == k * batch:
                    _by_moments(walk, d)
                _curve(plan, room, walk, d, table.sparse, source, 4 * table.X.shape[1], rows)
                for r in range(rows):
                    walk.by_labels[room.ids[r], d] -= walk.rows[2, r] / f32(size)
    return f32(0)


@njit(fastmath={"contract"}, **INNER)
def _factors(room: Room, factors: Floats, step: int, learning_rate: float) -> None:
    """Of Adam's step at the gradient that `room` holds, which is cleared."""
    rate, scale = f32(learning_rate / (1 - BETA1**step)), f32(math.sqrt(1 - BETA2**step))
    for i in range(len(room.weights)):
        g = room.gradient[i]
        m = room.mean[i] + f32(1 - BETA1) * (g - room.mean[i])
        v = f32(BETA2) * room.square[i] + f32(1 - BETA2) * g * g
        root = np.sqrt(v)
        denominator = root / scale + f32(EPSILON)
        # Where v is 0 the weight never had a gradient (a dead neuron): nothing flows.
        by_square = rate * m / (f32(2) * denominator * denominator * scale * root)
        factors[0, i] = -rate / denominator
        factors[1, i] = by_square if root > f32(0) else f32(0)
        factors[2, i] = f32(2 * (1 - BETA2)) * g
        room.gradient[i] = f32(0)


@njit(fastmath={"contract"}, **INNER)
def _by_moments(walk: Walk, d: int) -> None:
    """Of outcome d, from what comes after Adam's step: by the moments before it and by the gradient."""
    w, m, v, g = walk.by_weights[d], walk.by_mean[d], walk.by_square[d], walk.by_gradient[d]
    to_mean, to_square, to_gradient = walk.factors[0], walk.factors[1], walk.factors[2]
    for i in range(len(w)):
        by_mean, by_square = m[i] + to_mean[i] * w[i], v[i] + to_square[i] * w[i]
        g[i] = f32(1 - BETA1) * by_mean + to_gradient[i] * by_square
        m[i], v[i] = f32(BETA1) * by_mean, f32(BETA2) * by_square


@njit(**INNER)
def _stop_at_kinks(tile: Floats, outputs: Floats, at: int, stride: int, width: int, rows: int) -> None:
    """0 where a ReLU's output is."""
    for r in range(rows):
        for j in range(at + r * stride, at + r * stride + width):
            tile[j] = f32(0) if outputs[j] <= f32(0) else tile[j]


@njit(**INNER)
def _deltas(plan: Plan, room: Room, walk: Walk, rows: int, size: int) -> None:
    """The loss by each layer's outputs, of the rows `forward` has just seen."""
    last, at = len(plan.into) - 1, plan.product
    for r in range(rows):
        p = _sigmoid(room.logits[r])
        walk.rows[0, r], walk.rows[1, r] = (p - room.labels[r]) / f32(size), p * (f32(1) - p) / f32(size)
    errors, errors_row, outputs = _address(walk.rows, 0), 4, 1
    for layer in range(last - 1, -1, -1):
        t, stride, vectors = plan.tiles[layer], plan.strides[layer], plan.vectors[layer]
        above = layer + 1 == last
        back = _address(room.weights, plan.weights[last]) if above else _address(room.turned, plan.turned[layer + 1])
        to, row = _address(walk.deltas, t), 4 * LANES * vectors
        call(
            at,
            to,
            4 * stride,
            _address(walk.zeros, 0),
            0,
            errors,
            errors_row,
            4,
            back,
            row,
            rows,
            outputs,
            vectors,
            ADD,
        )
        _stop_at_kinks(walk.deltas, room.tile, t, stride, LANES * vectors, rows)
        errors, errors_row, outputs = to, 4 * stride, plan.into[layer + 1]


@njit(**INNER)
def _curve(
    plan: Plan, room: Room, walk: Walk, d: int, sparse: Entries, source: int, source_row: int, rows: int
) -> None:
    """Of outcome d, by the weights: add the Hessian times its direction. Pearlmutter's R-operator: the outputs' change
    along the direction forth, the errors' change back."""
    last, at, by_entries = len(plan.into) - 1, plan.product, len(sparse.starts) > 1
    direction, sums, zeros = walk.by_gradient[d], walk.by_weights[d], _address(walk.zeros, 0)
    below, below_row, moved, moved_row = source, source_row, 0, 0
    for layer in range(last):
        t, stride, into, vectors = plan.tiles[layer], plan.strides[layer], plan.into[layer], plan.vectors[layer]
        to, to_row, row = _address(walk.tangents, t), 4 * stride, 4 * LANES * vectors
        w, u = _address(room.weights, plan.weights[layer]), _address(direction, plan.weights[layer])
        if layer == 0 and by_entries:
            _by_entries(plan, direction, walk.tangents, room.ids, sparse, rows, ADD)
        else:
            call(at, to, to_row, u, 0, below, below_row, 4, u + row, row, rows, into, vectors, ADD)
        if layer:
            call(at, to, to_row, to, to_row, moved, moved_row, 4, w + row, row, rows, into, vectors, ADD)
        _stop_at_kinks(walk.tangents, room.tile, t, stride, LANES * vectors, rows)
        below, below_row, moved, moved_row = _address(room.tile, t), to_row, to, to_row
    w, vectors, into = plan.weights[last], plan.vectors[last], plan.into[last]
    bias = w + LANES * vectors
    for r in range(0, rows, LANES):
        there = r * below_row
        _dots(
            _address(walk.rows, 2 * TILE + r),
            below + there,
            below_row,
            _address(direction, w),
            vectors,
            direction[bias],
        )
        _dots(_address(walk.rows, 3 * TILE + r), moved + there, moved_row, _address(room.weights, w), vectors, f32(0))
    total = f32(0)
    for r in range(rows):
        walk.rows[2, r] += walk.rows[3, r]
        walk.rows[4, r] = walk.rows[2, r] * walk.rows[1, r]
        total += walk.rows[4, r]
    sums[bias] += total
    delta, error, here = _address(walk.rows, 0), _address(walk.rows, 4 * TILE), _address(sums, w)
    call(at, here, 0, here, 0, error, 0, 4, below, below_row, 1, rows, vectors, ADD)
    call(at, here, 0, here, 0, delta, 0, 4, moved, moved_row, 1, rows, vectors, ADD)
    delta_row, error_row, outputs = 4, 4, 1
    turn(plan, direction, walk.turned)
    for layer in range(last - 1, -1, -1):
        t, stride, vectors = plan.tiles[layer], plan.strides[layer], plan.vectors[layer]
        to, to_row, row = _address(walk.errors, t), 4 * stride, 4 * LANES * vectors
        if layer + 1 == last:
            back, back_along = _address(room.weights, w), _address(direction, w)
        else:
            back, back_along = (
                _address(room.turned, plan.turned[layer + 1]),
                _address(walk.turned, plan.turned[layer + 1]),
            )
        call(at, to, to_row, zeros, 0, delta, delta_row, 4, back_along, row, rows, outputs, vectors, ADD)
        call(at, to, to_row, to, to_row, error, error_row, 4, back, row, rows, outputs, vectors, ADD)
        _stop_at_kinks(walk.errors, room.tile, t, stride, LANES * vectors, rows)
        delta, delta_row, error, error_row = _address(walk.deltas, t), to_row, to, to_row
        here, into, outputs = _address(sums, plan.weights[layer]), plan.into[layer], plan.into[layer + 1]
        if layer:
            t, stride = plan.tiles[layer - 1], plan.strides[layer - 1]
            below, moved, below_row = _address(room.tile, t), _address(walk.tangents, t), 4 * stride
            call(at, here, row, here, row, below - 4, 4, below_row, error, error_row, into + 1, rows, vectors, ADD)
            call(at, here + row, row, here + row, row, moved, 4, below_row, delta, delta_row, into, rows, vectors, ADD)
        elif by_entries:
            ones = _address(room.tile, t) - 4
            call(at, here, 0, here, 0, ones, 0, to_row, error, error_row, 1, rows, vectors, ADD)
            _by_entries(plan, sums, walk.errors, room.ids, sparse, rows, GRADIENT)
        else:
            call(at, here, row, here, row, source - 4, 4, source_row, error, error_row, into + 1, rows, vectors, ADD)
