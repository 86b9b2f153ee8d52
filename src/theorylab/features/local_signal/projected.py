"""Algorithm 3.1 in three numbers: SGD on the filter, exact in law, with one draw for each patch.

Of the filter w only c = ⟨w, w*⟩, v = ‖w − c w*‖ and the bias b matter. The noise Xᵢ splits into its
part z along ŵ = w/‖w‖, which alone decides what passes the threshold, and the rest, which is
independent of it: given all z, what a batch adds to the gradient at right angles to ŵ is Gaussian,

    ∇_w L̂ = −(1/n) Σ ςₙ (Σᵢ qₙᵢ zₙᵢ) ŵ − (1/n) Σ ςₙ q* w* + τ ξ,      τ² = (σ²/n²) Σₙ ςₙ² Σᵢ qₙᵢ²,

with ςₙ = 1/(1 + e^{f}), qₙᵢ = φ_b′(‖w‖zₙᵢ) ∈ {0, 1, 2} the slope for a noise patch and q* for the
signal, and ξ a standard Gaussian at right angles to ŵ. One coordinate of ξ lies in the plane of w
and w*, the d − 2 others add to v as a length. Labels are 1, because (X, y) and (−X, −y) are alike.

Source: karp · lsa-data · 3.3; karp · lsa-synth · 3.4, B.3.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.data.patches import PatchLaw
from theorylab.training import Trajectory
from theorylab.training.trajectory import Steps, run_and_record
from theorylab.typing import RandomKey

from .network import Filter, FilterRates, small_filter, soft_threshold


class FilterState(NamedTuple):
    """What matters of a filter: c along the signal, v at right angles to it, the bias b."""

    signal: Float[Array, "..."]
    rest: Float[Array, "..."]
    bias: Float[Array, "..."]


def state_of(params: Filter, law: PatchLaw) -> FilterState:
    """c, v and b of a filter.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.5)
        >>> state = state_of(Filter(2 * law.signal, jnp.array(-1.0)), law)
        >>> [round(float(part), 6) for part in state]
        [2.0, 0.0, -1.0]
    """
    along = params.weights @ law.signal
    return FilterState(along, jnp.linalg.norm(params.weights - along * law.signal), params.bias)


def small_state(key: RandomKey, law: PatchLaw, radius: float = 1e-6) -> FilterState:
    """c, v and b = 0 of a filter in a random direction of small length.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.5)
        >>> state = small_state(jax.random.key(0), law, radius=0.5)
        >>> round(float(jnp.hypot(state.signal, state.rest)), 6)
        0.5
    """
    return state_of(small_filter(key, law.dimension, radius), law)


def signal_slopes(state: FilterState) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """q* = ∂φ_b(c)/∂c and ∂φ_b(c)/∂b of the signal patch.

    Example:
        >>> slopes = signal_slopes(FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(-0.5)))
        >>> [float(slope) for slope in slopes]
        [1.0, 1.0]
    """
    up = (state.signal + state.bias > 0).astype(float)
    down = (state.bias - state.signal > 0).astype(float)
    return up + down, up - down


class NoiseSums(NamedTuple):
    """Of the k noise patches of one sample: Σ φ_b, Σ q z/σ, Σ ∂φ_b/∂b and Σ q²."""

    output: Float[Array, " n"]
    along: Float[Array, " n"]
    bias: Float[Array, " n"]
    square: Float[Array, " n"]


def noise_sums(state: FilterState, law: PatchLaw, normal: Float[Array, "n k"]) -> NoiseSums:
    """The four sums over patches whose projections on ŵ are σ times these normal numbers.

    Example:
        >>> law = PatchLaw(num_patches=2, dimension=4, noise=1.0)
        >>> linear = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0))
        >>> noise_sums(linear, law, jnp.array([[1.0, 2.0]])).output.tolist()
        [3.0]
    """
    scale = (jnp.hypot(state.signal, state.rest) * law.noise).astype(normal.dtype)
    bias = state.bias.astype(normal.dtype)
    z = scale * normal
    output = soft_threshold(z, bias).sum(axis=1)
    up = (z > -bias).astype(z.dtype).sum(axis=1)
    down = (z < bias).astype(z.dtype).sum(axis=1)
    return NoiseSums(
        output=output,
        along=(output - bias * (up - down)) / scale,  # φ_b(z) = q z + b ∂φ_b/∂b
        bias=up - down,
        square=up + down + 2 * jnp.maximum(up + down - law.num_patches, 0),  # q = 2 if b > |z|
    )


def projected_step(
    key: RandomKey, state: FilterState, law: PatchLaw, rates: FilterRates, batch_size: int
) -> FilterState:
    """One step on a batch of fresh samples: the law of `descend_on_batch`, in three numbers.

    Args:
        key: Draws the batch.
        state: Before the step, not with c = v = 0.
        law: At least two inputs.
        rates: η and η_b.
        batch_size: Samples in the batch.

    Example:
        >>> law, rates = PatchLaw(num_patches=9, dimension=4, noise=0.1), FilterRates(1.0, 0.0)
        >>> start = FilterState(jnp.array(0.1), jnp.array(0.1), jnp.array(0.0))
        >>> bool(projected_step(jax.random.key(0), start, law, rates, 100).signal > start.signal)
        True
    """
    noise_key, plane_key, rest_key = jax.random.split(key, 3)
    # Single precision is plenty for noise, and half the time.
    normal = jax.random.normal(noise_key, (batch_size, law.num_patches), dtype=jnp.float32)
    sums = noise_sums(state, law, normal)
    c, v, b = state
    slope, bias_slope = signal_slopes(state)
    pull = jax.nn.sigmoid(-(sums.output.astype(c.dtype) + soft_threshold(c, b)))  # ς
    along = -law.noise * jnp.mean(pull * sums.along)
    signal = -slope * jnp.mean(pull)
    across = law.noise * jnp.sqrt(jnp.sum(pull**2 * sums.square)) / batch_size  # τ
    plane = across * jax.random.normal(plane_key, dtype=c.dtype)
    others = across * jax.random.normal(rest_key, (law.dimension - 2,), dtype=c.dtype)
    length = jnp.hypot(c, v)
    cosine, sine = c / length, v / length
    moved = v - rates.weights * (along * sine - plane * cosine)
    return FilterState(
        signal=c - rates.weights * (along * cosine + plane * sine + signal),
        rest=jnp.sqrt(moved**2 + rates.weights**2 * jnp.sum(others**2)),
        bias=b + rates.bias * jnp.mean(pull * (sums.bias + bias_slope)),
    )


def learn_projected(
    key: RandomKey,
    start: FilterState,
    law: PatchLaw,
    rates: FilterRates,
    batch_size: int,
    steps: Steps,
) -> Trajectory:
    """Algorithm 3.1, with a batch of fresh samples in every step; records the state.

    Args:
        key: Draws the batches.
        start: Such as `small_state`.
        law: At least two inputs.
        rates: η and η_b.
        batch_size: Samples in a batch.
        steps: Increasing numbers of steps after which to record.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.1)
        >>> start = FilterState(jnp.array(0.1), jnp.array(0.1), jnp.array(0.0))
        >>> task = (start, law, FilterRates(1.0, 0.0), 100, [0, 10])
        >>> states = learn_projected(jax.random.key(0), *task).records
        >>> bool(states.signal[1] > states.signal[0])
        True
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    if law.dimension < 2:
        raise ValueError(f"dimension must be at least 2, got {law.dimension}.")

    def advance(state: FilterState, step: Array) -> FilterState:
        return projected_step(jax.random.fold_in(key, step), state, law, rates, batch_size)

    return run_and_record(advance, start, steps, lambda state: state, lambda state: state)
