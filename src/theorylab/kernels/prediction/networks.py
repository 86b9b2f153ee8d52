"""From an architecture to predictions, in one call.

    x, y ─► networks of infinite width, drawn at random and trained on ½Σ(f − y)² ─► f_t(x′)

Three kernels are computed, between training samples, between test and training samples, and between
test samples; `ensemble_moments` says what follows from them.

Source: golikov · nngp-posterior · 2.152–2.156.
"""

from jaxtyping import Array, Float

from theorylab.models import NTK, Architecture, Parametrization
from theorylab.models.parts import Bias
from theorylab.typing import Scalar

from ..infinite import infinite_kernels, infinite_nngp
from .ensembles import EnsembleMoments, Prior, ensemble_moments
from .methods import Flow, Method, Times


def predict_ensemble(
    architecture: Architecture,
    x: Float[Array, "n ..."],
    y: Float[Array, "n k"],
    x_test: Float[Array, "m ..."],
    times: Times,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    method: Method = Flow(),  # noqa: B008  (frozen)
    ridge: Scalar = 0.0,
    trained: str = "all",
) -> EnsembleMoments:
    """Mean and covariance of random networks of infinite width after training.

    Args:
        architecture: What the networks are.
        x: The training inputs.
        y: Their targets.
        x_test: The inputs to predict at.
        times: Times of gradient flow (∞ allowed), or numbers of steps; `training_time` makes times
            of the steps and the learning rate of another normalisation of the loss.
        parametrization: `NTK(weight_scale=σ_w, bias_scale=σ_b)`, or `Standard(...)`.
        bias: "none", "zero" or "normal".
        method: How the networks are trained.
        ridge: ρ, the decay of weights towards their initial values.
        trained: "all" layers, or the "last" one: at time ∞ with the ridge σ² that is Bayes'
            posterior with noise σ², up to the spread that the decay leaves at the samples.

    Example: in the end the networks agree at the samples.
        >>> import jax.numpy as jnp
        >>> from theorylab.models import mlp
        >>> x, y = jnp.eye(2), jnp.array([[1.0], [-1.0]])
        >>> moments = predict_ensemble(mlp([1]), x, y, x, times=[0.0, jnp.inf])
        >>> moments.mean.shape, bool(jnp.allclose(moments.mean[1], y, atol=1e-5))
        ((2, 2, 1), True)
    """
    if trained not in ("all", "last"):
        raise ValueError(f"trained must be all or last, got {trained!r}.")
    settings = {"parametrization": parametrization, "bias": bias}
    test = infinite_nngp(architecture, x_test, **settings)
    if trained == "last":
        train = infinite_nngp(architecture, x, **settings)
        cross = infinite_nngp(architecture, x_test, x, **settings)
        prior = Prior(train, cross, test)
        return ensemble_moments(prior, train, cross, y, times, method, ridge)
    inner = infinite_kernels(architecture, x, **settings)
    between = infinite_kernels(architecture, x_test, x, **settings)
    prior = Prior(inner.nngp, between.nngp, test)
    return ensemble_moments(prior, inner.ntk, between.ntk, y, times, method, ridge)
