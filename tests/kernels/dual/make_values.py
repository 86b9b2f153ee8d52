"""Make `values.json`: duals to fifty digits, from their integrals and not from closed forms.

    python make_values.py        needs mpmath, which the project does not

Analytic σ: the trapezoid rule over the plane, whose error falls exponentially; on the line where
the correlation is ±1 or a variance 0. σ with a bend at 0: an integral over the angle, in pieces.
"""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

DIGITS = 50
# q₁, q₂, ρ
PAIRS = (
    ("1", "1", "-0.6"),
    ("1", "1", "0.95"),
    ("0.4", "1.3", "0.3"),
    ("0.4", "1.3", "-0.999"),
    ("1", "1", "1"),
    ("0.4", "1.3", "1"),
    ("0.4", "1.3", "-1"),
    ("0", "1.3", "0"),
    ("0", "0", "0"),
)
STEP, REACH = "0.16", 16  # of the trapezoid rule: errors of 1e-52 or less


def analytic(mp: Any) -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """σ and σ′ by the name of the activation."""
    m = mp.mpf
    density = lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)  # noqa: E731
    distribution = lambda z: mp.erfc(-z / mp.sqrt(2)) / 2  # noqa: E731
    rate, frequency = m("1.3"), mp.sqrt(m("1.4"))
    return {
        "Erf(0.7, 1.3, 0.2)": (
            lambda z: m("0.7") * mp.erf(rate * z) + m("0.2"),
            lambda z: m("0.7") * rate * 2 / mp.sqrt(mp.pi) * mp.exp(-((rate * z) ** 2)),
        ),
        "GELU()": (lambda z: z * distribution(z), lambda z: distribution(z) + z * density(z)),
        "Sine(1.2, 0.8, 0.3)": (
            lambda z: m("1.2") * mp.sin(m("0.8") * z + m("0.3")),
            lambda z: m("1.2") * m("0.8") * mp.cos(m("0.8") * z + m("0.3")),
        ),
        "Cosine(1.2, 0.8, 0.3)": (
            lambda z: m("1.2") * mp.cos(m("0.8") * z + m("0.3")),
            lambda z: -m("1.2") * m("0.8") * mp.sin(m("0.8") * z + m("0.3")),
        ),
        "rbf(0.7)": (
            lambda z: mp.sqrt(2) * mp.sin(frequency * z + mp.pi / 4),
            lambda z: mp.sqrt(2) * frequency * mp.cos(frequency * z + mp.pi / 4),
        ),
        "GaussianActivation(0.9, 0.6)": (
            lambda z: m("0.9") * mp.exp(-m("0.6") * z * z),
            lambda z: -m("1.2") * z * m("0.9") * mp.exp(-m("0.6") * z * z),
        ),
        "Exponential(0.5, 0.4)": (
            lambda z: mp.exp(m("0.4") * z) / 2,
            lambda z: m("0.2") * mp.exp(m("0.4") * z),
        ),
        "Gabor()": (
            lambda z: mp.exp(-z * z) * mp.sin(z),
            lambda z: mp.exp(-z * z) * (mp.cos(z) - 2 * z * mp.sin(z)),
        ),
        "Monomial(5)": (lambda z: z**5, lambda z: 5 * z**4),
        "Polynomial((0.25, -0.5, 0.375, 0.125))": (
            lambda z: m("0.25") - z / 2 + m("0.375") * z**2 + z**3 / 8,
            lambda z: -m("0.5") + m("0.75") * z + m("0.375") * z**2,
        ),
        "Hermite(3)": (
            lambda z: (z**3 - 3 * z) / mp.sqrt(6),
            lambda z: (3 * z**2 - 3) / mp.sqrt(6),
        ),
    }


