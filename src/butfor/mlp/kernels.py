"""Whole trainings in machine code, without the GIL: steps of Adam, epochs, early stopping, predictions."""

from __future__ import annotations

import math

import numpy as np

from butfor.learn.protocols import Floats
from butfor.mlp.passes import TILE, Ints, Plan, Room, Table, backward, cross_entropy, f32, forward, sigmoid
from butfor.mlp.recipe import BETA1, BETA2, EPSILON
from butfor.mlp.vectors import CONTRACT, LANES, SUMS, address_of, compiled


@compiled(fastmath=CONTRACT)
def adam_step(room: Room, step: int, learning_rate: float) -> None:
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


@compiled()
def transpose(plan: Plan, weights: Floats, transposed: Floats) -> None:
    """Copy the weights of every hidden layer but the first to `[outputs × inputs]`."""
    for layer in range(1, len(plan.into) - 1):
        row, transposed_row = LANES * plan.vectors[layer], LANES * plan.vectors[layer - 1]
        for i in range(plan.into[layer]):
            at, to = plan.weights[layer] + row * (1 + i), plan.transposed[layer] + i
            for o in range(plan.into[layer + 1]):
                transposed[to + o * transposed_row] = weights[at + o]


@compiled()
def take_rows(room: Room, table: Table, order: Ints, first: int, rows: int) -> np.int64:
    """Set the tile's rows to order[first : first + rows], without an order to rows from `first` on; copy their labels
    and, if they are dense and in an order, the rows. Returns the address of the rows."""
    X = table.X
    for r in range(rows):
        row = order[first + r] if len(order) else first + r
        room.ids[r], room.labels[r] = row, table.y[row]
    if len(table.sparse.starts) > 1 or not len(order):
        return address_of(X, first * X.shape[1] + 1)
    for r in range(rows):
        whole, to = X[room.ids[r]], room.gathered[r]
        for j in range(len(whole)):
            to[j] = whole[j]
    return address_of(room.gathered, 1)


@compiled()
def add_gradient(plan: Plan, room: Room, table: Table, order: Ints, first: int, size: int) -> None:
    """Add the gradient of the mean loss of one batch, order[first : first + size], or of all rows without an order."""
    row, scale, logits = 4 * table.X.shape[1], f32(1) / f32(size), room.logits
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
