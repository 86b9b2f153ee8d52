"""The spectrum of the Hessian: outliers and bulk, negative curvature, trace, rank, Gauss–Newton.

    ∇²L = Jᵀ∇²ℓ J + Σ ∂ℓ/∂f ∇²f        Gauss–Newton, and what the residuals add

A few large eigenvalues, about as many as there are classes, stand out of a bulk near 0.

Source: zhu · hessian-norm · §2.3; Sagun et al. (2017), arXiv:1706.04454; Papyan (2019),
arXiv:1901.08244; Ghorbani, Krishnan & Xiao (2019), arXiv:1901.10159.
"""

import math

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from theorylab.claims import Source
from theorylab.numerics.density import SpectralDensity
from theorylab.numerics.sketch import SpectralSketch

from .. import curved
from ..measure import Measure, Reading, Skipped
from ..subject import Subject

_OUT = 2.0  # an outlier is beyond so many times the bulk's edge
_ZERO = 0.01  # of the largest magnitude: an eigenvalue below it is nearly zero


def _spectrum(subject: Subject) -> Reading:
    sketch = subject.shared(curved.spectrum)
    values, bounds = sketch.top(sketch.num_kept)
    edge = _edge(sketch, values)
    count = int((values > _OUT * edge).sum())
    highest = int((values + bounds > _OUT * edge).sum())
    k = subject.num_outputs
    expected = f"theory expects about one for each of {k} outputs" if k > 1 else "one output"
    details: dict[str, float | str] = {"edge of the bulk": edge}
    details |= {f"λ{i + 1}": float(value) for i, value in enumerate(values[:12])}
    return Reading(
        value=float(count),
        low=float(count),
        high=float(highest),
        certainty="certified",
        method=_method(sketch, subject),
        meaning=f"{count} eigenvalues stand out beyond twice the bulk's edge; {expected}",
        products=sketch.products,
        details=details,
        curves={"eigenvalues": values, "bounds": bounds, "edge": np.array([edge])},
    )


def _edge(sketch: SpectralSketch, values: np.ndarray) -> float:
    """The largest eigenvalue seen outside of the kept ones; of a small matrix, the median one."""
    seen = sketch.rest_edges[1]
    return float(np.median(values)) if math.isnan(seen) else max(seen, 0.0)


def _draw_spectrum(reading: Reading, axes: Axes) -> None:
    values, bounds = reading.curves["eigenvalues"], reading.curves["bounds"]
    ranks = np.arange(1, len(values) + 1)
    upwards = np.stack([np.zeros_like(bounds), bounds])
    axes.errorbar(ranks, values, upwards, fmt="o", markersize=4, capsize=2)
    axes.axhline(_OUT * reading.curves["edge"][0], color="0.6", label="twice the bulk's edge")
    axes.legend()
    axes.set_xlabel("rank")
    axes.set_ylabel("Hessian eigenvalue")


def _lowest(subject: Subject) -> Reading:
    sketch = subject.shared(curved.spectrum)
    value, bound = sketch.smallest
    size = sketch.largest.value
    small = abs(value) <= _ZERO * abs(size) and bound <= _ZERO * abs(size)
    if small:
        meaning = "no direction curves down by more than 1 % of the sharpness: no saddle is near"
    elif value < 0:
        meaning = "the loss curves down along some direction: this is not a minimum"
    else:
        meaning = "no direction curves down that Lanczos has seen"
    return Reading(
        value=value,
        low=value - bound,
        high=value,
        certainty="certified",
        method=_method(sketch, subject),
        meaning=meaning,
        products=sketch.products,
        details={"over sharpness": value / size if size else math.nan},
    )


def _trace(subject: Subject) -> Reading:
    sketch = subject.shared(curved.spectrum)
    value, low, high = sketch.trace
    top = sketch.largest.value
    share = f"; {100 * top / value:.0f} % of it is the sharpness" if value > 0 and top > 0 else ""
    return Reading(
        value=value,
        low=low,
        high=high,
        certainty="95 %",
        method=_method(sketch, subject),
        meaning=f"noise of variance σ² in all parameters costs {value / 2:.3g} σ²{share}",
        products=sketch.products,
        details={"mean eigenvalue": value / sketch.size},
    )


