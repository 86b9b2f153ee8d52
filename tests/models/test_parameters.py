import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import (
    NTK,
    Conv,
    Dense,
    Flatten,
    LayerNorm,
    Serial,
    Standard,
    mlp,
    network,
    summary,
)
from theorylab.models.parameters import draw_weights


@pytest.mark.parametrize("law", ["normal", "uniform", "rademacher", "exponential"])
def test_laws_have_mean_zero_and_variance_one(law):
    """Moments, within 5 standard errors; the variance of a square is at most 8 (exponential)."""
    sample = draw_weights(jax.random.key(0), (100, 1000), law)
    assert abs(float(sample.mean())) < 5 / math.sqrt(1e5)
    assert float(jnp.square(sample).mean()) == pytest.approx(1, abs=5 * math.sqrt(8 / 1e5))


def test_every_array_is_drawn_for_itself_with_its_own_scale():
    """No number comes twice, and standard deviations are σ_w/√fan-in and σ_b, within 5 errors."""
    model = network(mlp([50, 50]), (50,), Standard(weight_scale=3.0, bias_scale=0.2), bias="normal")
    params = jax.jit(model.init)(jax.random.key(0))
    numbers = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
    assert len(np.unique(numbers)) == len(numbers) == 2 * (50 * 50 + 50) + 50 + 1
    for index in (0, 2):
        weight, bias = params[index]["weight"], params[index]["bias"]
        assert float(weight.std()) == pytest.approx(3 / math.sqrt(50), rel=5 / math.sqrt(2 * 2500))
        assert float(bias.std()) == pytest.approx(0.2, rel=5 / math.sqrt(2 * 50))


def test_weights_of_another_law_have_normal_biases():
    model = network(mlp([4]), (3,), NTK(), bias="normal", law="rademacher")
    params = jax.jit(model.init)(jax.random.key(0))
    assert set(np.unique(params[0]["weight"])) == {-1, 1}
    assert len(np.unique(np.abs(params[0]["bias"]))) == 4
    zero = network(mlp([4]), (3,), bias="zero", law="rademacher").init(jax.random.key(0))
    assert not zero[0]["bias"].any()


def test_unknown_law_is_refused():
    with pytest.raises(Exception, match="cauchy"):
        draw_weights(jax.random.key(0), (2,), "cauchy")  # pyright: ignore[reportArgumentType]


def test_summary_counts_every_parameter():
    layers = (Conv(4, (3, 3)), LayerNorm(affine=True), Flatten(), Dense(2))
    model = network(Serial(*layers), (5, 5, 3), bias="zero")
    size = (3 * 3 * 3 * 4 + 4) + (4 + 4) + (3 * 3 * 4 * 2 + 2)
    head, *lines, total = summary(model.parameters).splitlines()
    assert head.startswith("parameter")
    assert total.split() == ["all", str(size)]
    names = [line.split()[0] for line in lines]
    assert names == ["0.bias", "0.weight", "1.gain", "1.offset", "3.bias", "3.weight"]
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes)) == size


def test_summary_takes_the_model_or_its_parameters():
    model = network(mlp([50, 50]), (50,))
    assert summary(model) == summary(model.parameters)
    for other in (lambda x: x, {"weight": np.ones(3)}, ()):
        with pytest.raises(TypeError, match=r"a model of theorylab.models or its parameters, got"):
            summary(other)
