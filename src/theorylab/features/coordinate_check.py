"""How sizes at every layer go with the width: the coordinate check of a parametrization.

Networks of several widths n take a few steps with one learning rate. At every layer z = hW,

    start     rms(z) at initialisation                        ∝ n^a
    change    rms(z after steps − z at initialisation)        ∝ n^b

and the same for the outputs. In μP a = 0 and b = 0 at hidden layers: features learn alike at every
width. In the NTK parametrization b = −½ at hidden layers and 0 at the outputs: the kernel regime.
In the standard parametrization b = ½ at hidden layers and 1 at the outputs: the learning rate must
shrink as the width grows. Exponents are those of the first step at which a layer moves: further
steps of a network that blows up follow no power of n.

The loss is taken of f − f₀: the outputs f₀ at initialisation are random, and would make the first
step at a width longer or shorter by chance. The 95 % intervals are Student's, of least squares in
logarithms, for each layer by itself; over 60 seeds of networks with three layers in the three
parametrizations they held the exponent of infinite width 92 to 100 times in a hundred.

Source: golikov · abc-dichotomy · Def. 3.4.5, Thm 3.4.6; golikov · mup-step · Eqs 1.20–1.27.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.own_network import check_outputs, entered
from theorylab.numerics import PowerLaw, power_law
from theorylab.training import Loss
from theorylab.typing import Apply, Inputs, Params, Scalar

from .products import products_of
from .signals import layers_of

Optimizer = Literal["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop"]
OUTPUTS = "outputs"  # what the outputs are called, beside the layers


class CoordinateCheck(Answer):
    """Sizes and changes at every layer, and of the outputs, for every width.

    Example:
        >>> sizes = jnp.ones((1, 3))
        >>> found = CoordinateCheck(jnp.array([2.0, 4.0, 8.0]), sizes, jnp.ones((1, 2, 3)), "a")
        >>> found.layers, round(found.growth("a").exponent, 6)
        (('a',), 0.0)
    """

    widths: Float[Array, " w"]
    start: Float[Array, "layers w"]
    change: Float[Array, "layers steps w"]
    names: str  # of the layers, a line each; the last is that of the outputs

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers by the names of their weights, and the outputs."""
        return tuple(self.names.split("\n"))

    def initial(self, layer: str) -> PowerLaw:
        """The power law of a layer's size at initialisation; NaN where it is 0 or not finite."""
        return _law(self.widths, self.start[self.layers.index(layer)])

    def growth(self, layer: str) -> PowerLaw:
        """The power law of a layer's change in the first step in which it moves at every width."""
        changes = np.asarray(self.change[self.layers.index(layer)])
        moved = (step for step in changes if np.isfinite(step).all() and (step > 0).all())
        return _law(self.widths, next(moved, changes[0]))


def _law(widths: Array, sizes: Any) -> PowerLaw:
    return power_law(np.asarray(widths, float), np.asarray(sizes, float))


