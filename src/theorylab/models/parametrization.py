"""Parametrizations: how initial scale, multiplier and learning rate of a weight go with the width.

A layer computes with W = multiplier · w. The trained variable is w, not W: a learning rate
η · factor for w moves W as η · factor · multiplier² would. In an abc-parametrization of width n

    W = n⁻ᵃ w,    w ~ n⁻ᵇ D at initialisation,    learning rate η n⁻ᶜ for w,

where D has mean 0 and variance 1, and (a, b, c) depend on the parameter's role:

    role          maps                     n         exponents                       constant κ
    input         inputs ─► wide layer     fan-out   input                           σ_w/√fan-in
    hidden        wide ─► wide             fan-in    hidden                          σ_w
    output        wide ─► outputs          fan-in    output                          σ_w
    fixed         inputs ─► outputs                  0                               σ_w/√fan-in
    bias          1 ─► wide layer          fan-out   input (a weight of input 1)     σ_b
    output_bias   1 ─► outputs                       0                               σ_b
    gain          channel by channel       fan-out   input                           1

The constants κ do not change with the width. They stand in the multiplier, W = κ n⁻ᵃ w; only in the
standard parametrization they stand in the initial scale, w ~ κ n⁻ᵇ D. In a convolution fan-in
counts window and channels, fan-out the channels. The shift (a, b, c) ─► (a + θ, b − θ, c − 2θ) of
any role trains the same network, exactly so with gradient descent, SGD and momentum (with Adam,
c ─► c − θ). The named parametrizations (a, b, c):

                input       hidden     output
    Standard    0, 0, 0     0, ½, 0    0, ½, 0
    Torch       0, 0, 0     0, ½, 0    0, ½, 0    (biases: κ = σ_b/√fan-in)
    NTK         0, 0, 0     ½, 0, 0    ½, 0, 0
    MeanField   0, 0, −1               1, 0, −1
    MuP         0, 0, −1    0, ½, 0    1, 0, −1

Source: golikov · abc-dichotomy · Def. 3.4.5; golikov · mup-step · Eqs 1.20–1.27;
golikov · mean-field-2l · Eqs 1.12–1.18; golikov · ntk-param-scaling · Eqs 2.12–2.19;
zhu · torch-param · C.9, C.18, C.20 (`Torch`).
"""

import abc
import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from jax.core import Tracer

from theorylab.typing import Scalar

from .scales import check_scale

Role = Literal["input", "hidden", "output", "fixed", "bias", "output_bias", "gain"]


class Scaling(NamedTuple):
    """What a parametrization says about one array of parameters.

    Args:
        initial: The standard deviation of the trained variable w at initialisation.
        multiplier: What w is multiplied by in the forward pass, W = multiplier · w.
        learning_rate: The factor of the learning rate for w.
    """

    initial: Scalar
    multiplier: Scalar
    learning_rate: float


class Exponents(NamedTuple):
    """The exponents of a role: multiplier n⁻ᵃ, initial scale n⁻ᵇ, learning rate η n⁻ᶜ."""

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0

    def shifted(self, theta: float) -> "Exponents":
        """Give the equivalent exponents (a + θ, b − θ, c − 2θ), which train the same network."""
        return Exponents(self.a + theta, self.b - theta, self.c - 2 * theta)


class RoleExponents(NamedTuple):
    """The exponents of every role that knows the width; `hidden` is None if it has no place."""

    input: Exponents
    hidden: Exponents | None
    output: Exponents


