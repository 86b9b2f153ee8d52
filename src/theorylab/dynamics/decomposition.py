"""The squared loss in the eigenspaces of the current tangent kernel.

    K = Σ λⱼ uⱼuⱼᵀ,   L_≤s = s₀ ‖P_≤s (f − y)‖²,   L_>s = L − L_≤s

P_≤s projects on the s top eigenvectors, s₀ is the loss's own factor (1/n for the mean). With k
outputs K is nk × nk, and "top s" are its ks top eigenvectors. A step of gradient descent is

    f′ − y = (I − ηcK)(f − y) + Δ_H,   Δ_H = ½ (w′ − w)ᵀ ∇²f (w′ − w),   c = 2s₀

up to third order (the source leaves out the ½), so a mode grows while ηcλⱼ > 2: a spike lives in
the few top modes. The eigenvectors are those of the present; on the initial ones a spike looks
broader.

Source: zhu · ntk-decomp · §4.2, Eq. 4.3.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.kernels import ntk_eigenpairs
from theorylab.training import Loss
from theorylab.training.sgd import Examples
from theorylab.typing import Apply, Axes, Params

from .critical import kernel_matrix

_LARGEST_MATRIX = 1024  # rows up to which the kernel is formed
_NUM_PRODUCTS = 100


class Decomposition(Answer, axes=("step",)):
    """A loss in parts; under a recorder with the recorded steps as the leading axis.

    Args:
        loss: L.
        top: L_≤s, for every s that was asked for.
        kernel_norm: λ₁ = ‖K‖.

    Example: three quarters of a loss of 2 lie in the top eigenvector.
        >>> parts = Decomposition(jnp.array(2.0), top=jnp.array([1.5]), kernel_norm=jnp.array(10.0))
        >>> float(parts.top[0] / parts.loss)
        0.75
    """

    loss: Float[Array, "*t"]
    top: Float[Array, "*t sizes"]
    kernel_norm: Float[Array, "*t"]

    def draw(self, axes: Axes) -> None:
        """The loss and its parts in top eigenvectors, over the number of the record."""
        from theorylab.answers.figure import curve

        for name, values in {"L": self.loss, "L_≤s": self.top}.items():
            rows = jnp.atleast_1d(jnp.asarray(values))
            curve(axes, jnp.arange(len(rows)), rows, label=name)
        axes.set_xlabel("record")
        axes.set_ylabel("loss L")
        axes.legend(fontsize=7)


def decompose(
    apply: Apply, params: Params, data: Examples, loss: Loss, sizes: Sequence[int] = (1, 5)
) -> Decomposition:
    """Decompose a squared loss in the current eigenvectors of the tangent kernel.

    Up to 1024 rows the kernel is formed; beyond, Lanczos takes 100 products with it.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        data: Inputs x and targets y.
        loss: The squared loss in its normalisation.
        sizes: The numbers s of top eigenvectors, counted per output.

    Example: residuals −3 and −4 in modes with eigenvalues 4 and 1.
        >>> from theorylab.data import Dataset
        >>> from theorylab.training import squared
        >>> x, y = jnp.diag(jnp.array([2.0, 1.0])), jnp.array([[3.0], [4.0]])
        >>> data, linear = Dataset(x, y, "two modes", "made up"), lambda w, x: x @ w
        >>> parts = decompose(linear, jnp.zeros((2, 1)), data, squared("half_sum"), sizes=(1, 2))
        >>> [round(float(part), 4) for part in (parts.loss, *parts.top, parts.kernel_norm)]
        [12.5, 4.5, 12.5, 4.0]
    """
    if loss.kind != "squared":
        raise ValueError(f"only the squared loss is a sum over modes, not {loss.kind}.")
    outputs = apply(params, data.x)
    if outputs.ndim != 2 or data.y.shape != outputs.shape:
        raise ValueError(
            f"outputs must be (n, k), and y of the same shape, got {outputs.shape} and "
            f"{data.y.shape}."
        )
    residual = outputs - data.y
    _check_sizes(sizes, len(data.x))
    values, vectors = top_modes(apply, params, data.x, max(sizes))
    parts = projected_losses(vectors, residual, loss, sizes)
    return Decomposition(loss.scale(*residual.shape) * jnp.sum(residual**2), parts, values[0])


def top_modes(
    apply: Apply, params: Params, x: Float[Array, "n ..."], size: int
) -> tuple[Float[Array, " modes"], Float[Array, "modes rows"]]:
    """The ks top eigenvalues of the tangent kernel, falling, and their unit vectors as rows.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x: The inputs.
        size: s.

    Example:
        >>> x = jnp.diag(jnp.array([2.0, 1.0]))
        >>> values, vectors = top_modes(lambda w, x: x @ w, jnp.zeros((2, 1)), x, size=1)
        >>> round(float(values[0]), 4), vectors.shape
        (4.0, (1, 2))
    """
    n, k = jax.eval_shape(apply, params, x).shape
    _check_sizes((size,), n)
    if n * k > _LARGEST_MATRIX:
        steps = min(n * k, max(_NUM_PRODUCTS, 4 * k * size))
        pairs = ntk_eigenpairs(apply, params, x, k * size, jax.random.key(0), steps, kernel="full")
        return pairs.values, pairs.vectors.reshape(k * size, n * k)
    values, vectors = jnp.linalg.eigh(kernel_matrix(apply, params, x))
    return values[::-1][: k * size], vectors.T[::-1][: k * size]


def projected_losses(
    vectors: Float[Array, "modes rows"],
    residual: Float[Array, "n k"],
    loss: Loss,
    sizes: Sequence[int],
) -> Float[Array, " sizes"]:
    """L_≤s = s₀ Σ_{j ≤ ks} (uⱼᵀ(f − y))² for every s.

    Args:
        vectors: The eigenvectors u₁, u₂, … as rows, the top first; at least ks of them.
        residual: f − y.
        loss: The squared loss in its normalisation.
        sizes: The numbers s.

    Example:
        >>> from theorylab.training import squared
        >>> residual = jnp.array([[3.0], [4.0]])
        >>> projected_losses(jnp.eye(2), residual, squared("half_sum"), sizes=(1, 2)).tolist()
        [4.5, 12.5]
    """
    n, k = residual.shape
    along = jnp.cumsum((vectors @ residual.ravel()) ** 2)
    return loss.scale(n, k) * along[jnp.asarray(sizes) * k - 1]


def _check_sizes(sizes: Sequence[int], num_samples: int) -> None:
    if not sizes or min(sizes) < 1 or max(sizes) > num_samples:
        raise ValueError(f"sizes must be from 1 to n = {num_samples}, got {tuple(sizes)}.")
