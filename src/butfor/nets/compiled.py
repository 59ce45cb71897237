"""Everything that is compiled for the CPU: whole trainings in machine code, without the GIL, and
the same backwards.

It is one file because numba's cache looks for changes in a function's own file alone, and compiled
functions contain those that they call. So nothing compiled may come from another file of ours (a
test holds that).

The networks are so small that their matrices fit a core's nearest caches, so time should go into
multiply-adds. One register-blocked kernel in LLVM's portable vectors does all matrix products of a
training: it becomes AVX-512, AVX2 or NEON code on the user's machine, without a compiler installed
there. Nothing is compiled per shape.

Layout: rows (samples) one after the other, a row's numbers side by side. Every row has a 1 in
front, and every hidden layer's weights `[inputs × outputs]` have their bias in front: the bias is
the weight of that 1, so its gradient is one more row of the same product. Outputs are padded with
zero weights to whole vectors; rows and inputs need no padding. If most inputs are 0 (one-hot
columns), the first layer works through the others alone. Addresses and distances that vector code
takes are in bytes.
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

from . import keeps_compiled

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
f32 = np.float32

TILE = 128
"""Rows worked through at once: those of a 32×32 network stay in the nearest caches."""
# A block of HEIGHT × WIDE vectors of sums stays in registers, beside WIDE operands and a broadcast:
# AVX-512 has 32 registers of 16 floats, AVX2 16 of 8.
LANES, HEIGHT = (16, 12) if llvm.get_host_cpu_features().get("avx512f") else (8, 6)
WIDE = 2
SPARSE_VECTORS = 4
"""Vectors of sums, or of errors, that stay in registers while a sparse row is worked through."""
RELU, TANH, SIGMOID = range(3)
ADD, ADD_RELU, SLOPE = range(3)
"""How `product` finishes; the activation is added to SLOPE."""
GRADIENT = -1
"""Instead of a finish: the first layer's gradient, not its outputs."""
LOSS, LOSS_GRADIENT, TRAIN, BACK = range(4)
"""What `walk_epoch` does."""
# torch.optim.Adam's defaults.
BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8

OPTIONS: dict[str, Any] = {"nogil": True, "cache": keeps_compiled(), "error_model": "numpy"}
CONTRACT = {"contract"}
SUMS = {"contract", "reassoc", "nsz"}
"""Reassociation lets sums vectorise. NaN and infinity keep their meaning: a training that diverges
must show it."""