@dataclass(frozen=True, kw_only=True)
class Parametrization(abc.ABC):
    """Scales every parameter by its role and by the fan-in and fan-out of its layer.

    Args:
        weight_scale: The constant σ_w of every weight; √2 keeps the variance through ReLU layers.
        bias_scale: The constant σ_b of every bias.

    Example:
        >>> isinstance(NTK(weight_scale=2**0.5), Parametrization)
        True
    """

    weight_scale: Scalar = 1.0
    bias_scale: Scalar = 1.0

    constants: ClassVar[Literal["multiplier", "initial"]] = "multiplier"

    def __post_init__(self) -> None:
        for name, scale in (("weight_scale", self.weight_scale), ("bias_scale", self.bias_scale)):
            check_scale(name, scale)

    @property
    @abc.abstractmethod
    def exponents(self) -> RoleExponents:
        """The exponents (a, b, c) of every role."""

    def scaling(self, role: Role, fan_in: int, fan_out: int) -> Scaling:
        """Give initial scale, multiplier and learning-rate factor of a parameter.

        Example:
            >>> NTK().scaling("hidden", fan_in=100, fan_out=50)
            Scaling(initial=1.0, multiplier=0.1, learning_rate=1.0)
        """
        if min(fan_in, fan_out) < 1:
            raise ValueError(f"fan-in and fan-out must be at least 1, got {fan_in} and {fan_out}.")
        exponents = self.exponents
        if role == "hidden" and exponents.hidden is None:
            raise ValueError(
                f"{type(self).__name__} is for one hidden layer, got weights between two wide "
                "layers. MuP continues it to any depth."
            )
        sigma_w, sigma_b = self.weight_scale, self.bias_scale
        n, (a, b, c), constant = {
            "input": (fan_out, exponents.input, sigma_w / math.sqrt(fan_in)),
            "hidden": (fan_in, exponents.hidden or Exponents(), sigma_w),
            "output": (fan_in, exponents.output, sigma_w),
            "fixed": (1, Exponents(), sigma_w / math.sqrt(fan_in)),
            "bias": (fan_out, exponents.input, sigma_b),
            "output_bias": (1, Exponents(), sigma_b),
            "gain": (fan_out, exponents.input, 1.0),
        }[role]
        forward, initial = (constant, 1.0) if self.constants == "multiplier" else (1.0, constant)
        return Scaling(
            initial=initial * n**-b, multiplier=forward * n**-a, learning_rate=1.0 * n**-c
        )


def check_bias_scale(parametrization: Parametrization, bias: str) -> None:
    """Raise if σ_b is given for a network without biases.

    Example:
        >>> check_bias_scale(NTK(bias_scale=0.3), bias="none")
        Traceback (most recent call last):
        ...
        ValueError: bias_scale=0.3 has no effect on a network without biases: give bias="normal"...
    """
    given, default = parametrization.bias_scale, type(parametrization).bias_scale
    if bias == "none" and not isinstance(given, Tracer) and given != default:
        raise ValueError(
            f'bias_scale={given:g} has no effect on a network without biases: give bias="normal",'
            " or leave bias_scale out."
        )


@dataclass(frozen=True)
class ABC(Parametrization):
    """The general abc-parametrization: any exponents for each role.

    Args:
        input: Exponents of the input weights and of the biases of wide layers.
        hidden: Exponents of the weights between wide layers.
        output: Exponents of the output weights.
        weight_scale: The constant σ_w of every weight.
        bias_scale: The constant σ_b of every bias.

    Example:
        >>> ABC(Exponents(), Exponents(a=0.5), Exponents(a=0.5)).exponents == NTK().exponents
        True
    """

    input: Exponents
    hidden: Exponents
    output: Exponents

    @property
    def exponents(self) -> RoleExponents:
        """The exponents (a, b, c) of every role."""
        return RoleExponents(self.input, self.hidden, self.output)


@dataclass(frozen=True)
class Standard(Parametrization):
    """w ~ N(0, σ_w²/fan-in), no multiplier, one learning rate: what deep-learning libraries do.

    The tangent kernel grows as n, so the largest stable learning rate falls as 1/n.

    Example:
        >>> Standard().scaling("hidden", fan_in=100, fan_out=50)
        Scaling(initial=0.1, multiplier=1.0, learning_rate=1.0)
    """

    constants: ClassVar[Literal["multiplier", "initial"]] = "initial"

    @property
    def exponents(self) -> RoleExponents:
        """The exponents (a, b, c) of every role."""
        return RoleExponents(Exponents(), Exponents(b=0.5), Exponents(b=0.5))


