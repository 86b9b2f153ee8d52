"""Topology optimisation: where a plate needs material, found by descent through a kernel.

    yᵢ = σ(xᵢ + b),   b such that the mean of y is V     density of every square (σ: logistic)
    Eᵢ = E₀ + yᵢᵖ (1 − E₀)                               its stiffness: p = 3 makes grey poor
    C = UᵀF,   K(E) U = F                                compliance under the load F, to be small
    ∂C/∂xᵢ = wᵢ (gᵢ − Σ w g/Σ w),   w = y(1 − y),   g = ∂C/∂y

Where x are the outputs of a network at the squares, gradient flow moves them by ẋ = −Θ ∂C/∂x: the
tangent kernel Θ is a filter, and its width is the least size of what is built. Without any filter
the squares alternate like a chessboard, so plain SIMP (solid isotropic material with penalty)
averages slopes over a radius. A constant that is added to Θ changes nothing, because b takes it up.

Source: golikov · ntk-simp · 2.6.2 (Dupuis and Jacot). It prints the compliance as UᵀFU, which is no
number; it is UᵀF = UᵀKU.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from theorylab.kernels.applications.elasticity import Plate, bend

Field = Float[np.ndarray, "columns rows"]

_WEAKEST = 1e-3  # E₀, of a square without material, for that K is never singular
_BISECTIONS = 60  # of an interval of length 100: to rounding


class Design(NamedTuple):
    """A distribution of material.

    Example: the same number for all squares spreads the material evenly.
        >>> from theorylab.kernels.applications.elasticity import half_beam
        >>> bool(np.allclose(design(half_beam(3, 2), np.zeros((3, 2)), volume=0.4).density, 0.4))
        True
    """

    density: Field  # y, in [0, 1]
    compliance: float  # C
    slope: Field  # ∂ log C/∂x


def densities(x: Field, volume: float) -> Field:
    """σ(x + b), with b by bisection so that the mean is the volume.

    Example:
        >>> float(densities(np.array([[-1.0], [1.0]]), 0.5).mean().round(9))
        0.5
    """
    _check_volume(volume)
    low, high = -50.0 - float(x.max()), 50.0 - float(x.min())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(x + middle).mean() < volume else (low, middle)
    return expit(x + (low + high) / 2)


def design(plate: Plate, x: Field, volume: float, penalty: float = 3.0) -> Design:
    """The densities that x stands for, their compliance, and its slope.

    Args:
        plate: Grid, supports and load.
        x: A number for every square; a constant that is added changes nothing.
        volume: V, the mean density.
        penalty: The power p.

    Example: a constant that is added to x changes nothing, so the slopes add up to 0.
        >>> from theorylab.kernels.applications.elasticity import half_beam
        >>> found = design(half_beam(3, 2), np.arange(6.0).reshape(3, 2), volume=0.4)
        >>> bool(np.isclose(found.density.mean(), 0.4)), bool(np.isclose(found.slope.sum(), 0.0))
        (True, True)
    """
    y = densities(x, volume)
    compliance, slope = _compliance(plate, y, penalty)
    weight = y * (1 - y)
    mean = np.sum(weight * slope) / np.sum(weight)
    return Design(y, compliance, weight * (slope - mean) / compliance)


def through_kernel(
    plate: Plate,
    kernel: Float[np.ndarray, "e e"],
    volume: float,
    num_steps: int,
    learning_rate: float,
    momentum: float = 0.9,
) -> Design:
    """Descend x ← x − ηΘ ∂ log C/∂x from x = 0, with momentum: a network of infinite width.

    Args:
        plate: Grid, supports and load.
        kernel: Θ of all pairs of squares, column by column.
        volume: V.
        num_steps: Steps.
        learning_rate: η.
        momentum: What is kept of the last step.

    Example: material moves to where it is needed, and the beam bends less.
        >>> from theorylab.kernels.applications.elasticity import half_beam
        >>> beam = half_beam(4, 2)
        >>> even = design(beam, np.zeros((4, 2)), volume=0.5)
        >>> found = through_kernel(beam, np.eye(8), volume=0.5, num_steps=5, learning_rate=1.0)
        >>> found.compliance < even.compliance, round(float(found.density.mean()), 6)
        (True, 0.5)
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    x = np.zeros((plate.num_columns, plate.num_rows))
    if kernel.shape != (x.size, x.size):
        raise ValueError(f"kernel must be ({x.size}, {x.size}), got {kernel.shape}.")
    velocity = np.zeros_like(x)
    for _ in range(num_steps):
        slope = design(plate, x, volume).slope
        push = (kernel @ slope.ravel()).reshape(x.shape)
        velocity = momentum * velocity - learning_rate * push
        x = x + velocity
    return design(plate, x, volume)


