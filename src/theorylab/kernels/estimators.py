"""Infinitely wide networks as scikit-learn estimators.

    NTKRegressor     the mean prediction of wide networks trained to the end, with ridge λ
    NTKClassifier    the same on one-hot targets; the class with the largest output
    NNGPRegressor    Bayes with a wide network for a prior: mean, deviation and evidence

All of them solve (K + λI)α = y with the tangent kernel, or the NNGP, of an architecture, and
predict K(x, X)α. They go into pipelines and grid searches like any other estimator.

Source: golikov · kernel-solvers · 2.89–2.95; golikov · nngp-posterior · 2.149–2.151.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from theorylab.models import NTK, mlp
from theorylab.numerics.memory import available_memory

from .infinite import infinite_kernels
from .solvers import (
    BlockProduct,
    apply_inverse,
    cholesky_factor,
    cholesky_solve,
    conjugate_gradients,
    diagonal,
    gram,
    low_rank_preconditioner,
    nystrom_factor,
    nystrom_solve,
    rows,
    whiten,
)

_HE = math.sqrt(2.0)  # keeps the variance through ReLU layers
_SOLVERS = ("cholesky", "conjugate_gradients", "nystrom")


class _Solved(NamedTuple):
    """Coefficients on some points, and what the solver had to say."""

    points: np.ndarray
    coefficients: np.ndarray
    report: dict[str, float]


class _WideNetwork(BaseEstimator):
    """What the estimators share: a network, its kernel, and a solver."""

    _kind: Literal["ntk", "nngp"] = "ntk"

    # Without types: scikit-learn gives a constructor anything, and settings are checked by `fit`.
    def __init__(
        self,
        depth=2,
        activation="relu",
        weight_scale=_HE,
        bias_scale=0.1,
        ridge=1e-3,
        solver="cholesky",
        num_centres=None,
        tolerance=1e-6,
        architecture=None,
        input_shape=None,
        random_state=None,
        precision="float64",
    ) -> None:
        self.depth = depth
        self.activation = activation
        self.weight_scale = weight_scale
        self.bias_scale = bias_scale
        self.ridge = ridge
        self.solver = solver
        self.num_centres = num_centres
        self.tolerance = tolerance
        self.architecture = architecture
        self.input_shape = input_shape
        self.random_state = random_state
        self.precision = precision

    def _check_settings(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, got {self.depth}.")
        if not 0 <= self.ridge < math.inf:
            raise ValueError(f"ridge must be at least 0, got {self.ridge}.")
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(_SOLVERS)}, got {self.solver!r}.")
        if self.solver != "cholesky" and self.ridge == 0:
            raise ValueError(f"ridge must be positive for the solver {self.solver}, got 0.")
        if self.num_centres is not None and self.num_centres < 1:
            raise ValueError(f"num_centres must be at least 1, got {self.num_centres}.")
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"precision must be float32 or float64, got {self.precision!r}.")

    def _kernel(self) -> Callable[[Any, Any], Array]:
        """(x1, x2) ─► the kernel of the network."""
        widths = [1] * (self.depth - 1)  # of the hidden layers, read as infinite
        architecture = self.architecture or mlp(widths, activation=self.activation)
        bias = "normal" if self.bias_scale > 0 else "none"
        scales = NTK(weight_scale=self.weight_scale, bias_scale=self.bias_scale or 1.0)
        shape, kind = self.input_shape, self._kind

        def kernel(x1: Array, x2: Array) -> Array:
            if shape is not None:
                x1, x2 = (x.reshape(len(x), *shape) for x in (x1, x2))
            n1, n2 = len(x1), len(x2)
            x1, x2 = _rounded_up(x1), _rounded_up(x2)
            kernels = infinite_kernels(architecture, x1, x2, parametrization=scales, bias=bias)
            return getattr(kernels, kind)[:n1, :n2]

        return kernel

    def _fit(self, x: np.ndarray, targets: np.ndarray) -> None:
        """Solve for the coefficients, and keep what predictions need."""
        with jax.enable_x64(self.precision == "float64"):
            solved = _SOLVE[self.solver](self, x, targets)
        self.points_, self.coefficients_, self.solver_report_ = solved

    def _centres(self, x: np.ndarray) -> np.ndarray:
        """5√n random training points, or as many as were asked for."""
        count = self.num_centres or math.ceil(5 * math.sqrt(len(x)))
        random = check_random_state(self.random_state)
        return x[np.sort(random.permutation(len(x))[: min(count, len(x))])]

    def _outputs(self, x: Any) -> np.ndarray:
        """K(x, X)α."""
        check_is_fitted(self)
        x = validate_data(self, x, dtype=np.dtype(self.precision), reset=False)
        with jax.enable_x64(self.precision == "float64"):
            return BlockProduct(self._kernel(), x, self.points_)(self.coefficients_)


def _rounded_up(x: Array) -> Array:
    """The points, the last one repeated to the next power of 2: few shapes are compiled."""
    size = 1 << (len(x) - 1).bit_length()
    if size == len(x) or size > 512:  # large kernels are made in tiles of one shape anyway
        return x
    return jax.numpy.concatenate([x, jax.numpy.repeat(x[-1:], size - len(x), axis=0)])


def _by_cholesky(model: _WideNetwork, x: np.ndarray, targets: np.ndarray) -> _Solved:
    matrix = gram(model._kernel(), x, model.precision)
    solution = cholesky_solve(matrix, targets, model.ridge, overwrite=True)
    if solution.jitter > 0:
        warnings.warn(
            f"the kernel was singular to rounding: a jitter of {solution.jitter:.3g} was added to "
            f"the ridge {model.ridge}; the residual is {solution.residual:.3g}.",
            stacklevel=4,
        )
    report = solution._asdict()
    return _Solved(x, report.pop("coefficients"), report)


def _by_conjugate_gradients(model: _WideNetwork, x: np.ndarray, targets: np.ndarray) -> _Solved:
    kernel = model._kernel()
    factor = nystrom_factor(kernel, x, model._centres(x)).astype(x.dtype)
    solution = conjugate_gradients(
        _operator(kernel, x),
        targets,
        model.ridge,
        low_rank_preconditioner(factor, model.ridge),
        model.tolerance,
    )
    _warn_unless(solution.converged, solution.residual, model)
    report = {"num_steps": solution.num_steps, "residual": solution.residual}
    return _Solved(x, solution.coefficients, report)


def _operator(kernel: Callable[[Any, Any], Array], x: np.ndarray) -> Callable[..., Any]:
    """The map v ─► Kv, of a matrix that is kept if it takes at most half of the free memory."""
    free = available_memory()
    if free is not None and x.dtype.itemsize * len(x) ** 2 > free / 2:
        return BlockProduct(kernel, x, x)
    return gram(kernel, x, x.dtype).__matmul__


def _by_nystrom(model: _WideNetwork, x: np.ndarray, targets: np.ndarray) -> _Solved:
    centres = model._centres(x)
    solution = nystrom_solve(model._kernel(), x, centres, targets, model.ridge, model.tolerance)
    _warn_unless(solution.converged, solution.residual, model)
    report = solution._asdict()
    coefficients = report.pop("coefficients").astype(x.dtype)
    return _Solved(centres, coefficients, report)


def _warn_unless(converged: bool, residual: float, model: _WideNetwork) -> None:
    if not converged:
        warnings.warn(
            f"conjugate gradients stopped at a residual of {residual:.3g}, above the tolerance "
            f"{model.tolerance:.3g}: give more centres, a larger ridge or a larger tolerance.",
            ConvergenceWarning,
            stacklevel=5,
        )


_SOLVE = {
    "cholesky": _by_cholesky,
    "conjugate_gradients": _by_conjugate_gradients,
    "nystrom": _by_nystrom,
}


class _Regressor(RegressorMixin, _WideNetwork):
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output, tags.target_tags.multi_output = True, True
        return tags

    def _checked(self, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets (n, k) in the precision of the kernel; the shape of y is kept."""
        self._check_settings()
        dtype = np.dtype(self.precision)
        x, y = validate_data(self, x, y, dtype=dtype, multi_output=True, y_numeric=True)
        self.target_shape_ = y.shape[1:]
        return x, y.reshape(len(y), -1).astype(dtype)


