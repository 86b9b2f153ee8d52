"""The Hessian of a network falls like one over the root of its width, on every kind of graph.

The Hessian ∇²f of a network's output in its weights says how far the network is from linear. For a
network on any directed acyclic graph its norm is at most of the order of m^(−1/2), up to
logarithms, at initialisation and in a ball of fixed radius around it, where the width m is the
*least in-degree* of a neuron from the second layer on. Layers may be dense, convolutional, sparse,
or have skip connections, and in-degrees may differ from m to m^1.5 in one graph: the exponent
stays. It does not if layers grow but the in-degrees of their neurons do not. The same holds for
the pre-activation of any neuron; in the first layer its Hessian is 0.

With two layers the norm is known exactly, for ReLU it is ‖x‖/√(md). Eigenvalues come in pairs of
nearly opposite sign: Lanczos finds them, power iteration does not.

If many edges are dropped, the exponent shows at greater widths only: the least of few in-degrees is
far below their mean, and grows faster. With half of the edges gone it is −0.2 to −0.35 at widths of
64 to 512 (`--drop 0.5`; seeds 101 to 103, and 4 or 16 inputs). (The assumption on φ is printed
with bounds of φ″ and φ‴; the proofs use those of φ′ and φ″, as tanh has them.)

Source: zhu · hessian-norm · Thm 2.3.6, Thm 2.3.8, Thm A.4.1, Thm A.5.1; zhu · dag-zoo · A.1.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab import curvature
from theorylab.claims import (
    Source,
    exponent_between,
    holds,
    identity,
    median_at_most,
    median_between,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import curves, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Seeded, Several, within
from theorylab.models import Dag, dag_network
from theorylab.models.dag_builders import (
    convolutional,
    densely_connected,
    drop_edges,
    fully_connected,
    random_dag,
    residual,
)
from theorylab.numerics import power_law_exponents
from theorylab.progress import report
from theorylab.training import dag_ensemble, ensemble
from theorylab.typing import Apply, Measured, RandomKey

PRECISION = "float32"
FORMULA = (
    r"\sup_{\|w - w_0\| \le R} \|\nabla^2 f(w)\| = \tilde O(1/\sqrt m),"
    r" \quad m = \min_v \mathrm{in}(v)"
)

THEOREM = Source("zhu", "hessian-norm", "Thm 2.3.6")
LAYERS = Source("zhu", "hessian-norm", "Thm 2.3.8")
SKIP = Source("zhu", "hessian-norm", "Thm A.4.1")
SHARED = Source("zhu", "hessian-norm", "Thm A.5.1")
MEASURE = Source("zhu", "hessian-norm", "Traps")
EXACT = Source("zhu", "hessian-norm", "exact finite-width values")
SPREAD = Source("zhu", "hessian-norm", "Assumption 2.3.5")

NAMES = (
    "fully connected",
    "densely connected",
    "some edges dropped",
    "skip connections",
    "convolutional",
    "in-degrees m to m^1.5",
    "in-degree 4",
)
FULL, DENSE, DROPPED, SKIPPING, CONVOLUTIONAL, UNEVEN, FEW = range(7)


@dataclass(frozen=True)
class Config(Seeded):
    """Random tanh networks of growing width on graphs of many kinds."""

    widths: Increasing[Annotated[int, within(8)]] = (64, 128, 256, 512)  # of a hidden layer
    dimension: Count = 16  # inputs d
    drop: Annotated[float, within(0, 0.99)] = 0.1  # probability of an edge to be dropped
    num_seeds: Count = 32  # random networks of each kind and width
    num_ball: Count = 12  # of the fully connected ones, around which the ball is searched
    num_steps: Count = 16  # products with the Hessian for one norm
    radii: Several[Annotated[float, within(1)]] = (1.0, 2.0, 4.0)  # R of balls around the start
    num_directions: Count = 2  # random ones in which a ball is searched
    num_ascent: Count = 6  # steps uphill from the best of them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radii[0] != 1 or list(self.radii) != sorted(set(self.radii)):
            must = "radii must begin with 1, of which a claim speaks, and increase"
            raise ValueError(f"{must}, got {self.radii}.")


PRESETS = {
    "smoke": Config(widths=(24, 160), dimension=4, num_ball=8, num_steps=10, radii=(1.0,)),
    "paper": Config(
        widths=(32, 64, 128, 256, 512, 1024, 2048), num_seeds=16, num_steps=40, num_ascent=20
    ),
}


class Result(NamedTuple):
    """Axes: a kinds of graphs (`NAMES`), s seeds, w widths, l layers, b balls, r radii."""

    widths: Float[Measured, "a s w"]  # least in-degrees m; of the last kind, sizes of layers
    norms: Float[Measured, "a s w"]  # ‖∇²f‖
    residuals: Float[Measured, "a s w"]  # certificate of Lanczos, over the norm
    layer_norms: Float[Measured, "l s w"]  # of what comes into a neuron of layers 1 and 2
    ball_ratio: Float[Measured, "b w r"]  # largest norm found in the ball over the centre's
    most: Float[Measured, "s w"]  # largest in-degree of the graphs from m to m^1.5
    closed_form: Float[Measured, "2 s"]  # two layers, ReLU and tanh
    two_layers: Float[Measured, "2 s"]  # the same by Lanczos


def memory(config: Config) -> int:
    """Bytes of a Lanczos basis on each of two cores, and of the wirings: 32 an edge."""
    widest, num_kinds = max(config.widths), len(NAMES) + 3
    weights = 4 * widest * (widest + config.dimension)
    edges = sum(width * (width + config.dimension) for width in config.widths)
    return 8 * (config.num_steps + 8) * weights + 32 * num_kinds * config.num_seeds * edges


def run(config: Config) -> Result:
    """Draw networks on all graphs and measure their Hessians."""
    keys = jax.random.split(jax.random.key(config.seed), 4)
    x_key, graph_key, ball_key, exact_key = keys
    d, shape = config.dimension, (config.num_seeds, len(config.widths))
    x = sphere(x_key, 1, d, radius=d**0.5)[0]
    kinds = [_kind(build, graph_key, config) for build in _builders(d, config.drop)]
    inner = [_kind(_neuron(d, layer), graph_key, config) for layer in (1, 2)]

    def measure(*kinds: list[Dag]) -> curvature.DagNorms:
        graphs = [graph for kind in kinds for graph in kind]
        found = curvature.dag_norms(graphs, x, graph_key, config.num_steps)
        return jax.tree.map(lambda each: each.reshape(-1, *shape), found)

    report("layers of one size", 0.05)
    layered = measure(*kinds[:CONVOLUTIONAL], kinds[FEW], *inner)
    report("in-degrees from m to m^1.5", 0.6)
    uneven = measure(kinds[UNEVEN])
    report("shared weights", 0.7)
    shared = measure(kinds[CONVOLUTIONAL])
    norms, residuals = (
        np.concatenate([one[:4], two, three, one[4:5]])
        for one, two, three in zip(layered, shared, uneven, strict=True)
    )
    report("in the ball", 0.75)
    inside = kinds[FULL][: min(config.num_ball, config.num_seeds) * len(config.widths)]
    ratio = dag_ensemble(_in_ball(x, config), inside, jax.random.split(ball_key, len(inside)))
    report("two layers", 0.95)
    pairs = ensemble(_two_layers(x), jax.random.split(exact_key, config.num_seeds))
    widths = np.array([[graph.width for graph in kind] for kind in kinds], float)
    widths[FEW] = np.tile(config.widths, config.num_seeds)
    return Result(
        widths=widths.reshape(-1, *shape),
        norms=norms,
        residuals=residuals,
        layer_norms=layered.norms[5:],
        ball_ratio=ratio.reshape(-1, shape[1], len(config.radii)),
        most=np.array([graph.in_degrees.max() for graph in kinds[UNEVEN]], float).reshape(shape),
        closed_form=pairs[0].T,
        two_layers=pairs[1].T,
    )


def _builders(d: int, drop: float) -> list[Callable[[RandomKey, int], Dag]]:
    """The kinds of graphs, in the order of `NAMES`; the convolution has 4 positions of m/4."""

    def uneven(key: RandomKey, width: int) -> Dag:
        m, most = width // 2, round((width // 2) ** 1.5)
        return random_dag(key, d, [most, m], (m, most), activation="tanh")

    full = cache(lambda m: fully_connected(d, [m, m], activation="tanh"))
    dense = cache(lambda m: densely_connected(d, [m, m], activation="tanh"))
    skipping = cache(lambda m: residual(d, [m, m], activation="tanh"))
    shared = cache(lambda m: convolutional(d, [m // 4, m // 4], 3, activation="tanh"))
    return [
        lambda key, m: full(m),
        lambda key, m: dense(m),
        lambda key, m: drop_edges(key, dense(m), drop),
        lambda key, m: skipping(m),
        lambda key, m: shared(m),
        uneven,
        lambda key, m: random_dag(key, d, [m, m], (4, 4), 4, activation="tanh"),
    ]


def _neuron(d: int, layer: int) -> Callable[[RandomKey, int], Dag]:
    """A network of three layers whose output is what comes into the first neuron of a layer."""

    @cache
    def build(width: int) -> Dag:
        whole = fully_connected(d, [width] * 2, activation="tanh")
        return dataclasses.replace(whole, outputs=np.array([d + (layer - 1) * width]))

    return lambda key, width: build(width)


def _kind(build: Callable[[RandomKey, int], Dag], key: RandomKey, config: Config) -> list[Dag]:
    """One graph for every seed and width, the widths in a row."""
    keys = jax.random.split(key, config.num_seeds)
    return [build(each, width) for each in keys for width in config.widths]


def _in_ball(x: Float[Array, " d"], config: Config):
    """The largest norm in every ball, over that at its centre."""
    search = (0, config.num_directions, config.num_ascent, config.num_steps)

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Float[Array, " r"]:
        used = (weights != 0).astype(weights.dtype)  # entries that are no weights are exactly 0

        def ratio(radius: Float[Array, ""]) -> Float[Array, ""]:
            found = curvature.hessian_in_ball(apply, weights, x, radius, key, *search, used)
            return found.largest / found.centre

        return jax.lax.map(ratio, jnp.asarray(config.radii))

    return one


def _two_layers(x: Float[Array, " d"], width: int = 8):
    """Closed forms and Lanczos, for ReLU and tanh; few neurons, so that Lanczos ends exactly."""
    d = x.shape[0]

    def one(key: RandomKey) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
        closed_forms, measured = [], []
        for name in ("relu", "tanh"):
            model = dag_network(fully_connected(d, [width], activation=name))
            weights = model.init(key)
            inner, outer = weights[: d * width].reshape(d, width), weights[d * width :]
            closed_forms.append(curvature.two_layer_norm(inner, outer, x, name))
            operator = curvature.output_hessian(model.apply, weights, x)
            measured.append(curvature.spectral_norm(operator, weights, key, 4 * width).value)
        return jnp.stack(closed_forms), jnp.stack(measured)

    return one


LOW, HIGH = -0.65, -0.35  # the interval of a slope of −1/2: 0.15 on either side

# Lanczos finds a norm from below; one that is δ too small at one end of the widths turns a slope by
# δ/log of their ratio, by 0.05 at δ = 0.1 and the ratio of the smoke run: a third of the interval.
RESIDUAL = 0.1


def _slope(kind: int, low: float = LOW, high: float = HIGH):
    """Exponents seed by seed: each graph has its own least in-degree, if edges are random."""

    def slopes(result: Result) -> Float[Measured, " s"]:
        pairs = zip(result.widths[kind], result.norms[kind], strict=True)
        return np.array([power_law_exponents(m, norms[None])[0] for m, norms in pairs])

    return lambda r, c: median_between(slopes(r), low, high)


def _residuals(result: Result) -> Float[Measured, " n"]:
    """Relative residuals of the kind of graphs where their median is largest."""
    each = result.residuals.reshape(len(NAMES), -1)
    return each[np.argmax(np.median(each, axis=1))]


def _ball_slopes(result: Result) -> Float[Measured, "b r"]:
    """Exponents of the factors in the width, ball by ball and radius by radius."""
    curves = result.ball_ratio.transpose(2, 0, 1)
    return np.stack([power_law_exponents(result.widths[0, 0], each) for each in curves], axis=1)


CLAIMS = (
    THEOREM.claim(
        "The Hessian of fully connected networks falls like one over the root of the width.",
        _slope(FULL),
        formula=r"\|\nabla^2 f\| \propto m^{-1/2}",
    ),
    THEOREM.claim("So does that of densely connected ones.", _slope(DENSE)),
    THEOREM.claim("So it does without a part of their edges.", _slope(DROPPED)),
    SKIP.claim("So it does with skip connections.", _slope(SKIPPING)),
    SHARED.claim("So it does with shared weights, as in a CNN.", _slope(CONVOLUTIONAL)),
    SPREAD.claim(
        "So it does in graphs whose in-degrees differ from m to m^1.5; m is the width.",
        _slope(UNEVEN),
        formula=r"\max_v \mathrm{in}(v) = m^{1.5}",
    ),
    SPREAD.claim(
        "In these graphs the largest in-degree is that power of the least.",
        lambda r, c: identity(r.most, np.rint(r.widths[UNEVEN] ** 1.5), 1e-6),
    ),
    THEOREM.control(
        "If layers grow but neurons read only 4 others, the Hessian does not fall.",
        # As behind a narrow layer: −0.15 or more.
        _slope(FEW, -0.15, math.inf),
    ),
    LAYERS.claim(
        "What comes into a neuron of the second layer becomes linear too.",
        # The closed form has a maximum over m neurons, √(2 log m): the slope is −½ + 1/(2 log m).
        lambda r, c: exponent_between(r.widths[0, 0], r.layer_norms[1], LOW, -0.25),
    ),
    LAYERS.claim(
        "What comes into a neuron of the first layer is linear.",
        lambda r, c: identity(r.layer_norms[0], np.zeros_like(r.layer_norms[0]), 1e-6),
    ),
    THEOREM.claim(
        "In a ball of radius 1 around the initial weights it is less than 5 times as large, around"
        " every network.",
        lambda r, c: holds(5.0 - r.ball_ratio[:, :, 0]),
        formula=r"\sup_{\|w - w_0\| \le R} \|\nabla^2 f(w)\| < 5 \|\nabla^2 f(w_0)\|",
    ),
    THEOREM.claim(
        "And that factor does not grow with the width, at any radius.",
        # One that does not change has exponent 0; a tenth is left to the noise of few balls.
        lambda r, c: median_between(_ball_slopes(r).max(axis=1), -math.inf, 0.1),
    ),
    MEASURE.claim(
        "Lanczos has come far enough: the median residual is below a tenth of the norm, also in"
        " that kind of graphs where it is largest.",
        lambda r, c: median_at_most(_residuals(r), RESIDUAL),
    ),
    EXACT.claim(
        "With two layers the norm is the closed form: ReLU.",
        lambda r, c: identity(r.two_layers[0], r.closed_form[0], 1e-5),
        formula=r"\|\nabla^2 f\| = \|x\| / \sqrt{md}",
    ),
    EXACT.claim(
        "With two layers the norm is the closed form: tanh.",
        lambda r, c: identity(r.two_layers[1], r.closed_form[1], 1e-5),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over widths for every kind of graph and inside the network, and in the ball."""
    figure, (norms, ball) = panels("Hessian norm", "largest in the ball, over the centre")
    named = dict(zip(NAMES, result.norms, strict=True)) | {"second layer": result.layer_norms[1]}
    scaling(norms, config.widths, named, exponent=-0.5)
    balls = np.moveaxis(result.ball_ratio, 2, 0)
    pairs = zip(config.radii, balls, strict=True)
    curves(ball, config.widths, {f"R = {radius:g}": ratio for radius, ratio in pairs})
    label_axes(norms, "neurons of a hidden layer")
    label_axes(ball, "neurons of a hidden layer", logarithmic="x")
    return figure