def plain_simp(
    plate: Plate, volume: float, radius: float = 1.5, num_steps: int = 60, penalty: float = 3.0
) -> tuple[Field, float]:
    """The classical way: densities by optimality criteria, slopes averaged over a radius.

    Every step multiplies y by √(−g/λ), at most by 0.2 away from before, with λ by bisection so that
    the volume is kept; g is averaged with weights (radius − distance)₊ y.

    Returns:
        The densities and their compliance.

    Example: a few steps make the beam stiffer than an even plate of the same volume.
        >>> from theorylab.kernels.applications.elasticity import half_beam
        >>> beam = half_beam(4, 2)
        >>> even = design(beam, np.zeros((4, 2)), volume=0.5)
        >>> density, compliance = plain_simp(beam, volume=0.5, num_steps=5)
        >>> compliance < even.compliance, round(float(density.mean()), 6)
        (True, 0.5)
    """
    _check_volume(volume)
    if not radius > 0:
        raise ValueError(f"radius must be positive, got {radius}.")
    shape = (plate.num_columns, plate.num_rows)
    places = np.moveaxis(np.indices(shape), 0, 2).reshape(-1, 2)
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    near = np.maximum(radius - distance, 0.0)
    near = near / near.sum(axis=1, keepdims=True)
    y = np.full(shape, volume)
    for _ in range(num_steps):
        slope = _compliance(plate, y, penalty)[1]
        averaged = (near @ (y * slope).ravel()).reshape(shape) / np.maximum(y, 1e-3)
        y = _scaled(y, -averaged, volume)
    return y, _compliance(plate, y, penalty)[0]


def mean_frequency(density: Field) -> float:
    """The mean spatial frequency of a design, weighted by its power: waves per square.

    Example:
        >>> stripes = np.tile(np.array([[1.0], [0.0]]), (4, 3))
        >>> mean_frequency(stripes)
        0.5
    """
    power = np.abs(np.fft.fft2(density - density.mean())) ** 2
    columns, rows = (np.fft.fftfreq(size) for size in density.shape)
    return float(np.sum(power * np.hypot(columns[:, None], rows[None, :])) / np.sum(power))


def _compliance(plate: Plate, y: Field, penalty: float) -> tuple[float, Field]:
    """C and ∂C/∂y."""
    bent = bend(plate, _WEAKEST + y**penalty * (1 - _WEAKEST))
    return bent.compliance, penalty * y ** (penalty - 1) * (1 - _WEAKEST) * bent.slope


def _scaled(y: Field, gain: Field, volume: float) -> Field:
    """The densities y √(gain/λ) within 0.2 of before, with λ so that their mean is the volume."""
    low, high = 0.0, 1.0 + 1e3 * float(gain.max())
    least, most = np.maximum(y - 0.2, 0.0), np.minimum(y + 0.2, 1.0)
    after = y
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        after = np.clip(y * np.sqrt(gain / middle), least, most)
        low, high = (middle, high) if after.mean() > volume else (low, middle)
    return after


def _check_volume(volume: float) -> None:
    if not 0 < volume < 1:
        raise ValueError(f"volume must be in (0, 1), got {volume}.")
