"""The NTK parametrization has a limit kernel; in the standard one the kernel grows as the width.

    NTK         f(x) = m^(−½) Σ_k a_k φ(w_k x),   a, w ~ N(0, 1)
    standard    f(x) = Σ_k a_k φ(w_k x),          a ~ N(0, 1/m), w ~ N(0, 1)

In the NTK parametrization the tangent kernel goes to E[φ(wx)φ(wx′) + a²φ′(wx)φ′(wx′)xx′] as m^(−½),
and training moves it by 1/m in the mean. In the standard one it grows as m. The source says that
the kernel divided by m keeps evolving in the limit, at times t > 0 that do not depend on m. That
follows from its equations of motion, which lack the residuals: the a_k, of size m^(−½), then grow
to O(1). But residuals decay in a time of 1/m; gradient flow for a time of 1 moves it by m^(−2).

The equations of motion as printed have no residuals, and φ′ in place of φ; as they should read,

    da_k/dt = m^(−½) Σⱼ (yⱼ − f(xⱼ)) φ(w_k xⱼ),
    dw_k/dt = m^(−½) Σⱼ (yⱼ − f(xⱼ)) a_k φ′(w_k xⱼ) xⱼ.

Source: golikov · ntk-param-scaling · 2.2, 2.7, Eqs 2.12–2.19, 2.33, 2.147.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, exponent_between, identity, median_between
from theorylab.experiments.drawing import label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Seeded
from theorylab.kernels import infinite_kernels, ntk
from theorylab.models import mlp
from theorylab.models.nested import nested
from theorylab.numerics import gauss_hermite
from theorylab.progress import report
from theorylab.training import descend, ensemble, gradient_descent, squared
from theorylab.typing import Params, RandomKey

PRECISION = "float64"
FORMULA = (
    r"\Theta(x, x') = \mathbb{E}\left[\phi(wx)\,\phi(wx')"
    r" + a^2 \phi'(wx)\,\phi'(wx')\,x x'\right]"
)

LIMIT = Source("golikov", "ntk-param-scaling", "Eqs 2.17, 2.18")
MOVEMENT = Source("golikov", "ntk-param-scaling", "Thm 2.2.1, Eq. 2.33")
DIVERGENT = Source("golikov", "ntk-param-scaling", "Eq. 2.19")
STANDARD = Source("golikov", "ntk-param-scaling", "2.7")
MOTION = Source("golikov", "ntk-param-scaling", "Eq. 2.14")

LOSS = squared("half_sum")
TIME = 1.0  # of training, in both parametrizations and at every width


@dataclass(frozen=True)
class Config(Seeded):
    """Erf networks of one input and one hidden layer: their kernels before and after training."""

    widths: Increasing[Count] = (256, 512, 1024, 2048, 4096)  # m in the NTK parametrization
    standard_widths: Increasing[Count] = (64, 128, 256, 512)  # m in the standard one
    num_samples: Count = 4  # training inputs, evenly from −2 to 2
    num_steps: Count = 10  # of gradient descent, in the NTK parametrization
    num_seeds: Count = 600  # random networks in the NTK parametrization
    num_standard: Count = 100  # and in the standard one
    num_groups: Count = 10  # groups of networks, over each of which means are taken

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_seeds % self.num_groups:
            raise ValueError(
                f"num_seeds must be a multiple of num_groups = {self.num_groups}, "
                f"got {self.num_seeds}."
            )
        # λ_max of the limit is below 1.5 n: |erf| ≤ 1, and erf′ xx′ adds less on these inputs.
        fewest = 0.75 * TIME * self.num_samples
        if self.num_steps <= fewest:
            raise ValueError(
                f"num_steps must be above {fewest:g} to be stable, got {self.num_steps}."
            )


PRESETS = {
    "smoke": Config(
        widths=(256, 1024, 4096), standard_widths=(64, 512), num_seeds=300, num_standard=12
    ),
    "paper": Config(
        widths=(32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
        standard_widths=(64, 128, 256, 512, 1024),
        num_samples=20,
        num_steps=100,
    ),
}


class Motion(NamedTuple):
    """The velocity of all w and a of one network in the NTK parametrization."""

    velocity: Float[Array, " p"]  # by autodiff
    corrected: Float[Array, " p"]  # by the equations of motion
    printed: Float[Array, " p"]  # by them as printed


class Result(NamedTuple):
    """Axes: g groups of networks, r networks, w widths, n samples. Sizes are Frobenius norms."""

    limit: Float[Array, "n n"]
    expected_limit: Float[Array, "n n"]  # the mean over w and a, by quadrature
    start_error: Float[Array, "g w"]  # Θ₀ − Θ, root mean square
    start_projection: Float[Array, " g"]  # ⟨mean Θ₀, Θ⟩/⟨Θ, Θ⟩ at the largest width
    wrong_error: Float[Array, "g w"]  # Θ₀ − E φφ′, as if the w were not trained
    mean_movement: Float[Array, "g w"]  # of the mean of Θ_T − Θ₀
    movement: Float[Array, "g w"]  # Θ_T − Θ₀, root mean square
    standard_start: Float[Array, "r w"]  # Θ₀ in the standard parametrization
    standard_projection: Float[Array, " r"]  # ⟨Θ₀/m, E φφ′⟩/⟨E φφ′, E φφ′⟩ at the largest width
    standard_movement: Float[Array, "r w"]  # (Θ_T − Θ₀)/m
    driven_movement: Float[Array, "r w"]  # the same, with residuals held
    motion: Motion


def run(config: Config) -> Result:
    """Train networks in both parametrizations, and compare their kernels."""
    report("NTK parametrization", 0.0)
    x = jnp.linspace(-2.0, 2.0, config.num_samples)[:, None]
    y = 2 * jnp.sin(x)
    nngp, limit = infinite_kernels(mlp([1], activation="erf"), x)
    start, end = _kernels(x, y, config, config.widths, config.num_seeds)
    report("standard parametrization", 0.4)
    sizes = (config.standard_widths, config.num_standard)
    first, last = _kernels(x, y, config, *sizes, standard=True)
    report("standard parametrization, residuals held", 0.7)
    _, driven = _kernels(x, y, config, *sizes, standard=True, held=True)
    widths = jnp.asarray(config.standard_widths)[None]

    def mean(values: Array) -> Array:
        """The mean over the networks of each group."""
        return values.reshape(config.num_groups, -1, *values.shape[1:]).mean(axis=1)

    def along(kernels: Float[Array, "s n n"], reference: Float[Array, "n n"]) -> Array:
        return jnp.einsum("sij,ij->s", kernels, reference) / jnp.sum(reference**2)

    return Result(
        limit=limit,
        expected_limit=_limit(x),
        start_error=jnp.sqrt(mean(_norm(start - limit[None, None]) ** 2)),
        start_projection=along(mean(start[:, -1]), limit),
        wrong_error=jnp.sqrt(mean(_norm(start - nngp[None, None]) ** 2)),
        mean_movement=_norm(mean(end - start)),
        movement=jnp.sqrt(mean(_norm(end - start) ** 2)),
        standard_start=_norm(first),
        standard_projection=along(first[:, -1] / widths[0, -1], nngp),
        standard_movement=_norm(last - first) / widths,
        driven_movement=_norm(driven - first) / widths,
        motion=_motion(x, y, config),
    )


def _kernels(
    x: Float[Array, "n 1"],
    y: Float[Array, "n 1"],
    config: Config,
    widths: tuple[int, ...],
    num_networks: int,
    standard: bool = False,
    held: bool = False,
) -> Float[Array, "2 s w n n"]:
    """Θ₀ and Θ_T of all networks; with residuals held, their outputs move at a constant rate.

    f = s Σ (b a_k) φ(w_k x)/√m is the NTK parametrization at s = b = 1 and the standard one at
    s = √m, b = 1/√m. There λ_max is below mn, so that the number of steps is mn, too.
    """
    networks = nested(max(widths), 1, "erf")
    shape = (num_networks, len(widths))
    num_steps = max(widths) * config.num_samples if standard else config.num_steps

    def one(given: tuple[Array, RandomKey]) -> Float[Array, "2 n n"]:
        width, key = given
        inner, outer = networks.init(key)
        network = networks.at_width(width)
        scale = jnp.sqrt(width) if standard else 1.0
        params = (inner, outer / scale)

        def apply(params: Params, x: Array) -> Array:
            return scale * network(params, x)

        residual = y - apply(params, x)

        def objective(params: Params) -> Float[Array, ""]:
            outputs = apply(params, x)
            return -jnp.vdot(residual, outputs) if held else LOSS(outputs, y)

        optimizer = gradient_descent(TIME / num_steps)
        run = descend(objective, params, optimizer, [0, num_steps], lambda w: ntk(apply, w, x))
        return run.records

    every = jnp.broadcast_to(jnp.asarray(widths, x.dtype), shape).ravel()
    keys = jax.random.split(jax.random.key(config.seed), shape).ravel()
    found = ensemble(one, (every, keys)).reshape(*shape, 2, len(x), len(x))
    return jnp.moveaxis(found, 2, 0)


def _limit(x: Float[Array, "n 1"]) -> Float[Array, "n n"]:
    """E[φ(wx)φ(wx′) + a²φ′(wx)φ′(wx′)xx′] over w ~ N(0, 1), with E a² = 1."""
    w, weights = gauss_hermite(256)
    h = x * w[None, :]
    parts = jnp.stack([jax.scipy.special.erf(h), _slope(h) * x])
    return jnp.einsum("pik,pjk,k->ij", parts, parts, weights)


def _motion(x: Float[Array, "n 1"], y: Float[Array, "n 1"], config: Config) -> Motion:
    """The velocity of all weights of the narrowest network in the NTK parametrization."""
    width = min(config.widths)
    networks = nested(width, 1, "erf")
    apply = networks.at_width(width)
    params = networks.init(jax.random.key(config.seed))
    velocity = jax.grad(lambda params: -LOSS(apply(params, x), y))(params)
    w, a = params[0], params[1].T
    h = x * w
    residual, values, slopes = y - apply(params, x), jax.scipy.special.erf(h), _slope(h)

    def summed(of_w: Float[Array, "n m"], of_a: Float[Array, "n m"]) -> Float[Array, " p"]:
        return jnp.concatenate([of_w.sum(axis=0), of_a.sum(axis=0)]) / math.sqrt(width)

    return Motion(
        velocity=jnp.concatenate([jnp.ravel(part) for part in velocity]),
        corrected=summed(residual * a * slopes * x, residual * values),
        printed=summed(a * slopes * x, slopes),
    )


def _slope(h: Array) -> Array:
    return 2 / math.sqrt(math.pi) * jnp.exp(-(h**2))


def _norm(kernels: Float[Array, "s w n n"]) -> Float[Array, "s w"]:
    return jnp.linalg.norm(kernels, axis=(2, 3))


CLAIMS = (
    LIMIT.claim(
        "In the NTK parametrization the kernel at initialisation goes to the mean over w and a.",
        lambda r, c: median_between(r.start_projection, 0.99, 1.01),
        formula=r"\hat\Theta_0 \to \mathbb{E}[\phi\phi' + a^2 \dot\phi\dot\phi'\,xx']",
        demand="lab: a mean over 30 or 60 networks of width 4096 fluctuates by 0.2 %",
        regime="max(widths) >= 4096 and num_seeds >= 30 * num_groups",
    ),
    LIMIT.claim(
        "Its distance from there falls as m^(−1/2), by the central limit theorem.",
        lambda r, c: exponent_between(c.widths, r.start_error, -0.6, -0.4),
        formula=r"\|\hat\Theta_0 - \Theta\| \propto m^{-1/2}",
        demand="derived: a mean over m independent neurons; ± 0.1 is the lab's",
    ),
    MOVEMENT.claim(
        "Training moves the mean kernel by O(1/m).",
        lambda r, c: exponent_between(c.widths, r.mean_movement, -math.inf, -0.8),
        formula=r"\|\mathbb{E}(\hat\Theta_T - \hat\Theta_0)\| = O(m^{-1})",
        demand="lab: the source's −1, and 0.2 for the finite widths",
    ),
    MOVEMENT.found(
        "Not faster: the mean kernel moves as 1/m.",
        lambda r, c: exponent_between(c.widths, r.mean_movement, -1.2, math.inf),
        demand="lab: −1 ± 0.2; the runs it was set on were not kept",
    ),
    DIVERGENT.claim(
        "In the standard parametrization the initial kernel diverges as the width.",
        lambda r, c: exponent_between(c.standard_widths, r.standard_start, 0.9, 1.1),
        quote="the initial empirical NTK diverges with width",
        formula=r"\hat\Theta_0 \sim m\,\mathbb{E}\,\phi\phi'",
        demand="lab: the source's 1, ± 0.1",
    ),
    DIVERGENT.claim(
        "Divided by the width, it goes to E φφ′.",
        lambda r, c: median_between(r.standard_projection, 0.9, 1.1),
        formula=r"\hat\Theta_0 / m \to \mathbb{E}\,\phi\phi'",
        demand="lab: a sum over 512 neurons fluctuates by 5 %",
        regime="max(standard_widths) >= 512 and num_standard >= 10",
    ),
    *STANDARD.erratum(
        printed=(
            "At a time that does not depend on the width, the kernel over m has moved by O(1).",
            lambda r, c: exponent_between(c.standard_widths, r.standard_movement, -0.1, 0.1),
            r"\tilde\Theta_t - \tilde\Theta_0 = \Theta(1)",
        ),
        corrected=(
            "At a time that does not depend on the width, the kernel over m has moved by m^(−2).",
            lambda r, c: exponent_between(c.standard_widths, r.standard_movement, -2.3, -1.7),
            r"\tilde\Theta_t - \tilde\Theta_0 \propto m^{-2}",
        ),
        quote="the normalized kernel keeps evolving with time even in the limit of infinite width",
        regime="num_standard >= 100",
    ),
    STANDARD.found(
        "With residuals held, as the printed equations of motion have it, it does move by O(1).",
        lambda r, c: exponent_between(c.standard_widths, r.driven_movement, -0.15, 0.15),
        formula=r"d\tilde\Theta/dt = O(1)",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    *MOTION.erratum(
        printed=(
            "Weights move by sums of slopes φ′ over the inputs, without residuals.",
            lambda r, c: identity(r.motion.printed, r.motion.velocity, 1e-10),
            r"\dot a_k = m^{-1/2} \sum_j \phi'(w_k x_j)",
        ),
        corrected=(
            "Weights move by sums over residuals times φ or its slope.",
            lambda r, c: identity(r.motion.corrected, r.motion.velocity, 1e-10),
            r"\dot a_k = m^{-1/2} \sum_j (y_j - f(x_j))\,\phi(w_k x_j)",
        ),
        quote="but it does alter the gradient flow",
    ),
    LIMIT.control(
        "Networks do not approach the kernel of the a alone.",
        lambda r, c: exponent_between(c.widths, r.wrong_error, -0.1, 0.1),
    ),
)


def plot(result: Any, config: Config) -> Figure:
    """Draw kernels and their movement over the width, for both parametrizations."""
    figure, (lazy, standard) = panels("NTK parametrization", "standard parametrization")
    errors = {"Θ₀ − Θ": result.start_error, "Θ_T − Θ₀": result.movement}
    scaling(lazy, config.widths, errors | {"mean of Θ_T − Θ₀": result.mean_movement}, -0.5)
    movements = {
        "(Θ_T − Θ₀)/m": result.standard_movement,
        "(Θ_T − Θ₀)/m, residuals held": result.driven_movement,
        "Θ₀": result.standard_start,
    }
    scaling(standard, config.standard_widths, movements, -2.0)
    for axis in (lazy, standard):
        label_axes(axis, "width m")
    return figure
