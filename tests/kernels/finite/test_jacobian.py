"""Jacobians in factors against plain Jacobians, for networks written in many ways."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import ntk_full
from theorylab.kernels.finite.jacobian import jacobian_of
from theorylab.kernels.finite.program import program_of, uses_of
from theorylab.kernels.finite.uses import WeightFactors
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


def tied(w, x):
    hidden = jnp.tanh(flat(x) @ w[0])
    return jnp.tanh(hidden @ w[1] + jnp.sin(hidden) @ w[1].T) @ w[2]


def viewed(w, x):
    first = jnp.reshape(jnp.flip(w[0].T, axis=0) * 0.5, (2, 3, 20)) / jnp.sqrt(2.0)
    return jnp.einsum("ni,abi->nab", flat(x), first).reshape(len(x), 6) @ -w[1]


def scaled_by_another(w, x):
    return jnp.tanh(flat(x) @ (w[0] * jnp.exp(w[2]))) @ w[1]


def local(w, x):
    return jnp.tanh(jnp.einsum("nsi,sio->nso", x, w[0])).reshape(len(x), -1) @ w[1]


def local_first(w, x):
    return jnp.tanh(jnp.einsum("sio,nsi->nso", w[0], x)).reshape(len(x), -1) @ w[1]


def grouped(w, x):
    image = jnp.reshape(x, (len(x), 5, 4))
    dimensions = ("NWC", "WIO", "NWC")
    hidden = jax.lax.conv_general_dilated(
        image, w[0], (2,), ((1, 2),), (2,), (2,), dimensions, feature_group_count=2
    )
    return jnp.tanh(hidden).reshape(len(x), -1)[:, :3]


def channels_first(w, x):
    image = jnp.reshape(x, (len(x), 1, 4, 5))
    first = jax.lax.conv(image, w[0], (1, 2), "SAME")
    again = jax.lax.conv(first, w[1], (1, 1), "VALID")
    return jnp.tanh(jax.lax.conv(jnp.tanh(again), w[1], (1, 1), "SAME")).mean(axis=(2, 3))


def kernel_from_data(w, x):
    kernel = jnp.tanh(flat(x) @ w[0])  # (n, 5): a filter of every input's own
    convolve = jax.vmap(lambda row, filter: jnp.convolve(row, filter, mode="same"))
    return convolve(flat(x), kernel) @ w[1]


def is_the_parameter(w, x):
    return jnp.broadcast_to(w[0][:1], (len(x), 2))


def one_output_of_many(w, x):
    return jax.nn.relu(flat(x) @ w[0])[:, :2]


# network, shapes of its weights, which of them have factors
NETWORKS = {
    "bilinear": (bilinear, [(5, 12), (12, 2)], [True, True]),
    "weight_first": (weight_first, [(6, 20), (2, 6)], [True, True]),
    "shared": (shared, [(20, 9), (9, 40), (40, 2)], [True, True, True]),
    "tied": (tied, [(20, 9), (9, 9), (9, 2)], [True, False, True]),
    "viewed": (viewed, [(20, 6), (6, 2)], [True, True]),
    "scaled_by_another": (scaled_by_another, [(20, 6), (6, 2), ()], [True, True, False]),
    "local": (local, [(4, 5, 3), (12, 2)], [True, True]),
    "local_first": (local_first, [(4, 5, 3), (12, 2)], [True, True]),
    "grouped": (grouped, [(3, 2, 6)], [True]),
    "channels_first": (channels_first, [(2, 1, 3, 2), (2, 2, 2, 1)], [True, True]),
    "kernel_from_data": (kernel_from_data, [(20, 5), (20, 2)], [True, True]),
    "used_otherwise": (used_otherwise, [(20, 6), (6, 2)], [True, False]),
    "product_of_weights": (product_of_weights, [(20, 6), (6, 2)], [False, False]),
    "compiled": (compiled, [(20, 6), (6, 2)], [True, True]),
    "looped": (looped, [(20, 20), (20, 2)], [False, True]),
    "is_the_parameter": (is_the_parameter, [(3, 2)], [False]),
    "one_output_of_many": (one_output_of_many, [(20, 6)], [True]),
}


def parts_of(apply, params, ways, x):
    program = program_of(apply, params, ONE)
    return jacobian_of(program, uses_of(program), ways).at(x)


@pytest.mark.parametrize("name", NETWORKS)
def test_factors_multiply_out_to_the_jacobian(name):
    """Oracle: jacrev. Both ways have the products of its rows, and what should have factors has."""
    apply, shapes, in_factors = NETWORKS[name]
    params = weights(*shapes)
    uses = uses_of(program_of(apply, params, ONE))
    assert [any(use.leaf == leaf for use in uses) for leaf in range(len(params))] == in_factors

    def gram(parts):
        rows = [jnp.reshape(part, (part.shape[0], -1)) for part in parts]
        return [row @ row.T for row in rows]

    @jax.jit
    def found(params, x):
        expected = gram(jax.jacrev(lambda w: apply(w, x[None])[0])(params))
        outer = parts_of(apply, params, ["outer" if f else "plain" for f in in_factors], x)
        parts = parts_of(apply, params, ["factors" if f else "plain" for f in in_factors], x)
        multiplied = [
            jnp.einsum("gsc,kgsm->kgcm", *part) if isinstance(part, WeightFactors) else part
            for part in parts
        ]
        return expected, gram(outer), gram(multiplied)

    expected, outer, multiplied = found(params, X[0])
    for one, two, three in zip(expected, outer, multiplied, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(three, one, rtol=1e-11, atol=1e-12)


def test_factors_are_what_comes_in_and_what_comes_back():
    """Oracle: jacrev. ∂f_a/∂W = Σ_s g_s ⊗ b_as, for a weight that is used at two places."""
    apply, shapes, _ = NETWORKS["shared"]
    params = weights(*shapes)
    part = jax.jit(lambda x: parts_of(apply, params, ["factors"] * 3, x)[1])(X[0])
    assert isinstance(part, WeightFactors)
    assert part.forward.shape == (1, 2, 9)
    product = jnp.einsum("gsc,kgsm->kgcm", *part)[:, 0]
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
