"""Any quadratic model under gradient descent: outputs and kernel after one step, exactly.

With the Jacobian J of all outputs F in the parameters, r = F − y, the kernel K = JJᵀ and the rows
Gᵢ = Hᵢ Jᵀr, Hᵢ the Hessian of output i, a model that is quadratic in its parameters obeys

    r' = (I − ηK + ½η² GJᵀ) r
    K' = K − η (GJᵀ + JGᵀ) + η² GGᵀ

under gradient descent on ½‖r‖² with step size η. The source prints −¼η(4GJᵀ − ηGGᵀ) for the change
of K, which is neither symmetric nor right.

A network has more than two derivatives. What is left of its step defines R_f and R_K:

    r' = (I − ηK + R_f) r,    K' = K − R_K.

Along the top eigenvector p of K, with eigenvalue λ, they are seen as

    pᵀR_f p ≈ pᵀ(r' − (I − ηK)r) / pᵀr,    pᵀR_K p = λ − pᵀK'p.

Source: zhu · nqm-general-dynamics · Eqs 3.15–3.16, Figs B.2–B.3.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from theorylab.training import descend, gradient_descent, squared
from theorylab.training.losses import check_positive
from theorylab.typing import Apply, Measured, Params, Scalar

from ..critical import kernel_matrix


class Derivatives(NamedTuple):
    """What a quadratic model's step is made of; outputs of all samples are in one row."""

    residual: Float[Array, " nk"]  # r = F − y
    jacobian: Float[Array, "nk p"]  # J
    bend: Float[Array, "nk p"]  # G, Gᵢ = Hᵢ Jᵀr


class KernelStep(NamedTuple):
    """Residual and kernel after a step."""

    residual: Float[Array, " nk"]
    kernel: Float[Array, "nk nk"]


class KernelCourse(NamedTuple):
    """A run of a network as its outputs and kernels saw it."""

    residuals: Float[Array, "t nk"]
    kernels: Float[Array, "t nk nk"]


class Remainders(NamedTuple):
    """The remainders of a run along the top eigenvector of each time, one step fewer than it."""

    loss: Float[Measured, " t"]  # ½‖r‖²
    top_loss: Float[Measured, " t"]  # ½(pᵀr)²
    output: Float[Measured, " t"]  # pᵀR_f p
    kernel: Float[Measured, " t"]  # pᵀR_K p
    top_eigenvalue: Float[Measured, " t"]  # λ


def derivatives(
    apply: Apply, params: Params, x: Float[Array, "n ..."], y: Float[Array, "n k"]
) -> Derivatives:
    """Compute r, J and G of any model; both matrices are held, so it is for small ones.

    Args:
        apply: The model.
        params: Its parameters.
        x: The inputs.
        y: The targets.

    Example:
        >>> square = lambda w, x: x * w[0] ** 2 / 2  # at w = 3: J = 3, H = 1, r = 4.5 − 2.5
        >>> found = derivatives(square, jnp.array([3.0]), jnp.ones((1, 1)), jnp.array([[2.5]]))
        >>> float(found.residual[0]), float(found.jacobian[0, 0]), float(found.bend[0, 0])
        (2.0, 3.0, 6.0)
    """
    shape = jax.eval_shape(apply, params, x).shape
    if y.shape != shape:
        raise ValueError(f"targets must have the shape {shape} of the outputs, got {y.shape}.")
    flat, restore = ravel_pytree(params)

    def outputs(w: Float[Array, " p"]) -> Float[Array, " nk"]:
        return apply(restore(w), x).reshape(-1)

    residual = outputs(flat) - y.reshape(-1)
    jacobian = jax.jacrev(outputs)
    descent = jax.vjp(outputs, flat)[1](residual)[0]  # Jᵀr
    value, bend = jax.jvp(jacobian, (flat,), (descent,))
    return Derivatives(residual, value, bend)


