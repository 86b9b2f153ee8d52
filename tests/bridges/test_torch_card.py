"""One network, written by hand, in Flax, in Equinox and in PyTorch, has one card."""

import importlib
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.bridges import Bridged, from_equinox, from_flax, from_function, from_torch
from theorylab.checkup import Card, examine
from theorylab.checkup.measure import Reading
from theorylab.checkup.rows import MEASURES

SIZES = (6, 16, 12, 3)
Weights = list[tuple[np.ndarray, np.ndarray]]  # of each layer: (fan-in, fan-out), (fan-out,)


def drawn(seed: int, sizes: tuple[int, ...] = SIZES) -> Weights:
    """Weights of variance 2/fan-in, biases of 0.01."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(a, b)) * (2 / a) ** 0.5, rng.normal(size=b) / 10)
        for a, b in itertools.pairwise(sizes)
    ]


def by_hand(weights: Weights) -> Bridged:
    def apply(params: Any, x: Any) -> Any:
        last = len(params) - 1
        for place, (w, b) in enumerate(params):
            x = x @ w + b[None]
            x = x if place == last else (jnp.tanh if place == 0 else jax.nn.relu)(x)
        return x

    return from_function(apply, [tuple(map(jnp.asarray, layer)) for layer in weights])


def in_flax(weights: Weights) -> Bridged:
    nn = importlib.import_module("flax.linen")
    sizes = [len(b) for _, b in weights]
    module = nn.Sequential(
        [nn.Dense(sizes[0]), nn.tanh, nn.Dense(sizes[1]), nn.relu, nn.Dense(sizes[2])]
    )
    layers = {
        f"layers_{2 * place}": {"kernel": jnp.asarray(w), "bias": jnp.asarray(b)}
        for place, (w, b) in enumerate(weights)
    }
    return from_flax(module, {"params": layers})


def in_equinox(weights: Weights) -> Bridged:
    layers = []
    for w, b in weights:
        drawn = equinox.nn.Linear(*w.shape, key=jax.random.key(0))
        parts = (jnp.asarray(w.T), jnp.asarray(b))
        layers.append(equinox.tree_at(lambda layer: (layer.weight, layer.bias), drawn, parts))
    functions = map(equinox.nn.Lambda, (jnp.tanh, jax.nn.relu))
    return from_equinox(
        equinox.nn.Sequential([layers[0], next(functions), layers[1], next(functions), layers[2]])
    )


def in_torch(weights: Weights) -> Bridged:
    torch = importlib.import_module("torch")
    layers = [torch.nn.Linear(*w.shape, dtype=torch.float64) for w, _ in weights]
    with torch.no_grad():
        for layer, (w, b) in zip(layers, weights, strict=True):
            layer.weight.copy_(torch.from_numpy(w.T))
            layer.bias.copy_(torch.from_numpy(b))
    module = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.ReLU(), layers[2])
    return from_torch(module, torch.zeros(2, len(weights[0][0]), dtype=torch.float64))


WAYS: dict[str, Callable[[Weights], Bridged]] = {
    "by hand": by_hand,
    "flax": in_flax,
    "equinox": in_equinox,
    "torch": in_torch,
}


class Case(NamedTuple):
    """A trained network, with all that a card may be told."""

    trained: Weights
    start: Weights
    other: Weights
    x: np.ndarray
    y: np.ndarray


def trained(weights: Weights, x: np.ndarray, y: np.ndarray) -> Weights:
    """After 60 steps of Adam."""
    network = by_hand(weights)
    optimizer = optax.adam(0.01)

    def loss(params: Any) -> Any:
        scores = jax.nn.log_softmax(network.apply(params, x))
        return -jnp.take_along_axis(scores, y[:, None], axis=1).mean()

    def step(carry: Any, _: None) -> Any:
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params), state)
        return (optax.apply_updates(params, updates), state), None

    carry = (network.params, optimizer.init(network.params))
    (params, _), _ = jax.jit(lambda carry: jax.lax.scan(step, carry, length=60))(carry)
    return [(np.array(w), np.array(b)) for w, b in params]


@pytest.fixture(scope="module")
def case() -> Case:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, SIZES[0]))
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] * x[:, 2] > 0)
    start = drawn(1)
    return Case(trained(start, x, y), start, trained(drawn(2), x, y), x, y)


def card(way: str, case: Case) -> Card:
    """All rows, with everything told."""
    make = WAYS[way]
    network, start, other = map(make, (case.trained, case.start, case.other))
    apply, params = network.apply, network.params

    def loss(params: Any) -> Any:
        chosen = jax.nn.log_softmax(apply(params, case.x[:40]))
        return -jnp.take_along_axis(chosen, case.y[:40, None], axis=1).mean()

    optimizer = optax.adam(0.01)
    state = optimizer.update(jax.grad(loss)(params), optimizer.init(params))[1]

    def by_width(width: int) -> tuple[Any, Any]:
        wide = make(drawn(3, (SIZES[0], width, width, SIZES[-1])))
        return wide.apply, wide.params

    return examine(
        apply,
        params,
        jnp.asarray(case.x[:40]),
        case.y[:40],
        learning_rate=0.01,
        optimizer_state=state,
        batch_size=10,
        initial_params=start.params,
        checkpoint=other.params,
        by_width=by_width,
        x_test=jnp.asarray(case.x[40:]),
        y_test=case.y[40:],
    )


@pytest.fixture(scope="module")
def cards(case: Case) -> dict[str, Card]:
    """A card of each way that can be imported."""
    pytest.importorskip("flax", reason="needs Flax; .ci/run has an environment with it")
    pytest.importorskip("torch", reason="needs PyTorch; .ci/run has an environment with it")
    return {way: card(way, case) for way in WAYS}


def agree(one: Reading, other: Reading) -> bool:
    """Within their errors: intervals meet; what has no interval is equal to rounding."""
    rounding = 1e-6 * max(abs(one.value), abs(other.value))
    if one.certainty in ("exact", "estimate"):
        return math.isclose(one.value, other.value, rel_tol=1e-6, abs_tol=1e-12)
    return one.low <= other.high + rounding and other.low <= one.high + rounding


@pytest.mark.parametrize("way", [way for way in WAYS if way != "by hand"])
def test_the_card_does_not_depend_on_the_framework(cards, way):
    """Oracle: the network by hand. Trees and probes differ, numbers agree within their errors."""
    own, other = cards["by hand"], cards[way]
    assert [row.status for row in own.rows] == ["measured"] * len(MEASURES)
    assert [row.status for row in other.rows] == ["measured"] * len(MEASURES)
    readings = [(name, own.reading(name), other.reading(name)) for name in MEASURES]
    wrong = [name for name, *pair in readings if not agree(*pair)]
    assert not wrong, {name: (own.reading(name), other.reading(name)) for name in wrong}
    assert [one.certainty for _, one, _ in readings] == [two.certainty for *_, two in readings]
    assert own.regimes == other.regimes