def compiled(*, entry: bool = False, fastmath: Any = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function; Python can call it only if it is an `entry`."""
    inner: dict[str, Any] = {} if entry else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(fastmath=fastmath, **OPTIONS, **inner)


class Entries(NamedTuple):
    """Rows by the inputs that are not 0, in their order."""

    starts: NDArray[np.int64]  # the first entry of each row, and the end of the last
    places: NDArray[np.int32]  # of each entry among the inputs, from 0
    values: Floats


class Plan(NamedTuple):
    """A network's shape and the places of its parts, one entry per layer, counted in floats."""

    product: int  # the address of the compiled `product`
    activation: int
    into: Ints
    vectors: Ints  # per row of a hidden layer's outputs; for the last layer, per row of its inputs
    # a hidden layer's bias, followed by its weights; the last layer's weights, followed by its bias
    weights: Ints
    transposed: Ints  # the copy `[outputs × inputs]` for the backward pass
    tiles: Ints  # the outputs of a tile's first row
    strides: Ints  # from one row of outputs to the next


class Table(NamedTuple):
    """Rows, whole or by their entries (the other is empty), and their labels."""

    X: Floats
    sparse: Entries
    y: Floats


class Room(NamedTuple):
    """The arrays that one training writes to."""

    weights: Floats
    gradient: Floats
    mean: Floats
    square: Floats
    kept: Floats
    transposed: Floats
    gathered: Floats  # a tile of rows in batch order `[TILE × stride]`
    tile: Floats  # the hidden outputs of a tile, then their errors
    logits: Floats
    labels: Floats
    ids: NDArray[np.int32]  # the rows of a tile


class Walk(NamedTuple):
    """Derivatives of D outcomes of one training with ReLU, by the state after a step and by all
    labels.

    `by_gradient` are the directions of the Hessian products of the present step. `begun` are the
    outcomes that the walk has reached. `factors` lead, in the present step, from the derivative by
    weights to those by mean and by square, and from that by square to that by gradient.
    `transposed` is as in `Room`, for a direction. Tiles as in `Room` have ∂loss/∂outputs of each
    layer (`deltas`), and along a direction the changes of the outputs (`tangents`) and of these
    (`errors`). `rows` has per row of a tile the first and second derivative of the loss by the
    logit; along a direction the changes of the logit, of its part through the hidden outputs, and
    of the first derivative."""

    by_weights: Floats  # [D × parameters], like the next three
    by_mean: Floats
    by_square: Floats
    by_gradient: Floats
    by_labels: Floats  # [n × D]
    begun: NDArray[np.bool_]
    factors: Floats  # [3 × parameters]
    transposed: Floats
    deltas: Floats
    tangents: Floats
    errors: Floats
    rows: Floats  # [5 × TILE]
    zeros: Floats


FLOAT = ir.FloatType()
INT = ir.IntType(64)
INDEX = ir.IntType(32)
VECTOR = ir.VectorType(FLOAT, LANES)
FUSE = ("contract",)
ZERO, ONE = (ir.Constant(VECTOR, [x] * LANES) for x in (0.0, 1.0))
Arguments = dict[str, ir.Value]
Sums = list[list[ir.Value]]
ADDRESSES = ("c", "c_row", "start", "start_row", "a", "a_row", "a_step", "b", "b_step")
PRODUCT = (*ADDRESSES, "steps", "height", "wide", "finish")


def vector_code(result: Any, *parameters: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a function for compiled code out of one that emits LLVM instructions."""

    def wrap(emit: Callable[..., Any]) -> Any:
        def function(typingctx: Any, *arguments: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                value = emit(builder, *values)
                return context.get_dummy_value() if value is None else value

            return result(*parameters), generate

        # numba reads this signature; it would pack `*arguments` into a tuple.
        names = ["typingctx", *(f"argument{i}" for i in range(len(parameters)))]
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        )
        return intrinsic(function)

    return wrap


def pointer(
    builder: ir.IRBuilder, address: ir.Value, offset: ir.Value, vector: int = 0
) -> ir.Value:
    place = builder.add(address, builder.add(offset, INT(4 * LANES * vector)))
    return builder.inttoptr(place, VECTOR.as_pointer())


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


def by_size(name: str, names: tuple[str, ...], **most: int) -> Callable[[Callable[..., None]], Any]:
    """Make compiled code out of `emit(builder, arguments, size, …)`, with a case for every size up
    to `most`, so that sums stay in registers. `names`: its arguments, whole numbers, among them the
    sizes."""

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
            arguments = dict(zip(names, function.args, strict=True))
            builder = ir.IRBuilder(function.append_basic_block())

            def choose(*sizes: int) -> None:
                if len(sizes) == len(most):
                    emit(builder, arguments, *sizes)
                else:
                    name, limit = list(most.items())[len(sizes)]
                    cases: dict[int, Callable[[], None]] = {
                        size: partial(choose, *sizes, size) for size in range(1, limit + 1)
                    }
                    switch(builder, arguments[name], cases)

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


@by_size("butfor_block", PRODUCT, height=HEIGHT, wide=WIDE)
def _block(builder: ir.IRBuilder, arguments: Arguments, height: int, wide: int) -> None:
    """One block of `product`: Σ_k a[r, k] · b[k, :] for all its rows and vectors, then the
    finish."""
    sums = [[cgutils.alloca_once_value(builder, ZERO) for _ in range(wide)] for _ in range(height)]
    with cgutils.for_range(builder, arguments["steps"], intp=INT) as loop:
        a = builder.add(arguments["a"], builder.mul(arguments["a_step"], loop.index))
        b = builder.add(arguments["b"], builder.mul(arguments["b_step"], loop.index))
        operands = [load(builder, b, INT(0), v) for v in range(wide)]
        for r, row in enumerate(sums):
            place = builder.add(a, builder.mul(arguments["a_row"], INT(r)))
            factor = spread(builder, builder.load(builder.inttoptr(place, FLOAT.as_pointer())))
            for total, operand in zip(row, operands, strict=True):
                builder.store(plus_product(builder, builder.load(total), factor, operand), total)
    _store_block(builder, arguments, [[builder.load(total) for total in row] for row in sums])


def _store_block(builder: ir.IRBuilder, arguments: Arguments, sums: Sums) -> None:
    """Finish a block as `product` says."""

    def store(finish: int) -> None:
        for r, row in enumerate(sums):
            c_row = builder.mul(arguments["c_row"], INT(r)) if r else INT(0)
            start_row = builder.mul(arguments["start_row"], INT(r)) if r else INT(0)
            for v, total in enumerate(row):
                c = pointer(builder, arguments["c"], c_row, v)
                if finish >= SLOPE:
                    value = _times_slope(builder, finish - SLOPE, total, builder.load(c, align=4))
                else:
                    value = builder.fadd(total, load(builder, arguments["start"], start_row, v))
                if finish == ADD_RELU:
                    # Compared this way round, NaN stays NaN.
                    value = builder.select(builder.fcmp_ordered("<", value, ZERO), ZERO, value)
                builder.store(value, c, align=4)

    finishes = (ADD, ADD_RELU, SLOPE + RELU, SLOPE + TANH, SLOPE + SIGMOID)
    switch(builder, arguments["finish"], {finish: partial(store, finish) for finish in finishes})


def _times_slope(
    builder: ir.IRBuilder, activation: int, error: ir.Value, output: ir.Value
) -> ir.Value:
    """An error times the activation's slope, computed from its output."""
    if activation == RELU:
        return builder.select(builder.fcmp_ordered("<=", output, ZERO), ZERO, error)
    if activation == TANH:
        return builder.fmul(error, builder.fsub(ONE, builder.fmul(output, output)))
    return builder.fmul(error, builder.fmul(output, builder.fsub(ONE, output)))


@vector_code(types.void, *[types.int64] * 5, types.float32)
def dots(
    builder: ir.IRBuilder, results: Any, a: Any, a_row: Any, b: Any, vectors: Any, plus: Any
) -> None:
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
    even = [2 * lane for lane in range(LANES)]
    odd = [2 * lane + 1 for lane in range(LANES)]
    while len(sums) > 1:
        sums = [
            builder.fadd(shuffle(builder, x, y, even), shuffle(builder, x, y, odd))
            for x, y in zip(sums[0::2], sums[1::2], strict=True)
        ]
    totals = builder.fadd(sums[0], spread(builder, plus))
    builder.store(totals, pointer(builder, results, INT(0)), align=4)


def _entry(
    builder: ir.IRBuilder, arguments: Arguments, index: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The offset of the row of weights of the index-th input that is not 0, and its value in every
    lane."""
    offset = builder.mul(index, INT(4))
    place_at = builder.inttoptr(builder.add(arguments["places"], offset), INDEX.as_pointer())
    value_at = builder.inttoptr(builder.add(arguments["values"], offset), FLOAT.as_pointer())
    place = builder.load(place_at)
    value = builder.load(value_at)
    return builder.mul(builder.sext(place, INT), arguments["row"]), spread(builder, value)


@by_size(
    "butfor_sum_entries",
    ("c", "start", "places", "values", "count", "b", "row", "wide", "finish"),
    wide=SPARSE_VECTORS,
)
def sum_entries(builder: ir.IRBuilder, arguments: Arguments, wide: int) -> None:
    """c = start + Σ value · b[place] over the entries of a row."""
    sums = [cgutils.alloca_once_value(builder, ZERO) for _ in range(wide)]
    with cgutils.for_range(builder, arguments["count"], intp=INT) as loop:
        offset, value = _entry(builder, arguments, loop.index)
        for v, total in enumerate(sums):
            there = load(builder, arguments["b"], offset, v)
            builder.store(plus_product(builder, builder.load(total), value, there), total)
    _store_block(builder, arguments, [[builder.load(total) for total in sums]])


@by_size(
    "butfor_add_entries",
    ("gradient", "errors", "places", "values", "count", "row", "wide"),
    wide=SPARSE_VECTORS,
)
def add_to_entries(builder: ir.IRBuilder, arguments: Arguments, wide: int) -> None:
    """gradient[place] += value · errors for every entry of a row."""
    errors = [load(builder, arguments["errors"], INT(0), v) for v in range(wide)]
    with cgutils.for_range(builder, arguments["count"], intp=INT) as loop:
        offset, value = _entry(builder, arguments, loop.index)
        for v in range(wide):
            there = pointer(builder, arguments["gradient"], offset, v)
            total = plus_product(builder, builder.load(there, align=4), value, errors[v])
            builder.store(total, there, align=4)


@vector_code(types.float32, types.int32)
def float_of_bits(builder: ir.IRBuilder, bits: Any) -> Any:
    return builder.bitcast(bits, FLOAT)


# Called through its address (`call`): numba optimises a called function again with every caller,
# and this is by far the largest part of the code.
@cfunc(types.void(*[types.int64] * len(PRODUCT)), cache=OPTIONS["cache"], error_model="numpy")
def product(c, c_row, start, start_row, a, a_row, a_step, b, b_step, rows, steps, vectors, finish):  # type: ignore[no-untyped-def]
    """c[r, :] = start[r, :] + Σ_k a[r, k] · b[k, :] for `rows` rows r, `steps` steps k and
    `vectors`.

    `finish` ADD stores that, ADD_RELU its positive part. SLOPE + activation stores the sum alone,
    times the activation's slope at the output that c has now. Every number is summed over k in
    order, in any block."""
    blocks = -(-rows // HEIGHT)
    height = rows // blocks
    taller = rows % blocks
    for first in range(0, vectors, WIDE):
        beside = 4 * LANES * first
        wide = min(WIDE, vectors - first)
        row = 0
        for index in range(blocks):
            tall = height + (index < taller)
            c_at = c + row * c_row + beside
            start_at = start + row * start_row + beside
            a_at = a + row * a_row
            _block(
                c_at,
                c_row,
                start_at,
                start_row,
                a_at,
                a_row,
                a_step,
                b + beside,
                b_step,
                steps,
                tall,
                wide,
                finish,
            )
            row += tall


@vector_code(types.void, *[types.int64] * (1 + len(PRODUCT)))
def call(builder: ir.IRBuilder, address: ir.Value, *values: ir.Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [INT] * len(PRODUCT))
    builder.call(builder.inttoptr(address, kind.as_pointer()), values)


@compiled()
def address_of(array: Floats, index: int) -> np.int64:
    """The address of array[index] as a signed number: numba makes a float of unsigned plus
    signed."""
    return np.int64(array.ctypes.data) + 4 * index


@compiled(fastmath=CONTRACT)
def _exp(x: f32) -> f32:
    """e^x within 2 ulp, x clipped to ±87, NaN kept: 2^n · e^r with |r| ≤ ln 2 / 2 (after
    Cephes)."""
    x = f32(87) if x > f32(87) else x
    x = f32(-87) if x < f32(-87) else x
    n = np.floor(x * f32(1.44269504) + f32(0.5))
    r = x - n * f32(0.693359375) + n * f32(2.12194440e-4)
    p = (f32(1.9875691500e-4) * r + f32(1.3981999507e-3)) * r + f32(8.3334519073e-3)
    p = ((p * r + f32(4.1665795894e-2)) * r + f32(1.6666665459e-1)) * r + f32(5.0000001201e-1)
    p = p * r * r + r + f32(1)
    return p * float_of_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@compiled(fastmath=CONTRACT)
def sigmoid(x: f32) -> f32:
    return f32(1) / (f32(1) + _exp(-x))


@compiled(fastmath=CONTRACT)
def _tanh(x: f32) -> f32:
    """A polynomial (after Cephes) near 0, where the quotient would cancel."""
    s = x * x
    p = (f32(-5.70498872745e-3) * s + f32(2.06390887954e-2)) * s + f32(-5.37397155531e-2)
    p = (p * s + f32(1.33314422036e-1)) * s + f32(-3.33332819422e-1)
    near = x + x * s * p
    far = f32(1) - f32(2) / (f32(1) + _exp(f32(2) * x))
    return near if s < f32(0.390625) else far


@compiled(fastmath=CONTRACT)
def cross_entropy(z: f32, y: f32) -> f32:
    """Binary cross-entropy of a logit: max(z, 0) − zy + log(1 + e^−|z|).

    The logarithm is 2·artanh(s), s = u / (2 + u) ≤ 1/3, by its series.
    """
    u = _exp(-abs(z))
    s = u / (f32(2) + u)
    q = s * s
    p = ((f32(1 / 15) * q + f32(1 / 13)) * q + f32(1 / 11)) * q + f32(1 / 9)
    p = (((p * q + f32(1 / 7)) * q + f32(1 / 5)) * q + f32(1 / 3)) * q + f32(1)
    positive = z if z > f32(0) else f32(0)
    return positive - z * y + f32(2) * s * p


@compiled()
def _activate(outputs: Floats, activation: int) -> None:
    rows, width = outputs.shape
    for r in range(rows):
        if activation == TANH:
            for j in range(width):
                outputs[r, j] = _tanh(outputs[r, j])
        else:
            for j in range(width):
                outputs[r, j] = sigmoid(outputs[r, j])


@compiled()
def sparse_layer(
    plan: Plan, numbers: Floats, tile: Floats, ids: Ints, sparse: Entries, rows: int, finish: int
) -> None:
    """The first layer's outputs for the rows `ids`; or, with GRADIENT, add to its gradient."""
    vectors = plan.vectors[0]
    row = 4 * LANES * vectors
    first_row = address_of(tile, plan.tiles[0])
    bias = address_of(numbers, plan.weights[0])
    all_places = np.int64(sparse.places.ctypes.data)
    all_values = address_of(sparse.values, 0)
    for r in range(rows):
        entry = sparse.starts[ids[r]]
        count = sparse.starts[ids[r] + 1] - entry
        places = all_places + 4 * entry
        values = all_values + 4 * entry
        for first in range(0, vectors, SPARSE_VECTORS):
            beside = 4 * LANES * first
            wide = min(SPARSE_VECTORS, vectors - first)
            outputs = first_row + r * 4 * plan.strides[0] + beside
            start = bias + beside
            if finish == GRADIENT:
                add_to_entries(start + row, outputs, places, values, count, row, wide)
            else:
                sum_entries(outputs, start, places, values, count, start + row, row, wide, finish)


@compiled()
def forward(
    plan: Plan,
    weights: Floats,
    room: Room,
    sparse: Entries,
    source: int,
    source_row: int,
    rows: int,
) -> None:
    """The logits of the rows at `source`, or of the sparse rows `room.ids`; hidden outputs stay in
    the tile."""
    last = len(plan.into) - 1
    kernel = plan.product
    relu = plan.activation == RELU
    finish = ADD_RELU if relu else ADD
    for layer in range(last):
        t = plan.tiles[layer]
        stride = plan.strides[layer]
        into = plan.into[layer]
        vectors = plan.vectors[layer]
        outputs = address_of(room.tile, t)
        bias = address_of(weights, plan.weights[layer])
        row = 4 * LANES * vectors
        if layer == 0 and len(sparse.starts) > 1:
            sparse_layer(plan, weights, room.tile, room.ids, sparse, rows, finish)
        else:
            call(
                kernel,
                outputs,
                4 * stride,
                bias,
                0,
                source,
                source_row,
                4,
                bias + row,
                row,
                rows,
                into,
                vectors,
                finish,
            )
        if not relu:
            tile = room.tile[t - LANES : t - LANES + rows * stride].reshape(rows, stride)
            _activate(tile[:, LANES:], plan.activation)
        source = outputs
        source_row = 4 * stride
    w = plan.weights[last]
    vectors = plan.vectors[last]
    bias = weights[w + LANES * vectors]
    for r in range(0, rows, LANES):
        results = address_of(room.logits, r)
        dots(results, source + r * source_row, source_row, address_of(weights, w), vectors, bias)


@compiled()
def backward(
    plan: Plan, room: Room, sparse: Entries, source: int, source_row: int, rows: int
) -> None:
    """Add the gradient of the rows of the last `forward`; `room.logits` now has their errors.

    Once the gradient above has used a layer's outputs, its errors replace them.
    """
    last = len(plan.into) - 1
    kernel = plan.product
    errors = address_of(room.logits, 0)
    errors_row = 4
    outputs = 1
    for layer in range(last, -1, -1):
        into = plan.into[layer]
        vectors = plan.vectors[layer]
        w = plan.weights[layer]
        if layer:
            below = address_of(room.tile, plan.tiles[layer - 1])
            below_row = 4 * plan.strides[layer - 1]
        else:
            below = source
            below_row = source_row
        sums = address_of(room.gradient, w)
        row = 4 * LANES * vectors
        back = address_of(room.transposed, plan.transposed[layer])
        if layer == last:
            call(kernel, sums, 0, sums, 0, errors, 0, 4, below, below_row, 1, rows, vectors, ADD)
            _last_bias(room.gradient, w + into, w + LANES * vectors, room.logits, rows)
            back = address_of(room.weights, w)
        elif layer == 0 and len(sparse.starts) > 1:
            # The bias has an entry in every row: the 4 bytes before each row of outputs hold a 1.
            call(
                kernel,
                sums,
                0,
                sums,
                0,
                errors - 4,
                0,
                errors_row,
                errors,
                errors_row,
                1,
                rows,
                vectors,
                ADD,
            )
            sparse_layer(plan, room.gradient, room.tile, room.ids, sparse, rows, GRADIENT)
        else:
            call(
                kernel,
                sums,
                row,
                sums,
                row,
                below - 4,
                4,
                below_row,
                errors,
                errors_row,
                into + 1,
                rows,
                vectors,
                ADD,
            )
        if layer:
            vectors = plan.vectors[layer - 1]
            slope = SLOPE + plan.activation
            row = 4 * LANES * vectors
            call(
                kernel,
                below,
                below_row,
                0,
                0,
                errors,
                errors_row,
                4,
                back,
                row,
                rows,
                outputs,
                vectors,
                slope,
            )
        errors = below
        errors_row = below_row
        outputs = into


@compiled(fastmath=SUMS)
def _last_bias(gradient: Floats, padding: int, bias: int, errors: Floats, rows: int) -> None:
    """The gradient of the last layer's bias, and none for the padding before it."""
    for i in range(padding, bias):
        gradient[i] = f32(0)
    total = f32(0)
    for r in range(rows):
        total += errors[r]
    gradient[bias] += total


@compiled(fastmath=CONTRACT)
def adam_step(room: Room, step: int, learning_rate: float) -> None:
    """One step as `torch.optim.Adam` takes it: bias corrections in double, the rest in float32.

    The gradient is cleared for the next batch. Moments too small to move a weight are dropped:
    those of dead neurons would decay into denormal numbers, which cost a hundred cycles each.
    """
    weights = room.weights
    gradient = room.gradient
    mean = room.mean
    square = room.square
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


@compiled()
def transpose(plan: Plan, weights: Floats, transposed: Floats) -> None:
    """Copy the weights of every hidden layer but the first to `[outputs × inputs]`."""
    for layer in range(1, len(plan.into) - 1):
        row = LANES * plan.vectors[layer]
        transposed_row = LANES * plan.vectors[layer - 1]
        for i in range(plan.into[layer]):
            source = plan.weights[layer] + row * (1 + i)
            to = plan.transposed[layer] + i
            for o in range(plan.into[layer + 1]):
                transposed[to + o * transposed_row] = weights[source + o]


@compiled()
def take_rows(room: Room, table: Table, order: Ints, first: int, rows: int) -> np.int64:
    """Set the tile's rows to order[first : first + rows], without an order to rows from `first` on;
    copy their labels and, if they are dense and in an order, the rows. Returns the address of the
    rows."""
    X = table.X
    for r in range(rows):
        row = order[first + r] if len(order) else first + r
        room.ids[r] = row
        room.labels[r] = table.y[row]
    if len(table.sparse.starts) > 1 or not len(order):
        return address_of(X, first * X.shape[1] + 1)
    for r in range(rows):
        whole = X[room.ids[r]]
        to = room.gathered[r]
        for j in range(len(whole)):
            to[j] = whole[j]
    return address_of(room.gathered, 1)


@compiled()
def add_gradient(plan: Plan, room: Room, table: Table, order: Ints, first: int, size: int) -> None:
    """Add the gradient of the mean loss of one batch, order[first : first + size], or of all rows
    without an order."""
    row = 4 * table.X.shape[1]
    scale = f32(1) / f32(size)
    logits = room.logits
    for begin in range(first, first + size, TILE):
        rows = min(TILE, first + size - begin)
        source = take_rows(room, table, order, begin, rows)
        forward(plan, room.weights, room, table.sparse, source, row, rows)
        for r in range(rows):
            logits[r] = (sigmoid(logits[r]) - room.labels[r]) * scale
        backward(plan, room, table.sparse, source, row, rows)


@compiled()
def train_step(
    plan: Plan, room: Room, table: Table, order: Ints, first: int, size: int, step: int, rate: float
) -> None:
    """One step of Adam on one batch."""
    add_gradient(plan, room, table, order, first, size)
    adam_step(room, step, rate)
    transpose(plan, room.weights, room.transposed)


@compiled(fastmath=SUMS)
def _total_loss(logits: Floats, labels: Floats) -> f32:
    """The sum of the losses, which overwrite the logits."""
    for r in range(len(labels)):
        logits[r] = cross_entropy(logits[r], labels[r])
    total = f32(0)
    for r in range(len(labels)):
        total += logits[r]
    return total


@compiled()
def mean_loss(plan: Plan, room: Room, table: Table) -> f32:
    """The mean loss on a table."""
    total = 0.0
    for first in range(0, len(table.y), TILE):
        rows = min(TILE, len(table.y) - first)
        source = take_rows(room, table, room.ids[:0], first, rows)
        forward(plan, room.weights, room, table.sparse, source, 4 * table.X.shape[1], rows)
        total += _total_loss(room.logits, room.labels[:rows])
    return f32(total / len(table.y))


@compiled(entry=True)
def run_epochs(  # type: ignore[no-untyped-def]
    plan,
    room,
    training,
    validation,
    orders,
    epochs,
    batch,
    learning_rate,
    patience,
    history,
    best_loss,
):
    """Train on for at most `epochs` epochs; True once patience has run out.

    `history` counts the epochs done, the kept one, and the steps done.
    """
    transpose(plan, room.weights, room.transposed)
    for epoch in range(epochs):
        for first in range(0, len(training.y), batch):
            size = min(batch, len(training.y) - first)
            history[2] += 1
            train_step(plan, room, training, orders[epoch], first, size, history[2], learning_rate)
        history[0] += 1
        loss = mean_loss(plan, room, validation)
        if loss < best_loss[0]:
            best_loss[0] = loss
            history[1] = history[0]
            for i in range(len(room.weights)):
                room.kept[i] = room.weights[i]
        if history[0] - history[1] >= patience:
            return True
    return False


@compiled(entry=True)
def predict(plan: Plan, room: Room, table: Table, logits: Floats) -> None:
    """The kept network's logits for the table's rows."""
    for first in range(0, len(logits), TILE):
        rows = min(TILE, len(logits) - first)
        source = take_rows(room, table, room.ids[:0], first, rows)
        forward(plan, room.kept, room, table.sparse, source, 4 * table.X.shape[1], rows)
        for r in range(rows):
            logits[first + r] = room.logits[r]


@compiled(entry=True)
def walk_epoch(  # type: ignore[no-untyped-def]
    do, plan, room, walk, table, order, batch, rate, steps_before, first, stop, every, states
):
    """All that a walk needs in one function: each of several would be compiled with everything it
    calls.

    LOSS: the mean loss. LOSS_GRADIENT: its derivative by the weights, in `room`. TRAIN: the steps
    `first` to `stop` of an epoch; `states [… × 3 × parameters]` gets the state before every
    `every`-th. BACK: the same steps backwards, from the states before each."""
    transpose(plan, room.weights, room.transposed)
    if do == LOSS:
        return mean_loss(plan, room, table)
    if do == LOSS_GRADIENT:
        add_gradient(plan, room, table, order, 0, len(table.y))
        return f32(0)
    for index in range(stop - first):
        k = first + index if do == TRAIN else stop - 1 - index
        size = min(batch, len(table.y) - k * batch)
        if do == TRAIN:
            if index % every == 0:
                kept = states[index // every]
                for i in range(len(room.weights)):
                    kept[0, i] = room.weights[i]
                    kept[1, i] = room.mean[i]
                    kept[2, i] = room.square[i]
            train_step(plan, room, table, order, k * batch, size, steps_before + k + 1, rate)
            continue
        state = states[k - first]
        for i in range(len(room.weights)):
            room.weights[i] = state[0, i]
            room.mean[i] = state[1, i]
            room.square[i] = state[2, i]
        transpose(plan, room.weights, room.transposed)
        add_gradient(plan, room, table, order, k * batch, size)
        _factors(room, walk.factors, steps_before + k + 1, rate)
        for begin in range(k * batch, k * batch + size, TILE):
            rows = min(TILE, k * batch + size - begin)
            source = take_rows(room, table, order, begin, rows)
            forward(plan, room.weights, room, table.sparse, source, 4 * table.X.shape[1], rows)
            _deltas(plan, room, walk, rows, size)
            for d in np.flatnonzero(walk.begun):
                if begin == k * batch:
                    _by_moments(walk, d)
                _curve(plan, room, walk, d, table.sparse, source, 4 * table.X.shape[1], rows)
                for r in range(rows):
                    walk.by_labels[room.ids[r], d] -= walk.rows[2, r] / f32(size)
    return f32(0)


@compiled(fastmath=CONTRACT)
def _factors(room: Room, factors: Floats, step: int, learning_rate: float) -> None:
    """Set the factors of Adam's step at the gradient in `room`, and clear the gradient."""
    rate = f32(learning_rate / (1 - BETA1**step))
    scale = f32(math.sqrt(1 - BETA2**step))
    for i in range(len(room.weights)):
        g = room.gradient[i]
        m = room.mean[i] + f32(1 - BETA1) * (g - room.mean[i])
        v = f32(BETA2) * room.square[i] + f32(1 - BETA2) * g * g
        root = np.sqrt(v)
        denominator = root / scale + f32(EPSILON)
        # If v is 0, the weight never had a gradient (a dead neuron): nothing flows.
        by_square = rate * m / (f32(2) * denominator * denominator * scale * root)
        factors[0, i] = -rate / denominator
        factors[1, i] = by_square if root > f32(0) else f32(0)
        factors[2, i] = f32(2 * (1 - BETA2)) * g
        room.gradient[i] = f32(0)


@compiled(fastmath=CONTRACT)
def _by_moments(walk: Walk, d: int) -> None:
    """Outcome d: from the derivatives after Adam's step to those by the moments before it and by
    the gradient."""
    w = walk.by_weights[d]
    m = walk.by_mean[d]
    v = walk.by_square[d]
    g = walk.by_gradient[d]
    to_mean = walk.factors[0]
    to_square = walk.factors[1]
    to_gradient = walk.factors[2]
    for i in range(len(w)):
        by_mean = m[i] + to_mean[i] * w[i]
        by_square = v[i] + to_square[i] * w[i]
        g[i] = f32(1 - BETA1) * by_mean + to_gradient[i] * by_square
        m[i] = f32(BETA1) * by_mean
        v[i] = f32(BETA2) * by_square


@compiled()
def _stop_at_kinks(
    tile: Floats, outputs: Floats, begin: int, stride: int, width: int, rows: int
) -> None:
    """Set to 0 where the ReLU's output is 0."""
    for r in range(rows):
        for j in range(begin + r * stride, begin + r * stride + width):
            tile[j] = f32(0) if outputs[j] <= f32(0) else tile[j]


@compiled()
def _deltas(plan: Plan, room: Room, walk: Walk, rows: int, size: int) -> None:
    """∂loss/∂outputs of each layer for the rows of the last `forward`."""
    last = len(plan.into) - 1
    kernel = plan.product
    zeros = address_of(walk.zeros, 0)
    for r in range(rows):
        p = sigmoid(room.logits[r])
        walk.rows[0, r] = (p - room.labels[r]) / f32(size)
        walk.rows[1, r] = p * (f32(1) - p) / f32(size)
    errors = address_of(walk.rows, 0)
    errors_row = 4
    outputs = 1
    for layer in range(last - 1, -1, -1):
        t = plan.tiles[layer]
        stride = plan.strides[layer]
        vectors = plan.vectors[layer]
        if layer + 1 == last:
            back = address_of(room.weights, plan.weights[last])
        else:
            back = address_of(room.transposed, plan.transposed[layer + 1])
        to = address_of(walk.deltas, t)
        row = 4 * LANES * vectors
        call(
            kernel,
            to,
            4 * stride,
            zeros,
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
        errors = to
        errors_row = 4 * stride
        outputs = plan.into[layer + 1]


@compiled()
def _curve(
    plan: Plan,
    room: Room,
    walk: Walk,
    d: int,
    sparse: Entries,
    source: int,
    source_row: int,
    rows: int,
) -> None:
    """Outcome d: add the Hessian times its direction to the derivative by weights. Pearlmutter's
    R-operator: the change of outputs along the direction forwards, the change of errors
    backwards."""
    last = len(plan.into) - 1
    kernel = plan.product
    by_entries = len(sparse.starts) > 1
    direction = walk.by_gradient[d]
    sums = walk.by_weights[d]
    zeros = address_of(walk.zeros, 0)
    below = source
    below_row = source_row
    moved = 0
    moved_row = 0
    for layer in range(last):
        t = plan.tiles[layer]
        stride = plan.strides[layer]
        into = plan.into[layer]
        vectors = plan.vectors[layer]
        to = address_of(walk.tangents, t)
        to_row = 4 * stride
        row = 4 * LANES * vectors
        w = address_of(room.weights, plan.weights[layer])
        u = address_of(direction, plan.weights[layer])
        if layer == 0 and by_entries:
            sparse_layer(plan, direction, walk.tangents, room.ids, sparse, rows, ADD)
        else:
            call(
                kernel,
                to,
                to_row,
                u,
                0,
                below,
                below_row,
                4,
                u + row,
                row,
                rows,
                into,
                vectors,
                ADD,
            )
        if layer:
            call(
                kernel,
                to,
                to_row,
                to,
                to_row,
                moved,
                moved_row,
                4,
                w + row,
                row,
                rows,
                into,
                vectors,
                ADD,
            )
        _stop_at_kinks(walk.tangents, room.tile, t, stride, LANES * vectors, rows)
        below = address_of(room.tile, t)
        below_row = to_row
        moved = to
        moved_row = to_row
    w = plan.weights[last]
    vectors = plan.vectors[last]
    into = plan.into[last]
    bias = w + LANES * vectors
    for r in range(0, rows, LANES):
        there = r * below_row
        logits = address_of(walk.rows, 2 * TILE + r)
        parts = address_of(walk.rows, 3 * TILE + r)
        dots(logits, below + there, below_row, address_of(direction, w), vectors, direction[bias])
        dots(parts, moved + there, moved_row, address_of(room.weights, w), vectors, f32(0))
    total = f32(0)
    for r in range(rows):
        walk.rows[2, r] += walk.rows[3, r]
        walk.rows[4, r] = walk.rows[2, r] * walk.rows[1, r]
        total += walk.rows[4, r]
    sums[bias] += total
    delta = address_of(walk.rows, 0)
    error = address_of(walk.rows, 4 * TILE)
    here = address_of(sums, w)
    call(kernel, here, 0, here, 0, error, 0, 4, below, below_row, 1, rows, vectors, ADD)
    call(kernel, here, 0, here, 0, delta, 0, 4, moved, moved_row, 1, rows, vectors, ADD)
    delta_row = 4
    error_row = 4
    outputs = 1
    transpose(plan, direction, walk.transposed)
    for layer in range(last - 1, -1, -1):
        t = plan.tiles[layer]
        stride = plan.strides[layer]
        vectors = plan.vectors[layer]
        to = address_of(walk.errors, t)
        to_row = 4 * stride
        row = 4 * LANES * vectors
        if layer + 1 == last:
            back = address_of(room.weights, w)
            back_along = address_of(direction, w)
        else:
            w = plan.transposed[layer + 1]
            back = address_of(room.transposed, w)
            back_along = address_of(walk.transposed, w)
        call(
            kernel,
            to,
            to_row,
            zeros,
            0,
            delta,
            delta_row,
            4,
            back_along,
            row,
            rows,
            outputs,
            vectors,
            ADD,
        )
        call(
            kernel,
            to,
            to_row,
            to,
            to_row,
            error,
            error_row,
            4,
            back,
            row,
            rows,
            outputs,
            vectors,
            ADD,
        )
        _stop_at_kinks(walk.errors, room.tile, t, stride, LANES * vectors, rows)
        delta = address_of(walk.deltas, t)
        delta_row = to_row
        error = to
        error_row = to_row
        here = address_of(sums, plan.weights[layer])
        into = plan.into[layer]
        outputs = plan.into[layer + 1]
        if layer:
            t = plan.tiles[layer - 1]
            stride = plan.strides[layer - 1]
            below = address_of(room.tile, t)
            moved = address_of(walk.tangents, t)
            below_row = 4 * stride
            call(
                kernel,
                here,
                row,
                here,
                row,
                below - 4,
                4,
                below_row,
                error,
                error_row,
                into + 1,
                rows,
                vectors,
                ADD,
            )
            call(
                kernel,
                here + row,
                row,
                here + row,
                row,
                moved,
                4,
                below_row,
                delta,
                delta_row,
                into,
                rows,
                vectors,
                ADD,
            )
        elif by_entries:
            ones = address_of(room.tile, t) - 4
            call(kernel, here, 0, here, 0, ones, 0, to_row, error, error_row, 1, rows, vectors, ADD)
            sparse_layer(plan, sums, walk.errors, room.ids, sparse, rows, GRADIENT)
        else:
            call(
                kernel,
                here,
                row,
                here,
                row,
                source - 4,
                4,
                source_row,
                error,
                error_row,
                into + 1,
                rows,
                vectors,
                ADD,
            )
