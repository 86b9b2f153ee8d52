"""Do your data need learned features? A network against fixed features, in one call.

    network             all layers are trained
    tangent features    the linear model of the same network's gradient at its start (its NTK)
    random features     only its last layer is trained
    waves               random Fourier features, with as many outputs as the network has neurons
    infinite kernel     ridge regression with the tangent kernel of the infinitely wide network

The first four see the same batches, take the same number of steps, and are shown at the best of the
same sweep of learning rates (in units of 1/E‖ψ‖²); the kernel at the best of a sweep of ridges. So
none is tuned less than the network. Beside them stand the gradient features of the data: the
directions in which a first step moves neurons, with the probability that it does.

Source: shi · gradient-features · Def. 3.7; shi · exp-parity-six · A.7.1.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.data import Dataset
from theorylab.kernels import infinite_kernels
from theorylab.models import Architecture, mlp, network
from theorylab.training import Batches, cross_entropy, every, logistic
from theorylab.typing import RandomKey

from .fixed import (
    RATES,
    Features,
    best_rate,
    fit_features,
    random_features,
    random_fourier_features,
    tangent_features,
)
from .gradient import Feature, Sampler, gradient_features, kernel_ridge_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAINED = ("network", "tangent features", "random features", "waves")
RIDGES = (1e-6, 1e-4, 1e-2, 1.0)  # over the mean of the kernel's diagonal
_NUM_RECORDS = 20
_MOST_POINTS = 5000  # of the infinite kernel, whose matrix is solved


class Comparison(NamedTuple):
    """Accuracies of the contenders, those of `TRAINED` first, and the gradient features."""

    steps: Int[np.ndarray, " t"]
    test: Float[np.ndarray, "4 t"]  # test accuracy at these steps
    train: Float[np.ndarray, " 4"]  # training accuracy at the end
    kernel: float  # test accuracy with the infinite kernel; NaN if there are too many points
    features: tuple[Feature, ...]  # none, if there are several outputs

    def figure(self) -> "Figure":
        """Accuracy in time, and how often the first step finds each gradient feature."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name, curve in zip(TRAINED, self.test, strict=True):
            left.plot(self.steps, curve, label=name)
        left.axhline(self.kernel, color="black", linestyle=":", label="infinite kernel")
        left.set(xlabel="step", ylabel="test accuracy")
        left.legend()
        shares = [feature.probability for feature in self.features]
        centres = np.array([p.estimate for p in shares])
        spread = np.array([[p.estimate - p.low, p.high - p.estimate] for p in shares])
        right.bar(np.arange(len(shares)), centres, yerr=spread.reshape(-1, 2).T, color="0.7")
        signs = ["b > 0" if feature.sign > 0 else "b < 0" for feature in self.features]
        right.set_xticks(np.arange(len(shares)), signs)
        right.set(xlabel="gradient feature", ylabel="share of neurons that find it")
        return figure


def compare_features(
    key: RandomKey,
    data: Dataset | Sampler,
    width: int = 256,
    num_train: int = 2000,
    num_test: int = 2000,
    num_steps: int = 1000,
    batch_size: int = 100,
    rates: Sequence[float] = RATES,
    num_directions: int = 2,
) -> Comparison:
    """Train a two-layer network and four fixed-feature models on your data, equally tuned.

    Args:
        key: All randomness.
        data: A dataset, split at random; or a law: key, number of samples ─► `Dataset`. Targets are
            ±1, or one-hot rows for several classes.
        width: Neurons of the network, and random waves.
        num_train: Samples to train on.
        num_test: Samples to test on.
        num_steps: Steps of each.
        batch_size: Samples in each step.
        rates: The sweep of learning rates, in units of 1/E‖ψ‖².
        num_directions: Gradient features to look for, for each sign of the bias; they are estimated
            on the training samples, and only for one output.

    Example:
        found = compare_features(jax.random.key(0), lambda key, n: parity(key, n, 10, 2))
        found.figure().savefig("features.svg")
    """
    _check_sizes(width, num_train, num_test, num_steps, batch_size)
    draw_key, start_key, wave_key, batch_key, neuron_key = jax.random.split(key, 5)
    train, test = _parts(draw_key, data, num_train, num_test)
    loss = logistic("mean") if train.num_outputs == 1 else cross_entropy("mean")
    architecture = mlp((width,), num_outputs=train.num_outputs)
    model = network(architecture, train.input_shape, bias="normal")
    steps = every(max(num_steps // _NUM_RECORDS, 1), num_steps)

    def contest(train: Dataset, test: Dataset) -> tuple[Array, Array]:
        params = model.init(start_key)
        contenders = (
            Features(model.apply, params),
            tangent_features(model.apply, params),
            random_features(model.apply, params),
            _waves(wave_key, train, width),
        )
        fits = []
        for contender in contenders:
            batches = Batches(batch_size)
            fit = fit_features(contender, train, test, loss, batches, batch_key, steps, rates)
            fits.append(best_rate(fit))
        return jnp.stack([fit.test for fit in fits]), jnp.stack([fit.train for fit in fits])

    curves, final = jax.jit(contest)(train, test)
    few = train.num_samples <= _MOST_POINTS
    kernel = partial(_infinite_kernel, architecture)
    wrong = kernel_ridge_error(kernel, train, test, RIDGES) if few else jnp.nan
    alone = train.num_outputs == 1
    found = gradient_features(neuron_key, train, num_directions) if alone else ()
    return Comparison(steps, np.asarray(curves), np.asarray(final), 1 - float(wrong), found)


def _parts(
    key: RandomKey, data: Dataset | Sampler, num_train: int, num_test: int
) -> tuple[Dataset, Dataset]:
    """Training and test samples with flat inputs."""
    if isinstance(data, Dataset):
        if data.num_samples < num_train + num_test:
            raise ValueError(
                f"num_train + num_test must be at most the {data.num_samples} samples there are, "
                f"got {num_train} + {num_test}."
            )
        drawn = data.shuffled(key)
    else:
        drawn = data(key, num_train + num_test)
    flat = drawn.reshaped(int(np.prod(drawn.input_shape)))
    train, test = flat.subset(slice(num_train + num_test)).split(num_train)
    targets = np.asarray(flat.y)
    one_hot = bool(np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all())
    if not (one_hot if flat.num_outputs > 1 else np.isin(targets, (-1, 1)).all()):
        raise ValueError("targets must be -1 or 1, or one-hot rows of several classes.")
    return train, test


def _waves(key: RandomKey, train: Dataset, width: int) -> Features:
    """Random waves as long as the data are wide: ℓ² is the mean of ‖x − x′‖²/2."""
    spread = jnp.sqrt(jnp.var(train.x, axis=0).sum())
    return random_fourier_features(key, train.x.shape[1], width, spread, train.num_outputs)


def _infinite_kernel(
    architecture: Architecture, x: Float[Array, "n d"], other: Float[Array, "t d"]
) -> Float[Array, "n t"]:
    return infinite_kernels(architecture, x, other, bias="normal").ntk


def _check_sizes(
    width: int, num_train: int, num_test: int, num_steps: int, batch_size: int
) -> None:
    sizes = {"width": width, "num_train": num_train, "num_test": num_test}
    for name, size in (sizes | {"num_steps": num_steps, "batch_size": batch_size}).items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}.")
    if batch_size > num_train:
        raise ValueError(f"batch_size must be at most num_train {num_train}, got {batch_size}.")
