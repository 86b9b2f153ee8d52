"""Cases of parities: constants by hand, and those of the networks and gradients themselves."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import BlockParity
from theorylab.features.gradient import (
    Budget,
    block_parity_case,
    block_parity_network,
    main_bound,
    parity_error_bound,
    parity_gradients,
    uniform_parity_case,
)


def test_constants_of_blocks_are_those_of_the_network_and_by_hand():
    """Oracle: the explicit network's own outputs and biases, and the lemma's formulas."""
    law = BlockParity(dimension=48, block_size=5, num_blocks=3, block_probability=1 / 12)
    case = block_parity_case(law, tau=0.5, activation=0.4)
    network, c = block_parity_network(law), case.constants
    assert c.num_neurons == len(network.outputs) == 54
    assert c.entry_bound == pytest.approx(float(jnp.abs(network.outputs).max()))
    assert c.norm_bound == pytest.approx(float(jnp.linalg.norm(network.outputs)))
    assert c.bias_bound == pytest.approx(float(jnp.abs(network.biases).max()))
    log = math.log(48)
    assert case.bias_ratio == pytest.approx(0.4 * math.sqrt(0.5 * 15 * log))
    assert c.probability == pytest.approx(48 ** (-9 * 0.16 * 1.5 / 8) / math.sqrt(1.5 * log))
    assert (c.opening, c.gradient_norm) == pytest.approx((48**1.5, math.sqrt(5) / 12))
    assert case.violated == ("τ ≥ 8",)


def test_constants_of_fair_signs_are_those_of_the_gradient():
    """Oracle: the closed form of the gradient of a neuron whose signs agree."""
    gradient = np.asarray(parity_gradients(jnp.ones((1, 33)), 4))[0]
    case = uniform_parity_case(33, 4)
    length = np.linalg.norm(gradient)
    assert case.constants.gradient_norm == pytest.approx(length, rel=1e-12)
    cosine = abs(gradient[:4].sum()) / (2 * length)
    assert case.constants.opening == pytest.approx(1 - cosine, rel=1e-9)
    assert case.constants.probability == 1 / 8
    assert case.violated == ()
    assert uniform_parity_case(21, 4).violated == ("d ≥ 2k²",)


def test_the_error_bound_of_blocks_needs_the_neurons_of_the_network():
    """Oracle: the main bound's own term r B_a1 B_x1 √(2γ) with B_x1 = √d, without noise."""
    law = BlockParity(dimension=1000, block_size=9, num_blocks=3, block_probability=0.1)
    case = block_parity_case(law, tau=8.0)
    exact = case.constants.scale / case.constants.mean_norm * math.sqrt(1000)
    exact *= math.sqrt(2 * case.constants.opening)
    printed, corrected = (
        parity_error_bound(1000, 8.0, 9, 3, printed=flag) for flag in (True, False)
    )
    assert printed < exact < corrected
    assert corrected == pytest.approx(3 / (2 * math.sqrt(2)) * exact)
    assert corrected == pytest.approx(30 * printed)
    with pytest.raises(ValueError, match="tau must be positive"):
        block_parity_case(law, tau=0.0)
    with pytest.raises(ValueError, match="block_probability must be positive, got 0"):
        block_parity_case(BlockParity(20, 5, 1, 0.0), tau=1.0)
    assert main_bound(case.constants, Budget(1000, 10, 10, 10), 0.0).vacuous
