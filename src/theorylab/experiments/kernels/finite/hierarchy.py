"""What moves the kernel of a network falls as 1/width, and counting clusters foretells how fast.

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

from theorylab.claims import Finding, Source, exponent_between
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
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


def _as_foretold(result: Result, config: Config, name: str) -> Finding:
    """The measured exponent of a product in ± 0.15 around the conjectured one."""
    number = list(PATTERNS).index(name)
    exponent = result.exponents[number]
    widths = np.asarray(config.widths)
    return exponent_between(widths, result.means[number], exponent - 0.15, exponent + 0.15)


CLAIMS = (  # the tolerance of all exponents, ± 0.15, is the catalogue's
    SCALING.claim(
        "The mean of the tangent kernel does not depend on the width.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.means[1], -0.15, 0.15),
        formula=r"\mathbb{E}\, O_2 \propto m^0",
    ),
    SCALING.claim(
        "What moves the kernel is of order 1/m.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.third, -1.15, -0.85),
        formula=r"O_3 \propto m^{-1}",
    ),
    SCALING.claim(
        "So is the mean of what moves that.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.means[5], -1.15, -0.85),
        formula=r"\mathbb{E}\, O_4 \propto m^{-1}",
    ),
    CONJECTURE.claim(
        "The mean of f f, of two clusters of one tensor, scales as foretold.",
        lambda r, c: _as_foretold(r, c, "f f"),
    ),
    CONJECTURE.claim(
        "So does that of Θ Θ, of two clusters of two.",
        lambda r, c: _as_foretold(r, c, "Θ Θ"),
    ),
    CONJECTURE.claim(
        "So does that of O₃ f, of three and one.",
        lambda r, c: _as_foretold(r, c, "O₃ f"),
    ),
    CONJECTURE.claim(
        "So does that of O₃ O₃, of three and three.",
        lambda r, c: _as_foretold(r, c, "O₃ O₃"),
        formula=r"\tfrac{1}{2} \cdot 2 - \tfrac{1}{2} \cdot 6 = -2",
    ),
    CONJECTURE.claim(
        "So does that of O₄ Θ, of four and two.",
        lambda r, c: _as_foretold(r, c, "O₄ Θ"),
    ),
    CONJECTURE.claim(
        "So does that of O₄ f f, of four, one and one.",
        lambda r, c: _as_foretold(r, c, "O₄ f f"),
    ),
    SCALING.control(
        "In the standard parametrization what moves the kernel does not fall.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.standard_third, -0.3, 0.3),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the size of O₃, and the mean of every product beside the power that is foretold."""
    widths = np.asarray(config.widths)
    figure, (orders, products) = panels("what moves the kernel, O₃", "means of products")
    for values, label in ((result.third, "NTK"), (result.standard_third, "standard")):
        orders.plot(widths, np.median(values, axis=0), "o-", markersize=3, label=label)
    for name, values, power in zip(PATTERNS, result.means, result.exponents, strict=True):
        middle = np.median(values, axis=0)
        products.plot(widths, middle, "o", markersize=3, label=f"{name}: m^{power:g}")
        products.plot(widths, middle[0] * (widths / widths[0]) ** power, **THEORY)
    for axis in (orders, products):
        axis.set(xscale="log", yscale="log", xlabel="width m")
        axis.legend(fontsize=6)
    return figure
