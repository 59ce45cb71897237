"""The compiled half of the fused engine: whole epochs of L in machine code, without the GIL.

What it must achieve: spend its time in multiply-adds. A network of L is so small that its
matrices fit in a core's nearest caches, so all three matrix products of a layer run through one
register-blocked kernel, `_block`, written in LLVM's own portable vectors: it becomes AVX-512,
AVX2 or NEON code on the user's machine, and no compiler need be installed.

Layout. Rows (samples) lie one after the other, a row's neurons side by side, padded with zeros to
whole vectors. In front of every row stands a 1, and in front of every weight matrix
`[inputs × outputs]` stands its bias: the bias is the weight of that 1, so its gradient is one
more row of the same product. The number of rows, inputs and outputs is free; nothing is compiled
per shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Compiled = Callable[..., Any]

# The block of results held in registers: HEIGHT rows by WIDE vectors, beside WIDE operands and a
# broadcast. AVX-512 has 32 registers of 16 floats, AVX2 16 of 8.
LANES, HEIGHT = (16, 12) if llvm.get_host_cpu_features().get("avx512f") else (8, 6)
WIDE = 2
TILE = 128
"""Rows worked through at once: the tiles of a 32×32 network stay in a core's nearest caches."""

RELU, TANH, SIGMOID = range(3)
# What a product does with its result before storing it.
ADD, ADD_RELU, SLOPE = 0, 1, 2  # SLOPE + activation: times the slope at the neuron's output

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

# Reassociation lets sums vectorise; NaN and infinity keep their meaning, because a training that
# diverges must be seen to diverge.
SUMS = {"contract", "reassoc", "nsz"}
_options: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


class Plan(NamedTuple):
    """A network's shape and where its parts lie, one entry per layer (in floats)."""

    activation: int
    into: Ints
    vectors: Ints
    """Vectors of `LANES` that hold one row of a hidden layer's outputs; of the last layer's inputs."""
    weights: Ints
    """Where the bias stands, the weights behind it; for the last layer the weights, then the bias."""
    turned: Ints
    """Where the copy `[outputs × inputs]` lies that errors are sent back through."""
    tiles: Ints
    """Where a hidden layer's outputs lie, for the first row of a tile."""
    strides: Ints
    """From one row of these outputs to the next."""


# ── the one matrix kernel ────────────────────────────────────────────────────────────────────────

_FLOAT, _INT = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_FUSE = ("contract",)
_ARGUMENTS = (
    "c", "c_row", "start", "start_row", "a", "a_row", "a_step", "b", "b_step",
    "steps", "height", "wide", "finish",
)  # fmt: skip


def _vector_at(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value, vector: int) -> ir.Value:
    address = builder.add(base, builder.add(offset, _INT(4 * LANES * vector)))
    return builder.inttoptr(address, _VECTOR.as_pointer())


