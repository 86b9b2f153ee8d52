"""Recurrent layers as a loop in time: LSTM, GRU and simple cells, stacked and in both directions.

    LSTM   i, f, g, o = W x + U h;  c ← σ(f) c + σ(i) tanh(g);  h ← σ(o) tanh(c)
    GRU    r, z by W x + U h;  n = tanh(Wₙ x + r Uₙ h);  h ← (1 − z) n + z h
    cell   h ← φ(W x + U h)

U h has a bias of its own. A row of states is (num_layers · directions, n, m).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .table import operation

Cell = Callable[[Any, Any, Any], Any]  # (W x, U h, state) ─► new state


def _lstm_cell(from_x: Any, from_h: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
    i, f, g, o = jnp.split(from_x + from_h, 4, -1)
    c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru_cell(from_x: Any, from_h: Any, state: tuple[Any]) -> tuple[Any]:
    (x_reset, x_update, x_new), (h_reset, h_update, h_new) = (
        jnp.split(each, 3, -1) for each in (from_x, from_h)
    )
    reset, update = jax.nn.sigmoid(x_reset + h_reset), jax.nn.sigmoid(x_update + h_update)
    new = jnp.tanh(x_new + reset * h_new)
    return ((1 - update) * new + update * state[0],)


def _simple_cell(activation: Callable, from_x: Any, from_h: Any, state: tuple[Any]) -> tuple[Any]:
    return (activation(from_x + from_h),)


def _one_way(cell: Cell, x: Any, weights: Sequence[Any], state: Any, backwards: bool) -> Any:
    """All steps (t, n, d) in one direction: outputs (t, n, m) and the last state."""
    inner, outer, *rest = weights
    x_bias, h_bias = rest[:2] if len(rest) >= 2 else (0, 0)
    projection = rest[-1] if len(rest) % 2 else None  # of an LSTM with proj_size

    def add(y: Any, bias: Any) -> Any:
        return y if isinstance(bias, int) else y + bias.reshape((1,) * (y.ndim - 1) + (-1,))

    def step(state: Any, from_x: Any) -> tuple[Any, Any]:
        state = cell(from_x, add(state[0] @ outer.T, h_bias), state)
        if projection is not None:
            state = (state[0] @ projection.T, *state[1:])
        return state, state[0]

    from_x = add(jnp.tensordot(x, inner, axes=((-1,), (-1,))), x_bias)
    state, outputs = jax.lax.scan(step, state, from_x, reverse=backwards)
    return outputs, state


def _stacked(
    cell: Cell,
    x: Any,
    states: Sequence[Any],
    weights: Sequence[Any],
    num_layers: int,
    both: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    directions = 2 if both else 1
    each = len(weights) // (num_layers * directions)
    single = x.ndim == 2
    if single:
        x, states = x[:, None], [state[:, None] for state in states]
    elif batch_first:
        x = jnp.swapaxes(x, 0, 1)
    last = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            own = weights[place * each : (place + 1) * each]
            state = tuple(state[place] for state in states)
            found, state = _one_way(cell, x, own, state, bool(direction))
            outputs.append(found)
            last.append(state)
        x = jnp.concatenate(outputs, -1)
    ends = [jnp.stack(parts) for parts in zip(*last, strict=True)]
    if single:
        return x[:, 0], *(end[:, 0] for end in ends)
    return jnp.swapaxes(x, 0, 1) if batch_first else x, *ends


@operation("aten.lstm.input")
def _lstm(
    x: Any,
    states: Sequence[Any],
    weights: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    return _stacked(_lstm_cell, x, states, weights, num_layers, both, batch_first)


def _recurrent(
    cell: Cell,
    x: Any,
    state: Any,
    weights: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    return _stacked(cell, x, [state], weights, num_layers, both, batch_first)


operation("aten.gru.input")(partial(_recurrent, _gru_cell))
operation("aten.rnn_tanh.input")(partial(_recurrent, partial(_simple_cell, jnp.tanh)))
operation("aten.rnn_relu.input")(partial(_recurrent, partial(_simple_cell, jax.nn.relu)))
