"""Training in three stages: features emerge in one step, improve in another, then are combined.

    θ ← κ_θ θ − η_θ ∇_θ L(g; σ_ξ)      for each block θ = w, b, a;   κ = 1 − 2ηλ

    1  emergence     η = γ²σ̃/(km³), κ_w = 0, κ_a = 1, σ_ξ = k^{−3/2}:   w = −η∇_w L
    2  improvement   η = 1,           κ_w = 0, κ_a = 0, σ_ξ = k^{−3/2}:   w = −∇_w L, a = −∇_a L
    3  classifier    SGD on all blocks, each with its own falling step size, σ_ξ = 0

L is the hinge loss, and λ the weight decay of λ‖θ‖² (without ½; none on b). κ is what a step keeps:
in the theory the start is forgotten, κ_w = 0. The first step is tiny, so that g stays near 0 and
every sample still has a gradient in the second. Theorem A.20 prints η with σ̃² and σ_ξ = k⁻², the
lemmas that prove it (A.12, A.17) the values above; `printed` chooses.

Classes of unequal size are weighted by 1/(2 Pr[y]) in the first two stages; here in all.

Source: shi · three-stage-training · §2.3.1, A.4, Theorem A.20; shi · general-dict · A.8.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.data import Dataset
from theorylab.training import Batches, Trajectory, sgd, with_learning_rates
from theorylab.training.trajectory import Measure, Steps
from theorylab.typing import RandomKey, Scalar

from ..fixed import falling_descent, weighted_hinge
from .network import TruncatedNeurons, outputs, smoothed_outputs

Printed = Literal["lemmas", "theorem"]
_CHUNK = 2000  # samples whose gradient is taken at once


class Stage(NamedTuple):
    """One step of gradient descent on all samples.

    Args:
        learning_rate: η, of all blocks.
        keep_weights: κ_w = 1 − 2ηλ_w.
        keep_outer: κ_a.
        noise: σ_ξ; 0 for none.
    """

    learning_rate: Scalar
    keep_weights: Scalar
    keep_outer: Scalar
    noise: Scalar


def emergence_stages(
    num_relevant: int,
    structure: float,
    scale: float,
    num_pairs: int,
    keep: float = 0.0,
    printed: Printed = "lemmas",
) -> tuple[Stage, Stage]:
    """The first two stages with the theory's sizes.

    Args:
        num_relevant: The number k of relevant patterns.
        structure: γ of the data.
        scale: σ̃ of the data.
        num_pairs: m, half the number of neurons.
        keep: κ_w of the first step; 0 forgets the start.
        printed: Whose values.

    Example:
        >>> first, second = emergence_stages(5, 0.25, 5.0, num_pairs=100)
        >>> first.learning_rate, second.learning_rate
        (6.25e-08, 1.0)
    """
    if num_pairs < 1:
        raise ValueError(f"num_pairs must be at least 1, got {num_pairs}.")
    if printed not in ("lemmas", "theorem"):
        raise ValueError(f"printed must be lemmas or theorem, got {printed!r}.")
    k, m = num_relevant, num_pairs
    power, noise = (1, k**-1.5) if printed == "lemmas" else (2, k**-2.0)
    rate = structure**2 * scale**power / (k * m**3)
    return Stage(rate, keep, 1.0, noise), Stage(1.0, 0.0, 0.0, noise)


def gradients(
    neurons: TruncatedNeurons,
    x: Float[Array, "n d"],
    y: Float[Array, "n 1"],
    noise: Scalar,
    class_weights: tuple[Scalar, Scalar] = (1.0, 1.0),
) -> TruncatedNeurons:
    """The gradient of the hinge loss on all samples, some at a time.

    Args:
        neurons: Where.
        x: Inputs.
        y: Labels ±1.
        noise: σ_ξ > 0.
        class_weights: Of y = −1 and of y = +1.

    Example:
        >>> one = TruncatedNeurons(jnp.ones((1, 1)), jnp.zeros(1), jnp.full(1, 0.5))
        >>> found = gradients(one, jnp.full((1, 1), 0.5), jnp.ones((1, 1)), noise=1e-3)
        >>> jnp.round(found.outer, 4).tolist(), jnp.round(found.weights, 4).tolist()
        ([-0.5], [[-0.25]])
    """
    minus, plus = class_weights

    def total(neurons: TruncatedNeurons, x: Array, y: Array, counts: Array) -> Float[Array, ""]:
        losses = jnp.maximum(1 - y * smoothed_outputs(neurons, x, noise), 0.0)
        return jnp.sum(losses * counts * jnp.where(y > 0, plus, minus))

    n, size = len(x), min(_CHUNK, len(x))
    missing = -n % size
    padded = [jnp.pad(part, ((0, missing), (0, 0))) for part in (x, y, jnp.ones_like(y))]
    chunks = [jnp.reshape(part, (-1, size, part.shape[1])) for part in padded]

    def add(sums: TruncatedNeurons, chunk: list[Array]) -> tuple[TruncatedNeurons, None]:
        return jax.tree.map(jnp.add, sums, jax.grad(total)(neurons, *chunk)), None

    sums, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, neurons), chunks)
    return jax.tree.map(lambda part: part / n, sums)


def step(neurons: TruncatedNeurons, gradient: TruncatedNeurons, stage: Stage) -> TruncatedNeurons:
    """θ ← κ_θ θ − η ∇_θ L.

    Example:
        >>> one = TruncatedNeurons(jnp.ones((1, 1)), jnp.zeros(1), jnp.ones(1))
        >>> moved = step(one, one, Stage(0.5, keep_weights=0.0, keep_outer=1.0, noise=0.1))
        >>> moved.weights.tolist(), moved.outer.tolist()
        ([[-0.5]], [0.5])
    """
    return TruncatedNeurons(
        stage.keep_weights * neurons.weights - stage.learning_rate * gradient.weights,
        neurons.biases - stage.learning_rate * gradient.biases,
        stage.keep_outer * neurons.outer - stage.learning_rate * gradient.outer,
    )


class Emergence(NamedTuple):
    """Neurons after the first and the second step, and the gradients that made them."""

    first: TruncatedNeurons
    second: TruncatedNeurons
    first_gradient: TruncatedNeurons
    second_gradient: TruncatedNeurons


def emerge(
    start: TruncatedNeurons,
    data: Dataset,
    stages: tuple[Stage, Stage],
    class_weights: tuple[Scalar, Scalar] = (1.0, 1.0),
) -> Emergence:
    """Take the first two steps, on all samples.

    Example:
        >>> from theorylab.features.emergence import Scales, unbiased_start
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> start = unbiased_start(jax.random.key(0), 5, 2, Scales(1.0, 1.0, 1.0))
        >>> stage = Stage(0.1, keep_weights=0.0, keep_outer=1.0, noise=0.1)
        >>> emerge(start, data, (stage, stage)).first_gradient.weights.shape
        (10, 2)
    """
    stacked = jax.tree.map(lambda *values: jnp.array(values, start.biases.dtype), *stages)

    def advance(
        neurons: TruncatedNeurons, stage: Stage
    ) -> tuple[TruncatedNeurons, tuple[TruncatedNeurons, TruncatedNeurons]]:
        gradient = gradients(neurons, data.x, data.y, stage.noise, class_weights)
        after = step(neurons, gradient, stage)
        return after, (after, gradient)

    _, (after, gradient) = jax.lax.scan(advance, start, stacked)

    def at(tree: TruncatedNeurons, place: int) -> TruncatedNeurons:
        return jax.tree.map(lambda leaf: leaf[place], tree)

    return Emergence(at(after, 0), at(after, 1), at(gradient, 0), at(gradient, 1))


def classifier_rates(num_pairs: int) -> tuple[float, float, float]:
    """Step sizes of w, b and a for the third stage.

    Found at m = 300, where equal rates for all blocks do not get beyond 92 %, and carried to other
    widths: with more neurons each has a smaller outer weight, and moves the output less. Rates that
    stay as they are do with 30 for a; since these fall to 0, 300 has learned the source's parity
    before half of its 600 steps, 30 at their end.

    Example:
        >>> classifier_rates(num_pairs=300)
        (0.01, 0.001, 300.0)
    """
    relative = num_pairs / 300
    return 1e-2 * relative, 1e-3 * relative, 300.0 / relative


def classify(
    neurons: TruncatedNeurons,
    data: Dataset,
    batch: Batches,
    steps: Steps,
    measure: Measure,
    rates: tuple[Scalar, Scalar, Scalar],
    key: RandomKey,
    class_weights: tuple[Scalar, Scalar] = (1.0, 1.0),
) -> Trajectory:
    """The third stage: SGD on all blocks, each with its own falling step size.

    Args:
        neurons: As the second step left them.
        data: Samples to train on.
        batch: How batches are drawn.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record about the neurons.
        rates: Step sizes of w, b and a at the beginning.
        key: Draws them.
        class_weights: Of y = −1 and of y = +1.

    Example:
        >>> from theorylab.features.emergence import Scales, unbiased_start
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> start = unbiased_start(jax.random.key(0), 5, 2, Scales(1.0, 1.0, 1.0))
        >>> rates, measure = (0.1, 0.1, 0.1), lambda neurons: outputs(neurons, data.x)[:, 0]
        >>> run = classify(start, data, Batches(2), [0, 9], measure, rates, jax.random.key(1))
        >>> run.records.shape
        (2, 2)
    """
    known = [rate for rate in rates if not isinstance(rate, Tracer)]
    if not all(rate >= 0 for rate in known):
        raise ValueError(f"rates must be at least 0, got {rates}.")
    falling = falling_descent(1.0, int(steps[-1]))
    optimizer = with_learning_rates(falling, TruncatedNeurons(*map(jnp.asarray, rates)))

    weighted = weighted_hinge(class_weights)

    def risk(neurons: TruncatedNeurons, x: Array, y: Array) -> Float[Array, ""]:
        return weighted(outputs(neurons, x), y)

    return sgd(risk, neurons, data, optimizer, batch, steps, measure, key)
