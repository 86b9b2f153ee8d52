"""Relabelling: one function on inputs with and without structure, by a teacher that labels both.

Whether it is the inputs or the labels that make real data easy cannot be seen on real data alone.
So a teacher is trained on labelled inputs 𝓛, with a regulariser on others 𝓤 that have no labels,

    R = Σⱼ f̄ⱼ ln f̄ⱼ − λ mean_i Σⱼ f(xᵢ)ⱼ ln f(xᵢ)ⱼ,   f̄ = mean_i f(xᵢ)

(f are class probabilities: the first term wants all classes to occur on 𝓤, the second wants each
answer to be sure). It then labels 𝓛 and 𝓤, and students learn from both: the same function, the
same network, other inputs. The loss of a step is, on B inputs of each part,

    CE(𝓛) + ω CE(𝓤) + ρ R(𝓤)        teacher: ω = 0;   student: ω = 1, ρ = 0;   𝓛 only: ω = ρ = 0

so that one program trains them all. The network is f(x) = softmax(V (Wx + b)²/√m + c), one layer of
quadratic neurons; of those that are there, the first m take part, so that m is a number, too.

(The source names its regulariser's first term an entropy; it is minus one, and is minimised.)

Source: shi · input-structure-ts · A.7.5, Algorithm 3.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from theorylab.data import image_set
from theorylab.data.backgrounds import downsample
from theorylab.data.downloads import image_shape, num_images
from theorylab.fields import Count, Increasing, Positive, Seeded
from theorylab.typing import RandomKey, Scalar

_TINY = 1e-12  # in logarithms of probabilities that may be 0


@dataclass(frozen=True)
class Relabelling(Seeded):
    """Images, and how teachers and students of several sizes learn."""

    images: Literal["digits", "mnist5k", "mnist"] = "mnist5k"
    shrink: Count = 2  # the side of the square that becomes one pixel
    num_test: Count = 500  # of each part
    sizes: Increasing[Count] = (3, 9, 20, 50)  # neurons of teachers and students
    num_steps: Count = 1500
    batch_size: Count = 64  # of each part
    learning_rate: Positive = 0.005  # of Adam, falling to 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes[-1] > 10**4:
            raise ValueError(f"sizes must be at most 10⁴, got {self.sizes}.")
        if self.pixels == 0:
            raise ValueError(f"shrink must leave pixels of the images, got {self.shrink}.")

    @property
    def keys(self) -> Key[Array, " seeds"]:
        """One for every seed."""
        return jax.random.split(jax.random.key(self.seed), self.num_seeds)

    @property
    def pixels(self) -> int:
        """Of an image."""
        return (image_shape(self.images)[0] // self.shrink) ** 2

    def bytes_of(self, num_samples: int, num_networks: int) -> int:
        """Memory of all images, and of inputs, hidden neurons and networks of two seeds."""
        weights = num_networks * self.sizes[-1]
        drawn = 2 * 2 * self.num_steps * self.batch_size
        parts = 16 * (num_samples + weights) * (self.pixels + self.sizes[-1])
        kept = 10 * self.num_seeds * num_networks * len(self.sizes)
        return 4 * (3 * num_images(self.images) * self.pixels + parts + drawn + kept)


class Quadratic(NamedTuple):
    """A layer of quadratic neurons, and a linear one."""

    weights: Float[Array, "d m"]
    biases: Float[Array, " m"]
    outer: Float[Array, "m k"]
    offsets: Float[Array, " k"]


class Part(NamedTuple):
    """Inputs and the probabilities of their classes; one of the two parts of a mixture."""

    x: Float[Array, "n d"]
    y: Float[Array, "n k"]


class Roles(NamedTuple):
    """What makes a run a teacher or a student.

    Args:
        size: m, how many neurons take part.
        imitation: ω, the weight of the labels of 𝓤.
        regularization: ρ, the weight of the regulariser on 𝓤.
        sureness: λ inside of it.
    """

    size: Scalar
    imitation: Scalar = 0.0
    regularization: Scalar = 0.0
    sureness: Scalar = 1.0


class Course(NamedTuple):
    """The network at the end, and at every recorded step the accuracies on both test parts."""

    network: Quadratic
    labelled: Float[Array, " t"]
    unlabelled: Float[Array, " t"]
    loss: Float[Array, ""]  # CE on the labelled test part, at the end


def read_images(name: str, shrink: int) -> Part:
    """Images as vectors of mean square 1, with their labels."""
    data = image_set(name, "standard")
    x = jnp.reshape(downsample(data.x, shrink), (data.num_samples, -1))
    return Part(x / jnp.sqrt(jnp.mean(x**2)), data.y)


def quadratic_start(
    key: RandomKey, dimension: int, num_neurons: int, num_classes: int
) -> Quadratic:
    """Draw weights of variance 1/d and 1, and biases 0."""
    if min(dimension, num_neurons, num_classes) < 1:
        raise ValueError(
            "dimension, num_neurons and num_classes must be at least 1, "
            f"got {dimension}, {num_neurons} and {num_classes}."
        )
    inner, outer = jax.random.split(key)
    return Quadratic(
        jax.random.normal(inner, (dimension, num_neurons)) / dimension**0.5,
        jnp.zeros(num_neurons),
        jax.random.normal(outer, (num_neurons, num_classes)),
        jnp.zeros(num_classes),
    )


def logits(network: Quadratic, x: Float[Array, "n d"], size: Scalar) -> Float[Array, "n k"]:
    """V (Wx + b)²/√m + c, with the first m neurons."""
    there = jnp.arange(network.biases.shape[0]) < size
    hidden = (x @ network.weights + network.biases[None, :]) ** 2 * there[None, :]
    return hidden @ network.outer / jnp.sqrt(size) + network.offsets[None, :]


def label_regularizer(probabilities: Float[Array, "n k"], sureness: Scalar) -> Float[Array, ""]:
    """R: small if all classes occur alike, and every answer is sure.

    Example:
        >>> sure = jnp.eye(2)  # each class once
        >>> round(float(label_regularizer(sure, 1.0)), 4)  # −ln 2, the least
        -0.6931
    """
    mean = probabilities.mean(axis=0)
    spread = jnp.sum(mean * jnp.log(mean + _TINY))
    unsure = -jnp.sum(probabilities * jnp.log(probabilities + _TINY), axis=1).mean()
    return spread + sureness * unsure


def label_entropy(classes: Float[Array, "n k"]) -> Float[Array, ""]:
    """The entropy of the classes' shares over its largest value ln k: 1 if all occur alike."""
    shares = classes.mean(axis=0)
    return -jnp.sum(shares * jnp.log(shares + _TINY)) / jnp.log(shares.shape[0])


