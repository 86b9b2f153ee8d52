"""The two-layer ReLU network of the gradient feature framework, and its online training.

    g(x) = Σᵢ aᵢ σ(⟨wᵢ, x⟩ − bᵢ),   σ = max(0, ·),   the biases b are never trained

Four-fold symmetric start, i ≤ m: aᵢ ~ N(0, σ_a²), wᵢ ~ N(0, σ_w² I), bᵢ = b̃; then (−a, −w, −b);
then both halves again with (−a, w, b). So g ≡ 0 at the start, and with the loss ℓ(y g(x))

    w⁽¹⁾ = −η⁽¹⁾ ℓ'(0) a⁽⁰⁾ G(w⁽⁰⁾, b),   G(w, b) = E[y x 1[⟨w, x⟩ > b]]   if λ⁽¹⁾ = 1/η⁽¹⁾,

because the penalty (λ/2)(‖W‖² + ‖a‖²) with η⁽¹⁾λ⁽¹⁾ = 1 forgets the start. (Chapter 2 of the source
writes the penalty without the ½, and forgets with 2ηλ = 1.)

    Algorithm 1    every step draws a fresh sample, and descends in (a, W) at once   `train`
    Algorithm 5    the same with the exact risk of a law of finitely many points     `train_exactly`

A loss is 1-Lipschitz, convex and decreasing in the margin, with ℓ(0) = 1. (The logistic loss has
ℓ(0) = ln 2, although the source lists it; here it is divided by ln 2.)

Source: shi · gfl-net · §3.3, Eq. 3.9, Algorithms 1 and 5.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.data import Dataset
from theorylab.training import Trajectory, zero_one
from theorylab.training.trajectory import Measure, Steps, run_and_record
from theorylab.typing import RandomKey, Scalar

from ..blocks import sum_over_blocks

LossName = Literal["hinge", "logistic"]
DataSampler = Callable[[RandomKey, int], Dataset]  # a law: key, number of samples ─► samples

_TOGETHER = 2**27  # entries of an (n, m) array that may be made at once,
_IN_TURN = 2**25  # and of those made in turn where it would have more
_SLOPES = {"hinge": 1.0, "logistic": 1 / (2 * math.log(2))}


class ReluNetwork(NamedTuple):
    """The parameters Ξ = (a, W, b)."""

    outputs: Float[Array, " m"]  # a
    weights: Float[Array, "m d"]  # W, one row for each neuron
    biases: Float[Array, " m"]  # b

    @jax.jit
    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """g(x) = Σᵢ aᵢ σ(⟨wᵢ, x⟩ − bᵢ)."""
        return self.hidden(x) @ self.outputs

    @jax.jit
    def hidden(self, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """σ(⟨wᵢ, x⟩ − bᵢ)."""
        return jax.nn.relu(x @ self.weights.T - self.biases[None, :])


class OnlineSchedule(NamedTuple):
    """Step sizes for a and for W, and the penalty λ, for each step."""

    output_rates: Float[Array, " t"]
    weight_rates: Float[Array, " t"]
    penalties: Float[Array, " t"]


class OnlineRecipe(NamedTuple):
    """How a network learns online, in units in which b̃ = σ_a = 1."""

    width: int  # m, a quarter of the neurons
    num_samples: int  # n, in each step
    first_rate: Scalar  # η⁽¹⁾; ‖w⁽¹⁾‖ is about η⁽¹⁾‖G‖
    rate: Scalar  # η of all later steps


class FiniteLaw(NamedTuple):
    """A law of finitely many points (x, y) with probabilities; of a dataset, 1/n each."""

    x: Float[Array, "n d"]
    y: Float[Array, " n"]
    probabilities: Float[Array, " n"]


def empirical_law(data: Dataset) -> FiniteLaw:
    """The law of a sample: each of its n points with probability 1/n.

    Args:
        data: The points, with labels y (n, 1).

    Example:
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> empirical_law(data).probabilities.tolist()
        [0.5, 0.5]
    """
    n = data.num_samples
    return FiniteLaw(data.x, data.y[:, 0], jnp.full(n, 1 / n))


def symmetric_network(
    key: RandomKey,
    width: int,
    dimension: int,
    bias: Scalar,
    weight_scale: Scalar = 1.0,
    output_scale: Scalar = 1.0,
) -> ReluNetwork:
    """The four-fold symmetric start with 4m neurons, whose output is zero everywhere.

    Args:
        key: Draws the first m neurons.
        width: m.
        dimension: d.
        bias: b̃ > 0.
        weight_scale: σ_w.
        output_scale: σ_a.

    Example:
        >>> start = symmetric_network(jax.random.key(0), width=2, dimension=3, bias=1.0)
        >>> start.biases.tolist()
        [1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0]
    """
    for name, value in (("width", width), ("dimension", dimension)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    output_key, weight_key = jax.random.split(key)
    a = output_scale * jax.random.normal(output_key, (width,))
    w = weight_scale * jax.random.normal(weight_key, (width, dimension))
    b = jnp.full((width,), bias, dtype=w.dtype)
    return symmetrized(ReluNetwork(a, w, b))


def symmetrized(network: ReluNetwork) -> ReluNetwork:
    """Four neurons for each: (a, w, b), (−a, −w, −b), (−a, w, b), (a, −w, −b); the output is 0.

    Example:
        >>> one = ReluNetwork(jnp.ones(1), jnp.ones((1, 2)), jnp.ones(1))
        >>> symmetrized(one).outputs.tolist()
        [1.0, -1.0, -1.0, 1.0]
    """
    a, w, b = network
    w, b = jnp.concatenate([w, -w]), jnp.concatenate([b, -b])
    return ReluNetwork(
        jnp.concatenate([a, -a, -a, a]), jnp.concatenate([w, w]), jnp.concatenate([b, b])
    )


def forgetting_schedule(first_rate: Scalar, rate: Scalar, num_steps: int) -> OnlineSchedule:
    """η⁽¹⁾ with λ⁽¹⁾ = 1/η⁽¹⁾, then η without a penalty.

    Args:
        first_rate: η⁽¹⁾.
        rate: η of all later steps.
        num_steps: T, with the first step.

    Example:
        >>> [rates.tolist() for rates in forgetting_schedule(2.0, 0.5, num_steps=3)]
        [[2.0, 0.5, 0.5], [2.0, 0.5, 0.5], [0.5, 0.0, 0.0]]
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    if isinstance(first_rate, float | int) and not 0 < first_rate < math.inf:
        raise ValueError(f"first_rate must be positive and finite, got {first_rate}.")
    first = jnp.arange(num_steps) == 0
    rates = jnp.where(first, first_rate, rate).astype(float)
    return OnlineSchedule(rates, rates, jnp.where(first, 1 / first_rate, 0.0).astype(float))


