import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import hessian_in_ball

KEY = jax.random.key(0)
CENTRE = jnp.array([0.5, -2.0, 1.0, 0.0])


def cubic(params, x):
    """f(w; x) = x Σᵢ wᵢ³/6, whose Hessian is x diag(w)."""
    return x * jnp.sum(params**3)[None, None] / 6


@jax.jit
def search(radius):
    return hessian_in_ball(cubic, CENTRE, jnp.array([3.0]), radius, KEY, num_ascent=12, num_steps=4)


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_ascent_finds_the_maximum_of_a_cubic(radius):
    """Oracle: 3 max |wᵢ| over the ball is 3 (2 + R), at w₀ − R e₂; elsewhere it is less."""
    found = search(radius)
    assert float(found.centre) == pytest.approx(6.0, rel=1e-9)
    assert float(found.largest) == pytest.approx(3 * (2 + radius), rel=1e-3)
    gradient = np.asarray(CENTRE**2) / np.linalg.norm(CENTRE**2)
    along = max(np.abs(CENTRE + sign * radius * gradient).max() for sign in (1, -1))
    assert float(found.gradient) == pytest.approx(3 * along, rel=1e-9)
    assert float(found.random) < float(found.largest) <= 3 * (2 + radius) * (1 + 1e-9)


def test_a_search_needs_a_direction():
    with pytest.raises(ValueError, match=r"num_directions must be at least 1 .* got 0 and 4"):
        hessian_in_ball(cubic, CENTRE, jnp.array([3.0]), 1.0, KEY, num_directions=0)