@dataclass(frozen=True, kw_only=True)
class Torch(Parametrization):
    """What PyTorch does by default: w, b ~ U(±1/√fan-in), no multiplier, one learning rate.

    That is `network(..., Torch(), bias="uniform", law="uniform")`: a uniform law on ±1/√fan-in has
    the standard deviation 1/√(3 fan-in), and biases begin with the scale of their layer's weights.
    """

    weight_scale: Scalar = 3**-0.5
    bias_scale: Scalar = 3**-0.5

    constants: ClassVar[Literal["multiplier", "initial"]] = "initial"

    @property
    def exponents(self) -> RoleExponents:
        """The exponents (a, b, c) of every role; biases have b = ½ of the fan-in beside."""
        return RoleExponents(Exponents(), Exponents(b=0.5), Exponents(b=0.5))

    def scaling(self, role: Role, fan_in: int, fan_out: int) -> Scaling:
        """Give initial scale, multiplier and learning-rate factor of a parameter.

        Example:
            >>> Torch(bias_scale=1.0).scaling("bias", fan_in=100, fan_out=50)
            Scaling(initial=0.1, multiplier=1.0, learning_rate=1.0)
        """
        scaling = super().scaling(role, fan_in, fan_out)
        if role in ("bias", "output_bias"):
            return scaling._replace(initial=self.bias_scale / math.sqrt(fan_in))
        return scaling


@dataclass(frozen=True)
class NTK(Parametrization):
    """w ~ N(0, 1), W = σ_w w/√fan-in, one learning rate: the tangent kernel stays, if wide.

    Example:
        >>> NTK().scaling("hidden", fan_in=100, fan_out=50)
        Scaling(initial=1.0, multiplier=0.1, learning_rate=1.0)
    """

    @property
    def exponents(self) -> RoleExponents:
        """The exponents (a, b, c) of every role."""
        return RoleExponents(Exponents(), Exponents(a=0.5), Exponents(a=0.5))


@dataclass(frozen=True)
class MeanField(Parametrization):
    """f(x) = (1/n) Σ vᵢ φ(wᵢᵀx/√d), learning rate ηn: one hidden layer, seen as n particles.

    `MuP` continues it to any depth; factors 1/n in every layer would not: hidden pre-activations
    would begin at n^(−½).

    Example:
        >>> MeanField().scaling("output", fan_in=100, fan_out=1)
        Scaling(initial=1.0, multiplier=0.01, learning_rate=100.0)
    """

    @property
    def exponents(self) -> RoleExponents:
        """The exponents (a, b, c) of every role."""
        return RoleExponents(Exponents(c=-1.0), None, Exponents(a=1.0, c=-1.0))


@dataclass(frozen=True)
class MuP(Parametrization):
    """Maximal updates, μP: the features of every layer move by Θ(1) at every width, with one η.

    Input W ~ N(0, 1/d), hidden W ~ N(0, 1/n), f = (1/n) vᵀx with v ~ N(0, 1); learning rate ηn for
    input, output and biases, η for hidden weights and the outputs' bias. So for gradient descent
    and SGD; for Adam it is `ABC(Exponents(), Exponents(b=0.5, c=1.0), Exponents(a=1.0))`.

    Example:
        >>> MuP().scaling("input", fan_in=4, fan_out=100).learning_rate
        100.0
    """

    @property
    def exponents(self) -> RoleExponents:
        """The exponents (a, b, c) of every role."""
        return RoleExponents(Exponents(c=-1.0), Exponents(b=0.5), Exponents(a=1.0, c=-1.0))
