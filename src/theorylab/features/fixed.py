"""Fixed features: what a network's start, or waves, can learn without learning features.

    f(x) = ⟨θ, ψ(x)⟩,   ψ chosen before the data are seen

    random features            ψ: what comes into the last layer of a network as it was drawn
    tangent features           ψ = ∇f(w₀; x), the features of the finite-width NTK
    random Fourier features    ψ = [cos Bx, sin Bx]/√M, B ~ N(0, ℓ⁻²): a Gaussian kernel

Each is again an `apply`, linear in its parameters θ, that begins at θ = 0. Features are never
stored: tangents are taken along θ by forward differentiation, batch by batch.

A baseline that was tuned less than the network proves nothing. `fit_features` trains with a whole
sweep of learning rates at once, with the same batches and as many steps as a network gets, and
`best_rate` takes the rate with the highest score: of validation, if it is given, else of the test
itself, an upper bound on what choosing by validation would give. Rates fall linearly to 0, and are
in units of 1/E‖ψ(x)‖², so that one sweep serves every width and parametrization.

Source: shi · exp-parity-six · A.7.1; Fang et al. (2021), arXiv:2006.13814 (tangent features);
Rahimi and Recht (2007).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from theorylab.data import Dataset
from theorylab.kernels.fourier_features import fourier_features, gaussian_frequencies
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.training import Batches, sgd, zero_one
from theorylab.training.losses import check_positive
from theorylab.training.trajectory import Steps
from theorylab.typing import Apply, Params, RandomKey, Scalar

Risk = Callable[[Array, Array], Float[Array, ""]]  # outputs, targets ─► a number to minimise
Score = Callable[[Array, Array], Any]  # outputs, targets ─► a pytree of numbers

# In units of 1/E‖ψ‖²; the best of all tasks tried lies well inside.
RATES = (0.1, 1.0, 10.0, 100.0)
_NUM_PROBED = 32  # inputs whose ‖ψ(x)‖² is averaged


class Features(NamedTuple):
    """A model that is linear in its parameters, and the parameters 0.

    Example:
        >>> linear = Features(lambda theta, x: x @ theta, jnp.zeros((2, 1)))
        >>> linear.apply(linear.params, jnp.ones((3, 2))).shape
        (3, 1)
    """

    apply: Apply
    params: Params


def random_features(apply: Apply, params: Params, free: Params | None = None) -> Features:
    """Freeze a network where it was drawn, but for its last layer, which begins at 0.

    Args:
        apply: The network.
        params: Its parameters as drawn; their tuple of layers, if `free` is not said.
        free: Which are trained: booleans in the structure of `params`, or of the top of it. The
            network must be linear in them. By default those of the last layer that has any.

    Example:
        >>> from theorylab.models import mlp, network
        >>> model = network(mlp([8]), (3,))
        >>> frozen = random_features(model.apply, model.init(jax.random.key(0)))
        >>> [leaf.shape for leaf in frozen.params]
        [(8, 1)]
    """
    chosen = _last_layer(params) if free is None else free
    flags = jax.tree.leaves(
        jax.tree.map(lambda flag, branch: jax.tree.map(lambda _: flag, branch), chosen, params)
    )
    leaves, structure = jax.tree.flatten(params)
    if not any(flags):
        raise ValueError("free must name at least one array of parameters, got none.")

    def apply_free(free_params: Params, x: Array) -> Array:
        new = iter(free_params)
        merged = [next(new) if flag else leaf for flag, leaf in zip(flags, leaves, strict=True)]
        return apply(jax.tree.unflatten(structure, merged), x)

    zeros = [jnp.zeros_like(leaf) for flag, leaf in zip(flags, leaves, strict=True) if flag]
    return Features(apply_free, zeros)


def tangent_features(apply: Apply, params: Params) -> Features:
    """The linear model ⟨θ, ∇f(w₀; x)⟩ of a network's gradient, by forward differentiation.

    Args:
        apply: The network f(w; x).
        params: The parameters w₀.

    Example:
        >>> cube = tangent_features(lambda w, x: w**3 * x, jnp.asarray(1.0))
        >>> float(cube.apply(jnp.asarray(0.5), jnp.asarray(1.0)))
        1.5
    """

    def apply_tangent(theta: Params, x: Array) -> Array:
        return jax.jvp(lambda w: apply(w, x), (params,), (theta,))[1]

    return Features(apply_tangent, jax.tree.map(jnp.zeros_like, params))


def random_fourier_features(
    key: RandomKey, dimension: int, num_frequencies: int, bandwidth: Scalar, num_outputs: int = 1
) -> Features:
    """The linear model of random waves, whose kernel is exp(−‖x − x′‖²/(2ℓ²)) as M → ∞.

    Args:
        key: Draws the frequencies.
        dimension: Of the inputs, d; others are flattened.
        num_frequencies: M, half the number of features.
        bandwidth: ℓ.
        num_outputs: k.

    Example:
        >>> waves = random_fourier_features(jax.random.key(0), 3, num_frequencies=8, bandwidth=1.0)
        >>> waves.apply(waves.params, jnp.ones((2, 3))).shape
        (2, 1)
    """
    if num_frequencies < 1 or num_outputs < 1:
        raise ValueError(
            "num_frequencies and num_outputs must be at least 1, "
            f"got {num_frequencies} and {num_outputs}."
        )
    check_positive("bandwidth", bandwidth)
    sigma = 1 / (2 * np.pi * bandwidth)
    frequencies = gaussian_frequencies(key, dimension, num_frequencies, sigma)

    def apply(theta: Params, x: Array) -> Array:
        flat = jnp.reshape(x, (len(x), -1))
        return fourier_features(flat, frequencies) @ theta / np.sqrt(num_frequencies)

    return Features(apply, jnp.zeros((2 * num_frequencies, num_outputs)))


class FeatureFit(NamedTuple):
    """Linear models trained with every learning rate (r), scored at the recorded steps (t)."""

    steps: Int[Array, " t"]
    learning_rates: Float[Array, " r"]
    test: Any  # scores, each (r, t, ...)
    train: Any  # scores at the end, each (r, ...)
    params: Params  # at the end, each (r, ...)


def fit_features(
    features: Features,
    train: Dataset,
    test: Dataset,
    risk: Risk,
    batch: Batches,
    steps: Steps,
    key: RandomKey,
    rates: Sequence[float] = RATES,
    score: Score | None = None,
) -> FeatureFit:
    """Train a linear model by SGD, with all learning rates of a sweep at once on the same batches.

    Args:
        features: The model, such as `tangent_features(model.apply, params)`.
        train: Samples to train on.
        test: Samples to score it on.
        risk: (outputs, targets) ─► what is minimised, such as `hinge("mean")`.
        batch: How batches are drawn.
        steps: The increasing numbers of steps after which to score; the last ends the run.
        key: Draws them.
        rates: Learning rates, in units of 1/E‖ψ(x)‖².
        score: (outputs, targets) ─► a pytree of numbers; by default the accuracy.

    Example:
        >>> from theorylab.training import hinge
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> linear = Features(lambda theta, x: x @ theta, jnp.zeros((2, 1)))
        >>> task = (linear, data, data, hinge("mean"), Batches(2), [20], jax.random.key(0))
        >>> fit_features(*task, rates=(0.1, 1.0)).test.tolist()
        [[1.0], [1.0]]
    """
    check_rates(rates)
    scored = accuracy if score is None else score
    learning_rates = jnp.asarray(rates, float) / squared_length(features, train.x)

    def risk_of(params: Params, x: Array, y: Array) -> Float[Array, ""]:
        return risk(features.apply(params, x), y)

    def scores_on(data: Dataset, params: Params) -> Any:
        return scored(features.apply(params, data.x), data.y)

    def one(rate: Float[Array, ""]) -> tuple[Any, Any, Params]:
        optimizer = falling_descent(rate, int(steps[-1]))
        measure = partial(scores_on, test)
        run = sgd(risk_of, features.params, train, optimizer, batch, steps, measure, key)
        return run.records, scores_on(train, run.params), run.params

    return FeatureFit(jnp.asarray(steps), learning_rates, *jax.vmap(one)(learning_rates))


def check_rates(rates: Sequence[float]) -> None:
    """Raise unless there are learning rates, all positive and finite.

    Example:
        >>> check_rates((0.1, 1.0))
    """
    if not len(rates) or not all(0 < rate < np.inf for rate in rates):
        raise ValueError(f"rates must be positive and not none, got {tuple(rates)}.")


def falling_descent(learning_rate: Scalar, num_steps: int) -> optax.GradientTransformation:
    """Descent with the step size η(1 − t/T), so that the noise of batches dies out at the end.

    Example:
        >>> descent = falling_descent(0.5, num_steps=2)
        >>> update, _ = descent.update(jnp.ones(1), descent.init(jnp.zeros(1)))
        >>> update.tolist()
        [-0.5]
    """
    return optax.sgd(optax.linear_schedule(learning_rate, 0.0, num_steps))


def best_rate(fitted: FeatureFit, final: Float[Array, " r"] | None = None) -> FeatureFit:
    """The fit at the one learning rate with the highest score: the axis of rates is gone.

    Args:
        fitted: What `fit_features` returned.
        final: The score of every rate to choose by; by default that of the test at the end, if
            there is only one.

    Example:
        >>> steps, rates, scores = jnp.array([20]), jnp.array([0.1, 1.0]), jnp.array([[0.5], [0.9]])
        >>> fitted = FeatureFit(steps, rates, scores, scores, jnp.zeros(2))
        >>> best_rate(fitted).learning_rates.tolist()
        [1.0]
    """
    judged = fitted.test[:, -1] if final is None else final
    place = jnp.argmax(jnp.nan_to_num(judged, nan=-jnp.inf))
    test, train, params = jax.tree.map(
        lambda leaf: leaf[place], (fitted.test, fitted.train, fitted.params)
    )
    return FeatureFit(fitted.steps, fitted.learning_rates[place][None], test, train, params)


def squared_length(features: Features, x: Float[Array, "n ..."]) -> Float[Array, ""]:
    """E‖ψ(x)‖² per output, over some inputs: the trace of the kernel over its size.

    Example:
        >>> linear = Features(lambda theta, x: x @ theta, jnp.zeros((2, 1)))
        >>> float(squared_length(linear, jnp.array([[3.0, 4.0], [0.0, 0.0]])))
        12.5
    """

    def of_one(one: Array) -> Float[Array, ""]:
        outputs, pull = jax.vjp(lambda theta: features.apply(theta, one[None]), features.params)
        squares = [
            sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(pull(jnp.eye(outputs.size)[k][None])))
            for k in range(outputs.size)
        ]
        return jnp.asarray(sum(squares) / outputs.size)

    return jnp.mean(fast_convolutions(partial(jax.lax.map, of_one))(x[:_NUM_PROBED]))


def accuracy(outputs: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, ""]:
    """The share of samples with the right sign, or the right largest output if there are several.

    Example:
        >>> float(accuracy(jnp.array([[2.0], [-1.0]]), jnp.array([[1.0], [1.0]])))
        0.5
    """
    return 1 - zero_one("mean")(outputs, targets)


def class_accuracies(
    outputs: Float[Array, "n 1"], targets: Float[Array, "n 1"]
) -> Float[Array, "2"]:
    """The share of right signs among y = −1 and among y = +1; their mean is balanced accuracy.

    Example:
        >>> outputs, targets = jnp.array([[1.0], [1.0], [1.0]]), jnp.array([[-1.0], [1.0], [1.0]])
        >>> class_accuracies(outputs, targets).tolist()
        [0.0, 1.0]
    """
    right = (outputs * targets > 0)[:, 0]
    positive = targets[:, 0] > 0

    def share(chosen: Array) -> Float[Array, ""]:
        return jnp.sum(right & chosen) / jnp.maximum(chosen.sum(), 1)

    return jnp.stack([share(~positive), share(positive)])


def weighted_hinge(class_weights: tuple[Scalar, Scalar]) -> Risk:
    """The mean of α_y max(1 − y f, 0), with weights of y = −1 and of y = +1.

    Example:
        >>> risk = weighted_hinge((1.0, 3.0))
        >>> float(risk(jnp.zeros((2, 1)), jnp.array([[-1.0], [1.0]])))
        2.0
    """
    minus, plus = class_weights

    def risk(outputs: Array, targets: Array) -> Float[Array, ""]:
        losses = jnp.maximum(1 - outputs * targets, 0.0)
        return jnp.mean(jnp.where(targets > 0, plus, minus) * losses)

    return risk


def _last_layer(params: Params) -> Params:
    """Booleans that name the last entry of a tuple that has any arrays."""
    if not isinstance(params, tuple | list):
        raise ValueError(f"free must be said for parameters that are a {type(params).__name__}.")
    filled = [place for place, layer in enumerate(params) if jax.tree.leaves(layer)]
    if not filled:
        raise ValueError("the network must have parameters, got none.")
    return type(params)(place == filled[-1] for place in range(len(params)))
