"""Recursive feature machines: kernel regression that learns which directions matter.

A kernel machine with the distance ‖x − z‖²_M = (x − z)ᵀM(x − z), and M from its own gradients:

    M₀ = I
    (K_M + λI)α = y,   f(x) = Σⱼ αⱼ k_M(x, xⱼ)                ridge regression with metric M
    M ← Gˢ,            G = (1/n) Σᵢ Σ_a ∇f_a(xᵢ)∇f_a(xᵢ)ᵀ       the AGOP of f, to the power s

M is scaled to trace d, so that a fixed bandwidth L means the same in every round; with "median" it
is a multiple of the median distance in the metric of the round. Points are kept as z = Tᵀx/L with
M = TTᵀ, where T has as many columns as M has eigenvalues above rounding: gradients never leave the
range of M. A kernel that is no function of the distance is taken of Tᵀx/L and Tᵀx′/L, and its AGOP
by automatic differentiation.

Source: zhu · ext-* · Ch. 5; Radhakrishnan, Beaglehole, Pandit and Belkin (2022), arXiv:2212.13881.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.kernels.solvers import (
    BlockProduct,
    cholesky_solve,
    conjugate_gradients,
    gram,
    low_rank_preconditioner,
    nystrom_factor,
    nystrom_solve,
)
from theorylab.numerics.memory import available_memory
from theorylab.typing import Axes

from .agop import agop
from .radial import RADIAL, Radial, median_distance, radial_agop

Kernel = str | Radial | Callable[[Any, Any], Any]
SOLVERS = ("cholesky", "conjugate_gradients", "nystrom")
_MEMORY_SHARE = 0.5  # of what is free, for a kernel matrix that only saves time


@dataclass(frozen=True)
class Recursion:
    """How a recursive feature machine learns.

    Args:
        kernel: "laplace", "gaussian", "matern3", "matern5", a `Radial`, or any function of two
            batches of points, written with `jax.numpy`.
        num_steps: How often M is made anew; 0: plain kernel regression.
        bandwidth: L, or its multiple of the median distance.
        bandwidth_mode: "median" or "constant".
        ridge: λ.
        power: s.
        diagonal: Whether M keeps its diagonal only.
        solver: "cholesky", exact; "conjugate_gradients", with Nyström's preconditioner and no
            matrix where it would fill memory; "nystrom", on centres.
        tolerance: The relative residual at which conjugate gradients stop.

    Example:
        >>> Recursion(kernel="gaussian", num_steps=2).power
        1.0
    """

    kernel: Kernel = "laplace"
    num_steps: int = 5
    bandwidth: float | int = 1.0
    bandwidth_mode: str = "median"
    ridge: float | int = 1e-3
    power: float | int = 1.0
    diagonal: bool = False
    solver: str = "cholesky"
    tolerance: float | int = 1e-6

    def __post_init__(self) -> None:
        if isinstance(self.kernel, str) and self.kernel not in RADIAL:
            names = ", ".join(RADIAL)
            raise ValueError(f"kernel must be one of {names}, or a function, got {self.kernel!r}.")
        if self.num_steps < 0:
            raise ValueError(f"num_steps must be at least 0, got {self.num_steps}.")
        for name in ("bandwidth", "power"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        if self.bandwidth_mode not in ("median", "constant"):
            raise ValueError(
                f"bandwidth_mode must be median or constant, got {self.bandwidth_mode!r}."
            )
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {self.solver!r}.")
        if not 0 <= self.ridge < math.inf or (self.solver != "cholesky" and self.ridge == 0):
            least = "at least 0" if self.solver == "cholesky" else "positive for this solver"
            raise ValueError(f"ridge must be {least}, got {self.ridge}.")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must be in (0, 1), got {self.tolerance}.")


class Machine(NamedTuple):
    """A kernel machine with a metric, f(x) = ȳ + k(Tᵀ(x − x̄)/L, Z) α.

    Args:
        transform: T, with M = TTᵀ.
        bandwidth: L.
        centre: x̄, the mean of the training inputs.
        offset: ȳ, the mean of the training targets.
        kernel: k.
        points: Z.
        coefficients: α.
        report: What the solver had to say: residual, jitter, iterations.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> machine = fit_machine(Recursion(), np.eye(2), x, x[:, :1])
        >>> machine(x).shape
        (50, 1)
    """

    transform: Float[np.ndarray, "d r"]
    bandwidth: float
    centre: Float[np.ndarray, " d"]
    offset: Float[np.ndarray, " k"]
    kernel: Callable[[Any, Any], Any]
    points: Float[np.ndarray, "m r"]
    coefficients: Float[np.ndarray, "m k"]
    report: dict[str, Any]

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """The outputs at x."""
        outputs = BlockProduct(self.kernel, self._inner(x), self.points)(self.coefficients)
        return outputs + self.offset[None]

    def agop(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
        """The AGOP of the machine at x, T G_z Tᵀ/L²."""
        inner = self._inner(x)
        if isinstance(self.kernel, Radial):
            found = radial_agop(self.kernel, self.points, self.coefficients, inner)
        else:
            params = (jnp.asarray(self.points), jnp.asarray(self.coefficients))
            found = np.asarray(agop(_Predictor(self.kernel), params, jnp.asarray(inner)))
        return self.transform @ found @ self.transform.T / self.bandwidth**2

    def _inner(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n r"]:
        """Tᵀ(x − x̄)/L."""
        dimension = len(self.centre)
        if x.ndim != 2 or x.shape[1] != dimension:
            raise ValueError(f"x must have shape (n, {dimension}) as in training, got {x.shape}.")
        return (x - self.centre[None]) @ (self.transform / self.bandwidth)


class LearnedFeatures(Answer):
    """The machines of all rounds, in short; and the best one whole.

    Args:
        machine: That of the best round: the least validation error, or else the last.
        best: Its number.
        metrics: M of every round.
        bandwidths: L of every round.
        errors: The mean squared error on validation data in every round; NaN without them.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> learn_features(Recursion(num_steps=1), x, x[:, :1]).metrics.shape
        (2, 2, 2)
    """

    machine: Machine
    best: int
    metrics: Float[np.ndarray, "t d d"]
    bandwidths: Float[np.ndarray, " t"]
    errors: Float[np.ndarray, " t"]

    def draw(self, axes: Axes) -> None:
        """The validation error of every round; without validation data, the bandwidth."""
        from theorylab.answers.figure import curve

        watched = not np.isnan(self.errors).all()
        rounds = np.arange(len(self.errors))
        curve(axes, rounds, self.errors if watched else self.bandwidths)
        axes.lines[-1].set_marker("o")
        axes.set_xlabel("round")
        axes.set_ylabel("validation error" if watched else "bandwidth L")


@dataclass(frozen=True)
class _Predictor:
    """(points, α), z ─► k(z, points) α. Equal for equal kernels, so that it is compiled once."""

    kernel: Callable[[Any, Any], Any]

    def __call__(self, params: tuple[Array, Array], z: Array) -> Array:
        points, coefficients = params
        return jnp.asarray(self.kernel(z, points)) @ coefficients


def learn_features(
    recursion: Recursion,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n k"],
    validation: tuple[Float[np.ndarray, "v d"], Float[np.ndarray, "v k"]] | None = None,
    num_centres: int | None = None,
    random: np.random.Generator | np.random.RandomState | None = None,
) -> LearnedFeatures:
    """Fit, take gradients, change the metric, and again.

    Args:
        recursion: How.
        x: The training inputs, float32 or float64, which is the precision of everything.
        y: The training targets.
        validation: Inputs and targets by which the best round is chosen; without, it is the last.
        num_centres: Centres of Nyström's approximation, or of the preconditioner; 5√n if not given.
        random: Chooses the centres.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 5))
        >>> found = learn_features(Recursion(num_steps=2), x, x[:, :1] ** 2)
        >>> int(found.machine.agop(x).diagonal().argmax())
        0
    """
    check_data(x, y)
    if validation is not None:
        check_validation(*validation, x, y)
    if num_centres is not None and num_centres < 1:
        raise ValueError(f"num_centres must be at least 1, got {num_centres}.")
    return learn_from_checked(recursion, x, y, validation, num_centres, random)


def learn_from_checked(
    recursion: Recursion,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n k"],
    validation: tuple[Float[np.ndarray, "v d"], Float[np.ndarray, "v k"]] | None,
    num_centres: int | None,
    random: np.random.Generator | np.random.RandomState | None,
) -> LearnedFeatures:
    """The same for part of data that were checked: a feature may be constant in a part.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> found = learn_from_checked(Recursion(num_steps=1), x, x[:, :1], None, None, None)
        >>> found.bandwidths.shape
        (2,)
    """
    machine = fit_machine(recursion, np.eye(x.shape[1], dtype=x.dtype), x, y, num_centres, random)
    metrics, bandwidths, errors = [], [], []
    best, kept = -1, machine
    for iteration in range(recursion.num_steps + 1):
        metrics.append(machine.transform @ machine.transform.T)
        bandwidths.append(machine.bandwidth)
        errors.append(math.nan if validation is None else _error(machine, *validation))
        if best < 0 or validation is None or errors[-1] < errors[best]:
            best, kept = iteration, machine
        if iteration < recursion.num_steps:
            found = transform_of(machine.agop(x), recursion.power, recursion.diagonal)
            if found is None:  # no gradient at all, and so nothing to learn from
                break
            machine = fit_machine(recursion, found, x, y, num_centres, random)
    return LearnedFeatures(
        kept, best, np.stack(metrics), np.asarray(bandwidths), np.asarray(errors)
    )


def fit_machine(
    recursion: Recursion,
    transform: Float[np.ndarray, "d r"],
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n k"],
    num_centres: int | None = None,
    random: np.random.Generator | np.random.RandomState | None = None,
) -> Machine:
    """One round: kernel ridge regression with the metric M = TTᵀ; arguments as above.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> fit_machine(Recursion(), np.eye(2), x, x[:, :1]).coefficients.shape
        (50, 1)
    """
    centre, offset = x.mean(axis=0), y.mean(axis=0)
    points = (x - centre[None]) @ transform
    kernel = RADIAL[recursion.kernel] if isinstance(recursion.kernel, str) else recursion.kernel
    scale = median_distance(points) if recursion.bandwidth_mode == "median" else 1.0
    bandwidth = recursion.bandwidth * scale
    points /= bandwidth
    chosen = _centres(points, num_centres, random) if recursion.solver != "cholesky" else points
    solve = {
        "cholesky": _by_cholesky,
        "conjugate_gradients": _by_conjugate_gradients,
        "nystrom": _by_nystrom,
    }[recursion.solver]
    coefficients, report = solve(recursion, kernel, points, y - offset[None], chosen)
    if recursion.solver == "nystrom":
        points = chosen
    return Machine(transform, bandwidth, centre, offset, kernel, points, coefficients, report)


def transform_of(
    features: Float[np.ndarray, "d d"], power: float = 1.0, diagonal: bool = False
) -> Float[np.ndarray, "d r"] | None:
    """T with TTᵀ = M = Gˢ d/tr(Gˢ); None if G is zero.

    Args:
        features: G.
        power: s.
        diagonal: Whether only the diagonal of G counts.

    Example:
        >>> transform = transform_of(np.diag([3.0, 1.0]))
        >>> (transform @ transform.T).round(6).tolist()
        [[1.5, 0.0], [0.0, 0.5]]
    """
    dimension = len(features)
    if diagonal:
        values, vectors = features.diagonal(), np.eye(dimension, dtype=features.dtype)
    else:
        values, vectors = np.linalg.eigh((features + features.T) / 2)
    largest = float(values.max())
    if not 0 < largest < math.inf:
        return None
    # What is below rounding is not known; to a power below 1 it would become large.
    kept = values > dimension * float(np.finfo(features.dtype).eps) * largest
    powers = (values[kept] / largest) ** power
    return vectors[:, kept] * np.sqrt(powers * (dimension / powers.sum()))[None]


def _by_cholesky(
    recursion: Recursion, kernel: Any, points: np.ndarray, targets: np.ndarray, _: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    matrix = gram(kernel, points, points.dtype)
    report = cholesky_solve(matrix, targets, float(recursion.ridge), overwrite=True)._asdict()
    return report.pop("coefficients"), report


def _by_conjugate_gradients(
    recursion: Recursion, kernel: Any, points: np.ndarray, targets: np.ndarray, centres: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    factor = nystrom_factor(kernel, points, centres).astype(points.dtype)
    free = available_memory()
    fits = free is None or points.dtype.itemsize * len(points) ** 2 < _MEMORY_SHARE * free
    product = (
        gram(kernel, points, points.dtype).__matmul__
        if fits
        else BlockProduct(kernel, points, points)
    )
    precondition = low_rank_preconditioner(factor, recursion.ridge)
    found = conjugate_gradients(
        product, targets, recursion.ridge, precondition, recursion.tolerance
    )
    names = ("num_steps", "residual", "converged")
    return found.coefficients, {name: getattr(found, name) for name in names}


def _by_nystrom(
    recursion: Recursion, kernel: Any, points: np.ndarray, targets: np.ndarray, centres: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    found = nystrom_solve(
        kernel, points, centres, targets, recursion.ridge, recursion.tolerance
    )._asdict()
    return found.pop("coefficients").astype(points.dtype), found


def _centres(points: np.ndarray, num_centres: int | None, random: Any) -> np.ndarray:
    """Random points, 5√n or as many as were asked for."""
    count = min(num_centres or math.ceil(5 * math.sqrt(len(points))), len(points))
    order = (random or np.random.default_rng(0)).permutation(len(points))
    return points[np.sort(order[:count])]


def _error(machine: Machine, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((machine(x) - y) ** 2))


def check_data(x: np.ndarray, y: np.ndarray, constant: bool = False) -> None:
    """Refuse data from which no metric can be learned, and say which feature is at fault.

    Args:
        x: The inputs.
        y: The targets.
        constant: Whether some features, but not all, may be constant.

    Example:
        >>> check_data(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]))
    """
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or len(x) < 2 or x.shape[1] < 1:
        raise ValueError(
            f"x must have shape (n, d) and y (n, k) with n at least 2, got {x.shape}, {y.shape}."
        )
    if x.dtype not in (np.float32, np.float64) or y.dtype != x.dtype:
        raise ValueError(f"x and y must both be float32 or float64, got {x.dtype}, {y.dtype}.")
    _check_finite("", x, y)
    same = np.ptp(x, axis=0) == 0
    if same.all() or (same.any() and not constant):
        columns = ", ".join(map(str, np.flatnonzero(same)[:10]))
        raise ValueError(
            "every feature must vary, got constant ones, which tell nothing and have no scale: "
            f"columns {columns}. Drop them, with sklearn.feature_selection.VarianceThreshold."
        )


def check_validation(
    other_x: np.ndarray, other_y: np.ndarray, x: np.ndarray, y: np.ndarray
) -> None:
    """Refuse validation data that do not go with the training data.

    Example:
        >>> x, y = np.zeros((3, 2)), np.zeros((3, 1))
        >>> check_validation(np.zeros((1, 2)), np.zeros((1, 1)), x, y)
    """
    shapes, fit = (other_x.shape, other_y.shape), (x.shape[1:], y.shape[1:])
    if len(other_x) < 1 or len(other_x) != len(other_y) or (shapes[0][1:], shapes[1][1:]) != fit:
        raise ValueError(
            f"validation must have shapes (v, {x.shape[1]}) and (v, {y.shape[1]}) as in training,"
            f" got {shapes[0]} and {shapes[1]}."
        )
    _check_finite("validation ", other_x, other_y)


def _check_finite(whose: str, x: np.ndarray, y: np.ndarray) -> None:
    for name, values in (("x", x), ("y", y)):
        finite = np.isfinite(values).all(axis=0)
        if not finite.all():
            column = int(np.argmin(finite))
            raise ValueError(
                f"{whose}{name} must be finite, got NaN or infinity in column {column}."
            )
