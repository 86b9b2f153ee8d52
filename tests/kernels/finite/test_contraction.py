"""Comparisons of Jacobians in factors, by outputs and in chunks, against plain sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.finite import contraction
from theorylab.kernels.finite.contraction import EACH, FULL, MEAN, contracted
from theorylab.kernels.finite.uses import WeightFactors

KEY = jax.random.key(0)


def factors(n: int, key: jax.Array, k: int = 3) -> WeightFactors:
    """Two groups, four positions, five channels in and six out."""
    first, second = jax.random.split(key)
    forward = jax.random.normal(first, (n, 2, 4, 5))
    return WeightFactors(forward, jax.random.normal(second, (n, k, 2, 4, 6)))


def multiplied_out(part: WeightFactors) -> jax.Array:
    return jnp.einsum("igsc,iagsm->iagcm", part.forward, part.backward)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("chunk", [2**18, 50])
@pytest.mark.parametrize(("outputs", "formula"), [(MEAN, "ij"), (EACH, "aij"), (FULL, "ijab")])
@pytest.mark.parametrize("way", ["outer", "factors"])
def test_all_ways_are_the_sum_over_the_entries(monkeypatch, way, outputs, formula, chunk, same):
    """Oracle: the Jacobians written out, and one sum over all their entries."""
    monkeypatch.setattr(contraction, "cheapest_comparison", lambda sizes, workload: way)
    monkeypatch.setattr(contraction, "_CHUNK", chunk)
    first = factors(7, KEY)
    second = first if same else factors(4, jax.random.key(1))
    one, two = multiplied_out(first), multiplied_out(second)
    other = "b" if outputs == FULL else "a"
    exact = jnp.einsum(f"iagcm,j{other}gcm->{formula}", one, two)
    for parts in ((first, second), (one, two)):
        np.testing.assert_allclose(contracted(outputs, *parts), exact, rtol=1e-12, atol=1e-12)


def test_long_positions_are_multiplied_out_one_output_at_a_time():
    """Oracle: the count. No array has all outputs' gradients, where their factors are smaller."""
    sizes = (10, 32, 128, 256)  # outputs, positions, channels in and out
    k, s, c, m = sizes
    shapes = WeightFactors(jnp.zeros((20, 1, s, c)), jnp.zeros((20, k, 1, s, m)))
    program = jax.make_jaxpr(lambda part: contracted(MEAN, part, part))(shapes)
    largest = max(
        int(np.prod(variable.aval.shape))
        for equation in program.jaxpr.eqns
        for variable in equation.outvars
    )
    assert largest == shapes.backward.size < 20 * k * c * m
