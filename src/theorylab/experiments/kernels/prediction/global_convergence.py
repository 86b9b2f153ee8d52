"""A wide enough two-layer network fits any labels, and far narrower ones than the theorems ask do.

In f(x) = m^(−1/2) Σᵣ aᵣ relu(wᵣᵀx) with ‖x‖ = 1 and only the rows wᵣ learning, let λ₀ be the least
eigenvalue of the limit H* of the tangent kernel on n samples. As long as H(t) ≥ λ₀/2, the loss is
at most e^(−λ₀t) of the first one, and no row moves by more than 2√n ‖y − u(0)‖/(λ₀√m). Theorems
give widths from which on H(t) ≥ λ₀/2 always, n⁶/(λ₀⁴δ³) and n⁴/λ₀⁴ up to logarithms and a constant.
Here random labels ±1 on random points are fitted at many widths; measured is the first width with
H(t) ≥ λ₀/2.

The source asks ‖x‖ ≥ 1; its bound on the rows needs ‖x‖ ≤ 1, and a factor ‖x‖ beyond.
(The source writes n for the width and m for the number of samples.)

Source: golikov · ntk-global-convergence · 2.6.3, Thms 2.6.1–2.6.2, Eqs 2.126–2.127.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    holds,
    median_at_least,
    median_at_most,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import AboveOne, Count, Increasing, OpenFraction, Seeded
from theorylab.kernels import two_layer
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"H(t) \succeq \tfrac{\lambda_0}{2} \;\Rightarrow\;"
    r" \|u(t) - y\|^2 \le e^{-\lambda_0 t}\,\|u(0) - y\|^2"
)

FIRST = Source("golikov", "ntk-global-convergence", "Thm 2.6.1")
SECOND = Source("golikov", "ntk-global-convergence", "Thm 2.6.2")
ROWS = Source("golikov", "ntk-global-convergence", "Eqs 2.126–2.127")
NUM_RECORDS = 20
NUM_WIDE = 5  # exponents in the width are taken over so many of the largest widths


@dataclass(frozen=True)
class Config(Seeded):
    """Two-layer ReLU networks of many widths that fit random labels of more and more points."""

    widths: Increasing[Count] = (2, 4, 8, 16, 32, 64, 128, 256, 512)  # neurons m
    samples: Increasing[Count] = (8, 16, 32, 64)  # points n
    dimension: Count = 10  # inputs d
    num_steps: Count = 160  # steps of gradient descent, a multiple of 20
    learning_rate: OpenFraction = 0.25  # in units of the critical one, 2/λ_max(H*)
    radius: AboveOne = 50.0  # ‖x‖ > 1, where the bound on the rows is tried as it is printed
    delta: OpenFraction = 0.1  # probability δ with which the theorems may fail
    num_seeds: Count = 8  # draws of points, labels and network

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps % NUM_RECORDS:
            raise ValueError(f"num_steps must be a multiple of 20, got {self.num_steps}.")
        if self.learning_rate >= 0.5:  # beyond, descent is no flow
            raise ValueError(f"learning_rate must be below 0.5, got {self.learning_rate}.")


PRESETS = {
    "smoke": Config(
        widths=(2, 4, 8, 16, 32, 64, 128, 256), samples=(8, 32), num_steps=100, num_seeds=12
    ),
    "paper": Config(
        widths=(2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
        samples=(8, 16, 32, 64, 128, 256, 512),
        num_steps=400,
        num_seeds=50,
    ),
}


class Result(NamedTuple):
    """Axes: n numbers of samples, s seeds, w widths."""

    smallest: Float[np.ndarray, "n s"]  # λ₀
    smallest_ratio: Float[np.ndarray, "n s w"]  # least λ_min(H(t)) in training, over λ₀
    loss_margin: Float[np.ndarray, "n s w"]  # least of −λ₀t − log(loss/first loss), to rounding
    row_margin: Float[np.ndarray, "n s w"]  # bound over largest ‖wᵣ(t) − wᵣ(0)‖, minus 1
    row_movement: Float[np.ndarray, "n s w"]
    start_error: Float[np.ndarray, "n s w"]  # ‖H(0) − H*‖
    flipped: Float[np.ndarray, "n s w"]  # share of activation patterns that changed
    critical_width: Float[np.ndarray, "s n"]  # the first where all λ_min(H(t)) ≥ λ₀/2
    first_theorem: Float[np.ndarray, "s n"]  # the width that Theorem 2.6.1 asks for
    second_theorem: Float[np.ndarray, "s n"]
    far_margin: Float[np.ndarray, " s"]  # of the rows, with inputs of length `radius`

    @property
    def wide(self) -> Bool[np.ndarray, "n s w"]:
        """Where H(t) ≥ λ₀/2 held."""
        return self.smallest_ratio >= 0.5


def memory(config: Config) -> int:
    """Bytes of one training of the widest network on the most samples."""
    return 4 * max(config.widths) * (8 * config.dimension + 8 * max(config.samples))


def run(config: Config) -> Result:
    """Train all widths in one compiled program for each number of samples."""
    report("points, labels and networks", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    draws, widths = _draws(keys, config), jnp.array(config.widths)
    steps = (config.learning_rate, config.num_steps)
    costs = np.cumsum([0, *config.samples]) / sum(config.samples)
    measured = []
    for num_samples, done in zip(config.samples, costs, strict=False):
        report(f"{num_samples} samples", 0.1 + 0.8 * float(done))
        found = _networks(draws.first(num_samples), widths, *steps)
        measured.append({name: np.asarray(values) for name, values in found.items()})
    report("long inputs", 0.9)
    few = draws.first(config.samples[0])
    far = _networks(few._replace(x=config.radius * few.x), widths, *steps)
    stacked = {name: np.stack([at[name] for at in measured]) for name in measured[0]}
    theorems = [
        two_layer.theorem_widths(n, smallest, config.delta)
        for n, smallest in zip(config.samples, stacked["smallest"].astype(float), strict=True)
    ]
    return Result(
        critical_width=_critical_widths(
            np.asarray(config.widths), stacked["smallest_ratio"].astype(float)
        ).T,
        first_theorem=np.stack([first for first, _ in theorems], axis=1),
        second_theorem=np.stack([second for _, second in theorems], axis=1),
        far_margin=np.asarray(far["row_margin"][:, -1]),
        **stacked,
    )


class Draws(NamedTuple):
    """The most points, their labels and the widest network of every seed."""

    x: Float[Array, "s n d"]
    y: Float[Array, "s n"]
    network: two_layer.Network

    def first(self, num_samples: int) -> "Draws":
        """Keep the first points."""
        return Draws(self.x[:, :num_samples], self.y[:, :num_samples], self.network)


@partial(jax.jit, static_argnums=1)
def _draws(keys: Key[Array, " s"], config: Config) -> Draws:
    def one(key: RandomKey) -> tuple[Array, Array, two_layer.Network]:
        for_points, for_labels, for_network = jax.random.split(key, 3)
        x = sphere(for_points, max(config.samples), config.dimension)
        y = jax.random.rademacher(for_labels, (len(x),), x.dtype)
        return x, y, two_layer.init(for_network, max(config.widths), config.dimension)

    return Draws(*jax.vmap(one)(keys))


@partial(jax.jit, static_argnums=(2, 3))
def _networks(
    draws: Draws, widths: Int[Array, " w"], learning_rate: float, num_steps: int
) -> dict[str, Float[Array, "..."]]:
    """What training does, for every seed and width; narrow networks are parts of the widest."""

    def one(
        draw: tuple[Float[Array, "n d"], Float[Array, " n"], two_layer.Network],
    ) -> dict[str, Float[Array, "..."]]:
        x, y, widest = draw
        limit = two_layer.limit_kernel(x)
        eigenvalues = jnp.linalg.eigvalsh(limit)
        smallest, rate = eigenvalues[0], learning_rate * 2 / eigenvalues[-1]

        def at(width: Int[Array, ""]) -> dict[str, Float[Array, ""]]:
            network = two_layer.narrowed(widest, width)
            steps = (NUM_RECORDS, num_steps // NUM_RECORDS)
            run = two_layer.descend(network, x, y, rate, *steps)
            start = two_layer.tangent_kernel(network, x)
            decay = jnp.sum((run.outputs - y[None, :]) ** 2, axis=1) / len(x)
            # Single precision ends before the exponential does.
            allowed = jnp.maximum(-smallest * run.times, jnp.log(1e-10))
            bound = two_layer.eventual_movement_bound(
                jnp.linalg.norm(y), smallest, len(x), width.astype(x.dtype)
            )
            return {
                "smallest_ratio": run.smallest_eigenvalue.min() / smallest,
                "loss_margin": (allowed - jnp.log(decay))[1:].min(),
                "row_margin": bound / run.row_movement[-1] - 1,
                "row_movement": run.row_movement[-1],
                "start_error": jnp.linalg.norm(start - limit, 2),
                "flipped": two_layer.flipped(network, run.network, x),
            }

        return {"smallest": smallest, **jax.lax.map(at, widths)}

    return jax.lax.map(one, tuple(draws))


def _critical_widths(
    widths: Int[np.ndarray, " w"], ratios: Float[np.ndarray, "n s w"]
) -> Float[np.ndarray, "n s"]:
    """The first width with a ratio of ½, between grid points by the ratio's logarithm.

    Where the first ratio is above ½ it is the smallest width; where none is, it is not known.
    """

    def one(ratio: np.ndarray) -> float:
        enough = np.flatnonzero(ratio >= 0.5)
        if len(enough) == 0:
            return float("nan")
        end = enough[0]
        if end == 0:
            return float(widths[0])
        low, high = np.log(np.maximum(ratio[end - 1 : end + 1], 1e-3))
        share = (np.log(0.5) - low) / (high - low)
        return float(widths[end - 1] * (widths[end] / widths[end - 1]) ** share)

    return np.apply_along_axis(one, 2, ratios)


# Exponents in the width are the catalogue's −0.5 ± 0.1. "Well below 4" is taken as below 2; runs
# with other seeds gave 0.6. The ratio to the theorems is 1e6 and more; their constants are unknown
# and taken as 1, so that 1e4 leaves them room.
CLAIMS = (
    FIRST.claim(
        "Where H(t) ≥ λ₀/2, the loss is never above e^(−λ₀t) of the first one.",
        lambda r, c: holds(r.loss_margin[r.wide], 1e-4),  # single precision
        formula=r"\|u(t) - y\|^2 \le e^{-\lambda_0 t}\,\|u(0) - y\|^2",
    ),
    ROWS.corrected(
        "Where H(t) ≥ λ₀/2, no row ever moves by more than 2√n ‖y − u(0)‖/(λ₀√m), for ‖x‖ = 1.",
        lambda r, c: holds(r.row_margin[r.wide]),
        formula=r"\|w_r(t) - w_r(0)\| \le \frac{2\sqrt{n}\,\|y - u(0)\|}{\lambda_0 \sqrt{m}}",
    ),
    *ROWS.erratum(
        printed=(
            "The same bound on the rows holds for longer inputs, ‖x‖ ≥ 1.",
            lambda r, c: holds(r.far_margin),
        ),
        corrected=(
            "For longer inputs it holds with a factor ‖x‖.",
            lambda r, c: holds(c.radius * (r.far_margin + 1) - 1),
        ),
    ),
    SECOND.claim(
        "The first width with H(t) ≥ λ₀/2 grows far slower than n⁴: as a power below 2.",
        lambda r, c: exponent_between(np.asarray(c.samples), r.critical_width, 0.0, 2.0),
    ),
    SECOND.claim(
        "Theorem 2.6.2 asks for at least ten thousand times the width that is needed.",
        lambda r, c: median_at_least((r.second_theorem / r.critical_width).min(axis=1), 1e4),
        formula=r"m \gtrsim \frac{n^4}{\lambda_0^4} \log^3 \frac{n}{\delta}",
    ),
    ROWS.claim(
        "The row that moves most moves as m^(−1/2).",
        lambda r, c: exponent_between(
            np.asarray(c.widths)[-NUM_WIDE:],
            np.exp(np.log(r.row_movement[:, :, -NUM_WIDE:]).mean(axis=0)),
            *(-0.6, -0.4),
        ),
    ),
    FIRST.claim(
        "At the beginning the kernel is m^(−1/2) away from its limit.",
        lambda r, c: exponent_between(
            np.asarray(c.widths), np.sqrt(np.mean(r.start_error**2, axis=0)), -0.6, -0.4
        ),
        formula=r"\|H(0) - H^*\| \propto m^{-1/2}",
    ),
    FIRST.control(
        "The narrowest networks do not fit the most samples at that rate.",
        lambda r, c: median_at_most(r.loss_margin[-1, :, 0], 0.0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the least eigenvalue in training, the critical widths, movements and flips."""
    samples = np.asarray(config.samples)
    widths = np.asarray(config.widths)
    figure, (eigenvalue, critical, movement) = panels(
        "least λ_min(H(t)) / λ₀", "width that is enough", "rows and patterns"
    )
    for n, ratios, rows, flips in zip(
        *(samples, result.smallest_ratio, result.row_movement, result.flipped), strict=True
    ):
        eigenvalue.semilogx(widths, np.median(ratios, axis=0), "o-", ms=3, label=f"n = {n}")
        (line,) = movement.loglog(widths, np.median(rows, axis=0), "o-", ms=3)
        movement.loglog(
            widths, np.median(flips, axis=0), ":", color=line.get_color(), label=f"n = {n}"
        )
    eigenvalue.axhline(0.5, label="½", **THEORY)
    eigenvalue.set(xlabel="width m")
    movement.set(xlabel="width m", ylabel="largest row movement; flipped share (dotted)")
    critical.loglog(samples, np.median(result.critical_width, axis=0), "o-", label="measured")
    critical.loglog(samples, np.median(result.second_theorem, axis=0), label="Thm 2.6.2", **THEORY)
    critical.loglog(
        samples,
        np.median(result.first_theorem, axis=0),
        ":",
        color="#222222",
        label="Thm 2.6.1",
    )
    critical.set(xlabel="samples n")
    for axis in (eigenvalue, critical, movement):
        axis.legend(fontsize=7)
    return figure
