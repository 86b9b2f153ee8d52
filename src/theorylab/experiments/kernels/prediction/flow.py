"""With a constant kernel, training is solved: outputs and weights at every time and step.

A linearised network, and a very wide one, moves by df(x)/dt = K(x, X)(y − f(X)). Then

    f_t(x) = f₀(x) − K(x, X) K⁻¹(I − e^(−tK)) (f₀(X) − y)

with the limit t for (1 − e^(−λt))/λ where the kernel is singular, as for a sample that occurs
twice. Gradient descent multiplies the error along each eigenvector by 1 − ηλ in a step, so it is
stable if and only if η < 2/λ₁, and even then the slowest direction gains at most 2λₙ/λ₁ in a step.
The weights move by ‖θ_∞ − θ₀‖² = (y − f₀)ᵀK⁻¹(y − f₀) in all.

A network of finite width has a kernel that moves. As long as its eigenvalues stay above λ, its
error falls at least like e^(−λt); above λ₀/2, half the lowest of the first kernel, the squared
error falls like e^(−λ₀t).

Source: golikov · kernel-flow · 1.8–1.11, 2.4–2.11, 2.89, 2.96–2.99, 2.105–2.108, 2.117, 2.133.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    holds,
    identity,
    median_at_most,
    median_between,
)
from theorylab.dynamics import linear
from theorylab.experiments.drawing import COLOURS, THEORY, panels
from theorylab.fields import Count, Seeded, within
from theorylab.kernels import (
    Descent,
    coefficients,
    linearized_params,
    ntk,
    predicted_outputs,
    weight_distance,
)
from theorylab.models import NTK, Model, linearize, mlp, network
from theorylab.progress import report
from theorylab.training import Solver, descend, flow, gradient_descent, squared
from theorylab.typing import Params, RandomKey

PRECISION = "float64"
FORMULA = r"f_t(x) = f_0(x) - K(x, X)\,K^{-1}(I - e^{-tK})\,(f_0(X) - y)"

FLOW = Source("golikov", "kernel-flow", "Eqs 1.8–1.11, 2.4–2.8")
DESCENT = Source("golikov", "kernel-flow", "Eqs 2.96–2.99, 2.106–2.108")
WEIGHTS = Source("golikov", "kernel-flow", "Eqs 2.105, 2.133")
RATE = Source("golikov", "kernel-flow", "Eqs 2.11, 2.117")

LOSS = squared("half_sum")
TIMES = np.linspace(0.0, 6.0, 25)
STEPS = (0, 1, 2, 5, 10, 30, 100, 300, 1000)


@dataclass(frozen=True)
class Config(Seeded):
    """Random erf networks, their linearisations, and the flow of their kernels."""

    width: Count = 256  # width m of the one hidden layer
    dimension: Count = 4  # inputs d
    num_samples: Count = 6  # training points n, on the sphere
    num_test: Count = 5  # other points
    num_steps: Annotated[int, within(1001)] = (
        20000  # steps of descent of the linearised network, to its end
    )
    num_seeds: Count = 12  # random data and networks

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_samples > 2 * self.dimension:
            # With many points on a small sphere the lowest eigenvalue is tiny.
            raise ValueError(
                f"num_samples must be at most 2 dimension = {2 * self.dimension}, "
                f"got {self.num_samples}."
            )


PRESETS = {
    "smoke": Config(width=64, num_samples=4, num_test=3, num_seeds=8),
    "paper": Config(
        width=4096, dimension=20, num_samples=40, num_test=100, num_steps=200000, num_seeds=30
    ),
}


class Result(NamedTuple):
    """Axes: s seeds, t times or steps, n training points, z all points, e eigen-directions."""

    integrated: np.ndarray  # (s, t, z), outputs by the ODE, with one sample twice
    closed: np.ndarray  # (s, t, z)
    by_steps: np.ndarray  # (s, t, z), of the linearised network, by descent on its weights
    predicted: np.ndarray  # (s, t, z)
    modes: np.ndarray  # (s, t, e), its errors along eigenvectors
    predicted_modes: np.ndarray  # (s, t, e), (1 − ηλ)ᵗ
    eigenvalues: np.ndarray  # (s, e), rising
    threshold: np.ndarray  # (s), the largest η λ₁ with which the error shrinks
    weights: np.ndarray  # (s, p), the linearised network's at the last step but one
    predicted_weights: np.ndarray  # (s, p)
    distance: np.ndarray  # (s), ‖θ − θ₀‖² at the end
    predicted_distance: np.ndarray  # (s), (y − f₀)ᵀK⁻¹(y − f₀)
    errors: np.ndarray  # (s, t), ‖y − f‖² of the network itself, along its flow
    lowest: np.ndarray  # (s, t), the lowest eigenvalue of its kernel
    highest: np.ndarray  # (s, t), and the highest


class Problem(NamedTuple):
    """Data on the sphere and a network's first weights."""

    x: Float[Array, "*s n d"]
    y: Float[Array, "*s n 1"]
    test: Float[Array, "*s m d"]
    params: Params


