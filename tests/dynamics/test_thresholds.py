import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import threshold


@pytest.mark.parametrize("root", [0.1, 2.0, 2.9])
def test_threshold_finds_the_point(root):
    """Oracle: a statement whose threshold is known; to the last halving."""
    found = jax.jit(lambda point: threshold(lambda x: x < point, 0.0, 3.0, 20))(root)
    np.testing.assert_allclose(found, root, atol=3 / 2**20)


def test_threshold_needs_a_halving():
    with pytest.raises(ValueError, match="num_halvings must be at least 1, got 0"):
        threshold(lambda x: x < jnp.asarray(1.0), 0.0, 3.0, 0)
