"""Examples on a line are catapulted one eigendirection at a time.

Take examples with one input each, from N(2, 1) with label 1 and from N(−2, 1) with label −1, and
the quadratic model of a two-layer ReLU network. Its tangent kernel has two eigendirections, the
positive and the negative examples, with eigenvalues λ₁ ≥ λ₂; they never turn, and what is
orthogonal to them is never learned. Each direction is a model of one example by itself: it
catapults, and its eigenvalue falls, if and only if η exceeds its own threshold. Between the two
thresholds λ₁ alone falls, beyond both of them both fall, and beyond 4/λ₁ the run diverges. The
ReLU network itself shows the same.

Thresholds are 2/λ for the loss ½ Σ (g − y)², as the source defines it, but n/λ for the mean
squared error, and 0.37 and 0.39, as the figure says, can only be the latter: learning rates here
are those of the mean. They depend on the sample, so every draw has its own.

Source: zhu · nqm-multi · Thm 3.3.6, B.11, Figs 3.3, B.1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_least,
    at_most,
    holds,
    median_at_most,
    median_between,
    probability_at_least,
)
from theorylab.dynamics.quadratic import gated, plane, several_examples
from theorylab.dynamics.quadratic.gated import GatedWeights
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Count, Plural, Seeded
from theorylab.progress import report
from theorylab.training import convert_learning_rate, descend, ensemble, gradient_descent, squared
from theorylab.typing import Apply, Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"r' = (1 - \eta\lambda + \tfrac{\eta^2 s}{m} r (r + \bar y))\, r, \quad \lambda' = \lambda"
    r" + \tfrac{\eta^2 s}{m} r^2 \lambda - \tfrac{4 \eta s}{m} r (r + \bar y)"
)

THEOREM = Source("zhu", "nqm-multi", "Thm 3.3.6")
KERNEL = Source("zhu", "nqm-multi", "B.11.1")
SCALE = Source("zhu", "nqm-relu2", "Prop. B.11.2")
ORTHOGONAL = Source("zhu", "nqm-multi", "B.11.3")
AFTER = Source("zhu", "nqm-multi", "B.11, end of the catapult")
REDUCTION = Source("zhu", "nqm-multi", "Eqs B.7–B.12")
FIGURE = Source("zhu", "nqm-multi", "Fig. 3.3")
NETWORK = Source("zhu", "nqm-multi", "Fig. B.1")

MEAN, HALF_SUM = squared("mean"), squared("half_sum")
PLACES = 0.17, 0.83  # from where to where learning rates are between the ends of their regime
APART = 1.03, 1.8  # λ₁/λ₂ of the draws that are judged, as the catalogue demands
# An eigenvalue that falls by more than 2 % has fallen. Catapults mirror it at the threshold: 1 %
# beyond, it falls by just that. So what is within 2 % of the threshold is not judged.
FALL, BAND = 0.02, 0.02


@dataclass(frozen=True)
class Config(Seeded):
    """Draws of examples and networks, at learning rates of every regime."""

    num_samples: Plural = 128  # examples n
    width: Count = 5000  # width m
    num_rates: Plural = 5  # learning rates in each of three regimes
    num_steps: Count = 500  # steps of gradient descent; near a threshold a catapult takes hundreds
    num_seeds: Count = 24  # independent draws; those with nearly equal λ are left out


PRESETS = {
    "smoke": Config(num_samples=32, width=3000, num_rates=3, num_steps=300, num_seeds=8),
    "paper": Config(num_steps=2000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s draws, e learning rates, t steps; 2 directions, that of λ₁ first; 3: and the rest."""

    learning_rates: Float[Measured, "s e"]  # for the mean squared error
    thresholds: Float[Measured, "s 2"]  # n/λ₁, n/λ₂
    half_sum_thresholds: Float[Measured, "s 2"]  # 2/λ₁, 2/λ₂
    divergence: Float[Measured, " s"]  # 2n/λ₁
    losses: Float[Measured, "s e t 3"]  # of the quadratic model, by direction
    first: Float[Measured, "s 2"]  # λ₁, λ₂ initially
    last: Float[Measured, "s e 2"]  # and at the end
    network_last: Float[Measured, "s e 2"]  # of the ReLU network itself
    map_error: Float[Measured, "s e"]  # of (r, λ), relative to the running maximum
    printed_error: Float[Measured, "s e"]  # of the map without the factor s
    rank_error: Float[Measured, " s"]  # of K = Σ λqqᵀ at the end, relative
    diverged_loss: Float[Measured, " s"]  # last over first at 1.1 times `divergence`
    scale: Float[Measured, " s"]  # λ₁ initially over max(s₊, s₋)


