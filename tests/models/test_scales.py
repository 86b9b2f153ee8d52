"""Architectures whose scales are arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import NTK, Activation, Conv, Dense, Residual, Serial, network
from theorylab.models.families import ABReLU, GaussianActivation, Polynomial, rbf
from theorylab.models.scales import check_scale, with_arrays, without_arrays


def test_arrays_are_taken_out_and_put_back():
    """Oracle: the tree itself; a frame of equal architectures is equal, and can be hashed."""

    def make(scale, slope):
        activation = Activation(ABReLU(slope, 1.0))
        return Serial(Dense(8, weight_scale=scale), Residual(Serial(activation, Conv(8, (3,)))))

    tree = make(jnp.array(1.5), jnp.array(0.2))
    frame, arrays = without_arrays(tree)
    assert [float(array) for array in arrays] == [1.5, 0.2]
    other, _ = without_arrays(make(jnp.array(2.5), jnp.array(0.3)))
    assert frame == other
    assert hash(frame) == hash(other)
    again = with_arrays(frame, arrays)
    assert repr(again) == repr(tree)
    plain = make(1.5, 0.2)
    assert without_arrays(plain) == (plain, ())
    assert without_arrays(plain)[0] is plain


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: Dense(1, weight_scale=scale),
        lambda scale: NTK(bias_scale=scale),
        lambda scale: rbf(scale),
    ],
)
def test_arrays_are_checked_where_their_values_are_there(make):
    with pytest.raises(ValueError, match=r"must be positive and finite, got -1\.0"):
        make(jnp.array(-1.0))
    jax.jit(lambda scale: (make(scale), jnp.ones(()))[1])(-1.0)
    check_scale("scale", jnp.array(2.0))


def test_finite_networks_have_gradients_in_their_scales():
    """Oracle: the network is linear in both."""
    x = jax.random.normal(jax.random.key(0), (3, 2))

    def outputs(scales):
        line = Activation(Polynomial((0.0, scales[0])))
        layers = Serial(Dense(4), line, Dense(1, weight_scale=scales[1]))
        model = network(layers, (2,))
        return model.apply(model.init(jax.random.key(1)), x)

    scales = jnp.array([0.7, 1.3])
    slopes = jax.jacobian(outputs)(scales)
    np.testing.assert_allclose(slopes, outputs(scales)[..., None] / scales[None, None], rtol=1e-12)


def test_a_width_of_a_bell_may_be_traced():
    value = jax.jit(lambda b: GaussianActivation(1.0, b)(jnp.ones(())))(0.5)
    np.testing.assert_allclose(value, np.exp(-0.5), rtol=1e-12)