def _spread(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """One float in every lane."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), mask)


def _sum_products(
    builder: ir.IRBuilder, given: dict[str, ir.Value], height: int, wide: int
) -> list[list[ir.Value]]:
    """Emit the loop Σ_k a[r, k] · b[k, :] for `height` rows r; all sums stay in registers."""
    function, before = builder.function, builder.block
    body, after = function.append_basic_block(), function.append_basic_block()
    zero = ir.Constant(_VECTOR, [0.0] * LANES)
    builder.cbranch(builder.icmp_signed(">", given["steps"], _INT(0)), body, after)
    builder.position_at_end(body)
    step, a, b = (builder.phi(_INT) for _ in range(3))
    sums = [[builder.phi(_VECTOR) for _ in range(wide)] for _ in range(height)]
    rows = [builder.load(_vector_at(builder, b, _INT(0), v), align=4) for v in range(wide)]
    updated = []
    for r in range(height):
        address = builder.add(a, builder.mul(given["a_row"], _INT(r)))
        factor = _spread(builder, builder.load(builder.inttoptr(address, _FLOAT.as_pointer())))
        updated.append(
            [
                builder.fadd(sums[r][v], builder.fmul(factor, rows[v], flags=_FUSE), flags=_FUSE)
                for v in range(wide)
            ]
        )
    following = builder.add(step, _INT(1))
    for phi, first, then in (
        (step, _INT(0), following),
        (a, given["a"], builder.add(a, given["a_step"])),
        (b, given["b"], builder.add(b, given["b_step"])),
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(then, body)
    for r in range(height):
        for v in range(wide):
            sums[r][v].add_incoming(zero, before)
            sums[r][v].add_incoming(updated[r][v], body)
    builder.cbranch(builder.icmp_signed("<", following, given["steps"]), body, after)
    builder.position_at_end(after)
    results = [[builder.phi(_VECTOR) for _ in range(wide)] for _ in range(height)]
    for r in range(height):
        for v in range(wide):
            results[r][v].add_incoming(zero, before)
            results[r][v].add_incoming(updated[r][v], body)
    return results


def _finished(
    builder: ir.IRBuilder, finish: int, total: ir.Value, start: ir.Value, c: ir.Value
) -> ir.Value:
    """What is stored at c for a sum: see `product`. Comparisons are written so that NaN survives."""
    zero, one = (ir.Constant(_VECTOR, [x] * LANES) for x in (0.0, 1.0))
    if finish in (ADD, ADD_RELU):
        value = builder.fadd(total, builder.load(start, align=4))
        if finish == ADD_RELU:
            return builder.select(builder.fcmp_ordered("<", value, zero), zero, value)
        return value
    output = builder.load(c, align=4)
    if finish == SLOPE + RELU:
        return builder.select(builder.fcmp_ordered("<=", output, zero), zero, total)
    if finish == SLOPE + TANH:
        return builder.fmul(total, builder.fsub(one, builder.fmul(output, output)))
    return builder.fmul(total, builder.fmul(output, builder.fsub(one, output)))


def _define_block(function: ir.Function) -> None:
    """Write the kernel's body: one case for every height and width of a block."""
    given = dict(zip(_ARGUMENTS, function.args, strict=True))
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    done = function.append_basic_block("done")
    case = builder.add(builder.mul(given["height"], _INT(WIDE)), builder.sub(given["wide"], _INT(1)))
    choose = builder.switch(case, done)
    for height in range(1, HEIGHT + 1):
        for wide in range(1, WIDE + 1):
            block = function.append_basic_block(f"block{height}x{wide}")
            choose.add_case(_INT(height * WIDE + wide - 1), block)
            builder.position_at_end(block)
            sums = _sum_products(builder, given, height, wide)
            ways = builder.switch(given["finish"], done)
            for finish in (ADD, ADD_RELU, SLOPE + RELU, SLOPE + TANH, SLOPE + SIGMOID):
                way = function.append_basic_block()
                ways.add_case(_INT(finish), way)
                builder.position_at_end(way)
                for r in range(height):
                    c_row = builder.mul(given["c_row"], _INT(r))
                    start_row = builder.mul(given["start_row"], _INT(r))
                    for v in range(wide):
                        c = _vector_at(builder, given["c"], c_row, v)
                        start = _vector_at(builder, given["start"], start_row, v)
                        builder.store(_finished(builder, finish, sums[r][v], start, c), c, align=4)
                builder.branch(done)
    builder.position_at_end(done)
    builder.ret_void()


@intrinsic
def _block(typingctx, c, c_row, start, start_row, a, a_row, a_step, b, b_step, steps, height, wide, finish):  # type: ignore[no-untyped-def]
    """One block of `product`, at most HEIGHT rows by WIDE vectors. Addresses and distances in bytes."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.VoidType(), [_INT] * len(_ARGUMENTS))
        function = cgutils.get_or_insert_function(builder.module, kind, "butfor_block")
        if function.is_declaration:
            function.linkage = "internal"
            function.attributes.add("noinline")
            _define_block(function)
        builder.call(function, arguments)
        return context.get_dummy_value()

    return types.void(*[types.int64] * len(_ARGUMENTS)), generate


@njit(**_options)
def product(c, c_row, start, start_row, a, a_row, a_step, b, b_step, rows, steps, vectors, finish):  # type: ignore[no-untyped-def]
    """c[r, :] = start[r, :] + Σ_k a[r, k] · b[k, :], all given as addresses and distances in bytes.

    `finish` ADD stores that sum, ADD_RELU its positive part; SLOPE + activation ignores `start`
    and multiplies by the activation's slope where the neuron's output is what c holds now.
    Every number is summed over k in order, whatever block it falls into.
    """
    blocks = -(-rows // HEIGHT)
    height, taller = (rows // blocks, rows % blocks) if blocks else (0, 0)
    for first in range(0, vectors, WIDE):
        wide = min(WIDE, vectors - first)
        beside = 4 * LANES * first
        row = 0
        for index in range(blocks):
            tall = height + (index < taller)
            _block(
                c + row * c_row + beside, c_row, start + row * start_row + beside, start_row,
                a + row * a_row, a_row, a_step, b + beside, b_step, steps, tall, wide, finish,
            )  # fmt: skip
            row += tall


@intrinsic
def _dot(typingctx, a, b, vectors):  # type: ignore[no-untyped-def]
    """Σ a[j] · b[j] over whole vectors at two addresses."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        a, b, vectors = arguments
        total = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES))
        with cgutils.for_range(builder, vectors, intp=_INT) as loop:
            offset = builder.mul(loop.index, _INT(4 * LANES))
            x, w = (builder.load(_vector_at(builder, base, offset, 0), align=4) for base in (a, b))
            product = builder.fmul(x, w, flags=_FUSE)
            builder.store(builder.fadd(builder.load(total), product, flags=_FUSE), total)
        name = f"llvm.vector.reduce.fadd.v{LANES}f32"
        reduce = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR]), name
        )
        return builder.call(reduce, [_FLOAT(0.0), builder.load(total)], fastmath=("reassoc",))

    return types.float32(types.int64, types.int64, types.int64), generate


