"""The tangent kernel gives the critical learning rate, through a whole training with spikes.

Gradient descent spikes where η exceeds η_crit = 2/λ_max(∇²L). The Hessian has a cheap stand-in: for
the mean squared error over n samples and k outputs each, with the nk × nk tangent kernel K,

    ∇²L = (2/n) JᵀJ + (2/n) Σ (f − y) ∇²f,   η̃_crit = n/λ_max(K)

The second term is O(1/√m) at the start. It grows with the residuals, so the two rates are compared
at every step of SGD that is driven above η_crit on purpose, on the batch of the step: they stay
near the diagonal, spikes included. With labels thirty times as large they do not.

A step of descent in function space, f′ − y = (I − (2η/n)K)(f − y) + Δ_H, has ½ in Δ_H = ½dᵀ∇²f d,
d = w′ − w, which the source leaves out.

Source: zhu · eta-crit · §4.2, C.1, Fig. C.1; zhu · ntk-decomp · Eq. 4.3.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    identity,
    median_at_least,
    median_at_most,
)
from theorylab.data import Dataset
from theorylab.dynamics import (
    critical_learning_rate,
    decompose,
    exact_critical_learning_rate,
    kernel_matrix,
)
from theorylab.experiments.drawing import agreement, label_axes, panels, scaling
from theorylab.fields import Classes, Count, Increasing, Plural, Positive, Several
from theorylab.models import Model, mlp, quadratize
from theorylab.progress import report
from theorylab.training import Batches, empirical_risk, ensemble, gradient_descent, probed_sgd
from theorylab.training.sgd import Batch
from theorylab.typing import Measured, Params, RandomKey

from ._runs import LOSS, NOT_KEPT, Draw, begin
from ._tasks import SgdTask, image_network, task_shape, watched_bytes

PRECISION = "float64"
FORMULA = r"\frac{2}{\lambda_{\max}(\nabla^2 L)} \approx \frac{n}{\lambda_{\max}(K)}"

RATES = Source("zhu", "eta-crit", "C.1")
SCATTER = Source("zhu", "eta-crit", "Fig. C.1")
STEP = Source("zhu", "ntk-decomp", "Eq. 4.3")
SPLIT = Source("zhu", "ntk-decomp", "§4.2, P_≤s and P_>s")

SIZES = (1, 5)  # s, of the decomposition
FAR = 30.0  # the factor of the labels in the control


@dataclass(frozen=True)
class Config(SgdTask):
    """Critical learning rates by Hessian and by kernel, at the start and during SGD."""

    classes: Classes = (7, 9)  # two kinds of images
    widths: Increasing[Count] = (16, 64, 256, 1024)  # neurons m, at the start
    width: Count = 256  # neurons or channels of the networks that are trained
    depths: Several[Plural] = (2, 4)  # their layers
    num_samples: Count = 48  # n
    ratio: Positive = 1.5  # η over η_crit at the start
    num_steps: Count = 40  # of SGD
    num_products: Count = 16  # Hessian–vector products for one exact rate
    num_seeds: Count = 24  # draws of data and weights, of which some hardly spike

    def __post_init__(self) -> None:
        super().__post_init__()
        for depth in self.depths:
            image_network(self.architecture, self.width, depth)
        image_network("mlp", self.widths[-1], 2)


PRESETS = {
    "smoke": Config(widths=(16, 128, 1024), ratio=1.4, depths=(2,), num_seeds=16),
    "paper": Config(
        data="images",
        images="cifar10",
        widths=(128, 256, 512, 1024, 2048, 4096),
        width=1024,
        depths=(2, 5),
        num_samples=128,
        batch_size=32,
        num_steps=500,
        num_products=60,
        num_seeds=10,
    ),
}


class Start(NamedTuple):
    """Rates at the start, for every seed and width."""

    exact: Float[Measured, "*s"]
    kernel: Float[Measured, "*s"]
    far: Float[Measured, "*s"]  # exact, with labels far from the outputs


class Training(NamedTuple):
    """What was seen before every step of SGD."""

    loss: Float[Measured, "*s t"]  # on all data
    exact: Float[Measured, "*s t"]  # on the batch of the step
    kernel: Float[Measured, "*s t"]


class Step(NamedTuple):
    """One step of descent of the quadratic model."""

    remainder: Float[Measured, "*s n"]  # f′ − y − (I − (2η/n)K)(f − y)
    second: Float[Measured, "*s n"]  # dᵀ∇²f d
    top: Float[Measured, "*s 2"]  # L_≤1 and L_≤5 before it, over L
    rest: Float[Measured, "*s 2"]  # the loss in all other left singular vectors of ∇f, over L


class Result(NamedTuple):
    """Rates by Hessian and kernel, and the terms of a step."""

    start: Start  # axes: widths, seeds
    trained: Training  # axes: depths, seeds, steps
    step: Step  # axes: seeds, samples


def memory(config: Config) -> int:
    """Bytes of Lanczos' basis for the largest network."""
    n, kind = config.num_samples, config.architecture
    flat = task_shape("mlp", config.data, config.images)
    basis = 2 + config.num_products // 6  # of a run's weights, which are counted twelve times
    start = watched_bytes("mlp", max(config.widths), 2, n, flat)
    trained = watched_bytes(kind, config.width, max(config.depths), n, config.input_shape)
    return basis * max(start, trained)