def _rank(subject: Subject) -> Reading:
    sketch = subject.shared(curved.spectrum)
    value, low, high = sketch.effective_rank
    if not math.isfinite(value):
        raise Skipped("the Hessian is 0 here")
    return Reading(
        value=value,
        low=low,
        high=high,
        certainty="95 %",
        method=_method(sketch, subject),
        meaning=f"curvature lies in about {value:,.0f} of {sketch.size:,} directions",
        products=sketch.products,
        details={"Frobenius norm ‖∇²L‖": math.sqrt(max(sketch.square.estimate, 0.0))},
    )


def _density(subject: Subject) -> Reading:
    sketch = subject.shared(curved.spectrum)
    size = max(abs(sketch.largest.value), abs(sketch.first_smallest.value))
    if not size > 0:
        raise Skipped("the Hessian is 0 here")
    value, low, high = sketch.share_within(_ZERO * size)
    density = sketch.density
    return Reading(
        value=value,
        low=low,
        high=high,
        certainty="95 %",
        method=_method(sketch, subject),
        meaning=f"{100 * value:.1f} % of all directions are flat: below 1 % of the largest",
        products=sketch.products,
        details={"flat means below": _ZERO * size},
        curves={"nodes": np.asarray(density.nodes), "weights": np.asarray(density.weights)},
    )


def _draw_density(reading: Reading, axes: Axes) -> None:
    nodes, weights = (jnp.asarray(reading.curves[name]) for name in ("nodes", "weights"))
    SpectralDensity(nodes, weights).draw(axes)


def _gauss_newton(subject: Subject) -> Reading:
    (value, bound), products = subject.shared(curved.gauss_newton)
    sketch = subject.shared(curved.spectrum)
    top, above = sketch.largest
    if not top > 0:
        raise Skipped("the Hessian has no positive eigenvalue here")
    ratio = value / top
    meaning = "the sharpness is that of the linearised network"
    if not 0.9 < ratio < 1.1:
        meaning = "residuals and the network's own curvature change the sharpness"
    return Reading(
        value=ratio,
        low=value / (top + above),
        high=(value + bound) / top,
        certainty="certified",
        method=f"{products} Gauss–Newton products on {subject.curved.inputs:,} inputs",
        meaning=meaning,
        products=products,
        details={"λ_max of Gauss–Newton": value, "λ_max of the Hessian": top},
    )


def _method(sketch: SpectralSketch, subject: Subject) -> str:
    inputs = subject.curved.inputs
    of = "" if inputs == subject.num_inputs else f" of {subject.num_inputs:,}"
    return f"Lanczos and probes, {sketch.products} Hessian products on {inputs:,}{of} inputs"


_HESSIAN = Source("zhu", "hessian-norm", "§2.3")

MEASURES = (
    Measure(
        name="hessian_spectrum",
        group="curvature",
        title="Hessian eigenvalues beyond the bulk",
        read=_spectrum,
        source=_HESSIAN,
        experiment="curvature/spectrum",
        draw=_draw_spectrum,
    ),
    Measure(
        name="lowest_eigenvalue",
        group="curvature",
        title="lowest Hessian eigenvalue λ_min(∇²L)",
        read=_lowest,
        source=_HESSIAN,
        experiment="curvature/spectrum",
    ),
    Measure(
        name="hessian_trace",
        group="curvature",
        title="trace tr ∇²L",
        read=_trace,
        source=_HESSIAN,
        experiment="curvature/trace",
    ),
    Measure(
        name="effective_rank",
        group="curvature",
        title="effective rank (tr ∇²L)²/tr (∇²L)²",
        read=_rank,
        source=_HESSIAN,
        experiment="curvature/spectrum",
    ),
    Measure(
        name="hessian_density",
        group="curvature",
        title="share of flat directions",
        read=_density,
        source=_HESSIAN,
        experiment="curvature/spectrum",
        draw=_draw_density,
    ),
    Measure(
        name="gauss_newton",
        group="curvature",
        title="Gauss–Newton over Hessian, λ_max",
        read=_gauss_newton,
        source=Source("zhu", "eta-crit", "§4.2"),
        experiment="dynamics/spikes/critical_learning_rate",
    ),
)
