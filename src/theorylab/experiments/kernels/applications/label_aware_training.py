"""Training makes the tangent kernel of a finite network aware of its labels, as Θ^NTH predicts.

Inputs have two binary factors, a and b, and two labelings: y = a and y = b. The tangent kernel of a
network that is trained on one of them has moved, by the order of 1/width, towards the labels yyᵀ of
its own labeling more than towards the other. Its mean over networks is predicted at initialisation,
from the kernels O₂, O₃ and O₄ of the tangent hierarchy. With Θ = Σ λ_k v_k v_kᵀ and y_k = v_kᵀy,

    Θ^NTH = Θ + Σ_k O₃(·, ·, v_k) y_k/λ_k + Σ_kl y_k y_l/(λ_k(λ_k + λ_l)) O₄(·, ·, v_k, v_l).

The source's Eq. 2.158 amounts to 1/(λ_l(λ_k + λ_l)): the third and the fourth place of O₄, which
are not alike, are exchanged on the way from its Eq. 2.48 to 2.50. Initial outputs are subtracted,
so that training starts at 0, as the source supposes.

Source: golikov · label-aware · 2.8.2, Eqs 2.157–2.158.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, median_at_most, ordered
from theorylab.experiments.drawing import agreement, image, label_axes, panels
from theorylab.fields import Count, Plural, Positive, Seeded
from theorylab.kernels import corrected_kernel, ntk, tangent_hierarchy
from theorylab.models import NTK, Model, mlp, network
from theorylab.progress import report
from theorylab.training import Solver, ensemble, gradient_flow, squared
from theorylab.typing import Measured, Params, RandomKey

PRECISION = "float64"
FORMULA = (
    r"\Theta^{NTH} = \mathbb{E}\Big[\Theta_0 + O_3 \Theta^{-1} y + \sum_{kl}"
    r" \frac{y_k y_l}{\lambda_k (\lambda_k + \lambda_l)} O_4(\cdot, \cdot, v_k, v_l)\Big]"
)

AWARE = Source("golikov", "label-aware", "2.8.2, Eq. 2.158")

LOSS = squared("half_sum")
SOLVER = Solver(rtol=1e-6, max_steps=2000)
FACTORS = np.array([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])  # a and b of four inputs
OTHER = FACTORS[::-1]


@dataclass(frozen=True)
class Config(Seeded):
    """Networks with one hidden layer, trained on two labelings of four inputs."""

    width: Count = 256  # neurons m
    wider: Plural = 4  # how many times as wide the networks of the control are
    num_networks: Count = 20  # over which kernels are averaged, for every dataset
    dimension: Plural = 6  # inputs d
    noise: Positive = 0.5  # deviation of every coordinate; factors have the size 1
    time: Positive = 100.0  # of gradient flow of ½ Σ (f − y)²
    num_seeds: Count = 20  # random datasets; with 10 the misprint may not be told


PRESETS = {
    "smoke": Config(num_networks=6, num_seeds=8),
    "paper": Config(width=1024, num_networks=200, num_seeds=50),
}


class Kernels(NamedTuple):
    """Kernels of one dataset in the mean over networks; axes l labelings, n inputs."""

    plain: Float[Measured, "*s n n"]  # Θ₀
    predicted: Float[Measured, "*s l n n"]  # Θ^NTH
    printed: Float[Measured, "*s l n n"]  # with the last two places of O₄ exchanged
    trained: Float[Measured, "*s l n n"]  # of trained networks


class Result(NamedTuple):
    """Axes: s datasets, l labelings (a and b), n inputs."""

    kernels: Kernels
    wide_plain: Float[Measured, "s n n"]  # Θ₀ of wider networks, in the mean over networks
    wide_trained: Float[Measured, "s n n"]  # after training on the labeling a


def memory(config: Config) -> int:
    """Bytes of the wider networks, and of four derivatives on all inputs, on two cores."""
    weights = config.width * (config.dimension + 2)
    n = FACTORS.shape[1]
    return 8 * 2 * (weights * (4 * n**3 + 40 * config.wider) + 16 * config.num_networks * n**2)


def run(config: Config) -> Result:
    """Predict and train, dataset by dataset."""
    report("networks on two labelings", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    return ensemble(partial(_dataset, config=config), keys)


def _dataset(key: RandomKey, config: Config) -> Result:
    for_noise, for_networks, for_wide = jax.random.split(key, 3)
    labels = jnp.asarray(FACTORS)
    x = config.noise * jax.random.normal(for_noise, (labels.shape[1], config.dimension))
    x = x.at[:, :2].add(labels.T)
    x = math.sqrt(config.dimension) * x / jnp.linalg.norm(x, axis=1, keepdims=True)

    def mean(function, key: RandomKey):
        found = jax.lax.map(function, jax.random.split(key, config.num_networks))
        return jax.tree.map(lambda leaf: leaf.mean(axis=0), found)

    narrow, wide = (_model(width, config) for width in (config.width, config.wider * config.width))

    def kernels(key: RandomKey) -> Kernels:
        params = narrow.init(key)
        _, second, third, fourth = tangent_hierarchy(narrow.apply, params, x)
        zero = jnp.zeros(len(x))
        own = (zero, second, third, fourth)
        exchanged = (zero, second, third, jnp.swapaxes(fourth, 2, 3))
        return Kernels(
            plain=second,
            predicted=jnp.stack([corrected_kernel(own, y) for y in labels]),
            printed=jnp.stack([corrected_kernel(exchanged, y) for y in labels]),
            trained=jax.lax.map(lambda y: _trained(narrow, params, x, y, config.time), labels),
        )

    def control(key: RandomKey) -> tuple[Array, Array]:
        params = wide.init(key)
        return ntk(wide.apply, params, x), _trained(wide, params, x, labels[0], config.time)

    return Result(mean(kernels, for_networks), *mean(control, for_wide))


def _model(width: int, config: Config) -> Model:
    return network(mlp([width], activation="erf"), (config.dimension,), NTK())


def _trained(
    model: Model, params: Params, x: Float[Array, "n d"], y: Float[Array, " n"], time: float
) -> Float[Array, "n n"]:
    """The tangent kernel after gradient flow from the output 0."""
    start = model.apply(params, x)

    def objective(params: Params) -> Float[Array, ""]:
        return LOSS(model.apply(params, x) - start, y[:, None])

    end = gradient_flow(objective, params, [time], lambda _: (), SOLVER).params
    return ntk(model.apply, end, x)


def _missed(kernels: Kernels, predicted: np.ndarray) -> Float[np.ndarray, " s"]:
    """The error of a predicted movement over the movement itself, for the worse labeling."""
    gap, moved = predicted - kernels.trained, kernels.trained - kernels.plain[:, None]
    return (np.linalg.norm(gap, axis=(2, 3)) / np.linalg.norm(moved, axis=(2, 3))).max(axis=1)


def _gain(kernels: Kernels, moved: np.ndarray, labels: np.ndarray) -> Float[np.ndarray, " s"]:
    """By how much training adds to yᵀKy/(‖K‖‖y‖²), in the mean over both labelings."""

    def alignment(kernel: np.ndarray) -> np.ndarray:
        size = np.linalg.norm(kernel, axis=(2, 3)) * labels.shape[1]
        return np.einsum("ln,slnm,lm->sl", labels, kernel, labels) / size

    plain = np.repeat(kernels.plain[:, None], len(labels), axis=1)
    return (alignment(moved) - alignment(plain)).mean(axis=1)


def _movement(plain: np.ndarray, trained: np.ndarray) -> Float[np.ndarray, " s"]:
    return np.linalg.norm(trained - plain, axis=(1, 2)) / np.linalg.norm(plain, axis=(1, 2))


WITHIN = "lab: at seeds 0 and 1 the median miss was 5 % as corrected, and 24 to 28 % as printed"
CLAIMS = (
    AWARE.printed(
        "Θ^NTH with 1/(λ_l(λ_k + λ_l)), as Eq. 2.158 amounts to, is the mean kernel of trained"
        " networks: the predicted movement is right within 15 %.",
        lambda r, c: median_at_most(_missed(r.kernels, r.kernels.printed), 0.15),
        formula=r"\sum_{kl} y_k y_l \Big(\frac{1}{\lambda_k \lambda_l}"
        r" - \frac{1}{\lambda_k (\lambda_k + \lambda_l)}\Big) O_4(\cdot, \cdot, v_k, v_l)",
        quote="this kernel corresponds to the NTK of a network trained until convergence",
        regime="width >= 256 and num_seeds >= 20",
        demand=WITHIN,
    ),
    AWARE.corrected(
        "Θ^NTH with 1/(λ_k(λ_k + λ_l)) is: the predicted movement is right within 15 %.",
        lambda r, c: median_at_most(_missed(r.kernels, r.kernels.predicted), 0.15),
        formula=FORMULA,
        regime="width >= 256",
        demand=WITHIN,
    ),
    AWARE.found(
        "It is nearer to the mean kernel of trained networks than as printed, dataset by dataset.",
        lambda r, c: ordered(
            *(_missed(r.kernels, one) for one in (r.kernels.predicted, r.kernels.printed))
        ),
        regime="width >= 256",
    ),
    AWARE.claim(
        "The kernel of trained networks depends on the labels: its alignment with those it was"
        " trained on grows by more than with the other labeling.",
        lambda r, c: ordered(*(_gain(r.kernels, r.kernels.trained, y) for y in (OTHER, FACTORS))),
        quote="depends on train labels",
    ),
    AWARE.claim(
        "So it does for Θ^NTH, which is known before training.",
        lambda r, c: ordered(*(_gain(r.kernels, r.kernels.predicted, y) for y in (OTHER, FACTORS))),
        quote="can be considered as a label-aware alternative to the usual NTK",
    ),
    AWARE.found(
        "The kernel's alignment with the labels it was trained on grows.",
        lambda r, c: ordered(
            np.zeros(len(r.wide_plain)), _gain(r.kernels, r.kernels.trained, FACTORS)
        ),
    ),
    AWARE.control(
        "The kernels of wider networks move less.",
        lambda r, c: ordered(
            _movement(r.wide_plain, r.wide_trained),
            _movement(r.kernels.plain, r.kernels.trained[:, 0]),
        ),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw predicted and measured movements, and the movement of the first dataset's kernel."""
    figure, (movement, moved) = panels("movement of the kernel", "movement, first dataset, y = a")
    kernels = result.kernels
    trained, predicted, printed = (
        kernel - kernels.plain[:, None]
        for kernel in (kernels.trained, kernels.predicted, kernels.printed)
    )
    agreement(movement, {"as printed": (printed, trained), "corrected": (predicted, trained)})
    image(moved, trained[0, 0])
    label_axes(moved, "input")
    return figure
