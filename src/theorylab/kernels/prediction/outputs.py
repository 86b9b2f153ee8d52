"""What a network at infinite width, or a linearised one, predicts after training on ½Σ(f − y)².

With the modes K = Σⱼ λⱼ vⱼvⱼᵀ of the tangent kernel on the training points, a ridge ρ and the decay
h and gain g of the method of training (`methods`), at s = λ + ρ,

    coefficients     α_t    = Σⱼ vⱼ g_t(sⱼ) vⱼᵀ(y − f₀(X))
    test points      f_t(x) = f₀(x) + K(x, X) α_t
    training points  f_t(X) = y + Σⱼ vⱼ (ρ + λⱼ h_t(sⱼ))/sⱼ vⱼᵀ(f₀(X) − y)
    parameters       θ_t    = θ₀ + ∇f₀(X) α_t,     ‖θ_t − θ₀‖² = α_tᵀ K α_t

For gradient flow this is f_t(x) = f₀(x) − K(x, X) K⁻¹(I − e^(−tK)) (f₀(X) − y), and at t = ∞ the
kernel's interpolant with ‖θ_∞ − θ₀‖² = (y − f₀)ᵀK⁻¹(y − f₀). A ridge is weight decay towards the
initial parameters, the penalty ½ρ‖θ − θ₀‖²; it ends in kernel ridge regression, (K + ρI)α = y − f₀.
(With a penalty ρ‖f‖² in place of ½ρ‖f‖², as the source has it, one gets 2ρ.) All k outputs share
one kernel, so that K ⊗ I_k is never formed.

Source: golikov · kernel-flow · 2.89, 2.105, 2.133; arora · ntk-dynamics · 9.5–9.6;
arora · kernel-regression · §3.2.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params, Scalar

from .methods import Flow, Method, Times
from .modes import (
    Modes,
    as_modes,
    check_cross,
    check_finite,
    check_not_negative,
    check_rows,
)

Kernel = Float[Array, "n n"] | Modes
_FLOW = Flow()


def coefficients(
    kernel: Kernel,
    targets: Float[Array, "n k"],
    times: Times,
    method: Method = _FLOW,
    ridge: Scalar = 0.0,
    start: Float[Array, "n k"] | None = None,
) -> Float[Array, "t n k"]:
    """α_t with f_t(x) = f₀(x) + K(x, X) α_t, at any times.

    Args:
        kernel: K(X, X), or its modes, made once by `kernel_modes` for many calls.
        targets: y.
        times: Times of a flow (∞ allowed), or numbers of steps.
        method: `Flow()`, `Descent(η)`, `HeavyBall(η, β)` or `Nesterov(η, β)`.
        ridge: ρ, the decay of weights towards their initial values.
        start: f₀(X), the outputs before training; 0 if not given.

    Example:
        >>> from theorylab.kernels import Descent
        >>> coefficients(2 * jnp.eye(1), jnp.array([[1.0]]), [1, 2], Descent(0.25)).tolist()
        [[[0.25]], [[0.375]]]
    """
    modes, gap = _checked(kernel, targets, ridge, start)
    gains = method.gain(modes.eigenvalues + ridge, times)
    return _through_modes(modes, gains, gap)


def fitted_outputs(
    kernel: Kernel,
    targets: Float[Array, "n k"],
    times: Times,
    method: Method = _FLOW,
    ridge: Scalar = 0.0,
    start: Float[Array, "n k"] | None = None,
) -> Float[Array, "t n k"]:
    """f_t(X), the outputs at the training points; arguments as for `coefficients`.

    Example:
        >>> outputs = fitted_outputs(jnp.eye(1), jnp.array([[1.0]]), [0.0, 1.0])  # 1 − e^(−t)
        >>> [round(float(output), 4) for output in outputs.ravel()]
        [0.0, 0.6321]
    """
    modes, gap = _checked(kernel, targets, ridge, start)
    s = (modes.eigenvalues + ridge)[None, :]
    moved = modes.eigenvalues[None, :] * method.decay(s[0], times)
    left = jnp.where(s > 0, (ridge + moved) / jnp.where(s > 0, s, 1.0), 1.0)
    return targets[None] - _through_modes(modes, left, gap)


def predicted_outputs(
    kernel: Kernel,
    cross: Float[Array, "m n"],
    targets: Float[Array, "n k"],
    times: Times,
    method: Method = _FLOW,
    ridge: Scalar = 0.0,
    start: Float[Array, "n k"] | None = None,
    test_start: Float[Array, "m k"] | None = None,
) -> Float[Array, "t m k"]:
    """f_t(x), the outputs at other points.

    Args:
        kernel: As for `coefficients`, like all arguments that are not named here.
        cross: K(x, X): a row for each test point.
        targets: y.
        times: Times or steps.
        method: How the network is trained.
        ridge: ρ.
        start: f₀(X).
        test_start: f₀(x); given if and only if `start` is.

    Example: a point like the first sample, and one like none.
        >>> cross = jnp.array([[1.0, 0.0], [0.0, 0.0]])
        >>> targets = jnp.array([[3.0], [5.0]])
        >>> predicted_outputs(jnp.eye(2), cross, targets, times=[0.0, jnp.inf]).tolist()
        [[[0.0], [0.0]], [[3.0], [0.0]]]
    """
    modes = as_modes(kernel)
    check_cross(cross, len(modes.eigenvalues))
    if (start is None) != (test_start is None):
        raise ValueError("start and test_start must be given together: both are outputs of f₀.")
    if test_start is not None:
        check_rows("test_start", test_start, cross.shape[0])
    alpha = coefficients(modes, targets, times, method, ridge, start)
    learned = jnp.einsum("mn,tnk->tmk", cross, alpha)
    return learned if test_start is None else test_start[None] + learned


def weight_distance(
    kernel: Kernel,
    targets: Float[Array, "n k"],
    times: Times,
    method: Method = _FLOW,
    ridge: Scalar = 0.0,
    start: Float[Array, "n k"] | None = None,
) -> Float[Array, " t"]:
    """‖θ_t − θ₀‖² = α_tᵀ K α_t, how far the parameters are; arguments as for `coefficients`.

    At time ∞ without ridge it is (y − f₀)ᵀK⁻¹(y − f₀).

    Example: yᵀK⁻¹y at the end.
        >>> weight_distance(2 * jnp.eye(1), jnp.array([[4.0]]), times=[0.0, jnp.inf]).tolist()
        [0.0, 8.0]
    """
    modes, gap = _checked(kernel, targets, ridge, start)
    gains = method.gain(modes.eigenvalues + ridge, times)
    projected = modes.eigenvectors.T @ gap
    return (gains**2 * modes.eigenvalues[None, :]) @ jnp.sum(projected**2, axis=1)


def linearized_params(
    apply: Apply,
    params: Params,
    x: Float[Array, "n ..."],
    coefficients: Float[Array, "n k"],
) -> Params:
    """θ_t = θ₀ + Σᵢⱼ αᵢⱼ ∇f₀ⱼ(xᵢ): the parameters of the linearised network after training.

    Args:
        apply: The network.
        params: θ₀, where it is linearised.
        x: The training inputs X.
        coefficients: α_t of `coefficients`, at one time. With several outputs they come from the
            whole nk × nk kernel of `ntk_full`, reshaped; a finite network's is not K ⊗ I_k.

    Example:
        >>> line, x = lambda w, x: x * w, jnp.array([[2.0]])
        >>> alpha = coefficients(4 * jnp.eye(1), jnp.array([[6.0]]), [jnp.inf])[0]
        >>> linearized_params(line, jnp.zeros((1, 1)), x, alpha).tolist()  # y = 3x
        [[3.0]]
    """
    check_finite("coefficients", coefficients)
    outputs, pull_back = jax.vjp(lambda w: apply(w, x), params)
    if outputs.shape != coefficients.shape:
        raise ValueError(
            f"coefficients must have the shape {outputs.shape} of the network's outputs, "
            f"got {coefficients.shape}."
        )
    (change,) = pull_back(coefficients.astype(outputs.dtype))
    return jax.tree.map(jnp.add, params, change)


def _checked(
    kernel: Array | Modes, targets: Array, ridge: Scalar, start: Array | None
) -> tuple[Modes, Float[Array, "n k"]]:
    """The modes and y − f₀(X), once the input is sure."""
    check_not_negative("ridge", ridge)
    modes = as_modes(kernel)
    check_rows("targets", targets, len(modes.eigenvalues))
    if start is None:
        return modes, targets
    check_rows("start", start, len(modes.eigenvalues))
    if start.shape != targets.shape:
        raise ValueError(
            f"start must have the shape {targets.shape} of targets, got {start.shape}."
        )
    return modes, targets - start


def _through_modes(
    modes: Modes, filters: Float[Array, "t n"], values: Float[Array, "n k"]
) -> Float[Array, "t n k"]:
    """Σⱼ vⱼ filter_t(λⱼ) vⱼᵀ values."""
    vectors = modes.eigenvectors
    projected = vectors.T @ values
    return jnp.einsum("ij,tjk->tik", vectors, filters[:, :, None] * projected[None])
