"""The mean and covariance of many trained networks, at any time, at infinite width.

Before training the outputs are a Gaussian process with covariance K (the NNGP); training adds a
linear map of what was wrong. With the tangent kernel Θ and A_t = Θ(x, X) Θ⁻¹(I − e^(−tΘ)),

    f_t(x) = f₀(x) + A_t (y − f₀(X))
    mean        A_t y
    covariance  K(x, x′) + A_t K(X, X) A_tᵀ − A_t K(X, x′) − K(x, X) A_tᵀ

If only the last layer is trained, Θ = K, and as t → ∞ this is the posterior of the prior GP(0, K).
If all layers are trained it is not the posterior of any prior. A_t is that of any method of
training (`methods`): Θ⁻¹(I − e^(−tΘ)) stands for its gain.

Source: golikov · nngp-posterior · 2.152–2.156.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.typing import Axes, Scalar

from .methods import Flow, Method, Times
from .modes import (
    Modes,
    as_modes,
    check_cross,
    check_finite,
    check_kernel,
    check_not_negative,
    check_rows,
)

_FLOW = Flow()


class EnsembleMoments(Answer, axes=("time", "point", "output")):
    """What an ensemble of trained networks is at m points and t times.

    Args:
        mean: One column for each output.
        covariance: The same for every output.

    Example: three times, two points and one output.
        >>> moments = EnsembleMoments(mean=jnp.zeros((3, 2, 1)), covariance=jnp.ones((3, 2, 2)))
        >>> deviation = jnp.sqrt(jnp.diagonal(moments.covariance, axis1=1, axis2=2))
        >>> deviation.shape
        (3, 2)
    """

    mean: Float[Array, "t m k"]
    covariance: Float[Array, "t m m"]

    @property
    def deviation(self) -> Float[Array, "t m"]:
        """The standard deviation at every time and point, the same for every output."""
        return jnp.sqrt(jnp.maximum(jnp.diagonal(self.covariance, axis1=1, axis2=2), 0.0))

    def draw(self, axes: Axes) -> None:
        """The last time: the mean of every output, in the band of two deviations."""
        from theorylab.answers.figure import curve

        mean, margin = self.mean[-1], 2 * self.deviation[-1][:, None]
        curve(axes, jnp.arange(len(mean)), mean, mean - margin, mean + margin)
        axes.set_xlabel("test point")
        axes.set_ylabel("output f(x) at the last time, ± 2 deviations")


class Prior(NamedTuple):
    """The NNGP on training and test points, which the ensemble begins with.

    Args:
        train: K(X, X).
        cross: K(x, X).
        test: K(x, x).

    Example:
        >>> prior = Prior(train=jnp.eye(2), cross=jnp.zeros((1, 2)), test=jnp.eye(1))
        >>> prior.cross.shape
        (1, 2)
    """

    train: Float[Array, "n n"]
    cross: Float[Array, "m n"]
    test: Float[Array, "m m"]


def ensemble_moments(
    prior: Prior,
    kernel: Float[Array, "n n"] | Modes,
    cross: Float[Array, "m n"],
    targets: Float[Array, "n k"],
    times: Times,
    method: Method = _FLOW,
    ridge: Scalar = 0.0,
) -> EnsembleMoments:
    """Mean and covariance of networks whose layers are all trained.

    Args:
        prior: The NNGP: `infinite_kernels(...).nngp` on both sets.
        kernel: The tangent kernel Θ(X, X), or its modes.
        cross: Θ(x, X).
        targets: y.
        times: Times of a flow (∞ allowed), or numbers of steps.
        method: How the networks are trained.
        ridge: ρ, the decay of weights towards their initial values.

    Example:
        >>> one = jnp.eye(1)
        >>> ensemble_moments(Prior(one, one, one), one, one, one, [0.0]).covariance.tolist()
        [[[1.0]]]
    """
    check_not_negative("ridge", ridge)
    modes = as_modes(kernel)
    n = len(modes.eigenvalues)
    check_cross(cross, n)
    check_rows("targets", targets, n)
    _check_prior(prior, *cross.shape)
    gains = method.gain(modes.eigenvalues + ridge, times)
    projected = cross @ modes.eigenvectors
    smoother = jnp.einsum("mj,tj,nj->tmn", projected, gains, modes.eigenvectors)
    mixed = jnp.einsum("tmn,ln->tml", smoother, prior.cross)
    spread = smoother @ prior.train[None] @ jnp.swapaxes(smoother, 1, 2)
    covariance = prior.test[None] + spread - mixed - jnp.swapaxes(mixed, 1, 2)
    return EnsembleMoments(jnp.einsum("tmn,nk->tmk", smoother, targets), covariance)


def last_layer_moments(
    prior: Prior,
    targets: Float[Array, "n k"],
    times: Times,
    method: Method = _FLOW,
    ridge: Scalar = 0.0,
) -> EnsembleMoments:
    """Mean and covariance of networks of which only the last layer is trained: Θ = K.

    As t → ∞ it is `posterior` without noise. (A last bias that is drawn 0 but trained is not in the
    NNGP: its networks have a Θ of their own; use `ensemble_moments`.) Arguments as there.

    Example: at a sample, the networks agree in the end.
        >>> one = jnp.eye(1)
        >>> moments = last_layer_moments(Prior(one, one, one), 3 * one, times=[0.0, jnp.inf])
        >>> moments.mean.ravel().tolist(), moments.covariance.ravel().tolist()
        ([0.0, 3.0], [1.0, 0.0])
    """
    return ensemble_moments(prior, prior.train, prior.cross, targets, times, method, ridge)


def _check_prior(prior: Prior, num_tests: int, num_samples: int) -> None:
    shapes = {
        "train": (num_samples, num_samples),
        "cross": (num_tests, num_samples),
        "test": (num_tests, num_tests),
    }
    for name, shape in shapes.items():
        values = getattr(prior, name)
        if values.shape != shape:
            raise ValueError(f"prior.{name} must have shape {shape}, got {values.shape}.")
        check_finite(f"prior.{name}", values)
    check_kernel(prior.train, "prior.train")
    check_kernel(prior.test, "prior.test")
