"""Datasets with a known teacher: inputs drawn from a law, outputs computed from them.

    linear teacher     y = xW + σε
    network teacher    y = f(θ, x) + σε
    sparse parity      y = x₁x₂⋯x_b              on the hypercube
    Chebyshev          y = T_k(x) = cos(k arccos x)   on [−1, 1]

Here ε is standard normal noise, independent for every output.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params, RandomKey

from .dataset import Dataset
from .inputs import Hypercube, InputLaw, chebyshev_points, check_at_least

SYNTHETIC = "synthetic"


def linear_teacher(
    key: RandomKey,
    law: InputLaw,
    num_samples: int,
    weights: Float[Array, "d k"],
    noise: float = 0.0,
) -> Dataset:
    """Draw inputs from their law, with targets y = xW + σε.

    Args:
        key: Draws inputs and noise.
        law: The law of the inputs, such as `Sphere(10)`.
        num_samples: The number of samples n.
        weights: The teacher W, one column for each output.
        noise: The standard deviation σ of the noise.

    Example:
        >>> from theorylab.data import Sphere
        >>> print(linear_teacher(jax.random.key(0), Sphere(2), 5, jnp.ones((2, 1))))
        5 samples (2,) ─► (1,): x uniform on the sphere of radius 1 in 2 dimensions, y = xW. \
Source: synthetic.
    """
    if weights.shape[0] != law.dimension:
        raise ValueError(
            f"weights must have one row for each of {law.dimension} inputs, got {weights.shape}."
        )
    x, y = _observe(key, law, num_samples, lambda x: x @ weights, noise)
    return Dataset(x, y, f"{law}, y = xW{_noise_words(noise)}", SYNTHETIC)


def network_teacher(
    key: RandomKey,
    law: InputLaw,
    num_samples: int,
    apply: Apply,
    params: Params,
    noise: float = 0.0,
) -> Dataset:
    """Draw inputs, with targets y = f(θ, x) + σε of any network f: inputs (n, d) ─► (n, k).

    Example:
        >>> from theorylab.data import Sphere
        >>> teacher = lambda params, x: jnp.maximum(x @ params, 0)
        >>> network_teacher(jax.random.key(0), Sphere(3), 5, teacher, jnp.ones((3, 2))).y.shape
        (5, 2)
    """
    x, y = _observe(key, law, num_samples, lambda x: apply(params, x), noise)
    return Dataset(x, y, f"{law}, y = f(θ, x){_noise_words(noise)}", SYNTHETIC)


def parity(key: RandomKey, num_samples: int, dimension: int, num_bits: int) -> Dataset:
    """Draw d fair signs, with the target y = x₁x₂⋯x_b; the other signs are irrelevant.

    Example:
        >>> data = parity(jax.random.key(0), num_samples=4, dimension=6, num_bits=2)
        >>> bool((data.y[:, 0] == data.x[:, 0] * data.x[:, 1]).all())
        True
    """
    if not 1 <= num_bits <= dimension:
        raise ValueError(f"num_bits must be in [1, dimension = {dimension}], got {num_bits}.")
    law = Hypercube(dimension)
    x = law.sample(key, num_samples)
    y = jnp.prod(x[:, :num_bits], axis=1, keepdims=True)
    return Dataset(x, y, f"{law}, y = product of the first {num_bits}", SYNTHETIC)


def chebyshev(
    num_samples: int, degree: int, points: Literal["even", "chebyshev"] = "even"
) -> Dataset:
    """Give y = T_k(x) at n points of [−1, 1]: evenly spaced, or the roots of Tₙ.

    Example:
        >>> chebyshev(3, degree=2).y[:, 0].tolist()
        [1.0, -1.0, 1.0]
    """
    check_at_least("num_samples", num_samples, 1)
    check_at_least("degree", degree, 0)
    if points == "even":
        x, where = jnp.linspace(-1.0, 1.0, num_samples), "evenly spaced"
    else:
        x, where = chebyshev_points(num_samples), "Chebyshev"
    # In numpy's double precision: the recurrence inside is accurate for every degree.
    y = np.polynomial.Chebyshev.basis(degree)(np.asarray(x, dtype=np.float64))
    law = f"x on {where} points of [−1, 1], y = T_{degree}(x)"
    return Dataset(x[:, None], jnp.asarray(y[:, None], dtype=x.dtype), law, SYNTHETIC)


def _observe(key, law, num_samples, teacher, noise):
    """Draw x from its law, and y = teacher(x) + σε."""
    if not 0 <= noise < float("inf"):
        raise ValueError(f"noise must be at least 0 and finite, got {noise}.")
    key_inputs, key_noise = jax.random.split(key)
    x = law.sample(key_inputs, num_samples)
    y = teacher(x)
    return x, y + noise * jax.random.normal(key_noise, y.shape)


def _noise_words(noise: float) -> str:
    """Name the noise in a law, if there is some."""
    return f" + {noise:g} · N(0, 1)" if noise else ""