class NTKRegressor(_Regressor):
    """Kernel ridge regression with the tangent kernel of an infinitely wide network.

    Args:
        depth: Layers with weights of a fully connected network, the output layer among them.
        activation: Its activation.
        weight_scale: σ_w.
        bias_scale: σ_b; 0: no biases.
        ridge: λ in (Θ + λI)α = y.
        solver: "cholesky" (exact), "conjugate_gradients" (no matrix where it
            would fill memory) or "nystrom".
        num_centres: Centres of Nyström, or of the preconditioner; 5√n if not given.
        tolerance: The relative residual at which conjugate gradients stop.
        architecture: Any architecture with a kernel, in place of the fully connected one.
        input_shape: The shape of one input for it, such as (28, 28, 1).
        random_state: Of the choice of centres.
        precision: "float64" or "float32".

    Attributes after `fit`: `points_` and `coefficients_` of K(x, points) coefficients, and
    `solver_report_` with jitter, conditioning and residual, or the number of steps.

    Example:
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> model = NTKRegressor(depth=3).fit(x, np.sin(3 * x[:, 0]))
        >>> bool(model.score(x, np.sin(3 * x[:, 0])) > 0.99)
        True
    """

    def fit(self, X: Any, y: Any) -> "NTKRegressor":
        """Learn from inputs X, (n, d), and targets y, (n,) or (n, k)."""
        self._fit(*self._checked(X, y))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The outputs at X."""
        outputs = self._outputs(X)
        return outputs.reshape(len(outputs), *self.target_shape_)


class NTKClassifier(ClassifierMixin, _WideNetwork):
    """The class with the largest output of kernel ridge regression on centred one-hot targets.

    Arguments and attributes are those of `NTKRegressor`.

    Example:
        >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> model = NTKClassifier().fit(x, ["left", "left", "right", "right"])
        >>> model.predict([[-1.5], [1.5]]).tolist()
        ['left', 'right']
    """

    def fit(self, X: Any, y: Any) -> "NTKClassifier":
        """Learn from inputs X, (n, d), and classes y, (n,)."""
        self._check_settings()
        X, y = validate_data(self, X, y, dtype=np.dtype(self.precision))
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, indices = np.unique(y, return_inverse=True)
        one_hot = np.eye(len(self.classes_), dtype=X.dtype)[indices]
        self._fit(X, one_hot - 1 / len(self.classes_))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """One output for each class; with two classes, that of the second alone."""
        outputs = self._outputs(X)
        return outputs[:, 1] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """The classes at X."""
        outputs = self._outputs(X)
        return self.classes_[outputs.argmax(axis=1)]


class NNGPRegressor(_Regressor):
    """Gaussian-process regression with the prior of an infinitely wide network; ridge is the noise.

    Arguments are those of `NTKRegressor`; the solver is Cholesky's, because deviations need it.

    Example: the deviation is small at the samples, and larger elsewhere.
        >>> x = np.array([[-1.0], [1.0]])
        >>> model = NNGPRegressor().fit(x, np.array([0.0, 1.0]))
        >>> mean, deviation = model.predict([[1.0], [5.0]], return_std=True)
        >>> mean.shape, bool(deviation[0] < 0.1 < deviation[1])
        ((2,), True)
    """

    _kind = "nngp"

    def fit(self, X: Any, y: Any) -> "NNGPRegressor":
        """Condition the prior on targets y, (n,) or (n, k), with noise of variance `ridge`."""
        x, targets = self._checked(X, y)
        if self.solver != "cholesky":
            raise ValueError(f"NNGPRegressor needs the solver cholesky, got {self.solver!r}.")
        with jax.enable_x64(self.precision == "float64"):
            factor = cholesky_factor(gram(self._kernel(), x, self.precision), self.ridge, True)
        self.points_, self.factor_ = x, factor
        self.coefficients_ = apply_inverse(factor, targets)
        misfit = float(np.sum(targets * self.coefficients_))
        each = factor.log_determinant + len(x) * math.log(2 * math.pi)
        self.log_marginal_likelihood_ = -(misfit + targets.shape[1] * each) / 2
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The posterior mean, and with `return_std` its deviation (without the noise of y)."""
        outputs = self._outputs(X)
        mean = outputs.reshape(len(outputs), *self.target_shape_)
        if not return_std:
            return mean
        x: Any = validate_data(self, X, dtype=np.dtype(self.precision), reset=False)
        with jax.enable_x64(self.precision == "float64"):
            cross = rows(self._kernel(), x, self.points_, self.precision)
            prior = diagonal(self._kernel(), x)
        explained = np.sum(whiten(self.factor_, cross.T) ** 2, axis=0)
        deviation = np.sqrt(np.maximum(prior - explained, 0.0))
        trailing = (1,) * len(self.target_shape_)
        return mean, np.broadcast_to(deviation.reshape(-1, *trailing), mean.shape).copy()

    def log_marginal_likelihood(self) -> float:
        """The log evidence log p(y) of the training targets; larger is better."""
        check_is_fitted(self)
        return self.log_marginal_likelihood_
