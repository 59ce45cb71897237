"""Vector code of the fused engine: one register-blocked kernel for all matrix products of a training.

The networks of L are so small that their matrices fit a core's nearest caches, so time should go into multiply-adds.
The kernel is written in LLVM's portable vectors: it becomes AVX-512, AVX2 or NEON code on the user's machine, without a
compiler installed there. Nothing is compiled per shape. Addresses and distances are in bytes.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from butfor.learn.protocols import Floats
from butfor.machine import keeps_compiled

# A block of HEIGHT × WIDE vectors of sums stays in registers, beside WIDE operands and a broadcast:
# AVX-512 has 32 registers of 16 floats, AVX2 16 of 8.
LANES, HEIGHT = (16, 12) if llvm.get_host_cpu_features().get("avx512f") else (8, 6)
WIDE = 2
FEW = 4
"""Vectors of sums, or of errors, that stay in registers while a sparse row is worked through."""

RELU, TANH, SIGMOID = range(3)
ADD, ADD_RELU, SLOPE = range(3)
"""How `product` finishes; the activation is added to SLOPE."""

OPTIONS: dict[str, Any] = {"nogil": True, "cache": keeps_compiled(), "error_model": "numpy"}
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
CONTRACT = {"contract"}
SUMS = {"contract", "reassoc", "nsz"}
"""Reassociation lets sums vectorise. NaN and infinity keep their meaning: a training that diverges must show it."""
FILES = ("recipe.py", "vectors.py", "passes.py", "kernels.py", "walk_kernels.py")
DIGEST = hashlib.sha256(b"".join((files("butfor.mlp") / name).read_bytes() for name in FILES)).hexdigest()[:16]
"""Of all sources that are compiled together."""


def compiled(*, entry: bool = False, fastmath: Any = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function; Python can call it only if it is an `entry`. numba's cache looks for changes only in the
    function's own file, so the name of its cache file contains the digest of all of them."""

    def wrap(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{DIGEST}"
        return njit(fastmath=fastmath, **(OPTIONS if entry else INNER))(function)

    return wrap


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

        # numba reads this signature; it would pack `*given` into a tuple.
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
    stay in registers. `names`: its arguments, whole numbers, among them the sizes."""

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
    """An error times the activation's slope, computed from its output."""
    if activation == RELU:
        return builder.select(builder.fcmp_ordered("<=", output, ZERO), ZERO, error)
    if activation == TANH:
        return builder.fmul(error, builder.fsub(ONE, builder.fmul(output, output)))
    return builder.fmul(error, builder.fmul(output, builder.fsub(ONE, output)))


@vector_code(types.void, *[types.int64] * 5, types.float32)
def dots(builder: ir.IRBuilder, results: Any, a: Any, a_row: Any, b: Any, vectors: Any, plus: Any) -> None:
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


def _entry(builder: ir.IRBuilder, given: Given, index: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The offset of the row of weights of the index-th input that is not 0, and its value in every lane."""
    offset = builder.mul(index, INT(4))
    place = builder.load(builder.inttoptr(builder.add(given["places"], offset), INDEX.as_pointer()))
    value = builder.load(builder.inttoptr(builder.add(given["values"], offset), FLOAT.as_pointer()))
    return builder.mul(builder.sext(place, INT), given["row"]), spread(builder, value)


@by_size("butfor_sum_entries", ("c", "start", "places", "values", "count", "b", "row", "wide", "finish"), wide=FEW)
def sum_entries(builder: ir.IRBuilder, given: Given, wide: int) -> None:
    """c = start + Σ value · b[place] over the entries of a row."""
    sums = [cgutils.alloca_once_value(builder, ZERO) for _ in range(wide)]
    with cgutils.for_range(builder, given["count"], intp=INT) as loop:
        offset, value = _entry(builder, given, loop.index)
        for v, total in enumerate(sums):
            there = load(builder, given["b"], offset, v)
            builder.store(plus_product(builder, builder.load(total), value, there), total)
    _store_block(builder, given, [[builder.load(total) for total in sums]])


@by_size("butfor_add_entries", ("gradient", "errors", "places", "values", "count", "row", "wide"), wide=FEW)
def add_to_entries(builder: ir.IRBuilder, given: Given, wide: int) -> None:
    """gradient[place] += value · errors for every entry of a row."""
    errors = [load(builder, given["errors"], INT(0), v) for v in range(wide)]
    with cgutils.for_range(builder, given["count"], intp=INT) as loop:
        offset, value = _entry(builder, given, loop.index)
        for v in range(wide):
            there = pointer(builder, given["gradient"], offset, v)
            builder.store(plus_product(builder, builder.load(there, align=4), value, errors[v]), there, align=4)


@vector_code(types.float32, types.int32)
def float_of_bits(builder: ir.IRBuilder, bits: Any) -> Any:
    return builder.bitcast(bits, FLOAT)


# Called through its address (`call`): numba optimises a called function again with every caller, and this is by far
# the largest part of the code.
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

    `finish` ADD stores that, ADD_RELU its positive part. SLOPE + activation stores the sum alone, times the
    activation's slope at the output that c has now. Every number is summed over k in order, in any block."""
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


@compiled()
def address_of(array: Floats, index: int) -> np.int64:
    """The address of array[index] as a signed number: numba makes a float of unsigned plus signed."""
    return np.int64(array.ctypes.data) + 4 * index
