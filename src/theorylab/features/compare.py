"""Do your data need learned features? A network against fixed features, in one call.

    network             all layers are trained
    tangent features    the linear model of the same network's gradient at its start (its NTK)
    random features     only its last layer is trained
    waves               random Fourier features, with as many outputs as the network has neurons
    infinite kernel     ridge regression with the tangent kernel of the infinitely wide network

Samples are divided in three. On the first part all are trained: the first four with the same
batches, the same number of steps and the same sweep of learning rates (in units of 1/E‖ψ‖²), the
kernel with a sweep of ridges. By the second part every one is chosen from its sweep, so none is
tuned less than the network. The third part is seen once: it has the accuracies, with their
intervals. Beside them stand the gradient features of the data: the directions in which a first step
moves neurons, with the probability that it does.

Source: shi · gradient-features · Def. 3.7; shi · exp-parity-six · A.7.1.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Float, Int

from theorylab.answers import Answer
from theorylab.data import Dataset
from theorylab.kernels import infinite_kernels
from theorylab.models import Architecture, mlp, network
from theorylab.numerics import Interval, clopper_pearson
from theorylab.training import Batches, cross_entropy, every, logistic, zero_one
from theorylab.typing import Axes, RandomKey

from .fixed import (
    RATES,
    Features,
    best_rate,
    check_rates,
    fit_features,
    random_features,
    random_fourier_features,
    tangent_features,
)
from .gradient import DataSampler, Feature, gradient_features

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAINED = ("network", "tangent features", "random features", "waves")
CONTENDERS = (*TRAINED, "infinite kernel")
RIDGES = (1e-6, 1e-4, 1e-2, 1.0)  # over the mean of the kernel's diagonal
_NUM_RECORDS = 20
_MOST_POINTS = 5000  # of the infinite kernel, whose matrix is solved
_MOST_SAMPLES = 5000  # that are used if sizes are not said
_NAMED = 3  # inputs by which a direction is named, at most


class FeatureComparison(Answer, axes=("step",)):
    """Accuracies of the contenders, those of `TRAINED` first, and the gradient features.

    Example:
        >>> no_steps, numbers = np.zeros(0, int), np.zeros(5)
        >>> empty = FeatureComparison(no_steps, np.zeros((4, 0)), numbers, numbers, (), ())
        >>> empty.train.shape
        (5,)
    """

    steps: Int[np.ndarray, " t"]
    curves: Float[np.ndarray, "4 t"]  # test accuracy at these steps, an output of 0 as half right
    train: Float[np.ndarray, " 5"]  # training accuracy at the end
    chosen: Float[np.ndarray, " 5"]  # learning rates in units of 1/E‖ψ‖², and the ridge
    test: tuple[Interval, ...]  # of `CONTENDERS` at the end; the kernel's NaN if n is too large
    features: tuple[Feature, ...]  # none, if there are several outputs

    def draw(self, axes: Axes) -> None:
        """Test accuracy of the trained contenders over the steps; `figure` has more."""
        from theorylab.answers.figure import curve

        for name, accuracies in zip(CONTENDERS, self.curves, strict=False):
            curve(axes, self.steps, accuracies, label=name)
        axes.set_xlabel("step")
        axes.set_ylabel("test accuracy")
        axes.legend(fontsize=7)

    def __str__(self) -> str:
        """One line for each contender: its test accuracy, the interval, and in training."""
        rows = zip(CONTENDERS, self.test, self.train, strict=True)
        return "\n".join(
            f"{name:<17}{test.estimate:6.1%}  [{test.low:.1%}, {test.high:.1%}]  in training "
            f"{train:.1%}"
            for name, test, train in rows
        )

    def figure(self) -> "Figure":
        """Accuracy in time, and how often the first step finds each gradient feature."""
        from matplotlib.figure import Figure

        number = 2 if self.features else 1
        figure = Figure(figsize=(4.5 * number, 3.5), layout="constrained")
        left, *others = np.ravel(figure.subplots(1, number))
        for name, curve in zip(TRAINED, self.curves, strict=True):
            left.plot(self.steps, curve, label=name)
        left.axhline(self.test[-1].estimate, color="black", linestyle=":", label=CONTENDERS[-1])
        end = self.steps[-1]
        for place, test in enumerate(self.test):  # beside each other, after the last step
            colour = f"C{place}" if place < len(TRAINED) else "black"
            where = end * (1.02 + 0.02 * place)
            left.errorbar(where, test.estimate, _spread([test]), color=colour, fmt=".", capsize=2)
        left.set(xlabel="step; after the last: 95 % intervals", ylabel="test accuracy")
        left.legend(fontsize=7)
        for right in others:
            shares = [feature.probability for feature in self.features]
            places = np.arange(len(shares))
            right.bar(places, [p.estimate for p in shares], yerr=_spread(shares), color="0.7")
            right.set_xticks(places, [_name(feature) for feature in self.features], fontsize=7)
            right.set(xlabel="gradient feature", ylabel="share of neurons that find it")
        return figure


def compare_features(
    key: RandomKey,
    data: Dataset | DataSampler | tuple[Any, Any],
    *,
    width: int = 256,
    num_train: int | None = None,
    num_validation: int | None = None,
    num_test: int | None = None,
    num_steps: int = 1000,
    batch_size: int | None = None,
    rates: Sequence[float] = RATES,
    num_directions: int = 2,
    standardize: bool = False,
) -> FeatureComparison:
    """Train a two-layer network and four fixed-feature models on your data, equally tuned.

    Args:
        key: All randomness.
        data: A table, the pair (X, y), whose y are classes (see `Dataset.from_table`); or a
            dataset with targets ±1, or one-hot rows; both are divided at random. Or a law: key,
            number of samples ─► `Dataset`.
        width: Neurons of the network, and random waves.
        num_train: Samples to train on; by default ⅗ of all samples, or of 5000 if there are more.
        num_validation: Samples to choose learning rates and the ridge by; by default ⅕ of these.
        num_test: Samples to test on; by default ⅕ of these.
        num_steps: Steps of each.
        batch_size: Samples in each step: 100, or all to train on.
        rates: The sweep of learning rates, in units of 1/E‖ψ‖².
        num_directions: Gradient features to look for, for each sign of the bias; they are estimated
            on the training samples, and only for one output.
        standardize: Whether every input gets mean 0 and variance 1, by the training samples: tables
            with columns in different units need it.

    Example:
        >>> from theorylab.data.mixtures import xor_mixture
        >>> sizes = {"width": 8, "num_train": 60, "num_validation": 20, "num_test": 20}
        >>> found = compare_features(jax.random.key(0), xor_mixture(8).sample, num_steps=5, **sizes)
        >>> found.curves.shape[0], len(found.test)
        (4, 5)
    """
    _check_key(key)
    check_rates(rates)
    _check_counts(width=width, num_steps=num_steps, num_directions=num_directions)
    draw_key, start_key, wave_key, batch_key, neuron_key = jax.random.split(key, 5)
    sizes = (num_train, num_validation, num_test)
    train, _, test = parts = _parts(draw_key, data, sizes, standardize)
    batches = _batches(batch_size, train.num_samples)
    architecture = mlp((width,), num_outputs=train.num_outputs)
    steps = every(max(num_steps // _NUM_RECORDS, 1), num_steps)
    keys = (start_key, wave_key, batch_key)
    curves, trained, chosen = _contest(keys, parts, architecture, width, batches, steps, rates)
    kernel = _kernel_accuracies(architecture, *parts)
    return FeatureComparison(
        steps,
        curves,
        np.append(trained, kernel[1]),
        np.append(np.asarray(rates, float)[chosen], kernel[2]),
        tuple(_interval(share, test.num_samples) for share in np.append(curves[:, -1], kernel[0])),
        gradient_features(neuron_key, train, num_directions) if train.num_outputs == 1 else (),
    )


def _contest(
    keys: tuple[RandomKey, RandomKey, RandomKey],
    parts: tuple[Dataset, Dataset, Dataset],
    architecture: Architecture,
    width: int,
    batches: Batches,
    steps: Int[np.ndarray, " t"],
    rates: Sequence[float],
) -> tuple[Float[np.ndarray, "4 t"], Float[np.ndarray, " 4"], Int[np.ndarray, " 4"]]:
    """Test curves, training accuracies and places of the chosen rates, in one compiled program."""
    start_key, wave_key, batch_key = keys

    def contest(train: Dataset, validation: Dataset, test: Dataset) -> tuple[Array, ...]:
        contenders = _contenders(start_key, wave_key, architecture, width, train)
        parts = (train, validation, test)
        found = [_tuned(one, *parts, batches, batch_key, steps, rates) for one in contenders]
        return tuple(jnp.stack(each) for each in zip(*found, strict=True))

    curves, trained, chosen = map(np.asarray, jax.jit(contest)(*parts))
    return curves, trained, chosen


def _batches(size: int | None, num_train: int) -> Batches:
    """Of this size, or of 100 samples or all."""
    size = min(100, num_train) if size is None else size
    if not 1 <= size <= num_train:
        raise ValueError(f"batch_size must be in [1, num_train = {num_train}], got {size}.")
    return Batches(size)


def _contenders(
    start_key: RandomKey,
    wave_key: RandomKey,
    architecture: Architecture,
    width: int,
    train: Dataset,
) -> tuple[Features, ...]:
    """In the order of `TRAINED`. Waves are as long as the data are wide: ℓ² is E‖x − x′‖²/2."""
    model = network(architecture, train.input_shape, bias="normal")
    params = model.init(start_key)
    spread = jnp.sqrt(jnp.var(train.x, axis=0).sum())
    inputs, outputs = train.x.shape[1], train.num_outputs
    return (
        Features(model.apply, params),
        tangent_features(model.apply, params),
        random_features(model.apply, params),
        random_fourier_features(wave_key, inputs, width, spread, outputs),
    )


def _tuned(
    features: Features,
    train: Dataset,
    validation: Dataset,
    test: Dataset,
    batches: Batches,
    key: RandomKey,
    steps: Int[np.ndarray, " t"],
    rates: Sequence[float],
) -> tuple[Float[Array, " t"], Float[Array, ""], Int[Array, ""]]:
    """Test curve and training accuracy of the rate that validation chooses, and its place."""
    loss = logistic("mean") if train.num_outputs == 1 else cross_entropy("mean")
    fits = fit_features(features, train, test, loss, batches, steps, key, rates, _right)

    def validated(params: Any) -> Float[Array, ""]:
        return _right(features.apply(params, validation.x), validation.y)

    scores = jax.lax.map(validated, fits.params)
    best = best_rate(fits, scores)
    return best.test, best.train, jnp.argmax(scores)


def _kernel_accuracies(
    architecture: Architecture, train: Dataset, validation: Dataset, test: Dataset
) -> tuple[float, float, float]:
    """Accuracies in tests and training with the ridge that validation chooses, and this ridge."""
    if train.num_samples > _MOST_POINTS:
        return np.nan, np.nan, np.nan

    @jax.jit
    def solve(train: Dataset, validation: Dataset, test: Dataset) -> Float[Array, "r 3"]:
        everything = jnp.concatenate([train.x, validation.x, test.x])
        gram = infinite_kernels(architecture, everything, train.x, bias="normal").ntk
        parts = jnp.split(gram, np.cumsum([train.num_samples, validation.num_samples]))
        scale = jnp.trace(parts[0]) / train.num_samples

        def scores(ridge: Float[Array, ""]) -> Float[Array, " 3"]:
            shift = ridge * scale * jnp.eye(train.num_samples, dtype=gram.dtype)
            weights = cho_solve(cho_factor(parts[0] + shift), train.y)
            pairs = zip(parts, (train, validation, test), strict=True)
            return jnp.stack([_right(part @ weights, data.y) for part, data in pairs])

        return jax.lax.map(scores, jnp.asarray(RIDGES, gram.dtype))

    found = np.asarray(solve(train, validation, test))
    place = int(np.argmax(found[:, 1]))
    return float(found[place, 2]), float(found[place, 0]), RIDGES[place]


def _right(outputs: Float[Array, "n k"], targets: Float[Array, "n k"]) -> Float[Array, ""]:
    """The share of right answers; an output of 0 is half right, one that diverged is wrong."""
    finite = jnp.isfinite(outputs).all(axis=1, keepdims=True)
    if targets.shape[1] == 1:
        signs = jnp.where(finite, jnp.sign(outputs * targets), -1.0)
        return (1 + signs.mean()) / 2
    return 1 - zero_one("mean")(jnp.where(finite, outputs, -targets), targets)


def _interval(share: float, trials: int) -> Interval:
    """Of so many tests; what is half right counts as wrong."""
    if np.isnan(share):
        return Interval(np.nan, np.nan, np.nan)
    return clopper_pearson(round(2 * share * trials) // 2, trials)


def _parts(
    key: RandomKey, data: Any, sizes: tuple[int | None, ...], standardize: bool
) -> tuple[Dataset, Dataset, Dataset]:
    """Samples to train, to choose and to test, with flat inputs."""
    names = ("num_train", "num_validation", "num_test")
    asked = {name: size for name, size in zip(names, sizes, strict=True) if size is not None}
    _check_counts(**asked)
    if isinstance(data, tuple) and len(data) == 2:
        data = Dataset.from_table(*data, classes=None if np.ndim(data[1]) == 2 else True)
    if isinstance(data, Dataset):
        wanted = _sizes(sizes, data.num_samples)
        drawn = data.shuffled(key)
    elif callable(data):
        wanted = _sizes(sizes, _MOST_SAMPLES)
        drawn = data(key, sum(wanted))
    else:
        raise TypeError(
            "data must be a Dataset, the pair (X, y), or a law: key, number of samples ─► Dataset; "
            f"got {type(data).__name__}."
        )
    if not isinstance(drawn, Dataset) or drawn.num_samples < sum(wanted):
        given = f"{drawn.num_samples}" if isinstance(drawn, Dataset) else type(drawn).__name__
        raise ValueError(f"there must be {' + '.join(map(str, wanted))} samples, got {given}.")
    flat = drawn.flat().subset(slice(sum(wanted)))
    _check_targets(flat)
    train, rest = flat.split(wanted[0])
    validation, test = rest.split(wanted[1])
    if not standardize:
        return train, validation, test
    mean, spread = train.x.mean(axis=0, keepdims=True), train.x.std(axis=0, keepdims=True)
    width = jnp.where(spread > 0, spread, 1)

    def scaled(part: Dataset) -> Dataset:
        return replace(part, x=(part.x - mean) / width)

    return scaled(train), scaled(validation), scaled(test)


def _sizes(sizes: tuple[int | None, ...], available: int) -> list[int]:
    """Sizes as asked for; those that are not, 3 : 1 : 1 of what there is, or of 5000."""
    fifth = max(min(available, _MOST_SAMPLES) // 5, 1)
    defaults = (3 * fifth, fifth, fifth)
    return [d if size is None else size for size, d in zip(sizes, defaults, strict=True)]


def _check_targets(data: Dataset) -> None:
    """Refuse gaps in the inputs, and targets that are no classes."""
    if not bool(jnp.isfinite(data.x).all()):
        bad = int((~jnp.isfinite(data.x)).any(axis=1).sum())
        raise ValueError(f"inputs must be finite, got {bad} rows with gaps.")
    targets = np.asarray(data.y)
    one_hot = bool(np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all())
    if not (one_hot if data.num_outputs > 1 else np.isin(targets, (-1, 1)).all()):
        some = ", ".join(f"{value:g}" for value in np.unique(targets)[:4])
        raise ValueError(
            "targets must be -1 or 1, or one-hot rows of several classes (Dataset.from_table makes "
            f"them), got {data.num_outputs} columns with {some}."
        )


def _check_key(key: Any) -> None:
    if not isinstance(key, jax.Array) or not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise TypeError(f"key must be a key such as jax.random.key(0), got {type(key).__name__}.")


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")


def _spread(shares: Sequence[Interval]) -> Float[np.ndarray, "2 p"]:
    """How far the ends of intervals are from the estimates, for error bars."""
    return np.array([[p.estimate - p.low, p.high - p.estimate] for p in shares]).T


def _name(feature: Feature) -> str:
    """The sign of the bias, and the inputs that are at least half of the direction's largest."""
    direction = np.asarray(feature.direction)
    order = np.argsort(-np.abs(direction))[:_NAMED]
    large = [i for i in order if 2 * abs(direction[i]) >= abs(direction[order[0]])]
    words = " ".join(f"{'+' if direction[i] > 0 else '−'}x[{i}]" for i in large)
    return f"{words}\n{'b > 0' if feature.sign > 0 else 'b < 0'}"
