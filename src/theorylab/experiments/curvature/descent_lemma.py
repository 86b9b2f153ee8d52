"""The descent lemma: a step of gradient descent below 1/L lowers the loss by η/2 ‖∇f‖² at least.

Where all eigenvalues of the Hessian are in [−L, L], the loss lies below a parabola, and one step
gains at least (η − η²L/2)‖∇f‖². Here it is measured on quadratics, where the largest eigenvalue is
L, and on logistic regression, with L = λ_max(XᵀX)/4n. A deep network has no L for all weights; with
the largest Hessian norm on the way of a step the inequality holds too.

The proof prints ‖η²∇f‖² for ‖η∇f‖². The text also says that η ≤ 1/λ_max is needed; descent on a
quadratic converges up to 2/λ_max, and diverges beyond.

Source: arora · gd-descent · Problem 2.1.3, Lemma 2.1.4, §2.4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, holds, identity, median_at_most
from theorylab.dynamics import descent_slack
from theorylab.experiments.curvature._operators import rotated
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.fields import Count, Plural, Seeded, within
from theorylab.typing import Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = r"f(w - \eta \nabla f) \le f(w) - \tfrac{\eta}{2} \|\nabla f(w)\|^2, \quad \eta < 1/L"

PARABOLA = Source("arora", "gd-descent", "Problem 2.1.3, Eq. 2.2")
LEMMA = Source("arora", "gd-descent", "Lemma 2.1.4")
PROOF = Source("arora", "gd-descent", "Lemma 2.1.4, its proof")
QUADRATIC = Source("arora", "gd-descent", "§2.4")

NAMES = ("quadratic", "logistic regression")
SMOOTHNESS = 4.0  # L of the quadratics; above 1, so that η⁴ is below η²
BELOW = 0.99  # ηL just below the lemma's limit
ABOVE_ONE, ABOVE_TWO = 1.5, 2.2  # ηL between 1 and 2, and above 2
NUM_NEURONS = 8  # of the network
NUM_POINTS = 9  # of the way of a step at which the Hessian of the network is taken
Objective = Callable[[Float[Array, " d"]], Float[Array, ""]]


@dataclass(frozen=True)
class Config(Seeded):
    """Gradient descent on quadratics, logistic regression and a small network."""

    num_samples: Plural = 40  # n
    dimension: Plural = 6  # inputs, and dimensions of the quadratics, d
    num_steps: Annotated[int, within(10)] = 50  # steps of descent
    num_seeds: Count = 16  # random problems


PRESETS = {
    "smoke": Config(num_samples=20, num_steps=20, num_seeds=8),
    "paper": Config(num_samples=500, dimension=20, num_steps=500, num_seeds=50),
}


class Result(NamedTuple):
    """Axes: s seeds, o objectives (`NAMES`), t steps. Margins are over the initial loss."""

    gain: Float[Measured, "s o t"]  # of the lemma: f(w) − η/2 ‖∇f‖² − f(w − η∇f), η = 0.99/L
    doubled: Float[Measured, "s o t"]  # the same with η for η/2
    parabola: Float[Measured, "s o t"]  # of Eq. 2.2, at random points around every iterate
    slack: Float[Measured, "s o t"]  # of the proof, with η²L/2; η = 1.5/L
    printed: Float[Measured, "s o t"]  # with η⁴L/2
    ratio: Float[Measured, " s"]  # f at the end over f at the start on the quadratic, η = 1.5/L
    growth: Float[Measured, " s"]  # of the top coordinate in one step, η = 2.2/L
    network: Float[Measured, "s t"]  # slack of a tanh network, L the largest norm on the way


def run(config: Config) -> Result:
    """Descend on every objective and measure what every step gains."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    return jax.jit(lambda keys: jax.lax.map(lambda key: _one(key, config), keys))(keys)


