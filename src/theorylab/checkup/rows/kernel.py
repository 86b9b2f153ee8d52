"""The tangent kernel: what is learned fast, how well labels fit it, and whether it stays.

    K(x, x′) = (1/k) Σ_a ⟨∂f_a(x)/∂w, ∂f_a(x′)/∂w⟩ = Σ_j λ_j v_j v_jᵀ      on a sample of m inputs

Under gradient flow of the linearised network residuals decay along v_j as exp(−t/t_j),

    t_j = 1/(η c λ_j n/m),     c = s ℓ″     s the loss's normalisation at n inputs

with ℓ″ = 2 for the squared loss. For the others it is that of outputs near 0, so times are those of
early training: 1/k for cross-entropy, ¼ for the logistic loss, 1 for the exponential one.

The labels Y (n, k) are centred over the sample where they are classes, since a shift of all outputs
tells no classes apart; of the squared loss with other targets they are taken as they are.

Source: arora · ntk-dynamics · (9.5)–(9.6); arora · ntk-eigen-convergence · §9.3; golikov · ntk-emp
· 2.1; golikov · label-aware · 2.8.2; zhu · linearity-gap · Eq. 2.9–2.10.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from theorylab.claims import Source
from theorylab.features import feature_movement
from theorylab.kernels import (
    alignment,
    label_directions,
    relative_frobenius,
    shuffled_alignments,
    target_alignment,
)
from theorylab.numerics import norm_ratio

from ..measure import Measure, Reading, Skipped
from ..subject import Subject

SHUFFLES = 1_000  # of the labels, for the alignment that chance gives
LAZY, RICH = 0.1, 0.5  # relative movement below which training is lazy, above which it is rich
_CURVATURES = {"squared": 2.0, "logistic": 0.25, "exponential": 1.0}


def _exact(value: float, method: str, meaning: str, **more: Any) -> Reading:
    return Reading(value, value, value, "exact", method, meaning, **more)


def _on(subject: Subject) -> str:
    """On which inputs kernels are computed."""
    size, n = subject.kernel_inputs, subject.num_inputs
    return f"all {n:,} inputs" if size >= n else f"a sample of {size:,} of {n:,} inputs"


def _matrix(subject: Subject) -> np.ndarray:
    """The kernel, where it is finite and not zero."""
    kernel = np.asarray(subject.kernel, np.float64)
    if not np.isfinite(kernel).all():
        raise Skipped("the tangent kernel is not finite: derivatives of the network overflow")
    if not kernel.any():
        raise Skipped("the tangent kernel is zero: no parameter moves the outputs")
    return (kernel + kernel.T) / 2


def _rounding(subject: Subject, kernel: np.ndarray) -> float:
    """What rounding may do to an eigenvalue: entries have some digits of √(K_xx K_x′x′)."""
    return 4 * float(jnp.finfo(subject.kernel.dtype).eps) * float(np.trace(kernel))


def _spectrum(subject: Subject) -> Reading:
    kernel = _matrix(subject)
    values = np.linalg.eigvalsh(kernel)[::-1]
    top, trace, m = float(values[0]), float(np.trace(kernel)), len(kernel)
    rank = trace**2 / float((kernel**2).sum())
    return _exact(
        top,
        f"all eigenvalues of the kernel on {_on(subject)}; λ_max/m estimates the top eigenvalue of"
        " the operator on the law of inputs",
        f"the top direction holds {top / trace:.0%} of the kernel's trace; the kernel acts like"
        f" {rank:.3g} equal directions",
        details={"λ_max/m": top / m, "trace": trace, "effective rank": rank},
        curves={"eigenvalues": values},
    )


def _draw_spectrum(reading: Reading, axes: Any) -> None:
    values = reading.curves["eigenvalues"]
    kept = values > values[0] * 1e-12
    axes.loglog(np.arange(1, len(values) + 1)[kept], values[kept], ".-")
    axes.set_xlabel("rank j")
    axes.set_ylabel("eigenvalue λ_j of K")


def _condition(subject: Subject) -> Reading:
    kernel = _matrix(subject)
    values = np.linalg.eigvalsh(kernel)
    rounding = _rounding(subject, kernel)
    least, top = float(values[0]), float(values[-1])
    method = (
        f"all eigenvalues of the kernel on {_on(subject)}; rounding may move one by {rounding:.1g}"
    )
    details = {"λ_max": top, "λ_min": least, "rounding": rounding}
    if least <= rounding:
        bound = top / (least + rounding) if least > 0 else top / rounding
        words = f"at least {bound:.2g} times"
        return Reading(bound, bound, np.inf, "certified", method, _slower(words), details=details)
    value, words = top / least, f"{top / least:.3g} times"
    low, high = (top - rounding) / (least + rounding), (top + rounding) / (least - rounding)
    return Reading(value, low, high, "certified", method, _slower(words), details=details)


def _slower(words: str) -> str:
    return f"the slowest direction of these inputs is learned {words} slower than the fastest"


def _labels(subject: Subject, size: int) -> tuple[np.ndarray, str]:
    """Targets on the sample, centred if they are classes; and which they are, in words."""
    y = np.asarray(subject.sample(size)[1], np.float64)
    one_hot = y.shape[1] > 1 and np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all()
    classes = subject.loss.kind != "squared" or one_hot
    labels = y - y.mean(axis=0) if classes else y
    if not (np.abs(labels) > 1e-12).any():
        raise Skipped("all targets of the sample are equal")
    return labels, "labels of classes, centred" if classes else "targets, not centred"


def _label_alignment(subject: Subject) -> Reading:
    kernel = _matrix(subject)
    labels, words = _labels(subject, len(kernel))
    value = float(target_alignment(jnp.asarray(kernel), jnp.asarray(labels)))
    key = subject.key_for("label_alignment")
    chance = shuffled_alignments(kernel, labels, key, SHUFFLES)
    low, high = np.quantile(chance, (0.025, 0.975))
    centred = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
    beyond = (1 + int((chance >= value).sum())) / (1 + SHUFFLES)
    if value > high:
        said = "labels lie in directions that the kernel learns early: better than shuffled ones"
    elif value < low:
        said = "labels lie in directions that the kernel learns late: worse than shuffled ones"
    else:
        said = "the kernel learns these labels no faster than shuffled ones"
    return _exact(
        value,
        f"tr(YᵀKY)/(‖K‖‖YYᵀ‖) on {_on(subject)}; Y: {words}; {SHUFFLES:,} shuffles of Y",
        f"{said} ({value:.3g} beside {low:.2g} to {high:.2g})",
        details={
            "shuffled: mean": float(chance.mean()),
            "shuffled: 2.5 %": float(low),
            "shuffled: 97.5 %": float(high),
            "p-value": beyond,
            "of the centred kernel": float(
                target_alignment(jnp.asarray(centred), jnp.asarray(labels))
            ),
        },
    )


def _curvature(subject: Subject) -> float:
    """c, at outputs near 0, for the whole of the inputs."""
    kind, n, k = subject.loss.kind, subject.num_inputs, subject.num_outputs
    if kind == "cross_entropy":
        return subject.loss.scale(n, k) / k
    if kind not in _CURVATURES:
        raise Skipped(f"the {kind} loss has no second derivative, so no time of learning")
    return subject.loss.scale(n, k) * _CURVATURES[kind]


def _learning_time(subject: Subject) -> Reading:
    kernel = _matrix(subject)
    labels, words = _labels(subject, len(kernel))
    rate, unit = _rate(subject)
    floor = _rounding(subject, kernel)
    whole = _curvature(subject) * subject.num_inputs / len(kernel)
    found = label_directions(kernel, labels, rate * whole, floor)
    half, most = found.time_for(0.5), found.time_for(0.9)
    early = "" if subject.loss.kind == "squared" else "; early in training, while outputs are small"
    rounded = half >= 1 / (rate * whole * floor)
    bound = "at least " if rounded else ""
    return Reading(
        value=half,
        low=half,
        high=np.inf if rounded else half,
        certainty="certified" if rounded else "exact",
        method=f"1/(ηcλ) on {_on(subject)}; {words}{early}",
        meaning=f"a linearised network learns half of the labels in about {bound}{half:.3g} {unit},"
        f" and 90 % in {most:.3g}",
        details={
            f"half, {unit}": half,
            f"90 %, {unit}": most,
            "directions for half": float(found.directions_for(0.5)),
            "directions for 90 %": float(found.directions_for(0.9)),
        },
        curves={"times": np.asarray(found.times), "held": np.asarray(found.held)},
    )


def _rate(subject: Subject) -> tuple[float, str]:
    """The learning rate of gradient flow, and the unit of its times."""
    if subject.learning_rate is None:
        return 1.0, "1/η"
    momentum = 0.9 if subject.momentum is None else subject.momentum
    if subject.optimizer in ("momentum", "nesterov"):
        return subject.learning_rate / (1 - momentum), "steps"
    return subject.learning_rate, "steps" if subject.optimizer in (None, "sgd") else "steps of SGD"


def _draw_times(reading: Reading, axes: Any) -> None:
    axes.semilogx(reading.curves["times"], reading.curves["held"])
    axes.set_xlabel("time 1/(ηcλ)")
    axes.set_ylabel("share of the labels learned")
    axes.set_ylim(0, 1.02)


def _drift(subject: Subject) -> Reading:
    kernel = _matrix(subject)
    start = np.asarray(subject.initial_kernel, np.float64)
    if not np.isfinite(start).all() or not start.any():
        raise Skipped("the tangent kernel at initial_params is zero or not finite")
    before, after = jnp.asarray((start + start.T) / 2), jnp.asarray(kernel)
    value = float(relative_frobenius(after, before))
    turned = 1 - float(alignment(after, before))
    return _exact(
        value,
        f"‖K − K₀‖/‖K₀‖, Frobenius norms, on {_on(subject)}",
        _regime(value, "the tangent kernel"),
        details={
            "1 − alignment": turned,
            "trace, times": float(np.trace(kernel) / np.trace(start)),
            "after the best scale": float(np.sqrt(max(1 - (1 - turned) ** 2, 0.0))),
        },
    )


def _regime(value: float, what: str) -> str:
    if value < LAZY:
        return f"{what} moved little: training was lazy, near its linear model"
    if value > RICH:
        return (
            f"{what} moved by its own size or more: features were learned"
            if value >= 1
            else (f"{what} moved by {value:.0%} of its size: features were learned")
        )
    return f"{what} moved by {value:.0%}: between lazy and rich training"


def _feature_drift(subject: Subject) -> Reading:
    size = subject.effort("feature_drift", 0.05, passes=2.0, products=1).inputs
    x, _ = subject.sample(size)
    found = feature_movement(subject.apply, subject.params, subject.initial_params, x)
    moved = {name: each for name, each in found.items() if bool(each.size.any())}
    if not moved:
        raise Skipped("the network has no hidden layer before a product with weights")
    name, last = list(moved.items())[-1]
    value, low, high = norm_ratio(np.asarray(last.change), np.asarray(last.size))
    return Reading(
        value,
        low,
        high,
        "95 %",
        f"‖h − h₀‖/‖h₀‖ of what comes into each layer, on {size:,} inputs; value: {name}",
        _regime(value, "the features before the last layer"),
        details={layer: float(each.relative) for layer, each in moved.items()},
    )


def _linear_error(subject: Subject) -> Reading:
    return _taylor_error(subject, "linear")


def _quadratic_error(subject: Subject) -> Reading:
    return _taylor_error(subject, "quadratic")


def _taylor_error(subject: Subject, model: str) -> Reading:
    found = subject.taylor
    squares, moved = np.asarray(getattr(found, model)), np.asarray(found.moved)
    if not moved.any():
        raise Skipped("the outputs are those of initial_params: nothing was learned yet")
    if not np.isfinite(moved).all():
        raise Skipped("the outputs at initial_params are not finite")
    value, low, high = norm_ratio(squares[:, -1], moved)
    if value < LAZY:
        said = f"a {model} model around initialisation describes what was learned, to {value:.1%}"
    elif value < 1:
        said = f"a {model} model around initialisation misses {value:.0%} of what was learned"
    else:
        said = f"a {model} model around initialisation is farther off than no training at all"
    return Reading(
        value,
        low,
        high,
        "95 %",
        f"on {len(moved):,} inputs, along the segment from initialisation",
        said,
        details={"half of the way": float(getattr(found, f"{model}_error")[len(squares[0]) // 2])},
        curves={
            "position": np.asarray(found.positions),
            "linear": np.asarray(found.linear_error),
            "quadratic": np.asarray(found.quadratic_error),
        },
    )


def _draw_errors(reading: Reading, axes: Any) -> None:
    for name in ("linear", "quadratic"):
        axes.plot(reading.curves["position"], reading.curves[name], ".-", label=name)
    axes.set_xlabel("position s on the way from initialisation")
    axes.set_ylabel("error over ‖f(w) − f(w₀)‖")
    axes.legend()


MEASURES = (
    Measure(
        "kernel_spectrum",
        "kernel",
        "tangent kernel: λ_max(K)",
        _spectrum,
        Source("arora", "ntk-dynamics", "(9.5)–(9.6)"),
        "kernels/prediction/spectral_bias",
        draw=_draw_spectrum,
    ),
    Measure(
        "kernel_condition",
        "kernel",
        "tangent kernel: condition λ_max/λ_min",
        _condition,
        Source("golikov", "kernel-flow", "1.8–1.11"),
        "kernels/prediction/trainability",
    ),
    Measure(
        "label_alignment",
        "kernel",
        "alignment of the kernel with the labels",
        _label_alignment,
        Source("golikov", "label-aware", "2.8.2"),
        "kernels/prediction/eigen_convergence",
    ),
    Measure(
        "learning_time",
        "kernel",
        "time to learn half of the labels",
        _learning_time,
        Source("arora", "ntk-eigen-convergence", "§9.3, Fig 9.1"),
        "kernels/prediction/eigen_convergence",
        draw=_draw_times,
    ),
    Measure(
        "kernel_drift",
        "kernel",
        "movement of the kernel ‖K − K₀‖/‖K₀‖",
        _drift,
        Source("zhu", "ntk-drift", "Fig. 2.2"),
        "kernels/finite/drift",
        needs=("initial_params",),
    ),
    Measure(
        "feature_drift",
        "kernel",
        "movement of hidden features ‖h − h₀‖/‖h₀‖",
        _feature_drift,
        Source("golikov", "abc-dichotomy", "Def. 3.4.5, Thm 3.4.6"),
        "kernels/abc_regimes",
        needs=("initial_params",),
    ),
    Measure(
        "linear_error",
        "kernel",
        "error of the linear model around w₀",
        _linear_error,
        Source("zhu", "linearity-gap", "Eq. 2.9–2.10, Cor. 2.3.7, Eq. 3.4"),
        "curvature/linearity_gap",
        needs=("initial_params",),
        draw=_draw_errors,
    ),
    Measure(
        "quadratic_error",
        "kernel",
        "error of the quadratic model around w₀",
        _quadratic_error,
        Source("zhu", "taylor-models", "Eq. 3.1–3.2"),
        "dynamics/quadratic/generalization",
        needs=("initial_params",),
        draw=_draw_errors,
    ),
)