def memory(config: Config) -> int:
    """Bytes of weights and kernels of two draws at all learning rates, and of records."""
    rates = 3 * config.num_rates + 1
    hidden = 30 * config.width
    records = config.num_steps * (16 * config.num_seeds + 2 * config.num_samples)
    kernels = 6 * config.num_samples * (config.num_samples + config.width)
    return 8 * rates * (2 * hidden + 2 * kernels + records)


def run(config: Config) -> Result:
    """Draw, train in the weights, and run the map beside."""
    report("quadratic models and networks", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    sizes = (config.num_samples, config.width, config.num_rates, config.num_steps)
    found = ensemble(partial(_draw, *sizes), keys)
    return Result(**found)


def _draw(
    num_samples: int, width: int, num_rates: int, num_steps: int, key: RandomKey
) -> dict[str, Array]:
    """All learning rates of one draw of examples and weights."""
    data_key, weights_key = jax.random.split(key)
    x, y = several_examples.two_gaussians(data_key, num_samples)
    initial = gated.init(weights_key, width, 1)
    start, _ = several_examples.state(initial, initial, x)
    order = jnp.argsort(-jnp.asarray(start.curvature))
    first = jnp.asarray(start.curvature)[order]
    thresholds = MEAN.critical_learning_rate(1.0, num_samples) / first
    rates = _learning_rates(thresholds, num_rates)
    divergence = 2 * thresholds[0]

    def one(rate: Scalar) -> dict[str, Array]:
        eta = convert_learning_rate(rate, MEAN, HALF_SUM, num_samples)
        found = _trained(initial, x, y, eta, num_steps)
        found["losses"] = found["losses"][:, jnp.append(order, 2)]
        return found | {name: found[name][order] for name in ("last", "network_last")}

    found = jax.vmap(one)(jnp.append(rates, 1.1 * divergence))
    total = found["losses"].sum(axis=-1)
    bounds = several_examples.largest_eigenvalue_bounds(x)
    return {name: values[:-1] for name, values in found.items() if name != "rank_error"} | {
        "learning_rates": rates,
        "thresholds": thresholds,
        "half_sum_thresholds": HALF_SUM.critical_learning_rate(1.0, num_samples) / first,
        "divergence": divergence,
        "first": first,
        "rank_error": found["rank_error"][:-1].max(),
        "diverged_loss": total[-1, -1] / total[-1, 0],
        "scale": first[0] / (2 * bounds[0]),
    }


def _learning_rates(thresholds: Float[Array, " 2"], num_rates: int) -> Float[Array, " e"]:
    """So many in each regime: below both thresholds, between them, beyond both and below 2n/λ₁."""
    low, high = thresholds
    begin, end = jnp.stack([0.5 * low, low, high]), jnp.stack([0.95 * low, high, 1.9 * low])
    places = jnp.linspace(*PLACES, num_rates)
    return (begin[:, None] + places[None, :] * (end - begin)[:, None]).reshape(-1)


def _trained(
    initial: GatedWeights, x: Float[Array, " n"], y: Float[Array, " n"], eta: Scalar, num_steps: int
) -> dict[str, Array]:
    """Descend on ½ Σ (g − y)², for the quadratic model and for the network; and run the map."""
    steps, optimizer = np.arange(num_steps + 1), gradient_descent(eta)
    inputs, width = x[:, None], len(initial.second)
    model = gated.quadratic_model(initial)

    def objective(apply: Apply) -> Callable[[GatedWeights], Float[Array, ""]]:
        return lambda weights: HALF_SUM(
            several_examples.outputs(apply, weights, x)[:, None], y[:, None]
        )

    measure = partial(several_examples.state, initial=initial, x=x)
    path = descend(objective(model), initial, optimizer, steps, measure)
    state, outputs = path.records
    network = descend(objective(gated.network), initial, optimizer, steps[-1:], lambda _: ()).params
    network_kernel = gated.tangent_kernel(network, gated.gates(network, inputs), inputs)
    seen = several_examples.projected(y, network_kernel, x)
    first = jax.tree.map(lambda values: values[0], state)
    problem = several_examples.problem(x, y, width, eta)
    printed = several_examples.printed_problem(x, y, width, eta)

    def error(by: plane.PlaneProblem) -> Float[Array, ""]:
        predicted = plane.trajectory(first, by, num_steps)
        return several_examples.map_error(state, predicted, problem)

    kernel, last = several_examples.kernel(path.params, initial, x), state.curvature[-1]
    directions = several_examples.directions(x).vectors
    rest = kernel - jnp.einsum("a,ai,aj->ij", last, directions, directions)
    return {
        "losses": jax.vmap(lambda g: several_examples.projected_losses(g, x, y))(outputs),
        "last": last,
        "network_last": jnp.asarray(seen.curvature),
        "map_error": error(problem),
        "printed_error": error(printed),
        "rank_error": jnp.linalg.norm(rest) / jnp.linalg.norm(kernel),
    }


def _judged(result: Result) -> Bool[np.ndarray, " s"]:
    """The draws whose eigenvalues are apart, but not so far that 4/λ₁ comes before 2/λ₂."""
    ratio = result.first[:, 0] / result.first[:, 1]
    return (ratio > APART[0]) & (ratio < APART[1])


def _predicted(result: Result) -> Bool[np.ndarray, "s e 2"]:
    return result.learning_rates[..., None] > result.thresholds[:, None]


def _fell(result: Result, last: np.ndarray) -> Bool[np.ndarray, "s e 2"]:
    return last < (1 - FALL) * result.first[:, None]


def _clear(result: Result) -> Bool[np.ndarray, "s e 2"]:
    """Draws that are judged, at learning rates that are not in the band."""
    ratio = result.learning_rates[..., None] / result.thresholds[:, None]
    return (np.abs(ratio - 1) > BAND) & _judged(result)[:, None, None]


def _wrong(result: Result, last: np.ndarray) -> np.ndarray:
    """Whether an eigenvalue falls although η is below its threshold, or the other way round."""
    return (_predicted(result) != _fell(result, last))[_clear(result)]


def _ended(result: Result) -> np.ndarray:
    """ηλ₁/n at the end, of the judged draws beyond both thresholds."""
    place = result.learning_rates * result.last[..., 0] / (result.first * result.thresholds)[:, :1]
    return place[_judged(result), _regime(result, 2)]


def _regime(result: Result, number: int) -> slice:
    """The learning rates below both thresholds, between them, or beyond both."""
    count = result.learning_rates.shape[1] // 3
    return slice(number * count, (number + 1) * count)


def _rises(result: Result, direction: int, regime: int) -> np.ndarray:
    """Highest over first loss along a direction, in one regime, of the judged draws."""
    losses = result.losses[_judged(result), _regime(result, regime), :, direction]
    return losses.max(axis=-1) / losses[..., 0]


def _first_rises(result: Result) -> np.ndarray:
    """The same along the first direction between the thresholds, off the band around its own."""
    clear = _clear(result)[_judged(result), _regime(result, 1), 0]
    return _rises(result, 0, 1)[clear]


def _rises_within(result: Result, norm: float) -> np.ndarray:
    """Highest over first loss along both directions, wherever ‖I − ηK‖ is below this at first."""
    norms = np.abs(1 - 2 * result.learning_rates[..., None] / result.thresholds[:, None])
    losses = result.losses[..., :2]
    rises = (losses.max(axis=2) / losses[:, :, 0]).max(axis=-1)
    return rises[norms.max(axis=-1) < norm]


# The numbers are the catalogue's acceptance numbers.
CLAIMS = (
    *REDUCTION.erratum(
        printed=(
            "Residual and curvature obey the map of one example with the coupling 1/m, without"
            " ‖p‖².",
            lambda r, c: at_most(r.printed_error.max(), 1e-3),
        ),
        corrected=(
            "They obey it exactly with the coupling ‖p‖²/m, of the direction's examples.",
            lambda r, c: at_most(r.map_error.max(), 1e-9),
        ),
    ),
    KERNEL.claim(
        "The kernel has rank two, with the same directions at the end of training.",
        lambda r, c: at_most(r.rank_error.max(), 1e-10),
        formula=r"K = \lambda_1 q_1 q_1^T + \lambda_2 q_2 q_2^T",
    ),
    ORTHOGONAL.claim(
        "What is orthogonal to both directions is never learned.",
        lambda r, c: at_most(np.abs(r.losses[..., 2] / r.losses[:, :, :1, 2] - 1).max(), 1e-10),
    ),
    THEOREM.claim(
        "An eigenvalue falls by more than 2 % if and only if η exceeds its own threshold.",
        lambda r, c: at_most(np.count_nonzero(_wrong(r, r.last)), 0),
        formula=r"\lambda_i \downarrow \iff \eta > n / \lambda_i",
    ),
    NETWORK.claim(
        "The ReLU network shows the same in 19 of 20 cases.",
        lambda r, c: probability_at_least(
            np.count_nonzero(~_wrong(r, r.network_last)), _wrong(r, r.network_last).size, 0.95
        ),
    ),
    THEOREM.claim(
        "Between the thresholds the loss rises along the first direction, by a tenth or more.",
        lambda r, c: holds(_first_rises(r) - 1.1),
    ),
    *AFTER.erratum(
        printed=(
            "Where ‖I − ηK‖ < 2 at first, the loss does not rise along either direction.",
            lambda r, c: at_most(_rises_within(r, 2.0).max(), 1.0 + 1e-9),
        ),
        corrected=(
            "Where ‖I − ηK‖ < 1 along both, it does not rise.",
            lambda r, c: at_most(_rises_within(r, 1.0).max(), 1.0 + 1e-9),
        ),
    ),
    THEOREM.claim(
        "Beyond both thresholds the loss rises along both directions, by a tenth or more.",
        lambda r, c: holds(np.minimum(_rises(r, 0, 2), _rises(r, 1, 2)) - 1.1),
    ),
    *AFTER.erratum(
        printed=(
            "After its catapult η is larger than the threshold of the new λ₁.",
            lambda r, c: at_least(_ended(r).min(), 1.0),
        ),
        corrected=(
            "After its catapult η is smaller than the threshold of the new λ₁, so that it"
            " converges.",
            lambda r, c: at_most(_ended(r).max(), 1.0),
        ),
    ),
    THEOREM.claim(
        "Beyond 4/λ₁ the run diverges.",
        lambda r, c: at_most(np.count_nonzero(r.diverged_loss < 1e3), 0),
    ),
    SCALE.claim(
        "Initially λ_max is between half and three halves of the larger sum of squares.",
        lambda r, c: holds(0.5 - np.abs(r.scale - 1)),
        formula=r"M/2 \le \lambda_{\max}(K) \le 3M/2",
    ),
    *FIGURE.erratum(
        printed=(
            "Thresholds near 0.4, as in the figure, are those of half the sum of squares.",
            lambda r, c: median_between(r.half_sum_thresholds[:, 0], 0.2, 0.6),
        ),
        corrected=(
            "They are those of the mean squared error.",
            lambda r, c: median_between(r.thresholds[:, 0], 0.2, 0.6),
        ),
    ),
    FIGURE.control(
        "Below both thresholds neither eigenvalue moves by more than 2 %, in the median draw.",
        lambda r, c: median_at_most(
            np.abs(r.last[:, _regime(r, 0)] / r.first[:, None] - 1).max(axis=(1, 2)), FALL
        ),
    ),
    THEOREM.control(
        "Between the thresholds the loss does not rise along the second direction.",
        lambda r, c: at_most(_rises(r, 1, 1).max(), 1.0 + 1e-9),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the fall of both eigenvalues over η, of models and networks, and losses in time."""
    figure, (model, network, time) = panels(
        "quadratic model: last/first λ", "ReLU network: last/first λ", "loss by direction"
    )
    ratio = result.learning_rates[..., None] / result.thresholds[:, None]
    for axis, last in ((model, result.last), (network, result.network_last)):
        change = last / result.first[:, None]
        for direction, mark in enumerate("os"):
            places = ratio[..., direction].ravel(), change[..., direction].ravel()
            axis.plot(*places, mark, markersize=3, label=f"λ{direction + 1}")
        axis.axvline(1.0, **THEORY)
        label_axes(axis, "η λᵢ / n")
    middle = result.learning_rates.shape[1] // 2
    for direction, label in enumerate(("along λ₁", "along λ₂", "orthogonal")):
        time.semilogy(result.losses[0, middle, :, direction] + 1e-30, label=label)
    time.set(xlabel=f"step, at η = {ratio[0, middle, 0]:.2f} n/λ₁", ylim=(1e-12, None))
    for axis in (model, network, time):
        axis.legend(fontsize=7)
    return figure