def bent(mp: Any) -> dict[str, tuple[int, Callable[[Any], Any], Callable[[Any], Any]]]:
    """The degree of homogeneity, σ and σ′; a slope at 0 is the mean of both sides, a jump has 0."""
    half = lambda z: (1 + mp.sign(z)) / 2  # noqa: E731
    positive = lambda z: max(z, mp.zero)  # noqa: E731
    return {
        "ReLU()": (1, positive, half),
        "ABReLU(-0.25, 1.5)": (
            1,
            lambda z: mp.mpf("1.5") * positive(z) - min(z, mp.zero) / 4,
            lambda z: mp.mpf("1.5") * half(z) - half(-z) / 4,
        ),
        "Abs()": (1, abs, mp.sign),
        "Sign()": (0, mp.sign, lambda z: mp.zero),
        "RectifiedMonomial(0)": (0, half, lambda z: mp.zero),
        "RectifiedMonomial(2)": (2, lambda z: positive(z) ** 2, lambda z: 2 * positive(z)),
        "RectifiedMonomial(5)": (5, lambda z: positive(z) ** 5, lambda z: 5 * positive(z) ** 4),
    }


def plane(mp: Any, function: Callable[[Any], Any], q1: Any, q2: Any, rho: Any) -> Any:
    """E f(u)f(v) by the trapezoid rule, u = √q₁ x, v = √q₂ (ρx + √(1 − ρ²) y)."""
    step = mp.mpf(STEP)
    nodes = [step * k for k in range(-int(REACH / step), int(REACH / step) + 1)]
    weights = [step * mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) for z in nodes]
    across = mp.sqrt(1 - rho * rho)
    total = mp.zero
    for x, weight in zip(nodes, weights, strict=True):
        if across == 0:
            inner = function(mp.sqrt(q2) * rho * x)
        else:
            values = (function(mp.sqrt(q2) * (rho * x + across * y)) for y in nodes)
            inner = sum(w * value for w, value in zip(weights, values, strict=True))
        total += weight * function(mp.sqrt(q1) * x) * inner
    return total


def angular(
    mp: Any, degree: int, function: Callable[[Any], Any], q1: Any, q2: Any, rho: Any
) -> Any:
    """E f(u)f(v) of f homogeneous: u = r√q₁ cos φ, v = r√q₂ cos(φ − θ), E r²ᵖ = 2ᵖ p!."""
    theta = mp.acos(rho)
    kinks = {mp.pi / 2, 3 * mp.pi / 2, *((mp.pi * k / 2 + theta) % (2 * mp.pi) for k in (1, 3))}
    cuts = [mp.zero, *sorted(kinks), 2 * mp.pi]
    product = lambda phi: (  # noqa: E731
        function(mp.sqrt(q1) * mp.cos(phi)) * function(mp.sqrt(q2) * mp.cos(phi - theta))
    )
    mean = mp.quad(product, cuts) / (2 * mp.pi)
    return 2**degree * mp.factorial(degree) * mean


def values(mp: Any) -> dict[str, list[list[str]]]:
    """By activation, for every pair: E σσ and E σ′σ′."""

    def shown(number: Any) -> str:
        return mp.nstr(number if abs(number) > mp.mpf("1e-48") else mp.zero, DIGITS)

    pairs = [tuple(map(mp.mpf, pair)) for pair in PAIRS]
    found = {}
    for name, functions in analytic(mp).items():
        found[name] = [[shown(plane(mp, f, *pair)) for f in functions] for pair in pairs]
    for name, (degree, function, slope) in bent(mp).items():
        found[name] = [
            [
                shown(angular(mp, degree, function, *pair)),
                shown(angular(mp, max(degree - 1, 0), slope, *pair)),
            ]
            for pair in pairs
        ]
    return found


if __name__ == "__main__":
    mpmath = importlib.import_module("mpmath").mp
    mpmath.dps = DIGITS + 10
    made = {"pairs": PAIRS, "values": values(mpmath)}
    Path(__file__).with_name("values.json").write_text(json.dumps(made, indent=1) + "\n")
