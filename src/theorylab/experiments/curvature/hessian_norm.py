"""The wider a network, the straighter it is: its Hessian falls like one over the root of its width.

The Hessian ∇²f of a network's output in its weights says how far the network is from linear. For a
network on any directed acyclic graph its norm is at most of the order of m^(−1/2), up to
logarithms, at initialisation and in a ball of fixed radius around it, where the width m is the
*least in-degree* of a neuron from the second layer on. Layers may be dense, skipped, convolved or
thinned out, and in-degrees may differ from m to m^1.5 in one graph: the exponent stays. It does
not if layers grow but their neurons read as few as ever. The same holds for what comes into any
neuron of a layer; before the second layer the Hessian is 0.

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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    exponent_between,
    holds,
    identity,
    median_at_most,
    median_between,
)
from theorylab.curvature import (
    dag_norms,
    hessian_in_ball,
    output_hessian,
    spectral_norm,
    two_layer_norm,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Seeded
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
from theorylab.typing import Apply, RandomKey

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


@dataclass(frozen=True)
class Config(Seeded):
    """Random tanh networks of growing width on graphs of many kinds."""

    widths: Increasing[Count] = (64, 128, 256, 512)  # neurons of a hidden layer
    dimension: Count = 16  # inputs d
    drop: float = 0.1  # probability of an edge to be dropped
    num_seeds: Count = 32  # random networks of each kind and width
    num_ball: Count = 12  # of the fully connected ones, around which the ball is searched
    num_steps: Count = 16  # products with the Hessian for one norm
    radii: tuple[float, ...] = (1.0, 2.0, 4.0)  # radii R of balls around the initial weights
    num_directions: Count = 2  # random ones in which a ball is searched
    num_ascent: Count = 6  # steps uphill from the best of them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.widths[0] < 8:
            raise ValueError(f"widths must be at least 8, got {self.widths}.")
        if not 0 <= self.drop < 1:
            raise ValueError(f"drop must be in [0, 1), got {self.drop}.")
        if not self.radii or tuple(sorted(set(self.radii))) != self.radii:
            raise ValueError(f"radii must be one or more and increasing, got {self.radii}.")
        if self.radii[0] != 1:
            raise ValueError(f"radii must begin with 1, of which a claim speaks, got {self.radii}.")


PRESETS = {
    "smoke": Config(widths=(24, 160), dimension=4, num_ball=8, num_steps=10, radii=(1.0,)),
    "paper": Config(
        widths=(32, 64, 128, 256, 512, 1024, 2048), num_seeds=16, num_steps=40, num_ascent=20
    ),
}


class Result(NamedTuple):
    """Axes: a kinds of graphs (`NAMES`), s seeds, w widths, l layers, b balls, r radii."""

    widths: Float[np.ndarray, "a s w"]  # least in-degrees m; of the last kind, sizes of layers
    norms: Float[np.ndarray, "a s w"]  # ‖∇²f‖
    residuals: Float[np.ndarray, "a s w"]  # certificate of Lanczos, over the norm
    layer_norms: Float[np.ndarray, "l s w"]  # of what comes into a neuron of layers 1 and 2
    ball_ratio: Float[np.ndarray, "b w r"]  # largest norm found in the ball over the centre's
    most: Float[np.ndarray, "s w"]  # largest in-degree of the graphs from m to m^1.5
    closed_form: Float[np.ndarray, "2 s"]  # two layers, ReLU and tanh
    two_layers: Float[np.ndarray, "2 s"]  # the same by Lanczos


def memory(config: Config) -> int:
    """Bytes of a Lanczos basis on each of two cores, and of the wirings: 32 an edge."""
    widest, num_kinds = max(config.widths), len(NAMES) + 3
    weights = 4 * widest * (widest + config.dimension)
    edges = sum(width * (width + config.dimension) for width in config.widths)
    return 8 * (config.num_steps + 8) * weights + 32 * num_kinds * config.num_seeds * edges


def run(config: Config) -> Result:
    """Draw networks on all graphs and measure their Hessians."""
    key = jax.random.key(config.seed)
    x_key, graph_key, ball_key, exact_key = jax.random.split(key, 4)
    x = sphere(x_key, 1, config.dimension, radius=config.dimension**0.5)[0]
    shape = (config.num_seeds, len(config.widths))
    kinds = [_kind(build, graph_key, config) for build in _builders(config.dimension, config.drop)]
    inner = [_kind(_neuron(config.dimension, layer), graph_key, config) for layer in (1, 2)]
    report("layers of one size", 0.05)
    layered = _norms([*kinds[:4], kinds[6], *inner], x, graph_key, config)
    report("in-degrees from m to m^1.5", 0.6)
    spread = _norms([kinds[5]], x, graph_key, config)
    report("shared weights", 0.7)
    shared = _norms([kinds[4]], x, graph_key, config)
    norms, residuals = (
        np.concatenate([one[:4], two, three, one[4:5]])
        for one, two, three in zip(layered, shared, spread, strict=True)
    )
    report("in the ball", 0.75)
    inside = kinds[0][: min(config.num_ball, config.num_seeds) * len(config.widths)]
    ratio = dag_ensemble(_in_ball(x, config), inside, _keys(ball_key, len(inside)))
    report("two layers", 0.95)
    closed_form, two_layers = ensemble(_two_layers(x), _keys(exact_key, config.num_seeds))
    every = [graph.width for kind in kinds for graph in kind]
    widths = np.array(every, float).reshape(-1, *shape)
    widths[6] = config.widths
    return Result(
        widths=widths,
        norms=norms,
        residuals=residuals,
        layer_norms=layered[0][5:],
        ball_ratio=ratio.reshape(-1, shape[1], len(config.radii)),
        most=np.array([graph.in_degrees.max() for graph in kinds[5]], float).reshape(shape),
        closed_form=np.asarray(closed_form).T,
        two_layers=np.asarray(two_layers).T,
    )


def _builders(d: int, drop: float) -> list[Callable[[RandomKey, int], Dag]]:
    """The kinds of graphs, in the order of `NAMES`; the convolution has 4 positions of m/4."""

    def spread(key: RandomKey, width: int) -> Dag:
        m, most = width // 2, round((width // 2) ** 1.5)
        return random_dag(key, d, [most, m], (m, most), activation="tanh")

    dense = cache(lambda m: densely_connected(d, [m, m], activation="tanh"))
    plain = cache(lambda m: fully_connected(d, [m, m], activation="tanh"))
    skip = cache(lambda m: residual(d, [m, m], activation="tanh"))
    shared = cache(lambda m: convolutional(d, [m // 4, m // 4], 3, activation="tanh"))
    return [
        lambda key, m: plain(m),
        lambda key, m: dense(m),
        lambda key, m: drop_edges(key, dense(m), drop),
        lambda key, m: skip(m),
        lambda key, m: shared(m),
        spread,
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
    each = _keys(key, config.num_seeds)
    return [build(one, width) for one in each for width in config.widths]


def _keys(key: RandomKey, count: int) -> Array:
    return jax.random.split(key, count)


def _norms(
    kinds: list[list[Dag]], x: Float[Array, " d"], key: RandomKey, config: Config
) -> tuple[Float[np.ndarray, "a s w"], Float[np.ndarray, "a s w"]]:
    """The norms of all networks, and their residuals."""
    found = dag_norms([graph for kind in kinds for graph in kind], x, key, config.num_steps)
    shape = (len(kinds), config.num_seeds, len(config.widths))
    return found.norms.reshape(shape), found.residuals.reshape(shape)


def _in_ball(x: Float[Array, " d"], config: Config):
    """The largest norm in every ball, over that at its centre."""
    search = (0, config.num_directions, config.num_ascent, config.num_steps)

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Float[Array, " r"]:
        used = (weights != 0).astype(weights.dtype)  # entries that are no weights are exactly 0

        def ratio(radius: Float[Array, ""]) -> Float[Array, ""]:
            found = hessian_in_ball(apply, weights, x, radius, key, *search, used)
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
            closed_forms.append(two_layer_norm(inner, outer, x, name))
            operator = output_hessian(model.apply, weights, x)
            measured.append(spectral_norm(operator, weights, key, 4 * width).value)
        return jnp.stack(closed_forms), jnp.stack(measured)

    return one


# The interval that the catalogue states for every kind of graph.
LOW, HIGH = -0.65, -0.35


# Lanczos finds a norm from below; one that is δ too small at one end of the widths turns a slope by
# δ/log of their ratio, by 0.05 at δ = 0.1 and the ratio of the smoke run: a third of the interval.
RESIDUAL = 0.1


def _slopes(result: Result, kind: int) -> Float[np.ndarray, " s"]:
    """Exponents seed by seed: each graph has its own least in-degree, if edges are random."""
    pairs = zip(result.widths[kind], result.norms[kind], strict=True)
    return np.array([power_law_exponents(m, norms[None])[0] for m, norms in pairs])


def _slope(kind: int, low: float = LOW, high: float = HIGH):
    return lambda r, c: median_between(_slopes(r, kind), low, high)


def _residuals(result: Result) -> Float[np.ndarray, " n"]:
    """Relative residuals of the kind of graphs where their median is largest."""
    each = result.residuals.reshape(len(NAMES), -1)
    return each[np.argmax(np.median(each, axis=1))]


def _ball_slopes(result: Result) -> Float[np.ndarray, "b r"]:
    """Exponents of the factors in the width, ball by ball and radius by radius."""
    curves = result.ball_ratio.transpose(2, 0, 1)
    return np.stack([power_law_exponents(result.widths[0, 0], each) for each in curves], axis=1)


CLAIMS = (
    Claim(
        "The Hessian of fully connected networks falls like one over the root of the width.",
        judge=_slope(0),
        source=THEOREM,
        formula=r"\|\nabla^2 f\| \propto m^{-1/2}",
    ),
    Claim("So does that of densely connected ones.", judge=_slope(1), source=THEOREM),
    Claim("So it does without a part of their edges.", judge=_slope(2), source=THEOREM),
    Claim("So it does with skip connections.", judge=_slope(3), source=SKIP),
    Claim("So it does with shared weights, as in a CNN.", judge=_slope(4), source=SHARED),
    Claim(
        "So it does in graphs whose in-degrees differ from m to m^1.5; m is the width.",
        judge=_slope(5),
        source=SPREAD,
        formula=r"\max_v \mathrm{in}(v) = m^{1.5}",
    ),
    Claim(
        "In these graphs the largest in-degree is that power of the least.",
        judge=lambda r, c: identity(r.most, np.rint(r.widths[5] ** 1.5), 1e-6),
        source=SPREAD,
    ),
    Claim(
        "If layers grow but neurons read only 4 others, the Hessian does not fall.",
        # As of a bottleneck: the catalogue's −0.15 or more.
        judge=_slope(6, -0.15, math.inf),
        source=THEOREM,
        kind="control",
    ),
    Claim(
        "What comes into a neuron of the second layer becomes linear too.",
        # The closed form has a maximum over m neurons, √(2 log m): the slope is −½ + 1/(2 log m).
        judge=lambda r, c: exponent_between(r.widths[0, 0], r.layer_norms[1], LOW, -0.25),
        source=LAYERS,
    ),
    Claim(
        "What comes into a neuron of the first layer is linear.",
        judge=lambda r, c: identity(r.layer_norms[0], np.zeros_like(r.layer_norms[0]), 1e-6),
        source=LAYERS,
    ),
    Claim(
        "In a ball of radius 1 around the initial weights it is less than 5 times as large, around"
        " every network.",
        judge=lambda r, c: holds(5.0 - r.ball_ratio[:, :, 0]),
        source=THEOREM,
        formula=r"\sup_{\|w - w_0\| \le R} \|\nabla^2 f(w)\| < 5 \|\nabla^2 f(w_0)\|",
    ),
    Claim(
        "And that factor does not grow with the width, at any radius.",
        # One that does not change has exponent 0; a tenth is left to the noise of few balls.
        judge=lambda r, c: median_between(_ball_slopes(r).max(axis=1), -math.inf, 0.1),
        source=THEOREM,
    ),
    Claim(
        "Lanczos has come far enough: the median residual is below a tenth of the norm, also in"
        " that kind of graphs where it is largest.",
        judge=lambda r, c: median_at_most(_residuals(r), RESIDUAL),
        source=MEASURE,
    ),
    Claim(
        "With two layers the norm is the closed form: ReLU.",
        judge=lambda r, c: identity(r.two_layers[0], r.closed_form[0], 1e-5),
        source=EXACT,
        formula=r"\|\nabla^2 f\| = \|x\| / \sqrt{md}",
    ),
    Claim(
        "With two layers the norm is the closed form: tanh.",
        judge=lambda r, c: identity(r.two_layers[1], r.closed_form[1], 1e-5),
        source=EXACT,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over widths for every kind of graph, inside the network, and in the ball."""
    figure, (kinds, layers, ball) = panels(
        "Hessian norm over width", "layer by layer", "largest in the ball, over the centre"
    )
    for name, widths, norms in zip(NAMES, result.widths, result.norms, strict=True):
        middle = np.median(widths, axis=0), np.median(norms, axis=0)
        kinds.loglog(*middle, "o-", markersize=3, label=name)
    width, middle = result.widths[0, 0], np.median(result.norms[0], axis=0)
    slope = middle[0] * (width / width[0]) ** -0.5
    kinds.loglog(width, slope, **THEORY, label="slope −1/2")
    layers.loglog(width, np.median(result.layer_norms[1], axis=0), "o-", label="layer 2")
    layers.loglog(width, middle, "o-", label="layer 3, the output")
    layers.loglog(width, slope, **THEORY)
    for at, radius in enumerate(config.radii):
        ratio = np.median(result.ball_ratio[:, :, at], axis=0)
        ball.semilogx(width, ratio, "o-", markersize=3, label=f"R = {radius:g}")
    for axis in (kinds, layers, ball):
        axis.legend(fontsize=6)
        axis.set_xlabel("width m")
    return figure
