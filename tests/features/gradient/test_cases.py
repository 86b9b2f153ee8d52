"""The cases: explicit networks have the loss they are said to have, constants by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import gaussian_mixture, xor_mixture
from theorylab.data.mixtures import orthogonal_mixture, separable_law
from theorylab.features.gradient import (
    cluster_case,
    cluster_detectors,
    cluster_error_bound,
    detector_loss_bound,
    margin_loss,
    printed_detector_loss_bound,
    separable_case,
    separable_network,
    xor_case,
)


def test_a_detector_answers_its_own_cluster_only():
    """At the means: y_j (‖μ_j‖ − 2κ)/κ."""
    law = orthogonal_mixture(4, 64, separation=2.0, deviation=0.5)
    kappa = math.sqrt(math.log(64)) * 2.0
    answers = cluster_detectors(law, tau=1.0)(law.means)
    np.testing.assert_allclose(answers, law.labels * (16 - 2 * kappa) / kappa, rtol=1e-12)


def test_the_separable_network_has_no_loss():
    law = separable_law(jnp.array([1.0, 2.0, 2.0]), margin=0.2)
    data = law.sample(jax.random.key(0), 500)
    margins = data.y[:, 0] * separable_network(law)(data.x)
    assert float(margin_loss(margins).max()) <= 1e-12
    assert float(margins.min()) < 1.1


def test_constants_of_clusters_by_hand():
    law = gaussian_mixture(
        3 * jnp.eye(2, 9), jnp.array([1.0, -1.0]), jnp.array([0.25, 0.75]), deviations=0.5
    )
    case = cluster_case(law, tau=1.0, activation=0.1)
    log = math.log(9)
    assert case.bias_ratio == pytest.approx(0.1 * math.sqrt(9 * log))
    assert case.constants.entry_bound == pytest.approx(1 / math.sqrt(log))
    assert case.constants.probability == pytest.approx(9**-0.045 / math.sqrt(log))
    assert case.constants.opening == pytest.approx(9**0.6)
    assert case.constants.gradient_norm == pytest.approx(0.75)
    assert case.violated == ("τ ≥ 8", "B_μ1 ≥ 4σ₊√(τ log d/d)")


def test_constants_of_xor_by_hand():
    case = xor_case(xor_mixture(64, deviation=1.0))
    slow = math.log(math.log(64))
    expected = math.log(64) ** -0.72 / math.sqrt(slow)  # 0.30 by hand
    assert case.constants.probability == pytest.approx(expected)
    assert case.constants.probability == pytest.approx(0.30, abs=0.005)
    assert (case.constants.opening, case.constants.gradient_norm) == (0.125, 1.6)
    assert case.bias_ratio == pytest.approx(math.sqrt(64 * slow))
    assert case.violated == ()
    assert xor_case(xor_mixture(64, deviation=8.0)).violated == ("σ_B ≤ √(d/(τ log log d))",)


def test_constants_of_a_half_space_by_hand():
    law = separable_law(jnp.ones(16), margin=0.5, spread=1.0, radius=1.0)
    case = separable_case(law, tau=1.5)
    square = 0.25 + 0.5 + 1 / 3 + 1
    assert case.constants.opening == pytest.approx(math.sqrt(square) / 4)
    assert case.constants.gradient_norm == pytest.approx(1 - math.sqrt(square) / 4)
    assert case.bias_ratio == pytest.approx(64 * math.sqrt(square))
    assert (case.constants.probability, case.violated) == (0.5, ())
    assert separable_case(law, tau=0.5).violated == ("d^(τ/2 − ¼) ≥ √B_x2/ρ",)


def test_bounds_by_hand():
    assert printed_detector_loss_bound(64, 2.0) == pytest.approx(
        3 / 64**2 + 4 / (64**0.8 * math.sqrt(2 * math.log(64)))
    )
    assert cluster_error_bound(64, 8.0, 4, printed=True) == pytest.approx(
        4 * math.sqrt(2) / 64**2.4
    )
    ratio = cluster_error_bound(64, 8.0, 4, printed=False) / (4 * math.sqrt(2) / 64**2.4)
    assert ratio == pytest.approx(2 * 64**0.05 / math.sqrt(8 * math.log(64)))


@pytest.mark.parametrize("tau", [0.5, 1.0, 4.0])
def test_the_detectors_loss_is_below_its_bound_at_the_least_length(tau):
    """Oracle: the hinge loss of a cluster's own detector, integrated on a grid; and no others."""
    dimension = 100
    kappa = math.sqrt(tau * math.log(dimension))
    z = np.linspace(-40, 40, 400001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    loss = np.trapezoid(np.maximum(1 - np.maximum(2 + z / kappa, 0), 0) * density, z)
    bound = detector_loss_bound(1, dimension, tau)
    assert loss < bound
    assert loss * 4 * math.sqrt(2 * math.pi) * (1 + kappa**2) ** 1.5 > dimension ** (-tau / 2)
    assert detector_loss_bound(3, dimension, tau) - detector_loss_bound(
        2, dimension, tau
    ) == pytest.approx(dimension ** (-tau / 2) / (math.sqrt(2 * math.pi) * kappa))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="dimension must be at least 2, got 1"):
        detector_loss_bound(2, 1, tau=1.0)
    with pytest.raises(ValueError, match="dimension must be at least 16, got 8"):
        xor_case(xor_mixture(8))
    with pytest.raises(ValueError, match="tau must be positive, got 0"):
        cluster_detectors(xor_mixture(16), tau=0.0)


def test_clusters_without_a_direction_are_refused():
    with pytest.raises(ValueError, match="means that are not 0, got 3 and a mean of length 0"):
        cluster_case(gaussian_mixture(jnp.zeros((2, 3)), jnp.array([1.0, -1.0])), tau=1.0)
    with pytest.raises(ValueError, match="in 2 dimensions or more"):
        cluster_case(gaussian_mixture(jnp.ones((2, 1)), jnp.array([1.0, -1.0])), tau=1.0)