def relabelled(network: Quadratic, x: Float[Array, "n d"], size: Scalar) -> Part:
    """Inputs with the class that a teacher gives them, one-hot."""
    answers = logits(network, x, size)
    return Part(x, jax.nn.one_hot(jnp.argmax(answers, axis=1), answers.shape[1], dtype=x.dtype))


def matched_gaussians(
    key: RandomKey, images: Float[Array, "n d"], num_samples: int
) -> Float[Array, "m d"]:
    """Independent pixels, each with the mean and the variance that it has in images."""
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}.")
    noise = jax.random.normal(key, (num_samples, images.shape[1]))
    return images.mean(axis=0)[None, :] + images.std(axis=0)[None, :] * noise


def smoothed(curves: Float[Array, "*c m"]) -> Float[Array, "*c m"]:
    """The mean of each point, counted twice, and its neighbours, of which the ends have one.

    Example:
        >>> smoothed(jnp.array([3.0, 0.0, 1.0, 4.0])).tolist()
        [2.0, 1.0, 1.5, 3.0]
    """
    before, after = curves[..., :-1], curves[..., 1:]
    total = (2 * curves).at[..., 1:].add(before).at[..., :-1].add(after)
    counts = jnp.full(curves.shape[-1], 4.0).at[jnp.array([0, -1])].set(3.0)
    return total / jnp.broadcast_to(counts, curves.shape)