def train(
    key: RandomKey,
    start: ReluNetwork,
    sampler: DataSampler,
    num_samples: int,
    schedule: OnlineSchedule,
    steps: Steps,
    measure: Measure,
    loss: LossName = "hinge",
    block_size: int | None = None,
) -> Trajectory:
    """Algorithm 1: every step on a fresh sample; compile it with `jax.jit` or `ensemble`.

    Args:
        key: Draws the samples.
        start: Ξ⁽⁰⁾, such as `symmetric_network(…)`.
        sampler: The law, such as `xor_mixture(64).sample`.
        num_samples: n, in each step.
        schedule: Step sizes and penalties, such as `forgetting_schedule(…)`.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record: network ─► any pytree of arrays.
        loss: "hinge", or "logistic" (divided by ln 2).
        block_size: How many samples of a step to take at a time; by default all.

    Example:
        >>> from theorylab.data.mixtures import xor_mixture
        >>> law, start = xor_mixture(16), symmetric_network(jax.random.key(0), 8, 16, bias=1.0)
        >>> once = forgetting_schedule(1.0, 0.1, num_steps=1)
        >>> measure = lambda network: network.biases
        >>> trained = train(jax.random.key(2), start, law.sample, 50, once, [0, 1], measure)
        >>> trained.records.shape, trained.params.weights.shape
        ((2, 32), (32, 16))
    """
    _check_loss(loss)

    def advance(network: ReluNetwork, step: Int[Array, ""]) -> ReluNetwork:
        drawn = sampler(jax.random.fold_in(key, step), num_samples)
        return gradient_step(network, empirical_law(drawn), schedule, step, loss, block_size)

    return run_and_record(advance, start, steps, measure, params_of=lambda network: network)