def memory(config: Config) -> int:
    """The weights in every stage of a step of the flow, and Jacobians; in bytes."""
    weights = config.width * (config.dimension + 1)
    return 8 * config.num_seeds * weights * (30 + 4 * config.num_samples + config.num_test)


def run(config: Config) -> Result:
    """Follow kernels and networks, and train linearised ones."""
    report("following kernel and network", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    problems = _problems(keys, config)
    found = _flows(problems, config)
    report("descent of linearised networks", 0.5)
    found |= _descents(problems, config)
    report("looking for the largest step", 0.8)
    found["threshold"] = _thresholds(problems, config)
    found = {name: np.asarray(values) for name, values in found.items()}
    return Result(**found)


def _model(config: Config) -> Model:
    return network(mlp([config.width], activation="erf"), (config.dimension,), NTK())


@partial(jax.jit, static_argnames="config")
def _problems(keys: Key[Array, " s"], config: Config) -> Problem:
    """Points of length √d, Gaussian targets, random weights."""
    n, m, d = config.num_samples, config.num_test, config.dimension

    def each(key: RandomKey) -> Problem:
        for_data, for_weights = jax.random.split(key)
        numbers = jax.random.normal(for_data, (n + m, d + 1))
        points = numbers[:, :d] / jnp.linalg.norm(numbers[:, :d], axis=1, keepdims=True)
        points = jnp.sqrt(d) * points
        return Problem(points[:n], numbers[:n, d:], points[n:], _model(config).init(for_weights))

    return jax.vmap(each)(keys)


@partial(jax.jit, static_argnames="config")
def _flows(problems: Problem, config: Config) -> dict[str, Array]:
    """The kernel's flow with one sample twice, beside its closed form; and the network's own."""
    apply = _model(config).apply

    def each(problem: Problem) -> dict[str, Array]:
        x, y, test, params = problem
        again, targets = jnp.concatenate([x, x[:1]]), jnp.concatenate([y, -y[:1]])
        everywhere = jnp.concatenate([again, test])
        kernel = ntk(apply, params, everywhere, again)
        start, n = apply(params, everywhere), len(again)
        objective = lambda weights: LOSS(apply(weights, x), y)  # noqa: E731

        def velocity(state: tuple[Array, Params]) -> tuple[Array, Params]:
            outputs, weights = state
            speed = jax.tree.map(jnp.negative, jax.grad(objective)(weights))
            return kernel @ (targets - outputs[:n]), speed

        def measure(state: tuple[Array, Params]) -> dict[str, Array]:
            outputs, weights = state
            spectrum = jnp.linalg.eigvalsh(ntk(apply, weights, x))
            return {
                "integrated": outputs[:, 0],
                "errors": 2 * objective(weights),
                "lowest": spectrum[0],
                "highest": spectrum[-1],
            }

        solver = Solver(rtol=1e-10)
        found = flow(velocity, (start, params), TIMES, measure, solver).records
        closed = predicted_outputs(
            kernel[:n], kernel, targets, TIMES, start=start[:n], test_start=start
        )
        return found | {"closed": closed[:, :, 0]}

    return jax.vmap(each)(problems)


@partial(jax.jit, static_argnames="config")
def _descents(problems: Problem, config: Config) -> dict[str, Array]:
    """Descent of the linearised network in its weights, beside its closed form."""
    apply = _model(config).apply

    def each(problem: Problem) -> dict[str, Array]:
        x, y, test, params = problem
        linear_apply = linearize(apply, params)
        everywhere, n = jnp.concatenate([x, test]), len(x)
        kernel, start = ntk(apply, params, everywhere, x), apply(params, everywhere)
        eigenvalues, vectors = jnp.linalg.eigh(kernel[:n])
        method = Descent(1 / eigenvalues[-1])

        def measure(weights: Params) -> tuple[Array, Array]:
            return linear_apply(weights, everywhere)[:, 0], _flat(weights)

        outputs, weights = descend(
            lambda weights: LOSS(linear_apply(weights, x), y),
            params,
            gradient_descent(method.learning_rate),
            np.array([*STEPS, config.num_steps]),
            measure,
        ).records
        begin = start[:n]
        alpha = coefficients(kernel[:n], y, [STEPS[-1]], method, start=begin)[0]
        predicted = predicted_outputs(
            kernel[:n], kernel, y, jnp.array(STEPS), method, start=begin, test_start=start
        )
        first_errors = (begin - y)[:, 0] @ vectors
        return {
            "by_steps": outputs[:-1],
            "predicted": predicted[:, :, 0],
            "modes": (outputs[:-1, :n] - y[None, :, 0]) @ vectors,
            "predicted_modes": method.decay(eigenvalues, STEPS) * first_errors[None],
            "eigenvalues": eigenvalues,
            "weights": weights[-2],
            "predicted_weights": _flat(linearized_params(apply, params, x, alpha)),
            "distance": jnp.sum((weights[-1] - weights[0]) ** 2),
            "predicted_distance": weight_distance(kernel[:n], y, [jnp.inf], start=begin)[0],
        }

    return jax.vmap(each)(problems)


@partial(jax.jit, static_argnames="config")
def _thresholds(problems: Problem, config: Config) -> Float[Array, " s"]:
    """The largest η λ₁ with which the linearised network's error still shrinks."""
    apply = _model(config).apply

    def each(problem: Problem) -> Float[Array, ""]:
        x, y, _, params = problem
        critical = linear.largest_stable_rate(ntk(apply, params, x))
        model = partial(lambda weights, x: linearize(apply, params)(weights, x), x=x)
        return 2 * linear.measured_threshold(model, params, y, critical, num_steps=1000)

    return jax.vmap(each)(problems)


def _flat(params: Params) -> Float[Array, " p"]:
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(params)])


