"""Descent to a target loss, against loops by hand."""

import jax.numpy as jnp
import numpy as np
import optax

from theorylab.training import descend_until


def product_loss(w):
    return (w[0] * w[1] - 1) ** 2 / 2


def test_it_is_descent_that_stops_at_the_target():
    """Oracle: a loop in Python; what is watched is seen at every second step and at the end."""
    w, losses, seen = np.array([0.5, 1.5]), [], []
    while (loss := float(product_loss(w))) >= 1e-3:
        losses.append(loss)
        w = w - 0.1 * (w[0] * w[1] - 1) * w[::-1]
        if len(losses) % 2 == 0:
            seen.append(w[0])
    run = descend_until(
        product_loss,
        jnp.array([0.5, 1.5]),
        optax.sgd(0.1),
        lambda state: 0.1,
        target=1e-3,
        max_steps=100,
        watch=lambda w: -w[0],
        every=2,
    )
    assert run.num_steps == len(losses)
    np.testing.assert_allclose(run.params, w, rtol=1e-12)
    np.testing.assert_allclose(run.losses[: len(losses)], losses, rtol=1e-12)
    assert np.isnan(run.losses[len(losses) :]).all()
    np.testing.assert_allclose(run.best, min(-w[0], *(-value for value in seen)), rtol=1e-12)
    assert run.reached
