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
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from butfor.learn.protocols import Floats

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

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

# Reassociation lets sums vectorise. NaN and infinity keep their meaning: a training that diverges
# must be seen to diverge.
SUMS = {"contract", "reassoc", "nsz"}


def _has_a_place() -> bool:
    """Whether compiled code can be kept: beside this file, or in the user's cache. Where all of that is read-only,
    every process compiles for itself."""
    try:
        njit(cache=True)(lambda: None)
    except (RuntimeError, OSError):
        return False
    return True


OPTIONS: dict[str, Any] = {"nogil": True, "cache": _has_a_place(), "error_model": "numpy"}
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


class Sparse(NamedTuple):
    """Rows by the inputs that are not 0, in their order; all three are empty where rows are better taken whole."""

    counts: Ints
    places: NDArray[np.int32]
    """`[rows × most]`: which inputs, counted from 0."""
    values: Floats


class Table(NamedTuple):
    """Rows, whole or by their entries (the other is empty), and their labels."""

    X: Floats
    sparse: Sparse
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
    ids: Ints
    """Which rows a tile holds, where these are taken by their entries."""


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


ADDRESSES = ("c", "c_row", "start", "start_row", "a", "a_row", "a_step", "b", "b_step")
PRODUCT = (*ADDRESSES, "steps", "height", "wide", "finish")
Given = dict[str, ir.Value]
Sums = list[list[ir.Value]]


@vector_code(types.void, *[types.int64] * len(PRODUCT))
def _block(builder: ir.IRBuilder, *values: ir.Value) -> None:
    """One block of `product`: `height` ≤ HEIGHT rows by `wide` ≤ WIDE vectors."""
    kind = ir.FunctionType(ir.VoidType(), [INT] * len(PRODUCT))
    function = cgutils.get_or_insert_function(builder.module, kind, "butfor_block")
    if function.is_declaration:
        function.linkage = "internal"
        function.attributes.add("noinline")
        _define_block(function)
    builder.call(function, values)


def _define_block(function: ir.Function) -> None:
    """One case for every size of block, and in it one for every finish."""
    given = dict(zip(PRODUCT, function.args, strict=True))
    builder = ir.IRBuilder(function.append_basic_block())
    done = function.append_basic_block()
    size = builder.add(builder.mul(given["height"], INT(WIDE + 1)), given["wide"])
    sizes = builder.switch(size, done)
    for height in range(1, HEIGHT + 1):
        for wide in range(1, WIDE + 1):
            _enter_case(builder, sizes, height * (WIDE + 1) + wide)
            sums = _sum_products(builder, given, height, wide)
            finishes = builder.switch(given["finish"], done)
            for finish in (ADD, ADD_RELU, SLOPE + RELU, SLOPE + TANH, SLOPE + SIGMOID):
                _enter_case(builder, finishes, finish)
                _store_block(builder, given, sums, finish)
                builder.branch(done)
    builder.position_at_end(done)
    builder.ret_void()


def _enter_case(builder: ir.IRBuilder, switch: Any, value: int) -> None:
    block = builder.function.append_basic_block()
    switch.add_case(INT(value), block)
    builder.position_at_end(block)


