"""Recursive feature machines as scikit-learn estimators, for regression and for classification.

    RecursiveFeatureRegressor      any number of targets
    RecursiveFeatureClassifier     two classes: one output, −1 or 1; more: an output for each

Both hold out part of the data, choose the round with the least squared error there, and fit the
machine again on all data in the metric of that round.

Source: zhu · ext-* · Ch. 5; Radhakrishnan, Beaglehole, Pandit and Belkin (2022), arXiv:2212.13881.
"""

import warnings
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .recursive import Recursion, check_data, fit_machine, learn_from_checked


class _FeatureMachine(BaseEstimator):
    """What the two share: settings, the held-out part, and the fit."""

    # Without types: scikit-learn gives a constructor anything, and settings are checked by `fit`.
    def __init__(
        self,
        kernel="laplace",
        num_steps=5,
        bandwidth=1.0,
        bandwidth_mode="median",
        ridge=1e-3,
        power=1.0,
        diagonal=False,
        solver="cholesky",
        num_centres=None,
        tolerance=1e-6,
        validation_fraction=0.2,
        random_state=None,
        precision="float64",
    ) -> None:
        self.kernel = kernel
        self.num_steps = num_steps
        self.bandwidth = bandwidth
        self.bandwidth_mode = bandwidth_mode
        self.ridge = ridge
        self.power = power
        self.diagonal = diagonal
        self.solver = solver
        self.num_centres = num_centres
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.precision = precision

    def _recursion(self) -> Recursion:
        """The settings, checked."""
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must be in [0, 1), got {self.validation_fraction}."
            )
        if self.num_centres is not None and self.num_centres < 1:
            raise ValueError(f"num_centres must be at least 1, got {self.num_centres}.")
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"precision must be float32 or float64, got {self.precision!r}.")
        names = Recursion.__dataclass_fields__
        return Recursion(**{name: getattr(self, name) for name in names})

    def _fit(self, x: Any, targets: np.ndarray) -> None:
        recursion = self._recursion()
        check_data(x, targets, constant=True)
        varying = np.ptp(x, axis=0) > 0
        whole, x = x, x[:, varying]
        random = check_random_state(self.random_state)
        held = int(self.validation_fraction * len(x))
        kept = len(x) - held
        # With one round there is no choice, and with fewer than two points nothing to learn.
        chooses = held > 0 and kept > 1 and recursion.num_steps > 0
        order = random.permutation(len(x)) if chooses else np.arange(len(x))
        some, rest = (order[:kept], order[kept:]) if chooses else (order, order[:0])
        validation = (x[rest], targets[rest]) if chooses else None
        with jax.enable_x64(self.precision == "float64"):
            found = learn_from_checked(
                recursion, x[some], targets[some], validation, self.num_centres, random
            )
            self.machine_ = found.machine
            if chooses:
                self.machine_ = fit_machine(
                    recursion, found.machine.transform, x, targets, self.num_centres, random
                )
        # A constant feature, such as a rare one in a fold, has metric 0 and changes no output.
        transform = np.zeros((len(varying), self.machine_.transform.shape[1]), x.dtype)
        transform[varying] = self.machine_.transform
        self.machine_ = self.machine_._replace(transform=transform, centre=whole.mean(axis=0))
        self.metric_ = np.zeros((len(varying), len(varying)), x.dtype)
        self.metric_[np.ix_(varying, varying)] = found.metrics[found.best]
        self.best_iteration_ = found.best
        self.validation_errors_ = found.errors
        self.bandwidth_ = self.machine_.bandwidth
        self.solver_report_ = self.machine_.report
        self._warn(np.flatnonzero(~varying))

    def _warn(self, constant: np.ndarray) -> None:
        report = self.solver_report_
        if len(constant):
            names = getattr(self, "feature_names_in_", None)
            shown = [str(column if names is None else names[column]) for column in constant[:10]]
            warnings.warn(
                f"constant features tell nothing and have metric 0: {', '.join(shown)}.",
                stacklevel=4,
            )
        if report.get("jitter", 0.0) > 0:
            warnings.warn(
                f"the kernel was singular to rounding: a jitter of {report['jitter']:.3g} was "
                f"added to the ridge {self.ridge}.",
                stacklevel=4,
            )
        if not report.get("converged", True):
            warnings.warn(
                f"conjugate gradients stopped at a residual of {report['residual']:.3g}, above "
                f"the tolerance {self.tolerance:.3g}: give more centres, a larger ridge or a "
                "larger tolerance.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _outputs(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, x, dtype=np.dtype(self.precision), reset=False)
        with jax.enable_x64(self.precision == "float64"):
            return self.machine_(x)


class RecursiveFeatureRegressor(RegressorMixin, _FeatureMachine):
    """Kernel ridge regression in a metric that it learns from its own gradients.

    Args:
        kernel: "laplace", "gaussian", "matern3", "matern5", a `radial_kernel` of your own, or any
            kernel function of two batches of points.
        num_steps: How often the metric is made anew; 0: plain kernel regression.
        bandwidth: L, or its multiple of the median distance.
        bandwidth_mode: "median": L follows the median distance in the metric; "constant".
        ridge: λ in (K + λI)α = y.
        power: s in M = Gˢ; smaller: a more careful metric.
        diagonal: Whether the metric only scales features, and does not turn them.
        solver: "cholesky" (exact), "conjugate_gradients" (no matrix where it would fill memory) or
            "nystrom" (on centres).
        num_centres: Centres of Nyström, or of the preconditioner; 5√n if not given.
        tolerance: The relative residual at which conjugate gradients stop.
        validation_fraction: The part of the data that chooses the round; 0: the last one.
        random_state: Of the held-out part and of the centres.
        precision: "float64" or "float32".

    Attributes after `fit`: `metric_` (M, scaled to the number of features that vary; those that do
    not have 0), `machine_`, `bandwidth_`,
    `best_iteration_`, `validation_errors_` of all rounds, `solver_report_`.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 10))
        >>> model = RecursiveFeatureRegressor(random_state=0).fit(x, x[:, 0] * x[:, 1])
        >>> sorted(model.metric_.diagonal().argsort()[-2:].tolist())
        [0, 1]
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output, tags.target_tags.multi_output = True, True
        return tags

    def fit(self, X: Any, y: Any) -> "RecursiveFeatureRegressor":
        """Learn from inputs X, (n, d), and targets y, (n,) or (n, k)."""
        self._recursion()
        dtype = np.dtype(self.precision)
        x, y = validate_data(
            self, X, y, dtype=dtype, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        self.target_shape_ = y.shape[1:]
        self._fit(x, y.reshape(len(y), -1).astype(dtype))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The outputs at X."""
        outputs = self._outputs(X)
        return outputs.reshape(len(outputs), *self.target_shape_)


class RecursiveFeatureClassifier(ClassifierMixin, _FeatureMachine):
    """The class with the largest output of a recursive feature machine.

    Arguments and attributes are those of `RecursiveFeatureRegressor`; `classes_` has the classes.
    """

    def fit(self, X: Any, y: Any) -> "RecursiveFeatureClassifier":
        """Learn from inputs X, (n, d), and classes y, (n,)."""
        self._recursion()
        dtype = np.dtype(self.precision)
        x, y = validate_data(self, X, y, dtype=dtype, ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, indices = np.unique(y, return_inverse=True)
        if len(self.classes_) == 2:
            targets = (2.0 * indices - 1.0)[:, None]
        else:
            targets = np.eye(len(self.classes_))[indices]
        self._fit(x, targets.astype(dtype))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """One output for each class; with two classes one alone, positive for the second."""
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """The classes at X."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return self.classes_[chosen]