def run(config: Config) -> Result:
    """Measure at the start, during SGD, and in one step."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report("at the start", 0.0)
    flat, draw = replace(config, architecture="mlp").drawing(), config.drawing()
    starts = [ensemble(lambda key, m=m: _start(config, flat, key, m), keys) for m in config.widths]
    trained = []
    for number, depth in enumerate(config.depths):
        report(f"SGD, {depth} layers", 0.2 + 0.5 * number / len(config.depths))
        trained.append(ensemble(lambda key, depth=depth: _train(config, draw, key, depth), keys))
    report("one step", 0.8)
    return Result(
        start=jax.tree.map(lambda *widths: np.stack(widths), *starts),
        trained=jax.tree.map(lambda *depths: np.stack(depths), *trained),
        step=ensemble(lambda key: _step(config, flat, key), keys),
    )


def _start(config: Config, draw: Draw, key: RandomKey, width: int) -> Start:
    """The rates of two layers at the start."""
    model, params, data = begin(mlp([width]), draw, key)
    far = Dataset(data.x, FAR * data.y, "far", "the data")
    exact, beyond = (
        exact_critical_learning_rate(model.apply, params, d, LOSS, key, config.num_products)
        for d in (data, far)
    )
    kernel = critical_learning_rate(model.apply, params, data, LOSS)
    return Start(exact, kernel, far=beyond)


def _train(config: Config, draw: Draw, key: RandomKey, depth: int) -> Training:
    """SGD, with the rates of every batch."""
    architecture = image_network(config.architecture, config.width, depth)
    model, params, data = begin(architecture, draw, key)

    def probe(params: Params, batch: Batch, step: Array) -> Training:
        given = (model.apply, params, batch, LOSS)
        return Training(
            loss=LOSS(model.apply(params, data.x), data.y),
            exact=exact_critical_learning_rate(*given, key, config.num_products),
            kernel=critical_learning_rate(*given),
        )

    rate = config.ratio * critical_learning_rate(model.apply, params, data, LOSS)
    return probed_sgd(
        empirical_risk(LOSS, model.apply),
        params,
        data,
        gradient_descent(rate),
        Batches(config.batch_size),
        config.num_steps,
        probe,
        key,
    ).records


def _step(config: Config, draw: Draw, key: RandomKey) -> Step:
    """One step of descent of the quadratic model: what the kernel leaves, and dᵀ∇²f d."""
    model, params, data = begin(mlp([config.widths[0]]), draw, key)
    apply = quadratize(model.apply, params)
    rate = config.ratio * critical_learning_rate(model.apply, params, data, LOSS)
    gradient = jax.grad(lambda w: LOSS(apply(w, data.x), data.y))(params)
    d = jax.tree.map(lambda g: -rate * g, gradient)

    def along(w):
        return jax.jvp(lambda w: model.apply(w, data.x), (w,), (d,))[1]

    residual = (model.apply(params, data.x) - data.y).ravel()
    kernel = kernel_matrix(model.apply, params, data.x)
    linear = residual - rate * 2 / len(residual) * kernel @ residual
    after = (apply(jax.tree.map(jnp.add, params, d), data.x) - data.y).ravel()
    parts = decompose(model.apply, params, data, LOSS, SIZES)
    return Step(
        remainder=after - linear,
        second=jax.jvp(along, (params,), (d,))[1].ravel(),
        top=parts.top / parts.loss,
        rest=_rest(model, params, data) / parts.loss,
    )


def _rest(model: Model, params: Params, data: Dataset) -> Float[Array, " 2"]:
    """L_>s by the Jacobian alone: its left singular vectors are the eigenvectors of K."""
    tree = jax.jacrev(lambda w: model.apply(w, data.x).ravel())(params)
    rows = [leaf.reshape(len(data.x), -1) for leaf in jax.tree.leaves(tree)]
    vectors = jnp.linalg.svd(jnp.concatenate(rows, axis=1), full_matrices=False)[0]
    along = (vectors.T @ (model.apply(params, data.x) - data.y).ravel()) ** 2
    return jnp.stack([along[size:].sum() for size in SIZES]) / len(data.x)


def _start_error(result: Result) -> np.ndarray:
    """The relative difference of the two rates at the start, by seed and width."""
    return np.abs(result.start.exact / result.start.kernel - 1).T


def _log_ratio(result: Result) -> np.ndarray:
    return np.abs(np.log(result.trained.exact / result.trained.kernel))


def _correlation(result: Result) -> np.ndarray:
    """Pearson's correlation of the two rates over a run, the lowest over depths, seed by seed."""
    exact, kernel = (
        each - each.mean(axis=-1, keepdims=True)
        for each in (result.trained.exact, result.trained.kernel)
    )
    norms = np.linalg.norm(exact, axis=-1) * np.linalg.norm(kernel, axis=-1)
    return ((exact * kernel).sum(axis=-1) / norms).min(axis=0)


