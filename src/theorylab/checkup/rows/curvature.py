"""Curvature of the loss at the parameters: sharpness."""

from theorylab.claims import Source
from theorylab.curvature import certified_eigenpairs

from ..measure import Measure, Reading
from ..subject import Subject


def _sharpness(subject: Subject) -> Reading:
    inputs, budget = subject.curved
    found = certified_eigenpairs(
        subject.hessian, subject.flat, 1, subject.key_for("sharpness"), budget=budget
    )
    value, bound = float(found.values[0]), float(found.bounds[0])
    return Reading(
        value=value,
        low=value,
        high=value + bound,
        certainty="certified",
        method=f"Lanczos, {found.products} Hessian products on {inputs:,} inputs",
        meaning=f"gradient descent is stable below a learning rate of {2 / value:.3g}",
        products=found.products,
    )


MEASURES = (
    Measure(
        name="sharpness",
        group="learning rate",
        title="sharpness λ_max(∇²L)",
        read=_sharpness,
        source=Source("arora", "sharpness", "§2.6"),
        experiment="dynamics/edge_of_stability",
    ),
)
