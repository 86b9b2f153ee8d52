"""Means and covariances of Bayesian networks, and of ensembles of trained ones.

    nngp     the posterior of the NNGP; at time t, networks of which the last layer is trained
    ntk      networks of which all layers are trained
    ntkgp    the posterior of a Gaussian process with the tangent kernel

`diag_reg` is a part of the kernel that the networks are trained with; for "nngp" it is one of the
NNGP too, for "ntk" it is not.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.kernels import Prior, ensemble_moments, predicted_outputs
from theorylab.kernels.prediction import Modes, kernel_modes
from theorylab.typing import Scalar

from ..kernel import Get, names_of, picked
from .layout import Axes, Layout, as_matrix, as_pairs, regularised, row_axes

_KINDS = ("nngp", "ntk")
Ridge = tuple[Scalar, bool]  # and whether it is in its own unit


class Gaussian(NamedTuple):
    """Outputs of random networks.

    Args:
        mean: Their mean.
        covariance: Their covariance, pairs of axes interleaved.

    Example:
        >>> Gaussian(mean=jnp.zeros((2, 1)), covariance=jnp.eye(2)).covariance.shape
        (2, 2)
    """

    mean: Float[Array, "..."]
    covariance: Float[Array, "..."]


class Known(NamedTuple):
    """What is known of training and test samples.

    Args:
        train: Kernels between training samples, by name.
        cross: Kernels between test and training samples, by name; None: the training samples again.
        test: The kernel of test samples before training; None: no covariance is asked for.

    Example:
        >>> Known({"nngp": jnp.eye(2)}, None, None).cross is None
        True
    """

    train: dict[str, Array]
    cross: dict[str, Array] | None
    test: Array | None


def gp_inference(
    k_train_train: Any,
    y_train: Float[Array, "..."],
    diag_reg: Scalar = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: Axes = (-1,),
) -> Callable[..., Any]:
    """Predict outputs after infinite time, and Bayes' posterior.

    Args:
        k_train_train: A kernel of the training samples, or a record of them with the fields `nngp`
            and `ntk`.
        y_train: Their targets.
        diag_reg: What is added to the kernel's diagonal.
        diag_reg_absolute_scale: Whether in its own unit, not the mean of the diagonal.
        trace_axes: The axes of outputs that kernels do not have.

    Returns:
        (get, k_test_train, k_test_test) ─► means, or Gaussians if `k_test_test` is there.

    Example:
        >>> predict_fn = gp_inference(jnp.eye(2), jnp.ones((2, 1)), diag_reg=1.0)
        >>> predict_fn("nngp", jnp.eye(2)).tolist()
        [[0.5], [0.5]]
    """
    layout, ridge = Layout.of(y_train, trace_axes), (diag_reg, diag_reg_absolute_scale)
    modes = _Modes(ridge)

    def predict_fn(get: Get = None, k_test_train: Any = None, k_test_test: Any = None) -> Any:
        found = {}
        for name in names_of(get, _KINDS):
            kind = "ntk" if name == "ntkgp" else name
            prior = "ntk" if name == "ntkgp" else "nngp"
            train = _named(k_train_train, kind, prior, k_test_test is not None)
            if k_test_train is None:
                mean = jnp.asarray(y_train, train[kind].dtype)
                zero = jnp.zeros_like(train[kind])
                found[name] = mean if k_test_test is None else Gaussian(mean, zero)
                continue
            cross = _named(k_test_train, kind, prior, k_test_test is not None)
            test = None if k_test_test is None else _one(k_test_test, prior)
            known = Known(train, cross, test)
            end = jnp.full(1, jnp.inf)
            result = _predicted(known, kind, prior, y_train, end, layout, modes)
            found[name] = jax.tree.map(lambda each: each[0], result)
        return picked(found, get, "Gaussians")

    return predict_fn


def gradient_descent_mse_ensemble(
    kernel_fn: Callable[..., Any],
    x_train: Float[Array, "n ..."],
    y_train: Float[Array, "..."],
    learning_rate: Scalar = 1.0,
    diag_reg: Scalar = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: Axes = (-1,),
    **kernel_fn_train_train_kwargs: Any,
) -> Callable[..., Any]:
    """Predict outputs of an ensemble of networks trained on half the mean square, at any time.

    Args:
        kernel_fn: (x1, x2, get, ...) ─► kernels, of a network at infinite width.
        x_train: The training inputs.
        y_train: Their targets.
        learning_rate: η.
        diag_reg: What is added to the kernel's diagonal.
        diag_reg_absolute_scale: Whether in its own unit, not the mean of the diagonal.
        trace_axes: The axes of outputs that kernels do not have.
        **kernel_fn_train_train_kwargs: What `kernel_fn` takes beside, such as `mask_constant`.

    Returns:
        (t, x_test, get, compute_cov, ...) ─► means, or Gaussians with `compute_cov=True`; None
        stands for time ∞, and for the training samples.

    Example:
        >>> from theorylab.compat import stax
        >>> _, _, kernel_fn = stax.serial(stax.Dense(8), stax.Relu(), stax.Dense(1))
        >>> x, y = jnp.eye(2), jnp.array([[1.0], [-1.0]])
        >>> predict_fn = gradient_descent_mse_ensemble(kernel_fn, x, y)
        >>> predict_fn(x_test=x, get="ntk").round(4).tolist()
        [[1.0], [-1.0]]
    """
    layout = Layout.of(y_train, trace_axes)
    modes = _Modes((diag_reg, diag_reg_absolute_scale))
    given = kernel_fn_train_train_kwargs
    kept = _Kept(lambda names: kernel_fn(x_train, None, names, **given))

    def predict_fn(
        t: Any = None, x_test: Any = None, get: Get = None, compute_cov: bool = False, **kwargs: Any
    ) -> Any:
        asked = _checked(names_of(get, _KINDS))
        names = tuple(n for n in _KINDS if n in asked or (n == "nngp" and compute_cov))
        train = kept.of(names)
        known = Known(train, None, train["nngp"] if compute_cov else None)
        if x_test is not None:
            between, alone = _options(given, kwargs)
            kernels = kernel_fn(x_test, x_train, names, **between)
            test = kernel_fn(x_test, None, "nngp", **alone) if compute_cov else None
            known = Known(train, {name: getattr(kernels, name) for name in names}, test)
        t = jnp.asarray(jnp.inf if t is None else t, train[names[0]].dtype)
        times = t.reshape(-1) * (learning_rate / layout.size)
        found = {
            name: _predicted(known, name, "nngp", y_train, times, layout, modes) for name in asked
        }
        shaped = jax.tree.map(lambda each: each.reshape(*t.shape, *each.shape[1:]), found)
        return picked(shaped, get, "Gaussians")

    return predict_fn


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    if not set(names) <= set(_KINDS):
        raise ValueError(f"get must be nngp, ntk or both, got {', '.join(names)}.")
    return names


class _Kept:
    """The kernels of training samples, each computed once."""

    def __init__(self, kernels: Callable[[tuple[str, ...]], Any]) -> None:
        self._kernels: Callable[[tuple[str, ...]], Any] = kernels
        self._kept: dict[str, Array] = {}

    def of(self, names: tuple[str, ...]) -> dict[str, Array]:
        """The kernels with these names, and what was computed before."""
        missing = tuple(name for name in names if name not in self._kept)
        if missing:
            with jax.ensure_compile_time_eval():
                kernels = self._kernels(missing)
            self._kept.update({name: getattr(kernels, name) for name in missing})
        return self._kept


class _Modes:
    """The modes of every kernel of training samples, computed once."""

    def __init__(self, ridge: Ridge) -> None:
        self._ridge, self._kept = ridge, {}

    def of(self, name: str, kernel: Array) -> tuple[Array, Modes]:
        """A kernel with what is added to it, as a matrix, and its modes."""
        if name not in self._kept:
            with jax.ensure_compile_time_eval():
                matrix = regularised(as_matrix(kernel), *self._ridge)
                self._kept[name] = matrix, kernel_modes(matrix)
        return self._kept[name]


def _predicted(
    known: Known,
    kind: str,
    prior: str,
    y_train: Array,
    times: Float[Array, " t"],
    layout: Layout,
    modes: _Modes,
) -> Any:
    """Means at all times, or means and covariances."""
    train, own_modes = modes.of(kind, known.train[kind])
    cross_kernel = known.train[kind] if known.cross is None else known.cross[kind]
    cross = train if known.cross is None else as_matrix(cross_kernel)
    targets = layout.rows(jnp.asarray(y_train, train.dtype))
    axes = row_axes(cross_kernel)
    if known.test is None:
        return layout.outputs(predicted_outputs(own_modes, cross, targets, times), axes)
    if kind == prior:
        test = train if known.cross is None else as_matrix(known.test)
        before = Prior(train, cross, test)
    else:
        first, test = as_matrix(known.train[prior]), as_matrix(known.test)
        before = Prior(first, first if known.cross is None else as_matrix(known.cross[prior]), test)
    moments = ensemble_moments(before, own_modes, cross, targets, times)
    return Gaussian(layout.outputs(moments.mean, axes), as_pairs(moments.covariance, axes))


def _named(kernels: Any, kind: str, prior: str, with_prior: bool) -> dict[str, Array]:
    names = {kind, prior} if with_prior else {kind}
    if with_prior and kind != prior and not hasattr(kernels, prior):
        raise ValueError(
            "kernels must have nngp and ntk for the covariance of trained networks: ask kernel_fn "
            "for both."
        )
    return {name: _one(kernels, name) for name in names}


def _one(kernels: Any, name: str) -> Array:
    return (
        getattr(kernels, name) if hasattr(kernels, "nngp") or hasattr(kernels, "ntk") else kernels
    )


def _options(train: dict[str, Any], test: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the kernel function takes for test with training samples, and for test samples alone.

    A pair, such as the two graphs of `pattern=`, is put together of the test and the training one.
    """

    def between(name: str, value: Any) -> Any:
        own = train.get(name)
        both = isinstance(value, tuple) and isinstance(own, tuple) and len(value) == len(own) == 2
        return (value[0], own[1]) if both else value  # type: ignore[index]

    return train | {name: between(name, test[name]) for name in test}, train | test
