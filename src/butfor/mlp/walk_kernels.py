"""A training walked backwards, in compiled code: `butfor.mlp.walks` says what for, `butfor.mlp.sweeps` by which
equations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.learn.protocols import Floats
from butfor.mlp.kernels import add_gradient, mean_loss, take_rows, train_step, transpose
from butfor.mlp.passes import GRADIENT, TILE, Ints, Plan, Room, Table, f32, forward, sigmoid, sparse_layer
from butfor.mlp.recipe import BETA1, BETA2, EPSILON, Entries
from butfor.mlp.vectors import ADD, CONTRACT, LANES, address_of, call, compiled, dots

LOSS, LOSS_GRADIENT, TRAIN, BACK = range(4)


class Walk(NamedTuple):
    """Derivatives of D outcomes of one training with ReLU, by the state after a step and by all labels."""

    by_weights: Floats
    """`[D × parameters]`, like the next two."""
    by_mean: Floats
    by_square: Floats
    by_gradient: Floats
    """The directions of the Hessian products of the present step."""
    by_labels: Floats
    """`[n × D]`."""
    begun: NDArray[np.bool_]
    """The outcomes that the walk has reached."""
    factors: Floats
    """For the present step, `[3 × parameters]`: the factors from the derivative by weights to those by mean and by
    square, and from the derivative by square to that by gradient."""
    transposed: Floats
    """As in `Room`, for a direction."""
    deltas: Floats
    """Tiles as in `Room`: ∂loss/∂outputs of each layer; below, the changes of outputs and of these along a
    direction."""
    tangents: Floats
    errors: Floats
    rows: Floats
    """`[5 × TILE]`, per row of a tile: first and second derivative of the loss by the logit; along a direction the
    changes of the logit, of its part through the hidden outputs, and of the first derivative."""
    zeros: Floats


@compiled(entry=True)
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
    """All that a walk needs in one function: each of several would be compiled with everything it calls.

    LOSS: the mean loss. LOSS_GRADIENT: its derivative by the weights, in `room`. TRAIN: the steps `first` to `stop` of
    an epoch; `states [… × 3 × parameters]` gets the state before every `every`-th. BACK: the same steps backwards, from
    the states before each."""
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
                    kept[0, i], kept[1, i], kept[2, i] = room.weights[i], room.mean[i], room.square[i]
            train_step(plan, room, table, order, k * batch, size, steps_before + k + 1, learning_rate)
            continue
        state = states[k - first]
        for i in range(len(room.weights)):
            room.weights[i], room.mean[i], room.square[i] = state[0, i], state[1, i], state[2, i]
        transpose(plan, room.weights, room.transposed)
        add_gradient(plan, room, table, order, k * batch, size)
        _factors(room, walk.factors, steps_before + k + 1, learning_rate)
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
    rate, scale = f32(learning_rate / (1 - BETA1**step)), f32(math.sqrt(1 - BETA2**step))
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
    """Outcome d: from the derivatives after Adam's step to those by the moments before it and by the gradient."""
    w, m, v, g = walk.by_weights[d], walk.by_mean[d], walk.by_square[d], walk.by_gradient[d]
    to_mean, to_square, to_gradient = walk.factors[0], walk.factors[1], walk.factors[2]
    for i in range(len(w)):
        by_mean, by_square = m[i] + to_mean[i] * w[i], v[i] + to_square[i] * w[i]
        g[i] = f32(1 - BETA1) * by_mean + to_gradient[i] * by_square
        m[i], v[i] = f32(BETA1) * by_mean, f32(BETA2) * by_square


@compiled()
def _stop_at_kinks(tile: Floats, outputs: Floats, at: int, stride: int, width: int, rows: int) -> None:
    """Set to 0 where the ReLU's output is 0."""
    for r in range(rows):
        for j in range(at + r * stride, at + r * stride + width):
            tile[j] = f32(0) if outputs[j] <= f32(0) else tile[j]


@compiled()
def _deltas(plan: Plan, room: Room, walk: Walk, rows: int, size: int) -> None:
    """∂loss/∂outputs of each layer for the rows of the last `forward`."""
    last, at, zeros = len(plan.into) - 1, plan.product, address_of(walk.zeros, 0)
    for r in range(rows):
        p = sigmoid(room.logits[r])
        walk.rows[0, r], walk.rows[1, r] = (p - room.labels[r]) / f32(size), p * (f32(1) - p) / f32(size)
    errors, errors_row, outputs = address_of(walk.rows, 0), 4, 1
    for layer in range(last - 1, -1, -1):
        t, stride, vectors = plan.tiles[layer], plan.strides[layer], plan.vectors[layer]
        if layer + 1 == last:
            back = address_of(room.weights, plan.weights[last])
        else:
            back = address_of(room.transposed, plan.transposed[layer + 1])
        to, row = address_of(walk.deltas, t), 4 * LANES * vectors
        call(at, to, 4 * stride, zeros, 0, errors, errors_row, 4, back, row, rows, outputs, vectors, ADD)
        _stop_at_kinks(walk.deltas, room.tile, t, stride, LANES * vectors, rows)
        errors, errors_row, outputs = to, 4 * stride, plan.into[layer + 1]