def _slack(result: Result, rate: np.ndarray) -> np.ndarray:
    """Ln of e^(−rate·t) ‖y − f₀‖² over ‖y − f_t‖²: (s, t)."""
    fall = np.log(result.errors[:, :1] / result.errors)
    return fall - rate[:, None] * TIMES[None]


def _slowest_loss(result: Result) -> np.ndarray:
    """What the error along the last eigenvector loses in the first step: (s)."""
    return 1 - np.abs(result.modes[:, 1, 0] / result.modes[:, 0, 0])


CLAIMS = (
    FLOW.claim(
        "The closed form of the flow is what an ODE solver finds, also with one sample twice.",
        lambda r, c: identity(r.integrated, r.closed, 1e-8),
        formula=r"f_t(x) = f_0(x) - K(x, X)\,K^{-1}(I - e^{-tK})\,(f_0(X) - y)",
    ),
    DESCENT.claim(
        "Descent of the linearised network makes the predictions of the closed form.",
        lambda r, c: identity(r.by_steps, r.predicted, 1e-6),
    ),
    DESCENT.claim(
        "Its error along every eigenvector shrinks by its own factor.",
        lambda r, c: identity(r.modes, r.predicted_modes, 1e-8),
        formula=r"u_{t,k} = y^\top v_k + (1 - \eta\lambda_k)^t (u_{0,k} - y^\top v_k)",
    ),
    DESCENT.claim(
        "Descent is stable up to η = 2/λ₁.",
        lambda r, c: median_between(r.threshold, 1.98, 2.02),
        formula=r"\eta < 2/\lambda_1",
    ),
    DESCENT.claim(
        "The slowest mode loses less than 2λₙ/λ₁ in a step.",
        lambda r, c: holds(2 * r.eigenvalues[:, 0] / r.eigenvalues[:, -1] - _slowest_loss(r)),
        formula=r"\eta\lambda_n < 2\lambda_n/\lambda_1",
    ),
    WEIGHTS.claim(
        "The weights are those of the closed form.",
        lambda r, c: identity(r.weights, r.predicted_weights, 1e-8),
        formula=r"\theta_t = \theta_0 + Z_0 H_0^{-1}(I - e^{-\eta t H_0})(y - u_0)",
    ),
    WEIGHTS.claim(
        "In all they move by (y − f₀)ᵀK⁻¹(y − f₀), squared.",
        lambda r, c: median_at_most(np.abs(r.distance / r.predicted_distance - 1), 1e-6),
        formula=r"\|\theta_\infty - \theta_0\|^2 = (y - u_0)^\top H_0^{-1} (y - u_0)",
    ),
    RATE.claim(
        "The network's own error falls at the rate of the lowest eigenvalue on its way, or faster.",
        lambda r, c: holds(_slack(r, 2 * r.lowest.min(axis=1)), rounding=1e-6),
        formula=r"\hat\Theta_t \ge \lambda:\ \|y - f_t\|^2 \le e^{-2\lambda t}\|y - f_0\|^2",
    ),
    RATE.claim(
        "The lowest eigenvalue stays above half of what it was.",
        lambda r, c: median_at_most(0.5 - (r.lowest / r.lowest[:, :1]).min(axis=1), 0.0),
        formula=r"\hat\Theta_t \ge \lambda_0/2",
    ),
    RATE.claim(
        "Where it does, the squared error falls like e^(−λ₀t), or faster.",
        lambda r, c: holds(
            _slack(r, r.lowest[:, 0])[(r.lowest / r.lowest[:, :1]).min(axis=1) >= 0.5],
            rounding=1e-6,
        ),
        formula=r"\|y - f_t\|^2 \le e^{-\lambda_0 t}\|y - f_0\|^2",
    ),
    RATE.control(
        "It does not fall at the rate of the highest eigenvalue.",
        lambda r, c: at_most(_slack(r, 2 * r.highest.min(axis=1))[:, -1].max(), -0.1),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw outputs along the flow, errors by eigenvector in steps, and the network's own error."""
    figure, (outputs, modes, error) = panels(
        "outputs along the flow, one seed", "errors along eigenvectors", "the network's own error"
    )
    pairs = zip(result.integrated[0].T, result.closed[0].T, strict=True)
    for number, (integrated, closed) in enumerate(pairs):
        colour = COLOURS[number % len(COLOURS)]
        outputs.plot(TIMES, integrated, "o", markersize=2.5, color=colour)
        outputs.plot(TIMES, closed, **THEORY)
    outputs.set(xlabel="time")
    pairs = zip(result.modes[0].T, result.predicted_modes[0].T, strict=True)
    for number, (measured, predicted) in enumerate(pairs):
        colour = COLOURS[number % len(COLOURS)]
        modes.loglog(STEPS[1:], np.abs(measured[1:]), "o", markersize=3, color=colour)
        modes.loglog(STEPS[1:], np.abs(predicted[1:]), **THEORY)
    modes.set(xlabel="step", ylim=(1e-16, 10))
    relative = result.errors / result.errors[:, :1]
    error.semilogy(TIMES, relative.T, color=COLOURS[0], linewidth=0.8)
    bound = np.exp(-2 * result.lowest.min(axis=1)[:, None] * TIMES)
    error.semilogy(TIMES, bound.T, color="#222222", linestyle="--", linewidth=0.6)
    error.set(xlabel="time", ylabel="‖y − f‖² / ‖y − f₀‖²")
    return figure
