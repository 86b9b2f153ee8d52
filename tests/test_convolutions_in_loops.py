"""Whatever loops over a user's network brings its convolutions into fast forms first."""

import jax
import jax.numpy as jnp
import optax
import pytest
from jax import lax

from theorylab.curvature import (
    batched_operator,
    gauss_newton,
    hessian,
    jacobian,
    sharpness,
    spectral_density,
    trace,
)
from theorylab.data import Dataset
from theorylab.features import agop
from theorylab.features.agop import agop_product
from theorylab.kernels import ntk, ntk_eigenpairs
from theorylab.kernels.finite import ntk_diagonal
from theorylab.kernels.tangent_regression import tangent_regression
from theorylab.models import as_written, linearize, quadratize
from theorylab.models.convolutions import axes_of
from theorylab.training import (
    Batches,
    Until,
    descend,
    gradient_flow,
    probed_sgd,
    sgd,
    train_until,
)
from theorylab.training.to_target import descend_until

KEY = jax.random.key(0)
PARAMS = {
    "a": jax.random.normal(KEY, (3, 2, 3, 3)) / 4,
    "b": jax.random.normal(KEY, (4, 1, 2, 2)) / 2,
}
X = jax.random.normal(jax.random.key(1), (4, 2, 4, 4))
Y = jax.random.normal(jax.random.key(2), (4, 4))
DATA = Dataset(X, Y, "noise", "made up")
SGD = optax.sgd(0.1)


def apply(params, x):
    """Channels first, as in PyTorch and Equinox, with a grouped convolution."""
    x = jnp.tanh(lax.conv_general_dilated(x, params["a"], (2, 2), "SAME"))
    x = lax.conv_general_dilated(x[:, :2], params["b"], (1, 1), "VALID", feature_group_count=2)
    return x.mean(axis=(2, 3))


def risk(params, x, y):
    return jnp.mean((apply(params, x) - y) ** 2)


def loss(params):
    return risk(params, X, Y)


def looped(operator, like):
    """Two products with an operator, in a loop."""
    return lax.fori_loop(0, 2, lambda _, vector: operator(vector), like)


def in_batches(params):
    def of_batch(batch):
        return hessian(lambda w: risk(w, *batch), params)

    return looped(batched_operator(of_batch, (X, Y), params, batch_size=2), params)


def both_ways(params):
    both = jacobian(lambda w: apply(w, X), params)
    return looped(lambda v: both.transpose(both.forward(v)), params)


LOOPS = {
    "sharpness": lambda w: sharpness(loss, w, KEY, 2).value,
    "trace": lambda w: trace(hessian(loss, w), w, KEY, num_probes=2, rank=1).value,
    "density": lambda w: spectral_density(hessian(loss, w), w, KEY, 2, 2).nodes,
    "operator in batches": in_batches,
    "Gauss–Newton": lambda w: looped(
        gauss_newton(lambda w: apply(w, X), lambda f: jnp.sum(f**3), w), w
    ),
    "Jacobian": both_ways,
    "descent": lambda w: descend(loss, w, SGD, [0, 2], loss).records,
    "line search": lambda w: descend(loss, w, optax.lbfgs(), [1], loss).records,
    "SGD": lambda w: sgd(risk, w, DATA, SGD, Batches(2), [1, 2], loss, KEY).records,
    "probed SGD": lambda w: (
        probed_sgd(
            *(risk, w, DATA, SGD, Batches(2), 2, lambda w, batch, _: risk(w, batch.x, batch.y), KEY)
        ).records
    ),
    "until": lambda w: (
        train_until(risk, w, DATA, DATA, SGD, Batches(2), Until(max_steps=2), KEY).loss
    ),
    "to a target": lambda w: descend_until(loss, w, SGD, lambda _: 0.1, 0.0, max_steps=2).losses,
    "flow": lambda w: gradient_flow(loss, w, [0.1], loss).records,
    "lazy descent": lambda w: (
        descend(lambda v: jnp.sum(linearize(apply, w)(v, X) ** 2), w, SGD, [2], loss).records
    ),
    "quadratic descent": lambda w: (
        descend(lambda v: jnp.sum(quadratize(apply, w)(v, X) ** 2), w, SGD, [2], loss).records
    ),
    "tangent kernel": lambda w: ntk(apply, w, X, block_size=2),
    "tangent kernel, Jacobians": lambda w: ntk(apply, w, X, block_size=2, method="jacobian"),
    "tangent kernel, products": lambda w: ntk(apply, w, X, block_size=2, method="products"),
    "its spectrum": lambda w: ntk_eigenpairs(apply, w, X, 1, KEY, 2).values,
    "its diagonal": lambda w: ntk_diagonal(apply, w, X, 2),
    "tangent regression": lambda w: tangent_regression(apply, w, DATA, X, 3).elsewhere,
    "AGOP": lambda w: agop(apply, w, X, block_size=2),
    "products with it": lambda w: agop_product(apply, w, X, block_size=2)(jnp.eye(32)[:, :2]),
}


def slow_ones(program, inside=False):
    """The convolutions of loops that are not in the form of XLA's library."""
    found = []
    for equation in program.eqns:
        if inside and equation.primitive.name == "conv_general_dilated":
            options = equation.params
            fast = options["dimension_numbers"] == axes_of(2)
            found += [] if fast and options["feature_group_count"] == 1 else [equation]
        loop = inside or equation.primitive.name in ("scan", "while")
        values = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program)
        for value in filter(_is_program, values):
            found += slow_ones(getattr(value, "jaxpr", value), loop)
    return found


def _is_program(value):
    return hasattr(value, "eqns")


@pytest.mark.parametrize("name", LOOPS)
def test_no_loop_over_a_network_has_a_slow_convolution(name, monkeypatch):
    """Oracle: the programs themselves; as it is written, each has slow convolutions in a loop."""
    assert not slow_ones(jax.make_jaxpr(LOOPS[name])(PARAMS).jaxpr)
    before = apply
    # Other functions, because what was traced before is kept under the function.
    monkeypatch.setitem(globals(), "apply", lambda params, x: before(params, x))
    with as_written():
        assert slow_ones(jax.make_jaxpr(lambda params: LOOPS[name](params))(PARAMS).jaxpr)
