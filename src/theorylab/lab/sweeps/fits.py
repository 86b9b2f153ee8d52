"""Power laws over a swept field: y = c xᵖ, with the interval of p.

Every repetition is a point. What is not positive and finite has no logarithm, and is not left out
silently: the fit is NaN then, as `numerics.power_law` has it.
"""

from typing import TYPE_CHECKING

from theorylab.lab.failure import Refused, one_line
from theorylab.numerics.fits import PowerLaw, power_law

if TYPE_CHECKING:
    from .result import Sweep


def fitted(sweep: "Sweep", x: str, y: str, confidence: float = 0.95) -> PowerLaw:
    """Fit a power law to two columns of a sweep.

    Args:
        sweep: With its table.
        x: A field that varies.
        y: What was measured.
        confidence: Of the interval.

    Raises:
        Refused: A column is missing or has no numbers, or x has fewer than two positive values.
    """
    places, values = (sweep.column(name) for name in (x, y))
    for name, column in ((x, places), (y, values)):
        if column.dtype.kind not in "biuf":
            raise Refused(f"a fit needs numbers, and {name} has texts.")
    try:
        return power_law(places.astype(float), values.astype(float), confidence)
    except ValueError as error:
        raise Refused(f"{x}: {one_line(error, 120)}") from None
