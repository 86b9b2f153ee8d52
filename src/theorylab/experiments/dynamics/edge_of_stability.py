"""Gradient descent sharpens a network until its step size is at the edge of stability.

The sharpness λ is the largest eigenvalue of the Hessian of the training loss. A step of size η is
safe while λ < 2/η. Full-batch gradient descent does not stay safe: sharpness rises, reaches 2/η,
and hovers just about it. From then on the loss goes up and down from step to step, yet down over
many steps: the edge of stability. With an η so small that sharpness never reaches 2/η, nothing of
this happens and the loss falls at every step.

Two networks show it, both with the loss ½·mean squared error: a tanh network with two hidden layers
that fits the Chebyshev polynomial T₅ on 20 points, at several η for the same time ηt; and a tanh
network with one hidden layer that tells 1000 images of handwritten digits apart.

Source: arora · edge-of-stability · Fig. 2.4; arora · sharpness · §2.6; arora · gd-descent ·
Lemma 2.1.4.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, holds, median_at_least, median_at_most, median_between
from theorylab.data import Dataset, chebyshev, image_set
from theorylab.data.downloads import image_shape, num_images
from theorylab.dynamics import Watched, descent_slack, watch
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.fields import Count, ImageSet, Positive, Seeded, Several, within
from theorylab.models import Model, Standard, mlp, network
from theorylab.progress import report
from theorylab.training import squared
from theorylab.typing import Measured, Params, RandomKey, Scalar

PRECISION = "float64"
BATCHED = (
    "learning_rates",
    "duration",
    "control_duration",
    "image_learning_rate",
    "image_steps",
    "seed",
)
FORMULA = r"\lambda_{\max}(\nabla^2 L(w_t)) \to 2 / \eta"

EDGE = Source("arora", "edge-of-stability", "Fig. 2.4")
LEMMA = Source("arora", "gd-descent", "Lemma 2.1.4")
SHARPNESS = Source("arora", "sharpness", "§2.6")

LOSS = squared("half_mean")
NUM_POINTS, DEGREE, CURVE_WIDTHS = 20, 5, (40, 40)
CONTROL_RATE = 0.008  # η too small to reach the edge
Records = Annotated[int, within(30)]  # ten in the last third
IMAGE_SCALE = 0.25  # weights begin as N(0, 0.25²/fan-in), so that sharpness begins well below 2/η


@dataclass(frozen=True)
class Config(Seeded):
    """Two networks trained by full-batch gradient descent while their sharpness is watched."""

    learning_rates: Several[Positive] = (0.1, 0.05, 0.025)  # η for the polynomial
    duration: Positive = 600.0  # the time ηt for which each of them trains
    control_duration: Positive = 500.0  # the time ηt for which the control trains
    num_records: Records = 120  # how often sharpness is measured on the way
    images: ImageSet = "digits"  # which images the second network learns
    num_images: Count = 1000  # how many of them
    image_widths: Several[Count] = (32,)  # its hidden layers
    image_learning_rate: Positive = 0.2  # its η
    image_steps: Count = 930  # its steps, about
    image_records: Records = 30  # how often its sharpness is measured
    num_lanczos: Count = 16  # Hessian–vector products for one sharpness
    num_seeds: Count = 6  # initialisations, at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_images > (most := num_images(self.images)):
            raise ValueError(f"num_images must be at most {most}, got {self.num_images}.")


PRESETS = {
    "smoke": Config(
        learning_rates=(0.1,),
        control_duration=200.0,
        num_records=60,
        num_images=200,
    ),
    "paper": Config(
        duration=2000.0,
        control_duration=2000.0,
        num_records=600,
        images="mnist5k",
        num_images=5000,
        image_widths=(200, 200),
        image_learning_rate=0.1,
        image_steps=4000,
        image_records=200,
        num_lanczos=40,
        num_seeds=10,
    ),
}


class Result(NamedTuple):
    """What was watched: axes (learning rates,) seeds, records."""

    steps: Int[Measured, "e t"]  # when the records were made
    control_steps: Int[Measured, " t"]
    image_steps: Int[Measured, " i"]
    curve: Watched  # e s t
    control: Watched  # s t
    images: Watched  # s i
    slack: Float[Measured, " s"]  # f(w) − (η/2)‖∇f‖² − f(w′), of the control's first step
    tight_slack: Float[Measured, " s"]  # f(w) − η‖∇f‖² − f(w′)


def memory(config: Config) -> int:
    """Bytes of the images' activations and of Lanczos' basis, for all seeds at once."""
    inputs = math.prod(image_shape(config.images))
    sizes = (inputs, *config.image_widths, 10)
    weights = sum(a * b for a, b in pairwise(sizes))
    activations = config.num_images * sum(sizes)
    return 8 * config.num_seeds * (12 * activations + (config.num_lanczos + 12) * weights)


def run(config: Config) -> Result:
    """Train and watch."""
    curve_key, image_key, order_key = jax.random.split(jax.random.key(config.seed), 3)
    curve_keys = jax.random.split(curve_key, config.num_seeds)
    image_keys = jax.random.split(image_key, config.num_seeds)

    polynomial = chebyshev(NUM_POINTS, DEGREE)
    train = _trainer(CURVE, config.num_records, config.num_lanczos)
    plan = [(rate, config.duration) for rate in config.learning_rates]
    plan.append((CONTROL_RATE, config.control_duration))
    num_steps = np.array([duration / rate for rate, duration in plan])
    runs = []
    for (rate, _), steps, done in zip(plan, num_steps, np.cumsum(num_steps), strict=True):
        report(f"polynomial, learning rate {rate:g}", 0.7 * (done - steps) / num_steps.sum())
        runs.append(train(curve_keys, rate, _odd(steps / config.num_records), polynomial))
    *curves, (control_steps, control) = runs

    report(f"{config.num_images} images", 0.7)
    images = image_set(config.images, "standard").shuffled(order_key)
    data = images.subset(slice(config.num_images)).flat()
    tanh = Tanh(config.image_widths, data.num_outputs, data.input_shape, IMAGE_SCALE)
    train = _trainer(tanh, config.image_records, config.num_lanczos)
    gap = _odd(config.image_steps / config.image_records)
    image_steps, images = train(image_keys, config.image_learning_rate, gap, data)
    slack, tight_slack = _slacks(polynomial, curve_keys)
    return Result(
        steps=jnp.stack([steps for steps, _ in curves]),
        control_steps=control_steps,
        image_steps=image_steps,
        curve=jax.tree.map(lambda *seen: jnp.stack(seen), *(seen for _, seen in curves)),
        control=control,
        images=images,
        slack=slack,
        tight_slack=tight_slack,
    )


def _objective(model: Model, data: Dataset) -> Callable[[Params], Float[Array, ""]]:
    return lambda params: LOSS(model.apply(params, data.x), data.y)


class Tanh(NamedTuple):
    """A tanh network, by its sizes: its programs are compiled once for all that are equal."""

    widths: tuple[int, ...]
    num_outputs: int
    inputs: tuple[int, ...]
    scale: float = 1.0

    @property
    def model(self) -> Model:
        """The network itself."""
        standard = Standard(weight_scale=self.scale)
        return network(
            mlp(self.widths, self.num_outputs, "tanh"), self.inputs, standard, bias="zero"
        )


CURVE = Tanh(CURVE_WIDTHS, 1, (1,))


@cache
def _trainer(
    tanh: Tanh, num_records: int, num_lanczos: int
) -> Callable[[Key[Array, " s"], float, int, Dataset], tuple[np.ndarray, Watched]]:
    """One program for all learning rates: (seeds, η, gap, data) ─► steps, what was watched."""
    model = tanh.model

    @jax.jit
    def train(keys: Key[Array, " s"], learning_rate: Scalar, gap: Int[Array, ""], data: Dataset):
        lanczos_key = jax.random.key(0)

        def one(key):
            objective, params = _objective(model, data), model.init(key)
            return watch(
                objective, params, learning_rate, num_records, gap, lanczos_key, num_lanczos
            )

        runs = jax.vmap(one)(keys)
        return runs.steps[0], runs.records

    return train


def _slacks(data: Dataset, keys: Key[Array, " s"]) -> tuple[Array, Array]:
    """By how much the control's first step gains more than (η/2)‖∇f‖², and than η‖∇f‖²."""
    # The lemma promises (η − η²L/2)‖∇f‖²: half of η‖∇f‖² for L = 1/η, all of it for L = 0.
    return _slack(data, keys, 1 / CONTROL_RATE), _slack(data, keys, 0.0)