@compiled()
def _curve(
    plan: Plan, room: Room, walk: Walk, d: int, sparse: Entries, source: int, source_row: int, rows: int
) -> None:
    """Outcome d: add the Hessian times its direction to the derivative by weights. Pearlmutter's R-operator: the change
    of outputs along the direction forwards, the change of errors backwards."""
    last, at, by_entries = len(plan.into) - 1, plan.product, len(sparse.starts) > 1
    direction, sums, zeros = walk.by_gradient[d], walk.by_weights[d], address_of(walk.zeros, 0)
    below, below_row, moved, moved_row = source, source_row, 0, 0
    for layer in range(last):
        t, stride, into, vectors = plan.tiles[layer], plan.strides[layer], plan.into[layer], plan.vectors[layer]
        to, to_row, row = address_of(walk.tangents, t), 4 * stride, 4 * LANES * vectors
        w, u = address_of(room.weights, plan.weights[layer]), address_of(direction, plan.weights[layer])
        if layer == 0 and by_entries:
            sparse_layer(plan, direction, walk.tangents, room.ids, sparse, rows, ADD)
        else:
            call(at, to, to_row, u, 0, below, below_row, 4, u + row, row, rows, into, vectors, ADD)
        if layer:
            call(at, to, to_row, to, to_row, moved, moved_row, 4, w + row, row, rows, into, vectors, ADD)
        _stop_at_kinks(walk.tangents, room.tile, t, stride, LANES * vectors, rows)
        below, below_row, moved, moved_row = address_of(room.tile, t), to_row, to, to_row
    w, vectors, into = plan.weights[last], plan.vectors[last], plan.into[last]
    bias = w + LANES * vectors
    for r in range(0, rows, LANES):
        there, logits, parts = r * below_row, address_of(walk.rows, 2 * TILE + r), address_of(walk.rows, 3 * TILE + r)
        dots(logits, below + there, below_row, address_of(direction, w), vectors, direction[bias])
        dots(parts, moved + there, moved_row, address_of(room.weights, w), vectors, f32(0))
    total = f32(0)
    for r in range(rows):
        walk.rows[2, r] += walk.rows[3, r]
        walk.rows[4, r] = walk.rows[2, r] * walk.rows[1, r]
        total += walk.rows[4, r]
    sums[bias] += total
    delta, error, here = address_of(walk.rows, 0), address_of(walk.rows, 4 * TILE), address_of(sums, w)
    call(at, here, 0, here, 0, error, 0, 4, below, below_row, 1, rows, vectors, ADD)
    call(at, here, 0, here, 0, delta, 0, 4, moved, moved_row, 1, rows, vectors, ADD)
    delta_row, error_row, outputs = 4, 4, 1
    transpose(plan, direction, walk.transposed)
    for layer in range(last - 1, -1, -1):
        t, stride, vectors = plan.tiles[layer], plan.strides[layer], plan.vectors[layer]
        to, to_row, row = address_of(walk.errors, t), 4 * stride, 4 * LANES * vectors
        if layer + 1 == last:
            back, back_along = address_of(room.weights, w), address_of(direction, w)
        else:
            w = plan.transposed[layer + 1]
            back, back_along = address_of(room.transposed, w), address_of(walk.transposed, w)
        call(at, to, to_row, zeros, 0, delta, delta_row, 4, back_along, row, rows, outputs, vectors, ADD)
        call(at, to, to_row, to, to_row, error, error_row, 4, back, row, rows, outputs, vectors, ADD)
        _stop_at_kinks(walk.errors, room.tile, t, stride, LANES * vectors, rows)
        delta, delta_row, error, error_row = address_of(walk.deltas, t), to_row, to, to_row
        here, into, outputs = address_of(sums, plan.weights[layer]), plan.into[layer], plan.into[layer + 1]
        if layer:
            t, stride = plan.tiles[layer - 1], plan.strides[layer - 1]
            below, moved, below_row = address_of(room.tile, t), address_of(walk.tangents, t), 4 * stride
            call(at, here, row, here, row, below - 4, 4, below_row, error, error_row, into + 1, rows, vectors, ADD)
            call(at, here + row, row, here + row, row, moved, 4, below_row, delta, delta_row, into, rows, vectors, ADD)
        elif by_entries:
            ones = address_of(room.tile, t) - 4
            call(at, here, 0, here, 0, ones, 0, to_row, error, error_row, 1, rows, vectors, ADD)
            sparse_layer(plan, sums, walk.errors, room.ids, sparse, rows, GRADIENT)
        else:
            call(at, here, row, here, row, source - 4, 4, source_row, error, error_row, into + 1, rows, vectors, ADD)
