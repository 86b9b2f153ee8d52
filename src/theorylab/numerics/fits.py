"""Power laws, y = c xᵖ: a straight line of slope p in log–log coordinates.

Least squares on log y = log c + p log x for one curve; for one curve per seed, a variant of it
whose median over the seeds is p, however skewed the noise.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy  # whose statistics are loaded when they are used: they take half a second
from jaxtyping import Float, Real
from scipy import special

from .intervals import HostArray


class PowerLaw(NamedTuple):
    """The fitted law y = prefactor · x^exponent, the exponent in [low, high].

    Example:
        >>> law = power_law(np.array([1.0, 2.0, 4.0]), np.array([3.0, 12.0, 48.0]))
        >>> round(law.prefactor, 6), round(law.low, 6), round(law.high, 6)
        (3.0, 2.0, 2.0)
    """

    exponent: float
    prefactor: float
    low: float
    high: float


def power_law(
    x: Real[HostArray, " points"], y: Real[HostArray, " points"], confidence: float = 0.95
) -> PowerLaw:
    """Fit one curve; the interval is Student's, from the residuals in log–log coordinates.

    A y that is not positive and finite gives NaN throughout; two points have no residuals, so
    their exponent has the whole line as its interval.

    Example:
        >>> power_law(np.array([1.0, 2.0, 4.0]), np.array([3.0, 12.0, 48.0])).exponent
        2.0
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    log_x, values = _log_abscissa(x), np.asarray(y, dtype=float)
    if values.shape != log_x.shape:
        raise ValueError(f"y must have the shape of x, {log_x.shape}, got {values.shape}.")
    if not _positive(values).all():
        return PowerLaw(math.nan, math.nan, math.nan, math.nan)
    slope, intercept, _, _, error = map(float, scipy.stats.linregress(log_x, np.log(values)))
    prefactor = math.exp(intercept)
    degrees = len(log_x) - 2
    if degrees == 0:
        return PowerLaw(slope, prefactor, -math.inf, math.inf)
    margin = float(special.stdtrit(degrees, (1 + confidence) / 2)) * error
    return PowerLaw(slope, prefactor, slope - margin, slope + margin)


def power_law_exponents(
    x: Real[HostArray, " points"], y: Real[HostArray, "seeds points"]
) -> Float[np.ndarray, " seeds"]:
    """Fit the exponent of each seed's curve; NaN where a curve is not positive and finite.

    With ξ = log x in rising order and a = ξ - reversed ξ, the slope is p̂ = Σ a log y / Σ a ξ. On a
    geometric grid that is least squares. On every grid the weights are antisymmetric, so that
    noise with one law at all x gives slopes with a law symmetric around p; least squares does not,
    and the median of its slopes is not p if the noise is skewed.

    Example:
        >>> x = np.array([1.0, 2.0, 4.0])
        >>> power_law_exponents(x, np.stack([x, 5 * x**-2.0])).round(12)
        array([ 1., -2.])
    """
    log_x, values = _log_abscissa(x), np.asarray(y, dtype=float)
    if values.ndim != 2 or values.shape[1] != len(log_x):
        raise ValueError(f"y must be (seeds, {len(log_x)}), got {values.shape}.")
    log_y = np.log(np.where(_positive(values), values, np.nan))
    order = np.argsort(log_x)
    arms = np.empty_like(log_x)
    arms[order] = log_x[order] - log_x[order[::-1]]
    return log_y @ arms / (log_x @ arms)


def _positive(values: np.ndarray) -> np.ndarray:
    return np.isfinite(values) & (values > 0)


def _log_abscissa(x: Real[HostArray, " points"]) -> np.ndarray:
    values = np.asarray(x, dtype=float)
    if values.ndim != 1 or len(np.unique(values)) < 2 or not _positive(values).all():
        raise ValueError(f"x must be positive with at least 2 different values, got {values}.")
    return np.log(values)
