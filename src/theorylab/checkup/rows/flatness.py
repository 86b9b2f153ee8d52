"""How much noise the weights take, and the PAC-Bayes bound that follows."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.answers.digits import number
from theorylab.claims import Source
from theorylab.generalization import (
    chernoff_upper,
    choice_penalty,
    gaussian_divergence,
    pac_bayes_gap,
)
from theorylab.landscape import flatness, noisy_losses
from theorylab.landscape.flatness import PROBES, relative_deviations
from theorylab.typing import Axes, Inputs

from ..classes import has_classes
from ..measure import Measure, Reading, Skipped
from ..subject import Subject

RISE = 0.1  # of the loss: nats of an input, or a share of the targets' variance
RISK = 0.05  # δ of the bound, half of it for the draws of networks
FEWEST = 6  # pairs, below which there is no interval to speak of
_RUNS = 5  # of all pairs: to find the noise, and for the bound


class _Bound(NamedTuple):
    total: float  # on the error of a network from the cloud
    error: float  # mean error of the cloud on the inputs
    divergence: float


def _flatness(subject: Subject) -> Reading:
    inputs, products = subject.effort("flatness", 0.2, 1 / 3, 2 * PROBES * _RUNS)
    x, y = subject.sample(inputs)
    pairs = min(PROBES, products // (2 * _RUNS))
    if pairs < FEWEST:
        raise Skipped('it would take too long; force="flatness" computes it')
    key, other = jax.random.split(subject.key_for("flatness"))
    found = flatness(
        subject.apply, subject.loss, subject.params, x, y, key, _rise(subject, y), pairs
    )
    value = float(found.noise)
    if math.isnan(value):
        raise Skipped("the loss rises at the least noise that is tried")
    if math.isinf(value):
        raise Skipped("no noise in the weights raises the loss: it does not depend on them")
    details: dict[str, float | str] = {}
    meaning = (
        f"Gaussian noise of {number(100 * value, 2)} % of each layer's norm raises the loss by"
        f" {'0.1' if has_classes(subject.loss, y) else '10 % of the variance of the targets'}"
    )
    if has_classes(subject.loss, y):
        bound = _bound(subject, value, x, y, jax.random.split(other, pairs))
        details = {
            "PAC-Bayes bound": bound.total,
            "error with noise": bound.error,
            "KL": bound.divergence,
        }
        times = f", {number(bound.total, 2)} times too large"
        meaning += "; its PAC-Bayes bound on the test error is " + (
            f"vacuous{times}" if bound.total >= 1 else number(bound.total, 2)
        )
    method = f"bisection on the noise with {pairs} pairs ±ε, {inputs:,} inputs; interval over pairs"
    curves = {"noises": np.asarray(found.noises), "rises": np.asarray(found.rises)}
    low, high = float(found.low), float(found.high)
    return Reading(value, low, high, "95 %", method, meaning, details=details, curves=curves)


def _rise(subject: Subject, y: jax.Array) -> float:
    """A tenth of a nat for each input; of the squared loss a tenth of that of the mean."""
    if subject.loss.kind == "squared":
        mean = jnp.broadcast_to(y.mean(axis=0, keepdims=True), y.shape)
        constant = float(subject.loss(mean, y))
        if constant == 0:
            raise Skipped("all targets are the same")
        return RISE * constant
    return RISE * len(y) * subject.loss.scale(*y.shape)


def _bound(subject: Subject, noise: float, x: Inputs, y: jax.Array, keys: jax.Array) -> _Bound:
    """Maurer's bound for the cloud whose deviations are powers of two below the noise."""
    sizes, tree = jax.tree.flatten(relative_deviations(subject.params))
    exponents = [math.floor(math.log2(noise * float(s))) if s > 0 else None for s in sizes]
    powers = [0.0 if j is None else 2.0**j for j in exponents]
    like = [jnp.asarray(p, s.dtype) for p, s in zip(powers, sizes, strict=True)]
    deviations = jax.tree.unflatten(tree, like)
    start = subject.initial_params
    start = jax.tree.map(jnp.zeros_like, subject.params) if start is None else start
    penalty = choice_penalty(j for j in exponents if j is not None)
    divergence = gaussian_divergence(subject.params, start, deviations) + penalty
    _, errors = noisy_losses(subject.apply, subject.loss, subject.params, deviations, keys, x, y)
    error = float(np.asarray(errors, float).mean())
    gap = pac_bayes_gap(divergence, len(y), RISK / 2) if len(y) > 1 else math.inf
    return _Bound(chernoff_upper(error, len(keys), RISK / 2) + gap, error, divergence)


def _draw(reading: Reading, axes: Axes) -> None:
    rises = np.maximum(reading.curves["rises"], 1e-12)
    axes.loglog(reading.curves["noises"], rises, marker="o")
    axes.set(xlabel="noise in the weights σ, relative", ylabel="rise of the loss")


FLATNESS = Measure(
    name="flatness",
    group="generalization",
    title="noise in the weights for a rise of 0.1",
    read=_flatness,
    source=Source("arora", "pac-bayes", "Thm 5.6.1"),
    experiment="curvature/trace",
    draw=_draw,
)
