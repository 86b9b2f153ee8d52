"""The top eigenvalue of the Hessian while a network trains, from where it was last time.

    v ← top Ritz vector of H(w′) on the Krylov space of  v + ε g,     λ ≈ vᵀHv,  r = ‖Hv − λv‖

Between two measurements the eigenvector hardly turns, so that a few products find it again. The
random g, which is different every time, lets a direction come in that has become the steepest: it
is in every Krylov space, and grows there. Steps are taken until r ≤ tolerance · λ. The residual
says that an eigenvalue is within r of λ, not that it is the largest; so the value is an estimate,
and every so often the measure itself is asked, which certifies.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.numerics.counted import CountedOperator
from theorylab.numerics.restarted import Run
from theorylab.numerics.rows import Rows, combined
from theorylab.numerics.spectra import Operator

from ..measure import Measure, Reading, Row, row_of
from ..subject import Subject

FRESH = 0.1  # ε: the length of what is random in a start
FEWEST = 3  # products
TOLERANCE = 0.02
CERTIFIED = 10  # every so many measurements the measure itself is asked


class Pursuit:
    """Sharpness at one time after another: certified at first, then followed.

    Example:
        >>> Pursuit().vector is None
        True
    """

    def __init__(self) -> None:
        self.vector: Float[Array, " p"] | None = None
        self.count = 0

    @property
    def certifies(self) -> bool:
        """Whether the next time the measure itself is asked."""
        return self.count % CERTIFIED == 0

    def row(self, measure: Measure, subject: Subject) -> Row:
        """The row of the measure `sharpness`.

        Args:
            measure: It, for when it is asked itself.
            subject: The network as it is now.
        """
        certifies = self.certifies
        self.count += 1
        if certifies:
            return row_of(measure, subject)

        def read(subject: Subject) -> Reading:
            return self._follow(subject)

        followed = Measure(**{**vars(measure), "read": read})
        row = row_of(followed, subject)
        return Row(measure, row.status, row.reading, row.seconds, row.reason)

    def _follow(self, subject: Subject) -> Reading:
        inputs, budget = subject.curved
        key = jax.random.fold_in(subject.key_for("pursuit"), self.count)
        start = jax.random.normal(key, subject.flat.shape, subject.flat.dtype)
        if self.vector is not None:
            start = self.vector + FRESH * start / jnp.linalg.norm(start)
        found = follow(subject.hessian, start, max(budget, FEWEST))
        value, self.vector, residual, products = found
        if not math.isfinite(value):
            self.vector = None
            raise FloatingPointError("the Hessian has entries that are not finite")
        return Reading(
            value=value,
            low=math.nan,
            high=math.nan,
            certainty="estimate",
            method=f"{products} Lanczos steps from the last eigenvector, {inputs:,} inputs",
            meaning=f"gradient descent is stable below a learning rate of {2 / value:.3g}"
            if value > 0
            else "the loss curves downwards in every direction that was looked at",
            products=products,
            details={"residual": residual},
        )


def follow(
    operator: Operator, start: Float[Array, " p"], most: int, tolerance: float = TOLERANCE
) -> tuple[float, Float[Array, " p"], float, int]:
    """The top Ritz pair on the Krylov space of a start: value, vector, residual, products.

    Args:
        operator: A symmetric one.
        start: Any vector but 0; the nearer to the eigenvector, the fewer products it takes.
        most: The greatest number of products.
        tolerance: The residual at which it ends, relative to the value.

    Example:
        >>> spectrum = jnp.array([3.0, -5.0, 1.0])
        >>> value, vector, residual, products = follow(lambda v: spectrum * v, jnp.ones(3), 3)
        >>> round(value, 4), products
        (3.0, 3)
    """
    counted = CountedOperator(operator, start)
    run = Run(counted, Rows(counted.size, counted.dtype), start, capacity=most, norm=0.0)
    value, residual, last = math.nan, math.inf, np.ones(1)
    while counted.products < most and not run.ended:
        run.step()
        if not np.isfinite(run.matrix).all():
            return math.nan, start, math.inf, counted.products
        values, vectors = np.linalg.eigh(run.matrix)
        value, last = float(values[-1]), vectors[:, -1]
        residual = abs(run.length * float(last[-1]))
        if counted.products >= FEWEST and residual <= tolerance * abs(value):
            break
    vector = combined(last[None, :], [run.basis])[0][0]
    return value, vector, residual, counted.products
