"""The verdict names planted cases: each is made on twenty seeds, and named in at least nineteen."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.checkup import examine
from theorylab.data import digits
from theorylab.models import NTK, Model, MuP, Standard, mlp, network
from theorylab.training import cross_entropy, descend, squared, with_learning_rates

SEEDS = 20
ENOUGH = 19
MSE = squared("mean_entries")


class Planted(NamedTuple):
    """Networks of twenty seeds, with what is known of them: leaves have a leading axis of seeds."""

    model: Model
    params: Any
    x: jax.Array
    y: jax.Array
    known: dict[str, Any]

    def card(self, seed: int, *only: str, **more: Any) -> Any:
        """The card of one seed's network."""
        params, x, y = (jax.tree.map(lambda a: a[seed], tree) for tree in self[1:4])
        known = {
            name: jax.tree.map(lambda a: a[seed], value) if name == "initial_params" else value
            for name, value in self.known.items()
        }
        return examine(self.model.apply, params, x, y, only=only, **{**known, **more})


def trained(
    model: Model,
    draw: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    loss: Any,
    optimizer: Callable[[Any], optax.GradientTransformation],
    steps: int,
) -> Planted:
    """Twenty networks, each with data of its own, after so many steps."""

    def one(key):
        data_key, init_key = jax.random.split(key)
        x, y = draw(data_key)
        start = model.init(init_key)

        def risk(w):
            return loss(model.apply(w, x), y)

        run = descend(risk, start, optimizer(start), [0, steps], lambda w: jnp.zeros(()))
        return start, run.params, x, y

    keys = jax.random.split(jax.random.key(0), SEEDS)
    start, end, x, y = jax.jit(partial(jax.lax.map, one))(keys)
    return Planted(model, end, x, y, {"loss": loss, "initial_params": start})


def named(planted: Planted, rule: str, *only: str, **more: Any) -> int:
    """In how many seeds the verdict has the rule."""
    return sum(rule in planted.card(seed, *only, **more).regimes for seed in range(SEEDS))


def on_sphere(key, n=64, d=8):
    """A smooth target on the sphere of radius √d."""
    x = jax.random.normal(key, (n, d))
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True) * d**0.5
    return x, jnp.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3] / 2


def single_index(key, n=256, d=8):
    """A target that needs one direction of the inputs."""
    x = jax.random.normal(key, (n, d))
    return x, x[:, :1] ** 2 - 1


@pytest.fixture(scope="module")
def lazy() -> Planted:
    """Very wide, in the NTK parametrization."""
    model = network(mlp((2048,)), input_shape=(8,), parametrization=NTK())
    return trained(model, on_sphere, MSE, lambda _: optax.sgd(1.0), 100)


@pytest.fixture(scope="module")
def feature_learner() -> Planted:
    """In μP, trained until one direction is learned."""
    model = network(mlp((128, 128)), input_shape=(8,), parametrization=MuP())

    def optimizer(start):
        return with_learning_rates(optax.sgd(0.05), model.learning_rates(start))

    return trained(model, single_index, MSE, optimizer, 400)


LAZY_ROWS = ("kernel_drift", "linear_error", "feature_drift")


def test_a_very_wide_network_in_the_ntk_parametrization_is_lazy(lazy):
    assert named(lazy, "lazy", *LAZY_ROWS) >= ENOUGH


def test_a_network_in_mu_p_that_learned_a_direction_is_rich(feature_learner):
    assert named(feature_learner, "rich", *LAZY_ROWS) >= ENOUGH


@pytest.fixture(scope="module")
def part_trained() -> Planted:
    """A small network in the middle of training, for rates around its edge."""
    model = network(mlp((32,), activation="tanh"), input_shape=(8,), parametrization=Standard())
    return trained(model, on_sphere, MSE, lambda _: optax.sgd(0.02), 50)


def top_eigenvalue(planted: Planted, seed: int) -> float:
    """λ_max of the dense Hessian."""
    params, x, y = (jax.tree.map(lambda a: a[seed], tree) for tree in planted[1:4])
    flat, unravel = ravel_pytree(params)

    def loss(w, x, y):
        return MSE(planted.model.apply(unravel(w), x), y)

    return float(np.linalg.eigvalsh(jax.hessian(loss)(flat, x, y))[-1])