def _one(key: RandomKey, config: Config) -> Result:
    """All measurements of one seed."""
    n, d = config.num_samples, config.dimension
    matrix_key, draw_key, label_key, move_key, weight_key = jax.random.split(key, 5)
    matrix = rotated(matrix_key, jnp.geomspace(0.05, SMOOTHNESS, d))
    drawn = jax.random.normal(draw_key, ((n + 1) * d,))
    start, x = drawn[:d], drawn[d:].reshape(n, d)
    y = jax.random.rademacher(label_key, (n,), x.dtype)
    moves = jax.random.normal(move_key, (config.num_steps, d))

    def quadratic(w: Float[Array, " d"]) -> Float[Array, ""]:
        return w @ matrix @ w / 2

    def logistic(w: Float[Array, " d"]) -> Float[Array, ""]:
        return jnp.mean(jnp.logaddexp(0.0, -y * (x @ w)))

    smooth = jnp.array([SMOOTHNESS, jnp.linalg.norm(x, 2) ** 2 / (4 * n)])
    pairs = [(quadratic, smooth[0]), (logistic, smooth[1])]
    margins = [_margins(objective, start, moves, level) for objective, level in pairs]
    gain, doubled, parabola, slack, printed = (
        jnp.stack(each) for each in zip(*margins, strict=True)
    )
    far = _path(quadratic, start, ABOVE_ONE / SMOOTHNESS, config.num_steps + 1)[-1]
    top = jnp.linalg.eigh(matrix)[1][:, -1]
    after = _path(quadratic, start, ABOVE_TWO / SMOOTHNESS, config.num_steps + 1)[-1]
    return Result(
        gain=gain,
        doubled=doubled,
        parabola=parabola,
        slack=slack,
        printed=printed,
        ratio=quadratic(far) / quadratic(start),
        growth=jnp.abs((top @ after) / (top @ start)) ** (1 / config.num_steps),
        network=_network(weight_key, x, y, config.num_steps),
    )


def _path(
    objective: Objective, start: Float[Array, " d"], rate: Scalar, num_points: int
) -> Float[Array, "t d"]:
    """The iterates of gradient descent, the start among them."""

    def step(w: Float[Array, " d"], _):
        return w - rate * jax.grad(objective)(w), w

    return jax.lax.scan(step, start, length=num_points)[1]


def _margins(
    objective: Objective, start: Float[Array, " d"], moves: Float[Array, "t d"], smooth: Scalar
) -> tuple[Float[Array, " t"], ...]:
    """What the lemma, Eq. 2.2 and the proof leave at every iterate, over the initial loss."""
    path = _path(objective, start, BELOW / smooth, len(moves))

    def one(w: Float[Array, " d"], move: Float[Array, " d"]) -> tuple[Array, ...]:
        value, slope = jax.value_and_grad(objective)(w)
        square, near, far = slope @ slope, BELOW / smooth, ABOVE_ONE / smooth
        gain = value - near / 2 * square - objective(w - near * slope)
        parabola = value + slope @ move + smooth / 2 * move @ move - objective(w + move)
        slack = descent_slack(objective, w, far, smooth)
        printed = slack - (far**2 - far**4) * smooth / 2 * square
        return gain, gain - near / 2 * square, parabola, slack, printed

    found = jax.lax.map(lambda each: one(*each), (path, moves))
    return tuple(each / objective(start) for each in found)


def _network(
    key: RandomKey, x: Float[Array, "n d"], y: Float[Array, " n"], num_steps: int
) -> Float[Array, " t"]:
    """Slack of every step on a two-layer network, L the largest norm on the way of that step."""
    d = x.shape[1]

    def objective(w: Float[Array, " p"]) -> Float[Array, ""]:
        inner, outer = w[: d * NUM_NEURONS].reshape(d, NUM_NEURONS), w[d * NUM_NEURONS :]
        outputs = jnp.tanh(x @ inner / jnp.sqrt(d)) @ outer / jnp.sqrt(NUM_NEURONS)
        return jnp.mean((outputs - y) ** 2) / 2

    def norm(w: Float[Array, " p"]) -> Float[Array, ""]:
        return jnp.abs(jnp.linalg.eigvalsh(jax.hessian(objective)(w))).max()

    start = jax.random.normal(key, ((d + 1) * NUM_NEURONS,))
    rate = 0.5 / norm(start)
    path = _path(objective, start, rate, num_steps)

    def slack(w: Float[Array, " p"]) -> Float[Array, ""]:
        step = -rate * jax.grad(objective)(w)
        way = jnp.linspace(0.0, 1.0, NUM_POINTS)
        smooth = jax.lax.map(lambda part: norm(w + part * step), way).max()
        return descent_slack(objective, w, rate, smooth)

    return jax.lax.map(slack, path) / objective(start)