def coordinate_check(
    by_width: Callable[[int], tuple[Apply, Params]],
    x: Inputs,
    y: Float[Array, "n k"],
    loss: Loss,
    learning_rate: Scalar | None = None,
    widths: Sequence[int] = (64, 128, 256, 512),
    num_steps: int = 3,
    optimizer: Optimizer = "sgd",
) -> CoordinateCheck:
    """Take a few steps at several widths with one learning rate, and say how sizes go with width.

    Args:
        by_width: The network of a width, with its initial parameters.
        x: Inputs.
        y: Their targets.
        loss: What is descended.
        learning_rate: The same for all; by default one that takes a tenth off the loss at the first
            width, for "adam" and its like 0.001.
        widths: At least 3 for exponents with intervals.
        num_steps: How many steps.
        optimizer: What takes the steps, with the settings that optax has by default.

    Example:
        >>> from theorylab.models import mlp, network
        >>> from theorylab.training import squared
        >>> def by_width(n):
        ...     model = network(mlp((n,)), input_shape=(3,))
        ...     return model.apply, model.init(jax.random.key(n))
        >>> x, y = jnp.eye(3), jnp.ones((3, 1))
        >>> found = coordinate_check(by_width, x, y, squared("mean"), 0.1, (16, 64, 256))
        >>> found.layers
        ("[0]['weight']", "[2]['weight']", 'outputs')
    """
    found, order = [], []
    for width in widths:
        apply, params = by_width(width)
        own = entered(apply, params, x, None, None)
        check_outputs(own.apply, own.params, own.x1)
        run = partial(_steps, own.apply, loss, optimizer, num_steps, own.params, own.x1, y)
        if learning_rate is None:
            adaptive = optimizer.startswith(("ada", "rms"))
            learning_rate = 1e-3 if adaptive else run(jnp.zeros(()))[2]
        if not found:
            order = [layer.name for layer in layers_of(own.apply, own.params, own.x1)]
        found.append(run(jnp.asarray(learning_rate, float))[:2])
    shared = [name for name in [*order, OUTPUTS] if all(name in start for start, _ in found)]
    gather = lambda part: np.stack(  # noqa: E731
        [np.stack([np.asarray(each[part][name]) for each in found], axis=-1) for name in shared]
    )
    sizes = jnp.asarray(widths, float)
    return CoordinateCheck(sizes, jnp.asarray(gather(0)), jnp.asarray(gather(1)), "\n".join(shared))


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _steps(
    apply: Apply,
    loss: Loss,
    optimizer: str,
    num_steps: int,
    params: Params,
    x: Inputs,
    y: Array,
    learning_rate: Scalar,
) -> tuple[dict[str, Array], dict[str, Array], Array]:
    """Sizes at the start, changes after every step, and a rate that takes a tenth off the loss."""

    def signals(params: Params) -> dict[str, Array]:
        def at(one: Any) -> dict[str, Array]:
            products, outputs = products_of(apply, params, one)
            return {each.name: each.after * each.outgoing for each in products} | {OUTPUTS: outputs}

        return jax.vmap(at)(x)

    rule = _optimizer(optimizer, learning_rate)
    slope = jax.value_and_grad(lambda w, f: loss(apply(w, x) - f, y))

    def step(state: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        params, memory, before, first = state
        now = signals(params)
        before = {name: jnp.where(first, h, before[name]) for name, h in now.items()}
        moved = {name: _rms(h - before[name]) for name, h in now.items()}
        value, gradient = slope(params, before[OUTPUTS])
        squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradient))
        updates, memory = rule.update(gradient, memory, params)
        sizes = {name: _rms(h) for name, h in now.items()}
        state = optax.apply_updates(params, updates), memory, before, jnp.zeros((), bool)
        return state, (sizes, moved, 0.1 * value / squares)

    def run(params: Params) -> tuple[dict[str, Array], dict[str, Array], Array]:
        nothing = jax.tree.map(
            lambda like: jnp.zeros(like.shape, like.dtype), jax.eval_shape(signals, params)
        )
        state = params, rule.init(params), nothing, jnp.ones((), bool)
        _, (sizes, moved, rates) = jax.lax.scan(step, state, length=num_steps + 1)
        start = {name: each[0] for name, each in sizes.items()}
        return start, {name: each[1:] for name, each in moved.items()}, rates[0]

    return fast_convolutions(run)(params)


def _rms(array: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(jnp.square(array)))


def _optimizer(name: str, learning_rate: Any) -> optax.GradientTransformation:
    rules = {
        "sgd": optax.sgd,
        "momentum": partial(optax.sgd, momentum=0.9),
        "nesterov": partial(optax.sgd, momentum=0.9, nesterov=True),
        "adam": optax.adam,
        "adamw": optax.adamw,
        "rmsprop": optax.rmsprop,
    }
    if name not in rules:
        raise ValueError(f"optimizer must be one of {', '.join(rules)}, got {name!r}.")
    return rules[name](learning_rate)
