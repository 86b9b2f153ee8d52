import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import hessian_in_ball
from theorylab.models import dag_network
from theorylab.models.dag_builders import fully_connected
from theorylab.models.dag_network import wire

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


def test_entries_that_are_no_weights_take_no_length_of_a_direction():
    """Oracle: one weight among 99 others that do nothing can only go to w₀ ± R."""
    centre, used = jnp.ones(100), jnp.zeros(100).at[7].set(1.0)
    search = jax.jit(
        lambda used: hessian_in_ball(
            lambda w, x: cubic(w[7:8], x),
            centre,
            jnp.array([1.0]),
            0.5,
            KEY,
            num_ascent=0,
            used=used,
        )
    )
    assert float(search(used).random) == pytest.approx(1.5, rel=1e-9)
    assert float(search(jnp.ones(100)).random) < 1.2


def test_padded_networks_are_searched_as_far_as_plain_ones():
    """Oracle: the same weights on the graph alone; one draw differs, the mean of many does not."""
    small, large = (fully_connected(2, [width, width], activation="tanh") for width in (4, 12))
    model, (wired, wirings) = dag_network(small), wire([small, large])
    wiring = jax.tree.map(lambda leaf: leaf[0], wirings)
    weights, x = model.init(KEY), jnp.array([1.0, -0.5])
    numbers = np.asarray(wiring.numbers)
    padded = jnp.where(numbers < 0, 0.0, weights[np.maximum(numbers, 0)])
    used = jnp.asarray(numbers >= 0, float)
    keys = jax.random.split(KEY, 40)

    def mean(apply, params, used):
        one = lambda key: hessian_in_ball(apply, params, x, 2.0, key, 0, 1, 0, 8, used).random  # noqa: E731
        return jax.jit(lambda: jax.lax.map(one, keys))()

    plain = np.asarray(mean(model.apply, weights, None))
    filled = np.asarray(mean(lambda w, x: wired(wiring, w, x), padded, used))
    error = np.hypot(plain.std(), filled.std()) / np.sqrt(40)
    assert abs(plain.mean() - filled.mean()) < 4 * error
    assert error < 0.1 * plain.mean()


def test_a_search_needs_a_direction():
    with pytest.raises(ValueError, match=r"num_directions must be at least 1 .* got 0 and 4"):
        hessian_in_ball(cubic, CENTRE, jnp.array([3.0]), 1.0, KEY, num_directions=0)
    with pytest.raises(ValueError, match=r"radius must be positive, got -1"):
        hessian_in_ball(cubic, CENTRE, jnp.array([3.0]), -1.0, KEY)
