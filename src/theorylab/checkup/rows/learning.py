"""The learning rate against the curvature: is it stable, and how noisy are its gradients.

    η < 2/λ_max(∇²L)        gradient descent is stable; other optimisers have edges of their own
    η_crit = 2/λ_max        of the tangent kernel, and of single batches
    B_simple = tr Σ/‖G‖²    the batch size at which noise and gradient are equally large

Source: arora · edge-of-stability · Fig. 2.4; zhu · nqm-2d-map · Thm 3.3.1; zhu · eta-crit · §4.2;
Cohen et al. (2022), arXiv:2207.14484; McCandlish et al. (2018), arXiv:1812.06162.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from theorylab.claims import Source
from theorylab.dynamics import gradient_noise_scale, stability_threshold
from theorylab.dynamics.stability import GRADIENT_DESCENT, PRECONDITIONED
from theorylab.numerics import clopper_pearson, sign_interval

from .. import curved, programs
from ..measure import Measure, Reading, Skipped
from ..subject import Subject

_NEAR = 0.02  # of the edge: training hovers about it by a few per cent
_BATCHES = (6, 16)  # at least and at most
_BATCH_STEPS = 7  # of Lanczos: a batch has few large eigenvalues, and 1 % of them is enough
_BATCH_SHARE = 0.25  # of the time
_BATCH_PASSES = 1.2  # gradients a product costs, for the forward pass is kept
_FEWEST_GRADIENTS = 10


def _sharpness(subject: Subject) -> Reading:
    spectrum = subject.shared(curved.spectrum)
    value, bound = spectrum.largest
    meaning = "no direction curves upwards: gradient descent has no edge of stability here"
    if value > 0:
        meaning = f"gradient descent is stable below a learning rate of {2 / value:.3g}"
    return Reading(
        value=value,
        low=value,
        high=value + bound,
        certainty="certified",
        method=_method(spectrum.first_products, subject),
        meaning=meaning,
        products=spectrum.first_products,
        details={"largest stable learning rate": 2 / value if value > 0 else math.inf},
    )


def _stability(subject: Subject) -> Reading:
    eta, optimizer = subject.learning_rate, _optimizer(subject)
    assert eta is not None  # it is needed
    if optimizer in PRECONDITIONED and subject.optimizer_state is None:
        raise Skipped(f"pass optimizer_state= for {optimizer}: its edge needs second moments")
    preconditioned = optimizer in PRECONDITIONED
    if preconditioned:
        (value, bound), products = subject.shared(curved.preconditioned)
    else:
        spectrum = subject.shared(curved.spectrum)
        (value, bound), products = spectrum.largest, spectrum.first_products
    threshold = float(stability_threshold(eta, optimizer, _momentum(subject)))
    ratio, high = value / threshold, (value + bound) / threshold
    phase = phase_of(ratio, high, subject.loss.kind, optimizer)
    what = "preconditioned sharpness" if preconditioned else "sharpness"
    return Reading(
        value=ratio,
        low=ratio,
        high=high,
        certainty="certified",
        method=f"{what} over its threshold for {optimizer}; {_method(products, subject)}",
        meaning=_MEANINGS[phase].format(
            what=what, below=100 * (1 - ratio), above=100 * (ratio - 1), spread=100 * (high - ratio)
        ),
        products=products,
        details={
            "phase": phase,
            "threshold": threshold,
            "largest stable learning rate": eta / ratio if ratio > 0 else math.inf,
        },
    )


_MEANINGS = {
    "stable": "{what} is {below:.0f} % below the edge: steps are stable",
    "edge": "{what} is at the edge of stability, within {above:+.1f} % (± {spread:.1f} %):"
    " the loss goes up and down from step to step",
    "catapult": "{what} is {above:.0f} % above the edge, below twice of it: the loss of a quadratic"
    " model rises and falls again as its curvature drops (a catapult)",
    "divergent": "{what} is above twice the edge, where a quadratic model diverges",
    "unstable": "{what} is {above:.0f} % above the edge: the loss rises along the sharpest"
    " direction",
}


def phase_of(low: float, high: float, kind: str, optimizer: str) -> str:
    """The phase of training, from where the sharpness is in units of its threshold.

    The phases beyond the edge are those of gradient descent on the squared loss, for which they
    are proved; all others are unstable there.

    Args:
        low: The lower end of the ratio of sharpness and threshold.
        high: Its upper end.
        kind: Of the loss.
        optimizer: Its name.

    Example:
        >>> [phase_of(ratio, ratio, "squared", "sgd") for ratio in (0.5, 1.01, 1.5, 2.5)]
        ['stable', 'edge', 'catapult', 'divergent']
        >>> phase_of(1.5, 1.5, "cross_entropy", "adam")
        'unstable'
    """
    if high < 1 - _NEAR:
        return "stable"
    if low <= 1 + _NEAR:
        return "edge"
    if kind != "squared" or optimizer not in GRADIENT_DESCENT:
        return "unstable"
    return "divergent" if low > 2 else "catapult"


def _preconditioned(subject: Subject) -> Reading:
    (value, bound), products = subject.shared(curved.preconditioned)
    optimizer = _optimizer(subject)
    optimizer = optimizer if optimizer in PRECONDITIONED else "adam"
    edge = float(stability_threshold(1.0, optimizer, _momentum(subject)))
    meaning = "no direction curves upwards"
    if value > 0:
        meaning = f"{optimizer} is stable below a learning rate of {edge / value:.3g}"
    details: dict[str, float | str] = {"threshold times learning rate": edge}
    if subject.learning_rate is not None:
        details["threshold"] = edge / subject.learning_rate
    return Reading(
        value=value,
        low=value,
        high=value + bound,
        certainty="certified",
        method=_method(products, subject),
        meaning=meaning,
        products=products,
        details=details,
    )


def _critical_rate(subject: Subject) -> Reading:
    (value, bound), products = _gauss_newton(subject)
    rate = 2 / value
    details: dict[str, float | str] = {}
    if subject.learning_rate is not None:
        details["learning rate over critical"] = subject.learning_rate / rate
    squared = subject.loss.kind == "squared"
    matrix = "tangent kernel" if squared else "Gauss–Newton matrix"
    return Reading(
        value=rate,
        low=2 / (value + bound),
        high=rate,
        certainty="certified",
        method=f"λ_max of the {matrix}; {_method(products, subject, 'Gauss–Newton')}",
        meaning=f"the linearised network diverges above a learning rate of {rate:.3g}",
        products=products,
        details=details,
    )


def _batch_critical_rate(subject: Subject) -> Reading:
    size = subject.batch_size
    assert size is not None  # it is needed
    if size > subject.num_inputs:
        raise Skipped(f"batch_size is {size}, more than the {subject.num_inputs} inputs given")
    name, (fewest, most) = "batch_critical_rate", _BATCHES
    fit = subject.affordable(name, _BATCH_SHARE, _BATCH_PASSES, size, most * _BATCH_STEPS)
    count = min(most, fit // _BATCH_STEPS)
    if count < fewest:
        seconds = _BATCH_SHARE * subject.seconds * fewest * _BATCH_STEPS / fit
        raise Skipped(f'it would take about {seconds:.0f} s; force="{name}" computes it')
    tops = _batch_curvatures(subject, size, count)
    if not tops.max() > 0:
        raise Skipped(f"the {subject.loss.kind} loss does not curve in the outputs here")
    rates = np.where(tops > 0, 2 / np.where(tops > 0, tops, 1.0), math.inf)
    middle, low, high = sign_interval(tops)  # of λ: a rate may be infinite
    details: dict[str, float | str] = {"5th percentile": 2 / float(np.quantile(tops, 0.95))}
    meaning = f"half of all batches spike above a learning rate of {2 / middle:.3g}"
    curves = {"critical learning rates of batches": rates}
    if (eta := subject.learning_rate) is not None:
        share = clopper_pearson(int((eta > rates).sum()), count)
        details |= {
            "share of batches above": share.estimate,
            "share, low": share.low,
            "share, high": share.high,
        }
        meaning = f"the learning rate is supercritical for {100 * share.estimate:.0f} % of batches"
        curves["learning rate"] = np.array([eta])
    return Reading(
        value=_rate(middle),
        low=_rate(high),
        high=_rate(low),
        certainty="95 %",
        method=f"{count} random batches of {size:,}, {_BATCH_STEPS} Gauss–Newton products each",
        meaning=meaning,
        products=count * _BATCH_STEPS,
        details=details,
        curves=curves,
    )


def _rate(curvature: float) -> float:
    return 2 / float(curvature) if curvature > 0 else math.inf


def _batch_curvatures(subject: Subject, size: int, count: int) -> np.ndarray:
    """λ_max of the Gauss–Newton matrix of random batches."""
    draw, start = jax.random.split(subject.key_for("batches"))
    order = [
        jax.random.choice(key, subject.num_inputs, (size,), replace=False)
        for key in jax.random.split(draw, count)
    ]
    chosen = np.stack(list(map(np.asarray, order)))
    x = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], subject.x)
    apply, loss, params = subject.apply, subject.loss, subject.params
    keys = jax.random.split(start, count)
    steps = min(_BATCH_STEPS, subject.num_params)
    tops = programs.batch_curvatures(apply, loss, params, x, subject.y[chosen], keys, steps)
    return np.asarray(tops, float)


def _draw_batches(reading: Reading, axes: Axes) -> None:
    rates = reading.curves["critical learning rates of batches"]
    axes.hist(rates[np.isfinite(rates)], bins=12)
    for eta in reading.curves.get("learning rate", ()):
        axes.axvline(eta, color="C3", label="learning rate")
        axes.legend()
    axes.set_xlabel("critical learning rate of a batch")
    axes.set_ylabel("batches")


def _gradient_noise(subject: Subject) -> Reading:
    inputs = subject.effort("gradient_noise", share=0.06, passes=2.0, products=1).inputs
    x, y = subject.sample(inputs)
    if inputs < _FEWEST_GRADIENTS:
        raise Skipped(f"it needs at least {_FEWEST_GRADIENTS} inputs, there are {inputs}")
    found = gradient_noise_scale(subject.apply, subject.params, x, y, subject.loss)
    value = float(found.value)
    if not math.isfinite(value):
        meaning = "the gradient cannot be told from 0: noise rules at every batch size"
    elif subject.batch_size is not None:
        word = "outweighs" if subject.batch_size < value else "is smaller than"
        meaning = f"noise {word} the gradient in batches of {subject.batch_size:,}"
    else:
        meaning = f"noise outweighs the gradient in batches below {value:,.0f}; larger ones waste"
    return Reading(
        value=value,
        low=float(found.low),
        high=float(found.high),
        certainty="95 %",
        method=f"gradients of {inputs:,} inputs, one by one",
        meaning=meaning,
        details={
            "variance tr Σ": float(found.variance),
            "squared gradient ‖G‖²": float(found.squared_gradient),
        },
    )


def _gauss_newton(subject: Subject) -> Any:
    found = subject.shared(curved.gauss_newton)
    if not found[0].value > 0:
        raise Skipped(f"the {subject.loss.kind} loss does not curve in the outputs here")
    return found


def _optimizer(subject: Subject) -> str:
    return (subject.optimizer or "sgd").lower()


def _momentum(subject: Subject) -> float:
    return 0.9 if subject.momentum is None else subject.momentum


def _method(products: int, subject: Subject, kind: str = "Hessian") -> str:
    inputs = subject.curved.inputs
    of = "" if inputs == subject.num_inputs else f" of {subject.num_inputs:,}"
    return f"Lanczos, {products} {kind} products on {inputs:,}{of} inputs"


MEASURES = (
    Measure(
        name="sharpness",
        group="learning rate",
        title="sharpness λ_max(∇²L)",
        read=_sharpness,
        source=Source("arora", "sharpness", "§2.6"),
        experiment="dynamics/edge_of_stability",
    ),
    Measure(
        name="stability",
        group="learning rate",
        title="sharpness over its threshold",
        read=_stability,
        source=Source("arora", "edge-of-stability", "Fig. 2.4"),
        experiment="dynamics/quadratic/learning_rate_phases",
        needs=("learning_rate",),
    ),
    Measure(
        name="preconditioned_sharpness",
        group="learning rate",
        title="preconditioned sharpness λ_max(P⁻¹∇²L)",
        read=_preconditioned,
        source=Source("arora", "sharpness", "§2.6"),
        experiment="dynamics/edge_of_stability",
        needs=("optimizer_state",),
    ),
    Measure(
        name="critical_rate",
        group="learning rate",
        title="critical learning rate 2/(c λ_max(K))",
        read=_critical_rate,
        source=Source("zhu", "eta-crit", "§4.2"),
        experiment="dynamics/spikes/critical_learning_rate",
    ),
    Measure(
        name="batch_critical_rate",
        group="learning rate",
        title="critical learning rate of batches, median",
        read=_batch_critical_rate,
        source=Source("zhu", "sgd-match-rate", "§4.3"),
        experiment="dynamics/spikes/spike_match",
        needs=("batch_size",),
        draw=_draw_batches,
    ),
    Measure(
        name="gradient_noise",
        group="learning rate",
        title="gradient-noise scale tr Σ/‖G‖²",
        read=_gradient_noise,
        source=Source("arora", "gradient-noise", "§12.1"),
        experiment="dynamics/interpolating_sgd",
    ),
)
