"""Every layer at infinite width against wide finite networks."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from theorylab.kernels import infinite_kernels, infinite_nngp
from theorylab.models import (
    NTK,
    Activation,
    Aggregate,
    Architecture,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    SelfAttention,
    Serial,
    Standard,
    network,
)
from theorylab.models.architecture import ConvTranspose, Product
from theorylab.models.mixing import Upsample
from theorylab.models.parts import Bias

SCALES = NTK(weight_scale=1.4, bias_scale=0.5)
UNBIASED = NTK(weight_scale=1.4)
RELU, ERF = Activation("relu"), Activation("erf")
IMAGES = jax.random.normal(jax.random.key(0), (3, 5, 4, 2))
SIGNALS = jax.random.normal(jax.random.key(1), (3, 4, 2))


def conv(width, *window, **settings):
    return Conv(width, window, **settings)


Case = tuple[Array, Callable[[int, int], Architecture], Bias]
CASES: dict[str, Case] = {
    "convolution and pooling": (
        IMAGES,
        lambda w, k: Serial(
            conv(w, 3, 2, padding="same", strides=(1, 2)),
            RELU,
            AvgPool((2, 1), padding="circular", strides=(1, 1)),
            conv(w, 2, 2, padding="circular", weight_scale=0.9),
            Activation(jnp.tanh),
            GlobalPool("sum"),
            Dense(k),
        ),
        "normal",
    ),
    "local and transposed": (
        SIGNALS,
        lambda w, k: Serial(
            conv(w, 2, shared=False),
            RELU,
            ConvTranspose(w, (3,), (2,), "same"),
            RELU,
            Upsample((2,), "linear"),
            Flatten(),
            Dense(k),
        ),
        "zero",
    ),
    "branches": (
        SIGNALS,
        lambda w, k: Serial(
            Dense(w),
            Residual(Serial(RELU, conv(w, 3, padding="same"))),
            Product(Serial(ERF, Dense(w)), Dense(w)),
            Concatenate(Serial(Dense(2 * w), RELU)),
            Dense(w),
            LayerNorm(epsilon=0.3),
            RELU,
            GlobalPool(),
            Dense(k),
        ),
        "none",
    ),
    "trained gains": (
        SIGNALS,
        lambda w, k: Serial(
            *(Dense(w), LayerNorm(affine=True), Dense(w), RELU, Upsample((2,)), Flatten()),
            Dense(k, bias=False),
        ),
        "normal",
    ),
    "attention": (
        SIGNALS / 2,  # logits that fluctuate by 1/√(head width) only bend a softmax if large
        lambda w, k: Serial(
            Dense(w),
            SelfAttention(w, 1, 4 * w, scaling="linear", tied=True),
            RELU,
            SelfAttention(w, 1, 4 * w, scaling="linear"),
            Flatten(),
            Dense(k),
        ),
        "normal",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wide_networks_have_these_kernels(case, monte_carlo, agree):
    """Oracle: Monte Carlo over 100 networks of width 64."""
    x, make, bias = CASES[case]
    scales = UNBIASED if bias == "none" else SCALES
    samples = monte_carlo(make, x, scales, bias)
    agree(samples, infinite_kernels(make(1, 1), x, parametrization=scales, bias=bias))


def test_graphs_of_inputs_are_summed_over(monte_carlo, agree):
    """Oracle: Monte Carlo, with one graph for all and one for every input."""
    fixed = ((0.5, 0.2, 0.0, 1.0),) * 4
    graphs = jax.random.uniform(jax.random.key(2), (3, 4, 4))

    def make(w, k):
        return Serial(Aggregate(fixed), Dense(w), RELU, Aggregate(), GlobalPool(), Dense(k))

    samples = monte_carlo(make, SIGNALS, UNBIASED, graphs=graphs)
    limits = infinite_kernels(make(1, 1), SIGNALS, None, UNBIASED, graphs1=graphs)
    agree(samples, limits)
    again = infinite_kernels(
        make(1, 1), SIGNALS, SIGNALS[1:], UNBIASED, graphs1=graphs, graphs2=graphs[1:]
    )
    np.testing.assert_allclose(again.ntk, limits.ntk[:, 1:], rtol=1e-12)


def test_standard_parametrization_counts_the_widths(monte_carlo, agree):
    """Oracle: Monte Carlo; fan-in, window and positions are numbers of the network."""

    def make(w, k):
        return Serial(conv(w, 2), RELU, Flatten(), Dense(w), RELU, Dense(k))

    scales = Standard(weight_scale=1.4, bias_scale=0.5)
    samples = monte_carlo(make, SIGNALS, scales, "normal")
    agree(samples, infinite_kernels(make(64, 1), SIGNALS, None, scales, "normal"))


def test_masks_of_dropout_count_for_an_input_with_itself():
    """Oracle: Monte Carlo over networks and masks; without masks, nothing changes."""
    width = 64
    network_of = lambda k: Serial(  # noqa: E731
        *(conv(width, 2), RELU, Dropout(0.6), Dense(width), RELU, GlobalPool(), Dense(k))
    )
    model = network(network_of(width), SIGNALS.shape[1:], UNBIASED)

    def one(key):
        f = model.noisy(model.init(key), SIGNALS, jax.random.fold_in(key, 1))
        return f @ f.T / width

    samples = np.asarray(jax.lax.map(one, jax.random.split(jax.random.key(3), 400)))
    noisy = infinite_nngp(network_of(1), SIGNALS, None, UNBIASED, training=True)
    errors = samples.std(axis=0) / math.sqrt(400)
    assert np.all(np.abs(samples.mean(axis=0) - noisy) < 4 * errors + 2 * noisy.max() / width)
    quiet = infinite_nngp(network_of(1), SIGNALS, None, UNBIASED)
    assert np.all(np.diag(noisy - quiet) > 8 * np.diag(errors))


def test_error_falls_as_the_root_of_the_width(monte_carlo):
    """Oracle: the central limit theorem. From width 16 to 64 the error of one network halves."""

    def make(w, k):
        return Serial(conv(w, 3, padding="same"), RELU, conv(w, 2), RELU, GlobalPool(), Dense(k))

    limit = np.asarray(infinite_kernels(make(1, 1), SIGNALS, None, UNBIASED).ntk)
    errors = []
    for width in (16, 64):
        _, sample = monte_carlo(make, SIGNALS, UNBIASED, width=width, num_seeds=400)
        errors.append(np.sqrt(np.mean(np.square(sample - limit))))
    slope = math.log(errors[1] / errors[0]) / math.log(4)
    assert -0.6 < slope < -0.4
