"""The infinite-width reading of an architecture: its NNGP and tangent kernel, in closed form.

With weights of variance σ_w²/fan-in and biases of variance σ_b², a layer maps the covariance K of
its inputs (NNGP) and their tangent kernel Θ, starting from K = xᵀx′/d and Θ = 0:

    Dense         K ← σ_w² K + σ_b²                   Θ ← σ_w² (K + Θ) + σ_b²
    Activation    K ← E σ(u)σ(v)                      Θ ← Θ E σ′(u)σ′(v)           (u, v) ~ N(0, K)
    Residual      K ← K_shortcut + K_branch           Θ ← Θ_shortcut + Θ_branch

σ_b² stands in K for biases drawn "normal", in Θ for trained biases, "zero" ones too. The same
`Architecture` read by `theorylab.models.network` converges to these kernels as its widths grow.

Source: golikov · ntk-fc · Eqs 2.53–2.61; arora · ntk-deep · §9.4.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import (
    NTK,
    Activation,
    Architecture,
    Bias,
    Dense,
    Parametrization,
    Residual,
    Serial,
)

from .dual import dual
from .inputs import input_pair


class Kernels(NamedTuple):
    """The two kernels of an infinitely wide network.

    Args:
        nngp: E f(x)f(x′) over initial parameters: at initialisation, outputs are this Gaussian
            process.
        ntk: The tangent kernel Θ(x, x′), which stays the same during training.
    """

    nngp: Float[Array, "n1 n2"]
    ntk: Float[Array, "n1 n2"]


class _State(NamedTuple):
    """What is known between two layers."""

    nngp: Float[Array, "n1 n2"]
    ntk: Float[Array, "n1 n2"]
    variance1: Float[Array, " n1"]
    variance2: Float[Array, " n2"]
    gaussian: bool  # are the coordinates centred Gaussians, independent of one another?


def infinite_kernels(
    architecture: Architecture,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
) -> Kernels:
    """Take all hidden widths to infinity (their numbers in the architecture do not matter).

    After an `Activation` at the very end, the kernels are means over infinitely many outputs.

    Args:
        architecture: Dense, Activation, Residual and Serial layers.
        x1: The inputs x, (n₁, d).
        x2: The inputs x′; the same as x if not given.
        parametrization: `NTK(weight_scale=σ_w, bias_scale=σ_b)`.
        bias: "none"; "zero": trained, initially 0; "normal": trained, drawn like the weights.

    Example:
        >>> from theorylab.models import mlp
        >>> x = jnp.array([[1.0, 1.0]])
        >>> kernels = infinite_kernels(mlp([1, 1]), x)
        >>> float(kernels.ntk[0, 0])
        0.75
    """
    x1, second = input_pair(x1, x2)
    if x1.ndim != 2:
        raise ValueError(f"x1 must have shape (n, d), got {x1.shape}.")
    if not isinstance(parametrization, NTK):
        raise ValueError(
            "parametrization must be NTK(...): in others the tangent kernel has no finite limit or "
            f"does not stay at it; got {parametrization}."
        )
    if bias not in ("none", "zero", "normal"):
        raise ValueError(f"bias must be none, zero or normal, got {bias!r}.")
    architecture.output_shape(x1.shape[1:])  # says what does not fit, before any work
    return _kernels(architecture, x1, second, parametrization, bias)


@partial(jax.jit, static_argnames=("architecture", "scales", "bias"))
def _kernels(
    architecture: Architecture,
    x1: Float[Array, "n1 d"],
    x2: Float[Array, "n2 d"],
    scales: NTK,
    bias: Bias,
) -> Kernels:
    size = x1.shape[1]
    gram = x1 @ x2.T / size
    start = _State(
        nngp=gram,
        ntk=jnp.zeros_like(gram),
        variance1=jnp.sum(x1**2, axis=1) / size,
        variance2=jnp.sum(x2**2, axis=1) / size,
        gaussian=False,
    )
    end = _read(architecture, start, scales, bias)
    return Kernels(end.nngp, end.ntk)


def _read(layer: Architecture, state: _State, scales: NTK, bias: Bias) -> _State:
    match layer:
        case Serial():
            for inner in layer.layers:
                state = _read(inner, state, scales, bias)
            return state
        case Dense():
            return _dense(layer, state, scales, bias)
        case Activation():
            return _activation(layer, state)
        case Residual():
            return _residual(layer, state, scales, bias)
    raise TypeError(
        f"an infinitely wide network has no reading for {type(layer).__name__}; "
        "it reads Dense, Activation, Residual and Serial."
    )


def _dense(dense: Dense, state: _State, scales: NTK, bias: Bias) -> _State:
    weight = scales.weight_scale**2
    trained = scales.bias_scale**2 if dense.bias and bias != "none" else 0.0
    drawn = trained if bias == "normal" else 0.0
    return _State(
        nngp=weight * state.nngp + drawn,
        ntk=weight * (state.nngp + state.ntk) + trained,
        variance1=weight * state.variance1 + drawn,
        variance2=weight * state.variance2 + drawn,
        gaussian=True,
    )


def _activation(activation: Activation, state: _State) -> _State:
    if not state.gaussian:
        raise ValueError(
            f"Activation({activation.function!r}) must stand after a Dense layer (or a Residual of "
            "such): elsewhere its inputs are not Gaussian, and there is no closed form."
        )
    q1, q2 = state.variance1, state.variance2
    value, derivative = dual(activation.function, q1[:, None], q2[None, :], state.nngp)
    return _State(
        nngp=value,
        ntk=state.ntk * derivative,
        variance1=dual(activation.function, q1, q1, q1).value,
        variance2=dual(activation.function, q2, q2, q2).value,
        gaussian=False,
    )


def _residual(residual: Residual, state: _State, scales: NTK, bias: Bias) -> _State:
    ways = (residual.shortcut, residual.branch)
    if not any(_is_gaussian(way) for way in ways):
        raise ValueError(
            "Residual needs a branch or shortcut that ends with a Dense layer: without new weights "
            "the two ways are correlated, and their kernels do not add up."
        )
    shortcut, branch = (_read(way, state, scales, bias) for way in ways)
    return _State(
        nngp=shortcut.nngp + branch.nngp,
        ntk=shortcut.ntk + branch.ntk,
        variance1=shortcut.variance1 + branch.variance1,
        variance2=shortcut.variance2 + branch.variance2,
        gaussian=shortcut.gaussian and branch.gaussian,
    )


def _is_gaussian(layer: Architecture, before: bool = False) -> bool:
    """Whether a layer's outputs are centred Gaussians, given its inputs."""
    match layer:
        case Dense():
            return True
        case Serial():
            for inner in layer.layers:
                before = _is_gaussian(inner, before)
            return before
        case Residual():
            return _is_gaussian(layer.shortcut, before) and _is_gaussian(layer.branch, before)
    return False
