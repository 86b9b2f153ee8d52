"""Spectral complexity: the norm of a network by which margins are to be divided.

For layers x ↦ φ(Wᵢx) with 1-Lipschitz φ, margins g over n inputs X, and R for the spectral norms,

    R  = ∏ᵢ ‖Wᵢ‖₂ · (Σᵢ (‖Wᵢᵀ‖₂,₁/‖Wᵢ‖₂)^{2/3})^{3/2}
    test error ≤ share of inputs with g ≤ γ + Õ(‖X‖_F R/(γn) + √(log(1/δ)/n))     Bartlett et al.
    test error ≤ share of inputs with g ≤ γ + Õ(√(h d² max‖x‖² ∏‖Wᵢ‖₂² Σ‖Wᵢ‖²_F/‖Wᵢ‖₂²/(γ²n)))

‖Wᵀ‖₂,₁ sums the lengths of the rows of W, one a unit; d layers, of width at most h. The second is
the book's (which prints ‖x‖ without the square). Both hide constants and logarithms above 1, so
that ‖X‖_F R/(γn) above 1 says that the bound is vacuous; below 1 it says nothing yet.

Layers are found in the network's program: weights that enter by a matrix product or a convolution.
A layer of s positions is one matrix of s copies: ‖·‖_F gets √s, ‖·‖₂,₁ gets s times as large. Its
norm is exact for products. For a convolution with kernel Ŵ(ω) at frequency ω it is a bound,

    ‖conv‖₂ ≤ sup_ω ‖Ŵ(ω)‖₂ ≤ max over T frequencies a side / ∏ cos(π k/2T)

with sides k of the window, for all paddings, strides and dilations (for stride 1 and large images
nearly equal); where that takes too long, ‖W‖₂ of the kernel as a matrix times the root of its
window. R grows with every norm, so R is bounded too. The theorem is one about chains of layers; for
residual networks and attention R is a number to compare networks by, and not a bound.

Source: Bartlett, Foster and Telgarsky (2017), arXiv:1706.08498, Thm 1.1; arora ·
spectral-margin-bound · Thm 5.5.6. Convolutions: Sedghi et al. (2019), arXiv:1805.10408; between
frequencies a trigonometric polynomial grows by the factor of Ehlich and Zeller (1964).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Float

from theorylab.kernels.finite.program import program_of, uses_of
from theorylab.kernels.finite.uses import WeightUse
from theorylab.models.inputs import one_input
from theorylab.typing import Apply, Inputs, Params

_OPERATIONS = 5e9  # that the frequencies of a convolution may take


class LayerNorm(NamedTuple):
    """The norms of a layer, as the matrix that takes what comes in to what goes out.

    Example:
        >>> LayerNorm("['w']", spectral=2.0, frobenius=2.0, rows=3.0, width=5).stable_rank
        1.0
    """

    name: str
    spectral: float  # ‖W‖₂, for convolutions a bound from above
    frobenius: float  # ‖W‖_F
    rows: float  # ‖Wᵀ‖₂,₁
    width: int  # the larger of its sizes

    @property
    def stable_rank(self) -> float:
        """‖W‖²_F/‖W‖₂², at most the rank."""
        return (self.frobenius / self.spectral) ** 2 if self.spectral > 0 else math.nan


def layer_norms(apply: Apply, params: Params, x: Inputs) -> list[LayerNorm]:
    """The norms of all layers that the network's program has, in its order. Nothing is compiled.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters.
        x: Inputs; only their shape is looked at.

    Example:
        >>> network = lambda w, x: jax.nn.relu(x @ w["in"]) @ w["out"]
        >>> params = {"in": 3 * np.eye(2), "out": np.array([[3.0], [4.0]])}
        >>> [round(layer.spectral, 6) for layer in layer_norms(network, params, np.ones((5, 2)))]
        [3.0, 5.0]
    """
    program = program_of(apply, params, one_input(x))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    found = []
    for use in uses_of(program):
        kernels = _kernels(np.asarray(program.leaves[use.leaf], float), use)
        if kernels is not None:
            found.append(_layer(names[use.leaf], kernels, use.sizes.positions))
    return found


def spectral_complexity(layers: Sequence[LayerNorm]) -> float:
    """R = ∏ ‖Wᵢ‖₂ (Σ (‖Wᵢᵀ‖₂,₁/‖Wᵢ‖₂)^{2/3})^{3/2}.

    Args:
        layers: The norms of all layers.

    Example: one layer has R = ‖Wᵀ‖₂,₁.
        >>> round(spectral_complexity([LayerNorm("w", 2.0, 2.0, rows=3.0, width=5)]), 6)
        3.0
    """
    product = math.prod(layer.spectral for layer in layers)
    if not layers or product == 0:
        return 0.0
    ratios = sum((layer.rows / layer.spectral) ** (2 / 3) for layer in layers)
    return product * ratios**1.5


def spectral_bound(
    layers: Sequence[LayerNorm], margin: float, input_norm: float, num_samples: int
) -> float:
    """‖X‖_F R/(γn): the leading term of the bound, without constants and logarithms.

    Args:
        layers: The norms of all layers.
        margin: γ, positive.
        input_norm: ‖X‖_F of all n inputs.
        num_samples: n.

    Example:
        >>> layers = [LayerNorm("w", 2.0, 2.0, rows=3.0, width=5)]
        >>> round(spectral_bound(layers, margin=0.5, input_norm=10.0, num_samples=100), 6)
        0.6
    """
    _check(margin)
    return input_norm * spectral_complexity(layers) / (margin * num_samples)


def stable_rank_bound(
    layers: Sequence[LayerNorm], margin: float, largest_input: float, num_samples: int
) -> float:
    """√(h d² max‖x‖² ∏‖Wᵢ‖₂² Σ‖Wᵢ‖²_F/‖Wᵢ‖₂²/(γ²n)), without constants and logarithms.

    Args:
        layers: The norms of all layers.
        margin: γ, positive.
        largest_input: max ‖x‖.
        num_samples: n.

    Example:
        >>> layers = [LayerNorm("w", 2.0, 2.0, rows=3.0, width=4)]
        >>> stable_rank_bound(layers, margin=0.5, largest_input=3.0, num_samples=16)
        6.0
    """
    _check(margin)
    width, depth = max(layer.width for layer in layers), len(layers)
    product = math.prod(layer.spectral for layer in layers)
    ranks = sum(layer.stable_rank for layer in layers)
    return depth * product * largest_input / margin * math.sqrt(width * ranks / num_samples)


def _check(margin: float) -> None:
    if not margin > 0:
        raise ValueError(f"margin must be positive, got {margin}.")


def _layer(name: str, kernels: Float[np.ndarray, "g *window c m"], positions: int) -> LayerNorm:
    window = kernels.shape[1:-2]
    length = math.prod(window) * kernels.shape[-2]
    rows = np.linalg.norm(kernels.reshape(len(kernels), length, -1), axis=1).sum()
    return LayerNorm(
        name,
        max(_spectral(kernel) for kernel in kernels),
        math.sqrt(positions) * float(np.linalg.norm(kernels)),
        positions * float(rows),
        positions * len(kernels) * max(kernels.shape[-2:]),
    )


def _spectral(kernel: Float[np.ndarray, "*window c m"]) -> float:
    """‖W‖₂ of a matrix, or a bound of that of a convolution."""
    *window, c, m = kernel.shape
    if math.prod(window) == 1:
        return _norm(kernel.reshape(c, m))
    for factor in (8, 4):
        sizes = [1 if side == 1 else factor * side for side in window]
        if math.prod(sizes) * min(c, m) ** 2 * (max(c, m) + 10 * min(c, m)) <= _OPERATIONS:
            return _at_frequencies(kernel, sizes)
    return math.sqrt(math.prod(window)) * _norm(kernel.reshape(-1, m))


def _at_frequencies(kernel: np.ndarray, sizes: list[int]) -> float:
    """Max ‖Ŵ(ω)‖₂ over a grid, and what it may be in between."""
    axes = tuple(range(len(sizes)))
    c, m = kernel.shape[-2:]
    waves = np.fft.rfftn(kernel, s=sizes, axes=axes).reshape(-1, c, m)
    if c > m:
        waves = waves.transpose(0, 2, 1)
    grams = waves @ waves.conj().transpose(0, 2, 1)
    largest = math.sqrt(max(float(np.linalg.eigvalsh(grams)[:, -1].max()), 0.0))
    sides = [side for side in zip(kernel.shape, sizes, strict=False) if side[0] > 1]
    return largest / math.prod(math.cos(math.pi * side / (2 * size)) for side, size in sides)


def _norm(matrix: Float[np.ndarray, "c m"]) -> float:
    """‖W‖₂ by the smaller of WWᵀ and WᵀW."""
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    if len(gram) <= 1024:
        return math.sqrt(max(float(np.linalg.eigvalsh(gram)[-1]), 0.0))
    from scipy.sparse.linalg import eigsh  # a quarter of a second

    return math.sqrt(max(float(eigsh(gram, k=1, return_eigenvectors=False)[0]), 0.0))


def _kernels(weight: np.ndarray, use: WeightUse) -> Float[np.ndarray, "g *window c m"] | None:
    """W as (groups, *window, in, out); None if it is not known how it was arranged before."""
    layout = cast(tuple[Any, ...], use.layout)
    at = next(i for i, part in enumerate(layout) if part in ("product", "convolution"))
    for name, _ in layout[:at]:
        if name != "transpose" or weight.ndim != 2:
            return None
        weight = weight.T
    groups = use.sizes.groups
    if layout[at] == "product":
        summed, batched = layout[at + 1 :]
        free = tuple(i for i in range(weight.ndim) if i not in (*summed, *batched))
        ordered = np.transpose(weight, (*batched, *summed, *free))
        return ordered.reshape(groups, use.sizes.fan_in, use.sizes.fan_out)
    out, into, *window = layout[at + 1]
    ordered = np.transpose(weight, (out, *window, into))
    split = ordered.reshape(groups, -1, *ordered.shape[1:])
    return np.moveaxis(split, 1, -1)