@pytest.mark.parametrize(
    ("ratio", "rule"),
    [(0.95, "stable"), (1.05, "catapult"), (1.6, "catapult"), (2.5, "divergent")],
)
def test_learning_rates_are_named_by_their_place_between_the_edges(part_trained, ratio, rule):
    """Oracle: the dense Hessian's λ; 2/λ and 4/λ are the edges."""
    right = 0
    for seed in range(SEEDS):
        rate = ratio * 2 / top_eigenvalue(part_trained, seed)
        card = part_trained.card(seed, "sharpness", "stability", learning_rate=rate)
        right += rule in card.regimes
    assert right >= ENOUGH


def some_digits(key, random_labels: bool, n=200):
    """Digits with their labels, or with labels drawn at random."""
    dataset = digits()
    x, y = jnp.asarray(dataset.x), jnp.asarray(dataset.y)
    chosen, others = (jax.random.permutation(each, len(x))[:n] for each in jax.random.split(key))
    return x[chosen], y[others if random_labels else chosen]


def fitted_digits(random_labels: bool) -> Planted:
    model = network(mlp((128,), num_outputs=10), input_shape=(64,), parametrization=Standard())
    loss, draw = cross_entropy("mean"), partial(some_digits, random_labels=random_labels)
    return trained(model, draw, loss, lambda _: optax.adam(3e-3), 400)


FIT_ROWS = ("fit", "label_predictability")


def test_labels_at_random_that_were_fitted_are_named():
    assert named(fitted_digits(True), "random labels", *FIT_ROWS) >= ENOUGH


def test_true_labels_are_not_called_random():
    assert named(fitted_digits(False), "random labels", *FIT_ROWS) <= SEEDS - ENOUGH


def test_labels_that_hold_on_held_out_inputs_are_not_called_random():
    """Oracle: the law, a parity of two signs of 30, which no kernel sees from 60 inputs."""
    rng = np.random.default_rng(0)
    x = np.sign(rng.normal(size=(660, 30)))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)

    def parity(w, x):
        return w * jnp.stack([-x[:, 0] * x[:, 1], x[:, 0] * x[:, 1]], axis=1)

    card = partial(examine, parity, jnp.array(3.0), x[:60], y[:60])
    alone = card(only=FIT_ROWS)
    assert "random labels" in alone.regimes
    assert "or their rule is one that kernels do not see" in " ".join(
        s.words for s in alone.verdict
    )
    told = card(x_test=x[60:], y_test=y[60:], only=(*FIT_ROWS, "test_gap"))
    assert "random labels" not in told.regimes


def untrained(model: Model, change: Callable[[Any], Any] = lambda params: params) -> Planted:
    """Networks as they are drawn, or changed by hand."""
    keys = jax.random.split(jax.random.key(1), SEEDS)
    params = jax.vmap(lambda key: change(model.init(key)))(keys)
    x, y = jax.vmap(partial(some_digits, random_labels=False))(keys)
    return Planted(model, params, x, y, {"loss": cross_entropy("mean")})


DEEP = network(
    mlp((64, 64, 64), num_outputs=10), input_shape=(64,), parametrization=Standard(weight_scale=1.4)
)
TANH = network(
    mlp((64, 64), num_outputs=10, activation="tanh"),
    input_shape=(64,),
    parametrization=Standard(weight_scale=1.0),
)


def scaled(params: Any, layer: int, factor: float) -> Any:
    """The parameters with the weights of one layer multiplied."""
    return tuple(
        jax.tree.map(lambda w: w * factor, part) if place == layer else part
        for place, part in enumerate(params)
    )


def test_a_saturated_network_is_named():
    planted = untrained(TANH, lambda params: scaled(params, 0, 60.0))
    assert named(planted, "saturated", "saturated_units", "dead_units") >= ENOUGH


def test_a_tanh_network_as_it_is_drawn_is_not_saturated():
    assert named(untrained(TANH), "saturated", "saturated_units") <= SEEDS - ENOUGH


@pytest.mark.parametrize("layer", [2, 4])
def test_a_layer_without_its_multiplier_is_named(layer):
    """Without 1/√n the hidden layer multiplies its signal by √64 = 8."""
    planted = untrained(DEEP, lambda params: scaled(params, layer, 8.0))
    assert named(planted, "missing multiplier", "signal_scale") >= ENOUGH


def test_a_network_with_all_its_multipliers_is_not_accused():
    assert named(untrained(DEEP), "missing multiplier", "signal_scale") <= SEEDS - ENOUGH


INITIAL_ROWS = ("fit", "weight_spectra")


def test_a_network_at_initialisation_is_named():
    assert named(untrained(DEEP), "initialisation", *INITIAL_ROWS) >= ENOUGH


def test_a_trained_network_is_not_taken_for_its_initialisation():
    assert named(fitted_digits(False), "initialisation", *INITIAL_ROWS) <= SEEDS - ENOUGH
