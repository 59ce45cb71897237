"""Forward and backward pass of a tile of rows, in compiled code.

Layout: rows (samples) one after the other, a row's numbers side by side. Every row has a 1 in front, and every hidden
layer's weights `[inputs × outputs]` have their bias in front: the bias is the weight of that 1, so its gradient is one
more row of the same product. Outputs are padded with zero weights to whole vectors; rows and inputs need no padding.
If most inputs are 0 (one-hot columns), the first layer works through the others alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.learn.protocols import Floats
from butfor.mlp.recipe import Entries
from butfor.mlp.vectors import (
    ADD,
    ADD_RELU,
    CONTRACT,
    FEW,
    LANES,
    RELU,
    SLOPE,
    SUMS,
    TANH,
    add_to_entries,
    address_of,
    call,
    compiled,
    dots,
    float_of_bits,
    sum_entries,
)

Ints = NDArray[np.int64]
f32 = np.float32
TILE = 128
"""Rows worked through at once: those of a 32×32 network stay in the nearest caches."""
GRADIENT = -1
"""Instead of a finish: the first layer's gradient, not its outputs."""


class Plan(NamedTuple):
    """A network's shape and the places of its parts, one entry per layer, counted in floats."""

    product: int
    """The address of the compiled `product`."""
    activation: int
    into: Ints
    vectors: Ints
    """Vectors per row of a hidden layer's outputs; for the last layer, per row of its inputs."""
    weights: Ints
    """A hidden layer's bias, followed by its weights; the last layer's weights, followed by its bias."""
    transposed: Ints
    """The copy `[outputs × inputs]` for the backward pass."""
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
    """The arrays that one training writes to."""

    weights: Floats
    gradient: Floats
    mean: Floats
    square: Floats
    kept: Floats
    transposed: Floats
    gathered: Floats
    """A tile of rows in batch order `[TILE × stride]`."""
    tile: Floats
    """The hidden outputs of a tile, then their errors."""
    logits: Floats
    labels: Floats
    ids: NDArray[np.int32]
    """The rows of a tile."""


# ── functions of one number, written so that loops over them vectorise ──────────────────────────


@compiled(fastmath=CONTRACT)
def _exp(x: f32) -> f32:
    """e^x within 2 ulp, x clipped to ±87, NaN kept: 2^n · e^r with |r| ≤ ln 2 / 2 (after Cephes)."""
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
    return p * float_of_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@compiled(fastmath=CONTRACT)
def sigmoid(x: f32) -> f32:
    return f32(1) / (f32(1) + _exp(-x))


@compiled(fastmath=CONTRACT)
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


@compiled(fastmath=CONTRACT)
def cross_entropy(z: f32, y: f32) -> f32:
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


# ── a tile of rows ───────────────────────────────────────────────────────────────────────────────


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
def sparse_layer(plan: Plan, numbers: Floats, tile: Floats, ids: Ints, sparse: Entries, rows: int, finish: int) -> None:
    """The first layer's outputs for the rows `ids`; or, with GRADIENT, add to its gradient."""
    vectors = plan.vectors[0]
    row, first_row, bias = 4 * LANES * vectors, address_of(tile, plan.tiles[0]), address_of(numbers, plan.weights[0])
    all_places, all_values = np.int64(sparse.places.ctypes.data), address_of(sparse.values, 0)
    for r in range(rows):
        at = sparse.starts[ids[r]]
        count, places, values = sparse.starts[ids[r] + 1] - at, all_places + 4 * at, all_values + 4 * at
        for first in range(0, vectors, FEW):
            beside, wide = 4 * LANES * first, min(FEW, vectors - first)
            outputs, start = first_row + r * 4 * plan.strides[0] + beside, bias + beside
            if finish == GRADIENT:
                add_to_entries(start + row, outputs, places, values, count, row, wide)
            else:
                sum_entries(outputs, start, places, values, count, start + row, row, wide, finish)


@compiled()
def forward(plan: Plan, weights: Floats, room: Room, sparse: Entries, source: int, source_row: int, rows: int) -> None:
    """The logits of the rows at `source`, or of the sparse rows `room.ids`; hidden outputs stay in the tile."""
    last, at = len(plan.into) - 1, plan.product
    relu = plan.activation == RELU
    finish = ADD_RELU if relu else ADD
    for layer in range(last):
        t, stride, into, vectors = plan.tiles[layer], plan.strides[layer], plan.into[layer], plan.vectors[layer]
        outputs, bias, row = address_of(room.tile, t), address_of(weights, plan.weights[layer]), 4 * LANES * vectors
        if layer == 0 and len(sparse.starts) > 1:
            sparse_layer(plan, weights, room.tile, room.ids, sparse, rows, finish)
        else:
            call(at, outputs, 4 * stride, bias, 0, source, source_row, 4, bias + row, row, rows, into, vectors, finish)
        if not relu:
            tile = room.tile[t - LANES : t - LANES + rows * stride].reshape(rows, stride)
            _activate(tile[:, LANES:], plan.activation)
        source, source_row = outputs, 4 * stride
    w, vectors = plan.weights[last], plan.vectors[last]
    bias = weights[w + LANES * vectors]
    for r in range(0, rows, LANES):
        results = address_of(room.logits, r)
        dots(results, source + r * source_row, source_row, address_of(weights, w), vectors, bias)


@compiled()
def backward(plan: Plan, room: Room, sparse: Entries, source: int, source_row: int, rows: int) -> None:
    """Add the gradient of the rows of the last `forward`; `room.logits` now has their errors.

    Once the gradient above has used a layer's outputs, its errors replace them.
    """
    last, at = len(plan.into) - 1, plan.product
    errors, errors_row, outputs = address_of(room.logits, 0), 4, 1
    for layer in range(last, -1, -1):
        into, vectors, w = plan.into[layer], plan.vectors[layer], plan.weights[layer]
        if layer:
            below, below_row = address_of(room.tile, plan.tiles[layer - 1]), 4 * plan.strides[layer - 1]
        else:
            below, below_row = source, source_row
        sums, row = address_of(room.gradient, w), 4 * LANES * vectors
        back = address_of(room.transposed, plan.transposed[layer])
        if layer == last:
            call(at, sums, 0, sums, 0, errors, 0, 4, below, below_row, 1, rows, vectors, ADD)
            _last_bias(room.gradient, w + into, w + LANES * vectors, room.logits, rows)
            back = address_of(room.weights, w)
        elif layer == 0 and len(sparse.starts) > 1:
            # The bias has an entry in every row: the 4 bytes before each row of outputs hold a 1.
            call(at, sums, 0, sums, 0, errors - 4, 0, errors_row, errors, errors_row, 1, rows, vectors, ADD)
            sparse_layer(plan, room.gradient, room.tile, room.ids, sparse, rows, GRADIENT)
        else:
            call(at, sums, row, sums, row, below - 4, 4, below_row, errors, errors_row, into + 1, rows, vectors, ADD)
        if layer:
            vectors, slope = plan.vectors[layer - 1], SLOPE + plan.activation
            row = 4 * LANES * vectors
            call(at, below, below_row, 0, 0, errors, errors_row, 4, back, row, rows, outputs, vectors, slope)
        errors, errors_row, outputs = below, below_row, into


@compiled(fastmath=SUMS)
def _last_bias(gradient: Floats, padding: int, bias: int, errors: Floats, rows: int) -> None:
    """The gradient of the last layer's bias, and none for the padding before it."""
    for i in range(padding, bias):
        gradient[i] = f32(0)
    total = f32(0)
    for r in range(rows):
        total += errors[r]
    gradient[bias] += total
