"""Activations by Neural Tangents' names; where theirs differ from ours, by `duals`."""

from collections.abc import Callable, Sequence

from theorylab.models import Activation, families
from theorylab.typing import Scalar

from ..duals import (
    ApproximateGELU,
    GaussianBump,
    Given,
    HermiteAtUnitVariance,
    NormalisedExponential,
    Quadrature,
)
from ..layer import Layer
from .positions import fixed
from .weights import number


def ABRelu(a: Scalar, b: Scalar, do_stabilize: bool = False) -> Layer:
    """φ(z) = a min(z, 0) + b max(z, 0).

    Args:
        a: The slope on the left.
        b: The slope on the right.
        do_stabilize: Has no effect: nothing overflows here.

    Example:
        >>> import jax.numpy as jnp
        >>> ABRelu(-1, 2).apply_fn((), jnp.array([[-1.0, 2.0]])).tolist()
        [[1.0, 4.0]]
    """
    return fixed("ABRelu", Activation(families.ABReLU(number(a), number(b))))


def Relu(do_stabilize: bool = False) -> Layer:
    """φ(z) = max(z, 0).

    Example:
        >>> import jax.numpy as jnp
        >>> Relu().apply_fn((), jnp.array([[-1.0, 2.0]])).tolist()
        [[0.0, 2.0]]
    """
    return fixed("Relu", Activation(families.ReLU()))


def LeakyRelu(alpha: Scalar, do_stabilize: bool = False) -> Layer:
    """φ(z) = max(z, 0) + alpha min(z, 0).

    Example:
        >>> import jax.numpy as jnp
        >>> LeakyRelu(0.5).apply_fn((), jnp.array([[-1.0, 2.0]])).tolist()
        [[-0.5, 2.0]]
    """
    return fixed("LeakyRelu", Activation(families.LeakyReLU(number(alpha))))


def Abs(do_stabilize: bool = False) -> Layer:
    """φ(z) = |z|.

    Example:
        >>> import jax.numpy as jnp
        >>> Abs().apply_fn((), jnp.array([[-1.0, 2.0]])).tolist()
        [[1.0, 2.0]]
    """
    return fixed("Abs", Activation(families.Abs()))


def Sign() -> Layer:
    """φ(z) = the sign of z.

    Example:
        >>> import jax.numpy as jnp
        >>> Sign().apply_fn((), jnp.array([[-3.0, 2.0]])).tolist()
        [[-1.0, 1.0]]
    """
    return fixed("Sign", Activation(families.Sign()))


def Erf(a: Scalar = 1.0, b: Scalar = 1.0, c: Scalar = 0.0) -> Layer:
    """φ(z) = a erf(bz) + c.

    Example:
        >>> import jax.numpy as jnp
        >>> Erf(c=1.0).apply_fn((), jnp.array([[0.0]])).tolist()
        [[1.0]]
    """
    return fixed("Erf", Activation(families.Erf(number(a), number(b), number(c))))


def Sigmoid_like() -> Layer:
    """φ(z) = (1 + erf(z/2.402…))/2, close to the sigmoid.

    Example:
        >>> import jax.numpy as jnp
        >>> Sigmoid_like().apply_fn((), jnp.array([[0.0]])).tolist()
        [[0.5]]
    """
    return fixed("Sigmoid_like", Activation(families.sigmoid_like()))


def Gelu(approximate: bool = False) -> Layer:
    """φ(z) = z Φ(z).

    Args:
        approximate: Whether the finite network takes the approximation by tanh.

    Example:
        >>> import jax.numpy as jnp
        >>> Gelu().apply_fn((), jnp.array([[0.0]])).tolist()
        [[0.0]]
    """
    return fixed("Gelu", Activation(ApproximateGELU() if approximate else families.GELU()))


def Sin(a: Scalar = 1.0, b: Scalar = 1.0, c: Scalar = 0.0) -> Layer:
    """φ(z) = a sin(bz + c).

    Example:
        >>> import jax.numpy as jnp
        >>> Sin().apply_fn((), jnp.array([[0.0]])).tolist()
        [[0.0]]
    """
    return fixed("Sin", Activation(families.Sine(number(a), number(b), number(c))))


def Cos(a: Scalar = 1.0, b: Scalar = 1.0, c: Scalar = 0.0) -> Layer:
    """φ(z) = a cos(bz + c).

    Example:
        >>> import jax.numpy as jnp
        >>> Cos().apply_fn((), jnp.array([[0.0]])).tolist()
        [[1.0]]
    """
    return fixed("Cos", Activation(families.Cosine(number(a), number(b), number(c))))


def Rbf(gamma: Scalar = 1.0) -> Layer:
    """φ(z) = √2 sin(√(2γ) z + π/4), whose kernel is exp(−γ E(u − v)²).

    Example:
        >>> import jax.numpy as jnp
        >>> Rbf().apply_fn((), jnp.array([[0.0]])).round(6).tolist()
        [[1.0]]
    """
    return fixed("Rbf", Activation(families.rbf(number(gamma))))


def Gabor() -> Layer:
    """φ(z) = exp(−z²) sin z.

    Example:
        >>> import jax.numpy as jnp
        >>> Gabor().apply_fn((), jnp.array([[0.0]])).tolist()
        [[0.0]]
    """
    return fixed("Gabor", Activation(families.Gabor()))