CLAIMS = (
    RATES.claim(
        "At the start the two rates differ by Õ(1/√m): the relative error falls with the width.",
        lambda r, c: exponent_between(np.array(c.widths), _start_error(r), -2.0, -0.4),
        formula=r"|\eta_{\mathrm{crit}} - \tilde\eta_{\mathrm{crit}}| = \tilde O(1 / \sqrt m)",
        demand="derived: a bound, so −½ or steeper; a tenth is for the logarithm that Õ hides",
    ),
    RATES.claim(
        "At the largest width they agree: within 2 % in the median.",
        lambda r, c: median_at_most(_start_error(r)[:, -1], 0.02),
        quote="can be well approximated using NTK",
        regime="widths[-1] >= 1024",
        demand=NOT_KEPT,
    ),
    SCATTER.claim(
        "During SGD above η_crit the two rates of a batch differ by less than 5 % in the median.",
        lambda r, c: median_at_most(np.median(_log_ratio(r), axis=-1).max(axis=0), 0.05),
        quote="is close to … during training with SGD",
        demand=NOT_KEPT,
    ),
    SCATTER.claim(
        "There they lie on a line: the correlation over the steps is at least 0.95.",
        lambda r, c: median_at_least(_correlation(r), 0.95),
        quote="is close to … during training with SGD",
        demand=NOT_KEPT,
    ),
    SCATTER.check(
        "That training spiked: the loss rose to more than twice what it was at the start.",
        lambda r, c: median_at_least(
            (r.trained.loss.max(axis=-1) / r.trained.loss[..., 0]).min(axis=0), 2.0
        ),
    ),
    RATES.control(
        "With labels thirty times as large the rate of a narrow network is off by more than 10 %.",
        lambda r, c: median_at_least(np.abs(r.start.far[0] / r.start.kernel[0] - 1), 0.1),
        demand=NOT_KEPT,
    ),
    SPLIT.check(
        "L = L_≤s + L_>s, with L_>s from the Jacobian's singular vectors, for s = 1 and 5.",
        lambda r, c: identity(r.step.top + r.step.rest, np.ones_like(r.step.top), 1e-8),
        formula=r"L = \tfrac1n \|P_{\le s}(f - y)\|^2 + \tfrac1n \|P_{> s}(f - y)\|^2",
    ),
    *STEP.erratum(
        printed=(
            "As printed: what the kernel leaves of a step is Δ_H = dᵀ∇²f d, without ½.",
            lambda r, c: identity(r.step.remainder, r.step.second, 1e-8),
        ),
        corrected=(
            "It is Δ_H = ½ dᵀ∇²f d, exactly for a quadratic model.",
            lambda r, c: identity(r.step.remainder, r.step.second / 2, 1e-8),
        ),
        formula=r"f' - y = (I - \tfrac{2\eta}{n} K)(f - y) + \tfrac12 d^\top \nabla^2 f\, d",
        quote="w^{t+1} - w^t, ∇_w^2 f( )(w^{t+1} - w^t)",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the error over the width, and the two rates of all batches."""
    figure, (start, scatter, time) = panels(
        "relative error at the start", "critical rates of batches", "loss and ratio of the rates"
    )
    scaling(start, config.widths, {"error": _start_error(result)})
    label_axes(start, "width m")
    loss, exact, kernel = result.trained
    pairs = zip(config.depths, exact, kernel, strict=True)
    agreement(scatter, {f"{depth} layers": (e, k) for depth, e, k in pairs})
    percentiles = 100 * np.percentile(_log_ratio(result), 95, axis=(1, 2))
    shown = ", ".join(f"{value:.0f} %" for value in percentiles)
    label_axes(scatter, f"η_crit by the Hessian (95 of 100 within {shown})", "by the kernel", "xy")
    time.plot(loss[0, 0], label="loss")
    time.plot(exact[0, 0] / kernel[0, 0], label="ratio")
    label_axes(time, "step", logarithmic="y")
    time.legend(fontsize=7)
    return figure