@intrinsic
def _copy(typingctx, to, source, vectors):  # type: ignore[no-untyped-def]
    """Copy whole vectors from one address to another."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        to, source, vectors = arguments
        with cgutils.for_range(builder, vectors, intp=_INT) as loop:
            offset = builder.mul(loop.index, _INT(4 * LANES))
            floats = builder.load(_vector_at(builder, source, offset, 0), align=4)
            builder.store(floats, _vector_at(builder, to, offset, 0), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def _prefetch(typingctx, address):  # type: ignore[no-untyped-def]
    """Ask for the cache line at an address, to be read soon."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = number(0), number(2), number(1)
        builder.call(prefetch, [builder.inttoptr(arguments[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


# ── functions of one number, written so that loops over them vectorise ──────────────────────────


@intrinsic
def _float_of_bits(typingctx, bits):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], _FLOAT)

    return types.float32(types.int32), generate


@njit(fastmath={"contract"}, **_options)
def _exp(x):  # type: ignore[no-untyped-def]
    """e^x to about 1 ulp, x held within ±87 (NaN stays NaN): 2^n · e^r with |r| ≤ ln 2 / 2."""
    x = np.float32(87) if x > np.float32(87) else x
    x = np.float32(-87) if x < np.float32(-87) else x
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1)
    return p * _float_of_bits(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@njit(fastmath={"contract"}, **_options)
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return np.float32(1) / (np.float32(1) + _exp(-x))


@njit(fastmath={"contract"}, **_options)
def _tanh(x):  # type: ignore[no-untyped-def]
    """A polynomial near 0, where the quotient would cancel."""
    s = x * x
    p = np.float32(-5.70498872745e-3)
    p = p * s + np.float32(2.06390887954e-2)
    p = p * s + np.float32(-5.37397155531e-2)
    p = p * s + np.float32(1.33314422036e-1)
    p = p * s + np.float32(-3.33332819422e-1)
    near = x + x * s * p
    far = np.float32(1) - np.float32(2) / (np.float32(1) + _exp(np.float32(2) * x))
    return near if s < np.float32(0.390625) else far


@njit(fastmath={"contract"}, **_options)
def _loss(z, y):  # type: ignore[no-untyped-def]
    """Binary cross-entropy of logit z: max(z, 0) − zy + log(1 + e^−|z|).

    The logarithm is 2·artanh(s) with s = u / (2 + u) ≤ 1/3, by its series.
    """
    u = _exp(-abs(z))
    s = u / (np.float32(2) + u)
    q = s * s
    p = np.float32(1 / 15)
    p = p * q + np.float32(1 / 13)
    p = p * q + np.float32(1 / 11)
    p = p * q + np.float32(1 / 9)
    p = p * q + np.float32(1 / 7)
    p = p * q + np.float32(1 / 5)
    p = p * q + np.float32(1 / 3)
    p = p * q + np.float32(1)
    positive = z if z > np.float32(0) else np.float32(0)
    return positive - z * y + np.float32(2) * s * p


# ── one tile forth and back ──────────────────────────────────────────────────────────────────────


@njit(**_options)
def _activate(outputs, activation):  # type: ignore[no-untyped-def]
    rows, width = outputs.shape
    for r in range(rows):
        if activation == TANH:
            for j in range(width):
                outputs[r, j] = _tanh(outputs[r, j])
        else:
            for j in range(width):
                outputs[r, j] = _sigmoid(outputs[r, j])


@njit(**_options)
def forward(plan, weights, source, source_row, rows, tile, logits):  # type: ignore[no-untyped-def]
    """The logits of the rows at the address `source`; hidden outputs stay in `tile`."""
    last = len(plan.into) - 1
    relu = plan.activation == RELU
    for layer in range(last):
        t, stride, vectors = plan.tiles[layer], plan.strides[layer], plan.vectors[layer]
        outputs, row = tile.ctypes.data + 4 * t, 4 * LANES * vectors
        bias = weights.ctypes.data + 4 * plan.weights[layer]
        product(
            outputs, 4 * stride, bias, 0, source, source_row, 4, bias + row, row,
            rows, plan.into[layer], vectors, ADD_RELU if relu else ADD,
        )  # fmt: skip
        if not relu:
            tile_rows = tile[t - LANES : t - LANES + rows * stride].reshape(rows, stride)
            _activate(tile_rows[:, LANES:], plan.activation)
        source, source_row = outputs, 4 * stride
    w, vectors = plan.weights[last], plan.vectors[last]
    bias = weights[w + LANES * vectors]
    for r in range(rows):
        logits[r] = bias + _dot(source + r * source_row, weights.ctypes.data + 4 * w, vectors)


@njit(**_options)
def backward(plan, weights, turned, gradient, source, source_row, rows, tile, errors):  # type: ignore[no-untyped-def]
    """Add the gradient of the rows that `forward` has just seen.

    `errors` are the loss's derivatives by the logits. A layer's outputs are overwritten by its
    own errors once the gradient of the layer above no longer needs them.
    """
    last = len(plan.into) - 1
    for layer in range(last, -1, -1):
        vectors, into = plan.vectors[layer], plan.into[layer]
        grads = gradient.ctypes.data + 4 * plan.weights[layer]
        if layer:
            below, below_row = tile.ctypes.data + 4 * plan.tiles[layer - 1], 4 * plan.strides[layer - 1]
        else:
            below, below_row = source, source_row
        if layer == last:
            behind, behind_row, outputs = errors.ctypes.data, 4, 1
            product(grads, 0, grads, 0, behind, 0, 4, below, below_row, 1, rows, vectors, ADD)
            _last_bias(gradient, plan.weights[last] + into, plan.weights[last] + LANES * vectors, errors, rows)
            back = weights.ctypes.data + 4 * plan.weights[last]
        else:
            behind, behind_row = tile.ctypes.data + 4 * plan.tiles[layer], 4 * plan.strides[layer]
            row, outputs = 4 * LANES * vectors, plan.into[layer + 1]
            product(
                grads, row, grads, row, below - 4, 4, below_row, behind, behind_row,
                into + 1, rows, vectors, ADD,
            )  # fmt: skip
            back = turned.ctypes.data + 4 * plan.turned[layer]
        if layer:
            vectors = plan.vectors[layer - 1]
            product(
                below, below_row, 0, 0, behind, behind_row, 4, back, 4 * LANES * vectors,
                rows, outputs, vectors, SLOPE + plan.activation,
            )  # fmt: skip


@njit(fastmath=SUMS, **_options)
def _last_bias(gradient, padding, bias, errors, rows):  # type: ignore[no-untyped-def]
    """The last layer's bias, and no gradient for the padding before it."""
    gradient[padding:bias] = np.float32(0)
    total = np.float32(0)
    for r in range(rows):
        total += errors[r]
    gradient[bias] += total


# ── Adam, epochs, early stopping ─────────────────────────────────────────────────────────────────


@njit(fastmath={"contract"}, **_options)
def _adam(weights, gradient, mean, square, step, learning_rate):  # type: ignore[no-untyped-def]
    """One step as `torch.optim.Adam` takes it: bias corrections in double, the rest in float32.

    The gradient is cleared for the next step. Moments too small to move a weight are dropped:
    those of dead neurons would decay into denormal numbers, which cost a hundred cycles each.
    """
    rate = np.float32(-learning_rate / (1 - BETA1**step))
    root = np.float32(1 / math.sqrt(1 - BETA2**step))
    for i in range(len(weights)):
        g = gradient[i]
        m = mean[i] + np.float32(1 - BETA1) * (g - mean[i])
        v = np.float32(BETA2) * square[i] + np.float32(1 - BETA2) * g * g
        m = np.float32(0) if abs(m) < np.float32(1e-30) else m
        v = np.float32(0) if v < np.float32(1e-36) else v
        weights[i] += rate * m / (np.sqrt(v) * root + np.float32(EPSILON))
        mean[i] = m
        square[i] = v
        gradient[i] = np.float32(0)


@njit(**_options)
def turn(plan, weights, turned):  # type: ignore[no-untyped-def]
    """Copy every hidden layer but the first from [inputs × outputs] to [outputs × inputs]."""
    for layer in range(1, len(plan.into) - 1):
        into, out = plan.into[layer], plan.into[layer + 1]
        row, turned_row = LANES * plan.vectors[layer], LANES * plan.vectors[layer - 1]
        at, to = plan.weights[layer] + row, plan.turned[layer]
        matrix = weights[at : at + into * row].reshape(into, row)
        copy = turned[to : to + out * turned_row].reshape(out, turned_row)
        for i in range(into):
            for o in range(out):
                copy[o, i] = matrix[i, o]


@njit(fastmath=SUMS, **_options)
def _validate(plan, weights, X, y, tile, logits):  # type: ignore[no-untyped-def]
    """Mean loss over the rows of X."""
    total = 0.0
    for first in range(0, len(y), TILE):
        rows = min(TILE, len(y) - first)
        forward(plan, weights, X.ctypes.data + 4 * (first * X.shape[1] + 1), 4 * X.shape[1], rows, tile, logits)
        labels = y[first : first + rows]
        part = np.float32(0)
        for r in range(rows):
            part += _loss(logits[r], labels[r])
        total += part
    return np.float32(total / len(y))


@njit(**_options)
def _gather(X, y, order, first, rows, gathered, labels):  # type: ignore[no-untyped-def]
    """Copy the rows and labels order[first : first + rows]; ask for the rows after them."""
    row = 4 * X.shape[1]
    source, to, vectors = X.ctypes.data, gathered.ctypes.data, X.shape[1] // LANES
    for r in range(rows):
        if first + rows + r < len(order):
            soon = source + order[first + rows + r] * row
            for line in range(0, row, 64):
                _prefetch(soon + line)
        _copy(to + r * row, source + order[first + r] * row, vectors)
        labels[r] = y[order[first + r]]


@njit(**_options)
def _errors(logits, labels, rows, scale):  # type: ignore[no-untyped-def]
    """Replace logits by the derivatives of the mean loss."""
    for r in range(rows):
        logits[r] = (_sigmoid(logits[r]) - labels[r]) * scale


@njit(**_options)
def _step(plan, state, turned, X, y, order, first, size, gathered, tile, logits, labels, step, learning_rate):  # type: ignore[no-untyped-def]
    """One batch: rows order[first : first + size], or the rows themselves where `order` is empty."""
    weights, gradient, row = state[0], state[1], 4 * X.shape[1]
    scale = np.float32(1) / np.float32(size)
    for begin in range(first, first + size, TILE):
        rows = min(TILE, first + size - begin)
        if len(order):
            _gather(X, y, order, begin, rows, gathered, labels)
            source = gathered.ctypes.data + 4
        else:
            labels[:rows] = y[begin : begin + rows]
            source = X.ctypes.data + begin * row + 4
        forward(plan, weights, source, row, rows, tile, logits)
        _errors(logits, labels, rows, scale)
        backward(plan, weights, turned, gradient, source, row, rows, tile, logits)
    _adam(weights, gradient, state[2], state[3], step, learning_rate)
    turn(plan, weights, turned)


@njit(**_options)
def run_epochs(plan, state, turned, X, y, X_val, y_val, orders, epochs, batch, learning_rate, patience,
               gathered, tile, logits, labels, history, best_loss):  # type: ignore[no-untyped-def]  # fmt: skip
    """Train on for at most `epochs` epochs; True once patience has run out.

    `state` rows: weights, gradient, Adam's mean and square, the kept weights.
    `history`: epochs done, the kept epoch, steps done.
    """
    n = len(y)
    for epoch in range(epochs):
        for first in range(0, n, batch):
            history[2] += 1
            _step(plan, state, turned, X, y, orders[epoch], first, min(batch, n - first),
                  gathered, tile, logits, labels, history[2], learning_rate)  # fmt: skip
        history[0] += 1
        loss = _validate(plan, state[0], X_val, y_val, tile, logits)
        if loss < best_loss[0]:
            best_loss[0] = loss
            history[1] = history[0]
            state[4] = state[0]
        if history[0] - history[1] >= patience:
            return True
    return False


@njit(**_options)
def predict(plan, weights, X, tile, logits, result):  # type: ignore[no-untyped-def]
    """The logits of the rows of X, into `result`."""
    for first in range(0, len(result), TILE):
        rows = min(TILE, len(result) - first)
        forward(plan, weights, X.ctypes.data + 4 * (first * X.shape[1] + 1), 4 * X.shape[1], rows, tile, logits)
        result[first : first + rows] = logits[:rows]