def learn_online(
    key: RandomKey,
    sampler: DataSampler,
    dimension: int,
    bias_ratio: Scalar,
    recipe: OnlineRecipe,
    steps: Steps,
    measure: Measure,
) -> Trajectory:
    """Algorithm 1 from a symmetric start, in units in which b̃ = σ_a = 1.

    G depends on w and b only through b/‖w‖, so that the ratio b̃/σ_w is all that matters to it.

    Args:
        key: Draws the start and the samples.
        sampler: The law.
        dimension: d.
        bias_ratio: b̃/σ_w, such as of a `TheoremCase`.
        recipe: Width, samples, and step sizes.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record: network ─► any pytree of arrays.

    Example:
        >>> from theorylab.data.mixtures import xor_mixture
        >>> law, recipe = xor_mixture(16), OnlineRecipe(8, 50, first_rate=1.0, rate=0.1)
        >>> test = law.sample(jax.random.key(0), 100)
        >>> steps, measure = [0, 40], lambda network: error_rate(network, test)
        >>> learned = learn_online(jax.random.key(1), law.sample, 16, 4.0, recipe, steps, measure)
        >>> bool(learned.records[1] < learned.records[0])
        True
    """
    start_key, sample_key = jax.random.split(key)
    start = symmetric_network(start_key, recipe.width, dimension, 1.0, 1 / bias_ratio)
    schedule = forgetting_schedule(recipe.first_rate, recipe.rate, int(steps[-1]) or 1)
    return train(sample_key, start, sampler, recipe.num_samples, schedule, steps, measure)


def train_exactly(
    start: ReluNetwork,
    law: FiniteLaw,
    schedule: OnlineSchedule,
    steps: Steps,
    measure: Measure,
    loss: LossName = "hinge",
) -> Trajectory:
    """Algorithm 5: every step on the risk of a law of finitely many points (or on a dataset).

    Args:
        start: Ξ⁽⁰⁾.
        law: The points and their probabilities.
        schedule: Step sizes and penalties.
        steps: The increasing numbers of steps after which to measure; the last ends the run.
        measure: What to record: network ─► any pytree of arrays.
        loss: "hinge", or "logistic" (divided by ln 2).

    Example:
        >>> law = FiniteLaw(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]))
        >>> start = symmetric_network(jax.random.key(0), 4, 2, bias=0.5)
        >>> schedule = forgetting_schedule(1.0, 0.5, num_steps=20)
        >>> losses = train_exactly(start, law, schedule, [0, 20], lambda g: risk(g, law)).records
        >>> float(losses[0]), bool(losses[1] < 0.5)
        (1.0, True)
    """
    _check_loss(loss)

    def advance(network: ReluNetwork, step: Int[Array, ""]) -> ReluNetwork:
        return gradient_step(network, law, schedule, step, loss)

    return run_and_record(advance, start, steps, measure, params_of=lambda network: network)


