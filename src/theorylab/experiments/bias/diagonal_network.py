"""The initial scale of a diagonal linear network decides between dense and sparse solutions.

The network w = θ⁺ ⊙ θ⁺ − θ⁻ ⊙ θ⁻ starts at θ⁺ = θ⁻ = α and follows the gradient flow of the squared
loss Σ (wᵀxᵢ − yᵢ)², with fewer equations than unknowns. Nobody asks for a small norm, but of all
solutions it finds the one with the least hyperbolic entropy R_α: that of least ℓ₂ norm when α is
large (the kernel regime), nearly that of least ℓ₁ norm when α is small (the rich regime).

The theorems are stated from θ⁺ = α, θ⁻ = −α, where the weights move in the same way, and where the
conserved product θ⁺ ⊙ θ⁻ is −α², not α² as printed. What is said of large and small α is no
statement of the source.

The flow of θ itself is integrated, in double precision and to its end. The minimiser of R_α comes
from Newton's method on the dual problem, which knows no flow.

Source: arora · reparam-mirror · §8.1.3, Examples 8.1.3–8.1.5, Theorems 8.1.6–8.1.7.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab import bias
from theorylab.claims import Source, at_most, holds, identity, median_at_least, median_at_most
from theorylab.data import Dataset
from theorylab.experiments.drawing import COLOURS, THEORY, curves, label_axes, panels
from theorylab.fields import Positive, Several
from theorylab.progress import report
from theorylab.typing import Measured

from ._equations import Equations, draw_equations, pairs, relative_distance

PRECISION = "float64"
BATCHED = ("alphas", "seed")
FORMULA = r"\lim_{t\to\infty} w(t) = \arg\min_{Xw=y} R_\alpha(w)"

LIMIT = Source("arora", "reparam-mirror", "Theorem 8.1.7")
FLOWS = Source("arora", "reparam-mirror", "Theorem 8.1.6")
SPEED = Source("arora", "reparam-mirror", "Eqs 8.14–8.20")
EXAMPLE = Source("arora", "reparam-mirror", "Example 8.1.5")
CONSERVED = Source("arora", "reparam-mirror", "Eq. 8.13 and after")

TIMES = np.geomspace(0.1, 300, 60)  # when the fast part of the motion is recorded


@dataclass(frozen=True)
class Config(Equations):
    """Gradient flow of diagonal networks on random equations with a sparse solution."""

    alphas: Several[Positive] = (10.0, 1.0, 0.3, 0.1, 0.01, 0.001)  # initial scales, decreasing

    def __post_init__(self) -> None:
        super().__post_init__()
        falling = tuple(sorted(set(self.alphas), reverse=True))
        if falling != self.alphas or len(falling) < 2 or falling[0] > 100 or falling[-1] < 1e-4:
            must = "alphas must be two or more and decrease, from 100 at most to 0.0001"
            raise ValueError(f"{must}, got {self.alphas}.")


PRESETS = {
    "smoke": Config(
        num_samples=6, dimension=12, sparsity=1, alphas=(10.0, 0.3, 0.001), num_seeds=6
    ),
    "paper": Config(
        num_samples=40,
        dimension=100,
        alphas=(10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003),
        num_seeds=40,
    ),
}


class Result(NamedTuple):
    """Axes: s seeds, a scales, t recorded times, d weights."""

    teacher: Float[Measured, " d"]  # the sparse solution
    least_l1: Float[Measured, "s d"]  # the solution of least ℓ₁ norm
    least_l2: Float[Measured, "s d"]  # that of least ℓ₂ norm
    least_entropy: Float[Measured, "s a d"]  # that of least R_α
    end: Float[Measured, "s a d"]  # where the flow of θ ends
    plus: Float[Measured, "s a t d"]  # θ⁺ along its flow
    minus: Float[Measured, "s a t d"]  # θ⁻ along its flow
    mirrored: Float[Measured, "s a t d"]  # w along the mirror flow
    curvatures: Float[Measured, "s a t d"]  # ∂²R_α/∂w² along the flow of θ
    opposite_plus: Float[Measured, "s t d"]  # θ⁺ when θ⁻ begins at −α, for the first scale
    opposite_minus: Float[Measured, "s t d"]  # θ⁻ then
    same_weight_speeds: Float[Measured, " 2"]  # ∂G ∂Gᵀ at θ = (1, 0) and (√2, 1), where w = 1


def memory(config: Config) -> int:
    """Paths, and the matrices of the implicit method; in bytes."""
    lanes = config.num_seeds * (len(config.alphas) + 1)
    return 8 * lanes * (8 * len(TIMES) * config.dimension + 20 * (2 * config.dimension) ** 2)


def run(config: Config) -> Result:
    """Follow every network to its end, and solve the convex problems beside it."""
    report("solving the convex problems", 0.0)
    teacher, data = draw_equations(config)
    equations = pairs(data)
    least = [[bias.least_entropy(x, y, alpha) for alpha in config.alphas] for x, y in equations]

    report("following the flows", 0.05)
    # One more run, at the first scale, begins at θ⁻ = −α.
    scales = jnp.asarray([*config.alphas, config.alphas[0]])
    signs = jnp.asarray([1.0] * len(config.alphas) + [-1.0])
    flows = _flows(data, scales, signs)
    same_weight = bias.DiagonalParams(jnp.array([1.0, 2.0**0.5]), jnp.array([0.0, 1.0]))
    return Result(
        teacher=teacher,
        least_l1=np.array([bias.least_l1(x, y) for x, y in equations]),
        least_l2=np.array([bias.least_l2(x, y) for x, y in equations]),
        least_entropy=np.array(least),
        end=flows.end[:, :-1],
        plus=flows.params.plus[:, :-1],
        minus=flows.params.minus[:, :-1],
        mirrored=flows.mirrored[:, :-1],
        curvatures=_curvatures(flows.params, scales)[:, :-1],
        opposite_plus=flows.params.plus[:, -1],
        opposite_minus=flows.params.minus[:, -1],
        same_weight_speeds=_speeds(same_weight),
    )


@jax.jit
def _flows(data: Dataset, scales: Array, signs: Array) -> bias.DiagonalFlow:
    """Follow all seeds at once, one scale after another: small scales take many more steps."""

    def at_scale(scale_and_sign: tuple[Array, Array]) -> bias.DiagonalFlow:
        each_seed = jax.vmap(lambda x, y: bias.follow(x, y, *scale_and_sign, TIMES))
        return each_seed(data.x, data.y)

    flows = jax.lax.map(at_scale, (scales, signs))
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), flows)


def _speeds(params: bias.DiagonalParams) -> Array:
    """The diagonal of ∂G ∂Gᵀ, from the Jacobian of the weights."""
    jacobian = jax.jacobian(bias.diagonal_weights)(params)
    return jnp.sum(jacobian.plus**2 + jacobian.minus**2, axis=1)


@jax.jit
def _curvatures(params: bias.DiagonalParams, scales: Array) -> Array:
    """∂²R_α/∂w² at the weights of all runs, from the potential itself by differentiation."""

    def potential(weight: Array, scale: Array) -> Array:
        return bias.hyperbolic_entropy(weight[None], scale)

    second = jnp.vectorize(jax.grad(jax.grad(potential)))
    return second(params.plus**2 - params.minus**2, scales[None, :, None, None])


def _excess(result: Result) -> np.ndarray:
    """‖w‖₁ over the least possible, less 1: (s, a)."""
    least = np.abs(result.least_l1).sum(-1)
    return np.abs(result.end).sum(-1) / least[:, None] - 1


def _distance_to_l2(result: Result) -> np.ndarray:
    """The relative distance to the solution of least ℓ₂ norm: (s, a)."""
    return relative_distance(result.end, result.least_l2[:, None, :])


def _cubic_bound(result: Result, config: Config) -> np.ndarray:
    """‖w³‖/24α⁴, relative to the least ℓ₂ norm: (s, a).

    The part of w outside the row space is that of w − 2α² arcsinh(w/2α²), which is below w³/24α⁴.
    """
    bound = np.linalg.norm(result.end**3, axis=-1) / (24 * np.asarray(config.alphas) ** 4)
    return bound / np.linalg.norm(result.least_l2, axis=-1)[:, None]


def _path(result: Result) -> np.ndarray:
    """The weights w = θ⁺ ⊙ θ⁺ − θ⁻ ⊙ θ⁻ along the flow: (s, a, t, d)."""
    return result.plus**2 - result.minus**2


def _products(result: Result, config: Config) -> np.ndarray:
    """θ⁺ ⊙ θ⁻ / α² along the flow: (s, a, t, d)."""
    return result.plus * result.minus / np.asarray(config.alphas)[:, None, None] ** 2


def _opposite_products(result: Result, config: Config) -> np.ndarray:
    """The same when θ⁻ begins at −α, for the first scale: (s, t, d)."""
    return result.opposite_plus * result.opposite_minus / config.alphas[0] ** 2


def _speed_ratios(result: Result) -> np.ndarray:
    """∂G ∂Gᵀ = 4 (θ⁺² + θ⁻²) over (∇²R_α)⁻¹ along the flow: (s, a, t, d)."""
    return 4 * (result.plus**2 + result.minus**2) * result.curvatures


CLAIMS = (
    LIMIT.claim(
        "The flow ends at the solution with the least hyperbolic entropy.",
        lambda r, c: at_most(relative_distance(r.end, r.least_entropy).max(), 1e-8),
        formula=r"w(\infty) = \arg\min_{Xw=y} R_\alpha(w)",
    ),
    FLOWS.claim(
        "The weights of the network follow the mirror flow.",
        lambda r, c: identity(_path(r), r.mirrored, 1e-6),
        formula=r"\dot w = -(\nabla^2 R_\alpha(w))^{-1} \nabla L(w)",
    ),
    SPEED.claim(
        "Along the flow, the speed of every weight is the inverse curvature of the entropy.",
        lambda r, c: at_most(np.abs(_speed_ratios(r) - 1).max(), 1e-8),
        formula=r"\partial G\,\partial G^\top = (\nabla^2 R_\alpha(w))^{-1}",
    ),
    EXAMPLE.claim(
        "Away from the flow that speed is no function of w: it is 4 and 12 at two θ with w = 1.",
        lambda r, c: identity(r.same_weight_speeds, np.array([4.0, 12.0]), 1e-12),
        quote="it suffices to take d = 1 and consider",
        demand="source",
    ),
    CONSERVED.claim(
        "The product of the two parameters of every weight is conserved.",
        lambda r, c: at_most(np.abs(_products(r, c) - 1).max(), 1e-8),
        formula=r"d(\theta^+ \odot \theta^-)/dt = 0",
    ),
    LIMIT.found(
        "The distance from the least ℓ₂ norm is at most ‖w³‖/24α⁴, so it vanishes at large scales.",
        lambda r, c: holds(_cubic_bound(r, c) - _distance_to_l2(r), rounding=1e-8),
        formula=r"\|w - w_2\| \le \|w^{\odot 3}\| / 24\alpha^4",
        demand="derived: z − arcsinh z is below z³/6",
    ),
    LIMIT.found(
        "At the largest scale the network finds the solution of least ℓ₂ norm.",
        lambda r, c: at_most(_distance_to_l2(r)[:, 0].max(), 1e-4),
        formula=r"\alpha \to \infty:\ w \to \arg\min \|w\|_2",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    LIMIT.found(
        "At the smallest scale the ℓ₁ norm is within a tenth of the least possible.",
        lambda r, c: median_at_most(_excess(r)[:, -1], 0.1),
        formula=r"\alpha \to 0:\ w \to \arg\min \|w\|_1",
        demand="lab: on 200 other sets of equations it was below 5.4 % at α = 0.001 (median "
        "0.3 %), and 67 % in the median at α = 10",
    ),
    LIMIT.control(
        "At the largest scale it is not.",
        lambda r, c: median_at_least(_excess(r)[:, 0], 0.1),
        demand="lab: 67 % in the median over 200 other sets of equations",
    ),
    *CONSERVED.erratum(
        printed=(
            "From θ = (α, −α), the conserved product is α².",
            lambda r, c: at_most(np.abs(_opposite_products(r, c) - 1).max(), 1e-8),
        ),
        corrected=(
            "From θ = (α, −α), the conserved product is −α².",
            lambda r, c: at_most(np.abs(_opposite_products(r, c) + 1).max(), 1e-8),
        ),
        formula=r"\theta^+ \odot \theta^- = -\alpha^2",
        quote="and thus has … is constant over time",
    ),
    FLOWS.found(
        "The weights move in the same way from (α, −α) as from (α, α).",
        lambda r, c: identity(r.opposite_plus**2 - r.opposite_minus**2, _path(r)[:, 0], 1e-8),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the norms against the scale, and a path to a sparse solution."""
    figure, (norms, path) = panels(
        "from least ℓ₂ to least ℓ₁ norm", f"the weights on their way, α = {config.alphas[-1]:g}"
    )
    measured = {
        "excess of ‖w‖₁ over the least": _excess(result),
        "distance to the least ‖w‖₂": _distance_to_l2(result),
        "distance to the sparse teacher": relative_distance(result.end, result.teacher),
    }
    curves(norms, config.alphas, measured, "o-")
    label_axes(norms, "initial scale α", "relative size", logarithmic="xy")
    weights, mirrored = _path(result)[0, -1], result.mirrored[0, -1]
    for number, weight in enumerate(result.teacher):
        colour = COLOURS[1] if weight else COLOURS[0]
        path.semilogx(TIMES, weights[:, number], color=colour, lw=2, alpha=0.5)
        path.semilogx(TIMES, mirrored[:, number], **THEORY | {"linewidth": 0.7})
    label_axes(path, "time", "w   (dashed: mirror flow)")
    return figure
