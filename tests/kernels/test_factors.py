"""Jacobians in factors against plain Jacobians, for networks written in many ways."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import ntk_full
from theorylab.kernels.factors import Factors, factored_jacobian
from theorylab.models import mlp, network

X = jax.random.normal(jax.random.key(0), (3, 4, 5))
ONE = jax.ShapeDtypeStruct((4, 5), X.dtype)


def weights(*shapes):
    keys = jax.random.split(jax.random.key(1), len(shapes))
    return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


def flat(x):
    return jnp.reshape(x, (len(x), -1))


def bilinear(w, x):
    return jnp.tanh(jnp.einsum("nsi,ij->nsj", x, w[0])).mean(axis=1) @ w[1]


def weight_first(w, x):
    return (w[1] @ jnp.tanh(w[0] @ flat(x).T)).T


def shared(w, x):
    hidden = jnp.tanh(flat(x) @ w[0])
    return jnp.tanh(jnp.sin(hidden) @ w[1] + jnp.cos(hidden) @ w[1]) @ w[2]


def used_otherwise(w, x):
    return jnp.tanh(flat(x) @ w[0]) @ w[1] + jnp.sum(w[1] ** 3)


def product_of_weights(w, x):
    return flat(x) @ (w[0] @ w[1])


def compiled(w, x):
    return jax.jit(lambda w, x: jax.jit(jnp.tanh)(x @ w[0]) @ w[1])(w, flat(x))


def looped(w, x):
    hidden, _ = jax.lax.scan(lambda h, _: (jnp.tanh(h @ w[0]), None), flat(x), None, length=2)
    return hidden @ w[1]


def one_output_of_many(w, x):
    return jax.nn.relu(flat(x) @ w[0])[:, :2]


# network, shapes of its weights, which of them come in factors
NETWORKS = {
    "bilinear": (bilinear, [(5, 12), (12, 2)], [False, True]),
    "weight_first": (weight_first, [(6, 20), (2, 6)], [True, True]),
    "shared": (shared, [(20, 9), (9, 40), (40, 2)], [True, True, True]),
    "used_otherwise": (used_otherwise, [(20, 6), (6, 2)], [True, False]),
    "product_of_weights": (product_of_weights, [(20, 6), (6, 2)], [False, False]),
    "compiled": (compiled, [(20, 6), (6, 2)], [True, True]),
    "looped": (looped, [(20, 20), (20, 2)], [False, True]),
    "one_output_of_many": (one_output_of_many, [(20, 6)], [True]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_by_factors_are_those_of_plain_jacobians(name):
    """Oracle: jacrev, multiplied out. And what should come in factors does."""
    apply, shapes, in_factors = NETWORKS[name]
    params = weights(*shapes)
    jacobians = jax.jit(jax.jacrev(apply))(params, X)
    expected = sum(
        jnp.einsum("iap,jbp->ijab", *[jnp.reshape(part, (*part.shape[:2], -1))] * 2)
        for part in jacobians
    )
    np.testing.assert_allclose(ntk_full(apply, params, X), expected, rtol=1e-11, atol=1e-12)

    kinds: list[bool] = []

    def look(x):
        parts = factored_jacobian(apply, params, ONE)[0](x)
        kinds.extend(isinstance(part, Factors) for part in parts)
        return parts

    jax.eval_shape(look, X[0])
    assert kinds == in_factors


def test_factors_multiply_out_to_the_jacobian():
    """Oracle: jacrev. ∂f_a/∂W = Σ_s g_s ⊗ b_as, for a weight that is used at two places."""
    apply, shapes, _ = NETWORKS["shared"]
    params = weights(*shapes)
    part = factored_jacobian(apply, params, ONE)[0](X[0])[1]
    assert isinstance(part, Factors)
    product = jnp.einsum("sc,ksm->kcm", part.forward, part.backward)
    expected = jax.jacrev(lambda w: apply([params[0], w, params[2]], X[:1])[0])(params[1])
    np.testing.assert_allclose(product, expected, rtol=1e-11, atol=1e-12)


def test_derivatives_at_kinks_are_the_networks_own():
    """Oracle: relu′(0) = 0 by its custom rule, where the bare maximum would say ½."""
    params = [jnp.ones((20, 6)), jnp.ones((6, 1))]
    kernel = ntk_full(lambda w, x: jax.nn.relu(flat(x) @ w[0]) @ w[1], params, jnp.zeros((1, 4, 5)))
    assert float(kernel[0, 0, 0, 0]) == 0.0
    ones = jnp.ones((1, 4, 5))
    shifted = ntk_full(lambda w, x: jax.nn.relu(flat(x) @ w[0] - 20.0) @ w[1], params, ones)
    assert float(shifted[0, 0, 0, 0]) == 0.0


def test_no_weight_matrix_is_ever_multiplied_out():
    """Oracle: the compiler's own account. Plain Jacobians of this network would take 84 MB."""
    model = network(mlp([512, 512]), (8,))
    params = jax.eval_shape(model.init, jax.random.key(0))
    x = jax.ShapeDtypeStruct((40, 8), jnp.float64)
    program = jax.jit(lambda params, x: ntk_full(model.apply, params, x)).lower(params, x)
    account = program.compile().memory_analysis()
    assert account is not None
    assert account.temp_size_in_bytes < 8e6
