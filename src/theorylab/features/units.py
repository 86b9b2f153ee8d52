"""Which units of a network are active, dead or saturated, for every activation of any network.

A unit is a feature of a hidden layer (a channel of a convolution); its observations are the inputs,
and all positions of each. With its pre-activation z and the activation φ, over the observations:

    active      share with φ′(z) ≠ 0: the only ones at which the unit learns
    dead        φ(z) = 0 and φ′(z) = 0 at every observation
    flat        share with |φ′(z)| < sup |φ′|/100
    saturated   flat at 99 % of the observations at least, and not dead

Activations are found in the network's program, by what they compute (`elementwise`), also inside
jitted functions, functions with derivatives of their own, checkpoints and, where a loop has a fixed
number of steps (`scan`), inside of it: there the steps are observations too, or units of their own
if the weights differ from step to step. Branches and `while` loops are not looked into, nor is an
activation with an array of parameters of its own (a PReLU of every channel). What is applied to the
outputs is no hidden unit.

n inputs that all miss a unit bound the share of inputs that reach it below 1 − 0.05^(1/n), about
3/n, at 95 % confidence: dead on 500 inputs is active on less than 0.6 % of all.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.answers import Answer
from theorylab.models.inputs import as_batch, num_inputs, one_input
from theorylab.models.own_network import entered
from theorylab.typing import Apply, Axes, Inputs, Params, Reduction

from .blocks import block_size_for, sum_over_blocks
from .unit_axes import Units
from .unit_walk import Seen, Walk

SATURATED = 0.99  # of the observations are flat


class UnitActivity(Answer, axes=("unit",), labels={"active": "share of observations with φ′ ≠ 0"}):
    """What the units of one activation do, over inputs and positions.

    Example:
        >>> network = lambda w, x: jax.nn.relu(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.array([[1.0, -1.0]]), "out": jnp.ones((2, 1))}
        >>> found = unit_activity(network, params, jnp.ones((3, 1)))
        >>> found["relu 1"].dead.tolist(), found["relu 1"].weights
        ([False, True], "['in']")
    """

    active: Float[Array, " units"]  # share of observations with φ′ ≠ 0
    flat: Float[Array, " units"]  # share with |φ′| below 1 % of the largest
    reached: Float[Array, " units"]  # share of inputs with φ′ ≠ 0 at one position at least
    dead: Bool[Array, " units"]
    saturated: Bool[Array, " units"]
    tails: Float[Array, "2"]  # |φ′| far out at −∞ and ∞, over the largest
    activation: str  # what φ is called
    weights: str  # the weights that feed it, by their path in params
    num_observations: int

    def draw(self, axes: Axes) -> None:
        """The shares of active observations, unit by unit, from the least on."""
        from theorylab.answers.figure import ranked

        ranked(axes, jnp.sort(self.active), x="unit", y="share of observations with φ′ ≠ 0")


def unit_activity(
    apply: Apply,
    params: Params,
    x: Inputs,
    block_size: int | None = None,
    *,
    outputs: Reduction | None = None,
) -> dict[str, UnitActivity]:
    """What the units of every activation do at some inputs, in the order of the network.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, ...).
        params: Its parameters, any pytree.
        x: The inputs, an array or a tree.
        block_size: How many inputs to take at a time, 64 at most by default.
        outputs: A function of the outputs to take in their place.

    Example:
        >>> network = lambda w, x: jnp.tanh(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.array([[1.0, 50.0]]), "out": jnp.ones((2, 1))}
        >>> found = unit_activity(network, params, jnp.array([[0.5], [1.0]]))
        >>> found["tanh 1"].saturated.tolist()
        [False, True]
    """
    if block_size is not None and block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")
    own = entered(apply, params, x, None, outputs)
    found = _activity(own.apply, own.params, own.x1, block_size)
    return {f"{one.activation} {n}": one for n, one in enumerate(found, 1)}


@partial(jax.jit, static_argnums=(0, 3))
def _activity(
    apply: Apply, params: Params, x: Inputs, block_size: int | None
) -> tuple[UnitActivity, ...]:
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    leaves, tree = jax.tree.flatten(params)
    network = lambda leaves, x: apply(jax.tree.unflatten(tree, leaves), as_batch(x))  # noqa: E731
    program = jax.make_jaxpr(network)(leaves, one_input(x))
    size = min(64, block_size_for(x, 1, None)) if block_size is None else block_size
    told: list[Seen] = []

    def at_one(one: Inputs) -> list[dict[str, Array]]:
        given = [*leaves, *jax.tree.leaves(one)]
        known = [Units(False, frozenset(range(jnp.ndim(leaf))), n) for n, leaf in enumerate(leaves)]
        known += [Units(True)] * (len(given) - len(leaves))
        told[:] = Walk().all(program, given, known)
        counts = [seen.counts for seen in told]
        told[:] = [seen._replace(counts={}) for seen in told]
        return counts

    def summed(inputs: Inputs, counted: Bool[Array, " b"]) -> list[dict[str, Array]]:
        each = jax.vmap(at_one)(inputs)
        return jax.tree.map(lambda leaf: jnp.tensordot(counted.astype(leaf.dtype), leaf, 1), each)

    n = num_inputs(x)
    sums = sum_over_blocks(summed, x, min(size, n))
    pairs = zip(sums, told, strict=True)
    return tuple(_answer(count, seen, n, paths) for count, seen in pairs)


def _answer(count: dict[str, Array], seen: Seen, n: int, paths: list[str]) -> UnitActivity:
    """Shares of the observations from their numbers."""
    total = n * seen.num_positions
    dead = (count["active"] == 0) & (count["output"] == 0)
    flat = count["flat"] / total
    return UnitActivity(
        active=count["active"] / total,
        flat=flat,
        reached=count["reached"] / n,
        dead=dead,
        saturated=(flat >= SATURATED) & ~dead,
        tails=count["tails"] / n,
        activation=seen.activation,
        weights="" if seen.leaf is None else paths[seen.leaf],
        num_observations=total,
    )
