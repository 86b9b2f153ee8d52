"""The count of operations: by hand, by the compiler, and the choice that follows."""

import jax
import jax.numpy as jnp
import pytest

from theorylab.kernels import ntk_costs
from theorylab.kernels.finite.cost import Workload, cheapest_way, multiplications
from theorylab.kernels.finite.uses import FactorSizes
from theorylab.models import Activation, Conv, Dense, GlobalPool, Serial, mlp, network

X = jax.ShapeDtypeStruct((10, 6), jnp.float64)


def shapes(model):
    return jax.eval_shape(model.init, jax.random.key(0))


def test_costs_are_the_formulas_of_a_linear_layer():
    """Oracle: by hand. f = xW with d = 6, k = 2: F = 12 and 2 for the shapes of one output."""
    weight = jax.ShapeDtypeStruct((6, 2), jnp.float64)
    forward = multiplications(
        jax.make_jaxpr(lambda w, x: (x[None] @ w)[0])(weight, X.update(shape=(6,)))
    )
    costs = ntk_costs(lambda w, x: x @ w, weight, X, outputs="full")
    assert costs.jacobian.multiplications == 10 * (1 + 2 * 2) * forward + 55 * 4 * 12
    assert costs.jacobian.numbers == 10 * 2 * 12
    assert costs.products.multiplications == (10 * 5 + 10 + 2 * 100 * 2) * forward
    # In factors: s = 1, c = 6, m = 2; 55 pairs of inputs, 4 of outputs, 8 for a combination.
    assert costs.structured.multiplications == 10 * 3 * forward + 55 * (6 + 4 * 2 + 4 * 8)
    assert costs.cheapest == "structured"


@pytest.mark.parametrize(
    "architecture",
    [
        mlp([20, 20], num_outputs=3),
        Serial(Conv(8, (3, 3), (2, 2)), Activation("relu"), GlobalPool(), Dense(3)),
    ],
)
def test_multiplications_are_those_the_compiler_counts(architecture):
    """Oracle: XLA's count of floating-point operations, two for a multiplication and addition.

    Not exactly: the program's other equations count as one multiplication each.
    """
    model = network(architecture, (12,) if architecture.layers[0] == Dense(20) else (9, 9, 4))
    shape = (12,) if architecture.layers[0] == Dense(20) else (9, 9, 4)
    x = jax.ShapeDtypeStruct((1, *shape), jnp.float64)
    params = shapes(model)
    counted = 2 * multiplications(jax.make_jaxpr(model.apply)(params, x))
    analysis = jax.jit(model.apply).lower(params, x).compile().cost_analysis()
    assert analysis is not None
    assert counted == pytest.approx(analysis["flops"], rel=0.25)


def test_loops_count_with_their_length_and_branches_with_the_dearest():
    def loop(x):
        return jax.lax.scan(lambda h, _: (h @ jnp.ones((6, 6)), None), x, None, length=5)[0]

    def branch(x):
        return jax.lax.cond(x[0, 0] > 0, lambda x: x @ jnp.ones((6, 6)), lambda x: x, x)

    once = multiplications(jax.make_jaxpr(lambda x: x @ jnp.ones((6, 6)))(X))
    assert once >= 360
    assert multiplications(jax.make_jaxpr(loop)(X)) >= 5 * 360
    assert 360 <= multiplications(jax.make_jaxpr(branch)(X)) <= 2 * once


def test_weights_of_few_positions_stay_in_factors():
    """Oracle: the two counts. One position: factors; an image: multiplied out."""
    workload = Workload(100, 100, symmetric=True, outputs=1, pairs=1)
    assert cheapest_way(FactorSizes(1, 1, 512, 512), workload) == "factors"
    assert cheapest_way(FactorSizes(1, 256, 288, 32), workload) == "outer"
    weight_for_every_position = FactorSizes(256, 1, 288, 32)
    assert cheapest_way(weight_for_every_position, workload) == "factors"


def test_products_are_chosen_where_outputs_are_many_and_uses_few():
    """Oracle: F < kp. An elementwise network with 200 outputs uses every parameter once."""
    x = jax.ShapeDtypeStruct((10, 200), jnp.float64)
    weight = jax.ShapeDtypeStruct((200,), jnp.float64)
    apply = lambda w, x: jnp.tanh(x * jnp.broadcast_to(w, x.shape))  # noqa: E731
    assert ntk_costs(apply, weight, x, outputs="full").cheapest == "products"
    few = jax.ShapeDtypeStruct((10, 1), jnp.float64)
    one = jax.ShapeDtypeStruct((1,), jnp.float64)
    assert ntk_costs(apply, one, few, outputs="full").cheapest == "structured"
