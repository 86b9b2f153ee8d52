"""Functions whose convolutions are replaced: the same numbers, and programs without slow ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from theorylab.models.convolutions import axes_of
from theorylab.models.fast_convolutions import (
    as_written,
    fast_convolutions,
    has_slow_convolutions,
)

KEYS = jax.random.split(jax.random.key(0), 3)
X = jax.random.normal(KEYS[0], (3, 2, 6, 5))
KERNEL = jax.random.normal(KEYS[1], (2, 2, 3, 2))
OTHER = jax.random.normal(KEYS[2], (2, 1, 2, 2))


def network(params, x):
    """Axes of another order than the library's, and groups; a derivative of its own in between."""
    kernel, other = params
    hidden = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
    return jnp.sum(
        lax.conv_general_dilated(hidden, other, (2, 1), "VALID", feature_group_count=2) ** 2
    )


def convolutions(program):
    """All convolutions of a program, those of programs inside included."""
    found = [e for e in program.eqns if e.primitive.name == "conv_general_dilated"]
    for equation in program.eqns:
        values = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program)
        for value in filter(_is_program, values):
            found += convolutions(getattr(value, "jaxpr", value))
    return found


def _is_program(value):
    return hasattr(value, "eqns")


def slow_ones(function, *args):
    """Convolutions that are not in the library's form."""
    equations = convolutions(jax.make_jaxpr(function)(*args).jaxpr)
    library = axes_of(2)
    return [
        e
        for e in equations
        if e.params["dimension_numbers"] != library or e.params["feature_group_count"] > 1
    ]


def gradient(params):
    return jax.grad(network)(params, X)


def improved(params):
    return jax.tree.map(lambda w, slope: w - 0.01 * slope, params, gradient(params))


FUNCTIONS = {
    "itself": lambda params: network(params, X),
    "gradient": gradient,
    "product": lambda params: jax.jvp(gradient, (params,), (params,))[1],
    "mapped": lambda params: jax.vmap(lambda s: gradient([s * w for w in params]))(jnp.arange(3.0)),
    "scan": lambda params: lax.scan(lambda p, _: (improved(p), 0), params, length=2)[0],
    "while": lambda params: lax.while_loop(lambda p: jnp.sum(p[0]) > 1e6, improved, params),
    "cond": lambda params: lax.cond(params[0].sum() < 1e6, gradient, lambda p: p, params),
    "compiled": jax.jit(gradient),
    "checkpoint": lambda params: jax.grad(jax.checkpoint(lambda p: network(p, X)))(params),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_the_same_numbers_without_slow_convolutions(name):
    """Oracle: the function as it is written, whose program does hold slow ones."""
    function, params = FUNCTIONS[name], [KERNEL, OTHER]
    fast = fast_convolutions(function)
    assert slow_ones(function, params)
    assert not slow_ones(fast, params)
    expected, found = jax.jit(lambda p: (function(p), fast(p)))(params)
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10)


def test_a_function_with_fast_convolutions_has_derivatives_and_can_be_mapped():
    """Oracle: the same transformations of the function as it is written."""
    both = [lambda p: network(p, X), fast_convolutions(lambda p: network(p, X))]
    params = [KERNEL, OTHER]
    stacked = [jnp.stack([w, 2 * w]) for w in params]

    def transformed(function):
        slopes = jax.grad(function)
        return jax.vmap(function)(stacked), jax.jvp(slopes, (params,), (params,))

    expected, found = jax.jit(lambda: tuple(map(transformed, both)))()
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10)


def test_derivatives_of_their_own_are_kept():
    """A convolution whose user says that its gradient is 7."""

    @jax.custom_vjp
    def sevenfold(kernel):
        return lax.conv_general_dilated(X, kernel, (1, 1), "SAME").sum()

    sevenfold.defvjp(lambda w: (sevenfold(w), w), lambda w, g: (jnp.full(w.shape, 7 * g),))
    fast = fast_convolutions(sevenfold)
    assert not slow_ones(fast, KERNEL)
    assert jnp.all(jax.grad(fast)(KERNEL) == 7)


def test_nothing_changes_where_nothing_is_slow():
    """Elsewhere than on a CPU, where it is turned off, and in a network without convolutions."""
    assert fast_convolutions(gradient, platform="gpu") is gradient
    assert fast_convolutions(gradient, platform="tpu") is gradient
    with as_written():
        assert fast_convolutions(gradient) is gradient
        assert not has_slow_convolutions(gradient, [KERNEL, OTHER])
    assert has_slow_convolutions(gradient, [KERNEL, OTHER])

    def dense(w):
        return lax.scan(lambda v, _: (jnp.tanh(w @ v), v), w[0], length=2)

    assert str(jax.make_jaxpr(fast_convolutions(dense))(jnp.eye(3))) == str(
        jax.make_jaxpr(dense)(jnp.eye(3))
    )