def gradient_step(
    network: ReluNetwork,
    law: FiniteLaw,
    schedule: OnlineSchedule,
    step: Int[Array, ""] | int,
    loss: LossName = "hinge",
    block_size: int | None = None,
) -> ReluNetwork:
    """One step of both layers at once: θ ← (1 − ηλ) θ − η ∇L(θ).

    Args:
        network: Ξ.
        law: The points on which the risk is taken.
        schedule: Step sizes and penalties.
        step: The number of the step; the first is 0.
        loss: "hinge", or "logistic" (divided by ln 2).
        block_size: How many points to take at a time; by default all. What it changes is rounding.

    Example:
        >>> law = FiniteLaw(jnp.ones((1, 1)), jnp.ones(1), jnp.ones(1))
        >>> network = ReluNetwork(jnp.ones(1), jnp.array([[0.5]]), jnp.zeros(1))
        >>> moved = gradient_step(network, law, forgetting_schedule(0.1, 0.1, num_steps=1), 0)
        >>> round(float(moved.outputs[0]), 6), round(float(moved.weights[0, 0]), 6)
        (0.05, 0.1)
    """
    gradient = _slopes(network, law, loss, block_size)
    rates = (schedule.output_rates[step], schedule.weight_rates[step])
    penalty = schedule.penalties[step]

    def moved(value: Array, slope: Array, rate: Array) -> Array:
        return (1 - rate * penalty) * value - rate * slope

    return ReluNetwork(
        moved(network.outputs, gradient.outputs, rates[0]),
        moved(network.weights, gradient.weights, rates[1]),
        network.biases,
    )


def _slopes(
    network: ReluNetwork, law: FiniteLaw, loss: LossName, block_size: int | None
) -> ReluNetwork:
    """∇L(Ξ), summed over blocks of points if there are more of them than one block takes."""
    if block_size is None or len(law.x) <= block_size:
        return jax.grad(risk)(network, law, loss)
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")

    def of_block(points: FiniteLaw, counted: Bool[Array, " b"]) -> ReluNetwork:
        probabilities = jnp.where(counted, points.probabilities, 0)
        return jax.grad(risk)(network, points._replace(probabilities=probabilities), loss)

    return sum_over_blocks(of_block, law, block_size)


def risk(network: ReluNetwork, law: FiniteLaw, loss: LossName = "hinge") -> Float[Array, ""]:
    """L(Ξ) = E ℓ(y g(x)), without the penalty; points are answered in turn if there are many.

    Args:
        network: Ξ.
        law: The points and their probabilities.
        loss: "hinge", or "logistic" (divided by ln 2).

    Example:
        >>> law = FiniteLaw(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]))
        >>> network = ReluNetwork(jnp.ones(1), jnp.ones((1, 2)), jnp.zeros(1))
        >>> float(risk(network, law))
        1.0
    """
    return law.probabilities @ margin_loss(law.y * _outputs(network, law.x), loss)


def _outputs(network: ReluNetwork, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """g(x), of many points in turn; so are its derivatives."""
    width = len(network.outputs)
    if len(x) * width <= _TOGETHER:
        return network(x)
    one = jax.checkpoint(lambda point: network(point[None, :])[0])
    return jax.lax.map(one, x, batch_size=max(_IN_TURN // width, 1))


def error_rate(network: ReluNetwork, data: Dataset) -> Float[Array, ""]:
    """The share of samples with y g(x) ≤ 0.

    Example:
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> network = ReluNetwork(jnp.ones(1), jnp.ones((1, 2)), jnp.zeros(1))
        >>> float(error_rate(network, data))
        0.5
    """
    return zero_one("mean")(network(data.x)[:, None], data.y)


def margin_loss(margins: Float[Array, " n"], loss: LossName = "hinge") -> Float[Array, " n"]:
    """ℓ of margins: max(0, 1 − z), or ln(1 + e⁻ᶻ)/ln 2.

    Example:
        >>> margin_loss(jnp.array([0.0, 2.0])).tolist()
        [1.0, 0.0]
    """
    _check_loss(loss)
    if loss == "hinge":
        return jax.nn.relu(1 - margins)
    return jax.nn.softplus(-margins) / math.log(2)


def loss_slope(loss: LossName = "hinge") -> float:
    """|ℓ'(0)|: 1, or 1/(2 ln 2).

    Example:
        >>> loss_slope("hinge"), round(loss_slope("logistic"), 4)
        (1.0, 0.7213)
    """
    _check_loss(loss)
    return _SLOPES[loss]


def _check_loss(loss: str) -> None:
    if loss not in get_args(LossName):
        raise ValueError(f"loss must be hinge or logistic, got {loss!r}.")
