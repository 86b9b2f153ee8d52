"""Curvature of the loss at the parameters: sharpness."""

from typing import cast

from jaxtyping import Array

from theorylab.curvature import sharpness

from ..measure import Measure, Reading
from ..subject import Subject


def _sharpness(subject: Subject) -> Reading:
    found = sharpness(subject.objective, subject.params, subject.key_for("sharpness"))
    value, bound = float(found.value), float(cast(Array, found.bound))
    return Reading(
        value=value,
        low=value,
        high=value + bound,
        certainty="certified",
        method=f"Lanczos, {found.products} Hessian products",
        meaning=f"gradient descent is stable below a learning rate of {2 / value:.3g}",
        products=found.products,
    )


MEASURES = (
    Measure(
        name="sharpness",
        group="curvature",
        title="sharpness λ_max(∇²L)",
        read=_sharpness,
        experiment="dynamics/edge_of_stability",
    ),
)
