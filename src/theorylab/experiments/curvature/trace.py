"""A trace estimated from matrix–vector products has a 95 % interval that covers in 95 %.

The trace of A is estimated from random signs z, after some directions Q were deflated. Where a few
directions outweigh all others, the estimates are skewed: with one large direction left, they follow
χ² with one degree of freedom, and Student's interval of 95 % covers in 90 %. Where Q spans the
whole range of A, as for the Gauss–Newton operator of a few samples, only rounding is left, and an
interval from the spread of rounding errors covers in half of the cases. With Hall's correction and
an allowance for rounding the interval covers as often as it says, on every kind of operator here.

Deflation pays: at equal cost the variance falls by orders of magnitude on a decaying spectrum.

The trace of a Hessian is no statement of the sources: these are checks of the library.

Source: zhu · hessian-norm · 2.3.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure
from scipy import special

from theorylab.claims import Source, at_most, holds, probability_at_most, probability_between
from theorylab.experiments.curvature._operators import rotated
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Plural, Seed
from theorylab.models import mlp, network
from theorylab.numerics import trace
from theorylab.numerics.trace import TraceEstimate
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = (
    r"\mathrm{tr}\, A = \mathrm{tr}\, Q^\top A Q"
    r" + \mathbb E\, z^\top (1 - QQ^\top) A (1 - QQ^\top) z"
)
HESSIAN = Source("zhu", "hessian-norm", "2.3")

KINDS = ("decaying", "outliers", "one is left", "Gauss–Newton", "Wigner")  # with chance
ONE_LEFT = KINDS.index("one is left")
HELD = ("low rank", "Gauss–Newton of few samples")  # of which Q holds all


@dataclass(frozen=True)
class Config(Checked):
    """Operators of many kinds, and many estimates of their traces."""

    size: int = 60  # dimensions p of an operator
    num_repeats: Plural = 4000  # intervals of each trace: 95 % of them is known to 0.7 %
    num_probes: Plural = 20  # random vectors z
    rank: Plural = 10  # directions Q
    seed: Seed = 0  # of all randomness

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 2 * self.rank or self.size % 4:
            raise ValueError(
                f"size must be a multiple of 4 of at least {2 * self.rank}, twice the rank, "
                f"got {self.size}."
            )


PRESETS = {
    "smoke": Config(size=40),
    "paper": Config(size=400, num_repeats=10000),
}


class Result(NamedTuple):
    """Axes: a kinds (`KINDS`), h kinds of which all is held (`HELD`), q repeats."""

    covered: Int[Measured, " a"]  # how many intervals cover the trace
    student: Int[Measured, " a"]  # how many of Student's alone would
    margins: Float[Measured, "h q"]  # from the trace to the nearer end, over the trace
    held_student: Int[Measured, " h"]
    errors: Float[Measured, "a q"]  # of the estimates, over the trace
    plain_variance: Float[Measured, ""]  # of Hutchinson's estimate on the decaying spectrum
    better_variance: Float[Measured, ""]  # at equal cost, with deflation


def memory(config: Config) -> int:
    """Bytes of the vectors of all repeats of one operator."""
    each = config.size * (2 * config.rank + 2 * config.num_probes)
    return 8 * (2 * config.num_repeats * each + len(KINDS + HELD) * config.size**2)


def run(config: Config) -> Result:
    """Estimate every trace many times."""
    matrix_key, key = jax.random.split(jax.random.key(config.seed))
    matrices = _matrices(matrix_key, config.size, config.rank)
    exact = np.trace(matrices, axis1=1, axis2=2)[:, None]
    keys = jax.random.split(key, config.num_repeats)
    report("intervals of traces", 0.1)
    found = jax.tree.map(np.asarray, _estimates(matrices, keys, config.num_probes, config.rank))
    report("estimates without deflation", 0.8)
    plain = _estimates(matrices[:1], keys, config.num_probes + 2 * config.rank, 0)
    t = special.stdtrit(config.num_probes - 1, 0.975)
    covered = (found.low <= exact) & (exact <= found.high)
    student = np.abs(found.value - exact) <= t * found.error
    margins = np.minimum(exact - found.low, found.high - exact) / np.abs(exact)
    number = len(KINDS)
    return Result(
        covered=covered[:number].sum(axis=1),
        student=student[:number].sum(axis=1),
        margins=margins[number:],
        held_student=student[number:].sum(axis=1),
        errors=((found.value - exact) / np.abs(exact))[:number],
        plain_variance=np.var(np.asarray(plain.value)),
        better_variance=np.var(found.value[0]),
    )


def _matrices(key: RandomKey, size: int, rank: int) -> Float[Array, "a p p"]:
    """One of every kind, in the order of `KINDS` and `HELD`."""
    numbers = jnp.arange(1.0, size + 1)
    keys = jax.random.split(key, 5)
    spectra = (
        100 / numbers**2,
        jnp.where(numbers <= rank + 2, 50.0, numbers / size),
        jnp.where(numbers <= rank + 1, 1.0, 0.0),
        jnp.where(numbers <= rank // 2, numbers, 0.0),
    )
    decaying, outliers, left, low = (
        rotated(each, values) for each, values in zip(keys[:4], spectra, strict=True)
    )
    drawn = jax.random.normal(keys[4], (size * size,)).reshape(size, size)
    wigner = (drawn + drawn.T) / math.sqrt(8 * size) + jnp.eye(size)
    many, few = (_gauss_newton(keys[4], size, count) for count in (rank + 4, rank // 2))
    return jnp.stack([decaying, outliers, left, many, wigner, low, few])


def _gauss_newton(key: RandomKey, size: int, num_samples: int) -> Float[Array, "p p"]:
    """JᵀJ of a tanh network of two layers with as many weights, at a few inputs."""
    model = network(mlp([size // 4], 1, "tanh"), (3,))
    x = jax.random.normal(key, (num_samples * 3,)).reshape(num_samples, 3)
    slopes = jax.jacrev(lambda params: model.apply(params, x)[:, 0])(model.init(key))
    jacobian = jnp.concatenate(
        [leaf.reshape(num_samples, -1) for leaf in jax.tree.leaves(slopes)], axis=1
    )[:, :size]
    return jacobian.T @ jacobian


@partial(jax.jit, static_argnums=(2, 3))
def _estimates(
    matrices: Float[Array, "a p p"], keys: Key[Array, " q"], num_probes: int, rank: int
) -> TraceEstimate:
    """All estimates of all traces, (a, q) each."""

    def repeated(matrix: Float[Array, "p p"]) -> TraceEstimate:
        one = lambda key: trace(lambda v: matrix @ v, len(matrix), key, num_probes, rank)  # noqa: E731
        return jax.vmap(one)(keys)

    return jax.lax.map(repeated, matrices)


def _covers(kind: int):
    return lambda r, c: probability_between(r.covered[kind], c.num_repeats, 0.93, 0.97)


GOAL = "lab: 93 to 97 % is the library's own goal for an interval of 95 %"
CLAIMS = (
    HESSIAN.check(
        "The interval covers in 93 to 97 % of the repeats, on a spectrum that decays.",
        _covers(0),
        demand=GOAL,
    ),
    HESSIAN.check("So it does with more outliers than directions.", _covers(1), demand=GOAL),
    HESSIAN.check("So it does where one direction is left.", _covers(2), demand=GOAL),
    HESSIAN.check(
        "So it does for a Gauss–Newton operator of more samples than directions.",
        _covers(3),
        demand=GOAL,
    ),
    HESSIAN.check("So it does for a Wigner matrix.", _covers(4), demand=GOAL),
    HESSIAN.control(
        "Where one direction is left, Student's interval alone covers in less than 93 %.",
        lambda r, c: probability_at_most(r.student[ONE_LEFT], c.num_repeats, 0.93),
        demand=GOAL,
    ),
    HESSIAN.check(
        "Where the directions hold all, the interval always covers.",
        lambda r, c: holds(r.margins),
    ),
    HESSIAN.check(
        "And then it is no wider than rounding, 1e-12 of the trace.",
        lambda r, c: at_most(r.margins.max(), 1e-12),
    ),
    HESSIAN.control(
        "Without an allowance for rounding it would miss in a tenth of the repeats or more.",
        lambda r, c: probability_at_most(
            r.held_student.sum(), r.held_student.size * c.num_repeats, 0.9
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    HESSIAN.found(
        "With deflation the estimate has less than a tenth of the variance at equal cost.",
        lambda r, c: at_most(r.better_variance / r.plain_variance, 0.1),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """How often both intervals cover, and the law of the errors."""
    figure, (coverage, errors) = panels("share of intervals that cover", "law of the errors")
    coverage.plot(KINDS, result.covered / config.num_repeats, "o", label="corrected")
    coverage.plot(KINDS, result.student / config.num_repeats, "s", label="Student alone")
    coverage.axhline(0.95, **THEORY)
    coverage.tick_params(axis="x", labelsize=6, rotation=30)
    for kind, each in zip(KINDS, result.errors, strict=True):
        errors.ecdf(each, label=kind)
    errors.set_xscale("symlog", linthresh=1e-3)
    label_axes(errors, "error / trace", "share of repeats below")
    for axis in (coverage, errors):
        axis.legend(fontsize=6)
    return figure