ROUNDING = 1e-12  # of a loss in double precision, over the initial one

CLAIMS = (
    PARABOLA.claim(
        "The loss lies below the parabola of curvature L, at random points around every iterate.",
        lambda r, c: holds(r.parabola, ROUNDING),
        formula=r"f(w) \le f(w_t) + \langle \nabla f(w_t), w - w_t \rangle"
        r" + \tfrac L2 \|w - w_t\|^2",
        demand="source",
    ),
    LEMMA.claim(
        "With η just below 1/L every step lowers the loss by η/2 ‖∇f‖² at least.",
        lambda r, c: holds(r.gain, ROUNDING),
        formula=FORMULA,
        quote="with gradient descent and small enough learning rate, the function value always "
        "decreases",
        demand="source",
    ),
    LEMMA.control(
        "Twice that gain is missed by some step on every quadratic.",
        lambda r, c: at_most(r.doubled[:, 0].min(axis=1).max(), -1e-6),
        demand="derived: along the top eigenvector the lemma is an equality at η = 1/L",
    ),
    *PROOF.erratum(
        printed=(
            "With ‖η²∇f‖² in the bound, a step gains (η − η⁴L/2)‖∇f‖² at least.",
            lambda r, c: holds(r.printed[:, 0], ROUNDING),
            r"f(w_{t+1}) \le f(w_t) - \eta \|\nabla f\|^2 + \tfrac L2 \|\eta^2 \nabla f\|^2",
        ),
        corrected=(
            "With ‖η∇f‖², a step gains (η − η²L/2)‖∇f‖² at least, also between 1/L and 2/L.",
            lambda r, c: holds(r.slack, ROUNDING),
            r"f(w_{t+1}) \le f(w_t) - \eta \|\nabla f\|^2 + \tfrac L2 \|\eta \nabla f\|^2",
        ),
        quote="The main idea is that even using the upper bound provided by",
    ),
    QUADRATIC.claim(
        "For η above 2/λ₁ the top coordinate grows exponentially, by ηλ₁ − 1 in every step.",
        lambda r, c: identity(r.growth, np.full_like(r.growth, ABOVE_TWO - 1), 1e-9),
        formula=r"w_i \leftarrow (1 - \eta \lambda_i) w_i",
        quote="will blow up exponentially and lead to an instable behavior",
    ),
    *QUADRATIC.erratum(
        printed=(
            "η ≤ 1/λ₁ is needed: at η = 1.5/λ₁ the loss does not fall.",
            lambda r, c: holds(r.ratio - 1),
            r"\eta \le 1 / \max_i \lambda_i",
        ),
        corrected=(
            "η < 2/λ₁ is enough: at η = 1.5/λ₁ the loss falls.",
            lambda r, c: median_at_most(r.ratio, 0.99),
            r"\eta < 2 / \max_i \lambda_i",
        ),
        quote="lead to an instable behavior. Thus, we need",
    ),
    LEMMA.found(
        "On a tanh network every step gains (η − η²L/2)‖∇f‖², L the largest norm on its way.",
        lambda r, c: holds(r.network, ROUNDING),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """What every step gains beyond the guarantee, over the initial loss."""
    figure, (lemma, proof) = panels("gain beyond η/2 ‖∇f‖²", "slack of the proof, η = 1.5/L")
    steps = np.arange(1, config.num_steps + 1)
    curves(lemma, steps, dict(zip(NAMES, np.moveaxis(result.gain, 1, 0), strict=True)))
    named = dict(zip(NAMES, np.moveaxis(result.slack, 1, 0), strict=True))
    curves(proof, steps, named | {"quadratic, as printed": result.printed[:, 0]})
    for axis in (lemma, proof):
        label_axes(axis, "step", "over the initial loss")
    return figure
