"""How the network is scaled: sizes at every layer, at one width and as the width grows.

`signal_scale` looks at one width for a layer whose factor 1/√fan-in is missing; `width_scaling`
trains a few steps at several widths for a layer that blows up, or stands still, as the width grows.
What is looked at, and from which size on a layer is named, is told in `theorylab.features.signals`
and `theorylab.features.coordinate_check`.

Source: golikov · mup-step · Eqs 1.20–1.27; golikov · abc-dichotomy · Def. 3.4.5, Thm 3.4.6.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from theorylab.claims import Source
from theorylab.features import coordinate_check, layers_of, misscaled, signal_sizes
from theorylab.features.coordinate_check import OUTPUTS
from theorylab.numerics import PowerLaw
from theorylab.typing import Apply, Params

from ..measure import Measure, Reading, Skipped
from ..subject import Subject

FEW, NUM_WIDTHS, NARROWEST, WIDEST = 3, 4, 64, 4096  # widths that are tried
INPUTS = 50  # on which steps are taken
STEPS = 3
GROWS = 0.25  # exponents beyond it are nearer to ½ than to 0


def _signal_scale(subject: Subject) -> Reading:
    size = subject.effort("signal_scale", 0.05, passes=1.5, products=1, most=200).inputs
    x, y = subject.sample(size)
    layers = layers_of(subject.apply, subject.params, x)
    if not layers:
        raise Skipped("the network has no product of inputs with weights")
    sizes = signal_sizes(subject.apply, subject.params, x, y, subject.loss)
    wrong = misscaled(layers, sizes)
    large = {name: factor for name, factor in wrong.items() if factor > 1}
    scales = {layer.name: float(sizes[layer.name].weight_scale) for layer in layers}
    if not all(map(math.isfinite, scales.values())):
        raise Skipped("weights are not finite")
    hidden = {layer.name: scales[layer.name] for layer in layers if layer.is_hidden} or scales
    value = max((large or hidden).values())
    details: dict[str, float | str] = {
        "flagged": ", ".join(large),
        "vanishing": ", ".join(name for name in wrong if name not in large),
    }
    for name, each in sizes.items():
        shown = (f"{float(number):.3g}" for number in each)
        details[name] = "weights {}, in {}, out {}, back {}".format(*shown)
    curves = np.array([[float(number) for number in sizes[layer.name]] for layer in layers])
    return Reading(
        value,
        value,
        value,
        "exact",
        f"rms(W)√fan-in of {len(layers)} layers, multipliers included; signals on {size:,} inputs",
        _said(wrong, {layer.name: layer.fan_in for layer in layers}),
        details=details,
        curves=dict(zip(("weights", "in", "out", "back"), curves.T, strict=True)),
    )


def _said(wrong: dict[str, float], fan_in: dict[str, int]) -> str:
    if not wrong:
        return "every layer keeps its signal at about its size: no multiplier is missing"
    name = max(wrong, key=lambda name: abs(math.log(max(wrong[name], 1e-30))))
    factor, root = wrong[name], math.sqrt(fan_in[name])
    if factor > 1:
        near = ", about √fan-in," if root / 3 < factor < 3 * root else ""
        return (
            f"layer {name} multiplies its signal by {factor:.3g}{near} where about 1 is usual: a"
            " factor such as 1/√fan-in is missing"
        )
    return (
        f"layer {name} has weights {1 / factor:.3g} times smaller than the others: signals vanish"
    )


def _draw_signals(reading: Reading, axes: Any) -> None:
    for name, label in (("weights", "weights σ"), ("in", "rms in"), ("out", "rms out")):
        axes.semilogy(reading.curves[name], ".-", label=label)
    axes.set_xlabel("layer")
    axes.legend()


def _width_scaling(subject: Subject) -> Reading:
    assert subject.by_width is not None
    widths, kept = _networks(subject.by_width)
    x, y = subject.sample(min(INPUTS, subject.num_inputs))
    named = subject.optimizer or "sgd"
    known = ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop")
    optimizer: Any = named if named in known else "sgd"
    found = coordinate_check(
        kept.__getitem__, x, y, subject.loss, subject.learning_rate, widths, STEPS, optimizer
    )
    start = {layer: found.initial(layer) for layer in found.layers}
    growth = {layer: found.growth(layer) for layer in found.layers}
    laws = [(law, layer, "at initialisation") for layer, law in start.items()]
    laws += [(law, layer, "in a step") for layer, law in growth.items()]
    finite = [each for each in laws if math.isfinite(each[0].exponent)]
    if not finite:
        raise Skipped("the network diverges, or does not move, at every width")
    worst, layer, when = max(finite, key=lambda each: each[0].exponent)
    flagged = worst.exponent > GROWS and worst.low > 0
    details: dict[str, float | str] = {"flagged": layer if flagged else ""}
    for name in found.layers:
        details[name] = f"start {_power(start[name])}, change {_power(growth[name])}"
    curves = {"widths": np.asarray(found.widths)}
    for name, sizes, changes in zip(found.layers, found.start, found.change, strict=True):
        curves[f"start {name}"] = np.asarray(sizes)
        curves[f"change {name}"] = np.asarray(changes[0])
    rate = (
        "one learning rate" if subject.learning_rate is None else f"η = {subject.learning_rate:g}"
    )
    return Reading(
        worst.exponent,
        worst.low,
        worst.high,
        "95 %",
        f"{STEPS} steps of {optimizer} with {rate} at widths {', '.join(map(str, widths))} on"
        f" {len(y)} inputs; least squares in logarithms, interval of this layer by itself",
        _growth_said(worst, layer, when, flagged, growth),
        details=details,
        curves=curves,
    )


def _networks(
    by_width: Callable[[int], tuple[Apply, Params]],
) -> tuple[list[int], dict[int, tuple[Apply, Params]]]:
    """Networks at a few widths that it takes, each twice the one before, from 64 on."""
    found: dict[int, tuple[Apply, Params]] = {}
    width, why = NARROWEST, ""
    while width <= WIDEST and len(found) < NUM_WIDTHS:
        try:
            found[width] = by_width(width)
        except Exception as error:  # whatever a function of the user's may raise
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
            if found:
                break
        width *= 2
    if len(found) < FEW:
        raise Skipped(f"by_width must take at least {FEW} widths, each twice the last ({why})")
    return list(found), found


def _power(law: PowerLaw) -> str:
    return f"n^{law.exponent:.2f}" if math.isfinite(law.exponent) else "none"


def _growth_said(
    worst: PowerLaw, layer: str, when: str, flagged: bool, growth: dict[str, PowerLaw]
) -> str:
    if flagged:
        power = f"n^{worst.exponent:.2g}"
        remedy = "multiplier" if when == "at initialisation" else "multiplier or learning rate"
        return f"{layer} grows as {power} {when}: its {remedy} should shrink by as much"
    hidden = [law.exponent for name, law in growth.items() if name != OUTPUTS]
    slowest = min((each for each in hidden if math.isfinite(each)), default=math.nan)
    if slowest < -GROWS:
        return (
            f"nothing grows with the width n, and features move as n^{slowest:.2g}: wider networks"
            " come closer to the kernel regime"
        )
    return "features and outputs move alike at every width: learning rates carry over to wider ones"


def _draw_widths(reading: Reading, axes: Any) -> None:
    for name, sizes in reading.curves.items():
        if name.startswith("change "):
            axes.loglog(reading.curves["widths"], sizes, ".-", label=name.removeprefix("change "))
    axes.set_xlabel("width n")
    axes.set_ylabel("change in a step, rms")
    axes.legend(fontsize="x-small")


MEASURES = (
    Measure(
        "width_scaling",
        "width",
        "growth of layers with the width",
        _width_scaling,
        Source("golikov", "abc-dichotomy", "Def. 3.4.5, Thm 3.4.6"),
        "kernels/abc_regimes",
        needs=("by_width",),
        draw=_draw_widths,
    ),
    Measure(
        "signal_scale",
        "width",
        "largest scale of a layer's weights",
        _signal_scale,
        Source("golikov", "mup-step", "Eqs 1.20–1.27"),
        "kernels/finite/parametrization_scaling",
        draw=_draw_signals,
    ),
)