def step(derivatives: Derivatives, learning_rate: Scalar) -> KernelStep:
    """Predict residual and kernel after one step of gradient descent, exact for quadratic models.

    Args:
        derivatives: r, J and G before the step.
        learning_rate: The step size η, for the loss ½‖r‖².

    Example:
        >>> square = lambda w, x: x * w[0] ** 2 / 2
        >>> found = derivatives(square, jnp.array([3.0]), jnp.ones((1, 1)), jnp.array([[2.5]]))
        >>> after = step(found, learning_rate=0.5)  # w' = 3 − 0.5 · 6 = 0
        >>> float(after.residual[0]), float(after.kernel[0, 0])  # 0 − 2.5, and w'²
        (-2.5, 0.0)
    """
    check_positive("learning_rate", learning_rate)
    (r, jacobian, bend), eta = derivatives, learning_rate
    kernel, cross = jacobian @ jacobian.T, bend @ jacobian.T
    return KernelStep(
        residual=r - eta * kernel @ r + eta**2 * cross @ r / 2,
        kernel=kernel - eta * (cross + cross.T) + eta**2 * bend @ bend.T,
    )


def printed_kernel(derivatives: Derivatives, learning_rate: Scalar) -> Float[Array, "nk nk"]:
    """Predict the kernel as Eq. 3.16 prints it: K − ¼η(4GJᵀ − ηGGᵀ).

    Example:
        >>> square = lambda w, x: x * w[0] ** 2 / 2
        >>> found = derivatives(square, jnp.array([3.0]), jnp.ones((1, 1)), jnp.array([[2.5]]))
        >>> float(printed_kernel(found, learning_rate=0.5)[0, 0])  # `step` gives w'² = 0
        2.25
    """
    (_, jacobian, bend), eta = derivatives, learning_rate
    change = 4 * bend @ jacobian.T - eta * bend @ bend.T
    return jacobian @ jacobian.T - eta * change / 4


def course(
    apply: Apply,
    params: Params,
    x: Float[Array, "n ..."],
    y: Float[Array, "n k"],
    learning_rate: Scalar,
    num_steps: int,
) -> KernelCourse:
    """Descend on ½ Σ (f − y)² and measure residuals and kernel at every step.

    Args:
        apply: The model.
        params: Its first parameters.
        x: The inputs.
        y: The targets.
        learning_rate: The step size η.
        num_steps: The number of steps.

    Example:
        >>> square = lambda w, x: x * w[0] ** 2 / 2
        >>> x, y = jnp.ones((1, 1)), jnp.array([[2.5]])
        >>> path = course(square, jnp.array([3.0]), x, y, learning_rate=0.5, num_steps=1)
        >>> path.residuals.ravel().tolist(), path.kernels.ravel().tolist()
        ([2.0, -2.5], [9.0, 0.0])
    """
    loss = squared("half_sum")

    def measure(params: Params) -> KernelCourse:
        return KernelCourse((apply(params, x) - y).reshape(-1), kernel_matrix(apply, params, x))

    def objective(params: Params) -> Float[Array, ""]:
        return loss(apply(params, x), y)

    optimizer = gradient_descent(learning_rate)
    return descend(objective, params, optimizer, np.arange(num_steps + 1), measure).records


def remainders(course: KernelCourse, learning_rate: Scalar) -> Remainders:
    """See R_f and R_K along the top eigenvector of the kernel, at every step of a run.

    Args:
        course: Residuals and kernels at successive steps.
        learning_rate: The step size η between them.

    Example:
        >>> linear = lambda w, x: x @ w
        >>> one = jnp.ones((1, 1))
        >>> path = course(linear, one, 2 * one, one, 0.1, num_steps=2)
        >>> left = remainders(path, learning_rate=0.1)  # a linear model leaves none
        >>> bool(jnp.allclose(left.output, 0, atol=1e-5)), left.kernel.tolist()
        (True, [0.0, 0.0])
    """

    def one(r, kernel, next_r, next_kernel) -> Remainders:
        values, vectors = jnp.linalg.eigh(kernel)
        p, top = vectors[:, -1], values[-1]
        along = p @ r
        return Remainders(
            loss=r @ r / 2,
            top_loss=along**2 / 2,
            output=(p @ next_r - (1 - learning_rate * top) * along) / along,
            kernel=top - p @ next_kernel @ p,
            top_eigenvalue=top,
        )

    residuals, kernels = course
    steps = (residuals[:-1], kernels[:-1], residuals[1:], kernels[1:])
    return jax.lax.map(lambda step: one(*step), steps)