def _sum_products(builder: ir.IRBuilder, given: Given, height: int, wide: int) -> Sums:
    """The loop Σ_k a[r, k] · b[k, :], at least one step, for all rows and vectors of a block."""
    before = builder.block
    loop, after = builder.function.append_basic_block(), builder.function.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    step, a, b = (builder.phi(INT) for _ in range(3))
    sums = [[builder.phi(VECTOR) for _ in range(wide)] for _ in range(height)]
    operands = [load(builder, b, INT(0), v) for v in range(wide)]
    totals = []
    for r in range(height):
        at = builder.add(a, builder.mul(given["a_row"], INT(r)))
        factor = spread(builder, builder.load(builder.inttoptr(at, FLOAT.as_pointer())))
        totals.append([plus_product(builder, sums[r][v], factor, operands[v]) for v in range(wide)])
    moved = [builder.add(step, INT(1)), builder.add(a, given["a_step"]), builder.add(b, given["b_step"])]
    starts = [INT(0), given["a"], given["b"]] + [ZERO] * (height * wide)
    phis, turns = [step, a, b] + sum(sums, []), moved + sum(totals, [])  # noqa: RUF017
    for phi, start, turn in zip(phis, starts, turns, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(turn, loop)
    builder.cbranch(builder.icmp_signed("<", moved[0], given["steps"]), loop, after)
    builder.position_at_end(after)
    return totals


def _store_block(builder: ir.IRBuilder, given: Given, sums: Sums, finish: int) -> None:
    for r, row in enumerate(sums):
        c_row, start_row = (builder.mul(given[name], INT(r)) for name in ("c_row", "start_row"))
        for v, total in enumerate(row):
            c = pointer(builder, given["c"], c_row, v)
            if finish in (ADD, ADD_RELU):
                value = builder.fadd(total, load(builder, given["start"], start_row, v))
                if finish == ADD_RELU:
                    # Compared this way round, NaN stays NaN.
                    value = builder.select(builder.fcmp_ordered("<", value, ZERO), ZERO, value)
            else:
                value = _times_slope(builder, finish - SLOPE, total, builder.load(c, align=4))
            builder.store(value, c, align=4)


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


def _for_few(emit: Callable[[ir.IRBuilder, Given, int], None], name: str, names: tuple[str, ...]) -> Any:
    """Compiled code with one case for every number `wide` ≤ FEW of vectors."""

    def call(builder: ir.IRBuilder, *values: ir.Value) -> None:
        kind = ir.FunctionType(ir.VoidType(), [INT] * len(names))
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        if function.is_declaration:
            function.linkage = "internal"
            function.attributes.add("noinline")
            given = dict(zip(names, function.args, strict=True))
            inner = ir.IRBuilder(function.append_basic_block())
            done = function.append_basic_block()
            cases = inner.switch(given["wide"], done)
            for wide in range(1, FEW + 1):
                _enter_case(inner, cases, wide)
                emit(inner, given, wide)
                inner.branch(done)
            inner.position_at_end(done)
            inner.ret_void()
        builder.call(function, values)

    return vector_code(types.void, *[types.int64] * len(names))(call)


def _entry(builder: ir.IRBuilder, given: Given, index: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Of the index-th input that is not 0: the offset of its row of weights, and its value in every lane."""
    offset = builder.mul(index, INT(4))
    place = builder.load(builder.inttoptr(builder.add(given["places"], offset), INDEX.as_pointer()))
    value = builder.load(builder.inttoptr(builder.add(given["values"], offset), FLOAT.as_pointer()))
    return builder.mul(builder.sext(place, INT), given["row"]), spread(builder, value)


def _sum_entries(builder: ir.IRBuilder, given: Given, wide: int) -> None:
    before = builder.block
    test, loop, after = (builder.function.append_basic_block() for _ in range(3))
    builder.branch(test)
    builder.position_at_end(test)
    index = builder.phi(INT)
    sums = [builder.phi(VECTOR) for _ in range(wide)]
    builder.cbranch(builder.icmp_signed("<", index, given["count"]), loop, after)
    builder.position_at_end(loop)
    offset, value = _entry(builder, given, index)
    totals = [plus_product(builder, sums[v], value, load(builder, given["b"], offset, v)) for v in range(wide)]
    turned = [builder.add(index, INT(1)), *totals]
    builder.branch(test)
    for phi, start, turn in zip([index, *sums], [INT(0)] + [ZERO] * wide, turned, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(turn, loop)
    builder.position_at_end(after)
    relu = builder.icmp_signed("==", given["finish"], INT(ADD_RELU))
    for v, total in enumerate(sums):
        value = builder.fadd(total, load(builder, given["start"], INT(0), v))
        # Compared this way round, NaN stays NaN.
        positive = builder.select(builder.fcmp_ordered("<", value, ZERO), ZERO, value)
        builder.store(builder.select(relu, positive, value), pointer(builder, given["c"], INT(0), v), align=4)


def _add_entries(builder: ir.IRBuilder, given: Given, wide: int) -> None:
    errors = [load(builder, given["errors"], INT(0), v) for v in range(wide)]
    with cgutils.for_range(builder, given["count"], intp=INT) as loop:
        offset, value = _entry(builder, given, loop.index)
        for v in range(wide):
            there = pointer(builder, given["gradient"], offset, v)
            builder.store(plus_product(builder, builder.load(there, align=4), value, errors[v]), there, align=4)


# c = start + Σ value · b[place], of one row; and gradient[place] += value · errors for each of its entries.
_sum_of_entries = _for_few(
    _sum_entries, "butfor_sum_entries", ("c", "start", "places", "values", "count", "b", "row", "wide", "finish")
)
_spread_to_entries = _for_few(
    _add_entries, "butfor_add_entries", ("gradient", "errors", "places", "values", "count", "row", "wide")
)


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
def _sparse_product(plan: Plan, weights: Floats, room: Room, sparse: Sparse, rows: int, finish: int) -> None:
    """The first layer's outputs for the rows that `room.ids` names."""
    stride, vectors = plan.strides[0], plan.vectors[0]
    outputs, bias, row = _address(room.tile, plan.tiles[0]), _address(weights, plan.weights[0]), 4 * LANES * vectors
    all_places, all_values = np.int64(sparse.places.ctypes.data), _address(sparse.values, 0)
    for r in range(rows):
        count, at = sparse.counts[room.ids[r]], 4 * sparse.places.shape[1] * room.ids[r]
        places, values = all_places + at, all_values + at
        for first in range(0, vectors, FEW):
            beside, wide = 4 * LANES * first, min(FEW, vectors - first)
            to, start = outputs + r * 4 * stride + beside, bias + beside
            _sum_of_entries(to, start, places, values, count, start + row, row, wide, finish)


@njit(**INNER)
def _sparse_gradient(plan: Plan, room: Room, sparse: Sparse, rows: int) -> None:
    """Add the first layer's gradient: of the weights through the entries, of the bias through every row."""
    stride, vectors = 4 * plan.strides[0], plan.vectors[0]
    bias, row, errors = (
        _address(room.gradient, plan.weights[0]),
        4 * LANES * vectors,
        _address(room.tile, plan.tiles[0]),
    )
    # The 4 bytes before every row of outputs hold a 1.
    call(plan.product, bias, 0, bias, 0, errors - 4, 0, stride, errors, stride, 1, rows, vectors, ADD)
    all_places, all_values = np.int64(sparse.places.ctypes.data), _address(sparse.values, 0)
    for r in range(rows):
        count, at = sparse.counts[room.ids[r]], 4 * sparse.places.shape[1] * room.ids[r]
        places, values = all_places + at, all_values + at
        for first in range(0, vectors, FEW):
            beside, wide = 4 * LANES * first, min(FEW, vectors - first)
            to, error = bias + row + beside, errors + r * stride + beside
            _spread_to_entries(to, error, places, values, count, row, wide)


@njit(**INNER)
def forward(plan: Plan, weights: Floats, room: Room, sparse: Sparse, source: int, source_row: int, rows: int) -> None:
    """The logits of the rows at `source`, or of those that `room.ids` names; their hidden outputs stay in the tile."""
    last, at = len(plan.into) - 1, plan.product
    relu = plan.activation == RELU
    finish = ADD_RELU if relu else ADD
    for layer in range(last):
        t, stride, into, vectors = plan.tiles[layer], plan.strides[layer], plan.into[layer], plan.vectors[layer]
        outputs, bias, row = _address(room.tile, t), _address(weights, plan.weights[layer]), 4 * LANES * vectors
        if layer == 0 and len(sparse.counts):
            _sparse_product(plan, weights, room, sparse, rows, finish)
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
def backward(plan: Plan, room: Room, sparse: Sparse, source: int, source_row: int, rows: int) -> None:
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
        elif layer == 0 and len(sparse.counts):
            _sparse_gradient(plan, room, sparse, rows)
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
def turn(plan: Plan, room: Room) -> None:
    """Copy the weights of every hidden layer but the first to `[outputs × inputs]`."""
    for layer in range(1, len(plan.into) - 1):
        row, turned_row = LANES * plan.vectors[layer], LANES * plan.vectors[layer - 1]
        for i in range(plan.into[layer]):
            at, to = plan.weights[layer] + row * (1 + i), plan.turned[layer] + i
            for o in range(plan.into[layer + 1]):
                room.turned[to + o * turned_row] = room.weights[at + o]


@njit(**INNER)
def _gather(room: Room, X: Floats, y: Floats, order: Ints, first: int, rows: int) -> None:
    """Copy the rows and labels order[first : first + rows]."""
    for r in range(rows):
        row, to = X[order[first + r]], room.gathered[r]
        for j in range(len(row)):
            to[j] = row[j]
        room.labels[r] = y[order[first + r]]


@njit(**INNER)
def _errors(logits: Floats, labels: Floats, rows: int, scale: f32) -> None:
    """Replace logits by the derivatives of the mean loss."""
    for r in range(rows):
        logits[r] = (_sigmoid(logits[r]) - labels[r]) * scale


@njit(**INNER)
def _name_rows(room: Room, first: int, rows: int) -> None:
    for r in range(rows):
        room.ids[r] = first + r


@njit(**INNER)
def _step(plan: Plan, room: Room, table: Table, order: Ints, first: int, size: int, step: int, rate: float) -> None:
    """Learn from one batch: the rows order[first : first + size], or all in place without an order."""
    X, sparse, y = table.X, table.sparse, table.y
    row = 4 * X.shape[1]
    for begin in range(first, first + size, TILE):
        rows = min(TILE, first + size - begin)
        source = _address(X, begin * X.shape[1] + 1)
        if len(sparse.counts):
            _name_rows(room, begin, rows)
            for r in range(rows):
                if len(order):
                    room.ids[r] = order[begin + r]
                room.labels[r] = y[room.ids[r]]
        elif len(order):
            _gather(room, X, y, order, begin, rows)
            source = _address(room.gathered, 1)
        else:
            for r in range(rows):
                room.labels[r] = y[begin + r]
        forward(plan, room.weights, room, sparse, source, row, rows)
        _errors(room.logits, room.labels, rows, f32(1) / f32(size))
        backward(plan, room, sparse, source, row, rows)
    _adam(room, step, rate)
    turn(plan, room)


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
    X, y = table.X, table.y
    total = 0.0
    for first in range(0, len(y), TILE):
        labels = y[first : first + TILE]
        source = _address(X, first * X.shape[1] + 1)
        _name_rows(room, first, len(labels))
        forward(plan, room.weights, room, table.sparse, source, 4 * X.shape[1], len(labels))
        total += _total_loss(room.logits, labels)
    return f32(total / len(y))


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
    turn(plan, room)
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
    X = table.X
    for first in range(0, len(logits), TILE):
        rows = min(TILE, len(logits) - first)
        _name_rows(room, first, rows)
        forward(plan, room.kept, room, table.sparse, _address(X, first * X.shape[1] + 1), 4 * X.shape[1], rows)
        for r in range(rows):
            logits[first + r] = room.logits[r]