def Exp(a: Scalar = 1.0, b: Scalar = 1.0) -> Layer:
    """φ(z) = a exp(bz).

    Example:
        >>> import jax.numpy as jnp
        >>> Exp(a=2.0).apply_fn((), jnp.array([[0.0]])).tolist()
        [[2.0]]
    """
    return fixed("Exp", Activation(families.Exponential(number(a), number(b))))


def ExpNormalized(gamma: Scalar = 1.0, shift: Scalar = -1.0, do_clip: bool = False) -> Layer:
    """The kernel √(q₁q₂) exp(γ(ρ + shift)), of no function.

    Args:
        gamma: γ.
        shift: What is added to the correlation ρ.
        do_clip: Whether ρ is held within ±1.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.compat import stax
        >>> _, _, kernel_fn = stax.serial(stax.Dense(1), ExpNormalized())
        >>> kernel_fn(jnp.array([[3.0, 1.0]]), None, "nngp").tolist()
        [[5.0]]
    """
    return fixed(
        "ExpNormalized", Activation(NormalisedExponential(number(gamma), number(shift), do_clip))
    )


def Gaussian(a: Scalar = 1.0, b: Scalar = -1.0) -> Layer:
    """φ(z) = a exp(bz²): a bell if b < 0.

    Example:
        >>> import jax.numpy as jnp
        >>> Gaussian(a=2.0).apply_fn((), jnp.array([[0.0]])).tolist()
        [[2.0]]
    """
    return fixed("Gaussian", Activation(GaussianBump(number(a), number(b))))


def Hermite(degree: int) -> Layer:
    """φ = hₙ, the Hermite polynomial; the kernel is that at variance 1, whatever the variance is.

    Example:
        >>> import jax.numpy as jnp
        >>> Hermite(1).apply_fn((), jnp.array([[3.0]])).tolist()
        [[3.0]]
    """
    if degree < 0:
        raise ValueError(f"degree must be at least 0, got {degree}.")
    return fixed("Hermite", Activation(HermiteAtUnitVariance(degree)))


def Monomial(degree: int) -> Layer:
    """φ(z) = zⁿ.

    Example:
        >>> import jax.numpy as jnp
        >>> Monomial(2).apply_fn((), jnp.array([[3.0]])).tolist()
        [[9.0]]
    """
    return fixed("Monomial", Activation(families.Monomial(degree)))


def RectifiedMonomial(degree: int) -> Layer:
    """φ(z) = max(z, 0)ⁿ.

    Example:
        >>> import jax.numpy as jnp
        >>> RectifiedMonomial(2).apply_fn((), jnp.array([[-1.0, 3.0]])).tolist()
        [[0.0, 9.0]]
    """
    return fixed("RectifiedMonomial", Activation(families.RectifiedMonomial(degree)))


def Polynomial(coef: Sequence[float]) -> Layer:
    """φ(z) = Σₖ aₖ zᵏ.

    Args:
        coef: (a₀, a₁, …).

    Example:
        >>> import jax.numpy as jnp
        >>> Polynomial([1.0, 0.0, 2.0]).apply_fn((), jnp.array([[3.0]])).tolist()
        [[19.0]]
    """
    return fixed("Polynomial", Activation(families.Polynomial(tuple(map(float, coef)))))


def Elementwise(
    fn: Callable | None = None, nngp_fn: Callable | None = None, d_nngp_fn: Callable | None = None
) -> Layer:
    """Any activation; without `nngp_fn` its kernel is a series with a stated error.

    Args:
        fn: φ; None: only the kernel is there.
        nngp_fn: (c, q₁, q₂) ─► E φ(u)φ(v) of Gaussians with covariance c and variances q₁, q₂.
        d_nngp_fn: Its derivative in c; by `jax.grad` if not given.

    Example: a linear activation by its dual.
        >>> import jax.numpy as jnp
        >>> from theorylab.compat import stax
        >>> line = Elementwise(nngp_fn=lambda c, q1, q2: 4 * c)
        >>> _, _, kernel_fn = stax.serial(stax.Dense(1), line)
        >>> kernel_fn(jnp.array([[1.0, 1.0]]), None, ("nngp", "ntk"))
        AnalyticKernel(nngp=Array([[4.]], dtype=...), ntk=Array([[4.]], dtype=...))
    """
    if nngp_fn is not None:
        return fixed("Elementwise", Activation(Given(nngp_fn, d_nngp_fn, fn)))
    if fn is None:
        raise ValueError("fn or nngp_fn must be given, got neither.")
    return fixed("Elementwise", Activation(fn))


def ElementwiseNumerical(fn: Callable, deg: int, df: Callable | None = None) -> Layer:
    """Any activation, its kernel by Gauss and Hermite's rule.

    Args:
        fn: φ, of numbers.
        deg: The number of points in one dimension.
        df: φ′; by `jax.grad` if not given.

    Example: the rule is exact for polynomials.
        >>> import jax.numpy as jnp
        >>> from theorylab.compat import stax
        >>> _, _, kernel_fn = stax.serial(stax.Dense(1), ElementwiseNumerical(jnp.square, deg=5))
        >>> kernel_fn(jnp.array([[1.0, 1.0]]), None, "nngp").round(4).tolist()
        [[3.0]]
    """
    if deg < 1:
        raise ValueError(f"deg must be at least 1, got {deg}.")
    return fixed("ElementwiseNumerical", Activation(Quadrature(fn, deg, df)))