@jax.jit
def _slack(data: Dataset, keys: Key[Array, " s"], smoothness: Scalar) -> Float[Array, " s"]:
    """The slack of the lemma at the control's first step, for every seed."""
    model = CURVE.model

    def one(key: RandomKey) -> Float[Array, ""]:
        return descent_slack(_objective(model, data), model.init(key), CONTROL_RATE, smoothness)

    return jax.vmap(one)(keys)


def _odd(gap: float) -> int:
    """The odd number at or above: at the edge sharpness alternates, and both sides must be seen."""
    return 2 * (int(gap) // 2) + 1


def _ratio(watched: Watched, learning_rate: float | np.ndarray) -> np.ndarray:
    """λη/2, which is 1 at the edge."""
    return watched.sharpness * learning_rate / 2


def _late(values: np.ndarray) -> np.ndarray:
    """The last third of the records."""
    return values[..., -(values.shape[-1] // 3) :]


def _curve_ratio(result: Result, config: Config) -> np.ndarray:
    return _ratio(result.curve, np.array(config.learning_rates)[:, None, None])


def _late_ratio(ratio: np.ndarray) -> np.ndarray:
    """Median of λη/2 over the last third."""
    return np.median(_late(ratio), axis=-1)


def _late_rises(watched: Watched) -> np.ndarray:
    """Share of the steps of the last third that raise the loss."""
    return _late(watched.rises).mean(axis=-1)


def _farthest(values: np.ndarray, middle: float) -> np.ndarray:
    """Of all learning rates, seed by seed, the number that is farthest from the middle."""
    place = np.abs(values - middle).argmax(axis=0)
    return np.take_along_axis(values, place[None], axis=0)[0]


def _fall(watched: Watched, ratio: np.ndarray) -> np.ndarray:
    """Last loss over the loss where the edge was crossed; NaN where it never was.

    The last loss is the mean of ten records, because at the edge it goes up and down.
    """
    loss, beyond = watched.loss, ratio > 1
    first = np.argmax(beyond, axis=-1)[..., None]
    crossing = np.take_along_axis(loss, first, axis=-1)[..., 0]
    last = loss[..., -10:].mean(axis=-1)
    return np.where(beyond.any(axis=-1), last / crossing, np.nan)


HOVER = "lab: on one run of each η the medians of λη/2 were 1.002, 1.021 and 1.016"
UPS = "lab: on one run of each η, 41 to 50 % of late steps raised the loss"
FALLS = "lab: on one run of each η the loss fell from 0.375 to 0.006 to 0.008"
RISES_TO = "the smoothness is observed to rise to"
UP_AND_DOWN = "one sees loss go up and down during iterations"
DOWNWARD = "with a long-term downward trend"
CLAIMS = (
    EDGE.found(
        "Sharpness begins below 2/η, at every learning rate and on images.",
        lambda r, c: median_at_most(
            np.maximum(
                _curve_ratio(r, c)[..., 0].max(axis=0),
                _ratio(r.images, c.image_learning_rate)[:, 0],
            ),
            1.0,
        ),
        formula=r"\lambda(0)\,\eta / 2 \le 1",
    ),
    EDGE.claim(
        "Sharpness rises to 2/η: its median over the last third is within −5 % and 20 % of it, at"
        " every η.",
        lambda r, c: median_between(_farthest(_late_ratio(_curve_ratio(r, c)), 1.075), 0.95, 1.2),
        formula=r"0.95 \le \lambda\eta / 2 \le 1.2",
        quote=RISES_TO,
        demand=HOVER,
    ),
    EDGE.claim(
        "It rises slightly beyond: at its highest it exceeds 2/η, at every η.",
        lambda r, c: median_at_least(_curve_ratio(r, c).max(axis=-1).min(axis=0), 1.0),
        quote="and slightly beyond (figure on right)",
        demand="source",
    ),
    EDGE.claim(
        "There the loss goes up and down: from one in five to three in five steps raise it, at"
        " every η.",
        lambda r, c: median_between(_farthest(_late_rises(r.curve), 0.4), 0.2, 0.6),
        quote=UP_AND_DOWN,
        demand=UPS,
    ),
    EDGE.claim(
        "Over many steps it falls: to less than half of what it was when the edge was crossed, at"
        " every η.",
        lambda r, c: median_at_most(_fall(r.curve, _curve_ratio(r, c)).max(axis=0), 0.5),
        quote=DOWNWARD,
        demand=FALLS,
    ),
    EDGE.claim(
        "Images: sharpness rises to 2/η and slightly beyond, over the last third.",
        lambda r, c: median_between(
            _late_ratio(_ratio(r.images, c.image_learning_rate)), 0.95, 1.2
        ),
        quote=RISES_TO,
        demand=HOVER,
    ),
    EDGE.claim(
        "Images: from one in five to three in five steps raise the loss.",
        lambda r, c: median_between(_late_rises(r.images), 0.2, 0.6),
        quote=UP_AND_DOWN,
        demand=UPS,
    ),
    EDGE.claim(
        "Images: over many steps the loss falls to less than half.",
        lambda r, c: median_at_most(_fall(r.images, _ratio(r.images, c.image_learning_rate)), 0.5),
        quote=DOWNWARD,
        demand=FALLS,
    ),
    EDGE.control(
        "With a small η sharpness stays below 2/η, and no step raises the loss.",
        lambda r, c: at_most(
            np.maximum(_ratio(r.control, CONTROL_RATE), 2 * (r.control.rises > 0)).max(), 1.0
        ),
    ),
    LEMMA.claim(
        "Where η < 1/L, a step lowers the loss by (η/2)‖∇f‖² at least: the first of the control.",
        lambda r, c: holds(r.slack),
        formula=r"f(w') \le f(w) - \tfrac{\eta}{2} \|\nabla f(w)\|^2",
        demand="source",
    ),
    LEMMA.control(
        "By twice as much it does not.",
        lambda r, c: median_at_most(r.tight_slack, 0.0),
    ),
    SHARPNESS.check(
        "What Lanczos calls sharpness is an eigenvalue, to 2 % of it.",
        lambda r, c: median_at_most(
            np.median(r.images.residual / r.images.sharpness, axis=-1), 0.02
        ),
        demand="lab: a tenth of the range in which sharpness is judged",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw loss and λη/2 over time, for the polynomial and for the images."""
    figure, (loss, ratio, image_loss, image_ratio) = panels(
        "polynomial: loss", "polynomial: λη/2", "images: loss", "images: λη/2"
    )
    rates = (*config.learning_rates, CONTROL_RATE)
    steps = (*result.steps, result.control_steps)
    runs = [Watched(*fields) for fields in zip(*result.curve, strict=True)] + [result.control]
    for index, (rate, step, watched) in enumerate(zip(rates, steps, runs, strict=True)):
        name = f"η = {rate:g}"
        curves(loss, rate * step, {name: watched.loss}, first_colour=index)
        curves(ratio, rate * step, {name: _ratio(watched, rate)}, first_colour=index)
    scaled = _ratio(result.images, config.image_learning_rate)
    curves(image_loss, result.image_steps, {"loss": result.images.loss})
    curves(image_ratio, result.image_steps, {"λη/2": scaled})
    for axis in (ratio, image_ratio):
        axis.axhline(1.0, **THEORY)
    label_axes(loss, "time ηt", logarithmic="y")
    label_axes(ratio, "time ηt")
    label_axes(image_loss, "step", logarithmic="y")
    label_axes(image_ratio, "step")
    return figure
