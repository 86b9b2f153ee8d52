"""Block parities: an exact network, the neurons that see one block, and what fixed features cannot.

The network

    g*(x) = Σⱼ Σ_{i=0}^k (−1)^{i+1} √k [σ(zⱼ − s⁻) − 2σ(zⱼ − s) + σ(zⱼ − s⁺)]

with zⱼ = ⟨Dⱼ, x⟩, s = (2i−k)/√k and s^± = s ± 1/√k, has a bump of height ±1 for every number i of
+1 in a block: it is the sum of the r parities, so y g*(x) ≥ 1 and its hinge loss is 0, with 3r(k+1)
neurons on r directions.

A neuron is sure of block j if Σ_{Aⱼ} w_l ≥ 3b/2 with b far above the background's deviation
√(2p_o(d − kr)): it is active on X_{j,+} and hardly ever otherwise, so its gradient is p_A on Aⱼ and
about 0 elsewhere. With b → −∞ a neuron is always active, and its gradient is E[yx] = 2p_A on all
blocks; (the source takes E[yx] to be 0).

Models f = ⟨θ, ψ(x)⟩ with N fixed features, |ψᵢ| ≤ 1 and ‖θ‖ ≤ B, cannot do it: with M = I, r = 1,
p_A = ¼, p_o = ½ there is a block for which the hinge loss is at least ½ − √N B/(2ᵏ√2). (The source
prints √(NB).)

Source: shi · case-parity · §3.4.2, Lemma 3.21, Lemma B.50, Prop. 3.23.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.data import BlockParity
from theorylab.typing import RandomKey, Scalar

from .network import ReluNetwork


def block_parity_network(law: BlockParity) -> ReluNetwork:
    """g*, whose hinge loss is exactly 0.

    Example:
        >>> law = BlockParity(dimension=9, block_size=3, num_blocks=3, block_probability=0.1)
        >>> block_parity_network(law).outputs.shape
        (36,)
    """
    k, r = law.block_size, law.num_blocks
    count = np.repeat(np.arange(k + 1), 3)
    part = np.tile([-1, 0, 1], k + 1)
    heights = (-1.0) ** (count + 1) * math.sqrt(k) * np.tile([1.0, -2.0, 1.0], k + 1)
    biases = (2 * count - k + part) / math.sqrt(k)
    return ReluNetwork(
        jnp.asarray(np.tile(heights, r)),
        jnp.repeat(law.directions, 3 * (k + 1), axis=0),
        jnp.asarray(np.tile(biases, r)),
    )


def background_deviation(law: BlockParity) -> float:
    """√(2p_o(d − kr)), the deviation of Σ w_l x_l over the background, for w of variance 1.

    Example:
        >>> round(background_deviation(BlockParity(dimension=48, block_size=5)), 3)
        4.147
    """
    return math.sqrt(2 * law.background * (law.dimension - law.num_relevant))


def sure_neurons(
    key: RandomKey, law: BlockParity, num_neurons: int, bias: Scalar, block: int = 0
) -> Float[Array, "m d"]:
    """Weights of N(0, I) given that Σ_{Aⱼ} w_l = 3b/2: the least that a neuron sure of block j has.

    Among neurons drawn freely they are too rare to wait for.

    Args:
        key: Draws them.
        law: The parity.
        num_neurons: m.
        bias: b > 0.
        block: j, from 0.

    Example:
        >>> law = BlockParity(dimension=9, block_size=3, block_probability=0.1)
        >>> found = sure_neurons(jax.random.key(0), law, num_neurons=2, bias=2.0)
        >>> [round(value, 6) for value in found[:, :3].sum(axis=1).tolist()]
        [3.0, 3.0]
    """
    if num_neurons < 1:
        raise ValueError(f"num_neurons must be at least 1, got {num_neurons}.")
    if not 0 <= block < law.num_blocks:
        raise ValueError(f"block must be in [0, {law.num_blocks}), got {block}.")
    weights = jax.random.normal(key, (num_neurons, law.dimension))
    direction = law.directions[block]
    # A Gaussian vector given its product with a unit vector.
    wanted = 1.5 * bias / math.sqrt(law.block_size)
    return weights + (wanted - weights @ direction)[:, None] * direction[None, :]


def fixed_feature_bound(num_features: int, norm_bound: Scalar, block_size: int) -> Scalar:
    """½ − √N B/(2ᵏ√2), below which no N fixed features come for all blocks; it may be negative.

    Args:
        num_features: N.
        norm_bound: B.
        block_size: k.

    Example:
        >>> round(fixed_feature_bound(num_features=200, norm_bound=1.0, block_size=5), 4)
        0.1875
    """
    if num_features < 1 or block_size < 1 or block_size > 1000:
        raise ValueError(
            "num_features must be at least 1 and block_size in [1, 1000], "
            f"got {num_features} and {block_size}."
        )
    return 0.5 - math.sqrt(num_features / 2) * norm_bound / 2**block_size
