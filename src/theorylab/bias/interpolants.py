"""Three solutions of Xw = y with more unknowns than equations, by convex optimisation alone.

    least ℓ₂ norm    w = Xᵀ(XXᵀ)⁻¹y
    least ℓ₁ norm    a linear program in w = p − m with p, m ≥ 0
    least R_α        w = 2α² sinh(4Xᵀν), where the dual ν minimises α²/2 Σ cosh(4Xᵀν) − νᵀy

No training enters, so they can tell where training went. NumPy, always in double precision.

Source: arora · reparam-mirror · §8.1.3; arora · minnorm-regression · §3.1.
"""

import numpy as np
from jaxtyping import Float

from theorylab.typing import Scalar

Matrix = Float[np.ndarray, "n d"]
Targets = Float[np.ndarray, " n"]
Weights = Float[np.ndarray, " d"]


def least_l2(x: Matrix, y: Targets) -> Weights:
    """Solve Xw = y with the least ‖w‖₂.

    Example:
        >>> least_l2(np.array([[1.0, 2.0]]), np.array([5.0])).round(12).tolist()
        [1.0, 2.0]
    """
    _check(x, y)
    return np.linalg.pinv(x) @ y


def least_l1(x: Matrix, y: Targets) -> Weights:
    """Solve Xw = y with the least ‖w‖₁.

    Example:
        >>> least_l1(np.array([[1.0, 2.0]]), np.array([5.0])).tolist()
        [0.0, 2.5]
    """
    from scipy.optimize import linprog  # slow to import

    _check(x, y)
    solution = linprog(
        np.ones(2 * x.shape[1]), A_eq=np.hstack([x, -x]), b_eq=y, bounds=(0, None), method="highs"
    )
    if not solution.success:
        raise RuntimeError(f"the linear program found no solution: {solution.message}")
    plus, minus = np.split(solution.x, 2)
    return plus - minus


def least_entropy(x: Matrix, y: Targets, scale: Scalar, max_steps: int = 1000) -> Weights:
    """Solve Xw = y with the least R_α(w), by Newton's method on the dual.

    Args:
        x: The equations X, with independent rows.
        y: Their right-hand side.
        scale: The scale α of the hyperbolic entropy.
        max_steps: The most Newton steps; about ten are needed.

    Example: nearly the least ℓ₁ norm at a small scale, the least ℓ₂ norm at a large.
        >>> x, y = np.array([[1.0, 2.0]]), np.array([5.0])
        >>> (least_entropy(x, y, scale=1e-6) + 0.0).round(2).tolist()
        [0.0, 2.5]
        >>> least_entropy(x, y, scale=100.0).round(2).tolist()
        [1.0, 2.0]
    """
    _check(x, y)
    alpha = float(scale)
    if not 0 < alpha < float("inf"):
        raise ValueError(f"scale must be positive and finite, got {alpha}.")

    def objective(nu: Targets) -> float:
        with np.errstate(over="ignore"):  # infinite is a step too far: it is halved
            return alpha**2 / 2 * np.sum(np.cosh(4 * x.T @ nu)) - nu @ y

    nu = np.zeros_like(y)
    for _ in range(max_steps):
        gradient = x @ (2 * alpha**2 * np.sinh(4 * x.T @ nu)) - y
        hessian = (x * (8 * alpha**2 * np.cosh(4 * x.T @ nu))) @ x.T
        direction = -np.linalg.solve(hessian, gradient)
        decrease = -gradient @ direction
        if np.abs(gradient).max() <= 1e-14 * np.abs(y).max() or decrease <= 1e-30:
            return 2 * alpha**2 * np.sinh(4 * x.T @ nu)
        value, step = objective(nu), 1.0
        rounding = 1e-14 * (abs(value) + np.abs(nu) @ np.abs(y))
        while not objective(nu + step * direction) <= value - step * decrease / 4 + rounding:
            step /= 2
        nu = nu + step * direction
    raise RuntimeError(f"Newton's method needs more than {max_steps} steps at scale {alpha}.")


def _check(x: Matrix, y: Targets) -> None:
    """Refuse numbers that are none, and equations that depend on one another."""
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise ValueError("x and y must be finite, got NaN or infinity.")
    if np.linalg.matrix_rank(x) < x.shape[0]:
        raise ValueError(f"the rows of x must be independent, got rank < n for {x.shape}.")
