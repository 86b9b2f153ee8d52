"""Thresholds of optimisers against runs on a quadratic just below and just above them."""

import pytest

from theorylab.dynamics import stability_threshold

BETAS = [0.0, 0.5, 0.9]


def last_size(optimizer: str, beta: float, learning_rate: float, sharpness: float) -> float:
    """|w| after many steps on λw²/2 with a preconditioner that is held at 1."""
    w, velocity = 1.0, 0.0
    for _ in range(20_000):
        at = w + beta * learning_rate * velocity if optimizer == "nesterov" else w
        slope = sharpness * at
        if optimizer in ("sgd", "rmsprop"):
            velocity = -slope
        elif optimizer == "adam":
            velocity = beta * velocity - (1 - beta) * slope
        else:
            velocity = beta * velocity - slope
        w += learning_rate * velocity
        if abs(w) > 1e6:
            break
    return abs(w)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "nesterov", "adam", "rmsprop"])
def test_runs_converge_below_the_threshold_and_diverge_above(optimizer, beta):
    """Oracle: the recursion itself, 1 % below and 1 % above."""
    learning_rate = 0.1
    edge = float(stability_threshold(learning_rate, optimizer, beta))
    assert last_size(optimizer, beta, learning_rate, 0.99 * edge) < 1e-3
    assert last_size(optimizer, beta, learning_rate, 1.01 * edge) > 1e6


def test_adam_has_its_edge_at_38_over_the_learning_rate():
    """Oracle: the number of Cohen et al. (2022) for β₁ = 0.9."""
    assert stability_threshold(1.0, "adam", 0.9) == pytest.approx(38)


def test_an_optimiser_must_be_known():
    with pytest.raises(ValueError, match="optimizer must be one of sgd, gd, momentum"):
        stability_threshold(0.1, "lion")
