"""The tensors that move a network's kernel fall as 1/width, as a count of clusters predicts.

The tangent kernel Θ = O₂ of a network f = O₁ is followed by O_s = ⟨∇O_{s−1}, ∇f⟩, which say how it
moves in training. Over random networks of width m, means of products of these scale as powers of m
that a conjecture reads off a graph: join the derivative tensors that share an index; n_e clusters
of even and n_o of odd size, t tensors in all, give the exponent n_e + n_o/2 − t/2. So Θ has a
limit, and O₃ and O₄ are of order 1/m. The source has upper bounds, O(m^s); what is measured here is
that the bounds are attained.

One hidden layer of erf neurons in the NTK parametrization; the standard parametrization, of other
powers of m, is the control. What follows for trained networks is in `kernels/finite/correction`.

Source: golikov · ntk-hierarchy · 2.3, Eqs 2.24–2.33, Conj. 2.3.1, Lemma 2.3.2.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Finding, Source, Verdict, exponent_between
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Seeded, within
from theorylab.kernels import contractions, tangent_hierarchy
from theorylab.models.nested import nested
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = (
    r"O_s(x_{1:s}) = \left\langle \nabla O_{s-1}(x_{1:s-1}), \nabla f(x_s) \right\rangle,"
    r" \qquad \mathbb{E}\, C \propto m^{\,n_e + n_o/2 - t/2}"
)

SCALING = Source("golikov", "ntk-hierarchy", "Lemma 2.3.2")
CONJECTURE = Source("golikov", "ntk-hierarchy", "Conj. 2.3.1")

TOLERANCE = 0.15  # of exponents, for the finite widths
LAB = "lab: the source's exponent, ± 0.15; the runs it was set on were not kept"

# Products of orders of one network, whose means the conjecture is asked about.
PATTERNS = {
    "f f": (1, 1),
    "Θ": (2,),
    "Θ Θ": (2, 2),
    "O₃ f": (3, 1),
    "O₃ O₃": (3, 3),
    "O₄": (4,),
    "O₄ Θ": (4, 2),
    "O₄ f f": (4, 1, 1),
}


@dataclass(frozen=True)
class Config(Seeded):
    """Random networks with one hidden layer, and the first four orders of their hierarchy."""

    widths: Increasing[Count] = (32, 64, 128, 256, 512, 1024)  # width m of the hidden layer
    dimension: Count = 8  # inputs d
    num_samples: Annotated[int, within(1, 8)] = 2  # inputs at which the orders are measured
    num_seeds: Count = 1000  # random networks of each width
    num_groups: Count = 10  # groups of networks, over each of which means are taken

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_seeds % self.num_groups:
            raise ValueError(
                f"num_seeds must be a multiple of num_groups = {self.num_groups}, "
                f"got {self.num_seeds}."
            )


PRESETS = {
    "smoke": Config(widths=(32, 128, 512), num_seeds=1000),
    "paper": Config(widths=(32, 64, 128, 256, 512, 1024, 2048), num_samples=6, num_seeds=4000),
}


class Result(NamedTuple):
    """Axes: g groups of networks, w widths, q products. Sizes are Frobenius norms over inputs."""

    third: Float[np.ndarray, "g w"]  # of O₃, root mean square
    standard_third: Float[np.ndarray, "g w"]  # the same in the standard parametrization
    means: Float[np.ndarray, "q g w"]  # of the mean of each product of PATTERNS
    exponents: Float[np.ndarray, " q"]  # of these, by the conjecture


def memory(config: Config) -> int:
    """Bytes of the derivatives of ten of the widest networks along all gradients."""
    weights = (config.dimension + 1 + config.num_samples) * max(config.widths)
    return 8 * 10 * 8 * weights * config.num_samples**3


def run(config: Config) -> Result:
    """Measure the orders of random networks, and average products of them."""
    report("the hierarchy of random networks", 0.0)
    for_inputs, for_networks = jax.random.split(jax.random.key(config.seed))
    d = config.dimension
    x = sphere(for_inputs, config.num_samples, d, radius=math.sqrt(d))
    orders, standard = _orders(x, for_networks, config)
    report("means over networks", 0.9)
    products = [_product(orders, chosen) for chosen in PATTERNS.values()]
    return Result(
        third=np.sqrt(_means(_norm(orders[2]) ** 2, config)),
        standard_third=_norm(standard[2]),
        means=np.stack([_norm(_means(values, config)) for values in products]),
        exponents=np.array([_conjectured(chosen) for chosen in PATTERNS.values()]),
    )


def _orders(
    x: Float[Array, "n d"], key: RandomKey, config: Config
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """O₁ … O₄ of all networks, axes (s, w, …), and of one for each group in the standard form.

    f = s Σ (b a_r) φ(w_rᵀx/√d)/√m is the NTK parametrization at s = b = 1 and the standard one at
    s = √m, b = 1/√m: the same function, with other gradients. All is one program.
    """
    networks = nested(max(config.widths), config.dimension, "erf")
    shape = (config.num_seeds + config.num_groups, len(config.widths))
    widths = np.broadcast_to(np.asarray(config.widths, float), shape)
    keys = jax.random.split(key, shape)
    scales = np.where(np.arange(shape[0])[:, None] < config.num_seeds, 1.0, np.sqrt(widths))

    def one(given: tuple[Array, Array, RandomKey]) -> tuple[Array, ...]:
        width, scale, key = given
        apply = networks.at_width(width)
        inner, outer = networks.init(key)
        return tangent_hierarchy(lambda w, x: scale * apply(w, x), (inner, outer / scale), x)

    flat = (widths.ravel(), scales.ravel(), keys.ravel())
    found = [np.asarray(order) for order in ensemble(one, flat, at_once=10)]
    found = [order.reshape(*shape, *order.shape[1:]) for order in found]
    cut = config.num_seeds
    return [order[:cut] for order in found], [order[cut:] for order in found]


def _product(orders: list[np.ndarray], chosen: tuple[int, ...]) -> Float[np.ndarray, "s w _"]:
    """O_a ⊗ O_b ⊗ … of every network, at all inputs."""
    product = np.ones((*orders[0].shape[:2], 1))
    for order in chosen:
        flat = orders[order - 1].reshape(*product.shape[:2], -1)
        product = (product[..., :, None] * flat[..., None, :]).reshape(*product.shape[:2], -1)
    return product


def _means(values: np.ndarray, config: Config) -> np.ndarray:
    """The mean over the networks of each group."""
    return values.reshape(config.num_groups, -1, *values.shape[1:]).mean(axis=1)


def _norm(values: np.ndarray) -> Float[np.ndarray, "s w"]:
    """The Frobenius norm over all axes but the first two."""
    return np.sqrt((values**2).sum(axis=tuple(range(2, values.ndim))))


def _conjectured(orders: tuple[int, ...]) -> float:
    """The exponent of a product: that of any of its terms, because all orders are connected."""
    terms = [contractions.terms_of_order(order)[0] for order in orders]
    return contractions.exponent(contractions.product(*terms))


def _bounded(result: Result, config: Config, *names: str) -> Finding:
    """The measured exponents of products are at most the conjectured ones: the largest excess."""
    return _farthest(result, config, names, -math.inf, TOLERANCE)


def _attained(result: Result, config: Config) -> Finding:
    """They are the conjectured ones, for all products."""
    return _farthest(result, config, tuple(PATTERNS), -TOLERANCE, TOLERANCE)


def _farthest(
    result: Result, config: Config, names: tuple[str, ...], low: float, high: float
) -> Finding:
    """Judge exponents relative to the conjectured ones; the finding that supports it least."""
    places = [list(PATTERNS).index(name) for name in names]
    powers = [result.exponents[place] for place in places]
    scaled = [
        result.means[place] / np.asarray(config.widths, float)[None] ** power
        for place, power in zip(places, powers, strict=True)
    ]
    findings = [exponent_between(config.widths, values, low, high) for values in scaled]
    order = (Verdict.REFUTED, Verdict.INCONCLUSIVE, Verdict.SUPPORTED)
    return min(findings, key=lambda finding: (order.index(finding.verdict), -finding.high))


CLAIMS = (
    SCALING.claim(
        "The mean of the tangent kernel is O(1).",
        lambda r, c: exponent_between(c.widths, r.means[1], -math.inf, TOLERANCE),
        formula=r"\mathbb{E}\, O_2 = O(m^0)",
        demand=LAB,
    ),
    SCALING.claim(
        "What moves the kernel is O(1/m).",
        lambda r, c: exponent_between(c.widths, r.third, -math.inf, -1 + TOLERANCE),
        formula=r"O_3 = O(m^{-1})",
        demand=LAB,
    ),
    SCALING.claim(
        "So is the mean of what moves that.",
        lambda r, c: exponent_between(c.widths, r.means[5], -math.inf, -1 + TOLERANCE),
        formula=r"\mathbb{E}\, O_4 = O(m^{-1})",
        demand=LAB,
    ),
    CONJECTURE.claim(
        "Means of products of clusters of even size, Θ Θ and O₄ Θ, are O(m^s) with the s counted.",
        lambda r, c: _bounded(r, c, "Θ Θ", "O₄ Θ"),
        formula=r"s = n_e + n_o/2 - t/2",
        demand=LAB,
    ),
    CONJECTURE.claim(
        "So are those with clusters of odd size: f f, O₃ f, O₃ O₃ and O₄ f f.",
        lambda r, c: _bounded(r, c, "f f", "O₃ f", "O₃ O₃", "O₄ f f"),
        formula=r"\tfrac{1}{2} \cdot 2 - \tfrac{1}{2} \cdot 6 = -2",
        demand=LAB,
    ),
    CONJECTURE.found(
        "All of these bounds are attained: the exponents are the counted ones.",
        _attained,
        demand=LAB,
    ),
    CONJECTURE.control(
        "A conjecture with s smaller by ½ fails for every product.",
        lambda r, c: _farthest(r, c, tuple(PATTERNS), -0.5 + TOLERANCE, math.inf),
    ),
    SCALING.control(
        "In the standard parametrization what moves the kernel does not fall.",
        lambda r, c: exponent_between(c.widths, r.standard_third, -0.3, 0.3),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the size of O₃, and the mean of every product beside the power that is foretold."""
    widths = np.asarray(config.widths)
    figure, (orders, products) = panels("what moves the kernel, O₃", "means of products")
    scaling(orders, widths, {"NTK": result.third, "standard": result.standard_third}, -1.0)
    for name, values, power in zip(PATTERNS, result.means, result.exponents, strict=True):
        middle = np.median(values, axis=0)
        products.plot(widths, middle, "o", markersize=3, label=f"{name}: m^{power:g}")
        products.plot(widths, middle[0] * (widths / widths[0]) ** power, **THEORY)
    products.legend(fontsize=6)
    for axis in (orders, products):
        label_axes(axis, "width m", logarithmic="xy")
    return figure
