"""Bayes with an infinitely wide network: the posterior of its Gaussian process, and the evidence.

For a prior f ~ GP(0, K) and targets y = f(X) + noise of variance σ²,

    mean        K(x, X) (K + σ²I)⁻¹ y
    covariance  K(x, x′) − K(x, X) (K + σ²I)⁻¹ K(X, x′)
    log p(y)    −½ yᵀ(K + σ²I)⁻¹y − ½ log det(K + σ²I) − ½ n log 2π

Outputs are independent, with one kernel for all k of them. Without noise, modes that are 0 to
rounding carry no information and are left out (the pseudo-inverse).

Source: golikov · nngp-posterior · 2.149–2.151.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.typing import Axes, Scalar

from .modes import Modes, as_modes, check_cross, check_kernel, check_not_negative, check_rows
from .outputs import coefficients


class Posterior(Answer, axes=("point", "output")):
    """A Gaussian process after the data, at m points.

    Args:
        mean: One column for each output.
        covariance: The same for every output.

    Example: the deviation at a point is the root of the covariance there.
        >>> found = Posterior(mean=jnp.zeros((1, 1)), covariance=jnp.array([[4.0]]))
        >>> float(jnp.sqrt(found.covariance[0, 0]))
        2.0
    """

    mean: Float[Array, "m k"]
    covariance: Float[Array, "m m"]

    @property
    def deviation(self) -> Float[Array, " m"]:
        """The standard deviation at every point, the same for every output."""
        return jnp.sqrt(jnp.maximum(jnp.diagonal(self.covariance, axis1=-2, axis2=-1), 0.0))

    def draw(self, axes: Axes) -> None:
        """The mean of every output, in the band of two deviations, over the number of the point."""
        from theorylab.answers.figure import curve

        margin = 2 * self.deviation[:, None]
        points = jnp.arange(len(self.mean))
        curve(axes, points, self.mean, self.mean - margin, self.mean + margin)
        axes.set_xlabel("test point")
        axes.set_ylabel("output f(x), ± 2 deviations")


def posterior(
    kernel: Float[Array, "n n"] | Modes,
    cross: Float[Array, "m n"],
    test_kernel: Float[Array, "m m"],
    targets: Float[Array, "n k"],
    noise: Scalar = 0.0,
) -> Posterior:
    """Condition the prior GP(0, K) on the targets.

    Args:
        kernel: K(X, X), the NNGP of `infinite_kernels`, say; or its modes.
        cross: K(x, X).
        test_kernel: K(x, x).
        targets: y.
        noise: σ², the variance of the noise in y.

    Example:
        >>> one = jnp.eye(1)
        >>> posterior(one, one / 2, one, jnp.array([[2.0]]), noise=1.0).covariance.tolist()
        [[0.875]]
    """
    check_not_negative("noise", noise)
    check_kernel(test_kernel, "test_kernel")
    modes = as_modes(kernel)
    check_cross(cross, len(modes.eigenvalues))
    check_rows("targets", targets, len(modes.eigenvalues))
    _check_size(test_kernel, cross)
    sides = jnp.concatenate([targets, cross.T], axis=1)
    solved = coefficients(modes, sides, [math.inf], ridge=noise)[0]
    explained = cross @ solved
    num_outputs = targets.shape[1]
    return Posterior(explained[:, :num_outputs], test_kernel - explained[:, num_outputs:])


def log_evidence(
    kernel: Float[Array, "n n"], targets: Float[Array, "n k"], noise: Scalar
) -> Float[Array, ""]:
    """The log evidence log p(y), summed over outputs: larger where the kernel suits the targets.

    It is differentiable in the kernel and in the noise, by `jax.grad`.

    Args:
        kernel: K(X, X).
        targets: y.
        noise: σ².

    Example:
        >>> one, y = jnp.eye(1), jnp.array([[0.0]])
        >>> bool(jnp.isclose(log_evidence(one, y, 0.0), -math.log(2 * math.pi) / 2))
        True
    """
    check_not_negative("noise", noise)
    check_kernel(kernel)
    n = kernel.shape[0]
    check_rows("targets", targets, n)
    factor = jnp.linalg.cholesky(kernel + noise * jnp.eye(n, dtype=kernel.dtype))
    if not isinstance(factor, Tracer) and not np.isfinite(np.asarray(factor)).all():
        raise ValueError(
            f"kernel + noise must be positive definite, got one that is not, with noise {noise}; "
            "give a larger noise."
        )
    whitened = solve_triangular(factor, targets, lower=True)
    log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    per_output = log_det + n * math.log(2 * math.pi)
    return -(jnp.sum(whitened**2) + targets.shape[1] * per_output) / 2


def _check_size(test_kernel: Array, cross: Array) -> None:
    if test_kernel.shape[0] != cross.shape[0]:
        raise ValueError(
            f"test_kernel must have a row for each of the {cross.shape[0]} test points, "
            f"got shape {test_kernel.shape}."
        )