def first_minimum(curves: Float[Array, "*c m"]) -> Int[Array, "*c"]:
    """Where a smoothed curve rises for the first time, as classical test losses do over sizes.

    A second descent may go lower. A curve that does not rise has its minimum at the end.

    Example:
        >>> int(first_minimum(jnp.array([9.0, 5.0, 4.0, 5.0, 6.0, 2.0, 1.0])))
        2
    """
    rises = jnp.diff(smoothed(curves)) > 0
    end = jnp.ones((*rises.shape[:-1], 1), bool)
    return jnp.argmax(jnp.concatenate([rises, end], axis=-1), axis=-1)


def learn(
    key: RandomKey,
    start: Quadratic,
    train: tuple[Part, Part],
    test: tuple[Part, Part],
    roles: Roles,
    num_records: int,
    num_steps: int,
    batch_size: int,
    learning_rate: float,
) -> Course:
    """Train a teacher or a student with Adam, its rate falling to 0.

    Args:
        key: Draws batches, with replacement.
        start: The network.
        train: 𝓛 and 𝓤, with labels (those of 𝓤 are not used if ω = 0).
        test: The same to be tested on.
        roles: Size and weights of the loss.
        num_records: How often to test, at equal distances.
        num_steps: Of training, in all; a multiple of it.
        batch_size: B, of each part.
        learning_rate: Of Adam at the beginning.
    """
    if num_records < 1 or num_steps % num_records:
        raise ValueError(f"num_steps must be a multiple of {num_records}, got {num_steps}.")
    (known, other), (known_test, other_test) = train, test
    optimizer = optax.adam(optax.linear_schedule(learning_rate, 0.0, num_steps))

    def loss(network: Quadratic, drawn: tuple[Array, Array]) -> Float[Array, ""]:
        first, second = drawn
        x = jnp.concatenate([known.x[first], other.x[second]])
        scores = jax.nn.log_softmax(logits(network, x, roles.size))
        of_known, of_other = scores[:batch_size], scores[batch_size:]
        total = _crossed(of_known, known.y[first])
        total = total + roles.imitation * _crossed(of_other, other.y[second])
        regular = label_regularizer(jnp.exp(of_other), roles.sureness)
        return total + roles.regularization * regular

    def advance(state: tuple, drawn: tuple[Array, Array]) -> tuple[tuple, None]:
        network, memory = state
        change, memory = optimizer.update(jax.grad(loss)(network, drawn), memory)
        return (optax.apply_updates(network, change), memory), None

    def record(state: tuple, drawn: tuple[Array, Array]) -> tuple[tuple, tuple[Array, Array]]:
        state, _ = jax.lax.scan(advance, state, drawn)
        right = [_accuracy(state[0], part, roles.size) for part in (known_test, other_test)]
        return state, (right[0], right[1])

    first, second = jax.random.split(key)
    size = (num_records, num_steps // num_records, batch_size)
    drawn = (
        jax.random.randint(first, size, 0, known.x.shape[0]),
        jax.random.randint(second, size, 0, other.x.shape[0]),
    )
    state, (labelled, unlabelled) = jax.lax.scan(record, (start, optimizer.init(start)), drawn)
    scores = jax.nn.log_softmax(logits(state[0], known_test.x, roles.size))
    return Course(state[0], labelled, unlabelled, _crossed(scores, known_test.y))


def _crossed(scores: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, ""]:
    return -jnp.sum(scores * y, axis=1).mean()


def _accuracy(network: Quadratic, part: Part, size: Scalar) -> Float[Array, ""]:
    right = jnp.argmax(logits(network, part.x, size), axis=1) == jnp.argmax(part.y, axis=1)
    return right.mean()
