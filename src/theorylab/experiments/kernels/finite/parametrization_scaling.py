"""One network in two parametrizations: its kernel has a limit in one and grows in the other.

    NTK         f(x) = m^(−½) Σ_k a_k φ(w_k x),   a, w ~ N(0, 1)
    standard    f(x) = Σ_k a_k φ(w_k x),          a ~ N(0, 1/m), w ~ N(0, 1)

In the NTK parametrization the tangent kernel goes to E[φ(wx)φ(wx′) + a²φ′(wx)φ′(wx′)xx′] as m^(−½),
and training moves it by 1/m in the mean. In the standard one it grows as m, so that stable learning
rates fall as 1/m. The source says of the kernel divided by m that it keeps evolving, dΘ̃/dt = O(1).
That is so while residuals are held: the a_k, of size m^(−½), then grow to O(1). But residuals decay
in a time of 1/m; at a fixed number of steps, in which ηm is fixed, training moves Θ̃ by m^(−2) only.

The equations of motion are printed without residuals and without φ; as they should read,

    da_k/dt = m^(−½) Σⱼ (yⱼ − f(xⱼ)) φ(w_k xⱼ),
    dw_k/dt = m^(−½) Σⱼ (yⱼ − f(xⱼ)) a_k φ′(w_k xⱼ) xⱼ.

Source: golikov · ntk-param-scaling · 2.2, 2.7, Eqs 2.12–2.19, 2.31, 2.147.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theorylab.claims import Source, exponent_between, identity
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Positive, Seeded
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

LIMIT = Source("golikov", "ntk-param-scaling", "Thm 2.2.1, Eqs 2.12–2.19")
MOVEMENT = Source("golikov", "ntk-param-scaling", "Eq. 2.31")
STANDARD = Source("golikov", "ntk-param-scaling", "2.7")
MOTION = Source("golikov", "ntk-param-scaling", "Eqs 2.14, 2.15, 2.147")

LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config(Seeded):
    """Erf networks of one input and one hidden layer: their kernels before and after training."""

    widths: Increasing[Count] = (256, 512, 1024, 2048, 4096)  # width m of the hidden layer
    num_samples: Count = 4  # training inputs, evenly from −2 to 2
    time: Positive = 1.0  # of training, in units in which the limit kernel is the rate
    num_steps: Count = 10  # of gradient descent in that time
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
        largest = 2 * self.num_steps / (1.5 * self.num_samples)
        if self.time >= largest:
            raise ValueError(f"time must be below {largest:.4g} to be stable, got {self.time}.")


PRESETS = {
    "smoke": Config(widths=(256, 1024, 4096), num_seeds=300, num_standard=40),
    "paper": Config(
        widths=(32, 64, 128, 256, 512, 1024, 2048, 4096, 8192), num_samples=20, num_steps=100
    ),
}


class Result(NamedTuple):
    """Axes: g groups of networks, s networks, w widths, n samples. Sizes are Frobenius norms."""

    limit: Float[np.ndarray, "n n"]
    expected_limit: Float[np.ndarray, "n n"]  # the mean over w and a, by quadrature
    start_error: Float[np.ndarray, "g w"]  # Θ₀ − Θ, root mean square
    wrong_error: Float[np.ndarray, "g w"]  # Θ₀ − E φφ′, as if the w were not trained
    movement: Float[np.ndarray, "g w"]  # Θ_T − Θ₀, root mean square
    mean_movement: Float[np.ndarray, "g w"]  # of the mean of Θ_T − Θ₀
    standard_start: Float[np.ndarray, "r w"]  # Θ₀ in the standard parametrization
    standard_movement: Float[np.ndarray, "r w"]  # (Θ_T − Θ₀)/m, at a fixed number of steps
    driven_movement: Float[np.ndarray, "r w"]  # (Θ_t − Θ₀)/m, residuals held for t = 1
    velocity: Float[np.ndarray, " p"]  # of a and w of one network, by autodiff
    corrected: Float[np.ndarray, " p"]  # by the equations of motion
    printed: Float[np.ndarray, " p"]  # by them as printed


def memory(config: Config) -> int:
    """Bytes of the Jacobians of the widest networks, some at once, and of all kernels."""
    kernels = len(config.widths) * (config.num_seeds + 2 * config.num_standard)
    return 8 * (16 * max(config.widths) + 4 * kernels * config.num_samples) * config.num_samples


def run(config: Config) -> Result:
    """Train networks in both parametrizations, and compare their kernels."""
    report("kernels and training", 0.0)
    x = jnp.linspace(-2.0, 2.0, config.num_samples)[:, None]
    y = 2 * jnp.sin(x)
    nngp, limit = (np.asarray(k) for k in infinite_kernels(mlp([1], activation="erf"), x)[:2])
    start, end = _kernels(x, y, config)
    lazy, standard = slice(config.num_seeds), slice(config.num_seeds, -config.num_standard)
    driven = slice(-config.num_standard, None)
    widths = np.asarray(config.widths)

    def mean(values: np.ndarray) -> np.ndarray:
        """The mean over the networks of each group."""
        return values.reshape(config.num_groups, -1, *values.shape[1:]).mean(axis=1)

    moved = end - start
    return Result(
        limit=limit,
        expected_limit=_limit(x),
        start_error=np.sqrt(mean(_norm(start[lazy] - limit) ** 2)),
        wrong_error=np.sqrt(mean(_norm(start[lazy] - nngp) ** 2)),
        movement=np.sqrt(mean(_norm(moved[lazy]) ** 2)),
        mean_movement=_norm(mean(moved[lazy])),
        standard_start=_norm(start[standard]),
        standard_movement=_norm(moved[standard]) / widths,
        driven_movement=_norm(moved[driven]) / widths,
        **_motion(x, y, config),
    )


def _kernels(
    x: Float[Array, "n 1"], y: Float[Array, "n 1"], config: Config
) -> tuple[np.ndarray, np.ndarray]:
    """Θ₀ and Θ_T of all networks: NTK, standard, and standard with residuals held; axes (s, w).

    f = s Σ (b a_k) φ(w_k x)/√m is the NTK parametrization at s = b = 1 and the standard one at
    s = √m, b = 1/√m; all of them are one program.
    """
    networks = nested(max(config.widths), 1, "erf")
    kinds = np.repeat([0, 1, 2], [config.num_seeds, config.num_standard, config.num_standard])
    shape = (len(kinds), len(config.widths))
    kinds = np.broadcast_to(kinds[:, None], shape)
    widths = np.broadcast_to(np.asarray(config.widths, float), shape)
    scales = np.where(kinds > 0, np.sqrt(widths), 1.0)
    # Time 1 for those that are held; for the others the same number of steps of ηs².
    times = np.where(kinds == 2, 1.0, config.time / scales**2)
    keys = jax.random.split(jax.random.key(config.seed), shape)

    def one(
        given: tuple[Array, Array, Array, Bool[Array, ""], RandomKey],
    ) -> Float[Array, "2 n n"]:
        width, scale, time, held, key = given
        inner, outer = networks.init(key)
        network = networks.at_width(width)
        params = (inner, outer / scale)

        def apply(params: Params, x: Array) -> Array:
            return scale * network(params, x)

        residual = y - apply(params, x)

        def objective(params: Params) -> Float[Array, ""]:
            outputs = apply(params, x)
            return jnp.where(held, -jnp.vdot(residual, outputs), LOSS(outputs, y))

        optimizer = gradient_descent(time / config.num_steps)
        run = descend(
            objective, params, optimizer, [0, config.num_steps], lambda w: ntk(apply, w, x)
        )
        return run.records

    flat = tuple(array.ravel() for array in (widths, scales, times, kinds == 2, keys))
    found = np.asarray(ensemble(one, flat)).reshape(*shape, 2, len(x), len(x))
    return found[:, :, 0], found[:, :, 1]


def _limit(x: Float[Array, "n 1"]) -> Float[np.ndarray, "n n"]:
    """E[φ(wx)φ(wx′) + a²φ′(wx)φ′(wx′)xx′] over w ~ N(0, 1), with E a² = 1."""
    w, weights = gauss_hermite(256)
    h = x * w[None, :]
    value, slope = jax.scipy.special.erf(h), 2 / math.sqrt(math.pi) * jnp.exp(-(h**2)) * x
    terms = (jnp.einsum("ik,jk,k->ij", part, part, weights) for part in (value, slope))
    return np.asarray(sum(terms))


def _motion(
    x: Float[Array, "n 1"], y: Float[Array, "n 1"], config: Config
) -> dict[str, Float[np.ndarray, " p"]]:
    """The velocity of all weights of the narrowest network in the NTK parametrization."""
    width = min(config.widths)
    networks = nested(width, 1, "erf")
    apply = networks.at_width(width)
    params = networks.init(jax.random.key(config.seed))
    velocity = jax.grad(lambda params: -LOSS(apply(params, x), y))(params)
    w, a = params[0][0], params[1][:, 0]
    h = x * w[None, :]
    residual = y - apply(params, x)
    slope = 2 / math.sqrt(math.pi) * jnp.exp(-(h**2))
    root = math.sqrt(width)
    corrected_w = (residual * a[None, :] * slope * x).sum(axis=0) / root
    corrected_a = (residual * jax.scipy.special.erf(h)).sum(axis=0) / root
    printed_w, printed_a = (a[None, :] * x).sum(axis=0) / root, h.sum(axis=0) / root
    return {
        "velocity": np.concatenate([np.ravel(part) for part in velocity]),
        "corrected": np.concatenate([corrected_w, corrected_a]),
        "printed": np.concatenate([printed_w, printed_a]),
    }


def _norm(kernels: np.ndarray) -> np.ndarray:
    return np.linalg.norm(kernels, axis=(2, 3))


CLAIMS = (  # the tolerances of exponents are the catalogue's, where it has them
    LIMIT.claim(
        "The limit of the kernel is the mean over w and a.",
        lambda r, c: identity(r.limit, r.expected_limit, 1e-10),
        formula=r"\Theta = \mathbb{E}[\phi\phi' + a^2 \dot\phi\dot\phi'\,xx']",
    ),
    LIMIT.claim(
        "In the NTK parametrization random networks approach it as m^(−1/2).",
        lambda r, c: exponent_between(np.asarray(c.widths), r.start_error, -0.6, -0.4),
        formula=r"\|\hat\Theta_0 - \Theta\| \propto m^{-1/2}",
    ),
    MOVEMENT.claim(
        "Training moves the mean kernel by 1/m.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.mean_movement, -1.2, -0.8),
        formula=r"\|\mathbb{E}(\hat\Theta_T - \hat\Theta_0)\| \propto m^{-1}",
    ),
    MOVEMENT.claim(
        "It moves the kernel of each network at least as fast to zero as m^(−0.45).",
        lambda r, c: exponent_between(np.asarray(c.widths), r.movement, -1.2, -0.45),
    ),
    STANDARD.claim(
        "In the standard parametrization the kernel grows as the width.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.standard_start, 0.9, 1.1),
        formula=r"\hat\Theta_0 \sim m\,\mathbb{E}\,\phi\phi'",
    ),
    *STANDARD.erratum(
        printed=(
            "There, divided by the width, training moves it as much at every width.",
            lambda r, c: exponent_between(np.asarray(c.widths), r.standard_movement, -0.1, 0.1),
            r"\tilde\Theta_T - \tilde\Theta_0 = O(1)",
        ),
        corrected=(
            "There, divided by the width, a fixed number of stable steps moves it by m^(−2).",
            lambda r, c: exponent_between(np.asarray(c.widths), r.standard_movement, -2.3, -1.7),
            r"\tilde\Theta_T - \tilde\Theta_0 \propto m^{-2}, \quad \eta m\ \mathrm{fixed}",
        ),
    ),
    STANDARD.claim(
        "It would move as much at every width if residuals were held for a time of 1.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.driven_movement, -0.15, 0.15),
        formula=r"d\tilde\Theta/dt = O(1)",
    ),
    *MOTION.erratum(
        printed=(
            "Weights move by sums over the inputs alone.",
            lambda r, c: identity(r.printed, r.velocity, 1e-10),
            r"\dot a_k = m^{-1/2} \sum_j w_k x_j",
        ),
        corrected=(
            "Weights move by sums over residuals times φ or its slope.",
            lambda r, c: identity(r.corrected, r.velocity, 1e-10),
            r"\dot a_k = m^{-1/2} \sum_j (y_j - f(x_j))\,\phi(w_k x_j)",
        ),
    ),
    LIMIT.control(
        "Networks do not approach the kernel of the a alone.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.wrong_error, -0.1, 0.1),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw kernels and their movement over the width, for both parametrizations."""
    widths = np.asarray(config.widths)
    figure, (lazy, standard) = panels("NTK parametrization", "standard parametrization")
    _curve(lazy, widths, result.start_error, -0.5, "Θ₀ − Θ")
    _curve(lazy, widths, result.movement, -1.0, "Θ_T − Θ₀")
    _curve(lazy, widths, result.mean_movement, -1.0, "its mean")
    _curve(standard, widths, result.standard_start, 1.0, "Θ₀")
    _curve(standard, widths, result.driven_movement, 0.0, "(Θ_t − Θ₀)/m, residuals held")
    _curve(standard, widths, result.standard_movement, -2.0, "(Θ_T − Θ₀)/m")
    for axis in (lazy, standard):
        axis.set(xscale="log", yscale="log", xlabel="width m")
        axis.legend(fontsize=7)
    return figure


def _curve(axis: Axes, widths: np.ndarray, values: np.ndarray, power: float, label: str) -> None:
    middle = np.median(values, axis=0)
    axis.plot(widths, middle, "o", markersize=3, label=label)
    axis.plot(widths, middle[0] * (widths / widths[0]) ** power, **THEORY)
